"""Federated learning in memory: flat and hierarchical averages, late clients, message lengths, who stands where."""

from __future__ import annotations

import itertools
import random
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import cluster, limits
from experiments.catalog import plan as planned
from experiments.drive_federated import plan_of
from experiments.federated import EXPERIMENT
from experiments.spec import Spec, parse
from topologies.units import BadRequest
from workloads.collectives.rehearsal import Rehearsal, rehearse
from workloads.federated import Federation, pieces
from workloads.federated_plan import Plan
from workloads.federated_updates import (
    LEAST_BYTES,
    PARAMETERS,
    Judge,
    Mean,
    Scheme,
    computing_times_ns,
    learners,
    packed,
    unpacked,
)

LATENCY_NS = 100
SIZE_BYTES = 100_000


def plan(clients: int, edges: int = 0, **changes: Any) -> Plan:
    names = [f"h{number + 1}" for number in range(1 + edges + clients)]
    parties = list(range(1 + edges, len(names)))
    below = {0: tuple(range(1, 1 + edges)) or tuple(parties)}
    below.update({edge: tuple(parties[edge - 1 :: edges]) for edge in range(1, edges + 1)})
    usual: dict[str, Any] = {"rounds": 4, "scheme": Scheme(SIZE_BYTES), "seed": 1}
    return Plan(names=names, children=below, **{**usual, **changes})


def carried_out(asked: Plan, order: int | None = None) -> tuple[Federation, Rehearsal]:
    """With a clock that counts its readings; `order`: a seed for what happens first."""
    clock = itertools.count()
    federation = Federation(asked, lambda: next(clock), lambda entry: None)
    dice = None if order is None else random.Random(order)
    return federation, rehearse(federation.programs(), dice, LATENCY_NS)


def accuracies(asked: Plan) -> list[float]:
    return [entry["accuracy"] for entry in carried_out(asked)[0].diary.rounds]


def test_a_model_gets_good() -> None:
    found = accuracies(plan(10, rounds=8))
    assert found[0] < 0.6 < 0.85 < found[-1]


def test_edges_that_average_once_make_the_same_mean() -> None:
    assert accuracies(plan(12, edges=3)) == pytest.approx(accuracies(plan(12)), abs=0.006)


def test_edges_that_average_twice_get_further_in_a_round() -> None:
    once, twice = (accuracies(plan(12, edges=3, edge_rounds=times)) for times in (1, 2))
    assert min(later - sooner for sooner, later in zip(once[:2], twice[:2])) > 0.1


def test_one_round_is_the_weighted_mean_of_what_clients_learn() -> None:
    judge, mean = Judge(1), Mean()
    for learner in learners(5, 1):
        mean.add(learner.images, learner.learned(judge.first))
    expected = judge.loss_and_accuracy(judge.first + mean.difference())
    entry = carried_out(plan(5, rounds=1))[0].diary.rounds[0]
    assert (entry["loss"], entry["accuracy"]) == expected


def test_a_mean_weighs_by_samples() -> None:
    mean = Mean()
    mean.add(1, np.zeros(PARAMETERS, np.float32))
    mean.add(3, np.full(PARAMETERS, 4.0, np.float32))
    assert mean.samples == 4
    assert set(mean.difference()) == {3.0}


@pytest.mark.parametrize("edges", [0, 2])
def test_everybody_is_told_of_each_round_and_answers(edges: int) -> None:
    asked = plan(6, edges=edges, rounds=3)
    federation, done = carried_out(asked)
    messages = 1 + len(pieces(federation.sent_padding[: asked.scheme.model.padding_bytes]))
    assert sorted(done.messages) == sorted(asked.channels())
    assert set(done.messages.values()) == {3 * messages}
    assert set(done.sent_bytes.values()) == {3 * SIZE_BYTES}
    for entry in federation.diary.rounds:
        assert entry["bytes_up"] == entry["bytes_down"] == (6 + edges) * SIZE_BYTES
        assert entry["dropped"] == []
        assert set(entry["arrived_ns"]) == set(asked.names[1:])
        for client in (asked.names[party] for party in asked.clients):
            times = [entry["broadcast_end_ns"][client], entry["trained_ns"][client], entry["arrived_ns"][client]]
            assert entry["start_ns"] < times[0] < times[1] < times[2] < entry["end_ns"]


def test_who_is_late_is_dropped_and_then_told_the_newest_model() -> None:
    asked = plan(5, rounds=6, quorum=0.8, compute_ns=10_000, slowdowns={"h3": 2.5})
    federation, done = carried_out(asked)
    told = federation.diary.rounds
    assert [entry["dropped"] for entry in told] == [["h3"]] * 6
    answered = [number for number, entry in enumerate(told) if "h3" in entry["trained_ns"]]
    assert answered[0] == 0 and answered[-1] == 5 and len(answered) < 6
    assert done.sent_bytes[2, 0, 0] == len(answered) * SIZE_BYTES
    assert done.sent_bytes[1, 0, 0] == 6 * SIZE_BYTES


def test_who_waits_for_all_waits_for_the_slowest() -> None:
    asked = plan(4, rounds=2, compute_ns=10_000, slowdowns={"h3": 10.0})
    assert [entry["dropped"] for entry in carried_out(asked)[0].diary.rounds] == [[], []]


@settings(max_examples=25, deadline=None)
@given(
    clients=st.integers(2, 7),
    edges=st.integers(0, 2),
    edge_rounds=st.integers(1, 3),
    quorum=st.floats(0.01, 1.0),
    spread=st.floats(0.0, 3.0),
    compression=st.sampled_from(["none", "topk", "int8", "sign"]),
    size_bytes=st.integers(LEAST_BYTES, 150_000),
    order=st.integers(0, 2**31),
)
def test_every_federation_ends_with_nothing_unread(
    clients: int,
    edges: int,
    edge_rounds: int,
    quorum: float,
    spread: float,
    compression: str,
    size_bytes: int,
    order: int,
) -> None:
    scheme = Scheme(size_bytes, compression, 0.05)
    asked = plan(
        clients, edges, rounds=3, edge_rounds=edge_rounds if edges else 1, quorum=quorum, spread=spread, scheme=scheme,
        compute_ns=1_000,
    )  # fmt: skip
    federation, _ = carried_out(asked, order)
    told = federation.diary.rounds
    assert [entry["round"] for entry in told] == [0, 1, 2]
    assert all(np.isfinite(entry["loss"]) for entry in told)
    assert all(entry["end_ns"] is not None for entry in told)


@pytest.mark.parametrize(
    ("compression", "kept", "ratio"), [("none", 1.0, 1), ("int8", 1.0, 4), ("topk", 0.02, 25), ("sign", 1.0, 32)]
)
def test_padding_shrinks_as_the_model_does(compression: str, kept: float, ratio: float) -> None:
    scheme = Scheme(1_024_000, compression, kept)
    assert scheme.model.size_bytes == 1_024_000
    assert scheme.model.size_bytes / scheme.update.size_bytes == pytest.approx(ratio, rel=0.02)
    assert scheme.update.head_bytes == len(packed(1, 2, scheme.compressor(1, 1).encode(Judge(1).first)))


def test_a_head_is_read_as_it_was_written() -> None:
    step, samples, content = unpacked(packed(2**24 - 1, 1437, np.arange(7, dtype=np.uint8)))
    assert (step, samples, content.tolist()) == (2**24 - 1, 1437, list(range(7)))


def test_lossy_updates_still_learn() -> None:
    assert accuracies(plan(10, rounds=12, scheme=Scheme(SIZE_BYTES, "sign")))[-1] > 0.8


def test_computing_times_spread_around_their_median() -> None:
    def times_ns(client: int, slowdown: float = 1.0, spread: float = 0.5) -> list[int]:
        return list(itertools.islice(computing_times_ns(10**6, spread, slowdown, client, 1), 2_000))

    assert set(times_ns(0, spread=0.0)) == {10**6}
    assert median(times_ns(0)) == pytest.approx(10**6, rel=0.05)
    assert np.log(times_ns(0)).std() == pytest.approx(0.5, rel=0.05)
    assert times_ns(0) == times_ns(0) != times_ns(1)
    assert times_ns(0, slowdown=3.0) == pytest.approx(3 * np.array(times_ns(0)), abs=2)


# --- who stands where


def resolved(**keys: Any) -> Spec:
    return limits.resolve(parse({**EXPERIMENT.defaults, **keys}))


def test_a_flat_root_has_all_clients_below_it() -> None:
    assert cluster.aggregators(resolved(clients=3, leaves=2)) == {"h1": ("h2", "h3", "h4")}


def test_an_edge_for_each_leaf_stands_under_it() -> None:
    found = cluster.aggregators(resolved(aggregation="hierarchical", edges=5))
    assert found["h1"] == ("h2", "h13", "h25", "h37", "h49")
    assert found["h2"] == tuple(f"h{number}" for number in range(3, 13))
    assert found["h49"] == tuple(f"h{number}" for number in range(50, 57))


def test_other_edges_have_equal_parts() -> None:
    found = cluster.aggregators(resolved(aggregation="hierarchical", clients=5, edges=2))
    assert found == {"h1": ("h2", "h6"), "h2": ("h3", "h4", "h5"), "h6": ("h7", "h8")}


def test_a_plan_numbers_root_edges_clients() -> None:
    asked = plan_of(resolved(aggregation="hierarchical", clients=5, edges=2, slow_host="h3:2"))
    assert list(asked.names) == ["h1", "h2", "h6", "h3", "h4", "h5", "h7", "h8"]
    assert asked.children == {0: (1, 2), 1: (3, 4, 5), 2: (6, 7)}
    assert (asked.edges, asked.clients) == ((1, 2), (3, 4, 5, 6, 7))
    assert asked.slowdowns == {"h3": 2.0}
    assert asked.scheme.update_bytes == 1_024_000


def test_the_model_has_to_fit_into_an_update() -> None:
    assert cluster.LEAST_UPDATE_BYTES == LEAST_BYTES
    assert cluster.scaled_update_bytes(resolved(update=f"{LEAST_BYTES}B", scale=1)) == LEAST_BYTES
    with pytest.raises(
        BadRequest, match=r"update, scale: 102\.4MB and 10000 are given: 10240B to send; allowed: 19248B"
    ):
        resolved(scale=10_000)


def test_edge_rounds_are_for_edges() -> None:
    with pytest.raises(BadRequest, match=r"edge_rounds: 2 is given .*; allowed: with aggregation=hierarchical"):
        resolved(edge_rounds=2)


def test_each_case_can_be_run() -> None:
    asked = planned(EXPERIMENT, {})
    found = {label: limits.resolve(spec) for label, spec in asked.cases}
    assert found["clients_200"].hosts == 201
    assert found["hierarchical"].edges == found["hierarchical"].leaves == 5
    assert {spec.clients for spec in found.values()} == {50, 200}
