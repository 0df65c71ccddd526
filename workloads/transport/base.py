"""The interface between workloads and transports."""

from __future__ import annotations

from typing import Protocol


class AnyConnection(Protocol):
    """One established, one-way flow `name` of bytes from host `sender` to host `receiver`, driven by an event loop.

    `send_descriptor` is writable when the sender can hand over more; `receive_descriptor` is readable when there is
    something to receive or to see to.
    """

    name: str
    sender: str
    receiver: str
    send_descriptor: int
    receive_descriptor: int

    def expect(self, remaining_bytes: int) -> None:
        """Say how much is still to come, so that the receiver is not woken for less than is worth it."""

    def describe(self) -> dict[str, object]:
        """Facts for the run directory: end points and the transport's own counters."""

    def close(self) -> None:
        """End the flow."""


class Connection(AnyConnection, Protocol):
    """A flow whose bytes nobody reads."""

    def send(self, limit_bytes: int) -> int:
        """Hand up to `limit_bytes` to the transport; returns how many it took, 0 when it is full."""

    def receive(self) -> int:
        """Take what has arrived; returns the number of bytes, 0 when there is nothing. Raises ConnectionError
        when the flow is dead."""


class DataConnection(AnyConnection, Protocol):
    """A flow that carries bytes that somebody reads: what is put at its sender is taken, in order, at its receiver.

    `expect` says how many bytes the receiver will take next; it is woken when so many are there, or a part that is
    worth it.
    """

    def put(self, data: memoryview) -> int:
        """Hand bytes to the transport, which has its own copy then; returns how many it took, 0 when it is full."""

    def take(self, into: memoryview) -> int:
        """Fill `into` from what has arrived; returns the number of bytes, 0 when there is nothing. Raises
        ConnectionError when the flow is dead."""
