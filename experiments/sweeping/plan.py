"""What a sweep runs: every combination of the values given, each so many times with a seed of its own; pure, and
checked as a whole before anything is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from math import prod
from typing import Any

from analysis.columns import Column
from analysis.sweep import FORMAT, figure_columns
from experiments import catalog, limits
from experiments.catalog import Experiment
from experiments.kinds import MOST_WHOLE
from experiments.spec import Spec, applies, as_typed, keys, parse
from topologies.units import BadRequest

MOST_RUNS = 100_000
_SEED = "seed"
_WHOLE, _FLOAT, _FLAG, _TEXT = "int64", "double", "bool", "string"
# What the results hold of every run, beside the keys of its spec and the figures of its kind: column -> type. Those
# that end in wall_s are this machine's, and differ from call to call.
RUN_COLUMNS = {"run": _WHOLE, "point": _WHOLE, "repeat": _WHOLE}
TOLD_COLUMNS = {
    "verdict": _TEXT,
    "complete": _FLAG,
    "rounds": _WHOLE,
    "round_least_s": _FLOAT,
    "round_median_s": _FLOAT,
    "round_most_s": _FLOAT,
    "packets": _WHOLE,
    "drops": _WHOLE,
    "retransmits": _WHOLE,
    "timeouts": _WHOLE,
    "stalls": _WHOLE,
    "ecn_marks": _WHOLE,
    "cnps": _WHOLE,
    "pfc_pauses": _WHOLE,
    "pfc_paused_s": _FLOAT,
    "lossless_drops": _WHOLE,
    "goodput_bps": _FLOAT,
    "slowdown": _FLOAT,
    "virtual_s": _FLOAT,
    "rounds_wall_s": _FLOAT,
    "wall_s": _FLOAT,
    "failure": _TEXT,
}


@dataclass(frozen=True)
class Asked:
    """A sweep as a user asks for it: experiment, the keys that all runs share, key -> values to combine, points to
    combine these with, and how many runs of each with seeds that follow each other."""

    experiment: Experiment
    given: Mapping[str, Any]
    over: Mapping[str, tuple[str, ...]]
    listed: tuple[Mapping[str, Any], ...] = ()
    repeats: int = 1


@dataclass(frozen=True)
class Point:
    """One point: its number from 1, what it changes (key -> text), and its spec with the first seed, resolved."""

    number: int
    changes: Mapping[str, str]
    spec: Spec

    @property
    def label(self) -> str:
        """The point in words."""
        return _words(self.changes)


@dataclass(frozen=True)
class Order:
    """One run to be carried out, wherever: its number and that of its point and repeat (from 1), what it is called, its
    experiment, and its resolved spec."""

    run: int
    point: int
    repeat: int
    label: str
    experiment: str
    spec: Spec

    @property
    def values(self) -> dict[str, Any]:
        """What the results have of the run before it has begun."""
        return {"run": self.run, "point": self.point, "repeat": self.repeat, **spec_values(self.spec)}


@dataclass(frozen=True)
class Plan:
    """All points of a sweep, which can work, and those that were left out, with the reason."""

    asked: Asked
    points: tuple[Point, ...]
    left_out: tuple[str, ...] = ()

    def orders(self) -> Iterator[Order]:
        """Every run, a point's repeats after each other."""
        repeats = self.asked.repeats
        for point in self.points:
            for repeat in range(1, repeats + 1):
                seed = point.spec.seed + repeat - 1
                yield Order(
                    (point.number - 1) * repeats + repeat,
                    point.number,
                    repeat,
                    f"{point.label}, seed={seed}" if repeats > 1 else point.label,
                    self.asked.experiment.name,
                    self._seeded(point, seed),
                )

    def _seeded(self, point: Point, seed: int) -> Spec:
        """The point's spec with a seed; code of the user's own may resolve it otherwise with each."""
        if not point.spec.own:
            return replace(point.spec, seed=seed)
        return _resolved(self.asked, {**point.changes, _SEED: str(seed)})

    @property
    def spec_columns(self) -> dict[str, str]:
        """Column of the results -> its type, for every key that means something to at least one point."""
        return {
            item.name: _column_type(str(item.type))
            for item in fields(Spec)
            if any(applies(point.spec, item) for point in self.points)
        }

    @property
    def figures(self) -> tuple[Column, ...]:
        """What the kinds of these runs tell, beside what every run does."""
        return figure_columns(self.asked.experiment.name, self.workloads, [*self.spec_columns, *TOLD_COLUMNS])

    @property
    def workloads(self) -> list[str]:
        """The workloads of the points, in order."""
        return list(dict.fromkeys(str(point.spec.workload) for point in self.points))

    @property
    def columns(self) -> dict[str, str]:
        """Column of the results -> its type, in order."""
        figures = {column.key: _FLOAT if column.is_number else _TEXT for column in self.figures}
        return {**RUN_COLUMNS, **self.spec_columns, **figures, **TOLD_COLUMNS}

    def document(self) -> dict[str, Any]:
        """sweep.json: all that makes this sweep the one it is; two sweeps are the same where this is equal."""
        swept = dict.fromkeys(key for point in self.points for key in point.changes)
        return {
            "format": FORMAT,
            "experiment": self.asked.experiment.name,
            "question": self.asked.experiment.question,
            "given": {key: str(value) for key, value in self.asked.given.items()},
            "own": sorted({f"{plug} {plug.sha256}" for point in self.points for plug in point.spec.own.values()}),
            "axes": {key: keys()[key].name for key in swept},
            "repeats": self.asked.repeats,
            "points": [dict(point.changes) for point in self.points],
            "left_out": list(self.left_out),
            "workloads": self.workloads,
            "spec_columns": list(self.spec_columns),
        }


def over(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Key -> values in KEY=VALUE,VALUE words; raises BadRequest for a word without values, and a key given twice."""
    found: dict[str, tuple[str, ...]] = {}
    for word in words:
        key, equals, values = word.partition("=")
        if not equals or not key:
            raise BadRequest(f"--over: {word!r} is given; allowed: KEY=VALUE,VALUE...")
        if key in found:
            raise BadRequest(f"--over: {key} is given twice; allowed: each key once, with all its values")
        found[key] = tuple(value.strip() for value in values.split(","))
        if not all(found[key]):
            raise BadRequest(f"--over: {word!r} has an empty value; allowed: KEY=VALUE,VALUE...")
    return found


def plan(asked: Asked, leave_out: bool = False) -> Plan:
    """All points, checked; raises BadRequest naming the first that cannot work, or, with `leave_out`, leaves those out.
    Keys that no run could have are refused in any case, and so are two points that are the same run."""
    _check(asked)
    points: list[Point] = []
    left_out: list[str] = []
    for changes in _combinations(asked):
        try:
            points.append(Point(len(points) + 1, changes, _resolved(asked, changes)))
        except BadRequest as error:
            if not leave_out:
                raise BadRequest(
                    f"point {_words(changes)}: {error} (--leave-out goes on without such points)"
                ) from None
            left_out.append(f"{_words(changes)}: {error}")
    if not points:
        raise BadRequest(f"sweep: none of the {len(left_out)} points can work, the first is {left_out[0]}")
    _check_different(points)
    _check_room(asked, points)
    return Plan(asked, tuple(points), tuple(left_out))


def _check(asked: Asked) -> None:
    listed = {key for each in asked.listed for key in each}
    swept = {*asked.over, *listed}
    if not swept and asked.repeats < 2:
        raise BadRequest("sweep: nothing to sweep over is given; allowed: with --over, --list or --repeat")
    for key in sorted(swept & set(asked.given) | set(asked.over) & listed):
        raise BadRequest(f"{key}: is given twice; allowed: by one of --over, --list, and --set or the file")
    if _SEED in swept and asked.repeats > 1:
        raise BadRequest("--repeat: given with a sweep over seed; allowed: one of them")
    runs = asked.repeats * max(1, len(asked.listed)) * prod(map(len, asked.over.values()))
    if runs > MOST_RUNS:
        raise BadRequest(f"sweep: {runs:,} runs are asked for; allowed: up to {MOST_RUNS:,}")


def _combinations(asked: Asked) -> Iterator[dict[str, str]]:
    """What each point changes, as the spec writes it."""
    axes = [[(key, _as_written(key, value)) for value in values] for key, values in asked.over.items()]
    for each in asked.listed or ({},):
        listed = {key: _as_written(key, value) for key, value in each.items()}
        for values in product(*axes):
            yield {**listed, **dict(values)}


def _resolved(asked: Asked, changes: Mapping[str, str]) -> Spec:
    """The experiment's main run with what a point changes."""
    return limits.resolve(catalog.plan(asked.experiment, {**asked.given, **changes}).main)


def _as_written(key: str, value: Any) -> str:
    """The value as a resolved spec writes it, so that 1000Mbps and 1Gbps are one; raises BadRequest for an unknown key
    or a bad value."""
    return as_typed(parse({key: value}).as_text()[key])


def _check_different(points: Sequence[Point]) -> None:
    seen: dict[Spec, Point] = {}
    for point in points:
        other = seen.setdefault(point.spec, point)
        if other is not point:
            raise BadRequest(f"sweep: {other.label} and {point.label} are the same run; allowed: each point once")


def _check_room(asked: Asked, points: Sequence[Point]) -> None:
    """That the results' columns have room for every whole number; a run alone takes larger ones."""
    whole = [(item.metadata["name"], item.name) for item in fields(Spec) if _column_type(str(item.type)) == _WHOLE]
    for point in points:
        for key, name in whole:
            number = getattr(point.spec, name) or 0
            if not -MOST_WHOLE <= number <= MOST_WHOLE - asked.repeats:
                given = f"{point.spec.as_text()[key]} is given"
                raise BadRequest(
                    f"{key}: {given}; allowed in a sweep: below 2^63, as a number, in bytes or in nanoseconds"
                )


def _column_type(annotation: str) -> str:
    """The type of a key's column: whole numbers, floats and flags as they are, all else as the spec writes it."""
    first = annotation.partition(" | ")[0]
    return {"int": _WHOLE, "float": _FLOAT, "bool": _FLAG}.get(first, _TEXT)


def spec_values(spec: Spec) -> dict[str, Any]:
    """Column -> value of every key of a resolved spec, as the results have it; None for one that does not apply."""
    text = spec.as_text()
    return {
        item.name: _value(getattr(spec, item.name), text[item.metadata["name"]], _column_type(str(item.type)))
        for item in fields(Spec)
    }


def _value(value: Any, text: Any, kind: str) -> Any:
    return None if value is None else as_typed(text) if kind == _TEXT else value


def _words(changes: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in changes.items()) or "as given"
