"""The part of a run that happens inside the lab kernel: `python -m experiments.guest RUN`.

Reads RUN/spec.yaml, builds the fabric, runs the workload under capture and telemetry, and leaves raw facts:
measured.json, pcap/, telemetry/*.samples. Nothing here knows the host's clock, so equal specs leave equal
bytes.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from controller.telemetry import QueueSampler
from experiments import limits, rundir
from experiments.spec import Spec
from topologies import qdisc
from topologies.emulate import Fabric, emulate
from topologies.star import Star
from workloads import counters, incast
from workloads.capture import Capture, Point
from workloads.transport import tcp

RECEIVER = "h1"
HOT_PORT = "leaf1-eth1"
_PR_SET_TIMERSLACK = 29
_HOT_RING_KIB = 32 * 1024
_EVENTS = 3
_KEPT_AFTER, _KEPT_EVERY = (1, 4, 16, 64), 256


def tell(event: str, **facts: Any) -> None:
    """Send an event to the host (descriptor 3, see `lab.init`); it is the host that knows when."""
    os.write(_EVENTS, json.dumps({"event": event, **facts}).encode() + b"\n")


def topology(spec: Spec) -> Star:
    """The spec's fabric as a Topo with profiles."""
    return Star(hosts=spec.hosts, link=limits.link_profile(spec), switch=limits.switch_profile(spec))


def capture_points(spec: Spec, fabric: Fabric) -> list[Point]:
    """The hot port, and with capture=all every sender's NIC."""
    if spec.capture == "off":
        return []
    points = [Point(HOT_PORT, HOT_PORT, ring_kib=_HOT_RING_KIB)]
    if spec.capture == "all":
        points += [
            Point(f"{host.name}-eth0", "eth0", tuple(host.enter_command()))
            for host in fabric.hosts
            if host.name != RECEIVER
        ]
    return points


def run(spec: Spec, folder: Path) -> None:
    """One run, start to end; what was measured is written even when it is interrupted."""
    measured: dict[str, Any] = {"format": rundir.FORMAT, "complete": False, "rounds": []}
    with ExitStack() as stack:
        stack.callback(_write, folder / "measured.json", measured)
        fabric = stack.enter_context(emulate(topology(spec), limits.host_profile(spec)))
        tell("phase", name="built", openvswitch=fabric.openvswitch.version())
        captures = stack.enter_context(_RunCapture(spec, fabric, folder))
        measured["capture"] = captures.losses
        # Before the captures are copied: on a full disk the facts are there, and the captures are not.
        stack.callback(_write, folder / "measured.json", measured)
        pairs = [(f"h{number}", RECEIVER) for number in range(2, spec.hosts + 1)]
        connections = tcp.connect(fabric, pairs)
        if spec.telemetry:
            stack.enter_context(_sampler(spec, fabric, folder))
        before = counters.read(fabric.namespaces)
        stack.callback(_account, measured, fabric, before, connections)
        tell("phase", name="rounds", packets=_packets(spec))
        workload = incast.Incast(spec.sru_bytes, spec.rounds, spec.jitter_ns, spec.seed)
        incast.run(workload, connections, lambda done: _note(measured, done, folder))
        tell("phase", name="measured")
        measured["complete"] = True


def _packets(spec: Spec) -> int:
    """Full-size data packets that the workload needs at least (MSS with timestamps)."""
    return spec.senders * spec.rounds * -(-spec.sru_bytes // limits.segment_bytes(spec))


def _note(measured: dict[str, Any], done: incast.Round, folder: Path) -> None:
    """Tell of a round, and now and then write what there is: a killed run keeps it."""
    measured["rounds"].append(asdict(done))
    if len(measured["rounds"]) in _KEPT_AFTER or len(measured["rounds"]) % _KEPT_EVERY == 0:
        _write(folder / "measured.json", measured)
    tell("round", seconds=(done.end_ns - done.start_ns) / 1e9, bytes=done.bytes)


def _account(measured: dict[str, Any], fabric: Fabric, before: Any, connections: list[tcp.TcpConnection]) -> None:
    """Counters of hosts, flows, ports and NICs at the end of the rounds."""
    measured["tcp"] = counters.difference(before, counters.read(fabric.namespaces))
    measured["flows"] = [connection.describe() for connection in connections]
    measured["ports"] = {
        name: {
            "peer": f"h{name.rpartition('eth')[2]}",
            "hot": name == HOT_PORT,
            "qdiscs": [item.as_json() for item in stack],
        }
        for name, stack in fabric.port_qdiscs().items()
    }
    measured["nics"] = {
        host.name: {"qdiscs": [item.as_json() for item in fabric.host_qdiscs(host.name)]} for host in fabric.hosts
    }
    rounds = measured["rounds"]
    measured["virtual_s"] = (rounds[-1]["end_ns"] - rounds[0]["start_ns"]) / 1e9 if rounds else 0.0


def _write(path: Path, document: dict[str, Any]) -> None:
    """Whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1) + "\n")
    part.replace(path)


class _RunCapture(Capture):
    """Captures to memory, moved to the run folder at the end: an ordinary user's folder is slow and cannot be
    chowned from inside."""

    def __init__(self, spec: Spec, fabric: Fabric, folder: Path) -> None:
        self.final = folder / "pcap"
        super().__init__(capture_points(spec, fabric), Path(tempfile.mkdtemp(dir="/dev/shm")))

    def __exit__(self, *exc: object) -> None:
        try:
            super().__exit__(*exc)
        finally:
            for file in sorted(self.folder.iterdir()):
                self.final.mkdir(exist_ok=True)
                shutil.copyfile(file, self.final / file.name)


def _sampler(spec: Spec, fabric: Fabric, folder: Path) -> QueueSampler:
    telemetry = folder / "telemetry"
    telemetry.mkdir(exist_ok=True)
    handle = qdisc.LOSSY if spec.queue == "droptail" else qdisc.LOSSY_RED
    frame_ns = limits.link_profile(spec).frame_bytes * 8 * 10**9 // spec.rate_bps
    return QueueSampler(HOT_PORT, fabric.port_index[HOT_PORT], handle, telemetry / f"{HOT_PORT}.samples", frame_ns)


def _stop_once(number: int, frame: Any) -> None:
    """A wish to stop interrupts what runs, and not what then keeps the results."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def main(folder: Path) -> int:
    """Exit status 0 when the run is whole, 130 when it was interrupted."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    signal.signal(signal.SIGINT, _stop_once)
    try:
        run(rundir.read_spec(folder), folder)
    except KeyboardInterrupt:
        return 130
    except (OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
