"""The figures of an incast that compare: the hot port's queue, goodput per round, goodput against the number of
senders.

A figure's title states what was found; one whose inputs are missing is skipped, and says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis import text
from analysis.figures.flows import sequence, timeline
from analysis.figures.heat import heat
from analysis.figures.marked_packets import curve
from analysis.figures.marking import marking
from analysis.figures.senders import goodput_senders
from analysis.figures.signals import pauses, rates
from analysis.figures.style import (
    IDEAL,
    INK,
    LOSSLESS_NAME,
    SMALL,
    Drawn,
    Skipped,
    drawn,
    label,
    legend_below,
    legend_rows,
    look,
    new_figure,
    vertical_scale,
)
from analysis.figures.tail import tail
from analysis.measures import classmates, fill_s, marking_bytes, peers
from analysis.queues import IDLE_GAP_NS, QueueSeries
from analysis.run import Run
from analysis.spec import LOSSY
from analysis.verdicts import goodput_bps

_BURST_ENDS_NS = 10 * IDLE_GAP_NS
_MOST_TOLD = 4
_QUEUE_CAPTION = (
    "Bytes held by the switch port towards the receiver, sampled while there were any, in the first "
    "burst of the first round. Ticks above the dashed buffer line are the moments at which packets were "
    "dropped; a dotted line is an ECN threshold."
)
_LOSSLESS_CAPTION = (
    "The same of the runs whose data is in the lossless class. Dash-dotted: XOFF, above which a neighbour is paused, "
    "and XON, at which it is resumed; where they are counted for each ingress port, the queue holds what came in by "
    "all of them, and where ports share memory, XOFF falls as it fills. Without PFC the class ends at the buffer, and "
    "ticks are drops."
)
_ROUNDS_CAPTION = (
    "Payload bits over the round's own time, from the barrier's release to the last byte. Dashed: the "
    "same round without loss, start jitter included."
)


def draw_all(run: Run) -> list[Drawn]:
    """Draw every figure of an incast into its run's figures/ folder."""
    drawings = {
        "queue": queue,
        **({"other_queue": other_queue} if len(classmates(run)) < len(peers(run)) else {}),
        "goodput_rounds": goodput_rounds,
        "sequence": sequence,
        "goodput_senders": goodput_senders,
        "timeline": timeline,
        **({"pauses": pauses} if any(each.parameters.pfc for _, each in peers(run)) else {}),
        **({"rates": rates} if any(each.has_dcqcn for _, each in peers(run)) else {}),
        **({"marking": marking} if any(curve(each) for _, each in peers(run)) else {}),
        "tail": tail,
        **({"heat": heat} if run.parameters.topology != "star" else {}),  # one hot link is no map
    }
    return [drawn(name, run.path / "figures", partial(draw, run)) for name, draw in drawings.items()]


def queue(run: Run) -> tuple[Figure, str, str]:
    """The hot port's queue during the first burst of the first round, of the run and those of its peers whose data is
    in the same traffic class."""
    bursts = _bursts(classmates(run))
    if not bursts or bursts[0][1] is not run:
        raise Skipped("no queue samples of the hot port in the first round")
    return _queues(bursts, _queue_title(run, bursts[0][2]))


def other_queue(run: Run) -> tuple[Figure, str, str]:
    """The same of those peers whose data is in the other traffic class."""
    same = [each for _, each in classmates(run)]
    bursts = _bursts([(name, each) for name, each in peers(run) if each not in same])
    if not bursts:
        raise Skipped("no queue samples of the other traffic class in the first round")
    name, first, burst = bursts[0]
    return _queues(bursts, f"{name}: {_queue_title(first, burst)}")


_Burst = tuple[str, Run, QueueSeries]


def _bursts(runs: Sequence[tuple[str, Run]]) -> list[_Burst]:
    return [(name, each, burst) for name, each in runs for burst in [_first_burst(each)] if burst is not None]


def _queues(bursts: Sequence[_Burst], title: str) -> tuple[Figure, str, str]:
    """The first bursts of several runs, the first one's drawn bold."""
    run = bursts[0][1]
    lines = {line.name: line for _, each, _ in bursts for line in thresholds(each)}
    figure, (axes,) = new_figure(title, legend_rows=legend_rows([*(name for name, *_ in bursts), *lines]))
    for name, each, burst in bursts:
        _draw_queue(axes, name, each, burst, width=2.6 if each is run else 1.2)
    for line in lines.values():
        style = ":" if line.marks else "-."
        axes.axhline(line.size_bytes / 1e3, color=line.colour, linestyle=style, linewidth=1.2, label=line.name)
    levels = [line.size_bytes for line in lines.values()] + [int(burst.queue_bytes.max()) for *_, burst in bursts]
    if not all(each.parameters.pfc for _, each, _ in bursts):
        _draw_buffer(axes, run.parameters.buffer_bytes)
        levels.append(run.parameters.buffer_bytes)
    axes.set_xlim(0, max(_micros(burst.time_ns[-1:], each)[0] for _, each, burst in bursts) * 1.03)
    axes.set_ylim(0, max(levels) / 1e3 * 1.22)
    label(axes, "time since the round began (µs)", "queue at the hot port (KB)")
    legend_below([axes])
    return figure, title, _QUEUE_CAPTION if run.parameters.traffic_class == LOSSY else _LOSSLESS_CAPTION


def _first_burst(run: Run) -> QueueSeries | None:
    """The queue samples from the first round's start until the port stays silent."""
    series = run.queue(run.hot_port)
    if series is None or not run.rounds:
        return None
    during = series.between(run.rounds[0].start_ns, run.rounds[0].end_ns)
    silent = during.silences(_BURST_ENDS_NS)
    burst = during.between(run.rounds[0].start_ns, int(during.time_ns[silent[0]]) + 1) if len(silent) else during
    return burst if len(burst) else None


def _queue_title(run: Run, burst: QueueSeries) -> str:
    lost = int(burst.drops[-1] - burst.drops[0])
    if run.parameters.pfc:
        most = text.size(int(burst.queue_bytes.max()))
        return f"The port holds up to {most} of the first burst; {text.counted(lost, 'packet')} lost"
    buffer, filled = text.size(run.parameters.buffer_bytes), fill_s(run)
    if filled is None:
        return f"The burst never fills the {buffer} buffer; {text.counted(lost, 'packet')} lost"
    drops = f"the port drops {text.counted(lost, 'packet')}"
    return f"The {buffer} buffer is full {text.seconds(filled)} after the burst begins; {drops}"


def _micros(times_ns: np.ndarray, run: Run) -> np.ndarray:
    return (times_ns - run.rounds[0].start_ns) / 1e3


def _draw_queue(axes: Axes, name: str, run: Run, burst: QueueSeries, width: float) -> None:
    """The depth as steps that fall to zero where the port was silent, and a tick above the buffer line for
    every sample with drops."""
    silent = burst.silences()
    times = np.insert(burst.time_ns, silent + 1, burst.time_ns[silent] + IDLE_GAP_NS)
    depth = np.insert(burst.queue_bytes, silent + 1, 0)
    axes.step(
        _micros(times, run),
        depth / 1e3,
        where="post",
        color=look(run.parameters.scheme).colour,
        linewidth=width,
        label=name,
    )
    dropping = burst.time_ns[1:][np.diff(burst.drops) > 0]
    line = run.parameters.buffer_bytes / 1e3
    axes.vlines(
        _micros(dropping, run),
        line * 1.02,
        line * 1.07,
        color=look(run.parameters.scheme).colour,
        linewidth=1,
    )


class _Line(NamedTuple):
    """A threshold of a queue: of marking, or of pausing."""

    name: str
    size_bytes: int
    colour: str
    marks: bool


def thresholds(run: Run) -> list[_Line]:
    """Where the run's hot port begins to mark, where it marks all, and where neighbours are paused and resumed."""
    spec, colour = run.parameters, look(run.parameters.scheme).colour
    kmin_bytes, kmax_bytes = marking_bytes(run)
    where = ", each ingress port" if spec.xoff_at == "ingress" else ""
    bounds = [
        ("ECN from", kmin_bytes, "", True),
        ("ECN on all from", kmax_bytes if kmax_bytes != kmin_bytes else None, "", True),
        ("XOFF at most" if spec.is_shared else "XOFF", spec.xoff_bytes, where, False),
        ("XON", None if spec.is_shared else spec.xon_bytes, where, False),
    ]
    return [
        _Line(f"{name} {text.size(size_bytes)}{place}", size_bytes, INK if not marks else colour, marks)
        for name, size_bytes, place, marks in bounds
        if size_bytes is not None
    ]


def _draw_buffer(axes: Axes, buffer_bytes: int) -> None:
    """The line at which the buffer is full, named above the ticks that tell of drops."""
    axes.axhline(buffer_bytes / 1e3, color=IDEAL, linestyle="--", linewidth=1)
    words = f"buffer {text.size(buffer_bytes)} (ticks: drops)"
    place = axes.get_yaxis_transform()
    axes.text(0.995, buffer_bytes * 1.08 / 1e3, words, transform=place, ha="right", va="bottom", fontsize=SMALL)


def goodput_rounds(run: Run) -> tuple[Figure, str, str]:
    """Goodput of every round, of the run and its peers."""
    shown = [(name, each) for name, each in peers(run) if each.rounds]
    if not run.rounds:
        raise Skipped("no finished round")
    title = f"Goodput of {run.parameters.senders} senders at {text.rate(run.parameters.path.rate_bps)}: {_told(shown)}"
    figure, (axes,) = new_figure(title, legend_rows=legend_rows([*(name for name, _ in shown), LOSSLESS_NAME]))
    for name, each in shown:
        style = look(each.parameters.scheme)
        values = [one.goodput_bps / 1e9 for one in each.rounds]
        axes.plot(
            range(1, len(values) + 1),
            values,
            color=style.colour,
            marker=style.marker,
            linewidth=1.3,
            label=name,
        )
    ideal = run.rounds[0].payload_bytes * 8e-9 / run.parameters.ideal_seconds
    axes.axhline(ideal, color=IDEAL, linestyle="--", linewidth=1, label=LOSSLESS_NAME)
    vertical_scale(axes, [one.goodput_bps / 1e9 for _, each in shown for one in each.rounds] + [ideal])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    label(axes, "round", "goodput (Gb/s)")
    legend_below([axes])
    return figure, title, _ROUNDS_CAPTION


def _told(shown: Sequence[tuple[str, Run]]) -> str:
    """The goodput of each run, of many that of the slowest and the fastest."""
    rates = sorted((goodput_bps(each.rounds) or 0, name) for name, each in shown)
    if len(rates) > _MOST_TOLD:
        (low, slowest), (high, fastest) = rates[0], rates[-1]
        return f"from {text.rate(low)} ({slowest}) to {text.rate(high)} ({fastest})"
    return "; ".join(f"{name}: {text.rate(goodput_bps(each.rounds))}" for name, each in shown)
