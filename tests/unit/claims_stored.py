"""Stored runs of the lecture's claims (tests/unit/data/claims), unpacked; and changes of what they measured."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any, Callable

from analysis.claims.model import Claim
from analysis.run import Run

_DATA = Path(__file__).parent / "data" / "claims"


def stored(name: str, folder: Path) -> Run:
    """The stored run, unpacked into a new folder below `folder`."""
    place = folder / name
    place.mkdir()
    with tarfile.open(_DATA / f"{name}.tar.gz") as archive:
        archive.extractall(place)
    return Run(place)


def changed(run: Run, edit: Callable[[dict[str, Any]], object], case: str = "") -> Run:
    """The run with measured.json (of one of its cases) edited in place, read anew."""
    path = (run.path / "cases" / case if case else run.path) / "measured.json"
    measured = json.loads(path.read_text())
    edit(measured)
    path.write_text(json.dumps(measured))
    return Run(run.path)


def is_judged(claim: Claim, run: Run, verdict: str) -> None:
    """Asserts that the judge comes to this verdict, by numbers."""
    found = claim.judge(run)
    assert found.verdict == verdict, f"{claim.key}: {found.because}"
    assert any(row.measured is not None for row in found.rows)
    assert any(character.isdigit() for character in found.because)
