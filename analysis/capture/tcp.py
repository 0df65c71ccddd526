"""TCP (RFC 9293) and its options: maximum segment size, window scale and timestamps (RFC 7323), selective
acknowledgements (RFC 2018)."""

from __future__ import annotations

import numpy as np

from analysis.capture.frames import Frames, Headers
from analysis.capture.packets import SYN

_TCP = np.dtype(
    [
        ("sport", ">u2"),
        ("dport", ">u2"),
        ("seq", ">u4"),
        ("ack", ">u4"),
        ("offset", "u1"),
        ("flags", "u1"),
        ("window", ">u2"),
        ("checksum", ">u2"),
        ("urgent", ">u2"),
    ]
)
_COLUMNS = ("sport", "dport", "seq", "ack", "flags", "window")
_END, _NOP, _MSS, _WINDOW_SCALE, _SACK, _TIMESTAMPS = 0, 1, 2, 3, 5, 8
_MOST_OPTIONS = 40  # as many as there are bytes for
_MOST_EDGES = 4  # of SACK blocks that are kept
_ALIGNED_TIMESTAMPS = np.dtype([("kind", ">u4"), ("value", ">u4"), ("echo", ">u4")])
_NOP_NOP_TIMESTAMPS = 0x0101080A
_PAIR = np.dtype([("value", ">u4"), ("echo", ">u4")])


def tcp(frames: Frames, headers: Headers, room_bytes: np.ndarray) -> None:
    """Fill the columns of TCP, of segments of `room_bytes` with their headers."""
    fits = frames.fits(headers, _TCP.itemsize)
    if not fits.all():
        headers, room_bytes = headers.keep(fits), room_bytes[fits]
    header = frames.read(headers, _TCP)
    for name in _COLUMNS:
        frames.put(name, headers, header[name])
    header_bytes = np.maximum((header["offset"] >> 4).astype(np.int64) * 4, _TCP.itemsize)
    frames.put("payload_bytes", headers, np.maximum(room_bytes - header_bytes, 0))
    ends = headers.at + header_bytes
    is_cut = ends > headers.end
    if is_cut.any():
        frames.is_cut[headers.rows[is_cut]] |= ends[is_cut] > frames.end[headers.rows[is_cut]]
        ends = np.minimum(ends, headers.end)
    options = headers._replace(at=headers.at + _TCP.itemsize, end=ends)
    has_options = header_bytes > _TCP.itemsize
    _options(frames, options.keep(has_options), header["flags"] if has_options.all() else header["flags"][has_options])


def _options(frames: Frames, options: Headers, flags: np.ndarray) -> None:
    """Walk the options of all segments in step."""
    options, flags = _usual_timestamps(frames, options, flags)
    for _ in range(_MOST_OPTIONS):
        kind, length = frames.data[options.at], frames.data[options.at + 1].astype(np.int64)
        inside = (options.at < options.end) & (kind != _END)
        inside &= (kind == _NOP) | ((length >= 2) & (options.at + length <= options.end))
        if not inside.any():
            return
        if not inside.all():
            options, kind, length, flags = options.keep(inside), kind[inside], length[inside], flags[inside]
        _take(frames, options, flags, kind, length)
        options = options.behind(np.where(kind == _NOP, 1, length))


def _usual_timestamps(frames: Frames, options: Headers, flags: np.ndarray) -> tuple[Headers, np.ndarray]:
    """Nearly every segment begins with two fillers and timestamps (RFC 7323, appendix A): these are taken at once. What
    may follow is left."""
    if not len(options.rows):
        return options, flags
    first = frames.read(options, _ALIGNED_TIMESTAMPS)
    usual = (first["kind"] == _NOP_NOP_TIMESTAMPS) & (options.at + _ALIGNED_TIMESTAMPS.itemsize <= options.end)
    _put_timestamps(frames, options.keep(usual), first if usual.all() else first[usual])
    options = options.behind(_ALIGNED_TIMESTAMPS.itemsize * usual)
    left = options.at < options.end
    return options.keep(left), flags if left.all() else flags[left]


def _put_timestamps(frames: Frames, options: Headers, pair: np.ndarray) -> None:
    if len(pair):
        frames.put("has_timestamps", options, np.ones(len(pair), np.bool_))
        frames.put("timestamp_value", options, pair["value"])
        frames.put("timestamp_echo", options, pair["echo"])


def _take(frames: Frames, options: Headers, flags: np.ndarray, kind: np.ndarray, length: np.ndarray) -> None:
    """Fill the columns of those options that are known and of the right length."""
    at_syn = flags & SYN > 0
    for which, take in (
        ((kind == _TIMESTAMPS) & (length == 10), _take_timestamps),
        ((kind == _SACK) & (length >= 10), _take_sack),
        ((kind == _MSS) & (length == 4) & at_syn, _take_mss),
        ((kind == _WINDOW_SCALE) & (length == 3) & at_syn, _take_window_scale),
    ):
        if which.any():
            take(frames, options.keep(which))


def _take_timestamps(frames: Frames, options: Headers) -> None:
    _put_timestamps(frames, options, frames.read(options.behind(2), _PAIR))


def _take_mss(frames: Frames, options: Headers) -> None:
    frames.put("mss", options, frames.read(options.behind(2), np.dtype(">u2")))


def _take_window_scale(frames: Frames, options: Headers) -> None:
    frames.put("window_scale", options, frames.data[options.at + 2])


def _take_sack(frames: Frames, options: Headers) -> None:
    blocks = (frames.data[options.at + 1] - 2) // 8
    frames.put("sack_blocks", options, blocks)
    edges = frames.read(options.behind(2), np.dtype((">u4", _MOST_EDGES)))
    frames.put("sack_edges", options, np.where(np.arange(_MOST_EDGES) < 2 * blocks[:, None], edges, 0))
