"""The figures of hosts that all send at once: every host's rate, flows per uplink, and the cases beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis import text
from analysis.figures.style import IDEAL, SMALL, Skipped, label, legend_below, legend_rows, name_rows, new_figure
from analysis.kinds.capacity import Collisions, HostRate, collisions, host_rates
from analysis.run import Run

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_BEST, _LINE, _CHANCE = "best possible", "line rate", "by chance (binomial)"
_MOST_NAMED, _MOST_BARS = 32, 3
_HOSTS_CAPTION = (
    "What every host received over its own transfers' time, headers included, slowest first. The black steps are the "
    "best that the links allow under this traffic, if paths were chosen perfectly; dashed is the line rate, where that "
    "is more."
)
_COLLISIONS_CAPTION = (
    "How many uplinks carried how many flows. The black line is expected when every switch throws its flows onto its "
    "uplinks at random: balls into bins. Uplinks at zero idle while others are shared."
)
_CASES_CAPTION = (
    "For every run the worst, the median and the fastest host, as shares of the line rate, headers included; the black "
    "stroke is the best that all can have at once under the traffic. A host gets more while others on its way get less."
)


def _known(run: Run) -> Sequence[HostRate]:
    rates = host_rates(run) if run.workload in ("permutation", "all_to_all") else ()
    return rates if all(each.best_bps is not None for each in rates) else ()


def hosts_bars(run: Run) -> tuple[Figure, str, str]:
    """Every host's rate, slowest first, beside the best possible."""
    rates = _known(run)
    if not rates:
        raise Skipped("no finished transfer, or no fabric.json to tell what is possible")
    line_bps = run.parameters.path.rate_bps
    least, most = rates[0].rate_bps / line_bps, rates[-1].rate_bps / line_bps
    title = f"{text.counted(len(rates), 'host')} receive {_range(least, most)} of their line rate"
    figure, (axes,) = new_figure(title)
    places = range(len(rates))
    axes.bar(places, [each.rate_bps / 1e9 for each in rates], color=_COLOURS[0], width=0.8, label="received")
    best = [(each.best_bps or 0) / 1e9 for each in rates]
    edges = [place - 0.5 for place in range(len(rates) + 1)]
    blocked = any(value < line_bps / 1e9 for value in best)
    name = _BEST if blocked else f"{_BEST}, the {_LINE}"
    axes.stairs(best, edges, baseline=None, color=IDEAL, linewidth=1.6, label=name)
    if blocked:
        axes.axhline(line_bps / 1e9, color=IDEAL, linestyle="--", linewidth=1, label=_LINE)
    axes.set_ylim(0, 1.08 * max(line_bps / 1e9, *best))
    axes.set_xlim(-0.7, len(rates) - 0.3)
    named = list(places)[:: -(-len(rates) // _MOST_NAMED)]
    axes.set_xticks(named, [rates[place].host for place in named], rotation=90 if len(rates) > 12 else 0)
    axes.grid(False, axis="x")
    label(axes, "", "received (Gb/s)")
    legend_below([axes])
    return figure, title, _HOSTS_CAPTION


def _range(least: float, most: float) -> str:
    """Two shares as a range; one where they read the same."""
    low, high = text.digits(100 * least), text.digits(100 * most)
    return f"{high} %" if low == high else f"{low} to {high} %"


def collisions_histogram(run: Run) -> tuple[Figure, str, str]:
    """Uplinks by the flows they carried, of the run and its first cases with as many flows on as many uplinks."""
    mine = collisions(run)
    if mine is None:
        raise Skipped("no flow was counted on an uplink")
    shown = {run.parameters.label: mine}
    for name, case in run.cases.items():
        found = collisions(case)
        if found is not None and _size(found) == _size(mine) and len(shown) < _MOST_BARS:
            shown[name] = found
    most = ", ".join(f"{name} {each.most}" for name, each in shown.items())
    title = f"Flows on the busiest of {text.counted(len(mine.links), 'uplink')}: {most}"
    names = [*shown, _CHANCE]
    figure, (axes,) = new_figure(title, legend_rows=legend_rows(names))
    width = 0.85 / len(shown)
    for number, (name, each) in enumerate(shown.items()):
        aside = width * (number - (len(shown) - 1) / 2)
        places = [flows + aside for flows in each.measured]
        axes.bar(places, list(each.measured.values()), width=width, color=_COLOURS[number], label=name)
    chance = {flows: links for flows, links in mine.expected.items() if links >= 0.01}
    axes.plot(list(chance), list(chance.values()), color=IDEAL, marker="o", markersize=4, linewidth=1.2, label=_CHANCE)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(-0.7, max(*chance, *(each.most for each in shown.values())) + 0.7)
    label(axes, "flows on an uplink", "uplinks")
    legend_below([axes])
    return figure, title, _COLLISIONS_CAPTION


def _size(each: Collisions) -> tuple[int, int]:
    return len(each.links), sum(each.links.values())


def measured_against_best(run: Run) -> tuple[Figure, str, str]:
    """Worst, median and fastest host of the run and its cases, against the best possible."""
    runs = {run.parameters.label: run, **run.cases}
    shown = {name: (each, rates) for name, each in runs.items() for rates in [_known(each)] if rates}
    if len(shown) < 2:
        raise Skipped("no cases in cases/ to compare")
    title = _cases_title(shown)
    names = ["worst host", "median", "fastest host", _BEST]
    figure, (axes,) = new_figure(title, height_in=0.7 + 0.36 * len(shown), legend_rows=legend_rows(names))
    for place, (each, rates) in enumerate(shown.values()):
        line_bps = each.parameters.path.rate_bps
        shares = [100 * one.rate_bps / line_bps for one in rates]
        best = 100 * min(one.best_bps or 0 for one in rates) / line_bps
        axes.plot([shares[0], shares[-1]], [place, place], color="#9A9A9A", linewidth=2.5, zorder=2)
        named = names if place == 0 else [None] * len(names)
        axes.plot([shares[0]], [place], "o", color=_COLOURS[1], markersize=7, label=named[0], zorder=4)
        axes.plot([median(shares)], [place], "s", color=_COLOURS[0], markersize=6, label=named[1], zorder=3)
        axes.plot([shares[-1]], [place], "^", color=_COLOURS[2], markersize=6, label=named[2], zorder=3)
        axes.plot([best, best], [place - 0.36, place + 0.36], color=IDEAL, linewidth=2, label=named[3], zorder=1)
    name_rows(axes, list(shown), len(shown))
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(0, 104)
    axes.tick_params(axis="y", labelsize=SMALL)
    label(axes, "received, share of the line rate (%)", "")
    legend_below([axes])
    return figure, title, _CASES_CAPTION


def _cases_title(shown: dict[str, tuple[Run, Sequence[HostRate]]]) -> str:
    """The case whose worst host is farthest from what is possible."""
    kept = {
        name: min(one.rate_bps / (one.best_bps or one.rate_bps) for one in rates) for name, (_, rates) in shown.items()
    }
    worst = min(kept, key=lambda name: kept[name])
    best = max(kept, key=lambda name: kept[name])
    return (
        f"The worst host gets {text.digits(100 * kept[best])} % of what is possible with {best}, "
        f"{text.digits(100 * kept[worst])} % with {worst}"
    )
