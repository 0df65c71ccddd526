"""Slower time in the lab: what a spec does, and what it does so many times slower, both on the virtual clock
(docs/real-clock.md has the table, and where the two differ)."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from lab.kernel import Kernel
from tests.emulation.conftest import run_experiment
from tests.emulation.same import unlike
from topologies.units import parse_rate_bps

pytestmark = pytest.mark.lab

# 1 Gb/s, 64 KB and 100 us: the shallow switch of Phanishayee et al. (FAST 2008), which collapses.
FAST = ("incast", "seed=2", "rate=1Gbps", "buffer=64KB", "delay=20us", "switch_delay=10us", "senders=16")
DCTCP = ("incast", "seed=1", "rate=100Gbps", "queue=dctcp", "senders=32")
PAUSED = ("victim", "seed=1", "capture=off", "telemetry=off")  # samples of queues would be 20 times as many


def summary(folder: Path, spec: tuple[str, ...], scale: int) -> dict[str, Any]:
    """The summary of the main run of a spec, so many times slower; its seconds and rates in the original time."""
    experiment, *given = spec
    done = run_experiment(
        folder, experiment, "--only", "--json", "--scale", str(scale), *(f"--set={word}" for word in given)
    )
    assert done.status == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    share = found["goodput_bps"] / parse_rate_bps(found["spec"]["rate"])
    seconds = median(each["seconds"] for each in found["rounds"]) / scale
    return {**found, "share": share, "original_median_s": seconds}


@pytest.mark.parametrize(
    ("spec", "scale", "verdict", "within"),
    [
        (FAST, 10, "incast collapse", 0.1),
        (DCTCP, 1000, "no collapse", 0.02),
        (PAUSED, 20, "a victim of congestion elsewhere", 0.02),
    ],
)
def test_slower_time_tells_the_same(
    kernel: Kernel, tmp_path: Path, spec: tuple[str, ...], scale: int, verdict: str, within: float
) -> None:
    asked, slow = (summary(tmp_path / str(times), spec, times) for times in (1, scale))
    assert slow["verdict"] == asked["verdict"] == verdict
    assert slow["share"] == pytest.approx(asked["share"], rel=within)
    assert slow["original_median_s"] == pytest.approx(asked["original_median_s"], rel=within)
    assert slow["original_time"]["median_round_s"] == pytest.approx(slow["original_median_s"])
    for count in ("drops", "timeouts", "retransmits"):
        assert bool(slow[count]) == bool(asked[count])  # kinds of trouble, not their number: a coin decides each


def test_the_run_directory_tells_the_scale_and_can_be_run_again(kernel: Kernel, tmp_path: Path) -> None:
    words = ("incast", "--only", "--set", "senders=2", "--set", "rounds=1", "--scale", "100")
    first = run_experiment(tmp_path / "first", *words)
    assert first.status == 0, first.stderr
    assert "rate of hosts' links 400 Gb/s" in first.stdout
    again = run_experiment(tmp_path / "again", "run", str(first.folder / "spec.yaml"), "--only")
    assert again.status == 0, again.stderr
    summaries = [each.document("summary.json") for each in (first, again)]
    assert [each["original_time"]["time_scale"] for each in summaries] == [100, 100]
    spec = summaries[0]["spec"]
    assert summaries[1]["spec"] == spec
    assert (spec["rate"], spec["rto_min"], spec["time_scale"]) == ("4Gbps", "20s", 100)
    assert unlike(first.folder, again.folder, ["measured.json"]) == []
