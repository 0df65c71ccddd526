"""The probes of a run between all its hosts: links passed and one-way delays, beside what the fabric has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from analysis.cost_model import store_and_forward_ns
from analysis.kinds.ways import Way, shortest_ways
from analysis.run import Run

# A frame alone is sent in no time: the token bucket of an idle port holds it whole.
LONE_FRAME_BYTES = 0
_KEYS = ("sender", "receiver", "switches", "delay_ns")
_PLACES = {
    "star": {2: "on one switch"},
    "dumbbell": {2: "on one side", 3: "across the middle"},
    "leaf_spine": {2: "under one leaf", 4: "under different leaves"},
    "fat_tree": {2: "under one edge switch", 4: "in one pod", 6: "in different pods"},
    "gpu_pod": {2: "in one server or under one leaf", 4: "under different leaves"},
}


@dataclass(frozen=True)
class Probe:
    """One ordered pair as measured: links passed and one-way delay; expected_links is None without a fabric.json."""

    sender: str
    receiver: str
    links: int
    delay_ns: int
    expected_links: int | None
    modelled_ns: float


@lru_cache(maxsize=32)  # a report asks many times
def probes(run: Run) -> tuple[Probe, ...]:
    """Every ordered pair whose probe arrived."""
    ways = shortest_ways(run.fabric) if run.fabric else {}
    return tuple(
        _probe(run, entry, ways.get((entry["sender"], entry["receiver"])))
        for entry in run.entries("probes", _KEYS)
        if entry["delay_ns"] is not None
    )


def _probe(run: Run, entry: Mapping[str, Any], way: Way | None) -> Probe:
    links, spec = entry["switches"] + 1, run.parameters
    modelled_ns = (
        way.delay_ns(LONE_FRAME_BYTES, spec.switch_delay_ns)
        if way
        else store_and_forward_ns(
            LONE_FRAME_BYTES, links, spec.path.rate_bps, spec.uplink_bps, spec.link_delay_ns, spec.switch_delay_ns
        )
    )
    pair = entry["sender"], entry["receiver"]
    return Probe(*pair, links, entry["delay_ns"], way.links if way else None, modelled_ns)


def by_links(run: Run) -> dict[int, list[Probe]]:
    """The probes by the links they passed, fewest first."""
    found: dict[int, list[Probe]] = {}
    for probe in sorted(probes(run), key=lambda each: each.links):
        found.setdefault(probe.links, []).append(probe)
    return found


def unreached(run: Run) -> int | None:
    """Ordered pairs of which no probe arrived; None without a fabric.json to tell the hosts."""
    if run.fabric is None:
        return None
    hosts = len(run.fabric["hosts"])
    return hosts * (hosts - 1) - len(probes(run))


def per_hop_ns(run: Run) -> float | None:
    """Latency from one switch to the next, by the ways with the fewest links beyond the shortest ones; None where all
    ways are equally long."""
    classes = by_links(run)
    if len(classes) < 2:
        return None
    (near, first), (far, second) = list(classes.items())[:2]
    return (min(probe.delay_ns for probe in second) - min(probe.delay_ns for probe in first)) / (far - near)


def spread_ns(some: Iterable[Probe]) -> int:
    """The most by which delays differ that the model has as equal; 0 without any."""
    equal: dict[tuple[int, float], list[int]] = {}
    for probe in some:
        equal.setdefault((probe.links, probe.modelled_ns), []).append(probe.delay_ns)
    return max((max(delays) - min(delays) for delays in equal.values()), default=0)


def place(run: Run, links: int) -> str:
    """Where two hosts are that are so many links apart, in words: "in one pod"."""
    return _PLACES.get(run.parameters.topology, {}).get(links, "")
