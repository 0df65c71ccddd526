"""What a run of compressed training tells: how it is called, how small its updates are, and how good its model gets."""

from __future__ import annotations

from analysis.kinds.training_steps import rank_hosts, sent_per_step, training_steps
from analysis.run import Run
from topologies.units import parse_bytes

TARGET = 0.9  # of the images held out, told right: where the time to it is read
ACCURATE_WITHIN = 0.02  # of about 360 images held out: two standard errors at 96 %
PLAIN = "float32"


def name_of(run: Run) -> str:
    """What stands for a gradient, as figures call it: "topk 1 %"."""
    name = str(run.spec.get("compression"))
    kept = run.spec.get("kept")
    if name == "topk" and isinstance(kept, (int, float)):
        return f"topk {100 * kept:g} %"
    return PLAIN if name == "none" else name


def others(run: Run) -> dict[str, Run]:
    """The cases of the same workload, by what they send."""
    return {name_of(case): case for case in run.cases.values() if case.workload == run.workload}


def gradient_bytes(run: Run) -> int:
    """A gradient of float32."""
    return parse_bytes(run.spec.get("gradient"), "gradient")


def update_bytes(run: Run) -> float | None:
    """What a rank has to say in a step: its whole gradient, or the payload that it sends to all others; None where the
    run does not tell."""
    if name_of(run) == PLAIN:
        return gradient_bytes(run)
    sent, ranks = sent_per_step(run), len(rank_hosts(run))
    return sent / (ranks - 1) if sent is not None and ranks > 1 else None


def factor(run: Run) -> float | None:
    """How many times smaller an update is than the gradient."""
    update = update_bytes(run)
    return gradient_bytes(run) / update if update else None


def accuracy(run: Run) -> float | None:
    """Of the images held out, told right after the last step; None without a model."""
    steps = training_steps(run)
    return steps[-1].accuracy if steps else None


def target_s(run: Run) -> tuple[float | None, int | None]:
    """Seconds and steps after which the model is good enough for the first time; None where it never is."""
    steps = training_steps(run)
    reached = next((step for step in steps if step.accuracy is not None and step.accuracy >= TARGET), None)
    if reached is None:
        return None, None
    return (reached.end_ns - steps[0].start_ns) / 1e9, steps.index(reached) + 1
