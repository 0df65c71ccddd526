"""Two clocks compared: the same incast in virtual time and on the machine's real clock (a kind, see analysis/kinds)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

from analysis import text
from analysis.columns import Column, Table
from analysis.fidelity import FAITHFUL, UNFAITHFUL
from analysis.figures.clocks import ratios, rounds
from analysis.figures.flows import sequence, timeline
from analysis.figures.style import Drawn, drawn
from analysis.kinds import incast
from analysis.kinds.clock_pairs import (
    GOODPUT,
    GOODPUT_TOLERANCE,
    RATE_TOLERANCE,
    Pair,
    Quantity,
    busy_rate_bps,
    clock,
    fidelity_words,
    pairs,
)
from analysis.measures import kernel_timeouts, queue_bytes, retransmits
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, goodput_bps, incast_verdict, median_seconds, total_drops

AGREE, DIFFER, UNDECIDED = "agree", "differ", "undecided"

RULE = (
    f"Two runs of one spec agree when the busy port's rate is within {RATE_TOLERANCE:.0%}, goodput within "
    f"{GOODPUT_TOLERANCE:.0%}, and the incast verdict is the same; one that is not proven, as of an unfaithful run, "
    "decides nothing. Where goodput alone is apart, chance may have decided, as of two seeds; where rate or verdict "
    "differ, the fidelity guard has to call the run on the real clock unfaithful."
)

COLUMNS = (
    Column("clock", "clock", is_number=False, essential=True),
    Column("line", "line_bps", text.rate, essential=True),
    Column("busy port", "busy_rate_bps", text.rate),
    Column("goodput", "goodput_bps", text.rate, essential=True),
    Column("median round", "median_round_seconds", text.seconds),
    Column("timeouts", "timeouts", text.count),
    Column("drops", "drops", text.count),
    Column("resent", "retransmits", text.count),
    Column("queue max", "queue_max_bytes", text.size),
    Column("shows", "shows", is_number=False),
)
_HEADS = {
    "line": "line",
    "quantity": "quantity",
    "virtual": "virtual time",
    "real": "real clock",
    "ratio": "real / virtual",
    "tolerance": "tolerance",
    "agrees": "agree",
}
_WORDS = {True: AGREE, False: DIFFER, None: UNDECIDED}
_COMPARED = {**_WORDS, None: "cannot be compared"}
_NUMBERS = ("virtual", "real", "ratio")


@lru_cache(maxsize=16)  # a report asks many times
def _pairs(run: Run) -> tuple[Pair, ...]:
    return tuple(pairs(run))


def summarize(run: Run) -> dict[str, Any]:
    """What an incast tells; and of each pair every quantity on both clocks, the verdicts, and whether they agree."""
    return {**incast.summarize(run), "clocks": {pair.name: _told(pair) for pair in _pairs(run)}}


def _told(pair: Pair) -> dict[str, Any]:
    quantities = {
        each.name: {
            "virtual": each.virtual,
            "real": each.real,
            "ratio": each.ratio,
            "tolerance": each.tolerance,
            "agrees": each.agrees,
        }
        for each in pair.quantities
    }
    virtual, real = pair.verdicts
    verdicts = {"virtual": virtual, "real": real, "agrees": pair.same_verdict}
    return {"quantities": quantities, "verdict": verdicts, "fidelity": pair.guard, "agrees": pair.agrees}


def verdict(run: Run) -> Verdict:
    """Where the clocks agree; of a run without its like on the other clock, what the incast shows."""
    found = _pairs(run)
    if not found:
        return incast_verdict(run)
    pieces = tuple(piece for pair in found for piece in (*_evidence(pair), _same(pair), _guarded(pair)))
    return Verdict("clocks", _answer(found), pieces, good=_is_good(found))


def _answer(found: tuple[Pair, ...]) -> str:
    told = []
    for agrees, words in _WORDS.items():
        names = [pair.name for pair in found if pair.agrees is agrees and not pair.by_chance]
        told += [f"{words} at {' and '.join(names)}"] if names else []
    told += [f"{AGREE} at {pair.name} but for {GOODPUT} ({pair.by_chance})" for pair in found if pair.by_chance]
    return f"clocks {', '.join(told)}" if any(pair.agrees is not None for pair in found) else NOT_PROVEN


def _is_good(found: tuple[Pair, ...]) -> bool | None:
    """Good where all agree, bad where a difference was not warned of."""
    if any(_warned(pair) is False for pair in found):
        return False
    return True if all(pair.agrees for pair in found) else None


def _warned(pair: Pair) -> bool | None:
    """Whether the guard warned where the clocks differ by more than chance; None where it measured nothing, or too
    little is known."""
    if pair.agrees or pair.by_chance:
        return True
    return None if pair.agrees is None or pair.guard not in (FAITHFUL, UNFAITHFUL) else pair.guard == UNFAITHFUL


def _evidence(pair: Pair) -> list[Evidence]:
    return [
        Evidence(
            name=f"{each.name} at {pair.name}",
            configured=None,
            modelled=each.virtual,
            measured=each.real,
            unit="b/s",
            tolerance=f"within {each.tolerance:.0%} of virtual time's",
            holds=each.agrees,
            source=_source(pair, each),
        )
        for each in pair.quantities
        if each.decides
    ]


def _source(pair: Pair, quantity: Quantity) -> str:
    labels = [run.parameters.label for run, value in _values(pair, quantity) if value is None]
    return f"nothing in {' and '.join(labels)} tells it" if labels else "both runs' directories"


def _values(pair: Pair, quantity: Quantity) -> tuple[tuple[Run, float | None], ...]:
    return (pair.virtual, quantity.virtual), (pair.real, quantity.real)


def _same(pair: Pair) -> Evidence:
    virtual, real = pair.verdicts
    return Evidence(
        name=f"verdict at {pair.name}",
        configured=None,
        modelled=virtual,
        measured=real,
        unit="",
        tolerance="the same",
        holds=pair.same_verdict,
        source=_unproven(pair) or "both runs' evidence",
    )


def _unproven(pair: Pair) -> str:
    """Of which run no verdict is proven."""
    runs = zip((pair.virtual, pair.real), pair.verdicts)
    labels = [run.parameters.label for run, answer in runs if answer == NOT_PROVEN]
    return f"no verdict is proven of {' and '.join(labels)}" if labels else ""


def _guarded(pair: Pair) -> Evidence:
    return Evidence(
        name=f"guard at {pair.name}",
        configured=None,
        modelled=None,
        measured=pair.guard,
        unit="",
        tolerance=_needed(pair),
        holds=_warned(pair),
        source=_guard_source(pair),
    )


def _needed(pair: Pair) -> str:
    """What the guard has to say of the run on the real clock."""
    if pair.agrees or pair.by_chance:
        return "the clocks agree: no warning is needed"
    needed = f"{UNFAITHFUL}, where the clocks differ"
    return needed if pair.agrees is None else f"{UNFAITHFUL}, as the clocks differ"


def _guard_source(pair: Pair) -> str:
    label = pair.real.parameters.label
    unknown = f"too little is known to say whether {label} differs"
    return f"fidelity of {label}: {pair.guard_words}" if pair.agrees is not None else unknown


def headline(run: Run) -> str:
    """Where the clocks agree, with goodput on both."""
    told = [_finding(pair) for pair in _pairs(run)]
    return "; ".join(told) if told else incast.headline(run)


def _finding(pair: Pair) -> str:
    virtual, real = (text.rate(goodput_bps(each.rounds)) for each in (pair.virtual, pair.real))
    but = f"{AGREE} but for {GOODPUT}, {pair.by_chance} than in virtual time"
    words = but if pair.by_chance else _COMPARED[pair.agrees]
    shows = pair.verdicts[0] if pair.same_verdict else " and ".join(pair.verdicts)
    return f"at {pair.name} the clocks {words}: goodput {virtual} and {real}, {shows} ({pair.guard_words})"


def beside(run: Run) -> str:
    """What is apart at each rate."""
    return text.beside([f"at {pair.name} apart: {', '.join(pair.apart) or 'nothing'}" for pair in _pairs(run)])


def tiles(run: Run) -> list[tuple[str, str]]:
    """Of each pair whether it agrees, and how many quantities are within their tolerance."""
    if not _pairs(run):
        return incast.tiles(run)
    told = []
    for pair in _pairs(run):
        known = [each.agrees for each in pair.quantities if each.agrees is not None]
        but, agree = (f", but for {GOODPUT}", AGREE) if pair.by_chance else ("", _WORDS[pair.agrees])
        told.append((f"clocks at {pair.name}{but}", agree))
        told.append(("quantities within tolerance", f"{sum(known)} of {len(pair.quantities)}"))
        told.append(("real clock called", pair.guard))
    return told


def figures(run: Run) -> list[Drawn]:
    """Every quantity's ratio and every round on both clocks, then what flows did in this run."""
    found, folder = _pairs(run), run.path / "figures"
    if not found:
        return incast.figures(run)
    compared = {"clocks": ratios, "rounds": rounds}
    own = {"sequence": sequence, "timeline": timeline}
    return [
        *(drawn(name, folder, partial(draw, found)) for name, draw in compared.items()),
        *(drawn(name, folder, partial(draw, run)) for name, draw in own.items()),
    ]


def own_table(run: Run) -> Table:
    """Every quantity on both clocks, for the terminal."""
    columns = tuple(
        Column(name, key, is_number=key in _NUMBERS, essential=key != "tolerance") for key, name in _HEADS.items()
    )
    return Table("two clocks", columns, [line for pair in _pairs(run) for line in _lines(pair)])


def _lines(pair: Pair) -> list[dict[str, str]]:
    """The table's rows of a pair, in words."""
    lines = [
        {
            "line": pair.name,
            "quantity": each.name,
            "virtual": each.form(each.virtual),
            "real": each.form(each.real),
            "ratio": text.NOTHING if each.ratio is None else text.digits(each.ratio),
            "tolerance": f"{each.tolerance:.0%}",
            "agrees": _agree(each.agrees),
        }
        for each in pair.quantities
    ]
    both = {"line": pair.name, "ratio": text.NOTHING}
    virtual, real = pair.verdicts
    same = {"virtual": virtual, "real": real, "tolerance": "the same", "agrees": _agree(pair.same_verdict)}
    guard = {"virtual": fidelity_words(pair.virtual), "real": pair.guard_words, "tolerance": text.NOTHING}
    lines += [{**both, "quantity": "verdict", **same}]
    return [*lines, {**both, "quantity": "fidelity guard", **guard, "agrees": text.NOTHING}]


def _agree(agrees: bool | None) -> str:
    return {True: "yes", False: "no", None: text.NOTHING}[agrees]


def sections(run: Run) -> Html:
    """Every quantity on both clocks, then what the page of an incast has."""
    told = own_table(run)
    rows = [[line[key] for key in _HEADS] for line in told.rows]
    numbers = [place for place, key in enumerate(_HEADS) if key in _NUMBERS]
    shown = table(list(_HEADS.values()), rows, numbers=numbers, whole=(0, 1), stacked=True)
    section = f"<h2>Two clocks compared</h2>\n{shown}\n" if rows else ""
    return Html(f"{section}{incast.sections(run)}")


def row(run: Run) -> dict[str, Any]:
    """The clock, the port's rate, how fast the rounds were, and what was lost."""
    return {
        "clock": clock(run),
        "line_bps": run.parameters.path.rate_bps,
        "busy_rate_bps": busy_rate_bps(run),
        "goodput_bps": goodput_bps(run.rounds),
        "median_round_seconds": median_seconds(run.rounds),
        "timeouts": kernel_timeouts(run),
        "drops": total_drops(run),
        "retransmits": retransmits(run),
        "queue_max_bytes": (queue_bytes(run) or {}).get("max"),
        "shows": incast_verdict(run).verdict,
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How much shorter the median round is than the main run's; empty at another rate."""
    if main["line_bps"] != row["line_bps"]:
        return ""
    return incast.faster(main["median_round_seconds"], row["median_round_seconds"])
