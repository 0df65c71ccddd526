"""A sender, a port that drops, and a receiver, as captures at all three show them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from analysis.capture.packets import ACK, SYN
from tests.unit.frames import ISN, T0_NS, address, pcap_bytes

SOURCE, DESTINATION = "10.0.0.2:20000", "10.0.0.1:5000"
SEGMENT = 1000
WAY_NS = {"sender": 0, "port": 20_000, "receiver": 30_000}  # from the sender, one way


def segment(
    source: str,
    destination: str,
    seq: int,
    ack: int,
    payload: int = 0,
    flags: int = ACK,
    stamps: tuple[int, int] = (0, 0),
    ip_id: int = 0,
) -> bytes:
    """An Ethernet, IPv4, TCP frame with an identification and time stamps."""
    (src, sport), (dst, dport) = source.split(":"), destination.split(":")
    options = bytes([1, 1, 8, 10]) + struct.pack(">II", *stamps)
    tcp = (
        struct.pack(">HHIIBBHHH", int(sport), int(dport), seq % 2**32, ack % 2**32, 8 << 4, flags, 500, 0, 0) + options
    )
    total = 20 + len(tcp) + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, total, ip_id % 2**16, 0, 64, 6, 0, address(src), address(dst))
    return bytes(12) + b"\x08\x00" + ip + tcp + bytes(payload)


@dataclass
class FlowPath:
    """One flow's packets at the three points; ahead_ns: by how much each point's clock is ahead."""

    source: str = SOURCE
    destination: str = DESTINATION
    ahead_ns: dict[str, int] = field(default_factory=dict)
    records: dict[str, list[tuple[int, bytes]]] = field(default_factory=lambda: {name: [] for name in WAY_NS})
    sent: int = 0
    isn: int = ISN

    def _note(self, points: list[str], sent_ns: int, frame: bytes, back: bool = False) -> None:
        far_ns = max(WAY_NS.values())
        for name in points:
            way_ns = far_ns - WAY_NS[name] if back else WAY_NS[name]
            self.records[name].append((T0_NS + sent_ns + way_ns + self.ahead_ns.get(name, 0), frame))

    def connect(self, at_ns: int) -> FlowPath:
        """The handshake: a round trip of 60 us."""
        every, round_trip_ns = list(WAY_NS), 2 * max(WAY_NS.values())
        self._note(every, at_ns, segment(self.source, self.destination, self.isn - 1, 0, flags=SYN))
        answer = segment(self.destination, self.source, 0, self.isn, flags=SYN | ACK)
        self._note(every, at_ns + round_trip_ns // 2, answer, back=True)
        self._note(every, at_ns + round_trip_ns, segment(self.source, self.destination, self.isn, 1))
        return self

    def send(self, at_ns: int, start: int, lost: bool = False, payload: int = SEGMENT) -> FlowPath:
        """A data packet; a lost one comes to the port no more."""
        self.sent += 1
        frame = segment(self.source, self.destination, self.isn + start, 1, payload, ip_id=self.sent)
        self._note(["sender"] if lost else list(WAY_NS), at_ns, frame)
        return self

    def ack(self, sent_ns: int, place: int) -> FlowPath:
        """An acknowledgement that leaves the receiver at `sent_ns`."""
        self._note(list(WAY_NS), sent_ns, segment(self.destination, self.source, 1, self.isn + place), back=True)
        return self

    def write(self, folder: Path) -> dict[str, Path]:
        """A capture for each point, its packets in order of time."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = {name: folder / f"{name}.pcap" for name in WAY_NS}
        for name, path in paths.items():
            path.write_bytes(pcap_bytes(sorted(self.records[name], key=lambda record: record[0])))
        return paths


def lossy_path(**given: int) -> FlowPath:
    """Six segments of which the third is lost, and sent again 200 ms after the others were acknowledged."""
    path = FlowPath(ahead_ns=dict(given)).connect(0)
    for place in range(6):
        path.send(100_000 + 1000 * place, SEGMENT * place, lost=place == 2)
    for place in (1, 2, 2, 2, 2):
        path.ack(140_000 + 1000 * place, SEGMENT * place)
    path.send(200_000_000, 2 * SEGMENT)
    return path.ack(200_035_000, 6 * SEGMENT)
