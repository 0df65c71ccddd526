"""Parquet files of a run's telemetry as columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from topologies.units import BadRequest


def read_columns(
    path: str | os.PathLike[str], names: Sequence[str], numbers: Sequence[str], what: str
) -> dict[str, np.ndarray]:
    """The columns of a Parquet file by name, in order of time_ns: `names` are text, `numbers` int64 (or float where the
    file has that). Raises BadRequest naming the file and what is wrong with it; `what` says what it should hold."""
    import pyarrow.parquet

    if not Path(path).is_file():
        raise BadRequest(f"{path}: not found; allowed: a Parquet file of {what}")
    try:
        table = pyarrow.parquet.read_table(path, columns=[*numbers, *names])
    except (OSError, pyarrow.ArrowException) as error:
        raise BadRequest(f"{path}: cannot be read as {what}: {str(error).splitlines()[0]}") from error
    columns = {name: table[name].to_numpy() for name in numbers}
    columns.update({name: np.asarray(table[name].to_pylist(), object) for name in names})
    order = np.argsort(columns["time_ns"], kind="stable")
    return {name: column[order] for name, column in columns.items()}
