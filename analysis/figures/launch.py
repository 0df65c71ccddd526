"""The figures of a launched program: when each rank ran, what each host's link carried, and its rate over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from analysis import text
from analysis.figures.style import Skipped, label, legend_below, legend_rows, looks, name_rows, new_figure, time_unit
from analysis.run import Run

_SENT, _RECEIVED = "sent", "received"
_COLOURS = {_SENT: "#0072B2", _RECEIVED: "#E69F00"}
_WELL, _BADLY = ("ended with status 0", "#009E73"), ("ended otherwise", "#D55E00")
_ROW_IN, _LEAST_IN, _MOST_ROWS = 0.2, 1.2, 64
_BINS, _MOST_LINES = 200, 8
_RANKS_CAPTION = "Every bar is a rank, from its begin to its end. Ranks begin one after the other."
_BYTES_CAPTION = (
    "Whole frames that crossed each host's link: acknowledgements, headers and what was sent again are among them."
)
_RATES_CAPTION = (
    f"Rate at which each host sent, from its capture, in {_BINS} equal parts of the time in which packets were sent."
)

Span = tuple[int | None, int | None, int | None]  # begin_ns, end_ns, status


def ranks_over_time(spans: Mapping[str, Span]) -> tuple[Figure, str, str]:
    """A bar for each rank that began and ended."""
    shown = {name: (begin, end, status) for name, (begin, end, status) in spans.items() if begin and end}
    if not shown:
        raise Skipped("no rank has begun and ended")
    names = list(shown)[:_MOST_ROWS]
    origin_ns = min(begin for begin, _, _ in shown.values())
    whole_ns = max(end for _, end, _ in shown.values()) - origin_ns
    badly = sum(status != 0 for _, _, status in shown.values())
    title = f"{text.counted(len(shown), 'rank')} over {text.seconds(whole_ns / 1e9)}" + (
        f": {badly} ended badly" if badly else ""
    )
    figure, (axes,) = new_figure(title, height_in=max(_LEAST_IN, _ROW_IN * len(names)))
    scale, unit = time_unit(whole_ns)
    for kind, colour in (_WELL, _BADLY):
        rows = [row for row, name in enumerate(names) if (shown[name][2] == 0) == (kind == _WELL[0])]
        begins = [(shown[names[row]][0] - origin_ns) / scale for row in rows]
        widths = [(shown[names[row]][1] - shown[names[row]][0]) / scale for row in rows]
        if rows:
            axes.barh(rows, widths, left=begins, height=0.7, color=colour, label=kind)
    name_rows(axes, names, len(names))
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(False, axis="y")
    label(axes, f"time, {unit}", "")
    legend_below([axes])
    return figure, title, _RANKS_CAPTION


def wire_bytes(counted: Mapping[str, Mapping[str, int]]) -> tuple[Figure, str, str]:
    """Two bars for each host: what its link carried from it and to it."""
    if not counted:
        raise Skipped("measured.json has no bytes of hosts' links")
    hosts = list(counted)[:_MOST_ROWS]
    sent = sum(each[_SENT] for each in counted.values())
    title = f"{text.counted(len(counted), 'host')} sent {text.size(sent)} in all"
    figure, (axes,) = new_figure(title)
    for number, way in enumerate((_SENT, _RECEIVED)):
        places = [place + 0.4 * (number - 0.5) for place in range(len(hosts))]
        axes.bar(places, [counted[host][way] / 1e6 for host in hosts], width=0.4, color=_COLOURS[way], label=way)
    every = -(-len(hosts) // 16)
    axes.set_xticks(range(0, len(hosts), every), hosts[::every])
    axes.grid(False, axis="x")
    label(axes, "host", "on its link, MB")
    legend_below([axes])
    return figure, title, _BYTES_CAPTION


def rates_over_time(run: Run, hosts: Sequence[str]) -> tuple[Figure, str, str]:
    """A line for each of the first hosts that were captured: the rate at which it sent."""
    shown = [host for host in hosts if run.has_capture(_point(host))][:_MOST_LINES]
    sent = {host: found for host in shown for found in [_sent(run, host)] if len(found[0])}
    if not sent:
        raise Skipped("no capture of a host that sent: `launch --capture` makes them")
    first_ns, last_ns = min(times[0] for times, _ in sent.values()), max(times[-1] for times, _ in sent.values())
    edges_ns = np.linspace(first_ns, max(last_ns, first_ns + _BINS), _BINS + 1)
    seconds = (edges_ns[1] - edges_ns[0]) / 1e9
    rates = {
        host: np.histogram(times, edges_ns, weights=sizes)[0] * 8 / seconds for host, (times, sizes) in sent.items()
    }
    highest = max(sent, key=lambda host: float(rates[host].max()))
    title = f"{highest} sends up to {text.rate(float(rates[highest].max()))} in {text.seconds(seconds)}"
    figure, (axes,) = new_figure(title, legend_rows=legend_rows(list(sent)))
    scale, unit = time_unit(last_ns - first_ns)
    for host, look in looks(list(sent)).items():
        axes.step((edges_ns[:-1] - first_ns) / scale, rates[host] / 1e9, where="post", color=look.colour, label=host)
    axes.set_ylim(bottom=0)
    label(axes, f"time since the first packet, {unit}", "sent, Gb/s")
    legend_below([axes])
    return figure, title, _RATES_CAPTION


def _point(host: str) -> str:
    return f"{host}-eth0"


def _sent(run: Run, host: str) -> tuple[np.ndarray, np.ndarray]:
    """Times and sizes of the packets that a host sent: those from its own address."""
    packets = run.packets(_point(host))
    assert run.fabric is not None
    own = next(each["ip"] for each in run.fabric["hosts"] if each["name"] == host)
    mine = packets.src_ip == _number(own)
    return packets.time_ns[mine], packets.wire_bytes[mine]


def _number(address: str) -> int:
    parts = [int(part) for part in address.split(".")]
    return int.from_bytes(bytes(parts), "big")
