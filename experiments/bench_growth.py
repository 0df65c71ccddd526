"""How wall time and memory grow with a fabric, for `run_experiment bench growth`.

Every host sends the same to the host half the fabric away, over leaves of four hosts and four spines (D-mod-k: a way of
its own for every flow, so that nothing is lost). All packets cross four links, however large the fabric is, and all
sizes carry the same number of packets in all: small fabrics by more rounds. Timed are all rounds but the first, from
outside; set-up and connecting are told apart from them.

Two things may grow with a fabric: what there is, and what is busy at the same time. The promise is about the first:
hosts begin one after the other, so that some eight of them send at a time in a fabric of any size. In the second series
all send at once, each at its line's rate.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments import limits, rundir
from experiments.outside import Watch
from experiments.runner import Setting, Task, run_task
from experiments.spec import Spec, known, parse
from lab.kernel import Kernel
from lab.session import Stop
from topologies.qdisc import TBF, handle_text

SIZES = (8, 16, 32, 64, 128, 256, 512)
BUSY_SIZES = (8, 32, 128, 512)
RACK_HOSTS, SPINES = 4, 4
SOME_HOSTS = 64  # with which links and packets are varied
EMPTY_LEAVES, PACKET_FACTORS = (0, 48, 112), (1, 4, 16)
_TRANSFERS = 2_048  # of a run, beside those of its first round
_TURN_NS, _AT_ONCE_NS = 3_000, 10_000  # from one host's begin to the next, on average; within which all begin
_REPEATS = 3
MOST_GROWTH = 1.3  # of a packet's wall time from the smallest to the largest fabric
_BASE = {
    "topology": "leaf_spine",
    "workload": "permutation",
    "routing": "d_mod_k",
    "rate": "100Gbps",
    "queue": "dctcp",
    "buffer": "2MB",
    "bytes": "256KiB",  # 21 us of a link, some 24 from begin to end
    "capture": "off",
    "telemetry": "off",
}


@dataclass(frozen=True)
class Size:
    """A fabric of `hosts` in racks of four, who send in turn or all at once, with leaves beside them that have none;
    its timed rounds carry `transfers` transfers."""

    hosts: int
    at_once: bool = False
    empty_leaves: int = 0
    transfers: int = _TRANSFERS

    @property
    def leaves(self) -> int:
        """With hosts and without."""
        return self.hosts // RACK_HOSTS + self.empty_leaves

    @property
    def rounds(self) -> int:
        """The first, and those that are timed."""
        return 1 + max(1, self.transfers // self.hosts)

    @property
    def links(self) -> int:
        """Of hosts and of leaves."""
        return self.hosts + self.leaves * SPINES

    def spec(self) -> Spec:
        """What is run."""
        sizes = {"hosts": self.hosts, "leaves": self.leaves, "hosts_per_leaf": RACK_HOSTS, "spines": SPINES}
        span_ns = _AT_ONCE_NS if self.at_once else _TURN_NS * self.hosts
        return limits.resolve(parse({**_BASE, **sizes, "rounds": self.rounds, "jitter": f"{span_ns}ns"}, Spec()))


@dataclass(frozen=True)
class Cost:
    """What one run took: packets that arrived at hosts in the timed rounds, and how many links they crossed; wall and
    processor seconds of these rounds; wall seconds until the fabric was ready, and from there until the first round had
    ended; most bytes of this machine's memory that the lab had."""

    size: Size
    packets: float
    hops: float
    rounds_s: float
    cpu_s: float
    setup_s: float
    connect_s: float
    memory_bytes: int

    @property
    def packet_s(self) -> float:
        """Wall seconds of a packet from host to host."""
        return self.rounds_s / self.packets

    @property
    def hop_s(self) -> float:
        """Wall seconds of a packet over one link."""
        return self.rounds_s / self.hops

    @property
    def core_share(self) -> float:
        """How much of a processor core the lab had while it was timed: under 1 others took the rest."""
        return self.cpu_s / self.rounds_s


Series = Mapping[Size, Sequence[Cost]]


@dataclass(frozen=True)
class Growth:
    """Sizes with their repeats: by hosts who send in turn, by those who send at once, by links (hosts and packets the
    same) and by packets (fabric the same)."""

    hosts: Series
    busy: Series
    links: Series
    packets: Series


def ratios(costs: Series, of: Callable[[Cost], float]) -> tuple[float, ...]:
    """The largest fabric's over the smallest one's, of each repeat."""
    small, *_, large = costs.values()
    return tuple(of(many) / of(few) for few, many in zip(small, large))


def measure(kernel: Kernel, say: Callable[[str], None]) -> Growth:
    """All sizes, one after the other, again and again; raises RunFailed."""
    setting = Setting(kernel, "virtual", ("./run_experiment", "bench"))
    by_hosts = [Size(hosts) for hosts in SIZES]
    by_busy = [Size(hosts, at_once=True) for hosts in BUSY_SIZES]
    by_links = [Size(SOME_HOSTS, empty_leaves=leaves) for leaves in EMPTY_LEAVES]
    by_packets = [Size(SOME_HOSTS, transfers=factor * _TRANSFERS) for factor in PACKET_FACTORS]
    all_series = (by_hosts, by_busy, by_links, by_packets)
    found: dict[Size, list[Cost]] = {size: [] for sizes in all_series for size in sizes}
    for repeat in range(1, _REPEATS + 1):
        for size, costs in found.items():
            say(f"bench: growth: {size.hosts} hosts, {size.links} links, {repeat} of {_REPEATS} ...")
            costs.append(_cost(size, setting))
    return Growth(*({size: found[size] for size in sizes} for sizes in all_series))


def _cost(size: Size, setting: Setting) -> Cost:
    seen = Watch(size.rounds, str(known(setting.kernel).path))
    with tempfile.TemporaryDirectory() as scratch:
        folder = rundir.case_folder(Path(scratch), "main")
        run_task(Task("growth", size.spec(), folder, "bench"), setting, Stop(), seen.note)
        return cost(size, seen, json.loads((folder / "measured.json").read_text()))


def cost(size: Size, seen: Watch, measured: Mapping[str, Any]) -> Cost:
    """What a run took, by what was seen from outside and what it counted; all its rounds carry the same."""
    packets, hops = counted(measured)
    share = (size.rounds - 1) / size.rounds
    first_s, last_s = seen.round_ends_s[0], seen.round_ends_s[-1]
    return Cost(
        size,
        packets * share,
        hops * share,
        last_s - first_s,
        seen.cpu_s[1] - seen.cpu_s[0],
        seen.at_s["built"] - seen.at_s["booted"],
        first_s - seen.at_s["rounds"],
        seen.memory_bytes,
    )


def counted(measured: Mapping[str, Any]) -> tuple[int, int]:
    """Packets that left the switch ports towards hosts, and that left any port or NIC, by their rate limiters: a NIC's
    other queues count segments that are not cut yet."""
    to_hosts = [port for port in measured["ports"].values() if not port["peer_tier"]]
    everywhere = [*measured["ports"].values(), *measured["nics"].values()]
    return sum(map(_sent, to_hosts)), sum(map(_sent, everywhere))


def _sent(port: Mapping[str, Any]) -> int:
    return next(int(item["packets"]) for item in port["qdiscs"] if item["handle"] == handle_text(TBF))


# --- tables

COLUMNS = (
    "hosts",
    "links",
    "packets (million)",
    "a packet (µs)",
    "a packet and link (µs)",
    "share of a core",
    "set-up (s)",
    "of a host (ms)",
    "of a link (ms)",
    "connecting (s)",
    "memory (MB)",
    "of a host (MB)",
)


def rows(costs: Series) -> list[list[str]]:
    """A row for each size: medians of its repeats."""
    return [_row(size, found) for size, found in costs.items()]


def _row(size: Size, costs: Sequence[Cost]) -> list[str]:
    def median(of: Callable[[Cost], float]) -> float:
        return statistics.median(map(of, costs))

    setup_s, memory_mb = median(lambda cost: cost.setup_s), median(lambda cost: cost.memory_bytes / 1e6)
    return [
        str(size.hosts),
        str(size.links),
        f"{median(lambda cost: cost.packets) / 1e6:.2f}",
        f"{median(lambda cost: cost.packet_s) * 1e6:.2f}",
        f"{median(lambda cost: cost.hop_s) * 1e6:.2f}",
        f"{median(lambda cost: cost.core_share):.0%}",
        f"{setup_s:.2f}",
        f"{setup_s / size.hosts * 1e3:.1f}",
        f"{setup_s / size.links * 1e3:.1f}",
        f"{median(lambda cost: cost.connect_s):.2f}",
        f"{memory_mb:.0f}",
        f"{memory_mb / size.hosts:.2f}",
    ]


def tables(growth: Growth) -> dict[str, list[list[str]]]:
    """Title -> rows, as COLUMNS name them."""
    return {
        "growth with hosts, some eight of which send at a time": rows(growth.hosts),
        "growth with hosts that send all at once": rows(growth.busy),
        "growth with links that carry nothing": rows(growth.links),
        "growth with packets": rows(growth.packets),
    }


def markdown(growth: Growth) -> str:
    """The tables for a page."""
    head = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    found = (
        [f"{title}:", "", *head, *(f"| {' | '.join(row)} |" for row in each)] for title, each in tables(growth).items()
    )
    return "\n\n".join("\n".join(lines) for lines in found)
