"""FAST 2008: incast by buffer, by TCP variant, and by SRU."""

from __future__ import annotations

from analysis.cost_model import goodput_one_timeout_bps
from analysis.papers.fast08_points import (
    PUBLISHED_MBPS,
    PUBLISHED_RENO_MBPS,
    RATE_BPS,
    RTO_NS,
    SERVERS,
    SRU_BYTES,
    SRU_SERVERS,
)
from analysis.papers.measures import goodput_mbps
from analysis.papers.model import LOG, Curve, CurveSet, Onset, Point, Source
from topologies.units import format_bytes

_PAPER = "Phanishayee et al., Measurement and Analysis of TCP Throughput Collapse, FAST 2008"
_ADDRESS = "https://www.usenix.org/legacy/event/fast08/tech/full_papers/phanishayee/phanishayee.pdf"
_READ = Source(_PAPER, "figure 2", _ADDRESS, "numbers of a simulation (ns-2), as this project was given them")
_FORMULA = Source(
    _PAPER,
    "section 5",
    _ADDRESS,
    "its formula for one timeout a block, B / (B/C + RTO); the curves' own numbers are not known here",
)
# The expectation of the experiment fast08: at the published number of servers or the next.
_COLLAPSE = Onset(level=RATE_BPS / 1e6 / 2, is_fall=True, early=0, late=1)
_FACTOR, _WHY = 2.0, "as experiment fast08 expects of collapsed points"
_STACK = (
    "ns-2's NewReno is Linux without SACK, RACK and tail loss probes, which waits for a timeout where a retransmission "
    "is lost, and where too few duplicate acknowledgements come"
)
_MODERN = (
    "CUBIC with SACK, RACK and tail loss probes, Linux's default but for the initial window, in the place of ns-2's "
    "NewReno"
)
OLD, TODAY = "newreno", "modern"  # stacks of the experiment fast08
_START = "connections begin with 2 packets, ns-2's default (windowInit_), which is taken for the paper's"


def run_name(buffer: str, servers: int, stack: str = OLD) -> str:
    """The run of a buffer, a number of servers and a stack of the experiment fast08, SRU 256 KB."""
    return f"fast08-{stack}-{buffer.lower()}-n{servers}"


def sru_run_name(sru_bytes: int, servers: int) -> str:
    """The run of an SRU and a number of servers, buffer 64 KB."""
    return (
        run_name("64KB", servers) if sru_bytes == 256_000 else f"fast08-sru{format_bytes(sru_bytes).lower()}-n{servers}"
    )


def _curve(name: str, buffer: str, published: tuple[int, ...], stack: str = OLD) -> Curve:
    points = tuple(Point(servers, mbps, run_name(buffer, servers, stack)) for servers, mbps in zip(SERVERS, published))
    return Curve(name, "Mb/s", _READ, points, goodput_mbps, _FACTOR, _WHY, _COLLAPSE)


def _sru(sru_bytes: int) -> Curve:
    points = tuple(
        Point(
            servers,
            goodput_one_timeout_bps(servers * sru_bytes, RATE_BPS, RTO_NS) / 1e6,
            sru_run_name(sru_bytes, servers),
        )
        for servers in SRU_SERVERS
    )
    return Curve(f"SRU {format_bytes(sru_bytes)}", "Mb/s", _FORMULA, points, goodput_mbps, _FACTOR, _WHY)


_AXES = {"x": "servers", "y": "goodput in Mb/s", "axis": LOG}
BUFFERS = CurveSet(
    key="fast08_buffers",
    title="Incast by switch buffer, 1 Gb/s, SRU 256 KB, RTOmin 200 ms",
    curves=tuple(_curve(f"buffer {buffer}", buffer, published) for buffer, published in PUBLISHED_MBPS.items()),
    differs=(_STACK, _START),
    **_AXES,
)
MODERN = CurveSet(
    key="fast08_modern",
    title="Incast by switch buffer with Linux's default stack, 1 Gb/s, SRU 256 KB",
    curves=tuple(_curve(f"buffer {buffer}", buffer, published, TODAY) for buffer, published in PUBLISHED_MBPS.items()),
    differs=(_MODERN, _START),
    **_AXES,
)
RENO = CurveSet(
    key="fast08_reno",
    title="Incast with plain Reno, 1 Gb/s, SRU 256 KB, buffer 64 KB",
    curves=(_curve("Reno, 64KB", "64KB", PUBLISHED_RENO_MBPS),),
    differs=("the runs are those of the buffer of 64 KB: Linux without SACK lies between Reno and NewReno", _START),
    **_AXES,
)
SRUS = CurveSet(
    key="fast08_sru",
    title="Incast by SRU, 1 Gb/s, buffer 64 KB, RTOmin 200 ms",
    curves=tuple(_sru(sru_bytes) for sru_bytes in SRU_BYTES),
    differs=(
        "published is the paper's formula, not its curves: a block of many SRUs meets more than one timeout, and falls "
        "below it",
        _STACK,
        _START,
    ),
    **_AXES,
)
