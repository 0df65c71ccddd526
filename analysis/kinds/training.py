"""Training steps: what the slowest rank computes, and the communication that nothing hides (a kind, see
analysis/kinds).

A step's computing is that of the rank that computes most, of those that are waited for; the rest of the step is exposed
communication. Parts of a step are those of the median one, the first left out, in which transports open their windows;
the mean is over all steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures import training as figures_of_training
from analysis.figures.heat import heat
from analysis.figures.style import Drawn
from analysis.figures.tail import tail
from analysis.kinds.long_flows import draw
from analysis.kinds.shares import others, share_words
from analysis.kinds.training_setting import modelled, unmodelled
from analysis.kinds.training_steps import (
    compute_s,
    helper_hosts,
    rank_hosts,
    sent_per_step,
    step_s,
    training_steps,
    waiting_s,
    waiting_share,
    wrong_numbers,
)
from analysis.measures import retransmits
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, proven

AS_MODELLED, SLOWER, FASTER = "right, and as fast as modelled", "slower than modelled", "faster than modelled"
RIGHT, WRONG = "right", "wrong numbers"
MODEL_TOLERANCE = 0.10  # the promise of the model of collectives, of which a step's communication is made
_NO_STEP = "measured.json has no finished step"
_SHOWN_STEPS = 20

RULE = (
    "A run is right when no number of any rank is wrong; it is as fast as modelled when its mean step is within "
    f"{MODEL_TOLERANCE:.0%} of what the configuration alone says: the slowest rank's computing, with buckets that "
    "travel, one after the other, behind backward. Where packets get lost the model is not asked."
)


COLUMNS = (
    Column("algorithm", "algorithm", is_number=False, essential=True),
    Column("ranks", "ranks", text.count),
    Column("step", "step_s", text.seconds, essential=True),
    Column("mean", "mean_s", text.seconds),
    Column("longest", "longest_s", text.seconds, essential=True),
    Column("computing", "compute_s", text.seconds, essential=True),
    Column("exposed", "exposed_s", text.seconds, essential=True),
    Column("share", "exposed_share", share_words),
    Column("model", "modelled_s", text.seconds, essential=True),
    Column("late", "late", text.count),
    Column("sent per rank", "sent_bytes", text.size),
    Column("resent", "retransmits", text.count),
    Column("wrong", "wrong", text.count),
)


def longest_s(run: Run) -> float | None:
    """The longest step, the first one among them; None without any."""
    return max((step.seconds for step in training_steps(run)), default=None)


def mean_s(run: Run) -> float | None:
    """What all steps took together, for each of them; None without any."""
    steps = training_steps(run)
    return (steps[-1].end_ns - steps[0].start_ns) / 1e9 / len(steps) if steps else None


def late_gradients(run: Run) -> int | None:
    """How often a rank's gradient was not waited for; None without a step."""
    steps = training_steps(run)
    return sum(turn.late for step in steps for turn in step.turns) if steps else None


def summarize(run: Run) -> dict[str, Any]:
    """The steps' parts, and each step."""
    steps = [
        {"seconds": step.seconds, "compute_s": step.compute_s, "exposed_s": step.waiting_s, "loss": step.loss,
         "accuracy": step.accuracy}
        for step in training_steps(run)
    ]  # fmt: skip
    return {"training": {**row(run), "steps": steps}}


def verdict(run: Run) -> Verdict:
    """Whether the numbers are right, and the step takes what the model says."""
    return judged(run, "training")


def judged(run: Run, name: str) -> Verdict:
    """The verdict under the name of an experiment."""
    pieces = (right(run), as_modelled(run), processor(run))
    answer = answer_of(run, pieces)
    good = {AS_MODELLED: True, WRONG: False, SLOWER: False}.get(answer)
    return proven(Verdict(name, answer, pieces, good=good), {WRONG})


def answer_of(run: Run, pieces: tuple[Evidence, ...]) -> str:
    """What `right` and `as_modelled` say together."""
    are_right, is_modelled = pieces[:2]
    if are_right.holds is False:
        return WRONG
    if any(piece.holds is None for piece in pieces if piece.applies):
        return NOT_PROVEN
    if not is_modelled.applies:
        return RIGHT
    if is_modelled.holds:
        return AS_MODELLED
    found, expected = mean_s(run), modelled(run)
    return SLOWER if found is not None and expected is not None and found > expected.seconds else FASTER


def right(run: Run) -> Evidence:
    """No number is wrong; where a model is trained alone, nothing can be compared."""
    steps, wrong = training_steps(run), wrong_numbers(run)
    applies = not steps or wrong is not None
    return Evidence(
        name="wrong numbers",
        configured=None,
        modelled=0,
        measured=wrong,
        unit="numbers",
        tolerance="none, on all ranks, in all steps",
        holds=None if wrong is None else wrong == 0,
        source=("steps of measured.json" if steps else _NO_STEP)
        if applies
        else "not applicable: all numbers are a real model's, whose sums hang on their order",
        applies=applies,
    )


def as_modelled(run: Run) -> Evidence:
    """The mean step beside the model's: without a barrier steps of early and late ranks overlap, so that only all of
    them together tell how fast they follow each other."""
    found, expected, why = mean_s(run), modelled(run), unmodelled(run)
    applies = expected is not None
    known = found is not None and expected is not None
    return Evidence(
        name="mean step",
        configured=f"computing {run.spec.get('compute')}, overlap {'on' if run.spec.get('overlap') else 'off'}",
        modelled=None if expected is None else expected.seconds,
        measured=found,
        unit="s",
        tolerance=f"within {MODEL_TOLERANCE:.0%} of the model",
        holds=is_near(found, expected.seconds) if expected is not None and found is not None else None,
        source=("steps of measured.json" if known else _NO_STEP)
        if applies
        else f"not applicable: {why or 'the algorithm has no model'}",
        applies=applies,
    )


def is_near(found: float, expected: float) -> bool:
    """Whether a time is as modelled."""
    return abs(found - expected) <= MODEL_TOLERANCE * expected


def headline(run: Run) -> str:
    """The step and its parts."""
    step, computing, exposed = step_s(run), compute_s(run), waiting_s(run)
    if step is None or computing is None or exposed is None:
        return "no step was finished"
    told = f"a step of {text.counted(len(rank_hosts(run)), 'rank')} takes {text.seconds(step)}"
    return f"{told}: {text.seconds(computing)} computing, {text.seconds(exposed)} of communication that nothing hides"


def beside(run: Run) -> str:
    """The step of each case."""
    return text.beside([f"{label}: {text.seconds(step_s(case))} a step" for label, case in others(run).items()])


def tiles(run: Run) -> list[tuple[str, str]]:
    """The step, its parts, and the model."""
    told = row(run)
    return [
        ("a step", text.seconds(told["step_s"])),
        ("computing", text.seconds(told["compute_s"])),
        ("exposed communication", text.seconds(told["exposed_s"])),
        ("of the step", share_words(told["exposed_share"])),
        ("model's step", text.seconds(told["modelled_s"])),
        ("sent per rank and step", text.size(told["sent_bytes"])),
    ]


def figures(run: Run) -> list[Drawn]:
    """Each rank's last steps, the steps of all cases, use of the links, and the tail of the steps."""
    return draw(
        run,
        training_timeline=figures_of_training.timeline,
        training_cases=figures_of_training.cases,
        heat=heat,
        tail=tail,
    )


def sections(run: Run) -> Html:
    """Every step."""
    steps = training_steps(run)
    if not steps:
        return Html("")
    learns = any(step.loss is not None for step in steps)
    heads = ("step", "time", "computing", "exposed", "late", *(("loss", "accuracy") if learns else ()))
    rows = [
        [
            str(step.number),
            text.seconds(step.seconds),
            text.seconds(step.compute_s),
            text.seconds(step.waiting_s),
            text.count(sum(turn.late for turn in step.turns)),
            *((_learned(step.loss), _learned(step.accuracy)) if learns else ()),
        ]
        for step in steps[:_SHOWN_STEPS]
    ]
    shown = table(heads, rows, numbers=range(len(heads)), stacked=True)
    more = f"<p>{len(steps) - _SHOWN_STEPS} more steps are in summary.json.</p>\n" if len(steps) > _SHOWN_STEPS else ""
    return Html(f"<h2>Steps</h2>\n{shown}\n{more}")


def _learned(value: float | None) -> str:
    return text.NOTHING if value is None else f"{value:.3f}"


def row(run: Run) -> dict[str, Any]:
    """The step's parts beside the model's."""
    expected = modelled(run)
    return {
        "algorithm": run.spec.get("algorithm"),
        "ranks": len(rank_hosts(run)) or None,
        "servers": len(helper_hosts(run)),
        "step_s": step_s(run),
        "mean_s": mean_s(run),
        "longest_s": longest_s(run),
        "compute_s": compute_s(run),
        "exposed_s": waiting_s(run),
        "exposed_share": waiting_share(run),
        "modelled_s": None if expected is None else expected.seconds,
        "late": late_gradients(run),
        "sent_bytes": sent_per_step(run),
        "retransmits": retransmits(run),
        "wrong": wrong_numbers(run),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How much longer or shorter a step is."""
    if not main.get("step_s") or not row.get("step_s"):
        return ""
    return f"{text.times(row['step_s'] / main['step_s'])} the step"
