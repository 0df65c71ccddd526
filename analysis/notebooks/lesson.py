"""What the notebooks of this folder share: where their runs come from, and how their figures look.

A run is either stored in `runs/` beside this file, or made now: with LIVE = True in a notebook, or FABRICLAB_LIVE=1 in
the environment. New ones go to results/, or to the folder that FABRICLAB_NOTEBOOK_RUNS names.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # so that `analysis` is found wherever Jupyter was started

import matplotlib.pyplot as plt  # noqa: E402

from analysis import Run  # noqa: E402
from analysis.figures.style import GRID, INK  # noqa: E402

STORED = Path(__file__).parent / "runs"

plt.rcParams.update(
    {
        **{"figure.figsize": (8, 3.4), "figure.dpi": 110, "axes.grid": True, "axes.axisbelow": True},
        **{"grid.color": GRID, "axes.spines.top": False, "axes.spines.right": False, "axes.labelcolor": INK},
    }
)


def experiment(name: str, words: str, live: bool = False) -> Run:
    """The run of `./run_experiment WORDS`: the stored one of this name, or a new one where `live` (or the environment)
    asks for it. Raises RuntimeError for a run that failed, and where the stored one was made by other words."""
    if live or os.environ.get("FABRICLAB_LIVE") == "1":
        return Run(_made(name, words))
    return Run(_stored(name, words))


def _stored(name: str, words: str) -> Path:
    """The folder of the stored run."""
    folder = STORED / name
    told = folder / "provenance.json"
    command = json.loads(told.read_text(encoding="utf-8"))["command"] if told.is_file() else []
    if asked(command) != shlex.split(words):
        raise RuntimeError(
            f"{name}: there is no stored run of `./run_experiment {words}`; set LIVE = True to make it now"
        )
    print(f"{name}: stored run of ./run_experiment {words}")
    return folder


def asked(command: list[str]) -> list[str]:
    """The words of a run's command, without the program and without where it was to go."""
    words = command[1:]
    place = words.index("--out") if "--out" in words else len(words)
    return [*words[:place], *words[place + 2 :]]


def _made(name: str, words: str) -> Path:
    """The folder of a new run."""
    chosen = os.environ.get("FABRICLAB_NOTEBOOK_RUNS")
    place = Path(chosen) / name if chosen else Path("results") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    print(f"{name}: ./run_experiment {words} --out {place}")
    command = ["./run_experiment", *shlex.split(words), "--out", str(place)]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"./run_experiment {words}: exit status {done.returncode}\n{done.stderr.strip()}")
    return ROOT / place
