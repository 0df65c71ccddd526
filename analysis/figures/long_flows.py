"""The figures of long flows: goodput and fairness over time, DCQCN's rates, the bottleneck's queue, pauses, and the
cases beside each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import text
from analysis.figures.style import (
    IDEAL,
    INK,
    SMALL,
    Skipped,
    label,
    legend_below,
    legend_rows,
    looks,
    name_rows,
    new_figure,
)
from analysis.kinds.arrivals import arrivals, bin_edges_ns, even_edges_ns, long_flows, trouble
from analysis.kinds.fairness import FAIR_INDEX, jain, judged
from analysis.kinds.shares import (
    alike,
    all_phases,
    bottleneck,
    bottleneck_rates,
    fairness,
    index_over_time,
    index_words,
    payload_bps,
    queue,
    settling_s,
    steady,
)
from analysis.pause_log import clipped, total_s
from analysis.run import Run
from analysis.transport.spans import Span

_MOST_NAMED, _MOST_ROWS, _QUEUE_BINS, _LEAST_SPAN = 8, 24, 400, 2000
_APART = 0.05  # of the figure's width
_CROWD, _SHADE, _OTHERS = "#56B4E9", "#EEEEEE", "#0072B2"
_SPECIAL = "#D55E00"
_EQUAL, _JUDGED = "equal share", "judged here"
_TIME = "time since the first flow began (ms)"
_GOODPUT_CAPTION = (
    "Payload that arrived of each flow, in bins of {}. Dashed: what each would have if the flows to the same receiver "
    "shared its link alike. Grey: {}."
)
_JUDGED_CAPTION = "where flows are judged, the second half of the longest time in which most of them send"
_FAIRNESS_CAPTION = (
    "Jain's index of the goodput of the flows to one receiver, in bins of {}: 1 when all get the same. Dashed: from "
    f"{FAIR_INDEX:g} on they count as equal. Dotted: a flow joins or leaves."
)
_RATES_CAPTION = (
    "Left: the rate at which DCQCN lets each queue pair send. Right: its alpha, half of which the next CNP takes off "
    "the rate."
)
_QUEUE_CAPTION = (
    "Bytes held by the switch port towards the receiver: dark the median of each moment, light up to the most. Dotted: "
    "the thresholds of marking."
)
_PAUSES_CAPTION = (
    "When each port was paused by its neighbour, the longest paused on top; NICs are called after their host. Grey: {}."
)
_CASES_CAPTION = (
    "What each flow got where flows are judged, one dot each, of this run and of its cases; the stroke is an equal "
    "share of the receiver's link."
)


class Shade(NamedTuple):
    """A span in ns to be set off, and what it is called."""

    span_ns: Span
    name: str


def _begin_ns(run: Run) -> int:
    return min(flow.begin_ns for flow in long_flows(run))


def _ms(run: Run, time_ns: int) -> float:
    return (time_ns - _begin_ns(run)) / 1e6


def _all_ms(run: Run, times_ns: np.ndarray) -> np.ndarray:
    return (times_ns - _begin_ns(run)) / 1e6


def _judged(run: Run) -> Shade | None:
    window = judged(all_phases(run))
    return Shade((window.start_ns, window.end_ns), _JUDGED) if window else None


def _shade(axes: Axes, run: Run, shade: Shade | None) -> None:
    if shade is not None:
        begin, end = (_ms(run, time_ns) for time_ns in shade.span_ns)
        axes.axvspan(begin, end, color=_SHADE, zorder=0, label=shade.name)


def _time_axis(axes: Axes, run: Run) -> None:
    """From the first flow's begin to the last one's end."""
    axes.set_xlim(0, _ms(run, max(flow.end_ns for flow in long_flows(run))))


def goodput(run: Run, shade: Shade | None = None, found_words: str = "") -> tuple[Figure, str, str]:
    """Every flow's goodput over time; `shade` sets off another span than the one in which flows are judged, of which
    `found_words` say what was found."""
    if trouble(run):
        raise Skipped(trouble(run))
    edges_ns, found, flows = bin_edges_ns(run), arrivals(run), long_flows(run)
    title = found_words or _goodput_title(run)
    shade = shade or _judged(run)
    named = len(flows) <= _MOST_NAMED
    names = [flow.name for flow in flows] if named else [f"each of {len(flows)} flows"]
    figure, (axes,) = new_figure(title, legend_rows=legend_rows([*names, _EQUAL, shade.name if shade else ""]))
    _shade(axes, run, shade)
    styles = looks([flow.name for flow in flows])
    for place, flow in enumerate(flows):
        axes.stairs(
            found[flow.name].rates_bps(edges_ns) / 1e9,
            _all_ms(run, edges_ns),
            baseline=None,
            color=styles[flow.name].colour if named else _CROWD,
            linewidth=1.5 if named else 0.7,
            label=flow.name if named else names[0] if place == 0 else None,
        )
    _draw_equal_share(axes, run)
    _time_axis(axes, run)
    axes.set_ylim(bottom=0)
    label(axes, _TIME, "goodput (Gb/s)")
    legend_below([axes])
    width = text.seconds(float(edges_ns[1] - edges_ns[0]) / 1e9)
    grey = shade.name if shade and shade.name != _JUDGED else _JUDGED_CAPTION
    return figure, title, _GOODPUT_CAPTION.format(width, grey)


def _goodput_title(run: Run) -> str:
    found = steady(run)
    if found is None or not found.goodput_bps:
        return f"Goodput of {text.counted(len(long_flows(run)), 'flow')}"
    slowest, fastest = (choose(found.goodput_bps, key=lambda name: found.goodput_bps[name]) for choose in (min, max))
    low, high = text.rate(found.goodput_bps[slowest]), text.rate(found.goodput_bps[fastest])
    return f"{fastest} gets {high}, {slowest} {low}" if low != high else f"Each flow gets {low}"


def _draw_equal_share(axes: Axes, run: Run) -> None:
    """An equal share of the bottleneck for each of its flows, phase by phase."""
    names = {flow.name for flow in bottleneck(run)}
    shared = [(phase, len(names.intersection(phase.flows))) for phase in all_phases(run)]
    for phase, count in shared:
        if count > 1:
            ends = [_ms(run, phase.start_ns), _ms(run, phase.end_ns)]
            first = _EQUAL if phase == next(one for one, some in shared if some > 1) else None
            axes.plot(ends, [payload_bps(run) / count / 1e9] * 2, color=IDEAL, linestyle="--", linewidth=1, label=first)


def fairness_over_time(run: Run) -> tuple[Figure, str, str]:
    """Jain's index over time, with the moments at which flows join and leave."""
    if trouble(run):
        raise Skipped(trouble(run))
    if len(bottleneck(run)) < 2:
        raise Skipped("no two flows share a receiver")
    times_ns, index = index_over_time(run)
    title = _fairness_title(run)
    figure, (axes,) = new_figure(title, legend_rows=1)
    axes.plot(_all_ms(run, times_ns), index, color=INK, linewidth=1.5, label="Jain's index")
    axes.axhline(FAIR_INDEX, color=IDEAL, linestyle="--", linewidth=1, label=f"equal from {FAIR_INDEX:g} on")
    for phase in all_phases(run)[1:]:
        axes.axvline(_ms(run, phase.start_ns), color=_SPECIAL, linestyle=":", linewidth=1.2)
    _time_axis(axes, run)
    axes.set_ylim(0, 1.04)
    label(axes, _TIME, "Jain's index")
    legend_below([axes])
    width = text.seconds(float(times_ns[1] - times_ns[0]) / 1e9) if len(times_ns) > 1 else "the whole time"
    return figure, title, _FAIRNESS_CAPTION.format(width)


def _fairness_title(run: Run) -> str:
    found = settling_s(run)
    slowest = [time_s for _, time_s in found]
    told = f"Jain's index is {index_words(fairness(run))} in the steady state"
    if not found or None in slowest:
        return f"{told}; flows are not equal to the end of every phase"
    longest_s = max(time_s or 0 for time_s in slowest)
    return f"{told}; flows are equal " + (
        f"{text.seconds(longest_s)} after a change or sooner" if longest_s else "at once"
    )


def rates(run: Run) -> tuple[Figure, str, str]:
    """The rate and alpha of every queue pair, as DCQCN's reaction points set them."""
    series = run.dcqcn.rates() if run.dcqcn is not None else {}
    if not series:
        raise Skipped("no queue pair's rate was ever changed")
    lowest = min(float(each.rate_bps.min()) for each in series.values())
    title = f"DCQCN sets {text.counted(len(series), 'queue pair')} to {text.rate(lowest)} at the least"
    named = len(series) <= _MOST_NAMED
    crowd = f"each of {len(series)} queue pairs"
    figure, (left, right) = new_figure(title, (1, 1), legend_rows=legend_rows(list(series) if named else [crowd]))
    _set_apart(left, right)
    styles = looks(list(series))
    for place, (name, each) in enumerate(series.items()):
        colour, width = (styles[name].colour, 1.2) if named else (_CROWD, 0.6)
        known = name if named else crowd if place == 0 else None
        times = _all_ms(run, each.time_ns)
        left.step(times, each.rate_bps / 1e9, where="post", color=colour, linewidth=width, label=known)
        right.step(times, each.alpha, where="post", color=colour, linewidth=width)
    for axes in (left, right):
        _time_axis(axes, run)
        axes.set_ylim(bottom=0)
    label(left, "time (ms)", "rate (Gb/s)")
    label(right, "time (ms)", "alpha")
    legend_below([left])
    return figure, title, _RATES_CAPTION


def _set_apart(left: Axes, right: Axes) -> None:
    """Room between two panels for the right one's own axis."""
    for axes, aside in ((left, 0.0), (right, _APART)):
        place = axes.get_position()
        axes.set_position((place.x0 + aside, place.y0, place.width - _APART, place.height))


def queue_over_time(run: Run) -> tuple[Figure, str, str]:
    """The bottleneck's queue, with the thresholds of marking."""
    series = run.queue(run.hot_port)
    if series is None or not long_flows(run):
        raise Skipped("no queue samples of a hot port")
    begin_ns, end_ns = _begin_ns(run), max(flow.end_ns for flow in long_flows(run))
    inside = series.between(begin_ns, end_ns)
    if not len(inside):
        raise Skipped("the hot port's queue was always empty")
    edges_ns = even_edges_ns(begin_ns, end_ns, _QUEUE_BINS)
    rows = np.split(inside.queue_bytes, np.searchsorted(inside.time_ns, edges_ns[1:-1]))
    middle, most = (np.array([pick(some) / 1e3 if len(some) else 0 for some in rows]) for pick in (np.median, np.max))
    depth = queue(run)
    title = f"The queue at {run.hot_port}: {text.size(depth.p50_bytes)} in the median, " if depth else "The queue at "
    title += f"{text.size(depth.p99_bytes)} or less 99 % of the time" if depth else str(run.hot_port)
    figure, (axes,) = new_figure(title)
    times = _all_ms(run, edges_ns)
    axes.stairs(most, times, fill=True, color="#A9D3EA", label="most")
    axes.stairs(middle, times, baseline=None, color=_OTHERS, linewidth=1.2, label="median")
    for name, bound_bytes in (("Kmin", run.parameters.kmin_bytes), ("Kmax", run.parameters.kmax_bytes)):
        if bound_bytes is not None:
            axes.axhline(bound_bytes / 1e3, color=_SPECIAL, linestyle=":", linewidth=1.2)
            words, place = f"{name} {text.size(bound_bytes)}", axes.get_yaxis_transform()
            axes.text(0.995, bound_bytes / 1e3, words, transform=place, ha="right", va="bottom", fontsize=SMALL)
    _time_axis(axes, run)
    axes.set_ylim(bottom=0)
    label(axes, _TIME, "queue (KB)")
    legend_below([axes])
    return figure, title, _QUEUE_CAPTION


def pause_timeline(run: Run, shade: Shade | None = None) -> tuple[Figure, str, str]:
    """When each port was paused, the longest paused first."""
    log = run.pauses
    held = {} if log is None or run.traffic_ns is None else clipped(log.held, run.traffic_ns)
    if not held or not long_flows(run):
        raise Skipped("no port was paused" if log is not None else "no pauses.parquet tells of pauses")
    last_ns = max(flow.end_ns for flow in long_flows(run))
    ports = sorted(held, key=lambda port: (-total_s(held[port]), text.natural(port)))
    shown = ports[:_MOST_ROWS]
    title = f"{text.counted(len(ports), 'port')} paused; {ports[0]} for {text.seconds(total_s(held[ports[0]]))}"
    shade = shade or _judged(run)
    figure, (axes,) = new_figure(title, height_in=0.5 + 0.19 * len(shown))
    _shade(axes, run, shade)
    for place, port in enumerate(shown):
        axes.broken_barh(_bars(run, held[port], _ms(run, last_ns)), (place - 0.35, 0.7), color=_OTHERS, linewidth=0)
    name_rows(axes, shown, len(shown))
    axes.set_ylim(len(shown) - 0.4, -0.6)
    _time_axis(axes, run)
    label(axes, _TIME, "")
    legend_below([axes])
    return figure, title, _PAUSES_CAPTION.format(shade.name if shade else "")


def _bars(run: Run, spans: Sequence[Span], last_ms: float) -> list[tuple[float, float]]:
    """Begins and widths in ms, those too close together to be told apart joined."""
    found: list[tuple[float, float]] = []
    least_ms = last_ms / _LEAST_SPAN
    for begin_ns, end_ns in spans:
        begin, end = _ms(run, begin_ns), _ms(run, end_ns)
        if found and begin - sum(found[-1]) < least_ms:
            found[-1] = (found[-1][0], end - found[-1][0])
        else:
            found.append((begin, max(end - begin, least_ms)))
    return found


def cases(run: Run, special: Mapping[str, Collection[str]] | None = None, name: str = "") -> tuple[Figure, str, str]:
    """What each flow got, of the run and its cases; special: by label the flows that are set off, called `name`."""
    shown = {label: each for label, each in alike(run).items() if steady(each)}
    if len(shown) < 2:
        raise Skipped("no cases in cases/ to compare")
    title = _cases_title(shown)
    names = ["a flow", _EQUAL, *([name] if special else [])]
    figure, (axes,) = new_figure(title, height_in=0.5 + 0.3 * len(shown), legend_rows=legend_rows(names))
    for place, (case, each) in enumerate(shown.items()):
        found = steady(each)
        assert found is not None
        marked = (special or {}).get(case, ())
        for is_marked, colour, known in ((False, _OTHERS, names[0]), (True, _SPECIAL, name)):
            some = [bps / 1e9 for flow, bps in found.goodput_bps.items() if (flow in marked) == is_marked]
            axes.plot(
                some, [place] * len(some), "o", color=colour, alpha=0.7, label=known if place == 0 and some else None
            )
        share = payload_bps(each) / max(len(bottleneck_rates(each)), 1) / 1e9
        ends = [place - 0.35, place + 0.35]
        axes.plot([share] * 2, ends, color=IDEAL, linewidth=1.6, label=_EQUAL if place == 0 else None)
    name_rows(axes, list(shown), len(shown))
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlim(left=0)
    label(axes, "goodput (Gb/s)", "")
    legend_below([axes])
    return figure, title, _CASES_CAPTION


def _cases_title(shown: Mapping[str, Run]) -> str:
    """The least and the most fair of the runs, and those in which nothing arrived, which has no index."""
    index = {name: jain(list(bottleneck_rates(each).values())) for name, each in shown.items()}
    found = {name: value for name, value in index.items() if value is not None}
    chosen = dict.fromkeys(choose(found, key=lambda name: found[name]) for choose in (min, max) if found)
    told = ", ".join(f"{index_words(found[name])} with {name}" for name in chosen)
    nothing = ", ".join(name for name in shown if name not in found)
    silent = f"nothing arrives with {nothing} where flows are judged" if nothing else ""
    return "; ".join(filter(None, [f"Jain's index is {told}" if told else "", silent]))
