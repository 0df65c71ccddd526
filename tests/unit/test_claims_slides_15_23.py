"""The judges of slides 15 to 23 against stored runs: the verdict that each gives, and another one where the run says
otherwise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

import pytest

from analysis.claims import slide_17, slide_20, slide_21, slide_23, slides_15_16, slides_18_19
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged
from analysis.run import Run
from tests.unit.claims_stored import changed, is_judged, stored

Measured = dict[str, Any]
Edit = tuple[str, Callable[[Measured], object]]  # the case ("": the run itself), and what is changed of it
MAIN = ""

_MODULES = (slides_15_16, slide_17, slides_18_19, slide_20, slide_21, slide_23)
CLAIMS: dict[str, Claim] = {claim.key: claim for module in _MODULES for claim in module.CLAIMS}


def calls_take(times: float) -> Callable[[Measured], object]:
    """Every call takes so many times as long."""

    def edit(measured: Measured) -> None:
        for call in measured["calls"]:
            call["end_ns"] = call["start_ns"] + int((call["end_ns"] - call["start_ns"]) * times)

    return edit


def steps_take(times: float) -> Callable[[Measured], object]:
    """Every step of a training takes so many times as long; ranks compute for as long as they did."""

    def edit(measured: Measured) -> None:
        begin_ns = measured["steps"][0]["start_ns"]

        def later(time_ns: int) -> int:
            return begin_ns + int((time_ns - begin_ns) * times)

        for step in measured["steps"]:
            step.update(start_ns=later(step["start_ns"]), end_ns=later(step["end_ns"]))
            for turn in step["ranks"]:
                turn["end_ns"] = later(turn["end_ns"])

    return edit


def rounds_take(times: float) -> Callable[[Measured], object]:
    """Every round of federated learning takes so many times as long."""

    def edit(measured: Measured) -> None:
        for each in measured["fl_rounds"]:
            each["end_ns"] = each["start_ns"] + int((each["end_ns"] - each["start_ns"]) * times)

    return edit


def uploads_take(times: float) -> Callable[[Measured], object]:
    """Every update of a client takes so many times as long to its aggregator."""

    def edit(measured: Measured) -> None:
        for each in measured["fl_rounds"]:
            for host, trained_ns in each["trained_ns"].items():
                each["arrived_ns"][host] = trained_ns + int((each["arrived_ns"][host] - trained_ns) * times)

    return edit


def never_good(measured: Measured) -> None:
    """No model learns anything."""
    for each in measured["fl_rounds"]:
        each["accuracy"] = 0.1


def good_from(number: int) -> Callable[[Measured], object]:
    """The model is as good as asked from this round on, not before."""

    def edit(measured: Measured) -> None:
        for place, each in enumerate(measured["fl_rounds"], 1):
            each["accuracy"] = 0.95 if place >= number else 0.5

    return edit


def guessing(measured: Measured) -> None:
    """What is trained with compressed gradients tells nothing right."""
    for step in measured["steps"]:
        step["accuracy"] = 0.1


def never_busy(measured: Measured) -> None:
    """Processors had nothing to do."""
    for told in measured["cpu"].values():
        told["busy_ns"] = 0


def always_busy(measured: Measured) -> None:
    """Processors were busy for a hundred times as long."""
    for told in measured["cpu"].values():
        told["busy_ns"] *= 100


def carried_more(times: float) -> Callable[[Measured], object]:
    """Every NIC carried so many times as much."""

    def edit(measured: Measured) -> None:
        for size in measured["sizes"]:
            for told in size["nic_bytes"].values():
                told.update({way: int(count * times) for way, count in told.items()})

    return edit


def root_carried_more(measured: Measured) -> None:
    """The link to the root carried three times as much."""
    for port in measured["ports"].values():
        for queue in port["qdiscs"]:
            if port["peer"] == measured["federated"]["root"] and queue["parent"] == "root":
                queue["bytes"] *= 3


def judged(key: str, name: str, folder: Path, edits: Sequence[Edit] = ()) -> Judged:
    """What the claim's judge makes of a stored run with these changes."""
    run: Run = stored(name, folder)
    for case, edit in edits:
        run = changed(run, edit, case)
    return CLAIMS[key].judge(run)


FOUND = {
    "stragglers": ("straggler", REPRODUCED),
    "links_inside": ("hierarchy", REPRODUCED_IF),
    "transformer_need": ("hierarchy", REPRODUCED_IF),
    "tcp_costs_processor": ("cpu_overhead", REPRODUCED_IF),
    "nvlink_4": ("nvlink", REPRODUCED_IF),
    "nvswitch_20gb": ("hierarchy", NOT_REPRODUCED),
    "nvswitch_7_times": ("hierarchy", REPRODUCED),
    "roce_latency": ("cpu_overhead", NOT_REPRODUCED),
    "roce_bandwidth": ("cpu_overhead", NOT_REPRODUCED),
    "roce_processor": ("cpu_overhead", NOT_REPRODUCED),
    "roce_all_reduce": ("cpu_overhead", NOT_REPRODUCED),
    "roce_copies": ("cpu_overhead", NOT_REPRODUCED),
    "nccl_8_gpus": ("hierarchy", NOT_REPRODUCED),
    "nccl_64_gpus": ("hierarchy", REPRODUCED_IF),
    "nccl_512_gpus": ("hierarchy", REPRODUCED_IF),
    "overlap_40_percent": ("overlap", REPRODUCED_IF),
    "compression_40_percent": ("compression", REPRODUCED_IF),
    "near_linear_scaling": ("scaling", REPRODUCED_IF),
    "fl_two_levels": ("federated_tree", REPRODUCED),
    "fl_roce": ("federated_roce", NOT_REPRODUCED),
    "fl_rounds": ("federated", NOT_REPRODUCED),
    "fl_compression": ("federated", REPRODUCED),
    "fl_tail": ("federated", REPRODUCED_IF),
    "in_network_computing": ("in_network", REPRODUCED),
    "smart_nic_offload": ("cpu_overhead", REPRODUCED_IF),
    "links_800g": ("links_800g", REPRODUCED),
}


def test_every_claim_is_tried() -> None:
    """All but the other generations of NVLink, which one judge judges."""
    assert {*FOUND, *(f"nvlink_{number}" for number in slide_17.GENERATIONS)} == set(CLAIMS)


RUNS = sorted({name for name, _ in FOUND.values()})


@pytest.mark.parametrize("name", RUNS)
def test_what_the_run_shows(name: str, tmp_path: Path) -> None:
    run = stored(name, tmp_path)
    for key in (key for key, (of, _) in FOUND.items() if of == name):
        is_judged(CLAIMS[key], run, FOUND[key][1])


NVLINK, PCIE, RING, IN_TURN = "1_server-nvlink4", "1_server-pcie5", "8_servers-ring", "8_servers-in_turn"

# Claim -> what is changed of its stored run, and the verdict that this makes.
OTHERWISE: dict[str, tuple[Sequence[Edit], str]] = {
    "stragglers": ([("slow_host", steps_take(0.5))], NOT_REPRODUCED),
    "links_inside": ([(PCIE, calls_take(1.5))], NOT_REPRODUCED),
    "transformer_need": ([(NVLINK, calls_take(2))], NOT_REPRODUCED),
    "tcp_costs_processor": ([("tcp-free", calls_take(20))], NOT_REPRODUCED),
    "nvlink_4": ([(MAIN, calls_take(0.5))], NOT_REPRODUCED),
    "nvswitch_20gb": ([(NVLINK, calls_take(0.28)), (PCIE, calls_take(0.271))], REPRODUCED),
    "nvswitch_7_times": ([(NVLINK, calls_take(2))], NOT_REPRODUCED),
    "roce_latency": ([(MAIN, calls_take(11.4)), ("rdma", calls_take(0.53))], REPRODUCED),
    "roce_bandwidth": ([(MAIN, calls_take(0.386))], REPRODUCED),
    "roce_processor": ([("rdma", never_busy)], REPRODUCED),
    "roce_all_reduce": ([("all_reduce-tcp", calls_take(11.8)), ("all_reduce-rdma", calls_take(25.3))], REPRODUCED),
    "nccl_8_gpus": ([(NVLINK, calls_take(0.304))], REPRODUCED),
    "nccl_64_gpus": ([(IN_TURN, calls_take(2))], NOT_REPRODUCED),
    "nccl_512_gpus": ([(RING, calls_take(0.5))], NOT_REPRODUCED),
    "overlap_40_percent": (
        [("compressed", steps_take(1.5)), ("light-compressed", steps_take(1.6))],
        NOT_REPRODUCED,
    ),
    "compression_40_percent": (
        [(case, steps_take(2)) for case in ("topk-1pct", "topk-01pct", "sign")],
        NOT_REPRODUCED,
    ),
    "near_linear_scaling": ([("ring-32", steps_take(1.1))], NOT_REPRODUCED),
    "fl_two_levels": ([("hierarchical", root_carried_more)], NOT_REPRODUCED),
    "fl_roce": ([("roce", rounds_take(2.4))], REPRODUCED),
    "fl_rounds": ([(MAIN, good_from(10)), ("hierarchical", good_from(9))], REPRODUCED),
    "fl_compression": ([("topk", never_good), ("sign", never_good)], NOT_REPRODUCED),
    "fl_tail": ([("fast-cost_rdma", uploads_take(3))], NOT_REPRODUCED),
    "in_network_computing": ([("in_network", carried_more(2))], NOT_REPRODUCED),
    "smart_nic_offload": ([("rdma", always_busy)], NOT_REPRODUCED),
    "links_800g": ([(MAIN, calls_take(2))], NOT_REPRODUCED),
}


@pytest.mark.parametrize("key", OTHERWISE)
def test_a_run_that_shows_something_else_is_judged_otherwise(key: str, tmp_path: Path) -> None:
    edits, verdict = OTHERWISE[key]
    assert verdict != FOUND[key][1]
    found = judged(key, FOUND[key][0], tmp_path, edits)
    assert found.verdict == verdict, found.because


@pytest.mark.parametrize("schemes", [("topk-1pct", "topk-01pct", "sign")])
def test_a_model_that_learns_nothing_saves_nothing(schemes: Sequence[str], tmp_path: Path) -> None:
    found = judged("compression_40_percent", "compression", tmp_path, [(case, guessing) for case in schemes])
    assert found.verdict == NOT_REPRODUCED


def test_copies_count_by_this_machines_own_speed(tmp_path: Path) -> None:
    run = stored("cpu_overhead", tmp_path)
    file = run.path / "host.json"
    host = json.loads(file.read_text())
    file.write_text(json.dumps({**host, "copy_bytes_per_s": 2.5 * host["copy_bytes_per_s"]}))
    found = CLAIMS["roce_copies"].judge(run)
    assert found.verdict == REPRODUCED_IF
    assert found.rows[0].holds


def test_a_machine_of_another_order_makes_the_model_of_processors_worthless(tmp_path: Path) -> None:
    run = stored("cpu_overhead", tmp_path)
    file = run.path / "host.json"
    host = json.loads(file.read_text())
    for way in host["ways"]:
        way["receiver_cpu_s"] *= 50
    file.write_text(json.dumps(host))
    assert CLAIMS["tcp_costs_processor"].judge(run).verdict == NOT_REPRODUCED


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_was_cut_short_reproduces_nothing(name: str, tmp_path: Path) -> None:
    """No call, no step, no round in the run and its cases."""

    def cut(measured: Measured) -> None:
        measured["complete"] = False
        measured.update({key: [] for key in ("calls", "steps", "fl_rounds") if key in measured})

    run = stored(name, tmp_path)
    for case in (MAIN, *run.cases):
        run = changed(run, cut, case)
    for key in (key for key, (of, _) in FOUND.items() if of == name):
        found = CLAIMS[key].judge(run)
        assert found.verdict == NOT_REPRODUCED, key
        assert found.rows, key
