"""What a fabric stands on: the kernel under it, its queues, its timers, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

STOCK_KINDS = frozenset(("netem", "tbf", "prio", "bfifo", "red"))
OWN_KINDS = frozenset(("pfc", "rnic"))  # lab/patches/0008 and 0009

LAB, MACHINE = "lab", "machine"
PLACES = (LAB, MACHINE)
SYSTEM, NETDEV = "system", "netdev"  # datapaths of Open vSwitch: the kernel's module, a process of its own


@dataclass(frozen=True)
class Ground:
    """One kernel as a fabric needs to know it.

    place: "lab" (the lab kernel, which nobody else uses: what is set for all its namespaces may be changed) or
    "machine" (this machine's own, where only what is ours may be touched). is_virtual: its clock is. kinds: of queueing
    disciplines that it has. timer_lateness_ns: how late its timers may fire; a rate limiter saves up that much of its
    line. tick_ns: of its timers, 1/HZ. datapath: Open vSwitch's, SYSTEM or NETDEV.
    """

    place: str
    is_virtual: bool
    kinds: frozenset[str]
    timer_lateness_ns: int
    tick_ns: int
    datapath: str

    @property
    def is_ours(self) -> bool:
        """Whether what holds for all namespaces may be set."""
        return self.place == LAB

    @property
    def is_patched(self) -> bool:
        """Whether it is built with our changes (lab/patches): its rate limiter cuts super-packets, its RED marks each
        packet by a draw of its own."""
        return self.kinds >= OWN_KINDS


# A timer of the virtual clock may be that late: each reading of the clock between its interrupt and the limiter's own
# costs a nanosecond of virtual time (lab/patches/0003).
VIRTUAL_LATENESS_NS = 16
# Of timers on the real clock, and so what a rate limiter has to save up. Measured on two shared cores, as a share of
# 100 Mb/s: the lab kernel keeps 97.6 % with 300 us (medians of five runs) and 99.3 % with 500 us, a stock kernel beside
# nine busy processes 80 % with a bucket of one frame, 96 % with 100 us, 99.0 % with 300 us and 99.3 % with 1 ms. A
# longer one would fill shallow buffers in bursts.
REAL_LATENESS_NS = 500_000

LAB_VIRTUAL = Ground(LAB, True, STOCK_KINDS | OWN_KINDS, VIRTUAL_LATENESS_NS, tick_ns=1_000_000, datapath=SYSTEM)
LAB_REAL = replace(LAB_VIRTUAL, is_virtual=False, timer_lateness_ns=REAL_LATENESS_NS)


def own_kernel(kinds: frozenset[str], tick_ns: int, datapath: str) -> Ground:
    """This machine's own kernel, with what it has of queueing disciplines, its tick and its Open vSwitch."""
    return Ground(MACHINE, False, kinds, REAL_LATENESS_NS, tick_ns, datapath)
