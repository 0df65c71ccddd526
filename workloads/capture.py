"""tcpdump on interfaces of the fabric: started before the traffic, stopped after it, its own account of losses kept."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Ethernet, IP and TCP with timestamps and three SACK blocks, or UDP and the longest RoCE headers; a whole PFC frame.
SNAP_BYTES = 100
# The kernel hands a block of packets over when it is full, or when its timer finds it unchanged since the last time
# (net/packet/af_packet.c): up to two periods, and tcpdump asks for 1 s.
_DRAIN_S = 2.1
_DROPPED = re.compile(r"(\d+) packets? dropped by kernel")
_CAPTURED = re.compile(r"(\d+) packets? captured")


@dataclass(frozen=True)
class Point:
    """Where to capture: file name stem, interface, the words that enter its namespace, and tcpdump's ring in KiB."""

    name: str
    interface: str
    enter: tuple[str, ...] = ()
    ring_kib: int = 2048


class Capture:
    """Captures at all `points` into `folder`, as a context manager; afterwards `losses` maps each point to
    packets lost by the capture. Raises RuntimeError when a tcpdump cannot start, or has failed meanwhile."""

    def __init__(self, points: Sequence[Point], folder: Path) -> None:
        self.points, self.folder = points, folder
        self.captured: dict[str, int] = {}
        self.losses: dict[str, int] = {}
        self._running: list[tuple[Point, subprocess.Popen[str]]] = []

    def __enter__(self) -> Capture:
        try:
            for point in self.points:
                self._running.append((point, self._start(point)))
            for point, process in self._running:
                self._await_listening(point, process)
        except BaseException:
            for _, process in self._running:
                process.kill()
                process.communicate()
            raise
        return self

    def _start(self, point: Point) -> subprocess.Popen[str]:
        # -Z root: giving up root would make tcpdump chown its file, which an ordinary user's folder refuses.
        options = ["-s", str(SNAP_BYTES), "--time-stamp-precision=nano", "-B", str(point.ring_kib), "-Z", "root", "-n"]
        file = self.folder / f"{point.name}.pcap"
        words = [*point.enter, "tcpdump", "-i", point.interface, *options, "-w", str(file)]
        return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)

    @staticmethod
    def _await_listening(point: Point, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            if "listening on" in line:
                return
            lines.append(line.strip())
        raise RuntimeError(f"tcpdump on {point.interface} did not start: {lines[0] if lines else 'without a word'}")

    def __exit__(self, *exc: object) -> None:
        time.sleep(_DRAIN_S)
        for _, process in self._running:
            process.send_signal(signal.SIGINT)
        failures = []
        for point, process in self._running:
            account = process.communicate()[1]
            self.losses[point.name] = _count(_DROPPED, account)
            self.captured[point.name] = _count(_CAPTURED, account)
            if process.returncode:
                first = account.strip().partition("\n")[0]
                failures.append(f"tcpdump on {point.interface} failed: {first or process.returncode}")
        if failures and exc == (None, None, None):
            raise RuntimeError(failures[0])


def _count(pattern: re.Pattern[str], account: str) -> int:
    match = pattern.search(account)
    return int(match.group(1)) if match else 0
