"""Queue samples: a process that watches one port's queue every microsecond while it is busy, and sleeps while
it is idle.

It wakes by the traffic itself (a packet tap on the port), so an idle network costs nothing and no burst is
missed. In virtual time a sample takes no time, so watching does not change what is watched.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import socket
import struct
import time
import traceback
from array import array
from itertools import count
from pathlib import Path

from topologies.live_queues import Probe

COLUMNS = ("time_ns", "queue_bytes", "queue_packets", "drops", "marks")
_PERIOD_S = 1e-6
_SAMPLES_PER_FRAME = 4  # on a slow link, where a frame lasts longer than that, more would only repeat each other
_STOP_CHECK_SAMPLES = 256
_IDLE_SAMPLES = 20
_ETH_P_ALL = 0x0003
_PR_SET_TIMERSLACK, _PR_SET_PDEATHSIG = 29, 1
_SO_ATTACH_FILTER = 26
_BPF_RETURN = 0x06  # BPF_RET | BPF_K, linux/bpf_common.h
_LIBC = ctypes.CDLL(None)


class QueueSampler:
    """Samples qdisc `handle` of port `interface` into `file` (rows of five int64, see COLUMNS); a context
    manager around the traffic."""

    def __init__(
        self, interface: str, ifindex: int, handle: int, file: Path, frame_ns: int = 0, least_period_ns: int = 0
    ) -> None:
        """`frame_ns`: how long a frame lasts on the link; `least_period_ns`: of two samples."""
        self._interface, self._ifindex, self._handle, self._file = interface, ifindex, handle, file
        self._period_s = max(_PERIOD_S, frame_ns / _SAMPLES_PER_FRAME / 1e9, least_period_ns / 1e9)
        self._pid = 0

    def __enter__(self) -> QueueSampler:
        ready, tell = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                os.close(ready)
                self._watch(tell)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(tell)
        is_ready = os.read(ready, 1)
        os.close(ready)
        if not is_ready:
            os.waitpid(self._pid, 0)
            raise RuntimeError(f"the queue sampler of {self._interface} did not start")
        return self

    def __exit__(self, *exc: object) -> None:
        os.kill(self._pid, signal.SIGTERM)
        _, status = os.waitpid(self._pid, 0)
        if status:
            raise RuntimeError(
                f"the queue sampler of {self._interface} ended with status {os.waitstatus_to_exitcode(status)}"
            )

    def _watch(self, tell: int) -> None:
        """The child: until SIGTERM, then write what was seen."""
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _LIBC.prctl(_PR_SET_TIMERSLACK, 1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
        stop = _stop_descriptor()
        samples = array("q")
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)) as tap:
            tap.bind((self._interface, _ETH_P_ALL))
            tap.setblocking(False)
            probe = Probe(self._ifindex, self._handle)
            os.write(tell, b"+")
            os.close(tell)
            waiter = select.poll()  # select() knows no descriptor above 1,023, and a fabric has many open
            for descriptor in (tap.fileno(), stop):
                waiter.register(descriptor, select.POLLIN)
            while stop not in (descriptor for descriptor, _ in waiter.poll()):
                accept(tap, False)
                self._sample_while_busy(probe, samples, waiter, stop)
                accept(tap, True)
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


def _stop_descriptor() -> int:
    """Readable once SIGTERM has come."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGTERM, lambda *_: None)
    return reader


def accept(tap: socket.socket, everything: bool) -> None:
    """Let the tap see one byte of each packet, or nothing: while sampling runs, its copies would only cost."""
    program = ctypes.create_string_buffer(struct.pack("=HBBI", _BPF_RETURN, 0, 0, int(everything)))
    tap.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(program)))


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
