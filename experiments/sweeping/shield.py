"""What a local worker does first (dask's `preload`): Ctrl-C at the terminal is its parent's to hear, its words go to
the sweep's log, and what a run needs is loaded before the first."""

from __future__ import annotations

import os
from typing import Any

import dask

import experiments.sweeping.worker  # noqa: F401

LOG = "fabriclab.sweep.log"  # dask's configuration is handed to the workers


def dask_setup(worker: Any) -> None:
    """As dask asks for it."""
    os.setpgid(0, 0)
    log = os.open(dask.config.get(LOG), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
