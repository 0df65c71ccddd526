"""Whether captures show incast collapse, by the pieces of evidence that a run is judged by (analysis/verdicts.py).

Captures alone tell less than a run directory. What they cannot tell has no value, and says why: then the verdict is no
more than "incast collapse, likely", where everything that can be told speaks for it. It is asked of the receiver that
most hosts send to. A capture at the hot port shows who was silent when and what never came to it; a sender's shows what
was sent again; both together show what was dropped between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis import text
from analysis.explain.crowd import FEWEST_SENDERS, best_rate, by_receiver, host_of
from analysis.explain.lost_time import is_lost, lost_together, most_at_once, working_together
from analysis.explain.model import MIDDLE, RECEIVER, ROCE_FLOW, SENDER, FlowStory, Hop, PauseStory, Point, each_once
from analysis.explain.reasons import TIMEOUTS
from analysis.fidelity import VIRTUAL, Fidelity
from analysis.transport.events import RTO
from analysis.transport.recovery import LINUX_RTO_MIN_NS, Recovery
from analysis.transport.roce import QP_TIMEOUT, QP_TIMEOUT_NS
from analysis.transport.spans import common, total_ns
from analysis.transport.stalls import LOSS_PROBE
from analysis.verdicts import (
    COLLAPSE,
    COLLAPSE_SHARE,
    LONGEST_IDLE,
    NO_COLLAPSE,
    NOT_PROVEN,
    SHORTEST_IDLE,
    TICKS_S,
    Evidence,
    Verdict,
    kept_up,
)

LIKELY_COLLAPSE = "incast collapse, likely"
_FEWEST_BINS = 4  # of the time in which data moved: with fewer, each holds silence too
_SPREAD_SHARE = 0.5  # of the senders: losses of so many at one point are not those of single links


@dataclass(frozen=True)
class _Case:
    """The flows to one receiver, each once; `everywhere` as all points saw them; hops of them; what is known beside."""

    receiver: str
    flows: Sequence[FlowStory]
    everywhere: Sequence[FlowStory]
    hops: Sequence[Hop]
    rto_min_ns: int | None
    rate_bps: int | None
    clock: str | None
    fidelity: Fidelity | None

    @property
    def senders(self) -> set[str]:
        return {host_of(flow.source) for flow in self.flows}

    @property
    def names(self) -> set[str]:
        return {flow.name for flow in self.flows}


def incast_verdict(
    flows: Sequence[FlowStory],
    hops: Sequence[Hop],
    points: Sequence[Point],
    pauses: Sequence[PauseStory],
    recovery: Recovery | None = None,
    rate_bps: int | None = None,
    clock: str | None = None,
    fidelity: Fidelity | None = None,
) -> Verdict:
    """Whether the flows show incast collapse, from what the captures tell; recovery, rate_bps, clock ("virtual",
    "real") and fidelity are those of a run, where they are known. A run on the real clock whose CPU did not keep up
    proves neither; of captures from elsewhere nobody knows."""
    groups = by_receiver(each_once(flows))
    receiver = next(iter(groups), "")
    names = {flow.name for flow in groups.get(receiver, ())}
    case = _Case(
        receiver=receiver,
        flows=groups.get(receiver, []),
        everywhere=[flow for flow in flows if flow.name in names],
        hops=[hop for hop in hops if hop.flow in names],
        rto_min_ns=recovery.rto_min_ns if recovery else None,
        rate_bps=rate_bps,
        clock=clock,
        fidelity=fidelity,
    )
    if len(case.senders) < FEWEST_SENDERS:
        return Verdict("incast", NO_COLLAPSE, (_senders(case),), good=None)
    pieces = (_senders(case), _goodput(case), _timeouts(case), _drops(case, hops), _idle(case), _processor(case))
    is_doubtful = case.clock is not None and not pieces[-1].holds
    answer = NOT_PROVEN if is_doubtful else _answer(pieces, is_joined=any(hop.paired for hop in case.hops))
    return Verdict("incast", answer, pieces, {COLLAPSE: False, LIKELY_COLLAPSE: False, NO_COLLAPSE: True}.get(answer))


def _answer(pieces: Sequence[Evidence], is_joined: bool) -> str:
    """Goodput kept, or nothing lost and no timeout: no collapse. Everything there, drops between two points among it:
    collapse. All that can be told, with timeouts and a goodput that fell among it: a likely one."""
    _, goodput, timed_out, dropped, idle, _ = pieces
    if goodput.holds is False or (timed_out.measured == 0 and dropped.measured == 0):
        return NO_COLLAPSE
    if is_joined and all(piece.holds for piece in pieces):
        return COLLAPSE
    if goodput.holds and timed_out.holds and idle.holds and dropped.holds is not False:
        return LIKELY_COLLAPSE
    return NOT_PROVEN


def _piece(
    name: str,
    measured: float | int | None,
    unit: str,
    tolerance: str,
    holds: bool | None,
    source: str,
    configured: float | None = None,
    modelled: float | None = None,
) -> Evidence:
    return Evidence(name, configured, modelled, measured, unit, tolerance, holds, source)


def _senders(case: _Case) -> Evidence:
    """The most hosts that had work to do for the receiver at one time."""
    most = most_at_once(case.flows)
    source = f"flows to {case.receiver}" if case.flows else "no flow with data was captured"
    return _piece(
        "senders at once", most, "hosts", f"at least {FEWEST_SENDERS} to one receiver", most >= FEWEST_SENDERS, source
    )


def _goodput(case: _Case) -> Evidence:
    """What the receiver got while it was owed something, beside what its link can carry."""
    working_ns = total_ns(working_together(case.flows))
    delivered_bits = sum(flow.delivered_bytes for flow in case.flows) * 8
    got_bps = delivered_bits * 1e9 / working_ns if working_ns else None
    best_bps = case.rate_bps or (_best_bps(case, delivered_bits, got_bps) if got_bps else None)
    best = "the link's rate" if case.rate_bps else "what the link carried at its best"
    holds = got_bps <= COLLAPSE_SHARE * best_bps if got_bps is not None and best_bps else None
    source = "too little was captured" if holds is None else f"data to {case.receiver} while it was owed some"
    tolerance = f"at most {COLLAPSE_SHARE:g} of {best}"
    return _piece("goodput", got_bps, "b/s", tolerance, holds, source, modelled=best_bps)


def _best_bps(case: _Case, delivered_bits: int, got_bps: float) -> float:
    """What the link carried at its best: in one bin of time, or, where bins are long beside the time in which the flows
    did not all stand still, in all of that time. A point that saw most of the flows pass tells better than senders."""
    working = working_together(case.flows)
    moving_ns = total_ns(working) - total_ns(common(lost_together(case.flows), working))
    passing = [flow for flow in case.everywhere if flow.position in (MIDDLE, RECEIVER)]
    point, count = Counter(flow.point for flow in passing).most_common(1)[0] if passing else ("", 0)
    crowded = 2 * count > len(case.flows)
    found = best_rate([flow for flow in passing if flow.point == point] if crowded else case.flows)
    if moving_ns and (found is None or found[1] * _FEWEST_BINS > moving_ns):
        return max(delivered_bits * 1e9 / moving_ns, got_bps)
    return max(found[0], got_bps) if found else got_bps


def _timeouts(case: _Case) -> Evidence:
    """RTOs and timeouts of queue pairs, and loss probes that waited as long as one (analysis/verdicts.py)."""
    rto_min_s = _timer_ns(case)[0] / 1e9
    stalls = [stall for flow in case.flows for stall in flow.stalls]
    late = sum(stall.cause == LOSS_PROBE and stall.seconds >= rto_min_s for stall in stalls)
    fired = sum(map(_fired, case.flows)) + late
    is_blind = not fired and not any(flow.both_ways for flow in case.flows)
    probes = f"; {text.counted(late, 'loss probe')} of RTOmin or longer among them" if late else ""
    return _piece(
        "timeouts or probes as late",
        None if is_blind else fired,
        "waits",
        f"at least 1{probes}",
        None if is_blind else fired >= 1,
        "no acknowledgements were captured" if is_blind else _seen_at(case.flows),
    )


def _fired(flow: FlowStory) -> int:
    """Timeouts of a flow: what was sent again by one at its sender, else the silences that one ended."""
    if flow.position == SENDER:
        return flow.kinds.get(RTO, 0) + flow.kinds.get(QP_TIMEOUT, 0)
    return sum(stall.cause in TIMEOUTS and is_lost(stall) for stall in flow.stalls)


def _seen_at(flows: Iterable[FlowStory]) -> str:
    """Which captures: "captures of 8 senders", "capture at leaf1-eth1"."""
    points = dict.fromkeys(flow.point for flow in flows)
    if len(points) == 1:
        return f"capture at {next(iter(points))}"
    return f"captures at {text.counted(len(points), 'point')}"


def _drops(case: _Case, hops: Sequence[Hop]) -> Evidence:
    if any(hop.paired for hop in case.hops):
        return _dropped_between(case, hops)
    crowded = [flow for flow in case.flows if flow.position in (MIDDLE, RECEIVER)]
    if len({host_of(flow.source) for flow in crowded}) > len({flow.point for flow in crowded}):
        return _dropped_before(case)
    return _dropped_somewhere(case)


def _dropped_between(case: _Case, hops: Sequence[Hop]) -> Evidence:
    """By the packets that one point saw and the next did not: those of the case on the way to one point, and none on
    any other way."""
    ways: dict[str, int] = {}
    for hop in hops:
        ways[hop.second] = ways.get(hop.second, 0) + len(hop.lost_ns)
    ours = {hop.second for hop in case.hops}
    hot = max(ours, key=lambda point: ways[point])
    others = {point: count for point, count in ways.items() if count and point != hot}
    elsewhere = "".join(f"; {text.counted(count, 'packet')} lost before {point}" for point, count in others.items())
    return _piece(
        "drops at the hot port",
        ways[hot],
        "packets",
        f"at least 1, and none on other ways{elsewhere}",
        ways[hot] >= 1 and not others,
        f"packets that passed an earlier point and never {hot}",
    )


def _dropped_before(case: _Case) -> Evidence:
    """By what had to be sent again before it came to the point, of most senders: a loss in a queue that they share."""
    lost = {host_of(flow.source): 0 for flow in case.flows}
    for flow in case.flows:
        lost[host_of(flow.source)] += flow.upstream_losses
    total, losers = sum(lost.values()), sum(count > 0 for count in lost.values())
    is_shared = losers >= max(_SPREAD_SHARE * len(lost), FEWEST_SENDERS)
    return _piece(
        "drops at the hot port",
        total,
        "packets",
        f"at least 1, of {_SPREAD_SHARE:.0%} of the senders or more: here of {losers} of {len(lost)}",
        False if not total else True if is_shared else None,
        f"{_seen_at(case.flows)}: gaps, filled later; lost in that port's queue, or before it",
    )


def _dropped_somewhere(case: _Case) -> Evidence:
    again = sum(flow.resent - flow.spurious for flow in case.flows)
    return _piece(
        "drops at the hot port",
        again,
        "packets",
        "at least 1",
        None if again else False,
        f"what senders sent again; where it was lost only a capture on the way to {case.receiver} could tell"
        if again
        else "senders sent nothing again",
    )


def _idle(case: _Case) -> Evidence:
    """The longest time in which all flows to the receiver stood still together."""
    timer_ns, source = _timer_ns(case)
    still = lost_together(case.flows)
    longest_s = max((end - start for start, end in still), default=0) / 1e9
    shortest_s, timer_s = SHORTEST_IDLE * timer_ns / 1e9, timer_ns / 1e9
    round_trip_s = max((flow.rtt_p99_ns or 0 for flow in case.flows), default=0) / 1e9
    at_senders = all(flow.position == SENDER for flow in case.flows)
    most_s = LONGEST_IDLE * (timer_s + round_trip_s) * 2 ** _backoffs(case.flows) + TICKS_S if at_senders else None
    allowed = f"at least {text.seconds(shortest_s)}" + (f", at most {text.seconds(most_s)}" if most_s else "")
    return _piece(
        "idle link",
        longest_s,
        "s",
        f"{allowed}: about {source}",
        longest_s >= shortest_s and (most_s is None or longest_s <= most_s),
        f"silence of all {text.counted(len(case.flows), 'flow')} to {case.receiver} at once",
        configured=timer_s,
    )


def _timer_ns(case: _Case) -> tuple[int, str]:
    """The timer that ends a silence, and where the value is from."""
    if all(flow.transport == ROCE_FLOW for flow in case.flows):
        seen = [flow.min_rto_ns for flow in case.flows if flow.min_rto_ns is not None]
        return (min(seen), "the shortest timeout seen") if seen else (QP_TIMEOUT_NS, "a queue pair's timeout")
    if case.rto_min_ns is not None:
        return case.rto_min_ns, "RTOmin, ticks and backoff included"
    seen = [flow.min_rto_ns for flow in case.flows if flow.min_rto_ns is not None and flow.position == SENDER]
    return (min(seen), "the shortest timeout seen") if seen else (LINUX_RTO_MIN_NS, "Linux's RTOmin")


def _backoffs(flows: Iterable[FlowStory]) -> int:
    """How often in a row a flow's timeout was doubled: the most RTOs that one segment needed, less one."""
    most = 1
    for flow in flows:
        starts = flow.repeats.start[flow.repeats.kind == RTO]
        most = max(most, int(np.unique(starts, return_counts=True)[1].max(initial=1)))
    return most - 1


def _processor(case: _Case) -> Evidence:
    if case.clock == VIRTUAL or case.fidelity is not None:
        return kept_up(case.fidelity)
    source = "no capture tells whether the machines kept up with their links"
    return _piece("CPU kept up", None, "", "always, in virtual time", None, source)
