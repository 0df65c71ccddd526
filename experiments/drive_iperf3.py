"""The workload `iperf3`: every sender's client against a server of its own on h1."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from experiments import rundir
from experiments.drive_launch import signal_name
from experiments.guest import RECEIVER, tell
from experiments.playing import Run, lead_ns, one_round, surroundings
from experiments.spec import IPERF3, Spec, known
from experiments.stage import Stage
from topologies.namespaces import entered
from topologies.units import format_duration
from workloads import rounds
from workloads.iperf3_flows import FIRST_PORT, Gate, SenderTest, Sending, listening_ports, programs
from workloads.iperf3_process import CLIENT, SERVER, WRAPPER
from workloads.launch import Followed, Launch, last_lines

INTERRUPTED = "interrupted"  # until all have ended
_PATIENCE_NS, _PROCESS_NS = 120_000_000_000, 1_000_000_000  # beyond the duration, and for each process to start
_BEAT_NS = 20_000_000  # on the real clock each takes time from those who send, in virtual time wall time


def iperf3(run: Run) -> None:
    """All tests from their begin to their end; raises RuntimeError when a client or server fails, or one hangs."""
    folder, tests = run.records.parent / IPERF3, _tests(run.stage)
    with tempfile.TemporaryDirectory() as pipes, Gate(Path(pipes), len(tests)) as gate:
        under_way = _launch(run.stage, tests, gate, folder)
        try:
            with surroundings(run, time.time_ns() + lead_ns(run.stage), []):
                under_way.run(time.time_ns())
        finally:
            _account(run, tests, under_way.followed, folder, gate.begin_ns)
    run.facts["iperf3"]["ended"] = under_way.ended
    _judge(tests, under_way, folder)


def _tests(stage: Stage) -> list[SenderTest]:
    """Of each sender, in order; the offsets are an incast's."""
    spec, receiver = stage.spec, stage.fabric.get(RECEIVER)
    senders = [stage.fabric.get(name) for name in stage.hosts if name != RECEIVER][: known(spec.senders)]
    asked = rounds.Rounds(0, 1, spec.jitter_ns, spec.seed)
    offsets_ns = rounds.start_offsets_ns(asked, len(senders), 0)
    return [
        SenderTest(sender, receiver, receiver.IP(), FIRST_PORT + place, offset_ns)
        for place, (sender, offset_ns) in enumerate(zip(senders, offsets_ns))
    ]


def _launch(stage: Stage, tests: Sequence[SenderTest], gate: Gate, folder: Path) -> Launch:
    sending = _sending(stage.spec)
    words = programs(tests, sending, gate, folder, os.environ, rundir.ROOT)
    ports = [test.port for test in tests]

    def beat() -> None:
        tell("beat")
        gate.open_when(ports, lambda: _listening(stage), lead_ns(stage))

    timeout_ns = known(stage.spec.duration_ns) + _PATIENCE_NS + len(words) * _PROCESS_NS
    return Launch(words, timeout_ns, beat, _BEAT_NS, flush=lambda: None)


def _sending(spec: Spec) -> Sending:
    return Sending(known(spec.duration_ns) // 10**9, known(spec.iperf3_streams), known(spec.iperf3_interval_ns) / 1e9)


def _listening(stage: Stage) -> set[int]:
    with entered(stage.fabric.namespaces[RECEIVER]):
        return listening_ports(Path("/proc/thread-self/net/tcp").read_text())


def _account(
    run: Run, tests: Sequence[SenderTest], followed: Sequence[Followed], folder: Path, begin_ns: int | None
) -> None:
    """How every test went, which flows it had, and all of them as one round."""
    servers, clients = followed[: len(tests)], followed[len(tests) :]
    told = [
        _told_of(test, {SERVER: server, CLIENT: client}, folder)
        for test, server, client in zip(tests, servers, clients)
    ]
    run.facts["iperf3"] = {
        "version": _version(tests, folder),
        "wrapper": metadata.version(WRAPPER),
        "begin_ns": begin_ns,
        "ended": INTERRUPTED,
    }
    run.facts["iperf3_tests"] = told
    run.facts["flows"] = [flow for test in tests for flow in _flows(test, folder)]
    ends_ns = [each["end_ns"] for each in told if each["end_ns"] is not None]
    if begin_ns is not None:
        received_bytes = sum(_received_bytes(test, folder) for test in tests)
        one_round(run, begin_ns, received_bytes, max(ends_ns, default=None))


def _told_of(test: SenderTest, ends: Mapping[str, Followed], folder: Path) -> dict[str, Any]:
    """How a test went: its span, and the end of its server and of its client."""
    client = _told(folder / CLIENT / test.sender.name)
    return {
        "sender": test.sender.name,
        "receiver": test.receiver.name,
        "port": test.port,
        "begin_ns": client.get("begin_ns"),
        "end_ns": client.get("end_ns"),
        "ends": {role: _end(each, folder / role / test.sender.name) for role, each in ends.items()},
    }


def _version(tests: Sequence[SenderTest], folder: Path) -> str | None:
    """Of iperf3, as the first client that came so far has told it."""
    clients = (_told(folder / CLIENT / test.sender.name) for test in tests)
    return next((client["version"] for client in clients if client), None)


def _told(stem: Path) -> dict[str, Any]:
    """What a process told of itself; empty when it did not come so far."""
    lines = _text(stem.with_suffix(".out")).splitlines()
    return dict(json.loads(lines[-1])) if lines else {}


def _end(each: Followed, stem: Path) -> dict[str, Any]:
    return {"status": each.end.status, "signal": signal_name(each.end.status), "last_lines": _complaint(stem)}


def _complaint(stem: Path) -> list[str]:
    """What a process wrote to standard error."""
    return last_lines(stem) if _text(stem.with_suffix(".err")) else []


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _result(role: str, test: SenderTest, folder: Path) -> Mapping[str, Any]:
    """iperf3's own document, as far as there is one."""
    text = _text(folder / role / f"{test.sender.name}.json")
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def _flows(test: SenderTest, folder: Path) -> list[dict[str, Any]]:
    """The streams of a test; of several the further ones are numbered, as everywhere."""
    sender, receiver = test.sender.name, test.receiver.name
    connected = _result(CLIENT, test, folder).get("start", {}).get("connected", [])
    return [
        {
            "flow": sender if place == 1 else f"{sender}#{place}",
            "sender": sender,
            "receiver": receiver,
            "source": f"{each['local_host']}:{each['local_port']}",
            "destination": f"{each['remote_host']}:{each['remote_port']}",
        }
        for place, each in enumerate(connected, 1)
    ]


def _received_bytes(test: SenderTest, folder: Path) -> int:
    return int(_result(CLIENT, test, folder).get("end", {}).get("sum_received", {}).get("bytes", 0))


def _judge(tests: Sequence[SenderTest], under_way: Launch, folder: Path) -> None:
    """Raise RuntimeError with what went wrong, if something did."""
    if under_way.ended == "failed":
        place = known(under_way.first_failed)
        role, test = (SERVER, CLIENT)[place // len(tests)], tests[place % len(tests)]
        raise RuntimeError(_failure(role, test, under_way.followed[place], folder))
    if under_way.ended == "timeout":
        raise RuntimeError(f"iperf3: after {format_duration(known(under_way.timeout_ns))} a test had not ended")


def _failure(role: str, test: SenderTest, each: Followed, folder: Path) -> str:
    """Who failed where, and its last line."""
    where = f"of {test.sender.name}" if role == CLIENT else f"for {test.sender.name} on {test.receiver.name}"
    name = signal_name(each.end.status)
    how = f"was ended by {name}" if name else f"ended with status {each.end.status}"
    said = ": ".join(["", *_complaint(folder / role / test.sender.name)[-1:]])
    return f"iperf3's {role} {where} (port {test.port}) {how}{said}"
