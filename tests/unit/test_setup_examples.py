"""`provision.sh examples`: optional packages, whose lack is told and is no failure."""

from __future__ import annotations

import pytest

from tests.unit.test_setup import Clone, Machine, provision
from tests.unit.test_setup import clone as clone
from tests.unit.test_setup import machine as machine

LISTED = "python3-torch"


@pytest.fixture
def lists(machine: Machine) -> None:
    """Package lists that have one of the packages alone."""
    machine.install("[!podv]*")
    machine.put("apt-cache", f'shift; [ $# = 1 ] && [ "$1" = {LISTED} ]')


def test_what_the_lists_do_not_have_is_told_and_left_out(clone: Clone, machine: Machine, lists: None) -> None:
    done = provision(clone, machine, "examples")
    assert done.returncode == 0, done.stderr
    for package in ("python3-mpi4py", "openmpi-bin", "vagrant", "debootstrap"):
        assert f"examples: {package} is in no package list of this machine: left out\n" in done.stdout
    assert [words for words in machine.asked if " install " in words and words.endswith(f" install {LISTED}")]
    assert not [words for words in machine.asked if "mpi" in words]


def test_without_a_network_it_is_done_without(clone: Clone, machine: Machine, lists: None) -> None:
    machine.no_network.touch()
    done = provision(clone, machine, "examples")
    assert done.returncode == 0
    lacking = "python3-torch python3-mpi4py openmpi-bin vagrant debootstrap"
    assert f"examples: done without {lacking} (the reason is above)\n" in done.stdout


def test_without_root_it_is_done_without(clone: Clone, machine: Machine, lists: None) -> None:
    machine.put("id", "echo 1000")
    done = provision(clone, machine, "examples")
    assert done.returncode == 0
    assert "not root, and no sudo here" in done.stderr
    assert machine.asked == []


def test_what_is_installed_is_left_alone(clone: Clone, machine: Machine) -> None:
    done = provision(clone, machine, "examples")
    assert (done.returncode, done.stdout) == (0, "examples: all 7 packages are installed already\n")
    assert machine.asked == []
