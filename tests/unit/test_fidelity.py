"""Whether a run on the real clock can be trusted: the limits, what breaks them, and that nothing holds by silence."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from analysis import shaping, text
from analysis.fidelity import FAITHFUL, NOT_MEASURED, UNFAITHFUL, Fidelity, judge
from analysis.pages.run_page import page
from analysis.run import Run
from analysis.shaping import Frames
from analysis.summary import summarize
from analysis.verdicts import processor
from controller import child
from experiments import records
from tests.unit.frames import T0_NS, Capture
from tests.unit.test_analysis_run import make_run
from topologies.units import BadRequest
from workloads.fidelity import MACHINE_COLUMNS, WAKE_COLUMNS, Probe

RATE_BPS = 100_000_000
FRAME_BYTES = 1066  # Capture's segments of 1,000 bytes with all their headers
FRAME_US = FRAME_BYTES * 8e6 / RATE_BPS
BURST_BYTES = 1514 + RATE_BPS * 300_000 // 8_000_000_000  # a frame and 300 us of the line
SPEC = {"clock": "real", "rate": "100Mbps", "buffer": "64KB", "delay": "0ns", "switch_delay": "0ns", "bytes": "6MB"}
FRAMES, WINDOW_NS = 400, 100_000_000
LAST_NS = T0_NS + 10 * WINDOW_NS


def machine(**changes: Any) -> dict[str, list[int]]:
    """Looks every 100 ms at an idle machine."""
    count = 11
    columns = {name: [0] * count for name in MACHINE_COLUMNS}
    columns["time_ns"] = [T0_NS + WINDOW_NS * place for place in range(count)]
    columns["idle_ns"] = [WINDOW_NS * 8 // 10 * place for place in range(count)]
    columns["reading_ns"] = [500] * count
    return {**columns, **changes}


def wakes(late_ns: int = 80_000, count: int = 200) -> dict[str, list[int]]:
    return {"time_ns": [T0_NS + 4_000_000 * place for place in range(count)], "late_ns": [late_ns] * count}


def real_run(
    path: Path,
    facts: dict[str, Any] | None = None,
    looks: dict[str, list[int]] | None = None,
    naps: dict[str, list[int]] | None = None,
    gap_us: float = FRAME_US,
    late_us: float = 0.0,
    keys: dict[str, Any] | None = None,
) -> Run:
    """A run of two senders on the real clock that nothing disturbed, but for what is given. `gap_us`: between frames
    that leave the hot port; every fiftieth of them is `late_us` late, and those behind it make up for it. `keys`: of
    the spec."""
    stack = [{"kind": "tbf", "drops": 0, "options": {"rate_bps": RATE_BPS, "burst_bytes": BURST_BYTES}}]
    told = {
        "rounds": [{"start_ns": T0_NS, "end_ns": LAST_NS, "bytes": 12_000_000}],
        "ports": {"leaf1-eth1": {"peer": "h1", "hot": True, "qdiscs": stack, "rate_bps": RATE_BPS}},
        "capture": {"leaf1-eth1": 0, "h2-eth0": 0, "h3-eth0": 0},
        "fidelity": {"cpus": 1, "probe_share": 0.015},
    }
    run = make_run(path, {**SPEC, **(keys or {})}, {**told, **(facts or {})})
    (path / "fabric.json").write_text(FABRIC)
    sent, left, at_us = Capture(), Capture(), 0.0
    for place in range(FRAMES):
        sent.send(1 + 0.1 * place, 1000 * place)
        at_us = max(at_us, 2000 + gap_us * place + (late_us if place % 50 == 49 else 0))
        left.send(at_us, 1000 * place).ack(at_us + 1, 1000 * place)
    sent.write(path / "pcap" / "h2-eth0.pcap")
    left.write(path / "pcap" / "leaf1-eth1.pcap")
    for name, columns in (("machine", looks or machine()), ("wakes", naps or wakes())):
        pyarrow.parquet.write_table(pyarrow.table(columns), path / "telemetry" / f"{name}.parquet")
    return Run(run.path)


FABRIC = (
    '{"format": 1, "switches": [{"name": "leaf1", "tier": 1}], "wires": [], "hosts": ['
    + ", ".join(f'{{"name": "h{each}", "ip": "10.0.0.{each}"}}' for each in (1, 2, 3))
    + "]}"
)


def judged(run: Run) -> Fidelity:
    found = judge(run)
    assert found is not None
    return found


def by_name(run: Run, name: str) -> Any:
    (found,) = (limit for limit in judged(run).limits if limit.name == name)
    return found


def test_a_run_in_virtual_time_needs_no_trust(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert judge(run) is None
    assert processor(run).holds is True
    assert summarize(run)["fidelity"] is None
    assert "Fidelity" not in page(run, [])


def test_a_run_that_nothing_disturbed_is_faithful(tmp_path: Path) -> None:
    run = real_run(tmp_path / "run")
    assert {limit.name: limit.holds for limit in judged(run).limits} == dict.fromkeys(("completion", *BROKEN), True)
    assert judged(run).verdict == FAITHFUL
    assert by_name(run, "CPU headroom").measured == pytest.approx(0.8)
    assert by_name(run, "run-queue delay").most == pytest.approx(run.parameters.ideal_seconds / 10)
    assert by_name(run, "shaper accuracy").measured == pytest.approx(0, abs=1e-4)
    assert by_name(run, "timestamp jitter").most == pytest.approx(300e-6, rel=1e-3)
    assert (processor(run).holds, processor(run).measured) == (True, FAITHFUL)


LATE_NS = (LAST_NS - T0_NS) // 8  # of the one round
BROKEN: dict[str, dict[str, Any]] = {
    "CPU headroom": {"looks": machine(idle_ns=[WINDOW_NS * 8 // 10 * min(place, 5) for place in range(11)])},
    "hosts' process": {"looks": machine(hosts_ns=[WINDOW_NS * 95 // 100 * place for place in range(11)])},
    "run-queue delay": {"naps": wakes(late_ns=LATE_NS)},
    "shaper accuracy": {"gap_us": FRAME_US * 1.03},
    "timestamp jitter": {"late_us": 400.0},
    "softnet drops": {"looks": machine(dropped=[0] * 6 + [3] * 5)},
    "capture losses": {"facts": {"capture": {"leaf1-eth1": 2}}},
    "clock steps": {"looks": machine(offset_ns=[0] * 4 + [1_000_000] * 7)},
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_one_broken_limit_makes_a_run_unfaithful_and_says_which(tmp_path: Path, name: str) -> None:
    run = real_run(tmp_path / "run", **BROKEN[name])
    found = judged(run)
    assert (found.verdict, [limit.name for limit in found.broken]) == (UNFAITHFUL, [name])
    assert found.words.startswith(f"unfaithful: {name} ")
    assert processor(run).holds is False
    assert summarize(run)["fidelity"]["verdict"] == UNFAITHFUL
    assert summarize(run)["comparison"][0]["fidelity"] == UNFAITHFUL
    html = page(run, [])
    assert "real clock: unfaithful" in html
    assert ">Fidelity</h2>" in html


def test_the_words_name_what_was_measured_and_what_is_allowed(tmp_path: Path) -> None:
    run = real_run(tmp_path / "run", naps=wakes(late_ns=LATE_NS))
    late, most = text.seconds(LATE_NS / 1e9), text.seconds(run.parameters.ideal_seconds / 10)
    assert judged(run).words == f"unfaithful: run-queue delay {late} at the 99th percentile (at most {most})"


def test_where_processes_decide_when_packets_leave_they_may_be_less_late(tmp_path: Path) -> None:
    """Of a collective's steps each waits for a process; a flow's packets wait for timers and queues of the kernel."""
    naps = wakes(late_ns=600_000)
    assert by_name(real_run(tmp_path / "flows", naps=naps), "run-queue delay").holds is True
    limit = by_name(real_run(tmp_path / "steps", {"workload": "collective"}, naps=naps), "run-queue delay")
    assert (limit.holds, limit.most) == (False, pytest.approx(64_000 * 8 / RATE_BPS / 10))


@pytest.mark.parametrize("workload", ["incast", "permutation"])
def test_a_collapse_does_not_loosen_the_limit(tmp_path: Path, workload: str) -> None:
    """A tenth of the round without loss, however long the rounds took; two flows come to one host."""
    long_rounds = [{"start_ns": T0_NS, "end_ns": T0_NS + 60 * 10**9, "bytes": 12_000_000}]
    run = real_run(tmp_path / "run", {"workload": workload, "rounds": long_rounds})
    wire_s = 2 * run.parameters.path.wire_bytes(6_000_000) * 8 / RATE_BPS
    assert by_name(run, "run-queue delay").most == pytest.approx(wire_s / 10, rel=1e-3)


def test_iperf3_sends_for_as_long_as_it_is_asked_to(tmp_path: Path) -> None:
    run = real_run(tmp_path / "run", {"workload": "iperf3"}, keys={"workload": "iperf3", "duration": "3s"})
    assert by_name(run, "run-queue delay").most == pytest.approx(0.3)


# --- where processes decide about packets: pauses, CNPs, a controller's marks

PFC = {"pfc": "on", "traffic_class": "lossless", "headroom": "5KB"}
DCQCN = {"transport": "roce", "cc": "dcqcn", "roce_mtu": "1KiB", "dcqcn_cnp_interval": "50us"}


def lossless_port(drops: int = 0, discards: int = 0, rate_bps: int = RATE_BPS) -> dict[str, Any]:
    """A port of 5 kB of headroom, which 100 Mb/s fill in 400 us."""
    shaper = {"kind": "tbf", "drops": 0, "options": {"rate_bps": RATE_BPS, "burst_bytes": BURST_BYTES}}
    queue = {"kind": "pfc", "drops": drops, "discards": discards, "options": {"headroom_bytes": 5_000}}
    return {"peer": "h1", "hot": True, "rate_bps": rate_bps, "qdiscs": [shaper, queue]}


def lossless_run(path: Path, port: dict[str, Any], **changes: Any) -> Run:
    """PFC at two ports, of which one is given."""
    slow = {**lossless_port(rate_bps=RATE_BPS // 10), "peer": "h9", "hot": False}
    keys = {**PFC, **changes.pop("keys", {})}
    return real_run(path, {"ports": {"leaf1-eth1": port, "leaf1-eth9": slow}}, keys=keys, **changes)


def test_a_pause_may_be_as_late_as_the_first_headroom_to_be_full(tmp_path: Path) -> None:
    for late_ns, holds in ((390_000, True), (410_000, False)):
        limit = by_name(lossless_run(tmp_path / f"{late_ns}", lossless_port(), naps=wakes(late_ns)), "run-queue delay")
        assert (limit.holds, limit.most) == (holds, pytest.approx(400e-6))
        assert "fills the headroom of leaf1-eth1 in 400 µs" in limit.because


def test_a_headroom_that_no_port_tells_of_makes_no_run_faithful(tmp_path: Path) -> None:
    limit = by_name(real_run(tmp_path / "run", keys=PFC), "run-queue delay")
    assert (limit.holds, limit.measured, limit.most) == (None, None, None)
    assert "no port of measured.json tells of its headroom" in limit.source


def test_a_loss_in_the_lossless_class_is_a_late_agents(tmp_path: Path) -> None:
    """Also where lateness was not seen; what a watchdog discarded was not lost for want of room."""
    assert judged(lossless_run(tmp_path / "none", lossless_port(drops=4, discards=4))).verdict == FAITHFUL
    found = judged(lossless_run(tmp_path / "lost", lossless_port(drops=7, discards=4)))
    assert found.words == "unfaithful: lossless drops 3 packets (at most 0 packets)"


def test_a_loss_that_is_allowed_says_nothing_of_the_machine(tmp_path: Path) -> None:
    run = lossless_run(tmp_path / "run", lossless_port(drops=7), keys={"allow_loss": True})
    assert "lossless drops" not in {limit.name for limit in judged(run).limits}


def test_lossless_drops_that_nobody_counted_are_not_none(tmp_path: Path) -> None:
    limit = by_name(real_run(tmp_path / "run", keys=PFC), "lossless drops")
    assert (limit.holds, limit.measured) == (None, None)


def test_a_nic_may_be_as_late_as_its_next_cnp(tmp_path: Path) -> None:
    """The shortest time counts: with PFC and DCQCN that is the CNP's."""
    alone = real_run(tmp_path / "alone", keys=DCQCN)
    both = lossless_run(tmp_path / "both", lossless_port(), keys=DCQCN)
    for run in (alone, both):
        limit = by_name(run, "run-queue delay")
        assert (limit.holds, limit.most) == (False, pytest.approx(50e-6))
        assert "a CNP each 50 µs" in limit.because


def test_a_controller_that_marks_may_be_as_late_as_moves_the_queue_little(tmp_path: Path) -> None:
    by_switch = by_name(real_run(tmp_path / "switch", keys={"marking": "switch"}), "run-queue delay")
    limit = by_name(real_run(tmp_path / "controller", keys={"marking": "controller"}), "run-queue delay")
    assert limit.most == pytest.approx(64_000 * 8 / RATE_BPS / 10)
    assert limit.most < by_switch.most


def test_a_run_that_ended_early_is_never_faithful(tmp_path: Path) -> None:
    """As one does whose agents died: all its rounds may be there."""
    run = real_run(tmp_path / "run", {"complete": False})
    assert judged(run).words == "not measured: completion (measured.json: the run was not completed)"
    worse = real_run(tmp_path / "worse", {"complete": False}, **BROKEN["clock steps"])
    assert judged(worse).verdict == UNFAITHFUL


MISSING = {
    "machine.parquet": ["CPU headroom", "hosts' process", "softnet drops", "clock steps"],
    "wakes.parquet": ["run-queue delay"],
    "leaf1-eth1.pcap": ["shaper accuracy", "timestamp jitter"],
}


@pytest.mark.parametrize("name", list(MISSING))
def test_what_was_not_measured_makes_no_run_faithful(tmp_path: Path, name: str) -> None:
    run = real_run(tmp_path / "run")
    (file,) = run.path.rglob(name)
    file.unlink()
    again = Run(run.path)
    assert judged(again).verdict == NOT_MEASURED
    assert [limit.name for limit in judged(again).unmeasured] == MISSING[name]
    assert processor(again).holds is None
    assert all(limit.measured is None for limit in judged(again).unmeasured)


@pytest.mark.parametrize(
    ("changes", "name", "words"),
    [
        ({"naps": wakes(count=19)}, "run-queue delay", "19 naps of the guard in the rounds, of 20 needed: more rounds"),
        ({"facts": {"capture": {}}}, "capture losses", "nothing was captured"),
        ({"gap_us": 0.05}, "shaper accuracy", "fewer than 100 frames are known to have waited at leaf1-eth1"),
        ({"facts": {"rounds": []}}, "CPU headroom", "measured.json has no finished round"),
        ({"looks": machine(time_ns=[T0_NS - 1_000 + place for place in range(11)])}, "CPU headroom", "no rows of"),
    ],
)
def test_too_little_says_so(tmp_path: Path, changes: dict[str, Any], name: str, words: str) -> None:
    found = by_name(real_run(tmp_path / "run", **changes), name)
    assert found.holds is None
    assert words in found.source


def test_naps_outside_the_rounds_do_not_count(tmp_path: Path) -> None:
    naps = wakes()
    naps["time_ns"] = [T0_NS - 10**9, *naps["time_ns"]]
    naps["late_ns"] = [10**9, *naps["late_ns"]]
    assert judged(real_run(tmp_path / "run", naps=naps)).verdict == FAITHFUL


def test_a_clock_step_within_what_the_reading_may_err_is_none(tmp_path: Path) -> None:
    looks = machine(offset_ns=[0] * 4 + [200_000] * 7, reading_ns=[500] * 4 + [400_000] + [500] * 6)
    assert by_name(real_run(tmp_path / "run", looks=looks), "clock steps").holds is True


def test_frames_that_failures_may_have_held_up_do_not_count(tmp_path: Path) -> None:
    failures = [{"time_ns": T0_NS, "target": "leaf1", "action": "down"}]
    assert by_name(real_run(tmp_path / "run", facts={"failures": failures}), "shaper accuracy").holds is None


# --- the shaper, from frames by hand


def frames(times: list[int], keys: list[int], size: int = 1000) -> Frames:
    return Frames(np.array(times, np.int64), np.full(len(times), size), np.array(keys, np.uint64))


def test_a_frame_came_when_it_was_last_sent_before_it_left() -> None:
    sent = frames([10, 20, 25, 90], [1, 2, 1, 1])
    assert shaping.came_ns(frames([30, 40, 50], [1, 2, 3]), sent).tolist() == [25, 20, -1]
    assert shaping.came_ns(frames([], []), sent).tolist() == []
    assert shaping.came_ns(frames([5], [1]), frames([], [])).tolist() == [-1]


def test_frames_waited_where_they_came_before_the_one_ahead_left() -> None:
    left = frames([100, 200, 300, 900, 1000], [1, 2, 3, 4, 5])
    came = np.array([50, 60, 70, 850, 860])
    assert shaping.waiting_spans(left, came, way_ns=0) == [(0, 2), (3, 4)]
    assert shaping.waiting_spans(left, came, way_ns=41) == [(1, 2)]
    assert shaping.waiting_spans(left, np.array([50, -1, 70, 850, 860]), way_ns=0) == [(1, 2), (3, 4)]


def test_what_a_bucket_has_saved_up_is_not_its_rate() -> None:
    """Ten frames at once from a full bucket, then one each 1,000 ns: 8 Gb/s."""
    times = [0] * 10 + [1000 * (place + 1) for place in range(200)]
    left = frames(times, list(range(210)))
    with_burst = shaping.shaped(left, [(0, 209)], 8 * 10**9, saved_ns=0)
    without = shaping.shaped(left, [(0, 209)], 8 * 10**9, saved_ns=500)
    assert with_burst is not None
    assert without is not None
    assert with_burst.rate_bps > 8.2e9
    assert (without.rate_bps, without.jitter_s, without.gaps) == (8e9, 0.0, 199)


def test_frames_of_one_time_have_no_rate() -> None:
    assert shaping.shaped(frames([0] * 210, list(range(210))), [(0, 209)], 8 * 10**9, saved_ns=0) is None


def test_one_in_a_hundred_may_be_later() -> None:
    assert shaping.percentile_99(np.array([1] * 99 + [7])) == 1
    assert shaping.percentile_99(np.array([1] * 98 + [7, 8])) == 7
    assert shaping.percentile_99(np.array([3, 9])) == 9


# --- the probe


def test_the_probe_looks_while_the_block_runs_and_leaves_its_records(tmp_path: Path) -> None:
    (tmp_path / "telemetry").mkdir()
    begin_ns = time.time_ns()
    with Probe(tmp_path / "telemetry") as probe:
        time.sleep(0.5)
    end_ns = time.time_ns()
    (tmp_path / "measured.json").write_text("{}")
    records.convert(tmp_path)
    found = {
        name: pyarrow.parquet.read_table(tmp_path / "telemetry" / f"{name}.parquet").to_pydict()
        for name in ("wakes", "machine")
    }
    assert (tuple(found["wakes"]), tuple(found["machine"])) == (WAKE_COLUMNS, MACHINE_COLUMNS)
    assert all(begin_ns <= time_ns <= end_ns for time_ns in found["wakes"]["time_ns"])
    assert all(late_ns >= 0 for late_ns in found["wakes"]["late_ns"])
    assert 10 <= len(found["wakes"]["time_ns"]) <= 600
    assert 2 <= len(found["machine"]["time_ns"]) <= 7
    assert all(later >= sooner for sooner, later in zip(found["machine"]["idle_ns"], found["machine"]["idle_ns"][1:]))
    assert probe.facts["cpus"] >= 1
    assert 0 < probe.facts["probe_share"] < 1


def test_a_process_that_cannot_work_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with status 1"), Probe(tmp_path / "nowhere"):
        pass


def test_a_child_that_does_not_start_says_so() -> None:
    def fail(is_ready: Any) -> None:
        raise OSError("no")

    with pytest.raises(RuntimeError, match=r"^the worker did not start$"), child.Child("the worker", fail):
        pytest.fail("the block ran")


def test_a_damaged_record_is_told_and_decides_nothing(tmp_path: Path) -> None:
    run = real_run(tmp_path / "run")
    (run.path / "telemetry" / "wakes.parquet").write_bytes(b"")
    assert "cannot be read" in by_name(Run(run.path), "run-queue delay").source


def test_a_fidelity_of_the_wrong_kind_is_named(tmp_path: Path) -> None:
    run = real_run(tmp_path / "run", {"fidelity": {"cpus": "one"}})
    with pytest.raises(BadRequest, match=r"fidelity.cpus: 'one' is given; allowed: a whole number"):
        judge(run)
