"""What the pause watchdogs of a run's switches did."""

from __future__ import annotations

from analysis.kinds.signals import noted
from analysis.pause_log import WATCHDOG_ON
from analysis.run import Run
from analysis.transport.spans import Span
from analysis.verdicts import Evidence


def setting(run: Run) -> str:
    """After how long a pause the run's watchdogs act, as its spec says it: "1ms", "off"."""
    asked = run.spec.get("pfc_watchdog")
    return "off" if asked in (None, "auto", False) else str(asked)


def acts(run: Run, within: Span | None = None) -> int | None:
    """How often a watchdog began to discard, in a span where one is given; None where the run does not tell."""
    found = noted(run, WATCHDOG_ON, within)
    return None if found is None else sum(found.values())


def watched(run: Run, within: Span | None = None) -> Evidence:
    """Whether a watchdog acted, of a run that has some, in a span where one is given."""
    applies, count = setting(run) != "off", acts(run, within)
    told = "telemetry/pauses.parquet" if count is not None else "no pauses.parquet tells of pauses"
    return Evidence(
        name="watchdog acts",
        configured=f"pfc_watchdog {setting(run)}",
        modelled=None,
        measured=count,
        unit="times",
        tolerance="at least once",
        holds=count > 0 if applies and count is not None else None,
        source=told if applies else "not applicable: there is no watchdog",
        applies=applies,
    )
