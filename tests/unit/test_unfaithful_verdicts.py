"""Verdicts on runs whose CPU did not keep up: neither a finding nor its absence is proven, but what holds on any clock
stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis import verdicts
from analysis.fidelity import FAITHFUL, NOT_MEASURED, UNFAITHFUL, Fidelity
from analysis.kinds import collective, deadlock, headroom, hops, long_flows, pfc_unfairness, training, victim
from analysis.run import Run
from analysis.verdicts import NO_COLLAPSE, NOT_PROVEN, Verdict, incast_verdict, kept_up, proven
from tests.unit.test_analysis_collective import make
from tests.unit.test_analysis_deadlock import MS, ring
from tests.unit.test_analysis_headroom import NEEDED, headroom_run
from tests.unit.test_analysis_hops import DELAYS_NS, fabric_json, pings
from tests.unit.test_analysis_hops import run_of as hops_run
from tests.unit.test_analysis_pfc_unfairness import lot
from tests.unit.test_analysis_run import make_run, port
from tests.unit.test_analysis_training import even
from tests.unit.test_analysis_training import run_of as training_run
from tests.unit.test_analysis_victim import crowded


@pytest.fixture
def starved(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the guard say of every run from then on what it is given."""
    return lambda says: monkeypatch.setattr(verdicts, "judge", lambda run: Fidelity(says, ()))


def misplaced(path: Path) -> Run:
    """A path of three switches between hosts under one leaf."""
    fabric = fabric_json("leaf_spine", leaves=2, spines=2, hosts_per_leaf=2)
    probes = pings(fabric)
    probes[0].update({"switches": 3, "delay_ns": round(DELAYS_NS[4])})
    return hops_run(path, fabric, probes)


def unreached(path: Path) -> Run:
    """One pair's probe was not answered."""
    fabric = fabric_json("leaf_spine", leaves=2, spines=2, hosts_per_leaf=2)
    probes = pings(fabric)
    probes[0].update({"ttl": None, "switches": None, "delay_ns": None})
    return hops_run(path, fabric, probes)


NEGATIVES: dict[str, tuple[Callable[[Path], Run], Callable[[Run], Verdict], str]] = {
    "headroom": (lambda path: headroom_run(path, NEEDED // 2, 4), headroom.verdict, headroom.LOSES),
    "deadlock": (lambda path: ring(path, 3 * MS), deadlock.verdict, deadlock.DEADLOCK),
    "victim": (lambda path: crowded(path, 1 / 4), victim.verdict, victim.VICTIM),
    "unfairness": (lambda path: lot(path, 0.5, 0.1655), pfc_unfairness.verdict, pfc_unfairness.UNFAIR),
    "long flows": (lambda path: lot(path, 0.5, 0.1655), long_flows.verdict, long_flows.UNFAIR),
    "hops": (unreached, hops.verdict, hops.OTHERWISE),
    "training": (lambda path: training_run(path, even(8, 11.5)), training.verdict, training.SLOWER),
    "collective": (lambda path: make(path, 1.5), collective.verdict, collective.SLOWER),
}


@pytest.mark.parametrize("name", list(NEGATIVES))
def test_a_negative_is_not_proven_by_a_starved_run(tmp_path: Path, starved: Callable[[str], None], name: str) -> None:
    prepare, judged, answer = NEGATIVES[name]
    run = prepare(tmp_path / "run")
    assert judged(run).verdict == answer
    for says in (UNFAITHFUL, NOT_MEASURED):
        starved(says)
        assert (judged(Run(run.path)).verdict, judged(Run(run.path)).good) == (NOT_PROVEN, None)
    starved(FAITHFUL)
    assert judged(Run(run.path)).verdict == answer


def test_what_holds_on_any_clock_stays(tmp_path: Path, starved: Callable[[str], None]) -> None:
    detour, wrong = misplaced(tmp_path / "detour"), make(tmp_path / "wrong", wrong=3)
    starved(UNFAITHFUL)
    assert hops.verdict(detour).verdict == hops.OTHERWISE
    assert collective.verdict(wrong).verdict == collective.WRONG


def test_goodput_kept_by_a_starved_run_is_no_proof(tmp_path: Path, starved: Callable[[str], None]) -> None:
    quick = [{"start_ns": 0, "end_ns": 1, "bytes": 12_000_000}]
    run = make_run(tmp_path / "run", facts={"rounds": quick, "tcp": {}, "ports": {"leaf1-eth1": port(0, hot=True)}})
    assert incast_verdict(run).verdict == NO_COLLAPSE
    for says, answer in ((UNFAITHFUL, NOT_PROVEN), (NOT_MEASURED, NOT_PROVEN), (FAITHFUL, NO_COLLAPSE)):
        starved(says)
        told = incast_verdict(Run(run.path))
        assert (told.verdict, told.good) == (answer, True if answer == NO_COLLAPSE else None)


@pytest.mark.parametrize(
    ("says", "answer", "good"), [(None, "slow", False), (FAITHFUL, "slow", False), (UNFAITHFUL, NOT_PROVEN, None)]
)
def test_an_answer_needs_a_processor_that_kept_up(says: str | None, answer: str, good: bool | None) -> None:
    evidence = (kept_up(None if says is None else Fidelity(says, ())),)
    told = proven(Verdict("x", "slow", evidence, good=False), {"wrong"})
    assert (told.verdict, told.good) == (answer, good)
    assert proven(Verdict("x", "wrong", evidence, good=False), {"wrong"}).verdict == "wrong"
