"""Slides 2 and 3: the share of a training step that is communication, as the cluster grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from analysis.claims.judging import UNTOLD, shown
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.kinds import training_breakdown
from analysis.kinds.breakdown_model import CLAIMED, RING, WITHIN, Assumption, deviation
from analysis.kinds.breakdown_points import FIXED_BATCH, Point, assumed, gradient_bytes, line_of, nearest, points
from analysis.kinds.collective_model import Line, seconds
from analysis.kinds.collective_setting import setting
from analysis.run import Run
from topologies.units import parse_duration_ns

_HALF = 50.0  # % of a step: communication takes as long as computing
_WITHIN = f"within {100 * WITHIN:g} points"
_MEASURED, _BY_LINE = "steps of measured.json", "line through the measured numbers of ranks"
_LINES = ("line of the ring", "the line at messages")  # evidence that the lines are to be believed
_FIGURES = ("share_ranks", "parts")
_MOST = max(CLAIMED)


def _modelled(run: Run, ranks: int) -> float:
    """The share in per cent, from the configuration alone: a ring's all-reduce and the computing, one after the
    other."""
    asked = replace(setting(run), collective="all_reduce", ranks=ranks)
    travel_s = seconds(asked, gradient_bytes(run))
    return 100 * travel_s / (travel_s + parse_duration_ns(run.spec["compute"], "compute") / 1e9)


def _rings(run: Run) -> list[Point]:
    """The rings each of whose ranks keeps its batch, by their number."""
    return [each for each in points(run) if each.scheme == RING]


def _plain(run: Run) -> tuple[Assumption, Line] | None:
    """What is measured with nothing assumed, and the line through it; None where too few rings were run."""
    line = line_of(run, RING)
    found = next((each for each, _ in assumed(run) if each.is_plain), None)
    return None if line is None or found is None else (found, line)


# --- the three shares


def _shares(run: Run) -> Judged:
    """As the report judges it: the plain ring, or else the nearest of the listed assumptions."""
    plain, best = _plain(run), nearest(run)
    measured = {each.ranks: 100 * each.share for each in _rings(run)}
    rows = tuple(_share_row(run, ranks, measured, plain) for ranks in CLAIMED)
    if plain is None or best is None:
        return Judged(NOT_REPRODUCED, f"{UNTOLD}: too few rings were run for a line", rows)
    told = ", ".join(f"{row.measured:.0f} %" for row in rows if row.measured is not None)
    found = f"a ring whose ranks keep their batch communicates for {told} of a step"
    verdict, because = _answer(run, found, *best)
    if verdict != REPRODUCED:
        rows = (*rows, *(_assumed_row(ranks, *best) for ranks in CLAIMED))
    return Judged(verdict, because, rows, shown(run, *_FIGURES))


def _answer(run: Run, found: str, best: Assumption, shares: Mapping[int, float]) -> tuple[str, str]:
    """The verdict, and why: with nothing assumed, under the nearest assumption, or neither."""
    judged = training_breakdown.verdict(run)
    unfit = [piece.name for piece in judged.evidence if piece.holds is False and piece.name.startswith(_LINES)]
    if unfit:
        return NOT_REPRODUCED, f"{found}; not as the fitted line has it: {', '.join(unfit)}"
    if judged.verdict == training_breakdown.REPRODUCED:
        return REPRODUCED, found
    under = f"{best.name}: {', '.join(f'{100 * share:.0f} %' for share in shares.values())} by the fitted line; {found}"
    if judged.verdict.startswith(training_breakdown.IF):
        return REPRODUCED_IF, under
    return NOT_REPRODUCED, f"{found}; the nearest assumption is off by {100 * deviation(shares):.1f} points ({under})"


def _share_row(run: Run, ranks: int, measured: Mapping[int, float], plain: tuple[Assumption, Line] | None) -> Row:
    """The plain ring at a claimed number of GPUs: measured where there is a run, else by the line."""
    claimed, by_line = 100 * CLAIMED[ranks], ranks not in measured
    value = measured.get(ranks)
    if value is None and plain is not None:
        value = 100 * plain[0].share(plain[1], ranks)
    holds = None if value is None else abs(value - claimed) <= 100 * WITHIN
    source = _BY_LINE if by_line else _MEASURED
    what = f"share of a step, {ranks} GPUs, batch per GPU fixed"
    return Row(what, claimed, _modelled(run, ranks), value, "%", _WITHIN, holds, source, by_line)


def _assumed_row(ranks: int, assumption: Assumption, shares: Mapping[int, float]) -> Row:
    """The same under the nearest assumption."""
    holds = abs(shares[ranks] - CLAIMED[ranks]) <= WITHIN
    what = f"the same, {assumption.name}"
    return Row(what, 100 * CLAIMED[ranks], None, 100 * shares[ranks], "%", _WITHIN, holds, _BY_LINE, extrapolated=True)


# --- communication overtakes computing


def _overtakes(run: Run) -> Judged:
    """Whether the share rises with every step from fewer ranks to more, and beyond half by the claimed thousand."""
    rings, plain = _rings(run), _plain(run)
    if plain is None:
        row = Row(f"share of a step, {_MOST} GPUs", _HALF, None, None, "%", "more than half", None, UNTOLD)
        return Judged(NOT_REPRODUCED, f"{UNTOLD}: too few rings were run for a line", (row,))
    rises = all(one.share < other.share for one, other in zip(rings, rings[1:]))
    at_most, crossing = 100 * plain[0].share(plain[1], _MOST), _crossing(*plain)
    rows = (
        *(_measured_row(run, each, rises) for each in rings),
        Row(
            f"share of a step, {_MOST} GPUs",
            _HALF,
            _modelled(run, _MOST),
            at_most,
            "%",
            "more than half",
            at_most > _HALF,
            _BY_LINE,
            extrapolated=True,
        ),
        Row(
            "GPUs from which communication takes longer",
            None,
            None,
            crossing,
            "GPUs",
            "",
            None,
            _BY_LINE,
            extrapolated=True,
        ),
        *(_fixed_row(each) for each in points(run) if each.scheme == FIXED_BATCH),
    )
    grown = f"from {rings[0].share:.0%} with {rings[0].ranks} ranks to {rings[-1].share:.0%} with {rings[-1].ranks}"
    told = f"the share goes {grown}, and by the line to {at_most:.0f} % with {_MOST}"
    return Judged(REPRODUCED if rises and at_most > _HALF else NOT_REPRODUCED, told, rows, shown(run, *_FIGURES))


def _crossing(plain: Assumption, line: Line) -> float | None:
    """The fewest ranks at which communication takes longer than computing; None up to ten times the claimed most."""
    return next((ranks for ranks in range(2, 10 * _MOST) if 100 * plain.share(line, ranks) > _HALF), None)


def _measured_row(run: Run, each: Point, rises: bool) -> Row:
    what, tolerance = f"share of a step, {each.ranks} GPUs", "more than with fewer GPUs"
    return Row(what, None, _modelled(run, each.ranks), 100 * each.share, "%", tolerance, rises, _MEASURED)


def _fixed_row(each: Point) -> Row:
    """What all ranks together computing one batch make of it."""
    what = f"share of a step, {each.ranks} GPUs, one batch for all together"
    return Row(what, None, None, 100 * each.share, "%", "", None, _MEASURED)


BREAKDOWN = Trial(
    "training_breakdown",
    {"steps": "1"},
    {},
    quick_cases=("ring-4", "ring-32", "ring-64", "short-64", "fixed-batch-32"),
)
_ASSUMPTIONS = (
    "gradients travel when backward has ended: nothing is hidden",
    "the claim's first point settles how long a rank computes; its growth is what is tried",
    "a star of 100 Gb/s links, 4 MiB of gradients",
)

CLAIMS = (
    Claim(
        key="step_shares",
        slides="2, 3",
        says="The share of a training step that is communication grows with the cluster, by 25 points a decade.",
        figures="10 GPUs 30 %, 100 GPUs 55 %, 1000 GPUs 80 %",
        trial=BREAKDOWN,
        model="t / (t + c), with t = 2 (N-1) (alpha + S / N / B) of a ring, c the computing of a rank",
        tolerance=f"all three shares {_WITHIN}, with nothing assumed or with one of the assumptions listed beforehand",
        judge=_shares,
        assumptions=_ASSUMPTIONS,
    ),
    Claim(
        key="communication_overtakes",
        slides="2, 3",
        says="Communication overtakes computing as the cluster grows.",
        figures="more than half of a step before 1000 GPUs",
        trial=BREAKDOWN,
        model="the share of a ring passes half where 2 (N-1) (alpha + S / N / B) = c",
        tolerance="each number of ranks has a larger share than the one before it, and 1000 by the line more than half",
        judge=_overtakes,
        assumptions=_ASSUMPTIONS,
    ),
)
