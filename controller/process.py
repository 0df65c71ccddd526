"""The controller as a process beside the switches: started, awaited, read, and stopped."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from controller.policy import Orders

_STOP_WAIT_S = 5.0
_LIMIT_S = 300.0
_POLL_S = 0.001
_ROOT = Path(__file__).resolve().parent.parent


class ControllerFailed(RuntimeError):
    """The controller did not get as far as it should have; the message is one line."""


class Controller:
    """A controller with its orders, as a context manager.

    `target` is what a bridge is to connect to; `commands` the path of the Unix datagram socket that it takes commands
    by (see `controller.commands`), from "ready" on. `events` are the JSON documents that the application has told so
    far, in order; `news` reads more of them; `ended_ns` is when it ended (CLOCK_REALTIME), None while it runs. It runs
    with this process's Python.
    """

    def __init__(self, orders: Orders, openflow: str = "1.5") -> None:
        self.orders, self.openflow = orders, openflow
        self.port = _free_port()
        self.target = f"tcp:127.0.0.1:{self.port}"
        self.events: list[dict[str, Any]] = []
        self.started_ns = 0
        self.ended_ns: int | None = None
        self._partial = b""

    def __enter__(self) -> Controller:
        self._folder = tempfile.TemporaryDirectory(prefix="fabriclab-controller-")
        names = ("orders.json", "events", "log", "commands")
        orders, events, self._log, self.commands = (Path(self._folder.name, name) for name in names)
        orders.write_text(json.dumps(self.orders.as_json()))
        events.touch()
        self._reader = events.open("rb")
        words = [sys.executable, "-m", "controller.launch", str(orders), "--port", str(self.port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*words, "--events", str(events), "--commands", str(self.commands), "--openflow", self.openflow],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                start_new_session=True,
            )
        self.started_ns = time.time_ns()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def _watch(self) -> None:
        self._process.wait()
        self.ended_ns = time.time_ns()

    def __exit__(self, *exc: object) -> None:
        if self.alive:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_WAIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._watcher.join()
        self.news()
        self._reader.close()
        self._folder.cleanup()

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()

    @property
    def framework(self) -> str:
        """Name and version of the OpenFlow framework that it runs on, as it told when it was ready."""
        return str(next((each["framework"] for each in self.events if each["event"] == "ready"), "unknown"))

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def news(self) -> list[dict[str, Any]]:
        """The events told since the last call."""
        *lines, self._partial = (self._partial + self._reader.read()).split(b"\n")
        found = [json.loads(line) for line in lines]
        self.events += found
        return found

    def check(self) -> None:
        """Raises ControllerFailed when a switch has refused an order, or a handler has failed."""
        for each in self.events:
            if each["event"] == "error":
                raise ControllerFailed(f"the controller failed at switch {each['switch']}: {each['what']}")

    def wait_for(self, event: str, limit_s: float = _LIMIT_S) -> dict[str, Any]:
        """The first event of this name, told already or waited for; raises ControllerFailed when the controller ends
        first, tells of an error, or takes longer than `limit_s`."""
        deadline_s = time.monotonic() + limit_s
        while True:
            alive = self.alive  # before the news: what it has told until its end counts
            self.news()
            for each in self.events:
                if each["event"] == event:
                    return each
            self.check()
            if not alive:
                raise ControllerFailed(f"the controller ended before it was {event}: {self._last_words()}")
            if time.monotonic() > deadline_s:
                raise ControllerFailed(f"the controller was not {event} within {limit_s:g} s: {self._last_words()}")
            time.sleep(_POLL_S)

    def _last_words(self) -> str:
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "without a word"


def _free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
