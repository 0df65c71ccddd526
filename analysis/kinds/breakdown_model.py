"""Which share of a training step is communication when the cluster grows (pure): the lecture's figures, the time of an
all-reduce from lines fitted to measured ones, and what follows under each assumption about the work.

Nothing of a step is hidden behind anything: share = communication / (compute + communication). The claim's first point
(30 % with 10 GPUs) fixes how long a rank computes there; then an assumption says how that changes with the number of
ranks N, as (N / 10)^-p:

    p = 0    each rank keeps its batch (weak scaling)
    p = 1/2  the global batch grows as the square root of N
    p = 1    the global batch stays (strong scaling)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.kinds.collective_model import Line, fit

CLAIMED = {10: 0.30, 100: 0.55, 1000: 0.80}  # slides 2 and 3: GPUs -> share of a step's time
ANCHOR = 10  # ranks at which the claim fixes the computing
WITHIN = 0.05  # shares are told in steps of five points
BERT_LARGE_BYTES = 4 * 340e6  # slide 8: about 340 million parameters, float32
RING, SERVER = "ring", "parameter_server"
_KEEPS = "batch per rank fixed"


def claimed_share(ranks: int) -> float:
    """The claim at any number of ranks: its three points lie on one line over log N, 25 points a decade."""
    first, last = CLAIMED[ANCHOR], CLAIMED[100]
    return first + (last - first) * math.log10(ranks / ANCHOR)


@dataclass(frozen=True)
class Load:
    """What the critical path of one all-reduce carries: delays one after the other, and bytes over one link."""

    steps: float
    payload_bytes: float


def load(algorithm: str, ranks: int, gradient_bytes: float) -> Load:
    """Of a ring 2 (N - 1) messages of 1/N of the gradient (Patarasuk and Yuan 2009); of one parameter server all
    gradients in, then the sum out to all, each over its one link."""
    if algorithm == RING:
        return Load(2 * (ranks - 1), 2 * (ranks - 1) / ranks * gradient_bytes)
    return Load(2, 2 * ranks * gradient_bytes)


def fitted(algorithm: str, gradient_bytes: float, measured_s: Sequence[tuple[int, float]]) -> Line | None:
    """The line through measured times of communication, each with its number of ranks; None for too few."""
    loads = [load(algorithm, ranks, gradient_bytes) for ranks, _ in measured_s]
    return fit(
        [each.payload_bytes for each in loads], [seconds for _, seconds in measured_s], [each.steps for each in loads]
    )


@dataclass(frozen=True)
class Assumption:
    """How work and gradients are shared: compute falls as (N / 10)^-exponent; gradient_bytes travel by the
    algorithm; is_plain: nothing else than what is measured; short: its name in a figure."""

    name: str
    short: str
    algorithm: str
    exponent: float
    gradient_bytes: float
    is_plain: bool = False

    def shares(self, line: Line) -> dict[int, float]:
        """The share at each number of ranks that the claim names."""
        return {ranks: self.share(line, ranks) for ranks in CLAIMED}

    def share(self, line: Line, ranks: float) -> float:
        """The share at a number of ranks, by the line of its algorithm."""
        seconds = self.communication_s(line, ranks)
        return seconds / (seconds + self.compute_s(line, ranks))

    def compute_s(self, line: Line, ranks: float) -> float:
        """What a rank computes in a step."""
        at_anchor = self.communication_s(line, ANCHOR) * (1 / CLAIMED[ANCHOR] - 1)
        return at_anchor * (ranks / ANCHOR) ** -self.exponent

    def communication_s(self, line: Line, ranks: float) -> float:
        """How long the gradients travel."""
        carried = load(self.algorithm, int(ranks), self.gradient_bytes)
        return line.seconds(carried.payload_bytes, carried.steps)


def deviation(shares: Mapping[int, float]) -> float:
    """The most that shares differ from the claimed ones."""
    return max(abs(shares[ranks] - claimed) for ranks, claimed in CLAIMED.items())


def assumptions(gradient_bytes: float) -> list[Assumption]:
    """What is tried, in this order, whatever was measured: work shared in three ways over a ring, with the gradients
    that were sent and with BERT-Large's, and the usual way over a parameter server."""
    ways = {
        0.0: (_KEEPS, "p = 0"),
        0.5: ("global batch as √N", "p = 1/2"),
        1.0: ("global batch fixed", "p = 1"),
    }
    rings = [
        Assumption(f"ring, {way}{of}", f"ring, {short}{of}", RING, p, size, is_plain=not of and not p)
        for size, of in ((gradient_bytes, ""), (BERT_LARGE_BYTES, ", BERT-Large"))
        for p, (way, short) in ways.items()
    ]
    return [*rings, Assumption(f"parameter server, {_KEEPS}", "server, p = 0", SERVER, 0.0, gradient_bytes)]


def best_exponent(line: Line, gradient_bytes: float) -> Assumption:
    """The ring whose exponent comes nearest to the claim, to a hundredth: a fit to the claim itself, which tells what
    it asks for and proves nothing."""

    def ring(hundredths: int) -> Assumption:
        exponent = hundredths / 100
        name = f"ring, computing falls as N^-{exponent:g} (fitted to the claim)"
        return Assumption(name, f"ring, p = {exponent:g}", RING, exponent, gradient_bytes)

    return min(map(ring, range(201)), key=lambda each: deviation(each.shares(line)))
