"""How late this machine itself wakes a program: what no lab on it can be better than."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from analysis.shaping import percentile_99

NAP_S = 0.002


@contextmanager
def machine_lateness_ns() -> Iterator[list[int]]:
    """By how many ns this machine's own kernel was late to end each of a thread's naps, at the priority the lab has
    (lab.session), while the block ran."""
    late_ns: list[int] = []
    ended = threading.Event()
    watch = threading.Thread(target=_nap, args=(late_ns, ended), daemon=True)
    watch.start()
    try:
        yield late_ns
    finally:
        ended.set()
        watch.join()


def usual_worst_ns(late_ns: list[int]) -> float:
    """What 99 naps in 100 stayed below."""
    return percentile_99(np.array(late_ns))


def _nap(late_ns: list[int], ended: threading.Event) -> None:
    if os.geteuid() == 0:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
    while not ended.is_set():
        began_ns = time.monotonic_ns()
        time.sleep(NAP_S)
        late_ns.append(time.monotonic_ns() - began_ns - round(NAP_S * 1e9))
