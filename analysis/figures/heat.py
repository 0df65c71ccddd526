"""The figure of the links' use: the drawn fabric, each direction of each link coloured by the share of its rate that it
carried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from matplotlib.figure import Figure

from analysis import text
from analysis.fabric import Fabric, interfaces
from analysis.figures.draw import fabric_figure
from analysis.figures.style import Skipped
from analysis.run import Run

_SHAPER = "tbf"  # the level of a port's queues that counts what went on the line
_CAPTION = (
    "Bytes that each port and NIC put on its line, headers and acknowledgements included, over what its rate carries "
    "in the {lasted} of {what}. Two lines for each link, data going on the right-hand one; where links lie on each "
    "other the busiest is on top. Grey: not told."
)


def heat(run: Run) -> tuple[Figure, str, str]:
    """How much of its rate every link used, each way."""
    if run.fabric is None:
        raise Skipped("the run directory has no fabric.json")
    lasted_ns, what = busy_ns(run)
    use = link_use(run, lasted_ns) if lasted_ns else {}
    if not use:
        raise Skipped("no traffic whose time is told" if not lasted_ns else "measured.json has no bytes of ports")
    title = _title(run.fabric, use)
    caption = _CAPTION.format(lasted=text.seconds(lasted_ns / 1e9), what=what)
    return fabric_figure(run.fabric, title, use), title, caption


def busy_ns(run: Run) -> tuple[int, str]:
    """For how long the hosts sent, and what that is the time of: the rounds without the pauses between them, all calls,
    all steps, or the long flows to their last byte's arrival; 0 when nothing was finished."""
    if run.workload == "long_flows":
        return _total_ns(_flow_spans(run)), "all flows"
    keys = {"collective": ("calls", "all calls"), "training": ("steps", "all steps")}
    key, what = keys.get(run.workload, ("rounds", "all rounds"))
    span = ("start_ns", "end_ns")
    entries = run.entries(key, span, whole=span) if key in run.measured else []
    return _total_ns([(each["start_ns"], each["end_ns"]) for each in entries]), what


def _flow_spans(run: Run) -> list[tuple[int, int]]:
    """When each long flow had data on its way: to the arrival of its last byte, where that is told."""
    keys = ("begin_ns", "end_ns")
    entries = run.entries("flows", keys, whole=(*keys, "last_arrival_ns"))
    return [(each["begin_ns"], max(each["end_ns"], each.get("last_arrival_ns", 0))) for each in entries]


def _total_ns(spans: Sequence[tuple[int, int]]) -> int:
    """Their length together, what overlaps counted once."""
    total = reached = 0
    for start_ns, end_ns in sorted(spans):
        total += max(end_ns - max(start_ns, reached), 0)
        reached = max(reached, end_ns)
    return total


def link_use(run: Run, lasted_ns: int) -> dict[str, float]:
    """By sending interface ("leaf1-eth5", "h1-eth0"): the bits that it put on its line over those that its rate carries
    in so long a time. Interfaces whose bytes or rate are not told are left out."""
    rates_bps = {name: rate for name, rate in _rates_bps(run.fabric or {}).items() if rate}
    stacks = {**run.measured.get("ports", {}), **_nics(run)}
    sent = {name: _sent_bytes(stacks[name]) for name in rates_bps if name in stacks}
    return {
        name: sent_bytes * 8e9 / (rates_bps[name] * lasted_ns)
        for name, sent_bytes in sent.items()
        if sent_bytes is not None
    }


def _rates_bps(document: Mapping[str, Any]) -> dict[str, int]:
    return {name: wire["rate_bps"] for wire in document["wires"] for name in interfaces(wire)}


def _nics(run: Run) -> dict[str, Any]:
    return {f"{host}-eth0": stack for host, stack in run.measured.get("nics", {}).items()}


def _sent_bytes(stack: Mapping[str, Any]) -> int | None:
    """What left by the line, as the shaper's level counts it."""
    counts = [level["bytes"] for level in stack.get("qdiscs", []) if level.get("kind") == _SHAPER and "bytes" in level]
    return counts[0] if counts else None


def _title(document: Mapping[str, Any], use: Mapping[str, float]) -> str:
    """The busiest direction, and how evenly those between switches are used."""
    busiest = max(use, key=lambda name: use[name])
    ways = {
        name: (wire.ends[end], wire.ends[1 - end])
        for wire in Fabric.of(document).wires
        for end, name in enumerate(wire.interfaces)
    }
    told = f"Busiest: {' to '.join(ways[busiest])}, {_percent(use[busiest])} of its rate"
    hosts = Fabric.of(document).hosts
    between = [share for name, share in use.items() if hosts.keys().isdisjoint(ways[name])]
    if not between:
        return told
    least, most = _percent(min(between)), _percent(max(between))
    spread = most if least == most else f"{least} to {most}, median {_percent(median(between))}"
    return f"{told}; between switches {spread}"


def _percent(share: float) -> str:
    return f"{text.digits(round(100 * share, 2))} %"
