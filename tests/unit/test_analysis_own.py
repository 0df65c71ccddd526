"""A run of a workload of the user's own: judged by what arrived and what was lost, whatever it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from analysis import summarize
from analysis.kinds import kind_of, own
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_kinds import fabric_json, fabric_run, ports
from topologies.describe import describe
from topologies.own_fabric import GraphTopo
from topologies.profiles import LinkProfile
from topologies.units import BadRequest

MS = 1_000_000
SPEC = {"workload": "own/workload.py:Shuffle", "rounds": 2, "bytes": "64KiB"}


def transfer(flow: str, number: int, start_ms: int, end_ms: int) -> dict[str, Any]:
    """A transfer of a round."""
    return {
        "flow": flow,
        "round": number,
        "start_ns": T0_NS + start_ms * MS,
        "end_ns": T0_NS + end_ms * MS,
        "bytes": 65536,
    }


def own_run(path: Path, fabric: dict[str, Any] | None = None, resent: int = 0, dropped: int = 0, **facts: Any) -> Run:
    """Two rounds of three transfers of two flows."""
    fabric = fabric or fabric_json("leaf_spine", leaves=2, spines=1, hosts_per_leaf=2)
    stacks = ports(fabric)
    next(iter(stacks.values()))["qdiscs"] = [{"kind": "bfifo", "handle": "8:", "drops": dropped}]
    rounds = [
        {"start_ns": T0_NS + start * MS, "end_ns": T0_NS + end * MS, "bytes": 2 * 65536}
        for start, end in ((0, 3), (10, 12))
    ]
    told = {
        "workload": "own",
        "rounds": rounds,
        "transfers": [transfer("h1>h3", 0, 0, 1), transfer("h2>h4", 0, 0, 3), transfer("h1>h3", 1, 10, 12)],
        "flows": [],
        "ports": stacks,
        "tcp": {"h1": {"RetransSegs": resent, "TCPTimeouts": resent}},
        **facts,
    }
    return fabric_run(path, fabric, told, SPEC)


def test_it_has_its_kind_and_its_name(tmp_path: Path) -> None:
    run = own_run(tmp_path)
    assert kind_of(run) is own
    assert (own.name(run), summarize(run)["own"]["name"], summarize(run)["workload"]) == ("Shuffle", "Shuffle", "own")


@pytest.mark.parametrize(
    ("facts", "verdict", "good"),
    [
        ({}, own.WHOLE, True),
        ({"resent": 3}, own.LOSSY, None),
        ({"dropped": 3}, own.LOSSY, None),
        ({"complete": False}, NOT_PROVEN, None),
        ({"rounds": []}, NOT_PROVEN, None),
    ],
)
def test_the_verdict_follows_from_what_was_lost(
    tmp_path: Path, facts: dict[str, Any], verdict: str, good: bool | None
) -> None:
    judged = own.verdict(own_run(tmp_path, **facts))
    assert (judged.verdict, judged.good) == (verdict, good)


def test_times_are_those_of_rounds_and_transfers(tmp_path: Path) -> None:
    told = summarize(own_run(tmp_path))
    assert told["goodput_bps"] == pytest.approx(4 * 65536 * 8 / 0.005)
    assert told["own"] == {
        "name": "Shuffle",
        "median_round_seconds": 0.0025,
        "median_transfer_seconds": 0.002,
        "slowest_transfer_seconds": 0.003,
        "transfers": 3,
        "flows": {
            "h1>h3": {"transfers": 2, "seconds": pytest.approx(0.003)},
            "h2>h4": {"transfers": 1, "seconds": pytest.approx(0.003)},
        },
    }


def test_the_headline_has_its_numbers(tmp_path: Path) -> None:
    assert own.headline(own_run(tmp_path / "a", dropped=3)) == (
        "Shuffle: rounds take 2.5 ms, a transfer 2 ms (the slowest 3 ms); 419 Mb/s in all; "
        "3 packets dropped, 0 timeouts"
    )
    assert own.headline(own_run(tmp_path / "b", rounds=[])) == "Shuffle: no round was finished"


def test_the_page_is_whole_without_flows_or_rounds(tmp_path: Path) -> None:
    broken: dict[str, Any] = {"rounds": [], "transfers": [], "complete": False}
    for name, facts in {"full": {}, "broken": broken}.items():
        run = own_run(tmp_path / name, **facts)
        assert own.headline(run).split(":")[0] in page(run, draw_all(run))
    assert "h2&gt;h4" in own.sections(own_run(tmp_path / "again"))


def test_a_case_is_compared_by_its_rounds(tmp_path: Path) -> None:
    run = own_run(tmp_path)
    slow = [{"start_ns": T0_NS, "end_ns": T0_NS + 5 * MS, "bytes": 65536}]
    case = own_run(tmp_path / "cases" / "slow", rounds=slow)
    assert own.beside(run) == "The median round in the cases: slow 5 ms."
    assert own.against(own.row(run), own.row(case)) == "rounds 2x"


def test_a_fabric_of_ones_own_tells_its_longest_way(tmp_path: Path) -> None:
    link = LinkProfile(400 * 10**9, 1000, 1500)
    made = describe(GraphTopo(graph=nx.path_graph(5), link=link, uplink=link))
    fabric = {"format": 1, "topology": "chain", **made.as_json()}
    run = own_run(tmp_path, fabric)
    text = (tmp_path / "spec.yaml").read_text().replace('topology: "chain"', "topology: own/topology.py:chain")
    (tmp_path / "spec.yaml").write_text(text)
    run = Run(tmp_path)
    assert (run.parameters.topology, run.parameters.path.uplinks) == ("chain", 4)
    (tmp_path / "fabric.json").unlink()
    with pytest.raises(BadRequest, match=r"topology: 'own/topology\.py:chain' has no cost model"):
        print(Run(tmp_path).parameters)
