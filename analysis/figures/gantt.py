"""Gantt charts: when each flow's blocks were on their way, what each long flow got when, and what each client of
federated learning did in a round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from analysis import text
from analysis.figures.style import (
    INK,
    SMALL,
    Skipped,
    label,
    legend_below,
    legend_rows,
    name_rows,
    new_figure,
    time_unit,
)
from analysis.kinds.arrivals import arrivals, bin_edges_ns, long_flows, trouble
from analysis.kinds.federated_rounds import cast_of, finished
from analysis.kinds.shares import payload_bps
from analysis.run import Run
from analysis.transport.spans import Span

MOST_ROWS = 96
_BAR = "#0072B2"
_ROUND_ENDS = "a round ends"
_PHASE_COLOURS = {"gets the model": "#56B4E9", "trains": "#009E73", "update on its way": "#D55E00"}
_SHARES = LinearSegmentedColormap.from_list("share", ("#FFFFFF", "#56B4E9", "#0072B2", "#00304D"))
_BAR_LEFT, _BAR_RIGHT = 0.885, 0.905  # of the figure's width: the colours' scale
_BLOCKS_CAPTION = (
    "One row for each {row}; a bar from {begin} to {end}. Lines: the ends of rounds, which wait for the slowest.{cut}"
)
_LONG_CAPTION = (
    "One row for each flow, from its begin to its end; the darker, the more of its receiver's link its payload took, "
    "in bins of {width}.{cut}"
)
_CLIENTS_CAPTION = (
    "The longest round, one row for each client: until it had the model, while it trained, and until its update was at "
    "its aggregator. White is waiting.{cut}"
)


class Rows(NamedTuple):
    """Bars (ns) by row in the order of the rows from above, and how many rows there are in all."""

    bars: dict[str, list[Span]]
    total: int

    @property
    def cut(self) -> str:
        """That not all rows are drawn, as a sentence; empty when they are."""
        if len(self.bars) == self.total:
            return ""
        return f" The {len(self.bars)} rows whose last bar ends latest, of {self.total:,}."


def latest(bars: Mapping[str, list[Span]], most: int = MOST_ROWS) -> Rows:
    """The rows whose last bar ends latest, in natural order of their names."""
    slowest = sorted(bars, key=lambda name: (-max(end_ns for _, end_ns in bars[name]), text.natural(name)))[:most]
    return Rows({name: bars[name] for name in sorted(slowest, key=text.natural)}, len(bars))


def gantt(run: Run) -> tuple[Figure, str, str]:
    """When the blocks of each flow, or each rank's part of each call, were on their way."""
    bars, ends_ns, begins, ends, row = _rank_bars(run) if run.workload == "collective" else _flow_bars(run)
    if not bars:
        raise Skipped("nothing was completed, or measured.json does not tell when")
    rows, zero_ns = latest(bars), min(start_ns for spans in bars.values() for start_ns, _ in spans)
    title = _blocks_title(bars, row)
    figure, (axes,) = new_figure(title, height_in=rows_height_in(len(rows.bars)), legend_rows=1)
    scale, unit = time_unit(max(ends_ns) - zero_ns)
    draw_bars(axes, list(rows.bars.values()), lambda time_ns: (time_ns - zero_ns) / scale, _BAR, "on its way")
    for number, end_ns in enumerate(ends_ns):
        name = "_" if number else _ROUND_ENDS
        axes.axvline((end_ns - zero_ns) / scale, color=INK, linewidth=0.7, zorder=1, label=name)
    axes.set_xlim(0, (max(ends_ns) - zero_ns) / scale * 1.01)
    set_rows(axes, list(rows.bars))
    label(axes, f"time since the first began ({unit})", "")
    legend_below([axes])
    return figure, title, _BLOCKS_CAPTION.format(row=row, begin=begins, end=ends, cut=rows.cut)


def block_spans(run: Run) -> dict[str, list[Span]]:
    """When the blocks of each flow were on their way (ns), as its hosts noted it."""
    keys = ("flow", "start_ns", "end_ns")
    entries = run.entries("transfers", keys, whole=keys[1:]) if "transfers" in run.measured else []
    found: dict[str, list[Span]] = {}
    for each in entries:
        found.setdefault(each["flow"], []).append((each["start_ns"], each["end_ns"]))
    return found


def _flow_bars(run: Run) -> tuple[dict[str, list[Span]], list[int], str, str, str]:
    """The blocks of flows."""
    return (
        block_spans(run),
        [each.end_ns for each in run.rounds],
        "its sender's start",
        "the arrival of the last byte",
        "flow",
    )


def _rank_bars(run: Run) -> tuple[dict[str, list[Span]], list[int], str, str, str]:
    """The timed calls of the largest size."""
    hosts = list((run.measured.get("collective") or {}).get("ranks", []))
    entries = run.entries("calls", ("size_bytes", "start_ns", "end_ns"), whole=("size_bytes", "start_ns", "end_ns"))
    timed = [each for each in entries if not each.get("warmup") and len(each.get("rank_end_ns") or ()) == len(hosts)]
    largest = max((each["size_bytes"] for each in timed), default=0)
    some = [each for each in timed if each["size_bytes"] == largest]
    found = {
        host: [(each["start_ns"], each["rank_end_ns"][rank]) for each in some]
        for rank, host in enumerate(hosts)
        if some
    }
    begins = f"the word to begin a call of {text.size(largest)}"
    return found, [each["end_ns"] for each in some], begins, "the end of the rank's part", "rank"


def _blocks_title(bars: Mapping[str, Sequence[Span]], row: str) -> str:
    """How far the slowest row is from the median one."""
    times_s = {name: sum(end - start for start, end in spans) / 1e9 / len(spans) for name, spans in bars.items()}
    slowest, usual_s = max(times_s, key=lambda name: times_s[name]), float(np.median(list(times_s.values())))
    what = "a call" if row == "rank" else "a block"
    return (
        f"{text.counted(len(bars), row)}: {what} takes {text.seconds(usual_s)} with the median {row}, "
        f"{text.seconds(times_s[slowest])} with {slowest}, the slowest"
    )


def rows_height_in(count: int) -> float:
    """The height of a panel of so many rows."""
    return min(max(0.5 + 0.19 * count, 1.2), 5.8)


def draw_bars(
    axes: Axes,
    rows: Sequence[Sequence[Span]],
    place: Callable[[int], float],
    colour: str,
    name: str,
    height: float = 0.7,
) -> None:
    """Bars (ns) in their rows, the first row on top (see `set_rows`); `place` turns a time into a place."""
    corners = [
        _corners(place(start_ns), place(end_ns), number, height)
        for number, spans in enumerate(rows)
        for start_ns, end_ns in spans
    ]
    if corners:
        bars = PolyCollection(corners, facecolors=colour, edgecolors=colour, linewidths=0.4, label=name, zorder=2)
        axes.add_collection(bars)


def _corners(begin: float, end: float, row: int, height: float) -> list[tuple[float, float]]:
    low, high = row - height / 2, row + height / 2
    return [(begin, low), (begin, high), (end, high), (end, low)]


def set_rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the rows, the first on top."""
    name_rows(axes, names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(False, axis="y")


def shares_gantt(run: Run) -> tuple[Figure, str, str]:
    """What each long flow got of its receiver's link, over time."""
    if trouble(run):
        raise Skipped(trouble(run))
    flows, found, edges_ns = long_flows(run), arrivals(run), bin_edges_ns(run)
    shown = flows[:MOST_ROWS]
    shares = np.array([found[flow.name].rates_bps(edges_ns) / payload_bps(run) for flow in shown])
    means = {flow.name: _mean_share(run, flow.begin_ns, flow.end_ns, flow.name) for flow in flows}
    title = _shares_title(means)
    figure, (axes,) = new_figure(title, height_in=rows_height_in(len(shown)), legend_rows=0, right=0.86)
    scale, unit = time_unit(int(edges_ns[-1] - edges_ns[0]))
    centres = edges_ns[:-1] + np.diff(edges_ns) // 2
    lasting = np.array([(centres >= flow.begin_ns) & (centres < flow.end_ns) for flow in shown])
    colours = Normalize(0, max(float(shares.max()), 1e-9))
    places = np.arange(len(shown) + 1) - 0.5
    axes.pcolormesh(
        (edges_ns - edges_ns[0]) / scale, places, np.where(lasting, shares, np.nan), cmap=_SHARES, norm=colours
    )
    axes.grid(False)
    set_rows(axes, [flow.name for flow in shown])
    label(axes, f"time since the first flow began ({unit})", "")
    _draw_scale(axes, colours)
    caption = _LONG_CAPTION.format(width=text.seconds(float(edges_ns[1] - edges_ns[0]) / 1e9), cut=_first(shown, flows))
    return figure, title, caption


def _first(shown: Sequence[Any], flows: Sequence[Any]) -> str:
    return f" The first {len(shown)} of {len(flows):,} flows." if len(shown) < len(flows) else ""


def _mean_share(run: Run, begin_ns: int, end_ns: int, name: str) -> float:
    return arrivals(run)[name].rate_bps(begin_ns, end_ns) / payload_bps(run) if end_ns > begin_ns else 0.0


def _shares_title(means: Mapping[str, float]) -> str:
    most, least = (choose(means, key=lambda name: means[name]) for choose in (max, min))
    told = f"{text.counted(len(means), 'flow')}: {most} takes {means[most]:.0%} of its receiver's link over its time"
    return f"{told}, {least} {means[least]:.0%}" if most != least else told


def _draw_scale(axes: Axes, colours: Normalize) -> None:
    """The colours of the shares, at the right."""
    place = axes.get_position()
    panel = axes.figure.add_axes((_BAR_LEFT, place.y0, _BAR_RIGHT - _BAR_LEFT, place.height))
    bar = axes.figure.colorbar(ScalarMappable(colours, _SHARES), cax=panel, format="{x:.0%}")
    bar.ax.tick_params(labelsize=SMALL, colors=INK)


def clients(run: Run) -> tuple[Figure, str, str]:
    """What each client of federated learning did in the longest round."""
    cast, rounds = cast_of(run), finished(run)
    if cast is None or not rounds:
        raise Skipped("no finished round")
    longest = max(rounds, key=lambda each: each["end_ns"] - each["start_ns"])
    bars = {name: spans for name in cast.clients for spans in [_client_bars(longest, name)] if spans}
    if not bars:
        raise Skipped("no client's update arrived in the longest round")
    rows, zero_ns = latest(bars), longest["start_ns"]
    title = _clients_title(longest, bars)
    figure, (axes,) = new_figure(
        title, height_in=rows_height_in(len(rows.bars)), legend_rows=legend_rows(list(_PHASE_COLOURS))
    )
    last_ns = max(longest["end_ns"], *(end_ns for spans in rows.bars.values() for _, end_ns in spans))
    scale, unit = time_unit(last_ns - zero_ns)
    for number, (name, colour) in enumerate(_PHASE_COLOURS.items()):
        phase = [[spans[number]] for spans in rows.bars.values()]
        draw_bars(axes, phase, lambda time_ns: (time_ns - zero_ns) / scale, colour, name)
    axes.axvline((longest["end_ns"] - zero_ns) / scale, color=INK, linewidth=0.8)
    axes.set_xlim(0, (last_ns - zero_ns) / scale * 1.02)
    set_rows(axes, list(rows.bars))
    label(axes, f"time since the round began ({unit})", "")
    legend_below([axes])
    return figure, title, _CLIENTS_CAPTION.format(cut=rows.cut)


def _client_bars(each: Mapping[str, Any], client: str) -> list[Span]:
    """Until it had the model, its training, its update's way; empty where one is not told."""
    got, trained, arrived = (each[key].get(client) for key in ("broadcast_end_ns", "trained_ns", "arrived_ns"))
    computed = each["computed_ns"].get(client)
    if None in (got, trained, arrived, computed):
        return []
    return [(each["start_ns"], got), (trained - min(computed, trained - got), trained), (trained, arrived)]


def _clients_title(each: Mapping[str, Any], bars: Mapping[str, Sequence[Span]]) -> str:
    """How much later the last update came than the median one."""
    times_s = {name: (spans[-1][1] - each["start_ns"]) / 1e9 for name, spans in bars.items()}
    last, usual_s = max(times_s, key=lambda name: times_s[name]), float(np.median(list(times_s.values())))
    return (
        f"In the longest round the median update is there after {text.seconds(usual_s)}, that of {last} after "
        f"{text.seconds(times_s[last])}"
    )
