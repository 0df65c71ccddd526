"""Raw records of a run as Parquet: names for numbers, nothing invented, nothing lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from controller import pause, port_agent
from experiments.records import convert

MEASURED = {
    "pause_ports": ["leaf1-eth1", "h2-eth0"],
    "queue_pairs": ["h2", "h3"],
    "flows": [{"flow": "h2>h1"}, {"flow": "h3>h1"}, {"flow": "h3>h1#2"}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "telemetry").mkdir()
    (tmp_path / "measured.json").write_text(json.dumps(MEASURED))
    return tmp_path


def keep(folder: Path, name: str, rows: Sequence[Sequence[int]], cut_bytes: int = 0) -> None:
    data = np.array(rows, np.int64).tobytes()
    (folder / "telemetry" / name).write_bytes(data[: len(data) - cut_bytes])


def read(folder: Path, name: str) -> list[dict[str, Any]]:
    return pyarrow.parquet.read_table(folder / "telemetry" / name).to_pylist()


def test_pauses_are_named(folder: Path) -> None:
    keep(folder, "pauses.events", [(10, 1, 0, 70_000), (12, 0, 3, 65_535), (20, 1, 7, 0)])
    convert(folder)
    assert read(folder, "pauses.parquet") == [
        {"time_ns": 10, "port": "h2-eth0", "event": "xoff_sent", "value": 70_000},
        {"time_ns": 12, "port": "leaf1-eth1", "event": "held", "value": 65_535},
        {"time_ns": 20, "port": "h2-eth0", "event": "watchdog_off", "value": 0},
    ]


def test_rates_of_queue_pairs_are_named_and_alpha_is_a_number(folder: Path) -> None:
    keep(folder, "dcqcn.events", [(10, 1, 1, 40 * 10**9, 3_906_250, 50 * 10**9), (11, 0, 2, 0, 0, 0)])
    convert(folder)
    first, second = read(folder, "dcqcn.parquet")
    assert first == {
        "time_ns": 10,
        "queue_pair": "h3",
        "event": "rate",
        "rate_bps": 40 * 10**9,
        "alpha": pytest.approx(1 / 256),
        "target_bps": 50 * 10**9,
    }
    assert (second["queue_pair"], second["event"]) == ("h2", "cnp_sent")


def test_arrivals_are_named_by_the_flows_in_their_order(folder: Path) -> None:
    keep(folder, "arrivals.events", [(10, 2, 65_536), (12, 0, 1)])
    convert(folder)
    assert read(folder, "arrivals.parquet") == [
        {"time_ns": 10, "flow": "h3>h1#2", "bytes": 65_536},
        {"time_ns": 12, "flow": "h2>h1", "bytes": 1},
    ]


def test_samples_of_all_ports_make_one_table(folder: Path) -> None:
    keep(folder, "leaf1-eth1.samples", [(1, 100, 1, 0, 0), (2, 200, 2, 0, 1)])
    keep(folder, "leaf1-eth2.samples", [(1, 300, 3, 4, 0)])
    convert(folder)
    rows = read(folder, "queue.parquet")
    assert [(row["port"], row["queue_bytes"]) for row in rows] == [
        ("leaf1-eth1", 100),
        ("leaf1-eth1", 200),
        ("leaf1-eth2", 300),
    ]
    assert rows[1] == {
        "time_ns": 2, "queue_bytes": 200, "queue_packets": 2, "drops": 0, "marks": 1, "port": "leaf1-eth1"
    }  # fmt: skip


def test_raw_records_go_once_they_are_converted(folder: Path) -> None:
    keep(folder, "leaf1-eth1.samples", [(1, 100, 1, 0, 0)])
    keep(folder, "arrivals.events", [(10, 2, 65_536)])
    convert(folder)
    assert sorted(file.name for file in (folder / "telemetry").iterdir()) == ["arrivals.parquet", "queue.parquet"]


def test_a_record_that_was_cut_short_keeps_its_whole_rows(folder: Path) -> None:
    keep(folder, "arrivals.events", [(10, 2, 65_536), (12, 0, 1)], cut_bytes=5)
    convert(folder)
    assert [row["time_ns"] for row in read(folder, "arrivals.parquet")] == [10]


def test_an_empty_record_is_an_empty_table(folder: Path) -> None:
    keep(folder, "pauses.events", [])
    convert(folder)
    table = pyarrow.parquet.read_table(folder / "telemetry" / "pauses.parquet")
    assert (table.num_rows, table.column_names) == (0, ["time_ns", "port", "event", "value"])


@pytest.mark.parametrize("measured", [None, {"flows": []}])
def test_a_record_without_names_stays_as_it_is(folder: Path, measured: object) -> None:
    (folder / "measured.json").unlink()
    if measured:
        (folder / "measured.json").write_text(json.dumps(measured))
    keep(folder, "pauses.events", [(10, 1, 0, 70_000)])
    convert(folder)
    assert [file.name for file in (folder / "telemetry").iterdir()] == ["pauses.events"]


def test_a_run_without_telemetry_has_no_folder_of_it(tmp_path: Path) -> None:
    convert(tmp_path)
    (tmp_path / "telemetry").mkdir()
    convert(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_pauses_are_read_as_they_are_kept(folder: Path) -> None:
    keep(folder, port_agent.RECORD, [])
    convert(folder)
    assert [file.name for file in (folder / "telemetry").iterdir()] == ["pauses.parquet"]
    kept = pyarrow.parquet.read_schema(folder / "telemetry" / "pauses.parquet")
    assert sorted(kept.names) == sorted(pause.COLUMNS)
