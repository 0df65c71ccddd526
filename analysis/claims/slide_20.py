"""Slide 20: hardware and software together: overlap, compressed gradients, and how training scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis import text
from analysis.claims.judging import UNTOLD, shown, told, untold_row
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.kinds import compression, overlap
from analysis.kinds.compression_runs import ACCURATE_WITHIN, accuracy, factor
from analysis.kinds.overlap_pairs import Pair, pairs
from analysis.kinds.shares import alike, others, share_words
from analysis.kinds.training_setting import modelled
from analysis.kinds.training_steps import compute_s, rank_hosts, step_s, training_steps, waiting_share
from analysis.run import Run

CLAIMED = compression.CLAIMED_SAVING
NEAR_LINEAR = 0.90  # of the throughput of so many GPUs that never wait
_STEPS = "steps of measured.json"


def _saved(quantity: str, value: float | None, expected: float | None, source: str) -> Row:
    """A part of a step that is saved, in percent."""
    holds = None if value is None else value >= CLAIMED
    found, model = (None if each is None else 100 * each for each in (value, expected))
    return Row(quantity, 100 * CLAIMED, model, found, "%", f"at least {CLAIMED:.0%} of a step", holds, source)


# --- overlap


def _overlap(run: Run) -> Judged:
    """As the report judges it: by overlap alone, or with compression too, at best."""
    best = {packed: _best(run, packed) for packed in (False, True)}
    names = {False: "saved by overlap alone", True: "saved by overlap and compression"}
    rows = [_saved_by(names[packed], pair) for packed, pair in best.items()]
    own = best[False]
    if own is not None:
        rows.append(told("overlap alone, at the very most", 100 * own.most_saved, "%", "computing and communication"))
    found = overlap.verdict(run).verdict
    words = "; ".join(f"{names[packed]} {share_words(pair.saved)}" for packed, pair in best.items() if pair)
    figures = shown(run, "overlap_saved", "overlap_buckets")
    if found == overlap.REPRODUCED:
        return Judged(REPRODUCED, words, tuple(rows), figures)
    if found == overlap.WITH_COMPRESSION:
        return Judged(REPRODUCED_IF, f"gradients are compressed too: {words}", tuple(rows), figures)
    return Judged(NOT_REPRODUCED, f"{found}: {words or UNTOLD}", tuple(rows), figures)


def _best(run: Run, packed: bool) -> Pair | None:
    return max((pair for pair in pairs(run) if pair.is_compressed == packed), key=lambda pair: pair.saved, default=None)


def _saved_by(name: str, pair: Pair | None) -> Row:
    if pair is None:
        return _saved(name, None, None, UNTOLD)
    return _saved(f"{name}: {pair.label}", pair.saved, pair.modelled_saved, _STEPS)


# --- compression


def _compression(run: Run) -> Judged:
    """The schemes that lose no accuracy: what each saves of a step."""
    rows = tuple(_scheme(run, name, case) for name, case in others(run).items())
    kept = {name: case for name, case in others(run).items() if _is_accurate(run, case)}
    enough = {name: case for name, case in kept.items() if (_share_saved(run, case) or 0.0) >= CLAIMED}
    if not rows or any(row.holds is None for row in rows):
        return Judged(NOT_REPRODUCED, UNTOLD, rows or (_saved("saved by compression", None, None, UNTOLD),))
    words = "; ".join(_scheme_words(run, name, case) for name, case in others(run).items())
    figures = shown(run, "trade", "accuracy")
    if not enough:
        return Judged(NOT_REPRODUCED, words, rows, figures)
    if len(enough) == len(others(run)):
        return Judged(REPRODUCED, words, rows, figures)
    least, ranks = min(factor(case) or 0.0 for case in enough.values()), len(rank_hosts(run))
    bound = f"updates are {text.digits(least)} times smaller or more: {ranks} ranks send each to all others"
    return Judged(REPRODUCED_IF, f"{bound} ({words})", rows, figures)


def _share_saved(run: Run, case: Run) -> float | None:
    own_s, theirs_s = step_s(run), step_s(case)
    return 1 - theirs_s / own_s if own_s and theirs_s is not None else None


def _is_accurate(run: Run, case: Run) -> bool:
    own, theirs = accuracy(run), accuracy(case)
    return own is not None and theirs is not None and own - theirs <= ACCURATE_WITHIN


def _scheme(run: Run, name: str, case: Run) -> Row:
    return _saved(f"saved by {name}", _share_saved(run, case), waiting_share(run), _STEPS)


def _scheme_words(run: Run, name: str, case: Run) -> str:
    gained = 100 * ((accuracy(case) or 0.0) - (accuracy(run) or 0.0))
    points = f"{round(gained, 1) + 0.0:+.1f} points"
    return f"{name}: {text.times(factor(case))} smaller, {share_words(_share_saved(run, case))} saved, {points}"


# --- scaling


def _scaling(run: Run) -> Judged:
    """Throughput of a ring with overlap as GPUs are added, each with a batch of its own; and with one global batch."""
    runs = [each for each in alike(run).values() if training_steps(each) and _sends_alike(run, each)]
    runs.sort(key=lambda each: len(rank_hosts(each)))
    weak = [each for each in runs if _computing(each) == _computing(run)]
    alone = tuple(_efficiency(each) for each in weak)
    grown = tuple(_grown(weak[0], each) for each in weak[1:])
    shared = tuple(_of_fixed_batch(each) for each in runs if each not in weak)
    verdict, because = _scales(alone, grown, shared)
    missing = (untold_row("throughput, of linear", 100.0, "%"),)
    return Judged(verdict, because, (*(alone or missing), *grown, *shared), shown(run, "share_ranks", "parts"))


def _scales(alone: tuple[Row, ...], grown: tuple[Row, ...], shared: tuple[Row, ...]) -> tuple[str, str]:
    """Against GPUs that never wait; else against the fewest that ran, which wait already."""
    if not grown or any(row.holds is None for row in alone):
        return NOT_REPRODUCED, UNTOLD
    if all(row.holds for row in alone):
        behind = [row for row in shared if (row.measured or 0.0) < 100 * NEAR_LINEAR]
        if not behind:
            return REPRODUCED, _list(alone)
        return REPRODUCED_IF, f"each GPU keeps its batch as the cluster grows: {_list(alone)}; {_list(behind)}"
    if all((row.measured or 0.0) >= 100 * NEAR_LINEAR for row in grown):
        return REPRODUCED_IF, f"the fewest GPUs, which wait already, are what counts: {_list(grown)}; {_list(alone)}"
    return NOT_REPRODUCED, _list(alone)


def _list(rows: Sequence[Row]) -> str:
    return ", ".join(f"{row.quantity}: {row.measured:.0f} %" for row in rows)


def _grown(fewest: Run, run: Run) -> Row:
    """Throughput for each GPU beside that of the fewest."""
    first, own = (_share(each) for each in (fewest, run))
    measured, model = (100 * each / before if each and before else None for each, before in zip(own, first))
    few, many = (len(rank_hosts(each)) for each in (fewest, run))
    return told(f"throughput of {many} GPUs, from {few} on, of linear", measured, "%", _STEPS, model)


def _sends_alike(run: Run, other: Run) -> bool:
    return all(run.spec.get(key) == other.spec.get(key) for key in ("algorithm", "gradient"))


def _computing(run: Run) -> str:
    return str(run.spec.get("compute"))


def _share(run: Run) -> tuple[float | None, float | None]:
    """What of a step is computing, in percent: measured, and modelled."""
    expected, step, computes_s = modelled(run), step_s(run), compute_s(run)
    model = None if expected is None else 100 * expected.compute_s / expected.seconds
    return (100 * computes_s / step if step and computes_s is not None else None), model


def _efficiency(run: Run) -> Row:
    measured, model = _share(run)
    holds = None if measured is None else measured >= 100 * NEAR_LINEAR
    name = f"throughput of {len(rank_hosts(run))} GPUs, of linear"
    return Row(name, 100.0, model, measured, "%", f"at least {NEAR_LINEAR:.0%}", holds, _STEPS)


def _of_fixed_batch(run: Run) -> Row:
    measured, model = _share(run)
    return told(
        f"throughput of {len(rank_hosts(run))} GPUs that share one batch, of linear", measured, "%", _STEPS, model
    )


_SCALING: Mapping[str, str] = {"overlap": "on", "bucket": "1MiB"}
_WEAK, _FIXED = ("ring-4", "ring-32", "ring-64"), "fixed-batch-32"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        key="overlap_40_percent",
        slides="20",
        says="Overlap of communication and computing, and compression, bring training time down by 40 % or more.",
        figures="40 %",
        trial=Trial("overlap", {}, {}, quick_cases=("off", "light-off", "compressed", "light-compressed")),
        model="backward is 2/3 of computing C: overlap saves min(2/3 C, T) of C + T, at most 40 %",
        tolerance="at least 40 % of the step without either",
        judge=_overlap,
        assumptions=(
            "a case computes so long that gradients travel about as long as backward computes, one half of it",
        ),
    ),
    Claim(
        key="compression_40_percent",
        slides="20",
        says="Gradient compression brings training time down by 40 % or more.",
        figures="40 %",
        trial=Trial("compression", {"steps": "40"}, {}),
        model="at most the share of communication; n - 1 updates to each rank, against 2 (n-1)/n gradients on a ring",
        tolerance="at least 40 % of a step, and at most 2 points of accuracy lost",
        judge=_compression,
        assumptions=("a small real network on scikit-learn's digits; links of 10 Gb/s are slow for it",),
    ),
    Claim(
        key="near_linear_scaling",
        slides="20",
        says="With hardware and software together training scales almost linearly.",
        figures="near-linear",
        trial=Trial(
            "training_breakdown",
            _SCALING,
            _SCALING,
            cases=(*_WEAK, "ring-100", _FIXED),
            quick_cases=(*_WEAK[:2], _FIXED),
        ),
        model="computing over the step, whose buckets travel behind backward: 2 (n-1) alpha + 2 (n-1)/n S / B each",
        tolerance="at least 90 % of the throughput of GPUs that never wait, at every number that ran",
        judge=_scaling,
        assumptions=("a ring over one switch at 100 Gb/s; 4 MiB of gradients behind 1.45 ms of computing",),
    ),
)
