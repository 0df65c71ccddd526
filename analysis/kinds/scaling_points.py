"""All-reduce over the number of ranks: what the runs of an experiment measured, the model calibrated on them, and where
one algorithm overtakes another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from analysis.kinds.collective_calls import SizeRow, algorithm, collective, model_setting, ranks, size_rows
from analysis.kinds.collective_model import Line, Setting, fit, phases, seconds
from analysis.run import Run

BERT_LARGE_BYTES = 4 * 340_000_000  # slide 8: about 340 million parameters, float32
MOST_RANKS = 1024  # that the model is asked for
LEAST_BYTES, MOST_BYTES = 1 << 10, 1 << 31  # of the size, for the model
COMPARED_BYTES = 4 << 20  # the size over which numbers of ranks are compared, where it was sent
_ALIKE = 0.999  # of a time: the two that meet are found to within a thousandth


@dataclass(frozen=True)
class Point:
    """An algorithm at a number of ranks: its sizes, and what the model is asked for."""

    algorithm: str
    ranks: int
    run: Run
    rows: tuple[SizeRow, ...]
    setting: Setting

    def row(self, size_bytes: int) -> SizeRow | None:
        """The measured size; None when it was not sent."""
        return next((row for row in self.rows if row.size_bytes == size_bytes), None)


def points(run: Run) -> dict[str, dict[int, Point]]:
    """Algorithm -> ranks -> point, of the run and those of its cases that do the same collective."""
    found: dict[str, dict[int, Point]] = {}
    for each in (run, *run.cases.values()):
        asked = model_setting(each) if each.workload == run.workload else None
        if asked is not None and collective(each) == collective(run) and size_rows(each):
            point = Point(algorithm(each), ranks(each), each, tuple(size_rows(each)), asked)
            found.setdefault(point.algorithm, {})[point.ranks] = point
    return {name: dict(sorted(several.items())) for name, several in found.items()}


def compared_bytes(found: dict[str, dict[int, Point]]) -> int | None:
    """The size that all points have: 4 MiB, else the largest; None when there is none."""
    sizes = [{row.size_bytes for row in point.rows} for several in found.values() for point in several.values()]
    common = set.intersection(*sizes) if sizes else set()
    return COMPARED_BYTES if COMPARED_BYTES in common else max(common, default=None)


def calibrated(several: dict[int, Point]) -> Line | None:
    """The alpha and beta that the measured times of one algorithm, at all its ranks and sizes, give the model's own
    delays and bytes."""
    told = [(*critical(point.setting, row.size_bytes), row.seconds) for point in several.values() for row in point.rows]
    return fit(*zip(*((size, time_s, steps) for steps, size, time_s in told))) if told else None


def critical(setting: Setting, size_bytes: float) -> tuple[float, float]:
    """Delays and bytes on the critical path, the bytes of other links as if on the ranks' own."""
    found = phases(setting, size_bytes)
    own_s = setting.outer.beta_s
    scaled = sum(phase.payload_bytes * setting.link(phase.link).beta_s / own_s for phase in found)
    return sum(phase.steps for phase in found), scaled


def at_ranks(point: Point, number: int) -> Setting:
    """The same algorithm and links with another number of ranks."""
    return replace(point.setting, ranks=number)


def modelled_s(point: Point, number: int, size_bytes: float) -> float:
    """The model's time for another number of ranks."""
    return seconds(at_ranks(point, number), size_bytes)


def calibrated_s(line: Line, point: Point, number: int, size_bytes: float) -> float:
    """The calibrated model's time for another number of ranks."""
    steps, payload_bytes = critical(at_ranks(point, number), size_bytes)
    return line.seconds(payload_bytes, steps)


@dataclass(frozen=True)
class Crossing:
    """Where one algorithm, slower before, overtakes another, slower behind: the number of ranks or the size, the time
    of both there, and whether no third one is faster (`leads`)."""

    overtaken: str
    overtaking: str
    place: float
    seconds: float
    leads: bool


def crossings(curves: dict[str, Callable[[float], float]], places: Sequence[float]) -> list[Crossing]:
    """Where one of the curves passes below another, between the ascending `places` to within a thousandth, in order."""
    found = [
        _crossing(curves, pair, low, high)
        for pair in combinations(curves, 2)
        for low, high in zip(places, places[1:])
        if _is_below(curves, pair, low) != _is_below(curves, pair, high)
    ]
    return sorted(found, key=lambda each: each.place)


def _is_below(curves: dict[str, Callable[[float], float]], pair: tuple[str, str], place: float) -> bool:
    first, second = (curves[name](place) for name in pair)
    return first < second


def _crossing(curves: dict[str, Callable[[float], float]], pair: tuple[str, str], low: float, high: float) -> Crossing:
    first, second = pair if _is_below(curves, pair, low) else pair[::-1]
    place = _meeting(lambda at: curves[first](at) - curves[second](at), low, high)
    at_s = curves[first](place)
    leads = all(curve(place) >= at_s * _ALIKE for name, curve in curves.items() if name not in pair)
    return Crossing(first, second, place, at_s, leads)


def rank_crossings(found: dict[str, dict[int, Point]], size_bytes: int | None) -> list[Crossing]:
    """Where one algorithm overtakes another over the ranks, from the fewest that ran up to MOST_RANKS, by the model."""
    if size_bytes is None:  # no point at all, or none in common
        return []
    curves = {name: _over_ranks(several, size_bytes) for name, several in found.items()}
    fewest = min((min(several) for several in found.values()), default=MOST_RANKS)
    return crossings(curves, _doublings(fewest, MOST_RANKS))


def size_crossings(found: dict[str, dict[int, Point]]) -> list[Crossing]:
    """Where one algorithm overtakes another over the size, with the most ranks that ran, by the model."""
    most = max((max(several) for several in found.values()), default=0)
    curves = {name: _over_size(several[most]) for name, several in found.items() if most in several}
    return crossings(curves, _doublings(LEAST_BYTES, MOST_BYTES))


def _over_ranks(several: dict[int, Point], size_bytes: int) -> Callable[[float], float]:
    last = several[max(several)]
    return lambda number: _between(last, number, size_bytes)


def _between(point: Point, number: float, size_bytes: int) -> float:
    """The model between two powers of two, for which all algorithms have one, on logarithmic axes."""
    low = 1 << int(math.log2(number) + 1e-9)
    share = math.log2(number / low)
    first, second = (math.log(modelled_s(point, ranks, size_bytes)) for ranks in (low, 2 * low))
    return math.exp(first + share * (second - first))


def _over_size(point: Point) -> Callable[[float], float]:
    return lambda size_bytes: seconds(point.setting, size_bytes)


def _doublings(low: int, high: int) -> list[int]:
    places = [low]
    while places[-1] * 2 <= high:
        places.append(places[-1] * 2)
    return places


def slope_s(times_s: dict[int, float]) -> float:
    """Seconds for each further rank, by ordinary least squares."""
    return float(np.polyfit(list(times_s), list(times_s.values()), 1)[0])


def _meeting(difference: Callable[[float], float], low: float, high: float) -> float:
    """Where the difference, negative at `low`, is none (bisection on a logarithmic axis)."""
    while high > low * 1.001:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if difference(middle) < 0 else (low, middle)
    return (low * high) ** 0.5
