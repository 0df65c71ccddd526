"""The experiment `clocks` from end to end: both clocks of the lab kernel, side by side.

What the real clock shows depends on how busy the machine is: its figures are `run_experiment bench clocks`; here it is
held that each is told, that the guard has spoken, and that a difference it did not warn of never looks like agreement.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from analysis.fidelity import FAITHFUL, NOT_MEASURED, UNFAITHFUL
from lab.kernel import Kernel
from tests.conftest import ROOT
from tests.emulation.conftest import Done, run_experiment
from tests.emulation.same import unlike

pytestmark = [pytest.mark.lab, pytest.mark.alone]

CLOCKS = {".": "virtual", "cases/real-100mbps": "real", "cases/virtual-1gbps": "virtual", "cases/real-1gbps": "real"}


@pytest.fixture(scope="module")
def clocks(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Both rates on both clocks, five rounds each, in the lab kernel."""
    folder = tmp_path_factory.mktemp("clocks") / "run"
    return run_experiment(folder, "clocks", "--on", "lab", "--set", "rounds=5")


def test_every_run_is_on_its_clock(clocks: Done) -> None:
    assert clocks.status == 0, clocks.stderr
    for place, clock in CLOCKS.items():
        assert yaml.safe_load((clocks.folder / place / "spec.yaml").read_text())["clock"] == clock
        assert clocks.document(f"{place}/provenance.json")["clock"] == clock
        assert clocks.document(f"{place}/measured.json")["complete"] is True
        assert len(clocks.document(f"{place}/measured.json")["rounds"]) == 5


def test_virtual_time_collapses_at_both_rates(clocks: Done) -> None:
    told = clocks.document("summary.json")["clocks"]
    assert list(told) == ["100 Mb/s", "1 Gb/s"]
    for name, line_bps in (("100 Mb/s", 1e8), ("1 Gb/s", 1e9)):
        assert told[name]["verdict"]["virtual"] == "incast collapse"
        rate = told[name]["quantities"]["rate of the busy port"]["virtual"]
        assert rate == pytest.approx(line_bps, rel=1e-4)


def test_the_real_clock_is_compared_and_judged(clocks: Done) -> None:
    for name, told in clocks.document("summary.json")["clocks"].items():
        goodput = told["quantities"]["goodput"]
        assert goodput["ratio"] == pytest.approx(goodput["real"] / goodput["virtual"])
        assert told["fidelity"] in (FAITHFUL, UNFAITHFUL, NOT_MEASURED), name
        if told["agrees"]:
            assert goodput["agrees"]
            assert told["verdict"]["virtual"] == told["verdict"]["real"]


def test_both_clocks_are_one_table_on_terminal_and_page(clocks: Done) -> None:
    assert "two clocks" in clocks.stdout
    for quantity in ("rate of the busy port", "packets sent again", "fidelity guard"):
        assert clocks.stdout.count(f" {quantity} ") == 2
    page = (clocks.folder / "report.html").read_text()
    assert "<h2>Two clocks compared</h2>" in page


def test_the_report_is_rebuilt_from_the_files_alone(clocks: Done) -> None:
    before = clocks.document("summary.json")
    again = run_report(clocks.folder)
    assert again.status == 0, again.stderr
    assert clocks.document("summary.json") == before


def run_report(folder: Path) -> Done:
    """`./run_experiment report` of a run directory."""
    command = [str(ROOT / "run_experiment"), "report", str(folder)]
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, timeout=120)
    return Done(folder, done.returncode, done.stdout, done.stderr, {}, {})


def test_a_case_can_be_run_again_by_its_spec(clocks: Done, tmp_path: Path) -> None:
    spec = clocks.folder / "cases" / "virtual-1gbps" / "spec.yaml"
    done = run_experiment(tmp_path / "again", str(spec), "--only")
    assert done.status == 0, done.stderr
    assert unlike(clocks.folder / "cases" / "virtual-1gbps", tmp_path / "again", ["measured.json"]) == []
