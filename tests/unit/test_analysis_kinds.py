"""Each workload has its analysis, and every report what belongs to any run: the fabric's drawing, the controller."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.figures.draw import draw_fabric
from analysis.kinds import bisection, kind_of
from analysis.pages.cases import columns
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from experiments import screen
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_run import SPEC, evidence, make_run, port
from topologies.describe import describe
from topologies.fat_tree import FatTree
from topologies.gpu_pod import GpuPod
from topologies.leaf_spine import LeafSpine
from topologies.profiles import LinkProfile
from topologies.units import BadRequest

LINK = LinkProfile(rate_bps=400 * 10**9, delay_ns=1000, mtu_bytes=1500)
UPLINK = LinkProfile(rate_bps=100 * 10**9, delay_ns=1000, mtu_bytes=1500)
NVLINK = LinkProfile(rate_bps=3600 * 10**9, delay_ns=1000, mtu_bytes=1500)
CONTROLLER: dict[str, Any] = {
    "ready_s": 1.5,
    "alive": True,
    "died_ns": None,
    "discovered_links": 8,
    "expected_links": 8,
    "wrong_links": [],
}
FLOWLESS = {"senders": None, "bytes": None}


def fabric_json(topology: str, **layout: Any) -> dict[str, Any]:
    """A fabric.json: hosts at 400 Gb/s, switches at 100 Gb/s from each other."""
    made = {"leaf_spine": LeafSpine, "fat_tree": FatTree, "gpu_pod": GpuPod}[topology]
    links = {"link": LINK, "uplink": UPLINK, **({"nvlink": NVLINK} if topology == "gpu_pod" else {})}
    return {"format": 1, "topology": topology, **describe(made(**layout, **links)).as_json()}


def ports(fabric: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The ports of measured.json, nothing dropped."""
    tiers = {switch["name"]: switch["tier"] for switch in fabric["switches"]}
    found = {}
    for wire in fabric["wires"]:
        for here, there in (("a", "b"), ("b", "a")):
            if wire[here] in tiers:
                name = f"{wire[here]}-eth{wire[f'{here}_port']}"
                told = {"peer": wire[there], "tier": tiers[wire[here]], "peer_tier": tiers.get(wire[there], 0)}
                found[name] = {**told, "hot": False, "rate_bps": wire["rate_bps"], "qdiscs": []}
    return found


def fabric_run(
    path: Path, fabric: dict[str, Any] | None, facts: dict[str, Any], spec: dict[str, Any] | None = None
) -> Run:
    """A run directory of a routed fabric: no captures, no samples."""
    path.mkdir(parents=True, exist_ok=True)
    asked = {**SPEC, "uplink_rate": "100Gbps", **FLOWLESS, "workload": facts["workload"], **(spec or {})}
    asked["topology"] = fabric["topology"] if fabric else asked["topology"]
    (path / "spec.yaml").write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in asked.items()))
    common = {
        "format": 1,
        "complete": True,
        "rounds": [{"start_ns": T0_NS, "end_ns": T0_NS + 10**6, "bytes": 0}],
        "ports": ports(fabric) if fabric else {},
        "nics": {},
        "tcp": {},
        "capture": {},
        "controller": CONTROLLER,
        "virtual_s": 0.5,
    }
    (path / "measured.json").write_text(json.dumps({**common, **facts}))
    (path / "provenance.json").write_text(json.dumps({"seed": 1, "clock": "virtual", "wall": {"rounds_s": 2.0}}))
    if fabric:
        (path / "fabric.json").write_text(json.dumps(fabric))
    return Run(path)


def datagrams(fabric: dict[str, Any], flows: int, seed: int = 1) -> dict[str, Any]:
    """Facts of flows that take each upward link at random: counted at random, not followed through the fabric."""
    dice = random.Random(seed)
    counts = dict.fromkeys(ports(fabric), 0)
    for tier in (1, 2):
        upward = [name for name, told in ports(fabric).items() if told["tier"] == tier < told["peer_tier"]]
        for _ in range(flows if upward else 0):
            counts[dice.choice(upward)] += 1
    return {"workload": "datagrams", "sent": flows, "received": flows, "port_packets": counts}


def test_a_run_that_names_no_workload_did_an_incast(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert run.workload == "incast"
    assert kind_of(run).verdict(run).name == "incast"
    assert summarize(run)["workload"] == "incast"


def test_an_unknown_workload_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", facts={"workload": "juggling"})
    with pytest.raises(BadRequest, match=r"workload 'juggling'; allowed: incast, "):
        summarize(run)


@pytest.mark.parametrize("key", ["senders", "bytes"])
def test_only_an_incast_needs_senders_and_bytes(tmp_path: Path, key: str) -> None:
    assert make_run(tmp_path / "free", {key: "auto", "workload": "pings"}).parameters.senders == 0
    with pytest.raises(BadRequest, match=key):
        _ = make_run(tmp_path / "run", {key: None}).parameters


@pytest.mark.parametrize("workload", ["permutation", "all_to_all", "pings", "datagrams", "streams", "collective"])
def test_every_kind_copes_with_a_run_that_was_interrupted(tmp_path: Path, workload: str) -> None:
    run = fabric_run(tmp_path / "run", None, {"workload": workload}, {"topology": "fat_tree"})
    facts = {"format": 1, "complete": False, "workload": workload, "rounds": []}
    (run.path / "measured.json").write_text(json.dumps(facts))
    summary = summarize(Run(run.path))
    assert (summary["verdict"], summary["goodput_bps"], summary["packets"]) == (NOT_PROVEN, None, None)
    assert summary["missing"] == ["measured.json: the run was not completed"]
    html = page(Run(run.path), draw_all(Run(run.path)))
    assert "Not drawn: fabric (the run directory has no fabric.json)" in html
    assert "<img" not in html


def test_the_fabric_is_the_first_figure(tmp_path: Path) -> None:
    fabric = fabric_json("leaf_spine", leaves=2, spines=2, hosts_per_leaf=2)
    run = fabric_run(tmp_path / "run", fabric, datagrams(fabric, 100))
    first, *_ = draw_all(run)
    assert (first.name, first.title) == ("fabric", "leaf-spine, 2 leaves and 2 spines: 4 hosts, 4 switches, 8 links")
    assert first.path is not None
    draw_fabric(fabric, tmp_path / "again.png", first.title)
    assert first.path.read_bytes() == (tmp_path / "again.png").read_bytes()


def test_a_fabric_of_another_format_is_refused(tmp_path: Path) -> None:
    fabric = fabric_json("leaf_spine")
    run = fabric_run(tmp_path / "run", {**fabric, "format": 2}, datagrams(fabric, 100))
    with pytest.raises(BadRequest, match=r"fabric.json: format 2; allowed: 1"):
        _ = run.fabric


def test_a_controller_that_was_well_is_not_mentioned(tmp_path: Path) -> None:
    fabric = fabric_json("leaf_spine")
    run = fabric_run(tmp_path / "run", fabric, datagrams(fabric, 100))
    assert "Controller:" not in page(run, [])
    assert summarize(run)["controller"] == CONTROLLER


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"alive": False, "died_ns": T0_NS + 2_000_000}, "it died 2 ms after the first round began; switches kept"),
        ({"alive": False, "died_ns": T0_NS - 3_000_000}, "it died 3 ms before the first round began; switches kept"),
        ({"alive": False}, "Controller: it died; switches kept forwarding by the rules they had."),
        ({"wrong_links": ["leaf1-eth3 to <x>"]}, "otherwise than the fabric has them: leaf1-eth3 to &lt;x&gt;."),
    ],
)
def test_what_went_wrong_with_the_controller_is_said(tmp_path: Path, told: dict[str, Any], words: str) -> None:
    fabric = fabric_json("leaf_spine")
    facts = {**datagrams(fabric, 100), "controller": {**CONTROLLER, **told}}
    assert words in page(fabric_run(tmp_path / "run", fabric, facts), [])


def test_an_incast_across_a_fabric_has_its_hot_port_and_its_way(tmp_path: Path) -> None:
    """Six links of 1 us, five switches of 500 ns; four of the links at 100 Gb/s take a frame four times as long."""
    fabric = fabric_json("fat_tree", k=4)
    hot = {"edge1-eth1": port(2, hot=True), "edge2-eth1": port(0, hot=False)}
    spec = {"topology": "fat_tree", "uplink_rate": "100Gbps", "hosts": 16}
    run = make_run(tmp_path / "run", spec, {"ports": hot})
    (run.path / "fabric.json").write_text(json.dumps(fabric))
    (run.path / "pcap" / "leaf1-eth1.pcap").rename(run.path / "pcap" / "edge1-eth1.pcap")
    assert (run.hot_port, run.parameters.path.delay_ns) == ("edge1-eth1", 8500)
    frames = 8 * 1514 / 400e9 + 4 * 8 * 1514 / 100e9
    assert run.parameters.ideal_seconds == pytest.approx(8 * 2 * (6000 + 5 * 66) / 400e9 + frames + 8.5e-6)
    verdict = kind_of(run).verdict(run)
    assert (verdict.verdict, verdict.good) == ("incast collapse", False)
    assert draw_all(run)[0].name == "fabric"
    assert summarize(run)["buffer_fill_s"] is None  # no samples of this port, and captures far away tell no time here


def test_drops_further_up_prove_no_incast_at_the_hot_port(tmp_path: Path) -> None:
    facts = {"ports": {"edge1-eth1": port(2, hot=True), "core1-eth1": port(1, hot=False)}}
    run = make_run(tmp_path / "run", {"topology": "fat_tree"}, facts)
    verdict = kind_of(run).verdict(run)
    assert (verdict.verdict, evidence(verdict)["drops at the hot port"]) == (NOT_PROVEN, False)


def test_a_case_of_another_workload_is_shown_with_what_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric = fabric_json("leaf_spine")
    run = fabric_run(tmp_path / "run", fabric, datagrams(fabric, 400))
    fabric_run(tmp_path / "run" / "cases" / "far", fabric, {"workload": "pings", "probes": []}, {"label": "far"})
    html = page(Run(run.path), [])
    assert 'data-sort="">—</td>' in html
    screen.comparison(columns(kind_of(run)), summarize(Run(run.path))["comparison"], "")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if "far" in line or "main" in line]


@pytest.mark.parametrize("width", [80, 100])
def test_a_narrow_terminal_gets_whole_labels_and_verdicts(
    width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns are left out before anything is cut; the verdict wraps. COLUMNS holds for a pipe too."""
    monkeypatch.setenv("COLUMNS", str(width))
    row = {"label": "flapping-controller_alone", "workload": "permutation", "routing": "d_mod_k", "best_share": 1.0}
    row = {**row, "worst_share": 0.987, "median_share": 0.99, "verdict": "worst host 94.1 % of possible"}
    screen.comparison(columns(bisection), [row, {**row, "label": "main"}], "")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert "…" not in "".join(lines)
    assert {"flapping-controller_alone", "d_mod_k", "98.7", "94.1", "possible"} <= set(words)
    assert ("traffic" in words) == (width == 100)


def test_a_controller_that_was_killed_as_scheduled_is_no_fault(tmp_path: Path) -> None:
    fabric = fabric_json("leaf_spine")
    facts = {**datagrams(fabric, 100), "controller": {**CONTROLLER, "alive": False, "died_ns": T0_NS + 2_000_000}}
    killed = [{"target": "controller", "action": "down", "time_ns": 5}]
    html = page(fabric_run(tmp_path / "run", fabric, {**facts, "failures": killed}), [])
    assert '<p class="open">Controller: killed as scheduled 2 ms after the first round began; switches kept' in html


def test_flows_inside_the_receivers_server_share_no_port_and_no_capture(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"topology": "gpu_pod", "uplink_rate": "400Gbps", "senders": 9})
    (run.path / "fabric.json").write_text(json.dumps(fabric_json("gpu_pod", servers=2)))
    facts = json.loads((run.path / "measured.json").read_text())
    for entry in facts["flows"]:
        entry["receiver"] = "h1"
    (run.path / "measured.json").write_text(json.dumps(facts))
    (run.path / "pcap" / "h2-eth0.pcap").unlink()
    run = Run(run.path)
    assert run.parameters.nvlink_senders == 7
    words = [reason for reason in run.missing if "h2" in reason]
    assert len(words) == 1 and words[0].endswith("their data takes NVLink, where nothing is captured")
