"""The cases of a run beside it, as the report tells them: one sentence, a table, and the points of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis import text
from analysis.markup import Cell, Html, table
from analysis.run import Run, is_sweep_point
from analysis.summary import comparison, peers
from analysis.verdicts import COLLAPSE, NO_COLLAPSE, NOT_PROVEN, incast_verdict, median_seconds

_EQUAL = 1.05  # rounds within 5 % of each other count as equally long
# The terminal's names, and what the page adds.
_HEADS = (
    *("run", "senders", "goodput", "round (median)", "x ideal", "timeouts", "retransmits", "drops", "marks"),
    *("verdict", "against main"),
)


def cures(run: Run) -> str:
    """What the cases with as many senders did to the round time and to the verdict, as one sentence; empty
    without any."""
    base_s, base_verdict = median_seconds(run.rounds), incast_verdict(run).verdict
    told = [
        f"{each.parameters.label}: {text.seconds(median_s)}, {_outcome(base_verdict, incast_verdict(each).verdict)}"
        f" ({against(base_s, median_s)})"
        for _, each in peers(run)[1:]
        for median_s in [median_seconds(each.rounds)]
        if base_s and median_s
    ]
    return f"The same rounds with {'; '.join(told)}." if told else ""


def _outcome(before: str, now: str) -> str:
    """A case's verdict in words: a cure takes a collapse away."""
    if (before, now) == (COLLAPSE, NO_COLLAPSE):
        return "cured"
    if (before, now) == (COLLAPSE, COLLAPSE):
        return "still a collapse"
    return "collapse not proven" if now == NOT_PROVEN else now


def against(base_s: float | None, seconds: float | None) -> str:
    """How much shorter a median round is than the main run's: "53x faster"; empty when one is missing."""
    if not base_s or not seconds:
        return ""
    factor = max(base_s, seconds) / min(base_s, seconds)
    if factor < _EQUAL:
        return "as long"
    return f"{factor:{',.0f' if factor >= 9.95 else '.2g'}}x {'faster' if seconds < base_s else 'slower'}"


def cases(run: Run) -> Html:
    """The run beside its cases, and the points of a sweep folded away; nothing when it has no cases."""
    main, *others = comparison(run)
    beside = [row for row in others if not is_sweep_point(row["label"])]
    points = [row for row in others if is_sweep_point(row["label"])]
    shown = _table(main, [main, *beside]) if beside else ""
    swept = f"<summary>Sweep over senders: {text.counted(len(points), 'run')}</summary>\n{_table(main, points)}"
    folded = f"<details>{swept}</details>" if points else ""
    soft = f'<p class="soft">main is this run: {main["queue"]}, RTOmin {main["rto_min"]}.</p>'
    return Html(f"<h2>Comparison</h2>\n{soft}\n{shown}\n{folded}" if others else "")


def _table(main: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Html:
    return table(_HEADS, (_row(main, row) for row in rows), numbers=range(1, 9), whole=(0, 9, 10), stacked=True)


def _row(main: Mapping[str, Any], row: Mapping[str, Any]) -> list[Cell]:
    compares = row is not main and row["senders"] == main["senders"]
    return [
        row["label"],
        str(row["senders"]),
        text.rate(row["goodput_bps"]),
        text.seconds(row["median_round_seconds"]),
        text.NOTHING if row["slowdown"] is None else text.digits(row["slowdown"]),
        *(text.count(row[key]) for key in ("timeouts", "retransmits", "drops", "ecn_marks")),
        row["verdict"],
        against(main["median_round_seconds"], row["median_round_seconds"]) if compares else "",
    ]
