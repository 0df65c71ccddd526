"""Mutations of captures: what makes of a sound one a damaged or a strange one; all randomness comes as an argument.

Frames are changed before they are written (headers that lie, packets that are missing, twice there, or late), the file
afterwards (bits, lengths, cuts, splices).
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.fuzz import containers
from tests.fuzz.containers import Frame

Frames = list[Frame]
_EDGES = (0, 1, 2, 3, 4, 19, 20, 21, 39, 40, 59, 60, 127, 128, 255, 256, 1499, 1500, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF)
_EDGES_32 = (*_EDGES, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1500, (1 << 32) - 1, 262_143, 262_144, 262_145)
_TIMES_NS = (0, 1, 10**9, (1 << 31) * 10**9, ((1 << 32) - 1) * 10**9 + 999_999_999)
_IP = 14  # where the network header begins in an Ethernet frame without tags
_TCP = _IP + 20
# Fields of Ethernet, IPv4 and what follows it without options: (offset, bytes).
_FIELDS = (
    *((12, 2), (_IP, 1), (_IP + 1, 1), (_IP + 2, 2), (_IP + 4, 2), (_IP + 6, 2), (_IP + 8, 1), (_IP + 9, 1)),
    *((_IP + 12, 4), (_IP + 16, 4), (_TCP, 2), (_TCP + 2, 2), (_TCP + 4, 4), (_TCP + 8, 4), (_TCP + 12, 1)),
    *((_TCP + 13, 1), (_TCP + 14, 2), (_TCP + 20, 1), (_TCP + 21, 1), (_TCP + 24, 4), (_TCP + 32, 1), (_TCP + 33, 1)),
    *((_TCP + 8, 1), (_TCP + 12, 4), (_TCP + 16, 4), (_TCP + 20, 4)),  # RoCE: BTH, AETH
)


def _number(dice: random.Random, size: int) -> int:
    """A number of so many bytes, on the edge of something or anywhere."""
    if dice.random() < 0.6:
        return dice.choice(_EDGES_32 if size == 4 else _EDGES) % (1 << 8 * size)
    return dice.getrandbits(8 * size)


# --- frames


def _drop(dice: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    share = dice.choice((0.05, 0.3, 0.9))
    return [frame for frame in frames if dice.random() > share]


def _twice(dice: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    late_ns = dice.choice((0, 0, 1, 1000, 10**6))
    share = dice.choice((0.1, 1.0))
    out = []
    for frame in frames:
        copies = 1 + (dice.random() < share)
        out += [replace(frame, time_ns=frame.time_ns + number * late_ns) for number in range(copies)]
    return out


def _reorder(dice: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """Neighbours change places: with their times, or only their contents."""
    out = list(frames)
    for _unused in range(dice.randint(1, 5)):
        if len(out) < 2:
            break
        at = dice.randrange(len(out) - 1)
        to = min(at + dice.choice((1, 1, 2, 5)), len(out) - 1)
        if dice.random() < 0.5:
            out[at], out[to] = out[to], out[at]
        else:
            times = out[at].time_ns, out[to].time_ns
            out[at], out[to] = replace(out[to], time_ns=times[0]), replace(out[at], time_ns=times[1])
    return out


def _clock(dice: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """The clock is set, backwards or forwards, or all stand at one time, or at the ends of time."""
    at = dice.randrange(len(frames)) if frames else 0
    jump_ns = dice.choice((-1, -1000, -(10**9), -(10**15), 10**9, 10**13, 10**18))
    if dice.random() < 0.3:
        first = dice.choice(_TIMES_NS)
        return [replace(frame, time_ns=first) for frame in frames]
    if dice.random() < 0.3:
        return [replace(frame, time_ns=dice.choice(_TIMES_NS)) if dice.random() < 0.1 else frame for frame in frames]
    return [
        replace(frame, time_ns=max(frame.time_ns + jump_ns, 0)) if i >= at else frame for i, frame in enumerate(frames)
    ]


def _snap(dice: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """Packets captured shorter than their headers, of nothing, or said to be shorter than they are."""
    bytes_kept = dice.choice((0, 1, 13, 14, 15, 33, 34, 35, 40, 53, 54, 55, 65, 66, 70))
    share = dice.choice((0.1, 1.0))
    lie = dice.random() < 0.2
    return [
        replace(frame, data=frame.data[:bytes_kept], wire_bytes=_number(dice, 4) if lie else frame.wire_bytes)
        if dice.random() < share
        else frame
        for frame in frames
    ]


def _one_way(dice: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    kept = dice.random() < 0.5
    return [frame for frame in frames if (frame.data[_IP + 12 : _IP + 16] < frame.data[_IP + 16 : _IP + 20]) == kept]


def _field(dice: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """A header field of some packets is another one, the same in all of them or not."""
    offset, size = dice.choice(_FIELDS)
    share, fixed = dice.choice((0.05, 0.3, 1.0)), _number(dice, size)
    same = dice.random() < 0.5
    return [
        _written(frame, offset, (fixed if same else _number(dice, size)).to_bytes(size, "big"))
        if dice.random() < share
        else frame
        for frame in frames
    ]


def _written(frame: Frame, offset: int, value: bytes) -> Frame:
    data = frame.data
    if len(data) < offset + len(value):
        return frame
    return replace(frame, data=data[:offset] + value + data[offset + len(value) :])


def _wrap(dice: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """All sequence numbers, or RoCE's, shifted: close to the end of their space, so that they wrap."""
    shift = dice.choice((1 << 31, (1 << 32) - 2000, (1 << 32) - 60_000, 0xFFFFFF - 5, dice.getrandbits(32)))
    out = []
    for frame in frames:
        for offset in (_TCP + 4, _TCP + 8):
            if len(frame.data) >= offset + 4:
                value = struct.unpack_from("!I", frame.data, offset)[0]
                frame = _written(frame, offset, struct.pack("!I", value + shift & 0xFFFFFFFF))
        out.append(frame)
    return out


def _tags(dice: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """VLAN tags, more than there may be."""
    kinds = [dice.choice((b"\x81\x00", b"\x88\xa8", b"\x91\x00")) for _unused in range(dice.randint(1, 5))]
    tags = b"".join(kind + struct.pack("!H", dice.getrandbits(16)) for kind in kinds)
    return [
        replace(frame, data=frame.data[:12] + tags + frame.data[12:], wire_bytes=frame.wire_bytes + len(tags))
        for frame in frames
    ]


def _six(dice: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """What was IPv4 becomes IPv6, behind extension headers that may lie about their lengths."""
    out = []
    for frame in frames:
        if frame.data[12:14] != b"\x08\x00" or len(frame.data) < _TCP:
            out.append(frame)
            continue
        chain = [dice.choice((0, 43, 44, 51, 60, 50, 59, 135)) for _unused in range(dice.choice((0, 0, 1, 2, 6)))]
        follows = [*chain, frame.data[_IP + 9]]
        headers = b"".join(
            bytes([after, dice.choice((0, 0, 0, 1, 255))]) + dice.choice((bytes(6), dice.randbytes(6)))
            for after in follows[1:]
        )
        length = struct.pack("!H", dice.choice((len(frame.data) - _TCP + len(headers), _number(dice, 2))) & 0xFFFF)
        address = [b"\xfd" + bytes(11) + frame.data[_IP + at : _IP + at + 4] for at in (12, 16)]
        header = b"\x60\0\0\0" + length + bytes([follows[0], 64]) + b"".join(address) + headers
        data = frame.data[:12] + b"\x86\xdd" + header + frame.data[_TCP:]
        out.append(replace(frame, data=data, wire_bytes=frame.wire_bytes + len(data) - len(frame.data)))
    return out


def _splice(dice: random.Random, frames: Frames, others: Sequence[Frames]) -> Frames:
    """Frames of another capture among these, at their times or behind."""
    other = dice.choice(others)
    if not frames or not other:
        return frames
    if dice.random() < 0.5:
        return frames[: dice.randrange(len(frames))] + other[dice.randrange(len(other)) :]
    shift_ns = frames[0].time_ns - other[0].time_ns
    mixed = [*frames, *(replace(frame, time_ns=max(frame.time_ns + shift_ns, 0), interface=1) for frame in other)]
    return sorted(mixed, key=lambda frame: frame.time_ns)


def _noise(dice: random.Random, frames: Frames, _: Sequence[Frames]) -> Frames:
    """Bytes of some frames flipped, or frames of nothing but noise."""
    out = []
    for frame in frames:
        data = bytearray(frame.data)
        if data and dice.random() < 0.1:
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        if dice.random() < 0.02:
            data = bytearray(dice.randbytes(dice.randrange(100)))
        out.append(replace(frame, data=bytes(data)))
    return out


FRAME_MUTATIONS: tuple[Callable[[random.Random, Frames, Sequence[Frames]], Frames], ...] = (
    *(_drop, _twice, _reorder, _clock, _snap, _one_way, _field, _field, _field),
    *(_wrap, _tags, _six, _splice, _noise),
)


# --- files


def _flip(dice: random.Random, data: bytearray) -> None:
    for _unused in range(dice.choice((1, 1, 2, 10))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _set(dice: random.Random, data: bytearray) -> None:
    at = dice.randrange(len(data))
    data[at : at + dice.choice((1, 2, 4, 16))] = dice.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * dice.choice(
        (1, 2, 4)
    )


def _cut(dice: random.Random, data: bytearray) -> None:
    del data[dice.randrange(len(data)) :]


def _cut_out(dice: random.Random, data: bytearray) -> None:
    at = dice.randrange(len(data))
    del data[at : at + dice.choice((1, 3, 4, 16, 100))]


def _insert(dice: random.Random, data: bytearray) -> None:
    at = dice.randrange(len(data))
    data[at:at] = dice.choice((bytes(4), dice.randbytes(dice.randrange(1, 40)), bytes(data[at : at + 50])))


def _length(dice: random.Random, data: bytearray) -> None:
    """A number of four bytes where lengths stand, in the one byte order or the other."""
    at = min(dice.choice((0, 4, 8, 16, 20, 24, 28, 32, 36, 48, dice.randrange(len(data)))), len(data) - 1) & ~3
    data[at : at + 4] = struct.pack(dice.choice("<>") + "I", _number(dice, 4))


def _repeat(dice: random.Random, data: bytearray) -> None:
    """The whole file, or its end, once more behind itself."""
    data += data[dice.choice((0, 0, 24, len(data) // 2)) :]


FILE_MUTATIONS: tuple[Callable[[random.Random, bytearray], None], ...] = (
    *(_flip, _set, _cut, _cut_out, _insert, _length, _length, _repeat),
)


def written(dice: random.Random, frames: Sequence[Frame]) -> bytes:
    """Frames as a file of any form, not packed."""
    order, link = dice.choice(containers.ORDERS), dice.choice((containers.ETHERNET, *containers.LINKS))
    form = dice.random()
    if form < 0.5:
        return containers.pcap(frames, order, dice.random() < 0.7, link)
    if form < 0.95:
        resolution = dice.choice((9, 9, 6, 3, 0, 0x80 | 20, 0x80 | 33, 12, 18))
        return containers.pcapng(frames, order, resolution, link, dice.choice((1, 1, 2, 3)))
    return containers.simple(frames, order, link)


def mutant(seed: int, number: int, corpus: Sequence[Frames]) -> bytes:
    """Input `number` of the corpus's mutations: equal seeds and numbers give equal bytes."""
    dice = random.Random(f"{seed}/{number}")
    frames = list(dice.choice(corpus))
    for _unused in range(dice.choice((0, 1, 1, 2, 3))):
        frames = dice.choice(FRAME_MUTATIONS)(dice, frames, corpus)
    data = bytearray(written(dice, frames))
    for _unused in range(dice.choice((0, 0, 1, 1, 2))):
        if data:
            dice.choice(FILE_MUTATIONS)(dice, data)
    how = dice.choices(("", "gzip", "zstd"), (8, 1, 1))[0]
    out = bytearray(containers.packed(bytes(data), how))
    if how and out and dice.random() < 0.5:
        dice.choice(FILE_MUTATIONS)(dice, out)
    return bytes(out)
