"""The runs that published curves are compared with: each by its name (analysis/papers), as specs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from experiments import dcqcn_convergence, fast08, limits, pfc_unfairness, victim
from experiments.catalog import Experiment, Labelled, plan
from experiments.spec import Spec, parse
from experiments.walking import Wanted

if TYPE_CHECKING:
    from analysis.papers.model import CurveSet

PAGE, DOCUMENT, FIGURES, RUNS = "papers.html", "papers.json", "figures", "runs"
NAME = "papers"
_CLOCK = "virtual"
_OWN = Experiment(
    name=NAME,
    question="Does the fabric give what a paper has published?",
    claim="published curves of incast, DCTCP and DCQCN",
    expects="the onset and the values that the paper names, within the tolerance that its curve names",
)
# Two links and a switch each way make a round trip of 100 us, as in fast08.
_GIGABIT = {"rate": "1Gbps", "delay": "20us", "switch_delay": "10us", "capture": "off"}
_UNSAMPLED = {"telemetry": "off"}  # samples of queues that nobody looks at take most of a run
_PACKET_BYTES = Spec().frame_bytes
_K = f"{20 * _PACKET_BYTES}B"  # DCTCP's threshold at 1 Gb/s
_DCTCP = {"queue": "dctcp", "kmin": _K, "kmax": _K, "tlp": "off"}
_TCP = {"cc": "reno", "tlp": "off"}
# "100 packets" a port, which the paper counts as 100 KB: 35 servers x 2 packets x 1.5 KB exceed it.
_BLOCK_BYTES, _STATIC_BUFFER = 1_000_000, "100KB"
_STEP_US = 37  # hosts do not begin in the same nanosecond
_NS2 = {"initial_window": 2}  # ns-2's default (windowInit_) since 2001, where Linux of today begins with 10 packets
_ROUNDS_OF_SRU = {10_000: 20, 1_000_000: 10, 8_000_000: 3}


def planned(sets: Sequence[CurveSet]) -> list[Wanted]:
    """Every run that the sets need, once."""
    known = all_runs()
    names = dict.fromkeys(name for each in sets for name in each.runs)
    return [_wanted(name, *known[name]) for name in names]


def _wanted(name: str, experiment: Experiment, spec: Spec) -> Wanted:
    return Wanted(name, experiment, {}, (Labelled("main", limits.resolve(spec), _CLOCK),), ())


def all_runs() -> dict[str, tuple[Experiment, Spec]]:
    """Name of a run -> the experiment that it belongs to, and its spec, not resolved yet."""
    own = {name: (_OWN, parse(keys)) for name, keys in _own_runs()}
    return {**dict(_fast08_runs()), **own, **dict(_dcqcn_runs())}


def _fast08_runs() -> Iterator[tuple[str, tuple[Experiment, Spec]]]:
    """Those of the experiment fast08, and the same network with other SRUs, with the initial window of then."""
    from analysis.papers import fast08 as curves
    from analysis.papers.fast08_points import PUBLISHED_MBPS, SERVERS, SRU_BYTES, SRU_SERVERS

    asked = plan(fast08.EXPERIMENT, {})
    cases = dict(asked.cases)
    for stack, buffer, servers in product((curves.OLD, curves.TODAY), PUBLISHED_MBPS, SERVERS):
        spec = cases[fast08.label(stack, buffer, servers)]
        yield curves.run_name(buffer, servers, stack), (fast08.EXPERIMENT, parse(_NS2, spec))
    for sru_bytes in SRU_BYTES:
        for servers in SRU_SERVERS if sru_bytes in _ROUNDS_OF_SRU else ():
            base = cases[fast08.label(curves.OLD, "64KB", servers)]
            spec = parse({**_NS2, "bytes": f"{sru_bytes}B", "rounds": _ROUNDS_OF_SRU[sru_bytes]}, base)
            yield curves.sru_run_name(sru_bytes, servers), (fast08.EXPERIMENT, spec)


def _own_runs() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Those that no experiment has."""
    from analysis.papers import dctcp, fine_rto

    quick = {**_GIGABIT, **_UNSAMPLED, "buffer": _STATIC_BUFFER}
    for rto in ("200ms", "1ms"):
        for servers in fine_rto.SERVERS if rto == "200ms" else fine_rto.CURED_SERVERS:
            keys = {**quick, **_block(servers), "rounds": 40, "tlp": "off", "rto_min": rto}
            yield fine_rto.run_name(rto, servers), keys
    for scheme in dctcp.INCAST:
        stack, rto = scheme.split("-")
        for servers in dctcp.INCAST_SERVERS:
            keys = {**quick, **_block(servers), "rounds": 101, **(_TCP if stack == "tcp" else _DCTCP), "rto_min": rto}
            yield dctcp.incast_run(scheme, servers), keys
    # TCP's sawtooth takes 4 s; the second half is what counts.
    for scheme, keys, duration in (("dctcp", _DCTCP, "4s"), ("tcp", _TCP, "16s")):
        yield dctcp.queue_run(scheme), {**_long_flows(2), **keys, "rate": "100Mbps", "duration": duration}
    for flows in dctcp.FAIR_FLOWS:
        yield dctcp.fair_run(flows), {**_long_flows(flows), **_DCTCP, **_UNSAMPLED, "duration": "4s"}
    yield dctcp.MULTI_HOP_RUN, _multi_hop()


def _block(servers: int) -> dict[str, Any]:
    """A block over so many servers."""
    return {"senders": servers, "bytes": f"{_BLOCK_BYTES // servers}B"}


def _begun(pairs: Sequence[tuple[str, str]]) -> str:
    """Traffic of these senders and receivers, begun one after the other, to the end."""
    return ",".join(f"{sender}>{to}@{place * _STEP_US}us" for place, (sender, to) in enumerate(pairs))


def _long_flows(flows: int) -> dict[str, Any]:
    """So many long flows to one receiver, through the 425 packets of the hardware."""
    traffic = _begun([(f"h{number}", "h1") for number in range(2, flows + 2)])
    keys = {"workload": "long_flows", "topology": "star", "hosts": flows + 1, "traffic": traffic}
    return {**_GIGABIT, **keys, "buffer": f"{425 * _PACKET_BYTES}B"}


def _multi_hop() -> dict[str, Any]:
    """S1 and S3 to one receiver, each of S2 to its own, over two leaves and a spine."""
    from analysis.papers.dctcp import R1, R2, S1, S2, S3

    pairs = [*((sender, R1) for sender in (*S1, *S3)), *zip(S2, R2)]
    fabric = {"topology": "leaf_spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 31, "uplink_rate": "10Gbps"}
    traffic = {"workload": "long_flows", "traffic": _begun(pairs), "duration": "600ms", "buffer": "700KB"}
    return {**_GIGABIT, **fabric, **traffic, **_DCTCP, **_UNSAMPLED}


def _dcqcn_runs() -> Iterator[tuple[str, tuple[Experiment, Spec]]]:
    """The main runs and cases of DCQCN's experiments that have something published beside them."""
    from analysis.papers.dcqcn import HPCC_RUN

    for experiment in (pfc_unfairness.EXPERIMENT, victim.EXPERIMENT, dcqcn_convergence.EXPERIMENT):
        asked = plan(experiment, {})
        for label, spec in (("main", asked.main), *asked.cases):
            name = f"{experiment.name}-{label}"
            yield name, (experiment, spec if name == HPCC_RUN else parse(_UNSAMPLED, spec))
