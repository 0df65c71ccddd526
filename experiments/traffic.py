"""Which hosts send to which and when, and which receivers get stuck (pure): the keys `traffic` and `stuck`.

Traffic is written as "h2>h1@0ms-20ms,h3>h1@5ms": sender, receiver, begin and end, counted from the workload's begin;
without an end a flow lasts as long as the workload. A pair that is named again has another flow. Stuck receivers are
written as "h1@2ms-12ms": a NIC that sends pause frames all the time, for ever without an end; "none" is nobody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

from topologies.units import BadRequest, format_duration, parse_duration_ns

NONE = "none"
ALLOWED_FLOWS = "SENDER>RECEIVER@BEGIN-END, the end may be left out; more after commas, such as h2>h1@0ms-20ms"
ALLOWED_STUCK = "HOST@BEGIN-END, the end may be left out; more after commas, such as h1@2ms-12ms; or none"
MOST_FLOWS = 1000
_TIMES = r"@([0-9][0-9.]*[a-z]+)(?:-([0-9][0-9.]*[a-z]+))?"
_FLOW = re.compile(r"(h[0-9]{1,9})>(h[0-9]{1,9})" + _TIMES)
_STUCK = re.compile(r"(h[0-9]{1,9})" + _TIMES)


@dataclass(frozen=True)
class Flow:
    """`sender` sends to `receiver` from `begin_ns` to `end_ns` after the workload's begin (None: to its end)."""

    sender: str
    receiver: str
    begin_ns: int
    end_ns: int | None = None

    def __str__(self) -> str:
        return f"{self.sender}>{self.receiver}@{_times(self.begin_ns, self.end_ns)}"


@dataclass(frozen=True)
class Stuck:
    """The NIC of `host` pauses its link from `begin_ns` to `end_ns` after the workload's begin (None: for ever)."""

    host: str
    begin_ns: int
    end_ns: int | None = None

    def __str__(self) -> str:
        return f"{self.host}@{_times(self.begin_ns, self.end_ns)}"


Span = Union[Flow, Stuck]
_Times = tuple[int, Optional[int]]


def _times(begin_ns: int, end_ns: int | None) -> str:
    return format_duration(begin_ns) + ("" if end_ns is None else f"-{format_duration(end_ns)}")


def parse_flows(text: Any, name: str = "traffic") -> tuple[Flow, ...]:
    """The flows in a text, in its order; raises BadRequest when it is no such text."""
    return tuple(
        Flow(sender, receiver, *times) for (sender, receiver), times in _parse(text, name, _FLOW, ALLOWED_FLOWS)
    )


def parse_stuck(text: Any, name: str = "stuck") -> tuple[Stuck, ...]:
    """The stuck receivers in a text, in its order; raises BadRequest when it is no such text."""
    found = [] if text == NONE else _parse(text, name, _STUCK, ALLOWED_STUCK)
    return tuple(Stuck(host, *times) for (host,), times in found)


def _parse(text: Any, name: str, pattern: re.Pattern[str], allowed: str) -> list[tuple[list[str], _Times]]:
    """The hosts and the times of each span."""
    matches = [pattern.fullmatch(word.strip()) for word in text.split(",")] if isinstance(text, str) else [None]
    try:
        found = [_hosts_and_times(match.groups(), name) for match in matches if match]
    except BadRequest:
        found = []
    if len(found) < len(matches):
        raise BadRequest(f"{name}: {text!r} is not understood; allowed: {allowed}")
    return found


def _hosts_and_times(words: Sequence[str | None], name: str) -> tuple[list[str], _Times]:
    *hosts, begin, end = words
    times = parse_duration_ns(begin, name), None if end is None else parse_duration_ns(end, name)
    return [str(host) for host in hosts], times


def format_spans(spans: Sequence[Span]) -> str:
    """Text that is read back to the same flows or stuck receivers."""
    return ",".join(map(str, spans)) or NONE


def checked_flows(flows: Sequence[Flow], hosts: Sequence[str], end_ns: int) -> tuple[Flow, ...]:
    """The flows, each with an end, of a workload that lasts until `end_ns`; raises BadRequest for what cannot be."""
    if len(flows) > MOST_FLOWS:
        raise BadRequest(f"traffic: {len(flows)} flows are given; allowed: up to {MOST_FLOWS}")
    for flow in flows:
        _check("traffic", flow, (flow.sender, flow.receiver), hosts, end_ns)
        if flow.sender == flow.receiver:
            raise BadRequest(f"traffic: {flow}: the sender is the receiver; allowed: two hosts")
        if flow.end_ns is not None and flow.end_ns > end_ns:
            raise BadRequest(f"traffic: {flow} is given; allowed: ends up to duration={format_duration(end_ns)}")
    return tuple(replace(flow, end_ns=end_ns if flow.end_ns is None else flow.end_ns) for flow in flows)


def check_stuck(stuck: Sequence[Stuck], hosts: Sequence[str], end_ns: int | None) -> None:
    """Raises BadRequest for a receiver that is not there, is named twice, or gets stuck at no time before `end_ns`
    (None: which is not known)."""
    for each in stuck:
        _check("stuck", each, (each.host,), hosts, end_ns)
        if sum(other.host == each.host for other in stuck) > 1:
            raise BadRequest(f"stuck: {each.host} is given more than once; allowed: once")


def _check(key: str, span: Span, named: Sequence[str], hosts: Sequence[str], end_ns: int | None) -> None:
    unknown = next((host for host in named if host not in hosts), None)
    if unknown is not None:
        raise BadRequest(f"{key}: {span}: there is no host {unknown}; allowed: {hosts[0]} to {hosts[-1]}")
    if span.end_ns is not None and span.end_ns <= span.begin_ns:
        raise BadRequest(f"{key}: {span} is an empty span; allowed: ends after begins")
    if end_ns is not None and span.begin_ns >= end_ns:
        raise BadRequest(f"{key}: {span} is given; allowed: begins before {format_duration(end_ns)}")
