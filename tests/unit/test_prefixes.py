"""Shrunk tables against lookups in the tables that they came from, and against the fewest entries there can be."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.prefixes import BITS, Ports, Prefix, format_address, mask_of, parse_prefix, shrink

BELOW: Prefix = parse_prefix("10.0.0.0/26")  # small enough to look up every address of it
FABRIC: Prefix = parse_prefix("10.0.0.0/8")
UP, LEFT, RIGHT = (3, 4), (1,), (2,)


def prefixes(below: Prefix) -> st.SearchStrategy[Prefix]:
    """Of every length within `below`."""
    network, least = below

    def cut(address: int, length: int) -> Prefix:
        return network | address & mask_of(length) & ~mask_of(least), length

    return st.builds(cut, st.integers(0, 0xFFFFFFFF), st.integers(least, BITS))


def tables(below: Prefix) -> st.SearchStrategy[dict[Prefix, Ports]]:
    return st.dictionaries(prefixes(below), st.sampled_from([(), UP, LEFT, RIGHT]), max_size=20)


def lookup(table: Mapping[Prefix, Ports], address: int) -> Ports | None:
    """The value of the longest prefix; None when there is none."""
    for length in range(BITS, -1, -1):
        if (address & mask_of(length), length) in table:
            return table[address & mask_of(length), length]
    return None


def fewest(table: Mapping[Prefix, Ports], at: Prefix, inherited: Ports | None) -> int:
    """How many prefixes at or below `at` it takes when a lookup would give `inherited` so far: all are tried."""

    def below(value: Ports | None) -> int:
        if at[1] == BITS:
            return 0 if lookup(table, at[0]) in (None, value) else BITS
        halves = ((at[0] | side << (BITS - 1 - at[1]), at[1] + 1) for side in (0, 1))
        return sum(fewest(table, half, value) for half in halves)

    return min([below(inherited), *(1 + below(value) for value in set(table.values()) - {inherited})])


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, BITS))
def test_prefixes_are_read_back(address: int, length: int) -> None:
    assert parse_prefix(format_address(address)) == (address, BITS)
    assert parse_prefix(f"{format_address(address)}/{length}") == (address, length)


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("10.1.2.0/24", (0x0A010200, 24)),
        ("10.255.255.254", (0x0AFFFFFE, 32)),
        ("0.0.0.0/0", (0, 0)),
    ],
)
def test_known_prefixes(text: str, prefix: Prefix) -> None:
    assert parse_prefix(text) == prefix
    assert format_address(prefix[0]) == text.partition("/")[0]


def test_masks() -> None:
    assert [mask_of(length) for length in (0, 8, 24, 31, 32)] == [0, 0xFF000000, 0xFFFFFF00, 0xFFFFFFFE, 0xFFFFFFFF]


@given(tables(BELOW))
def test_every_address_of_every_route_goes_where_it_went(table: dict[Prefix, Ports]) -> None:
    shrunk = shrink(table, BELOW)
    for address in range(BELOW[0], BELOW[0] + 64):
        assert lookup(table, address) in (None, lookup(shrunk, address))
    assert all(network & mask_of(length) == network for network, length in shrunk)
    assert len(shrunk) <= len(table)


@given(tables(FABRIC), st.lists(st.integers(0, 0xFFFFFF), max_size=20))
def test_a_whole_fabrics_addresses_go_where_they_went(table: dict[Prefix, Ports], hosts: list[int]) -> None:
    shrunk = shrink(table, FABRIC)
    edges = [address for network, length in table for address in (network, network | ~mask_of(length) & 0xFFFFFFFF)]
    for address in (*edges, *(FABRIC[0] | host for host in hosts)):
        assert lookup(table, address) in (None, lookup(shrunk, address))


@settings(max_examples=40)
@given(tables(parse_prefix("10.0.0.0/29")))
def test_no_table_with_fewer_entries_says_the_same(table: dict[Prefix, Ports]) -> None:
    below = parse_prefix("10.0.0.0/29")
    assert len(shrink(table, below)) == fewest(table, below, None)


@given(tables(BELOW), st.randoms(use_true_random=False))
def test_equal_tables_shrink_equally(table: dict[Prefix, Ports], dice: Random) -> None:
    routes = list(table.items())
    dice.shuffle(routes)
    assert list(shrink(dict(routes), BELOW).items()) == list(shrink(table, BELOW).items())


def routes(**texts: Ports) -> dict[Prefix, Ports]:
    """a_b_c_d_LENGTH=ports"""
    return {parse_prefix("{}.{}.{}.{}/{}".format(*name.split("_")[1:])): ports for name, ports in texts.items()}


@pytest.mark.parametrize(
    ("table", "shrunk"),
    [
        ({}, {}),
        (routes(_10_0_1_0_24=UP), routes(_10_0_0_0_8=UP)),
        # all other racks by the same uplinks, the own rack nowhere
        (
            routes(_10_0_1_0_24=UP, _10_0_2_0_24=(), _10_0_3_0_24=UP, _10_0_4_0_24=UP),
            routes(_10_0_0_0_8=UP, _10_0_2_0_24=()),
        ),
        # two siblings alike
        (
            routes(_10_0_0_0_8=UP, _10_0_0_0_24=LEFT, _10_0_1_0_24=LEFT),
            routes(_10_0_0_0_8=UP, _10_0_0_0_23=LEFT),
        ),
        # a route that its cover says already
        (routes(_10_0_0_0_8=UP, _10_0_1_0_24=UP), routes(_10_0_0_0_8=UP)),
        # what a rack drops by default stays dropped
        (
            routes(_10_0_0_0_8=(), _10_0_2_0_24=UP, _10_0_3_0_24=UP),
            routes(_10_0_0_0_8=(), _10_0_2_0_23=UP),
        ),
    ],
)
def test_known_tables(table: dict[Prefix, Ports], shrunk: dict[Prefix, Ports]) -> None:
    assert shrink(table, FABRIC) == shrunk
