"""Kinds of values that a key of the spec may have: from text to value and back, with what is allowed in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Callable

from controller.pfc_frame import MOST_QUANTA
from experiments import laggards, traffic
from experiments.failures import ALLOWED as ALLOWED_FAILURES
from experiments.failures import format_failures, parse_failures
from experiments.slow_motion import pace
from topologies import plugins
from topologies.rdma import MTUS_BYTES
from topologies.units import (
    BadRequest,
    format_bytes,
    format_duration,
    format_rate,
    parse_bytes,
    parse_duration_ns,
    parse_rate_bps,
)

AUTO, OFF, NONE = "auto", "off", "none"
OWN = plugins.FORM  # what needs call any value that is code of the user's own
LEAST_RATIO, MOST_RATIO = 1, 8
LEAST_ALPHA, MOST_ALPHA = Fraction(1, 16), 64
ALPHA_STEPS = 256  # the kernel counts alpha in 1/256


@dataclass(frozen=True)
class Kind:
    """A kind of value: from text to value and back, what is allowed, in words, and what becomes of it where time runs
    slower (each has to say so: nothing that has a time in it may stay behind)."""

    parse: Callable[[Any, str], Any]
    format: Callable[[Any], Any]
    allowed: str
    slowed: Callable[[Any, pace.Pace], Any]


def optional(kind: Kind) -> Kind:
    """The same kind, or "auto" (None): derived from the others."""
    return Kind(
        lambda value, name: None if value is None or value == AUTO else kind.parse(value, name),
        lambda value: AUTO if value is None else kind.format(value),
        f"{kind.allowed}, or auto",
        lambda value, by: None if value is None else kind.slowed(value, by),
    )


def off_or(kind: Kind) -> Kind:
    """The same kind of numbers above zero, or "off" (0)."""
    return Kind(
        # YAML reads a bare `off` as False
        lambda value, name: 0 if value is False or value == OFF else kind.parse(value, name),
        lambda value: kind.format(value) if value else OFF,
        f"{kind.allowed}, or off",
        lambda value, pace: kind.slowed(value, pace) if value else value,
    )


def choice(*words: str) -> Kind:
    """One of the words."""

    def check(value: Any, name: str) -> str:
        # YAML reads a bare `off` as False
        word = "off" if value is False else "on" if value is True else str(value)
        if word not in words:
            raise BadRequest(f"{name}: {value!r} is unknown; allowed: {', '.join(words)}")
        return word

    return Kind(check, str, ", ".join(words), pace.timeless)


def own_or(*words: str) -> Kind:
    """One of the words, or code of the user's own (see `topologies.plugins`)."""
    allowed = ", ".join((*words, OWN))

    def check(value: Any, name: str) -> str | plugins.Plug:
        if plugins.is_plug(value):
            return plugins.read(value, name)
        if value not in words:
            raise BadRequest(f"{name}: {value!r} is unknown; allowed: {allowed}")
        return str(value)

    return Kind(check, str, allowed, pace.timeless)


def format_ratio(ratio: Fraction) -> str:
    """Text that is read back to the same ratio, such as "3:2"."""
    return f"{ratio.numerator}:{ratio.denominator}"


_WHOLE = re.compile(r"-?[0-9]{1,40}")
MOST_WHOLE = 2**63 - 1  # what a run directory, and a table, has room for


def _whole(value: Any, name: str) -> int:
    if isinstance(value, (bool, float)) or not _WHOLE.fullmatch(str(value)):
        raise BadRequest(f"{name}: {value!r} is not understood; allowed: a whole number")
    if not -MOST_WHOLE <= int(value) <= MOST_WHOLE:
        raise BadRequest(f"{name}: {value!r} is given; allowed: a whole number of 64 bits")
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


_ALPHA = re.compile(r"[0-9]{1,9}(?:/[1-9][0-9]{0,8}|\.[0-9]{1,9})?")
_ALPHA_ALLOWED = f"{LEAST_ALPHA} to {MOST_ALPHA} in steps of 1/{ALPHA_STEPS}"


def _alpha(value: Any, name: str) -> float:
    match = _ALPHA.fullmatch(str(value)) if not isinstance(value, bool) else None
    alpha = Fraction(match[0]) if match else Fraction(0)
    if not LEAST_ALPHA <= alpha <= MOST_ALPHA or (alpha * ALPHA_STEPS).denominator != 1:
        raise BadRequest(f"{name}: {value!r} is given; allowed: off, or {_ALPHA_ALLOWED}")
    return float(alpha)


def _positive(parse: Callable[[Any, str], int]) -> Callable[[Any, str], int]:
    def check(value: Any, name: str) -> int:
        number = parse(value, name)
        if number <= 0:
            raise BadRequest(f"{name}: {value!r} is given; allowed: above zero")
        return number

    return check


def _quanta(value: Any, name: str) -> int:
    number = _whole(value, name)
    if not 1 <= number <= MOST_QUANTA:
        raise BadRequest(f"{name}: {value!r} is given; allowed: 1 to {MOST_QUANTA}")
    return number


_ROCE_MTUS = ", ".join(f"{size_bytes}B" for size_bytes in MTUS_BYTES)


def _roce_mtu(value: Any, name: str) -> int:
    size_bytes = parse_bytes(value, name)
    if size_bytes not in MTUS_BYTES:
        raise BadRequest(f"{name}: {value!r} is given; allowed: {_ROCE_MTUS}")
    return size_bytes


MOST_SIZES = 64
_SIZES_ALLOWED = (
    "sizes such as 64KiB,1MiB,16MiB, or a range 64KiB-16MiB, each four times the one before until the last; up to"
    f" {MOST_SIZES}"
)


def _sizes(value: Any, name: str) -> tuple[int, ...]:
    """Ascending sizes in bytes of a list or a range."""
    try:
        words = [word.strip() for word in str(value).split(",")]
        ranges = [_range(word, name) for word in words]
        found = sorted({size for each in ranges for size in each}) if all(ranges) else []
    except BadRequest:
        found = []
    if not found or found[0] < 1 or len(found) > MOST_SIZES:
        raise BadRequest(f"{name}: {value!r} is not understood; allowed: {_SIZES_ALLOWED}")
    return tuple(found)


def _range(word: str, name: str) -> list[int]:
    first, dash, last = word.partition("-")
    sizes_bytes = [parse_bytes(first, name)]
    last_bytes = parse_bytes(last, name) if dash else sizes_bytes[0]
    while 0 < sizes_bytes[-1] < last_bytes:
        sizes_bytes.append(sizes_bytes[-1] * 4)
    return sizes_bytes if sizes_bytes[-1] == last_bytes else []


def _format_sizes(sizes_bytes: tuple[int, ...]) -> str:
    return ",".join(map(format_bytes, sizes_bytes))


def _not_negative(value: Any, name: str) -> int:
    number = _whole(value, name)
    if number < 0:
        raise BadRequest(f"{name}: {value!r} is given; allowed: a whole number, zero or more")
    return number


def _spread(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 3:
        raise BadRequest(f"{name}: {value!r} is given; allowed: 0 to 3")
    return number


def _text(value: Any, name: str) -> str:
    words = value if isinstance(value, str) else ""
    if not words.strip() or not words.isprintable():
        raise BadRequest(f"{name}: {value!r} is given; allowed: printable text in one line")
    return words


RATE = Kind(_positive(parse_rate_bps), format_rate, "a rate such as 400Gbps", pace.rate_bps)
SIZE = Kind(_positive(parse_bytes), format_bytes, "a size such as 600KB or 256KiB", pace.timeless)
SIZE_OR_NONE = Kind(parse_bytes, format_bytes, "a size such as 20KB, or 0B", pace.timeless)
DURATION = Kind(parse_duration_ns, format_duration, "a duration such as 1us or 200ms", pace.duration_ns)
SPAN = Kind(_positive(parse_duration_ns), format_duration, "a duration above zero such as 200ms", pace.duration_ns)
COUNT = Kind(_positive(_whole), int, "a whole number above zero", pace.timeless)
NUMBER = Kind(_whole, int, "a whole number", pace.timeless)
SWITCH = Kind(_switch, bool, "on, off", pace.timeless)
PROBABILITY = Kind(_probability, float, "a probability above 0, up to 1", pace.timeless)
RATIO = Kind(_ratio, format_ratio, f"a ratio from {LEAST_RATIO}:1 to {MOST_RATIO}:1 such as 2:1 or 3:2", pace.timeless)
ALPHA = Kind(_alpha, float, _ALPHA_ALLOWED, pace.timeless)
QUANTA = Kind(_quanta, int, f"1 to {MOST_QUANTA}", pace.timeless)
ROCE_MTU = Kind(_roce_mtu, format_bytes, _ROCE_MTUS, pace.timeless)
SCHEDULE = Kind(parse_failures, format_failures, ALLOWED_FAILURES, pace.events)
TRAFFIC = Kind(traffic.parse_flows, traffic.format_spans, traffic.ALLOWED_FLOWS, pace.spans)
STUCK = Kind(traffic.parse_stuck, traffic.format_spans, traffic.ALLOWED_STUCK, pace.spans)
SIZES = Kind(_sizes, _format_sizes, _SIZES_ALLOWED, pace.timeless)
COUNT_OR_NONE = Kind(_not_negative, int, "a whole number, zero or more", pace.timeless)
SPREAD = Kind(_spread, float, "0 to 3", pace.timeless)
TEXT = Kind(_text, str, "printable text in one line", pace.timeless)
SLOW_HOSTS = Kind(laggards.parse_slow_hosts, laggards.format_numbers, "HOST:TIMES such as h3:2, or none", pace.timeless)
SLOW_LINKS = Kind(
    laggards.parse_slow_links, laggards.format_rates, "HOST:RATE such as h3:10Gbps, or none", pace.host_rates
)
LOSSY_LINKS = Kind(
    laggards.parse_lossy_links,
    laggards.format_numbers,
    "HOST:PROBABILITY such as h3:0.001, or none",
    pace.timeless,
)
