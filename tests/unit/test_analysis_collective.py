"""Runs of collectives, made by hand: nccl-tests' table, the verdict and its evidence, broken and interrupted runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.kinds import collective, kind_of, table_of
from analysis.kinds.collective_calls import model_setting, size_rows
from analysis.kinds.collective_model import seconds
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN
from experiments import fabrics, limits, rundir
from experiments.spec import Spec, known, parse
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_run import evidence

MIB = 1 << 20
_PROVENANCE = {"seed": 1, "clock": "virtual", "kernel": {"version": "7.3.4"}, "wall": {"rounds_s": 1.0}}


def make(path: Path, factor: float = 1.0, wrong: int = 0, experiment: str = "collectives", **keys: Any) -> Run:
    """A run directory whose calls took `factor` times as long as the model says."""
    asked = {"workload": "collective", "rate": "100Gbps", "ranks": 16, "capture": "off", "telemetry": "off"}
    return make_of(
        path, limits.resolve(parse({**asked, "sizes": "1MiB,2MiB,4MiB,8MiB", **keys})), factor, wrong, experiment
    )


def make_of(path: Path, spec: Spec, factor: float, wrong: int, experiment: str) -> Run:
    """The same of a resolved spec."""
    path.mkdir(parents=True)
    label = path.name if "cases" in path.parts else "main"
    rundir.write_spec(path, spec, experiment=experiment, label=label, clock="virtual")
    rundir.write_fabric(path, fabrics.document(spec))
    (path / "provenance.json").write_text(json.dumps(_PROVENANCE))
    hosts = [f"h{number}" for number in range(1, (spec.hosts or 0) + 1)]
    told: dict[str, Any] = {"ranks": hosts[: spec.ranks], "helpers": hosts[spec.ranks :], "flows": 16}
    _write(path, {"collective": told, "calls": [], "sizes": []})
    model = model_setting(Run(path))
    assert model is not None
    times_ns = {size: round(factor * seconds(model, size) * 1e9) for size in known(spec.sizes_bytes)}
    carried = {host: 2.0 if host in told["ranks"] else float(known(spec.ranks)) for host in hosts}
    if spec.algorithm == "ring":
        carried = dict.fromkeys(hosts, 2 * (1 - 1 / known(spec.ranks)))
    _write(path, {"collective": told, **_calls(carried, times_ns, wrong)})
    return Run(path)


def _calls(carried: dict[str, float], times_ns: dict[int, int], wrong: int) -> dict[str, Any]:
    """The calls of all sizes; each host's NIC carries so many times the data both ways."""
    calls, sizes = [], []
    for size, time_ns in times_ns.items():
        for iteration, extra_ns in ((0, 0), (1, 300)):
            call = {"size_bytes": size, "count": size // 4, "iteration": iteration, "warmup": iteration == 0}
            times = {"start_ns": T0_NS, "end_ns": T0_NS + time_ns + extra_ns, "rank_end_ns": []}
            calls.append({**call, **times, "wrong": wrong})
        nics = {host: dict.fromkeys(("sent", "received"), round(times * size)) for host, times in carried.items()}
        sizes.append({"size_bytes": size, "calls": 1, "nic_bytes": nics})
    rounds = [{"start_ns": T0_NS, "end_ns": T0_NS + value, "bytes": size} for size, value in times_ns.items()]
    return {"calls": calls, "sizes": sizes, "rounds": rounds}


def _write(path: Path, facts: dict[str, Any]) -> None:
    ports = {"leaf1-eth1": {"peer": "h1", "hot": False, "qdiscs": [{"kind": "bfifo", "drops": 0}]}}
    common = {"format": 1, "complete": True, "workload": "collective", "rounds": [], "tcp": {}, "ports": ports}
    rest: dict[str, Any] = {"nics": {}, "controller": None, "virtual_s": 0.1, "capture": {}}
    (path / "measured.json").write_text(json.dumps({**common, **rest, **facts}))


def test_the_table_is_nccl_tests(tmp_path: Path) -> None:
    own = table_of(make(tmp_path / "run"))
    assert own is not None
    assert own.title == "all_reduce, ring, 16 ranks"
    names = [column.name for column in own.columns]
    assert names[:5] == ["size (B)", "count", "type", "redop", "root"]
    first = dict(zip(names, (column.cell(own.rows[0]) for column in own.columns)))
    assert first["size (B)"] == "1,048,576"
    assert (first["count"], first["type"], first["redop"], first["root"]) == ("262,144", "float32", "sum", "-1")
    assert first["#wrong"] == "0"
    assert own.rows[0]["busbw"] == pytest.approx(own.rows[0]["algbw"] * 30 / 16)


def test_a_run_as_modelled_is_good(tmp_path: Path) -> None:
    run = make(tmp_path / "run", factor=1.08)
    verdict = collective.verdict(run)
    assert (verdict.verdict, verdict.good) == (collective.AS_MODELLED, True)
    assert all(evidence(verdict).values())


@pytest.mark.parametrize(
    ("factor", "wrong", "answer"),
    [(1.2, 0, collective.SLOWER), (0.8, 0, collective.FASTER), (1.0, 3, collective.WRONG)],
)
def test_what_is_off_is_said(tmp_path: Path, factor: float, wrong: int, answer: str) -> None:
    verdict = collective.verdict(make(tmp_path / "run", factor, wrong))
    assert (verdict.verdict, verdict.good) == (answer, False)


def test_losses_excuse_no_time(tmp_path: Path) -> None:
    run = make(tmp_path / "run", factor=1.5)
    facts = json.loads((run.path / "measured.json").read_text())
    facts["ports"]["leaf1-eth1"]["qdiscs"][0]["drops"] = 7
    (run.path / "measured.json").write_text(json.dumps(facts))
    verdict = collective.verdict(Run(run.path))
    assert (verdict.verdict, verdict.good) == (collective.LOSES, False)


@pytest.mark.parametrize(
    ("keys", "excuse"),
    [
        ({"slow_link": "h3:10Gbps"}, "links are slower"),
        ({"lossy_link": "h3:0.001"}, "cables lose"),
        ({"host_cost": "tcp"}, "processors cost time"),
    ],
)
def test_the_idle_fabric_is_no_model_of_another(tmp_path: Path, keys: dict[str, Any], excuse: str) -> None:
    verdict = collective.verdict(make(tmp_path / "run", factor=5, **keys))
    assert (verdict.verdict, verdict.good) == (collective.RIGHT, True)
    piece = next(each for each in verdict.evidence if each.name == "time beside the model")
    assert not piece.applies
    assert excuse in piece.source


def test_a_page_with_cases(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    make(run.path / "cases" / "tree", factor=1.05, algorithm="tree")
    html = page(Run(run.path), drawings := draw_all(Run(run.path)))
    assert [(each.name, each.reason) for each in drawings] == [
        ("busbw_size", ""),
        ("time_size", ""),
        ("heat", "measured.json has no bytes of ports"),
        ("gantt", "nothing was completed, or measured.json does not tell when"),
        ("tail", "nothing was completed, or measured.json does not tell when"),
        ("algorithms", ""),
    ]
    assert "<h2>Sizes: all_reduce, ring, 16 ranks</h2>" in html
    summary = summarize(Run(run.path))
    assert [row["algorithm"] for row in summary["comparison"]] == ["ring", "tree"]
    assert summary["collective"]["sizes"][0]["nic_bytes_per_call"] == 30 / 16 * MIB
    assert summary["collective"]["fit"]["error"] < 0.1


def test_an_interrupted_run_proves_nothing(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    facts = {"format": 1, "complete": False, "workload": "collective", "rounds": []}
    (run.path / "measured.json").write_text(json.dumps(facts))
    run = Run(run.path)
    summary = summarize(run)
    assert (summary["verdict"], summary["goodput_bps"]) == (NOT_PROVEN, None)
    assert table_of(run) is None
    assert "<img" not in page(run, draw_all(run))


def test_roce_has_no_flows_and_no_stalls(tmp_path: Path) -> None:
    run = make(tmp_path / "run", transport="roce", mtu="4300B", pfc="on", buffer="4MB")
    (run.path / "measured.json").write_text(
        json.dumps({**json.loads((run.path / "measured.json").read_text()), "roce": {"h1": {"sent_pkts": 5}}})
    )
    run = Run(run.path)
    summary = summarize(run)
    assert (summary["packets"], summary["stalls"]) == (5, [])
    assert kind_of(run).row(run)["of_model"] == pytest.approx(1.0, abs=0.01)


def test_parameter_servers_and_aggregators_have_links_of_their_own(tmp_path: Path) -> None:
    fast = model_setting(make(tmp_path / "fast", algorithm="in_network"))
    served = model_setting(make(tmp_path / "served", algorithm="parameter_server", shards=2))
    assert fast is not None and served is not None
    assert fast.outer.beta_s / fast.helper.beta_s == pytest.approx(16)
    assert served.helper.beta_s == pytest.approx(served.outer.beta_s)
    assert served.shards == 2


def test_a_pod_has_two_kinds_of_links(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"topology": "gpu_pod", "servers": 2, "ranks": 16, "rate": "400Gbps"}
    layered = model_setting(make(tmp_path / "layered", algorithm="hierarchical", **keys))
    flat = model_setting(make(tmp_path / "flat", algorithm="ring", **keys))
    assert layered is not None and flat is not None
    assert layered.outer.beta_s / layered.inner.beta_s == pytest.approx(9)
    assert not layered.is_one_link
    assert flat.outer.beta_s / flat.outer.usual_beta_s == pytest.approx(16 / (14 / 9 + 2))


def test_rows_take_the_median_of_timed_calls(tmp_path: Path) -> None:
    (first, *_) = size_rows(make(tmp_path / "run"))
    assert first.calls == 1
    assert first.of_model == pytest.approx(1.0, abs=0.01)


def test_bandwidth_above_a_link_is_explained(tmp_path: Path) -> None:
    pod: dict[str, Any] = {"topology": "gpu_pod", "servers": 2, "ranks": 16, "rate": "400Gbps"}
    assert "NVLink carries it" in collective.headline(make(tmp_path / "pod", algorithm="hierarchical", **pod))
    assert "an aggregator saves half" in collective.headline(make(tmp_path / "spared", algorithm="in_network"))
    assert "% of a host's link)" in collective.headline(make(tmp_path / "ring"))


def test_a_slow_call_on_hashed_paths_names_them(tmp_path: Path) -> None:
    fabric: dict[str, Any] = {"topology": "leaf_spine", "ranks": 16}
    assert "ECMP's hash" in collective.headline(make(tmp_path / "slow", factor=1.5, **fabric))
    assert "ECMP" not in collective.headline(make(tmp_path / "quick", **fabric))
    apart = make(tmp_path / "apart", factor=1.5, routing="d_mod_k", **fabric)
    assert "ECMP" not in collective.headline(apart)
