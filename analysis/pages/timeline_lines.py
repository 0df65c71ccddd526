"""The timelines of a run that are lines: the queue at the hot port, goodput, and DCQCN's rates and alpha.

Several runs are laid over each other, each counted from the begin of its own traffic. What a run has no files for is
left out: None in place of a chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis import text
from analysis.dcqcn import RateSeries
from analysis.figures.incast import thresholds
from analysis.figures.style import looks
from analysis.kinds.arrivals import arrivals, bin_edges_ns, long_flows, trouble
from analysis.pages.timelines import MOST_POINTS, TICKS, Chart, Clock, Level, Line, View, thinned
from analysis.queues import IDLE_GAP_NS, QueueSeries
from analysis.run import Run

MOST_FLOWS = 12
_MOST_MARKS = 600
_FAR = 4  # a buffer beyond so many times what was held would press the line to the ground
_MOST_BINS = 1_500
_LEAST_BIN_FRAMES = 20  # of a full frame's time each: fewer packets show when they came, not their rate
_FIRST_BINS = 250
_TIME = "time since the traffic began"


class Shown(NamedTuple):
    """A run with its name in legends, its colour, and the clock that counts from its own begin; a hidden one is there
    to be laid over the others."""

    name: str
    run: Run
    clock: Clock
    colour: str
    is_hidden: bool = False


def clock_of(run: Run) -> Clock | None:
    """Time since the run's traffic began; None for a run without any."""
    span = run.traffic_ns
    return None if span is None else Clock.over(span[0], span[1] - span[0])


def time_title(clock: Clock) -> str:
    """The title of every time axis."""
    return f"{_TIME} ({clock.unit})"


def round_begins(run: Run, clock: Clock) -> tuple[float, ...]:
    """When each round began, where a run has several."""
    begins = [each.start_ns for each in run.rounds]
    return tuple(clock.at(begins).tolist()) if 1 < len(begins) <= 64 else ()


# --- the queue


def queue_chart(shown: Sequence[Shown], name: str = "queue") -> Chart | None:
    """Bytes held by the hot port over the whole of each run, with its thresholds; None where no run has samples."""
    found = [(each, series) for each in shown for series in [_queue_during(each.run)] if series is not None]
    if all(each.is_hidden for each, _ in found):
        return None
    share, behind = _shares(found)
    lines = [line for each, series in found for line in _queue_lines(each, series, behind if each.is_hidden else share)]
    first, series = found[0]
    plain = [each.run for each, _ in found if not each.is_hidden]
    most = max((float(np.max(line.y, initial=0)) for line in lines if not line.is_hidden), default=0.0)
    return Chart(
        name,
        f"Queue at the hot port: at most {text.size(most * 1e3)}",
        f"Bytes held by the switch port towards the receiver{_thinned_words(found, share)}. "
        f"Ticks: packets were dropped.{hidden_words(shown)}",
        time_title(first.clock),
        first.clock.unit,
        ("queue (KB)",),
        tuple(lines),
        levels=_queue_levels(plain, most),
        views=_burst_views(first, series),
        moments=round_begins(first.run, first.clock),
        still="queue" if len(plain) == 1 else "",
    )


def _shares(found: Sequence[tuple[Shown, QueueSeries]]) -> tuple[int, int]:
    """How many points a run gets that is seen at once, and how many one that is hidden: half of all for each sort."""
    hidden = sum(each.is_hidden for each, _ in found)
    half = MOST_POINTS // 2 if hidden else MOST_POINTS
    return half // max(len(found) - hidden, 1), half // max(hidden, 1)


def _queue_levels(runs: Sequence[Run], most: float) -> tuple[Level, ...]:
    """Thresholds of marking and pausing, and buffers, those far above all that was seen left out."""
    levels = {
        line.name: Level(line.name, line.size_bytes / 1e3, "dot" if line.marks else "dashdot")
        for run in runs
        for line in thresholds(run)
    }
    buffers = sorted({run.parameters.buffer_bytes for run in runs if not run.parameters.pfc})
    full = [Level(f"buffer {text.size(size)}", size / 1e3) for size in buffers if size / 1e3 < _FAR * max(most, 1)]
    return (*levels.values(), *full)


def _queue_during(run: Run) -> QueueSeries | None:
    series, span = run.queue(run.hot_port), run.traffic_ns
    if series is None or span is None:
        return None
    inside = series.between(span[0], span[1] + 1)
    return inside if len(inside) else None


def _queue_lines(each: Shown, series: QueueSeries, most: int) -> list[Line]:
    """The depth as steps that fall to zero where the port was silent, and a tick for samples with drops."""
    silent = series.silences()
    times = np.insert(series.time_ns, silent + 1, series.time_ns[silent] + IDLE_GAP_NS)
    depth = np.insert(series.queue_bytes, silent + 1, 0) / 1e3
    is_end = np.zeros(len(times), bool)
    is_end[silent + 1 + np.arange(len(silent))] = True
    some = thinned(depth, most, is_end)
    x = each.clock.at(times[some])
    line = Line(each.name, each.colour, x, depth[some], is_hidden=each.is_hidden)
    return [line, *_drop_marks(each, series)]


def _drop_marks(each: Shown, series: QueueSeries) -> list[Line]:
    lost = np.diff(series.drops, prepend=series.drops[:1])
    dropping = np.flatnonzero(lost > 0)
    if not len(dropping):
        return []
    groups = np.array_split(dropping, min(len(dropping), _MOST_MARKS))
    firsts = np.array([group[0] for group in groups])
    notes = [f"{text.counted(int(lost[group].sum()), 'packet')} dropped" for group in groups]
    times, depth = each.clock.at(series.time_ns[firsts]), series.queue_bytes[firsts] / 1e3
    name, hidden = f"{each.name}: drops", each.is_hidden
    return [Line(name, each.colour, times, depth, form=TICKS, is_hidden=hidden, group=each.name, notes=notes)]


def _thinned_words(found: Sequence[tuple[Shown, QueueSeries]], share: int) -> str:
    samples = max((len(series) for each, series in found if not each.is_hidden), default=0)
    if samples <= share:
        return ", every sample of it"
    each = -(-2 * samples // share)
    return f"; of {samples:,} samples the least and the largest of each {each}"


def _burst_views(first: Shown, series: QueueSeries) -> tuple[View, ...]:
    """The first burst, where it is a small part of the whole."""
    silent = series.silences(10 * IDLE_GAP_NS)
    if not len(silent):
        return ()
    begin, end = first.clock.at([series.time_ns[0], series.time_ns[silent[0]]]).tolist()
    whole = float(first.clock.at(series.time_ns[-1]))
    return (View("first burst", begin, end + 0.1 * (end - begin)),) if end - begin < 0.3 * whole else ()


# --- goodput


def goodput_chart(shown: Sequence[Shown]) -> Chart | None:
    """Payload a second over time: what left the hot port, or what long flows' receivers got, or else each round's;
    None where no file tells."""
    alone = sum(not each.is_hidden for each in shown) == 1
    lines = [line for each in shown for line in _goodput_lines(each, alone and not each.is_hidden)]
    if all(line.is_hidden for line in lines):
        return None
    first = shown[0]
    rates = sorted({each.run.parameters.path.rate_bps for each in shown if not each.is_hidden})
    return Chart(
        "goodput",
        _goodput_title(lines),
        _goodput_words(shown),
        time_title(first.clock),
        first.clock.unit,
        ("goodput (Gb/s)",),
        tuple(lines),
        levels=tuple(Level(f"line rate {text.rate(rate)}", rate / 1e9) for rate in rates),
        moments=round_begins(first.run, first.clock),
        still="goodput_time" if alone else "",
    )


def _goodput_title(lines: Sequence[Line]) -> str:
    plain = [line for line in lines if not line.is_hidden]
    name, most = max(((line.name, float(np.nanmax(line.y))) for line in plain), key=lambda each: each[1])
    return f"Goodput over time: at most {text.rate(most * 1e9)} ({name})"


def _goodput_words(shown: Sequence[Shown]) -> str:
    sources = {_goodput_source(each.run) for each in shown if not each.is_hidden} - {""}
    return f"Payload bits a second: {'; '.join(sorted(sources))}.{hidden_words(shown)}"


def hidden_words(shown: Sequence[Shown]) -> str:
    """How to see the runs that wait behind."""
    return " A click on a pale name lays that run over it." if any(each.is_hidden for each in shown) else ""


def _goodput_source(run: Run) -> str:
    if run.workload == "long_flows":
        return "" if trouble(run) else "what receivers of long flows got"
    if run.has_capture(run.hot_port):
        return "what left the hot port, packets that were sent twice included"
    return "a round's bytes over its own time" if any(each.payload_bytes for each in run.rounds) else ""


def _goodput_lines(each: Shown, alone: bool) -> list[Line]:
    if not _goodput_source(each.run):
        return []
    if each.run.workload == "long_flows":
        return _long_flow_lines(each, alone)
    if each.run.has_capture(each.run.hot_port):
        return _port_line(each)
    return _round_line(each)


def _long_flow_lines(each: Shown, alone: bool) -> list[Line]:
    """All flows together, and alone each of the first few of them."""
    found, edges_ns = arrivals(each.run), bin_edges_ns(each.run)
    rates = {name: one.rates_bps(edges_ns) / 1e9 for name, one in found.items()}
    together = np.sum(list(rates.values()), axis=0)
    times = each.clock.at(edges_ns)
    lines = [_steps(f"{each.name}: all flows", each.colour, times, together, 2.0, each.is_hidden)]
    if alone:
        names = [flow.name for flow in long_flows(each.run)][:MOST_FLOWS]
        own = looks(names)
        lines += [_steps(name, own[name].colour, times, rates[name], 1.2) for name in names]
    return lines


def _steps(
    name: str, colour: str, edges: np.ndarray, values: np.ndarray, width: float, is_hidden: bool = False
) -> Line:
    """Values (n,) between edges (n+1,)."""
    held = np.append(values, values[-1:])
    return Line(name, colour, edges, held, width=width, is_hidden=is_hidden)


def _port_line(each: Shown) -> list[Line]:
    """The hot port's payload in equal bins, as fine as it needs to show bursts; empty ones are told by their edges."""
    packets, span = each.run.packets(str(each.run.hot_port)), each.run.traffic_ns
    assert span is not None
    during = (packets.payload_bytes > 0) & (packets.time_ns >= span[0]) & (packets.time_ns <= span[1])
    if not during.any():
        return []
    times_ns, sizes = packets.time_ns[during] - span[0], packets.payload_bytes[during]
    path = each.run.parameters.path
    least_ns = max(int(_LEAST_BIN_FRAMES * path.frame_bytes * 8e9 / path.rate_bps), 1)
    bin_ns = _bin_ns(times_ns, span[1] - span[0], least_ns)
    places, amounts = _binned(times_ns, sizes, bin_ns)
    edges, values = _with_gaps(places, amounts * 8 / bin_ns)
    x = each.clock.long(edges * bin_ns)
    return [Line(each.name, each.colour, x, values, is_hidden=each.is_hidden)]


def _bin_ns(times_ns: np.ndarray, span_ns: int, least_ns: int) -> int:
    """Halved as long as not too many bins hold something."""
    bin_ns = max(span_ns // _FIRST_BINS, least_ns)
    while bin_ns // 2 >= least_ns and len(np.unique(times_ns // (bin_ns // 2))) <= _MOST_BINS:
        bin_ns //= 2
    return bin_ns


def _binned(times_ns: np.ndarray, sizes: np.ndarray, bin_ns: int) -> tuple[np.ndarray, np.ndarray]:
    """The bins that hold something, and what."""
    places, where = np.unique(times_ns // bin_ns, return_inverse=True)
    return places, np.bincount(where.ravel(), sizes)


def _with_gaps(places: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Steps: each bin's value at its left edge, zero at the left edge of what is empty behind it."""
    ends = np.append(np.diff(places) > 1, True)
    behind = np.flatnonzero(ends)
    return np.insert(places, behind + 1, places[behind] + 1), np.insert(values, behind + 1, 0.0)


def _round_line(each: Shown) -> list[Line]:
    """Each round's goodput over its own time, nothing between rounds."""
    edges = np.ravel([(one.start_ns, one.end_ns) for one in each.run.rounds])
    values = np.ravel([(one.goodput_bps / 1e9, 0.0) for one in each.run.rounds])
    return [Line(each.name, each.colour, each.clock.at(edges), values, is_hidden=each.is_hidden)]


# --- DCQCN


def rates_chart(run: Run, clock: Clock) -> Chart | None:
    """Rate and alpha of the queue pairs that were cut the deepest; None for a run without DCQCN's record."""
    found = [] if run.dcqcn is None else [each for each in run.dcqcn.rates().values() if len(each)]
    if not found:
        return None
    chosen = sorted(found, key=lambda each: float(each.rate_bps.min()))[:MOST_FLOWS]
    chosen.sort(key=lambda each: text.natural(each.queue_pair))
    own = looks([each.queue_pair for each in chosen])
    share = MOST_POINTS // (2 * len(chosen))
    lines = [line for each in chosen for line in _rate_lines(each, own[each.queue_pair].colour, clock, share)]
    lowest = min(float(each.rate_bps.min()) for each in chosen)
    told = f"the {len(chosen)} that were cut deepest of {len(found)} queue pairs" if len(chosen) < len(found) else "all"
    return Chart(
        "rates",
        f"DCQCN: {text.counted(len(found), 'queue pair')} cut, at the lowest to {text.rate(lowest)}",
        f"Above, the rate at which the NIC lets a queue pair send; below, alpha, half of which the next congestion "
        f"notification takes off the rate. Shown: {told}.",
        time_title(clock),
        clock.unit,
        ("rate (Gb/s)", "alpha"),
        tuple(lines),
        moments=round_begins(run, clock),
        still="rates",
    )


def _rate_lines(series: RateSeries, colour: str, clock: Clock, most: int) -> list[Line]:
    drawn = []
    for panel, values in enumerate((series.rate_bps / 1e9, series.alpha)):
        some = thinned(np.asarray(values, float), most)
        times = clock.at(series.time_ns[some])
        drawn.append(Line(series.queue_pair, colour, times, values[some], panel=panel, width=1.2))
    return drawn
