"""Captures by hand of flows that stand still, for the tests of what explains it: addresses of links, identifications,
windows and SYNs beside what tests/unit/frames.py has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.capture.packets import ACK, SYN, Packets
from analysis.capture.reader import read_capture
from analysis.explain.causes import stalls_of
from analysis.explain.model import CERTAIN, SENDER, TCP_FLOW, Block, FlowStall, FlowStory, Repeats
from analysis.transport.flows import flows_of
from analysis.transport.recovery import Recovery
from analysis.transport.retransmits import retransmissions
from analysis.transport.sent import Flow
from analysis.transport.spans import Span
from analysis.transport.stalls import TAIL
from tests.unit.frames import ISN, T0_NS, Capture, tcp_frame

RTO_MIN_NS = 200_000_000
RTO_US = 201_000
NO_PROBES = Recovery(RTO_MIN_NS, tlp=False, rack=False)
LINUX = Recovery(RTO_MIN_NS)


class Line(Capture):
    """A flow as some point on its way sees it. Each packet of the sender has the next IPv4 identification; `lose` uses
    some up for packets that never came here."""

    identification = 100

    def send(self, at_us: float, start: int, payload: int = 1000) -> Line:
        super().send(at_us, start, payload)
        self.identification += 1
        self._amend(18, self.identification.to_bytes(2, "big"))
        return self

    def ack(self, at_us: float, place: int, sacks: int = 0, window: int = 500) -> Line:
        super().ack(at_us, place, sacks, window)
        return self

    def lose(self, count: int) -> Line:
        """So many packets of the sender were lost before this point."""
        self.identification += count
        return self

    def syn(self, at_us: float, answer: bool = False) -> Line:
        """A SYN of the sender, or the receiver's answer to it."""
        ends = (self.destination, self.source) if answer else (self.source, self.destination)
        numbers = (0, ISN) if answer else (ISN - 1, 0)
        frame = tcp_frame(*ends, *numbers, flags=SYN | ACK if answer else SYN)
        self.records.append((self.start_ns + round(at_us * 1000), frame))
        self.identification += not answer
        self._amend(18, (0 if answer else self.identification).to_bytes(2, "big"))  # Linux answers with 0
        return self

    def shut(self, at_us: float, place: int) -> Line:
        """An acknowledgement with a closed window."""
        self.ack(at_us, place, window=0)
        return self

    def _amend(self, at: int, value: bytes) -> None:
        time_ns, frame = self.records[-1]
        self.records[-1] = (time_ns, frame[:at] + value + frame[at + len(value) :])


def back_to_back(count: int = 6, line: Line | None = None) -> Line:
    """Segments of 1000 bytes 0.1 µs apart, all acknowledged one by one 20 µs after they were sent."""
    made = line or Line()
    for place in range(count):
        made.send(place / 10, 1000 * place)
    for place in range(count):
        made.ack(20 + place / 10, 1000 * (place + 1))
    return made


def seen(capture: Capture, folder: Path) -> tuple[Packets, Flow]:
    """What a capture holds, and its first flow."""
    packets = read_capture(capture.write(folder / "line.pcap"))
    return packets, flows_of(packets)[0]


def stalls(
    capture: Capture,
    folder: Path,
    position: str = SENDER,
    recovery: Recovery = NO_PROBES,
    held: Sequence[Span] = (),
    blocks: Sequence[Block] = (),
) -> list[FlowStall]:
    """The stalls of a capture's first flow."""
    packets, flow = seen(capture, folder)
    return list(stalls_of(flow, retransmissions(flow, recovery), blocks, packets, position, held, recovery))


def story(host: int, spans: Sequence[tuple[int, int | None]], *stalled: FlowStall, **more: Any) -> FlowStory:
    """A flow of 10.0.0.HOST to 10.0.0.1 with blocks of 1000 bytes at such times, in ms from T0_NS, as its sender's
    capture tells it."""
    name, number = f"h{host}", np.zeros(0, np.int64)
    ends = [end for _, end in spans if end is not None]
    blocks = tuple(
        Block(place, at_ms(start), None if end is None else at_ms(end), 1000 * place, 1000 * place + 1000)
        for place, (start, end) in enumerate(spans)
    )
    told: dict[str, Any] = {
        "name": name,
        "source": f"10.0.0.{host}:{20000 + host}",
        "destination": "10.0.0.1:5000",
        "transport": TCP_FLOW,
        "point": f"{name}-eth0",
        "position": SENDER,
        "position_confidence": CERTAIN,
        "both_ways": True,
        "handshake": True,
        "begin_ns": at_ms(spans[0][0]) if spans else T0_NS,
        "end_ns": at_ms(max([*ends, spans[-1][0]])) if spans else T0_NS,
        **dict.fromkeys(("rtt_min_ns", "rtt_median_ns", "rtt_p99_ns", "min_rto_ns", "series")),
        **dict.fromkeys(("spurious", "upstream_losses", "gaps", "duplicate_acks", "zero_windows", "zero_window_ns"), 0),
        **dict.fromkeys(("ect", "ce", "ece", "cwr", "cnps"), 0),
        **dict.fromkeys(("packets", "wire_bytes", "payload_bytes", "delivered_bytes"), 1000 * len(spans)),
        "kinds": {},
        "blocks": blocks,
        "stalls": stalled,
        "repeats": Repeats(number, number, number, number, number.astype("U16"), number),
    }
    return FlowStory(**{**told, **more})


def at_ms(value: float) -> int:
    """A time in ms from T0_NS, in ns."""
    return T0_NS + round(value * 1e6)


def stall(host: int, start_ms: float, end_ms: float, cause: str = TAIL, confidence: str = CERTAIN) -> FlowStall:
    """A stall of the flow of 10.0.0.HOST."""
    return FlowStall(f"h{host}", at_ms(start_ms), at_ms(end_ms), cause, confidence, "nothing came", 1, 2)
