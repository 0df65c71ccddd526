"""What a verdict is, and the first of them: whether a run shows incast collapse. Each piece of evidence comes with
its configured, modelled and measured value.

Throughput can fall for many reasons. It is called incast collapse only when four things are found together,
besides the fall itself: retransmission timeouts in the flows, drops at the one hot port and nowhere else, a
link there that is idle for about RTOmin at a time, and a CPU that kept up. Over RoCE the timeouts are those of queue
pairs, the idle time is about theirs, and flows must have gone back (go-back-N) as well. Evidence without its files
makes the verdict "not proven", and says which file is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Union

import numpy as np

from analysis import text
from analysis.fidelity import FAITHFUL, NOT_MEASURED, UNFAITHFUL, Fidelity, judge
from analysis.queues import longest_idle_ns
from analysis.run import Run
from analysis.spec import Parameters
from analysis.transport.events import GO_BACK_N, RTO
from analysis.transport.retransmits import Resent
from analysis.transport.roce import NAK, QP_TIMEOUT, QP_TIMEOUT_NS
from analysis.transport.stalls import LOSS_PROBE, Round

COLLAPSE, NO_COLLAPSE, NOT_PROVEN = "incast collapse", "no collapse", "not proven"
COLLAPSE_SHARE = 0.5  # at most half of the goodput that there would be without loss
_LOSSLESS_PORT = "pfc"
_LOSSLESS_KINDS = (_LOSSLESS_PORT, "rnic")  # of queues: of a switch port, of a NIC
SHORTEST_IDLE = 0.5  # of the timer: other flows' packets may break the silence of those that wait
# The RTO adds a smoothed round trip to RTOmin (RFC 6298); the timer wheel fires up to an eighth late, and
# rounds up to ticks, of which the lab kernel has 1000 a second (kernel/time/timer.c).
LONGEST_IDLE = 1.25
TICKS_S = 0.002

Value = Union[float, int, str, None]


@dataclass(frozen=True)
class Evidence:
    """One piece: its values (None: there is none), their unit, the tolerance in words, the file it was read
    from, and whether it holds.

    holds is None when the evidence is missing; `source` then says what is missing. Evidence that does not apply to the
    run decides nothing; `source` then says why.
    """

    name: str
    configured: Value
    modelled: Value
    measured: Value
    unit: str
    tolerance: str
    holds: bool | None
    source: str
    applies: bool = True


@dataclass(frozen=True)
class Verdict:
    """A named question and its answer in a few words (NOT_PROVEN where evidence lacks), with the evidence; good:
    whether the answer is good news, None when it is neither."""

    name: str
    verdict: str
    evidence: tuple[Evidence, ...]
    good: bool | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """What the evidence lacks, in words."""
        return tuple(piece.source for piece in self.evidence if piece.applies and piece.holds is None)


def incast_verdict(run: Run) -> Verdict:
    """Whether `run` shows incast collapse, from its files alone."""
    own = (_went_back(run),) if run.parameters.is_roce else ()
    pieces = (_goodput(run), _timeouts(run), _drops(run), *own, _idle_link(run), processor(run))
    answer = _answer(pieces) if "ports" in run.measured else NOT_PROVEN
    return Verdict("incast", answer, pieces, good={COLLAPSE: False, NO_COLLAPSE: True}.get(answer))


def _answer(pieces: Sequence[Evidence]) -> str:
    """Goodput kept: no collapse. Lost, with nothing dropped and no timeout: none either. All the evidence there:
    collapse. Else neither is proven, and nothing is where the CPU did not keep up: slow senders fill no buffer."""
    goodput, timed_out, dropped, *_, processor = pieces
    if not processor.holds:
        return NOT_PROVEN
    if goodput.holds is False or (goodput.holds and timed_out.measured == 0 and dropped.measured == 0):
        return NO_COLLAPSE
    return COLLAPSE if all(piece.holds for piece in pieces) else NOT_PROVEN


def median_seconds(rounds: Sequence[Round]) -> float | None:
    """The median length of the rounds; None without any."""
    return median(each.seconds for each in rounds) if rounds else None


def goodput_bps(rounds: Sequence[Round]) -> float | None:
    """Payload bits of all rounds over the seconds of all rounds; None without any."""
    seconds = sum(each.seconds for each in rounds)
    return sum(each.payload_bytes for each in rounds) * 8 / seconds if seconds else None


def goodput_without_loss_bps(spec: Parameters) -> float:
    """Payload bits per second of the round that nothing is lost in."""
    return spec.senders * spec.sender_bytes * 8 / spec.ideal_seconds


def _goodput(run: Run) -> Evidence:
    spec, measured = run.parameters, goodput_bps(run.rounds)
    without_loss = goodput_without_loss_bps(spec)
    return Evidence(
        name="goodput",
        configured=spec.path.rate_bps,
        modelled=without_loss,
        measured=measured,
        unit="b/s",
        tolerance=f"at most {COLLAPSE_SHARE:g} of the goodput without loss",
        holds=None if measured is None else measured <= COLLAPSE_SHARE * without_loss,
        source="rounds of measured.json" if run.rounds else "measured.json has no finished round",
    )


def _timeouts(run: Run) -> Evidence:
    """RTOs, and loss probes that waited as long: Linux probes a flight of one segment when its RTO is due. Over RoCE
    the timeouts of queue pairs."""
    if run.parameters.is_roce:
        return _pair_timeouts(run)
    fired, source = timeouts(run)
    late = _late_probes(run)
    known = fired is not None and (fired > 0 or late is not None)
    probes = f"; {text.counted(late, 'loss probe')} of RTOmin or longer among them" if late else ""
    return Evidence(
        name="timeouts or probes as late",
        configured=None,
        modelled=None,
        measured=(fired or 0) + (late or 0) if known else None,
        unit="waits",
        tolerance=f"at least 1{probes}",
        holds=(fired or 0) + (late or 0) >= 1 if known else None,
        source=source if known or fired is None else f"{source} is 0, but without captures loss probes may have waited",
    )


def _pair_timeouts(run: Run) -> Evidence:
    fired, source = timeouts(run)
    return Evidence(
        name="queue pairs' timeouts",
        configured=None,
        modelled=None,
        measured=fired,
        unit="timeouts",
        tolerance="at least 1",
        holds=None if fired is None else fired >= 1,
        source=source,
    )


def _went_back(run: Run) -> Evidence:
    """Go-back-N: packets that arrive behind a loss are sent once more."""
    count, source = _go_backs(run)
    return Evidence(
        name="flows that went back",
        configured=None,
        modelled=None,
        measured=count,
        unit="times",
        tolerance=f"at least 1 (go-back-N){_sent_again(run)}",
        holds=None if count is None else count >= 1,
        source=source,
    )


def _go_backs(run: Run) -> tuple[int | None, str]:
    if all_captured(run):
        return sum(event.kind != GO_BACK_N for event in _all_resent(run)), "sender captures"
    if run.roce_counters is not None:
        return _counted(run, "completer_retry_err"), "soft-RoCE counter completer_retry_err"
    return None, "no sender captures and no soft-RoCE counters"


def _sent_again(run: Run) -> str:
    """What going back cost, and what made the flows do it, in words."""
    if not all_captured(run):
        return ""
    kinds = [event.kind for event in _all_resent(run)]
    causes = f"{text.counted(kinds.count(NAK), 'NAK')} and {text.counted(kinds.count(QP_TIMEOUT), 'timeout')}"
    return f"; {text.counted(len(kinds), 'packet')} sent again, after {causes}" if kinds else ""


def _all_resent(run: Run) -> list[Resent]:
    return [event for events in run.retransmissions.values() for event in events]


def _counted(run: Run, counter: str) -> int:
    """One of soft-RoCE's counters over all hosts."""
    return sum(told.get(counter, 0) for told in (run.roce_counters or {}).values())


def timeouts(run: Run) -> tuple[int | None, str]:
    """How often an RTO, or the timeout of a queue pair, fired during the rounds, and the source of the figure; None
    when no file tells.
    """
    if all_captured(run):
        return sum(event.kind in (RTO, QP_TIMEOUT) for event in _all_resent(run)), "sender captures"
    if run.parameters.is_roce:
        return _least_timeouts(run)
    if run.tcp_counters is not None:
        return run.tcp_counters.get("TCPTimeouts", 0), "kernel counter TCPTimeouts"
    return None, "no sender captures and no kernel counters"


def _least_timeouts(run: Run) -> tuple[int | None, str]:
    """Soft-RoCE counts how often senders went back, for a NAK or a timeout, and all NAKs, also those that it ignored:
    the difference was timeouts at least."""
    if run.roce_counters is None:
        return None, "no sender captures and no soft-RoCE counters"
    went_back, naks = (_counted(run, name) for name in ("completer_retry_err", "out_of_seq_request"))
    if went_back and went_back <= naks:
        return None, "no sender captures, and soft-RoCE's counters do not tell timeouts from NAKs"
    return went_back - naks if went_back else 0, "soft-RoCE counters completer_retry_err less out_of_seq_request"


def _late_probes(run: Run) -> int | None:
    """Loss probes that waited for RTOmin or longer; None when neither captures nor the absence of probes tell."""
    if all_captured(run):
        rto_min_s = run.parameters.rto_min_ns / 1e9
        return sum(stall.cause == LOSS_PROBE and stall.seconds >= rto_min_s for stall in run.stalls)
    return 0 if run.tcp_counters is not None and not run.tcp_counters.get("TCPLossProbes") else None


def all_captured(run: Run) -> bool:
    """Whether every sender's flow was captured, and there is a round to look at."""
    return bool(run.rounds and run.sent_flows) and len(run.sent_flows) == run.parameters.senders


def port_drops(ports: Mapping[str, Any]) -> dict[str, int]:
    """Packets dropped at each port that dropped any; a drop is counted again at every level above, so the
    largest count is the port's."""
    drops = {
        name: max((qdisc.get("drops", 0) for qdisc in port.get("qdiscs", [])), default=0)
        for name, port in ports.items()
    }
    return {name: count for name, count in sorted(drops.items()) if count}


def _stacks(run: Run) -> dict[str, Any]:
    """The queues of each switch port and NIC."""
    nics = {f"{host}-eth0": nic for host, nic in run.measured.get("nics", {}).items()}
    return {**run.measured.get("ports", {}), **nics}


def all_drops(run: Run) -> dict[str, int] | None:
    """Packets dropped at each switch port and NIC that dropped any, those that a watchdog discarded among them; None
    where no counters tell (a lab that died)."""
    return port_drops(_stacks(run)) if "ports" in run.measured else None


def total_drops(run: Run) -> int | None:
    """Packets dropped at all switch ports and NICs; None where no counters tell."""
    drops = all_drops(run)
    return None if drops is None else sum(drops.values())


def watchdog_discards(run: Run) -> dict[str, int] | None:
    """Packets that each port's watchdog discarded, those that discarded none left out; None where no counters tell."""
    if "ports" not in run.measured:
        return None
    found = {
        name: sum(queue.get("discards", 0) for queue in stack.get("qdiscs", [])) for name, stack in _stacks(run).items()
    }
    return {name: count for name, count in found.items() if count}


def total_discards(run: Run) -> int | None:
    """Packets that watchdogs discarded; None for a run without PFC, and where no counters tell."""
    discards = watchdog_discards(run) if run.parameters.pfc else None
    return None if discards is None else sum(discards.values())


def buffer_drops(run: Run) -> dict[str, int] | None:
    """Packets for which a port or NIC had no room, those that had room for all left out: what was dropped less what
    a watchdog discarded; None where no counters tell."""
    drops, discards = all_drops(run), watchdog_discards(run)
    if drops is None or discards is None:
        return None
    found = {name: count - discards.get(name, 0) for name, count in drops.items()}
    return {name: count for name, count in found.items() if count > 0}


def pfc_queues(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lossless classes of all switch ports and NICs, with their counters."""
    stacks = [*measured.get("ports", {}).values(), *measured.get("nics", {}).values()]
    return [queue for stack in stacks for queue in stack.get("qdiscs", []) if queue.get("kind") in _LOSSLESS_KINDS]


def tells_of_pfc(run: Run) -> bool:
    """Whether the counters are those of lossless classes: the hot port's queues, or any port's where none is hot, have
    one of a kind that is known."""
    ports = run.measured.get("ports", {})
    asked = [ports[run.hot_port]] if run.hot_port else ports.values()
    return any(queue.get("kind") == _LOSSLESS_PORT for port in asked for queue in port.get("qdiscs", []))


def lossless_drops(run: Run) -> int | None:
    """Packets that a lossless class had no room for, where PFC was to prevent that; what a watchdog discarded is not
    among them. None without PFC, and where no file tells."""
    if not run.parameters.pfc or not tells_of_pfc(run):
        return None
    return sum(queue.get("drops", 0) - queue.get("discards", 0) for queue in pfc_queues(run.measured))


def _drops(run: Run) -> Evidence:
    known = "ports" in run.measured and run.hot_port is not None
    drops, discards = buffer_drops(run) or {}, total_discards(run)
    hot = drops.pop(run.hot_port or "", 0)
    missing = "measured.json names no hot port" if "ports" in run.measured else "measured.json has no ports"
    return Evidence(
        name="drops at the hot port",
        configured=f"{run.parameters.traffic_class} class, buffer {run.spec['buffer']}",
        modelled=None,
        measured=hot if known else None,
        unit="packets",
        tolerance="at least 1, and none at any other port"
        + "".join(f"; {port} dropped {count}" for port, count in drops.items())
        + (f"; beside them a watchdog discarded {discards}" if discards else ""),
        holds=hot >= 1 and not drops if known else None,
        source=f"queue counters of {run.hot_port}" if known else missing,
    )


def _idle_link(run: Run) -> Evidence:
    """The longest time within a round for which nothing left the hot port.

    Where only a lower bound is known, one outside the allowed range says nothing: the link may have been idle for
    longer, or more than once.
    """
    is_roce = run.parameters.is_roce
    timer_s = (QP_TIMEOUT_NS if is_roce else run.parameters.rto_min_ns) / 1e9
    shortest_s = SHORTEST_IDLE * timer_s
    longest_s = LONGEST_IDLE * timer_s * 2 ** _backoffs(run) + TICKS_S
    told = "a queue pair's timeout, ticks included" if is_roce else "RTOmin, ticks and backoff included"
    allowed = f"{text.seconds(shortest_s)} to {text.seconds(longest_s)}"
    gaps, source = idle_gaps_ns(run)
    measured = max(gaps) / 1e9 if gaps else None
    if measured is None and run.rounds:
        measured, source = _idle_by_counters_s(run, shortest_s, longest_s)
    return Evidence(
        name="idle link",
        configured=timer_s,
        modelled=timer_s + 2 * run.parameters.path.delay_ns / 1e9,
        measured=measured,
        unit="s",
        tolerance=f"{allowed}: about {told}",
        holds=None if measured is None else shortest_s <= measured <= longest_s,
        source=source,
    )


def idle_gaps_ns(run: Run) -> tuple[list[int], str]:
    """For each round, the longest time in which no data left the hot port, and the source; no gaps when no
    file tells."""
    if not run.rounds:
        return [], "measured.json has no finished round"
    if run.has_capture(run.hot_port):
        packets = run.packets(str(run.hot_port))
        times = np.sort(packets.time_ns[packets.payload_bytes > 0])
        return [_longest_gap_ns(times, each) for each in run.rounds], f"capture at {run.hot_port}"
    series = run.queue(run.hot_port)
    if series is not None:
        return [
            longest_idle_ns(series, each.start_ns, each.end_ns) for each in run.rounds
        ], f"queue samples of {run.hot_port}"
    return [], f"no capture and no queue samples of the hot port {run.hot_port}"


def _idle_by_counters_s(run: Run, shortest_s: float, longest_s: float) -> tuple[float | None, str]:
    """The longest round less the time that all bytes ever sent took at line rate: idle for at least that long;
    None when that is not within the range that decides, and the source or what is missing."""
    stack = run.measured.get("ports", {}).get(run.hot_port, {}).get("qdiscs", [])
    sent_bytes = next((qdisc["bytes"] for qdisc in stack if qdisc.get("parent") == "root" and "bytes" in qdisc), None)
    if sent_bytes is None:
        return None, f"no capture, no queue samples and no byte counter of the hot port {run.hot_port}"
    longest_ns = max(each.end_ns - each.start_ns for each in run.rounds)
    busy_ns = sent_bytes * 8 * 10**9 // run.parameters.path.rate_bps
    bound_s = max(longest_ns - busy_ns, 0) / 1e9
    if shortest_s <= bound_s <= longest_s:
        return bound_s, f"longest round and bytes sent by {run.hot_port}"
    proven = f"its byte counter proves {text.seconds(bound_s)} of silence in the longest round, in one piece or many"
    return None, f"no capture and no queue samples of the hot port {run.hot_port}; {proven}"


def _longest_gap_ns(times: np.ndarray, within: Round) -> int:
    first, last = np.searchsorted(times, [within.start_ns, within.end_ns])
    return int(np.diff(np.concatenate([[within.start_ns], times[first:last], [within.end_ns]])).max())


def _backoffs(run: Run) -> int:
    """How often in a row a flow's timeout was doubled: the most RTOs that one segment needed, less one."""
    counts: dict[tuple[str, int], int] = {}
    for name, events in run.retransmissions.items() if run.rounds else ():
        for event in events:
            if event.kind == RTO:
                counts[name, event.start] = counts.get((name, event.start), 0) + 1
    return max(counts.values(), default=1) - 1


def processor(run: Run) -> Evidence:
    """Whether the CPU kept up: in virtual time, in which computing takes no time, it did; on the real clock if the run
    is faithful (analysis/fidelity.py)."""
    return kept_up(judge(run))


def proven(found: Verdict, facts: Collection[str] = ()) -> Verdict:
    """The verdict, which is "not proven" where the CPU did not keep up or nobody measured whether it did: what took how
    long, and what was dropped, is then the processor's doing as well. `facts`: answers that stand on any clock."""
    kept = all(piece.holds for piece in found.evidence if piece.name == _KEPT_UP)
    return found if kept or found.verdict in facts else replace(found, verdict=NOT_PROVEN, good=None)


def kept_up(fidelity: Fidelity | None) -> Evidence:
    """The same from what is known of a run's fidelity; None: it was on the virtual clock."""
    is_virtual = fidelity is None
    return Evidence(
        name=_KEPT_UP,
        configured="virtual clock" if is_virtual else "real clock",
        modelled=None,
        measured=None if fidelity is None else fidelity.verdict,
        unit="",
        tolerance="always, in virtual time" if is_virtual else "on the real clock every limit of its fidelity holds",
        holds=True if fidelity is None else _HOLDS[fidelity.verdict],
        source="clock of spec.yaml" if fidelity is None else fidelity.words,
    )


_KEPT_UP = "CPU kept up"
_HOLDS = {FAITHFUL: True, UNFAITHFUL: False, NOT_MEASURED: None}
