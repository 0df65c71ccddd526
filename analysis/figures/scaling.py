"""The figures of all-reduce over the number of ranks: slide 8, all algorithms up to 1024 ranks, and over the size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from analysis import text
from analysis.figures.collective import binary, mark_times, time_axis
from analysis.figures.style import IDEAL, INK, SMALL, Skipped, label, legend_below, legend_rows, look, new_figure
from analysis.kinds.collective_calls import helper_hosts, nic_bytes_per_call, rank_hosts
from analysis.kinds.scaling_points import (
    BERT_LARGE_BYTES,
    LEAST_BYTES,
    MOST_BYTES,
    MOST_RANKS,
    Crossing,
    Point,
    compared_bytes,
    modelled_s,
    points,
    rank_crossings,
    size_crossings,
    slope_s,
)
from analysis.run import Run

_SERVER, _RING = "parameter_server", "ring"
_TWICE = "twice the data"
_FEW = "fewer than two numbers of ranks in cases/"
_SLIDE_CAPTION = (
    "Left, bytes that the busiest NIC sends or receives in one call (marks), as its queue counts them, headers and "
    "acknowledgements included: the parameter server's, and that of the busiest rank of the ring; the dashed line is "
    "twice the data, which no rank of a ring exceeds by more than headers. Right, the time of a call; the line through "
    "the parameter server's is the regression, whose slope is judged."
)
_RANKS_CAPTION = (
    "Time of one size over the number of ranks: measured in packets (marks), and the alpha-beta model of the "
    "configuration (lines; dashed beyond the largest number that ran). Rings: where one algorithm overtakes another, "
    "by the model; large ones where that is the fastest of all."
)
_SIZE_CAPTION = (
    "Time over the size with the most ranks that ran: measured (marks), the alpha-beta model (lines; dashed where no "
    "size near was sent). Rings: where one algorithm overtakes another; large ones where that is the fastest of "
    "all. The vertical line is BERT-Large's gradients in float32."
)


def server_and_ring(run: Run) -> tuple[Figure, str, str]:
    """Slide 8 on one figure: bytes of the busiest NIC, and time, of the parameter server and the ring."""
    found, size_bytes = points(run), compared_bytes(points(run))
    several = {name: found[name] for name in (_SERVER, _RING) if len(found.get(name, {})) > 1}
    if size_bytes is None or len(several) < 2:
        raise Skipped(_FEW)
    carried = {name: _busiest(points_of, size_bytes) for name, points_of in several.items()}
    if not all(carried.values()):
        raise Skipped("no bytes of NICs in measured.json")
    growth = {name: max(each.values()) / min(each.values()) for name, each in carried.items()}
    numbers = sorted(several[_SERVER])
    title = (
        f"From {numbers[0]} to {numbers[-1]} ranks the server's bytes grow {text.times(growth[_SERVER])}, those of a "
        f"rank of the ring {text.times(growth[_RING])}"
    )
    names = [*several, _TWICE, "regression"]
    figure, (left, right) = new_figure(title, columns=(1, 1), height_in=3.0, legend_rows=legend_rows(names))
    for axes in (left, right):
        axes.set_position(_apart(axes, axes is right))
    for name, each in carried.items():
        style = look(name)
        sizes = [value / 1e6 for value in each.values()]
        left.plot(list(each), sizes, color=style.colour, marker=style.marker, linewidth=1.2, label=name)
    left.axhline(2 * size_bytes / 1e6, color=IDEAL, linestyle="--", linewidth=1, label=_TWICE)
    for name, some in several.items():
        _draw_times(right, name, some, size_bytes)
    for axes in (left, right):
        axes.set_xlim(0, None)
        axes.set_ylim(0, None)
    label(left, "ranks", f"busiest NIC, {binary(size_bytes)}iB (MB a call)")
    label(right, "ranks", "time of a call (ms)")
    legend_below([left, right])
    return figure, title, _SLIDE_CAPTION


def _apart(axes: Axes, is_right: bool) -> tuple[float, float, float, float]:
    """The panel's place, so that both have room for their own numbers."""
    place = axes.get_position()
    left = 0.61 if is_right else place.x0
    return (left, place.y0, (0.975 if is_right else 0.48) - left, place.height)


def _busiest(several: dict[int, Point], size_bytes: int) -> dict[int, float]:
    """Ranks -> bytes of the busiest NIC in a call: the servers' where there are any, else the ranks'."""
    found = {}
    for number, point in several.items():
        row, hosts = point.row(size_bytes), helper_hosts(point.run) or rank_hosts(point.run)
        value = None if row is None else nic_bytes_per_call(point.run, row, hosts)
        if value is not None:
            found[number] = value
    return found


def _draw_times(axes: Axes, name: str, several: dict[int, Point], size_bytes: int) -> None:
    """Measured times, and of the server the regression through them."""
    style, times = look(name), _times(several, size_bytes)
    axes.plot(
        list(times),
        [value * 1e3 for value in times.values()],
        color=style.colour,
        marker=style.marker,
        linestyle="none" if name == _SERVER else "-",
        linewidth=1.2,
        label=name,
    )
    if name == _SERVER and len(times) > 1:
        slope = slope_s(times)
        base = sum(value - slope * number for number, value in times.items()) / len(times)
        ends = (0, max(times))
        line = [1e3 * (base + slope * number) for number in ends]
        axes.plot(ends, line, color=style.colour, linestyle=":", linewidth=1.4, label="regression")


def _times(several: dict[int, Point], size_bytes: int) -> dict[int, float]:
    rows = {number: point.row(size_bytes) for number, point in several.items()}
    return {number: row.seconds for number, row in rows.items() if row is not None}


def over_ranks(run: Run) -> tuple[Figure, str, str]:
    """Time over the number of ranks, measured as far as it ran, modelled up to MOST_RANKS."""
    found, size_bytes = points(run), compared_bytes(points(run))
    if size_bytes is None or max(map(len, found.values()), default=0) < 2:
        raise Skipped(_FEW)
    crossings = rank_crossings(found, size_bytes)
    title = f"All-reduce of {binary(size_bytes)}iB: " + _crossings_words(crossings, lambda at: f"{at:.0f} ranks")
    figure, (axes,) = new_figure(title, height_in=4.2, legend_rows=legend_rows(list(found)))
    for name, several in found.items():
        times, style, last = _times(several, size_bytes), look(name), several[max(several)]
        mark_times(axes, times, style, name)
        ran = _numbers(min(several), max(several))
        beyond = _numbers(max(several), MOST_RANKS)
        for numbers, line in ((ran, "-"), (beyond, "--")):
            curve = [1e3 * modelled_s(last, number, size_bytes) for number in numbers]
            axes.plot(numbers, curve, color=style.colour, linestyle=line, linewidth=1.2)
    _mark(axes, crossings, text.count)
    axes.set_xscale("log", base=2)
    ticks = _numbers(min(min(several) for several in found.values()), MOST_RANKS)
    axes.set_xticks(ticks, [str(number) for number in ticks])
    axes.minorticks_off()
    time_axis(axes, (1.0,))
    label(axes, "ranks", "time of a call (ms)")
    legend_below([axes])
    return figure, title, _RANKS_CAPTION


def _numbers(low: int, high: int) -> list[int]:
    """Powers of two between, both ends included."""
    found = [low]
    while found[-1] * 2 <= high:
        found.append(found[-1] * 2)
    return found


def _crossings_words(crossings: Sequence[Crossing], words: Callable[[float], str]) -> str:
    told = [f"{each.overtaking} overtakes {each.overtaken} at {words(each.place)}" for each in crossings if each.leads]
    return "; ".join(told) if told else "the same algorithm is the fastest throughout"


def _mark(axes: Axes, crossings: Sequence[Crossing], words: Callable[[float], str]) -> None:
    """A ring around each crossing; where the fastest changes a larger one, with its place."""
    for each in crossings:
        axes.plot(
            [each.place],
            [each.seconds * 1e3],
            marker="o",
            markersize=11 if each.leads else 6,
            markerfacecolor="none",
            markeredgecolor=INK,
            markeredgewidth=1.4 if each.leads else 0.8,
            linestyle="none",
            zorder=4,
        )
        if each.leads:
            place = (each.place, each.seconds * 1e3)
            axes.annotate(
                words(each.place), place, xytext=(8, -14), textcoords="offset points", fontsize=SMALL, color=INK
            )


def over_size(run: Run) -> tuple[Figure, str, str]:
    """Time over the size with the most ranks that ran, up to BERT-Large's gradients."""
    found = points(run)
    if not found:
        raise Skipped("no finished call")
    most = max(max(several) for several in found.values())
    shown = {name: several[most] for name, several in found.items() if most in several}
    crossings = size_crossings({name: {most: point} for name, point in shown.items()})
    title = f"{most} ranks: " + _crossings_words(crossings, lambda at: text.size(at))
    bert = f"BERT-Large: {text.size(BERT_LARGE_BYTES)}"
    figure, (axes,) = new_figure(title, height_in=4.2, legend_rows=legend_rows([*shown, bert]))
    sizes = [float(LEAST_BYTES)]
    while sizes[-1] < MOST_BYTES:
        sizes.append(sizes[-1] * 2**0.5)
    for name, point in shown.items():
        _draw_sizes(axes, name, point, sizes)
    axes.axvline(BERT_LARGE_BYTES, color=IDEAL, linestyle=":", linewidth=1.2, label=bert)
    _mark(axes, crossings, text.size)
    axes.set_xscale("log", base=2)
    ticks = [1 << power for power in range(10, 32, 3)]
    axes.set_xticks(ticks, [binary(size_bytes) for size_bytes in ticks])
    axes.minorticks_off()
    axes.xaxis.set_minor_formatter(NullFormatter())
    time_axis(axes, (1.0,))
    label(axes, "size of the buffer", "time of a call (ms)")
    legend_below([axes])
    return figure, title, _SIZE_CAPTION


def _draw_sizes(axes: Axes, name: str, point: Point, sizes: Sequence[float]) -> None:
    style = look(name)
    axes.plot(
        [row.size_bytes for row in point.rows],
        [row.seconds * 1e3 for row in point.rows],
        color=style.colour,
        marker=style.marker,
        linestyle="none",
        label=name,
        zorder=3,
    )
    sent = (point.rows[0].size_bytes, point.rows[-1].size_bytes)
    near = [size for size in sizes if sent[0] / 1.5 <= size <= sent[1] * 1.5]
    for part, line in ((near, "-"), (sizes, "--")):
        curve = [1e3 * modelled_s(point, point.ranks, size) for size in part]
        axes.plot(part, curve, color=style.colour, linestyle=line, linewidth=1.2 if line == "-" else 0.8)
