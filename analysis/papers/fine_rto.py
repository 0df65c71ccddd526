"""SIGCOMM 2009, fine-grained timeouts: incast with RTOmin of 200 ms and of 1 ms."""

from __future__ import annotations

from analysis.papers.measures import goodput_share
from analysis.papers.model import LOG, Curve, CurveSet, Point, Source

_PAPER = "Vasudevan et al., Safe and Effective Fine-grained TCP Retransmissions, SIGCOMM 2009"
_ADDRESS = "https://doi.org/10.1145/1592568.1592604"
_LOSS = Source(
    _PAPER, "abstract", _ADDRESS, "text: throughput is reduced by up to 90 %; of how many servers it does not say"
)
_CURE = Source(
    _PAPER,
    "measurements on a cluster",
    _ADDRESS,
    "text: RTOmin of 1 ms avoids throughput degradation at up to 16 servers; taken as the goodput without loss",
)
SERVERS = (4, 8, 16, 47)
CURED_SERVERS = (4, 8, 16)


def run_name(rto: str, servers: int) -> str:
    """The run of an RTOmin and a number of servers."""
    return f"fine_rto-{rto}-n{servers}"


FINE_RTO = CurveSet(
    key="fine_rto",
    title="Incast by RTOmin, 1 Gb/s, blocks of 1 MB over all servers",
    x="servers",
    y="share of the goodput without loss",
    axis=LOG,
    curves=(
        Curve(
            "RTOmin 200ms",
            "",
            _LOSS,
            tuple(
                Point(servers, 0.1 if servers == max(SERVERS) else None, run_name("200ms", servers))
                for servers in SERVERS
            ),
            goodput_share,
            within=2.0,
            why="a round figure of an abstract",
        ),
        Curve(
            "RTOmin 1ms",
            "",
            _CURE,
            tuple(Point(servers, 1.0, run_name("1ms", servers)) for servers in CURED_SERVERS),
            goodput_share,
            within=1.1,
            why="no degradation that a reader of the figure would see",
            every=True,
        ),
    ),
    differs=(
        "Linux is of today, CUBIC with SACK; RACK cannot be switched off with SACK, tail loss probes are",
        "the switch has 100 KB a port, as DCTCP's authors (section 4.2.1) had it to repeat this work",
        "200 us cannot be tried: the lab kernel's timers tick at 1 ms",
    ),
)
