"""What a stall's cause means, and the reasoning for one stall in a sentence with its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis import text
from analysis.explain.model import FlowStall
from analysis.transport import stalls
from analysis.transport.retransmits import Retransmission
from analysis.transport.spans import Span, common, total_ns
from analysis.transport.stalls import (
    AFTER_RECOVERY,
    APPLICATION_IDLE,
    DELAYED_ACK,
    FEW_DUPLICATES,
    FULL_WINDOW,
    LOSS_PROBE,
    LOST_RETRANSMISSION,
    NAK_IGNORED,
    NOT_TOLD,
    RACK_TIMER,
    TAIL,
    Gap,
    Silence,
)

ZERO_WINDOW, NOT_READY, SYN_AGAIN = "zero_window", "receiver_not_ready", "syn_retransmission"
SPURIOUS, TIMEOUT, NEVER_WENT_ON = "rto_spurious", "rto_unknown", "never_went_on"
STRAGGLER = "waited_for_straggler"

MEANINGS = {
    **stalls.MEANINGS,
    ZERO_WINDOW: "the receiver's window was closed: its application did not read",
    NOT_READY: "the receiver had no buffer ready (RNR NAK)",
    SYN_AGAIN: "the connection had to be asked for again",
    SPURIOUS: "timeout although nothing was lost: the acknowledgement came later than the timer",
    TIMEOUT: "timeout: what was lost cannot be seen from this capture",
    NEVER_WENT_ON: "it did not go on before the capture ended",
    STRAGGLER: "waited for the slowest flow of the round",
}
TIMEOUTS = (
    *(TAIL, FULL_WINDOW, LOST_RETRANSMISSION, FEW_DUPLICATES, AFTER_RECOVERY, SPURIOUS, TIMEOUT),
    *(NOT_TOLD, NAK_IGNORED),
)
NOT_LOST = (APPLICATION_IDLE, STRAGGLER)  # silence that is no fault of network or transport


@dataclass(frozen=True)
class Told:
    """A cause, how sure it is, and why."""

    cause: str
    confidence: str
    reason: str


def length(gap: Gap) -> str:
    """How long a gap is: "208 ms"."""
    return text.seconds((gap.end_ns - gap.start_ns) / 1e9)


def _bytes(count: int) -> str:
    return text.counted(count, "byte")


def of_tcp(cause: str, gap: Gap, silence: Silence, event: Retransmission | None, timeouts_before: int) -> str:
    """Why, for a cause of analysis.transport.stalls at a sender's capture."""
    again = f"position {event.start:,}" if event else "it"
    row = f"; the {_ordinal(timeouts_before + 1)} timeout in a row for this packet: the timer had doubled each time"
    backoff = row if timeouts_before else ""
    left = _bytes(silence.outstanding)
    told = {
        TAIL: f"{length(gap)} after the last packet, {left} unacknowledged at the end of the block; no duplicate "
        f"acknowledgement came, since nothing sent behind the loss arrived; the timeout sent {again} again",
        FULL_WINDOW: f"{length(gap)} with {left} in flight and no duplicate acknowledgement: none of it arrived; the "
        f"timeout sent {again} again",
        LOST_RETRANSMISSION: f"{length(gap)}; what the timeout sent, {again}, had been sent again before: that was "
        f"lost too{backoff}",
        FEW_DUPLICATES: f"{length(gap)}; {_told_little(event)}: too few for a fast retransmission; the timeout sent "
        f"{again} again",
        AFTER_RECOVERY: f"{length(gap)}; {text.counted(event.duplicates if event else 0, 'duplicate')} came right "
        "after a recovery, where a sender without SACK ignores them",
        LOSS_PROBE: f"{length(gap)} with {left} unacknowledged, then a probe of one packet (RFC 8985)",
        RACK_TIMER: f"{length(gap)}, then what SACK blocks had shown as missing was sent again by RACK's timer",
        DELAYED_ACK: f"{left} waited {length(gap)} for their acknowledgement, and nothing was sent again",
        APPLICATION_IDLE: _IDLE.format(length(gap)),
    }
    return told.get(cause, f"{length(gap)} with {left} unacknowledged; no rule explains it")


def _told_little(event: Retransmission | None) -> str:
    if event is not None and event.duplicates:
        return f"{text.counted(event.duplicates, 'duplicate acknowledgement')} came"
    return "SACK blocks came"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


def of_pair(cause: str, gap: Gap, silence: Silence) -> str:
    """Why, for a cause of analysis.transport.roce at a sender's capture."""
    told = {
        NOT_TOLD: f"{length(gap)}; no NAK told of the loss, until the queue pair's timeout sent again",
        NAK_IGNORED: f"{length(gap)}; a NAK had come, but nothing had been acknowledged since the flow last went back, "
        "and such a NAK is ignored; the queue pair's timeout sent again",
    }
    return told.get(cause, f"{length(gap)} with {_bytes(silence.outstanding)} unacknowledged; no rule explains it")


_IDLE = "{} in which everything sent had been acknowledged: the application gave nothing to send"


def idle(gap: Gap) -> str:
    """Why it was the application."""
    return _IDLE.format(length(gap))


def new_data(gap: Gap, silence: Silence) -> str:
    """Why new data out of silence is the application's, and no probe."""
    return (
        f"{length(gap)} with {_bytes(silence.outstanding)} unacknowledged, then new data that drew no sign of a loss: "
        "the application gave it only then"
    )


def zero_window(gap: Gap, number: int) -> str:
    """Why it was the receiver's window."""
    return f"{length(gap)} after the receiver had closed its window (packet {number}): its application did not read"


def not_ready(gap: Gap) -> str:
    """Why it was the receiver's queue pair."""
    return f"{length(gap)} after an RNR NAK: the receiver had no buffer posted for the message"


def paused(gap: Gap, held: Sequence[Span]) -> str:
    """Why it was a pause."""
    inside_ns = total_ns(common([(gap.start_ns, gap.end_ns)], held))
    return f"pause frames held the sender's link for {text.seconds(inside_ns / 1e9)} of {length(gap)}"


def spurious(gap: Gap, event: Retransmission) -> str:
    """Why a timeout was needless."""
    return (
        f"{length(gap)}, then a timeout sent position {event.start:,} again, which had arrived: its acknowledgement "
        "was under way for longer than the timer"
    )


def never_went_on(gap: Gap, outstanding: int) -> str:
    """Why it is not known."""
    return f"{_bytes(outstanding)} were unacknowledged for {length(gap)}, until the capture ended"


def needless_probe(gap: Gap, silence: Silence) -> str:
    """Why a probe that was not needed tells of a late acknowledgement."""
    left = _bytes(silence.outstanding)
    return f"{left} waited {length(gap)} for their acknowledgement; the probe sent then was needless: they had arrived"


def one_of(before: FlowStall, after: FlowStall) -> FlowStall:
    """Two silences of one wait as one."""
    whole = text.seconds((after.end_ns - before.start_ns) / 1e9)
    told = {
        ZERO_WINDOW: f"{whole} with the receiver's window closed, broken by probes alone: its application did not read",
        SPURIOUS: f"the acknowledgement came {whole} after the last packet; a timeout that did not wait for it sent "
        "again what had arrived",
        DELAYED_ACK: f"the acknowledgement came after {whole}; what was sent again meanwhile had arrived",
    }
    return replace(before, end_ns=after.end_ns, last=after.last, reason=told[before.cause])
