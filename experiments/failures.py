"""Failure schedules (pure): which link or switch goes down or comes back, and when.

A schedule is written as "leaf1-spine1:down@10ms,leaf1-spine1:up@30ms": a link by its two switches, in either order,
or a switch by its name; times count from the workload's begin. "controller:down@10ms" kills the controller, which does
not come back. "none" is the schedule in which nothing happens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from topologies.describe import FabricDescription, Wire
from topologies.units import BadRequest, format_duration, parse_duration_ns

NONE = "none"
UP = "up"
CONTROLLER = "controller"
ALLOWED = (
    "SWITCH, SWITCH-SWITCH or controller, :down@ or :up@, a time; more after commas, such as leaf1-spine1:down@10ms;"
    " or none"
)
_EVENT = re.compile(r"([a-z]+[0-9]+(?:-[a-z]+[0-9]+)?|controller):(down|up)@(\S+)")
_NUMBERED = re.compile(r"([a-z]+)([0-9]+)")
_MOST_NAMED = 8


@dataclass(frozen=True)
class Failure:
    """One event: `time_ns` after the workload's begin the link or switch `target` goes "down" or comes "up"."""

    time_ns: int
    target: str
    action: str

    def __str__(self) -> str:
        return f"{self.target}:{self.action}@{format_duration(self.time_ns)}"


def parse_failures(text: Any, name: str = "failure") -> tuple[Failure, ...]:
    """The events of a schedule in order of time; raises BadRequest when it is none, or is not in that order."""
    if text == NONE:
        return ()
    matches = [_EVENT.fullmatch(word.strip()) for word in text.split(",")] if isinstance(text, str) else [None]
    try:
        failures = [Failure(parse_duration_ns(match[3], name), match[1], match[2]) for match in matches if match]
    except BadRequest:
        failures = []
    if len(failures) < len(matches):
        raise BadRequest(f"{name}: {text!r} is not understood; allowed: {ALLOWED}")
    if failures != sorted(failures, key=lambda failure: failure.time_ns):
        raise BadRequest(f"{name}: {text!r} is not in order of time; allowed: earlier events first")
    return tuple(failures)


def format_failures(failures: Sequence[Failure]) -> str:
    """Text that parse_failures reads back to the same events."""
    return ",".join(str(failure) for failure in failures) or NONE


def affected_wires(failure: Failure, description: FabricDescription) -> tuple[Wire, ...]:
    """The links that the event takes down or brings back: a switch's are all of its own, those to hosts too, the
    controller's are none. Raises BadRequest when the fabric has no such switch or no link between the two."""
    if failure.target == CONTROLLER:
        return ()
    ends = failure.target.split("-")
    known = [switch.name for switch in description.switches]
    for end in ends:
        if end not in known:
            raise BadRequest(f"failure: {failure}: there is no switch {end}; allowed: {_ranges(known)}")
    found = tuple(wire for wire in description.wires if all(end in (wire.a, wire.b) for end in ends))
    if len(ends) == 2 and (ends[0] == ends[1] or not found):
        raise BadRequest(
            f"failure: {failure}: there is no such link; allowed: {_links_of(ends[0], known, description)}"
        )
    return found


def check_failures(failures: Iterable[Failure], description: FabricDescription, end_ns: int) -> None:
    """Raises BadRequest for an event at or after `end_ns`, of what the fabric does not have, or that changes nothing.

    A link that is down, by itself or with its switch, cannot go down again, so that each event changes all of its
    links and no event undoes part of another.
    """
    down: list[tuple[Wire, ...]] = []
    killed = False
    for failure in failures:
        if failure.time_ns >= end_ns:
            raise BadRequest(f"failure: {failure} is given; allowed: times before {format_duration(end_ns)}")
        if failure.target == CONTROLLER:
            if killed or failure.action == UP:
                raise BadRequest(f"failure: {failure} is given; allowed: controller:down, once")
            killed = True
            continue
        wires = affected_wires(failure, description)
        if failure.action == UP:
            if wires not in down:
                raise BadRequest(f"failure: {failure}: it has not gone down before; allowed: up after down")
            down.remove(wires)
        else:
            dead = next((wire for lost in down for wire in lost if wire in wires), None)
            if dead is not None:
                raise BadRequest(
                    f"failure: {failure}: {dead.a}-{dead.b} is down already; allowed: down of what is wholly up"
                )
            down.append(wires)


def _links_of(switch: str, switches: Sequence[str], description: FabricDescription) -> str:
    """A switch's links to other switches, the first few by name."""
    names = [f"{wire.a}-{wire.b}" for wire in description.wires if switch in (wire.a, wire.b) and wire.a in switches]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (", ".join(names[:_MOST_NAMED]) or f"a link between two switches; {switch} has none") + more


def _ranges(names: Sequence[str]) -> str:
    """Numbered names in short: "leaf1 to leaf4, spine1"."""
    split = sorted((match[1], int(match[2])) for match in map(_NUMBERED.fullmatch, names) if match)
    words = []
    for stem, group in groupby(split, key=lambda each: each[0]):
        numbers = [number for _, number in group]
        words.append(f"{stem}{numbers[0]}" + (f" to {stem}{numbers[-1]}" if len(numbers) > 1 else ""))
    return ", ".join(words)
