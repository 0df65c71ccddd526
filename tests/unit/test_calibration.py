"""Calibration: which rate is tried next, what is kept, and what a spec above it is told."""

from __future__ import annotations

import errno
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.fidelity import FAITHFUL, UNFAITHFUL
from experiments import calibrate, cli, limits
from experiments.calibrate import LADDER_BPS, Search, Step, step_spec
from experiments.calibration import Calibration, Machine, fitting, load, store, warnings
from experiments.commands import machine, running
from experiments.runner import RunFailed, Setting
from experiments.spec import parse
from topologies.units import BadRequest

MACHINE = Machine("machine", "6.12", "a processor", 2)
FOUND = Calibration(MACHINE, 9, 200_000_000, 500_000_000, "2026-01-02")


def searched(limit_bps: float, unlucky: frozenset[int] = frozenset()) -> Search:
    """A search on a machine that carries up to `limit_bps`, but for tries of these numbers."""
    search = Search()
    while (rate_bps := search.next_bps()) is not None:
        faithful = rate_bps <= limit_bps and len(search.steps) not in unlucky
        search.steps.append(Step(rate_bps, FAITHFUL if faithful else UNFAITHFUL, ""))
        assert len(search.steps) < 40
    return search


def test_the_ladder_is_climbed_and_the_gap_halved() -> None:
    search = searched(300e6)
    tried = [step.rate_bps / 1e6 for step in search.steps]
    assert tried == [10, 20, 50, 100, 200, 500, 500, 320, 320, 250]
    assert (search.faithful_bps, search.unfaithful_bps) == (250_000_000, 320_000_000)


def test_a_machine_that_carries_all_or_nothing() -> None:
    fast, slow = searched(1e12), searched(0)
    assert (fast.faithful_bps, fast.unfaithful_bps, len(fast.steps)) == (LADDER_BPS[-1], None, len(LADDER_BPS))
    assert (slow.faithful_bps, slow.unfaithful_bps, len(slow.steps)) == (0, LADDER_BPS[0], 2)


def test_one_unlucky_try_is_no_answer() -> None:
    lucky, unlucky = searched(100e6), searched(100e6, frozenset((1,)))
    assert unlucky.faithful_bps == lucky.faithful_bps
    assert len(unlucky.steps) == len(lucky.steps) + 1


@given(st.floats(5e6, 2e10), st.sets(st.integers(0, 12), max_size=3))
def test_the_answer_is_never_above_what_the_machine_carries(limit_bps: float, unlucky: set[int]) -> None:
    search = searched(limit_bps, frozenset(unlucky))
    assert search.faithful_bps <= limit_bps
    assert search.unfaithful_bps is None or search.faithful_bps < search.unfaithful_bps


@pytest.mark.parametrize("hosts", [3, 9, 128, 1024])
@pytest.mark.parametrize("rate_bps", LADDER_BPS)
def test_steps_are_incasts_of_about_a_second(hosts: int, rate_bps: int) -> None:
    spec = step_spec(hosts, rate_bps, has_delay=True)
    assert (spec.workload, spec.hosts, spec.senders, spec.rate_bps, spec.capture) == (
        "incast", hosts, hosts - 1, rate_bps, "all",
    )  # fmt: skip
    round_bytes = spec.sru_bytes * (hosts - 1)
    seconds = spec.rounds * round_bytes * 8 / rate_bps
    assert 0.6 < seconds < 1.4
    assert spec.rounds == 1 or spec.sru_bytes == 256 * 1024
    assert spec.buffer_bytes is not None and spec.buffer_bytes > round_bytes  # no losses
    assert spec.delay_ns > 0


def test_a_calibrated_round_is_as_short_as_an_incasts() -> None:
    fast, slow = step_spec(9, 10**9, has_delay=True), step_spec(9, 10**7, has_delay=True)
    assert fast.rounds > 50 and slow.rounds == 1


def test_steps_have_no_delay_where_no_netem_is() -> None:
    assert step_spec(9, 250_000_000, has_delay=False).rtt_ns == 0


def test_what_is_kept_is_read_back_and_replaces_its_like(tmp_path: Path) -> None:
    file = tmp_path / "new" / "calibration.json"
    assert load(file) == []
    other, newer = replace(FOUND, hosts=33), replace(FOUND, rate_bps=1_000_000)
    for each in (FOUND, other, newer):
        store(file, each)
    assert load(file) == [other, newer]
    assert [path.name for path in file.parent.iterdir()] == ["calibration.json"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 2, "calibrations": []}', '{"format": 1, "calibrations": [{}]}']
)
def test_a_file_that_is_no_calibration_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "calibration.json"
    file.write_text(text)
    with pytest.raises(BadRequest, match=r"calibration\.json: is no calibration"):
        load(file)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("rate_bps", value) for value in ("fast", None, 1.5, -5, True)),
        *(("hosts", value) for value in ("9", None, 2)),
        *(("unfaithful_bps", value) for value in ("slow", 0)),
        *(("date", 2026), ("cores", "2"), ("cores", 0), ("kernel", None)),
    ],
)
def test_a_value_of_the_wrong_kind_is_no_calibration(tmp_path: Path, key: str, value: object) -> None:
    file = tmp_path / "calibration.json"
    store(file, FOUND)
    document = json.loads(file.read_text())
    (stored,) = document["calibrations"]
    (stored["machine"] if key in stored["machine"] else stored)[key] = value
    file.write_text(json.dumps(document))
    with pytest.raises(BadRequest, match=rf"calibration\.json: is no calibration \({key}: "):
        load(file)


def test_a_calibration_without_an_unfaithful_rate_is_one(tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    store(file, replace(FOUND, rate_bps=0, unfaithful_bps=None))
    assert load(file) == [replace(FOUND, rate_bps=0, unfaithful_bps=None)]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "calibration.json"
    store(file, FOUND)
    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        store(file, replace(FOUND, hosts=33))
    assert [path.name for path in tmp_path.iterdir()] == ["calibration.json"]
    assert load(file) == [FOUND]


def full_disk(*arguments: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def calibrating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command `calibrate`, which finds FOUND without work, and the file that it keeps it in."""
    monkeypatch.setenv("FABRICLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(machine, "setting_of", lambda *given: Setting(None, "real", ()))
    monkeypatch.setattr(calibrate, "calibrate", lambda *given: FOUND)
    return tmp_path / "calibration.json"


def test_a_damaged_file_is_refused_before_the_work(
    calibrating: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calibrating.write_text("{")
    monkeypatch.setattr(calibrate, "calibrate", lambda *given: pytest.fail("worked"))
    assert cli.main(["calibrate", "--on", "lab"]) == 2
    assert "is no calibration" in capsys.readouterr().err


def test_what_was_found_is_printed_though_it_cannot_be_kept(
    calibrating: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Path, "write_text", full_disk)
    assert cli.main(["calibrate", "--on", "lab", "--json"]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["rate_bps"] == FOUND.rate_bps
    assert told.err == (
        f"run_experiment: calibrate: not kept in {calibrating}: [Errno {errno.ENOSPC}] No space left on device\n"
    )
    assert not list(calibrating.parent.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_calibration_is_no_failure(
    calibrating: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    folders: list[Path] = []

    def stopped(folder: Path, *given: object) -> None:
        folders.append(folder)
        os.kill(os.getpid(), number)
        raise RunFailed("calibrate: interrupted")

    monkeypatch.setattr(calibrate, "calibrate", stopped)
    assert cli.main(["calibrate", "--on", "lab"]) == 130
    assert capsys.readouterr().err.endswith("\nrun_experiment: calibrate: interrupted\n")
    assert folders[0].name.startswith(f"fabriclab-lab-{os.getpid()}-")
    assert not folders[0].exists() and not calibrating.exists()


def test_a_damaged_file_does_not_keep_a_run_from_its_work(
    calibrating: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calibrating.write_text("[]")
    spec = limits.resolve(parse({"senders": 8}))
    running._warn_of_the_real_clock(Setting(None, "real", ()), {"main": spec})
    told = capsys.readouterr().err
    assert told.startswith(f"warning: {calibrating}: is no calibration") and told.count("\n") == 1


def test_the_next_larger_calibration_of_this_machine_counts() -> None:
    known = [
        FOUND,
        replace(FOUND, hosts=17),
        replace(FOUND, hosts=65),
        replace(FOUND, machine=replace(MACHINE, cores=8)),
    ]
    assert [fitting(known, MACHINE, hosts) for hosts in (2, 9, 10, 65, 66)] == [
        FOUND, FOUND, known[1], known[2], None,
    ]  # fmt: skip
    assert fitting(known, replace(MACHINE, kernel="6.13"), 9) is None


def test_a_spec_above_what_is_carried_is_warned_of() -> None:
    specs = {
        label: limits.resolve(parse({"senders": 8, "rate": rate, "delay": "0ns", "switch_delay": "0ns"}))
        for label, rate in (("main", "100Mbps"), ("fast", "1Gbps"))
    }
    (line,) = warnings(specs, [FOUND], MACHINE)
    assert line.startswith("fast: rate: 1Gbps is given, and this machine carries 200Mbps faithfully with 9 hosts")
    (line,) = warnings(specs, [], MACHINE)
    assert "./run_experiment calibrate --hosts 9 --on machine" in line
    nothing = warnings(specs, [replace(FOUND, rate_bps=0)], MACHINE)
    assert len(nothing) == 2 and "nothing that was tried" in nothing[0]
