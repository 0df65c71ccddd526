"""The judges of slides 2 to 9 against stored runs: the verdict that each gives, and another one where the run says
otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest

from analysis.claims import slide_4, slide_8, slide_9, slide_9_nvlink, slides_2_3, slides_6_7
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged
from analysis.run import Run
from tests.unit.claims_stored import changed, stored

Measured = dict[str, Any]
Edit = Callable[[Measured], object]

_MODULES = (slides_2_3, slide_4, slides_6_7, slide_8, slide_9, slide_9_nvlink)
CLAIMS: dict[str, Claim] = {claim.key: claim for module in _MODULES for claim in module.CLAIMS}
STORED = {
    "step_shares": "step_shares",
    "communication_overtakes": "step_shares",
    "rdma_latency": "rdma_latency",
    "tcp_latency": "rdma_latency",
    "port_rate": "rdma_latency",
    "federated_traffic": "federated_traffic",
    "parallelism_communicates": "parallelism",
    "parallelism_patterns": "parallelism",
    "server_linear": "server_linear",
    "ring_constant": "server_linear",
    "bert_large": "server_linear",
    "collective_patterns": "collective_patterns",
    "zero3_all_gather": "collective_patterns",
    "nvlink_gpt3": "hierarchy",
}


def verdict_of(key: str, folder: Path, *edits: tuple[str, Edit]) -> Judged:
    """What the judge says of the stored run, with measured.json of a case ("": of the run) edited."""
    run = stored(STORED[key], folder)
    for case, edit in edits:
        run = changed(run, edit, case)
    return CLAIMS[key].judge(run)


# --- what is changed


def calls_take(times: float, more_ns: int = 0) -> Edit:
    """Every call takes so many times as long, and a while besides."""

    def edit(measured: Measured) -> None:
        for call in measured["calls"]:
            call["end_ns"] = call["start_ns"] + int((call["end_ns"] - call["start_ns"]) * times) + more_ns

    return edit


def communicating(seconds: float) -> Edit:
    """Every step communicates for so long."""

    def edit(measured: Measured) -> None:
        for step in measured["steps"]:
            computes_ns = max(rank["compute_ns"] for rank in step["ranks"])
            step["end_ns"] = step["start_ns"] + computes_ns + int(seconds * 1e9)
            for rank in step["ranks"]:
                rank["end_ns"] = step["end_ns"]

    return edit


def nics_carry(times: float, host: str = "") -> Edit:
    """What NICs carried, of one host or of all, is so many times as much."""

    def edit(measured: Measured) -> None:
        for size in measured["sizes"]:
            for name, counted in size["nic_bytes"].items():
                if host in ("", name):
                    counted.update({way: int(count * times) for way, count in counted.items()})

    return edit


def one_is_wrong(measured: Measured) -> None:
    measured["calls"][-1]["wrong"] = 1


def an_image_too(measured: Measured) -> None:
    """A client sends a kilobyte more than its updates."""
    measured["flows"][-1]["tcp_info"]["bytes_sent"] += 1024


def clients_talk(measured: Measured) -> None:
    first, second = measured["federated"]["clients"][:2]
    measured["flows"].append({**measured["flows"][0], "sender": first, "receiver": second})


def another_pair(measured: Measured) -> None:
    """The first rank sends to the third, too."""
    first, _, third, *_ = measured["training"]["ranks"]
    measured["traffic"][f"{first}>{third}"] = 1_000_000


# --- as the product judges


@pytest.mark.parametrize(
    "key, verdict",
    [
        ("step_shares", REPRODUCED_IF),
        ("communication_overtakes", REPRODUCED),
        ("rdma_latency", REPRODUCED_IF),
        ("tcp_latency", NOT_REPRODUCED),
        ("port_rate", REPRODUCED),
        ("federated_traffic", REPRODUCED),
        ("parallelism_communicates", REPRODUCED),
        ("parallelism_patterns", REPRODUCED),
        ("server_linear", REPRODUCED),
        ("ring_constant", REPRODUCED_IF),
        ("bert_large", REPRODUCED),
        ("collective_patterns", REPRODUCED),
        ("zero3_all_gather", REPRODUCED),
        ("nvlink_gpt3", NOT_REPRODUCED),
    ],
)
def test_the_stored_run_is_judged_as_the_product_judges_it(key: str, verdict: str, tmp_path: Path) -> None:
    found = verdict_of(key, tmp_path)
    assert found.verdict == verdict, found.because
    assert any(row.measured is not None for row in found.rows)


def test_every_claim_of_these_slides_is_tried() -> None:
    assert set(STORED) == set(CLAIMS)


# --- where the run says otherwise


@pytest.mark.parametrize(
    "key, edits, verdict",
    [
        ("step_shares", [("short-64", communicating(1.0))], NOT_REPRODUCED),
        ("communication_overtakes", [("ring-64", communicating(1e-4))], NOT_REPRODUCED),
        ("rdma_latency", [("rdma", calls_take(1, 1_000))], NOT_REPRODUCED),
        ("rdma_latency", [("rdma", calls_take(1, -500))], REPRODUCED),
        ("tcp_latency", [("", calls_take(1, 89_000)), ("rdma", calls_take(1, 490))], REPRODUCED),
        ("port_rate", [("rdma", calls_take(1.1))], NOT_REPRODUCED),
        ("federated_traffic", [("", an_image_too)], NOT_REPRODUCED),
        ("federated_traffic", [("", clients_talk)], NOT_REPRODUCED),
        ("parallelism_communicates", [("tensor", communicating(1e-6))], NOT_REPRODUCED),
        ("parallelism_patterns", [("", another_pair)], NOT_REPRODUCED),
        ("server_linear", [("parameter_server-n32", nics_carry(0.5))], NOT_REPRODUCED),
        ("ring_constant", [("ring-n32", nics_carry(1.3))], NOT_REPRODUCED),
        ("bert_large", [("parameter_server-n32", calls_take(0.3))], NOT_REPRODUCED),
        ("collective_patterns", [("broadcast", one_is_wrong)], NOT_REPRODUCED),
        ("collective_patterns", [("scatter", nics_carry(1.5, "h1"))], NOT_REPRODUCED),
        ("collective_patterns", [("ring-roce", calls_take(1.5))], NOT_REPRODUCED),
        ("zero3_all_gather", [("all_gather", nics_carry(1.2))], NOT_REPRODUCED),
        ("nvlink_gpt3", [("8_servers-ring", calls_take(1.1))], REPRODUCED_IF),
    ],
)
def test_another_run_is_judged_otherwise(key: str, edits: list[tuple[str, Edit]], verdict: str, tmp_path: Path) -> None:
    found = verdict_of(key, tmp_path, *edits)
    assert found.verdict == verdict, found.because


@pytest.mark.parametrize("key", STORED)
def test_a_run_without_its_cases_is_no_proof(key: str, tmp_path: Path) -> None:
    run = stored(STORED[key], tmp_path)
    for path in [*run.path.glob("cases/*/measured.json")]:
        path.unlink()
    found = CLAIMS[key].judge(Run(run.path))
    assert found.rows
    assert found.verdict == (REPRODUCED if key == "federated_traffic" else NOT_REPRODUCED)
