"""An explanation made by hand, with something in each of its parts, whose names may be anything."""

from __future__ import annotations

import numpy as np

from analysis.capture.packets import Damage
from analysis.explain.model import (
    CERTAIN,
    LIKELY,
    MIDDLE,
    SENDER,
    UNSURE,
    Block,
    Explanation,
    Finding,
    FlowStall,
    FlowStory,
    Hop,
    PauseStory,
    Point,
    Repeats,
    Series,
)
from analysis.verdicts import Evidence, Verdict
from tests.unit.frames import T0_NS

MS = 1_000_000
END_NS = T0_NS + 400 * MS


def series(size: int) -> Series:
    bins = np.full(40, size, np.int64)
    none = np.zeros(40, np.int64)
    return Series(T0_NS, 10 * MS, bins, bins, bins // 2, np.full(40, 50_000.0), none, none, none)


def flow(name: str, point: str, position: str = SENDER, cause: str = "rto_tail_loss", reason: str = "why") -> FlowStory:
    """A flow that stands still from 100 to 300 ms and sends one packet again."""
    stall = FlowStall(name, T0_NS + 100 * MS, T0_NS + 300 * MS, cause, LIKELY, reason, 10, 11)
    one = np.array([1], np.int64)
    repeats = Repeats(one, one + T0_NS, one, one * 1449, np.array(["rto"], object), one * 0)
    return FlowStory(
        name=name,
        source="10.0.0.2:5000",
        destination="10.0.0.1:4000",
        transport="tcp",
        point=point,
        position=position,
        position_confidence=CERTAIN,
        both_ways=True,
        handshake=True,
        begin_ns=T0_NS,
        end_ns=END_NS,
        packets=100,
        wire_bytes=150_000,
        payload_bytes=144_800,
        delivered_bytes=144_800,
        rtt_min_ns=40_000,
        rtt_median_ns=50_000,
        rtt_p99_ns=None,
        kinds={"rto": 1},
        spurious=0,
        upstream_losses=2,
        gaps=0,
        duplicate_acks=3,
        zero_windows=0,
        zero_window_ns=0,
        ect=0,
        ce=4,
        ece=0,
        cwr=0,
        cnps=0,
        min_rto_ns=200 * MS,
        series=series(3620),
        blocks=(Block(0, T0_NS, T0_NS + 100 * MS, 0, 72_400), Block(1, T0_NS + 300 * MS, None, 72_400, 144_800)),
        stalls=(stall,),
        repeats=repeats,
        notes=(reason,),
    )


def explanation(name: str = "10.0.0.2:5000 > 10.0.0.1:4000", file: str = "h2-eth0.pcap") -> Explanation:
    """Two points, two flows, a hop between the points, pauses, and findings of each sureness; `name` and `file` stand
    wherever a name or a text from a capture can."""
    counts = {"packets": 120, "tcp": 110, "roce": 0, "udp": 4, "pause": 6, "other": 0, "wire_bytes": 160_000}
    damage = Damage(truncated=True, backwards=2)
    points = (
        Point(file, file, **counts, first_ns=T0_NS, last_ns=END_NS, damage=damage),
        Point("leaf1-eth1.pcap", "leaf1-eth1", **counts, first_ns=T0_NS, last_ns=END_NS, damage=Damage()),
    )
    times = T0_NS + np.arange(5, dtype=np.int64) * 10 * MS
    lost = (np.array([7], np.int64), np.array([T0_NS + 90 * MS], np.int64))
    hop = Hop(name, file, "leaf1-eth1", 5, 900, 1000, 1200, *lost, 0, True, times, np.full(5, 1000, np.int64))
    spans = ((T0_NS + 10 * MS, T0_NS + 20 * MS), (T0_NS + 30 * MS, T0_NS + 35 * MS))
    piece = Evidence("timeouts", None, None, 1, "timeouts", "at least 1", True, name)
    return Explanation(
        points=points,
        flows=(flow(name, file, reason=name), flow("another", "leaf1-eth1", MIDDLE, "straggler")),
        hops=(hop,),
        pauses=(PauseStory(name, "leaf1-eth1", 3, 4, 2, spans, 15 * MS, 10 * MS),),
        verdicts=(Verdict("incast", "incast collapse", (piece,), good=False),),
        findings=(Finding(f"{name} stood still", CERTAIN, name), Finding("second", LIKELY), Finding("third", UNSURE)),
        lost_share=0.5,
        onset_ns=T0_NS + 100 * MS,
        fill_s=1e-5,
        facts={name: {"fact": name}},
    )
