"""The figure of random flows: how many datagrams each of the highest links carried, beside what chance gives."""

from __future__ import annotations

import math
from collections import Counter

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.figures.style import IDEAL, Skipped, label, legend_below, legend_rows, looks, new_figure
from analysis.kinds.spread import Tier, is_regular, tiers
from analysis.run import Run

_CHANCE = "by chance (binomial)"
_CAPTION = (
    "How many of the links into the highest tier carried how many datagrams, one of each flow. The black line is "
    "expected when every datagram takes one of these links at random: binomial. Bars at zero are unused links."
)


def histogram(run: Run) -> tuple[Figure, str, str]:
    """Links by the datagrams they carried, of the run and its cases on as many links."""
    found = tiers(run)
    if not found or not found[-1].datagrams:
        raise Skipped("no datagram was counted on a link between tiers")
    top = found[-1]
    shown = {_name(run): top}
    for case in run.cases.values():
        others = tiers(case) if case.workload == run.workload else []
        if others and others[-1].datagrams and len(others[-1].links) == len(top.links):
            shown[_name(case)] = others[-1]
    used = [f"{tier.used} of {len(tier.links)} ({name.partition(':')[0]})" for name, tier in shown.items()]
    title = f"Links from {top.name} in use: {', '.join(used)}"
    names = [*shown, *([_CHANCE] if is_regular(run) else [])]
    figure, (axes,) = new_figure(title, legend_rows=legend_rows(names))
    width, colours = 0.9 / len(shown), looks(list(shown))
    for number, (name, tier) in enumerate(shown.items()):
        links = Counter(tier.links.values())
        aside = width * (number - (len(shown) - 1) / 2)
        places = [count + aside for count in links]
        axes.bar(places, list(links.values()), width=width, color=colours[name].colour, label=name)
    if is_regular(run):
        chance = _binomial(top)
        axes.plot(list(chance), list(chance.values()), color=IDEAL, marker=".", linewidth=1.2, label=_CHANCE)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(-0.8, max(count for tier in shown.values() for count in tier.links.values()) + 0.8)
    label(axes, f"datagrams on a link, {top.name}", "links")
    legend_below([axes])
    return figure, title, _CAPTION


def _name(run: Run) -> str:
    """The run's hash seeds in words, with its label."""
    seeds = {"per_switch": "a seed per switch", "same": "one seed"}
    asked = str(run.spec.get("ecmp_seed"))
    return f"{run.parameters.label}: {seeds.get(asked, asked)}"


def _binomial(tier: Tier) -> dict[int, float]:
    """Links expected with each count of datagrams, as far as they are worth drawing."""
    links, datagrams = len(tier.links), tier.datagrams
    share = 1 / links
    if links == 1:
        return {datagrams: 1.0}
    expected = {
        count: links
        * math.exp(
            math.lgamma(datagrams + 1)
            - math.lgamma(count + 1)
            - math.lgamma(datagrams - count + 1)
            + count * math.log(share)
            + (datagrams - count) * math.log(1 - share)
        )
        for count in range(datagrams + 1)
    }
    return {count: number for count, number in expected.items() if number > 0.01}
