"""The pauses of a run as its agents noted them: PFC frames sent, and ports held by those that came.

Events of a port: `xoff_sent`, `refresh_sent` and `xon_sent` are frames that it sent out, to pause its neighbour, to go
on pausing it, and to resume it; `held`, `released` and `expired` tell that it was paused itself, resumed, or that the
time of the last pause ran out. `watchdog_on` and `watchdog_off` frame the time in which it ignores pauses and discards.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analysis.parquet import read_columns
from analysis.transport.spans import Span

XOFF, XON, REFRESH = "xoff_sent", "xon_sent", "refresh_sent"
HELD, RELEASED, EXPIRED = "held", "released", "expired"
WATCHDOG_ON, WATCHDOG_OFF = "watchdog_on", "watchdog_off"
_ENDS = (RELEASED, EXPIRED, WATCHDOG_ON)  # a port that ignores pauses is not held


@dataclass(frozen=True, eq=False)
class PauseLog:
    """Events (n,) of all ports in order of time: port and event are names; value is the bytes counted of XOFF and XON,
    the quanta of `refresh_sent` and `held`."""

    time_ns: np.ndarray
    port: np.ndarray
    event: np.ndarray
    value: np.ndarray

    def count(self, event: str, start_ns: int | None = None, end_ns: int | None = None) -> dict[str, int]:
        """How often each port noted an event, those that never did left out; in [start_ns, end_ns) where given."""
        first, last = 0, len(self.time_ns)
        if start_ns is not None and end_ns is not None:
            first, last = np.searchsorted(self.time_ns, [start_ns, end_ns])
        ports, counts = np.unique(self.port[first:last][self.event[first:last] == event], return_counts=True)
        return dict(zip(ports.tolist(), counts.tolist()))

    @cached_property
    def held(self) -> dict[str, list[Span]]:
        """The spans in ns during which each port was held, those that never were left out; one that nothing ended lasts
        until the last event of all."""
        last_ns = int(self.time_ns[-1]) if len(self.time_ns) else 0
        return self._spans((HELD,), _ENDS, last_ns)

    @cached_property
    def pausing(self) -> dict[str, list[Span]]:
        """The spans in ns during which each port kept its neighbour paused, from XOFF to XON."""
        last_ns = int(self.time_ns[-1]) if len(self.time_ns) else 0
        return self._spans((XOFF,), (XON,), last_ns)

    def _spans(self, begins: Iterable[str], ends: Iterable[str], last_ns: int) -> dict[str, list[Span]]:
        """For each port, from the first event of `begins` to the next one of `ends`."""
        spans: dict[str, list[Span]] = {}
        open_ns: dict[str, int] = {}
        for time_ns, port, event in zip(self.time_ns.tolist(), self.port.tolist(), self.event.tolist()):
            if event in begins:
                open_ns.setdefault(port, time_ns)
            elif event in ends and port in open_ns:
                spans.setdefault(port, []).append((open_ns.pop(port), time_ns))
        for port, start_ns in open_ns.items():
            spans.setdefault(port, []).append((start_ns, last_ns))
        return spans


def read_pauses(path: str | os.PathLike[str]) -> PauseLog:
    """The log in a pauses.parquet; raises BadRequest naming the file and what is wrong with it."""
    columns = read_columns(path, ("port", "event"), ("time_ns", "value"), "pause events")
    return PauseLog(columns["time_ns"], columns["port"], columns["event"], columns["value"])


def clipped(held: Mapping[str, Iterable[Span]], within: Span | None) -> dict[str, list[Span]]:
    """The parts of each port's spans that lie within one, ports without any left out; all of them within None."""
    if within is None:
        return {port: list(spans) for port, spans in held.items()}
    first, last = within
    found = {
        port: [(max(start, first), min(end, last)) for start, end in spans if start < last and end > first]
        for port, spans in held.items()
    }
    return {port: spans for port, spans in found.items() if spans}


def total_s(spans: Iterable[Span]) -> float:
    """Seconds that spans in ns last together."""
    return sum(end - start for start, end in spans) / 1e9
