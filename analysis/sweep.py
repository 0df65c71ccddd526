"""What a sweep found, read from its folder alone: a row for each run, and for each point the means over its repeats,
with how sure they are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures.confidence import mean_interval
from analysis.kinds import kind_named
from topologies.units import BadRequest, in_one_line

FORMAT = 1
PLAN, RESULTS = "sweep.json", "results"
# What every kind of workload tells, for those whose own columns do not.
COMMON = (
    Column("drops", "drops", text.count),
    Column("resent", "retransmits", text.count),
    Column("timeouts", "timeouts", text.count),
)


@dataclass(frozen=True)
class Mean:
    """The mean of a figure over the repeats that told it, how many did, and the interval that holds the true mean 95
    times in 100 (None for a single one)."""

    value: float
    runs: int
    interval: tuple[float, float] | None

    @property
    def half(self) -> float:
        """Half the width of the interval, 0 without one."""
        return 0.0 if self.interval is None else (self.interval[1] - self.interval[0]) / 2


@dataclass(frozen=True)
class Point:
    """One point: what it changes (key -> text), the same as columns of the results have it (key -> value), how many of
    its runs are done and have failed, how often each verdict was given, and the mean of each figure by column."""

    number: int
    changes: Mapping[str, str]
    values: Mapping[str, Any]
    done: int
    failed: int
    verdicts: Mapping[str, int]
    means: Mapping[str, Mean]

    @property
    def label(self) -> str:
        """The point in words."""
        return ", ".join(f"{key}={value}" for key, value in self.changes.items()) or "as given"


@dataclass(frozen=True)
class Sweep:
    """A sweep's plan (sweep.json) and the rows of its results, in order."""

    folder: Path
    plan: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]

    @property
    def axes(self) -> Mapping[str, str]:
        """Key that differs between points -> its column in the results."""
        found: Mapping[str, str] = self.plan["axes"]
        return found

    @cached_property
    def figures(self) -> tuple[Column, ...]:
        """The figures that some run told: those of the kinds of workload first, then what every run tells."""
        told = figure_columns(self.plan["experiment"], self.plan["workloads"], self.plan["spec_columns"])
        return tuple(each for each in told if each.is_number and any(row[each.key] is not None for row in self.rows))

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """Every point of the plan, also those of which no run has ended."""
        runs: dict[int, list[Mapping[str, Any]]] = {}
        for row in self.rows:
            runs.setdefault(row["point"], []).append(row)
        return tuple(
            _point(number, changes, self.axes, self.figures, runs.get(number, []))
            for number, changes in enumerate(self.plan["points"], 1)
        )

    @property
    def failures(self) -> list[Mapping[str, Any]]:
        """The rows of the runs that failed."""
        return [row for row in self.rows if row["failure"] is not None]


def read(folder: Path) -> Sweep:
    """The sweep in `folder`; raises BadRequest when there is none, or none that can be read."""
    import pyarrow
    import pyarrow.parquet

    try:
        plan = json.loads((folder / PLAN).read_text())
        table = pyarrow.parquet.read_table(folder / RESULTS)
        return Sweep(folder, plan, sorted(table.to_pylist(), key=lambda row: int(row["run"])))
    except (OSError, ValueError, KeyError, pyarrow.ArrowException) as error:
        raise BadRequest(
            f"{folder}: cannot be read as a sweep ({in_one_line(error)}); allowed: a folder that `sweep` wrote"
        ) from None


def figure_columns(experiment: str, workloads: Sequence[str], taken: Sequence[str] = ()) -> tuple[Column, ...]:
    """The figures of an experiment's runs with these workloads, each key once, without those of the `taken` names."""
    kinds = filter(None, (kind_named(experiment, workload) for workload in workloads))
    every = [*(column for kind in kinds for column in kind.COLUMNS), *COMMON]
    found = {column.key: column for column in reversed(every) if column.key not in taken}
    return tuple(reversed(found.values()))


def _point(
    number: int,
    changes: Mapping[str, str],
    axes: Mapping[str, str],
    figures: Sequence[Column],
    rows: Sequence[Mapping[str, Any]],
) -> Point:
    done = [row for row in rows if row["failure"] is None]
    means = {column.key: _mean([row[column.key] for row in done if row[column.key] is not None]) for column in figures}
    return Point(
        number,
        changes,
        {key: done[0][column] for key, column in axes.items()} if done else {},
        len(done),
        len(rows) - len(done),
        Counter(row["verdict"] for row in done),
        {key: mean for key, mean in means.items() if mean is not None},
    )


def _mean(values: Sequence[float]) -> Mean | None:
    return Mean(fmean(values), len(values), mean_interval(values)) if values else None


def words(column: Column, mean: Mean | None) -> str:
    """A mean with half its interval, unless all runs gave the same, in words; a dash for None."""
    if mean is None:
        return text.NOTHING
    form = text.digits if column.form is text.count else column.form
    half = f" ± {form(mean.half)}" if mean.half else ""
    return text.Quantity(f"{form(mean.value)}{half}", mean.value)


def verdict_words(point: Point) -> str:
    """The verdict of a point's runs; where they differ, each with its count, the most frequent first."""
    ordered = sorted(point.verdicts.items(), key=lambda each: (-each[1], each[0]))
    if len(ordered) == 1:
        return ordered[0][0]
    return ", ".join(f"{verdict} {count}" for verdict, count in ordered) or text.NOTHING


def runs_words(point: Point, repeats: int) -> str:
    """How many of a point's runs are done: "5", or "4 of 5" (1 failed)."""
    failed = f" ({point.failed} failed)" if point.failed else ""
    return str(point.done) if point.done == repeats else f"{point.done} of {repeats}{failed}"
