"""Marking of a run's switch ports: the curve of each rate that links have, with what a spec leaves open derived."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from controller.marking import dcqcn_curve, dctcp_step, dctcp_threshold_bytes, marking_for, red_drop
from controller.policy import policy_class
from experiments import lossless
from experiments.spec import MARKING_QUEUES, Spec, known, refuse
from topologies import plugins
from topologies.profiles import Marking, MarkingByRate
from topologies.units import BadRequest, format_bytes, format_rate


def with_marking(spec: Spec) -> Spec:
    """The spec with the marking of hosts' links; raises BadRequest for one of any link that cannot work."""
    for rate_bps in spec.link_rates_bps:
        _check(spec, rate_bps)
    curve = _at_hosts(spec)
    if curve is None:
        return replace(spec, kmin_bytes=None, kmax_bytes=None, pmax=None)
    return replace(spec, kmin_bytes=curve.kmin_bytes, kmax_bytes=curve.kmax_bytes, pmax=curve.pmax)


def marking(spec: Spec) -> Marking | MarkingByRate | None:
    """The marking of every switch port of a resolved spec, or None for plain tail drop."""
    if spec.queue not in MARKING_QUEUES:
        return _at_hosts(spec)
    rates_bps = sorted(set(spec.link_rates_bps))
    return MarkingByRate(tuple((rate_bps, known(_curve(spec, rate_bps))) for rate_bps in rates_bps))


def warnings(spec: Spec) -> list[str]:
    """Where PFC may act before marks do in a resolved spec, a line each: where what comes in by one port goes to all
    others, each of whose queues may be just below kmin (DCQCN, SIGCOMM 2015, section 4)."""
    if spec.queue not in MARKING_QUEUES or spec.pfc == "off" or spec.workload != "all_to_all":
        return []
    kmin_bytes, sure_bytes = known(spec.kmin_bytes), lossless.surely_first_mark_bytes(spec)
    if kmin_bytes < sure_bytes:
        return []
    return [
        f"kmin: {format_bytes(kmin_bytes)} is not below {format_bytes(sure_bytes)}: when what came in by one port waits"
        " in the queues of all others, PFC may act before anything is marked"
    ]


def _curve(spec: Spec, rate_bps: int) -> Marking | None:
    """The marking curve of ports of one rate. An NVSwitch, whose links are many times faster, marks like the fastest
    switch outside of servers."""
    given = _at_hosts(spec)
    if given is None or spec.queue not in MARKING_QUEUES or rate_bps == spec.rate_bps:
        return given
    outside_bps = max(spec.rate_bps, spec.uplink_rate_bps or 0)
    curve = marking_for(given, _usual(spec, spec.rate_bps), _usual(spec, min(rate_bps, outside_bps)))
    return curve if spec.queue == "dctcp" else curve.up_to(_most_bytes(spec))


def _at_hosts(spec: Spec) -> Marking | None:
    """The marking curve of ports to hosts: what is given, and what is usual for the rest."""
    if spec.queue == "droptail":
        return None
    if spec.queue == "red":
        return red_drop(spec.buffer_bytes, spec.kmin_bytes, spec.kmax_bytes, spec.pmax)
    return _step(spec) if spec.queue == "dctcp" else _line(spec)


def _step(spec: Spec) -> Marking:
    if spec.kmin_bytes != spec.kmax_bytes or spec.pmax not in (None, 1.0):
        raise BadRequest("kmin, kmax, pmax: queue=dctcp marks at a step; allowed: kmin equal to kmax, pmax 1")
    return _usual(spec, spec.rate_bps) if spec.kmin_bytes is None else dctcp_step(spec.kmin_bytes)


def _line(spec: Spec) -> Marking:
    """DCQCN's; a threshold that is not given gives way to one that is."""
    usual = _usual(spec, spec.rate_bps)
    kmin_bytes, kmax_bytes = spec.kmin_bytes or usual.kmin_bytes, spec.kmax_bytes or usual.kmax_bytes
    if spec.kmin_bytes is None:
        kmin_bytes = min(kmin_bytes, kmax_bytes)
    if spec.kmax_bytes is None:
        kmax_bytes = max(kmin_bytes, kmax_bytes)
    return Marking(kmin_bytes, kmax_bytes, spec.pmax or usual.pmax)


def _usual(spec: Spec, rate_bps: int) -> Marking:
    """The marking curve of ports of one rate where nothing is given, by the policy of the user's own, if there is
    one."""
    usual = _usual_of_ours(spec, rate_bps)
    plug = spec.own.get("policy")
    if plug is None:
        return usual
    with plugins.told(plug, "policy"):
        curve = policy_class(plug)(seed=spec.seed).curve(rate_bps, usual)
    if not isinstance(curve, Marking):
        raise plugins.refuse(plug, "policy", f"gives {curve!r} as a curve", "a topologies.profiles.Marking")
    return curve


def _usual_of_ours(spec: Spec, rate_bps: int) -> Marking:
    if spec.queue == "dctcp":
        return dctcp_step(dctcp_threshold_bytes(rate_bps, spec.rtt_ns, spec.mtu_bytes))
    return dcqcn_curve(rate_bps, spec.frame_bytes, _most_bytes(spec))


def _most_bytes(spec: Spec) -> int:
    """A queue of so much is to be marked wholly: a frame below where something else acts."""
    return max(1, _bound(spec)[0] - spec.frame_bytes)


def _bound(spec: Spec) -> tuple[int, str, str]:
    """The queue at which a port drops, or a neighbour that feeds it alone is paused (several have more in it by then):
    bytes, what they are, and what happens then."""
    if spec.pfc == "off":
        return spec.buffer_bytes, "the buffer", "the tail would drop"
    return known(spec.xoff_bytes), "xoff", "PFC would act"


def _check(spec: Spec, rate_bps: int) -> None:
    curve = _curve(spec, rate_bps)
    if curve is None:
        return
    kmin, kmax = format_bytes(curve.kmin_bytes), format_bytes(curve.kmax_bytes)
    where = "" if rate_bps == spec.rate_bps else f" at {format_rate(rate_bps)}"
    if curve.kmin_bytes > curve.kmax_bytes:
        refuse("kmin", f"{kmin}{where} is above kmax {kmax}", "up to kmax")
    bound_bytes, bound, first = _bound(spec)
    given = f"is not below {bound} of {format_bytes(bound_bytes)}"
    if curve.kmin_bytes >= bound_bytes and spec.queue != "dctcp":
        refuse("kmin", f"{kmin}{where} {given}: {first} before anything is marked", f"below {bound}")
    if curve.kmax_bytes >= bound_bytes and spec.kmax_bytes is not None:
        refuse("kmax", f"{kmax}{where} {given}: {first} before all is marked", f"below {bound}")
    if curve.kmax_bytes >= bound_bytes:
        _refuse_bound(spec, f"{kmax}{where}", first)


def _refuse_bound(spec: Spec, kmax: str, first: str) -> NoReturn:
    """Nobody gave the threshold that is too high: it follows from rate and delay. What is too low for it is named."""
    bound_bytes = _bound(spec)[0]
    name = "buffer" if spec.pfc == "off" else "xoff"
    follows = f"the threshold (kmax) that follows from rate and delay, {kmax}: {first} before all is marked"
    refuse(name, f"{format_bytes(bound_bytes)} is not above {follows}", f"a larger {name}, or a kmax below it")
