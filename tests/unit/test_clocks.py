"""The experiment that compares both clocks: what it plans, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import cli, limits
from experiments.catalog import find, plan
from experiments.clocks import EXPERIMENT


def test_each_rate_is_planned_on_both_clocks() -> None:
    asked = plan(EXPERIMENT, {})
    rates = {label: spec.rate_bps for label, spec in asked.cases}
    assert rates == {"real-100mbps": 10**8, "virtual-1gbps": 10**9, "real-1gbps": 10**9}
    assert asked.main.rate_bps == 10**8
    assert asked.clocks == {"real-100mbps": "real", "virtual-1gbps": "virtual", "real-1gbps": "real"}


def test_a_case_differs_from_the_main_run_in_nothing_else() -> None:
    asked = plan(EXPERIMENT, {})
    real = dict(asked.cases)["real-100mbps"]
    assert limits.resolve(real) == limits.resolve(asked.main)


def test_another_rate_is_compared_with_itself_alone() -> None:
    asked = plan(EXPERIMENT, {"rate": "10Mbps"})
    assert [label for label, _ in asked.cases] == ["real-10mbps"]
    assert asked.clocks["real-10mbps"] == "real"


@pytest.mark.parametrize("clock", ["virtual", "real"])
def test_a_clock_is_refused_where_both_are_compared(
    clock: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["clocks", "--clock", clock]) == 2
    told = f"run_experiment: --clock: {clock} is given with clocks, which compares both; allowed: without --clock\n"
    assert capsys.readouterr().err == told
    assert list(tmp_path.iterdir()) == []


def test_other_experiments_have_no_clocks_of_their_own() -> None:
    assert plan(find("incast"), {}).clocks == {}
