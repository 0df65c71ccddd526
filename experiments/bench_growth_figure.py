"""The figure of the bench of growth: a packet's wall time, set-up and memory over the number of hosts.

`python -m experiments.bench_growth_figure FIGURE.png` measures, draws, and prints the tables as Markdown.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from analysis.figures.style import IDEAL, Look, label, legend_below, legend_rows, looks, new_figure, save
from experiments import screen
from experiments.bench_growth import MOST_GROWTH, Cost, Growth, Series, markdown, measure, ratios
from experiments.commands.setting import built_kernel

_TURNS, _BUSY, _PROMISE = "some eight send at a time", "all send at once", "promised at most"
_SETUP, _MEMORY = "set-up, of a host (ms)", "memory, of a host (MB)"


def draw(growth: Growth, path: Path) -> Path:
    """Left the time of a packet over four links, with what is promised; right what a host takes; the lines go through
    the medians, the bars from the least to the greatest repeat."""
    turns, busy = (statistics.median(ratios(each, packet_us)) for each in (growth.hosts, growth.busy))
    fewest, *_, most = (size.hosts for size in growth.hosts)
    title = (
        f"From {fewest} to {most} hosts the wall time of a packet grows {turns:.2f} times, and {busy:.1f} times where"
        " all send at once"
    )
    names = (_TURNS, _BUSY, _PROMISE, _SETUP, _MEMORY)
    figure, (left, right) = new_figure(title, columns=(1, 1), height_in=2.8, legend_rows=legend_rows(names))
    left.set_position(_part(left, 0.0))
    right.set_position(_part(right, 0.56))
    styles = looks((_TURNS, _BUSY, _SETUP, _MEMORY))
    _line(left, growth.hosts, packet_us, _TURNS, styles)
    _line(left, growth.busy, packet_us, _BUSY, styles)
    small = statistics.median(map(packet_us, next(iter(growth.hosts.values()))))
    left.axhline(MOST_GROWTH * small, color=IDEAL, linestyle="--", linewidth=1, label=_PROMISE)
    _line(right, growth.hosts, lambda cost: cost.setup_s / cost.size.hosts * 1e3, _SETUP, styles)
    _line(right, growth.hosts, lambda cost: cost.memory_bytes / cost.size.hosts / 1e6, _MEMORY, styles)
    for axes, words in ((left, "wall time of a packet (µs)"), (right, "ms, MB")):
        _over_hosts(axes, growth)
        label(axes, "hosts", words)
    left.set_ylim(0, None)
    right.set_yscale("log")
    right.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    right.yaxis.set_minor_formatter(NullFormatter())
    legend_below([left, right])
    return save(figure, path)


def packet_us(cost: Cost) -> float:
    """Wall microseconds of a packet from host to host."""
    return cost.packet_s * 1e6


def _part(axes: Axes, begin: float) -> tuple[float, float, float, float]:
    """Less than a half of the figure's width, from `begin` of it on, so that both panels have room for numbers."""
    place = axes.get_position()
    return 0.1 + 0.88 * begin, place.y0, 0.38, place.height


def _over_hosts(axes: Axes, growth: Growth) -> None:
    axes.set_xscale("log", base=2)
    numbers = [size.hosts for size in growth.hosts]
    axes.set_xticks(numbers, [str(number) for number in numbers])
    axes.xaxis.set_minor_formatter(NullFormatter())


def _line(axes: Axes, costs: Series, of: Callable[[Cost], float], name: str, styles: Mapping[str, Look]) -> None:
    found = {size.hosts: [of(cost) for cost in some] for size, some in costs.items()}
    medians = {hosts: statistics.median(values) for hosts, values in found.items()}
    below = [medians[hosts] - min(values) for hosts, values in found.items()]
    above = [max(values) - medians[hosts] for hosts, values in found.items()]
    colour, marker = styles[name]
    axes.errorbar(
        list(medians),
        list(medians.values()),
        (below, above),
        color=colour,
        marker=marker,
        linewidth=1.2,
        capsize=2,
        label=name,
    )


def main(path: Path) -> int:
    """Measure, draw and tell."""
    growth = measure(built_kernel(), screen.say)
    draw(growth, path)
    print(markdown(growth))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
