"""Drawings of fabrics: every text inside the figure and clear of the others, every rate told, equal bytes."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from analysis.fabric import Fabric, fabric_title
from analysis.figures import draw
from analysis.figures.draw import draw_fabric
from analysis.figures.draw_layout import BOTH, COUNTS, DOTS, LINES, place
from topologies.describe import describe
from topologies.dumbbell import Dumbbell
from topologies.fat_tree import FatTree
from topologies.gpu_pod import GpuPod
from topologies.leaf_spine import LeafSpine
from topologies.profiles import LinkProfile
from topologies.star import Star
from topologies.units import BadRequest

G = 10**9
LINK, UPLINK, NVLINK = (LinkProfile(rate * G, 1000, 1500) for rate in (400, 800, 3600))
SAME = {"link": LINK, "uplink": LINK}
FASTER = {"link": LINK, "uplink": UPLINK}
FABRICS = {
    "star": Star(hosts=4, link=LINK),
    "star_65": Star(hosts=65, link=LINK),
    "star_1024": Star(hosts=1024, link=LINK),
    "dumbbell": Dumbbell(hosts=4, **FASTER),
    "leaf_spine": LeafSpine(leaves=4, spines=4, hosts_per_leaf=4, **SAME),
    "leaf_spine_8": LeafSpine(leaves=8, spines=2, hosts_per_leaf=8, **FASTER),
    "leaf_spine_uneven": LeafSpine(leaves=4, spines=2, hosts_per_leaf=4, hosts=5, **SAME),
    "fat_tree_4": FatTree(k=4, **SAME),
    "fat_tree_6": FatTree(k=6, hosts=20, **SAME),
    "fat_tree_8": FatTree(k=8, **SAME),
    "fat_tree_16": FatTree(k=16, **SAME),
    "gpu_pod_2": GpuPod(servers=2, **FASTER, nvlink=NVLINK),
    "gpu_pod_2_leaves": GpuPod(servers=2, leaves=2, rails=False, **FASTER, nvlink=NVLINK),
    "gpu_pod_16": GpuPod(servers=16, spines=4, **FASTER, nvlink=NVLINK),
    "gpu_pod_64": GpuPod(servers=64, spines=8, **FASTER, nvlink=NVLINK),
}


def document(name: str) -> dict[str, Any]:
    kind = "gpu_pod" if name.startswith("gpu") else name.rstrip("0123456789").rstrip("_").removesuffix("_uneven")
    return {"format": 1, "topology": kind, **describe(FABRICS[name]).as_json()}


def figure_of(name: str) -> Figure:
    told = document(name)
    return draw._figure(place(Fabric.of(told)), fabric_title(told), None)


def texts(figure: Figure) -> list[Text]:
    figure.canvas.draw()
    legend = figure.axes[0].get_legend()
    assert legend is not None
    return [*figure.axes[0].texts, *legend.get_texts()]


def inked(text: Text) -> Bbox:
    """The text's extent, half a pixel off each side."""
    return text.get_window_extent().padded(-0.5)


@pytest.mark.parametrize("name", FABRICS)
def test_no_text_is_clipped_and_none_meets_another(name: str) -> None:
    figure = figure_of(name)
    boxes = [(text.get_text(), inked(text)) for text in texts(figure)]
    for words, box in boxes:
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1, words
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1, words
    by_place = sorted(boxes, key=lambda pair: pair[1].x0)
    met = [(a, b) for (a, box), (b, other) in combinations(by_place, 2) if box.overlaps(other)]
    assert met == []


@pytest.mark.parametrize("name", FABRICS)
def test_no_box_meets_another(name: str) -> None:
    placed = place(Fabric.of(document(name)))
    shown = {
        key: box for key, box in placed.boxes.items() if placed.style.kind != COUNTS or key not in placed.fabric.hosts
    }
    rows: dict[float, list[tuple[float, float]]] = {}
    for box in shown.values():
        rows.setdefault(round(box.y, 6), []).append((box.x - box.width / 2, box.x + box.width / 2))
    for row in rows.values():
        row.sort()
        assert all(first[1] < second[0] for first, second in zip(row, row[1:]))
        assert row[0][0] > 1.0
        assert row[-1][1] < placed.width_in


@pytest.mark.parametrize(
    ("name", "kind"),
    [("star", BOTH), ("star_65", LINES), ("fat_tree_8", DOTS), ("fat_tree_16", COUNTS), ("gpu_pod_64", COUNTS)],
)
def test_hosts_are_told_as_fully_as_there_is_room(name: str, kind: str) -> None:
    assert place(Fabric.of(document(name))).style.kind == kind


def test_names_addresses_and_tiers_are_written(tmp_path: Path) -> None:
    words = [text.get_text() for text in texts(figure_of("fat_tree_4"))]
    assert words[0] == "fat-tree k = 4: 16 hosts, 20 switches, 48 links"
    for expected in (
        "core4",
        "agg8",
        "edge8",
        "h16",
        "10.4.2.2",
        "pod 4",
        "core",
        "aggregation",
        "400 Gb/s (48 links)",
    ):
        assert expected in words


def test_counts_stand_for_hosts_that_are_too_many() -> None:
    words = [text.get_text() for text in texts(figure_of("fat_tree_16"))]
    assert words.count("8 hosts, 10.16.8.0/24") == 1
    assert sum(word.startswith("8 hosts") for word in words) == 128
    assert "h1" not in words
    assert "8 GPUs" in [text.get_text() for text in texts(figure_of("gpu_pod_64"))]


def test_every_rate_is_in_the_legend() -> None:
    words = [text.get_text() for text in texts(figure_of("gpu_pod_16"))]
    assert words[-3:] == ["400 Gb/s (128 links)", "800 Gb/s (32 links)", "3.6 Tb/s (128 links)"]
    bare = {"format": 1, "topology": "star", **describe(Star(hosts=2)).as_json()}
    figure = draw._figure(place(Fabric.of(bare)), "star", None)
    assert texts(figure)[-1].get_text() == "no rate given (2 links)"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("star", "star: 4 hosts, 1 switch, 4 links"),
        ("dumbbell", "dumbbell: 4 hosts, 2 switches, 5 links"),
        ("leaf_spine", "leaf-spine, 4 leaves and 4 spines: 16 hosts, 8 switches, 32 links"),
        ("fat_tree_16", "fat-tree k = 16: 1,024 hosts, 320 switches, 3,072 links"),
        ("gpu_pod_2", "GPU pod of 2 servers, rail-optimised: 16 GPUs, 12 switches, 48 links"),
        ("gpu_pod_2_leaves", "GPU pod of 2 servers, each server on one leaf: 16 GPUs, 6 switches, 36 links"),
    ],
)
def test_the_title_says_what_it_is(name: str, title: str) -> None:
    assert fabric_title(document(name)) == title


def test_pods_are_what_hangs_together_without_the_cores() -> None:
    pods = Fabric.of(document("fat_tree_4")).pods()
    assert pods[1] == ["agg3", "agg4", "edge3", "edge4"]
    assert len(pods) == 4
    assert Fabric.of(document("leaf_spine")).pods() == []


def test_gpus_are_inside_their_server_with_its_nvswitch() -> None:
    placed = place(Fabric.of(document("gpu_pod_2")))
    for server, gpus in placed.groups.items():
        outer = placed.servers[server]
        for inner in (placed.boxes[name] for name in (server, *gpus)):
            assert abs(inner.x - outer.x) + inner.width / 2 < outer.width / 2
            assert abs(inner.y - outer.y) + inner.height / 2 < outer.height / 2


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_equal_fabrics_give_equal_bytes(tmp_path: Path, suffix: str) -> None:
    kept = [tmp_path / folder / f"fabric.{suffix}" for folder in ("one", "two")]
    for path in kept:
        draw_fabric(document("leaf_spine"), path, "leaf-spine")
    assert kept[0].read_bytes() == kept[1].read_bytes()
    assert kept[0].read_bytes()[:4] in (b"\x89PNG", b"<?xm", b"%PDF")


def test_load_colours_the_links(tmp_path: Path) -> None:
    told = document("leaf_spine")
    draw_fabric(told, tmp_path / "plain.png", "leaf-spine")
    draw_fabric(told, tmp_path / "idle.png", "leaf-spine", {"leaf1-eth5": 0.0})
    draw_fabric(told, tmp_path / "busy.png", "leaf-spine", {"leaf1-eth5": 0.0, "spine1-eth1": 1.0})
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 3


def test_another_suffix_or_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"path: 'fabric.gif' is given; allowed: names that end in .png, .svg, .pdf"):
        draw_fabric(document("star"), tmp_path / "fabric.gif", "star")
    with pytest.raises(BadRequest, match=r"fabric.json: 'wires' is missing"):
        draw_fabric({"switches": [], "hosts": []}, tmp_path / "fabric.png", "nothing")
