"""Lines for the controller: read back as they were meant, or refused in words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.commands import Command, Mark, Pause, Switches, parse

NAMES = st.from_regex(r"[a-z]{1,6}[0-9]{1,4}", fullmatch=True)
PORTS = st.integers(1, 1000)
COMMANDS = st.one_of(
    st.builds(Pause, NAMES, PORTS, st.integers(0, 65535)),
    st.builds(Mark, NAMES, PORTS, st.booleans()),
    st.builds(Switches, st.from_regex(r"(/[a-z0-9.-]{1,9}){1,5}", fullmatch=True)),
)


@given(COMMANDS)
def test_a_command_is_read_back(command: Command) -> None:
    assert parse(command.encode()) == command


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (b"pause leaf1 3 65535", Pause("leaf1", 3, 65535)),
        (b"pause leaf1 3 0", Pause("leaf1", 3, 0)),
        (b"mark spine2 1 on", Mark("spine2", 1, True)),
        (b"mark spine2 1 off", Mark("spine2", 1, False)),
        (b"openvswitch /tmp/run/ovs-vswitchd.ctl", Switches("/tmp/run/ovs-vswitchd.ctl")),
    ],
)
def test_lines_by_hand(line: bytes, command: Command) -> None:
    assert parse(line) == command
    assert command.encode() == line


@pytest.mark.parametrize(
    "line",
    [
        b"", b"pause", b"pause leaf1 3", b"pause leaf1 three 5", b"pause leaf1 3 65536", b"pause leaf1 3 -1",
        b"pause leaf1 3 5 6", b"mark leaf1 3", b"mark leaf1 3 maybe", b"mark leaf1 x on", b"openvswitch", b"dance",
        b"\xff\xfe",
    ],
)  # fmt: skip
def test_any_other_line_is_refused_and_said(line: bytes) -> None:
    with pytest.raises(ValueError, match=f"command: {re.escape(repr(line))} is given; allowed: pause SWITCH PORT"):
        parse(line)
