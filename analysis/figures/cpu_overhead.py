"""Figures of what processors pay for communication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from analysis import text
from analysis.figures.collective import size_axis, time_axis
from analysis.figures.style import INK, SMALL, Skipped, label, legend_below, legend_rows, looks, new_figure
from analysis.kinds.collective_calls import SizeRow, size_rows
from analysis.kinds.host_copies import WORDS, ways
from analysis.run import Run

_NAMES = {"none": "free processor", "tcp": "TCP's processor", "rdma": "RDMA's processor"}


def paths(run: Run) -> tuple[Figure, str, str]:
    """Time over size of one message by every path."""
    runs = [each for each in (run, *run.cases.values()) if each.spec.get("collective") == run.spec.get("collective")]
    found = {_name(each): size_rows(each) for each in runs if size_rows(each)}
    if not found:
        raise Skipped("no call was finished")
    title = _finding(found)
    figure, (axes,) = new_figure(title, legend_rows=legend_rows(list(found)))
    for (name, rows), (colour, marker) in zip(found.items(), looks(list(found)).values()):
        sizes_bytes, times_us = [row.size_bytes for row in rows], [row.seconds * 1e6 for row in rows]
        axes.plot(sizes_bytes, times_us, color=colour, marker=marker, label=name)
    size_axis(axes, sorted({row.size_bytes for rows in found.values() for row in rows}))
    time_axis(axes)
    label(axes, "message", "time (µs)")
    legend_below([axes])
    return figure, title, "Median of the timed calls of each size, from the word to begin to the last byte's arrival."


def _finding(found: Mapping[str, Sequence[SizeRow]]) -> str:
    """How far the slowest and the fastest path are apart, at the smallest and the largest size."""
    first, last = ([rows[place].seconds for rows in found.values()] for place in (0, -1))
    words = (text.times(max(each) / min(each)) for each in (first, last))
    return "From the fastest path to the slowest: {} for the smallest message, {} for the largest".format(*words)


def _name(run: Run) -> str:
    return f"{run.spec.get('transport')}, {_NAMES[str(run.spec.get('host_cost') or 'none')]}"


def copies(run: Run) -> tuple[Figure, str, str]:
    """Processor time a byte on the machine that ran the experiment."""
    found = ways(run)
    if not found:
        raise Skipped("host.json is not there: nothing was measured on this machine")
    least = min(found, key=lambda way: way.sender_s + way.receiver_s)
    title = (
        f"A byte costs this machine {(least.sender_s + least.receiver_s) * 1e12:,.0f} ps of processor time at the least"
    )
    figure, (axes,) = new_figure(title, legend_rows=1)
    sender, receiver = looks(["sender", "receiver"]).values()
    places = list(range(len(found)))
    sent_ps, received_ps = [way.sender_s * 1e12 for way in found], [way.receiver_s * 1e12 for way in found]
    axes.barh(places, sent_ps, height=0.45, color=sender.colour, label="sender")
    axes.barh(places, received_ps, height=0.45, left=sent_ps, color=receiver.colour, label="receiver")
    for place, way in zip(places, found):
        axes.text(0, place - 0.3, f" {WORDS.get(way.name, way.name)}", fontsize=SMALL, color=INK)
    axes.set_ylim(len(found) - 0.5, -0.7)
    axes.set_yticks([])
    label(axes, "processor time (ps a byte)", "")
    legend_below([axes])
    return figure, title, "Over loopback, on the real clock; of each way the median of several runs by processor time."
