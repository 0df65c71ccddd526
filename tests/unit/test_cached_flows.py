"""Asking a switch to forget what it has cached, over a control socket that we hold the other end of."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from controller.cached_flows import forget


def answered(path: Path, error: str | None) -> tuple[threading.Thread, list[Any]]:
    """A control socket that answers one request as Open vSwitch does; what it was asked comes into the list."""
    asked: list[Any] = []
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        with listening, listening.accept()[0] as line:
            asked.append(json.loads(line.recv(4096)))
            line.sendall(json.dumps({"id": 0, "result": "", "error": error}).encode())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread, asked


def test_the_cache_is_purged_by_one_call(tmp_path: Path) -> None:
    thread, asked = answered(tmp_path / "ctl", error=None)
    forget(str(tmp_path / "ctl"))
    thread.join(5)
    assert asked == [{"id": 0, "method": "revalidator/purge", "params": []}]


def test_a_refusal_is_said(tmp_path: Path) -> None:
    answered(tmp_path / "ctl", error='"revalidator/purge" is not a valid command')
    with pytest.raises(OSError, match='revalidator/purge: "revalidator/purge" is not a valid command'):
        forget(str(tmp_path / "ctl"))


def test_a_switch_that_is_gone_cannot_be_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        forget(str(tmp_path / "ctl"))
