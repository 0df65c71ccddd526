"""The workload `launch`: a program of the user's on the ranks' hosts."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments import launch as asked
from experiments.cluster import rank_hosts
from experiments.guest import tell
from experiments.keys.launch import MPIRUN
from experiments.playing import Run, lead_ns, one_round, surroundings
from experiments.spec import Spec, known
from experiments.stage import Stage
from experiments.wire import Wire, grown
from topologies.units import format_duration
from workloads import mpirun
from workloads.launch import End, Launch, Program, last_lines

RANKS = "ranks"  # the folder of a run directory that the ranks' output is in
_PORT = 29500  # PyTorch's default (torch.distributed.run)
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # the lab has one processor
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_BY_SIGNAL = 128  # a status above it: ended by a signal, as shells say it
_ENDED_BY_US = ("SIGTERM", "SIGKILL")
_TOLD_LINES = 3
_AGENT = "fabriclab-agent"
_HOSTS_FILE = Path("/etc/hosts")


def launch(run: Run) -> None:
    """The program from its start to its end; raises RuntimeError when a rank fails or time is up."""
    spec, folder = run.stage.spec, run.records.parent / RANKS
    folder.mkdir(exist_ok=True)
    _name_hosts(run.stage)
    under_way = Launch(_programs(run.stage, folder), spec.timeout_ns or None, lambda: tell("beat"))
    wire, begin_ns = Wire(run.stage), time.time_ns() + lead_ns(run.stage)
    run.facts["launch"] = _asked(spec)
    before = wire.read()
    try:
        with surroundings(run, begin_ns, []):
            under_way.run(begin_ns)
    finally:
        run.facts.update(grown(before, wire.read()), ranks=_ranks(spec, under_way, folder))
        run.facts["launch"]["ended"] = under_way.ended
        ends_ns = [each["end_ns"] for each in run.facts["ranks"] if each["end_ns"] is not None]
        sent_bytes = sum(each["sent"] for each in run.facts["nic_bytes"].values())
        one_round(run, begin_ns, sent_bytes, max(ends_ns, default=None))
    _judge(run.facts, under_way)


def _asked(spec: Spec) -> dict[str, Any]:
    return {
        "command": asked.words(spec),
        "directory": str(asked.directory(spec, os.environ)),
        "starter": known(spec.starter),
        "hosts": rank_hosts(spec),
        "timeout_s": spec.timeout_ns / 1e9 if spec.timeout_ns else None,
    }


def _name_hosts(stage: Stage) -> None:
    """All hosts can be reached by their names; the file is a copy, of the lab's or of the session's."""
    with _HOSTS_FILE.open("a") as file:
        file.writelines(f"{address} {name}\n" for name, address in _addresses(stage).items())


def _addresses(stage: Stage) -> dict[str, str]:
    return {host.name: host.ip for host in stage.description.hosts}


def _programs(stage: Stage, folder: Path) -> list[Program]:
    """One for each rank, or mpirun on the first host."""
    hostfile, names = folder / "hostfile", rank_hosts(stage.spec)
    hostfile.write_text("".join(f"{name} slots=1\n" for name in names))
    words, where = asked.words(stage.spec), asked.directory(stage.spec, os.environ)
    shared = _shared(stage, hostfile)
    for rank in range(len(names)):
        (folder / str(rank)).mkdir(exist_ok=True)
    if stage.spec.starter == MPIRUN:
        agent = Path(tempfile.gettempdir(), _AGENT)
        mpirun.write_agent(agent, [stage.fabric.get(name) for name in names])
        environment = {**mpirun.settings(agent), **shared}
        starter = mpirun.words(len(names), hostfile, folder, words)
        return [Program(stage.fabric.get(names[0]), starter, environment, where, folder / "mpirun")]
    return [
        Program(stage.fabric.get(name), tuple(words), {**shared, **_own(rank, name, folder)}, where, folder / str(rank))
        for rank, name in enumerate(names)
    ]


def _shared(stage: Stage, hostfile: Path) -> dict[str, str]:
    """The environment that all ranks share: the caller's, and where the others are."""
    names, addresses = rank_hosts(stage.spec), _addresses(stage)
    return {
        **_ONE_THREAD,
        **dict.fromkeys(_INTERFACES, "eth0"),
        **asked.callers(os.environ),
        "WORLD_SIZE": str(len(names)),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": addresses[names[0]],
        "MASTER_PORT": str(_PORT),
        "FABRICLAB_HOSTS": ",".join(names),
        "FABRICLAB_HOSTFILE": str(hostfile),
    }


def _own(rank: int, name: str, folder: Path) -> dict[str, str]:
    return {"RANK": str(rank), "FABRICLAB_HOST": name, "FABRICLAB_RESULTS": str(folder / str(rank))}


def _ranks(spec: Spec, under_way: Launch, folder: Path) -> list[dict[str, Any]]:
    """How each rank fared, as measured.json tells it."""
    if spec.starter == MPIRUN:
        ends = mpirun.ends(folder, known(spec.ranks))
    else:
        ends = {place: each.end for place, each in enumerate(under_way.followed)}
    found = (ends.get(rank, End()) for rank in range(known(spec.ranks)))
    return [
        {
            "rank": rank,
            "host": host,
            **asdict(end),
            "signal": signal_name(end.status),
            "last_lines": last_lines(folder / str(rank)),
        }
        for rank, (host, end) in enumerate(zip(rank_hosts(spec), found))
    ]


def signal_name(status: int | None) -> str | None:
    """The signal that a status above 128 stands for, such as "SIGKILL"; None where it stands for none."""
    try:
        return signal.Signals((status or 0) - _BY_SIGNAL).name
    except ValueError:
        return None


def _judge(facts: Mapping[str, Any], under_way: Launch) -> None:
    """Raise RuntimeError with what went wrong, if something did."""
    if under_way.ended == "timeout":
        running = [each["host"] for each in facts["ranks"] if each["status"] is None or each["signal"] in _ENDED_BY_US]
        time_ns = known(under_way.timeout_ns)
        raise RuntimeError(f"after {format_duration(time_ns)} of virtual time (timeout) {', '.join(running)} still ran")
    if under_way.ended == "failed":
        raise RuntimeError(_failure(facts, under_way))


def _failure(facts: Mapping[str, Any], under_way: Launch) -> str:
    """The first rank that failed, or mpirun where no rank did, with its last lines."""
    if facts["launch"]["starter"] == MPIRUN:
        failed = sorted((each for each in facts["ranks"] if each["status"]), key=lambda each: int(each["end_ns"]))
        if not failed:
            starter = under_way.followed[0]
            lines = last_lines(starter.program.output)
            return _words("mpirun", starter.program.host.name, starter.end.status, lines)
        first = failed[0]
    else:
        first = facts["ranks"][known(under_way.first_failed)]
    return _words(f"rank {first['rank']}", first["host"], first["status"], first["last_lines"])


def _words(who: str, host: str, status: int | None, lines: list[str]) -> str:
    name = signal_name(status)
    how = f"was ended by {name}" if name else f"ended with status {status}"
    said = " | ".join(line.strip() for line in lines[-_TOLD_LINES:])
    return f"{who} on {host} {how}{': ' if said else ''}{said}"
