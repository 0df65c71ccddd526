"""The use of links: bytes over what the rate carries, both ways of a link beside each other, on fabrics of any size."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.text import Text

from analysis.fabric import interfaces
from analysis.figures.draw import draw_fabric, fabric_figure
from analysis.figures.heat import busy_ns, heat, link_use
from analysis.figures.style import Skipped
from tests.unit.artists import corners
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_draw import document
from tests.unit.test_analysis_kinds import fabric_json, fabric_run, ports

MS = 1_000_000


def counted(fabric: dict[str, Any], sent_bytes: dict[str, int]) -> dict[str, Any]:
    """Ports and NICs whose shapers counted these bytes by interface, none elsewhere."""

    def stack(name: str) -> list[dict[str, Any]]:
        return [{"kind": "netem", "bytes": 1}, {"kind": "tbf", "bytes": sent_bytes.get(name, 0)}]

    nics = {host["name"]: {"qdiscs": stack(f"{host['name']}-eth0")} for host in fabric["hosts"]}
    return {
        "ports": {name: {**each, "qdiscs": stack(name)} for name, each in ports(fabric).items()},
        "nics": nics,
        "workload": "permutation",
        "transfers": [],
        "link_flows": {},
        "rounds": [
            {"start_ns": T0_NS, "end_ns": T0_NS + MS, "bytes": 1},
            {"start_ns": T0_NS + 50 * MS, "end_ns": T0_NS + 51 * MS, "bytes": 1},
        ],
    }


FABRIC = fabric_json("leaf_spine", leaves=2, spines=1, hosts_per_leaf=2)  # 400 Gb/s to hosts, 100 Gb/s between switches


def test_use_is_bits_over_what_the_rate_carries_in_the_rounds_own_time(tmp_path: Path) -> None:
    sent = {"h1-eth0": 50_000_000, "leaf1-eth3": 12_500_000, "spine1-eth2": 25_000_000}
    run = fabric_run(tmp_path / "run", FABRIC, counted(FABRIC, sent))
    assert busy_ns(run) == (2 * MS, "all rounds")
    use = link_use(run, 2 * MS)
    assert {name: share for name, share in use.items() if share} == {
        "h1-eth0": pytest.approx(0.5),
        "leaf1-eth3": pytest.approx(0.5),
        "spine1-eth2": pytest.approx(1.0),
    }
    _, title, caption = heat(run)
    assert title == "Busiest: spine1 to leaf2, 100 % of its rate; between switches 0 % to 100 %, median 25 %"
    assert "in the 2 ms of all rounds" in caption


def drawn_links(use: dict[str, float]) -> list[tuple[tuple[float, ...], np.ndarray]]:
    """Colour and corners of every line."""
    figure = fabric_figure(FABRIC, "a title", use)
    found = [each for each in figure.axes[0].collections if isinstance(each, LineCollection)]
    return [
        (to_rgba(colour), corners(path))
        for each in found
        for colour, path in zip(np.asarray(each.get_colors()).tolist(), each.get_paths())
    ]


def test_the_two_ways_of_a_link_lie_beside_each_other_to_the_right_of_their_data() -> None:
    plain = [np.array(each) for each in fabric_lines()]
    use = {name: 0.0 for wire in FABRIC["wires"] for name in interfaces(wire)}
    lines = drawn_links(use)
    assert len(lines) == 2 * len(plain)
    for course in plain:
        beside = [line for _, line in lines if np.allclose(line, course, atol=0.05)]
        back = [line for _, line in lines if np.allclose(line, course[::-1], atol=0.05)]
        assert len(beside) == len(back) == 1
        way = course[-1] - course[0]
        for line, direction in ((beside[0], way), (back[0], -way)):
            aside = line[0] - (course[0] if direction is way else course[-1])
            assert direction[0] * aside[1] - direction[1] * aside[0] < 0  # clockwise: to the right


def fabric_lines() -> list[np.ndarray]:
    figure = fabric_figure(FABRIC, "a title")
    found = [each for each in figure.axes[0].collections if isinstance(each, LineCollection)]
    return [corners(path) for each in found for path in each.get_paths()]


def test_colours_tell_the_use_and_grey_that_nothing_is_told() -> None:
    grey = to_rgba("#CCCCCC")
    lines = drawn_links({"h1-eth0": 1.0, "leaf1-eth1": 0.0})
    assert sum(colour == grey for colour, _ in lines) == len(lines) - 2
    assert to_rgba("#D55E00") in [colour for colour, _ in lines]
    assert to_rgba("#A9D3EA") in [colour for colour, _ in lines]


@pytest.mark.parametrize(("most", "ends"), [(0.9, "100 %"), (0.03, "5 %"), (0.0012, "0.2 %"), (0.0, "100 %")])
def test_where_little_is_used_the_colours_end_earlier(most: float, ends: str) -> None:
    figure = fabric_figure(FABRIC, "a title", {"h1-eth0": most})
    labels = [label.get_text() for label in figure.axes[1].get_xticklabels()]
    assert (labels[0], labels[-1]) == ("0 %", ends)


@pytest.mark.parametrize("name", ["star_65", "dumbbell", "leaf_spine_uneven", "fat_tree_8", "gpu_pod_2"])
def test_any_fabric_can_be_drawn_with_its_use(tmp_path: Path, name: str) -> None:
    told = document(name)
    use = {each: number % 7 / 7 for number, wire in enumerate(told["wires"]) for each in interfaces(wire)}
    for copy in ("a", "b"):
        draw_fabric(told, tmp_path / f"{copy}.png", "a title", use)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    run = fabric_run(tmp_path / "run", None, counted(FABRIC, {}))
    with pytest.raises(Skipped, match=r"no fabric\.json"):
        heat(run)
    bare = {**counted(FABRIC, {}), "ports": ports(FABRIC), "nics": {}}
    with pytest.raises(Skipped, match="no bytes of ports"):
        heat(fabric_run(tmp_path / "bare", FABRIC, bare))
    with pytest.raises(Skipped, match="no traffic whose time is told"):
        heat(fabric_run(tmp_path / "idle", FABRIC, {**counted(FABRIC, {}), "rounds": []}))


def test_long_flows_are_busy_until_their_last_byte_has_arrived(tmp_path: Path) -> None:
    flows = [
        {"flow": "h2", "begin_ns": T0_NS, "end_ns": T0_NS + 5 * MS, "last_arrival_ns": T0_NS + 6 * MS},
        {"flow": "h3", "begin_ns": T0_NS + 8 * MS, "end_ns": T0_NS + 9 * MS},
    ]
    facts = {**counted(FABRIC, {}), "workload": "long_flows", "flows": flows}
    assert busy_ns(fabric_run(tmp_path / "run", FABRIC, facts)) == (7 * MS, "all flows")


def test_calls_and_steps_count_with_those_to_warm_up(tmp_path: Path) -> None:
    spans = [{"start_ns": T0_NS, "end_ns": T0_NS + MS}, {"start_ns": T0_NS + 2 * MS, "end_ns": T0_NS + 3 * MS}]
    for workload, key, what in (("collective", "calls", "all calls"), ("training", "steps", "all steps")):
        facts = {**counted(FABRIC, {}), "workload": workload, key: spans}
        assert busy_ns(fabric_run(tmp_path / workload, FABRIC, facts)) == (2 * MS, what)


def test_hostile_names_in_a_fabric_are_drawn(tmp_path: Path) -> None:
    name = "$x^$\u202e\x07<script>"
    told = json.loads(json.dumps(FABRIC).replace('"h1"', json.dumps(name)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_fabric(told, tmp_path / "a.png", "a $title$\x00", {})
        figure = fabric_figure(told, f"a $title$ of {name}\x00", {})
    words = [each.get_text() for each in figure.findobj(Text)]
    assert sum("x^" in each and "<script>" in each for each in words) == 2  # the host's, and the title's
    assert not [each for each in words if not each.isprintable() and "\n" not in each]
    lines = figure.findobj(LineCollection)
    assert sum(len(each.get_segments()) for each in lines) == 2 * len(FABRIC["wires"])  # a line for each way
