"""What a run was configured with, from its spec.yaml: quantities in base units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from analysis.cost_model import RETH_BYTES, delay_over_ns, ideal_round_seconds, longest_links
from analysis.cost_model import Path as NetworkPath
from analysis.fabric import Fabric
from analysis.transport.recovery import LINUX_RTO_MIN_NS
from topologies.units import BadRequest, format_duration, parse_bytes, parse_duration_ns, parse_rate_bps

INCAST = "incast"  # the workload of a spec that names none
TCP, ROCE = "tcp", "roce"  # transports
LOSSY = "lossy"  # the class of a spec that names none
CONTROLLER = "controller"  # who marks or pauses, where it is not the switch
GPUS_PER_SERVER = 8  # of a GPU pod
_OWN = ".py:"  # between file and name of code of the user's own


@dataclass(frozen=True)
class Parameters:
    """A run's configuration that the analysis needs.

    senders, sender_bytes: 0 where the workload has none; uplink_bps: of the links between switches, the hosts' rate
    where there are none; link_delay_ns, switch_delay_ns: of one link, of one switch; kmin_bytes, kmax_bytes: None
    where nothing is marked; pfc: the lossless class is lossless, and xoff_bytes, xon_bytes and headroom_bytes are its
    thresholds, counted at xoff_at (all None without PFC); is_shared: ports share memory, and xoff_bytes is the most
    that it can be; pause, marking: who does it; control_latency_ns: of the controller, None where there is none.
    """

    label: str
    topology: str
    queue: str
    cc: str
    senders: int
    sender_bytes: int
    buffer_bytes: int
    rto_min_ns: int
    tlp: bool
    rack: bool
    path: NetworkPath
    uplink_bps: int
    link_delay_ns: int
    switch_delay_ns: int
    jitter_ns: int
    kmin_bytes: int | None
    kmax_bytes: int | None
    transport: str
    traffic_class: str
    pfc: bool
    xoff_bytes: int | None
    xon_bytes: int | None
    headroom_bytes: int | None
    xoff_at: str | None
    is_shared: bool
    pause: str | None
    marking: str | None
    control_latency_ns: int | None

    @property
    def is_roce(self) -> bool:
        """Whether queue pairs of RoCEv2 carry the data, not TCP."""
        return self.transport == ROCE

    @property
    def nvlink_senders(self) -> int:
        """Senders of an incast inside the receiver's own server, whose data takes NVLink and no port of the fabric."""
        return min(self.senders, GPUS_PER_SERVER - 1) if self.topology == "gpu_pod" else 0

    @property
    def port_delay_ns(self) -> int:
        """Switching and propagation, which a port applies before its queue."""
        return self.link_delay_ns + self.switch_delay_ns

    @property
    def ideal_seconds(self) -> float:
        """A round of an incast without loss (cost_model.ideal_round_seconds)."""
        beside = self.nvlink_senders
        return ideal_round_seconds(self.path, self.senders, self.sender_bytes, self.jitter_ns, beside)

    @property
    def scheme(self) -> str:
        """What the senders and the port do about congestion, as figures call it: the cure, over RoCE where it is not
        TCP."""
        return f"RoCE {self.cure}" if self.is_roce else self.cure

    @property
    def cure(self) -> str:
        """What is done about congestion: the queue, or PFC, or both; who acts, where it is not the switch; and RTOmin
        where it is not Linux's."""
        words = ["PFC" if self.queue == "droptail" and self.pfc else f"PFC + {self.queue}" if self.pfc else self.queue]
        if self.is_roce and self.queue == "dcqcn" and self.cc != "dcqcn":
            words.append("no rate control")
        if CONTROLLER in (self.pause, self.marking):
            words.append(f"{' and '.join(self._by_controller())} by controller")
        if not self.is_roce and self.rto_min_ns != LINUX_RTO_MIN_NS:
            words.append(f"RTOmin {format_duration(self.rto_min_ns)}")
        return ", ".join(words)

    def _by_controller(self) -> list[str]:
        acts = {"pauses": self.pause, "marks": self.marking}
        return [what for what, who in acts.items() if who == CONTROLLER]


def read_spec(path: Path) -> dict[str, Any]:
    """The flat mapping in a spec.yaml; raises BadRequest naming the file when it is missing or no mapping."""
    import yaml

    try:
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(spec, dict):
        raise BadRequest(f"{path}: holds {type(spec).__name__}; allowed: a mapping of keys to values")
    return spec


def parameters(spec: Mapping[str, Any], fabric: Mapping[str, Any] | None = None) -> Parameters:
    """The typed view of a spec; raises BadRequest naming the key that is missing or not understood. What a topology of
    the user's own is like, the document of its fabric tells."""
    incast = spec.get("workload", INCAST) == INCAST
    roce = spec.get("transport") == ROCE
    pfc = _is_on(spec, "pfc")
    return Parameters(
        label=str(_value(spec, "label")),
        topology=own_name(_value(spec, "topology")),
        queue=str(_value(spec, "queue")),
        cc=str(_value(spec, "cc")),
        senders=_count(spec, "senders") if incast else 0,
        sender_bytes=_sender_bytes(spec, incast),
        buffer_bytes=parse_bytes(_value(spec, "buffer"), "buffer"),
        rto_min_ns=LINUX_RTO_MIN_NS if roce else _duration_ns(spec, "rto_min"),
        # Linux probes, and measures by RACK, on connections with SACK only.
        tlp=not roce and _switch(spec, "tlp") and _switch(spec, "sack"),
        rack=not roce and _switch(spec, "rack") and _switch(spec, "sack"),
        path=_path(spec, roce, _links(spec, fabric)),
        uplink_bps=_uplink_bps(spec),
        link_delay_ns=_duration_ns(spec, "delay"),
        switch_delay_ns=_duration_ns(spec, "switch_delay"),
        jitter_ns=_duration_ns(spec, "jitter"),
        kmin_bytes=_optional(spec, "kmin", parse_bytes),
        kmax_bytes=_optional(spec, "kmax", parse_bytes),
        transport=ROCE if roce else TCP,
        traffic_class=_words(spec, "traffic_class") or LOSSY,
        pfc=pfc,
        xoff_bytes=_optional(spec, "xoff", parse_bytes) if pfc else None,
        xon_bytes=_optional(spec, "xon", parse_bytes) if pfc else None,
        headroom_bytes=_optional(spec, "headroom", parse_bytes) if pfc else None,
        xoff_at=_words(spec, "xoff_at") if pfc else None,
        is_shared=pfc and spec.get("alpha") not in (None, "auto", "off", False),
        pause=_words(spec, "pause") if pfc else None,
        marking=_words(spec, "marking"),
        control_latency_ns=_optional(spec, "control_latency", parse_duration_ns),
    )


def _words(spec: Mapping[str, Any], key: str) -> str | None:
    """A key's word; None when it is not given, or not resolved."""
    return None if spec.get(key) in (None, "auto") else str(spec[key])


def _is_on(spec: Mapping[str, Any], key: str) -> bool:
    """Whether a key that a run may lack is switched on (YAML reads a bare `on` as true)."""
    return spec.get(key) in (True, "on")


def _sender_bytes(spec: Mapping[str, Any], incast: bool) -> int:
    return parse_bytes(_value(spec, "bytes"), "bytes") if incast else _optional(spec, "bytes", parse_bytes) or 0


def own_name(value: Any) -> str:
    """What code of the user's own is called, of "own/topology.py:NAME"; other values are what they are."""
    return str(value).rpartition(_OWN)[2]


def _links(spec: Mapping[str, Any], fabric: Mapping[str, Any] | None) -> int:
    """Links between the two hosts that are farthest apart."""
    topology = str(_value(spec, "topology"))
    if _OWN in topology and fabric:
        return Fabric.of(fabric).longest_links()
    return longest_links(topology, spec.get("switches"))


def _path(spec: Mapping[str, Any], roce: bool, links: int) -> NetworkPath:
    return NetworkPath(
        rate_bps=parse_rate_bps(_value(spec, "rate"), "rate"),
        delay_ns=delay_over_ns(links, _duration_ns(spec, "delay"), _duration_ns(spec, "switch_delay")),
        mtu_bytes=_size(spec, "mtu"),
        uplinks=links - 2,
        uplink_bps=_uplink_bps(spec),
        roce_mtu_bytes=_size(spec, "roce_mtu") if roce else None,
        message_bytes=RETH_BYTES if roce and _words(spec, "verb") != "send" else 0,
    )


def _size(spec: Mapping[str, Any], key: str) -> int:
    """A size, or a plain number of bytes."""
    return _count(spec, key) if isinstance(_value(spec, key), int) else parse_bytes(spec[key], key)


def _uplink_bps(spec: Mapping[str, Any]) -> int:
    return _optional(spec, "uplink_rate", parse_rate_bps) or parse_rate_bps(_value(spec, "rate"), "rate")


def _value(spec: Mapping[str, Any], key: str) -> Any:
    if spec.get(key) is None:
        raise BadRequest(f"spec.yaml: key {key!r} is missing")
    return spec[key]


def _duration_ns(spec: Mapping[str, Any], key: str) -> int:
    return parse_duration_ns(_value(spec, key), key)


def _count(spec: Mapping[str, Any], key: str) -> int:
    value = _value(spec, key)
    if not isinstance(value, int) or value < 1:
        raise BadRequest(f"{key}: {value!r} is not understood; allowed: a whole number of at least 1")
    return value


def _switch(spec: Mapping[str, Any], key: str) -> bool:
    value = _value(spec, key)
    if not isinstance(value, bool):
        raise BadRequest(f"{key}: {value!r} is not understood; allowed: true, false")
    return value


def _optional(spec: Mapping[str, Any], key: str, parse: Callable[[object, str], int]) -> int | None:
    return None if spec.get(key) in (None, "auto") else parse(spec[key], key)
