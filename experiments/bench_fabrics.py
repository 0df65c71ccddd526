"""How long a fat-tree takes from the boot of the lab until every rack has been heard in every other: the bench calls
`measure`; as a program in the lab, `python -m experiments.bench_fabrics K` does it once.

A datagram goes from every rack to every other, and hosts take turns, so that each sends and each receives: what a
switch does with a packet depends on the rack that it is for, so that this tries every rule that is not a host's own.
With k=4 every host sends to every other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments import limits
from experiments.spec import parse
from experiments.stage import Stage, staged
from experiments.timing import timed
from lab.kernel import Kernel
from workloads import datagrams, patterns
from workloads.patterns import Pair

_ALL_PAIRS_UP_TO = 16
_MEMORY_BYTES = {4: 1 << 30, 8: 1 << 30, 16: 4 << 30}
_TIMEOUT_S = 300.0
READY, REACHED = "ready", "reached"


def measure(kernel: Kernel, k: int) -> dict[str, float]:
    """Wall-clock seconds from the boot until the controller had routed the fabric (READY) and every rack had been heard
    in every other (REACHED). Raises RuntimeError when one was not."""
    module = "experiments.bench_fabrics"
    seconds = timed(kernel, module, str(k), memory_bytes=_MEMORY_BYTES[k], timeout_s=_TIMEOUT_S)
    return {step: seconds[step] for step in (READY, REACHED)}


def rack_pairs(racks: Sequence[Sequence[str]]) -> list[Pair]:
    """One pair of hosts for every ordered pair of racks, each host of a rack in turn; every pair of hosts when there
    are few."""
    if sum(map(len, racks)) <= _ALL_PAIRS_UP_TO:
        return patterns.all_to_all([host for rack in racks for host in rack])
    return [
        (racks[one][(other + turn) % len(racks[one])], racks[other][(one + turn) % len(racks[other])])
        for turn, one in ((one // len(racks[one]), one) for one in range(len(racks)))
        for other in range(len(racks))
        if one != other
    ]


def _racks(stage: Stage) -> list[list[str]]:
    found: dict[str, list[str]] = {}
    for host in stage.hosts:
        found.setdefault(stage.port_towards(host).rpartition("-")[0], []).append(host)
    return list(found.values())


def main(k: int) -> str | None:
    """Build, route and try the fabric; returns what is wrong, in a line."""
    spec = limits.resolve(parse({"topology": "fat_tree", "k": str(k), "workload": "permutation", "telemetry": "off"}))
    with staged(spec) as stage:
        print(READY, flush=True)
        pairs = rack_pairs(_racks(stage))
        missing = [pair for pair, count in datagrams.count_arrivals(stage.fabric, pairs).items() if count != 1]
        print(REACHED, flush=True)
    return f"{len(missing)} of {len(pairs)} pairs did not hear each other once: {missing[:3]}" if missing else None


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
