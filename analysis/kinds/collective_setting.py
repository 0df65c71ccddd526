"""What the model of a collective is asked for in a run: its algorithm, and the links that its messages meet, from the
run's spec and its fabric.json alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import mean

from analysis.cost_model import ETHERNET_HEADER_BYTES, IP_TCP_HEADER_BYTES, TCP_TIMESTAMPS_BYTES
from analysis.cost_model import Path as NetworkPath
from analysis.kinds.collective_model import Link, Setting
from analysis.kinds.ways import Way, shortest_ways
from analysis.run import Run
from analysis.spec import GPUS_PER_SERVER
from topologies.units import BadRequest, parse_bytes

_ACK_BYTES = ETHERNET_HEADER_BYTES + IP_TCP_HEADER_BYTES + TCP_TIMESTAMPS_BYTES
_SEGMENTS_PER_ACK = 2  # RFC 1122, 4.2.3.2: at least every second full segment
_USUAL_CHUNK, _USUAL_GROUP = "64KiB", 4

Pair = tuple[str, str]


def setting(run: Run) -> Setting:
    """What the model is asked for; raises BadRequest for a run that has no fabric.json."""
    if run.fabric is None:
        raise BadRequest(f"{run.path / 'fabric.json'}: not found; allowed: the fabric of the run")
    ways = shortest_ways(run.fabric)
    told = run.measured.get("collective") or run.measured.get("training") or {}
    ranks, helpers = list(told.get("ranks") or _ranks(run)), list(told.get("helpers") or [])
    group = _group(run, len(ranks))
    near = [(a, b) for a, b in _pairs(ranks) if ranks.index(a) // group == ranks.index(b) // group]
    algorithm = str(run.given("algorithm"))
    far = _far(ranks, algorithm, group)
    served = [(rank, helper) for rank in ranks for helper in helpers]
    return Setting(
        collective=str(run.given("collective") or "all_reduce"),
        algorithm=algorithm,
        ranks=len(ranks),
        chunk_bytes=parse_bytes(run.given("chunk") or _USUAL_CHUNK, "chunk"),
        group=group,
        shards=max(len(helpers), 1),
        outer=_link(run, ways, far),
        inner=_link(run, ways, near or far),
        helper=_helper_link(run, ways, served) if served else _link(run, ways, far),
        is_one_link=run.parameters.topology != "gpu_pod",
    )


def _ranks(run: Run) -> list[str]:
    """The hosts that the spec makes ranks, where the run broke off before it told."""
    return [f"h{number}" for number in range(1, int(run.given("ranks") or 2) + 1)]


def _pairs(ranks: Sequence[str]) -> list[Pair]:
    return [(a, b) for a in ranks for b in ranks if a != b]


def _group(run: Run, ranks: int) -> int:
    """Ranks of one server: as the spec says, a pod's GPUs, else few."""
    usual = GPUS_PER_SERVER if run.parameters.topology == "gpu_pod" else _USUAL_GROUP
    return run.given("group") or min(usual, ranks)


def _far(ranks: Sequence[str], algorithm: str, group: int) -> list[Pair]:
    """Who talks to whom: neighbours of the ring, counterparts in other groups, or all."""
    if algorithm == "ring":
        return [(rank, ranks[(place + 1) % len(ranks)]) for place, rank in enumerate(ranks)]
    if algorithm == "hierarchical" and group < len(ranks):
        return [(rank, ranks[(place + group) % len(ranks)]) for place, rank in enumerate(ranks)]
    return _pairs(ranks)


def _link(run: Run, ways: dict[Pair, Way], pairs: Iterable[Pair]) -> Link:
    """The ways of many pairs as one link: what follows each other all the way round meets their mean delay, and the
    slowest of their rates holds everybody up."""
    found = [ways[pair] for pair in pairs]
    path, switch_ns = run.parameters.path, run.parameters.switch_delay_ns
    slowest_bps = min(min(way.rates_bps) for way in found)
    wire = path.frame_bytes / path.segment_bytes
    bit_s = mean(1 / min(way.rates_bps) for way in found)
    return Link(
        delay_s=mean(sum(way.delays_ns) + (way.links - 1) * switch_ns for way in found) / 1e9,
        beta_s=8 * (wire + _ack_share(path)) / slowest_bps,
        packet_bytes=path.segment_bytes,
        mean_beta_s=8 * (wire + _ack_share(path)) * bit_s,
    )


def _helper_link(run: Run, ways: dict[Pair, Way], pairs: Sequence[Pair]) -> Link:
    """The helper's own link, which carries what is for all ranks, at the end of the ways to it."""
    link, (path, own_bps) = _link(run, ways, pairs), (run.parameters.path, ways[pairs[0]].rates_bps[-1])
    beta_s = 8 * (path.frame_bytes / path.segment_bytes + _ack_share(path)) / own_bps
    return replace(link, beta_s=beta_s, mean_beta_s=beta_s)


def _ack_share(path: NetworkPath) -> float:
    """Bytes of acknowledgements for a byte of payload: a host that sends as much as it receives sends both on one link.
    Those of RoCE are one for a message."""
    return 0.0 if path.roce_mtu_bytes else _ACK_BYTES / (_SEGMENTS_PER_ACK * path.segment_bytes)
