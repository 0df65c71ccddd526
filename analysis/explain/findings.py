"""What a person should read first: sentences with their numbers, the most important before the others.

They are written for somebody who knows networks and never read an RFC. Each says how sure it is, and what it rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis import text
from analysis.explain.crowd import by_receiver
from analysis.explain.incast import LIKELY_COLLAPSE
from analysis.explain.lost_time import hour_words, is_lost, most_at_once
from analysis.explain.model import (
    CERTAIN,
    LIKELY,
    SENDER,
    UNSURE,
    Explanation,
    Finding,
    FlowStall,
    FlowStory,
    least_sure,
)
from analysis.explain.onset import onset
from analysis.explain.open_findings import damage, unsure
from analysis.explain.pause_findings import pause_findings
from analysis.explain.reasons import (
    NEVER_WENT_ON,
    NOT_LOST,
    NOT_READY,
    SPURIOUS,
    STRAGGLER,
    SYN_AGAIN,
    TIMEOUT,
    ZERO_WINDOW,
)
from analysis.explain.stragglers import waited_for
from analysis.transport.stalls import (
    AFTER_RECOVERY,
    DELAYED_ACK,
    FEW_DUPLICATES,
    FULL_WINDOW,
    LOSS_PROBE,
    LOST_RETRANSMISSION,
    NAK_IGNORED,
    NOT_TOLD,
    PAUSED,
    RACK_TIMER,
    TAIL,
)
from analysis.verdicts import COLLAPSE, NO_COLLAPSE, NOT_PROVEN, Evidence, Verdict

_BECAUSE = {
    TAIL: "because the last packets of their blocks were lost: nothing came after them to tell the receiver, so that "
    "only the sender's timer could find out",
    FULL_WINDOW: "because everything they had in flight was lost: the receiver had nothing to answer to, so that only "
    "the sender's timer could find out",
    LOST_RETRANSMISSION: "because a packet was lost, and the repetition of it was lost too: only the sender's timer "
    "finds a second loss",
    FEW_DUPLICATES: "because too few packets arrived behind a lost one to tell the sender of it, so that it had to "
    "wait for its timer",
    AFTER_RECOVERY: "because more was lost right after a repair, where a sender without SACK does not believe what "
    "the receiver says, and waits for its timer",
    LOSS_PROBE: "because the last packets in flight were lost, until the sender asked with a probe (TLP)",
    RACK_TIMER: "until RACK's short timer repaired a loss that acknowledgements had told of",
    DELAYED_ACK: "because the receiver held its acknowledgement back, to save one (delayed acknowledgement)",
    NOT_TOLD: "because packets were lost and no NAK told the sender, so that its queue pair's timeout had to",
    NAK_IGNORED: "because more was lost while they repeated, and the NAK of that was ignored, so that the queue "
    "pair's timeout had to repair it",
    PAUSED: "because pause frames held their data",
    ZERO_WINDOW: "because the receiving application did not read: its window was closed",
    NOT_READY: "because the receiver had no buffer ready for the message (RNR NAK)",
    SYN_AGAIN: "before they were connected: the first packet of the connection, or its answer, was lost, and is sent "
    "again only after a second or more",
    SPURIOUS: "until a timeout, though nothing had been lost: the acknowledgement was only late",
    TIMEOUT: "until a timeout; what was lost cannot be seen from where the capture was taken",
}
_ORDER = (NEVER_WENT_ON, *_BECAUSE)
_EQUAL = 1.1  # lengths within a tenth of each other are told as one
_MARKED_SHARE = 0.001  # of packets: below it marks are not worth a sentence
_NEEDLESS_SHARE = 0.1
_MANY_MARKS = 100  # without a single echo: somebody does not heed them


def findings(explanation: Explanation) -> tuple[Finding, ...]:
    """The sentences of an explanation that has none yet, the most important first."""
    if not explanation.flows:
        told = [*pause_findings(explanation), _nothing(explanation), *damage(explanation)]
    else:
        told = [each for part in _PARTS for each in part(explanation)]
    return tuple(told)


def _nothing(explanation: Explanation) -> Finding:
    packets = sum(point.packets for point in explanation.points)
    text_ = f"No flow with data was found in {text.counted(packets, 'packet')}."
    return Finding(text_, CERTAIN, "Flows are of TCP, or of RoCEv2 on a reliable connection.")


# --- the verdict


def _incast(explanation: Explanation) -> list[Finding]:
    verdict = next((each for each in explanation.verdicts if each.name == "incast"), None)
    pieces = {piece.name: piece for piece in verdict.evidence} if verdict else {}
    if verdict is None or "goodput" not in pieces:
        return []
    group = next(iter(by_receiver(explanation.once).items()))
    scene = f"{text.counted(most_at_once(group[1]), 'host')} sent to {group[0]} at once"
    fell = _goodput_words(pieces["goodput"])
    if verdict.verdict in (COLLAPSE, LIKELY_COLLAPSE):
        sure = CERTAIN if verdict.verdict == COLLAPSE else LIKELY
        return [Finding(f"Incast collapse: {scene}, and {fell}.", sure, _rests_on(verdict))]
    if verdict.verdict == NO_COLLAPSE and pieces["senders at once"].holds:
        return [Finding(f"No incast collapse: {scene}, and {fell}.", _sureness_of_none(pieces), _rests_on(verdict))]
    if verdict.verdict == NOT_PROVEN:
        return [
            Finding(f"Whether this is incast collapse is not proven: {scene}, and {fell}.", UNSURE, _lacks(verdict))
        ]
    return []


def _sureness_of_none(pieces: Mapping[str, Evidence]) -> str:
    """That nothing collapsed is certain where the link's rate is known, or nothing was lost and no timeout fired."""
    lost = [pieces[name].measured for name in ("timeouts or probes as late", "drops at the hot port") if name in pieces]
    return CERTAIN if "link's rate" in pieces["goodput"].tolerance or set(lost) == {0} else LIKELY


def _goodput_words(piece: Evidence) -> str:
    got, best = (each if isinstance(each, (int, float)) else None for each in (piece.measured, piece.modelled))
    if got is None or best is None:
        return "how much arrived is not known"
    what = "the link carries" if "link's rate" in piece.tolerance else "the link carried at its best"
    return f"{text.rate(got)} arrived where {what} {text.rate(best)}"


def _rests_on(verdict: Verdict) -> str:
    told = [_piece_words(piece) for piece in verdict.evidence if piece.measured is not None and piece.name != "goodput"]
    missing = [piece.source for piece in verdict.evidence if piece.holds is None]
    lacks = f" Not known: {'; '.join(missing)}." if missing else ""
    return f"Evidence: {', '.join(told)}.{lacks}" if told else lacks.strip()


def _piece_words(piece: Evidence) -> str:
    value = piece.measured
    if piece.unit == "s" and isinstance(value, (int, float)):
        return f"{piece.name} for up to {text.seconds(value)}"
    return f"{piece.name}: {value:,}" if isinstance(value, int) else f"{piece.name}: {value}"


def _lacks(verdict: Verdict) -> str:
    missing = [f"{piece.name}: {piece.source}" for piece in verdict.evidence if piece.holds is None]
    against = [_piece_words(piece) for piece in verdict.evidence if piece.holds is False]
    parts = [
        f"Against it: {', '.join(against)}." if against else "",
        f"Not known: {'; '.join(missing)}." if missing else "",
    ]
    return " ".join(filter(None, parts))


# --- stalls


@dataclass(frozen=True)
class _Group:
    """The stalls of one cause, and of how many flows they are."""

    cause: str
    stalls: Sequence[FlowStall]
    flows: int


def _stalls(explanation: Explanation) -> list[Finding]:
    """A sentence for each cause of lost time, the one that cost most first; a flow that never went on before all."""
    flows = explanation.once
    groups = [_group(cause, flows) for cause in _ORDER]
    found = [group for group in groups if group.stalls]
    found.sort(key=lambda group: (group.cause != NEVER_WENT_ON, -sum(stall.seconds for stall in group.stalls)))
    if not found and not any(is_lost(stall) for flow in flows for stall in flow.stalls):
        return [_none_stood_still(flows)]
    return [_stall_finding(group, len(flows)) for group in found]


def _group(cause: str, flows: Iterable[FlowStory]) -> _Group:
    mine = [[stall for stall in flow.stalls if stall.cause == cause] for flow in flows]
    return _Group(cause, [stall for stalls in mine for stall in stalls], sum(map(bool, mine)))


def _none_stood_still(flows: Sequence[FlowStory]) -> Finding:
    """As sure as the captures' positions, and as what each silence was taken for."""
    whom = f"None of {text.counted(len(flows), 'flow')}" if len(flows) > 1 else "The flow never"
    positions = [flow.position_confidence if flow.position == SENDER else LIKELY for flow in flows]
    silences = [stall.confidence for flow in flows for stall in flow.stalls]
    if any(stall.cause not in NOT_LOST for flow in flows for stall in flow.stalls):
        sentence, because = f"{whom} is known to have stood still.", "What cannot be explained is told below."
        return Finding(sentence.replace("The flow never is", "The flow is not"), UNSURE, because)
    sure = least_sure(CERTAIN, *positions, *silences)
    return Finding(f"{whom} stood still with work to do.", sure, "No silence was longer than round trips explain.")


def _stall_finding(group: _Group, flows: int) -> Finding:
    who = f"{group.flows:,} of {text.counted(flows, 'flow')}" if flows > 1 else "The flow"
    longest = max(group.stalls, key=lambda stall: stall.seconds)
    because = f"The longest, of {longest.flow}: {longest.reason}."
    if group.cause == NEVER_WENT_ON:
        return Finding(f"{who} stopped and never went on before the capture ended.", UNSURE, because)
    sure = least_sure(*(stall.confidence for stall in group.stalls))
    return Finding(f"{who} stood still {_how_long(group.stalls)} {_BECAUSE[group.cause]}.", sure, because)


def _how_long(stalls: Sequence[FlowStall]) -> str:
    """ "for 203 ms", "for 203 ms each time, 20 times", "20 times, for 3 ms to 212 ms"."""
    lengths = [stall.seconds for stall in stalls]
    least, most = min(lengths), max(lengths)
    if most <= _EQUAL * least:
        return f"for {text.seconds(most)}" + (f" each time, {len(lengths):,} times," if len(lengths) > 1 else "")
    return f"{len(lengths):,} times, for {text.seconds(least)} to {text.seconds(most)},"


def _lost_time(explanation: Explanation) -> list[Finding]:
    """The share of time lost, where some was."""
    share = explanation.lost_share
    if not share:
        return []
    sentence = f"Of the time in which there was work to do, {share:.1%} was lost standing still: {hour_words(share)}."
    because = "Time in which at least one flow to a receiver stood still and none of the others moved."
    return [Finding(sentence, LIKELY, because)]


def _waits(explanation: Explanation) -> list[Finding]:
    """How often flows waited for the slowest of a round, and which that was most often."""
    waited = [stall for flow in explanation.once for stall in flow.stalls if stall.cause == STRAGGLER]
    names = waited_for(explanation.flows) if waited else {}
    if not names:
        return []
    most, times = next(iter(names.items()))
    flows = text.counted(len({stall.flow for stall in waited}), "flow")
    count, total = text.counted(len(waited), "time"), text.seconds(sum(stall.seconds for stall in waited))
    slowest = most if len(names) == 1 else f"{times:,} times for {most}"
    sentence = (
        f"{flows} that had done their part waited {count}, {total} in all, for the slowest of the round: {slowest}."
    )
    longest = max(waited, key=lambda stall: stall.seconds)
    return [Finding(sentence, LIKELY, f"The longest, of {longest.flow}: {longest.reason}.")]


# --- losses


def _losses(explanation: Explanation) -> list[Finding]:
    """What was lost on which way, by joined captures, else what came only when it was sent again."""
    lost: dict[tuple[str, str], int] = {}
    for hop in explanation.hops:
        lost[hop.first, hop.second] = lost.get((hop.first, hop.second), 0) + len(hop.lost_ns)
    ways: dict[str, int] = {}
    for (_, second), count in lost.items():
        ways[second] = ways.get(second, 0) + count
    told = [
        Finding(
            f"{text.counted(count, 'packet')} {_were(count)} lost on the way to {second}{_filled(explanation)}.",
            CERTAIN,
            "They passed a capture before it and never that one; their receiver did not acknowledge them either.",
        )
        for second, count in sorted(ways.items(), key=lambda item: -item[1])
        if count
    ]
    return [*told, *_upstream(explanation)]


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _filled(explanation: Explanation) -> str:
    if not explanation.fill_s:
        return ""
    return f"; the first burst had filled the queue {text.seconds(explanation.fill_s)} after it began"


def _upstream(explanation: Explanation) -> list[Finding]:
    """What was lost before the first point that saw a flow."""
    found: dict[str, int] = {}
    for flow in explanation.once:
        found[flow.point] = found.get(flow.point, 0) + flow.upstream_losses
    before = "only when sent again: lost, or overtaken, before this point."
    because = "They fill gaps that were there when later packets had passed already."
    return [
        Finding(f"{text.counted(count, 'packet')} came to {point} {before}", LIKELY, because)
        for point, count in found.items()
        if count
    ]


def _onset(explanation: Explanation) -> list[Finding]:
    found = onset(explanation.flows)
    if found is None or explanation.onset_ns is None:
        return []
    begin_ns = min(flow.begin_ns for flow in explanation.flows)
    after = text.seconds((explanation.onset_ns - begin_ns) / 1e9)
    sentence = f"The collapse began {after} after the first packet, with {text.counted(found.senders, 'host')} sending."
    return [
        Finding(sentence, LIKELY, f"The first loss; then all flows to {found.receiver} stood still until a timeout.")
    ]


def _needless(explanation: Explanation) -> list[Finding]:
    flows = explanation.once
    again, needless = sum(flow.resent for flow in flows), sum(flow.spurious for flow in flows)
    if not needless or needless < _NEEDLESS_SHARE * again:
        return []
    sentence = f"{needless:,} of {text.counted(again, 'repetition')} were needless: the first sending had arrived."
    return [
        Finding(sentence, CERTAIN, "Receivers reported data as having come twice, or echoed the first sending's time.")
    ]


# --- marks


def _marks(explanation: Explanation) -> list[Finding]:
    """Marks of congestion, and whether anybody heeded them."""
    flows = explanation.flows
    by_point: dict[str, tuple[int, int, int]] = {}
    for flow in flows:
        before = by_point.get(flow.point, (0, 0, 0))
        by_point[flow.point] = (before[0] + flow.packets, before[1] + flow.ce, before[2] + flow.ece + flow.cnps)
    packets, marked, echoed = max(by_point.values(), key=lambda told: told[1])
    if marked < _MARKED_SHARE * packets:
        return []
    sentence = f"{marked:,} of {text.counted(packets, 'packet')} were marked for congestion instead of dropped"
    if not echoed and marked >= _MANY_MARKS and any(flow.both_ways for flow in flows):
        return [
            Finding(
                f"{sentence}, and no receiver told its sender.", LIKELY, "CE is set, but neither ECE nor a CNP came."
            )
        ]
    told = f"{text.counted(echoed, 'answer')} told the senders"
    return [Finding(f"{sentence}; {told}.", CERTAIN, "CE of the data, ECE of acknowledgements, and CNPs of RoCE.")]


_PARTS: tuple[Callable[[Explanation], list[Finding]], ...] = (
    *(_incast, _stalls, _lost_time, _waits, _losses, _onset),
    *(pause_findings, _needless, _marks, unsure, damage),
)
