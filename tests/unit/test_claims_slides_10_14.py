"""The judges of slides 10 to 14 against stored runs: the verdict that each gives, and another one where the run says
otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from analysis.claims import CLAIMS as EVERY_CLAIM
from analysis.claims import (
    slide_10,
    slide_10_traffic,
    slide_11,
    slide_12,
    slide_13,
    slide_14,
    slide_14_cures,
    slide_14_job,
)
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged
from analysis.run import Run
from tests.unit.claims_stored import changed, is_judged, stored

Measured = dict[str, Any]
Edit = Callable[[Measured], object]

_MODULES = (
    slide_10,
    slide_10_traffic,
    slide_11,
    slide_12,
    slide_13,
    slide_14,
    slide_14_job,
    slide_14_cures,
)
CLAIMS: dict[str, Claim] = {claim.key: claim for module in _MODULES for claim in module.CLAIMS}

# Claim -> its stored run, and the product's verdict.
FOUND = {
    "bisection_1to1": ("bisection", REPRODUCED_IF),
    "bisection_over_4to1": ("oversubscription", REPRODUCED),
    "switch_latency_good": ("leaf_spine", REPRODUCED_IF),
    "switch_latency_poor": ("slow_switches", REPRODUCED_IF),
    "recovery_good": ("failover", REPRODUCED),
    "recovery_poor": ("unrepaired", REPRODUCED_IF),
    "links_400g": ("links_400g", REPRODUCED_IF),
    "links_under_100g": ("links_40g", REPRODUCED_IF),
    "gradient_traffic": ("step_shares", REPRODUCED),
    "leaf_spine_hops": ("leaf_spine", REPRODUCED),
    "leaf_spine_latency": ("leaf_spine", REPRODUCED_IF),
    "fat_tree_tiers": ("fat_tree", REPRODUCED),
    "fat_tree_bisection": ("bisection", REPRODUCED_IF),
    "fat_tree_paths": ("polarisation", REPRODUCED_IF),
    "fat_tree_faults": ("failover", REPRODUCED_IF),
    "fat_tree_cost": ("bisection", REPRODUCED_IF),
    "server_gap": ("hierarchy", REPRODUCED_IF),
    "latency_inside": ("gpu_pod", NOT_REPRODUCED),
    "latency_between": ("gpu_pod", REPRODUCED_IF),
    "hierarchy_needed": ("hierarchy", REPRODUCED),
    "incast_fill": ("incast", REPRODUCED_IF),
    "incast_fill_at_once": ("fill_60mb", REPRODUCED_IF),
    "incast_fill_two": ("fill_two", REPRODUCED_IF),
    "incast_wait": ("incast", REPRODUCED_IF),
    "incast_throughput": ("incast", NOT_REPRODUCED),
    "incast_throughput_long": ("incast_long", NOT_REPRODUCED),
    "incast_throughput_1g": ("incast_1g", REPRODUCED_IF),
    "incast_job": ("incast_job", REPRODUCED_IF),
    "cure_pfc": ("incast", REPRODUCED),
    "cure_dcqcn": ("incast", REPRODUCED_IF),
    "cure_rdma": ("incast", REPRODUCED_IF),
    "cure_pfc_headroom": ("headroom", REPRODUCED_IF),
    "cure_pfc_storm": ("pause_storm", REPRODUCED_IF),
    "cure_pfc_deadlock": ("deadlock", REPRODUCED_IF),
}
_RUNS = sorted({name for name, _ in FOUND.values()})


# --- what is changed


def last_longer(key: str, times: float) -> Edit:
    """Every entry of a list (rounds, transfers) takes so many times as long."""

    def edit(measured: Measured) -> None:
        for each in measured[key]:
            each["end_ns"] = each["start_ns"] + int((each["end_ns"] - each["start_ns"]) * times)

    return edit


def calls_last(times: float) -> Edit:
    """Every call of a collective takes so many times as long."""
    return last_longer("calls", times)


def probes_take(switches: int, delay_ns: int, inside_too: bool = True) -> Edit:
    """Every probe over so many switches takes this long; inside a server: h1 to h8, or all others by eights."""

    def edit(measured: Measured) -> None:
        for each in measured["probes"]:
            places = [(int(each[end][1:]) - 1) // 8 for end in ("sender", "receiver")]
            if each["switches"] == switches and (inside_too or places[0] != places[1]):
                each["delay_ns"] = delay_ns

    return edit


def one_probe(**values: int) -> Edit:
    """One of the longest ways is another one."""

    def edit(measured: Measured) -> None:
        max(measured["probes"], key=lambda each: each["switches"]).update(values)

    return edit


def probes_are_near(measured: Measured) -> None:
    """No two pods are further apart than two racks of one."""
    for each in measured["probes"]:
        each["switches"] = min(each["switches"], 3)


def failed_earlier(seconds: float, action: str = "") -> Edit:
    """What failed (or came up, by the action) did so this much earlier than it is known of."""

    def edit(measured: Measured) -> None:
        for each in measured["failures"]:
            if action in ("", each["action"]):
                each["time_ns"] -= int(seconds * 1e9)

    return edit


def repeats_datagrams(measured: Measured) -> None:
    """A detour copies."""
    measured["streams"][0]["duplicates"] = 7


def one_link_up(measured: Measured) -> None:
    """Every switch sends all that goes up by its first link."""
    ports, counted = measured["ports"], measured["port_packets"]
    first: dict[str, str] = {}
    for name, port in ports.items():
        if port.get("peer_tier") and port["tier"] < port["peer_tier"]:
            chosen = first.setdefault(name.rpartition("-")[0], name)
            if chosen != name:
                counted[chosen] = counted.get(chosen, 0) + counted.pop(name, 0)


def communicating(seconds: float) -> Edit:
    """Every rank waits this long in every step."""

    def edit(measured: Measured) -> None:
        for step in measured["steps"]:
            computes_ns = max(turn["compute_ns"] for turn in step["ranks"])
            step["end_ns"] = step["start_ns"] + computes_ns + int(seconds * 1e9)

    return edit


def nothing_dropped(measured: Measured) -> None:
    """No port had too little room."""
    for port in [*measured["ports"].values(), *measured["nics"].values()]:
        for queue in port["qdiscs"]:
            queue["drops"] = 0


def hot_port_drops(measured: Measured) -> None:
    """The receiver's port had no room for some packets."""
    port = next(port for port in measured["ports"].values() if port.get("hot"))
    for queue in port["qdiscs"]:
        queue["drops"] = 9


def no_timeout(measured: Measured) -> None:
    """No host's TCP timed out."""
    for counters in measured["tcp"].values():
        counters["TCPTimeouts"] = 0


# --- as the product judges


def test_every_claim_of_these_slides_is_tried() -> None:
    assert set(FOUND) == set(CLAIMS)
    assert set(CLAIMS) <= {claim.key for claim in EVERY_CLAIM}


@pytest.mark.parametrize("name", _RUNS)
def test_the_stored_run_is_judged_as_the_product_judges_it(name: str, tmp_path: Path) -> None:
    run = stored(name, tmp_path)
    for key in (key for key, (of, _) in FOUND.items() if of == name):
        is_judged(CLAIMS[key], run, FOUND[key][1])


# --- where the run says otherwise

_EVEN_TREE, _HASHED_TREE = "fat_tree", "fat_tree-ecmp"


def otherwise(key: str, folder: Path, *edits: tuple[str, Edit]) -> Judged:
    """What the judge says of the stored run, with measured.json of a case ("": of the run) edited."""
    run = stored(FOUND[key][0], folder)
    for case, edit in edits:
        run = changed(run, edit, case)
    return CLAIMS[key].judge(run)


@pytest.mark.parametrize(
    "key, edits, verdict",
    [
        ("bisection_1to1", [("", last_longer("transfers", 1.2))], NOT_REPRODUCED),
        ("bisection_1to1", [("ecmp", last_longer("transfers", 0.33))], REPRODUCED),
        ("bisection_over_4to1", [("ratio-8to1", last_longer("transfers", 0.4))], NOT_REPRODUCED),
        ("bisection_over_4to1", [("", last_longer("transfers", 1.2))], NOT_REPRODUCED),
        ("switch_latency_good", [("", probes_take(3, 2100))], NOT_REPRODUCED),
        ("switch_latency_poor", [("", probes_take(3, 1900))], NOT_REPRODUCED),
        ("recovery_good", [("spine", failed_earlier(1.5))], NOT_REPRODUCED),
        ("recovery_poor", [("", failed_earlier(-6, "down"))], NOT_REPRODUCED),
        ("links_400g", [("", communicating(1e-3))], NOT_REPRODUCED),
        ("links_under_100g", [("", communicating(1e-3))], NOT_REPRODUCED),
        ("gradient_traffic", [(case, communicating(0.05)) for case in ("", "ring-4", "ring-32", "ring-64")],
         NOT_REPRODUCED),
        ("leaf_spine_hops", [("", one_probe(switches=5))], NOT_REPRODUCED),
        ("leaf_spine_latency", [("", one_probe(delay_ns=1700))], NOT_REPRODUCED),
        ("leaf_spine_latency", [("", probes_take(3, 2100))], NOT_REPRODUCED),
        ("fat_tree_tiers", [("", probes_are_near)], NOT_REPRODUCED),
        ("fat_tree_bisection", [(_EVEN_TREE, last_longer("transfers", 1.2))], NOT_REPRODUCED),
        ("fat_tree_bisection", [(_HASHED_TREE, last_longer("transfers", 0.45))], REPRODUCED),
        ("fat_tree_paths", [("", one_link_up)], NOT_REPRODUCED),
        ("fat_tree_faults", [("fat_tree", repeats_datagrams)], NOT_REPRODUCED),
        ("server_gap", [("1_server-nvlink4", calls_last(2))], NOT_REPRODUCED),
        ("hierarchy_needed", [("", calls_last(10))], NOT_REPRODUCED),
        ("latency_inside", [("", probes_take(1, 5000))], REPRODUCED),
        ("latency_between", [("", probes_take(3, 2500))], NOT_REPRODUCED),
        ("latency_between", [("", probes_take(1, 1200, inside_too=False))], REPRODUCED),
        ("incast_fill", [("", nothing_dropped)], NOT_REPRODUCED),
        ("incast_fill_at_once", [("", nothing_dropped)], NOT_REPRODUCED),
        ("incast_fill_two", [("", nothing_dropped)], NOT_REPRODUCED),
        ("incast_wait", [("", last_longer("transfers", 3))], NOT_REPRODUCED),
        ("incast_wait", [("", no_timeout)], NOT_REPRODUCED),
        ("incast_wait", [("rto_1ms", last_longer("rounds", 100))], REPRODUCED),
        ("incast_throughput", [("", last_longer("rounds", 0.01))], REPRODUCED),
        ("incast_throughput_long", [("", last_longer("rounds", 0.4))], REPRODUCED),
        ("incast_throughput_1g", [("modern-64kb-n32", last_longer("rounds", 3))], NOT_REPRODUCED),
        ("incast_job", [("", communicating(0.02))], NOT_REPRODUCED),
        ("cure_pfc", [("tcp_pfc", last_longer("rounds", 300)), ("tcp_pfc", hot_port_drops)], NOT_REPRODUCED),
        ("cure_pfc", [("", last_longer("rounds", 0.003))], NOT_REPRODUCED),
        ("cure_dcqcn", [("roce_dcqcn", last_longer("rounds", 2e-4))], REPRODUCED),
        ("cure_dcqcn", [("roce_pfc_dcqcn", last_longer("rounds", 99)), ("roce_pfc_dcqcn", hot_port_drops)],
         NOT_REPRODUCED),
        ("cure_rdma", [("roce", last_longer("rounds", 2e-4))], REPRODUCED),
        ("cure_rdma", [("roce_pfc", last_longer("rounds", 99)), ("roce_pfc", hot_port_drops)], NOT_REPRODUCED),
        ("cure_pfc_headroom", [("", hot_port_drops)], NOT_REPRODUCED),
    ],
)  # fmt: skip
def test_another_run_is_judged_otherwise(key: str, edits: list[tuple[str, Edit]], verdict: str, tmp_path: Path) -> None:
    assert verdict != FOUND[key][1]
    found = otherwise(key, tmp_path, *edits)
    assert found.verdict == verdict, found.because


def test_switches_that_hash_alike_and_spread_all_the_same_need_no_seeds(tmp_path: Path) -> None:
    run = stored("polarisation", tmp_path)
    even = run.measured["port_packets"]
    found = CLAIMS["fat_tree_paths"].judge(
        changed(run, lambda measured: measured.update(port_packets=even), "same_seed")
    )
    assert found.verdict == REPRODUCED


def test_a_fat_tree_of_fewer_switches_costs_no_more(tmp_path: Path) -> None:
    run = stored("bisection", tmp_path)
    main, case = (folder / "fabric.json" for folder in (run.path, run.path / "cases" / _EVEN_TREE))
    flat, tree = main.read_text(), case.read_text()
    main.write_text(tree)
    case.write_text(flat)
    assert CLAIMS["fat_tree_cost"].judge(Run(run.path)).verdict == NOT_REPRODUCED


@pytest.mark.parametrize("key", ["incast_fill", "incast_fill_at_once", "incast_fill_two"])
def test_a_buffer_that_fills_slowly_is_no_12_us(key: str, tmp_path: Path) -> None:
    run = stored(FOUND[key][0], tmp_path)
    file = run.path / "telemetry" / "queue.parquet"
    table = pq.read_table(file)
    since = pc.subtract(table["time_ns"], pc.min(table["time_ns"]))
    slower = pc.add(pc.multiply(since, 2), pc.min(table["time_ns"]))
    pq.write_table(table.set_column(table.schema.get_field_index("time_ns"), "time_ns", slower), file)
    assert CLAIMS[key].judge(Run(run.path)).verdict == NOT_REPRODUCED


def arrive_all_before(run: Run, case: str, milliseconds: float) -> Run:
    """Nothing arrives in a case after so much of its time."""
    file = run.path / "cases" / case / "telemetry" / "arrivals.parquet"
    table = pq.read_table(file)
    last = pa.scalar(pc.min(table["time_ns"]).as_py() + int(milliseconds * 1e6), table["time_ns"].type)
    pq.write_table(table.filter(pc.less(table["time_ns"], last)), file)
    return Run(run.path)


def test_a_watchdog_that_frees_nobody_is_no_cure(tmp_path: Path) -> None:
    run = arrive_all_before(stored("pause_storm", tmp_path), "watchdog-500us", 2.2)
    assert CLAIMS["cure_pfc_storm"].judge(run).verdict == NOT_REPRODUCED


def test_routes_that_deadlock_all_the_same_are_no_cure(tmp_path: Path) -> None:
    run = arrive_all_before(stored("deadlock", tmp_path), "up_down", 2)
    assert CLAIMS["cure_pfc_deadlock"].judge(run).verdict == NOT_REPRODUCED


@pytest.mark.parametrize("name", _RUNS)
def test_a_run_that_was_cut_short_reproduces_nothing(name: str, tmp_path: Path) -> None:
    """No round, step, call, probe, stream, arrival or counter in the run and its cases."""

    def cut(measured: Measured) -> None:
        lists = ("rounds", "transfers", "steps", "calls", "probes", "streams", "failures", "control_events")
        measured.update({key: [] for key in lists if key in measured}, complete=False)
        for key in ("ports", "nics", "port_packets"):
            measured.pop(key, None)

    run = stored(name, tmp_path)
    for case in ("", *run.cases):
        run = changed(run, cut, case)
    for file in run.path.rglob("*.parquet"):
        file.unlink()
    for key in (key for key, (of, _) in FOUND.items() if of == name and key != "fat_tree_cost"):
        found = CLAIMS[key].judge(Run(run.path))
        assert found.verdict == NOT_REPRODUCED, key
        assert found.rows, key
