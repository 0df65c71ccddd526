"""What algorithms send, in how many steps, and that chunks follow each other: as the papers count."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.collectives import catalog, tree
from workloads.collectives.halving_doubling import fold
from workloads.collectives.problems import Problem
from workloads.collectives.program import Program, Programs, Send, Step, Wait
from workloads.collectives.rehearsal import Rehearsal, rehearse

RANKS = st.integers(2, 24)
COUNTS = st.integers(1, 300)


def made(
    collective: str, algorithm: str, ranks: int, count: int, chunk: int = 1 << 16, group: int = 1, servers: int = 0
) -> Programs:
    """Programs over int8: a number is a byte."""
    world = Problem(collective, ranks, count, "int8").world(chunk, group, range(ranks, ranks + servers))
    return catalog.programs(collective, algorithm, world)


def played(collective: str, algorithm: str, ranks: int, count: int, **more: int) -> Rehearsal:
    """Their rehearsal, in which a message takes 1 ns: it ends after as many as wait for each other."""
    return rehearse(made(collective, algorithm, ranks, count, **more), latency_ns=1)


# --- bytes and steps


@given(RANKS, COUNTS)
def test_a_ring_sends_the_least_there_is(ranks: int, count: int) -> None:
    """2 (n-1)/n of the data, exactly where it can be cut evenly (Patarasuk and Yuan 2009)."""
    told, even = (played("all_reduce", "ring", ranks, numbers) for numbers in (count, count * ranks))
    assert all(even.bytes_from(rank) == even.bytes_to(rank) == 2 * (ranks - 1) * count for rank in range(ranks))
    least = 2 * (ranks - 1) / ranks * count
    assert all(abs(told.bytes_from(rank) - least) < 2 for rank in range(ranks))
    assert even.end_ns == 2 * (ranks - 1)
    assert set(even.messages) == {(rank, (rank + 1) % ranks, 0) for rank in range(ranks)}


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter"])
@given(ranks=RANKS, each=st.integers(1, 9))
def test_half_a_ring(collective: str, ranks: int, each: int) -> None:
    told = played(collective, "ring", ranks, each * ranks)
    assert all(told.bytes_from(rank) == (ranks - 1) * each for rank in range(ranks))
    assert told.end_ns == ranks - 1


@given(st.integers(1, 6), st.integers(1, 9))
def test_halving_and_doubling_among_a_power_of_two(power: int, each: int) -> None:
    """2 (p-1)/p of the data in 2 log2(p) steps (Thakur et al. 2005)."""
    ranks = 1 << power
    told = played("all_reduce", "halving_doubling", ranks, each * ranks)
    assert all(told.bytes_from(rank) == 2 * (ranks - 1) * each for rank in range(ranks))
    assert told.end_ns == 2 * power
    for half in ("all_gather", "reduce_scatter"):
        assert played(half, "halving_doubling", ranks, each * ranks).end_ns == power


@given(st.integers(3, 40).filter(lambda ranks: ranks & (ranks - 1)), st.integers(1, 9))
def test_halving_and_doubling_with_ranks_to_fold(ranks: int, each: int) -> None:
    """Two steps more; a rank that folds sends the data once, and the one that acts for it, once more."""
    power = 1 << ranks.bit_length() - 1
    count = each * power
    told = played("all_reduce", "halving_doubling", ranks, count)
    assert told.end_ns == 2 * int(math.log2(power)) + 2
    sent = 2 * (power - 1) * each
    for rank in range(ranks):
        folds = rank < 2 * (ranks - power)
        assert told.bytes_from(rank) == (sent + folds * count if rank % 2 or not folds else count)


@given(st.integers(3, 24).filter(lambda ranks: ranks & (ranks - 1)), st.integers(1, 9))
def test_a_folded_rank_moves_no_block_twice(ranks: int, each: int) -> None:
    gathered, scattered = (
        played(collective, "halving_doubling", ranks, each * ranks) for collective in ("all_gather", "reduce_scatter")
    )
    for rank in range(0, 2 * fold(ranks).extra, 2):
        assert (gathered.bytes_from(rank), gathered.bytes_to(rank)) == (each, (ranks - 1) * each)
        assert (scattered.bytes_from(rank), scattered.bytes_to(rank)) == (ranks * each, each)


@given(st.integers(1, 70))
def test_who_is_folded(ranks: int) -> None:
    folded = fold(ranks)
    acting = [folded.rank(place) for place in range(folded.power)]
    assert [folded.place(rank) for rank in acting] == [*range(folded.power)]
    acted_for = [rank for place, own in enumerate(acting) for rank in (*folded.acts_for(place), own)]
    assert acted_for == [*range(ranks)]
    firsts = [folded.first(place) for place in range(folded.power + 1)]
    assert firsts == [0, *(rank + 1 for rank in acting)]


@given(RANKS, st.integers(1, 250))
def test_nobody_in_two_trees_moves_the_data_more_than_twice(ranks: int, half: int) -> None:
    told = played("all_reduce", "tree", ranks, 2 * half, chunk=7)
    sent = [told.bytes_from(rank) for rank in range(ranks)]
    received = [told.bytes_to(rank) for rank in range(ranks)]
    assert max(*sent, *received) <= 2 * 2 * half
    assert sum(sent) == 2 * (ranks - 1) * 2 * half
    assert told.end_ns <= 2 * math.ceil(math.log2(ranks))
    if ranks & (ranks - 1) == 0:
        assert told.end_ns == 2 * int(math.log2(ranks))


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
@given(ranks=RANKS, half=st.integers(1, 250))
def test_nobody_in_two_trees_below_rank_0_moves_the_data_more_than_once(collective: str, ranks: int, half: int) -> None:
    told = played(collective, "tree", ranks, 2 * half, chunk=7)
    moved = [told.bytes_from(rank) for rank in range(ranks)] + [told.bytes_to(rank) for rank in range(ranks)]
    assert max(moved) == 2 * half
    assert sum(moved) == 2 * (ranks - 1) * 2 * half
    assert told.end_ns <= 1 + math.ceil(math.log2(max(ranks - 1, 1)))


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
@given(ranks=RANKS, count=COUNTS)
def test_a_chain_moves_the_data_once(collective: str, ranks: int, count: int) -> None:
    told = played(collective, "ring", ranks, count, chunk=9)
    last = {"broadcast": ranks - 1, "reduce": 0}[collective]
    assert [told.bytes_from(rank) for rank in range(ranks)] == [count * (rank != last) for rank in range(ranks)]
    assert told.end_ns == ranks - 1


@pytest.mark.parametrize("collective", ["scatter", "gather"])
@given(ranks=RANKS, each=st.integers(1, 9))
def test_binomial_trees(collective: str, ranks: int, each: int) -> None:
    """(n-1)/n of the data at the root, in log2(n) messages one after the other (Thakur et al. 2005)."""
    told = played(collective, "tree", ranks, each * ranks)
    at_root = [sent for channel, sent in told.sent_bytes.items() if 0 in channel[:2]]
    assert sum(at_root) == each * (ranks - 1)
    assert len(at_root) == math.ceil(math.log2(ranks))
    assert told.end_ns == int(math.log2(ranks))
    assert sum(told.messages.values()) == ranks - 1


@given(RANKS, st.integers(1, 5), st.integers(1, 40), st.integers(1, 50))
def test_a_parameter_server_moves_the_data_of_all_ranks(ranks: int, servers: int, each: int, chunk: int) -> None:
    told = played("all_reduce", "parameter_server", ranks, servers * each, servers=servers, chunk=chunk)
    for server in range(ranks, ranks + servers):
        assert told.bytes_from(server) == told.bytes_to(server) == ranks * each
    assert all(told.bytes_from(rank) == told.bytes_to(rank) == servers * each for rank in range(ranks))
    assert told.end_ns == 2


@given(st.integers(1, 8), st.integers(1, 6), st.integers(1, 9))
def test_a_hierarchy_sends_a_groups_part_to_other_servers(group: int, servers: int, each: int) -> None:
    ranks, count = group * servers, each * group * servers
    told = played("all_reduce", "hierarchical", ranks, count, group=group)
    for rank in range(ranks):
        inside = sum(
            sent
            for (sender, receiver, _), sent in told.sent_bytes.items()
            if sender == rank and receiver // group == rank // group
        )
        assert inside == 2 * (group - 1) * count // group
        assert told.bytes_from(rank) - inside == 2 * (servers - 1) * each
    assert told.end_ns == 2 * (group - 1) + 2 * (servers - 1)
    assert all(
        sender % group == receiver % group
        for sender, receiver, _ in told.messages
        if sender // group != receiver // group
    )


@given(st.integers(2, 20), st.integers(1, 9))
def test_direct_takes_the_fewest_steps(ranks: int, each: int) -> None:
    count = each * ranks
    steps = {"broadcast": 1, "reduce": 1, "scatter": 1, "gather": 1, "all_gather": 1, "reduce_scatter": 1}
    for collective, number in {**steps, "all_to_all": 1, "all_reduce": 2}.items():
        assert played(collective, "direct", ranks, count).end_ns == number
    assert played("all_reduce", "direct", ranks, count).bytes_from(1) == 2 * (ranks - 1) * each
    assert played("all_to_all", "direct", ranks, count).bytes_from(1) == (ranks - 1) * each
    assert played("gather", "direct", ranks, count).bytes_to(0) == (ranks - 1) * each
    assert played("broadcast", "direct", ranks, count).bytes_from(0) == (ranks - 1) * count


def test_an_aggregator_in_the_network_takes_no_message_of_another_rank() -> None:
    assert not played("all_reduce", "in_network", 5, 10).messages


def test_64_ranks_times_16_mib_take_few_messages() -> None:
    """A message of the ring is a segment; elsewhere at most one for each chunk of each part."""
    problem = Problem("all_reduce", 64, 64 * 8, "int8")  # 64 chunks, as 16 MiB are of 256 KiB
    worlds = {name: problem.world(8, 8, range(64, 68)) for name in catalog.choices("all_reduce")}
    messages = {
        name: sum(rehearse(catalog.programs("all_reduce", name, world)).messages.values())
        for name, world in worlds.items()
    }
    assert messages == {
        "ring": 64 * 2 * 63,
        "tree": 2 * 2 * 63 * 32,
        "halving_doubling": 64 * 2 * 6,
        "hierarchical": 64 * (2 * 7 + 2 * 7),
        "parameter_server": 64 * 2 * 64,
        "in_network": 0,
        "direct": 64 * 2 * 63,
    }


# --- trees


@given(st.integers(1, 200))
def test_a_binary_tree(count: int) -> None:
    parents = tree.binary_tree(count)
    assert parents[0] is None and None not in parents[1:]
    children = [parents.count(place) for place in range(count)]
    assert max(children) <= 2 and children[0] == (count > 1)
    assert not any(children[1::2])
    for place in range(count):
        assert len(above(parents, place)) <= math.ceil(math.log2(count))


def above(parents: Sequence[int | None], place: int) -> list[int]:
    """The way from a place to the root."""
    parent = parents[place]
    return [] if parent is None else [parent, *above(parents, parent)]


def test_the_first_trees_of_nccl() -> None:
    """The drawing in trees.cc: 0 above 8, 8 above 4 and 12, 12 above 10 and 13."""
    assert tree.binary_tree(14) == [None, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12]


@given(st.integers(1, 100))
def test_two_trees_share_the_work(ranks: int) -> None:
    first, second = tree.double_tree(range(ranks))
    assert set(first) == set(second) == set(range(ranks))
    for rank in range(ranks):
        assert len(first[rank].children) + len(second[rank].children) <= 2
        if ranks % 2 == 0 or rank:
            assert not (first[rank].children and second[rank].children)
    for nodes in (first, second):
        assert [node.parents for node in nodes.values()].count(()) == 1
        assert all(rank in nodes[node.parents[0]].children for rank, node in nodes.items() if node.parents)


# --- pipelining


def paced(program: Program, ns_per_item: int) -> Program:
    """The program of a party whose link carries one thing after the other: what it sends leaves when the link has had
    time for it. (What has arrived meanwhile has only to be taken.)"""
    for step in program:
        operations: tuple[Step, ...] = step if isinstance(step, tuple) else (step,)
        yield Wait(ns_per_item * sum(len(each.data) for each in operations if isinstance(each, Send)))
        yield step


def duration_ns(collective: str, algorithm: str, ranks: int, count: int, **more: int) -> int:
    """How long it takes where each program has a link of its own that carries a number in 1 ns."""
    programs = made(collective, algorithm, ranks, count, **more)
    return rehearse({party: [paced(its, 1) for its in of_party] for party, of_party in programs.items()}).end_ns


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
@given(ranks=RANKS, pieces=st.integers(1, 20))
def test_chunks_follow_each_other_along_a_chain(collective: str, ranks: int, pieces: int) -> None:
    assert duration_ns(collective, "ring", ranks, 10 * pieces, chunk=10) == 10 * (ranks - 1 + pieces - 1)


@settings(max_examples=30)
@given(st.integers(4, 20), st.integers(15, 25))
def test_a_further_chunk_costs_a_tree_no_further_way(ranks: int, pieces: int) -> None:
    """Once the tree is full of chunks, each takes as long as its sender needs for two children."""
    less, more = (
        duration_ns("all_reduce", "tree", ranks, 2 * 10 * number, chunk=10) for number in (pieces, pieces + 1)
    )
    assert more - less == 2 * 10
    assert less < duration_ns("all_reduce", "tree", ranks, 2 * 10 * pieces, chunk=10 * pieces)


@given(st.integers(2, 20), st.integers(3, 9))
def test_a_parameter_server_sends_while_it_receives(ranks: int, pieces: int) -> None:
    assert (
        duration_ns("all_reduce", "parameter_server", ranks, 10 * pieces, chunk=10, servers=1)
        == 10 + 10 * ranks * pieces
    )


@given(st.integers(2, 4), st.integers(2, 5))
def test_the_stages_of_a_hierarchy_work_at_the_same_time(group: int, servers: int) -> None:
    """Two more pieces take as long as the slowest stage needs for one in each of its two lanes."""
    piece = 10 * group * servers
    less, more = (
        duration_ns("all_reduce", "hierarchical", group * servers, piece * number, chunk=10, group=group)
        for number in (20, 22)
    )
    inside_ns, between_ns = 10 * servers * (group - 1), 2 * 10 * (servers - 1)
    assert more - less == max(inside_ns, between_ns)
