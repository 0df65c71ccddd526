"""iperf3 in the lab, on both clocks: what it tells is what the packets tell, its documents are kept, and what fails is
told in one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lab.kernel import Kernel
from tests.conftest import ROOT, run_in_lab
from tests.emulation.conftest import Done, run_experiment
from tests.emulation.same import unlike

pytestmark = [pytest.mark.lab, pytest.mark.alone]

LINE_SHARE = 1448 / 1514  # payload of a full frame with TCP's timestamps
WORDS = ("--set=senders=3", "--set=duration=1s", "--set=iperf3_streams=2")
SLOW = ("--set=senders=2", "--set=duration=2s", "--set=rate=10Mbps", "--clock=real", "--on=lab")


@pytest.fixture(scope="module")
def virtual(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Done:
    return run_experiment(tmp_path_factory.mktemp("iperf3") / "run", "iperf3", "--only", "--json", *WORDS)


def evidence(run: Done, name: str) -> dict[str, Any]:
    return next(each for each in run.document("summary.json")["evidence"] if each["name"].startswith(name))


def test_in_virtual_time_it_tells_what_the_packets_tell(virtual: Done) -> None:
    assert virtual.status == 0, virtual.stderr
    summary = virtual.document("summary.json")
    assert summary["verdict"] == "iperf3 tells what the packets tell"
    assert summary["iperf3"]["received_bps"] == pytest.approx(100e6 * LINE_SHARE, rel=0.01)
    assert evidence(virtual, "rate")["modelled"] == pytest.approx(evidence(virtual, "rate")["measured"], rel=0.01)
    assert virtual.host_after == virtual.host_before


def test_every_sender_has_a_server_and_streams_of_its_own(virtual: Done) -> None:
    measured = virtual.document("measured.json")
    assert [(each["sender"], each["port"]) for each in measured["iperf3_tests"]] == [
        *(("h2", 5201), ("h3", 5202), ("h4", 5203))
    ]
    assert [flow["flow"] for flow in measured["flows"]] == ["h2", "h2#2", "h3", "h3#2", "h4", "h4#2"]
    for flow in measured["flows"]:
        assert flow["destination"].startswith("10.0.0.1:520")
    begins_ns = [each["begin_ns"] - measured["iperf3"]["begin_ns"] for each in measured["iperf3_tests"]]
    assert all(0 <= each <= 200_000 for each in begins_ns)  # the jitter, and the process's own way
    for role in ("client", "server"):
        for sender in ("h2", "h3", "h4"):
            document = json.loads((virtual.folder / "iperf3" / role / f"{sender}.json").read_text())
            assert document["start"]["test_start"]["num_streams"] == 2


def test_equal_seeds_give_equal_documents(virtual: Done, kernel: Kernel, tmp_path: Path) -> None:
    again = run_experiment(tmp_path / "run", "iperf3", "--only", "--json", *WORDS)
    assert again.document("measured.json") == virtual.document("measured.json")
    files = sorted(path for path in virtual.folder.rglob("*") if path.parent.name in ("client", "server", "pcap"))
    assert unlike(virtual.folder, again.folder, [str(path.relative_to(virtual.folder)) for path in files]) == []


def test_on_the_real_clock_it_runs_and_is_judged(kernel: Kernel, tmp_path: Path) -> None:
    run = run_experiment(tmp_path / "run", "iperf3", "--only", "--json", *SLOW)
    assert run.status == 0, run.stderr
    assert evidence(run, "tests")["holds"]
    told = run.document("summary.json")["iperf3"]
    assert 0.5 * 10e6 * LINE_SHARE < told["received_bps"] <= 10e6  # a busy machine may starve it, and is told
    sent = [each["packets"]["delivered_bytes"] for each in told["tests"].values()]
    hot = next(port for port in run.document("measured.json")["ports"].values() if port["hot"])
    assert 0 < sum(sent) < hot["qdiscs"][0]["bytes"]
    assert run.document("summary.json")["fidelity"]["verdict"] in ("faithful", "unfaithful")
    assert run.host_after == run.host_before


def test_a_port_that_is_taken_is_told(kernel: Kernel, tmp_path: Path) -> None:
    words = (sys.executable, "-m", "tests.emulation.iperf3_inside", str(tmp_path))
    told = run_in_lab(kernel, words, results=tmp_path, memory_bytes=1 << 30).json
    assert told["error"].startswith(
        "iperf3's server for h3 on h1 (port 5202) ended with status 1: unable to start listener"
    )
    assert told["ended"] == "failed"
    assert told["begin_ns"] is None


def test_an_interrupted_run_keeps_what_there_is(kernel: Kernel, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [str(ROOT / "run_experiment"), "iperf3", "--only", "--set=senders=2", "--set=duration=600s"]
    options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--out", str(folder)], start_new_session=True, **options) as process:
        deadline_s = time.monotonic() + 60
        while not (folder / "iperf3" / "client" / "h3.out").exists():
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in complaint
    measured = json.loads((folder / "measured.json").read_text())
    assert (measured["complete"], measured["iperf3"]["ended"]) == (False, "interrupted")
    assert len(measured["iperf3_tests"]) == 2
