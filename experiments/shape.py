"""How large a fabric is: derives what a spec leaves open of its hosts, switches and uplinks, and lays out the Topo.

The oversubscription of a rack is the bandwidth of its hosts over that of its uplinks. Of the ratio, the number of
uplinks and their rate, two give the third; where too little is given the ratio is 1:1 and uplinks run at the hosts'
rate, or at as much less as makes the ratio exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

from mininet.topo import Topo

from experiments.kinds import LEAST_RATIO, MOST_RATIO, format_ratio
from experiments.spec import TO_ONE, Spec, known, refuse
from topologies import own_fabric
from topologies.addresses import MOST_RACK_HOSTS, MOST_RACKS
from topologies.dumbbell import Dumbbell
from topologies.fat_tree import FatTree
from topologies.gpu_pod import GPUS_PER_SERVER, GpuPod
from topologies.leaf_spine import LeafSpine
from topologies.plugins import Plug
from topologies.profiles import LinkProfile, SwitchProfile
from topologies.ring import LEAST_SWITCHES, Ring
from topologies.star import Star
from topologies.units import format_rate

LEAST_HOSTS, MOST_HOSTS = 2, 1024
LEAST_K, MOST_K = 4, 16
LEAST_RATE_BPS, MOST_RATE_BPS = 100_000, 3_200_000_000_000
MOST_NVLINK_RATE_BPS = 8_000_000_000_000
MOST_SPINES = 254
_STAR_SENDERS, _STAR_HOSTS = 64, 16
_DUMBBELL_HOSTS = 4
_LEAVES, _HOSTS_PER_LEAF, _SERVERS, _MOST_AUTO_LEAVES = 4, 4, 2, 8
_USUAL_RATIOS = tuple(map(Fraction, ("1", "2", "4", "8", "3/2", "5/4")))
# Topology -> its Topo, and the sizes that it takes.
_TOPOS: dict[str, tuple[type[Topo], tuple[str, ...]]] = {
    "star": (Star, ("hosts",)),
    "dumbbell": (Dumbbell, ("hosts",)),
    "leaf_spine": (LeafSpine, ("leaves", "spines", "hosts_per_leaf", "hosts")),
    "fat_tree": (FatTree, ("k", "hosts")),
    "gpu_pod": (GpuPod, ("servers", "leaves", "spines", "rails")),
    "ring": (Ring, ("switches", "hosts_per_leaf")),
}


def lay_out(spec: Spec, **profiles: LinkProfile | SwitchProfile | None) -> Topo:
    """The Topo of a sized spec; without `profiles` (link, uplink, nvlink, switch) it has names and ports alone."""
    if isinstance(spec.topology, Plug):
        wanted = {name: profile for name, profile in profiles.items() if name != "nvlink"}
        return own_fabric.lay_out(spec.topology, spec.sizes, **wanted)
    topo, names = _TOPOS[spec.topology]
    sizes = {name: getattr(spec, name) for name in names}
    return topo(**{name: size for name, size in sizes.items() if size is not None}, **profiles)


def sized(spec: Spec) -> Spec:
    """The spec with every size and uplink rate that applies; raises BadRequest for sizes that contradict each other or
    are too large."""
    if isinstance(spec.topology, Plug):
        return _with_routing(_own(spec, spec.topology))
    return _with_routing(_SIZES[spec.topology](spec))


def check_rate(key: str, rate_bps: int, most_bps: int = MOST_RATE_BPS, cause: str = "is given") -> None:
    """Raises BadRequest for a rate that no link can have; `cause` says where it comes from."""
    if rate_bps % 8 or not LEAST_RATE_BPS <= rate_bps <= most_bps:
        refuse(
            key,
            f"{format_rate(rate_bps)} {cause}",
            f"whole bytes per second, {format_rate(LEAST_RATE_BPS)} to {format_rate(most_bps)}",
        )


def _star(spec: Spec) -> Spec:
    senders = spec.senders
    if spec.workload == "incast" and senders is None and spec.hosts is None:
        senders = _STAR_SENDERS
    if spec.hosts is not None or senders is None:
        return _with_hosts(spec, spec.hosts or _STAR_HOSTS, MOST_HOSTS, "one switch")
    if senders >= MOST_HOSTS:
        refuse("senders", f"{senders} is given", f"up to {MOST_HOSTS - 1}")
    return replace(spec, hosts=senders + 1, senders=senders)


def _dumbbell(spec: Spec) -> Spec:
    spec = _with_hosts(spec, spec.hosts or _DUMBBELL_HOSTS, 2 * MOST_RACK_HOSTS, f"{MOST_RACK_HOSTS} a side")
    return replace(spec, uplink_rate_bps=spec.uplink_rate_bps or spec.rate_bps)


def _leaf_spine(spec: Spec) -> Spec:
    leaves = spec.leaves or _LEAVES
    _check_most("leaves", leaves, MOST_RACKS)
    per_leaf = spec.hosts_per_leaf or (math.ceil(spec.hosts / leaves) if spec.hosts else _HOSTS_PER_LEAF)
    if per_leaf > MOST_RACK_HOSTS:
        given = "is given" if spec.hosts_per_leaf else f"are needed for hosts={spec.hosts} on {leaves} leaves"
        refuse("hosts_per_leaf", f"{per_leaf} {given}", f"up to {MOST_RACK_HOSTS}")
    places = leaves * per_leaf
    spec = _with_hosts(spec, spec.hosts or places, places, f"{leaves} leaves of {per_leaf}")
    return _with_spines(replace(spec, leaves=leaves, hosts_per_leaf=per_leaf), per_leaf)


def _fat_tree(spec: Spec) -> Spec:
    k = known(spec.k)
    if k % 2 or not LEAST_K <= k <= MOST_K:
        refuse("k", f"{k} is given", f"even numbers from {LEAST_K} to {MOST_K}")
    half, places = k // 2, k**3 // 4
    spec = _with_hosts(
        spec, spec.hosts or places, places, f"k={k}: {k} pods, {half} edges in each, {half} hosts on each"
    )
    return _with_uplinks(spec, half, half)


def _gpu_pod(spec: Spec) -> Spec:
    if spec.hosts and spec.hosts % GPUS_PER_SERVER:
        refuse("hosts", f"{spec.hosts} is given with topology=gpu_pod", f"whole servers of {GPUS_PER_SERVER}")
    servers = spec.servers or (spec.hosts // GPUS_PER_SERVER if spec.hosts else _SERVERS)
    _check_most("servers", servers, MOST_HOSTS // GPUS_PER_SERVER)
    places = servers * GPUS_PER_SERVER
    if spec.hosts not in (None, places):
        refuse("hosts", f"{spec.hosts} is given with {places} GPUs (servers={servers})", f"{places}, or other servers")
    spec = replace(_with_hosts(spec, places, places, f"{servers} servers"), servers=servers)
    if not spec.rails:
        leaves = spec.leaves or min(servers, _MOST_AUTO_LEAVES)
        _check_most("leaves", leaves, MOST_RACKS)
        per_leaf = math.ceil(servers / leaves) * GPUS_PER_SERVER
        if per_leaf > MOST_RACK_HOSTS:
            refuse("leaves", f"{leaves} for {servers} servers make {per_leaf} hosts a leaf", f"up to {MOST_RACK_HOSTS}")
        return _with_spines(replace(spec, leaves=leaves), per_leaf)
    if spec.leaves is not None:
        refuse("leaves", f"{spec.leaves} is given with rails=on", "with rails=off; there is one leaf for each rail")
    return _with_spines(spec, servers)


def _ring(spec: Spec) -> Spec:
    switches = known(spec.switches)
    if not LEAST_SWITCHES <= switches <= MOST_RACKS:
        refuse("switches", f"{switches} is given", f"{LEAST_SWITCHES} to {MOST_RACKS}")
    per_switch = spec.hosts_per_leaf or math.ceil((spec.hosts or switches) / switches)
    if per_switch > MOST_RACK_HOSTS:
        given = "is given" if spec.hosts_per_leaf else f"are needed for hosts={spec.hosts} on {switches} switches"
        refuse("hosts_per_leaf", f"{per_switch} {given}", f"up to {MOST_RACK_HOSTS}")
    places = switches * per_switch
    if spec.hosts not in (None, places):
        refuse("hosts", f"{spec.hosts} is given with topology=ring", f"{places}, {per_switch} on each switch")
    spec = _with_hosts(spec, places, places, f"{switches} switches of {per_switch}")
    return replace(spec, hosts_per_leaf=per_switch, uplink_rate_bps=spec.uplink_rate_bps or spec.rate_bps)


def _own(spec: Spec, plug: Plug) -> Spec:
    """The spec with the parameters of a fabric of the user's own, and with as many hosts as it then has."""
    taken = own_fabric.parameters(plug)
    for key, given in spec.sizes.items():
        if key not in (*taken, "hosts", "seed"):
            refuse(key, f"{given} is given, and {plug.name} has no such parameter", ", ".join(taken) or "no size")
    defaults = {key: spec.sizes.get(key, usual) for key, usual in taken.items()}
    spec = replace(spec, **defaults, uplink_rate_bps=spec.uplink_rate_bps or spec.rate_bps)
    hosts = len(own_fabric.described(plug, spec.sizes).hosts)
    if spec.hosts not in (None, hosts):
        refuse("hosts", f"{spec.hosts} is given, and {plug.name} has {hosts}", f"{hosts}")
    return _with_hosts(spec, hosts, hosts, f"{plug.name} of {plug.file}")


_SIZES: dict[str, Callable[[Spec], Spec]] = {
    "star": _star,
    "dumbbell": _dumbbell,
    "leaf_spine": _leaf_spine,
    "fat_tree": _fat_tree,
    "gpu_pod": _gpu_pod,
    "ring": _ring,
}


def _with_routing(spec: Spec) -> Spec:
    """The spec with its routing, where packets have a choice of ways."""
    if not spec.is_routed:
        return spec
    return replace(spec, routing=spec.routing or ("up_down" if spec.topology == "ring" else "ecmp"))


def _check_most(key: str, number: int, most: int) -> None:
    if number > most:
        refuse(key, f"{number} is given", f"up to {most}")


def _with_hosts(spec: Spec, hosts: int, places: int, layout: str) -> Spec:
    """The spec with its number of hosts, on `places` places, and of senders."""
    if hosts > places:
        refuse(
            "hosts", f"{hosts} is given with {places} places ({layout})", f"{LEAST_HOSTS} to {min(places, MOST_HOSTS)}"
        )
    if not LEAST_HOSTS <= hosts <= MOST_HOSTS:
        given = f"{hosts} is given" if spec.hosts else f"auto, all places ({layout}), is {hosts}"
        refuse("hosts", given, f"{LEAST_HOSTS} to {MOST_HOSTS}")
    if spec.senders is not None and spec.senders >= hosts:
        refuse("senders", f"{spec.senders} is given with hosts={hosts}", f"up to {hosts - 1}")
    senders = (spec.senders or hosts - 1) if spec.workload in TO_ONE else None
    return replace(spec, hosts=hosts, senders=senders)


def _with_spines(spec: Spec, below: int) -> Spec:
    """The spec with its spines and their links, for leaves with `below` host ports."""
    if spec.spines is not None:
        _check_most("spines", spec.spines, MOST_SPINES)
        return _with_uplinks(spec, below, spec.spines)
    ratio = spec.oversubscription or Fraction(1)
    needed = below * spec.rate_bps / (ratio * (spec.uplink_rate_bps or spec.rate_bps))
    if spec.uplink_rate_bps is not None and needed.denominator != 1:
        refuse(
            "uplink_rate",
            f"{format_rate(spec.uplink_rate_bps)} is given, and {_bandwidth(spec, below)} of a leaf's hosts at"
            f" {format_ratio(ratio)} need {float(needed):.4g} such links",
            f"{_rates(below * spec.rate_bps / ratio, needed)}, or spines as well",
        )
    spines = math.ceil(needed)
    if spines > MOST_SPINES:
        refuse("spines", f"{spines} are needed", f"up to {MOST_SPINES}, with a higher uplink_rate or oversubscription")
    return _with_uplinks(replace(spec, spines=spines), below, spines)


def _with_uplinks(spec: Spec, below: int, uplinks: int) -> Spec:
    """The spec with the rate of a rack's `uplinks` links and its oversubscription, for `below` host ports."""
    bandwidth_bps = Fraction(below * spec.rate_bps)
    if spec.uplink_rate_bps is None:
        ratio = spec.oversubscription or Fraction(1)
        rate_bps = bandwidth_bps / (ratio * uplinks)
        if (rate_bps / 8).denominator != 1:
            refuse(
                "uplink_rate",
                f"{_bandwidth(spec, below)} of a rack's hosts at {format_ratio(ratio)} over {uplinks} uplinks are"
                f" {float(rate_bps):.10g} bits/s each, no whole number of bytes per second",
                _that_works(spec, bandwidth_bps, ratio, uplinks),
            )
        check_rate("uplink_rate", int(rate_bps), cause=f"follows from {format_ratio(ratio)} over {uplinks} uplinks")
        return replace(spec, uplink_rate_bps=int(rate_bps), oversubscription=ratio)
    ratio = bandwidth_bps / (spec.uplink_rate_bps * uplinks)
    layout = (
        f"{_bandwidth(spec, below)} of a rack's hosts over {uplinks} uplinks of {format_rate(spec.uplink_rate_bps)}"
    )
    if spec.oversubscription not in (None, ratio):
        given = format_ratio(known(spec.oversubscription))
        instead = f"{format_ratio(ratio)}, or other uplinks"
        refuse("oversubscription", f"{given} is given, but {layout} are {format_ratio(ratio)}", instead)
    if not LEAST_RATIO <= ratio <= MOST_RATIO:
        refuse("oversubscription", f"{layout} are {format_ratio(ratio)}", f"{LEAST_RATIO}:1 to {MOST_RATIO}:1")
    return replace(spec, oversubscription=ratio)


def _bandwidth(spec: Spec, below: int) -> str:
    return f"{below} x {format_rate(spec.rate_bps)}"


def _whole(rates_bps: Iterable[Fraction]) -> list[int]:
    """Those of the rates that a link can have."""
    return [int(rate) for rate in rates_bps if (rate / 8).denominator == 1 and LEAST_RATE_BPS <= rate <= MOST_RATE_BPS]


def _nearest(near: Fraction) -> list[int]:
    """Numbers of uplinks, the nearest first."""
    return sorted(range(1, MOST_SPINES + 1), key=lambda count: float(abs(count - near)))


def _rates(total_bps: Fraction, near: Fraction) -> str:
    """The two nearest rates of which a whole number make the total."""
    found = _whole(total_bps / count for count in _nearest(near))[:2]
    return f"uplink_rate={' or '.join(map(format_rate, found))}" if found else "another oversubscription"


def _that_works(spec: Spec, bandwidth_bps: Fraction, ratio: Fraction, uplinks: int) -> str:
    """What to ask for instead of uplinks whose rate is not whole: other spines, or else another oversubscription."""
    if spec.spines is not None:
        counts = [count for count in _nearest(Fraction(uplinks)) if _whole([bandwidth_bps / (ratio * count)])][:3]
        if counts:
            return f"spines={' or '.join(map(str, counts))}"
    ratios = [format_ratio(each) for each in _USUAL_RATIOS if _whole([bandwidth_bps / (each * uplinks)])]
    return f"oversubscription={' or '.join(ratios)}" if ratios else "another rate"
