"""Slide 10: what links of 400 Gb/s, and of less than 100, make of a training step, and how much gradient traffic there
is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from analysis import text
from analysis.claims.fit import fit
from analysis.claims.judging import UNTOLD, answer, shown, told
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.claims.slide_10 import TARGET
from analysis.claims.slides_2_3 import CLAIMS as SHARES
from analysis.kinds.breakdown_points import gradient_bytes
from analysis.kinds.training_steps import rank_hosts, sent_per_step, step_s, waiting_share
from analysis.run import Run
from topologies.units import parse_duration_ns

SLIDE_2_SHARE, HALF = 30.0, 50.0  # % of a step: slide 2's of 10 GPUs; as long as computing
GPUS, TERABYTES = 1000, 1e12
_RING = "ring"


# --- link rate


def _link(good: bool, run: Run) -> Judged:
    """The share of a training step that is communication."""
    share = waiting_share(run)
    measured, limit = None if share is None else 100 * share, SLIDE_2_SHARE if good else HALF
    holds = None if measured is None else (measured <= limit if good else measured > limit)
    rate, tolerance = text.rate(run.parameters.path.rate_bps), "at most" if good else "more than"
    what = f"share of a step communicating, {len(rank_hosts(run))} GPUs at {rate}"
    row = Row(what, limit, _by_rate(run), measured, "%", tolerance, holds, "steps of measured.json")
    if measured is None:
        return Judged(NOT_REPRODUCED, UNTOLD, (row,))
    words = f"at {rate} {text.digits(measured)} % of a step is communication"
    if not holds:
        return Judged(NOT_REPRODUCED, words, (row,), shown(run, "parts"))
    compute = run.spec["compute"]
    because = (
        f"a GPU computes {compute} for {run.spec['gradient']} of gradients, as slide 2's 30 % of 10 GPUs need at 100"
        f" Gb/s: {words}"
    )
    return Judged(REPRODUCED_IF, because, (row,), shown(run, "parts"))


def _by_rate(run: Run) -> float | None:
    """The same by the bytes alone: 2 (N-1)/N S / B beside the computing."""
    ranks = len(rank_hosts(run))
    if not ranks:
        return None
    travel_s = 2 * (ranks - 1) / ranks * gradient_bytes(run) * 8 / run.parameters.path.rate_bps
    return 100 * travel_s / (travel_s + parse_duration_ns(run.spec["compute"], "compute") / 1e9)


# --- gradient traffic


def _traffic(run: Run) -> Judged:
    """All that the ranks of a ring send in a second, read at 1,000 by the line through the lengths of steps."""
    rings = sorted(_rings(run), key=lambda each: len(rank_hosts(each)))
    rows = [row for each in rings for row in [_traffic_row(each)] if row is not None]
    line = fit([(len(rank_hosts(each)), step_s(each) or 0.0) for each in rings])
    if line is None:
        row = Row(f"gradients, {GPUS} GPUs", TERABYTES, None, None, "bytes/s", "at least", None, UNTOLD)
        return Judged(NOT_REPRODUCED, f"{UNTOLD}: too few rings were run for a line", (*rows, row))
    sent = 2 * (GPUS - 1) * gradient_bytes(run)
    compute_s = parse_duration_ns(run.spec["compute"], "compute") / 1e9
    modelled = sent / (compute_s + 2 * (GPUS - 1) / GPUS * gradient_bytes(run) * 8 / run.parameters.path.rate_bps)
    measured = sent / line.seconds(GPUS)
    source = f"line through the steps of {len(rings)} rings, off by {line.error:.0%} at most"
    rows.append(
        Row(f"gradients, {GPUS} GPUs", TERABYTES, modelled, measured, "bytes/s", "at least", measured >= TERABYTES,
            source, extrapolated=True)
    )  # fmt: skip
    words = f"a ring of {GPUS} GPUs sends {text.size(sent)} in a step of {text.seconds(line.seconds(GPUS))} by the line"
    verdict, because = answer(rows[-1:], lambda: words, lambda: f"{words}: {text.size(measured)}/s")
    return Judged(verdict, because, tuple(rows), shown(run, "parts"))


def _rings(run: Run) -> list[Run]:
    """Rings that finished a step, and whose ranks have the run's gradients and batch."""
    same = ("gradient", "compute")
    return [
        each
        for each in (run, *run.cases.values())
        if each.spec.get("algorithm") == _RING
        and step_s(each) is not None
        and all(each.spec.get(key) == run.spec.get(key) for key in same)
    ]


def _traffic_row(run: Run) -> Row | None:
    sent, seconds, ranks = sent_per_step(run), step_s(run), len(rank_hosts(run))
    measured = ranks * sent / seconds if sent is not None and seconds else None
    return told(f"gradients, {ranks} GPUs", measured, "bytes/s", "steps of measured.json")


_SHARED = SHARES[0]  # slide 2's run, which this reads too


def _training(rate: str) -> Mapping[str, str]:
    return {"rate": rate, "steps": "2"}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        key="links_400g",
        slides="10",
        says="Links of 400 Gb/s are good.",
        figures="400 Gb/s",
        trial=Trial("training_breakdown", _training("400Gbps"), _training("400Gbps"), only=True),
        model="t / (t + c), t = 2 (N-1)/N S / B",
        tolerance="a step of 10 GPUs communicates for no more than slide 2's 30 %",
        judge=partial(_link, True),
        assumptions=(TARGET, "gradients travel when backward has ended"),
    ),
    Claim(
        key="links_under_100g",
        slides="10",
        says="Links under 100 Gb/s are poor.",
        figures="under 100 Gb/s: 40 Gb/s, the next lower rate of Ethernet then in use",
        trial=Trial("training_breakdown", _training("40Gbps"), _training("40Gbps"), only=True),
        model="t / (t + c), t = 2 (N-1)/N S / B",
        tolerance="a step of 10 GPUs communicates for longer than it computes",
        judge=partial(_link, False),
        assumptions=(TARGET, "gradients travel when backward has ended"),
    ),
    Claim(
        key="gradient_traffic",
        slides="10",
        says="A cluster of 1,000 GPUs makes terabytes per second of gradient traffic.",
        figures="TB/s",
        trial=_SHARED.trial,
        model="N 2 (N-1)/N S in a step of c + 2 (N-1) (alpha + S / N / B)",
        tolerance="at least 1 TB/s",
        judge=_traffic,
        assumptions=(*_SHARED.assumptions, "1,000 GPUs are not run: read off the line through the rings that are"),
    ),
)
