"""Data, tensor and pipeline parallelism: who sends what to whom, and what it costs (a kind, see analysis/kinds).

What every rank must send follows from the configuration alone (analysis/kinds/parallel_model.py); the run shows that it
did, who its peers are, and how much of a step is spent on it. What a pipeline waits for because its stages begin one
after the other (the bubble) is no communication, and told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures import parallelism as figures_of_parallelism
from analysis.figures.style import Drawn
from analysis.kinds.long_flows import draw
from analysis.kinds.parallel_model import FEW, WAYS, Work, peers_words, shape
from analysis.kinds.shares import others, share_words
from analysis.kinds.training import right
from analysis.kinds.training_steps import (
    compute_s,
    helper_hosts,
    rank_hosts,
    step_s,
    traffic_per_step,
    training_steps,
    waiting_s,
    wrong_numbers,
)
from analysis.measures import ratio
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, proven
from topologies.units import parse_bytes

CONSTANT, SELDOM, OTHERWISE, WRONG = "needs constant communication", "hardly communicates", "other traffic", "wrong"
REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
BYTES_WITHIN = 0.01  # the model counts payload exactly, but for numbers that do not divide
LEAST_SHARE = 0.05  # of a step: below it a training engineer would not look at the network
_NO_TRAFFIC = "measured.json tells no traffic"

RULE = (
    f"A way of sharing needs constant communication when its ranks send, in every step, what the model says (within "
    f"{BYTES_WITHIN:.0%}), no number is wrong, and {LEAST_SHARE:.0%} of a step or more is communication that nothing "
    "hides, a pipeline's bubble left out. The claim is reproduced when data, tensor and pipeline parallelism all do."
)

COLUMNS = (
    Column("shared", "parallelism", is_number=False, essential=True),
    Column("who sends to whom", "shape", is_number=False, essential=True),
    Column("sent per rank", "sent_bytes", text.size, essential=True),
    Column("in all", "total_bytes", text.size),
    Column("pairs", "pairs", text.count, essential=True),
    Column("messages per rank", "messages", text.count),
    Column("step", "step_s", text.seconds, essential=True),
    Column("computing", "compute_s", text.seconds),
    Column("bubble", "bubble_s", text.seconds),
    Column("communicating", "communication_s", text.seconds),
    Column("share", "share", share_words, essential=True),
    Column("per batch", "batch_s", text.seconds),
    Column("wrong", "wrong", text.count),
)


def work(run: Run) -> Work:
    """What is shared, as the spec has it."""
    spec = run.spec

    def number(key: str) -> int:
        return int(spec.get(key) or 1)

    return Work(
        way=str(spec.get("parallelism")),
        algorithm=str(spec.get("algorithm")),
        ranks=len(rank_hosts(run)) or number("ranks"),
        gradient_bytes=parse_bytes(spec.get("gradient"), "gradient"),
        activation_bytes=parse_bytes(spec.get("activation"), "activation"),
        layers=number("layers"),
        micro_batches=number("micro_batches"),
    )


def bubble_s(run: Run) -> float | None:
    """What a stage waits in a step only because stages begin one after the other; None without a step."""
    computing = compute_s(run)
    return None if computing is None else work(run).bubble * computing


def communication_s(run: Run) -> float | None:
    """What of a step is neither computing nor bubble."""
    waiting, bubble = waiting_s(run), bubble_s(run)
    return None if waiting is None or bubble is None else max(waiting - bubble, 0.0)


def share(run: Run) -> float | None:
    """The part of a step that is communication."""
    seconds, step = communication_s(run), step_s(run)
    return seconds / step if seconds is not None and step else None


def _sent_bytes(run: Run) -> float | None:
    """What the rank sends in a step that sends most."""
    sent: dict[str, float] = {}
    for (sender, _), sent_bytes in traffic_per_step(run).items():
        sent[sender] = sent.get(sender, 0.0) + sent_bytes
    ranks = [sent.get(rank, 0.0) for rank in rank_hosts(run)]
    return max(ranks) if any(ranks) else None


def summarize(run: Run) -> dict[str, Any]:
    """The traffic of a step and its parts."""
    pairs = {f"{sender}>{receiver}": sent for (sender, receiver), sent in traffic_per_step(run).items()}
    return {"parallelism": {**row(run), "traffic_per_step": pairs}}


def verdict(run: Run) -> Verdict:
    """Whether the run needs constant communication; with cases, whether all ways of sharing do."""
    pieces = (_as_modelled(run), right(run), _costs(run), *(_case(case) for case in others(run).values()))
    answer = _answer(run, pieces[:3])
    if others(run) and answer in (CONSTANT, SELDOM):
        answer = _over_all(run, answer)
    good = {REPRODUCED: True, OTHERWISE: False, WRONG: False}.get(answer)
    return proven(Verdict("parallelism", answer, (*pieces, processor(run)), good=good), {WRONG})


def _answer(run: Run, pieces: tuple[Evidence, ...]) -> str:
    modelled, right, costs = pieces
    if right.holds is False:
        return WRONG
    if any(piece.holds is None for piece in pieces if piece.applies):
        return NOT_PROVEN
    if modelled.applies and not modelled.holds:
        return OTHERWISE
    return CONSTANT if costs.holds else SELDOM


def _over_all(run: Run, own: str) -> str:
    answers = {work(each).way: verdict(each).verdict for each in others(run).values()}
    answers[work(run).way] = own
    if not set(WAYS) <= set(answers) or NOT_PROVEN in answers.values():
        return NOT_PROVEN if NOT_PROVEN in answers.values() else own
    return REPRODUCED if set(answers.values()) == {CONSTANT} else NOT_REPRODUCED


def _as_modelled(run: Run) -> Evidence:
    sent, modelled = _sent_bytes(run), work(run).sent_bytes
    known = sent is not None
    return Evidence(
        name="sent per rank and step",
        configured=work(run).words,
        modelled=None if modelled is None else text.size(modelled),
        measured=text.size(sent) if known else None,
        unit="",
        tolerance=f"within {BYTES_WITHIN:.0%} of the model",
        holds=None if sent is None or modelled is None else abs(sent - modelled) <= BYTES_WITHIN * modelled,
        source=_source(known, modelled),
        applies=modelled is not None,
    )


def _source(known: bool, modelled: float | None) -> str:
    if modelled is None:
        return "not applicable: the algorithm is not the ring"
    return "traffic of measured.json" if known else _NO_TRAFFIC


def _costs(run: Run) -> Evidence:
    part = share(run)
    return Evidence(
        name="share of a step communicating",
        configured=None,
        modelled=None,
        measured=None if part is None else share_words(part),
        unit="",
        tolerance=f"at least {LEAST_SHARE:.0%}",
        holds=None if part is None else part >= LEAST_SHARE,
        source="steps of measured.json" if part is not None else "measured.json has no finished step",
    )


def _case(case: Run) -> Evidence:
    told = verdict(case)
    return Evidence(
        name=work(case).way,
        configured=work(case).words,
        modelled=None,
        measured=f"{told.verdict}, {share_words(share(case))} of a step",
        unit="",
        tolerance=CONSTANT,
        holds=None if told.verdict == NOT_PROVEN else told.verdict == CONSTANT,
        source=f"cases/{case.path.name}",
    )


def headline(run: Run) -> str:
    """What is shared, who sends what to whom, and how much of a step that takes."""
    sent, part = _sent_bytes(run), share(run)
    if sent is None or part is None:
        return "no step was finished"
    told = f"{work(run).way} parallelism: each of {text.counted(work(run).ranks, 'rank')} sends up to {text.size(sent)}"
    return f"{told} a step, {_shape_words(run)}; {share_words(part)} of a step is communication"


def _shape_words(run: Run) -> str:
    return peers_words(shape([*rank_hosts(run), *helper_hosts(run)], traffic_per_step(run)))


def beside(run: Run) -> str:
    """Bytes and share of each case."""
    told = [
        f"{work(case).way}: {text.size(_sent_bytes(case))} per rank and step, {share_words(share(case))} communication"
        for case in others(run).values()
    ]
    return text.beside(told)


def tiles(run: Run) -> list[tuple[str, str]]:
    """Bytes, pairs and the parts of a step."""
    told = row(run)
    return [
        ("sent per rank and step", text.size(told["sent_bytes"])),
        ("pairs that talk", text.count(told["pairs"])),
        ("a step", text.seconds(told["step_s"])),
        ("communicating", text.seconds(told["communication_s"])),
        ("bubble", text.seconds(told["bubble_s"])),
        ("share communicating", share_words(told["share"])),
    ]


def figures(run: Run) -> list[Drawn]:
    """The traffic matrix of each way of sharing, and the parts of its step."""
    return draw(
        run,
        traffic=figures_of_parallelism.matrices,
        parts=lambda each: figures_of_parallelism.parts(each, communication_s, bubble_s),
    )


def sections(run: Run) -> Html:
    """What each rank sends to whom."""
    pairs = sorted(traffic_per_step(run).items(), key=lambda pair: tuple(map(text.natural, pair[0])))
    if not pairs:
        return Html("")
    rows = [[sender, receiver, text.size(sent)] for (sender, receiver), sent in pairs]
    shown = table(("from", "to", "payload per step"), rows[: FEW * FEW], numbers=(2,))
    note = (
        f'<p class="soft">The mean of {text.counted(len(training_steps(run)), "step")}; messages are counted by the '
        "model. A step of data parallelism learns of a batch for each rank, of the other two of one batch that all "
        "share: their ranks compute less, and their shares do not compare as speeds; the time per batch does.</p>"
    )
    return Html(f"<h2>Traffic of a step</h2>\n<details><summary>{len(rows)} pairs</summary>{shown}</details>\n{note}\n")


def row(run: Run) -> dict[str, Any]:
    """Traffic and parts of a step."""
    traffic = traffic_per_step(run)
    return {
        "parallelism": work(run).way,
        "shape": shape([*rank_hosts(run), *helper_hosts(run)], traffic) if traffic else None,
        "sent_bytes": _sent_bytes(run),
        "modelled_bytes": work(run).sent_bytes,
        "total_bytes": sum(traffic.values()) or None,
        "pairs": len(traffic) or None,
        "messages": work(run).messages,
        "step_s": step_s(run),
        "compute_s": compute_s(run),
        "bubble_s": bubble_s(run),
        "communication_s": communication_s(run),
        "share": share(run),
        "batch_s": ratio(step_s(run), work(run).batches),
        "wrong": wrong_numbers(run),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How many bytes more or less in all."""
    if not main["total_bytes"] or not row["total_bytes"]:
        return ""
    return f"{text.times(row['total_bytes'] / main['total_bytes'])} the bytes"
