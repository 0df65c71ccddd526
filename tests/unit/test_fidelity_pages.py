"""What a page says of the fidelity of a run and of its cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.fidelity import FAITHFUL, NOT_MEASURED, UNFAITHFUL, Fidelity, Limit
from analysis.pages import fidelity
from analysis.run import Run
from analysis.verdicts import Verdict
from tests.unit.test_analysis_run import make_run

SHAPER = Limit("shaper accuracy", 0.058, 0.02, None, "share", "off the configured rate", False, "", "captures")
NAPS = Limit("run-queue delay", None, 0.01, None, "s", "at the 99th percentile", None, "", "too few naps")
JUDGED = {
    "faithful": Fidelity(FAITHFUL, ()),
    "unfaithful": Fidelity(UNFAITHFUL, (SHAPER, NAPS)),
    "unknown": Fidelity(NOT_MEASURED, (NAPS,)),
    "virtual": None,
}


def judged_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, main: str, *cases: str) -> Run:
    """A run whose guard says `main`, with cases called as what it says of them."""
    for case in cases:
        make_run(tmp_path / "cases" / case, {"label": case})
    run = make_run(tmp_path)
    monkeypatch.setattr(fidelity, "judge", lambda each: JUDGED[main if each is run else each.path.name])
    return run


@pytest.mark.parametrize(
    ("main", "cases", "words", "colour"),
    [
        ("faithful", ("faithful", "virtual"), "faithful", "good"),
        ("faithful", ("faithful", "unfaithful", "unknown"), "faithful; 2 of its cases are not", "open"),
        ("faithful", ("unfaithful",), "faithful; 1 of its cases is not", "open"),
        ("unfaithful", ("unfaithful",), "unfaithful; 1 of its cases is not faithful", "bad"),
        ("virtual", ("faithful", "unfaithful"), "1 of 2 cases faithful", "open"),
    ],
)
def test_the_badge_tells_of_the_cases_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, main: str, cases: tuple[str, ...], words: str, colour: str
) -> None:
    run = judged_run(tmp_path, monkeypatch, main, *cases)
    shown = str(fidelity.badges(run, Verdict("incast", "no collapse", ())))
    assert f'<span class="verdict {colour}">real clock: {words}</span>' in shown


def test_the_section_names_what_broke_in_which_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = str(
        fidelity.fidelity_section(judged_run(tmp_path, monkeypatch, "virtual", "faithful", "unfaithful", "unknown"))
    )
    assert "shaper accuracy 5.8 % off the configured rate (at most 2 %)" in shown
    assert "run-queue delay: too few naps" in shown
    assert "Faithful on the real clock: faithful." in shown


def test_nothing_is_said_in_virtual_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = judged_run(tmp_path, monkeypatch, "virtual", "virtual")
    assert fidelity.fidelity_section(run) == ""
    assert "real clock" not in fidelity.badges(run, Verdict("incast", "no collapse", ()))
