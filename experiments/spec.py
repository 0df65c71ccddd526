"""The spec of a run: every key with its unit, default, meaning and limits, read from text once and frozen.

A key is a dataclass field; its metadata says how the command line and YAML call it (`rate`), while the code
uses the name with the unit (`rate_bps`). Unknown keys, bad values and combinations that cannot work are
BadRequest. A key, or one value of it, may need others to have certain values (`k` needs topology=fat_tree,
`cc=dcqcn` needs transport=roce): `unfit` finds those that are given without. Most keys with needs are "auto" (None)
until `limits.resolve` gives them a value, and stay so where they do not apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field as DataclassField
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

from experiments.failures import Failure
from experiments.kinds import (
    ALPHA,
    AUTO,
    COUNT,
    DURATION,
    NUMBER,
    OFF,
    PROBABILITY,
    QUANTA,
    RATE,
    RATIO,
    ROCE_MTU,
    SCHEDULE,
    SIZE,
    SIZE_OR_NONE,
    SPAN,
    STUCK,
    SWITCH,
    TRAFFIC,
    Kind,
    choice,
    off_or,
    optional,
)
from experiments.traffic import Flow, Stuck
from topologies.profiles import ETHERNET_HEADER_BYTES
from topologies.units import BadRequest

SWITCHED = (
    "dumbbell",
    "leaf_spine",
    "fat_tree",
    "gpu_pod",
    "ring",
)  # topologies of several switches, which a controller routes
TOPOLOGIES = ("star", *SWITCHED)
TRANSFERS = ("incast", "permutation", "all_to_all")  # workloads of flows of `bytes` each
STREAMED = (*TRANSFERS, "long_flows")  # workloads over connections, which every transport has
WORKLOADS = (*STREAMED, "pings", "datagrams", "streams")
PATH_CHOICES, RING_ROUTES = ("ecmp", "d_mod_k"), ("clockwise", "up_down")
MARKING_QUEUES = ("dctcp", "dcqcn")
TCP_ALGORITHMS = ("reno", "cubic", "dctcp", "bbr")
ROCE_ALGORITHMS = ("dcqcn", "none")
# Topology -> links and switches of the longest path between two hosts; a ring's depends on its size.
_LONGEST_PATH = {"star": (2, 1), "dumbbell": (3, 2), "leaf_spine": (4, 3), "fat_tree": (6, 5), "gpu_pod": (4, 3)}

_Value = TypeVar("_Value")


def refuse(key: str, given: str, allowed: str) -> NoReturn:
    """Raises BadRequest: the key, what was given, what is allowed."""
    raise BadRequest(f"{key}: {given}; allowed: {allowed}")


def known(value: _Value | None) -> _Value:
    """The value of a key that applies, in a resolved spec; raises ValueError for one that is still "auto"."""
    if value is None:
        raise ValueError("a value is asked for that the spec leaves open or that does not apply to it")
    return value


Needs = Mapping[str, tuple[str, ...]]  # key -> the values of it with which another key applies


def _key(
    name: str,
    kind: Kind,
    default: Any,
    help: str,
    needs: Needs | None = None,
    auto: Any = None,
    values: Mapping[str, Needs] | None = None,
) -> Any:
    """A key of the spec; `auto` is what an "auto" always means, where that depends on nothing else; `values` is what
    some of its values need besides."""
    told = help if auto is None else f"{help}; auto: {auto}"
    metadata = {
        "name": name,
        "kind": kind,
        "help": told,
        "needs": needs or {},
        "values": values or {},
        "auto": None if auto is None else kind.parse(auto, name),
    }
    return field(default=kind.parse(default, name), metadata=metadata)


def _on(*topologies: str) -> Needs:
    return {"topology": topologies}


def _with(*workloads: str) -> Needs:
    return {"workload": workloads}


def _each(words: Iterable[str], needs: Needs) -> Mapping[str, Needs]:
    return dict.fromkeys(words, needs)


_PFC: Needs = {"pfc": ("on",)}
_TCP: Needs = {"transport": ("tcp",)}
_ROCE: Needs = {"transport": ("roce",)}
_DCQCN: Needs = {"cc": ("dcqcn",)}
_LOSSLESS: Needs = {"traffic_class": ("lossless",)}
_UNMARKED: Needs = {"queue": ("droptail", "red")}


@dataclass(frozen=True)
class Spec:
    """One run, completely described; equal specs give equal runs in virtual time."""

    topology: str = _key("topology", choice(*TOPOLOGIES), "star", "fabric")
    hosts: int | None = _key(
        "hosts",
        optional(COUNT),
        AUTO,
        "hosts on the fabric, racks fill one after the other; auto: all places (star: senders + 1; dumbbell: 4)",
    )
    leaves: int | None = _key(
        "leaves",
        optional(COUNT),
        AUTO,
        "leaf switches of leaf_spine (auto: 4), and of gpu_pod with rails=off (auto: one a server, up to 8)",
        _on("leaf_spine", "gpu_pod"),
    )
    spines: int | None = _key(
        "spines",
        optional(COUNT),
        AUTO,
        "spine switches; auto: so many that uplinks run at uplink_rate (auto: rate, or less) with the oversubscription",
        _on("leaf_spine", "gpu_pod"),
    )
    hosts_per_leaf: int | None = _key(
        "hosts_per_leaf",
        optional(COUNT),
        AUTO,
        "host ports of each leaf, or switch of a ring; auto: 4 (ring: 1), or with hosts as many as they need",
        _on("leaf_spine", "ring"),
    )
    switches: int | None = _key("switches", optional(COUNT), AUTO, "switches of a ring, 3 or more", _on("ring"), auto=4)
    k: int | None = _key(
        "k", optional(COUNT), AUTO, "ports of each switch of a fat-tree, even, 4 to 16", _on("fat_tree"), auto=4
    )
    servers: int | None = _key(
        "servers",
        optional(COUNT),
        AUTO,
        "servers of 8 GPUs; auto: 2, or with hosts as many as they need",
        _on("gpu_pod"),
    )
    rails: bool | None = _key(
        "rails",
        optional(SWITCH),
        AUTO,
        "leaf i holds the NIC of GPU i of every server; off: all NICs of a server go to one leaf",
        _on("gpu_pod"),
        auto="on",
    )
    oversubscription: Fraction | None = _key(  # noqa: RUF009 (a Fraction cannot be changed)
        "oversubscription",
        optional(RATIO),
        AUTO,
        "bandwidth of a leaf's hosts over that of its uplinks; auto: 1:1, or as spines and uplink_rate make it",
        _on("leaf_spine", "fat_tree", "gpu_pod"),
    )
    rate_bps: int = _key("rate", RATE, "400Gbps", "rate of each host's link, both ways")
    uplink_rate_bps: int | None = _key(
        "uplink_rate",
        optional(RATE),
        AUTO,
        "rate of each link between switches; auto: by the oversubscription (dumbbell, ring: rate)",
        _on(*SWITCHED),
    )
    nvlink_rate_bps: int | None = _key(
        "nvlink_rate",
        optional(RATE),
        AUTO,
        "rate of a GPU's link to its server's NVSwitch, each way",
        _on("gpu_pod"),
        auto="3.6Tbps",
    )
    delay_ns: int = _key("delay", DURATION, "500ns", "one-way propagation delay of each link")
    switch_delay_ns: int = _key("switch_delay", DURATION, "400ns", "pipeline delay of a switch, per packet")
    buffer_bytes: int = _key("buffer", SIZE, "600KB", "buffer of each switch port, for each class")
    mtu_bytes: int = _key("mtu", SIZE, "1500B", "IP MTU of every link")
    queue: str = _key(
        "queue",
        choice("droptail", "red", *MARKING_QUEUES),
        "droptail",
        "what a switch port does as its buffer fills: nothing, drop early (lossy class only), mark at a step, mark by a"
        " curve",
        values={"red": {"traffic_class": ("lossy",)}},
    )
    kmin_bytes: int | None = _key(
        "kmin",
        optional(SIZE),
        AUTO,
        "queue at which marking (red: dropping) begins, at the hosts' links; marks of faster and slower ones scale with"
        " their rate",
    )
    kmax_bytes: int | None = _key(
        "kmax", optional(SIZE), AUTO, "queue from which every packet is marked (red: dropped), as kmin"
    )
    pmax: float | None = _key("pmax", optional(PROBABILITY), AUTO, "probability of a mark (red: drop) just below kmax")
    marking: str | None = _key(
        "marking",
        optional(choice("switch", "controller")),
        AUTO,
        "who marks: the port, or the controller by OpenFlow rules, control_latency after a queue crosses kmin",
        {"queue": MARKING_QUEUES},
        auto="switch",
        values={"controller": _on(*SWITCHED)},
    )
    pfc: str = _key(
        "pfc",
        choice(OFF, "on"),
        OFF,
        "priority-based flow control of the lossless class (IEEE 802.1Qbb)",
        values={"on": _LOSSLESS},
    )
    traffic_class: str = _key(
        "traffic_class",
        choice(AUTO, "lossy", "lossless"),
        AUTO,
        "class of the workload's packets, lossless is DSCP 26; auto: lossless with transport=roce, else lossy",
        values={"lossless": _with(*STREAMED)},
    )
    xoff_bytes: int | None = _key(
        "xoff",
        optional(SIZE),
        AUTO,
        "bytes counted above which a neighbour is paused; auto: buffer less headroom",
        _PFC,
    )
    xon_bytes: int | None = _key(
        "xon", optional(SIZE_OR_NONE), AUTO, "bytes counted at which it is resumed; auto: two frames below xoff", _PFC
    )
    headroom_bytes: int | None = _key(
        "headroom",
        optional(SIZE_OR_NONE),
        AUTO,
        "room above xoff for what a paused neighbour still sends; auto: rate x (2 x delay + reaction) + 2 frames of the"
        " fastest link",
        _PFC,
    )
    xoff_at: str | None = _key(
        "xoff_at",
        optional(choice("ingress", "egress")),
        AUTO,
        "where bytes are counted: by the port that they came in by, or in the queue that they wait in",
        _PFC,
        auto="ingress",
    )
    alpha: float | None = _key(
        "alpha",
        optional(off_or(ALPHA)),
        AUTO,
        "xoff is not fixed but alpha times what is free of the pool",
        _PFC,
        auto=OFF,
    )
    pool_bytes: int | None = _key(
        "pool",
        optional(SIZE),
        AUTO,
        "memory that a switch's ports share, without headroom (needs alpha); auto: 12 MB for 32 ports less their"
        " headroom, by the ports of the largest switch",
        _PFC,
    )
    pause: str | None = _key(
        "pause",
        optional(choice("switch", "controller")),
        AUTO,
        "who orders pauses: the port, or the controller, control_latency after xoff or xon is crossed",
        _PFC,
        auto="switch",
        values={"controller": _on(*SWITCHED)},
    )
    pause_quanta: int | None = _key(
        "pause_quanta",
        optional(QUANTA),
        AUTO,
        "quanta of 512 bit times of a pause frame, refreshed at half of them; auto: 65535, or what the duration holds",
        _PFC,
    )
    pfc_watchdog_ns: int | None = _key(
        "pfc_watchdog",
        optional(off_or(SPAN)),
        AUTO,
        "a switch port that is paused for so long without a break discards its lossless queue, until it has not been"
        " for as long",
        _PFC,
        auto=OFF,
    )
    stuck: tuple[Stuck, ...] | None = _key(
        "stuck",
        optional(STUCK),
        AUTO,
        "hosts whose NIC sends pause frames all the time, and when, after the workload's begin",
        _PFC,
        auto="none",
    )
    allow_loss: bool = _key("allow_loss", SWITCH, OFF, "run with less headroom than is needed, with a warning", _PFC)
    transport: str = _key(
        "transport", choice("tcp", "roce"), "tcp", "how hosts send: Linux TCP, or RoCEv2", _with(*STREAMED)
    )
    cc: str = _key(
        "cc",
        choice(AUTO, *TCP_ALGORITHMS, *ROCE_ALGORITHMS),
        AUTO,
        "congestion control, of TCP or (dcqcn, none) RoCE; auto: dctcp or dcqcn where ports mark, else cubic or none",
        # What BBR or no congestion control at all sends may be marked, and they do not heed it.
        values={
            **_each(TCP_ALGORITHMS, _TCP),
            "bbr": {**_TCP, **_UNMARKED},
            "dcqcn": {**_ROCE, **_LOSSLESS},
            "none": {**_ROCE, **_UNMARKED},
        },
    )
    sack: bool = _key("sack", SWITCH, "on", "selective acknowledgements (RFC 2018)", _TCP)
    tlp: bool = _key("tlp", SWITCH, "on", "tail loss probe (RFC 8985)", _TCP)
    rack: bool = _key(
        "rack",
        SWITCH,
        "on",
        "RACK loss detection (RFC 8985); Linux from 6.17 on cannot switch it off while sack is on",
        _TCP,
    )
    rto_min_ns: int = _key("rto_min", SPAN, "200ms", "lower bound of the retransmission timeout", _TCP)
    verb: str | None = _key(
        "verb", optional(choice("write", "send")), AUTO, "RDMA operation that moves the data", _ROCE, auto="write"
    )
    roce_mtu_bytes: int | None = _key(
        "roce_mtu",
        optional(ROCE_MTU),
        AUTO,
        "most payload of a RoCE packet; auto: the largest that fits mtu with 80 bytes of headers",
        _ROCE,
    )
    window_bytes: int | None = _key(
        "window",
        optional(off_or(SIZE)),
        AUTO,
        "most unacknowledged bytes of a queue pair (HPCC, SIGCOMM 2019, section 5.1)",
        _ROCE,
        auto=OFF,
    )
    dcqcn_cnp_interval_ns: int | None = _key(
        "dcqcn_cnp_interval",
        optional(SPAN),
        AUTO,
        "a receiver sends no second CNP for a queue pair within it",
        _DCQCN,
        auto="50us",
    )
    dcqcn_alpha_timer_ns: int | None = _key(
        "dcqcn_alpha_timer", optional(SPAN), AUTO, "alpha falls after each that brings no CNP", _DCQCN, auto="55us"
    )
    dcqcn_rate_timer_ns: int | None = _key(
        "dcqcn_rate_timer", optional(SPAN), AUTO, "a sender's rate is increased after each", _DCQCN, auto="55us"
    )
    dcqcn_byte_counter_bytes: int | None = _key(
        "dcqcn_byte_counter", optional(SIZE), AUTO, "and after each so many bytes sent", _DCQCN, auto="10MB"
    )
    dcqcn_f: int | None = _key(
        "dcqcn_f", optional(COUNT), AUTO, "increases of fast recovery, before those by dcqcn_rai", _DCQCN, auto=5
    )
    dcqcn_g: float | None = _key(
        "dcqcn_g", optional(PROBABILITY), AUTO, "gain of alpha's moving average", _DCQCN, auto=0.00390625
    )
    dcqcn_rai_bps: int | None = _key(
        "dcqcn_rai", optional(RATE), AUTO, "step of additive increase", _DCQCN, auto="40Mbps"
    )
    dcqcn_rhai_bps: int | None = _key(
        "dcqcn_rhai", optional(RATE), AUTO, "step of hyper increase", _DCQCN, auto="200Mbps"
    )
    dcqcn_min_rate_bps: int | None = _key(
        "dcqcn_min_rate", optional(RATE), AUTO, "a sender's rate is cut no further", _DCQCN, auto="10Mbps"
    )
    workload: str = _key("workload", choice(*WORKLOADS), "incast", "what the hosts do")
    senders: int | None = _key(
        "senders",
        optional(COUNT),
        AUTO,
        "hosts, from h2 on, that send to h1 at the same time; auto: all others (star without hosts: 64)",
        _with("incast"),
    )
    sru_bytes: int = _key("bytes", SIZE, "256KiB", "bytes per flow and round (incast: the SRU)", _with(*TRANSFERS))
    rounds: int = _key("rounds", COUNT, "4", "barrier-synchronised rounds", _with(*TRANSFERS))
    jitter_ns: int = _key(
        "jitter",
        DURATION,
        "100us",
        "senders start within this time of a round's begin, seeded",
        _with(*TRANSFERS),
    )
    traffic: tuple[Flow, ...] | None = _key(
        "traffic",
        optional(TRAFFIC),
        AUTO,
        "who sends to whom, and when, after the workload's begin; auto: all others to h1, for the whole duration",
        _with("long_flows"),
    )
    flows: int | None = _key(
        "flows",
        optional(COUNT),
        AUTO,
        "random flows of one datagram each, of seeded sender, receiver and source port",
        _with("datagrams"),
        auto=1000,
    )
    interval_ns: int | None = _key(
        "interval",
        optional(SPAN),
        AUTO,
        "between two datagrams of a host to its partner",
        _with("streams"),
        auto="10us",
    )
    duration_ns: int | None = _key(
        "duration", optional(SPAN), AUTO, "how long the hosts send", _with("streams", "long_flows"), auto="40ms"
    )
    routing: str | None = _key(
        "routing",
        optional(choice(*PATH_CHOICES, *RING_ROUTES)),
        AUTO,
        "the choice among equal paths: by a hash of the flow (auto), or by the receiver's number (D-mod-k, Zahavi"
        " 2010); on a ring all one way round, or up*/down* (auto), which cannot deadlock",
        _on(*SWITCHED),
        values={
            **_each(PATH_CHOICES, _on(*(topology for topology in SWITCHED if topology != "ring"))),
            **_each(RING_ROUTES, _on("ring")),
        },
    )
    ecmp_seed: str | None = _key(
        "ecmp_seed",
        optional(choice("per_switch", "same")),
        AUTO,
        "the hash's seed: another in each switch, or one for all; auto: per_switch, with openflow=1.3 same",
        _on(*SWITCHED),
    )
    fast_failover: bool | None = _key(
        "fast_failover",
        optional(SWITCH),
        AUTO,
        "switches go round a dead port by themselves",
        _on(*SWITCHED),
        auto="on",
    )
    control_latency_ns: int | None = _key(
        "control_latency",
        optional(DURATION),
        AUTO,
        "from the controller's hearing of a change to its acting on it; 1ms or more when something fails",
        _on(*SWITCHED),
        auto="1ms",
    )
    failures: tuple[Failure, ...] | None = _key(
        "failure",
        optional(SCHEDULE),
        AUTO,
        "links (by their two switches) and switches that go down or come up, after the workload's begin",
        {**_on(*SWITCHED), **_with(*TRANSFERS, "streams")},
        auto="none",
    )
    openflow: str | None = _key(
        "openflow",
        optional(choice("1.5", "1.3")),
        AUTO,
        "version that controller and switches speak; 1.3 has no seed for the hash",
        _on(*SWITCHED),
        auto="1.5",
    )
    capture: str = _key(
        "capture",
        choice("off", "hot", "all"),
        "all",
        "packet captures: none, the hot port, or the hot port and every sender",
    )
    telemetry: bool = _key(
        "telemetry", SWITCH, "on", "samples of the hot port's queue, one a microsecond while it is busy"
    )
    seed: int = _key("seed", NUMBER, "1", "all randomness of the run")

    @property
    def rtt_ns(self) -> int:
        """Round-trip time of the longest path through the empty fabric: propagation and pipelines, both ways."""
        if self.topology != "ring":
            links, switches = (2 * count for count in _LONGEST_PATH[self.topology])
        elif self.routing == "clockwise":  # there and back is once round
            links, switches = known(self.switches) + 4, known(self.switches) + 2
        else:
            links, switches = 2 * known(self.switches), 2 * known(self.switches) - 2
        return links * self.delay_ns + switches * self.switch_delay_ns

    @property
    def host_names(self) -> list[str]:
        """The hosts of a sized spec in order."""
        return [f"h{number}" for number in range(1, known(self.hosts) + 1)]

    @property
    def link_rates_bps(self) -> tuple[int, ...]:
        """Rates of all kinds of links that the fabric has: hosts', switches', NVLinks."""
        rates_bps = (self.rate_bps, self.uplink_rate_bps, self.nvlink_rate_bps)
        return tuple(rate_bps for rate_bps in rates_bps if rate_bps is not None)

    @property
    def frame_bytes(self) -> int:
        """Largest Ethernet frame, without FCS."""
        return self.mtu_bytes + ETHERNET_HEADER_BYTES

    def as_text(self) -> dict[str, Any]:
        """Key -> value as a user would write it; `parse` reads it back to an equal spec."""
        return {item.metadata["name"]: item.metadata["kind"].format(getattr(self, item.name)) for item in fields(self)}


def keys() -> dict[str, DataclassField[Any]]:
    """Key name -> dataclass field of every spec key, in order."""
    return {item.metadata["name"]: item for item in fields(Spec)}


def parse(values: Mapping[str, Any], base: Spec | None = None) -> Spec:
    """`base` (default: the defaults) with `values` (key -> text) laid over it; raises BadRequest for an unknown
    key or a bad value."""
    known = keys()
    changes = {}
    for name, value in values.items():
        if name not in known:
            close = get_close_matches(str(name), known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            said = name if str(name).isprintable() else repr(name)
            raise BadRequest(f"{said}: unknown key{hint}; allowed: {', '.join(known)}")
        changes[known[name].name] = known[name].metadata["kind"].parse(value, name)
    return replace(base or Spec(), **changes)


def as_typed(value: Any) -> str:
    """A value of `as_text` in the words that the command line takes: a switch is "on" or "off"."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Unfit:
    """A key that is given and does not apply: its name and value as text, the key in its way with that one's value, and
    the values of it that are needed."""

    name: str
    value: str
    other: str
    other_value: str
    needed: tuple[str, ...]


def decided(spec: Spec) -> Spec:
    """The spec with the choices that follow from two others alone: congestion control and traffic class."""
    marked, unmarked, usual_class = ("dctcp", "cubic", "lossy")
    if spec.transport == "roce":
        marked, unmarked, usual_class = ("dcqcn", "none", "lossless")
    usual_cc = marked if spec.queue in MARKING_QUEUES else unmarked
    return replace(
        spec,
        cc=usual_cc if spec.cc == AUTO else spec.cc,
        traffic_class=usual_class if spec.traffic_class == AUTO else spec.traffic_class,
    )


def unfit(spec: Spec) -> tuple[Unfit, ...]:
    """The keys that are given (are not the default) and do not apply with the values that other keys have."""
    whole = decided(spec)
    return tuple(
        Unfit(
            name, as_typed(item.metadata["kind"].format(getattr(spec, item.name))), other, getattr(whole, other), needed
        )
        for name, item in keys().items()
        if getattr(spec, item.name) != item.default
        for other, needed in _lacking(whole, item, getattr(spec, item.name))
    )


def _lacking(spec: Spec, item: DataclassField[Any], value: Any = None) -> list[tuple[str, tuple[str, ...]]]:
    """The keys that keep `item`, or `value` of it, from applying, with the values that it needs of them."""
    special: Needs = item.metadata["values"].get(value, {}) if isinstance(value, str) else {}
    needs = {**item.metadata["needs"], **special}
    return [(other, needed) for other, needed in needs.items() if getattr(spec, other) not in needed]


def without(spec: Spec, names: Iterable[str]) -> Spec:
    """The spec with the named keys at their defaults."""
    defaults: dict[str, Any] = {keys()[name].name: keys()[name].default for name in names}
    return replace(spec, **defaults)


def with_plain_autos(spec: Spec) -> Spec:
    """The spec with a value for every key that applies and whose "auto" always means the same."""
    values: dict[str, Any] = {
        item.name: item.metadata["auto"]
        for item in fields(spec)
        if item.metadata["auto"] is not None and getattr(spec, item.name) is None and not _lacking(spec, item)
    }
    return replace(spec, **values)
