"""`run_experiment analyze`: captures in, their explanation out, on the terminal, as JSON, as a page, or as tables."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import screen
from topologies.units import BadRequest

if TYPE_CHECKING:  # loading it takes NumPy, which most commands do not need
    from analysis.explain.model import Explanation

FORMS = ("parquet", "csv")  # those of analysis.tables.export, which --help is not to load: it takes NumPy
_TABLES = "tables"


def analyze(paths: Sequence[str], as_json: bool, out: Path | None, form: str | None) -> None:
    """Explain the captures: on stdout for people or as JSON; with `out` also as a page with figures, and as tables in
    the form given (default: parquet), in that folder."""
    from analysis.explain.document import document
    from analysis.explain.explain import captures_of, explain
    from analysis.explain.terminal import shown

    captures = captures_of(paths)
    _check_out(out, captures)
    found = explain(captures, note=_note)
    if as_json:
        json.dump(document(found), sys.stdout, indent=1, allow_nan=False)
        print()
    else:
        screen.show(shown(found))
    if out is not None:
        _write(found, out, form or FORMS[0])


def _note(line: str) -> None:
    """What is being read, for a person who waits."""
    if screen.err.is_terminal:
        screen.say(line)


def _check_out(out: Path | None, captures: Sequence[str]) -> None:
    """Raises BadRequest for an output folder that is a file, before the captures are read."""
    if out is not None and out.exists() and not out.is_dir():
        raise BadRequest(f"--out: {out} is a file; allowed: a folder, which is made where it is missing")


def _write(found: Explanation, out: Path, form: str) -> None:
    """The page with its figures, and the tables."""
    from analysis.explain.page import write_page
    from analysis.tables.explained import tables_of
    from analysis.tables.export import export

    try:
        out.mkdir(parents=True, exist_ok=True)
        written = export(tables_of(found), out / _TABLES, form)
        screen.say(f"tables: {out / _TABLES} ({len(written)} files)")
        screen.say(f"report: {write_page(found, out)}")
    except OSError as error:
        said = f"--out: {error.filename or out} cannot be written ({error.strerror or error})"
        if error.errno == errno.ENOSPC:
            raise RuntimeError(said) from None  # no bad request: there is no room
        raise BadRequest(said) from None
