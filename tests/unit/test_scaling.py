"""Slower time: every key that has a time in it is slowed down, what matters is kept, and what is lost is told."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from analysis.original_time import in_original_time, line
from analysis.pages.original_time import original_time_section
from analysis.run import Run
from experiments import limits, request
from experiments.catalog import Labelled, catalog, plan
from experiments.cli import main
from experiments.slow_motion import spec as slow_spec
from experiments.slow_motion.kept_and_lost import Row, kept, lost
from experiments.slow_motion.pace import Pace
from experiments.slow_motion.runs import slowed_and_told
from experiments.spec import Spec, keys, parse
from tests.unit.test_analysis_run import make_run
from topologies.units import BadRequest

TIMES = 1000
PACE = Pace(Fraction(TIMES), Fraction(TIMES))
# Keys whose value has times or rates in it under another name than `_ns` or `_bps`.
SCHEDULES = {"failure", "traffic", "stuck", "slow_link"}


def resolved(**given: str) -> Spec:
    return limits.resolve(parse(given))


def slowed(spec: Spec, times: int = TIMES) -> Spec:
    return slow_spec.slowed(spec, Fraction(times))


def told(rows: list[Row]) -> dict[str, Row]:
    return {row.name: row for row in rows}


# --- every key


@pytest.mark.parametrize("name", keys())
def test_a_key_is_slowed_down_if_and_only_if_it_has_a_time_in_it(name: str) -> None:
    item = keys()[name]
    kind, is_ns, is_bps = item.metadata["kind"], item.name.endswith("_ns"), item.name.endswith("_bps")
    value: Any = 8_000_000 if is_ns or is_bps else item.default
    expected = value * TIMES if is_ns else value // TIMES if is_bps else value
    assert kind.slowed(value, PACE) == expected


def test_schedules_are_slowed_down() -> None:
    at = {
        "failure": ("leaf1-spine1:down@10ms", "leaf1-spine1:down@10s"),
        "traffic": ("h2>h1@5ms,h3>h1@0ns-20ms", "h2>h1@5s,h3>h1@0ns-20s"),
        "stuck": ("h1@2ms,h2@2ms-12ms", "h1@2s,h2@2s-12s"),
        "slow_link": ("h3:10Gbps", "h3:10Mbps"),
    }
    assert set(at) == SCHEDULES
    for name, (before, after) in at.items():
        kind = keys()[name].metadata["kind"]
        assert kind.format(kind.slowed(kind.parse(before, name), PACE)) == after


def test_no_value_of_a_key_hides_a_time() -> None:
    """Values that are objects have times in them, and are those of the schedules above; of what the user's own code
    waits nobody knows (kept_and_lost says so)."""
    classes = {
        name: set(re.findall(r"\b[A-Z]\w+", str(item.type))) - {"None", "Fraction"} for name, item in keys().items()
    }
    assert {name: found for name, found in classes.items() if found} == {
        **{key: {"Plug"} for key in ("topology", "workload", "policy")},
        "failure": {"Failure"},
        "traffic": {"Flow"},
        "stuck": {"Stuck"},
    }


def test_off_and_auto_stay() -> None:
    for name in ("pfc_watchdog", "timeout", "uplink_rate"):
        kind = keys()[name].metadata["kind"]
        assert kind.slowed(None, PACE) is None or kind.slowed(0, PACE) == 0


# --- whole specs


@pytest.mark.parametrize("name", [name for name in catalog() if name != "launch"])
@pytest.mark.parametrize("times", [1, 7, 50])
def test_every_experiment_can_be_slowed_down_and_keeps_its_shape(name: str, times: int) -> None:
    main_spec = plan(catalog()[name], {}).main
    before = limits.resolve(main_spec)
    after = slowed(before, times)
    same, cut = kept(before, after), told(lost(before, after, is_real=False))
    assert {"buffer / frame", "senders" if before.senders else "hosts"} <= set(told(same))
    assert not any("whole" in row.why for row in cut.values())
    assert before.buffer_bytes == after.buffer_bytes
    assert limits.resolve(after) == after


def test_once_as_slow_is_the_same() -> None:
    spec = resolved()
    assert slowed(spec, 1) == spec
    assert lost(spec, spec, is_real=True) == []


@given(st.integers(1, 600))
def test_what_matters_is_kept(times: int) -> None:
    before = resolved()
    after = slowed(before, times)
    same = told(kept(before, after))
    assert {"senders", "buffer / frame", "rto_min / RTT", "bytes (SRU) / BDP", "buffer / BDP", "jitter / RTT"} <= set(
        same
    )
    assert after.rto_min_ns / after.rtt_ns == pytest.approx(before.rto_min_ns / before.rtt_ns)
    assert after.rate_bps * after.rtt_ns == pytest.approx(before.rate_bps * before.rtt_ns, rel=1e-6)


def test_by_hand() -> None:
    after = slowed(resolved(rate="400Gbps", delay="500ns", switch_delay="400ns", rto_min="1ms", jitter="100us"), 4000)
    text = after.as_text()
    found = {key: text[key] for key in ("rate", "delay", "switch_delay", "rto_min", "jitter", "buffer", "bytes", "mtu")}
    assert found == {
        "rate": "100Mbps", "delay": "2ms", "switch_delay": "1.6ms", "rto_min": "4s", "jitter": "400ms",
        "buffer": "600KB", "bytes": "256KiB", "mtu": "1.5KB",
    }  # fmt: skip


def test_thresholds_that_follow_from_the_rate_are_those_of_the_original_rate() -> None:
    before = resolved(transport="roce", queue="dcqcn", pfc="on")
    after = slowed(before)
    for key in ("kmin_bytes", "kmax_bytes", "headroom_bytes", "xoff_bytes", "xon_bytes", "pause_quanta"):
        assert getattr(after, key) == getattr(before, key)
    assert after.dcqcn_rate_timer_ns == TIMES * (before.dcqcn_rate_timer_ns or 0) == 55_000_000
    assert after.dcqcn_rai_bps == (before.dcqcn_rai_bps or 0) // TIMES == 40_000


def test_links_keep_their_ratios_where_rates_cannot_be_divided() -> None:
    before = resolved(
        topology="leaf_spine", workload="permutation", rate="100Gbps", uplink_rate="200Gbps", hosts_per_leaf="4"
    )
    after = slowed(before, 7)
    assert (before.uplink_rate_bps, after.uplink_rate_bps) == (2 * before.rate_bps, 2 * after.rate_bps)
    assert after.rate_bps % 8 == 0
    assert after.rate_bps == pytest.approx(100e9 / 7, rel=1e-9)
    assert after.delay_ns == 7 * before.delay_ns


# --- what is lost


def test_the_timeout_ends_where_the_kernels_does() -> None:
    before = resolved()
    after = slowed(before, 4000)
    assert after.rto_min_ns == 120 * 10**9
    rows = told(lost(before, after, is_real=False))
    row = rows["rto_min / RTT"]
    assert (row.before, row.after) == (200e6 / 2800, 120e9 / (4000 * 2800))
    assert "120 s" in row.why
    assert (rows["doublings of the timeout"].before, rows["doublings of the timeout"].after) == (9, 0)


def test_the_kernels_own_timers_are_lost_in_round_trips() -> None:
    before = resolved()
    rows = told(lost(before, slowed(before), is_real=False))
    rtt_ns = 2800
    for name, own_ns in {
        "timers' tick / RTT": 1e6,
        "first timeout, of a SYN / RTT": 1e9,
        "HyStart's least delay / RTT": 4e6,
    }.items():
        assert rows[name].before == pytest.approx(own_ns / rtt_ns)
        assert rows[name].after == pytest.approx(own_ns / rtt_ns / TIMES)
    probe = rows["tail loss probe / RTT"]
    assert (probe.before, probe.after) == (pytest.approx(2 + 2e6 / rtt_ns), pytest.approx(2 + 2e6 / rtt_ns / TIMES))


@pytest.mark.parametrize(
    ("given", "name", "is_told"),
    [
        ({"tlp": "off"}, "tail loss probe / RTT", False),
        ({"sack": "off", "rack": "off"}, "RACK's timer / RTT", False),
        ({"tlp": "off"}, "RACK's timer / RTT", True),
        ({"cc": "reno"}, "CUBIC's way back after a loss / RTT", False),
        ({"cc": "bbr"}, "BBR's window of the least RTT / RTT", True),
        ({"transport": "roce"}, "acknowledgement timeout / RTT", True),
        ({"transport": "roce"}, "timers' tick / RTT", False),
        ({"delay": "0ns", "switch_delay": "0ns"}, "timers' tick / frame time", True),
    ],
)
def test_only_what_applies_is_told(given: dict[str, str], name: str, is_told: bool) -> None:
    before = resolved(**given)
    assert (name in told(lost(before, slowed(before), is_real=False))) is is_told


def test_computing_takes_time_on_the_real_clock_alone() -> None:
    before = resolved()
    name = "processing of a packet / frame time"
    after = slowed(before)
    assert name not in told(lost(before, after, is_real=False))
    row = told(lost(before, after, is_real=True))[name]
    assert row.before == pytest.approx(TIMES * row.after)


def test_a_controllers_latency_ends_at_a_second() -> None:
    before = resolved(topology="leaf_spine", workload="permutation")
    after = slowed(before, 2000)
    assert after.control_latency_ns == 10**9
    assert told(lost(before, after, is_real=False))["control_latency / RTT"].before == pytest.approx(
        2 * told(lost(before, after, is_real=False))["control_latency / RTT"].after
    )


# --- how long it takes


def test_wall_time_by_hand() -> None:
    """64 x 256 KiB at 400 Mb/s take 0.3355 s; with 200 s of timeout in each of four rounds and a minute to set up, 15
    minutes are needed."""
    after = slowed(resolved())
    assert slow_spec.ideal_s(after) == pytest.approx(4 * 64 * 262144 * 8 / 4e8)
    assert slow_spec.stalled_s(after) == pytest.approx(4 * 64 * 262144 * 8 / 4e8 + 4 * 120)
    assert slow_spec.watchdog_s(after) == 600


def test_a_program_takes_as_long_as_it_takes() -> None:
    before = resolved(workload="launch", command="true", topology="leaf_spine")
    assert (slow_spec.ideal_s(before), slow_spec.stalled_s(before), slow_spec.watchdog_s(before)) == (None, None, None)


# --- what a user gives and reads


@pytest.mark.parametrize(
    "text", ["0", "-1", "0.5", "nan", "inf", "1e3", "", "ten", "1000001", "1,000", " 5", "5x", "1/2", "٣"]
)
def test_a_bad_scale_is_one_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["incast", f"--scale={text}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"run_experiment: --scale: {text!r} is given; allowed: how many times slower, 1 to 1,000,000"
    )


@pytest.mark.parametrize(("text", "times"), [("1", 1), ("1000", 1000), ("2.5", Fraction(5, 2)), ("1000000", 10**6)])
def test_a_scale_is_read(text: str, times: Fraction) -> None:
    assert slow_spec.read_times(text) == times
    assert slow_spec.as_number(Fraction(times)) == float(text)


def test_a_scale_that_no_fabric_can_have_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["incast", "--scale", "1000000"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "run_experiment: --scale: 1000000 is given, with which delay, switch_delay: a round trip of 2.8s"
    )


def test_rates_without_a_common_divisor_need_another_scale() -> None:
    spec = resolved(slow_link="h3:400000000008bps")
    with pytest.raises(BadRequest, match=r"^--scale: 7 is given, and links of all rates take whole bytes"):
        slowed(spec, 7)


def lines(runs: list[Labelled], times: int = TIMES, watchdog_s: float = 900) -> list[str]:
    said: list[str] = []
    slowed_and_told(runs, Fraction(times), watchdog_s, said.append)
    return said


def test_both_lists_and_the_wall_time_are_told() -> None:
    said = lines([Labelled("main", resolved(), "real")], watchdog_s=300)
    assert said[0] == "--scale 1000: in main time runs 1,000 times slower"
    assert said[1] == "  rate: 400Gbps -> 400Mbps"
    assert said.index("kept:") < said.index("  senders: 64") < said.index("lost:")
    assert any(line.startswith("  tail loss probe / RTT: 716 -> 2.71 (") for line in said)
    assert (
        said[-1]
        == "main: takes 1.3 s of wall time at the least, 481 s with a timeout in each round: needs --watchdog 600"
    )


def test_in_virtual_time_no_wall_time_is_told() -> None:
    assert not any("wall time" in line for line in lines([Labelled("main", resolved(), "virtual")]))


def test_cases_tell_only_what_the_main_run_does_not() -> None:
    runs = [Labelled("main", resolved(), "virtual"), Labelled("rto_1ms", resolved(rto_min="1ms"), "virtual")]
    told_of_case = [line for line in lines(runs, times=100) if line.startswith("  rto_1ms: ")]
    assert any("delayed acknowledgement / rto_min" in line for line in told_of_case)
    assert not any("tail loss probe" in line for line in told_of_case)


def test_a_case_that_cannot_be_so_slow_is_left_out() -> None:
    runs = [Labelled("main", resolved(delay="0ns"), "virtual"), Labelled("long", resolved(delay="1ms"), "virtual")]
    said: list[str] = []
    assert [label for label, _ in slowed_and_told(runs, Fraction(1000), 900, said.append)] == ["main"]
    assert said[0].startswith("warning: long: left out: --scale: 1000 is given, with which delay, switch_delay: ")


# --- what becomes of it afterwards


def write_yaml(path: Path, **keys: object) -> str:
    path.write_text(yaml.safe_dump({"experiment": "incast", **keys}))
    return str(path)


def test_a_spec_that_was_slowed_down_says_so_when_it_is_run_again(tmp_path: Path) -> None:
    wanted = request.requested(write_yaml(tmp_path / "spec.yaml", rate="400Mbps", time_scale=1000))
    assert (wanted.time_scale, wanted.keys) == ("1000", {"rate": "400Mbps"})


def test_it_is_not_slowed_down_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_yaml(tmp_path / "spec.yaml", rate="400Mbps", time_scale=1000)
    assert main(["run", path, "--scale", "10"]) == 2
    assert "--scale: 10 is given with a spec that is 1000 times slower already" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["many", 0, [1], {"a": 1}])
def test_a_bad_scale_in_a_file_is_one_line(tmp_path: Path, value: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", write_yaml(tmp_path / "spec.yaml", time_scale=value)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def with_scale(run: Run, scale: object) -> Run:
    path = run.path / "spec.yaml"
    path.write_text(yaml.safe_dump({**run.spec, "time_scale": scale}))
    return Run(run.path)


def test_figures_are_told_in_the_original_time(tmp_path: Path) -> None:
    plain = make_run(tmp_path)
    assert (in_original_time(plain), line(plain), original_time_section(plain)) == (None, "", "")
    run = with_scale(plain, 500)
    found = in_original_time(run)
    assert found is not None
    assert found["time_scale"] == 500
    seconds = sorted(each.seconds for each in run.rounds)
    assert found["longest_round_s"] == pytest.approx(seconds[-1] / 500)
    assert found["goodput_bps"] == pytest.approx(
        500 * sum(each.payload_bytes for each in run.rounds) * 8 / sum(seconds)
    )
    assert "500 times faster" in line(run)
    assert "500 times faster, as asked" in original_time_section(run)


@pytest.mark.parametrize("scale", ["500", True, 0, -1, 1e300, [500], {"times": 5}])
def test_a_damaged_scale_is_refused(tmp_path: Path, scale: object) -> None:
    with pytest.raises(BadRequest, match=r"spec\.yaml: time_scale "):
        in_original_time(with_scale(make_run(tmp_path), scale))
