"""The spec of a run: every key with its unit, default, meaning and limits, read from text once and frozen.

A key is a dataclass field; its metadata says how the command line and YAML call it (`rate`), while the code
uses the name with the unit (`rate_bps`). Unknown keys, bad values and combinations that cannot work are
BadRequest. A key may need others to have certain values (`k` needs topology=fat_tree): `unfit` finds those that
are given without. Most such keys are "auto" (None) until `limits.resolve` gives them a value, and stay so where they
do not apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import Field as DataclassField
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Callable, NoReturn, TypeVar

from experiments.failures import ALLOWED as ALLOWED_FAILURES
from experiments.failures import Failure, format_failures, parse_failures
from topologies.units import (
    BadRequest,
    format_bytes,
    format_duration,
    format_rate,
    parse_bytes,
    parse_duration_ns,
    parse_rate_bps,
)

AUTO = "auto"

SWITCHED = (
    "dumbbell",
    "leaf_spine",
    "fat_tree",
    "gpu_pod",
)  # topologies of several switches, which a controller routes
TOPOLOGIES = ("star", *SWITCHED)
TRANSFERS = ("incast", "permutation", "all_to_all")  # workloads of TCP flows, `bytes` each
WORKLOADS = (*TRANSFERS, "pings", "datagrams", "streams")
LEAST_RATIO, MOST_RATIO = 1, 8
# Topology -> links and switches of the longest path between two hosts.
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


@dataclass(frozen=True)
class Kind:
    """A kind of value: from text to value and back, and what is allowed, in words."""

    parse: Callable[[Any, str], Any]
    format: Callable[[Any], Any]
    allowed: str


_WHOLE = re.compile(r"-?[0-9]{1,40}")


def _whole(value: Any, name: str) -> int:
    if isinstance(value, (bool, float)) or not _WHOLE.fullmatch(str(value)):
        raise BadRequest(f"{name}: {value!r} is not understood; allowed: a whole number")
    return int(value)


def _switch(value: Any, name: str) -> bool:
    words = {"true": True, "on": True, "yes": True, "1": True, "false": False, "off": False, "no": False, "0": False}
    try:
        return words[str(value).lower()]
    except KeyError:
        raise BadRequest(f"{name}: {value!r} is not understood; allowed: on, off") from None


def _probability(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 < number <= 1:
        raise BadRequest(f"{name}: {value!r} is not a probability; allowed: above 0, up to 1")
    return number


_RATIO = re.compile(r"([0-9]{1,9})(?::([0-9]{1,9}))?")


def _ratio(value: Any, name: str) -> Fraction:
    match = _RATIO.fullmatch(str(value)) if not isinstance(value, bool) else None
    if match is None or int(match[2] or 1) == 0:
        raise BadRequest(f"{name}: {value!r} is not understood; allowed: a ratio such as 2:1 or 3:2")
    ratio = Fraction(int(match[1]), int(match[2] or 1))
    if not LEAST_RATIO <= ratio <= MOST_RATIO:
        raise BadRequest(f"{name}: {value!r} is given; allowed: {LEAST_RATIO}:1 to {MOST_RATIO}:1")
    return ratio


def format_ratio(ratio: Fraction) -> str:
    """Text that is read back to the same ratio, such as "3:2"."""
    return f"{ratio.numerator}:{ratio.denominator}"


def _positive(parse: Callable[[Any, str], int]) -> Callable[[Any, str], int]:
    def check(value: Any, name: str) -> int:
        number = parse(value, name)
        if number <= 0:
            raise BadRequest(f"{name}: {value!r} is given; allowed: above zero")
        return number

    return check


def _optional(kind: Kind) -> Kind:
    """The same kind, or "auto" (None): derived from the others."""
    return Kind(
        lambda value, name: None if value is None or value == AUTO else kind.parse(value, name),
        lambda value: AUTO if value is None else kind.format(value),
        f"{kind.allowed}, or auto",
    )


def _choice(*words: str) -> Kind:
    def check(value: Any, name: str) -> str:
        # YAML reads a bare `off` as False
        word = "off" if value is False else "on" if value is True else str(value)
        if word not in words:
            raise BadRequest(f"{name}: {value!r} is unknown; allowed: {', '.join(words)}")
        return word

    return Kind(check, str, ", ".join(words))


RATE = Kind(_positive(parse_rate_bps), format_rate, "a rate such as 400Gbps")
SIZE = Kind(_positive(parse_bytes), format_bytes, "a size such as 600KB or 256KiB")
DURATION = Kind(parse_duration_ns, format_duration, "a duration such as 1us or 200ms")
SPAN = Kind(_positive(parse_duration_ns), format_duration, "a duration above zero such as 200ms")
COUNT = Kind(_positive(_whole), int, "a whole number above zero")
NUMBER = Kind(_whole, int, "a whole number")
SWITCH = Kind(_switch, bool, "on, off")
PROBABILITY = Kind(_probability, float, "a probability above 0, up to 1")
RATIO = Kind(_ratio, format_ratio, f"a ratio from {LEAST_RATIO}:1 to {MOST_RATIO}:1 such as 2:1 or 3:2")
SCHEDULE = Kind(parse_failures, format_failures, ALLOWED_FAILURES)

Needs = Mapping[str, tuple[str, ...]]  # key -> the values of it with which another key applies


def _key(name: str, kind: Kind, default: Any, help: str, needs: Needs | None = None, auto: Any = None) -> Any:
    """A key of the spec; `auto` is what an "auto" always means, where that depends on nothing else."""
    told = help if auto is None else f"{help}; auto: {auto}"
    metadata = {
        "name": name,
        "kind": kind,
        "help": told,
        "needs": needs or {},
        "auto": None if auto is None else kind.parse(auto, name),
    }
    return field(default=kind.parse(default, name), metadata=metadata)


def _on(*topologies: str) -> Needs:
    return {"topology": topologies}


def _with(*workloads: str) -> Needs:
    return {"workload": workloads}


@dataclass(frozen=True)
class Spec:
    """One run, completely described; equal specs give equal runs in virtual time."""

    topology: str = _key("topology", _choice(*TOPOLOGIES), "star", "fabric")
    hosts: int | None = _key(
        "hosts",
        _optional(COUNT),
        AUTO,
        "hosts on the fabric, racks fill one after the other; auto: all places (star: senders + 1; dumbbell: 4)",
    )
    leaves: int | None = _key(
        "leaves",
        _optional(COUNT),
        AUTO,
        "leaf switches of leaf_spine (auto: 4), and of gpu_pod with rails=off (auto: one a server, up to 8)",
        _on("leaf_spine", "gpu_pod"),
    )
    spines: int | None = _key(
        "spines",
        _optional(COUNT),
        AUTO,
        "spine switches; auto: so many that uplinks run at uplink_rate (auto: rate, or less) with the oversubscription",
        _on("leaf_spine", "gpu_pod"),
    )
    hosts_per_leaf: int | None = _key(
        "hosts_per_leaf",
        _optional(COUNT),
        AUTO,
        "host ports of each leaf; auto: 4, or with hosts as many as they need",
        _on("leaf_spine"),
    )
    k: int | None = _key(
        "k", _optional(COUNT), AUTO, "ports of each switch of a fat-tree, even, 4 to 16", _on("fat_tree"), auto=4
    )
    servers: int | None = _key(
        "servers",
        _optional(COUNT),
        AUTO,
        "servers of 8 GPUs; auto: 2, or with hosts as many as they need",
        _on("gpu_pod"),
    )
    rails: bool | None = _key(
        "rails",
        _optional(SWITCH),
        AUTO,
        "leaf i holds the NIC of GPU i of every server; off: all NICs of a server go to one leaf",
        _on("gpu_pod"),
        auto="on",
    )
    oversubscription: Fraction | None = _key(  # noqa: RUF009 (a Fraction cannot be changed)
        "oversubscription",
        _optional(RATIO),
        AUTO,
        "bandwidth of a leaf's hosts over that of its uplinks; auto: 1:1, or as spines and uplink_rate make it",
        _on("leaf_spine", "fat_tree", "gpu_pod"),
    )
    rate_bps: int = _key("rate", RATE, "400Gbps", "rate of each host's link, both ways")
    uplink_rate_bps: int | None = _key(
        "uplink_rate",
        _optional(RATE),
        AUTO,
        "rate of each link between switches; auto: by the oversubscription (dumbbell: rate)",
        _on(*SWITCHED),
    )
    nvlink_rate_bps: int | None = _key(
        "nvlink_rate",
        _optional(RATE),
        AUTO,
        "rate of a GPU's link to its server's NVSwitch, each way",
        _on("gpu_pod"),
        auto="3.6Tbps",
    )
    delay_ns: int = _key("delay", DURATION, "500ns", "one-way propagation delay of each link")
    switch_delay_ns: int = _key("switch_delay", DURATION, "400ns", "pipeline delay of a switch, per packet")
    buffer_bytes: int = _key("buffer", SIZE, "600KB", "egress buffer of each switch port")
    mtu_bytes: int = _key("mtu", SIZE, "1500B", "IP MTU of every link")
    queue: str = _key(
        "queue", _choice("droptail", "red", "dctcp"), "droptail", "what a switch port does as its buffer fills"
    )
    kmin_bytes: int | None = _key("kmin", _optional(SIZE), AUTO, "queue at which marking (red: dropping) begins")
    kmax_bytes: int | None = _key(
        "kmax", _optional(SIZE), AUTO, "queue from which every packet is marked (red: dropped)"
    )
    pmax: float | None = _key("pmax", _optional(PROBABILITY), AUTO, "probability of a mark (red: drop) just below kmax")
    transport: str = _key("transport", _choice("tcp"), "tcp", "how hosts send")
    cc: str = _key(
        "cc",
        _choice(AUTO, "reno", "cubic", "dctcp", "bbr"),
        AUTO,
        "congestion control; auto: dctcp with queue=dctcp, else cubic",
    )
    sack: bool = _key("sack", SWITCH, "on", "selective acknowledgements (RFC 2018)")
    tlp: bool = _key("tlp", SWITCH, "on", "tail loss probe (RFC 8985)")
    rack: bool = _key(
        "rack", SWITCH, "on", "RACK loss detection (RFC 8985); Linux from 6.17 on cannot switch it off while sack is on"
    )
    rto_min_ns: int = _key("rto_min", SPAN, "200ms", "lower bound of the retransmission timeout")
    workload: str = _key("workload", _choice(*WORKLOADS), "incast", "what the hosts do")
    senders: int | None = _key(
        "senders",
        _optional(COUNT),
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
    flows: int | None = _key(
        "flows",
        _optional(COUNT),
        AUTO,
        "random flows of one datagram each, of seeded sender, receiver and source port",
        _with("datagrams"),
        auto=1000,
    )
    interval_ns: int | None = _key(
        "interval",
        _optional(SPAN),
        AUTO,
        "between two datagrams of a host to its partner",
        _with("streams"),
        auto="10us",
    )
    duration_ns: int | None = _key(
        "duration", _optional(SPAN), AUTO, "how long the hosts send", _with("streams"), auto="40ms"
    )
    routing: str | None = _key(
        "routing",
        _optional(_choice("ecmp", "d_mod_k")),
        AUTO,
        "the choice among equal paths: by a hash of the flow, or by the receiver's number (D-mod-k, Zahavi 2010)",
        _on(*SWITCHED),
        auto="ecmp",
    )
    ecmp_seed: str | None = _key(
        "ecmp_seed",
        _optional(_choice("per_switch", "same")),
        AUTO,
        "the hash's seed: another in each switch, or one for all; auto: per_switch, with openflow=1.3 same",
        _on(*SWITCHED),
    )
    fast_failover: bool | None = _key(
        "fast_failover",
        _optional(SWITCH),
        AUTO,
        "switches go round a dead port by themselves",
        _on(*SWITCHED),
        auto="on",
    )
    control_latency_ns: int | None = _key(
        "control_latency",
        _optional(DURATION),
        AUTO,
        "from the controller's hearing of a change to its acting on it, 1ms or more",
        _on(*SWITCHED),
        auto="1ms",
    )
    failures: tuple[Failure, ...] | None = _key(
        "failure",
        _optional(SCHEDULE),
        AUTO,
        "links (by their two switches) and switches that go down or come up, after the workload's begin",
        {**_on(*SWITCHED), **_with(*TRANSFERS, "streams")},
        auto="none",
    )
    openflow: str | None = _key(
        "openflow",
        _optional(_choice("1.5", "1.3")),
        AUTO,
        "version that controller and switches speak; 1.3 has no seed for the hash",
        _on(*SWITCHED),
        auto="1.5",
    )
    capture: str = _key(
        "capture",
        _choice("off", "hot", "all"),
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
        links, switches = _LONGEST_PATH[self.topology]
        return 2 * (links * self.delay_ns + switches * self.switch_delay_ns)

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


def unfit(spec: Spec) -> tuple[Unfit, ...]:
    """The keys that are given (are not the default) and do not apply to the spec's topology or workload."""
    return tuple(
        Unfit(
            name, as_typed(item.metadata["kind"].format(getattr(spec, item.name))), other, getattr(spec, other), needed
        )
        for name, item in keys().items()
        if getattr(spec, item.name) != item.default
        for other, needed in _lacking(spec, item)
    )


def _lacking(spec: Spec, item: DataclassField[Any]) -> list[tuple[str, tuple[str, ...]]]:
    """The key that keeps `item` from applying, with the values that it needs; empty when it applies."""
    return [(other, needed) for other, needed in item.metadata["needs"].items() if getattr(spec, other) not in needed]


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
