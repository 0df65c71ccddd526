"""Federated learning on a small leaf-spine: rounds, what they are made of, what slowed them, the lecture's claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.columns import Column
from analysis.kinds import federated, kind_of
from analysis.kinds.federated import CONVERGES, INCAST, NOT_YET, PROCESSORS, SLOW, STRAGGLERS, verdict
from analysis.kinds.federated_claims import claims
from analysis.kinds.federated_rounds import (
    PHASES,
    arrivals_s,
    dropped,
    ideal_s,
    rounds_to_target,
    split,
    tail_upload_s,
    time_to_target_s,
)
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.text import digits
from analysis.verdicts import NOT_PROVEN
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_kinds import fabric_json, fabric_run, ports
from tests.unit.test_analysis_run import evidence

MS = 1_000_000
UPDATE_BYTES = 1_024_000
ACCURACIES = (0.3, 0.85, 0.91, 0.9)
FABRIC = fabric_json("leaf_spine", leaves=2, spines=1, hosts_per_leaf=4)
CLIENTS = ("h2", "h3", "h4", "h5")
FLAT = {"root": "h1", "edges": [], "clients": list(CLIENTS), "parent": dict.fromkeys(CLIENTS, "h1")}
TREE = {
    "root": "h1",
    "edges": ["h2", "h5"],
    "clients": ["h3", "h4", "h6", "h7"],
    "parent": {"h2": "h1", "h5": "h1", "h3": "h2", "h4": "h2", "h6": "h5", "h7": "h5"},
}
LEARNING = {"parameters": 4810, "alpha": 0.5, "epochs": 1, "batch": 10, "learning_rate": 0.1}
# Models to four clients through the root's link of 25 Gb/s, and updates of four: 1,024,000 bytes in 115 packets of
# 8,948 bytes and 66 of headers.
TRANSFER_MS = 4 * (UPDATE_BYTES + 115 * 66) * 8 / 25e9 * 1e3
COMPUTE_MS = 20
BEST_MS = 2 * TRANSFER_MS + COMPUTE_MS


def entry(
    number: int,
    start_ms: float,
    accuracy: float,
    upload_ms: dict[str, float],
    compute_ms: dict[str, float],
    late: list[str],
) -> dict[str, Any]:
    """A flat round; it ends with the last update of those that are not late."""
    start_ns = T0_NS + round(start_ms * MS)
    got_ns = start_ns + round(TRANSFER_MS * MS)
    computed = {client: round(compute_ms.get(client, COMPUTE_MS) * MS) for client in CLIENTS}
    trained = {client: got_ns + computed[client] for client in CLIENTS}
    arrived = {client: trained[client] + round(upload_ms.get(client, TRANSFER_MS) * MS) for client in CLIENTS}
    return {
        "round": number,
        "start_ns": start_ns,
        "end_ns": max(time_ns for client, time_ns in arrived.items() if client not in late),
        "broadcast_end_ns": dict.fromkeys(CLIENTS, got_ns),
        "computed_ns": computed,
        "trained_ns": trained,
        "arrived_ns": arrived,
        "dropped": late,
        "accuracy": accuracy,
        "loss": 1 - accuracy,
        "bytes_up": 4 * UPDATE_BYTES,
        "bytes_down": 4 * UPDATE_BYTES,
    }


def entries(
    upload_ms: dict[str, float] | None = None,
    compute_ms: dict[str, float] | None = None,
    late: tuple[str, ...] = (),
    accuracies: tuple[float, ...] = ACCURACIES,
) -> list[dict[str, Any]]:
    return [
        entry(number, 1000 * number, accuracy, upload_ms or {}, compute_ms or {}, list(late))
        for number, accuracy in enumerate(accuracies)
    ]


def run_of(path: Path, told: list[dict[str, Any]], timeouts: int = 0, drops: int = 0, **spec: Any) -> Run:
    """`drops` at the port towards the root; `cast` and `sent_bytes` are of the facts, the rest of the spec."""
    cast, sent_bytes = spec.pop("cast", FLAT), spec.pop("sent_bytes", UPDATE_BYTES)
    stacks = ports(FABRIC)
    stacks["leaf1-eth1"]["qdiscs"] = [{"kind": "bfifo", "drops": drops}]
    facts = {
        "workload": "federated",
        "federated": {**cast, **LEARNING, "update_bytes": UPDATE_BYTES, "sent_bytes": sent_bytes},
        "fl_rounds": told,
        "rounds": [{"start_ns": each["start_ns"], "end_ns": each["end_ns"], "bytes": 1} for each in told],
        "ports": stacks,
        "tcp": {"h2": {"TCPTimeouts": timeouts}},
    }
    asked = {
        "experiment": "federated", "rate": "25Gbps", "mtu": "9000B", "compute": "20ms", "target": 0.9, "clients": 4,
        "aggregation": "flat", "edges": "auto", "edge_rounds": "auto", "update": "102.4MB", "scale": 100,
        "compression": "none", "kept": "auto", "spread": 0.0, "quorum": 1.0, "slow_host": "none", "host_cost": "none",
    }  # fmt: skip
    return fabric_run(path, FABRIC, facts, {**asked, **spec})


def cases(run: Run, **told: Any) -> Run:
    """The run with cases: label -> arguments of `run_of`."""
    for label, arguments in told.items():
        run_of(run.path / "cases" / label, label=label, **arguments)
    return Run(run.path)


def test_a_round_takes_what_links_and_computing_need(tmp_path: Path) -> None:
    run = run_of(tmp_path, entries())
    assert ideal_s(run) == pytest.approx(BEST_MS / 1e3, rel=1e-6)
    found = verdict(run)
    assert (found.verdict, found.good) == (CONVERGES, True)
    assert rounds_to_target(run) == 3
    assert time_to_target_s(run) == pytest.approx(2 + BEST_MS / 1e3, rel=1e-6)
    assert tail_upload_s(run) == pytest.approx(TRANSFER_MS / 1e3, rel=1e-6)


def test_a_tree_needs_both_tiers_one_after_the_other(tmp_path: Path) -> None:
    run = run_of(tmp_path, [], cast=TREE, aggregation="hierarchical", edges=2, edge_rounds=3)
    assert ideal_s(run) == pytest.approx((TRANSFER_MS + 3 * (TRANSFER_MS + COMPUTE_MS)) / 1e3, rel=1e-6)


def test_a_round_is_split_along_the_client_that_ended_it(tmp_path: Path) -> None:
    run = run_of(tmp_path, entries(upload_ms={"h4": 7}, compute_ms={"h4": 50}))
    parts = split(run)
    assert parts is not None
    assert [parts[phase] * 1e3 for phase in PHASES] == pytest.approx([TRANSFER_MS, COMPUTE_MS, 30, 7], rel=1e-6)


def test_a_tree_is_split_along_the_edge_that_ended_it(tmp_path: Path) -> None:
    begin = {"round": 0, "start_ns": T0_NS, "end_ns": T0_NS + 60 * MS, "dropped": [], "accuracy": 0.5, "loss": 1.0}
    times = {
        "broadcast_end_ns": {"h3": 4, "h4": 4, "h6": 5, "h7": 5},
        "computed_ns": {"h3": 30, "h4": 20, "h6": 20, "h7": 20},
        "trained_ns": {"h3": 34, "h4": 24, "h6": 25, "h7": 25},
        "arrived_ns": {"h3": 36, "h4": 26, "h6": 27, "h7": 28, "h2": 40, "h5": 60},
    }
    base = {"computed_ns": 0}
    told = {
        key: {host: base.get(key, T0_NS) + value * MS for host, value in found.items()} for key, found in times.items()
    }
    asked: dict[str, Any] = {"cast": TREE, "aggregation": "hierarchical", "edges": 2}
    parts = split(run_of(tmp_path / "once", [{**begin, **told}], edge_rounds=1, **asked))
    assert parts is not None
    assert [round(parts[phase] * 1e3) for phase in PHASES] == [5, 20, 0, 35]
    told["computed_ns"] = {host: 2 * value for host, value in told["computed_ns"].items()}
    parts = split(run_of(tmp_path / "twice", [{**begin, **told}], edge_rounds=2, **asked))
    assert parts is not None
    assert [round(parts[phase] * 1e3) for phase in PHASES] == [5, 40, 0, 15]


def test_who_is_late_ends_no_round(tmp_path: Path) -> None:
    run = run_of(tmp_path, entries(compute_ms={"h4": 500}, late=("h4",)))
    parts = split(run)
    assert parts is not None
    assert parts["waiting for stragglers"] == 0
    assert dropped(run) == len(ACCURACIES)
    assert max(arrivals_s(run)) > 0.5


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ({"told": entries(upload_ms={"h4": 210}), "timeouts": 4, "drops": 9}, INCAST),
        ({"told": entries(upload_ms={"h4": 210}), "timeouts": 4}, SLOW),
        ({"told": entries(upload_ms={"h4": 210}), "host_cost": "tcp"}, PROCESSORS),
        ({"told": entries(compute_ms={"h4": 60})}, STRAGGLERS),
    ],
)
def test_what_slows_a_run_is_told(tmp_path: Path, arguments: dict[str, Any], cause: str) -> None:
    found = verdict(run_of(tmp_path, **arguments))
    assert (found.verdict, found.good) == (f"{CONVERGES}, {cause}", False)


def test_a_run_that_does_not_get_there(tmp_path: Path) -> None:
    run = run_of(tmp_path, entries(accuracies=(0.2, 0.4)))
    found = verdict(run)
    assert (found.verdict, found.good) == (NOT_YET, None)
    assert evidence(found)["accuracy"] is False
    assert time_to_target_s(run) is None
    assert "accuracy 40.0 % at best" in federated.headline(run)


def test_an_interrupted_run_proves_nothing(tmp_path: Path) -> None:
    begun = {**entries()[0], "end_ns": None}
    run = run_of(tmp_path, [])
    assert verdict(run).verdict == NOT_PROVEN
    found = run_of(tmp_path / "begun", [])
    found.measured["fl_rounds"] = [begun]
    assert verdict(found).verdict == NOT_PROVEN
    assert split(found) is None
    assert "no round" in federated.headline(found)
    found.measured["complete"] = False
    del found.measured["federated"], found.measured["fl_rounds"]
    assert verdict(found).verdict == NOT_PROVEN
    assert "Specification" in page(found, draw_all(found))


# --- the lecture's claims


def claimed(run: Run, what: str) -> dict[str, bool | None]:
    return {each.label: each.holds for each in claims(run) if what in each.what}


def test_roce_is_compared_with_tcp_of_the_same_size(tmp_path: Path) -> None:
    slow = run_of(tmp_path, entries(upload_ms={"h4": 110}), timeouts=3)
    roce = {"transport": "roce", "pfc": True, "verb": "write", "roce_mtu": 4096, "cc": "none", "rto_min": "auto"}
    run = cases(
        slow,
        roce={"told": entries(), **roce},
        larger={"told": entries(), **roce, "scale": 10},
        busy={"told": entries(upload_ms={"h4": 20}), "host_cost": "tcp"},
        offloaded={"told": entries(upload_ms={"h4": 8}), "host_cost": "rdma", **roce},
    )
    assert claimed(run, "a round over TCP") == {"main / roce": False, "busy / offloaded": False}
    ratio = (BEST_MS - TRANSFER_MS + 110) / BEST_MS
    assert f"{digits(ratio)}x is measured, TCP had 3 timeouts" in next(
        each.verdict for each in claims(run) if each.label == "main / roce"
    )
    assert claimed(run, "p99") == {"busy / offloaded": True}


def test_rounds_are_compared_with_the_same_network(tmp_path: Path) -> None:
    tree = {"aggregation": "hierarchical", "edges": 2, "cast": TREE}
    run = cases(
        run_of(tmp_path, entries(accuracies=(0.5,) * 41 + (0.9,))),
        once={"told": entries(accuracies=(0.5,) * 41 + (0.9,)), **tree, "edge_rounds": 1},
        fewer={"told": entries(accuracies=(0.5,) * 37 + (0.9,)), **tree, "edge_rounds": 2},
        deeper={"told": entries(), **tree, "edge_rounds": 1, "buffer": "6KB"},
    )
    assert claimed(run, "rounds to") == {"main / once": False, "main / fewer": True}


@pytest.mark.parametrize(
    ("sent_bytes", "best", "holds"), [(32_000, 0.905, True), (32_000, 0.88, False), (256_000, 0.91, False)]
)
def test_smaller_updates_have_to_keep_the_accuracy(tmp_path: Path, sent_bytes: int, best: float, holds: bool) -> None:
    told = entries(accuracies=(0.5, best))
    run = cases(run_of(tmp_path, entries()), sign={"told": told, "compression": "sign", "sent_bytes": sent_bytes})
    assert claimed(run, "an update's size") == {"sign": holds}


def test_a_report_has_all_of_it(tmp_path: Path) -> None:
    slow = run_of(tmp_path, entries(upload_ms={"h4": 210}), timeouts=3, drops=5)
    run = cases(
        slow,
        roce={"told": entries(), "transport": "roce", "pfc": True, "verb": "write", "roce_mtu": 4096, "cc": "none"},
        sign={"told": entries(), "compression": "sign", "sent_bytes": 32_000},
    )
    assert kind_of(run) is federated
    drawn = draw_all(run)
    assert {figure.name for figure in drawn if not figure.path} == {"heat"}
    assert [figure.name for figure in drawn] == [*("fabric", "accuracy", "rounds", "arrivals", "tail", "gantt", "heat")]
    whole = page(run, drawn)
    for words in ("What a round is made of", "What is learned", "the lecture, slide 21", INCAST, "4,810 parameters"):
        assert words in whole
    assert f"{BEST_MS:.1f} ms" in whole
    told = summarize(run)
    assert told["federated"]["rounds_to_target"] == 3
    assert [row["label"] for row in told["comparison"]] == ["main", "roce", "sign"]
    assert all(isinstance(column, Column) for column in federated.COLUMNS)
    main, roce, _ = told["comparison"]
    assert "faster to the target" in federated.against(main, roce)
    assert federated.against({**main, "time_to_target_s": None}, roce).endswith("faster a round")
