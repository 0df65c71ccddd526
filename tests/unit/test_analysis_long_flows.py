"""Long flows made by hand: who got what where flows are judged, and the verdict, page and figures on it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from analysis.kinds import long_flows
from analysis.kinds.arrivals import Arrivals, arrivals, bin_edges_ns, read_arrivals, trouble
from analysis.kinds.shares import bottleneck, fairness, line_share, payload_bps, queue, settling_s, steady
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, lossless_drops
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_kinds import fabric_json, fabric_run
from tests.unit.test_analysis_run import evidence
from topologies.units import BadRequest

MS = 10**6
BLOCK_BYTES = 64 << 10
ROCE: dict[str, Any] = {
    "workload": "long_flows", "transport": "roce", "rate": "40Gbps", "uplink_rate": "40Gbps", "mtu": "4300B",
    "roce_mtu": "4KiB", "verb": "write", "buffer": "600KB", "pfc": "on", "xoff": "582062B", "xon": "573434B",
    "headroom": "17938B", "xoff_at": "ingress", "pause": "switch", "cc": "none", "queue": "droptail", "sack": "auto",
    "tlp": "auto", "rack": "auto", "rto_min": "auto", "rounds": "auto", "jitter": "0ns", "stuck": "none",
    "pfc_watchdog": "off", "capture": "off",
}  # fmt: skip
DCQCN: dict[str, Any] = {
    "queue": "dcqcn", "cc": "dcqcn", "kmin": "5KB", "kmax": "200KB", "pmax": 0.01, "marking": "switch", "dcqcn_rai":
    "40Mbps", "dcqcn_rate_timer": "55us", "dcqcn_alpha_timer": "55us", "dcqcn_byte_counter": "10MB",
}  # fmt: skip
LINE_BPS = 40e9 * 4096 / (4096 + 58)  # payload of full packets with their headers
LEAF_SPINE = fabric_json("leaf_spine", leaves=2, spines=1, hosts_per_leaf=4)

Paced = Sequence[tuple[float, int, int]]  # rate in bits/s, from and to in ns since the begin


def paced(*pieces: tuple[float, int, int]) -> np.ndarray:
    """When blocks arrive that are sent at these rates; the one under way at the end comes after it."""
    steps = [(BLOCK_BYTES * 8e9 / rate, begin, end) for rate, begin, end in pieces if rate]
    found = [
        np.arange(begin, end + (step if place == len(steps) - 1 else 0), step)[1:]
        for place, (step, begin, end) in enumerate(steps)
    ]
    return T0_NS + np.concatenate([np.zeros(0), *found]).astype(np.int64)


def flow(name: str, begin_ns: int, end_ns: int, **changes: Any) -> dict[str, Any]:
    """An entry of measured.json; a name without a receiver goes to h1."""
    sender, _, receiver = name.partition("#")[0].partition(">")
    ends = {"source": "10.0.1.2:17", "destination": "10.0.1.1:18", "roce": {}}
    plain = {"flow": name, "sender": sender, "receiver": receiver or "h1", "begin_ns": T0_NS + begin_ns, **ends}
    return {**plain, "end_ns": T0_NS + end_ns, "sent_bytes": 0, "delivered_bytes": 0, "died": None, **changes}


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), path)


def write_arrivals(folder: Path, times_ns: Mapping[str, np.ndarray]) -> None:
    names = [name for name, times in times_ns.items() for _ in times]
    times = np.concatenate([np.zeros(0, np.int64), *times_ns.values()])
    sizes = np.full(len(times), BLOCK_BYTES)
    write_table(folder / "telemetry" / "arrivals.parquet", {"time_ns": times, "flow": names, "bytes": sizes})


def write_pauses(folder: Path, events: Sequence[tuple[int, str, str]]) -> None:
    """Events as (ns since the begin, port, event)."""
    columns = {
        "time_ns": np.array([T0_NS + time_ns for time_ns, _, _ in events], np.int64),
        "port": pyarrow.array([port for _, port, _ in events], pyarrow.string()),
        "event": pyarrow.array([event for _, _, event in events], pyarrow.string()),
        "value": np.zeros(len(events), np.int64),
    }
    write_table(folder / "telemetry" / "pauses.parquet", columns)


def write_dcqcn(folder: Path, queue_pairs: Sequence[str], times_ns: Sequence[int], rate_bps: int) -> None:
    """The same changes of rate of all queue pairs, each after a CNP."""
    rows = [(time_ns, name, event) for time_ns in times_ns for name in queue_pairs for event in ("cnp_sent", "rate")]
    columns = {
        "time_ns": np.array([T0_NS + time_ns for time_ns, _, _ in rows], np.int64),
        "queue_pair": [name for _, name, _ in rows],
        "event": [event for _, _, event in rows],
        "rate_bps": np.full(len(rows), rate_bps),
        "alpha": np.full(len(rows), 0.25),
        "target_bps": np.full(len(rows), rate_bps),
    }
    write_table(folder / "telemetry" / "dcqcn.parquet", columns)


def write_queue(folder: Path, port: str, depth_bytes: int, end_ns: int) -> None:
    """A queue that is always as deep, but empty at its begin."""
    times = T0_NS + np.arange(0, end_ns, 10_000)
    depth = np.full(len(times), depth_bytes)
    depth[0] = 0
    flat = {"queue_packets": depth // 4000, "drops": np.zeros(len(times), int), "marks": np.zeros(len(times), int)}
    columns = {"time_ns": times, "queue_bytes": depth, **flat, "port": [port] * len(times)}
    write_table(folder / "telemetry" / "queue.parquet", columns)


def long_run(
    path: Path,
    flows: Sequence[dict[str, Any]],
    rates: Mapping[str, Paced],
    spec: dict[str, Any] | None = None,
    fabric: dict[str, Any] | None = LEAF_SPINE,
    pauses: Sequence[tuple[int, str, str]] = (),
    **facts: Any,
) -> Run:
    """A run whose flows get data at the rates of their pieces."""
    asked = {"topology": fabric["topology"] if fabric else "star", **ROCE, **(spec or {})}
    plain = {"workload": "long_flows", "queue_pairs": [], "pause_ports": [], "ports": lossless_port()}
    told = {**plain, "flows": list(flows), **facts}
    run = fabric_run(path, fabric, told, asked)
    write_arrivals(run.path, {name: paced(*pieces) for name, pieces in rates.items()})
    write_pauses(run.path, pauses)
    return run


def two_run(path: Path, first_bps: float, second_bps: float, **changes: Any) -> Run:
    """Two flows for 20 ms."""
    flows = [flow(name, 0, 20 * MS) for name in ("h2", "h5")]
    rates = {"h2": [(first_bps, 0, 20 * MS)], "h5": [(second_bps, 0, 20 * MS)]}
    return long_run(path, flows, rates, **changes)


def test_goodput_is_that_of_the_second_half(tmp_path: Path) -> None:
    """h2 gets all until 10 ms, then an eighth."""
    flows = [flow("h2", 0, 20 * MS), flow("h5", 0, 20 * MS)]
    rates = {"h2": [(35e9, 0, 10 * MS), (5e9, 10 * MS, 20 * MS)], "h5": [(35e9, 10 * MS, 20 * MS)]}
    run = long_run(tmp_path / "run", flows, rates)
    found = steady(run)
    assert found is not None
    assert (found.window.start_ns - T0_NS, found.window.end_ns - T0_NS) == (10 * MS, 20 * MS)
    assert found.goodput_bps == pytest.approx({"h2": 5e9, "h5": 35e9}, rel=0.02)
    assert fairness(run) == pytest.approx(0.64, abs=0.01)
    assert line_share(run) == pytest.approx(40e9 / LINE_BPS, rel=0.01)


def test_a_link_carries_the_payload_of_full_packets(tmp_path: Path) -> None:
    run = two_run(tmp_path / "run", 1e9, 1e9)
    assert payload_bps(run) == pytest.approx(LINE_BPS)
    assert payload_bps(run, 80 * 10**9) == pytest.approx(2 * LINE_BPS)


def test_equal_flows_that_fill_the_line_share_it_well(tmp_path: Path) -> None:
    told = long_flows.verdict(run := two_run(tmp_path / "run", 19.5e9, 19.6e9))
    assert (told.verdict, told.good) == (long_flows.FAIR, True)
    assert set(evidence(told).values()) == {True}
    assert long_flows.headline(run).startswith("2 flows through one link of 40 Gb/s get 19.5 Gb/s to 19.6 Gb/s: Jain")


@pytest.mark.parametrize(
    ("first_bps", "second_bps", "answer"),
    [(30e9, 9e9, long_flows.UNFAIR), (10e9, 10e9, long_flows.IDLE), (0, 0, NOT_PROVEN)],
)
def test_what_stands_against_sharing_well_is_said(
    tmp_path: Path, first_bps: float, second_bps: float, answer: str
) -> None:
    assert long_flows.verdict(two_run(tmp_path / "run", first_bps, second_bps)).verdict == answer


def lossless_port(**counters: int) -> dict[str, Any]:
    return {"leaf1-eth1": {"peer": "h1", "hot": True, "qdiscs": [{"kind": "pfc", **counters}]}}


def test_losses_of_the_lossless_class_are_said_and_what_a_watchdog_discards_is_none(tmp_path: Path) -> None:
    lost = two_run(tmp_path / "lost", 19.5e9, 19.5e9, ports=lossless_port(drops=3))
    assert long_flows.verdict(lost).verdict == long_flows.LOSES
    discarded = two_run(tmp_path / "discarded", 19.5e9, 19.5e9, ports=lossless_port(drops=3, discards=3))
    assert long_flows.verdict(discarded).verdict == long_flows.FAIR
    without = two_run(tmp_path / "without", 19.5e9, 19.5e9, spec={"pfc": "off"}, ports=lossless_port(drops=3))
    assert (long_flows.verdict(without).verdict, long_flows.row(without)["drops"]) == (long_flows.FAIR, 3)


def test_the_bottleneck_is_where_most_flows_go(tmp_path: Path) -> None:
    names = ["h3>h4", "h2>h1", "h5>h1"]
    run = long_run(tmp_path / "run", [flow(name, 0, 20 * MS) for name in names], {})
    assert [each.name for each in bottleneck(run)] == ["h2>h1", "h5>h1"]


def test_a_flow_of_which_nothing_arrives_has_a_rate_of_nothing(tmp_path: Path) -> None:
    run = two_run(tmp_path / "run", 20e9, 0)
    assert arrivals(run)["h5"].rate_bps(T0_NS, T0_NS + 20 * MS) == 0
    assert fairness(run) == pytest.approx(0.5)


def test_bins_hold_several_blocks_of_each_flow(tmp_path: Path) -> None:
    """At a sixteenth of 40 Gb/s, four blocks of 64 KiB take 0.84 ms."""
    flows = [flow(f"h{host}", 0, 20 * MS) for host in range(2, 18)]
    rates = {each["flow"]: [(2.4e9, 0, 20 * MS)] for each in flows}
    run = long_run(tmp_path / "run", flows, rates, {"topology": "star"}, fabric=None)
    widths = np.diff(bin_edges_ns(run))
    assert len(widths) == 23
    assert widths.max() - widths.min() <= 1


def test_how_long_a_change_takes_to_settle(tmp_path: Path) -> None:
    """h5 joins at 10 ms and has its share from 14 ms on."""
    flows = [flow("h2", 0, 30 * MS), flow("h5", 10 * MS, 30 * MS)]
    rates = {
        "h2": [(39e9, 0, 14 * MS), (19.5e9, 14 * MS, 30 * MS)],
        "h5": [(2e9, 10 * MS, 14 * MS), (19.5e9, 14 * MS, 30 * MS)],
    }
    ((phase, time_s),) = settling_s(long_run(tmp_path / "run", flows, rates))
    assert (phase.start_ns - T0_NS, time_s) == (10 * MS, pytest.approx(0.004, abs=0.0005))


def test_the_queue_is_that_of_the_hot_port_where_flows_are_judged(tmp_path: Path) -> None:
    run = two_run(tmp_path / "run", 19.5e9, 19.5e9, ports=lossless_port())
    write_queue(run.path, "leaf1-eth1", 80_000, 20 * MS)
    depth = queue(run)
    assert depth is not None
    assert (depth.p50_bytes, depth.p99_bytes) == (80_000, 80_000)
    assert long_flows.row(run)["queue_p99_bytes"] == 80_000


def test_stuck_and_dead_flows_are_told(tmp_path: Path) -> None:
    flows = [
        flow("h2", 0, 20 * MS, sent_bytes=5000, delivered_bytes=2000),
        flow("h5", 0, 20 * MS, died="retry exceeded <12>"),
    ]
    html = long_flows.sections(long_run(tmp_path / "run", flows, {"h2": [(1e9, 0, 20 * MS)]}))
    assert "3 KB" in html
    assert "died: retry exceeded &lt;12&gt;" in html


def test_missing_and_damaged_arrivals_are_named(tmp_path: Path) -> None:
    run = two_run(tmp_path / "run", 1e9, 1e9)
    (run.path / "telemetry" / "arrivals.parquet").write_text("nonsense")
    with pytest.raises(BadRequest, match=r"arrivals.parquet: cannot be read as arrivals"):
        read_arrivals(run.path / "telemetry" / "arrivals.parquet", {"h2": T0_NS})
    (run.path / "telemetry" / "arrivals.parquet").unlink()
    run = Run(run.path)
    assert trouble(run).endswith("arrivals.parquet: not found; allowed: a Parquet file of arrivals")
    told = long_flows.verdict(run)
    assert (told.verdict, trouble(run) in told.missing) == (NOT_PROVEN, True)
    assert [figure.path for figure in long_flows.figures(run)] == [None] * 9


def test_a_damaged_flow_is_named(tmp_path: Path) -> None:
    run = long_run(tmp_path / "run", [{"flow": "h2"}], {})
    with pytest.raises(BadRequest, match=r"an entry of 'flows' lacks one of flow, sender"):
        steady(run)


def test_an_interrupted_run_is_not_proven(tmp_path: Path) -> None:
    run = two_run(tmp_path / "run", 1e9, 1e9)
    stopped = {"format": 1, "complete": False, "workload": "long_flows", "rounds": []}
    (run.path / "measured.json").write_text(json.dumps(stopped))
    run = Run(run.path)
    assert long_flows.verdict(run).verdict == NOT_PROVEN
    assert long_flows.headline(run) == "no flow's goodput is known"
    assert long_flows.sections(run) == ""
    assert {figure.path for figure in long_flows.figures(run)} == {None}
    assert json.dumps(long_flows.summarize(run))


def test_pauses_are_cut_to_the_time_of_the_traffic(tmp_path: Path) -> None:
    """h5 is held for 2 ms of it, and after it; h2 for 4 ms, to its end; h3 only after it."""
    pauses = [
        (MS, "h5-eth0", "held"), (3 * MS, "h5-eth0", "released"), (16 * MS, "h2-eth0", "held"),
        (25 * MS, "h5-eth0", "held"), (25 * MS, "h3-eth0", "held"), (90 * MS, "h5-eth0", "released"),
    ]  # fmt: skip
    run = two_run(tmp_path / "run", 19.5e9, 19.5e9, pauses=pauses)
    assert long_flows.row(run)["paused_s"] == pytest.approx(0.006)
    title = next(figure.title for figure in long_flows.figures(run) if figure.name == "pauses")
    assert title == "2 ports paused; h2-eth0 for 4 ms"


def test_a_case_in_which_nothing_arrives_has_no_index(tmp_path: Path) -> None:
    run = two_run(tmp_path / "run", 19.5e9, 19.5e9)
    two_run(run.path / "cases" / "no_pfc", 0, 0, spec={"label": "no_pfc", "pfc": "off"})
    title = next(figure.title for figure in long_flows.figures(Run(run.path)) if figure.name == "cases")
    assert title == "Jain's index is 1.000 with main; nothing arrives with no_pfc where flows are judged"


@pytest.mark.parametrize("kind", [None, "red"])
def test_without_a_queue_of_a_known_kind_losses_are_not_known(tmp_path: Path, kind: str | None) -> None:
    queue = {"drops": 0} if kind is None else {"kind": kind, "drops": 0}
    ports = {"leaf1-eth1": {"peer": "h1", "hot": True, "qdiscs": [queue]}}
    told = long_flows.verdict(run := two_run(tmp_path / "run", 19.5e9, 19.5e9, ports=ports))
    assert (told.verdict, lossless_drops(run)) == (NOT_PROVEN, None)


@pytest.mark.parametrize("wrong", ["x", 1.5, None, True])
@pytest.mark.parametrize("key", ["begin_ns", "end_ns", "sent_bytes"])
def test_a_flow_without_whole_numbers_is_named(tmp_path: Path, key: str, wrong: object) -> None:
    run = long_run(tmp_path / "run", [{**flow("h2", 0, MS), key: wrong}], {})
    with pytest.raises(BadRequest, match=rf"measured.json: {key} of an entry of 'flows': .* allowed: a whole number"):
        long_flows.verdict(run)


def test_a_flow_whose_name_is_no_text_is_named(tmp_path: Path) -> None:
    run = long_run(tmp_path / "run", [flow("h2", 0, MS, receiver=["h1"])], {})
    with pytest.raises(BadRequest, match=r"measured.json: receiver of an entry of 'flows': .* allowed: a text"):
        long_flows.verdict(run)


def test_every_figure_of_a_whole_run(tmp_path: Path) -> None:
    spec = {**DCQCN, "label": "main"}
    pauses = [(MS, "leaf1-eth5", "xoff_sent"), (MS, "spine1-eth1", "held"), (3 * MS, "spine1-eth1", "released")]
    run = two_run(tmp_path / "run", 19.5e9, 15e9, spec=spec, pauses=pauses, ports=lossless_port())
    write_dcqcn(run.path, ["h2", "h5"], range(MS, 20 * MS, MS), 20 * 10**9)
    write_queue(run.path, "leaf1-eth1", 80_000, 20 * MS)
    two_run(run.path / "cases" / "alone", 30e9, 5e9, spec={"label": "alone"})
    run = Run(run.path)
    drawn = {figure.name: figure for figure in long_flows.figures(run)}
    assert drawn.pop("heat").reason == "measured.json has no bytes of ports"
    assert all(figure.path and figure.path.stat().st_size > 10_000 for figure in drawn.values()), drawn
    assert drawn["goodput"].title == "h2 gets 19.5 Gb/s, h5 15 Gb/s"
    assert drawn["cases"].title == "Jain's index is 0.662 with alone, 0.983 with main"
    assert drawn["queue"].title == "The queue at leaf1-eth1: 80 KB in the median, 80 KB or less 99 % of the time"
    assert drawn["pauses"].title == "1 port paused; spine1-eth1 for 2 ms"
    assert drawn["tree"].title == "From leaf1, pauses on 1 link spread 1 link"
    assert drawn["rates"].title == "DCQCN sets 2 queue pairs to 20 Gb/s at the least"
    row = long_flows.row(run)
    assert (row["cnps"], row["pauses"], row["paused_s"]) == (38, 1, 0.002)
    assert long_flows.against(row, long_flows.row(run.cases["alone"])).endswith("x the goodput")


def test_a_block_arrives_since_the_block_before_but_not_through_a_silence() -> None:
    """Blocks of 1,000 bytes at 100, 200, 300 and, after a silence, 1,000 ns: the last one took no longer than twice
    100 ns."""
    times_ns = np.array([100, 200, 300, 1000])
    found = Arrivals(0, times_ns, np.full(4, 1000))
    edges_ns = np.array([0, 50, 250, 300, 600, 800, 1000, 2000])
    assert found.rates_bps(edges_ns) == pytest.approx(
        np.array([500, 2000, 500, 0, 0, 1000, 0]) * 8e9 / np.diff(edges_ns)
    )
    assert found.rate_bps(0, 1000) == pytest.approx(4000 * 8e9 / 1000)
