"""Every collective by every algorithm gives what NumPy gives, whatever the number of ranks, the type of the numbers and
the order in which things happen."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.cluster import CHOICES
from experiments.keys.collectives import COLLECTIVES, DTYPES
from topologies.units import BadRequest
from workloads.collectives import catalog
from workloads.collectives.problems import Problem
from workloads.collectives.program import World, chunks, segments
from workloads.collectives.rehearsal import channels, rehearse

PAIRS = [(collective, algorithm) for collective in COLLECTIVES for algorithm in catalog.choices(collective)]


@dataclass(frozen=True)
class Case:
    """A problem and what it is solved on."""

    problem: Problem
    algorithm: str
    chunk_items: int
    group: int
    servers: int

    def world(self) -> World:
        ranks = self.problem.ranks
        return self.problem.world(self.chunk_items, self.group, range(ranks, ranks + self.servers))


@st.composite
def cases(draw: st.DrawFn, collective: str, algorithm: str) -> Case:
    ranks = draw(st.integers(1, 17))
    problem = Problem(
        collective, ranks, draw(st.integers(1, 90)), draw(st.sampled_from(DTYPES)), draw(st.integers(0, 999))
    )
    group = draw(st.sampled_from([size for size in range(1, ranks + 1) if ranks % size == 0]))
    return Case(problem, algorithm, draw(st.integers(1, 9)), group, draw(st.integers(1, 4)))


def numpys(collective: str, buffers: list[np.ndarray]) -> list[np.ndarray | None]:
    """The result of each rank, by NumPy alone: its whole buffer, its block or its out; None where there is none."""
    ranks, dtype = len(buffers), buffers[0].dtype
    blocks = [segments(buffer, ranks) for buffer in buffers]
    total = np.sum(buffers, axis=0, dtype=dtype)
    gathered = np.concatenate([blocks[rank][rank] for rank in range(ranks)])
    nothing: list[np.ndarray | None] = [None] * (ranks - 1)
    results: dict[str, list[np.ndarray | None]] = {
        "all_reduce": [total] * ranks,
        "broadcast": [buffers[0]] * ranks,
        "reduce": [total, *nothing],
        "scatter": [*blocks[0]],
        "gather": [gathered, *nothing],
        "all_gather": [gathered] * ranks,
        "reduce_scatter": [*segments(total, ranks)],
        "all_to_all": [np.concatenate([given_[rank] for given_ in blocks]) for rank in range(ranks)],
    }
    return results[collective]


def found(collective: str, world: World) -> list[np.ndarray]:
    """Where each rank's result is."""
    if collective == "all_to_all":
        return list(world.outs)
    if collective in ("scatter", "reduce_scatter"):
        return [segments(buffer, world.ranks)[rank] for rank, buffer in enumerate(world.buffers)]
    return list(world.buffers)


@pytest.mark.parametrize(("collective", "algorithm"), PAIRS)
@given(data=st.data(), dice=st.randoms(use_true_random=False), latency_ns=st.integers(0, 3))
def test_the_result_is_numpys(
    collective: str, algorithm: str, data: st.DataObject, dice: random.Random, latency_ns: int
) -> None:
    case = data.draw(cases(collective, algorithm))
    world = case.world()
    expected = numpys(collective, [buffer.copy() for buffer in world.buffers])
    rehearse(catalog.programs(collective, algorithm, world), dice, latency_ns)
    for result, right in zip(found(collective, world), expected):
        assert right is None or (result.dtype == right.dtype and np.array_equal(result, right))
    assert case.problem.wrong(world) == 0


@pytest.mark.parametrize(("collective", "algorithm"), PAIRS)
def test_odd_numbers_of_ranks_and_a_single_number(collective: str, algorithm: str) -> None:
    for ranks in range(1, 18):
        for count in (1, ranks - 1, ranks, 3 * ranks + 1):
            case = Case(Problem(collective, ranks, max(count, 1)), algorithm, 1, 1, 2)
            world = case.world()
            rehearse(catalog.programs(collective, algorithm, world))
            assert case.problem.wrong(world) == 0, (ranks, count)


def test_sums_of_bytes_wrap_as_numpys() -> None:
    problem = Problem("all_reduce", 64, 3_000, "int8")
    world = problem.world(group=8)
    exact = np.sum(world.buffers, axis=0, dtype=np.int64)
    assert np.abs(exact).max() > 127
    rehearse(catalog.programs("all_reduce", "hierarchical", world))
    assert np.array_equal(world.buffers[5], exact.astype(np.int8))


def test_sums_of_halves_are_exact() -> None:
    for ranks in (64, 500):
        problem = Problem("all_reduce", ranks, 1_000, "float16")
        buffers = [problem.buffer(rank) for rank in range(ranks)]
        assert np.array_equal(np.sum(buffers, axis=0, dtype=np.float64), problem.total().astype(np.float64))


@pytest.mark.parametrize("collective", COLLECTIVES)
@given(data=st.data())
def test_each_wrong_number_is_counted(collective: str, data: st.DataObject) -> None:
    algorithm = CHOICES[collective][0]
    case = data.draw(cases(collective, algorithm))
    world = case.world()
    rehearse(catalog.programs(collective, algorithm, world))
    ending = found(collective, world)[: 1 if collective in ("reduce", "gather") else None]
    block = data.draw(st.sampled_from([block for block in ending if len(block)]))
    spoilt = data.draw(st.sets(st.integers(0, len(block) - 1), min_size=1))
    block[list(spoilt)] += np.asarray(1, block.dtype)
    assert case.problem.wrong(world) == len(spoilt)


def test_what_is_not_a_number_is_wrong() -> None:
    problem = Problem("all_reduce", 1, 4)
    world = problem.world()
    world.buffers[0][2] = np.nan
    assert problem.wrong(world) == 1


def test_a_result_left_from_a_call_before_is_wrong_for_another_seed() -> None:
    world = Problem("broadcast", 3, 100, seed=1).world()
    rehearse(catalog.programs("broadcast", "tree", world))
    assert Problem("broadcast", 3, 100, seed=1).wrong(world) == 0
    assert Problem("broadcast", 3, 100, seed=2).wrong(world) > 200


@pytest.mark.parametrize("count", [0, 1, 7, 70_000, 140_001])
def test_a_world_is_filled_again(count: int) -> None:
    problem = Problem("all_to_all", 3, count, "int8")
    world = problem.world()
    rehearse(catalog.programs("all_to_all", "direct", world))
    for buffer in world.buffers:
        buffer[:] = 99
    problem.fill(world)
    again = problem.world()
    assert all(map(np.array_equal, [*world.buffers, *world.outs], [*again.buffers, *again.outs]))


def test_ranks_have_numbers_of_their_own_that_the_seed_decides() -> None:
    one, same, other = (Problem("all_reduce", 4, 500, seed=seed) for seed in (1, 1, 2))
    buffers = [one.buffer(rank) for rank in range(4)]
    assert all(np.array_equal(same.buffer(rank), buffers[rank]) for rank in range(4))
    assert not np.array_equal(other.buffer(0), buffers[0])
    assert not any(np.array_equal(buffers[0], buffer) for buffer in buffers[1:])


@given(st.integers(1, 9), st.integers(0, 200_000))
def test_a_block_is_part_of_its_buffer(ranks: int, count: int) -> None:
    problem = Problem("gather", ranks, count, "int8")
    parts = segments(problem.buffer(0), ranks)
    assert all(np.array_equal(problem.block(0, index), part) for index, part in enumerate(parts))


# --- the catalogue


def test_the_command_line_offers_what_the_catalogue_has() -> None:
    assert {collective: sorted(choices) for collective, choices in CHOICES.items()} == {
        collective: sorted(catalog.choices(collective)) for collective in COLLECTIVES
    }


@pytest.mark.parametrize(
    ("collective", "algorithm", "message"),
    [
        ("all_talk", "ring", "collective: all_talk; allowed: all_reduce, broadcast, "),
        ("scatter", "ring", "algorithm: ring is given with collective=scatter; allowed: direct, tree"),
    ],
)
def test_what_is_not_there_is_refused(collective: str, algorithm: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        catalog.programs(collective, algorithm, Problem("scatter", 2, 2).world())
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(("group", "ranks"), [(3, 4), (0, 4), (8, 4)])
def test_ranks_that_do_not_fill_servers_are_refused(group: int, ranks: int) -> None:
    with pytest.raises(BadRequest, match=f"group: {group} is given with ranks={ranks}; allowed: a divisor"):
        catalog.programs("all_reduce", "hierarchical", Problem("all_reduce", ranks, 2).world(group=group))


def test_parameter_servers_must_be_there() -> None:
    with pytest.raises(BadRequest, match="shards: 0 parameter servers; allowed: 1 or more"):
        catalog.programs("all_reduce", "parameter_server", Problem("all_reduce", 2, 2).world())


@pytest.mark.parametrize(("collective", "algorithm"), PAIRS)
@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_a_rehearsal_with_few_numbers_tells_the_channels_of_many(collective: str, algorithm: str, ranks: int) -> None:
    def used(count: int, chunk_items: int) -> set[tuple[int, int, int]]:
        case = Case(Problem(collective, ranks, count, "int8"), algorithm, chunk_items, 2 - ranks % 2, 2)
        return set(channels(catalog.programs(collective, algorithm, case.world())))

    few = used(2 * (ranks + 2), 1)
    assert used(40_000, 1_000) <= few
    assert used(ranks - 1, 1) <= few


@given(st.integers(0, 50), st.integers(1, 9), st.integers(1, 60))
def test_segments_and_chunks_make_up_the_data(count: int, parts: int, most_items: int) -> None:
    data = np.arange(count)
    cut, cut_small = segments(data, parts), chunks(data, most_items)
    assert np.array_equal(np.concatenate(cut), data) and np.array_equal(np.concatenate(cut_small), data)
    assert len(cut) == parts and max(map(len, cut)) - min(map(len, cut)) <= 1
    assert all(len(chunk) == most_items for chunk in cut_small[:-1]) and len(cut_small[-1]) <= most_items
