"""What failures did to steady streams: which datagrams each of them cost, and when it was noticed and repaired.

Datagrams of a flow lost one after the other are one outage. It belongs to the latest event before its first datagram
would have arrived, which may have been anywhere on its way then: where a link fails again before a flow has recovered,
that flow's outage stays the first failure's. What fails is only seen at the next datagrams, so that times are exact to
the interval between two of them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from analysis.cost_model import store_and_forward_ns
from analysis.fabric import interfaces
from analysis.kinds.probes import LONE_FRAME_BYTES
from analysis.kinds.ways import Way, ways_to_all
from analysis.run import Run

CONTROLLER = "controller"  # as a target: no port event follows
_STREAM_KEYS = ("flow", "first_ns", "interval_ns", "sent", "lost", "duplicates", "reordered", "longest_gap_ns")
_FAILURE_KEYS = ("time_ns", "target", "action", "in_flight")
_HEARD_AS = {"down": ("port_down", "lost_switch"), "up": ("port_up",)}


@dataclass(frozen=True)
class Loss:
    """A lost datagram: its flow, and when it was sent."""

    flow: str
    sent_ns: int


@dataclass(frozen=True)
class Failure:
    """An event, what was in flight on the links that died, the datagrams it cost, and the controller's part.

    losses are those that had another way; cut_off counts those of flows that had none left, which nothing can save;
    last_loss_ns: from the event to when its last lost datagram would have arrived, 0 without any; open_flows: flows
    that lost their last datagram to it, so that nothing shows them to have recovered; noticed_ns: from the event to
    when the last switch with a dead port had noticed, by the port's event at the controller (None: no word of it);
    unnoticed: datagrams that reached a dead port before that, of flows that lost any; heard_ns, repaired_ns: from the
    event to the first port event at the controller, and until all switches had confirmed the new rules (None: no such
    event); dead_ns: how long before the event the controller had been killed as scheduled, negative when after it
    (None: it was not).
    """

    time_ns: int
    target: str
    action: str
    in_flight: int
    losses: tuple[Loss, ...]
    cut_off: int
    last_loss_ns: int
    open_flows: int
    noticed_ns: int | None
    unnoticed: int
    heard_ns: int | None
    repaired_ns: int | None
    dead_ns: int | None

    @property
    def lost(self) -> int:
        """How many datagrams it cost."""
        return len(self.losses) + self.cut_off

    @property
    def allowed(self) -> int:
        """The most that switches with detours of their own may lose."""
        return self.in_flight + self.unnoticed + self.cut_off

    @property
    def repair_ns(self) -> int | None:
        """From the first port event at the controller until all switches had confirmed the new rules."""
        return None if self.heard_ns is None or self.repaired_ns is None else self.repaired_ns - self.heard_ns

    @property
    def name(self) -> str:
        """The event in words: "leaf1-spine1 down"."""
        return f"{self.target} {self.action}"


def path_ns(run: Run) -> int:
    """The longest way through the idle fabric, one way: how long after it was sent a datagram can be on its way."""
    spec = run.parameters
    links, rates = spec.path.uplinks + 2, (spec.path.rate_bps, spec.uplink_bps)
    return math.ceil(store_and_forward_ns(LONE_FRAME_BYTES, links, *rates, spec.link_delay_ns, spec.switch_delay_ns))


def begin_ns(run: Run) -> int:
    """When the streams began; events are told from here on."""
    return min((int(each["first_ns"]) for each in streams(run)), default=0)


def streams(run: Run) -> list[dict[str, Any]]:
    """The streams of measured.json."""
    return run.entries("streams", _STREAM_KEYS)


def losses(run: Run) -> list[Loss]:
    """Every lost datagram in order of time."""
    found = [
        Loss(each["flow"], each["first_ns"] + number * each["interval_ns"])
        for each in streams(run)
        for number in each["lost"]
    ]
    return sorted(found, key=lambda loss: loss.sent_ns)


def unattributed(run: Run) -> int:
    """Datagrams lost before anything had failed."""
    return len(losses(run)) - sum(each.lost for each in failures(run))


@lru_cache(maxsize=32)  # a report asks many times
def failures(run: Run) -> tuple[Failure, ...]:
    """The events in order of time, each with what it cost."""
    entries = sorted(_entries(run, "failures", _FAILURE_KEYS), key=lambda entry: entry["time_ns"])
    times_ns = [entry["time_ns"] for entry in entries]
    lost: list[list[Loss]] = [[] for _ in entries]
    for outage in _outages(run):
        place = bisect_right(times_ns, outage[0].sent_ns + path_ns(run)) - 1
        if place >= 0:
            lost[place].extend(outage)
    ways_left = [_components(run, gone) for gone in _gone(entries)]
    told = []
    for entry, found in zip(entries, lost):
        with_way = [loss for loss in found if _has_way(loss, times_ns, ways_left, path_ns(run))]
        told.append(_failure(run, entry, with_way, len(found) - len(with_way)))
    return tuple(told)


def _gone(entries: Sequence[Mapping[str, Any]]) -> list[frozenset[str]]:
    """After each event, the interfaces that are down."""
    found, down = [], {}
    for entry in entries:
        if entry["action"] == "down":
            down[entry["target"]] = frozenset(entry["in_flight"])
        else:
            down.pop(entry["target"], None)
        found.append(frozenset().union(*down.values()))
    return found


def _components(run: Run, gone: frozenset[str]) -> dict[str, str]:
    """Node -> a name for the part of the fabric that it can reach while these interfaces are down; empty without a
    fabric.json."""
    parts: dict[str, str] = {}
    if run.fabric is None:
        return parts
    peers: dict[str, list[str]] = {}
    for wire in run.fabric["wires"]:
        if not gone.intersection(interfaces(wire)):
            peers.setdefault(wire["a"], []).append(wire["b"])
            peers.setdefault(wire["b"], []).append(wire["a"])
    for node in peers:
        waiting = [node] if node not in parts else []
        while waiting:
            here = waiting.pop()
            if here not in parts:
                parts[here] = node
                waiting += peers[here]
    return parts


def _has_way(loss: Loss, times_ns: Sequence[int], ways_left: Sequence[Mapping[str, str]], late_ns: int) -> bool:
    """Whether the ends of the datagram's flow could reach each other when it was under way."""
    place = bisect_right(times_ns, loss.sent_ns + late_ns) - 1
    parts = ways_left[place] if place >= 0 else {}
    sender, _, receiver = loss.flow.partition(">")
    return not parts or (sender in parts and parts.get(sender) == parts.get(receiver))


def died_ns(run: Run) -> int | None:
    """When the controller was killed as scheduled; None when it was not."""
    times = [entry["time_ns"] for entry in _entries(run, "failures", _FAILURE_KEYS) if entry["target"] == CONTROLLER]
    return min(times, default=None)


def _outages(run: Run) -> list[list[Loss]]:
    """The datagrams that each flow lost one after the other."""
    found: list[list[Loss]] = []
    for each in streams(run):
        before = None
        for number in sorted(each["lost"]):
            if before is None or number > before + 1:
                found.append([])
            found[-1].append(Loss(each["flow"], each["first_ns"] + number * each["interval_ns"]))
            before = number
    return found


def _entries(run: Run, key: str, needed: Sequence[str]) -> list[dict[str, Any]]:
    """A list of measured.json that runs without a failure, or without a controller, do not have."""
    return run.entries(key, needed) if key in run.measured else []


def _failure(run: Run, entry: dict[str, Any], found: Sequence[Loss], cut_off: int) -> Failure:
    time_ns, killed_ns = entry["time_ns"], died_ns(run)
    heard_ns, repaired_ns = _control(run, time_ns, entry["action"]) if entry["target"] != CONTROLLER else (None, None)
    last_ns = {each["flow"]: each["first_ns"] + (each["sent"] - 1) * each["interval_ns"] for each in streams(run)}
    noticed_ns = _noticed_ns(run, entry)
    return Failure(
        time_ns=time_ns,
        target=entry["target"],
        action=entry["action"],
        in_flight=sum(entry["in_flight"].values()),
        losses=tuple(found),
        cut_off=cut_off,
        last_loss_ns=max((loss.sent_ns + path_ns(run) - time_ns for loss in found), default=0),
        open_flows=sum(loss.sent_ns == last_ns[loss.flow] for loss in found),
        noticed_ns=max(noticed_ns.values(), default=None),
        unnoticed=_unnoticed(run, time_ns, noticed_ns, {loss.flow for loss in found}),
        heard_ns=None if heard_ns is None else heard_ns - time_ns,
        repaired_ns=None if repaired_ns is None else repaired_ns - time_ns,
        dead_ns=None if killed_ns is None else time_ns - killed_ns,
    )


def _control_events(run: Run) -> list[dict[str, Any]]:
    """What the controller told, in order of time; not what ends with it when it is killed."""
    killed_ns = died_ns(run)
    events = sorted(_entries(run, "control_events", ("time_ns", "event")), key=lambda event: event["time_ns"])
    return [event for event in events if killed_ns is None or event["time_ns"] < killed_ns]


def _control(run: Run, time_ns: int, action: str) -> tuple[int | None, int | None]:
    """When the controller first heard of an event, and when its repair was confirmed: the first one after the last news
    of the event, for the controller calls the fabric repaired only when nothing that it has heard is left to be done.

    What comes after the next event is no news of this one.
    """
    events = _control_events(run)
    later = (entry["time_ns"] for entry in _entries(run, "failures", _FAILURE_KEYS) if entry["time_ns"] > time_ns)
    until_ns = min(later, default=math.inf)
    heard = [
        event["time_ns"]
        for event in events
        if event["event"] in _HEARD_AS.get(action, ()) and time_ns <= event["time_ns"] < until_ns
    ]
    if not heard:
        return None, None
    repairs = (event["time_ns"] for event in events if event["event"] == "repaired" and event["time_ns"] >= heard[-1])
    return heard[0], next(repairs, None)


def _noticed_ns(run: Run, entry: Mapping[str, Any]) -> dict[str, int]:
    """For each port that died, from the event to its port event at the controller; without those that have none."""
    found: dict[str, int] = {}
    for event in _control_events(run):
        name = f"{event.get('switch')}-eth{event.get('port')}"
        if event["event"] == "port_down" and name in entry["in_flight"] and event["time_ns"] >= entry["time_ns"]:
            found.setdefault(name, event["time_ns"] - entry["time_ns"])
    return found


def _unnoticed(run: Run, time_ns: int, noticed_ns: Mapping[str, int], flows: Iterable[str]) -> int:
    """Datagrams of these flows that reached a dead port on their way after it had died and before its switch had
    noticed, by the way through the idle fabric."""
    if run.fabric is None or not noticed_ns:
        return 0
    ways, peers = ways_to_all(run.fabric), _peers(run.fabric)
    count = 0
    for each in streams(run):
        sender, _, receiver = each["flow"].partition(">")
        for name, after_ns in noticed_ns.items() if each["flow"] in flows else ():
            there = ways[sender][peers[name][0]]
            if there.links + 1 + ways[receiver][peers[name][1]].links == ways[sender][receiver].links:
                # whole nanoseconds first: a float of the time of day is 256 ns coarse
                since_ns = time_ns - each["first_ns"] - _reached_ns(run, there)
                count += _between(since_ns, since_ns + after_ns, each["interval_ns"], each["sent"])
    return count


def _peers(document: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The switch of every interface, and what is behind it."""
    found = {}
    for wire in document["wires"]:
        one, other = interfaces(wire)
        found[one], found[other] = (wire["a"], wire["b"]), (wire["b"], wire["a"])
    return found


def _reached_ns(run: Run, way: Way) -> float:
    """How long after it was sent a datagram reaches a port of the switch at the way's end."""
    return way.delay_ns(LONE_FRAME_BYTES, run.parameters.switch_delay_ns)


def _between(low_ns: float, high_ns: float, interval_ns: int, sent: int) -> int:
    """How many of `sent` datagrams, one each interval from 0 on, come at low_ns or later, until high_ns."""
    first, last = max(math.ceil(low_ns / interval_ns), 0), min(math.floor(high_ns / interval_ns), sent - 1)
    return max(last - first + 1, 0)


def delivered_share(run: Run, bin_ns: int) -> tuple[list[float], list[float]]:
    """Of the datagrams sent in each span of `bin_ns`, the share that arrived: the spans' beginnings in ms since the
    streams began, and the shares."""
    sent: dict[int, int] = {}
    lost: dict[int, int] = {}
    for each in streams(run):
        offset_ns = each["first_ns"] - begin_ns(run)
        for number in range(each["sent"]):
            place = (offset_ns + number * each["interval_ns"]) // bin_ns
            sent[place] = sent.get(place, 0) + 1
    for loss in losses(run):
        place = (loss.sent_ns - begin_ns(run)) // bin_ns
        lost[place] = lost.get(place, 0) + 1
    places = sorted(sent)
    return [place * bin_ns / 1e6 for place in places], [1 - lost.get(place, 0) / sent[place] for place in places]
