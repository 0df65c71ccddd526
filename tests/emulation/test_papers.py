"""`papers` in the lab: a published curve run, scored and drawn, and not run again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.kernel import Kernel
from tests.emulation.conftest import run_experiment

pytestmark = pytest.mark.lab


def test_a_set_is_measured_once_and_scored(kernel: Kernel, tmp_path: Path) -> None:
    asked = ("papers", "--only", "dctcp_multi_hop", "--json")
    first = run_experiment(tmp_path, *asked)
    assert first.status == 0, first.stderr
    told = json.loads(first.stdout)
    ((curve,),) = (each["curves"] for each in told["sets"])
    ours = {point["place"]: point["ours"] for point in curve["points"]}
    assert ours["S1"] < ours["S3"] < ours["S2"]  # what meets both bottlenecks gets least
    assert 10 * (ours["S1"] + ours["S3"]) == pytest.approx(950, rel=0.03)  # the line of R1 is full
    assert curve["verdict"] in (first.folder / "papers.html").read_text()
    assert (first.folder / "figures" / "dctcp_multi_hop.png").is_file()
    again = run_experiment(tmp_path, *asked)
    assert "1 run, 1 of them done already" in again.stderr
    assert json.loads(again.stdout)["sets"] == told["sets"]
