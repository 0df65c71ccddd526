"""The spec of a run: every key with its unit, default, meaning and limits, read from text once and frozen.

A key is a dataclass field; its metadata says how the command line and YAML call it (`rate`), while the code
uses the name with the unit (`rate_bps`). Unknown keys, bad values and combinations that cannot work are
BadRequest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import Field as DataclassField
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Callable

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


def _key(name: str, kind: Kind, default: Any, help: str) -> Any:
    return field(default=kind.parse(default, name), metadata={"name": name, "kind": kind, "help": help})


@dataclass(frozen=True)
class Spec:
    """One run, completely described; equal specs give equal runs in virtual time."""

    topology: str = _key("topology", _choice("star"), "star", "fabric")
    rate_bps: int = _key("rate", RATE, "400Gbps", "rate of each link, both ways")
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
    senders: int = _key("senders", COUNT, "64", "hosts that send to h1 at the same time")
    sru_bytes: int = _key("bytes", SIZE, "256KiB", "bytes per sender and round (the SRU)")
    rounds: int = _key("rounds", COUNT, "4", "barrier-synchronised rounds")
    jitter_ns: int = _key("jitter", DURATION, "100us", "senders start within this time of a round's begin, seeded")
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
    def hosts(self) -> int:
        """Hosts of the fabric: the receiver and the senders."""
        return self.senders + 1

    @property
    def rtt_ns(self) -> int:
        """Round-trip time of an empty star: two links and one switch each way."""
        return 2 * (2 * self.delay_ns + self.switch_delay_ns)

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
            raise BadRequest(f"{name}: unknown key{hint}; allowed: {', '.join(known)}")
        changes[known[name].name] = known[name].metadata["kind"].parse(value, name)
    return replace(base or Spec(), **changes)
