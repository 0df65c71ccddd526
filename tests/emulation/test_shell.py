"""`run_experiment shell`: the Mininet prompt on a terminal, which is given back as it was."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.kernel import Kernel
from tests.conftest import ROOT
from tests.emulation.host import children_of, processes_of_session, within

pytestmark = pytest.mark.lab

PROMPT = "mininet> "
LIMIT_S = 30.0


class Terminal:
    """A terminal with `./run_experiment shell WORDS` on it, driven as a person would."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(self.ours)
        command = ["setsid", "--ctty", "--wait", str(ROOT / "run_experiment"), "shell", *words, "--out", str(folder)]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder.parent)
        os.close(theirs)

    def read_until(self, text: str) -> str:
        """What appears on the terminal until `text` has."""
        seen = ""
        deadline_s = time.monotonic() + LIMIT_S
        while text not in seen:
            assert time.monotonic() < deadline_s, f"no {text!r} after {LIMIT_S:g} s, but {seen[-1000:]!r}"
            if select.select([self.ours], [], [], 1.0)[0]:
                seen += os.read(self.ours, 4096).decode()
        return seen

    def say(self, line: str) -> str:
        """Type a line; what the prompt answered before it came again."""
        os.write(self.ours, f"{line}\n".encode())
        return self.read_until(PROMPT)

    def end(self) -> int:
        try:
            return self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@contextmanager
def opened(folder: Path, *words: str) -> Iterator[Terminal]:
    found = Terminal(folder, *words)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.process.kill()
            found.process.wait()
        os.close(found.ours)


@pytest.fixture
def terminal(kernel: Kernel, tmp_path: Path) -> Iterator[Terminal]:
    with opened(tmp_path / "run", "--set", "senders=2") as found:
        yield found


def test_the_prompt_answers_and_gives_the_terminal_back(terminal: Terminal) -> None:
    terminal.read_until(PROMPT)
    assert re.search(r"^h1 h2 h3 leaf1\r?$", terminal.say("nodes"), re.MULTILINE)
    assert "1 packets transmitted, 1 received, 0% packet loss" in terminal.say("h1 ping -c 1 h2")
    assert "0% dropped (6/6 received)" in terminal.say("pingall")
    assert "inet 10.0.0.3/8" in terminal.say("h3 ip -4 addr show dev eth0")
    assert "leaf1-eth3" in terminal.say("leaf1 ip link")
    os.write(terminal.ours, b"exit\n")
    assert terminal.end() == 0
    assert termios.tcgetattr(terminal.ours) == terminal.before


def test_control_c_interrupts_the_command_and_not_the_shell(terminal: Terminal) -> None:
    terminal.read_until(PROMPT)
    os.write(terminal.ours, b"h1 ping h2\n")
    terminal.read_until("icmp_seq=3")
    os.write(terminal.ours, b"\x03")
    assert "packet loss" in terminal.read_until(PROMPT)
    os.write(terminal.ours, b"exit\n")
    assert terminal.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_killed_shell_leaves_nothing(terminal: Terminal, number: signal.Signals) -> None:
    terminal.read_until(PROMPT)
    (lab,) = children_of(terminal.process.pid)
    terminal.process.send_signal(number)
    assert terminal.end() != 0
    assert within(2, lambda: not processes_of_session(lab))
    if number != signal.SIGKILL:
        assert termios.tcgetattr(terminal.ours) == terminal.before


def test_a_link_goes_down_and_up_at_the_prompt(kernel: Kernel, tmp_path: Path) -> None:
    """With one spine the leaves are apart meanwhile."""
    words = ("--topology", "leaf_spine", "--set=leaves=2", "--set=hosts_per_leaf=1", "--set=spines=1")
    with opened(tmp_path / "run", *words) as terminal:
        terminal.read_until(PROMPT)
        assert "0% dropped (2/2 received)" in terminal.say("pingall")
        terminal.say("link leaf1 spine1 down")
        assert "100% dropped (0/2 received)" in terminal.say("pingall")
        terminal.say("link leaf1 spine1 up")
        terminal.say("sh sleep 1")
        assert "0% dropped (2/2 received)" in terminal.say("pingall")
        os.write(terminal.ours, b"exit\n")
        assert terminal.end() == 0
