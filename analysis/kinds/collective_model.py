"""How long a collective takes by the alpha-beta model, from the configuration alone (pure); and lines fitted to
measured times, for sizes and numbers of ranks that are not sent.

alpha is the one-way delay of a message's end: propagation and switches' pipelines, less the first packet's time on the
link, because the first frame into an idle port leaves at once (docs/fidelity.md). beta is the time of a byte of payload
on the slowest link, headers and acknowledgements included. gamma, the time of an addition, is nothing: in virtual time
computing takes none. A collective is a list of phases, one after the other on its critical path; each counts the delays
that follow each other and the bytes that one link carries one after the other (Thakur et al. 2005).

The algorithms are those of workloads/collectives, whose texts name their papers. Where long messages are cut into
chunks that follow each other (trees, chains, parameter servers, hierarchical) most delays hide behind the bytes of the
chunks behind; a ring's segments travel whole, and meet a delay in every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topologies.units import BadRequest

LEAST_FITTED = 4  # points of a line that is to be believed
JITTER_S = 1e-6  # ranks begin within so much of each other
_AT_ONCE = 2  # pieces of the hierarchical algorithm in a stage
_HALVES = 2  # of the data, one for each of the two trees


@dataclass(frozen=True)
class Link:
    """What messages meet from rank to rank: delay of propagation and switches; time of a byte of payload on the slowest
    of all ways; payload of a full packet; the mean time of a byte over all ways (None: they are alike)."""

    delay_s: float
    beta_s: float
    packet_bytes: float = 0.0
    mean_beta_s: float | None = None

    @property
    def usual_beta_s(self) -> float:
        """The mean time of a byte over all ways."""
        return self.beta_s if self.mean_beta_s is None else self.mean_beta_s

    def alpha_s(self, message_bytes: float) -> float:
        """The delay of the end of a message that finds the link idle."""
        return self.delay_s - self.usual_beta_s * min(message_bytes, self.packet_bytes)


@dataclass(frozen=True)
class Setting:
    """A collective as configured: its name and algorithm, the ranks, the longest message, ranks per server, parameter
    servers, and the links between servers, inside one, and to a helper (a parameter server, the aggregator).
    is_one_link: a rank has one link for what goes inside and between."""

    collective: str
    algorithm: str
    ranks: int
    chunk_bytes: int
    group: int
    shards: int
    outer: Link
    inner: Link
    helper: Link
    is_one_link: bool = True

    def link(self, name: str) -> Link:
        """The link of a phase."""
        links: Mapping[str, Link] = {"outer": self.outer, "inner": self.inner, "helper": self.helper}
        return links[name]

    def seconds(self, phase: Phase) -> float:
        """How long a phase takes."""
        return phase.steps * self.link(phase.link).alpha_s(phase.message_bytes) + (
            phase.payload_bytes * self.link(phase.link).beta_s
        )


@dataclass(frozen=True)
class Phase:
    """A part of the critical path: on which link, how many delays and bytes follow each other, and the message whose
    end each delay waits for."""

    link: str
    steps: float
    payload_bytes: float
    message_bytes: float


def seconds(setting: Setting, size_bytes: float) -> float:
    """How long a call of so many bytes takes from the word to begin to the last rank's end, the last start among it:
    that of `ranks` starts within the jitter."""
    last_start_s = JITTER_S * setting.ranks / (setting.ranks + 1)
    return last_start_s + _seconds(setting, phases(setting, size_bytes))


def phases(setting: Setting, size_bytes: float) -> list[Phase]:
    """The critical path of a call; raises BadRequest for an algorithm that the collective does not have."""
    model = _MODELS.get((setting.collective, setting.algorithm))
    if model is None:
        names = ", ".join(algorithm for name, algorithm in _MODELS if name == setting.collective)
        raise BadRequest(f"algorithm: {setting.algorithm!r} has no model with {setting.collective}; allowed: {names}")
    return model(setting, size_bytes)


def busbw_factor(collective: str, ranks: int) -> float:
    """busbw over algbw (nccl-tests, doc/PERFORMANCE.md and src/*.cu)."""
    share = (ranks - 1) / ranks
    factors = {"all_reduce": 2 * share, "broadcast": 1.0, "reduce": 1.0}
    return factors.get(collective, share)


@dataclass(frozen=True)
class Line:
    """Times as a line: so many seconds for each delay, and for each byte; `error` is the most that a fitted point is
    off, as a share of it."""

    alpha_s: float
    beta_s: float
    error: float

    def seconds(self, payload_bytes: float, steps: float = 1.0) -> float:
        """The line's time for so many bytes and delays one after the other."""
        return steps * self.alpha_s + payload_bytes * self.beta_s


def fit(payload_bytes: Sequence[float], times_s: Sequence[float], steps: Sequence[float] | None = None) -> Line | None:
    """The line of the least squares of relative errors through measured times; steps: delays that follow each other in
    each (default: one). None for fewer than LEAST_FITTED different points."""
    delays = [1.0] * len(times_s) if steps is None else list(steps)
    if len(set(zip(delays, payload_bytes))) < LEAST_FITTED:
        return None
    times = np.asarray(times_s, float)
    columns = np.column_stack([delays, payload_bytes]) / times[:, None]
    (alpha_s, beta_s), *_ = np.linalg.lstsq(columns, np.ones(len(times)), rcond=None)
    if alpha_s < 0:  # no delay is negative: the bytes alone tell all there is
        alpha_s, beta_s = 0.0, float(np.sum(columns[:, 1]) / np.sum(columns[:, 1] ** 2))
    error = float(np.max(np.abs(columns @ np.array([alpha_s, beta_s]) - 1)))
    return Line(float(alpha_s), float(beta_s), error)


Model = Callable[[Setting, float], "list[Phase]"]


def _ring(steps_of: Callable[[int], int]) -> Model:
    """Every step moves a segment to the next rank, which waits for it before its own next step. A link that is slower
    than the others all together (between servers) is never idle, and hides the delays."""

    def model(setting: Setting, size_bytes: float) -> list[Phase]:
        return _ring_phases(setting.outer, "outer", setting.ranks, steps_of(setting.ranks), size_bytes)

    return model


def _ring_phases(link: Link, name: str, ranks: int, steps: int, size_bytes: float) -> list[Phase]:
    """A ring of so many ranks on links of one kind."""
    segment = size_bytes / ranks
    slowest_s, mean_s = segment * link.beta_s, segment * link.usual_beta_s + link.alpha_s(segment)
    delays = steps if mean_s >= slowest_s else 1
    share = min(link.usual_beta_s / link.beta_s, 1.0) if mean_s >= slowest_s else 1.0
    return [Phase(name, delays, steps * segment * share, segment)] if steps else []


def _chain(setting: Setting, size_bytes: float) -> list[Phase]:
    """Chunks from rank to rank: the first passes all links, the others follow."""
    chunk = min(setting.chunk_bytes, size_bytes)
    return [Phase("outer", setting.ranks - 1, size_bytes + (setting.ranks - 2) * chunk, chunk)]


def _double_tree(setting: Setting, size_bytes: float) -> list[Phase]:
    """A rank with two children in one tree and none in the other takes four chunks for each one that all get: two on
    the way up, and one of each tree on the way down. The first one's way up and down shares each link with one more. Of
    two ranks each has one child."""
    half = size_bytes / _HALVES
    chunk = min(setting.chunk_bytes, half)
    levels, children = 2 * math.ceil(math.log2(setting.ranks)), min(setting.ranks - 1, 2)
    return [Phase("outer", levels, children * (levels * chunk + 2 * (half - chunk)), chunk)]


def _seconds(setting: Setting, found: Sequence[Phase]) -> float:
    return sum(map(setting.seconds, found))


def _double_tree_one_way(setting: Setting, size_bytes: float) -> list[Phase]:
    """From rank 0 down two trees over the others, or up: two chunks at a time on each link."""
    chunk = min(setting.chunk_bytes, size_bytes / _HALVES)
    levels = 1 + math.ceil(math.log2(max(setting.ranks - 1, 1)))
    return [Phase("outer", levels, size_bytes + 2 * (levels - 1) * chunk, chunk)]


def _halving_doubling(there: bool, back: bool) -> Model:
    """Halves, quarters... to ever nearer partners, and back; ranks beyond a power of two fold into others before, and
    get their part after."""

    def model(setting: Setting, size_bytes: float) -> list[Phase]:
        power = 1 << setting.ranks.bit_length() - 1
        found = _halves(power, size_bytes) * (there + back)
        if power < setting.ranks:
            block = size_bytes / setting.ranks
            before, after = (size_bytes if there else block), (size_bytes if back else block)
            found += [Phase("outer", 1, before, before), Phase("outer", 1, after, after)]
        return found

    return model


def _halves(ranks: int, size_bytes: float) -> list[Phase]:
    """A step with half of the data, one with a quarter, and so on, down to a rank's block."""
    steps = math.ceil(math.log2(ranks))
    moved = [size_bytes / 2**step for step in range(1, steps)]
    last = size_bytes * (ranks - 1) / ranks - sum(moved)
    return [Phase("outer", 1, part, part) for part in (*moved, last)]


def _direct(times: Callable[[int], float], steps: int = 1) -> Model:
    """All at once, each step: the busiest link carries the data so many times."""

    def model(setting: Setting, size_bytes: float) -> list[Phase]:
        moved = times(setting.ranks) * size_bytes
        return [Phase("outer", steps, moved, moved / steps)]

    return model


def _binomial(setting: Setting, size_bytes: float) -> list[Phase]:
    """Half of the ranks' blocks, a quarter, an eighth...: rank 0 moves all but its own."""
    return _halves(setting.ranks, size_bytes)


def _parameter_server(setting: Setting, size_bytes: float) -> list[Phase]:
    """Every chunk comes from all ranks over the server's link, and the last one goes back to all; the others went back
    meanwhile. With many servers the ranks' own links decide."""
    shard = size_bytes / setting.shards
    chunk = min(setting.chunk_bytes, shard)
    served = Phase("helper", 2, setting.ranks * (shard + chunk), chunk)
    own = Phase("outer", 2, size_bytes + setting.shards * chunk, chunk)
    return [max(served, own, key=setting.seconds)]


def _in_network(setting: Setting, size_bytes: float) -> list[Phase]:
    """Every rank sends its data once and gets the sum, packet by packet; the aggregator's link carries all of them."""
    own = Phase("outer", 2, size_bytes, setting.outer.packet_bytes)
    together = Phase("helper", 2, setting.ranks * size_bytes, setting.outer.packet_bytes)
    return [max(own, together, key=setting.seconds)]


def _hierarchical(setting: Setting, size_bytes: float) -> list[Phase]:
    """Rings inside servers, between them for a g-th of the data, inside again; many pieces overlap."""
    group, servers = setting.group, setting.ranks // setting.group
    piece = min(size_bytes, setting.ranks * setting.chunk_bytes)
    pieces = size_bytes / piece
    inside = _ring_phases(setting.inner, "inner", group, group - 1, piece)
    between = _ring_phases(setting.outer, "outer", servers, 2 * (servers - 1), piece / group)
    return [*inside, *between, *inside] if pieces <= 1 else _overlapped(setting, inside, between, pieces)


def _overlapped(setting: Setting, inside: list[Phase], between: list[Phase], pieces: float) -> list[Phase]:
    """Every stage works on two pieces at once: of the first two each stage meets its delays, or both pieces' bytes; the
    further ones (the last may be a part) follow as fast as the busiest link lets them, or two by two as the slowest
    stage does. Where links inside are never idle, what goes between servers hides behind them, but for two alone."""
    both, more = min(pieces, _AT_ONCE), max(pieces - _AT_ONCE, 0)
    turns = math.ceil(pieces / _AT_ONCE) - 1
    stages = [*inside, *between, *inside]
    links = [stages] if setting.is_one_link else [[*inside, *inside], between]
    busy = [[_of(phase, more * phase.payload_bytes) for phase in sharing] for sharing in links]
    slow = [[_of(phase, turns * phase.payload_bytes, turns * phase.steps)] for phase in stages]
    follow = max([*busy, *slow], key=lambda found: _seconds(setting, found))
    first = {phase: max(phase, _of(phase, both * phase.payload_bytes, 1), key=setting.seconds) for phase in stages}
    never_idle = follow is busy[0] and more > 0 and all(first[phase] != phase for phase in inside)
    hidden = between if never_idle and not setting.is_one_link else []
    return [*(first[phase] for phase in stages if phase not in hidden), *follow]


def _of(phase: Phase, payload_bytes: float, steps: float = 0.0) -> Phase:
    """The phase with other bytes, and no delays but these."""
    return replace(phase, steps=steps, payload_bytes=payload_bytes)


_MODELS: dict[tuple[str, str], Model] = {
    ("all_reduce", "ring"): _ring(lambda ranks: 2 * (ranks - 1)),
    ("all_reduce", "tree"): _double_tree,
    ("all_reduce", "halving_doubling"): _halving_doubling(there=True, back=True),
    ("all_reduce", "hierarchical"): _hierarchical,
    ("all_reduce", "parameter_server"): _parameter_server,
    ("all_reduce", "in_network"): _in_network,
    ("all_reduce", "direct"): _direct(lambda ranks: 2 * (ranks - 1) / ranks, steps=2),
    ("broadcast", "tree"): _double_tree_one_way,
    ("broadcast", "ring"): _chain,
    ("broadcast", "direct"): _direct(lambda ranks: ranks - 1),
    ("reduce", "tree"): _double_tree_one_way,
    ("reduce", "ring"): _chain,
    ("reduce", "direct"): _direct(lambda ranks: ranks - 1),
    ("scatter", "direct"): _direct(lambda ranks: (ranks - 1) / ranks),
    ("scatter", "tree"): _binomial,
    ("gather", "direct"): _direct(lambda ranks: (ranks - 1) / ranks),
    ("gather", "tree"): _binomial,
    ("all_gather", "ring"): _ring(lambda ranks: ranks - 1),
    ("all_gather", "halving_doubling"): _halving_doubling(there=False, back=True),
    ("all_gather", "direct"): _direct(lambda ranks: (ranks - 1) / ranks),
    ("reduce_scatter", "ring"): _ring(lambda ranks: ranks - 1),
    ("reduce_scatter", "halving_doubling"): _halving_doubling(there=True, back=False),
    ("reduce_scatter", "direct"): _direct(lambda ranks: (ranks - 1) / ranks),
    ("all_to_all", "direct"): _direct(lambda ranks: (ranks - 1) / ranks),
}
