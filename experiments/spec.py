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
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from experiments.keys.collectives import CollectiveKeys
from experiments.keys.control import ControlKeys
from experiments.keys.fabric import FabricKeys
from experiments.keys.federated import FederatedKeys
from experiments.keys.iperf3 import Iperf3Keys
from experiments.keys.key import CLUSTER as CLUSTER
from experiments.keys.key import IPERF3 as IPERF3
from experiments.keys.key import LAUNCH as LAUNCH
from experiments.keys.key import MARKING_QUEUES as MARKING_QUEUES
from experiments.keys.key import ROUTED as ROUTED
from experiments.keys.key import STREAMED as STREAMED
from experiments.keys.key import SWITCHED as SWITCHED
from experiments.keys.key import TO_ONE as TO_ONE
from experiments.keys.key import TOPOLOGIES as TOPOLOGIES
from experiments.keys.key import TRANSFERS as TRANSFERS
from experiments.keys.key import WORKLOADS as WORKLOADS
from experiments.keys.key import Needs, key
from experiments.keys.launch import LaunchKeys
from experiments.keys.queues import QueueKeys
from experiments.keys.traffic import TrafficKeys
from experiments.keys.training import TrainingKeys
from experiments.keys.transport import TransportKeys
from experiments.kinds import AUTO, NUMBER, SWITCH, choice
from experiments.kinds import OWN as OWN
from topologies import own_fabric
from topologies.plugins import Plug
from topologies.profiles import ETHERNET_HEADER_BYTES
from topologies.units import BadRequest

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


@dataclass(frozen=True)
class Spec(  # a dataclass takes over fields from the last base to the first
    ControlKeys,
    Iperf3Keys,
    LaunchKeys,
    FederatedKeys,
    TrainingKeys,
    CollectiveKeys,
    TrafficKeys,
    TransportKeys,
    QueueKeys,
    FabricKeys,
):
    """One run, completely described; equal specs give equal runs in virtual time."""

    capture: str = key(
        "capture",
        choice("off", "hot", "all"),
        "all",
        "packet captures: none, the hot port, or the hot port and every sender",
    )
    telemetry: bool = key(
        "telemetry", SWITCH, "on", "samples of the hot port's queue, one a microsecond while it is busy"
    )
    seed: int = key("seed", NUMBER, "1", "all randomness of the run")

    @property
    def rtt_ns(self) -> int:
        """Round-trip time of the longest path through the empty fabric: propagation and pipelines, both ways."""
        if isinstance(self.topology, Plug):
            links = 2 * own_fabric.longest_links(own_fabric.described(self.topology, self.sizes))
            switches = links - 2
        elif self.topology != "ring":
            links, switches = (2 * count for count in _LONGEST_PATH[self.topology])
        elif self.routing == "clockwise":  # there and back is once round
            links, switches = known(self.switches) + 4, known(self.switches) + 2
        else:
            links, switches = 2 * known(self.switches), 2 * known(self.switches) - 2
        return links * self.delay_ns + switches * self.switch_delay_ns

    @property
    def is_routed(self) -> bool:
        """Whether a controller routes the fabric; a star's one switch learns by itself."""
        return word(self.topology) in ROUTED

    @property
    def own(self) -> dict[str, Plug]:
        """Key -> code of the user's own."""
        found = {"topology": self.topology, "workload": self.workload, "policy": self.policy}
        return {key: value for key, value in found.items() if isinstance(value, Plug)}

    @property
    def sizes(self) -> dict[str, Any]:
        """What a fabric of the user's own may have as parameters: key -> value, where there is one."""
        found = {name: getattr(self, name) for name in own_fabric.SIZES}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def host_names(self) -> list[str]:
        """The hosts of a sized spec in order."""
        return [f"h{number}" for number in range(1, known(self.hosts) + 1)]

    @property
    def link_rates_bps(self) -> tuple[int, ...]:
        """Rates of all kinds of links that the fabric has: hosts', switches', NVLinks, helpers' and slow ones."""
        rates_bps = (self.rate_bps, self.uplink_rate_bps, self.nvlink_rate_bps, self.helper_rate_bps)
        slow_bps = (rate_bps for _, rate_bps in self.slow_links)
        return tuple(rate_bps for rate_bps in (*rates_bps, *slow_bps) if rate_bps is not None)

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


def word(value: Any) -> Any:
    """A value as the needs of keys call it: code of the user's own is OWN, whatever it is."""
    return OWN if isinstance(value, Plug) else value


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
            name,
            as_typed(item.metadata["kind"].format(getattr(spec, item.name))),
            other,
            AUTO if getattr(whole, other) is None else str(getattr(whole, other)),
            needed,
        )
        for name, item in keys().items()
        if getattr(spec, item.name) != item.default
        for other, needed in _lacking(whole, item, getattr(spec, item.name))
    )


def _lacking(spec: Spec, item: DataclassField[Any], value: Any = None) -> list[tuple[str, tuple[str, ...]]]:
    """The keys that keep `item`, or `value` of it, from applying, with the values that it needs of them."""
    special: Needs = item.metadata["values"].get(word(value), {}) if isinstance(value, (str, Plug)) else {}
    needs = {**item.metadata["needs"], **special}
    return [(other, needed) for other, needed in needs.items() if word(getattr(spec, other)) not in needed]


def applies(spec: Spec, item: DataclassField[Any]) -> bool:
    """Whether a key means something with the values that other keys of a resolved spec have."""
    return not _lacking(spec, item)


def without(spec: Spec, names: Iterable[str]) -> Spec:
    """The spec with the named keys at their defaults."""
    defaults: dict[str, Any] = {keys()[name].name: keys()[name].default for name in names}
    return replace(spec, **defaults)


def with_plain_autos(spec: Spec) -> Spec:
    """The spec with a value for every key that applies and whose "auto" always means the same. What it means for a
    fabric of the user's own, the fabric says."""
    open_sizes = own_fabric.SIZES if "topology" in spec.own else ()
    values: dict[str, Any] = {
        item.name: item.metadata["auto"]
        for item in fields(spec)
        if item.metadata["auto"] is not None and getattr(spec, item.name) is None and not _lacking(spec, item)
        if item.name not in open_sizes
    }
    return replace(spec, **values)
