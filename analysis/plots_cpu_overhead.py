"""Figures of what processors pay for communication."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.collective_calls import size_rows
from analysis.host_copies import WORDS, ways
from analysis.run import Run
from analysis.style import Skipped, label, legend_below, legend_rows, looks, new_figure

_NAMES = {"none": "free processor", "tcp": "TCP's processor", "rdma": "RDMA's processor"}


def paths(run: Run) -> tuple[Figure, str, str]:
    """Time over size of one message by every path."""
    runs = [each for each in (run, *run.cases.values()) if each.spec.get("collective") == run.spec.get("collective")]
    found = {_name(each): size_rows(each) for each in runs if size_rows(each)}
    if not found:
        raise Skipped("no call was finished")
    figure, (axes,) = new_figure("A message's time by each path", legend_rows=legend_rows(list(found)))
    for (name, rows), (colour, marker) in zip(found.items(), looks(list(found)).values()):
        sizes_bytes, times_us = [row.size_bytes for row in rows], [row.seconds * 1e6 for row in rows]
        axes.plot(sizes_bytes, times_us, color=colour, marker=marker, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    label(axes, "message (bytes)", "time (µs)")
    legend_below([axes])
    return figure, "A message's time by each path", "Median of the timed calls of each size, from word to last byte."


def _name(run: Run) -> str:
    return f"{run.spec.get('transport')}, {_NAMES[str(run.spec.get('host_cost') or 'none')]}"


def copies(run: Run) -> tuple[Figure, str, str]:
    """Processor time a byte on the machine that ran the experiment."""
    found = ways(run)
    if not found:
        raise Skipped("host.json is not there: nothing was measured on this machine")
    figure, (axes,) = new_figure("Processor time that a byte costs this machine", legend_rows=1)
    sender, receiver = looks(["sender", "receiver"]).values()
    names = [WORDS.get(way.name, way.name) for way in found]
    sent_ps, received_ps = [way.sender_s * 1e12 for way in found], [way.receiver_s * 1e12 for way in found]
    axes.barh(names, sent_ps, color=sender.colour, label="sender, with the loopback stack")
    axes.barh(names, received_ps, left=sent_ps, color=receiver.colour, label="receiver")
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelrotation=30)
    label(axes, "processor time (ps a byte)", "")
    legend_below([axes])
    return (
        figure,
        "Processor time that a byte costs this machine",
        "Over loopback, on the real clock; median of several runs by processor time.",
    )
