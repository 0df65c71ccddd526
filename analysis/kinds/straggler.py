"""Stragglers: what one slow host, slow link or lossy cable costs all others, and what cures it (a kind, see
analysis/kinds).

The run itself has no straggler; each case has one, or what could cure it. Cases are told apart by their spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from analysis import text
from analysis.figures import training as figures_of_training
from analysis.figures.style import Drawn, drawn
from analysis.kinds import training
from analysis.kinds.long_flows import draw
from analysis.kinds.shares import alike, others
from analysis.kinds.training import COLUMNS as COLUMNS
from analysis.kinds.training import MODEL_TOLERANCE, longest_s, mean_s
from analysis.kinds.training_setting import modelled
from analysis.kinds.training_steps import rank_hosts, step_s, training_steps
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, proven

REPRODUCED, NOT_REPRODUCED = "all wait for the slowest", "not all wait for the slowest"
WAITED = 0.9  # of the longest step, at the least, is every rank's own longest
CURED = 0.5  # at the most so much of what a straggler costs is left by a cure
STRAGGLERS = {"slow_host": "slow host", "slow_link": "slow link", "lossy_link": "lossy cable"}
_CURES = {  # key that makes the difference -> what helps
    "rack": "RACK (with TLP, SACK)",
    "rto_min": "a short timeout",
    "algorithm": "aggregation in the network",
    "backup_workers": "a backup worker",
}
_LOSS_RECOVERY = ("sack", "tlp")  # go with rack
_IN_NETWORK = "in_network"

RULE = (
    "All wait for the slowest when a step with a slow host or a slow link takes what the model says, which gives every "
    f"rank the slowest one's time (within {MODEL_TOLERANCE:.0%}), and when no rank had its longest step over a lossy "
    f"cable in less than {WAITED:.0%} of the longest of all. Something cures when at most {CURED:.0%} of the time that "
    "the straggler costs a step is left."
)


@dataclass(frozen=True)
class Straggle:
    """A case with a straggler: its label, of which kind, and the run without one that it is compared with."""

    label: str
    key: str
    run: Run
    healthy: Run

    @property
    def slowdown(self) -> float:
        """The mean step over that without the straggler."""
        return (mean_s(self.run) or 0.0) / (mean_s(self.healthy) or 1.0)


@dataclass(frozen=True)
class Cure:
    """What helps, beside the same straggler without it."""

    name: str
    ill: Straggle
    cured: Straggle

    @property
    def left(self) -> float:
        """The part of what the straggler costs that is left; below zero where the cure does more."""
        healthy_s, ill_s, cured_s = (mean_s(run) or 0.0 for run in (self.ill.healthy, self.ill.run, self.cured.run))
        return (cured_s - healthy_s) / (ill_s - healthy_s) if ill_s != healthy_s else 0.0


def _given(run: Run, key: str) -> str:
    """The value of a key, "none" where it is not given or does not apply."""
    value = str(run.spec.get(key))
    return "none" if value in ("None", "auto", "0", "none") else value


def straggler_key(run: Run) -> str | None:
    """Which kind of straggler a run has; None without one."""
    return next((key for key in STRAGGLERS if _given(run, key) != "none"), None)


def straggles(run: Run) -> list[Straggle]:
    """The cases with stragglers whose steps were finished, each beside the run of the same algorithm without one."""
    runs = {label: each for label, each in alike(run).items() if training_steps(each)}
    healthy = {str(each.spec.get("algorithm")): each for each in reversed(runs.values()) if not straggler_key(each)}
    return [
        Straggle(label, key, each, healthy[algorithm])
        for label, each in runs.items()
        for key, algorithm in [(straggler_key(each), str(each.spec.get("algorithm")))]
        if key is not None and algorithm in healthy
    ]


def cures(run: Run) -> list[Cure]:
    """Each cure beside what it cures: runs with the same straggler that differ in it alone."""
    found = straggles(run)
    return [
        Cure(name, ill, cured)
        for key, name in _CURES.items()
        for cured in found
        for ill in found
        if ill is not cured and _is_cure(key, cured.run) and _differ_in(key, ill.run, cured.run)
    ]


def _is_cure(key: str, run: Run) -> bool:
    """Whether the run has what cures: any backup worker, loss recovery, a timeout, the aggregator."""
    return _given(run, key) == _IN_NETWORK if key == "algorithm" else _given(run, key) not in ("none", "False")


def _differ_in(key: str, ill: Run, cured: Run) -> bool:
    """Whether two runs have the same straggler and transport, and one has the cure where the other has not."""
    alike_keys = [name for name in (*STRAGGLERS, "transport", *_CURES) if name != key]
    alike_keys += [name for name in _LOSS_RECOVERY if key != "rack"]
    if any(_given(ill, name) != _given(cured, name) for name in alike_keys):
        return False
    if key == "rto_min":
        return ill.parameters.rto_min_ns > cured.parameters.rto_min_ns
    return _given(ill, key) != _given(cured, key)


def summarize(run: Run) -> dict[str, Any]:
    """The steps, and what each straggler costs and each cure leaves."""
    return {
        **training.summarize(run),
        "straggler": {
            "slowdowns": {each.label: each.slowdown for each in straggles(run)},
            "left_by_cures": {each.cured.label: each.left for each in cures(run)},
        },
    }


def verdict(run: Run) -> Verdict:
    """Whether all wait for the slowest, and what cures; of a run without cases whether it is as modelled."""
    if not others(run):
        return training.judged(run, "straggler")
    own = (training.right(run), training.as_modelled(run))
    slowed = tuple(_slowed(run, key) for key in STRAGGLERS)
    pieces = (*own, *slowed, *(_cures(each) for each in cures(run)), processor(run))
    answer = _answer(training.answer_of(run, own), slowed)
    good = {REPRODUCED: True, NOT_PROVEN: None}.get(answer, False)
    return proven(Verdict("straggler", answer, pieces, good=good), {training.WRONG})


def _answer(own: str, slowed: tuple[Evidence, ...]) -> str:
    if own == training.WRONG:
        return own
    if any(piece.holds is False for piece in slowed):
        return NOT_REPRODUCED
    return REPRODUCED if own != NOT_PROVEN and all(piece.holds for piece in slowed) else NOT_PROVEN


def _slowed(run: Run, key: str) -> Evidence:
    """What a straggler of this kind costs the run's own algorithm, in the case in which it costs most."""
    worst = _worst(run, key)
    if worst is None:
        return Evidence(STRAGGLERS[key], None, None, None, "", "", None, f"no finished case with a {STRAGGLERS[key]}")
    return _waited(worst) if key == "lossy_link" else _as_slow_as_modelled(worst)


def _worst(run: Run, key: str) -> Straggle | None:
    found = [each for each in straggles(run) if each.key == key and each.run.spec.get("algorithm") == _algorithm(run)]
    return max(found, key=lambda each: each.slowdown, default=None)


def _algorithm(run: Run) -> Any:
    return run.spec.get("algorithm")


def _as_slow_as_modelled(each: Straggle) -> Evidence:
    expected, found = modelled(each.run), mean_s(each.run)
    known = expected is not None and found is not None
    return Evidence(
        name=f"mean step with a {STRAGGLERS[each.key]}",
        configured=f"{each.key}={_given(each.run, each.key)}",
        modelled=None if expected is None else expected.seconds,
        measured=found,
        unit="s",
        tolerance=f"within {MODEL_TOLERANCE:.0%} of the slowest one's time; {text.times(each.slowdown)} a step without",
        holds=training.is_near(found, expected.seconds) if expected is not None and found is not None else None,
        source=f"steps of cases/{each.label}" if known else f"no model, or no finished step, of cases/{each.label}",
    )


def _waited(each: Straggle) -> Evidence:
    """Whether everybody's longest step is as long as the longest of all."""
    longest = max(training_steps(each.run), key=lambda step: step.seconds)
    spans_s = [(turn.end_ns - longest.start_ns) / 1e9 for turn in longest.turns]
    return Evidence(
        name=f"longest step over a {STRAGGLERS[each.key]}",
        configured=f"{each.key}={_given(each.run, each.key)}",
        modelled=None,
        measured=longest.seconds,
        unit="s",
        tolerance=f"of every rank at least {WAITED:.0%} of it; the shortest: {text.seconds(min(spans_s))}; the median "
        f"step {text.seconds(step_s(each.run))}, the mean {text.times(each.slowdown)} that without losses",
        holds=min(spans_s) >= WAITED * max(spans_s),
        source=f"steps of cases/{each.label}",
    )


def _cures(each: Cure) -> Evidence:
    ill_s, cured_s, healthy_s = (mean_s(run) for run in (each.ill.run, each.cured.run, each.ill.healthy))
    return Evidence(
        name=f"cure: {each.name}",
        configured=f"{STRAGGLERS[each.ill.key]}, mean step {text.seconds(ill_s)}, without {text.seconds(healthy_s)}",
        modelled=None,
        measured=cured_s,
        unit="s",
        tolerance=f"at most {CURED:.0%} of the cost is left; here {each.left:.0%}",
        holds=each.left <= CURED,
        source=f"steps of cases/{each.cured.label} and cases/{each.ill.label}",
    )


def headline(run: Run) -> str:
    """What each straggler costs, and what the cures leave of it."""
    worst = [each for each in (_worst(run, key) for key in STRAGGLERS) if each is not None]
    if not others(run) or not worst:
        return training.headline(run)
    told = [f"a {STRAGGLERS[each.key]} {_up_to(run, each)}{text.times(each.slowdown)}" for each in worst]
    left = [f"{each.name} leaves {max(each.left, 0.0):.0%}" for each in cures(run)]
    helps = f"; of its cost {', '.join(left)}" if left else ""
    return f"one straggler among {len(rank_hosts(run))} makes everybody's step longer: {', '.join(told)}{helps}"


def _up_to(run: Run, worst: Straggle) -> str:
    """Whether another case with the same kind of straggler cost less."""
    alone = sum(each.key == worst.key and each.run.spec.get("algorithm") == _algorithm(run) for each in straggles(run))
    return "up to " if alone > 1 else ""


def beside(run: Run) -> str:
    """Slowdown of each case."""
    return text.beside([f"{each.label}: {text.times(each.slowdown)} the step" for each in straggles(run)])


def tiles(run: Run) -> list[tuple[str, str]]:
    """The step without a straggler, the slowdowns, the cures."""
    worst = [each for each in (_worst(run, key) for key in STRAGGLERS) if each is not None]
    if not worst:
        return training.tiles(run)
    costs = [(f"with a {STRAGGLERS[each.key]}: {each.label}", text.times(each.slowdown)) for each in worst]
    return [("a step", text.seconds(mean_s(run))), *costs]


def figures(run: Run) -> list[Drawn]:
    """All steps beside each other, and each rank's time in the run, with a slow host, and with a backup worker."""
    slow = _worst(run, "slow_host")
    left = next((each.cured for each in cures(run) if _given(each.cured.run, "backup_workers") != "none"), None)
    beside = {name: each for name, each in (("straggler_waits", slow), ("straggler_left", left)) if each is not None}
    shown = [
        drawn(name, run.path / "figures", partial(figures_of_training.timeline, each.run, each.label))
        for name, each in beside.items()
    ]
    cases, own = draw(run, training_cases=figures_of_training.cases, training_timeline=figures_of_training.timeline)
    return [cases, *shown, own]


def sections(run: Run) -> Html:
    """Stragglers, cures, steps."""
    found = straggles(run)
    if not found:
        return training.sections(run)
    heads = ("case", "straggler", "median step", "longest step", "mean step", "without", "slowdown")
    rows = [
        [
            each.label,
            f"{STRAGGLERS[each.key]} {_given(each.run, each.key)}",
            text.seconds(step_s(each.run)),
            text.seconds(longest_s(each.run)),
            text.seconds(mean_s(each.run)),
            text.seconds(mean_s(each.healthy)),
            text.times(each.slowdown),
        ]
        for each in found
    ]
    shown = table(heads, rows, numbers=range(2, len(heads)), stacked=True)
    return Html(f"<h2>Stragglers</h2>\n{shown}\n{training.sections(run)}")


def row(run: Run) -> dict[str, Any]:
    """The step's parts."""
    return training.row(run)


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How much longer a step takes, in the mean: a timeout in few of them counts."""
    if not main.get("mean_s") or not row.get("mean_s"):
        return ""
    return f"{text.times(row['mean_s'] / main['mean_s'])} the step"
