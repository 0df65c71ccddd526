"""What the runs of a training breakdown measured: a point each, and the lines through them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis import text
from analysis.kinds.breakdown_model import RING, SERVER, Assumption, assumptions, best_exponent, deviation, fitted
from analysis.kinds.collective_model import Line
from analysis.kinds.training_steps import compute_s, rank_hosts, waiting_s, waiting_share
from analysis.run import Run
from topologies.units import parse_bytes, parse_duration_ns

FIT_WITHIN = 0.10  # as for the collectives' own model
FIXED_BATCH = "ring, fixed global batch"
OTHER = "other"


@dataclass(frozen=True)
class Point:
    """A run: its ranks, by which algorithm and scheme, and the parts of its step."""

    label: str
    ranks: int
    algorithm: str
    scheme: str
    gradient_bytes: int
    compute_s: float
    communication_s: float
    share: float


def point(run: Run, main: Run | None = None) -> Point | None:
    """The run's point, `main` being the run whose case it is; None where no step was finished."""
    computes_s, communicates_s, share = compute_s(run), waiting_s(run), waiting_share(run)
    if computes_s is None or communicates_s is None or share is None:
        return None
    return Point(
        run.parameters.label,
        len(rank_hosts(run)),
        str(run.spec.get("algorithm")),
        _scheme(run, main or run),
        gradient_bytes(run),
        computes_s,
        communicates_s,
        share,
    )


def _scheme(run: Run, main: Run) -> str:
    """The algorithm where every rank keeps the main run's batch; the fixed batch, where all of them together do."""
    algorithm = str(run.spec.get("algorithm"))
    own_ns, main_ns = (parse_duration_ns(each.spec.get("compute"), "compute") for each in (run, main))
    if own_ns == main_ns:
        return algorithm
    together = own_ns * len(rank_hosts(run)) / (main_ns * max(len(rank_hosts(main)), 1))
    return FIXED_BATCH if algorithm == RING and abs(together - 1) < 0.01 else OTHER


def points(run: Run) -> list[Point]:
    """The run's and its cases', by ranks; those left out that send other gradients (see `probes`)."""
    return [each for each in _all_points(run) if each.gradient_bytes == gradient_bytes(run)]


def probes(run: Run) -> list[Point]:
    """The rings that send other gradients than the run: no part of the line, which they try."""
    return [each for each in _all_points(run) if each.gradient_bytes != gradient_bytes(run) and each.algorithm == RING]


def _all_points(run: Run) -> list[Point]:
    cases = [point(case, run) for case in run.cases.values() if case.workload == run.workload]
    return sorted(
        (each for each in (point(run), *cases) if each is not None), key=lambda each: (each.ranks, each.label)
    )


def gradient_bytes(run: Run) -> int:
    """What each rank has to say in a step."""
    return parse_bytes(run.spec.get("gradient"), "gradient")


def line_of(run: Run, algorithm: str) -> Line | None:
    """The line through the times of communication of all points of an algorithm: how long ranks compute changes
    nothing of them. None for too few points."""
    found = [each for each in points(run) if each.algorithm == algorithm]
    if not found:
        return None
    return fitted(algorithm, found[0].gradient_bytes, [(each.ranks, each.communication_s) for each in found])


def assumed(run: Run) -> list[tuple[Assumption, Mapping[int, float]]]:
    """Each assumption whose algorithm has a line, with its shares; empty without a line of the ring."""
    lines = {name: line for name in (RING, SERVER) for line in [line_of(run, name)] if line is not None}
    own = point(run)
    if own is None or RING not in lines:
        return []
    listed = assumptions(own.gradient_bytes)
    return [(each, each.shares(lines[each.algorithm])) for each in listed if each.algorithm in lines]


def fitted_exponent(run: Run) -> tuple[Assumption, Mapping[int, float]] | None:
    """The ring whose computing falls as the claim asks for; None without a line of the ring."""
    line, own = line_of(run, RING), point(run)
    if line is None or own is None:
        return None
    best = best_exponent(line, own.gradient_bytes)
    return best, best.shares(line)


def nearest(run: Run) -> tuple[Assumption, Mapping[int, float]] | None:
    """The assumption of the list whose shares are nearest to the claimed ones."""
    return min(assumed(run), key=lambda pair: deviation(pair[1]), default=None)


def compute_words(each: Point) -> str:
    """What a rank computes in a step."""
    return f"{text.seconds(each.compute_s)} of computing"
