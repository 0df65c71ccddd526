"""Slide 10: what a good and a poor physical backbone is: bisection, switch latency, recovery."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from analysis import text
from analysis.claims.judging import answer, shown, told, untold
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.claims.paths import BISECTION, FAILOVER, LEAF_SPINE, evenly, line_over_worst
from analysis.kinds import bisection, failover
from analysis.kinds.bisection import POOR
from analysis.kinds.failover import GOOD_S, POOR_S
from analysis.kinds.losses import CONTROLLER, failures, streams
from analysis.kinds.probes import per_hop_ns, probes
from analysis.run import Run

TARGET = "a target is tried by what meeting it, or missing it, does to those who use the fabric"
GOOD_SWITCH_NS, POOR_SWITCH_NS = 400.0, 1000.0
BETWEEN_SERVERS_NS = 2000.0  # slide 13: RDMA between servers takes 1 to 2 us
_PROBES, _STREAMS = "probes of measured.json", "streams of measured.json"


# --- bisection


def _oversubscribed(run: Run) -> Judged:
    """What a host's rate is over what the worst one gets across the fabric, by the oversubscription."""
    rows = tuple(_ratio_row(each) for each in (run, *run.cases.values()))
    judged = [row for row in rows if row.tolerance]
    words = ", ".join(f"{row.quantity}: {text.digits(row.measured)}" for row in rows if row.measured is not None)
    verdict, because = answer(judged, lambda: words, lambda: words)
    return Judged(verdict, because, rows, shown(run, "bisection"))


def _ratio_row(run: Run) -> Row:
    """1:1 must be good, more than 4:1 poor; what lies between is only told."""
    configured = float(str(run.spec.get("oversubscription")).partition(":")[0])
    measured, modelled = line_over_worst(run)
    what, source = f"line rate over the worst host's, {configured:g}:1", "transfers of measured.json"
    if configured == 1:
        most = 1 / bisection.FULL_SHARE
        holds = None if measured is None else measured <= most
        return Row(what, 1.0, modelled, measured, "", f"good: at most {most:.2f}", holds, source)
    if configured > POOR:
        holds = None if measured is None else measured > POOR
        return Row(what, configured, modelled, measured, "", f"poor: more than {POOR}", holds, source)
    return told(what, measured, "", source, modelled)


# --- switch latency


def _switch(good: bool, run: Run) -> Judged:
    """What a switch takes, and whether slide 13's time between servers can be kept with it."""
    hop_ns = per_hop_ns(run)
    if hop_ns is None:
        return untold("one switch", GOOD_SWITCH_NS if good else POOR_SWITCH_NS, "ns")
    spec, alone_ns = run.parameters, hop_ns - run.parameters.link_delay_ns
    longest_ns = float(max(probe.delay_ns for probe in probes(run)))
    modelled_ns = float(4 * spec.link_delay_ns + 3 * spec.switch_delay_ns)
    claimed_ns = GOOD_SWITCH_NS if good else POOR_SWITCH_NS
    limit, keeps = ("at most", "at most") if good else ("at least", "more than")
    is_so = alone_ns <= claimed_ns + _ROUNDED_NS if good else alone_ns >= claimed_ns - _ROUNDED_NS
    is_kept = longest_ns <= BETWEEN_SERVERS_NS
    rows = (
        Row("one switch, its cable left out", claimed_ns, float(spec.switch_delay_ns), alone_ns, "ns",
            f"{limit}, to {_ROUNDED_NS:g} ns", is_so, _PROBES),
        Row("between servers under two leaves, one way", BETWEEN_SERVERS_NS, modelled_ns, longest_ns, "ns",
            f"{keeps} slide 13's 2 us", is_kept == good, _PROBES),
    )  # fmt: skip
    words = f"three switches of {text.seconds(alone_ns / 1e9)} and four cables take {text.seconds(longest_ns / 1e9)}"
    if not all(row.holds for row in rows):
        return Judged(NOT_REPRODUCED, words, rows, shown(run, "delays"))
    because = f"good means that slide 13's 1 to 2 us between servers are kept: {words}"
    return Judged(REPRODUCED_IF, because, rows, shown(run, "delays"))


_ROUNDED_NS = 2.0  # a link's delay is kept in whole ticks of the queue's clock


# --- recovery


def _recovers(run: Run) -> Judged:
    """The last loss after every failure, of the run and of each of its cases."""
    rows = tuple(_recovery_row(each, GOOD_S) for each in (run, *run.cases.values()))
    words = _spanned(row.measured for row in rows if row.measured is not None)
    verdict, because = answer(
        rows, lambda: f"the last loss comes {words} after its failure", lambda: f"the last loss comes {words} after it"
    )
    return Judged(verdict, because, rows, shown(run, "failover_cases", "failover_timeline"))


def _recovery_row(run: Run, most_s: float) -> Row:
    measured = failover.row(run)["recovery_s"]
    holds = None if measured is None else measured < most_s
    what = f"recovery, {run.parameters.label}"
    return Row(what, most_s, None, measured, "s", "under", holds, _STREAMS)


def _spanned(values: Iterable[float]) -> str:
    found = sorted(values)
    return f"{text.seconds(found[0])} to {text.seconds(found[-1])}" if found else text.NOTHING


def _unrepaired(run: Run) -> Judged:
    """A link that is down for longer than 10 s, and nobody who repairs it or goes round it."""
    measured = failover.row(run)["recovery_s"]
    holds = None if measured is None else measured > POOR_S
    row = Row("recovery, nobody repairs", POOR_S, _down_s(run), measured, "s", "over", holds, _STREAMS)
    lost, sent = failover.row(run)["lost"], sum(each["sent"] for each in streams(run))
    rows = (row, told("datagrams lost", 100 * lost / sent if lost is not None and sent else None, "%", _STREAMS))
    if not holds:
        return Judged(NOT_REPRODUCED, f"over after {text.seconds(measured)}", rows, shown(run, "failover_timeline"))
    because = (
        f"no switch has a detour and the controller is dead: the link's flows lose all for {text.seconds(measured)}, as"
        " long as it is down"
    )
    return Judged(REPRODUCED_IF, because, rows, shown(run, "failover_timeline"))


def _down_s(run: Run) -> float | None:
    """How long the link is down, by the record of what failed."""
    times = {each.action: each.time_ns for each in failures(run) if each.target != CONTROLLER}
    return (times["up"] - times["down"]) / 1e9 if {"up", "down"} <= set(times) else None


_POOR_LATENCY = {**LEAF_SPINE.quick, "switch_delay": "1us"}
_NOBODY = {
    "leaves": "2",
    "fast_failover": "off",
    "interval": "2ms",
    "duration": "12s",
    "failure": "controller:down@5ms,leaf1-spine1:down@101ms,leaf1-spine1:up@10601ms",
}

CLAIMS: tuple[Claim, ...] = (
    Claim(
        key="bisection_1to1",
        slides="10",
        says="A bisection of 1:1 is good: all hosts together get their full rate across the fabric.",
        figures="1:1",
        trial=BISECTION,
        model="line rate over the least that a host can get by the links: 1",
        tolerance=f"the worst host gets {bisection.FULL_SHARE:.0%} of its line rate",
        judge=partial(evenly, "leaf_spine"),
        assumptions=(TARGET, "ports mark instead of dropping: the question is what links carry"),
    ),
    Claim(
        key="bisection_over_4to1",
        slides="10",
        says="A bisection of more than 4:1 is poor.",
        figures="1:1 good, over 4:1 poor",
        trial=Trial("oversubscription", {"bytes": "40MB"}, {}, quick_cases=("ratio-4to1", "ratio-8to1")),
        model="a host gets the line rate over the oversubscription of its leaf",
        tolerance=f"1:1 leaves {bisection.FULL_SHARE:.0%} of the line rate, 8:1 less than a quarter",
        judge=_oversubscribed,
        assumptions=(TARGET, "flows are spread evenly over the uplinks"),
    ),
    Claim(
        key="switch_latency_good",
        slides="10",
        says="A switch latency under 400 ns is good.",
        figures="400 ns",
        trial=LEAF_SPINE,
        model="4 links + 3 switches between hosts under different leaves",
        tolerance="a switch takes what it is set to; slide 13's 2 us between servers are kept",
        judge=partial(_switch, True),
        assumptions=(TARGET, "a cable of 20 m, 100 ns; hosts' own time is none in virtual time"),
    ),
    Claim(
        key="switch_latency_poor",
        slides="10",
        says="A switch latency over 1 us is poor.",
        figures="1 us",
        trial=Trial("hops", _POOR_LATENCY, _POOR_LATENCY, only=True),
        model="4 links + 3 switches between hosts under different leaves",
        tolerance="a switch takes what it is set to; slide 13's 2 us between servers are missed",
        judge=partial(_switch, False),
        assumptions=(TARGET, "a cable of 20 m, 100 ns; hosts' own time is none in virtual time"),
    ),
    Claim(
        key="recovery_good",
        slides="10",
        says="Recovery from a failure in under 1 s is good.",
        figures="1 s",
        trial=FAILOVER,
        model="switches with a detour lose what is in flight; the controller alone takes its latency, 5 ms",
        tolerance="every failure's last loss in under 1 s",
        judge=_recovers,
        assumptions=("a dead port is seen by its switch at once; computing takes no virtual time",),
    ),
    Claim(
        key="recovery_poor",
        slides="10",
        says="Recovery that takes over 10 s is poor.",
        figures="10 s",
        trial=Trial("failover", _NOBODY, _NOBODY, only=True),
        model="without a detour and without a controller a failure lasts until the link is mended",
        tolerance="over 10 s",
        judge=_unrepaired,
        assumptions=(TARGET, "the link is down for 10.5 s"),
    ),
)
