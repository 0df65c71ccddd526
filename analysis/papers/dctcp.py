"""SIGCOMM 2010, DCTCP: its queue, its incast, its fairness, alone and over two bottlenecks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.papers.measures import jain, mean_mbps, mean_round_ms, queue_packets, timeouts_share
from analysis.papers.model import LINEAR, LOG, NAMES, Curve, CurveSet, Onset, Point, Source

_PAPER = "Alizadeh et al., Data Center TCP (DCTCP), SIGCOMM 2010"
_ADDRESS = "https://doi.org/10.1145/1851182.1851192"
_TEXT = "text of the paper"
_HARDWARE = "Handigol et al., Reproducible Network Experiments, CoNEXT 2012, on DCTCP's hardware set-up"
_REPOSITORY = "https://github.com/mininet/mininet-tests"
PERCENTILES = (5, 25, 50, 75, 95, 100)
# Percentiles in packets of what the switch held every 125 ms: 891 samples (the first, in slow start, left out) and 861.
_QUEUES: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "dctcp": ("dctcp/hw_data/q-dctcp-plot.txt at 51ebca2", (17.1, 18.3, 19.0, 19.8, 20.7, 22.0)),
    "tcp": ("dctcp/results/q-tcp-plot.txt at 86e5abc", (225.5, 282.1, 337.6, 384.9, 417.7, 426.6)),
}
_NAMES = {"dctcp": "DCTCP, K = 20 packets", "tcp": "TCP, 425 packets of buffer"}
INCAST_SERVERS = (5, 8, 10, 12, 15, 20, 25, 30, 35, 40)
# The scheme and its RTOmin -> the first of INCAST_SERVERS with timeouts, and the numbers of servers that have none.
INCAST: Mapping[str, tuple[str, int, Sequence[int]]] = {
    "tcp-300ms": ("TCP, RTOmin 300ms", 12, (5, 8, 10)),
    "tcp-10ms": ("TCP, RTOmin 10ms", 12, (5, 8, 10)),
    "dctcp-300ms": ("DCTCP, RTOmin 300ms", 35, (5, 8, 10, 12, 15, 20, 25, 30)),
}
_SUFFERS = 0.05  # of queries: what a reader of the figure sees; single ones, as connections open, are none
_BUFFER = (
    "the paper calls its buffer 100 packets and counts it as 100 KB (35 x 2 x 1.5 KB exceed it), as it is here; 100 "
    "packets of 1514 bytes would be half as much again"
)
FAIR_FLOWS = (5, 20, 90)
# Senders under the first leaf (S1, S2), receivers (R1, R2) and further senders (S3) under the second.
S1 = tuple(f"h{number}" for number in range(1, 11))
S2 = tuple(f"h{number}" for number in range(11, 31))
R1 = "h32"
R2 = tuple(f"h{number}" for number in range(33, 53))
S3 = tuple(f"h{number}" for number in range(53, 63))
_GROUPS = {"S1": S1, "S3": S3, "S2": S2}
_GROUP_MBPS = {"S1": 46, "S3": 54, "S2": 475}
_LINUX = "Linux's DCTCP (RFC 8257) on hosts that take no time, Windows on machines there"
_STACK = "TCP is Linux's Reno with SACK; RACK cannot be switched off with SACK, tail loss probes are"


def queue_run(scheme: str) -> str:
    """The run of two long flows."""
    return f"dctcp_queue-{scheme}"


def incast_run(scheme: str, servers: int) -> str:
    """The run of a scheme with its RTOmin and a number of servers."""
    return f"dctcp_incast-{scheme}-n{servers}"


def fair_run(flows: int) -> str:
    """The run of so many long flows to one receiver."""
    return f"dctcp_fairness-{flows}"


MULTI_HOP_RUN = "dctcp_multi_hop"

QUEUE = CurveSet(
    key="dctcp_queue",
    title="Queue of two long flows, 100 Mb/s",
    x="percentile of the time",
    y="queue in packets",
    axis=LINEAR,
    curves=tuple(
        Curve(
            _NAMES[scheme],
            "packets",
            Source(
                _HARDWARE,
                where,
                _REPOSITORY,
                "samples of a Broadcom switch every 125 ms; percentiles worked out of them",
            ),
            tuple(Point(place, value, queue_run(scheme)) for place, value in zip(PERCENTILES, published)),
            queue_packets,
            within=1.1,
            why="samples of hardware",
        )
        for scheme, (where, published) in _QUEUES.items()
    ),
    differs=(
        "the samples' sawtooth of 8 s tells 100 Mb/s and delayed acknowledgements that count as one each; Linux of "
        "today counts all that they acknowledge, and its windows grow twice as fast",
        "both flows of the hardware lose at the same time, and its queue falls by half; where one loses at a time it "
        "falls by a quarter",
        "the hardware is sampled every 125 ms, ours at every change, weighted by time: a peak between two samples "
        "shows here alone",
    ),
)
TIMEOUTS = CurveSet(
    key="dctcp_incast",
    title="Incast: queries of 1 MB that meet a timeout, 1 Gb/s, 100 KB of buffer",
    x="servers",
    y="share of queries",
    axis=LINEAR,
    curves=tuple(
        Curve(
            name,
            "",
            Source(_PAPER, "section 4.2.1, figure 18(b)", _ADDRESS, f"{_TEXT}: from how many servers on"),
            tuple(Point(servers, None, incast_run(scheme, servers)) for servers in INCAST_SERVERS),
            timeouts_share,
            within=1.0,
            why="no value is published",
            onset=Onset(level=_SUFFERS, is_fall=False, early=1, late=1, published=first),
        )
        for scheme, (name, first, _) in INCAST.items()
    ),
    differs=(_STACK, _LINUX, _BUFFER, "100 queries instead of 1000, the first of them not counted"),
)
COMPLETION = CurveSet(
    key="dctcp_completion",
    title="Incast: mean time of a query of 1 MB, 1 Gb/s, 100 KB of buffer",
    x="servers",
    y="mean time in ms",
    axis=LOG,
    curves=tuple(
        Curve(
            name,
            "ms",
            Source(
                _PAPER,
                "section 4.2.1, figure 18(a)",
                _ADDRESS,
                f"{_TEXT}: around 8 ms at the least; taken for all numbers without timeouts",
            ),
            tuple(
                Point(servers, 8.0 if servers in clean else None, incast_run(scheme, servers))
                for servers in INCAST_SERVERS
            ),
            mean_round_ms,
            within=1.1,
            why="the paper says around 8 ms",
        )
        for scheme, (name, _, clean) in INCAST.items()
    ),
    differs=(_STACK, _LINUX, _BUFFER, "100 queries instead of 1000, the first of them not counted"),
)
FAIRNESS = CurveSet(
    key="dctcp_fairness",
    title="Fairness of long flows of DCTCP, 1 Gb/s, K = 20 packets",
    x="flows",
    y="Jain's index",
    axis=LOG,
    curves=(
        Curve(
            "DCTCP",
            "",
            Source(_PAPER, "section 4.1, below figure 16", _ADDRESS, f"{_TEXT}: 0.99, up to 90 flows"),
            tuple(Point(flows, 0.99, fair_run(flows)) for flows in FAIR_FLOWS),
            jain,
            within=1.05,
            why="the index from which on flows count as fair here is 0.95",
            every=True,
        ),
    ),
    differs=("flows send for 4 s and are judged in the second half; in the paper for minutes", _LINUX),
)
MULTI_HOP = CurveSet(
    key="dctcp_multi_hop",
    title="Goodput of each sender over two bottlenecks, 1 and 10 Gb/s",
    x="group of senders",
    y="goodput in Mb/s",
    axis=NAMES,
    curves=(
        Curve(
            "DCTCP",
            "Mb/s",
            Source(_PAPER, "section 4.1, figure 17", _ADDRESS, f"{_TEXT}: within 10 % of the fair share"),
            tuple(Point(group, mbps, MULTI_HOP_RUN) for group, mbps in _GROUP_MBPS.items()),
            mean_mbps(_GROUPS),
            within=1.1,
            why="the paper calls these within 10 % of the fair share",
            every=True,
        ),
    ),
    differs=(
        "K of the 10 Gb/s links is that of 1 Gb/s in proportion, 200 packets instead of 65",
        "leaf, spine, leaf stand for Triumph, Scorpion, Triumph",
        _LINUX,
    ),
)
