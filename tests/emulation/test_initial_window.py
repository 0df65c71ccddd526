"""With how many packets a connection begins, and begins again once it was idle: read off a capture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.run import Run
from lab.kernel import Kernel
from tests.emulation.conftest import run_experiment

pytestmark = pytest.mark.lab

# Rounds begin up to a second after one another, long after a connection's window has been halved down to the first.
KEYS = ("senders=1", "delay=1ms", "rto_min=1ms", "rounds=4", "jitter=1s", "bytes=60KB", "telemetry=off")
PACKETS = 2
ROUND_TRIP_NS, IDLE_NS = 4_000_000, 100_000_000


def test_a_connection_begins_with_its_initial_window(kernel: Kernel, tmp_path: Path) -> None:
    words = [word for key in (*KEYS, f"initial_window={PACKETS}") for word in ("--set", key)]
    done = run_experiment(tmp_path / "run", "incast", "--only", *words)
    assert done.status == 0, done.stderr
    (flow,) = Run(done.folder).tcp_flows
    flights = np.split(flow.send_ns, np.flatnonzero(np.diff(flow.send_ns) > ROUND_TRIP_NS / 2) + 1)
    idle_ns = [later[0] - earlier[-1] for earlier, later in zip(flights, flights[1:])]
    rested = [later for silence_ns, later in zip(idle_ns, flights[1:]) if silence_ns > IDLE_NS]
    assert len(rested) >= 2
    assert {len(flight) for flight in (flights[0], *rested)} == {PACKETS}
    assert max(map(len, flights)) > 4 * PACKETS  # the window grows in between
