"""Compressed gradients: what they save in bytes and time, and what a real model pays for it (a kind, see
analysis/kinds).

A scheme is judged by three things at once: how much smaller the update is that a rank sends (slide 21: 10 to 50 times),
how much less time a step takes (slide 20: 40 % or more), and how accurate the model is on images that it never saw. The
update is not the traffic: a ring adds plain gradients up on their way and sends each number twice, whatever the number
of ranks N; compressed ones cannot be added on their way, so that each goes to all others. Where an update is c times
smaller, a rank sends c / (N / 2) times less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures import compression as figures_of_compression
from analysis.figures.style import Drawn
from analysis.kinds.compression_runs import (
    ACCURATE_WITHIN,
    PLAIN,
    TARGET,
    accuracy,
    factor,
    name_of,
    others,
    target_s,
    update_bytes,
)
from analysis.kinds.long_flows import draw
from analysis.kinds.published import Compared, published_table
from analysis.kinds.shares import share_words
from analysis.kinds.training_steps import (
    compute_s,
    rank_hosts,
    sent_per_step,
    step_s,
    training_steps,
    waiting_share,
    wrong_numbers,
)
from analysis.pages.markup import Html
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor

LEARNS, FAILS, WRONG = "learns", "does not learn", "wrong numbers"
REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
CLAIMED_FACTORS = (10.0, 50.0)  # slide 21: updates are so many times smaller
CLAIMED_SAVING = 0.40  # slide 20: training time down by 40 % or more
_FACTOR_TOLERANCE = 0.01  # indices and scales make a payload a little longer than its numbers
_SLIDE = "slide 21"
_NO_STEPS, _NO_MODEL = "measured.json has no finished step", "measured.json tells no accuracy: model=none"

RULE = (
    f"A run learns when {100 * TARGET:g} % of the images held out are told right within its steps. With its cases it "
    f"reproduces the claim when an update that is {CLAIMED_FACTORS[0]:g} to {CLAIMED_FACTORS[1]:g} times smaller "
    f"costs no more than {100 * ACCURATE_WITHIN:g} points of accuracy in as many steps: two standard errors of the few "
    "images held out."
)

COLUMNS = (
    Column("sent", "scheme", is_number=False, essential=True),
    Column("update", "update_bytes", text.size, essential=True),
    Column("smaller", "factor", text.times, essential=True),
    Column("sent per rank", "sent_bytes", text.size, essential=True),
    Column("step", "step_s", text.seconds, essential=True),
    Column("communicating", "share", share_words),
    Column("accuracy", "accuracy", share_words, essential=True),
    Column(f"{100 * TARGET:g} % after", "target_s", text.seconds, essential=True),
    Column("steps to it", "target_steps", text.count),
)


def summarize(run: Run) -> dict[str, Any]:
    """Bytes, times and the model's accuracy after every step."""
    steps = training_steps(run)
    return {
        "compression": {
            **row(run),
            "compute_s": compute_s(run),
            "accuracies": [step.accuracy for step in steps],
            "losses": [step.loss for step in steps],
            "seconds": [(step.end_ns - steps[0].start_ns) / 1e9 for step in steps],
        }
    }


def verdict(run: Run) -> Verdict:
    """Whether the run learns; with cases, whether one of them is as small as claimed and as accurate."""
    learns, right = _learns(run), _right(run)
    cases = others(run)
    pieces = (learns, right, *(_accurate(run, name, case) for name, case in cases.items()), processor(run))
    answer = _answer(run, learns, right)
    good = {LEARNS: True, REPRODUCED: True, FAILS: False, WRONG: False}.get(answer)
    return Verdict("compression", answer, pieces, good=good)


def _answer(run: Run, learns: Evidence, right: Evidence) -> str:
    if right.applies and right.holds is False:
        return WRONG
    if learns.holds is None:
        return NOT_PROVEN
    cases = others(run)
    if not cases:
        return LEARNS if learns.holds else FAILS
    found = [_is_as_claimed(run, case) for case in cases.values()]
    return REPRODUCED if True in found else NOT_PROVEN if None in found else NOT_REPRODUCED


def _is_as_claimed(run: Run, case: Run) -> bool | None:
    """Whether a case's update is as small as claimed and its model as accurate; None where a file does not tell."""
    smaller, lost = factor(case), _lost_accuracy(run, case)
    if smaller is None or lost is None:
        return None
    return _is_claimed_factor(smaller) and lost <= ACCURATE_WITHIN


def _is_claimed_factor(smaller: float) -> bool:
    least, most = CLAIMED_FACTORS
    return least * (1 - _FACTOR_TOLERANCE) <= smaller <= most * (1 + _FACTOR_TOLERANCE)


def _lost_accuracy(run: Run, case: Run) -> float | None:
    own, theirs = accuracy(run), accuracy(case)
    return None if own is None or theirs is None else own - theirs


def _learns(run: Run) -> Evidence:
    reached = accuracy(run)
    steps = training_steps(run)
    return Evidence(
        name="accuracy at the end",
        configured=f"model {run.spec.get('model')}, {text.counted(len(steps), 'step')}",
        modelled=None,
        measured=None if reached is None else share_words(reached),
        unit="",
        tolerance=f"at least {TARGET:.0%} of the images held out",
        holds=None if reached is None else reached >= TARGET,
        source="steps of measured.json" if reached is not None else _NO_MODEL if steps else _NO_STEPS,
    )


def _right(run: Run) -> Evidence:
    """Compressed gradients are compared byte by byte with what was sent; of plain ones that are all a model's, whose
    sum hangs on the order of adding, there is nothing to compare."""
    wrong = wrong_numbers(run)
    applies = name_of(run) != PLAIN
    return Evidence(
        name="bytes that are not as they were sent",
        configured=None,
        modelled=0 if applies else None,
        measured=wrong if applies else None,
        unit="bytes",
        tolerance="none, at any rank",
        holds=(None if wrong is None else wrong == 0) if applies else None,
        source=("steps of measured.json" if wrong is not None else _NO_STEPS)
        if applies
        else "not applicable: a model's sums are rounded in the order in which the ring adds them",
        applies=applies,
    )


def _accurate(run: Run, name: str, case: Run) -> Evidence:
    """A case's accuracy beside the run's, which sends more."""
    lost = _lost_accuracy(run, case)
    return Evidence(
        name=f"accuracy with {name}",
        configured=f"{text.times(factor(case))} smaller",
        modelled=share_words(accuracy(run)),
        measured=share_words(accuracy(case)),
        unit="",
        tolerance=f"at most {100 * ACCURATE_WITHIN:g} points below the run's own (as modelled)",
        holds=None if lost is None else lost <= ACCURATE_WITHIN,
        source="steps of measured.json" if lost is not None else _NO_MODEL,
    )


def headline(run: Run) -> str:
    """What is sent, how long a step takes, and what the model reaches; the smallest as accurate case beside it."""
    if step_s(run) is None:
        return "no step was finished"
    reached = accuracy(run)
    told = f"{name_of(run)}: {text.size(update_bytes(run))} an update, {text.seconds(step_s(run))} a step"
    model = "" if reached is None else f", {share_words(reached)} right after {len(training_steps(run))} steps"
    kept = [(name, case) for name, case in others(run).items() if (_lost_accuracy(run, case) or 0) <= ACCURATE_WITHIN]
    best = min(kept, key=lambda pair: step_s(pair[1]) or float("inf"), default=None)
    better = (
        ""
        if best is None
        else f"; {best[0]}: {text.times(factor(best[1]))} smaller, {text.seconds(step_s(best[1]))} a step, "
        f"{share_words(accuracy(best[1]))}"
    )
    return f"{told}{model}{better}"


def beside(run: Run) -> str:
    """Size, step and accuracy of each case."""
    told = [
        f"{name}: {text.times(factor(case))} smaller, {text.seconds(step_s(case))} a step, "
        f"{share_words(accuracy(case))} right"
        for name, case in others(run).items()
    ]
    return text.beside(told)


def tiles(run: Run) -> list[tuple[str, str]]:
    """The figures of the run itself."""
    told = row(run)
    return [
        ("an update", text.size(told["update_bytes"])),
        ("smaller than float32", text.times(told["factor"])),
        ("sent per rank and step", text.size(told["sent_bytes"])),
        ("a step", text.seconds(told["step_s"])),
        ("accuracy", share_words(told["accuracy"])),
        (f"{TARGET:.0%} right after", text.seconds(told["target_s"])),
    ]


def figures(run: Run) -> list[Drawn]:
    """Accuracy over steps and over time, and what is traded for what."""
    return draw(run, accuracy=figures_of_compression.accuracy_curves, trade=figures_of_compression.trade)


def sections(run: Run) -> Html:
    """The claims beside every scheme, and why an update is not the traffic."""
    return Html(published_table(compared(run)) + _traffic(run))


def compared(run: Run) -> list[Compared]:
    """The claimed factors and saving beside each case's."""
    return [
        line for name, case in others(run).items() for line in (_smaller(run, name, case), _faster(run, name, case))
    ]


def _smaller(run: Run, name: str, case: Run) -> Compared:
    smaller, lost = factor(case), _lost_accuracy(run, case)
    least, most = CLAIMED_FACTORS
    accurate = "" if lost is None else f", {0.0 - 100 * lost:+.1f} points of accuracy"
    known = smaller is not None and lost is not None
    return Compared(
        name,
        "updates are smaller by",
        f"{least:g} to {most:g} times",
        _SLIDE,
        "",
        f"{text.times(smaller)}{accurate}",
        f"within the range, at most {100 * ACCURATE_WITHIN:g} points lost",
        _is_as_claimed(run, case) if known else None,
        f"{text.times(smaller)}{accurate}",
    )


def _faster(run: Run, name: str, case: Run) -> Compared:
    own_s, theirs_s = step_s(run), step_s(case)
    saved = 1 - theirs_s / own_s if own_s and theirs_s is not None else None
    bound = waiting_share(run)
    return Compared(
        name,
        "training time is down by",
        f"{CLAIMED_SAVING:.0%} or more",
        "slide 20",
        f"{bound:.0%} at the most: the share of communication" if bound is not None else "",
        share_words(saved),
        f"at least {CLAIMED_SAVING:.0%} of a step",
        None if saved is None else saved >= CLAIMED_SAVING,
        f"{share_words(saved)} of a step is saved",
    )


def _traffic(run: Run) -> str:
    ranks = len(rank_hosts(run))
    if not others(run) or not ranks:
        return ""
    told = (
        "Plain gradients are added up on their way round the ring: a rank sends 2 (N - 1) / N of them. Compressed ones "
        "cannot be added on their way, so that each rank's goes to all others: N - 1 updates. With "
        f"{ranks} ranks an update has to be more than {text.digits(ranks / 2)} times smaller before any byte is saved, "
        "and what is saved shrinks as ranks are added."
    )
    steps = (
        "All schemes have one learning rate, which was tuned for none, and one seed: that a scheme needs fewer steps "
        "than plain gradients do says something of this small model, not of the scheme."
    )
    return f'<h2>An update is not the traffic</h2>\n<p class="soft">{told}</p>\n<p class="soft">{steps}</p>\n'


def row(run: Run) -> dict[str, Any]:
    """Bytes, times and accuracy of the run."""
    reached_s, reached_steps = target_s(run)
    return {
        "scheme": name_of(run),
        "update_bytes": update_bytes(run),
        "factor": factor(run),
        "sent_bytes": sent_per_step(run),
        "step_s": step_s(run),
        "share": waiting_share(run),
        "accuracy": accuracy(run),
        "target_s": reached_s,
        "target_steps": reached_steps,
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How much sooner or later the model is good enough, else how the steps compare."""
    for key, what in (("target_s", f"to {TARGET:.0%}"), ("step_s", "a step")):
        if main[key] and row[key]:
            faster = main[key] / row[key]
            return f"{text.times(faster)} faster {what}" if faster >= 1 else f"{text.times(1 / faster)} slower {what}"
    return ""
