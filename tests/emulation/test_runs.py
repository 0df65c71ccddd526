"""`./run_experiment` from end to end: what it leaves, that it tells the truth, and every way to interrupt it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from experiments.catalog import catalog
from experiments.spec import Spec
from lab.kernel import Kernel
from tests.conftest import ROOT
from tests.emulation.captures import Frame, read
from tests.emulation.conftest import RUN_LIMIT_S, Done, run_experiment
from tests.emulation.host import children_of, processes_of_session, within
from topologies.units import parse_bytes

pytestmark = pytest.mark.lab

SENDERS = 16
SUMMARY_KEYS = {
    "experiment", "spec", "seed", "clock", "goodput_bps", "rounds", "ideal_seconds", "packets", "drops",
    "retransmits", "timeouts", "stalls", "ecn_marks", "cnps", "pfc_pauses", "pfc_paused_s", "queue_bytes",
    "verdict", "virtual_s", "wall_s", "packets_per_wall_s", "kernel",
}  # fmt: skip
INTERRUPTED = 130
# Twenty seconds of host time or more, with no capture to grow meanwhile but the hot port's.
LONG = ("--only", *(f"--set={word}" for word in ("senders=4", "bytes=64KiB", "rounds=20000", "capture=hot")))


def data_frames(run: Done, point: str) -> list[Frame]:
    """TCP frames that carry data to h1."""
    frames = read(run.folder / "pcap" / f"{point}.pcap")
    return [frame for frame in frames if frame.is_ip and frame.destination == "10.0.0.1" and frame.wire_bytes > 14 + 60]


# --- a run that ends well


def test_a_run_ends_well_and_prints_one_document(collapse: Done) -> None:
    assert collapse.status == 0, collapse.stderr
    summary = json.loads(collapse.stdout)
    assert summary == collapse.document("summary.json")
    assert set(summary) >= SUMMARY_KEYS
    assert (summary["experiment"], summary["clock"], summary["complete"]) == ("incast", "virtual", True)
    assert summary["spec"]["senders"] == SENDERS
    assert len(summary["rounds"]) == summary["spec"]["rounds"]
    assert summary["missing"] == []


def test_a_run_leaves_every_file(collapse: Done) -> None:
    captures = {
        f"pcap/{point}.pcap" for point in ("leaf1-eth1", *(f"h{number}-eth0" for number in range(2, SENDERS + 2)))
    }
    files = {str(path.relative_to(collapse.folder)) for path in collapse.folder.rglob("*") if path.is_file()}
    assert files >= captures | {
        "spec.yaml", "fabric.json", "measured.json", "provenance.json", "summary.json", "report.html",
        "telemetry/queue.parquet",
    }  # fmt: skip
    assert {file for file in files if not file.startswith(("pcap/", "figures/", "telemetry/"))} == {
        "spec.yaml", "fabric.json", "measured.json", "provenance.json", "summary.json", "report.html"
    }  # fmt: skip


def test_provenance_says_where_it_came_from(collapse: Done, kernel: Kernel) -> None:
    provenance = collapse.document("provenance.json")
    assert provenance["ended_as"] == "done"
    assert (provenance["seed"], provenance["clock"]) == (1, "virtual")
    assert (provenance["kernel"]["version"], provenance["kernel"]["config_hash"]) == (
        kernel.version,
        kernel.config_hash,
    )
    assert provenance["command"][:2] == ["./run_experiment", "incast"]
    assert provenance["started"] <= provenance["ended"]
    assert {"boot_s", "setup_s", "rounds_s", "total_s"} == set(provenance["wall"])


def test_every_byte_arrived_in_every_round(collapse: Done) -> None:
    spec, rounds = collapse.document("summary.json")["spec"], collapse.document("measured.json")["rounds"]
    assert [each["bytes"] for each in rounds] == spec["rounds"] * [SENDERS * parse_bytes(spec["bytes"])]
    for each, following in zip(rounds, rounds[1:]):
        assert each["start_ns"] < each["end_ns"] < following["start_ns"]


def test_drops_are_the_ports_and_what_the_captures_miss(collapse: Done) -> None:
    measured, summary = collapse.document("measured.json"), collapse.document("summary.json")
    queues = [
        item
        for stack in (*measured["ports"].values(), *measured["nics"].values())
        for item in stack["qdiscs"]
        if item["kind"] in ("bfifo", "pfc", "red")
    ]
    sent = [frame for number in range(2, SENDERS + 2) for frame in data_frames(collapse, f"h{number}-eth0")]
    assert summary["drops"] == sum(item["drops"] for item in queues) > 100
    assert summary["drops"] == len(sent) - len(data_frames(collapse, "leaf1-eth1"))


def test_retransmissions_agree_with_the_kernels_counters(collapse: Done) -> None:
    measured, summary = collapse.document("measured.json"), collapse.document("summary.json")
    kernel = {
        name: sum(host.get(name, 0) for host in measured["tcp"].values()) for name in ("RetransSegs", "TCPTimeouts")
    }
    assert (summary["retransmits"], summary["timeouts"]) == (kernel["RetransSegs"], kernel["TCPTimeouts"])
    assert kernel["RetransSegs"] > 100
    assert kernel["TCPTimeouts"] > 0
    assert kernel["RetransSegs"] == sum(flow["tcp_info"]["total_retrans"] for flow in measured["flows"])
    compared = {each["counter"] for each in summary["kernel_counters"]}
    assert {"RetransSegs", "TCPTimeouts", "TCPFastRetrans"} <= compared
    assert [each for each in summary["kernel_counters"] if not each["agrees"]] == []


def test_captures_are_complete(collapse: Done) -> None:
    measured = collapse.document("measured.json")
    assert set(measured["capture"].values()) == {0}
    for flow in measured["flows"]:
        assert len(data_frames(collapse, f"{flow['sender']}-eth0")) == flow["tcp_info"]["data_segs_out"]
    assert (
        sum(flow["tcp_info"]["data_segs_out"] for flow in measured["flows"])
        == collapse.document("summary.json")["packets"]
    )


def test_queue_samples_never_exceed_the_buffer_and_reach_it(collapse: Done) -> None:
    summary = collapse.document("summary.json")
    buffer_bytes = parse_bytes(summary["spec"]["buffer"])
    assert buffer_bytes - 1514 < summary["queue_bytes"]["max"] <= buffer_bytes


def test_the_host_is_as_it_was(collapse: Done) -> None:
    assert collapse.host_after == collapse.host_before


def test_an_experiment_runs_its_cases_and_compares_them(kernel: Kernel, tmp_path: Path) -> None:
    done = run_experiment(tmp_path / "run", "incast", "--set", "senders=4", "--set", "capture=off", "--seed", "5")
    assert done.status == 0, done.stderr
    labels = {"main", *(case.label for case in catalog()["incast"].cases(Spec()))}
    assert {"dctcp", "rto_1ms", "tcp_pfc", "roce", "roce_pfc_dcqcn"} < labels
    assert sorted(line.partition(":")[0] for line in done.stderr.splitlines()) == sorted(labels)
    assert f"report: {done.folder / 'report.html'}" in done.stdout
    rows = done.document("summary.json")["comparison"]
    assert {row["label"] for row in rows} == labels
    assert all(row["label"] in done.stdout for row in rows)
    for label in labels - {"main"}:
        assert done.document(f"cases/{label}/measured.json")["complete"] is True
        assert done.document(f"cases/{label}/provenance.json")["seed"] == 5
        assert done.document(f"cases/{label}/summary.json")["spec"]["senders"] == 4


@pytest.mark.alone
def test_the_same_run_on_the_real_clock(kernel: Kernel, tmp_path: Path) -> None:
    words = ("senders=2", "rate=100Mbps", "bytes=64KiB", "rounds=1", "capture=off")
    done = run_experiment(tmp_path / "run", "incast", "--only", "--clock", "real", *(f"--set={word}" for word in words))
    assert done.status == 0, done.stderr
    measured, provenance = done.document("measured.json"), done.document("provenance.json")
    assert (provenance["clock"], measured["complete"]) == ("real", True)
    started_s = datetime.fromisoformat(provenance["started"]).timestamp()
    assert started_s <= measured["rounds"][0]["start_ns"] / 1e9 <= time.time()
    # 128 KiB over 100 Mb/s take 10 ms, and a CPU that has other things to do no less
    assert provenance["wall"]["rounds_s"] >= measured["virtual_s"] >= 2 * 65_536 * 8 / 100e6


# --- runs that do not


@contextmanager
def running(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`./run_experiment incast WORDS`, in a process group of its own, whose rounds have begun."""
    command = [str(ROOT / "run_experiment"), "incast", *words, "--out", str(folder)]
    process = subprocess.Popen(
        command, cwd=folder.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert within(RUN_LIMIT_S / 4, lambda: (folder / "telemetry").is_dir() or process.poll() is not None)
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_is_usable(kernel: Kernel, tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "run"
    with running(folder, *LONG) as process:
        (lab,) = children_of(process.pid)
        assert not within(1, lambda: process.poll() is not None)  # let some rounds pass
        os.killpg(process.pid, number)
        status, _, err = finish(process)
    assert status == INTERRUPTED
    assert processes_of_session(lab) == []
    assert "Traceback" not in err
    check_partial(folder, "interrupted")


def check_partial(folder: Path, ended_as: str) -> None:
    measured = json.loads((folder / "measured.json").read_text())
    assert measured["complete"] is False
    assert 0 < len(measured["rounds"]) < 20_000
    assert json.loads((folder / "provenance.json").read_text())["ended_as"] == ended_as
    rounds = measured["rounds"]
    frames = [frame for frame in read(folder / "pcap" / "leaf1-eth1.pcap") if frame.time_ns >= rounds[0]["start_ns"]]
    assert sum(frame.wire_bytes for frame in frames) > sum(each["bytes"] for each in rounds)
    assert (folder / "telemetry" / "queue.parquet").stat().st_size > 1000
    again = subprocess.run(
        [str(ROOT / "run_experiment"), "report", str(folder), "--json"], capture_output=True, text=True, timeout=60
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["complete"] is False


def test_the_watchdog_ends_a_run_and_keeps_what_was_measured(kernel: Kernel, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with running(folder, *LONG, "--watchdog", "5") as process:
        status, _, err = finish(process)
    assert status == 1
    assert re.search(
        r"^run_experiment: main: no end after 5 s of wall time \(what was measured is in .+\)$", err, re.MULTILINE
    )
    check_partial(folder, "watchdog")


def test_a_second_interrupt_ends_at_once(kernel: Kernel, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with running(folder, *LONG) as process:
        (lab,) = children_of(process.pid)
        os.kill(lab, signal.SIGSTOP)  # it will not end by itself
        os.kill(process.pid, signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("stopping: ")
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(2) == INTERRUPTED
        assert within(2, lambda: not processes_of_session(lab))
    assert not (folder / "provenance.json").exists()


def test_a_killed_run_takes_its_lab_along(kernel: Kernel, tmp_path: Path) -> None:
    with running(tmp_path / "run", *LONG) as process:
        (lab,) = children_of(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(5)
        assert within(2, lambda: not processes_of_session(lab))
    assert processes_of_session(process.pid) == []


def test_cases_of_an_interrupted_experiment_are_not_begun(kernel: Kernel, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words: list[Any] = ["--set=senders=4", "--set=rounds=20000", "--set=bytes=64KiB", "--set=capture=off"]
    with running(folder, *words) as process:
        os.kill(process.pid, signal.SIGINT)
        status, _, err = finish(process)
        assert status == INTERRUPTED
        assert len(children_of(process.pid)) == 0
    assert "Traceback" not in err
