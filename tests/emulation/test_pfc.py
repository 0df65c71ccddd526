"""Pause as it happens: real frames on the wire, who falls silent when and for how long, and that nothing is lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scapy.contrib.mac_control import MACControl, MACControlClassBasedFlowControl, MACControlPause
from scapy.layers.l2 import Ether

from controller.pause import Event, headroom_bytes, pause_ns, reaction_ns
from lab.kernel import Kernel
from tests.conftest import run_in_lab
from tests.emulation.captures import Frame, read
from topologies.qdisc import LOSSLESS_DSCP

pytestmark = pytest.mark.lab

LOSSY_DSCP = 0
TOLERANCE_NS = 30  # readings of the clock and waking up
REACTION_NS = 1000
PROGRAM_NS = 50
SECOND_NS = 10**9
ETHERTYPE = b"\x88\x08"
GBPS = 10**9
LEAST_REACTIONS = 3
Played = Callable[..., "Told"]


@dataclass(frozen=True)
class Told:
    """What one fabric saw: see `play` of pfc_inside.py; captures are in `folder`."""

    facts: dict[str, Any]
    folder: Path

    def events(self, *ports: str) -> list[tuple[int, str, Event, int]]:
        """Time since the begin, port, event, value; of these ports, or of all."""
        names = self.facts["pause_ports"]
        rows = [
            (time_ns - self.facts["begin_ns"], names[number], Event(event), value)
            for time_ns, number, event, value in self.facts["rows"]
        ]
        return [row for row in rows if not ports or row[1] in ports]

    def times(self, port: str, event: Event) -> list[int]:
        return [time_ns for time_ns, _, happened, _ in self.events(port) if happened is event]

    def spans(self, port: str, begin: Event, ends: set[Event]) -> list[tuple[int, int]]:
        """From each `begin` at a port to the end behind it."""
        begins = self.times(port, begin)
        found = sorted(time_ns for end in ends for time_ns in self.times(port, end))
        assert len(begins) == len(found)
        return list(zip(begins, found))

    def frames(self, port: str) -> list[tuple[int, Frame]]:
        """Everything captured at a port, by the time since the begin."""
        return [(frame.time_ns - self.facts["begin_ns"], frame) for frame in read(self.folder / f"{port}.pcap")]

    def pauses(self, port: str) -> list[tuple[int, Ether]]:
        return [(time_ns, Ether(frame.kept)) for time_ns, frame in self.frames(port) if frame.kept[12:14] == ETHERTYPE]

    def data(self, port: str, source: str, dscp: int = LOSSLESS_DSCP) -> list[int]:
        """When the frames of one sender and class were seen at a port, since the begin."""
        return [
            time_ns
            for time_ns, frame in self.frames(port)
            if frame.is_ip and frame.source == source and frame.kept[15] >> 2 == dscp and time_ns >= 0
        ]

    @property
    def received(self) -> dict[tuple[str, int, int], int]:
        """(receiver, number of the sender, DSCP) -> datagrams."""
        return {(receiver, sender, dscp): count for receiver, sender, dscp, count in self.facts["received"]}

    def total(self, counter: str) -> int:
        return sum(port[counter] for port in self.facts["ports"].values())


@pytest.fixture
def play(kernel: Kernel, tmp_path: Path) -> Played:
    """Call `play` of pfc_inside.py in the lab."""

    def call(**arguments: Any) -> Told:
        return Told(inside(kernel, tmp_path, "play", folder=str(tmp_path), **arguments), tmp_path)

    return call


def inside(kernel: Kernel, results: Path, name: str, **arguments: Any) -> Any:
    words = (sys.executable, "-m", "tests.emulation.pfc_inside", name, json.dumps(arguments))
    return run_in_lab(kernel, words, results=results, memory_bytes=1 << 30).json


def keys(
    rate_bps: int = 10 * GBPS,
    delay_ns: int = 1000,
    switch_delay_ns: int = 400,
    mtu_bytes: int = 1500,
    hosts: int = 3,
    xoff_frames: int = 20,
    quanta: int = 65535,
    topology: str = "star",
) -> dict[str, Any]:
    """A fabric whose headroom follows the formula, XON two frames below XOFF."""
    frame_bytes = mtu_bytes + 14
    room = headroom_bytes(rate_bps, delay_ns, frame_bytes, reaction_ns(rate_bps, switch_delay_ns))
    return {
        "shape": {"topology": topology, "hosts": hosts},
        "link": {"rate_bps": rate_bps, "delay_ns": delay_ns, "mtu_bytes": mtu_bytes},
        "switch": {"delay_ns": switch_delay_ns, "buffer_bytes": 10**6},
        "lossless": {
            "xoff_bytes": xoff_frames * frame_bytes,
            "xon_bytes": (xoff_frames - 2) * frame_bytes,
            "headroom_bytes": room,
        },
        "policy": {"quanta": quanta},
    }


def burst(sender: str, count: int, receiver: str = "h1", **other: Any) -> dict[str, Any]:
    fields = {"sender": sender, "receiver": receiver, "dscp": LOSSLESS_DSCP, "at_ns": 0, "gap_ns": 0, "ip_bytes": 1500}
    return {**fields, "count": count, **other}


def control(control: Any, host: str, at_ns: int) -> dict[str, Any]:
    """A frame that a host sends, as scapy builds it."""
    frame = Ether(src="00:00:00:00:00:01", dst=MACControl.DEFAULT_DST_MAC) / control
    return {"host": host, "at_ns": at_ns, "frame": bytes(frame).hex()}


def pfc(priority: int, quanta: int) -> Any:
    frame = MACControlClassBasedFlowControl()
    frame.setfieldval(f"c{priority}_enabled", 1)
    frame.setfieldval(f"c{priority}_pause_time", quanta)
    return frame


# --- on the wire


def test_pauses_and_resumes_are_real_frames_that_cross_the_link(play: Played) -> None:
    told = play(**keys(), sends=[burst("h2", 150), burst("h3", 150)], capture=["leaf1-eth2", "h2-eth0"])
    sent = told.events("leaf1-eth2")
    assert {event for _, _, event, _ in sent} == {Event.XOFF_SENT, Event.XON_SENT}
    assert len(sent) >= 2 * LEAST_REACTIONS
    for port, after_ns in (("leaf1-eth2", 1400), ("h2-eth0", 1400)):
        seen = told.pauses(port)
        assert len(seen) == len(sent)
        for (sent_ns, _, event, _), (seen_ns, frame) in zip(sent, seen):
            body = frame[MACControlClassBasedFlowControl]
            assert (frame.src, frame.dst) == (told.facts["macs"]["leaf1-eth2"], "01:80:c2:00:00:01")
            assert body.c3_pause_time == (65535 if event is Event.XOFF_SENT else 0)
            assert [body.getfieldval(f"c{priority}_enabled") for priority in range(8)] == [0, 0, 0, 1, 0, 0, 0, 0]
            # Behind the delays of switch and link, and its own 48 ns.
            assert 0 <= seen_ns - sent_ns - after_ns <= 48 + TOLERANCE_NS
    assert told.received == {("h1", 2, 26): 150, ("h1", 3, 26): 150}
    assert told.total("drops") == told.total("headroom_drops") == 0
    assert set(told.facts["losses"].values()) == {0}


def crossings(told: Told, asked: dict[str, Any], sender: str = "10.0.0.2") -> list[tuple[int, bool]]:
    """When h2's count at the leaf crossed XOFF (True) and XON, by what was seen of its frames at its NIC and behind the
    hot port alone."""
    frame_bytes = asked["link"]["mtu_bytes"] + 14
    port_ns = asked["link"]["delay_ns"] + asked["switch"]["delay_ns"]
    steps = [(time_ns + port_ns, frame_bytes) for time_ns in told.data("h2-eth0", sender)]
    steps += [(time_ns, -frame_bytes) for time_ns in told.data("leaf1-eth1", sender)]
    count, paused, found = 0, False, []
    for time_ns, step in sorted(steps):
        count += step
        limit_bytes = asked["lossless"]["xon_bytes" if paused else "xoff_bytes"]
        if (count > limit_bytes) != paused:
            paused = not paused
            found.append((time_ns, paused))
    return found


@pytest.mark.parametrize(
    ("rate_bps", "delay_ns", "mtu_bytes"),
    [(10 * GBPS, 1000, 1500), (100 * GBPS, 500, 1500), (400 * GBPS, 5000, 4200), (GBPS, 500, 9000)],
)
@pytest.mark.parametrize("back", [False, True])
def test_a_neighbour_is_silent_in_time(play: Played, rate_bps: int, delay_ns: int, mtu_bytes: int, back: bool) -> None:
    """From the crossing of XOFF at most 1 us, the delay of the link and one frame; also against a full load the other
    way, in which the pause frame has to find its place. (Frames of two sizes seldom come and go at one instant.)"""
    sends = [burst("h2", 500, ip_bytes=mtu_bytes), burst("h3", 500, ip_bytes=mtu_bytes - 101, at_ns=17)]
    if back:
        sends.append(burst("h1", 1000, receiver="h2", dscp=LOSSY_DSCP, ip_bytes=mtu_bytes))
    asked = keys(rate_bps, delay_ns, 400, mtu_bytes)
    told = play(**asked, sends=sends, capture=["h2-eth0", "leaf1-eth1"], span_s=0.1)
    frame_ns = (mtu_bytes + 14) * 8 * GBPS // rate_bps
    data, crossed = told.data("h2-eth0", "10.0.0.2"), crossings(told, asked)
    held = told.spans("h2-eth0", Event.HELD, {Event.RELEASED})
    sent = [row for row in told.events("leaf1-eth2") if row[2] in (Event.XOFF_SENT, Event.XON_SENT)]
    assert [event is Event.XOFF_SENT for _, _, event, _ in sent] == [xoff for _, xoff in crossed]
    assert all(abs(row[0] - crossed_ns) <= TOLERANCE_NS for row, (crossed_ns, _) in zip(sent, crossed))
    xoffs = [time_ns for time_ns, xoff in crossed if xoff]
    assert len(xoffs) == len(held) >= LEAST_REACTIONS
    for xoff_ns, (held_ns, released_ns) in zip(xoffs, held):
        last_ns = max(time_ns for time_ns in data if time_ns < released_ns)
        assert last_ns <= xoff_ns + REACTION_NS + delay_ns + frame_ns
        assert xoff_ns + delay_ns <= held_ns <= xoff_ns + REACTION_NS + delay_ns + frame_ns
    assert told.total("headroom_drops") == 0


# --- one class alone


def test_a_lossy_flow_passes_while_the_lossless_class_is_held(play: Played) -> None:
    """h2 sends a lossy frame each 3 us beside its lossless burst, which alone would fill its link."""
    sends = [burst("h2", 200), burst("h3", 200), burst("h2", 150, dscp=LOSSY_DSCP, gap_ns=3000)]
    told = play(**keys(), sends=sends, capture=["h2-eth0"])
    held = told.spans("h2-eth0", Event.HELD, {Event.RELEASED})
    lossless, lossy = (told.data("h2-eth0", "10.0.0.2", dscp) for dscp in (LOSSLESS_DSCP, LOSSY_DSCP))
    inside_ns = [(begin_ns + TOLERANCE_NS, end_ns) for begin_ns, end_ns in held]
    held_ns = sum(end_ns - begin_ns for begin_ns, end_ns in inside_ns)
    passed = [time_ns for time_ns in lossy if any(begin_ns < time_ns < end_ns for begin_ns, end_ns in inside_ns)]
    assert len(held) >= LEAST_REACTIONS
    assert not [time_ns for time_ns in lossless if any(begin < time_ns < end for begin, end in inside_ns)]
    assert len(passed) >= held_ns // 3000 - len(held)
    assert told.received == {("h1", 2, 0): 150, ("h1", 2, 26): 200, ("h1", 3, 26): 200}


# --- frames of others


def silent(data: list[int]) -> tuple[int, int]:
    """The longest time without a frame."""
    return max(zip(data, data[1:]), key=lambda gap: gap[1] - gap[0])


@pytest.mark.parametrize("resumed", [False, True])
def test_a_forged_frame_pauses_until_its_quanta_are_over_or_it_is_taken_back(play: Played, resumed: bool) -> None:
    """h1 asks its leaf for silence of 1,000 quanta, 51.2 us at 10 Gb/s, while h2 sends to it each 2 us."""
    forged = [control(pfc(3, 1000), "h1", 100_000)]
    if resumed:
        forged.append(control(pfc(3, 0), "h1", 120_000))
    sends = [burst("h2", 150, gap_ns=2000, ip_bytes=500)]
    told = play(**keys(), sends=sends, forged=forged, capture=["leaf1-eth1"])
    events = told.events()
    assert [(port, event, value) for _, port, event, value in events] == [
        ("leaf1-eth1", Event.HELD, 1000),
        ("leaf1-eth1", Event.RELEASED if resumed else Event.EXPIRED, 0),
    ]
    held_ns, free_ns = (time_ns for time_ns, *_ in events)
    # The frame crosses the link, and takes effect when the last of what is under way would have arrived.
    assert 0 <= held_ns - 102_000 <= 48 + TOLERANCE_NS
    assert abs(free_ns - held_ns - (20_000 if resumed else pause_ns(1000, 10 * GBPS))) <= TOLERANCE_NS
    last_ns, first_ns = silent(told.data("leaf1-eth1", "10.0.0.2"))
    assert held_ns - 2500 <= last_ns <= held_ns + TOLERANCE_NS
    assert free_ns <= first_ns <= free_ns + 500
    assert told.received == {("h1", 2, 26): 150}


def test_frames_of_other_classes_and_the_older_pause_change_nothing(play: Played) -> None:
    frames = [pfc(priority, 65535) for priority in (0, 2, 4, 7)]
    forged = [control(frame, "h1", 100_000) for frame in (*frames, MACControlPause(pause_time=65535))]
    told = play(
        **keys(), sends=[burst("h2", 150, gap_ns=2000, ip_bytes=500)], forged=forged, capture=["leaf1-eth1", "h2-eth0"]
    )
    assert told.events() == []
    assert len(told.pauses("leaf1-eth1")) == len(forged)  # they came in
    assert told.pauses("h2-eth0") == []  # and were not passed on
    last_ns, first_ns = silent(told.data("leaf1-eth1", "10.0.0.2"))
    assert first_ns - last_ns <= 2000 + TOLERANCE_NS


# --- a stuck receiver


STUCK_NS = 3_000_000


def stuck(play: Played, **policy: Any) -> Told:
    """h1 asks for silence for 3 ms, refreshed each 15 us, while h2 sends to it each 20 us for 6 ms."""
    asked = keys(quanta=600)
    asked["policy"].update(stuck=[("h1", 0, STUCK_NS)], **policy)
    return play(**asked, sends=[burst("h2", 300, gap_ns=20_000)], capture=["leaf1-eth1"])


def test_a_stuck_receiver_holds_its_leaf_to_the_end(play: Played) -> None:
    told = stuck(play)
    ((held_ns, free_ns),) = told.spans("leaf1-eth1", Event.HELD, {Event.RELEASED})
    assert 0 <= held_ns - 2000 <= 200
    assert 0 <= free_ns - STUCK_NS - 2000 <= 200
    refreshed = told.times("h1-eth0", Event.REFRESH_SENT)
    assert len(refreshed) == STUCK_NS // (pause_ns(600, 10 * GBPS) // 2)
    assert told.received == {("h1", 2, 26): 300}
    assert told.total("discards") == 0
    assert abs(told.facts["ports"]["leaf1-eth1"]["held_ns"] - (free_ns - held_ns)) <= TOLERANCE_NS


def test_a_watchdog_frees_the_leaf_of_a_stuck_receiver(play: Played) -> None:
    limit_ns = 200_000
    told = stuck(play, watchdog_ns=limit_ns)
    ((bites_ns, lets_go_ns),) = told.spans("leaf1-eth1", Event.WATCHDOG_ON, {Event.WATCHDOG_OFF})
    ((held_ns, free_ns),) = told.spans("leaf1-eth1", Event.HELD, {Event.RELEASED})
    assert abs(bites_ns - held_ns - limit_ns) <= TOLERANCE_NS
    assert abs(free_ns - bites_ns) <= TOLERANCE_NS
    assert 0 <= lets_go_ns - (STUCK_NS + 2000 + limit_ns) <= 200
    discards = told.facts["ports"]["leaf1-eth1"]["discards"]
    assert abs(discards - lets_go_ns // 20_000) <= 2
    assert told.received == {("h1", 2, 26): 300 - discards}
    assert told.total("headroom_drops") == 0


# --- from hop to hop, and nothing lost


def test_a_pause_spreads_from_hop_to_hop(play: Played) -> None:
    """h2 and h3 on the left and h4 on the right send to h1 on the left: left1 pauses right1, whose queue then grows
    until it pauses h4."""
    asked = keys(topology="dumbbell", hosts=6)
    told = play(**asked, sends=[burst(f"h{number}", 200) for number in (2, 3, 4)])
    pausing = {port for _, port, event, _ in told.events() if event is Event.XOFF_SENT}
    held = {port for _, port, event, _ in told.events() if event is Event.HELD}
    assert pausing == {"left1-eth2", "left1-eth3", "left1-eth4", "right1-eth1"}
    assert held == {"h2-eth0", "h3-eth0", "right1-eth4", "h4-eth0"}
    assert told.times("left1-eth4", Event.XOFF_SENT)[0] < told.times("right1-eth1", Event.XOFF_SENT)[0]
    assert told.received == {("h1", number, 26): 200 for number in (2, 3, 4)}
    assert told.total("drops") == told.total("headroom_drops") == 0


def test_many_neighbours_are_silent_in_time_at_once(play: Played) -> None:
    """64 senders begin together; the program that pauses them does not wait for the one that sends."""
    asked = keys(100 * GBPS, 500, 400, 4200, hosts=65, xoff_frames=4)
    told = play(**asked, sends=[burst(f"h{number}", 40, ip_bytes=4200) for number in range(2, 66)], span_s=0.05)
    for number in range(2, 66):
        xoffs = told.times(f"leaf1-eth{number}", Event.XOFF_SENT)
        held = told.times(f"h{number}-eth0", Event.HELD)
        assert len(xoffs) == len(held) >= 1
        assert all(held_ns - xoff_ns <= REACTION_NS for xoff_ns, held_ns in zip(xoffs, held))
    assert told.received == {("h1", number, 26): 40 for number in range(2, 66)}
    assert told.total("drops") == told.total("headroom_drops") == 0


FABRICS = 30


def test_thirty_random_fabrics_lose_nothing(kernel: Kernel, tmp_path: Path) -> None:
    fabrics = inside(kernel, tmp_path, "many", seed=4, count=FABRICS)
    assert len(fabrics) == FABRICS
    for each in fabrics:
        lost = {name: port for name, port in each["ports"].items() if port["drops"] or port["headroom_drops"]}
        assert each["arrived"] == each["sent"], each["keys"]
        assert not lost, each["keys"]
    assert sum(any(port["xoffs"] for port in each["ports"].values()) for each in fabrics) >= FABRICS // 2


@pytest.mark.parametrize("rate_bps", [10 * GBPS, 100 * GBPS, 400 * GBPS])
@pytest.mark.parametrize("enough", [True, False])
def test_headroom_is_what_the_formula_says(play: Played, rate_bps: int, enough: bool) -> None:
    """Nothing leaves, as h1 has its leaf paused: what comes in after XOFF fills the headroom, but for three frames and
    what the program may take in the formula; with so much less of it, frames are lost."""
    asked = keys(rate_bps, delay_ns=3000)
    room = asked["lossless"]["headroom_bytes"]
    spare = 3 * 1514 + rate_bps * PROGRAM_NS // (8 * GBPS)
    asked["lossless"]["headroom_bytes"] -= 0 if enough else spare
    told = play(**asked, sends=[burst("h2", 400, at_ns=10_000)], forged=[control(pfc(3, 65535), "h1", 0)], span_s=0.05)
    used = told.facts["ports"]["leaf1-eth2"]["max_headroom_bytes"]
    lost = told.facts["ports"]["leaf1-eth2"]["headroom_drops"]
    assert told.received == {("h1", 2, 26): 400 - lost}
    assert (lost == 0) == enough
    if enough:
        assert room - spare <= used <= room


def test_a_link_may_go_down_while_it_is_paused(play: Played) -> None:
    """What the port held is lost with it; the others go on, and after it has come back it works as before."""
    sends = [
        burst("h2", 150),
        burst("h3", 150),
        burst("h2", 150, at_ns=4 * SECOND_NS),
        burst("h3", 150, at_ns=4 * SECOND_NS),
    ]
    cables = [(120_000, "leaf1-eth2", False), (SECOND_NS, "leaf1-eth2", True)]
    told = play(**keys(), sends=sends, cables=cables)
    first, second = (
        [t for t in told.times("leaf1-eth2", Event.XOFF_SENT) if (t > SECOND_NS) == late] for late in (False, True)
    )
    assert first
    assert second
    assert told.received["h1", 3, 26] == 300
    assert 150 <= told.received["h1", 2, 26] < 300
    assert told.total("headroom_drops") == 0


# --- ordered by the controller


@pytest.mark.parametrize("latency_ns", [0, 10_000, 1_000_000])
def test_a_controller_orders_the_frames_after_its_latency(play: Played, latency_ns: int) -> None:
    """h3 and h4 send from leaf2 over one spine to h1: the hot leaf's crossings are answered by Ryu."""
    asked = keys(topology="leaf_spine", hosts=4)
    asked["shape"].update(leaves=2, spines=1)
    asked["lossless"]["headroom_bytes"] = 10**6
    asked["policy"]["control_latency_ns"] = latency_ns
    sends = [burst(f"h{number}", 200) for number in (2, 3, 4)]
    told = play(**asked, sends=sends, capture=["h2-eth0", "leaf1-eth1"], span_s=0.05)
    ordered = [each for each in told.facts["controller"] if each["event"] == "paused"]
    ours = [each for each in told.events() if each[2] in (Event.XOFF_SENT, Event.XON_SENT)]
    assert [(each["switch"], each["port"]) for each in ordered] == [
        (port.partition("-")[0], int(port.rpartition("eth")[2])) for _, port, _, _ in ours
    ]
    seen = told.pauses("h2-eth0")
    times_ns = [time_ns for time_ns, port, *_ in ours if port == "leaf1-eth2"]
    assert len(seen) == len(times_ns) >= 2
    found = crossings(told, asked, "10.0.1.2")
    assert [xoff for _, xoff in found] == [
        event == Event.XOFF_SENT for _, port, event, _ in ours if port == "leaf1-eth2"
    ]
    for (crossing_ns, _), asked_ns, (seen_ns, _) in zip(found, times_ns, seen):
        assert 0 <= asked_ns - crossing_ns - latency_ns <= TOLERANCE_NS
        assert 0 <= seen_ns - asked_ns - 1400 <= 2000
    assert told.received == {("h1", number, 26): 200 for number in (2, 3, 4)}
