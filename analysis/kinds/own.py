"""A workload of the user's own: how long its transfers took, and what the fabric lost of them (a kind, see
analysis/kinds). Of what it asks nothing is known but what its run tells."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from statistics import median
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures.gantt import gantt
from analysis.figures.heat import heat
from analysis.figures.style import Drawn, drawn
from analysis.figures.tail import tail
from analysis.measures import cnps, data_packets, kernel_timeouts, marks, pauses, retransmits
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.spec import own_name
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, goodput_bps, median_seconds, processor, total_drops

WHOLE, LOSSY = "all arrived, nothing was lost", "all arrived, some of it sent again"
_KEYS = ("flow", "start_ns", "end_ns", "bytes")
_SHOWN_FLOWS = 16
_UNTOLD_OF_ROCE = "soft-RoCE counts all packets alike; what is sent again has been dropped before"
RULE = (
    "All has arrived when the run came to its end, for a round ends with its last transfer; nothing was lost when no "
    "queue dropped a packet and nothing was sent again."
)

COLUMNS = (
    Column("transfers", "transfers", text.count),
    Column("goodput", "goodput_bps", text.rate, essential=True),
    Column("median round", "median_round_seconds", text.seconds, essential=True),
    Column("median transfer", "median_transfer_seconds", text.seconds),
    Column("slowest", "slowest_transfer_seconds", text.seconds, essential=True),
    Column("drops", "drops", text.count, essential=True),
    Column("resent", "retransmits", text.count),
    Column("timeouts", "timeouts", text.count, essential=True),
    Column("marks", "ecn_marks", text.count),
    Column("CNPs", "cnps", text.count),
    Column("pauses", "pfc_pauses", text.count),
)


def name(run: Run) -> str:
    """What the workload's class is called."""
    return own_name(run.given("workload"))


def transfer_seconds(run: Run) -> dict[str, list[float]]:
    """How long each transfer of each flow took, from its start to the arrival of its last byte."""
    entries = run.entries("transfers", _KEYS, whole=_KEYS[1:]) if "transfers" in run.measured else []
    found: dict[str, list[float]] = {}
    for each in entries:
        found.setdefault(each["flow"], []).append((each["end_ns"] - each["start_ns"]) / 1e9)
    return found


def summarize(run: Run) -> dict[str, Any]:
    """Goodput over the rounds, and how long transfers took."""
    told = row(run)
    return {
        "packets": data_packets(run),
        "goodput_bps": told["goodput_bps"],
        "own": {
            "name": name(run),
            **{key: value for key, value in told.items() if key.endswith("_seconds")},
            "transfers": told["transfers"],
            "flows": {
                flow: {"transfers": len(took), "seconds": sum(took)} for flow, took in transfer_seconds(run).items()
            },
        },
    }


def verdict(run: Run) -> Verdict:
    """Whether all has arrived, and whether the fabric lost some of it on the way."""
    pieces = (_ended(run), _lost(run, "drops", total_drops(run)), _lost(run, "sent again", retransmits(run)))
    beside = (_lost(run, "timeouts", kernel_timeouts(run)), processor(run))
    ended, *lost = (piece.holds for piece in pieces if piece.applies)
    if not ended or None in lost or not beside[-1].holds:
        return Verdict("own", NOT_PROVEN, (*pieces, *beside))
    return Verdict("own", WHOLE if all(lost) else LOSSY, (*pieces, *beside), good=True if all(lost) else None)


def _ended(run: Run) -> Evidence:
    return Evidence(
        name="rounds that ended",
        configured=run.given("rounds"),
        modelled=None,
        measured=len(run.rounds),
        unit="rounds",
        tolerance="all",
        holds=bool(run.rounds) and bool(run.measured.get("complete")) and len(run.rounds) == run.given("rounds"),
        source="rounds of measured.json",
    )


def _lost(run: Run, what: str, found: int | None) -> Evidence:
    told = found is not None
    untold = _UNTOLD_OF_ROCE if run.parameters.is_roce else "no file tells"
    return Evidence(
        name=what,
        configured=None,
        modelled=0,
        measured=found,
        unit="packets" if what != "timeouts" else "timeouts",
        tolerance="none",
        holds=found == 0 if told else None,
        source="measured.json, counters of queues and kernels" if told else untold,
        applies=told or not run.parameters.is_roce,
    )


def headline(run: Run) -> str:
    """How long its rounds and transfers took, and what was lost."""
    told = row(run)
    if told["median_round_seconds"] is None:
        return f"{name(run)}: no round was finished"
    took = f"rounds take {text.seconds(told['median_round_seconds'])}, a transfer {_median(told)}"
    lost = f"{text.counted(told['drops'] or 0, 'packet')} dropped, {text.counted(told['timeouts'] or 0, 'timeout')}"
    return f"{name(run)}: {took}; {text.rate(told['goodput_bps'])} in all; {lost}"


def _median(told: Mapping[str, Any]) -> str:
    usual, slowest = (text.seconds(told[key]) for key in ("median_transfer_seconds", "slowest_transfer_seconds"))
    return f"{usual} (the slowest {slowest})"


def beside(run: Run) -> str:
    """How long the rounds took in the cases of the same kind."""
    alike = {label: case for label, case in run.cases.items() if case.workload == run.workload}
    told = [f"{label} {text.seconds(median_seconds(case.rounds))}" for label, case in alike.items() if case.rounds]
    return f"The median round in the cases: {', '.join(told)}." if told else ""


def tiles(run: Run) -> list[tuple[str, str]]:
    """Rounds, transfers, goodput, and what was lost."""
    told = row(run)
    return [
        ("rounds", text.count(len(run.rounds))),
        ("median round", text.seconds(told["median_round_seconds"])),
        ("transfers", text.count(told["transfers"])),
        ("median transfer", text.seconds(told["median_transfer_seconds"])),
        ("slowest transfer", text.seconds(told["slowest_transfer_seconds"])),
        ("goodput of all", text.rate(told["goodput_bps"])),
        ("drops", text.count(told["drops"])),
        ("sent again", text.count(told["retransmits"])),
        ("timeouts", text.count(told["timeouts"])),
    ]


def figures(run: Run) -> list[Drawn]:
    """When transfers were on their way, how long they took, and use of the links."""
    drawings = {"gantt": gantt, "tail": tail, "heat": heat}
    return [drawn(key, run.path / "figures", partial(draw, run)) for key, draw in drawings.items()]


def sections(run: Run) -> Html:
    """The flows that were under way for longest."""
    found = sorted(transfer_seconds(run).items(), key=lambda item: (-sum(item[1]), text.natural(item[0])))
    rows = [
        [flow, text.count(len(took)), text.seconds(sum(took)), text.seconds(median(took)), text.seconds(max(took))]
        for flow, took in found[:_SHOWN_FLOWS]
    ]
    heads = ("flow", "transfers", "under way for", "median", "slowest")
    return Html(f"<h2>The busiest flows</h2>\n{table(heads, rows, numbers=(1, 2, 3, 4))}" if rows else "")


def row(run: Run) -> dict[str, Any]:
    """How long rounds and transfers took, and what was lost."""
    took = [seconds for each in transfer_seconds(run).values() for seconds in each]
    return {
        "transfers": len(took) if took else None,
        "goodput_bps": goodput_bps(run.rounds),
        "median_round_seconds": median_seconds(run.rounds),
        "median_transfer_seconds": median(took) if took else None,
        "slowest_transfer_seconds": max(took, default=None),
        "drops": total_drops(run),
        "retransmits": retransmits(run),
        "timeouts": kernel_timeouts(run),
        "ecn_marks": marks(run),
        "cnps": cnps(run),
        "pfc_pauses": pauses(run),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How long the median round took beside main's."""
    if not main.get("median_round_seconds") or not row.get("median_round_seconds"):
        return ""
    return f"rounds {text.times(row['median_round_seconds'] / main['median_round_seconds'])}"
