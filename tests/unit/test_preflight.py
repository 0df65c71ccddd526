"""What `run_experiment check` concludes from what it finds, and what it says of machines that lack something."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from experiments import preflight
from experiments.own_kernel import Obstacle
from experiments.preflight import BOTH, Check, runnable
from topologies.ground import LAB, MACHINE, NETDEV, STOCK_KINDS, own_kernel

IN_THE_LAB = ["--clock virtual", "--clock real --on lab"]
ON_THE_MACHINE = ["--clock real --on machine"]


def found(*missing: str, needed: bool = True) -> list[Check]:
    """One requirement of each place; those of `missing` are not met."""
    return [Check(f"for {place}", place, place not in missing, "", is_needed=needed) for place in (BOTH, LAB, MACHINE)]


@pytest.mark.parametrize(
    ("missing", "ways"),
    [
        ((), IN_THE_LAB + ON_THE_MACHINE),
        ((MACHINE,), IN_THE_LAB),
        ((LAB,), ON_THE_MACHINE),
        ((BOTH,), []),
        ((LAB, MACHINE), []),
    ],
)
def test_what_runs_is_what_nothing_is_missing_for(missing: Sequence[str], ways: list[str]) -> None:
    assert runnable(found(*missing)) == ways


def test_what_can_be_done_without_keeps_nothing_from_running() -> None:
    lacking = found(LAB, MACHINE, needed=False)
    assert runnable(lacking) == IN_THE_LAB + ON_THE_MACHINE
    assert [check.mark for check in lacking] == ["ok", "lacking", "lacking"]


def test_another_processor_is_sent_to_the_real_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.platform, "machine", lambda: "aarch64")
    check = preflight._platform()
    assert (check.holds, check.seen) == (False, "Linux aarch64")
    assert "use --clock real" in check.fix
    assert runnable([check, *found()]) == ON_THE_MACHINE


def test_every_obstacle_is_told_with_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    obstacles = [Obstacle("this user is not root", "sudo"), Obstacle("no switch", "apt-get install switch")]
    monkeypatch.setattr(preflight, "machine_obstacles", lambda: obstacles)
    assert [(check.seen, check.fix, check.mark) for check in preflight._own_kernel()] == [
        ("this user is not root", "sudo", "MISSING"),
        ("no switch", "apt-get install switch", "MISSING"),
    ]


def test_a_kernel_without_netem_runs_specs_that_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ground = own_kernel(STOCK_KINDS - {"netem", "red"}, tick_ns=4_000_000, datapath=NETDEV)
    monkeypatch.setattr(preflight, "machine_obstacles", list)
    monkeypatch.setattr(preflight.trial, "here", lambda: ground)
    kernel, queues = preflight._own_kernel()
    assert kernel.holds and "Open vSwitch is a process" in kernel.seen
    assert (queues.mark, queues.seen) == ("lacking", "without netem, red")
    assert "sch_netem sch_red" in queues.fix


def test_a_kernel_without_a_rate_limiter_runs_nothing() -> None:
    assert preflight._kinds(STOCK_KINDS - {"tbf"}).mark == "MISSING"
