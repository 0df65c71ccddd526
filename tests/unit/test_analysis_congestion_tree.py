"""Which link was paused by whom, how far from the congestion, and who waits for whom in a circle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.congestion_tree import HeldLink, circle, held_at, held_links, peers, way_back
from tests.unit.test_analysis_kinds import LINK, UPLINK, fabric_json
from topologies.describe import describe
from topologies.ring import Ring
from topologies.units import BadRequest

FABRIC = fabric_json("leaf_spine", leaves=2, spines=1, hosts_per_leaf=2)


def ring_json(switches: int = 4) -> dict[str, Any]:
    """A fabric.json of a ring with one host on each switch: sw<s>-eth2 goes clockwise, to eth3 of the next."""
    described = describe(Ring(switches=switches, hosts_per_leaf=1, link=LINK, uplink=UPLINK))
    return {"format": 1, "topology": "ring", **described.as_json()}


def test_both_ends_of_a_link_know_each_other() -> None:
    found = peers(FABRIC)
    assert found["leaf1-eth3"] == ("leaf1", "spine1")
    assert found["spine1-eth1"] == ("spine1", "leaf1")
    assert (found["leaf2-eth1"], found["h3-eth0"]) == (("leaf2", "h3"), ("h3", "leaf2"))


def test_pauses_spread_from_the_full_port_back_to_the_senders() -> None:
    """h1's port is full: leaf1 pauses the spine, the spine leaf2, leaf2 its hosts, each a little later."""
    held = {
        "spine1-eth1": [(100, 200), (300, 400)],
        "leaf2-eth3": [(120, 180)],
        "h3-eth0": [(130, 170)],
        "h4-eth0": [(140, 180), (900, 950)],
    }
    assert held_links(held, FABRIC, 0, 500) == [
        HeldLink("spine1-eth1", "spine1", "leaf1", 2, 200, 1),
        HeldLink("leaf2-eth3", "leaf2", "spine1", 1, 60, 2),
        HeldLink("h3-eth0", "h3", "leaf2", 1, 40, 3),
        HeldLink("h4-eth0", "h4", "leaf2", 1, 40, 3),
    ]


def test_only_what_lies_in_the_span_counts() -> None:
    held = {"spine1-eth1": [(100, 200), (300, 400)], "leaf2-eth3": [(0, 50)]}
    assert held_links(held, FABRIC, 150, 320) == [HeldLink("spine1-eth1", "spine1", "leaf1", 2, 70, 1)]


def test_a_port_that_the_fabric_does_not_have_is_left_out() -> None:
    assert held_links({"leaf9-eth1": [(0, 10)]}, FABRIC, 0, 10) == []


def test_in_a_circle_nobody_is_the_root() -> None:
    held = {f"sw{number}-eth2": [(0, 100)] for number in (1, 2, 3, 4)}
    links = held_links({**held, "h1-eth0": [(0, 50)]}, ring_json(), 0, 100)
    assert [(link.port, link.depth) for link in links] == [
        ("sw1-eth2", None),
        ("sw2-eth2", None),
        ("sw3-eth2", None),
        ("sw4-eth2", None),
        ("h1-eth0", None),
    ]
    assert circle((link.sender, link.receiver) for link in links) == ["sw1", "sw2", "sw3", "sw4"]


def test_who_waits_is_asked_of_one_moment() -> None:
    held = {f"sw{number}-eth2": [(10 * number, 100)] for number in (1, 2, 3, 4)}
    assert circle(held_at(held, ring_json(), 40)) == ["sw1", "sw2", "sw3", "sw4"]
    assert circle(held_at(held, ring_json(), 39)) == []
    assert circle(held_at(held, ring_json(), 100)) == []


@pytest.mark.parametrize(
    ("links", "way"),
    [
        ([], []),
        ([("a", "b"), ("b", "c")], []),
        ([("a", "b"), ("b", "a")], ["a", "b"]),
        ([("x", "a"), ("a", "b"), ("b", "c"), ("c", "a")], ["a", "b", "c"]),
        ([("a", "b"), ("b", "c"), ("c", "a"), ("b", "a")], ["a", "b"]),
    ],
)
def test_a_circle_is_a_way_back_to_where_it_began(links: list[tuple[str, str]], way: list[str]) -> None:
    assert circle(links) == way


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=12))
def test_a_circle_that_is_found_is_one(links: list[tuple[str, str]]) -> None:
    way = circle(links)
    assert set(zip(way, [*way[1:], *way[:1]])) <= set(links)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_links_that_only_go_up_have_no_circle(links: list[tuple[int, int]]) -> None:
    assert circle((str(min(link)), str(max(link))) for link in links if min(link) < max(link)) == []


def test_the_way_back_leads_from_the_receivers_switch_to_the_sender() -> None:
    assert way_back(FABRIC, "h1", "h2") == ["leaf1", "h2"]
    assert way_back(FABRIC, "h1", "h4") == ["leaf1", "spine1", "leaf2", "h4"]


def test_hosts_forward_nothing() -> None:
    cut = {**FABRIC, "wires": [wire for wire in FABRIC["wires"] if wire["a"] != "leaf2"]}
    with pytest.raises(BadRequest, match=r"no way from h4 to h1"):
        way_back(cut, "h1", "h4")
