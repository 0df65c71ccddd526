"""What copies cost the machine that ran an experiment: host.json of a run directory, measured on the real clock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis import text
from analysis.pages.markup import Html, table
from analysis.run import Run
from topologies.units import BadRequest

FILE = "host.json"
_KEYS = ("way", "sent_bytes", "seconds", "sender_cpu_s", "receiver_cpu_s")
WORDS = {
    "copy": "send and receive",
    "zerocopy": "MSG_ZEROCOPY and receive",
    "sendfile": "sendfile and drop",
}


@dataclass(frozen=True)
class Way:
    """A way of sending over loopback: bytes a second, processor seconds a byte of each end, and the part of the
    messages that the kernel copied though it was asked not to (None: it was not asked)."""

    name: str
    rate: float
    sender_s: float
    receiver_s: float
    copied_anyway: float | None


def copies_of(run: Run) -> dict[str, Any] | None:
    """host.json as it is; None for a run without; raises BadRequest for a damaged one."""
    file = run.path / FILE
    if not file.is_file():
        return None
    try:
        found = json.loads(file.read_text())
    except ValueError as error:
        raise BadRequest(f"{file}: damaged ({error}); allowed: JSON") from None
    entries = found.get("ways") if isinstance(found, dict) else None
    if not isinstance(entries, list) or not all(map(_is_way, entries)):
        raise BadRequest(f"{file}: its ways are not understood; allowed: entries with {', '.join(_KEYS)}")
    return dict(found)


def _is_way(entry: Any) -> bool:
    return (
        isinstance(entry, Mapping)
        and all(isinstance(entry.get(key), (int, float)) for key in _KEYS[1:])
        and entry["sent_bytes"] > 0
        and entry["seconds"] > 0
    )


def ways(run: Run) -> list[Way]:
    """The measured ways, none where the run has no host.json."""
    return [
        Way(
            str(each["way"]),
            each["sent_bytes"] / each["seconds"],
            each["sender_cpu_s"] / each["sent_bytes"],
            each["receiver_cpu_s"] / each["sent_bytes"],
            each.get("copied_anyway"),
        )
        for each in (copies_of(run) or {}).get("ways", [])
    ]


def copies_section(run: Run) -> Html:
    """The ways as a table; empty where nothing was measured."""
    found = ways(run)
    if not found:
        return Html("")
    heads = ("way over loopback", "rate", "sender", "receiver", "copied all the same")
    rows = [
        [
            WORDS.get(way.name, way.name),
            f"{text.size(way.rate)}/s",
            _per_byte(way.sender_s),
            _per_byte(way.receiver_s),
            text.NOTHING if way.copied_anyway is None else f"{way.copied_anyway:.0%}",
        ]
        for way in found
    ]
    told = copies_of(run) or {}
    words = (
        f"Measured on the machine that ran this, on the real clock, {text.size(told.get('message_bytes'))} a call:"
        f" 4 KiB one way in {text.seconds(told.get('latency_s'))}; a plain copy in memory"
        f" {text.size(told.get('copy_bytes_per_s'))}/s. Loopback has no NIC that could read a sender's pages, so that"
        " the kernel copies what it is asked to send without a copy, and says so. The stack's own time is charged to"
        " whichever end it runs in."
    )
    return Html(f"<h2>Copies on this machine</h2>\n{table(heads, rows, numbers=(1, 2, 3, 4))}\n<p>{words}</p>\n")


def _per_byte(seconds: float) -> str:
    return f"{seconds * 1e12:,.0f} ps a byte"
