"""What is found in captures: the values that every part of the explanation gives or takes. All are frozen.

Times are on the captures' clock in ns since the epoch; positions count payload bytes from a flow's first one.
A finding carries how sure it is: what a capture cannot tell is never told as certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analysis.capture.packets import Damage
from analysis.transport.spans import Span
from analysis.verdicts import Verdict

SENDER, RECEIVER, MIDDLE, UNKNOWN = "sender", "receiver", "middle", "unknown"  # where a capture was taken, for a flow
CERTAIN, LIKELY, UNSURE = "certain", "likely", "unsure"
SURENESS = (UNSURE, LIKELY, CERTAIN)  # in order: each is surer than the one before
TCP_FLOW, ROCE_FLOW = "tcp", "roce"


def least_sure(*told: str) -> str:
    """Of several degrees of SURENESS the least: what rests on all of them is no surer."""
    return min(told, key=SURENESS.index)


@dataclass(frozen=True)
class Point:
    """One capture: its file, its name (the file's without folder and ending), what it holds, and what is wrong with it.

    packets in all; tcp, roce, udp, pause, other: how many of each; first_ns, last_ns: the earliest and the latest time
    stamp (0 without packets).
    """

    file: str
    name: str
    packets: int
    tcp: int
    roce: int
    udp: int
    pause: int
    other: int
    wire_bytes: int
    first_ns: int
    last_ns: int
    damage: Damage


@dataclass(frozen=True, eq=False)
class Series:
    """A flow over time, in equal bins (n,) of bin_ns from begin_ns on.

    sent_bytes: payload that passed, everything that was sent again included; delivered_bytes: by how much the
    cumulative acknowledgement grew (where acknowledgements were captured); in_flight_bytes: the most that was
    outstanding in the bin; rtt_ns: the median of its samples, NaN without any; resent, marked (CE), ece: packets.
    """

    begin_ns: int
    bin_ns: int
    sent_bytes: np.ndarray
    delivered_bytes: np.ndarray
    in_flight_bytes: np.ndarray
    rtt_ns: np.ndarray
    resent: np.ndarray
    marked: np.ndarray
    ece: np.ndarray


@dataclass(frozen=True)
class Block:
    """What a flow sent without being idle in between: a request's answer, a chunk of a collective.

    begin_ns: its first packet; asked_ns: the packet of the other direction that asked for it, None without one;
    end_ns: when all of it was acknowledged (at a sender, or where the point's place is not known), or had passed
    (elsewhere), None when the capture ends before.
    """

    number: int
    begin_ns: int
    end_ns: int | None
    start: int
    end: int
    asked_ns: int | None = None

    @property
    def seconds(self) -> float | None:
        """The completion time: from the request, or the first packet, to the end."""
        first_ns = self.begin_ns if self.asked_ns is None else self.asked_ns
        return None if self.end_ns is None else (self.end_ns - first_ns) / 1e9


@dataclass(frozen=True)
class FlowStall:
    """A silence of a flow that had work to do: its span, its cause (one of stalls.CAUSES or explain.causes.CAUSES), how
    sure that is, and the reasoning in one sentence with its numbers. first, last: the numbers of the packets around it.
    """

    flow: str
    start_ns: int
    end_ns: int
    cause: str
    confidence: str
    reason: str
    first: int = 0
    last: int = 0

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, eq=False)
class Repeats:
    """The packets of a flow that were sent again (n,), in order of time: their numbers in the capture, times, byte
    positions [start, end), kinds (events.KINDS, roce's), and whether each was needless: 1 proven (a DSACK, or an
    acknowledgement of the first sending's time stamp), 0 proven not or nothing tells so, by the sender's rules."""

    number: np.ndarray
    time_ns: np.ndarray
    start: np.ndarray
    end: np.ndarray
    kind: np.ndarray
    spurious: np.ndarray

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True, eq=False)
class FlowStory:
    """One direction of a conversation, as one capture point saw it.

    name "10.0.0.2:5000 > 10.0.0.1:4000", or the run's own name of it; point: the capture's name; position: where on the
    flow's path it was taken, and position_confidence how sure; both_ways: whether acknowledgements were captured;
    handshake: whether the SYN was. packets and bytes are those of the data's direction; delivered_bytes: acknowledged,
    or, without acknowledgements, new bytes that passed. rtt_*_ns: of the round trip seen from the point onward, None
    without samples. kinds: repeats by kind; spurious of them; upstream_losses: packets that fill a gap and were not
    overtaken, lost before they came to this point; gaps: bytes never seen. duplicate_acks, zero_windows
    (advertisements), zero_window_ns; ect, ce: packets of the data's direction; ece: acknowledgements; cwr; cnps.
    min_rto_ns: the shortest timeout seen, None without one. notes: what could not be told, in sentences.
    """

    name: str
    source: str
    destination: str
    transport: str
    point: str
    position: str
    position_confidence: str
    both_ways: bool
    handshake: bool
    begin_ns: int
    end_ns: int
    packets: int
    wire_bytes: int
    payload_bytes: int
    delivered_bytes: int
    rtt_min_ns: int | None
    rtt_median_ns: int | None
    rtt_p99_ns: int | None
    kinds: Mapping[str, int]
    spurious: int
    upstream_losses: int
    gaps: int
    duplicate_acks: int
    zero_windows: int
    zero_window_ns: int
    ect: int
    ce: int
    ece: int
    cwr: int
    cnps: int
    min_rto_ns: int | None
    series: Series | None
    blocks: tuple[Block, ...]
    stalls: tuple[FlowStall, ...]
    repeats: Repeats
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells the flow from all others, at every point: its name (endpoints may connect again) and its ends."""
        return self.name, self.source, self.destination

    @property
    def seconds(self) -> float:
        """From its first packet to its last, either way."""
        return (self.end_ns - self.begin_ns) / 1e9

    @property
    def goodput_bps(self) -> float | None:
        """Delivered payload bits over the flow's own time; None for one of no length."""
        return self.delivered_bytes * 8 / self.seconds if self.end_ns > self.begin_ns else None

    @property
    def resent(self) -> int:
        """Packets sent again, of every kind."""
        return len(self.repeats)


@dataclass(frozen=True, eq=False)
class Hop:
    """The same packets of a flow at two capture points: what got from one to the other, and how long it took.

    delay_*_ns one way; None without a packet at both. lost: packets that the second point should have seen and did not,
    with their numbers at the first and their times; unpaired: those at the second that the first did not see.
    same_clock: whether the delays may be read as they are (no negative ones, and both files of one machine's clock as
    far as the times tell).
    """

    flow: str
    first: str
    second: str
    paired: int
    delay_min_ns: int | None
    delay_median_ns: int | None
    delay_max_ns: int | None
    lost_number: np.ndarray
    lost_ns: np.ndarray
    unpaired: int
    same_clock: bool
    sent_ns: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    delay_ns: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True)
class PauseStory:
    """Pause frames of one source (a MAC address, or the port's name where a fabric tells it) as one point saw them.

    priority: the class, None for global PAUSE; spans: when it held its neighbour paused, by quanta at rate_bps (None:
    the rate is not known, and spans end at the resuming frame alone); pauses, resumes: frames; longest_ns, total_ns.
    """

    source: str
    point: str
    priority: int | None
    pauses: int
    resumes: int
    spans: tuple[Span, ...]
    total_ns: int
    longest_ns: int


@dataclass(frozen=True)
class PausedLink:
    """A link in the direction that was held: whose data waited, who paused it (nodes of a fabric, or MAC addresses; a
    capture's name where only that is known), how often and for how long, and how far it is from the congestion: 1 where
    `receiver` is its root, None in a circle."""

    sender: str
    receiver: str
    times: int
    held_ns: int
    depth: int | None


@dataclass(frozen=True)
class PauseTree:
    """Who paused whom, nearest to the congestion first; roots: who paused others and was not paused itself; circle: who
    waits for whom in a circle at one moment (a deadlock, if it lasts), empty without; because: what the names rest on.
    """

    links: tuple[PausedLink, ...] = ()
    roots: tuple[str, ...] = ()
    circle: tuple[str, ...] = ()
    because: str = ""


@dataclass(frozen=True)
class Finding:
    """One sentence of the explanation, how sure it is, and what it rests on (a second sentence)."""

    text: str
    confidence: str
    because: str = ""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Everything found in a set of captures: the answer of `explain`.

    verdicts: incast first, each with its pieces of evidence; findings: what to read first, the most important ones
    before. lost_share: of the time that flows were active, the share in which they stood still, None without flows;
    onset_ns: when collapse began, None without one; fill_s: how long the first burst took to fill the hot queue.
    facts: what else was worked out (JSON-ready), by name; pause_tree: who paused whom.
    """

    points: tuple[Point, ...]
    flows: tuple[FlowStory, ...]
    hops: tuple[Hop, ...]
    pauses: tuple[PauseStory, ...]
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]
    lost_share: float | None
    onset_ns: int | None
    fill_s: float | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    pause_tree: PauseTree = PauseTree()

    @property
    def once(self) -> list[FlowStory]:
        """Each flow once, as the point that tells most of it saw it: what is counted over all flows is counted here."""
        return each_once(self.flows)

    @property
    def stalls(self) -> list[FlowStall]:
        """The stalls of all flows, each flow once, in order of time."""
        return sorted(
            (stall for flow in self.once for stall in flow.stalls), key=lambda stall: (stall.start_ns, stall.flow)
        )


_NEAREST_FIRST = (SENDER, MIDDLE, RECEIVER, UNKNOWN)


def each_once(flows: Iterable[FlowStory]) -> list[FlowStory]:
    """Each flow once, where several points saw it: as the one nearest to its sender did, of equally near ones the one
    with more packets."""
    best: dict[tuple[str, str, str], FlowStory] = {}
    for flow in flows:
        ends = flow.key
        if ends not in best or _rank(flow) < _rank(best[ends]):
            best[ends] = flow
    return list(best.values())


def _rank(flow: FlowStory) -> tuple[int, int]:
    return _NEAREST_FIRST.index(flow.position), -flow.packets
