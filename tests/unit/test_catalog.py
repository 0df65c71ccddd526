"""Experiments by name, and the runs that each plans."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments import catalog, limits
from experiments.catalog import Case, Experiment, find, plan
from experiments.spec import known, parse
from topologies.units import BadRequest

NAMES = list(catalog.catalog())
EXAMPLE = Experiment(
    "example",
    "question?",
    "claim",
    "expected",
    defaults={"senders": 3, "rate": "1Gbps"},
    cases=lambda spec: (
        Case("rto", {"rto_min": "1ms"}),
        Case("both", {"rto_min": "1ms", "queue": "dctcp"}),
        Case("more", {"senders": known(spec.senders) + 1}),
    ),
)


def test_defaults_are_under_what_the_user_gives() -> None:
    assert (plan(EXAMPLE, {}).main.senders, plan(EXAMPLE, {}).main.rate_bps) == (3, 10**9)
    assert (plan(EXAMPLE, {"senders": 5}).main.senders, plan(EXAMPLE, {"senders": 5}).main.rate_bps) == (5, 10**9)


def test_cases_change_the_main_run() -> None:
    cases = dict(plan(EXAMPLE, {"rate": "2Gbps"}).cases)
    assert list(cases) == ["rto", "both", "more"]
    assert (cases["rto"].rto_min_ns, cases["rto"].rate_bps, cases["rto"].queue) == (1_000_000, 2 * 10**9, "droptail")
    assert (cases["both"].rto_min_ns, cases["both"].queue) == (1_000_000, "dctcp")
    assert cases["more"].senders == 4


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"queue": "red"}, ["rto", "more"]),
        ({"rto_min": "10ms"}, ["more"]),
        ({"senders": 9}, ["rto", "both"]),
        ({"rto_min": "10ms", "senders": 9}, []),
        ({"mtu": "9000B"}, ["rto", "both", "more"]),
    ],
)
def test_a_case_is_left_out_when_the_user_has_decided_its_key(given: dict[str, str], left: list[str]) -> None:
    assert [label for label, _ in plan(EXAMPLE, given).cases] == left


FABRICS = Experiment(
    "fabrics",
    "question?",
    "claim",
    "expected",
    defaults={"topology": "leaf_spine", "leaves": 2, "workload": "permutation", "rounds": 2, "routing": "d_mod_k"},
    cases=lambda spec: (
        Case("ecmp", {"routing": "ecmp"}),
        Case("fat_tree", {"topology": "fat_tree", "k": 6}),
        Case("pings", {"workload": "pings"}),
    ),
)


def test_a_case_takes_over_what_applies_to_it() -> None:
    cases = dict(plan(FABRICS, {}).cases)
    assert list(cases) == ["ecmp", "fat_tree", "pings"]
    assert (cases["ecmp"].leaves, cases["ecmp"].rounds) == (2, 2)
    assert (cases["fat_tree"].leaves, cases["fat_tree"].routing, cases["fat_tree"].rounds) == (None, "d_mod_k", 2)
    assert (cases["pings"].leaves, cases["pings"].rounds) == (2, parse({}).rounds)
    for spec in cases.values():
        limits.resolve(spec)


def test_the_main_run_drops_defaults_that_do_not_apply_to_what_the_user_chose() -> None:
    asked = plan(FABRICS, {"topology": "star"})
    assert (asked.main.leaves, asked.main.routing, asked.main.rounds) == (None, None, 2)
    assert [label for label, _ in asked.cases] == ["pings"]
    assert limits.resolve(asked.main).hosts == 16


def test_what_the_user_gave_is_never_dropped() -> None:
    assert [label for label, _ in plan(FABRICS, {"leaves": 3}).cases] == ["ecmp", "pings"]
    assert [label for label, _ in plan(FABRICS, {"rounds": 3}).cases] == ["ecmp", "fat_tree"]
    asked = plan(FABRICS, {"topology": "star", "leaves": 3})
    assert asked.cases == ()
    with pytest.raises(BadRequest, match=r"^leaves: 3 is given with topology=star; allowed: "):
        limits.resolve(asked.main)


def test_a_bad_key_is_refused_before_anything_is_planned() -> None:
    with pytest.raises(BadRequest, match=r"^sender: unknown key"):
        plan(EXAMPLE, {"sender": 3})


def test_an_unknown_experiment_is_refused_with_all_names() -> None:
    with pytest.raises(BadRequest) as error:
        find("outcast")
    assert str(error.value).startswith(f"experiment: 'outcast' is unknown; allowed: {', '.join(NAMES)}, or a YAML file")


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_is_whole(name: str) -> None:
    experiment = find(name)
    assert experiment.name == name
    assert experiment.question.endswith("?")
    assert experiment.claim
    assert experiment.expects


@pytest.mark.parametrize("name", NAMES)
def test_every_planned_run_can_work_and_has_a_folder_of_its_own(name: str) -> None:
    asked = plan(find(name), {})
    labels = [label for label, _ in asked.cases]
    assert labels == [case.label for case in find(name).cases(asked.main)]
    assert len(set(labels)) == len(labels)
    assert "main" not in labels
    for label, spec in asked.cases:
        assert re.fullmatch(r"[a-z0-9_.-]+", label), label
        limits.resolve(spec)
    limits.resolve(asked.main)


def test_every_experiment_of_the_folder_is_listed() -> None:
    folder = Path(catalog.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if "\nEXPERIMENT = " in path.read_text()}
    assert modules == set(NAMES)
