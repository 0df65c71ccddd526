"""What the network told the senders of a run: pauses, by PFC frames, and congestion notifications, by CNPs. None stands
for what the run does not tell, or does not have."""

from __future__ import annotations

from analysis.dcqcn import CNP_SENT
from analysis.pause_log import XOFF, clipped, total_s
from analysis.run import Run
from analysis.transport.spans import Span


def pauses(run: Run, start_ns: int | None = None, end_ns: int | None = None) -> int | None:
    """How often a port paused its neighbour, in [start_ns, end_ns) where given."""
    return None if run.pauses is None else sum(run.pauses.count(XOFF, start_ns, end_ns).values())


def paused_s(run: Run) -> float | None:
    """Seconds for which ports were paused while there was traffic, over all ports."""
    return None if run.pauses is None else sum(map(total_s, clipped(run.pauses.held, run.traffic_ns).values()))


def noted(run: Run, event: str, within: Span | None = None) -> dict[str, int] | None:
    """How often each port noted an event of analysis/pause_log.py, in a span where one is given."""
    return None if run.pauses is None else run.pauses.count(event, *(within or (None, None)))


def cnps(run: Run) -> int | None:
    """Congestion notification packets sent."""
    return None if run.dcqcn is None else run.dcqcn.count(CNP_SENT)
