"""The halves of RoCE's lab tests that run inside the lab: `python -m tests.emulation.roce_inside NAME ARGUMENTS`.

Each stages a fabric from spec keys, gives its hosts RDMA devices, does something on it, and says what it saw; the test
judges that on the host.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyverbs import enums
from pyverbs.qp import QPAttr

from experiments import limits
from experiments.spec import parse
from experiments.stage import Stage, staged
from topologies import rdma
from topologies.namespaces import entered
from workloads import capture, patterns, rounds
from workloads.capture import Capture, Point
from workloads.long_flows import LongFlow, LongFlows
from workloads.transport import roce
from workloads.transport.roce import QueuePairs

_PR_SET_TIMERSLACK = 29
_QUIET_S = 0.01
_SETTLE_NS = 10_000_000
_LISTENS_S = 1.0
_PERFTEST_S = 30.0


@contextmanager
def with_devices(keys: Mapping[str, Any]) -> Iterator[Stage]:
    rdma.isolate()
    with staged(limits.resolve(parse(keys))) as where, rdma.attached(where.fabric.namespaces):
        yield where


def _counters(where: Stage) -> dict[str, dict[str, int]]:
    return {host: rdma.counters(host, namespace) for host, namespace in where.fabric.namespaces.items()}


def _since(before: Mapping[str, Mapping[str, int]], after: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    return {host: {name: after[host][name] - value for name, value in found.items()} for host, found in before.items()}


def transfers(
    keys: Mapping[str, Any], asked: Mapping[str, Any], size_bytes: int, count: int = 1, folder: str = ""
) -> dict[str, Any]:
    """`count` rounds of `size_bytes` of every host to the first; with `folder`, whole packets at every host go there
    as HOST.pcap, from the handshake on."""
    capture.SNAP_BYTES = 1 << 16
    with with_devices(keys) as where:
        hosts = where.fabric.hosts if folder else []
        points = [Point(host.name, "eth0", tuple(host.enter_command()), 32 << 10) for host in hosts]
        lab_folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
        with Capture(points, lab_folder) as taken:
            told = _transfers(where, QueuePairs(**asked), rounds.Rounds(size_bytes, count, 0, 1))
        for file in lab_folder.iterdir():
            shutil.copyfile(file, Path(folder, file.name))
        return {**told, "losses": taken.losses}


def _transfers(where: Stage, asked: QueuePairs, work: rounds.Rounds) -> dict[str, Any]:
    pairs = patterns.incast(where.hosts, len(where.hosts) - 1)
    with roce.connected(where.fabric, pairs, asked=asked) as connections:
        before = _counters(where)
        done = rounds.run(work, connections)
        time.sleep(_QUIET_S)  # the last acknowledgements
        return {
            "rounds": [[each.start_ns, each.end_ns, each.bytes] for each in done],
            "flows": [connection.describe() for connection in connections],
            "ends": [[connection.source, connection.destination] for connection in connections],
            "counters": _since(before, _counters(where)),
            "queue_pairs": {
                host: rdma.queue_pairs(host, namespace) for host, namespace in where.fabric.namespaces.items()
            },
            "drops": {
                name: sum(item.statistics["drops"] for item in stack)
                for name, stack in where.fabric.port_qdiscs().items()
            },
        }


def long_flows(keys: Mapping[str, Any], asked: Mapping[str, Any], duration_ns: int) -> dict[str, Any]:
    """Every host sends to the first for `duration_ns`, each beginning a tenth of that after the one before."""
    with with_devices(keys) as where:
        pairs = patterns.incast(where.hosts, len(where.hosts) - 1)
        with roce.connected(where.fabric, pairs, asked=QueuePairs(**asked)) as connections:
            begin_ns = time.time_ns() + 1_000_000
            begins_ns = [begin_ns + index * duration_ns // 10 for index in range(len(connections))]
            flows = [LongFlow(each, at, at + duration_ns) for each, at in zip(connections, begins_ns)]
            driver = LongFlows(flows, settle_ns=_SETTLE_NS)
            driver.run()
            return {"outcomes": [asdict(each) for each in driver.outcomes()]}


def death(keys: Mapping[str, Any], asked: Mapping[str, Any], cause: str) -> dict[str, Any]:
    """Half a millisecond into a long transfer the receiver's link goes down ("link"), its queue pair is closed ("end")
    or put into the error state ("error"): what is said of it, how many ns of virtual time later."""
    with (
        with_devices(keys) as where,
        roce.connected(where.fabric, [("h2", "h1")], asked=QueuePairs(**asked)) as (connection,),
    ):
        begin_ns = rounds.next_start_ns(rounds.Rounds(1, 1, 0, 1), 0)
        at_ns, pair = begin_ns + 500_000, connection._receiving._pair
        causes = {
            "link": lambda: where.fabric.set_ports([where.port_towards("h1")], up=False),
            "end": pair.close,
            "error": lambda: pair.modify(QPAttr(qp_state=enums.IBV_QPS_ERR), enums.IBV_QP_STATE),
        }
        cut = threading.Thread(target=_at, args=(at_ns, causes[cause]))
        cut.start()
        try:
            rounds.run(rounds.Rounds(1 << 30, 1, 0, 1), [connection], first_start_ns=begin_ns)
        except ConnectionError as error:
            return {"said": str(error), "after_ns": time.time_ns() - at_ns}
        finally:
            cut.join()
        return {"said": ""}


def _at(time_ns: int, act: Callable[[], None]) -> None:
    while (left_ns := time_ns - time.time_ns()) > 0:
        time.sleep(left_ns / 1e9)
    act()


def unreachable(keys: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """What is said when a host behind a dead link is to be connected to."""
    with with_devices(keys) as where:
        with roce.connected(where.fabric, [("h2", "h1")]):
            pass  # they know each other's addresses now
        where.fabric.set_ports([where.port_towards("h1")], up=False)
        try:
            with roce.connected(where.fabric, [("h2", "h1")], asked=QueuePairs(**asked)):
                return ""
        except OSError as error:
            return str(error)


def devices(keys: Mapping[str, Any], isolated: bool) -> dict[str, Any]:
    """RDMA devices that each host sees while they are attached, afterwards, and attached again; wall seconds of it."""
    if isolated:
        rdma.isolate()
    with staged(limits.resolve(parse(keys))) as where:
        seen = []
        for _ in range(2):
            with rdma.attached(where.fabric.namespaces):
                seen.append(_devices(where))
            seen.append(_devices(where))
        return {"seen": seen, "first": _listed()}


def _devices(where: Stage) -> dict[str, list[str]]:
    found = {}
    for host, namespace in where.fabric.namespaces.items():
        with entered(namespace):
            found[host] = _listed()
    return found


def _listed() -> list[str]:
    """As iproute2's rdma tells."""
    said = subprocess.run(["rdma", "-j", "dev", "show"], capture_output=True, text=True, check=True).stdout
    return sorted(each["ifname"] for each in json.loads(said or "[]"))


def without_device(keys: Mapping[str, Any]) -> list[str]:
    """What is said of hosts that have no RDMA device."""
    said = []
    with staged(limits.resolve(parse(keys))) as where:
        for act in (
            lambda: rdma.counters("h1", where.fabric.namespaces["h1"]),
            lambda: rdma.queue_pairs("h1", where.fabric.namespaces["h1"]),
            lambda: roce.connected(where.fabric, [("h2", "h1")]).__enter__(),
        ):
            try:
                act()
            except OSError as error:
                said.append(str(error))
    return said


def perftest(keys: Mapping[str, Any], program: str, words: Sequence[str], folder: str) -> dict[str, Any]:
    """perftest's `program` as server on h1 and as client on h2, waiting on events: both outputs, the queue pairs that
    h1 was seen to have meanwhile, and what the devices counted; headers at h1 go to `folder`."""
    with with_devices(keys) as where:
        hosts = {name: where.fabric[name] for name in ("h1", "h2")}
        command = {name: [program, "-e", "-d", rdma.device_name(name), *words] for name in hosts}
        before, pairs_seen = _counters(where), {}
        lab_folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
        with Capture([Point("h1", "eth0", tuple(hosts["h1"].enter_command()), 32 << 10)], lab_folder):
            server = hosts["h1"].popen(command["h1"], text=True)
            time.sleep(_LISTENS_S)
            client = hosts["h2"].popen([*command["h2"], hosts["h1"].IP()], text=True)
            while client.poll() is None:
                pairs_seen.update(rdma.queue_pairs("h1", where.fabric.namespaces["h1"]))
                time.sleep(1e-4)
            outputs = [process.communicate(timeout=_PERFTEST_S) for process in (server, client)]
        for file in lab_folder.iterdir():
            shutil.copyfile(file, Path(folder, file.name))
        return {
            "statuses": [server.returncode, client.returncode],
            "outputs": outputs,
            "queue_pairs": pairs_seen,
            "counters": _since(before, _counters(where)),
        }


_FUNCTIONS = (transfers, long_flows, death, unreachable, devices, without_device, perftest)
NAMES: dict[str, Callable[..., Any]] = {each.__name__: each for each in _FUNCTIONS}

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    print(json.dumps(NAMES[sys.argv[1]](**json.loads(sys.argv[2]))))
