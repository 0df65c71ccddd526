"""Some thousand of `make fuzz`'s inputs against the same invariants, and the fuzzing itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import invariants, mutations, run

COUNT, SEED = 2_500, 7


def test_no_damaged_capture_breaks_an_invariant(tmp_path: Path) -> None:
    found = run.fuzz(SEED, COUNT, 2, tmp_path / "failed", lambda so_far: None)
    assert not found.failures
    assert found.inputs == COUNT
    for taken in ("sound", "damaged", "refused", "empty"):  # the inputs are of all sorts
        assert found.taken[taken] > COUNT // 500


def test_equal_seeds_give_equal_inputs() -> None:
    one, again, other = (
        [mutations.mutant(seed, number, run.corpus()) for number in range(50)] for seed in (SEED, SEED, SEED + 1)
    )
    assert one == again
    assert one != other
    assert len(set(one)) > 45


def test_a_broken_invariant_is_kept_once_with_its_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(path: Path, companion: Path | None = None) -> str:
        raise invariants.Broken("it is broken", path.stat().st_size) if path.stat().st_size % 2 else ValueError("no")

    monkeypatch.setattr(invariants, "check", check)
    work = run.Fuzz(tmp_path, tmp_path / "failed")
    for data in (b"1", b"333", b"22", b"55555"):
        work.attempt(data, f"1-{len(data)}")
    assert {kind: count for kind, (_, count) in work.outcome.failures.items()} == {
        "it is broken": 3,
        "ValueError at outside of analysis: no": 1,
    }
    assert sorted(path.name for path in (tmp_path / "failed").iterdir()) == ["1-1.capture", "1-2.capture"]


def test_a_failure_is_told_with_the_command_that_repeats_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "1-7.capture"
    found = run.Outcome(run.Counter(broken=2, sound=1), {"it is broken": (kept, 2)})
    assert run._tell(found, 3.0) == 1
    said = capsys.readouterr().out
    assert "3 inputs in 3 s" in said
    assert f"-m tests.fuzz.run --again {kept}" in said


def test_what_a_columns_reader_forgets_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The invariants are no formality: a reader that streams one packet too few is caught."""
    path = tmp_path / "a.pcap"
    path.write_bytes(mutations.containers.pcap(run.corpus()[0]))
    assert invariants.check(path) == "sound"
    stream = invariants.stream_capture

    def lossy(*words: Any) -> list[invariants.Packets]:
        *chunks, last = stream(*words)
        return [*chunks, last.select(slice(0, len(last) - 1))]

    monkeypatch.setattr(invariants, "stream_capture", lossy)
    with pytest.raises(invariants.Broken, match="differs between streaming"):
        invariants.check(path)
