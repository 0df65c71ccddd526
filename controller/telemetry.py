"""Queue samples: a process that watches one port's queue every microsecond while it is busy, and sleeps while
it is idle.

It wakes by the traffic itself (a packet tap on the port), so an idle network costs nothing and no burst is
missed. In virtual time a sample takes no time, so watching does not change what is watched.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from array import array
from collections.abc import Callable
from itertools import count
from pathlib import Path

from controller import bpf, child
from topologies.live_queues import Probe

COLUMNS = ("time_ns", "queue_bytes", "queue_packets", "drops", "marks")
_PERIOD_S = 1e-6
_SAMPLES_PER_FRAME = 4  # on a slow link, where a frame lasts longer than that, more would only repeat each other
_STOP_CHECK_SAMPLES = 256
_IDLE_SAMPLES = 20
_ETH_P_ALL = 0x0003


class QueueSampler:
    """Samples qdisc `handle` of port `interface` into `file` (rows of five int64, see COLUMNS); a context
    manager around the traffic."""

    def __init__(
        self, interface: str, ifindex: int, handle: int, file: Path, frame_ns: int = 0, least_period_ns: int = 0
    ) -> None:
        """`frame_ns`: how long a frame lasts on the link; `least_period_ns`: of two samples."""
        self._interface, self._ifindex, self._handle, self._file = interface, ifindex, handle, file
        self._period_s = max(_PERIOD_S, frame_ns / _SAMPLES_PER_FRAME / 1e9, least_period_ns / 1e9)
        self._child = child.Child(f"the queue sampler of {interface}", self._watch)

    def __enter__(self) -> QueueSampler:
        self._child.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._child.__exit__(*exc)

    def _watch(self, is_ready: Callable[[], None]) -> None:
        """The child: until SIGTERM, then write what was seen."""
        stop = child.settle()
        samples = array("q")
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)) as tap:
            tap.bind((self._interface, _ETH_P_ALL))
            tap.setblocking(False)
            probe = Probe(self._ifindex, self._handle)
            is_ready()
            waiter = select.poll()  # select() knows no descriptor above 1,023, and a fabric has many open
            for descriptor in (tap.fileno(), stop):
                waiter.register(descriptor, select.POLLIN)
            while stop not in (descriptor for descriptor, _ in waiter.poll()):
                bpf.attach(tap, bpf.NOTHING)  # while sampling runs, copies of packets would only cost
                self._sample_while_busy(probe, samples, waiter, stop)
                bpf.attach(tap, bpf.ONE_BYTE)
                drain(tap)
        with open(self._file, "wb") as file:
            samples.tofile(file)

    def _sample_while_busy(self, probe: Probe, samples: array[int], waiter: select.poll, stop: int) -> None:
        """One row a period until the queue has been empty for a while; the empty tail is cut to one row."""
        idle = 0
        for number in count():
            row = probe.read()
            if row[0] or not idle:
                samples.extend((time.time_ns(), *row))
            idle = 0 if row[0] else idle + 1
            if idle >= _IDLE_SAMPLES or (number % _STOP_CHECK_SAMPLES == 0 and stop in dict(waiter.poll(0))):
                return
            time.sleep(self._period_s)


def drain(tap: socket.socket) -> None:
    """Read a tap empty."""
    while True:
        try:
            tap.recv(1)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENETDOWN:  # told once when the port goes down; it may come up again
                raise
