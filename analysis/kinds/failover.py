"""Links and switches fail under steady streams: what was lost, and how soon it was over (a kind, see
analysis/kinds).

Two mechanisms are told apart: switches that go round a dead port by themselves lose at most what was on the dead link
and what reached it before they noticed, whatever the controller does; the controller's new rules come later, by its own
latency. In virtual time computing takes no time: what stands for it is `control_latency`. A controller that is killed
as scheduled repairs nothing afterwards, and is not judged for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures.failover import failures_compared, timeline
from analysis.figures.style import Drawn, drawn
from analysis.kinds.losses import CONTROLLER, Failure, begin_ns, died_ns, failures, losses, streams, unattributed
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict

RECOVERS, NOTHING_FAILED = "recovers in time", "nothing failed"
CUT_OFF = "recovers, but for hosts that are cut off"
TOO_LATE, TOO_MANY = "recovers too late", "loses more than it had to"
REPAIRED_LATE, DUPLICATED = "repaired too late", "duplicates datagrams"
LOST_OTHERWISE = "loses datagrams without a failure"
GOOD_S, POOR_S = 1.0, 10.0  # slide 10: failure recovery under 1 s is good, over 10 s poor
REPAIR_S = 0.05  # the controller's new rules, confirmed: a twentieth of the lecture's second
_NO_STREAMS = "measured.json has no streams"
_SHOWN_FLOWS = 12
_COMPUTING = (
    "Heard: the first port event at the controller. Repaired, from then: all switches confirmed the new rules. In "
    "virtual time computing takes no time: control_latency stands for it"
)
_UNNOTICED = "Unnoticed: datagrams of flows with losses that reached a dead port before its switch noticed."
_DEAD = (
    "The controller was killed {} after the streams began; switches kept forwarding by the rules they had, and what "
    "failed afterwards was repaired by none."
)

RULE = (
    f"A run recovers in time when the last loss after each failure comes within {GOOD_S:g} s (slide 10), the "
    f"controller's new rules are confirmed within {text.seconds(REPAIR_S)}, nothing arrives twice and nothing is lost "
    "without a failure; with fast failover, no failure may cost more than was in flight on the links that died and "
    "what reached their ports before the switches noticed. What fails after the controller was killed, it need not "
    "repair."
)


def _switch_words(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, text.NOTHING if value is None else str(value))


COLUMNS = (
    Column("failures", "failures", text.count),
    Column("failover", "fast_failover", _switch_words, is_number=False, essential=True),
    Column("lost", "lost", text.count, essential=True),
    Column("inflight", "in_flight", text.count, essential=True),
    Column("recovery", "recovery_s", text.seconds, essential=True),
    Column("repair", "repair_s", text.seconds),
    Column("longest gap", "longest_gap_s", text.seconds),
)


def summarize(run: Run) -> dict[str, Any]:
    """Each failure with its losses and repair, and each stream's losses."""
    told = row(run)
    return {
        "packets": sum(each["sent"] for each in streams(run)) or None,
        "failover": {
            **{key: told[key] for key in ("lost", "in_flight", "recovery_s", "repair_s", "duplicates", "reordered")},
            "lost_without_failure": unattributed(run),
            "failures": [_told(run, each) for each in failures(run)],
            "streams": {
                each["flow"]: {
                    "sent": each["sent"],
                    "lost": len(each["lost"]),
                    "duplicates": each["duplicates"],
                    "reordered": each["reordered"],
                    "longest_gap_s": each["longest_gap_ns"] / 1e9,
                }
                for each in streams(run)
            },
        },
    }


def _told(run: Run, each: Failure) -> dict[str, Any]:
    return {
        "target": each.target,
        "action": each.action,
        "at_s": (each.time_ns - begin_ns(run)) / 1e9,
        "in_flight": each.in_flight,
        "unnoticed": each.unnoticed,
        "cut_off": each.cut_off,
        "lost": each.lost,
        "recovery_s": recovery_s(each),
        "noticed_s": _s(each.noticed_ns),
        "heard_s": _s(each.heard_ns),
        "repair_s": _s(each.repair_ns),
    }


def _s(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns / 1e9


def recovery_s(each: Failure) -> float | None:
    """From the failure to its last loss; None while a flow had not recovered when its stream ended."""
    return None if each.open_flows else each.last_loss_ns / 1e9


def verdict(run: Run) -> Verdict:
    """Whether the fabric recovered in time, and lost no more than it had to."""
    if not failures(run):
        pieces = [_lost_otherwise(run)]
        answers = {"lost without a failure": LOST_OTHERWISE}
    else:
        exact = [_bound(run)] if run.spec.get("fast_failover") is True else []
        pieces = [_recovery(run), *exact, _repair(run), _duplicates(run), _lost_otherwise(run)]
        answers = dict(zip((piece.name for piece in pieces), _answers(bool(exact))))
    answer = next((answers[piece.name] for piece in pieces if piece.holds is False), None)
    if answer is None:
        is_whole = not any(each.cut_off for each in failures(run))
        good = (RECOVERS if is_whole else CUT_OFF) if failures(run) else NOTHING_FAILED
        answer = good if all(piece.holds for piece in pieces if piece.applies) else NOT_PROVEN
    words = {RECOVERS: True, NOTHING_FAILED: None, NOT_PROVEN: None, CUT_OFF: None}
    return Verdict("failover", answer, tuple(pieces), good=words.get(answer, False))


def _answers(fast: bool) -> tuple[str, ...]:
    """What the verdict is when a piece does not hold, in the order of the pieces."""
    return (TOO_LATE, *([TOO_MANY] if fast else []), REPAIRED_LATE, DUPLICATED, LOST_OTHERWISE)


def _recovery(run: Run) -> Evidence:
    """The longest time from a failure to its last loss. A stream that ends without recovering proves nothing but that
    it took until then."""
    worst = max(failures(run), key=lambda each: (bool(each.open_flows), each.last_loss_ns))
    open_words = f"{text.counted(worst.open_flows, 'stream')} ended before delivery resumed after {worst.name}"
    lasted_s = worst.last_loss_ns / 1e9
    known = not worst.open_flows or lasted_s >= GOOD_S
    return Evidence(
        name="time to recovery",
        configured=None,
        modelled=None,
        measured=lasted_s if known else None,
        unit="s",
        tolerance=f"under {GOOD_S:g} s for every failure (slide 10: good; over {POOR_S:g} s poor)",
        holds=lasted_s < GOOD_S if known else None,
        source="streams of measured.json" if known else open_words,
    )


def _bound(run: Run) -> Evidence:
    """The failure that cost most beyond what switches with detours of their own have to lose, else most at all."""
    worst = max(failures(run), key=lambda each: (max(each.lost - each.allowed, 0), each.lost))
    noticed = text.seconds(_s(worst.noticed_ns))
    late = f"{noticed} later: {worst.unnoticed:,}" if worst.noticed_ns is not None else "no event tells when: 0"
    return Evidence(
        name="lost to a failure",
        configured="fast failover on",
        modelled=worst.allowed,
        measured=worst.lost,
        unit="datagrams",
        tolerance=f"at most what was in flight on what died ({worst.in_flight:,}) and what reached its ports before "
        f"the switches noticed ({late}), and what had no way left ({worst.cut_off:,}), for every failure; here "
        f"{worst.name}",
        holds=worst.lost <= worst.allowed,
        source="streams, failures and control_events of measured.json",
    )


def _repair(run: Run) -> Evidence:
    """The slowest repair by the controller, of what failed while it was alive."""
    links = [each for each in failures(run) if each.target != CONTROLLER]
    owed = [each for each in links if each.repair_ns is not None or not _is_excused(each)]
    missing = [each.name for each in owed if each.repair_ns is None]
    slowest_s = max((each.repair_ns or 0 for each in owed), default=0) / 1e9
    known = bool(owed) and not missing
    excused = len(links) - len(owed)
    dead = f"the controller was dead, killed {text.seconds(_died_s(run))} after the streams began"
    source = "control_events of measured.json" if known else f"no repair after {', '.join(missing) or 'any failure'}"
    return Evidence(
        name="controller's repair",
        configured=f"control latency {run.spec.get('control_latency')}",
        modelled=None,
        measured=slowest_s if known else None,
        unit="s",
        tolerance=f"confirmed under {text.seconds(REPAIR_S)} after the controller heard of the failure"
        + (f"; {text.counted(excused, 'event')} excused: {dead}" if excused and owed else ""),
        holds=slowest_s < REPAIR_S if known else None,
        source=source if owed or not excused else f"not applicable: {dead}",
        applies=bool(owed) or not excused,
    )


def _is_excused(each: Failure) -> bool:
    """Whether the controller had been killed before it would have had to repair this."""
    return each.dead_ns is not None and each.dead_ns > -REPAIR_S * 1e9


def _died_s(run: Run) -> float | None:
    """When the controller was killed as scheduled, in seconds since the streams began."""
    time_ns = died_ns(run)
    return None if time_ns is None else (time_ns - begin_ns(run)) / 1e9


def _duplicates(run: Run) -> Evidence:
    return _none_of(
        "duplicates",
        sum(each["duplicates"] for each in streams(run)),
        "none: a detour must not copy",
        bool(streams(run)),
    )


def _lost_otherwise(run: Run) -> Evidence:
    return _none_of("lost without a failure", unattributed(run), "none", bool(streams(run)))


def _none_of(name: str, found: int, tolerance: str, known: bool) -> Evidence:
    """Evidence that something did not happen to any datagram."""
    return Evidence(
        name=name,
        configured=None,
        modelled=0,
        measured=found if known else None,
        unit="datagrams",
        tolerance=tolerance,
        holds=found == 0 if known else None,
        source="streams of measured.json" if known else _NO_STREAMS,
    )


def headline(run: Run) -> str:
    """What failed, what it cost, and how long it took."""
    sent = sum(each["sent"] for each in streams(run))
    if not sent:
        return "no stream was finished"
    told = row(run)
    cost = f"{text.count(told['lost'])} of {text.counted(sent, 'datagram')} lost"
    if not failures(run):
        return f"nothing failed: {cost}"
    over = f", the last {text.seconds(told['recovery_s'])} after its failure" if told["recovery_s"] else ""
    over = over if told["recovery_s"] is not None else ", and not all streams recovered"
    return f"{_what_failed(run)}: {cost}{over}; {text.count(told['in_flight'])} were in flight on what died"


def _what_failed(run: Run) -> str:
    """What went down or came up, in order: "leaf1-spine1 down, up", "controller down; leaf1-spine1 down, up"."""
    events: dict[str, list[str]] = {}
    for each in failures(run):
        events.setdefault(each.target, []).append(each.action)
    told = [f"{target} {', '.join(actions)}" for target, actions in events.items()]
    return "; ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "")


def beside(run: Run) -> str:
    """What each case lost, and until when."""
    told = [
        f"{label}: {text.count(line['lost'])} lost, {_over(line['recovery_s'])}"
        + ("" if _died_s(case) is None else f" (controller dead from {text.seconds(_died_s(case))} on)")
        for label, case in run.cases.items()
        if case.workload == run.workload
        for line in [row(case)]
    ]
    return text.beside(told)


def _over(recovered_s: float | None) -> str:
    return "not recovered" if recovered_s is None else f"over after {text.seconds(recovered_s)}"


def tiles(run: Run) -> list[tuple[str, str]]:
    """Losses, what was in flight, recovery and repair."""
    told = row(run)
    return [
        ("datagrams lost", text.count(told["lost"])),
        ("in flight on what died", text.count(told["in_flight"])),
        ("time to recovery", text.seconds(told["recovery_s"])),
        ("controller's repair", text.seconds(told["repair_s"])),
        ("longest gap of a flow", text.seconds(told["longest_gap_s"])),
        ("reordered", text.count(told["reordered"])),
    ]


def figures(run: Run) -> list[Drawn]:
    """The losses over time, and the cases beside each other."""
    drawings = {"failover_timeline": timeline, "failover_cases": failures_compared}
    return [drawn(name, run.path / "figures", partial(draw, run)) for name, draw in drawings.items()]


def sections(run: Run) -> Html:
    """Every failure, then the flows that lost most."""
    if not streams(run):
        return Html("")
    return Html(_failures_table(run) + _flows_table(run))


def _failures_table(run: Run) -> str:
    heads = (
        "failure",
        "at",
        "in flight",
        "unnoticed",
        "cut off",
        "lost",
        "last loss after",
        "heard after",
        "repaired, from then",
    )
    rows = [
        [
            each.name,
            text.seconds((each.time_ns - begin_ns(run)) / 1e9),
            text.count(each.in_flight),
            text.count(each.unnoticed),
            text.count(each.cut_off),
            text.count(each.lost),
            "not recovered"
            if each.open_flows
            else text.seconds(each.last_loss_ns / 1e9)
            if each.lost
            else text.NOTHING,
            text.seconds(_s(each.heard_ns)),
            text.seconds(_s(each.repair_ns)),
        ]
        for each in failures(run)
    ]
    shown = table(heads, rows, numbers=range(1, len(heads)), stacked=True)
    latency = f"{_COMPUTING}, here {run.spec.get('control_latency')}."
    dead = f" {_DEAD.format(text.seconds(_died_s(run)))}" if _died_s(run) is not None else ""
    return f'<h2>Failures</h2>\n{shown}\n<p class="soft">{_UNNOTICED} {latency}{dead}</p>\n' if rows else ""


def _flows_table(run: Run) -> str:
    touched = [each for each in streams(run) if each["lost"] or each["duplicates"] or each["reordered"]]
    touched.sort(key=lambda each: (-len(each["lost"]), -each["longest_gap_ns"], text.natural(each["flow"])))
    heads = ("flow", "sent", "lost", "duplicates", "reordered", "longest gap")
    rows = [
        [
            each["flow"],
            text.count(each["sent"]),
            text.count(len(each["lost"])),
            text.count(each["duplicates"]),
            text.count(each["reordered"]),
            text.seconds(each["longest_gap_ns"] / 1e9),
        ]
        for each in touched[:_SHOWN_FLOWS]
    ]
    count = f"{len(touched)} of {text.counted(len(streams(run)), 'flow')} lost, repeated or reordered datagrams."
    shown = table(heads, rows, numbers=range(1, len(heads)), stacked=True) if rows else ""
    return f"<h2>Flows</h2>\n<p>{count}</p>\n{shown}"


def row(run: Run) -> dict[str, Any]:
    """Losses, recovery and repair over all failures of the run."""
    found, flows = failures(run), streams(run)
    recoveries = [recovery_s(each) for each in found]
    repairs = [each.repair_ns for each in found if each.repair_ns is not None]
    return {
        "failures": len(found),
        "fast_failover": run.spec.get("fast_failover"),
        "lost": len(losses(run)) if flows else None,
        "in_flight": sum(each.in_flight for each in found),
        "recovery_s": max((each or 0 for each in recoveries), default=None) if None not in recoveries else None,
        "repair_s": max(repairs) / 1e9 if repairs else None,
        "longest_gap_s": max((each["longest_gap_ns"] for each in flows), default=0) / 1e9 if flows else None,
        "duplicates": sum(each["duplicates"] for each in flows) if flows else None,
        "reordered": sum(each["reordered"] for each in flows) if flows else None,
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How many datagrams more or fewer are lost."""
    if main["lost"] is None or row["lost"] is None:
        return ""
    more = row["lost"] - main["lost"]
    return "as many lost" if not more else f"{text.count(abs(more))} {'more' if more > 0 else 'fewer'} lost"
