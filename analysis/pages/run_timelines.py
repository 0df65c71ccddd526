"""Which timelines that can be zoomed a run's page has, and which are laid over each other for several runs."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.figures.style import look, looks
from analysis.measures import peers
from analysis.pages.timeline_bars import pause_chart, run_bars
from analysis.pages.timeline_lines import Shown, clock_of, goodput_chart, queue_chart, rates_chart
from analysis.pages.timelines import Chart, Clock
from analysis.run import Run

MOST_PEERS = 8


def run_charts(run: Run) -> list[Chart]:
    """Every timeline that the run has files for, in the order of the page; none for one without traffic."""
    clock = clock_of(run)
    if clock is None:
        return []
    shown = _with_peers(run, clock)
    found = [
        queue_chart(shown),
        run_bars(run, clock),
        goodput_chart(shown),
        rates_chart(run, clock),
        pause_chart(run, clock),
    ]
    return [chart for chart in found if chart is not None]


def _with_peers(run: Run, clock: Clock) -> list[Shown]:
    """The run, and hidden behind it those that it is compared with."""
    shown = []
    for name, each in peers(run)[: MOST_PEERS + 1]:
        begin = each.traffic_ns
        if begin is not None:
            colour = look(each.parameters.scheme).colour
            shown.append(Shown(name, each, clock.from_(begin[0]), colour, is_hidden=each is not run))
    return shown


def overlaid_charts(named: Sequence[tuple[str, Run]]) -> list[Chart]:
    """Goodput and queue of several runs, each counted from the begin of its own traffic."""
    clocks = [(name, run, clock) for name, run in named for clock in [clock_of(run)] if clock is not None]
    if not clocks:
        return []
    widest, colours = max((clock for *_, clock in clocks), key=lambda clock: clock.unit_ns), _colours(named)
    shown = [Shown(name, run, widest.from_(clock.origin_ns), colours[name]) for name, run, clock in clocks]
    found = [goodput_chart(shown), queue_chart(shown)]
    return [chart for chart in found if chart is not None]


def _colours(named: Sequence[tuple[str, Run]]) -> dict[str, str]:
    """Each run's scheme's colour; where two runs share a scheme, colours of their own."""
    schemes = [run.parameters.scheme for _, run in named]
    if len(set(schemes)) == len(schemes):
        return {name: look(run.parameters.scheme).colour for name, run in named}
    return {name: own.colour for name, own in looks([name for name, _ in named]).items()}
