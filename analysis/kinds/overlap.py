"""Overlap: which part of communication computing hides, and how much shorter steps get by it (a kind, see
analysis/kinds).

Hidden is what a step with overlap is shorter than the same step without it, as a part of the communication of the
latter. What overlap can save is limited: gradients travel behind backward, which is two thirds of the computing, so
that it saves 40 % where they travel exactly as long as that, the last bucket in no time, and less everywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures.overlap import buckets, saved
from analysis.figures.style import Drawn
from analysis.figures.training import timeline
from analysis.kinds import training
from analysis.kinds.long_flows import draw
from analysis.kinds.overlap_pairs import Pair, pair_of, pairs
from analysis.kinds.shares import others, share_words
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, proven

CLAIMED_SAVED = 0.40  # slide 20: training time down by 40 % or more
POINTS = 0.10  # hidden shares are told in points of a hundred: within ten of the model
REPRODUCED = "40 % by overlap alone"
WITH_COMPRESSION, NOT_REPRODUCED = "40 % only with compression too", "40 % is not reached"

RULE = (
    f"The claim is that steps get {CLAIMED_SAVED:.0%} shorter or more by overlap and compression. It is reproduced by "
    "overlap alone, or only with compression too, when the best case of the one or the other reaches it; the run "
    f"itself must be right and as modelled, and hide as much as the model says (within {100 * POINTS:g} points)."
)


def _switch(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, text.NOTHING)


COLUMNS = (
    Column("overlap", "overlap", _switch, is_number=False, essential=True),
    Column("bucket", "bucket", is_number=False, essential=True),
    Column("compression", "compression", is_number=False),
    Column("step", "step_s", text.seconds, essential=True),
    Column("computing", "compute_s", text.seconds, essential=True),
    Column("exposed", "exposed_s", text.seconds, essential=True),
    Column("share", "exposed_share", share_words),
    Column("model", "modelled_s", text.seconds, essential=True),
    Column("sent per rank", "sent_bytes", text.size),
    Column("wrong", "wrong", text.count),
)


def summarize(run: Run) -> dict[str, Any]:
    """The steps, and what each case hides and saves."""
    return {**training.summarize(run), "overlap": {pair.label: _told(pair) for pair in pairs(run)}}


def _told(pair: Pair) -> dict[str, Any]:
    return {
        "step_s": pair.on_s,
        "without_s": pair.off_s,
        "hidden": None if pair.is_compressed else pair.hidden,
        "modelled_hidden": pair.modelled_hidden,
        "saved": pair.saved,
        "modelled_saved": pair.modelled_saved,
        "most_saved_by_overlap": pair.most_saved,
    }


def verdict(run: Run) -> Verdict:
    """Whether overlap, or overlap and compression, save what is claimed; of a run without cases whether it is as
    modelled."""
    if not others(run):
        return training.judged(run, "overlap")
    own = (training.right(run), training.as_modelled(run))
    hides, alone, together = _hides(run), _saves(run, compressed=False), _saves(run, compressed=True)
    answer = answer_of(training.answer_of(run, own), hides, alone, together)
    good = {NOT_PROVEN: None, REPRODUCED: True, WITH_COMPRESSION: True}.get(answer, False)
    found = Verdict("overlap", answer, (*own, hides, alone, together, processor(run)), good=good)
    return proven(found, {training.WRONG})


def answer_of(own: str, hides: Evidence, alone: Evidence, together: Evidence) -> str:
    """What the pieces of evidence say together, `own` being what the run alone says."""
    if own in (training.WRONG, training.SLOWER, training.FASTER):
        return own
    if own == NOT_PROVEN or not hides.holds or alone.holds is None:
        return NOT_PROVEN
    if alone.holds:
        return REPRODUCED
    if together.holds is None:
        return NOT_PROVEN
    return WITH_COMPRESSION if together.holds else NOT_REPRODUCED


def _hides(run: Run) -> Evidence:
    own = pair_of(run)
    expected = own.modelled_hidden if own else None
    known = own is not None and expected is not None
    return Evidence(
        name="communication hidden",
        configured=f"buckets of {run.spec.get('bucket')}, computing {run.spec.get('compute')}",
        modelled=share_words(expected) if expected is not None else None,
        measured=share_words(own.hidden) if own else None,
        unit="",
        tolerance=f"within {100 * POINTS:g} points of the model",
        holds=abs(own.hidden - expected) <= POINTS if own is not None and expected is not None else None,
        source="steps of the run and of the case without overlap" if known else "no case like the run without overlap",
    )


def _saves(run: Run, compressed: bool) -> Evidence:
    """The case that saves most, by overlap alone or by compression too."""
    found = [pair for pair in pairs(run) if pair.is_compressed == compressed]
    best = max(found, key=lambda pair: pair.saved, default=None)
    name = "saved by overlap and compression" if compressed else "saved by overlap alone"
    limit = "" if compressed or best is None else f"; at the very most, with this communication, {best.most_saved:.1%}"
    return Evidence(
        name=name,
        configured=None if best is None else f"case {best.label}",
        modelled=None if best is None or best.modelled_saved is None else f"{best.modelled_saved:.1%}",
        measured=None if best is None else f"{best.saved:.1%}",
        unit="",
        tolerance=f"at least {CLAIMED_SAVED:.0%} of the step without either{limit}",
        holds=None if best is None else best.saved >= CLAIMED_SAVED,
        source="no such case" if best is None else f"steps of {best.label} and of the case without overlap",
    )


def headline(run: Run) -> str:
    """What is hidden and saved by the run, and what is saved at best."""
    own = pair_of(run)
    if own is None:
        return training.headline(run)
    told = f"overlap hides {share_words(own.hidden)} of communication and makes a step {share_words(own.saved)} shorter"
    packed = max((pair for pair in pairs(run) if pair.is_compressed), key=lambda pair: pair.saved, default=None)
    more = f"; with compression up to {share_words(packed.saved)}" if packed else ""
    return f"{told} (at most {share_words(own.most_saved)} with perfect overlap){more}; claimed: 40 % or more"


def beside(run: Run) -> str:
    """What each case saves."""
    return text.beside([f"{pair.label}: {share_words(pair.saved)} saved" for pair in pairs(run) if pair.on is not run])


def tiles(run: Run) -> list[tuple[str, str]]:
    """Steps, hidden and saved shares."""
    own = pair_of(run)
    if own is None:
        return training.tiles(run)
    return [
        ("a step", text.seconds(own.on_s)),
        ("without overlap", text.seconds(own.off_s)),
        ("computing", text.seconds(own.compute_s)),
        ("communication hidden", share_words(own.hidden)),
        ("saved", share_words(own.saved)),
        ("claimed", "40 % or more"),
    ]


def figures(run: Run) -> list[Drawn]:
    """Steps with overlap beside those without, what buckets of each size hide, and each rank's time."""
    return draw(
        run,
        overlap_saved=saved,
        overlap_buckets=buckets,
        training_timeline=timeline,
    )


def sections(run: Run) -> Html:
    """Every pair, then the steps."""
    found = pairs(run)
    if not found:
        return training.sections(run)
    heads = ("case", "bucket", "without overlap", "with", "hidden", "model", "saved", "at most by overlap")
    rows = [
        [
            pair.label,
            str(pair.on.spec.get("bucket")),
            text.seconds(pair.off_s),
            text.seconds(pair.on_s),
            text.NOTHING if pair.is_compressed else share_words(pair.hidden),
            text.NOTHING if pair.is_compressed else share_words(pair.modelled_hidden),
            share_words(pair.saved),
            share_words(pair.most_saved),
        ]
        for pair in found
    ]
    shown = table(heads, rows, numbers=range(2, len(heads)), stacked=True)
    return Html(f"<h2>Overlap</h2>\n{shown}\n{training.sections(run)}")


def row(run: Run) -> dict[str, Any]:
    """The step's parts, and how it overlaps."""
    told = {key: run.spec.get(key) for key in ("overlap", "bucket", "compression")}
    return {**told, **training.row(run)}


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How much longer or shorter a step is."""
    return training.against(main, row)
