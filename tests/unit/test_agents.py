"""The agents' process: it works until it is ended, keeps its records and tells of them; its failures are told too."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.agents import Agents
from controller.loop import Loop


class Ticker:
    """Counts milliseconds."""

    def __init__(self, loop: Loop, name: str, most: int = 10**9) -> None:
        self._loop, self._name, self._most, self._ticks = loop, name, most, 0
        self._tick()

    def _tick(self) -> None:
        self._ticks += 1
        if self._ticks > self._most:
            raise ValueError("too many ticks")
        self._loop.call_at(self._loop.now_ns() + 1_000_000, self._tick)

    def write(self, folder: Path) -> dict[str, Any]:
        (folder / self._name).write_text(f"{os.getpid()} {self._ticks}")
        return {self._name: self._ticks}


@contextmanager
def ticker(loop: Loop) -> Iterator[Ticker]:
    yield Ticker(loop, "one")


@contextmanager
def other(loop: Loop) -> Iterator[Ticker]:
    yield Ticker(loop, "two")


@contextmanager
def tired(loop: Loop) -> Iterator[Ticker]:
    yield Ticker(loop, "tired", most=2)


@contextmanager
def wide(loop: Loop) -> Iterator[Ticker]:
    class Wide(Ticker):
        def write(self, folder: Path) -> dict[str, Any]:
            return {"names": [f"port{number}" for number in range(50_000)]}

    yield Wide(loop, "wide")


@contextmanager
def broken(loop: Loop) -> Iterator[Ticker]:
    raise OSError("no such device")
    yield


def wait_for_a_tick() -> None:
    time.sleep(0.05)


def test_they_work_in_one_process_and_tell_what_they_have_kept(tmp_path: Path) -> None:
    with Agents([ticker, other], tmp_path) as agents:
        wait_for_a_tick()
    kept = {name: (tmp_path / name).read_text().split() for name in ("one", "two")}
    pids = {pid for pid, _ in kept.values()}
    assert len(pids) == 1
    assert pids != {str(os.getpid())}
    assert agents.facts == {name: int(ticks) for name, (_, ticks) in kept.items()}
    assert agents.facts["one"] > 2


def test_they_may_tell_more_than_a_pipe_holds(tmp_path: Path) -> None:
    with Agents([wide], tmp_path) as agents:
        pass
    assert len(agents.facts["names"]) == 50_000


def test_an_agent_that_cannot_start_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="the agents did not start"), Agents([ticker, broken], tmp_path):
        pytest.fail("the traffic began")
    assert "no such device" in capfd.readouterr().err


def test_an_agent_that_fails_is_told_at_the_end(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="the agents ended with status 1"), Agents([tired], tmp_path):
        wait_for_a_tick()
    assert "too many ticks" in capfd.readouterr().err


def test_ctrl_c_is_not_theirs(tmp_path: Path) -> None:
    with Agents([ticker], tmp_path) as agents:
        os.kill(agents.pid, signal.SIGINT)
        wait_for_a_tick()
    assert agents.facts["one"] > 2
