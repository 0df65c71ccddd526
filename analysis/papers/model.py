"""What a published curve is, where it comes from, and how ours is measured and scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable, Union

from analysis.run import Run

Place = Union[int, float, str]  # of a point on its axis: a number, or a name where the axis has names
Measure = Callable[[Run, Place], "float | None"]

LOG, LINEAR, NAMES = "log", "linear", "names"  # kinds of axes


@dataclass(frozen=True)
class Source:
    """Where published points come from: the paper, the figure or section in it, an address, and how precisely they are
    known (as data, as text, as a shape only)."""

    paper: str
    where: str
    address: str
    precision: str


@dataclass(frozen=True)
class Point:
    """A published value at a place on the axis (None: the paper names the place, but no value), and the run that ours
    comes from."""

    place: Place
    published: float | None
    run: str


@dataclass(frozen=True)
class Onset:
    """From which place on a curve has collapsed: the first where it is beyond `level`.

    is_fall: beyond is below. `published`: the place that the paper names; None: by its own points. Ours agrees when it
    is at most `early` places of the axis before the published one, and at most `late` behind.
    """

    level: float
    is_fall: bool
    early: int
    late: int
    published: Place | None = None

    def is_beyond(self, value: float) -> bool:
        """Whether a value is one of the collapse."""
        return value < self.level if self.is_fall else value > self.level


@dataclass(frozen=True)
class Curve:
    """A published curve and how ours is measured from the run of each point.

    `within`: the factor up to which the median ratio counts as agreement, and `why` so much; of a curve that says
    something of `every` point, the ratio farthest from 1. `at_least`: the published values are lower bounds, which ours
    may exceed. `onset`: None for a curve without a collapse.
    """

    name: str
    unit: str
    source: Source
    points: tuple[Point, ...]
    measure: Measure
    within: float
    why: str
    onset: Onset | None = None
    every: bool = False
    at_least: bool = False


@dataclass(frozen=True)
class CurveSet:
    """Curves over one axis, a figure: its name on the command line, its title, its axes, and what differs here from
    the set-up of the paper."""

    key: str
    title: str
    x: str
    y: str
    axis: str
    curves: tuple[Curve, ...]
    differs: Sequence[str]

    @property
    def runs(self) -> tuple[str, ...]:
        """The names of all runs that its points need, each once."""
        return tuple(dict.fromkeys(point.run for curve in self.curves for point in curve.points))
