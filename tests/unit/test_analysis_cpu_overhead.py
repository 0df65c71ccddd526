"""What processors pay: both paths beside each other, the slides' figures, and the machine's own copies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.kinds import cpu_overhead, host_copies
from analysis.pages.run_page import draw_all, page
from analysis.run import Run
from analysis.summary import summarize
from analysis.verdicts import NOT_PROVEN
from tests.unit.test_analysis_collective import make
from topologies.units import BadRequest

KEYS: dict[str, Any] = {
    "collective": "broadcast",
    "algorithm": "tree",
    "ranks": 2,
    "sizes": "4KiB-1MiB",
    "experiment": "cpu_overhead",
}
TCP: dict[str, Any] = {"host_cost": "tcp"}
RDMA: dict[str, Any] = {"host_cost": "rdma", "transport": "roce", "pfc": "on"}

HOST: dict[str, Any] = {
    "message_bytes": 262144,
    "latency_s": 3e-5,
    "copy_bytes_per_s": 8e9,
    "ways": [
        {"way": "copy", "sent_bytes": 1000, "seconds": 1e-6, "sender_cpu_s": 2e-7, "receiver_cpu_s": 1e-7},
        {
            "way": "zerocopy",
            "sent_bytes": 1000,
            "seconds": 2e-6,
            "sender_cpu_s": 3e-7,
            "receiver_cpu_s": 1e-7,
            "copied_anyway": 1.0,
        },
    ],
}


def made(path: Path, tcp_factor: float = 10.0, busy_ns: tuple[int, int] = (90, 3)) -> Run:
    """A run by TCP's path and its case by RDMA's, whose busiest processors were busy for so many percent."""
    for place, keys, factor, share in (
        (path, TCP, tcp_factor, busy_ns[0]),
        (path / "cases" / "rdma", RDMA, 1.0, busy_ns[1]),
    ):
        run = make(place, factor=factor, **KEYS, **keys)
        spent_ns = sum(call["end_ns"] - call["start_ns"] for call in run.measured["calls"] if not call["warmup"])
        cpu = {"h1": {"busy_ns": spent_ns * share // 100, "bytes": 1}, "h2": {"busy_ns": 0, "bytes": 1}}
        (place / "measured.json").write_text(json.dumps({**run.measured, "cpu": cpu}))
    (path / "host.json").write_text(json.dumps(HOST))
    return Run(path)


def test_rdma_is_cheaper_where_time_and_processor_say_so(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    found = cpu_overhead.verdict(run)
    assert (found.verdict, found.good) == (cpu_overhead.CHEAPER, True)
    assert cpu_overhead.busy_share(run) == pytest.approx(0.9, abs=0.001)
    assert "processor 90.0% busy" in cpu_overhead.headline(run)


@pytest.mark.parametrize("changes", [{"tcp_factor": 0.5}, {"busy_ns": (2, 3)}])
def test_it_is_not_where_one_does_not(tmp_path: Path, changes: dict[str, Any]) -> None:
    found = cpu_overhead.verdict(made(tmp_path / "run", **changes))
    assert (found.verdict, found.good) == (cpu_overhead.NO_CHEAPER, False)


def test_without_processors_nothing_is_proven(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    (run.path / "measured.json").write_text(json.dumps({**run.measured, "cpu": {}}))
    assert cpu_overhead.verdict(Run(run.path)).verdict == NOT_PROVEN


def test_slides_are_held_beside_what_was_measured(tmp_path: Path) -> None:
    told = {row.what: row for row in cpu_overhead.claims(made(tmp_path / "run"))}
    assert told["processor busy by tcp, one core"].verdict == "reproduced"
    assert told["processor busy by rdma, one core"].verdict == "reproduced"
    assert told["latency of 4 KB by tcp"].verdict.startswith("not reproduced: ")
    assert told["bandwidth by tcp"].published == "12 GB/s"


def test_a_page_tells_paths_claims_and_copies(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    shown = page(run, draw_all(run))
    for words in ("Copies on this machine", "MSG_ZEROCOPY", "100%", "Beside published figures", "slide 18"):
        assert words in shown
    assert (run.path / "figures" / "paths.png").exists()
    assert (run.path / "figures" / "copies.png").exists()
    assert summarize(run)["host"] == HOST
    assert summarize(run)["cpu_overhead"]["path"] == "tcp"


def test_ways_are_per_byte(tmp_path: Path) -> None:
    copied, zerocopy = host_copies.ways(made(tmp_path / "run"))
    assert copied.rate == pytest.approx(1e9)
    assert copied.sender_s == pytest.approx(2e-10)
    assert (copied.copied_anyway, zerocopy.copied_anyway) == (None, 1.0)


@pytest.mark.parametrize("content", ["{", "[]", '{"ways": [{"way": "copy"}]}', '{"ways": [5]}', '{"ways": 5}'])
def test_a_damaged_host_file_is_told(tmp_path: Path, content: str) -> None:
    run = made(tmp_path / "run")
    (run.path / "host.json").write_text(content)
    with pytest.raises(BadRequest, match=r"host\.json: .+; allowed: "):
        host_copies.ways(run)


def test_a_run_without_a_host_file_has_no_copies(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    (run.path / "host.json").unlink()
    assert host_copies.ways(run) == []
    assert "Copies on this machine" not in page(run, draw_all(run))
