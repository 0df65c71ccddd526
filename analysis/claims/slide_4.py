"""Slide 4: RDMA beside TCP/IP."""

from __future__ import annotations

from analysis import text
from analysis.claims.judging import UNTOLD, near, shown, told
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.kinds import collective, cpu_overhead
from analysis.kinds.collective_calls import size_rows
from analysis.run import Run

RDMA_S, TCP_S, TIMES_FASTER, PORT_BPS = 2e-6, 100e-6, 50.0, 400e9  # slide 4
_LATENCY_SHARE = cpu_overhead.TOLERANCE
_RATE_SHARE = 0.05
_POST_S = 300e-9  # a work request, and a completion (workloads/host_cost.py)
_USUAL_LINK_NS = 500  # 100 m of fibre, the delay of a link where none is asked for
_CALLS = "shortest message of measured.json, from the later begin on"


def _shortest_s(run: Run | None) -> float | None:
    """The median time of the shortest message, the wait for the later of both ranks to begin among it."""
    rows = size_rows(run) if run is not None else []
    return rows[0].seconds if rows else None


def _way_s(run: Run) -> float:
    """Two links and a switch, which is all that a lone frame meets."""
    return (2 * run.parameters.link_delay_ns + run.parameters.switch_delay_ns) / 1e9


def _begin_s(run: Run) -> float | None:
    """How long the shortest message waits for the ranks to begin, in all cases alike: what it takes beyond the way
    where processors cost nothing."""
    free_s = _shortest_s(next((each for each in run.cases.values() if cpu_overhead.path_of(each) == "none"), None))
    return None if free_s is None else free_s - _way_s(run)


def _latencies_s(run: Run) -> dict[str, float]:
    """Path -> time of the shortest message from begin to end, of TCP and RDMA; empty where a run is missing."""
    found, begin_s = cpu_overhead.pair(run, of_reduce=False), _begin_s(run)
    times_s = {name: _shortest_s(found.get(name)) for name in ("tcp", "rdma")}
    if begin_s is None or None in times_s.values():
        return {}
    return {name: seconds - begin_s for name, seconds in times_s.items() if seconds is not None}


def _begin_row(run: Run) -> Row:
    return told(
        "of each call, until both ranks have begun", _begin_s(run), "s", "cases/tcp-free less the way: left out"
    )


def _rdma_latency(run: Run) -> Judged:
    """Under two microseconds; with the usual cable too, or only because cables are short."""
    measured_s, link_ns = _latencies_s(run).get("rdma"), run.parameters.link_delay_ns
    if measured_s is None:
        return Judged(NOT_REPRODUCED, UNTOLD, (_less("latency by RDMA", None, UNTOLD),))
    usual_s = measured_s + 2 * (_USUAL_LINK_NS - link_ns) / 1e9
    rows = (
        _less(
            f"latency of {text.size(size_rows(run)[0].size_bytes)} by RDMA",
            measured_s,
            _CALLS,
            _way_s(run) + 2 * _POST_S,
        ),
        _less("the same over two links of 100 m", usual_s, "measured, and the delay of the longer links"),
        _begin_row(run),
    )
    both = f"{text.seconds(measured_s)} over two links of {link_ns} ns, {text.seconds(usual_s)} over two of 100 m"
    if not rows[0].holds:
        return Judged(NOT_REPRODUCED, both, rows, shown(run, "paths"))
    verdict, because = (REPRODUCED, both) if rows[1].holds else (REPRODUCED_IF, f"links are short: {both}")
    return Judged(verdict, because, rows, shown(run, "paths"))


def _less(what: str, measured_s: float | None, source: str, modelled_s: float | None = None) -> Row:
    holds = None if measured_s is None else measured_s < RDMA_S
    return Row(what, RDMA_S, modelled_s, measured_s, "s", "less than claimed", holds, source)


def _tcp_latency(run: Run) -> Judged:
    """About 100 us, and fifty times RDMA's."""
    found = _latencies_s(run)
    tcp_s, rdma_s = found.get("tcp"), found.get("rdma")
    times = tcp_s / rdma_s if tcp_s and rdma_s else None
    rows = (
        near("latency by TCP", TCP_S, tcp_s, "s", _LATENCY_SHARE, _CALLS),
        near("by TCP over by RDMA", TIMES_FASTER, times, "x", _LATENCY_SHARE, _CALLS),
        _begin_row(run),
    )
    if tcp_s is None or times is None:
        return Judged(NOT_REPRODUCED, UNTOLD, rows)
    because = f"TCP needs {text.seconds(tcp_s)}, {text.times(times)} what RDMA needs"
    if rows[0].holds and rows[1].holds:
        return Judged(REPRODUCED, because, rows, shown(run, "paths"))
    if tcp_s < TCP_S:
        apart = text.seconds(TCP_S - tcp_s)
        because += f"; the other {apart} would be interrupt moderation and scheduling, which the model has not"
    return Judged(NOT_REPRODUCED, because, rows, shown(run, "paths"))


def _port_rate(run: Run) -> Judged:
    """What the largest message gets of a port by RDMA."""
    rdma = cpu_overhead.pair(run, of_reduce=False).get("rdma")
    largest = None if rdma is None else collective.largest(rdma)
    path = run.parameters.path if rdma is None else rdma.parameters.path
    payload_bps = path.rate_bps * path.segment_bytes / path.frame_bytes
    if largest is None:
        return Judged(NOT_REPRODUCED, UNTOLD, (near("payload by RDMA", PORT_BPS, None, "bits/s", _RATE_SHARE, UNTOLD),))
    rate, what = 8 * largest.algbw, f"payload by RDMA over one port, {text.size(largest.size_bytes)}"
    row = near(what, PORT_BPS, rate, "bits/s", _RATE_SHARE, "calls of cases/rdma", payload_bps)
    return Judged(REPRODUCED if row.holds else NOT_REPRODUCED, f"{text.rate(rate)} of payload", (row,))


_KEYS = {"delay": "100ns", "sizes": "64B,4KiB,256KiB,1MiB,4MiB"}
_PATHS = Trial("cpu_overhead", {**_KEYS, "iterations": "2"}, _KEYS, cases=("rdma", "tcp-free"))
_COSTS = "hosts' processors follow the stated model (workloads/host_cost.py)"
_SHORT = "links of 20 m of fibre (100 ns), one switch of 400 ns"

CLAIMS = (
    Claim(
        key="rdma_latency",
        slides="4",
        says="RDMA brings a message over in less than two microseconds.",
        figures="under 2 us",
        trial=_PATHS,
        model="two links, one switch, a work request posted and a completion taken",
        tolerance="the median of the shortest message is under 2 us",
        judge=_rdma_latency,
        assumptions=(_SHORT, _COSTS, "the shortest message (64 B), as no size is told"),
    ),
    Claim(
        key="tcp_latency",
        slides="4",
        says="TCP/IP needs about 100 microseconds, 50 times what RDMA needs.",
        figures="about 100 us, 50 times",
        trial=_PATHS,
        model="the way, system calls, a packet through the stack, the wake-up of a sleeping receiver",
        tolerance=f"both figures within {_LATENCY_SHARE:.0%}",
        judge=_tcp_latency,
        assumptions=(_SHORT, _COSTS, "neither interrupts held back nor other programs on the processor"),
    ),
    Claim(
        key="port_rate",
        slides="4",
        says="An RDMA port carries 400 Gb/s.",
        figures="400 Gb/s per port",
        trial=_PATHS,
        model="rate x payload / frame",
        tolerance=f"payload within {_RATE_SHARE:.0%} of the rate: headers take their share",
        judge=_port_rate,
        assumptions=(_COSTS,),
    ),
)
