"""How far a run on the real clock and its cases can be trusted, as a page tells it; nothing of runs in virtual time."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import text
from analysis.fidelity import FAITHFUL, UNFAITHFUL, Fidelity, Limit, judge, quantity
from analysis.pages.markup import Cell, Html, table
from analysis.pages.shell import badge, paragraph, section
from analysis.run import Run
from analysis.verdicts import Verdict

_HEADS = ("limit", "holds", "measured", "allowed", "because", "read from")
_CASE_HEADS = ("case", "real clock", "why")
_HOLDS = {True: ("✓ yes", "good"), False: ("✗ no", "bad"), None: ("not measured", "open")}
_RULE = (
    "On the real clock a machine that is late looks like a network that is slow. The run is faithful when every limit "
    "was measured and holds, and unfaithful when one does not."
)
_GOOD = {FAITHFUL: True, UNFAITHFUL: False}
_COLOURS = {FAITHFUL: "good", UNFAITHFUL: "bad"}


def badges(run: Run, verdict: Verdict) -> Html:
    """The run's verdict as a coloured pill, and beside it whether it and its cases can be trusted, as far as they were
    on the real clock."""
    own, judged, cases = badge(verdict.verdict, verdict.good), judge(run), _judged_cases(run)
    if judged is None and not cases:
        return own
    doubtful = sum(each.verdict != FAITHFUL for each in cases.values())
    good = None if judged is None or (doubtful and judged.verdict == FAITHFUL) else _GOOD.get(judged.verdict)
    return Html(f"{own} {badge(f'real clock: {_trust(judged, doubtful, len(cases))}', good)}")


def _judged_cases(run: Run) -> dict[str, Fidelity]:
    """The cases on the real clock, by label."""
    found = {label: judge(case) for label, case in run.cases.items()}
    return {label: judged for label, judged in found.items() if judged is not None}


def _trust(own: Fidelity | None, doubtful: int, cases: int) -> str:
    """How far the run and its cases can be trusted, in a few words: "faithful; 3 of its cases are not"."""
    if own is None:
        return f"{cases - doubtful} of {text.counted(cases, 'case')} faithful"
    are = f"{doubtful} of its cases {'is' if doubtful == 1 else 'are'} not"
    return f"{own.verdict}; {are}{'' if own.verdict == FAITHFUL else ' faithful'}" if doubtful else own.verdict


def fidelity_section(run: Run) -> Html:
    """One row for each limit, and one for each case that is not known to be faithful."""
    judged, cases = judge(run), _judged_cases(run)
    if judged is None and not cases:
        return Html("")
    limits = judged.limits if judged else ()
    rows = table(_HEADS, (_row(limit) for limit in limits), whole=(0, 1), stacked=True) if limits else ""
    return section("Fidelity", paragraph(_RULE, "soft"), rows, paragraph(_watching(run), "soft"), *_cases(cases))


def _cases(cases: Mapping[str, Fidelity]) -> tuple[Html, Html]:
    """A table of the cases that are not known to be faithful, and the names of those that are."""
    doubtful = [(label, judged) for label, judged in cases.items() if judged.verdict != FAITHFUL]
    faithful = [label for label, judged in cases.items() if judged.verdict == FAITHFUL]
    rows = ([label, _coloured(judged), _why(judged)] for label, judged in doubtful)
    shown = table(_CASE_HEADS, rows, whole=(0, 1), stacked=True) if doubtful else Html("")
    return shown, paragraph(f"Faithful on the real clock: {', '.join(faithful)}." if faithful else "", "soft")


def _coloured(judged: Fidelity) -> Html:
    return Html(f'<span class="{_COLOURS.get(judged.verdict, "open")}">{judged.verdict}</span>')


def _why(judged: Fidelity) -> str:
    """The limits that broke, or why nothing is known of some."""
    broken = [limit.words for limit in judged.broken]
    return "; ".join(broken or [f"{limit.name}: {limit.source}" for limit in judged.unmeasured])


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
