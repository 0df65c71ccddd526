"""Computing and communication as the cluster grows: measured packet by packet as far as that goes, by a calibrated line
beyond, and which assumption the claimed shares need (a kind, see analysis/kinds).

What was measured changes one thing at a time: the number of ranks, the algorithm, or the batch. The lines fitted to
these runs are then read at 1,000 ranks and with BERT-Large's gradients, under the assumptions of
analysis/kinds/breakdown_model.py, which were listed before anything was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures import breakdown as figures_of_breakdown
from analysis.figures.style import Drawn
from analysis.kinds.breakdown_model import (
    ANCHOR,
    BERT_LARGE_BYTES,
    CLAIMED,
    RING,
    SERVER,
    WITHIN,
    claimed_share,
    deviation,
    load,
)
from analysis.kinds.breakdown_points import (
    FIT_WITHIN,
    Point,
    assumed,
    compute_words,
    fitted_exponent,
    line_of,
    nearest,
    point,
    points,
    probes,
)
from analysis.kinds.collective_model import Line
from analysis.kinds.long_flows import draw
from analysis.kinds.shares import share_words
from analysis.kinds.training import right
from analysis.kinds.training_steps import sent_per_step, training_steps, wrong_numbers
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, proven

AS_CLAIMED, LESS, MORE = "as claimed", "less than claimed", "more than claimed"
REPRODUCED, NOT_REPRODUCED, IF = "reproduced", "not reproduced", "reproduced if"
WRONG = "wrong numbers"
_NO_STEPS = "measured.json has no finished step"

RULE = (
    f"A share is as claimed within {100 * WITHIN:g} points; between the claimed numbers of GPUs the claim is read off "
    "the straight line over log N on which its three points lie. With its cases a run is reproduced when the ring as "
    f"measured, each rank with its own batch, is as claimed at {ANCHOR} and 100 ranks and by the fitted line at 1,000; "
    "else if one of the listed assumptions gives all three shares: the nearest is then named."
)

COLUMNS = (
    Column("algorithm", "algorithm", is_number=False),
    Column("ranks", "ranks", text.count, essential=True),
    Column("computing", "compute_s", text.seconds),
    Column("communicating", "communication_s", text.seconds, essential=True),
    Column("share", "share", share_words, essential=True),
    Column("claimed", "claimed", share_words, essential=True),
    Column("sent per rank", "sent_bytes", text.size),
    Column("wrong", "wrong", text.count),
)


def summarize(run: Run) -> dict[str, Any]:
    """The shares measured, the lines fitted to them, and the shares under each assumption."""
    lines, fit = {name: line_of(run, name) for name in (RING, SERVER)}, fitted_exponent(run)
    return {
        "training_breakdown": {
            **row(run),
            "fits": {name: _line_facts(line) for name, line in lines.items() if line is not None},
            "assumptions": [
                {
                    "name": each.name,
                    "shares": {str(ranks): share for ranks, share in shares.items()},
                    "deviation": deviation(shares),
                }
                for each, shares in [*assumed(run), *([fit] if fit else [])]
            ],
        }
    }


def _line_facts(line: Line) -> dict[str, float]:
    return {"alpha_s": line.alpha_s, "beta_s": line.beta_s, "error": line.error}


def verdict(run: Run) -> Verdict:
    """Of a run with cases whether the claim is reproduced, and by which assumption; else whether its own share is as
    claimed."""
    lines = [_fit(run, name) for name in (RING, SERVER) if _points_of(run, name)]
    over_all = [*lines, *(_probe(run, each) for each in probes(run)), _plain(run), _nearest(run)] if run.cases else []
    pieces = (_share(run), right(run), *over_all, processor(run))
    answer = _answer(run, pieces[0], pieces[1])
    return proven(Verdict("training breakdown", answer, pieces, good=_is_good(answer)), {WRONG})


def _is_good(answer: str) -> bool | None:
    """Shares that differ from the claimed ones are a finding, neither good nor bad."""
    return True if answer == REPRODUCED or answer.startswith(IF) else False if answer == WRONG else None


def _answer(run: Run, share: Evidence, right: Evidence) -> str:
    if right.holds is False:
        return WRONG
    if share.measured is None:
        return NOT_PROVEN
    if run.cases and line_of(run, RING) is not None:
        return _over_all(run)
    own = point(run)
    assert own is not None
    return AS_CLAIMED if share.holds else LESS if own.share < claimed_share(own.ranks) else MORE


def _over_all(run: Run) -> str:
    plain, best = _plain(run), nearest(run)
    tried = [_fit(run, RING), *(_probe(run, each) for each in probes(run))]
    if not all(piece.holds for piece in tried) or plain.holds is None or best is None:
        return NOT_PROVEN
    if plain.holds:
        return REPRODUCED
    return f"{IF}: {best[0].name}" if deviation(best[1]) <= WITHIN else NOT_REPRODUCED


def _points_of(run: Run, algorithm: str) -> list[Point]:
    return [each for each in points(run) if each.algorithm == algorithm]


def _share(run: Run) -> Evidence:
    own = point(run)
    return Evidence(
        name="share of a step communicating",
        configured=None if own is None else f"{own.ranks} ranks, {own.algorithm}, {compute_words(own)}",
        modelled=None if own is None else share_words(claimed_share(own.ranks)),
        measured=None if own is None else share_words(own.share),
        unit="",
        tolerance=f"within {100 * WITHIN:g} points of the claim (as modelled)",
        holds=None if own is None else abs(own.share - claimed_share(own.ranks)) <= WITHIN,
        source=_NO_STEPS if own is None else "steps of measured.json",
    )


def _fit(run: Run, algorithm: str) -> Evidence:
    line, found = line_of(run, algorithm), _points_of(run, algorithm)
    told = "" if line is None else f"{text.seconds(line.alpha_s)} a message, {text.rate(8 / line.beta_s)}"
    return Evidence(
        name=f"line of the {algorithm.replace('_', ' ')}",
        configured=f"{text.counted(len(found), 'run')}",
        modelled=told or None,
        measured=None if line is None else f"off by {line.error:.1%} at most",
        unit="",
        tolerance=f"within {FIT_WITHIN:.0%} of every measured time of communication",
        holds=None if line is None else line.error <= FIT_WITHIN,
        source="steps of measured.json, the run's and its cases'" if line else "fewer than four numbers of ranks",
    )


def _probe(run: Run, probe: Point) -> Evidence:
    """Whether the line tells the time of a ring that it was not fitted to, whose messages are as short as those of
    many more ranks."""
    line = line_of(run, RING)
    carried = load(RING, probe.ranks, probe.gradient_bytes)
    modelled_s = None if line is None else line.seconds(carried.payload_bytes, carried.steps)
    off = None if modelled_s is None else abs(probe.communication_s / modelled_s - 1)
    return Evidence(
        name=f"the line at messages of {text.size(probe.gradient_bytes / probe.ranks)}",
        configured=f"{probe.ranks} ranks, {text.size(probe.gradient_bytes)} of gradients",
        modelled=modelled_s,
        measured=probe.communication_s,
        unit="s",
        tolerance=f"within {FIT_WITHIN:.0%}; the line was fitted without this run",
        holds=None if off is None else off <= FIT_WITHIN,
        source="steps of measured.json" if off is not None else "fewer than four numbers of ranks",
    )


def _plain(run: Run) -> Evidence:
    """The claim beside what was measured with nothing assumed: the ring with a batch of its own on each rank."""
    measured = {each.ranks: each.share for each in points(run) if each.scheme == RING and each.ranks in CLAIMED}
    modelled = next((shares for each, shares in assumed(run) if each.is_plain), None)
    known = modelled is not None and len(measured) >= 1
    shares = {ranks: measured.get(ranks, modelled[ranks]) for ranks in CLAIMED} if modelled else {}
    return Evidence(
        name=f"shares at {_ranks_words(CLAIMED)} ranks",
        configured="ring, each rank keeps its batch",
        modelled=_shares_words(modelled) if modelled else None,
        measured=", ".join(f"{share:.0%} at {ranks}" for ranks, share in measured.items()) or None,
        unit="",
        tolerance=f"{_shares_words(CLAIMED)} within {100 * WITHIN:g} points, measured where there is a run, by the line"
        " elsewhere",
        holds=deviation(shares) <= WITHIN if known else None,
        source="steps of measured.json and the line of the ring" if known else "no line, or no run at a claimed size",
    )


def _nearest(run: Run) -> Evidence:
    """The assumption of the list that comes nearest."""
    best = nearest(run)
    return Evidence(
        name="nearest assumption",
        configured=best[0].name if best else None,
        modelled=_shares_words(best[1]) if best else None,
        measured=None,
        unit="",
        tolerance=f"{_shares_words(CLAIMED)} within {100 * WITHIN:g} points",
        holds=deviation(best[1]) <= WITHIN if best else None,
        source=f"the line of the {best[0].algorithm.replace('_', ' ')}" if best else "no line of the ring",
    )


def _ranks_words(shares: Mapping[int, float]) -> str:
    return ", ".join(map(str, shares))


def _shares_words(shares: Mapping[int, float]) -> str:
    return " / ".join(f"{share:.0%}" for share in shares.values())


def headline(run: Run) -> str:
    """The share of the run, and of the most ranks that were measured like it."""
    own = point(run)
    if own is None:
        return "no step was finished"
    told = f"{text.counted(own.ranks, 'rank')} communicate for {own.share:.0%} of a step"
    most = max((each for each in points(run) if each.scheme == own.scheme), key=lambda each: each.ranks)
    grown = f", {most.ranks} for {most.share:.0%} (claimed: {claimed_share(most.ranks):.0%})" if most != own else ""
    best = nearest(run)
    needs = f"; the claimed growth is that of “{best[0].name}”: {_shares_words(best[1])}" if best else ""
    return f"{told}{grown}{needs}"


def beside(run: Run) -> str:
    """The share of each case."""
    told = [f"{label}: {each.share:.0%}" for label, case in run.cases.items() for each in [point(case)] if each]
    return text.beside(told)


def tiles(run: Run) -> list[tuple[str, str]]:
    """The step, its two parts, and the line's two numbers."""
    told, line = row(run), line_of(run, RING)
    fits = [] if line is None else [("ring: a message's delay", text.seconds(line.alpha_s))]
    return [
        ("communicating", share_words(told["share"])),
        ("claimed", share_words(told["claimed"])),
        ("computing", text.seconds(told["compute_s"])),
        ("communicating", text.seconds(told["communication_s"])),
        ("sent per rank and step", text.size(told["sent_bytes"])),
        *fits,
    ]


def figures(run: Run) -> list[Drawn]:
    """The share over the number of ranks, and the parts of the step."""
    return draw(run, share_ranks=figures_of_breakdown.share_ranks, parts=figures_of_breakdown.parts)


def sections(run: Run) -> Html:
    """The claim under each assumption."""
    fit = fitted_exponent(run)
    told = [*assumed(run), *([fit] if fit else [])]
    if not told:
        return Html("")
    heads = ("assumption", "gradients", *(f"{ranks} ranks" for ranks in CLAIMED), "farthest from the claim")
    claim = ["claimed", text.NOTHING, *(f"{share:.0%}" for share in CLAIMED.values()), text.NOTHING]
    rows = [
        [
            each.name,
            text.size(each.gradient_bytes),
            *(f"{share:.1%}" for share in shares.values()),
            f"{100 * deviation(shares):.0f} points",
        ]
        for each, shares in told
    ]
    note = (
        f"Each assumption begins with {CLAIMED[ANCHOR]:.0%} at {ANCHOR} ranks, which settles how long a rank computes "
        "there; communication is what the fitted lines say. A global batch that grows as √N is half-way between a "
        "fixed batch per rank and a fixed global one. BERT-Large's gradients are "
        f"{text.size(BERT_LARGE_BYTES)}. The exponent of the last line was fitted to the claim itself: it tells what "
        "the claim asks for and proves nothing."
    )
    shown = table(heads, [claim, *rows], numbers=range(1, len(heads)), stacked=True)
    return Html(f'<h2>What the claimed shares need</h2>\n{shown}\n<p class="soft">{note}</p>\n')


def row(run: Run) -> dict[str, Any]:
    """The parts of a step, and its share beside the claimed one."""
    own = point(run)
    return {
        "algorithm": run.spec.get("algorithm"),
        "ranks": None if own is None else own.ranks,
        "steps": len(training_steps(run)),
        "compute_s": None if own is None else own.compute_s,
        "communication_s": None if own is None else own.communication_s,
        "share": None if own is None else own.share,
        "claimed": None if own is None else claimed_share(own.ranks),
        "sent_bytes": sent_per_step(run),
        "wrong": wrong_numbers(run),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How much longer the gradients travel."""
    if not main["communication_s"] or row["communication_s"] is None:
        return ""
    return f"{text.times(row['communication_s'] / main['communication_s'])} the communication"
