"""A claim tried for real: the run it needs, its page, and nothing run twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.claims.model import REPRODUCED
from experiments import cli
from lab.kernel import Kernel

pytestmark = pytest.mark.lab
KEY = "federated_traffic"


def test_a_claim_is_tried_and_what_is_done_is_not_done_again(
    kernel: Kernel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["claims", "--quick", "--only", KEY, "--out", str(tmp_path)]
    assert cli.main([*words, "--json"]) == 0
    first = capsys.readouterr()
    told = json.loads(first.out)
    (claim,) = told["claims"]
    assert (claim["key"], claim["verdict"]) == (KEY, REPRODUCED)
    assert (tmp_path / claim["run"] / "report.html").is_file()
    assert all((tmp_path / path).is_file() for path in claim["drawn"])
    assert told["made_by"]["kernel"] == [kernel.version]
    assert f"[1/1] federated-{KEY}: done in" in first.err

    page, made = tmp_path / "claims.md", tmp_path / claim["run"] / "measured.json"
    before_ns = made.stat().st_mtime_ns
    assert cli.main([*words, "--markdown", str(page)]) == 0
    again = capsys.readouterr()
    assert "1 run, 1 of them done already" in again.err
    assert made.stat().st_mtime_ns == before_ns
    assert f"## Slide 6: {KEY}" in page.read_text()
