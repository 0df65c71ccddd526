"""Slide 14: incast is cured by PFC, by DCQCN, by RDMA: each alone, beside what it needs, and what PFC itself asks and
costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from analysis import text
from analysis.claims.judging import UNTOLD, shown, told, untold
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.claims.slide_14 import INCAST
from analysis.kinds import deadlock, headroom, pause_storm
from analysis.kinds.deadlock import FREE
from analysis.kinds.pause_storm import CONTAINED, HARMLESS
from analysis.kinds.room import Room, rooms
from analysis.kinds.shares import share_words
from analysis.measures import slowdown
from analysis.run import Run
from analysis.verdicts import COLLAPSE, COLLAPSE_SHARE, NO_COLLAPSE, incast_verdict

# Case of the experiment -> what it is called in rows.
_NAMES = {
    "tcp_pfc": "TCP with PFC",
    "roce": "RDMA alone",
    "roce_pfc": "RDMA with PFC",
    "roce_dcqcn": "RDMA with DCQCN",
    "roce_pfc_dcqcn": "RDMA with PFC and DCQCN",
}
_NO_COLLAPSE = f"no collapse: {COLLAPSE_SHARE:.0%} of the goodput without loss, or neither drops nor timeouts"
_ROUNDS, _COUNTERS = "rounds and queue counters of measured.json", "queue counters of measured.json"


def _cured(alone: Sequence[str], helped: Sequence[str], help_words: str, run: Run) -> Judged:
    """Whether rounds take what they do without loss: with the cure alone, else beside what helps it."""
    main = incast_verdict(run).verdict
    rows = [told("TCP without a cure", slowdown(run), "x", _ROUNDS)]
    rows += [_round_row(_NAMES[label], run.cases[label]) for label in (*alone, *helped) if label in run.cases]
    figures = shown(run, "goodput_rounds")
    if main != COLLAPSE:
        return Judged(NOT_REPRODUCED, f"there is nothing to cure: {main}", tuple(rows), figures)
    by_name = {row.quantity: row.holds for row in rows}
    words = "; ".join(f"{row.quantity} {text.times(row.measured)}" for row in rows if row.measured is not None)
    words = f"rounds beside those without loss: {words}"
    if all(by_name.get(_NAMES[label]) for label in alone):
        return Judged(REPRODUCED, words, tuple(rows), figures)
    if helped and all(by_name.get(_NAMES[label]) for label in helped):
        return Judged(REPRODUCED_IF, f"{help_words}; {words}", tuple(rows), figures)
    return Judged(NOT_REPRODUCED, words, tuple(rows), figures)


def _round_row(name: str, run: Run) -> Row:
    """A round over the one without loss; claimed is that there is no collapse."""
    answered = incast_verdict(run).verdict
    holds = {NO_COLLAPSE: True, COLLAPSE: False}.get(answered)
    return Row(name, 1.0, 1.0, slowdown(run), "x", _NO_COLLAPSE, holds, _ROUNDS)


# --- what PFC asks: headroom


def _headroom(run: Run) -> Judged:
    """Packets that the lossless class lost, by the headroom given."""
    found = [each for each in rooms(run) if each.pauses]
    if not found:
        return untold("packets lost", 0.0, "packets")
    rows = tuple(_lost_row(each) for each in found)
    answered = headroom.verdict(run).verdict
    words = ", ".join(f"{row.measured} with {share_words(each.share)} of it" for row, each in zip(rows, found))
    words = f"packets lost with the formula's {text.size(found[0].needed_bytes)} of headroom: {words}"
    if answered != headroom.HOLDS:
        return Judged(NOT_REPRODUCED, f"{answered}: {words}", rows, shown(run, "losses"))
    because = f"each port has the headroom above XOFF that the formula asks for: {words}"
    return Judged(REPRODUCED_IF, because, rows, shown(run, "losses"))


def _lost_row(each: Room) -> Row:
    """Nothing may be lost with the formula's; less of it is told."""
    what = f"packets lost, {share_words(each.share)} of the headroom"
    if not each.is_enough:
        return Row(what, None, None, each.lost, "packets", "", None, _COUNTERS)
    return Row(what, 0.0, 0.0, each.lost, "packets", "none", None if each.lost is None else each.lost == 0, _COUNTERS)


# --- what PFC costs: a pause storm


def _storm(run: Run) -> Judged:
    """What innocent flows keep while one receiver is stuck: by pauses alone, and with a watchdog."""
    watched = run.cases.get("watchdog-500us")
    rows = [_kept_row("PFC alone", run)]
    if watched is not None:
        rows.append(_kept_row("with a watchdog of 500 us, after its time", watched))
    answers = [pause_storm.verdict(each).verdict for each in (run, watched) if each is not None]
    words = "; ".join(f"{row.quantity} {row.measured:.0f} %" for row in rows if row.measured is not None)
    figures = shown(run, "goodput", "tree")
    if rows[0].measured is None:
        return Judged(NOT_REPRODUCED, UNTOLD, tuple(rows), figures)
    if answers[0] == HARMLESS:
        return Judged(REPRODUCED, words, tuple(rows), figures)
    if len(answers) > 1 and answers[1].startswith(CONTAINED):
        because = f"switches have a watchdog that ends pauses which last: {words}"
        return Judged(REPRODUCED_IF, because, tuple(rows), figures)
    return Judged(NOT_REPRODUCED, words, tuple(rows), figures)


def _kept_row(how: str, run: Run) -> Row:
    told_of = pause_storm.row(run)
    share = told_of["freed_share"] if told_of["freed_share"] is not None else told_of["kept_share"]
    measured, least = None if share is None else 100 * share, 100 * pause_storm.KEPT_SHARE
    holds = None if measured is None else measured >= least
    what = f"goodput that an innocent flow keeps, {how}"
    return Row(what, 100.0, None, measured, "%", f"at least {least:.0f} %", holds, "telemetry/arrivals.parquet")


# --- what PFC costs: a deadlock


def _deadlock(run: Run) -> Judged:
    """What still arrives at the end where pauses go round a ring of switches, and where routes have no circle."""
    straight = run.cases.get("up_down")
    rows = [
        _moving_row("round the ring", run),
        *([_moving_row("up and down", straight)] if straight is not None else []),
    ]
    words = "; ".join(f"{row.quantity}: {text.rate(row.measured)}" for row in rows)
    figures = shown(run, "goodput", "tree")
    answers = [deadlock.verdict(each).verdict for each in (run, straight) if each is not None]
    if any(row.measured is None for row in rows):
        return Judged(NOT_REPRODUCED, UNTOLD, tuple(rows), figures)
    if answers[0] == FREE:
        return Judged(REPRODUCED, words, tuple(rows), figures)
    if FREE in answers:
        return Judged(REPRODUCED_IF, f"no circle of switches waits for itself: {words}", tuple(rows), figures)
    return Judged(NOT_REPRODUCED, words, tuple(rows), figures)


def _moving_row(how: str, run: Run) -> Row:
    """Claimed is that flows go on: more than a little of one line."""
    least, measured = deadlock.DEAD_SHARE * run.parameters.path.rate_bps, deadlock.row(run)["last_bps"]
    holds = None if measured is None else measured > least
    what, tolerance = f"all flows in the last quarter, {how}", f"more than {deadlock.DEAD_SHARE:.0%} of one line"
    return Row(what, least, None, measured, "bits/s", tolerance, holds, "telemetry/arrivals.parquet")


def _cure(key: str, name: str, alone: Sequence[str], helped: Sequence[str], help_words: str, model: str) -> Claim:
    return Claim(
        key=key,
        slides="14",
        says=f"Incast is cured by {name}.",
        figures="no collapse",
        trial=INCAST,
        model=model,
        tolerance=_NO_COLLAPSE,
        judge=partial(_cured, alone, helped, help_words),
        assumptions=("100 senders at 400 Gb/s; with PFC all ports share 600 KB, and headroom comes on top",),
    )


_SHORT: Mapping[str, str] = {"rounds": "2", "telemetry": "off"}

CLAIMS: tuple[Claim, ...] = (
    _cure("cure_pfc", "PFC", ("tcp_pfc", "roce_pfc"), (), "", "pauses instead of drops: a round is as without loss"),
    _cure(
        "cure_dcqcn",
        "DCQCN",
        ("roce_dcqcn",),
        ("roce_pfc_dcqcn",),
        "PFC makes the class lossless until DCQCN's marks are heeded",
        "marks are heeded after a round trip: what 100 senders send in the first one must fit",
    ),
    _cure(
        "cure_rdma",
        "RDMA",
        ("roce",),
        ("roce_pfc",),
        "PFC makes the class lossless: RDMA alone goes back to the lost packet and sends all again (go-back-N)",
        "no kernel, no 200 ms; a queue pair's timeout is 67 ms and go-back-N sends all again",
    ),
    Claim(
        key="cure_pfc_headroom",
        slides="14",
        says="PFC loses nothing.",
        figures="no loss",
        trial=Trial("headroom", _SHORT, {}, quick_cases=("headroom-025", "headroom-050", "headroom-125")),
        model="rate x 2 x one-way delay, two frames, and the reaction",
        tolerance="none with the formula's headroom; some with less, else the formula asks too much",
        judge=_headroom,
        assumptions=("8 senders at 100 Gb/s over 400 m of fibre",),
    ),
    Claim(
        key="cure_pfc_storm",
        slides="14",
        says="PFC cures incast without harm to others.",
        figures="a cure",
        trial=Trial("pause_storm", {}, {}, cases=("watchdog-500us", "dcqcn"), quick_cases=("watchdog-500us",)),
        model="a stuck receiver's pauses stop all that shares its way, until a watchdog ends them",
        tolerance=f"innocent flows keep {pause_storm.KEPT_SHARE:.0%} of their goodput",
        judge=_storm,
        assumptions=("one receiver pauses its link for 6 ms (Guo et al., SIGCOMM 2016)",),
    ),
    Claim(
        key="cure_pfc_deadlock",
        slides="14",
        says="PFC cures incast for good.",
        figures="a cure",
        trial=Trial(
            "deadlock", {"duration": "4ms"}, {}, cases=("up_down", "watchdog", "dcqcn"), quick_cases=("up_down",)
        ),
        model="buffers that wait for each other in a circle wait for ever; routes up and down have no circle",
        tolerance=f"in the last quarter more than {deadlock.DEAD_SHARE:.0%} of one line arrives",
        judge=_deadlock,
        assumptions=("a ring of four switches, all packets the same way round (Hu et al., HotNets 2016)",),
    ),
)
