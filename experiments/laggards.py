"""What single hosts do worse than the others (pure): the keys `slow_host`, `slow_link` and `lossy_link`.

Each is written as HOST:VALUE, more after commas: "h3:2" (its computing takes twice as long), "h3:10Gbps" (the rate of
its link, both ways), "h3:0.001" (the probability that a packet is lost on its cable, either way); "none" is nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from topologies.units import BadRequest, format_rate, parse_rate_bps

NONE = "none"
MOST_SLOWDOWN = 1000.0
_HOST = re.compile(r"h[1-9][0-9]{0,8}")
_Value = TypeVar("_Value")


def parse_slow_hosts(text: Any, name: str) -> tuple[tuple[str, float], ...]:
    """(host, how many times longer it computes), in the text's order; raises BadRequest when it is no such text."""
    return _parse(text, name, _slowdown, f"HOST:TIMES, times above 0 up to {MOST_SLOWDOWN:g}, such as h3:2")


def parse_slow_links(text: Any, name: str) -> tuple[tuple[str, int], ...]:
    """(host, rate of its link in bits/s); raises BadRequest when it is no such text."""
    return _parse(text, name, lambda word: parse_rate_bps(word, name), "HOST:RATE, such as h3:10Gbps")


def parse_lossy_links(text: Any, name: str) -> tuple[tuple[str, float], ...]:
    """(host, probability of loss on its cable); raises BadRequest when it is no such text."""
    return _parse(text, name, _loss, "HOST:PROBABILITY, above 0 and below 1, such as h3:0.001")


def _slowdown(word: str) -> float:
    times = float(word)
    if not 0 < times <= MOST_SLOWDOWN:
        raise ValueError(word)
    return times


def _loss(word: str) -> float:
    probability = float(word)
    if not 0 < probability < 1:
        raise ValueError(word)
    return probability


def _parse(text: Any, name: str, value: Callable[[str], _Value], allowed: str) -> tuple[tuple[str, _Value], ...]:
    if text == NONE:
        return ()
    found: dict[str, _Value] = {}
    try:
        for word in str(text).split(","):
            host, _, given = word.strip().partition(":")
            if not _HOST.fullmatch(host) or host in found:
                raise ValueError(word)
            found[host] = value(given)
    except (ValueError, BadRequest):
        raise BadRequest(
            f"{name}: {text!r} is not understood; allowed: {allowed}; more after commas, each host once; or none"
        ) from None
    return tuple(found.items())


def format_numbers(pairs: Sequence[tuple[str, float]]) -> str:
    """Text that is read back to the same hosts and numbers."""
    return ",".join(f"{host}:{number!r}" for host, number in pairs) or NONE


def format_rates(pairs: Sequence[tuple[str, int]]) -> str:
    """Text that is read back to the same hosts and rates."""
    return ",".join(f"{host}:{format_rate(rate_bps)}" for host, rate_bps in pairs) or NONE


def check_hosts(key: str, pairs: Sequence[tuple[str, Any]], hosts: Sequence[str]) -> None:
    """Raises BadRequest for a host that the fabric does not have."""
    for host, _ in pairs:
        if host not in hosts:
            raise BadRequest(f"{key}: there is no host {host}; allowed: {hosts[0]} to {hosts[-1]}")
