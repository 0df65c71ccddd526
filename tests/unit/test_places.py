"""Where a run takes place, what this machine's own kernel needs for it, and what is said where it cannot."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments import limits, own_kernel
from experiments.own_kernel import Obstacle, beyond, machine_obstacles
from experiments.places import check_idle, check_virtual, real_place
from experiments.spec import Spec, parse
from lab import ledger
from lab.kernel import Kernel
from topologies import ground as grounds
from topologies import trial
from topologies.ground import LAB_REAL, NETDEV, STOCK_KINDS, SYSTEM, Ground
from topologies.units import BadRequest

KERNEL = Kernel.__new__(Kernel)  # that there is one is all that counts
STOCK = grounds.own_kernel(STOCK_KINDS, tick_ns=4_000_000, datapath=SYSTEM)
STILL = {"delay": "0ns", "switch_delay": "0ns"}
BARE = replace(STOCK, kinds=frozenset(("tbf", "bfifo")))


def spec(**keys: Any) -> Spec:
    return limits.resolve(parse({"senders": 8, "rate": "100Mbps", **keys}))


@pytest.fixture
def fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which root may do everything, with a stock kernel."""
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool, path: f"/usr/bin/{tool}")
    monkeypatch.setattr(trial, "here", lambda: STOCK)
    monkeypatch.setattr(trial, "has_algorithm", lambda name: name != "dctcp")
    monkeypatch.setattr(own_kernel, "_other_mininet", lambda: iter(()))
    monkeypatch.setattr(ledger, "FOLDER", tmp_path / "none")
    monkeypatch.setattr(ledger, "NAMES", tmp_path / "netns")


# --- this machine's own kernel


def test_a_fit_machine_has_no_obstacles(fit: None) -> None:
    assert machine_obstacles() == []
    assert real_place(None, [spec()], KERNEL) == ("machine", "")
    assert real_place("machine", [spec()], None) == ("machine", "")
    assert real_place("lab", [spec()], KERNEL) == ("lab", "")


@pytest.mark.parametrize(
    ("where", "what", "value", "said"),
    [
        (os, "geteuid", lambda: 1000, ("this user is not root", "sudo")),
        (platform, "system", lambda: "Darwin", ("this is Darwin", "vagrant up")),
        (shutil, "which", lambda tool, path: None, ("there is no Open vSwitch", "apt-get install openvswitch-switch")),
        (trial, "here", lambda: (_ for _ in ()).throw(PermissionError(1, "no")), ("namespaces cannot be made", "VM")),
    ],
)
def test_what_is_in_the_way_is_told_with_the_fix(
    fit: None, monkeypatch: pytest.MonkeyPatch, where: Any, what: str, value: Any, said: tuple[str, str]
) -> None:
    monkeypatch.setattr(where, what, value)
    (found,) = machine_obstacles()
    assert said[0] in found.what and said[1] in found.fix
    with pytest.raises(BadRequest, match=r"^clock: real is given, and .*; allowed: .*--on lab, or --clock virtual"):
        real_place("machine", [spec()], KERNEL)
    with pytest.raises(BadRequest, match=r"; allowed: .*, or --clock virtual"):
        real_place(None, [spec()], None)
    place, told = real_place(None, [spec()], KERNEL)
    assert place == "lab" and told.startswith("real clock: in the lab kernel (") and said[0] in told


def test_what_measures_this_machine_waits_until_it_is_free(fit: None, monkeypatch: pytest.MonkeyPatch) -> None:
    check_idle()
    monkeypatch.setattr(own_kernel, "_other_mininet", lambda: iter([Obstacle("another runs", "after its end", True)]))
    with pytest.raises(BadRequest, match=r"^--on: not given, and another runs; allowed: after its end, or --on lab"):
        check_idle()
    monkeypatch.setattr(shutil, "which", lambda tool, path: None)  # the lab's answer is the right one here
    check_idle()


def test_a_switch_without_its_module_needs_the_compiler(fit: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "here", lambda: replace(STOCK, datapath=NETDEV))
    assert machine_obstacles() == []
    monkeypatch.setattr(shutil, "which", lambda tool, path: None if tool == "gcc" else f"/usr/bin/{tool}")
    (found,) = machine_obstacles()
    assert found.what.endswith("nor gcc here") and found.fix == "apt-get install gcc"


def test_several_obstacles_are_one_line(fit: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda tool, path: None)
    assert len(machine_obstacles()) == 2
    place, told = real_place(None, [spec()], KERNEL)
    assert place == "lab" and len(told.splitlines()) == 1
    assert "not root and there is no Open vSwitch" in told and "sudo and apt-get install openvswitch-switch" in told


def test_a_name_that_is_not_ours_is_in_the_way(fit: None) -> None:
    ledger.NAMES.mkdir()
    (ledger.NAMES / "other").touch()
    assert machine_obstacles() == []
    (ledger.NAMES / "fl-h3").touch()
    assert machine_obstacles() == [
        Obstacle("the network name fl-h3 is taken, not by a run of ours", "ip netns delete fl-h3")
    ]
    with ledger.locked(ledger.FOLDER, ledger.NAMES) as left:
        left.note(name="fl-h3", inode=7)
    assert machine_obstacles() == []  # what a killed run has left is removed by the next
    (ledger.NAMES / "fl-h4").touch()
    assert [each.what for each in machine_obstacles()] == ["the network name fl-h4 is taken, not by a run of ours"]


def test_another_session_is_in_the_way(fit: None) -> None:
    with ledger.locked(ledger.FOLDER, ledger.NAMES):
        (found,) = machine_obstacles()
    assert f"(process {os.getpid()})" in found.what


# --- what a kernel cannot do of a spec


@pytest.mark.parametrize(
    ("ground", "keys", "refused"),
    [
        (STOCK, {}, []),
        (STOCK, {"queue": "dctcp"}, ["cc"]),
        (STOCK, {"queue": "red"}, []),
        (STOCK, {"rto_min": "1ms"}, ["rto_min"]),
        (STOCK, {"rto_min": "8ms"}, []),
        (STOCK, {"transport": "roce", "pfc": "on"}, ["pfc", "transport"]),
        (BARE, {**STILL, "traffic_class": "lossless"}, ["traffic_class"]),
        (BARE, {}, ["delay, switch_delay"]),
        (BARE, STILL, []),
        (BARE, {**STILL, "lossy_link": "h2:0.1"}, ["delay, switch_delay"]),
        (BARE, {**STILL, "queue": "red"}, ["queue"]),
        (LAB_REAL, {"transport": "roce", "pfc": "on"}, []),
        (LAB_REAL, {"rto_min": "1ms"}, []),
    ],
)
def test_what_a_kernel_lacks_is_refused_by_key(
    fit: None, ground: Ground, keys: dict[str, str], refused: list[str]
) -> None:
    assert [key for key, _, _ in beyond(spec(**keys), ground)] == refused


def test_a_spec_that_does_not_fit_goes_to_the_lab_or_nowhere(fit: None) -> None:
    odd = spec(rto_min="1ms")
    assert real_place(None, [spec(), odd], KERNEL)[0] == "lab"
    with pytest.raises(
        BadRequest, match=r"^rto_min: 1ms is given; allowed: whole timer ticks of this kernel, 4ms each"
    ):
        real_place("machine", [spec(), odd], KERNEL)
    with pytest.raises(BadRequest, match=r"^--on: lab is given, and there is no lab kernel"):
        real_place("lab", [spec()], None)


# --- the virtual clock


def test_the_virtual_clock_needs_the_lab_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_virtual(KERNEL) is KERNEL
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    with pytest.raises(RuntimeError, match=r"\./run_experiment kernel build"):
        check_virtual(None)


@pytest.mark.parametrize(("system", "machine"), [("Linux", "aarch64"), ("Darwin", "arm64")])
def test_elsewhere_the_vm_and_the_real_clock_are_offered(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(
        BadRequest, match=rf"^clock: virtual is given on {system} {machine}, .*--clock real.*vagrant up"
    ):
        check_virtual(None)
