"""What `from analysis import Run` gives: a run directory with its tables as pandas, and a short look in Jupyter."""

from __future__ import annotations

from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import run
from analysis.kinds import kind_of
from analysis.tables.all_tables import Tables
from analysis.tables.packets import packets_frame
from topologies.units import BadRequest

if TYPE_CHECKING:
    from pandas import DataFrame

_COLOURS = {False: "#c0392b", True: "#1e8449", None: "#7f8c8d"}  # of a verdict that is bad, good, neither
_SHOWN = 3


class Run(run.Run):
    """One run directory: `flows` and `tables` as pandas, `capture` for packets, and all that analysis.run.Run has.

    Raises BadRequest for a path that is no run directory, naming some that are.
    """

    def __init__(self, path: str | Path) -> None:
        _check(Path(path))
        super().__init__(path)

    @cached_property
    def tables(self) -> Tables:
        """All tables by name, each made when it is first asked for: docs/run-directory.md lists them."""
        return Tables(self)

    @property
    def flows(self) -> DataFrame:
        """One row for each flow: bytes, times, what its sender's capture shows, the kernel's own account."""
        return self.tables["flows"]

    def capture(self, point: str) -> DataFrame:
        """The packets at a capture point, such as "leaf1-eth1" or "h2-eth0", one row each; `packets` gives them as
        NumPy columns."""
        return packets_frame(self.packets(point))

    def _repr_html_(self) -> str:
        """The verdict, the finding and the figures at the top of the report, for Jupyter."""
        try:
            return _short(self)
        except BadRequest as error:
            return f"<p><b>{escape(str(self.path))}</b>: {escape(str(error))}</p>"


def _short(shown: run.Run) -> str:
    kind = kind_of(shown)
    verdict = kind.verdict(shown)
    colour = _COLOURS[verdict.good]
    cells = "".join(
        f'<td style="text-align:left"><b>{escape(value)}</b><br><span style="opacity:.7">{escape(name)}</span></td>'
        for name, value in kind.tiles(shown)
    )
    return (
        f'<div style="border-left:4px solid {colour};padding-left:.8em">'
        f'<b style="color:{colour}">{escape(verdict.verdict)}</b>'
        f' <span style="opacity:.7">{escape(str(shown.path))}</span>'
        f"<p>{escape(kind.headline(shown))}</p><table><tr>{cells}</tr></table></div>"
    )


def _check(path: Path) -> None:
    """Raises BadRequest, with run directories nearby, for a path that is none."""
    if (path / "spec.yaml").is_file():
        return
    reason = "no spec.yaml in it" if path.is_dir() else "a file" if path.exists() else "not found"
    near = [each for folder in (path, path.parent, Path("results")) for each in _runs_in(folder)]
    such = ", such as " + ", ".join(map(str, list(dict.fromkeys(near))[:_SHOWN])) if near else ""
    raise BadRequest(f"{path}: {reason}; allowed: a run directory, as run_experiment makes them{such}")


def _runs_in(folder: Path) -> list[Path]:
    """The run directories in a folder, the newest first."""
    found = [each.parent for each in folder.glob("*/spec.yaml")] if folder.is_dir() else []
    return sorted(found, key=lambda each: each.stat().st_mtime, reverse=True)
