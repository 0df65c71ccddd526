"""The part of a run that happens where the fabric is: `python -m experiments.guest RUN lab|machine`.

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
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller.telemetry import QueueSampler
from experiments import rundir
from experiments.drive import drive
from experiments.spec import TO_ONE, Spec, known
from experiments.stage import Stage, ground_of, staged
from topologies import qdisc
from topologies.ground import LAB_VIRTUAL, Ground
from topologies.units import BadRequest
from workloads import counters, rounds
from workloads.capture import Capture, Point

if TYPE_CHECKING:
    from workloads.fidelity import Probe

RECEIVER = "h1"  # of many to one
OWN = "own"  # what measured.json calls a workload of the user's own
_PR_SET_TIMERSLACK = 29
_HOT_RING_KIB, _LEAST_RING_KIB = 32 * 1024, 2 * 1024
_MOST_SAMPLED_PORTS = 16
# A queue is sampled so often over the time of long flows, at least as often as analysis/queues.py takes for busy.
_LONG_SAMPLES, _LONGEST_SAMPLE_NS = 20_000, 10_000
_REAL_SAMPLE_NS, _SAMPLES_PER_DRAIN = 250_000, 8  # a sample costs some 50 to 100 us
_EVENTS = 3
_KEPT_AFTER, _KEPT_EVERY = (1, 4, 16, 64), 256


def tell(event: str, **facts: Any) -> None:
    """Send an event to the host (descriptor 3, see `lab.init`); it is the host that knows when."""
    os.write(_EVENTS, json.dumps({"event": event, **facts}).encode() + b"\n")


def receivers(stage: Stage) -> list[str]:
    """The hosts that data goes to, each once, where they are few and known."""
    if stage.spec.workload == "long_flows":
        return list(dict.fromkeys(flow.receiver for flow in known(stage.spec.traffic)))
    return [RECEIVER] if stage.spec.workload in TO_ONE else []


def hot_port(stage: Stage) -> str | None:
    """The switch port that everybody sends to, where there is one."""
    found = receivers(stage)
    return stage.port_towards(found[0]) if len(found) == 1 else None


def capture_points(stage: Stage) -> list[Point]:
    """The ports towards the receivers, and with capture=all the NIC of every host that sends."""
    if stage.spec.capture == "off":
        return []
    ports = [stage.port_towards(host) for host in receivers(stage)]
    ring_kib = max(_HOT_RING_KIB // max(len(ports), 1), _LEAST_RING_KIB)
    points = [Point(port, port, ring_kib=ring_kib) for port in ports]
    if stage.spec.capture == "all":
        seen = [host for host in stage.fabric.hosts if host.name in _senders(stage)]
        points += [Point(f"{host.name}-eth0", "eth0", tuple(host.enter_command())) for host in seen]
    return points


def _senders(stage: Stage) -> list[str]:
    if stage.spec.workload == "long_flows":
        return [flow.sender for flow in known(stage.spec.traffic)]
    return [host for host in stage.hosts if host not in receivers(stage)]


def sampled_ports(stage: Stage) -> list[str]:
    """The ports whose queues are sampled: those towards the receivers, and of long flows those between switches too, as
    far as there is room."""
    ports = [stage.port_towards(host) for host in receivers(stage)]
    if stage.spec.workload == "long_flows":
        ports += [name for name, end in stage.switch_ports.items() if stage.tiers[end.peer]]
    return ports[:_MOST_SAMPLED_PORTS]


def run(spec: Spec, folder: Path, ground: Ground = LAB_VIRTUAL) -> None:
    """One run, start to end; what was measured is written even when it is interrupted."""
    measured: dict[str, Any] = {
        "format": rundir.FORMAT,
        "complete": False,
        "workload": OWN if "workload" in spec.own else spec.workload,
        "rounds": [],
        "controller": None,
    }
    with ExitStack() as stack:
        stack.callback(_write, folder / "measured.json", measured)
        stage = stack.enter_context(staged(spec, ground))
        framework = {"openflow_framework": stage.controller.framework} if stage.controller else {}
        tell("phase", name="built", openvswitch=stage.fabric.openvswitch.version(), **framework)
        captures = stack.enter_context(_RunCapture(stage, folder))
        measured["capture"] = captures.losses
        # Before the captures are copied: on a full disk the facts are there, and the captures are not.
        stack.callback(_write, folder / "measured.json", measured)
        records = folder / "telemetry"
        records.mkdir(exist_ok=True)
        for port in sampled_ports(stage) if spec.telemetry else []:
            stack.enter_context(_sampler(stage, port, records))
        if not ground.is_virtual:
            measured["fidelity"] = stack.enter_context(_probe(records)).facts
        stack.callback(_account, measured, stage, _Before(stage))
        tell("phase", name="rounds")
        drive(stage, measured, lambda done: _note(measured, done, folder), records)
        tell("phase", name="measured")
        measured["complete"] = True


def _note(measured: dict[str, Any], done: rounds.Round, folder: Path) -> None:
    """Tell of a round, and now and then write what there is: a killed run keeps it."""
    if len(measured["rounds"]) in _KEPT_AFTER or len(measured["rounds"]) % _KEPT_EVERY == 0:
        _write(folder / "measured.json", measured)
    tell("round", seconds=(done.end_ns - done.start_ns) / 1e9, bytes=done.bytes)


class _Before:
    """What the hosts' counters were before the rounds."""

    def __init__(self, stage: Stage) -> None:
        self.tcp = counters.read(stage.fabric.namespaces)
        self.roce = counters.read_roce(stage.fabric.namespaces) if stage.spec.transport == "roce" else None


def _account(measured: dict[str, Any], stage: Stage, before: _Before) -> None:
    """Counters of hosts, ports and NICs at the end of the rounds, and how the controller has fared."""
    fabric, hot = stage.fabric, hot_port(stage)
    measured["tcp"] = counters.difference(before.tcp, counters.read(fabric.namespaces))
    if before.roce is not None:
        measured["roce"] = counters.difference(before.roce, counters.read_roce(fabric.namespaces))
    measured["ports"] = {
        name: {**stage.describe_port(name), "hot": name == hot, "qdiscs": [item.as_json() for item in found]}
        for name, found in fabric.port_qdiscs().items()
    }
    measured["nics"] = {
        host.name: {"qdiscs": [item.as_json() for item in fabric.host_qdiscs(host.name)]} for host in fabric.hosts
    }
    measured["controller"] = _controller_facts(stage)
    done = measured["rounds"]
    measured["virtual_s"] = (done[-1]["end_ns"] - done[0]["start_ns"]) / 1e9 if done else 0.0


def _controller_facts(stage: Stage) -> dict[str, Any] | None:
    if stage.controller is None:
        return None
    stage.controller.news()
    told = {each["event"]: each for each in reversed(stage.controller.events)}
    facts = {name: told["discovered"][name] for name in ("discovered_links", "expected_links", "wrong_links")}
    ready_s = (told["ready"]["time_ns"] - stage.controller.started_ns) / 1e9
    return {"ready_s": ready_s, "alive": stage.controller.alive, "died_ns": stage.controller.ended_ns, **facts}


def _write(path: Path, document: dict[str, Any]) -> None:
    """Whole or not at all."""
    part = path.with_suffix(".part")
    try:
        part.write_text(json.dumps(document, indent=1) + "\n")
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class _RunCapture(Capture):
    """Captures to memory (TMPDIR), moved to the run folder at the end: an ordinary user's folder is slow and cannot be
    chowned from inside."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.final = folder / "pcap"
        super().__init__(capture_points(stage), Path(tempfile.mkdtemp()))

    def __exit__(self, *exc: object) -> None:
        try:
            super().__exit__(*exc)
        finally:
            for file in sorted(self.folder.iterdir()):
                self.final.mkdir(exist_ok=True)
                shutil.copyfile(file, self.final / file.name)


def _probe(records: Path) -> Probe:
    """Looks how well the machine keeps real time."""
    from workloads.fidelity import Probe  # draws entropy, which in virtual time would be the traffic's

    return Probe(records)


def _sampler(stage: Stage, port: str, records: Path) -> QueueSampler:
    frame_ns = stage.spec.frame_bytes * 8 * 10**9 // stage.switch_ports[port].wire.rate_bps
    file, handle = records / f"{port}.samples", _queue_handle(stage, port)
    least_ns = _least_period_ns(stage.spec) if stage.ground.is_virtual else _real_period_ns(stage, port, frame_ns)
    return QueueSampler(port, stage.fabric.port_index[port], handle, file, frame_ns, least_ns)


def _least_period_ns(spec: Spec) -> int:
    """Of samples in virtual time; none (0) but the sampler's own where a workload has no duration."""
    return min((spec.duration_ns or 0) // _LONG_SAMPLES, _LONGEST_SAMPLE_NS)


def _real_period_ns(stage: Stage, port: str, frame_ns: int) -> int:
    """Of samples on the real clock, where looking costs CPU time that the traffic needs."""
    drain_ns = known(stage.spec.buffer_bytes) * 8 * 10**9 // stage.switch_ports[port].wire.rate_bps
    return max(frame_ns, _REAL_SAMPLE_NS, drain_ns // _SAMPLES_PER_DRAIN)


def _queue_handle(stage: Stage, port: str) -> int:
    """The queue of the workload's class at a port: its marker, which counts marks too, where there is one."""
    is_lossless = stage.spec.traffic_class == "lossless"
    marker, queue = (qdisc.LOSSLESS_RED, qdisc.LOSSLESS) if is_lossless else (qdisc.LOSSY_RED, qdisc.LOSSY)
    found = [item.handle for item in stage.fabric.port_qdiscs()[port]]
    return marker if marker in found else queue


def _stop_once(number: int, frame: Any) -> None:
    """A wish to stop interrupts what runs, and not what then keeps the results."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _prepare() -> None:
    """Have this process wake when it asked to, and heed a wish to stop."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    signal.signal(signal.SIGINT, _stop_once)


def status_of(work: Callable[[], None]) -> int:
    """Do the work of a guest: exit status 0 when it is whole, 130 when it was interrupted; a failure is told."""
    _prepare()
    try:
        work()
    except KeyboardInterrupt:
        return 130
    except (OSError, RuntimeError, BadRequest) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def main(folder: Path, place: str) -> int:
    """One run; its exit status (see `status_of`)."""
    return status_of(lambda: run(rundir.read_spec(folder), folder, ground_of(place, rundir.read_clock(folder))))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
