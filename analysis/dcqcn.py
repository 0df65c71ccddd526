"""DCQCN as the agents of the NICs noted it: congestion notification packets (CNPs) sent and received, and the rate and
alpha of every queue pair (Zhu et al., SIGCOMM 2015, section 5)."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from analysis.parquet import read_columns

CNP_RECEIVED, RATE, CNP_SENT = "cnp_received", "rate", "cnp_sent"


@dataclass(frozen=True, eq=False)
class RateSeries:
    """Changes (n,) of one queue pair in order of time, each of which holds until the next: rate and target rate in
    bits/s, and alpha, the share by which the next cut halves it."""

    queue_pair: str
    time_ns: np.ndarray
    rate_bps: np.ndarray
    alpha: np.ndarray
    target_bps: np.ndarray

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True, eq=False)
class DcqcnLog:
    """Events (n,) of all queue pairs in order of time."""

    time_ns: np.ndarray
    queue_pair: np.ndarray
    event: np.ndarray
    rate_bps: np.ndarray
    alpha: np.ndarray
    target_bps: np.ndarray

    def count(self, event: str) -> int:
        """How often all queue pairs noted an event."""
        return int(np.sum(self.event == event))

    def times_ns(self, event: str) -> np.ndarray:
        """When any queue pair noted an event."""
        return self.time_ns[self.event == event]

    def rates(self) -> dict[str, RateSeries]:
        """The changes of every queue pair whose rate ever changed: cuts, noted with their CNPs, and rises."""
        found = {}
        changed = np.isin(self.event, (RATE, CNP_RECEIVED))
        for name in dict.fromkeys(self.queue_pair[changed].tolist()):
            rows = changed & (self.queue_pair == name)
            found[name] = RateSeries(
                name, self.time_ns[rows], self.rate_bps[rows], self.alpha[rows], self.target_bps[rows]
            )
        return found


def read_dcqcn(path: str | os.PathLike[str]) -> DcqcnLog:
    """The log in a dcqcn.parquet; raises BadRequest naming the file and what is wrong with it."""
    numbers = ("time_ns", "rate_bps", "alpha", "target_bps")
    columns = read_columns(path, ("queue_pair", "event"), numbers, "DCQCN events")
    return DcqcnLog(**columns)
