"""The figures of pings between all hosts: how many links lie between each two, and how long the way takes."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis import text
from analysis.figures.style import IDEAL, Skipped, label, legend_below, legend_rows, look, new_figure
from analysis.kinds.probes import Probe, by_links, place, probes, spread_ns, unreached
from analysis.run import Run

_MOST_NAMES = 16
_MODELLED = "modelled: store and forward over idle links"
_MAP_CAPTION = (
    "One square per ordered pair of hosts: how many links its probe passed, by the TTL it arrived with (64 as sent, "
    "less one per switch). Hosts are in order, so that racks and pods are squares on the diagonal. White: no probe "
    "arrived."
)
_DELAYS_CAPTION = (
    "Each mark is the one-way delay of ordered pairs of hosts (equal ones fall together), above the number of links "
    "between them. The black lines are modelled: each link's propagation and the frame's time on it, each switch's "
    "pipeline."
)


def links_map(run: Run) -> tuple[Figure, str, str]:
    """A square per ordered pair of hosts, coloured by the links between them."""
    found = probes(run)
    if not found:
        raise Skipped("no probe arrived")
    hosts = sorted({name for probe in found for name in (probe.sender, probe.receiver)}, key=text.natural)
    places = {name: number for number, name in enumerate(hosts)}
    lengths = list(by_links(run))
    shades = dict(zip(lengths, matplotlib.colormaps["Blues"](np.linspace(0.2, 0.95, len(lengths)))))
    squares = np.ones((len(hosts), len(hosts), 4))
    for probe in found:
        squares[places[probe.sender], places[probe.receiver]] = shades[probe.links]
    title = _map_title(run, found)
    names = [f"{length} links {place(run, length)}".rstrip() for length in lengths]
    # Two rows more: the hosts' names stand upright.
    figure, (axes,) = new_figure(title, height_in=5, legend_rows=legend_rows(names) + 2)
    axes.imshow(squares, interpolation="nearest")
    for shade, name in zip(shades.values(), names):
        axes.add_patch(Rectangle((0, 0), 0, 0, color=shade, label=name))
    axes.grid(False)
    _name_hosts(axes, hosts)
    label(axes, "to host", "from host")
    legend_below([axes])
    return figure, title, _MAP_CAPTION


def _map_title(run: Run, found: tuple[Probe, ...]) -> str:
    if unreached(run):
        return f"{text.counted(unreached(run) or 0, 'pair')} of hosts did not reach each other"
    wrong = sum(probe.expected_links not in (None, probe.links) for probe in found)
    if wrong:
        return f"{text.counted(wrong, 'pair')} of hosts took more links than the fabric needs"
    fewest = all(probe.expected_links is not None for probe in found)
    return f"{text.counted(len(found), 'pair')} of hosts" + (": each over the fewest links there are" if fewest else "")


def _name_hosts(axes: Axes, hosts: list[str]) -> None:
    """Name every host, or as many as fit."""
    step = -(-len(hosts) // _MOST_NAMES)
    numbers = range(0, len(hosts), step)
    axes.set_xticks(numbers, hosts[::step], rotation=90)
    axes.set_yticks(numbers, hosts[::step])


def delays(run: Run) -> tuple[Figure, str, str]:
    """One-way delays by the number of links, of the run and its cases, beside the model."""
    shown = [each for each in (run, *run.cases.values()) if each.workload == run.workload and probes(each)]
    if not probes(run):
        raise Skipped("no probe arrived")
    title = _delays_title(run)
    names = [_series(each) for each in shown]
    figure, (axes,) = new_figure(title, legend_rows=legend_rows([*names, _MODELLED]))
    for number, (name, each) in enumerate(zip(names, shown)):
        aside = 0.5 * (number - (len(shown) - 1) / 2) / len(shown)
        _draw_delays(axes, name, each, aside, 0.2 / len(shown))
    axes.set_xticks(sorted({links for each in shown for links in by_links(each)}))
    axes.set_ylim(0, max(probe.delay_ns for each in shown for probe in probes(each)) / 1e3 * 1.12)
    label(axes, "links between the hosts (switches + 1)", "one-way delay (µs)")
    legend_below([axes])
    return figure, title, _DELAYS_CAPTION


def _series(run: Run) -> str:
    return f"{run.parameters.label}: {run.parameters.topology.replace('_', '-')}"


def _delays_title(run: Run) -> str:
    told = [
        f"{text.seconds(max(probe.delay_ns for probe in some) / 1e9)} over {links}"
        for links, some in by_links(run).items()
    ]
    return f"One way takes {', '.join(told)} links; equal ways differ by {text.seconds(spread_ns(probes(run)) / 1e9)}"


def _draw_delays(axes: Axes, name: str, run: Run, aside: float, half_width: float) -> None:
    """The different delays of each class, and the modelled ones as lines through them."""
    style = look(name)
    found = sorted({(probe.links, probe.delay_ns) for probe in probes(run)})
    axes.scatter(
        [links + aside for links, _ in found],
        [delay_ns / 1e3 for _, delay_ns in found],
        s=46,
        color=style.colour,
        marker=style.marker,
        label=name,
        zorder=3,
    )
    modelled = sorted({(probe.links, probe.modelled_ns) for probe in probes(run)})
    middles = np.array([links + aside for links, _ in modelled])
    heights = [delay_ns / 1e3 for _, delay_ns in modelled]
    ends = (middles - 2 * half_width, middles + 2 * half_width)
    axes.hlines(heights, *ends, color=IDEAL, linewidth=1.2, label=_MODELLED, zorder=2)
