"""How far a run on the real clock can be trusted, as a page tells it; nothing of a run in virtual time."""

from __future__ import annotations

from analysis import text
from analysis.fidelity import FAITHFUL, UNFAITHFUL, Limit, judge, quantity
from analysis.pages.markup import Cell, Html, table
from analysis.pages.shell import badge, paragraph, section
from analysis.run import Run
from analysis.verdicts import Verdict

_HEADS = ("limit", "holds", "measured", "allowed", "because", "read from")
_HOLDS = {True: ("✓ yes", "good"), False: ("✗ no", "bad"), None: ("not measured", "open")}
_RULE = (
    "On the real clock a machine that is late looks like a network that is slow. The run is faithful when every limit "
    "was measured and holds, and unfaithful when one does not."
)
_GOOD = {FAITHFUL: True, UNFAITHFUL: False}


def badges(run: Run, verdict: Verdict) -> Html:
    """The run's verdict as a coloured pill, and beside it whether a run on the real clock can be trusted."""
    own, judged = badge(verdict.verdict, verdict.good), judge(run)
    return own if judged is None else Html(f"{own} {badge(f'real clock: {judged.verdict}', _GOOD.get(judged.verdict))}")


def fidelity_section(run: Run) -> Html:
    """One row for each limit."""
    judged = judge(run)
    if judged is None:
        return Html("")
    rows = table(_HEADS, (_row(limit) for limit in judged.limits), whole=(0, 1), stacked=True)
    return section("Fidelity", paragraph(_RULE, "soft"), rows, paragraph(_watching(run), "soft"))


def _row(limit: Limit) -> list[Cell]:
    words, colour = _HOLDS[limit.holds]
    what = f" {limit.what}" if limit.what and limit.measured is not None else ""
    measured = f"{quantity(limit.measured, limit.unit)}{what}"
    holds = Html(f'<span class="{colour}">{words}</span>')
    return [limit.name, holds, measured, limit.allowed, limit.because, limit.source]


def _watching(run: Run) -> str:
    """What looking cost."""
    share = run.measured.get("fidelity", {}).get("probe_share")
    return "" if share is None else f"Looking took {text.digits(100 * share)} % of one CPU."
