"""Tables of runs made in the lab, one of each workload (tests/golden/runs, and those of the notebooks): columns and
types, sums that must agree, seconds beside nanoseconds; damaged runs; the tables of an explanation and of packets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pandas import DataFrame

import analysis
from analysis import Run, read_capture
from analysis.capture.packets import COLUMNS
from analysis.tables.all_tables import tables
from analysis.tables.explained import tables_of
from analysis.tables.layout import INT, TEXT, TIME, WHOLE, frame_of_rows
from analysis.tables.packets import packets_frame
from topologies.units import BadRequest

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "analysis" / "notebooks" / "runs"
GOLDEN = ROOT / "tests" / "golden" / "runs"
RUNS = sorted([*STORED.iterdir(), *GOLDEN.iterdir()])
EVERY_RUN = {
    *("flows", "rounds", "retransmissions", "stalls", "waits", "queue", "ports", "qdiscs", "qdisc_options", "links"),
    *("tcp_counters", "roce_counters", "pauses", "pause_spans", "dcqcn", "spec", "missing"),
}
OF_A_WORKLOAD = {
    "permutation": {"transfers", "link_flows"},
    "pings": {"probes"},
    "datagrams": {"port_packets"},
    "streams": {"streams", "stream_losses", "failures", "in_flight", "control_events"},
    "collective": {"calls", "call_ranks", "sizes", "size_links", "processors"},
    "training": {"steps", "step_ranks", "traffic", "host_bytes"},
    "federated": {"fl_rounds", "fl_clients"},
    "launch": {"ranks", "host_bytes"},
}


@pytest.fixture(scope="module")
def incast() -> Run:
    return Run(STORED / "incast")


def measured(run: Run, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((run.path / "measured.json").read_text())[key]
    return found


# --- every table of every run


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_every_table_of_every_run_is_made_with_its_columns(path: Path) -> None:
    made = tables(Run(path))
    assert set(made) >= EVERY_RUN
    for name, table in made.items():
        assert len(table.columns) > 0, name
        assert table.columns.is_unique, name
        assert not {str(kind) for kind in table.dtypes} - {"int64", "Int64", "float64", "string", "boolean"}, name


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_seconds_are_those_since_the_first_round_of_the_nanoseconds_beside_them(path: Path) -> None:
    run = Run(path)
    for name, table in run.tables.items():
        for column in [each for each in table.columns if f"{each.removesuffix('_ns')}_s" in table.columns]:
            known = table[table[column].notna()]
            since_s = (known[column].astype("int64") - run.origin_ns) / 1e9
            assert np.allclose(known[f"{column.removesuffix('_ns')}_s"].astype(float), since_s.astype(float)), name


@pytest.mark.parametrize("name", OF_A_WORKLOAD)
def test_a_workload_has_tables_of_its_own_with_rows(name: str) -> None:
    made = tables(Run(GOLDEN / name))
    assert OF_A_WORKLOAD[name] <= set(made)
    assert {table for table in OF_A_WORKLOAD[name] if not len(made[table])} == set()


def test_other_workloads_do_not_have_them(incast: Run) -> None:
    assert "steps" not in incast.tables
    with pytest.raises(KeyError, match=r"steps: no table of this run; allowed: flows, .*transfers"):
        incast.tables["steps"]


# --- sums


@pytest.mark.parametrize(
    "path", [STORED / "incast", GOLDEN / "roce", GOLDEN / "permutation"], ids=lambda path: path.name
)
def test_the_payload_of_flows_is_that_of_rounds_and_of_transfers(path: Path) -> None:
    run = Run(path)
    total = run.tables["rounds"]["payload_bytes"].sum()
    assert total > 0
    assert run.flows["payload_bytes"].sum() == total
    assert run.tables["transfers"]["payload_bytes"].sum() == total


@pytest.mark.parametrize("path", [STORED / "incast", GOLDEN / "roce"], ids=lambda path: path.name)
def test_what_captures_show_of_a_flow_is_what_it_was_to_send(path: Path) -> None:
    flows = Run(path).flows
    assert flows["captured"].all()
    assert (flows["captured_payload_bytes"] == flows["payload_bytes"]).all()


def test_retransmissions_are_as_many_as_flows_and_kernel_say(incast: Run) -> None:
    resent = incast.tables["retransmissions"]
    assert len(resent) == incast.flows["resent"].sum() == incast.flows["tcp_total_retrans"].sum() > 0
    counters = incast.tables["tcp_counters"]
    assert counters.loc[counters["counter"] == "RetransSegs", "count"].sum() == len(resent)
    assert resent["time_ns"].is_monotonic_increasing


def test_stalls_are_as_long_as_flows_say_and_have_their_times(incast: Run) -> None:
    stalls = incast.tables["stalls"]
    assert len(stalls) == incast.flows["stalls"].sum() == len(incast.stalls) > 0
    assert np.isclose(stalls["seconds"].sum(), incast.flows["stalled_s"].sum())
    assert np.allclose((stalls["end_ns"] - stalls["start_ns"]) / 1e9, stalls["seconds"])
    assert stalls["meaning"].notna().all()


def test_queue_samples_and_port_counters_tell_of_the_same_drops(incast: Run) -> None:
    ports, queue = incast.tables["ports"], incast.tables["queue"]
    hot = ports[ports["hot"].fillna(False)]
    assert hot["port"].tolist() == [incast.hot_port]
    assert queue["drops"].max() == hot["drops"].sum() == ports["drops"].sum() > 0
    assert set(queue["port"]) == {incast.hot_port}


def test_what_arrived_of_long_flows_is_what_was_delivered() -> None:
    for name in ("dctcp", "dcqcn"):
        run = Run(STORED / name)
        arrived = run.tables["arrivals"].groupby("flow")["payload_bytes"].sum()
        assert arrived.to_dict() == run.flows.set_index("flow")["payload_bytes"].to_dict()


def test_dcqcn_and_pauses_have_every_event_of_their_files() -> None:
    run = Run(STORED / "dcqcn")
    log = run.tables["dcqcn"]
    assert run.dcqcn is not None
    assert len(log) == len(run.dcqcn.time_ns)
    assert (log["event"] == "cnp_received").sum() == run.dcqcn.count("cnp_received") > 0
    paused = Run(GOLDEN / "pauses")
    events = paused.tables["pauses"]["event"].value_counts()
    spans = paused.tables["pause_spans"]["what"].value_counts()
    assert events["xoff_sent"] == spans["pausing"] > 0
    assert events["held"] >= spans["held"] > 0


def test_every_entry_of_a_list_inside_an_entry_is_a_row() -> None:
    steps = Run(GOLDEN / "training")
    assert len(steps.tables["step_ranks"]) == sum(len(step["ranks"]) for step in measured(steps, "steps"))
    streams = Run(GOLDEN / "streams").tables
    assert len(streams["stream_losses"]) == streams["streams"]["lost"].sum() > 0
    clients = Run(GOLDEN / "federated").tables["fl_clients"]
    assert len(clients) == clients["round"].nunique() * clients["host"].nunique()
    calls = Run(GOLDEN / "collective").tables
    last = calls["call_ranks"].groupby("call")["end_ns"].max()
    assert (last <= calls["calls"].set_index("call")["end_ns"]).all()


# --- what is missing


def test_without_captures_flows_are_there_and_say_that_they_were_not_captured() -> None:
    run = Run(STORED / "incast-dctcp")
    assert not run.flows["captured"].any()
    assert run.flows[["packets", "resent", "rtt_min_ns"]].isna().all(axis=None)
    assert run.flows["payload_bytes"].sum() == run.tables["rounds"]["payload_bytes"].sum()
    assert list(run.tables["stalls"].columns) == list(Run(STORED / "incast").tables["stalls"].columns)
    assert "captures: switched off by capture=off" in run.tables["missing"]["reason"].tolist()


FLOW = {"sender": "h2", "source": "10.0.0.2:1", "destination": "10.0.0.1:2"}


def damaged(folder: Path, change: str, value: object) -> Run:
    shutil.copytree(STORED / "senders-1", folder)
    path = folder / "measured.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), change: value}))
    return Run(folder)


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("ports", "ports", {"leaf1-eth1": 3}),
        ("ports", "ports", {"leaf1-eth1": {"rate_bps": "fast"}}),
        ("tcp_counters", "tcp", {"h1": {"InSegs": "many"}}),
        ("transfers", "transfers", [{"flow": "h2"}]),
        ("transfers", "transfers", [{"flow": "h2", "round": 0, "start_ns": "x", "end_ns": 2, "bytes": 3}]),
        ("flows", "flows", {}),
        ("flows", "flows", [{"flow": "h2", "tcp_info": {"rtt_us": "short"}, **FLOW}]),
        ("link_flows", "link_flows", []),
    ],
)  # fmt: skip
def test_damaged_files_are_a_bad_request_that_names_the_run(
    tmp_path: Path, table: str, key: str, value: object
) -> None:
    run = damaged(tmp_path / "run", key, value)
    with pytest.raises(BadRequest, match=str(tmp_path)):
        run.tables[table]


def test_a_value_of_another_kind_names_its_column() -> None:
    with pytest.raises(ValueError, match="column count"):
        frame_of_rows({"host": TEXT, "count": INT}, [{"host": "h1", "count": "many"}])


def test_wide_numbers_stay_exact_beside_missing_ones() -> None:
    table = frame_of_rows({"time_ns": TIME, "end_ns": WHOLE}, [{"time_ns": 2**62 + 1}], 2**62)
    assert table["time_ns"][0] == 2**62 + 1
    assert table["time_s"][0] == 1e-9
    assert table["end_ns"].isna().all()


# --- Run


@pytest.mark.parametrize("path", [*RUNS[:3], GOLDEN / "training"], ids=lambda path: path.name)
def test_a_run_is_shown_in_jupyter_with_its_verdict(path: Path) -> None:
    shown = Run(path)._repr_html_()
    assert "<table>" in shown and "</div>" in shown
    assert path.name in shown


def test_a_name_in_a_run_is_not_taken_for_markup(tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    shutil.copytree(STORED / "senders-1", folder)
    assert "<img" not in Run(folder)._repr_html_()


def test_a_damaged_run_is_shown_with_what_is_wrong(tmp_path: Path) -> None:
    run = damaged(tmp_path / "run", "format", 7)
    assert "format 7; allowed: 1" in run._repr_html_()


@pytest.mark.parametrize(
    ("path", "told"),
    [(GOLDEN, "no spec.yaml in it; .* such as "), (GOLDEN / "x", "not found"), (GOLDEN / "roce/spec.yaml", "a file")],
)
def test_a_wrong_path_is_told_with_runs_nearby(path: Path, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        Run(path)


def test_cases_have_tables_too(tmp_path: Path) -> None:
    shutil.copytree(STORED / "incast-dctcp", tmp_path / "run")
    shutil.copytree(STORED / "incast-pfc", tmp_path / "run" / "cases" / "pfc")
    (case,) = Run(tmp_path / "run").cases.values()
    assert case.flows["payload_bytes"].sum() > 0


def test_the_package_gives_what_the_notebooks_import() -> None:
    assert {"Run", "explain", "read_capture", "summarize"} == set(analysis.__all__)


# --- packets


def test_packets_as_a_table_have_addresses_in_words(incast: Run) -> None:
    packets = incast.packets("h2-eth0")
    table = incast.capture("h2-eth0")
    assert len(table) == len(packets)
    assert not set(COLUMNS) - set(table.columns) - {"sack_edges", "pause_quanta"}
    sent = table[(table["src_ip"] == "10.0.0.2") & (table["payload_bytes"] > 0)]
    assert len(sent) == incast.flows.set_index("flow").loc["h2", "packets"]
    assert table["src_ip"].isna().equals(table["ip_version"] == 0)
    assert table["src_mac"].iloc[0].count(":") == 5


def test_packets_have_times_to_the_nanosecond() -> None:
    packets = read_capture(STORED / "incast" / "pcap" / "h2-eth0.pcap")
    times = packets_frame(packets, absolute=True)["time"]
    assert times.astype("int64").tolist() == packets.time_ns.tolist()
    assert np.allclose(packets_frame(packets)["time_s"], (packets.time_ns - packets.time_ns[0]) / 1e9)


# --- explanations


@pytest.fixture(scope="module")
def explained() -> dict[str, DataFrame]:
    captures = sorted((STORED / "incast" / "pcap").glob("*.pcap"))
    return tables_of(analysis.explain(captures))


def test_an_explanation_has_all_its_tables(explained: dict[str, DataFrame], incast: Run) -> None:
    assert {"points", "flows", "series", "blocks", "stalls", "repeats", "hops", "losses", "pauses"} <= set(explained)
    assert {"findings", "evidence", "verdicts"} <= set(explained)
    points = explained["points"]
    assert len(points) == 17
    assert points["packets"].sum() == sum(len(incast.packets(point)) for point in points["point"])


def test_the_numbers_of_an_explanation_agree_with_the_run(explained: dict[str, DataFrame], incast: Run) -> None:
    flows = explained["flows"]
    at_sender = flows[flows["point"] != incast.hot_port]
    assert at_sender["delivered_bytes"].sum() == incast.flows["payload_bytes"].sum()
    repeats = explained["repeats"]
    assert len(repeats[repeats["point"] != incast.hot_port]) == incast.flows["resent"].sum()
    lost = explained["losses"]
    assert len(lost) == explained["hops"]["lost"].sum()
    assert lost["time_ns"].min() > 0


def test_the_tables_of_nothing_have_their_columns(explained: dict[str, DataFrame], tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes((STORED / "incast" / "pcap" / "h2-eth0.pcap").read_bytes()[:24])
    nothing = tables_of(analysis.explain([empty]))
    assert {name: list(table.columns) for name, table in nothing.items()} == {
        name: list(table.columns) for name, table in explained.items()
    }
