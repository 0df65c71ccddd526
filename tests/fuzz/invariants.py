"""What holds for every input, however damaged: the reader and `explain` give an answer or refuse in one line, the
answer is sound in itself, and neither takes long or much memory.
"""

from __future__ import annotations

import json
import math
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from analysis.capture.addresses import AddressTable
from analysis.capture.packets import COLUMNS, DTYPES, FIRST_IPV6, WIDTHS, Damage, Packets, joined
from analysis.capture.reader import read_capture, stream_capture
from analysis.explain.causes import CAUSES
from analysis.explain.document import document
from analysis.explain.explain import explain
from analysis.explain.model import CERTAIN, LIKELY, UNSURE, Explanation
from analysis.explain.terminal import shown
from analysis.verdicts import COLLAPSE
from topologies.units import BadRequest

CPU_LIMIT_S = 10.0  # for an input of some KB; the usual is some ms
MEMORY_LIMIT_BYTES = 256 << 20  # by which the process may grow for one input
CHUNK_PACKETS = 7  # so that even small inputs come in several chunks
_LEVELS = (CERTAIN, LIKELY, UNSURE)


class Broken(Exception):
    """An invariant that does not hold: which, and the numbers."""

    def __init__(self, what: str, *numbers: object) -> None:
        super().__init__(what, *numbers)
        self.what = what


def check(path: Path, companion: Path | None = None) -> str:
    """Hold all invariants against one file; returns in a word how it was taken. With a companion, a sound capture, both
    are joined as well. Raises Broken, or whatever was raised that must not be."""
    with _bounded():
        try:
            whole = read_capture(path)
        except BadRequest as refusal:
            _check_refusals(path, refusal)
            return "refused"
        _check_columns(whole)
        _check_streaming(path, whole)
        found = explain([path])
        _check_explanation(found, whole)
        _check_told(found)
        if companion is not None:
            _check_told(explain([path, companion]))
        return "damaged" if whole.damage != Damage() else "sound" if len(whole) else "empty"


@contextmanager
def _bounded() -> Iterator[None]:
    """No more than CPU_LIMIT_S of this process, and MEMORY_LIMIT_BYTES more than it has had."""
    before_s, before_kib = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    previous = signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
    if time.process_time() - before_s > CPU_LIMIT_S:
        raise Broken("took too long", time.process_time() - before_s)
    grown_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) << 10
    if grown_bytes > MEMORY_LIMIT_BYTES:
        raise Broken("took too much memory", grown_bytes)


def _too_long(number: int, frame: Any) -> None:
    raise Broken("took too long")


def _check_refusals(path: Path, refusal: BadRequest) -> None:
    """One line without control characters; streaming and explaining refuse as well."""
    line = str(refusal)
    if not line.isprintable():
        raise Broken("a refusal is not printable", line)
    for refuses in (lambda: list(stream_capture(path, AddressTable(), CHUNK_PACKETS)), lambda: explain([path])):
        with suppress(BadRequest):
            refuses()
            raise Broken("is refused by one reader alone", line)


def _check_columns(packets: Packets) -> None:
    count = len(packets)
    for name in COLUMNS:
        column = getattr(packets, name)
        if column.shape != (count, *WIDTHS.get(name, ())) or column.dtype != DTYPES[name]:
            raise Broken(f"column {name} has another shape or type", column.shape, column.dtype, count)
    if (np.diff(packets.number) <= 0).any() or (count and packets.number[0] < 1):
        raise Broken("numbers of packets do not grow")
    for name in ("payload_bytes", "src_ip", "dst_ip", "captured_bytes", "wire_bytes"):
        if (getattr(packets, name) < 0).any():
            raise Broken(f"{name} is below zero")
    if max(packets.src_ip.max(initial=0), packets.dst_ip.max(initial=0)) >= FIRST_IPV6 + len(packets.ipv6):
        raise Broken("an address is in no table")
    if not np.isin(packets.ip_version, (0, 4, 6)).all():
        raise Broken("an IP version is neither 4 nor 6")
    if min(packets.damage.__dict__.values()) < 0:
        raise Broken("damage is below zero", packets.damage)


def _check_streaming(path: Path, whole: Packets) -> None:
    chunks = list(stream_capture(path, AddressTable(), CHUNK_PACKETS))
    if max(len(chunk) for chunk in chunks) > CHUNK_PACKETS:
        raise Broken("a chunk has too many packets", [len(chunk) for chunk in chunks])
    streamed = joined(chunks)
    for name in COLUMNS:
        if not np.array_equal(_compared(streamed, name), _compared(whole, name)):
            raise Broken(f"column {name} differs between streaming and reading at once")
    if streamed.damage != whole.damage:
        raise Broken("streaming finds another damage", streamed.damage, whole.damage)


def _compared(packets: Packets, name: str) -> np.ndarray:
    """A column; of IPv6 addresses what they are, not where in the table they stand, which follows from the chunks."""
    column: np.ndarray = getattr(packets, name)
    if name not in ("src_ip", "dst_ip"):
        return column
    return np.array([packets.address(number) for number in column.tolist()])


def _check_explanation(found: Explanation, packets: Packets) -> None:
    (point,) = found.points
    if point.packets != len(packets):
        raise Broken("not all packets are explained", point.packets, len(packets))
    if point.damage != packets.damage:
        raise Broken("another damage is explained", point.damage, packets.damage)
    if found.lost_share is not None and not 0 <= found.lost_share <= 1:
        raise Broken("lost_share is no share", found.lost_share)
    _check_flows(found)
    levels = {each.confidence for each in found.stalls} | {each.confidence for each in found.findings}
    unknown = (levels | {flow.position_confidence for flow in found.flows}) - set(_LEVELS)
    if unknown:
        raise Broken("a confidence is unknown", unknown)
    if any(each.cause not in CAUSES for each in found.stalls):
        raise Broken("a cause is unknown", [each.cause for each in found.stalls])
    for sentence in (*(each.text for each in found.findings), *(each.reason for each in found.stalls)):
        if not sentence.isprintable():
            raise Broken("a sentence is not printable", sentence)
    _check_certainty(found, packets.damage)


def _check_flows(found: Explanation) -> None:
    for flow in found.flows:
        counts = (flow.packets, flow.wire_bytes, flow.payload_bytes, flow.delivered_bytes, flow.gaps, flow.spurious)
        if min(counts) < 0 or flow.end_ns < flow.begin_ns:
            raise Broken("a count of a flow is below zero", flow.name, counts, flow.begin_ns, flow.end_ns)
        if sum(flow.kinds.values()) != len(flow.repeats):
            raise Broken("kinds are not those of the repeats", flow.name, dict(flow.kinds), len(flow.repeats))
        (point,) = found.points
        for stall in flow.stalls:  # one that has no end lasts until the capture's
            if not flow.begin_ns <= stall.start_ns <= stall.end_ns <= max(flow.end_ns, point.last_ns):
                raise Broken(f"a stall ({stall.cause}) is outside of its flow", flow.begin_ns, flow.end_ns, stall)


def _check_certainty(found: Explanation, damage: Damage) -> None:
    """What is damaged where the clock, packets or their order cannot be relied on proves nothing."""
    unreliable = damage.backwards or damage.garbage_bytes
    certain = [each for each in found.stalls if each.confidence == CERTAIN]
    if unreliable and certain:
        raise Broken("a stall is certain in a damaged capture", damage, certain)
    if any(
        each.verdict == COLLAPSE and not all(p.holds for p in each.evidence if p.applies) for each in found.verdicts
    ):
        raise Broken("a collapse is told without all its evidence")


def _check_told(found: Explanation) -> None:
    """The text for a person, and the JSON document."""
    for part in shown(found):
        if isinstance(part, str) and not part.replace("\n", "").isprintable():
            raise Broken("the text is not printable", part)
    told = document(found)
    text = json.dumps(told, allow_nan=False)
    if json.dumps(json.loads(text)) != text:
        raise Broken("the document is not what JSON makes of it")
    for number in _numbers(told):
        if not math.isfinite(number):
            raise Broken("a number of the document is not finite")


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _numbers(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, float):
        yield value
