"""Federated learning: how fast a model gets good, and what its rounds are made of (a kind, see analysis/kinds).

A run is judged by whether the model that was really trained got as good as asked; where it did, by whether its rounds
took longer than its links need, and if so what that was: losses in an incast, stragglers, or the hosts' processors. The
lecture's claims are judged beside it, from the run and its cases (analysis/kinds/federated_claims.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures import federated as figures_of_federated
from analysis.figures.gantt import clients
from analysis.figures.heat import heat
from analysis.figures.style import Drawn, drawn
from analysis.figures.tail import tail
from analysis.kinds.federated_claims import claims_section
from analysis.kinds.federated_rounds import (
    PHASES,
    best_accuracy,
    cast_of,
    dropped,
    finished,
    ideal_s,
    ratio_of_compression,
    round_s,
    rounds_to_target,
    split,
    tail_round_s,
    tail_upload_s,
    target,
    time_to_target_s,
)
from analysis.measures import kernel_timeouts
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, buffer_drops, processor, proven

CONVERGES, NOT_YET = "converges", "short of the target"
INCAST, STRAGGLERS, PROCESSORS = "slowed by incast", "slowed by stragglers", "slowed by the hosts' processors"
SLOW = "slower than its links"
ROUND_TOLERANCE = 0.1  # of what the links need: handshakes of slow start, and a tier that begins before the other ends
_EXPLAINED = 0.5  # of what a round takes beyond that
_WAITING = PHASES[2]

RULE = (
    "A run converges when the model that is really trained is, in some round, as good as asked on images that nobody "
    "learns from; else it is short of the target, in the rounds it was given. Its rounds are slowed when half of them "
    f"take over {ROUND_TOLERANCE:.0%} longer than the aggregators' links need for all models and updates with the "
    "median computing time between: by incast where queues towards aggregators dropped packets and timeouts followed, "
    "by stragglers where more than half of the excess is waiting for the slowest, by processors where the spec gives "
    "them a cost and neither of the others is there."
)

COLUMNS = (
    Column("round", "round_s", text.seconds, essential=True),
    Column("of links' need", "slowdown", text.times),
    Column("rounds to target", "rounds_to_target", text.count, essential=True),
    Column("time to target", "time_to_target_s", text.seconds, essential=True),
    Column("best accuracy", "best_accuracy", lambda value: _percent(value), essential=True),
    Column("p99 upload", "tail_upload_s", text.seconds),
    Column("sent", "sent_bytes", text.size),
    Column("timeouts", "timeouts", text.count),
    Column("late", "dropped", text.count, on_page=False),
)


def _percent(value: float | None) -> str:
    return text.NOTHING if value is None else f"{100 * value:.1f} %"


def summarize(run: Run) -> dict[str, Any]:
    """Rounds with their accuracy, what they are made of, and the rest of the row."""
    cast = cast_of(run)
    return {
        "federated": {
            **row(run),
            "target": target(run),
            "clients": len(cast.clients) if cast else None,
            "edges": len(cast.edges) if cast else None,
            "ideal_round_s": ideal_s(run),
            "tail_round_s": tail_round_s(run),
            "compression_ratio": ratio_of_compression(run),
            "split_s": split(run),
            "accuracy": [each["accuracy"] for each in finished(run)],
            "loss": [each["loss"] for each in finished(run)],
        }
    }


def row(run: Run) -> dict[str, Any]:
    """What the comparison tells of a run."""
    cast, measured_s, least_s = cast_of(run), round_s(run), ideal_s(run)
    return {
        "round_s": measured_s,
        "slowdown": measured_s / least_s if measured_s and least_s else None,
        "rounds_to_target": rounds_to_target(run),
        "time_to_target_s": time_to_target_s(run),
        "best_accuracy": best_accuracy(run),
        "tail_upload_s": tail_upload_s(run),
        "sent_bytes": cast.sent_bytes if cast else None,
        "timeouts": kernel_timeouts(run),
        "dropped": dropped(run),
    }


# --- verdict


def verdict(run: Run) -> Verdict:
    """Whether it converged, and what slowed it."""
    pieces = (_accuracy(run), _rounds(run), _timeouts(run), _drops(run), _waiting(run), processor(run))
    accurate, quick, *_ = pieces
    if accurate.holds is None or quick.holds is None:
        return Verdict("federated", NOT_PROVEN, pieces)
    cause = "" if quick.holds else _cause(run, pieces)
    reached, good = (CONVERGES, not cause) if accurate.holds else (NOT_YET, None)
    found = Verdict("federated", f"{reached}{cause and f', {cause}'}", pieces, good)
    return proven(found, {CONVERGES, NOT_YET})


def _cause(run: Run, pieces: tuple[Evidence, ...]) -> str:
    """Why rounds take longer than their links need: what explains most of it first."""
    _, _, timeouts, drops, waiting, _ = pieces
    if waiting.holds is False:
        return STRAGGLERS
    if timeouts.holds is False and drops.holds is False:
        return INCAST
    return PROCESSORS if run.spec.get("host_cost") in ("tcp", "rdma") else SLOW


def _accuracy(run: Run) -> Evidence:
    best, rounds = best_accuracy(run), len(finished(run))
    return Evidence(
        name="accuracy",
        configured=_percent(target(run)),
        modelled=None,
        measured=None if best is None else _percent(best),
        unit="",
        tolerance=f"at least the target in one of {rounds} rounds, on the images held out",
        holds=None if best is None else best >= target(run),
        source="fl_rounds of measured.json" if rounds else "measured.json has no finished round",
    )


def _rounds(run: Run) -> Evidence:
    measured_s, least_s = round_s(run), ideal_s(run)
    known = measured_s is not None and least_s is not None
    return Evidence(
        name="median round",
        configured=None,
        modelled=least_s,
        measured=measured_s,
        unit="s",
        tolerance=f"within {ROUND_TOLERANCE:.0%} of what the aggregators' links and the computing need",
        holds=measured_s <= (1 + ROUND_TOLERANCE) * least_s if measured_s is not None and least_s is not None else None,
        source="fl_rounds of measured.json" if known else "measured.json has no finished round",
    )


def _timeouts(run: Run) -> Evidence:
    count = kernel_timeouts(run)
    return Evidence(
        name="timeouts",
        configured=None,
        modelled=0,
        measured=count,
        unit="timeouts",
        tolerance="none",
        holds=None if count is None else count == 0,
        source="counters of measured.json" if count is not None else "measured.json has no counters of the hosts",
    )


def _drops(run: Run) -> Evidence:
    """At the ports towards aggregators: there all send to one."""
    drops, cast, ports = buffer_drops(run), cast_of(run), run.measured.get("ports", {})
    known = drops is not None and cast is not None
    lost = None
    if drops is not None and cast is not None:
        lost = sum(count for port, count in drops.items() if ports.get(port, {}).get("peer") in cast.aggregators)
    return Evidence(
        name="drops towards aggregators",
        configured=f"buffer {run.spec['buffer']}",
        modelled=None,
        measured=lost,
        unit="packets",
        tolerance="none",
        holds=None if lost is None else lost == 0,
        source="queue counters of measured.json" if known else "measured.json has no ports",
    )


def _waiting(run: Run) -> Evidence:
    """What of the mean round's excess is waiting for a client that computes longer than half of the others."""
    parts, least_s = split(run), ideal_s(run)
    excess_s = sum(parts.values()) - least_s if parts and least_s is not None else None
    applies = excess_s is not None and least_s is not None and excess_s > ROUND_TOLERANCE * least_s
    waited_s = parts[_WAITING] if parts else None
    return Evidence(
        name="waiting for stragglers",
        configured=f"spread {run.spec.get('spread')}, quorum {run.spec.get('quorum')}",
        modelled=None,
        measured=waited_s,
        unit="s",
        tolerance=f"at most {_EXPLAINED:.0%} of what a round takes beyond its links' need",
        holds=waited_s <= _EXPLAINED * excess_s if applies and waited_s is not None and excess_s else None,
        source="fl_rounds of measured.json" if applies else "not applicable: rounds take no longer",
        applies=applies,
    )


# --- words


def headline(run: Run) -> str:
    """How good the model got, how soon, and what a round takes."""
    cast, measured_s = cast_of(run), round_s(run)
    if cast is None or measured_s is None:
        return "no round was finished"
    number, best = rounds_to_target(run), best_accuracy(run)
    over = f"{len(cast.clients)} clients" + (f" below {text.counted(len(cast.edges), 'edge')}" if cast.edges else "")
    reached = (
        f"{_percent(target(run))} after {text.counted(number, 'round')}" if number else f"{_percent(best)} at best"
    )
    least_s = ideal_s(run)
    need = f", of which links and computing need {text.seconds(least_s)}" if least_s else ""
    return f"{over}: accuracy {reached}; a round takes {text.seconds(measured_s)}{need}"


def beside(run: Run) -> str:
    """How soon the cases get there."""
    timed = {label: time_to_target_s(case) for label, case in run.cases.items() if case.workload == run.workload}
    told = sorted((time_s, label) for label, time_s in timed.items() if time_s is not None)
    own_s = time_to_target_s(run)
    if not told or own_s is None:
        return ""
    words = ", ".join(f"{label} {text.seconds(time_s)}" for time_s, label in told)
    return f"To {_percent(target(run))}: this run {text.seconds(own_s)}, {words}."


def tiles(run: Run) -> list[tuple[str, str]]:
    """The handful of figures at the top."""
    told = row(run)
    return [
        ("median round", text.seconds(told["round_s"])),
        ("of what links and computing need", text.times(told["slowdown"])),
        ("rounds to target", text.count(told["rounds_to_target"])),
        ("time to target", text.seconds(told["time_to_target_s"])),
        ("best accuracy", _percent(told["best_accuracy"])),
        ("p99 of uploads", text.seconds(told["tail_upload_s"])),
    ]


def figures(run: Run) -> list[Drawn]:
    """Accuracy over time, what rounds are made of, when updates arrive and their tail, the longest round, the links."""
    drawings = {
        "accuracy": figures_of_federated.accuracy,
        "rounds": figures_of_federated.rounds,
        "arrivals": figures_of_federated.arrivals,
        "tail": tail,
        "gantt": clients,
        "heat": heat,
    }
    return [drawn(name, run.path / "figures", partial(draw, run)) for name, draw in drawings.items()]


def sections(run: Run) -> Html:
    """The lecture's claims beside ours, what is learned, and the mean round of every run."""
    return Html(claims_section(run) + _learning(run) + _splits(run))


def _learning(run: Run) -> Html:
    told = run.measured.get("federated")
    if not told:
        return Html("")
    return Html(
        f'<h2>What is learned</h2>\n<p class="soft">scikit-learn\'s digits by a network of {told["parameters"]:,} '
        f"parameters; a fifth of the images is held out. Which digits a client has is skewed: each class is dealt by a "
        f"Dirichlet distribution of concentration {told['alpha']:g}. A round trains {told['epochs']} epoch in batches "
        f"of {told['batch']} with learning rate {told['learning_rate']:g}; updates are averaged by their images "
        f"(McMahan et al., AISTATS 2017) and padded to {text.size(told['update_bytes'])}, a large model's update "
        f"({run.spec['update']}) divided by {run.spec['scale']}. Timeouts and computing times are not divided by "
        f"anything: what share of a round they are follows from that choice.</p>\n"
    )


def _splits(run: Run) -> Html:
    runs = {run.parameters.label: run, **{k: case for k, case in run.cases.items() if case.workload == run.workload}}
    filled = []
    for label, each in runs.items():
        parts = split(each)
        if parts:
            cells = [text.seconds(parts[phase]) for phase in PHASES]
            filled.append([label, *cells, text.seconds(sum(parts.values())), text.seconds(ideal_s(each))])
    heads = ("run", *PHASES, "mean round", "links' need")
    rows = table(heads, filled, numbers=range(1, len(heads)), stacked=True)
    return Html(f"<h2>What a round is made of</h2>\n{rows}\n" if filled else "")


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How much sooner the target is reached, else how much shorter a round is."""
    for key, what in (("time_to_target_s", "to the target"), ("round_s", "a round")):
        if main[key] and row[key]:
            ratio = main[key] / row[key]
            words = f"{text.times(ratio)} faster" if ratio >= 1 else f"{text.times(1 / ratio)} slower"
            return f"{words} {what}"
    return ""
