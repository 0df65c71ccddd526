"""The records that a run leaves in telemetry/ (rows of int64) become Parquet, with names for numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from controller import nic_agent, pause, telemetry
from workloads import fidelity, long_flows

_PAUSE_EVENTS = tuple(event.name.lower() for event in pause.Event)
_DCQCN_EVENTS = {nic_agent.CNP_RECEIVED: "cnp_received", nic_agent.RATE: "rate", nic_agent.CNP_SENT: "cnp_sent"}
_ALPHA_UNIT = 1e-9
Measured = Mapping[str, Any]


@dataclass(frozen=True)
class _Record:
    """A kind of record: its columns in order. The column `named`, if any, holds numbers of what measured.json names,
    `event` numbers of `events`, and each of `scaled` whole numbers of a unit."""

    columns: tuple[str, ...]
    named: str | None = None
    names: Callable[[Measured], Sequence[str]] = lambda measured: ()
    events: tuple[str, ...] = ()
    scaled: Mapping[str, float] | None = None


_RECORDS: dict[str, _Record] = {
    "pauses": _Record(pause.COLUMNS, "port", lambda measured: measured["pause_ports"], _PAUSE_EVENTS),
    "dcqcn": _Record(
        nic_agent.COLUMNS,
        "queue_pair",
        lambda measured: measured["queue_pairs"],
        tuple(_DCQCN_EVENTS[code] for code in sorted(_DCQCN_EVENTS)),
        {"alpha": _ALPHA_UNIT},
    ),
    "wakes": _Record(fidelity.WAKE_COLUMNS),
    "machine": _Record(fidelity.MACHINE_COLUMNS),
    "arrivals": _Record(long_flows.COLUMNS, "flow", lambda measured: [each["flow"] for each in measured["flows"]]),
}


def convert(folder: Path) -> None:
    """Everything in `folder`/telemetry, as far as the run came, in place of the raw records; those whose names a run
    that broke off did not leave stay as they are. A folder without records goes too."""
    _convert_samples(folder / "telemetry")
    for name, record in _RECORDS.items():
        raw = folder / "telemetry" / f"{name}.events"
        if raw.is_file():
            with suppress(FileNotFoundError, KeyError):
                names = record.names(json.loads((folder / "measured.json").read_text()))
                _write(_table(_rows(raw, len(record.columns)), record, names), raw.with_suffix(".parquet"))
                raw.unlink()
    with suppress(OSError):
        (folder / "telemetry").rmdir()


def _convert_samples(folder: Path) -> None:
    """The samplers' rows become queue.parquet: one row per sample and port."""
    tables = []
    for file in sorted(folder.glob("*.samples")) if folder.is_dir() else []:
        rows = _rows(file, len(telemetry.COLUMNS))
        columns: dict[str, Any] = {name: rows[:, index] for index, name in enumerate(telemetry.COLUMNS)}
        tables.append(pa.table({**columns, "port": _named(np.zeros(len(rows), np.int64), [file.stem])}))
        file.unlink()
    if tables:
        _write(pa.concat_tables(tables), folder / "queue.parquet")


def _rows(file: Path, width: int) -> np.ndarray:
    """The whole rows of a file, (n, width): one that was cut short ends in part of a row."""
    numbers = np.fromfile(file, np.int64)
    return numbers[: len(numbers) // width * width].reshape(-1, width)


def _table(rows: np.ndarray, record: _Record, names: Sequence[str]) -> pa.Table:
    columns: dict[str, Any] = {name: rows[:, index] for index, name in enumerate(record.columns)}
    if record.named is not None:
        columns[record.named] = _named(columns[record.named], names)
    if record.events:
        columns["event"] = _named(columns["event"], record.events)
    for name, unit in (record.scaled or {}).items():
        columns[name] = columns[name] * unit
    return pa.table(columns)


def _named(numbers: np.ndarray, names: Sequence[str]) -> pa.DictionaryArray:
    """A column of text, kept as numbers of the names."""
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), pa.array(names, pa.string()))


def _write(table: pa.Table, file: Path) -> None:
    pyarrow.parquet.write_table(table, file, compression="zstd")
