"""What reading captures is promised to do, beside scapy, dpkt and tshark on the same file: plain numbers for
`run_experiment bench`.

The capture is made in the call: W over many rounds, as the hot port of its switch shows it.
"""

from __future__ import annotations

import functools
import resource
import subprocess
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Callable

from analysis.capture.reader import read_capture
from analysis.transport.labels_tshark import Agreement, compare_with_tshark
from experiments import limits
from experiments.runner import Setting, Task, run_task
from experiments.spec import Spec, parse
from lab.session import Stop

_KEYS = {"senders": 64, "rounds": 64, "capture": "hot", "telemetry": "off"}  # 64 senders, 400 Gb/s, 600 KB, 256 KiB
_REPEATS = 5
# How many of the capture's first packets the slower ones read: enough to go on for seconds.
SCAPY_PACKETS, DPKT_PACKETS, TSHARK_PACKETS = 20_000, 200_000, 200_000
# What of a segment has a column here.
_TSHARK_FIELDS = (
    *("frame.number", "frame.time_epoch", "frame.len", "frame.cap_len", "eth.src"),
    *("ip.proto", "ip.src", "ip.dst", "ip.id", "ip.ttl", "ip.dsfield"),
    *("tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw", "tcp.flags", "tcp.window_size_value", "tcp.len"),
    *("tcp.options.timestamp.tsval", "tcp.options.timestamp.tsecr"),
    *("tcp.options.sack_le", "tcp.options.sack_re"),
)


@dataclass(frozen=True)
class Speeds:
    """Packets per second of processor time, one value a repeat, and how many packets the capture has."""

    packets: int
    ours: tuple[float, ...]
    scapy: tuple[float, ...]
    dpkt: tuple[float, ...]
    tshark: tuple[float, ...]


@functools.lru_cache(maxsize=1)
def incast_capture(setting: Setting) -> Path:
    """The capture, made once in a call (ten seconds); it is gone when the program ends."""
    folder = Path(_scratch().name)
    run_task(Task("captures", limits.resolve(parse(_KEYS, Spec())), folder, "bench"), setting, Stop())
    (path,) = (folder / "pcap").iterdir()
    return path


@functools.lru_cache(maxsize=1)
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fabriclab-captures-")


def reading_speeds(setting: Setting) -> Speeds:
    """The same capture read by four: whole by us, its first packets by the others."""
    path = incast_capture(setting)
    packets = len(read_capture(path))
    for warm_up in (_read_by_scapy, _read_by_dpkt):  # imports are not reading
        warm_up(path)
    return Speeds(
        packets,
        _speeds(packets, lambda: read_capture(path)),
        _speeds(SCAPY_PACKETS, lambda: _read_by_scapy(path)),
        _speeds(DPKT_PACKETS, lambda: _read_by_dpkt(path)),
        _speeds(TSHARK_PACKETS, lambda: _read_by_tshark(path)),
    )


def label_agreement(setting: Setting) -> Agreement:
    """Our labels of the capture's packets against tshark's."""
    return compare_with_tshark(incast_capture(setting))


def _speeds(packets: int, read: Callable[[], object]) -> tuple[float, ...]:
    return tuple(packets / _seconds(read) for _ in range(_REPEATS))


def _seconds(read: Callable[[], object]) -> float:
    """Processor time, of children too: what one core takes that does nothing else."""
    before_s = _processor_s()
    read()
    return _processor_s() - before_s


def _processor_s() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


def _read_by_scapy(path: Path) -> None:
    """Dissect them, and no more: no column is filled."""
    import scapy.layers.inet  # noqa: F401 - scapy dissects what is imported
    from scapy.utils import PcapReader

    with PcapReader(str(path)) as reader:
        for _ in islice(reader, SCAPY_PACKETS):
            pass


def _read_by_dpkt(path: Path) -> None:
    """Dissect them, options aside, and no more."""
    import dpkt

    with path.open("rb") as file:
        for _, frame in islice(dpkt.pcap.Reader(file), DPKT_PACKETS):
            dpkt.ethernet.Ethernet(frame)


def _read_by_tshark(path: Path) -> None:
    """The fields that have a column here."""
    fields = [word for field in _TSHARK_FIELDS for word in ("-e", field)]
    words = ["tshark", "-r", str(path), "-c", str(TSHARK_PACKETS), "-T", "fields", *fields]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
