"""Runs over RoCE with PFC and DCQCN, from the command line to the run directory: every part acts, and is told of."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from lab.kernel import Kernel
from tests.conftest import ROOT
from tests.emulation.captures import read
from tests.emulation.conftest import Done, run_experiment
from tests.emulation.host import within
from topologies.units import parse_bytes

pytestmark = pytest.mark.lab

SENDERS = 4
LINE = ("transport=roce", "pfc=on", "rate=40Gbps", "mtu=4200B", "buffer=150KB")
LONG = ("--set=workload=long_flows", "--set=hosts=3", "--set=capture=off")
MAC_CONTROL, ROCE_PORT, CNP_OPCODE = b"\x88\x08", 4791, 0x81


def words(*keys: str) -> tuple[str, ...]:
    return tuple(f"--set={key}" for key in keys)


@pytest.fixture(scope="module")
def incast(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Four senders, of which each fills what it may before it is paused, and slows down for marks."""
    folder = tmp_path_factory.mktemp("wiring") / "run"
    keys = (*LINE, f"senders={SENDERS}", "queue=dcqcn", "bytes=1MiB", "rounds=2")
    return run_experiment(folder, "incast", "--only", "--json", *words(*keys))


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    return pyarrow.parquet.read_table(folder / "telemetry" / name).to_pylist()


def lossless(measured: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    places = measured["ports"] if kind == "pfc" else measured["nics"]
    return [item for place in places.values() for item in place["qdiscs"] if item["kind"] == kind]


def test_an_incast_over_roce_loses_nothing_and_is_paused(incast: Done) -> None:
    assert incast.status == 0, incast.stderr
    measured = incast.document("measured.json")
    assert measured["complete"] is True
    assert len(measured["transfers"]) == 2 * SENDERS
    assert [item["drops"] + item["headroom_drops"] + item["discards"] for item in lossless(measured, "pfc")] == [0] * 5
    assert sum(item["xoffs"] for item in lossless(measured, "pfc")) > 0
    assert sum(item["held_ns"] for item in lossless(measured, "rnic")) > 0


def test_flows_and_devices_are_told_of(incast: Done) -> None:
    measured = incast.document("measured.json")
    assert [each["flow"] for each in measured["flows"]] == [f"h{number}" for number in range(2, SENDERS + 2)]
    assert all(each["roce"]["mtu_bytes"] == 4096 for each in measured["flows"])
    packets = SENDERS * (2 + 2 * (1 << 20) // 4096)  # the two that try the way, and the rounds' data
    assert measured["roce"]["h1"]["rcvd_pkts"] == packets  # none twice: nothing was lost
    assert "duplicate_request" not in measured["roce"]["h1"]


def test_every_pause_is_told_and_holds_the_neighbour(incast: Done) -> None:
    rows, measured = table(incast.folder, "pauses.parquet"), incast.document("measured.json")
    assert {row["port"] for row in rows} <= set(measured["pause_ports"])
    assert set(measured["pause_ports"]) == set(measured["ports"]) | {f"{host}-eth0" for host in measured["nics"]}
    sent = [row for row in rows if row["event"] == "xoff_sent"]
    held = [row for row in rows if row["event"] == "held"]
    assert len(sent) == sum(item["xoffs"] for item in lossless(measured, "pfc")) == len(held)
    assert {row["port"] for row in sent} <= {f"leaf1-eth{number}" for number in range(2, SENDERS + 2)}
    assert {row["port"] for row in held} <= {f"h{number}-eth0" for number in range(2, SENDERS + 2)}
    xoff_bytes = parse_bytes(incast.document("summary.json")["spec"]["xoff"])
    frame_bytes = 4200 + 14
    assert all(xoff_bytes < row["value"] <= xoff_bytes + frame_bytes for row in sent)


def test_queue_pairs_are_told_by_their_flows(incast: Done) -> None:
    rows = table(incast.folder, "dcqcn.parquet")
    assert {row["queue_pair"] for row in rows} <= {f"h{number}" for number in range(2, SENDERS + 2)}
    counts = {event: sum(row["event"] == event for row in rows) for event in ("cnp_sent", "cnp_received", "rate")}
    assert counts["cnp_sent"] == counts["cnp_received"] > 0
    assert counts["rate"] > 0
    rates_bps = [row["rate_bps"] for row in rows if row["event"] != "cnp_sent"]
    assert 10_000_000 <= min(rates_bps) < 40_000_000_000
    assert all(0 < row["alpha"] <= 1 for row in rows if row["event"] != "cnp_sent")


def test_pauses_and_cnps_are_on_the_wire(incast: Done) -> None:
    frames = [
        frame for number in range(2, SENDERS + 2) for frame in read(incast.folder / "pcap" / f"h{number}-eth0.pcap")
    ]
    pauses = [frame for frame in frames if frame.kept[12:14] == MAC_CONTROL]
    told = [row for row in table(incast.folder, "pauses.parquet") if row["event"] in ("xoff_sent", "xon_sent")]
    assert len(pauses) == len(told)
    cnps = [frame for frame in frames if frame.is_ip and is_roce(frame.kept) and frame.kept[42] == CNP_OPCODE]
    assert len(cnps) == sum(row["event"] == "cnp_received" for row in table(incast.folder, "dcqcn.parquet"))


def is_roce(kept: bytes) -> bool:
    return kept[23] == 17 and int.from_bytes(kept[36:38], "big") == ROCE_PORT


# --- long flows


def test_a_receiver_that_is_stuck_for_ever_hangs_nobody(kernel: Kernel, tmp_path: Path) -> None:
    keys = words(*LINE, "duration=4ms", "traffic=h2>h1@0ms,h3>h2@1ms-3ms", "stuck=h1@2ms")
    done = run_experiment(tmp_path / "run", "incast", "--only", "--json", *LONG, *keys)
    assert done.status == 0, done.stderr
    measured = done.document("measured.json")
    stuck, free = measured["flows"]
    begin_ns = measured["rounds"][0]["start_ns"]
    assert (stuck["begin_ns"], stuck["end_ns"]) == (begin_ns, begin_ns + 4_000_000)
    assert stuck["delivered_bytes"] < stuck["sent_bytes"]
    assert stuck["last_arrival_ns"] < begin_ns + 2_100_000
    assert free["delivered_bytes"] == free["sent_bytes"] > 0
    assert (stuck["died"], free["died"]) == (None, None)
    rows = table(done.folder, "arrivals.parquet")
    for flow in (stuck, free):
        assert sum(row["bytes"] for row in rows if row["flow"] == flow["flow"]) == flow["delivered_bytes"]
    assert free["begin_ns"] <= min(row["time_ns"] for row in rows if row["flow"] == free["flow"])
    held = [row for row in table(done.folder, "pauses.parquet") if row["event"] == "held"]
    assert held[0]["port"] == "leaf1-eth1"
    assert 2_000_000 <= held[0]["time_ns"] - begin_ns < 2_010_000


def test_interrupted_long_flows_keep_all_records(kernel: Kernel, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    keys = words(*LINE, "queue=dcqcn", "duration=10s", "traffic=h2>h1@0ms,h3>h1@0ms")
    command = [str(ROOT / "run_experiment"), "incast", "--only", *LONG, *keys, "--out", str(folder)]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert within(30, lambda: (folder / "telemetry").is_dir() or process.poll() is not None)
        assert not within(3, lambda: process.poll() is not None)  # let something happen
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(30) == 130, said
    measured = json.loads((folder / "measured.json").read_text())
    assert measured["complete"] is False
    assert sorted(file.name for file in (folder / "telemetry").iterdir()) == [
        "arrivals.parquet", "dcqcn.parquet", "pauses.parquet", "queue.parquet",
    ]  # fmt: skip
    delivered = sum(row["bytes"] for row in table(folder, "arrivals.parquet"))
    assert delivered == sum(flow["delivered_bytes"] for flow in measured["flows"]) > 0
    assert {row["queue_pair"] for row in table(folder, "dcqcn.parquet")} == {"h2", "h3"}
