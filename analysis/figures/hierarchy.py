"""The figures of a GPU pod: 1 GB over the GPUs beside slide 19, one server beside slide 17, the ways beside each
other."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import text
from analysis.figures.collective import binary, mark_times, time_axis
from analysis.figures.style import INK, Look, Skipped, label, legend_below, legend_rows, look, looks, new_figure
from analysis.kinds.hierarchy_points import IN_TURN, OVERLAPPED, RING, Point, links_inside, most_servers, pick, points
from analysis.kinds.slides_hierarchy import CLAIMED_1GB_S, CLAIMED_20GB_S, GPUS_BEYOND, ONE_GB, SOLD, TWENTY_GB, beyond
from analysis.run import Run
from analysis.spec import GPUS_PER_SERVER

_LOOKS = {RING: look("ring"), OVERLAPPED: look("hierarchical"), IN_TURN: Look("#882255", "p")}
_CLAIMED = "claimed by the lecture"
_MEASURED, _LINE, _MODEL = "measured", "line of least squares", "alpha-beta model"
_GPUS_CAPTION = (
    "1 GB all-reduce over the number of GPUs. Full marks: read off the line through the sizes that were sent; open "
    "marks at 512 GPUs: the model, times what it was off on the largest pod that ran. Stars: slide 19."
)
_INSIDE_CAPTION = (
    "All-reduce on one server of 8 GPUs, by a ring over each link: measured in packets (marks), and the line of least "
    "squares through them (dashed), on which larger sizes are read. Stars: what slide 17 claims for 20 GB with "
    "NVSwitch and without, and slide 19 for 1 GB."
)
_WAYS_CAPTION = (
    "Bus bandwidth over the size on the largest pod: a flat ring leaves each server by one NIC, and can carry no more; "
    "hierarchical, every NIC carries an eighth of the data. In turn the stages inside and between follow each other, "
    "overlapped they work on different pieces at the same time. Thin lines: the alpha-beta model; dashed: the rate of "
    "one NIC."
)


def gpus(run: Run) -> tuple[Figure, str, str]:
    """1 GB over the GPUs: off the lines, by the calibrated model, and as claimed."""
    found = points(run)
    lines = _lines_of_1gb(found)
    if not any(len(several) > 1 for several in lines.values()):
        raise Skipped("no line over at least two numbers of servers")
    far = beyond(found)
    title = _gpus_title(lines, far)
    names = [*lines, _CLAIMED]
    figure, (axes,) = new_figure(title, height_in=4, legend_rows=legend_rows(names))
    for way, several in lines.items():
        style = _LOOKS[way]
        told = {**several, **({GPUS_BEYOND: far[way]} if way in far else {})}
        times = [value * 1e3 for value in told.values()]
        axes.plot(list(told), times, color=style.colour, linewidth=1, linestyle=":")
        mark_times(axes, several, style, way)
        if way in far:
            axes.plot(
                [GPUS_BEYOND],
                [far[way] * 1e3],
                color=style.colour,
                marker=style.marker,
                markerfacecolor="none",
                linestyle="none",
                zorder=3,
            )
    _stars(axes, list(CLAIMED_1GB_S), [value * 1e3 for value in CLAIMED_1GB_S.values()])
    axes.set_xscale("log", base=2)
    ticks = [8 << power for power in range(7)]
    axes.set_xticks(ticks, [str(number) for number in ticks])
    axes.minorticks_off()
    time_axis(axes, (1.0, 2.0, 5.0))
    label(axes, "GPUs", "1 GB all-reduce (ms)")
    legend_below([axes])
    return figure, title, _GPUS_CAPTION


def _lines_of_1gb(found: list[Point]) -> dict[str, dict[int, float]]:
    """Way -> GPUs -> seconds of 1 GB by the line; a server alone is where all ways begin."""
    fastest = max((point.inside_bps for point in found), default=0)
    lines: dict[str, dict[int, float]] = {RING: {}, IN_TURN: {}, OVERLAPPED: {}}
    for point in found:
        value = point.extrapolated_s(ONE_GB)
        if value is not None and point.inside_bps == fastest:
            for way in lines if point.servers == 1 else (point.way,):
                lines[way][point.servers * GPUS_PER_SERVER] = value
    return {way: several for way, several in lines.items() if several}


def _gpus_title(lines: dict[str, dict[int, float]], far: dict[str, float]) -> str:
    told = [f"{text.seconds(far[way])} {way}" for way in lines if way in far]
    if told:
        return f"1 GB on {GPUS_BEYOND} GPUs: {', '.join(told)}; claimed: {text.seconds(CLAIMED_1GB_S[GPUS_BEYOND])}"
    return "1 GB all-reduce over the number of GPUs"


def _stars(axes: Axes, places: Sequence[float], values: Sequence[float]) -> None:
    axes.plot(places, values, marker="*", markersize=13, color=INK, linestyle="none", label=_CLAIMED, zorder=4)


def inside(run: Run) -> tuple[Figure, str, str]:
    """One server over each link inside, with the lines up to 20 GB and the lecture's figures."""
    shown = [point for point in links_inside(points(run)) if point.line is not None]
    if not shown:
        raise Skipped("no line of a server alone")
    named = {_link_name(point): point for point in shown}
    told = [f"{text.seconds(each.extrapolated_s(TWENTY_GB))} by {_short_name(each)}" for each in shown]
    title = f"20 GB on 8 GPUs: {', '.join(told)}"
    figure, (axes,) = new_figure(title, height_in=4, legend_rows=legend_rows([*named, _CLAIMED]))
    for (name, point), style in zip(named.items(), looks(list(named)).values()):
        sizes = [row.size_bytes for row in point.rows]
        axes.plot(
            sizes,
            [row.seconds * 1e3 for row in point.rows],
            color=style.colour,
            marker=style.marker,
            linestyle="none",
            label=name,
            zorder=3,
        )
        reach = [float(sizes[0]), TWENTY_GB]
        steps = [reach[0] * (reach[1] / reach[0]) ** (number / 40) for number in range(41)]
        line = [(point.extrapolated_s(size) or 0.0) * 1e3 for size in steps]
        axes.plot(steps, line, color=style.colour, linestyle="--", linewidth=1)
    claims = {TWENTY_GB: CLAIMED_20GB_S.values(), ONE_GB: [CLAIMED_1GB_S[GPUS_PER_SERVER]]}
    stars = [(size, value * 1e3) for size, values in claims.items() for value in values]
    _stars(axes, [size for size, _ in stars], [value for _, value in stars])
    axes.set_xscale("log")
    ticks = [1e7, 1e8, 1e9, 1e10]
    axes.set_xticks(ticks, [text.size(size) for size in ticks])
    axes.minorticks_off()
    time_axis(axes, (1.0, 2.0, 5.0))
    label(axes, "size of the buffer", "time of a call (ms)")
    legend_below([axes])
    return figure, title, _INSIDE_CAPTION


def _short_name(point: Point) -> str:
    return SOLD.get(point.inside_bps, (text.rate(point.inside_bps), 0.0))[0]


def _link_name(point: Point) -> str:
    return f"{_short_name(point)}: {text.size(point.inside_bps / 8)}/s each way"


def ways(run: Run) -> tuple[Figure, str, str]:
    """Bus bandwidth over the size on the largest pod, by every way."""
    found = points(run)
    servers = most_servers(found)
    shown = {way: point for way in _LOOKS if (point := pick(found, servers, way)) is not None and servers > 1}
    if len(shown) < 2:
        raise Skipped("no two ways over several servers")
    told = [f"{text.rate(8 * point.rows[-1].busbw)} {way}" for way, point in shown.items()]
    title = f"{servers * GPUS_PER_SERVER} GPUs, busbw: {', '.join(told)}"
    nic_bps = next(iter(shown.values())).nic_bps
    one_nic = f"one NIC: {text.rate(nic_bps)}"
    figure, (axes,) = new_figure(title, height_in=3.6, legend_rows=legend_rows([*shown, one_nic]))
    for way, point in shown.items():
        _draw_way(axes, way, point)
    axes.axhline(nic_bps / 1e9, color=INK, linestyle="--", linewidth=1, label=one_nic)
    axes.set_ylim(0, None)
    sizes = sorted({row.size_bytes for point in shown.values() for row in point.rows})
    axes.set_xticks(sizes, [binary(size) for size in sizes])
    label(axes, "size of the buffer", "bus bandwidth (Gb/s)")
    legend_below([axes])
    return figure, title, _WAYS_CAPTION


def _draw_way(axes: Axes, way: str, point: Point) -> None:
    style, sizes = _LOOKS[way], [row.size_bytes for row in point.rows]
    axes.plot(
        sizes,
        [8e-9 * row.busbw for row in point.rows],
        color=style.colour,
        marker=style.marker,
        linewidth=1.4,
        label=way,
        zorder=3,
    )
    modelled = [8e-9 * row.size_bytes * row.factor / row.modelled_s for row in point.rows if row.modelled_s]
    if len(modelled) == len(sizes):
        axes.plot(sizes, modelled, color=style.colour, linewidth=0.7)
