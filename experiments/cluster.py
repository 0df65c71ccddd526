"""What the ranks of a collective, of training steps or of federated learning are: which hosts take part, which serve
beside them, and by which algorithm; derived from a spec and checked."""

from __future__ import annotations

import math
from dataclasses import replace

from experiments.keys.collectives import ALGORITHMS
from experiments.laggards import check_hosts
from experiments.shape import LEAST_HOSTS, MOST_NVLINK_RATE_BPS, check_rate
from experiments.spec import CLUSTER, LAUNCH, OWN, Spec, known, refuse, word
from topologies.gpu_pod import GPUS_PER_SERVER
from topologies.profiles import LinkProfile
from topologies.units import format_bytes

# Collective -> the algorithms that it has, the usual one first.
CHOICES: dict[str, tuple[str, ...]] = {
    "all_reduce": ALGORITHMS,
    "broadcast": ("tree", "ring", "direct"),
    "reduce": ("tree", "ring", "direct"),
    "scatter": ("direct", "tree"),
    "gather": ("direct", "tree"),
    "all_gather": ("ring", "halving_doubling", "direct"),
    "reduce_scatter": ("ring", "halving_doubling", "direct"),
    "all_to_all": ("direct",),
}
ITEM_BYTES = {"float32": 4, "float16": 2, "int8": 1}
_RANKED = ("collective", "training", LAUNCH)  # workloads whose hosts are ranks
_SIZED_OTHERWISE = ("fat_tree", "ring", OWN)  # by k, by switches: their places are what there is
_CLIENTS_PER_EDGE = 25
LEAST_UPDATE_BYTES = 19_248  # the model that is really trained: 4,810 float32, and two words beside them
_USUAL_GROUP = 4


def ranked(spec: Spec) -> bool:
    """Whether the workload's hosts are ranks."""
    return spec.workload in _RANKED


def with_algorithm(spec: Spec) -> Spec:
    """The spec with an algorithm that its collective has; before it is sized."""
    if spec.workload not in ("collective", "training"):
        return spec
    choices = CHOICES[spec.collective or "all_reduce"]
    algorithm = spec.algorithm or choices[0]
    if algorithm not in choices:
        refuse("algorithm", f"{algorithm} is given with collective={spec.collective}", ", ".join(choices))
    shards = (spec.shards or 1) if algorithm == "parameter_server" else None
    return replace(spec, algorithm=algorithm, shards=shards)


def helpers(spec: Spec) -> int:
    """Hosts beside the ranks or clients: parameter servers, an aggregator, the root and the edges."""
    if spec.workload == "federated":
        return 1 + (spec.edges or 0)
    return {"parameter_server": spec.shards or 1, "in_network": 1}.get(spec.algorithm or "", 0)


def with_hosts(spec: Spec) -> Spec:
    """The spec with as many hosts as the ranks or clients that are asked for need; before it is sized."""
    if spec.aggregation == "hierarchical" and spec.edges is None and spec.clients is not None:
        spec = replace(spec, edges=math.ceil(spec.clients / _CLIENTS_PER_EDGE))
    asked = spec.clients if spec.workload == "federated" else spec.ranks
    if asked is None or spec.hosts is not None or word(spec.topology) in _SIZED_OTHERWISE:
        return spec
    hosts = max(asked + helpers(spec), LEAST_HOSTS)
    if spec.topology == "gpu_pod":
        return spec if spec.servers else replace(spec, hosts=-(-hosts // GPUS_PER_SERVER) * GPUS_PER_SERVER)
    return replace(spec, hosts=hosts)


def with_cluster(spec: Spec) -> Spec:
    """The sized spec with its ranks or clients, groups and edges, all checked; raises BadRequest."""
    for key, pairs in (
        ("slow_link", spec.slow_links),
        ("lossy_link", spec.lossy_links),
        ("slow_host", spec.slow_hosts or ()),
    ):
        check_hosts(key, pairs, spec.host_names)
    for _, rate_bps in spec.slow_links:
        check_rate("slow_link", rate_bps)
    if spec.topology == "gpu_pod" and spec.transport == "roce" and is_cluster(spec):
        refuse("transport", "roce is given with topology=gpu_pod, whose NVLinks it does not use", "tcp")
    if spec.workload == "federated":
        return _with_clients(spec)
    _check_sizes(spec)
    return _with_helper_rate(_with_group(_with_ranks(spec))) if ranked(spec) else spec


def _check_sizes(spec: Spec) -> None:
    """A buffer holds a number at least."""
    if spec.workload == "collective" and known(spec.sizes_bytes)[0] < ITEM_BYTES[known(spec.dtype)]:
        least, dtype = ITEM_BYTES[known(spec.dtype)], known(spec.dtype)
        refuse("sizes", f"{known(spec.sizes_bytes)[0]}B holds no {dtype}", f"{least}B or more with dtype={dtype}")


def _with_ranks(spec: Spec) -> Spec:
    places = known(spec.hosts) - helpers(spec)
    ranks = places if spec.ranks is None else spec.ranks
    _check_number("ranks", ranks, 1 if spec.workload == LAUNCH else 2, places, spec)
    if spec.backup_workers and spec.backup_workers >= ranks:
        refuse("backup_workers", f"{spec.backup_workers} is given with ranks={ranks}", f"up to {ranks - 1}")
    return replace(spec, ranks=ranks)


def _with_group(spec: Spec) -> Spec:
    if spec.algorithm != "hierarchical":
        return spec
    usual = {"gpu_pod": GPUS_PER_SERVER, "leaf_spine": spec.hosts_per_leaf}.get(str(spec.topology)) or _USUAL_GROUP
    group = spec.group or min(usual, known(spec.ranks))
    if known(spec.ranks) % group:
        refuse("group", f"{group} is given with ranks={spec.ranks}", "a divisor of the number of ranks")
    return replace(spec, group=group)


def _with_helper_rate(spec: Spec) -> Spec:
    if spec.algorithm not in ("parameter_server", "in_network"):
        return spec
    rate_bps = spec.helper_rate_bps
    if rate_bps is None:
        together_bps = spec.rate_bps * known(spec.ranks)
        rate_bps = spec.rate_bps if spec.algorithm == "parameter_server" else min(together_bps, MOST_NVLINK_RATE_BPS)
    check_rate("helper_rate", rate_bps, MOST_NVLINK_RATE_BPS)
    return replace(spec, helper_rate_bps=rate_bps)


def _with_clients(spec: Spec) -> Spec:
    spec = replace(spec, edges=_edges(spec))
    places = known(spec.hosts) - helpers(spec)
    clients = places if spec.clients is None else spec.clients
    _check_number("clients", clients, 2, places, spec)
    if spec.edges and spec.edges > clients:
        refuse("edges", f"{spec.edges} is given with clients={clients}", f"up to {clients}")
    to_send_bytes = scaled_update_bytes(spec)
    if to_send_bytes < LEAST_UPDATE_BYTES:
        refuse(
            "update, scale",
            f"{format_bytes(known(spec.update_bytes))} and {spec.scale} are given: {to_send_bytes}B to send",
            f"{LEAST_UPDATE_BYTES}B or more to send, for the model that is trained has to fit",
        )
    return replace(spec, clients=clients)


def _check_number(key: str, number: int, least: int, places: int, spec: Spec) -> None:
    beside = f" and {helpers(spec)} beside them" if helpers(spec) else ""
    if places < least:
        refuse("hosts", f"{spec.hosts} is given for {key}{beside}", f"{least + helpers(spec)} or more")
    if not least <= number <= places:
        refuse(key, f"{number}{beside} with hosts={spec.hosts}", f"{least} to {places}")


def _edges(spec: Spec) -> int | None:
    if spec.aggregation != "hierarchical" or spec.edges is not None:
        return spec.edges
    return math.ceil((known(spec.hosts) - 1) / (_CLIENTS_PER_EDGE + 1))


def scaled_update_bytes(spec: Spec) -> int:
    """A client's update as it is sent, before compression."""
    return known(spec.update_bytes) // known(spec.scale)


def aggregators(spec: Spec) -> dict[str, tuple[str, ...]]:
    """Federated learning of a resolved spec: the host of each aggregator, the root's h1 first -> those below it.

    With one edge for each leaf, an edge is the first host under its leaf, and those beside it are its clients; else the
    hosts after the root's are cut into parts of equal size, and the first of each is the edge of the others.
    """
    root, *others = spec.host_names[: helpers(spec) + known(spec.clients)]
    if not spec.edges:
        return {root: tuple(others)}
    groups = _racks(spec) if len(_racks(spec)) == spec.edges else _equal_parts(others, spec.edges)
    return {root: tuple(edge for edge, *_ in groups), **{edge: tuple(clients) for edge, *clients in groups}}


def _racks(spec: Spec) -> list[list[str]]:
    """The hosts that take part under each leaf, but the root's; none where a rack would have an edge alone."""
    size, hosts = spec.hosts_per_leaf, spec.host_names[: helpers(spec) + known(spec.clients)]
    if spec.topology != "leaf_spine" or size is None:
        return []
    racks = [hosts[max(first, 1) : first + size] for first in range(0, len(hosts), size)]
    return racks if min(map(len, racks)) > 1 else []


def _equal_parts(hosts: list[str], parts: int) -> list[list[str]]:
    """Whose sizes differ by one at most, the longer ones first."""
    least, longer = divmod(len(hosts), parts)
    starts = [number * least + min(number, longer) for number in range(parts + 1)]
    return [hosts[first:last] for first, last in zip(starts, starts[1:])]


def rank_hosts(spec: Spec) -> list[str]:
    """The ranks' hosts of a resolved spec, in order of rank."""
    return spec.host_names[: known(spec.ranks)]


def helper_hosts(spec: Spec) -> list[str]:
    """Parameter servers or the aggregator: the hosts after the ranks."""
    first = known(spec.ranks)
    return spec.host_names[first : first + helpers(spec)]


def is_cluster(spec: Spec) -> bool:
    """Whether the workload moves numbers between ranks or clients."""
    return spec.workload in CLUSTER


def own_links(spec: Spec) -> dict[str, LinkProfile]:
    """The links of hosts that differ from the others': slow or lossy ones, those of helpers."""
    usual = LinkProfile(spec.rate_bps, spec.delay_ns, spec.mtu_bytes)
    rates_bps: dict[str, int] = dict(spec.slow_links)
    if spec.helper_rate_bps is not None:
        rates_bps = {**dict.fromkeys(helper_hosts(spec), spec.helper_rate_bps), **rates_bps}
    losses = dict(spec.lossy_links)
    hosts = dict.fromkeys((*rates_bps, *losses))
    return {
        host: replace(usual, rate_bps=rates_bps.get(host, usual.rate_bps), loss=losses.get(host, 0.0)) for host in hosts
    }
