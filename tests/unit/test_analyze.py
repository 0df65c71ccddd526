"""`run_experiment analyze`: what it prints, JSON, files, and requests that are refused in one line."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments import cli
from tests.unit.explained_path import FlowPath, lossy_path
from tests.unit.frames import pcap_bytes

ROOT = Path(__file__).resolve().parents[2]
KEYS = {
    *(
        "format",
        "findings",
        "verdicts",
        "lost_share",
        "onset_ns",
        "fill_s",
        "points",
        "flows",
        "hops",
        "pauses",
        "facts",
    ),
}


@pytest.fixture
def captures(tmp_path: Path) -> dict[str, Path]:
    return lossy_path().write(tmp_path / "captures")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = cli.main(["analyze", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_text_begins_with_what_was_found(captures: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, *captures.values())
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "3 captures, 46 packets, 1 flow with data"
    assert lines[1].startswith("1. ")
    places = [
        out.index(title) for title in ("evidence", "captures, the largest", "flows, the worst", "stalls by cause")
    ]
    assert places == sorted(places)
    assert "packets between captures" in out


def test_it_fits_a_hundred_columns(captures: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, *captures.values())
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 100


def test_json_is_one_document_with_stable_keys(captures: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, captures["sender"], captures["port"], "--json")
    document = json.loads(out)
    assert status == 0
    assert set(document) == KEYS
    assert document["hops"][0]["lost_number"] == [6]
    assert document["flows"][0]["repeats"]["kind"] == ["rto"]
    assert document["flows"][0]["stalls"][0]["seconds"] == pytest.approx(0.2, rel=0.01)


def test_every_key_of_the_document_is_documented(captures: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, *captures.values(), "--json")
    told = (ROOT / "docs" / "analyze.md").read_text()
    assert [key for key in _keys(json.loads(out)) if f"`{key}`" not in told] == []


def _keys(value: Any) -> Iterator[str]:
    """The keys of mappings; not those that are names of captures, flows or kinds."""
    named = ("kinds", "recovery", "conversations", "udp_conversations")
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield key
        if key in named:
            inner = list(inner.values())[:1] if isinstance(inner, dict) else inner
        yield from _keys(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _keys(inner)


def test_standard_input_packed_or_not(captures: dict[str, Path]) -> None:
    words = [sys.executable, str(ROOT / "run_experiment"), "analyze", "-", "--json"]
    plain = captures["port"].read_bytes()
    for given in (plain, gzip.compress(plain)):
        done = subprocess.run(words, input=given, capture_output=True, check=True)
        (point,) = json.loads(done.stdout)["points"]
        assert (point["name"], point["packets"]) == ("stdin", 15)


def test_out_holds_a_page_and_tables(captures: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = call(capsys, *captures.values(), "--out", "out", "--export", "csv")
    assert status == 0, err
    assert Path("out/report.html").is_file()
    assert any(path.suffix == ".csv" for path in Path("out/tables").iterdir())


# --- what is refused, or damaged


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "the file is empty"),
        (b"hello, world", "allowed: pcap"),
        (b"\xd4\xc3\xb2\xa1", "file header"),
    ],
)
def test_no_capture_is_one_line(content: bytes, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pcap").write_bytes(content)
    status, out, err = call(capsys, tmp_path / "a.pcap")
    assert (status, out) == (2, "")
    assert line in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "the following arguments are required: FILE|DIR"),
        (["none.pcap"], "none.pcap: cannot be read: No such file or directory"),
        (["."], ".: holds no capture; allowed: a capture, or a folder with"),
        (["none.pcap", "--export", "csv"], "--export: given without --out; allowed: with --out DIR"),
        (["none.pcap", "--export", "xml", "--out", "o"], "argument --export: invalid choice: 'xml'"),
    ],
)
def test_bad_requests_are_one_line(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, *words)
    assert (status, out) == (2, "")
    assert line in err
    assert err.count("\n") == 1


def test_out_must_be_no_file(captures: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    Path("taken").touch()
    status, _, err = call(capsys, captures["port"], "--out", "taken")
    assert (status, err) == (
        2,
        "run_experiment: --out: taken is a file; allowed: a folder, which is made where it is missing\n",
    )


def test_a_capture_cut_anywhere_is_told(captures: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    whole = captures["port"].read_bytes()
    for size in range(25, len(whole), 97):
        captures["port"].write_bytes(whole[:size])
        status, out, _ = call(capsys, captures["port"])
        assert status == 0
        assert "ends inside a packet" in out or size in _ends(whole)


def _ends(whole: bytes) -> list[int]:
    """Where the records of a capture end."""
    found, at = [24], 24
    while at < len(whole):
        at += 16 + int.from_bytes(whole[at + 8 : at + 12], "little")
        found.append(at)
    return found


def test_nothing_but_duplicates_and_steps_back_in_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = lossy_path().records["port"]
    twice = [(time_ns, frame) for time_ns, frame in reversed(records) for _ in range(2)]
    (tmp_path / "a.pcap").write_bytes(pcap_bytes(twice))
    status, out, _ = call(capsys, tmp_path / "a.pcap")
    assert status == 0
    assert "earlier than the one before" in out


def test_a_flow_of_one_packet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = FlowPath().send(0, 0).write(tmp_path)["port"]
    assert call(capsys, path)[0] == 0


def test_interrupted_by_a_closed_pipe(captures: dict[str, Path]) -> None:
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, str(ROOT / "run_experiment"), "analyze", str(captures["port"])]
    done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")
