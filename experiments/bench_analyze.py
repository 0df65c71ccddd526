"""How long `analyze` takes, and how much memory, on a capture as it is, and on one repeated to ten gigabytes: plain
numbers for `run_experiment bench`.

`python -m experiments.bench_analyze CAPTURE BYTES many|few` writes the repeated capture to standard output: with `many`
each repetition has connections of its own, with `few` those of the first go on for ever.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from analysis.capture.packets import ACK, FIN, RST, SYN, TCP, Damage, Packets, empty_columns
from analysis.capture.reader import read_capture
from analysis.transport.flows import flows_of
from analysis.transport.recovery import Recovery
from analysis.transport.retransmits import retransmissions
from analysis.transport.sent import Flow
from topologies.units import BadRequest

ROOT = Path(__file__).resolve().parents[1]
LONG_BYTES = 10_000_000_000
MANY, FEW = "many", "few"
_RECORD_BYTES, _FILE_BYTES, _ETHERNET_BYTES, _IP_BYTES = 16, 24, 14, 20
_FEW_CONNECTIONS = 2
_PAUSE_NS = 1_000_000  # between two repetitions
_MOST_REPETITIONS = 1 << 16  # two bytes of the addresses tell them apart
RETRANSMISSIONS = 50_000  # as many as the promise is of
_RTO_MIN_NS = 200_000_000


# A process is told to have held what its parent held when it began (getrusage(2)): so its parent is a small one.
_MEASURED = (
    "import resource, subprocess, sys\n"
    "status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    "sys.exit(status)"
)


@dataclass(frozen=True)
class Cost:
    """What one call of `analyze` took: seconds on the wall clock, and the most memory that it held."""

    seconds: float
    peak_bytes: int


def analyze_cost(capture: Path) -> Cost:
    """`./run_experiment analyze CAPTURE`, from prompt to prompt."""
    return _cost(str(capture), None)


def streamed_cost(capture: Path, size_bytes: int, kind: str) -> Cost:
    """`analyze -` fed with the capture repeated to `size_bytes`."""
    words = [sys.executable, "-m", "experiments.bench_analyze", str(capture), str(size_bytes), kind]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        return _cost("-", writer.stdout)


def _cost(capture: str, given: IO[bytes] | None) -> Cost:
    began = time.monotonic()
    words = [sys.executable, "-c", _MEASURED, sys.executable, str(ROOT / "run_experiment"), "analyze", capture]
    done = subprocess.run(words, stdin=given, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"analyze {capture} ended with status {done.returncode}")
    return Cost(time.monotonic() - began, int(done.stdout) * 1024)


def explained_s(count: int) -> float:
    """Processor seconds that it takes to find and tell apart `count` retransmissions of one flow."""
    flow = resent_flow(count)
    began_s = time.process_time()
    found = len(retransmissions(flow, Recovery(_RTO_MIN_NS)))
    taken_s = time.process_time() - began_s
    if found != count:
        raise RuntimeError(f"{found} retransmissions were found, and {count} are there")
    return taken_s


def resent_flow(count: int) -> Flow:
    """A flow of which every other segment is sent again, 100 segments behind the newest: `count` of them."""
    columns = empty_columns(5 * count)
    step = np.arange(5 * count)
    turn, kind = step // 5, step % 5  # two segments, one of them again, and two acknowledgements in each turn
    is_data = kind < 3
    place = np.where(kind == 2, np.maximum(2 * turn - 100, 0), np.where(is_data, 2 * turn + kind, 0)) * 1_000
    columns["number"][:], columns["time_ns"][:], columns["ip_id"][:] = step + 1, step * 1_000, step % 2**16
    columns["protocol"][:], columns["flags"][:], columns["window"][:] = TCP, ACK, 500
    for name, there, back in (("src_ip", 2, 1), ("dst_ip", 1, 2), ("sport", 20_000, 5_000), ("dport", 5_000, 20_000)):
        columns[name][:] = np.where(is_data, there, back)
    columns["seq"][:], columns["payload_bytes"][:] = np.where(is_data, place, 7), np.where(is_data, 1_000, 0)
    columns["ack"][:] = np.where(is_data, 7, np.maximum(2 * turn - 150, 0) * 1_000)
    (flow,) = flows_of(Packets(**columns, ipv6=(), damage=Damage()))
    return flow


def repeated(capture: Path, size_bytes: int, kind: str) -> Iterator[bytes]:
    """A classic pcap of the lab (little-endian, ns, Ethernet without tags, IPv4), so often in a row that it has about
    `size_bytes`: each repetition begins where the one before ended."""
    packets = read_capture(capture)
    data = np.fromfile(capture, np.uint8)
    offsets = _offsets(data, len(packets))
    yield data[:_FILE_BYTES].tobytes()
    change = _renumber
    if kind == FEW:
        change, kept = _continue, _of_few(packets)
        data = np.concatenate([data[:_FILE_BYTES], np.frombuffer(_without(data, offsets, kept), np.uint8)])
        packets = packets.select(kept)
        offsets = _offsets(data, len(packets))
    for repetition in range(min(max(size_bytes // len(data), 1), _MOST_REPETITIONS)):
        copy = data.copy()
        _shift_times(copy, offsets, packets, repetition)
        change(copy, offsets, packets, repetition)
        yield copy[_FILE_BYTES:].tobytes()


def _offsets(data: np.ndarray, count: int) -> np.ndarray:
    """Where each record begins."""
    found = np.empty(count, np.int64)
    at, view = _FILE_BYTES, data.tobytes()
    for place in range(count):
        found[place] = at
        at += _RECORD_BYTES + int.from_bytes(view[at + 8 : at + 12], "little")
    return found


def _put(data: np.ndarray, at: np.ndarray, values: np.ndarray, kind: str) -> None:
    """Write numbers (n,) of a type such as ">u4" at places (n,)."""
    encoded = values.astype(kind).view(np.uint8).reshape(len(at), -1)
    for place in range(encoded.shape[1]):
        data[at + place] = encoded[:, place]


def _shift_times(data: np.ndarray, offsets: np.ndarray, packets: Packets, repetition: int) -> None:
    lasts_ns = int(packets.time_ns.max() - packets.time_ns.min()) + _PAUSE_NS
    seconds, rest = np.divmod(packets.time_ns + repetition * lasts_ns, 10**9)
    _put(data, offsets, seconds, "<u4")
    _put(data, offsets + 4, rest, "<u4")


def _renumber(data: np.ndarray, offsets: np.ndarray, packets: Packets, repetition: int) -> None:
    """Other addresses in each repetition: both have its number in their first two bytes."""
    ip = offsets[packets.ip_version == 4] + _RECORD_BYTES + _ETHERNET_BYTES
    for address in (12, 16):
        _put(data, ip + address, np.full(len(ip), repetition), ">u2")


def _continue(data: np.ndarray, offsets: np.ndarray, packets: Packets, repetition: int) -> None:
    """The same connections in each repetition, their sequence numbers going on."""
    sent, answered = _ends(packets)
    known, numbers = np.unique(np.concatenate([sent, answered]), return_inverse=True)
    ours, theirs = numbers[: len(packets)], numbers[len(packets) :]
    first, carried = np.zeros(len(known), np.int64), np.zeros(len(known), np.int64)
    first[ours[::-1]] = packets.seq[::-1]
    ends = (packets.seq - first[ours]) % 2**32 + packets.payload_bytes
    np.maximum.at(carried, ours[packets.payload_bytes > 0], ends[packets.payload_bytes > 0])
    tcp = offsets + _RECORD_BYTES + _ETHERNET_BYTES + _IP_BYTES
    _put(data, tcp + 4, (packets.seq + repetition * carried[ours]) % 2**32, ">u4")
    _put(data, tcp + 8, (packets.ack + repetition * carried[theirs]) % 2**32, ">u4")


def _of_few(packets: Packets) -> np.ndarray:
    """Which packets (n,) belong to the few connections with the most data; what opens and ends them is left out."""
    sent, answered = _ends(packets)
    connection = np.minimum(sent, answered)
    plain = (packets.protocol == TCP) & (packets.flags & (SYN | FIN | RST) == 0)
    known, numbers = np.unique(connection, return_inverse=True)
    carried = np.bincount(numbers[plain], weights=packets.payload_bytes[plain], minlength=len(known))
    return plain & np.isin(numbers, np.argsort(-carried, kind="stable")[:_FEW_CONNECTIONS])


def _ends(packets: Packets) -> tuple[np.ndarray, np.ndarray]:
    """A number for the direction of each packet, and for the one that its acknowledgement answers."""
    source = packets.src_ip << 16 | packets.sport
    destination = packets.dst_ip << 16 | packets.dport
    return source << 32 ^ destination, destination << 32 ^ source


def _without(data: np.ndarray, offsets: np.ndarray, kept: np.ndarray) -> bytes:
    """The records that are kept."""
    lengths = np.diff(np.append(offsets, len(data)))
    return data[_FILE_BYTES:][np.repeat(kept, lengths)].tobytes()


def main() -> int:
    """Write the repeated capture that the command line asks for."""
    capture, size_bytes, kind = sys.argv[1:]
    if kind not in (MANY, FEW):
        raise BadRequest(f"{kind!r} is given; allowed: {MANY}, {FEW}")
    try:
        for part in repeated(Path(capture), int(size_bytes), kind):
            sys.stdout.buffer.write(part)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
