"""Makes the runs that the notebooks of this folder are shown with, by running every notebook live in the lab, and
stores of each what the analysis reads: `$(python3 lab/cache.py) analysis/notebooks/make_runs.py [NOTEBOOK...]`."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
_KEPT = ("spec.yaml", "fabric.json", "measured.json", "provenance.json", "pcap", "telemetry")
_TIMEOUT_S = 600


def main(names: list[str]) -> None:
    """Store the runs of these notebooks, of all without names."""
    for notebook in [HERE / name for name in names] or sorted(HERE.glob("*.ipynb")):
        with tempfile.TemporaryDirectory(dir=results()) as made:
            os.environ.update(FABRICLAB_LIVE="1", FABRICLAB_NOTEBOOK_RUNS=str(Path(made).relative_to(ROOT)))
            document = nbformat.read(notebook, as_version=4)
            NotebookClient(document, timeout=_TIMEOUT_S, resources={"metadata": {"path": str(HERE)}}).execute()
            for run in sorted(Path(made).iterdir()):
                store(run, HERE / "runs" / run.name)


def results() -> Path:
    """Where runs are made: in the repository, so that their commands name no folder of this machine."""
    folder = ROOT / "results"
    folder.mkdir(exist_ok=True)
    return folder


def store(run: Path, place: Path) -> None:
    """The files of a run that everything else is made from."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in _KEPT:
        if (run / name).is_dir():
            shutil.copytree(run / name, place / name)
        elif (run / name).is_file():
            shutil.copy(run / name, place / name)
    print(f"{place}: {sum(each.stat().st_size for each in place.rglob('*') if each.is_file()) / 1000:.0f} KB")


if __name__ == "__main__":
    main(sys.argv[1:])
