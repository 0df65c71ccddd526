"""Two clocks compared, on runs made by hand, and the rate of a busy port on a capture made by hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.columns import words
from analysis.fidelity import FAITHFUL, NOT_MEASURED, UNFAITHFUL, Fidelity, Limit
from analysis.kinds import clock_pairs, clocks, incast, kind_of, table_of
from analysis.kinds.clock_pairs import GOODPUT_TOLERANCE, Quantity, busy_rate_bps, pairs
from analysis.pages.run_page import draw_all, write_report
from analysis.run import Run
from analysis.verdicts import COLLAPSE, NO_COLLAPSE, NOT_PROVEN
from tests.unit.frames import T0_NS, Capture
from tests.unit.test_analysis_run import ROUND_US, evidence, make_run, port
from topologies.describe import describe
from topologies.profiles import LinkProfile
from topologies.star import Star

LINE_BPS = 100_000_000
FRAME_BYTES, BURST_BYTES = 1066, 1514 + 3750  # 1,000 bytes of payload; the bucket holds 300 us more than a frame
FRAMES = 300


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the fidelity guard says of the runs on the real clock, by label; "faithful" of those that are not in it."""
    says: dict[str, str] = {}

    def judge(run: Run) -> Fidelity | None:
        if run.spec["clock"] == "virtual":
            return None
        return Fidelity(says.get(run.parameters.label, FAITHFUL), ())

    monkeypatch.setattr(clock_pairs, "judge", judge)
    return says


def sent_at(*times_us: float) -> Capture:
    """Frames of h2 at these times, in the order of their places."""
    capture = Capture("10.0.0.2:20002")
    for place, time_us in enumerate(times_us):
        capture.send(time_us, 1000 * place)
    return capture


def limited(rate_bps: int) -> dict[str, Any]:
    """A hot port whose rate limiter was read back."""
    told = port(2, hot=True)
    told["qdiscs"][1]["options"] = {"rate_bps": rate_bps, "burst_bytes": BURST_BYTES}
    return {"ports": {"leaf1-eth1": told, "leaf1-eth2": port(0, hot=False)}}


def clock_run(path: Path, clock: str, rate: str = "100Mbps", leaves_bps: float = 1.0, took_us: int = ROUND_US) -> Run:
    """An incast of the experiment whose port sends at so much of its line what came all at once, in a round of so
    long."""
    line_bps = {"100Mbps": LINE_BPS, "1Gbps": 10 * LINE_BPS}[rate]
    rounds = [{"start_ns": T0_NS, "end_ns": T0_NS + took_us * 1000, "bytes": 12_000}]
    spec = {"experiment": "clocks", "clock": clock, "rate": rate, "label": label_of(path)}
    run = make_run(path, spec, {**limited(line_bps), "rounds": rounds})
    link = LinkProfile(rate_bps=line_bps, delay_ns=1000, mtu_bytes=1500)
    every_us = FRAME_BYTES * 8e6 / line_bps / leaves_bps
    sent_at(*[0.0] * FRAMES).write(path / "pcap" / "h2-eth0.pcap")
    sent_at(*(1000 + place * every_us for place in range(FRAMES))).write(path / "pcap" / "leaf1-eth1.pcap")
    fabric = {"format": 1, "topology": "star", **describe(Star(hosts=3, link=link)).as_json()}
    (path / "fabric.json").write_text(json.dumps(fabric))
    return run


def label_of(path: Path) -> str:
    return path.name if path.parent.name == "cases" else "main"


def both(path: Path, **real: Any) -> Run:
    """The main run in virtual time, and its like on the real clock."""
    clock_run(path / "cases" / "real-100mbps", "real", **real)
    return clock_run(path, "virtual")


# --- the rate of a busy port


@pytest.mark.parametrize("share", [1.0, 0.7, 1.05])
def test_a_busy_ports_rate_is_that_of_its_frames(tmp_path: Path, share: float) -> None:
    found = busy_rate_bps(clock_run(tmp_path / "run", "real", leaves_bps=share))
    assert found == pytest.approx(share * LINE_BPS, rel=1e-4)


@pytest.mark.parametrize("lacks", ["pcap/leaf1-eth1.pcap", "pcap", "fabric.json"])
def test_a_rate_that_nothing_tells_is_none(tmp_path: Path, lacks: str) -> None:
    run = clock_run(tmp_path / "run", "real")
    shutil.rmtree(run.path / lacks) if lacks == "pcap" else (run.path / lacks).unlink()
    assert busy_rate_bps(Run(run.path)) is None


# --- pairs and quantities


@pytest.mark.parametrize(
    ("virtual", "real", "ratio", "agrees"),
    [
        (100.0, 115.0, 1.15, True),
        (100.0, 84.9, 0.849, False),
        (100.0, None, None, None),
        (None, 3.0, None, None),
        (0.0, 0.0, None, True),
        (0.0, 1.0, None, False),
        (10.0, 0.0, 0.0, False),
    ],
)
def test_a_quantity_agrees_within_its_tolerance(
    virtual: float | None, real: float | None, ratio: float | None, agrees: bool | None
) -> None:
    found = Quantity("goodput", virtual, real, words, GOODPUT_TOLERANCE)
    assert found.ratio == (None if ratio is None else pytest.approx(ratio))
    assert found.agrees is agrees


def test_runs_pair_where_nothing_but_the_clock_differs(tmp_path: Path, guard: dict[str, str]) -> None:
    for label, clock in (("virtual-1gbps", "virtual"), ("real-1gbps", "real")):
        clock_run(tmp_path / "run" / "cases" / label, clock, "1Gbps")
    other = clock_run(tmp_path / "run" / "cases" / "other-seed", "real")
    spec = (other.path / "spec.yaml").read_text()
    (other.path / "spec.yaml").write_text(spec.replace("seed: 1", "seed: 2"))
    found = pairs(both(tmp_path / "run"))
    assert [(pair.name, pair.virtual.parameters.label, pair.real.parameters.label) for pair in found] == [
        ("100 Mb/s", "main", "real-100mbps"),
        ("1 Gb/s", "virtual-1gbps", "real-1gbps"),
    ]


# --- the verdict


def test_the_kind_is_the_experiments_own(tmp_path: Path) -> None:
    assert kind_of(clock_run(tmp_path / "run", "virtual")) is clocks


def test_clocks_agree(tmp_path: Path, guard: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_pairs, "incast_verdict", lambda run: incast.Verdict("incast", COLLAPSE, ()))
    run = both(tmp_path / "run")
    verdict = clocks.verdict(run)
    assert (verdict.verdict, verdict.good) == ("clocks agree at 100 Mb/s", True)
    assert set(evidence(verdict).values()) == {True}
    (pair,) = pairs(run)
    assert pair.apart == []


@pytest.mark.parametrize(
    ("says", "good", "guarded"),
    [(UNFAITHFUL, None, True), (FAITHFUL, False, False), (NOT_MEASURED, None, None)],
)
def test_where_clocks_differ_the_guard_has_to_warn(
    tmp_path: Path, guard: dict[str, str], says: str, good: bool | None, guarded: bool | None
) -> None:
    guard["real-100mbps"] = says
    run = both(tmp_path / "run", leaves_bps=0.7, took_us=ROUND_US // 2)
    verdict = clocks.verdict(run)
    assert (verdict.verdict, verdict.good) == ("clocks differ at 100 Mb/s", good)
    holds = evidence(verdict)
    assert holds["rate of the busy port at 100 Mb/s"] is False
    assert holds["goodput at 100 Mb/s"] is False
    assert holds["guard at 100 Mb/s"] is guarded


def test_another_verdict_is_a_difference(
    tmp_path: Path, guard: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"virtual": COLLAPSE, "real": NO_COLLAPSE}
    monkeypatch.setattr(
        clock_pairs, "incast_verdict", lambda run: incast.Verdict("incast", answers[run.spec["clock"]], ())
    )
    verdict = clocks.verdict(both(tmp_path / "run"))
    assert (verdict.verdict, verdict.good) == ("clocks differ at 100 Mb/s", False)
    assert evidence(verdict)["verdict at 100 Mb/s"] is False


@pytest.mark.parametrize(("took_us", "off"), [(ROUND_US // 2, "100 % more"), (ROUND_US * 2, "50 % less")])
def test_goodput_alone_is_told_and_no_alarm(
    tmp_path: Path, guard: dict[str, str], monkeypatch: pytest.MonkeyPatch, took_us: int, off: str
) -> None:
    monkeypatch.setattr(clock_pairs, "incast_verdict", lambda run: incast.Verdict("incast", COLLAPSE, ()))
    run = both(tmp_path / "run", took_us=took_us)
    verdict = clocks.verdict(run)
    assert (verdict.verdict, verdict.good) == (f"clocks agree at 100 Mb/s but for goodput ({off})", None)
    assert evidence(verdict)["guard at 100 Mb/s"] is True
    assert f"the clocks agree but for goodput, {off} than in virtual time" in clocks.headline(run)
    assert ("clocks at 100 Mb/s, but for goodput", "agree") in clocks.tiles(run)


def test_the_guards_words_have_what_broke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Limit("shaper accuracy", 0.058, 0.02, None, "share", "", False, "", "")
    judged = Fidelity(UNFAITHFUL, (broken,))
    monkeypatch.setattr(clock_pairs, "judge", lambda run: judged)
    (pair,) = pairs(both(tmp_path / "run", leaves_bps=0.7))
    assert pair.guard_words == "unfaithful: shaper accuracy 5.8 %"


def test_what_is_not_proven_on_one_clock_is_undecided(
    tmp_path: Path, guard: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"virtual": COLLAPSE, "real": NOT_PROVEN}
    monkeypatch.setattr(
        clock_pairs, "incast_verdict", lambda run: incast.Verdict("incast", answers[run.spec["clock"]], ())
    )
    for label, clock in (("virtual-1gbps", "virtual"), ("real-1gbps", "real")):
        clock_run(tmp_path / "run" / "cases" / label, clock, "1Gbps", took_us=ROUND_US * (1 + (clock == "real")))
    run = both(tmp_path / "run")
    assert clocks.verdict(run).verdict == "clocks differ at 1 Gb/s, undecided at 100 Mb/s"
    assert "at 100 Mb/s the clocks cannot be compared: goodput" in clocks.headline(run)


def test_a_rate_that_was_not_measured_makes_no_agreement(
    tmp_path: Path, guard: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_pairs, "incast_verdict", lambda run: incast.Verdict("incast", COLLAPSE, ()))
    run = both(tmp_path / "run")
    (tmp_path / "run" / "cases" / "real-100mbps" / "pcap" / "leaf1-eth1.pcap").unlink()
    verdict = clocks.verdict(Run(run.path))
    assert (verdict.verdict, verdict.good) == (NOT_PROVEN, None)
    unknown = "too little is known to say whether real-100mbps differs"
    assert verdict.missing == ("nothing in real-100mbps tells it", unknown)


def test_a_run_alone_is_judged_as_an_incast(tmp_path: Path) -> None:
    run = clock_run(tmp_path / "run", "virtual")
    assert clocks.verdict(run) == incast.verdict(run)
    assert clocks.headline(run) == incast.headline(run)
    assert table_of(run) is None


# --- what people and scripts read


def test_the_summary_tells_every_quantity(tmp_path: Path, guard: dict[str, str]) -> None:
    told = summarize(both(tmp_path / "run", took_us=ROUND_US // 2))["clocks"]["100 Mb/s"]
    goodput = told["quantities"]["goodput"]
    assert goodput["ratio"] == pytest.approx(2, rel=1e-4)
    assert (goodput["tolerance"], goodput["agrees"]) == (GOODPUT_TOLERANCE, False)
    assert told["quantities"]["rate of the busy port"]["agrees"] is True
    assert (told["fidelity"], told["agrees"]) == (FAITHFUL, False)


def test_the_table_the_page_and_the_figures(tmp_path: Path, guard: dict[str, str]) -> None:
    guard["real-100mbps"] = UNFAITHFUL
    run = both(tmp_path / "run", leaves_bps=0.7, took_us=ROUND_US // 2)
    table = table_of(run)
    assert table is not None
    first, last = table.rows[0], table.rows[-1]
    assert list(first.values()) == ["100 Mb/s", "rate of the busy port", "100 Mb/s", "70 Mb/s", "0.7", "2%", "no"]
    assert (last["quantity"], last["virtual"], last["real"]) == ("fidelity guard", "—", UNFAITHFUL)
    figures = {figure.name: figure for figure in draw_all(run)}
    assert figures["clocks"].title == "Real clock and virtual time agree in 5 of 8 quantities at 100 Mb/s"
    assert figures["rounds"].title == "Median rounds on both clocks: 201 ms and 101 ms at 100 Mb/s"
    html = write_report(run).read_text()
    assert "<h2>Two clocks compared</h2>" in html
    assert "at 100 Mb/s the clocks differ" in html


def test_a_quantity_of_nothing_is_drawn_at_the_edge(tmp_path: Path, guard: dict[str, str]) -> None:
    run = both(tmp_path / "run")
    real = tmp_path / "run" / "cases" / "real-100mbps" / "measured.json"
    facts = json.loads(real.read_text())
    facts["tcp"] = {"h3": {"RetransSegs": 0, "TCPTimeouts": 0}}
    real.write_text(json.dumps(facts))
    (pair,) = pairs(Run(run.path))
    assert {each.name: each.ratio for each in pair.quantities}["timeouts"] == 0
    figures = {figure.name: figure for figure in draw_all(Run(run.path))}
    assert figures["clocks"].path is not None
