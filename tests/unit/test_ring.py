"""The ring: how it is wired, addressed and drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from analysis.fabric import Fabric, fabric_title
from analysis.figures import draw
from analysis.figures.draw_layout import place
from topologies.describe import describe
from topologies.profiles import LinkProfile
from topologies.ring import Ring

LINK = LinkProfile(10_000_000_000, 1_000, 1500)
SIZES = pytest.mark.parametrize(("switches", "hosts"), [(3, 1), (4, 1), (5, 3), (16, 8), (64, 16)])


@SIZES
def test_every_switch_is_linked_to_the_next_and_the_last_to_the_first(switches: int, hosts: int) -> None:
    fabric = describe(Ring(switches=switches, hosts_per_leaf=hosts))
    names = [switch.name for switch in fabric.switches]
    assert names == [f"sw{number}" for number in range(1, switches + 1)]
    trunks = {(wire.a, wire.a_port, wire.b, wire.b_port) for wire in fabric.wires if wire.a in names}
    assert trunks == {(here, hosts + 1, after, hosts + 2) for here, after in zip(names, [*names[1:], names[0]])}


@SIZES
def test_every_switch_is_a_rack(switches: int, hosts: int) -> None:
    fabric = describe(Ring(switches=switches, hosts_per_leaf=hosts))
    assert [(each.tier, each.subnet) for each in fabric.switches] == [
        (1, f"10.0.{number}.0/24") for number in range(1, switches + 1)
    ]
    homes = {wire.a: (wire.b, wire.b_port) for wire in fabric.wires if wire.a.startswith("h")}
    assert len(homes) == len(fabric.hosts) == switches * hosts
    for host in fabric.hosts:
        switch, port = homes[host.name]
        assert host.ip == f"10.0.{switch.removeprefix('sw')}.{port}"


@pytest.mark.parametrize("switches", [0, 1, 2])
def test_fewer_than_three_switches_are_no_ring(switches: int) -> None:
    with pytest.raises(ValueError, match=f"switches: {switches} is given; allowed: 3 or more"):
        Ring(switches=switches)


def document(switches: int, hosts: int) -> dict[str, Any]:
    fabric = describe(Ring(switches=switches, hosts_per_leaf=hosts, link=LINK, uplink=LINK))
    return {"format": 1, "topology": "ring", **fabric.as_json()}


@SIZES
def test_its_last_link_is_drawn_over_the_others(switches: int, hosts: int) -> None:
    """A straight line from the last switch to the first would lie behind all others."""
    told = document(switches, hosts)
    placed = place(Fabric.of(told))
    figure = draw._figure(placed, fabric_title(told), None)
    (lines,) = (each for each in figure.axes[0].collections if isinstance(each, LineCollection))
    courses = [np.asarray(course.vertices).tolist() for course in lines.get_paths()]
    (bent,) = (course for course in courses if len(course) > 2)
    first, last, over = placed.boxes["sw1"], placed.boxes[f"sw{switches}"], bent[1][1]
    assert bent == [[first.x, first.y], [first.x, over], [last.x, over], [last.x, last.y]]
    tops = [box.y + box.height / 2 for name, box in placed.boxes.items() if name.startswith("sw")]
    assert max(tops) < over < placed.height_in - 0.3, "above the switches, below the title"


def test_its_title() -> None:
    assert fabric_title(document(4, 2)) == "ring: 8 hosts, 4 switches, 12 links"
