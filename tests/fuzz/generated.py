"""Captures that hypothesis makes: packets of a few end points whose fields it chooses, in files of every form."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from hypothesis import strategies as st

from tests.fuzz import containers
from tests.fuzz.containers import Frame

_FIRST_NS = 1_700_000_000 * 10**9
_HOSTS = (1, 2, 3)
_FLAGS = (0x02, 0x12, 0x10, 0x18, 0x11, 0x14, 0x50, 0x90, 0xD2)  # SYN, SYN+ACK, ACK, PSH, FIN, RST; with ECE, CWR

_near = st.integers(0, 20_000)
_edges_32 = st.sampled_from((0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1500, (1 << 32) - 1))
_words = st.one_of(_near, _near, _edges_32, st.integers(0, (1 << 32) - 1))
_lengths = st.sampled_from((0, 0, 1, 100, 536, 1448, 1448, 65_000))
_gaps_ns = st.sampled_from((0, 1, 1000, 50_000, 10**6, 40_000_000, 200_000_000, 400_000_000, 10**12))


@st.composite
def _options(draw: st.DrawFn) -> bytes:
    """Options of TCP, well-formed or not, padded to words."""
    kinds = {
        "timestamps": lambda: b"\x01\x01\x08\x0a" + struct.pack("!II", draw(_words), draw(_words)),
        "sack": lambda: _sack(draw),
        "syn": lambda: b"\x02\x04\x05\xb4\x04\x02\x01\x03\x03" + bytes([draw(st.integers(0, 255))]),
        "noise": lambda: draw(st.binary(max_size=12)),
    }
    names = draw(st.lists(st.sampled_from(tuple(kinds)), max_size=3))
    data = b"".join(kinds[name]() for name in names)[:40]
    return data + bytes(-len(data) % 4)


def _sack(draw: st.DrawFn) -> bytes:
    edges = draw(st.lists(_near, min_size=2, max_size=6))
    edges = edges[: len(edges) & ~1]
    return bytes([5, draw(st.sampled_from((2 + 4 * len(edges),) * 3 + (0, 255)))]) + struct.pack(
        f"!{len(edges)}I", *edges
    )


@st.composite
def _tcp(draw: st.DrawFn) -> tuple[int, bytes, int]:
    """(protocol, header, payload's length) of a TCP segment."""
    options = draw(_options())
    offset = draw(st.sampled_from((5 + len(options) // 4,) * 6 + (0, 4, 15)))
    ports = draw(st.sampled_from(((5000, 20_000), (20_000, 5000), (20_001, 5000), (0, 0))))
    flags, window = draw(st.sampled_from(_FLAGS)), draw(st.sampled_from((0, 1, 512, 65_535)))
    header = struct.pack("!HHIIBBHHH", *ports, draw(_words), draw(_words), offset << 4, flags, window, 0, 0)
    return 6, header + options, draw(_lengths)


@st.composite
def _roce(draw: st.DrawFn) -> tuple[int, bytes, int]:
    """The same of RoCEv2: UDP, BTH, AETH."""
    opcode = draw(st.sampled_from((0, 2, 4, 6, 8, 10, 0x11, 0x11, 0x81, 200)))
    psn = draw(st.one_of(st.integers(0, 50), st.integers((1 << 24) - 20, (1 << 24) - 1)))
    bth = struct.pack(
        "!BBHII", opcode, 0x40, 0xFFFF, draw(st.integers(17, 19)), psn | draw(st.sampled_from((0, 1 << 31)))
    )
    aeth = struct.pack("!I", draw(st.sampled_from((0x1F, 0x60, 0x20, 0x63))) << 24)
    payload = draw(st.sampled_from((0, 256, 1024, 4096)))
    length = draw(st.sampled_from((8 + 16 + payload + 4,) * 4 + (0, 7, 65_535)))
    return 17, struct.pack("!HHHH", 49_152, 4791, length, 0) + bth + aeth, payload


@st.composite
def _ip(draw: st.DrawFn) -> bytes:
    """An Ethernet frame's kind and what follows."""
    protocol, transport, payload = draw(st.one_of(_tcp(), _tcp(), _tcp(), _roce()))
    source, destination = draw(st.permutations(_HOSTS))[:2]
    tos, ttl = draw(st.integers(0, 255)), draw(st.integers(0, 255))
    if draw(st.integers(0, 4)) == 0:
        address = [b"\xfd" + bytes(14) + bytes([each]) for each in (source, destination)]
        head = struct.pack("!IHBB", 6 << 28 | tos << 20, (len(transport) + payload) & 0xFFFF, protocol, ttl)
        return b"\x86\xdd" + head + b"".join(address) + transport
    total = draw(st.sampled_from((20 + len(transport) + payload,) * 6 + (0, 10, 65_535))) & 0xFFFF
    fragment = draw(st.sampled_from((0x4000,) * 6 + (0x2000, 0x0005)))
    begin = draw(st.sampled_from((0x45,) * 8 + (0x46, 0x4F, 0x00, 0x65)))
    head = struct.pack("!BBHHHBBH", begin, tos, total, draw(st.integers(0, 9)), fragment, ttl, protocol, 0)
    return b"\x08\x00" + head + bytes([10, 0, 0, source, 10, 0, 0, destination]) + transport


@st.composite
def _pause(draw: st.DrawFn) -> bytes:
    opcode, classes = draw(st.sampled_from((1, 0x0101, 0x0102))), draw(st.integers(0, 65_535))
    quanta = draw(st.lists(st.sampled_from((0, 1, 600, 65_535)), min_size=8, max_size=8))
    return b"\x88\x08" + struct.pack("!HH8H", opcode, classes, *quanta)


@st.composite
def _frame(draw: st.DrawFn) -> tuple[int, bytes, int]:
    """(gap to the one before in ns, bytes, what is missing of it)."""
    body = draw(st.one_of(_ip(), _ip(), _ip(), _ip(), _pause(), st.binary(max_size=60)))
    tags = b"".join(draw(st.lists(st.just(b"\x81\x00\x00\x64"), max_size=draw(st.sampled_from((0, 0, 1, 3))))))
    data = bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]) + tags + body
    kept = draw(st.sampled_from((len(data),) * 6 + (0, 12, 14, 33, 40, 60)))
    return draw(_gaps_ns), data[:kept], draw(_lengths)


@st.composite
def captures(draw: st.DrawFn) -> bytes:
    """A whole file."""
    time_ns = draw(st.sampled_from((_FIRST_NS,) * 6 + (0, ((1 << 32) - 1) * 10**9)))
    frames: list[Frame] = []
    for gap_ns, data, missing in draw(st.lists(_frame(), max_size=25)):
        time_ns += gap_ns
        frames.append(Frame(time_ns, len(data) + missing, data, len(frames) % 2))
    return draw(_file(tuple(frames)))


@st.composite
def _file(draw: st.DrawFn, frames: Sequence[Frame]) -> bytes:
    order, link = draw(st.sampled_from(containers.ORDERS)), draw(st.sampled_from((1, 1, *containers.LINKS)))
    form = draw(st.sampled_from(("pcap", "pcap", "pcapng", "simple")))
    if form == "pcap":
        data = containers.pcap(frames, order, draw(st.booleans()), link)
    elif form == "pcapng":
        data = containers.pcapng(
            frames, order, draw(st.sampled_from((9, 6, 0, 0x80 | 32, 127, 255))), link, draw(st.integers(1, 3))
        )
    else:
        data = containers.simple(frames, order, link)
    cut = draw(st.sampled_from((0,) * 8 + (1, 5, 17, 60)))
    return containers.packed(data[: len(data) - cut], draw(st.sampled_from(("", "", "", "gzip", "zstd"))))
