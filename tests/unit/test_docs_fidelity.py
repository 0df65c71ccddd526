"""The page on fidelity names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = sorted(set(re.findall(r"`(test_\w+\.py)::(test_\w+)`", (ROOT / "docs" / "fidelity.md").read_text())))


def test_the_page_names_some() -> None:
    assert len(NAMED) > 10


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_is_there(file: str, name: str) -> None:
    assert f"def {name}(" in (ROOT / "tests" / "emulation" / file).read_text()
