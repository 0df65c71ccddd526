"""TCP's handshake where packets are lost: it ends."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from workloads.transport import tcp


@pytest.fixture
def fabric(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hosts that are all this one."""
    monkeypatch.setattr(tcp, "_socket_of", lambda fabric, host, dscp: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    monkeypatch.setattr(tcp, "PORT", 0)
    monkeypatch.setattr(tcp, "_HANDSHAKE_LIMIT_S", 0.05)
    here = SimpleNamespace(IP=lambda: "127.0.0.1")
    return SimpleNamespace(nameToNode={"h1": here, "h2": here})


@pytest.fixture
def listener(fabric: Any) -> Iterator[socket.socket]:
    with tcp._listener(fabric, "h1", 0) as made:
        yield made


def test_a_handshake_of_which_half_is_lost_is_given_up(fabric: Any, listener: socket.socket) -> None:
    """The sender is connected, to a queue that the receiver will never see it in."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        half = SimpleNamespace(getsockname=other.getsockname, accept=listener.accept)
        with pytest.raises(OSError, match="h2 cannot connect to h1: half of a handshake was lost") as error:
            tcp._handshake(fabric, "h2", "h1", half, 0, 0)  # type: ignore[arg-type]
    assert error.value.errno == errno.ETIMEDOUT


def test_a_whole_handshake_gives_two_ends_that_do_not_block(fabric: Any, listener: socket.socket) -> None:
    sending, receiving = tcp._handshake(fabric, "h2", "h1", listener, 0, 0)
    with sending, receiving:
        assert sending.getpeername() == receiving.getsockname()
        assert not sending.getblocking()
        assert not receiving.getblocking()
