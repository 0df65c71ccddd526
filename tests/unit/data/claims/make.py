"""Packs a run directory for the tests of claims: what judges read of it, without captures, figures and the report.

    python tests/unit/data/claims/make.py RUN_DIRECTORY NAME [--telemetry queue pauses ...] [--cases LABEL ...]

writes NAME.tar.gz beside this file. Equal runs give equal bytes: names are sorted, and times and owners left out.
"""

from __future__ import annotations

import argparse
import gzip
import io
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

_KEPT = ("spec.yaml", "fabric.json", "measured.json", "provenance.json", "host.json")
_HERE = Path(__file__).resolve().parent


def kept(folder: Path, telemetry: Sequence[str], cases: Sequence[str] | None) -> Iterator[Path]:
    """The files of a run and its cases that are packed; cases: the labels wanted, None for all."""
    names = [*_KEPT, *(f"telemetry/{name}.parquet" for name in telemetry)]
    yield from (folder / name for name in names if (folder / name).is_file())
    for case in sorted(folder.glob("cases/*")):
        if cases is None or case.name in cases:
            yield from kept(case, telemetry, ())


def pack(folder: Path, files: Sequence[Path], archive: Path) -> None:
    """Write the archive of the files, named from the run directory on."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(files):
            content = path.read_bytes()
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    archive.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def main(words: Sequence[str]) -> None:
    """Pack what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="RUN_DIRECTORY")
    parser.add_argument("name")
    parser.add_argument("--telemetry", nargs="*", default=[], help="queue, pauses, dcqcn, arrivals, ...")
    parser.add_argument("--cases", nargs="*", help="default: all")
    given = parser.parse_args(words)
    archive = _HERE / f"{given.name}.tar.gz"
    pack(given.folder, list(kept(given.folder, given.telemetry, given.cases)), archive)
    print(f"{archive}: {archive.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
