"""The controller's own life: switches without it, runs in which it dies, and runs in which it does not come up."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments import limits, rundir
from experiments.runner import guest_environment
from experiments.spec import parse
from lab.kernel import Kernel
from tests.conftest import run_in_lab
from tests.emulation.conftest import Inside, run_experiment

pytestmark = pytest.mark.lab

SMALL = {"topology": "leaf_spine", "leaves": 2, "hosts_per_leaf": 2, "spines": 2, "workload": "pings", "capture": "off"}
# In the half second after the loss of its controller Open vSwitch takes up to 5 ms to go round a dead port: it looks at
# the flows that it has cached anew no sooner after the last time (revalidators, ofproto-dpif-upcall.c).
CACHE_NS = 5_000_000
WORDS = (
    "topology=leaf_spine", "leaves=3", "hosts_per_leaf=6", "spines=2", "workload=streams", "delay=5us",
    "interval=10us", "duration=20ms", "capture=off", "telemetry=off",
)  # fmt: skip


def run_streams(folder: Path, failure: str, *more: str) -> Any:
    """measured.json of a run of streams in which something fails."""
    words = (*WORDS, f"failure={failure}", *more)
    done = run_experiment(folder, "failover", "--only", *(f"--set={word}" for word in words))
    assert done.status == 0, done.stderr
    assert done.host_after == done.host_before
    measured = done.document("measured.json")
    assert measured["complete"] is True
    return measured


# --- it dies


def test_a_fabric_goes_on_without_its_controller(kernel: Kernel, tmp_path: Path) -> None:
    measured = run_streams(tmp_path / "run", "controller:down@5ms")
    (killed,) = measured["failures"]
    assert (killed["target"], killed["in_flight"]) == ("controller", {})
    assert measured["controller"]["alive"] is False
    assert 0 <= measured["controller"]["died_ns"] - killed["time_ns"] < 1_000_000
    assert [(each["sent"], each["lost"], each["duplicates"]) for each in measured["streams"]] == 18 * [(2000, [], 0)]


def test_switches_go_round_dead_links_without_their_controller(kernel: Kernel, tmp_path: Path) -> None:
    """One dies just after the controller; another when the switches have done without it for a while."""
    # Eight microseconds after a datagram was sent it is on its leaf's uplink.
    soon, later = "leaf1-spine1:down@5.008ms,leaf1-spine1:up@20.008ms", "leaf2-spine2:down@600.008ms"
    measured = run_streams(tmp_path / "run", f"controller:down@1ms,{soon},{later}", "interval=500us", "duration=650ms")
    begin_ns = measured["streams"][0]["first_ns"]
    _, first, _, second = measured["failures"]
    times_ns = [number * 500_000 for each in measured["streams"] for number in each["lost"]]
    early_ns = [each for each in times_ns if each < 100_000_000]
    assert sum(first["in_flight"].values()) > 0
    assert 0 < max(early_ns) < first["time_ns"] - begin_ns + CACHE_NS
    late_ns = [each for each in times_ns if each not in early_ns]
    assert set(late_ns) == {600_000_000}, "what was on the way, and nothing after it"
    assert len(late_ns) <= sum(second["in_flight"].values())
    assert measured["controller"]["alive"] is False
    assert measured["control_events"] == []


# --- it is not there


def test_switches_forward_nothing_until_they_are_told(fabric_inside: Inside) -> None:
    """Fail mode secure: an unrouted fabric has loops."""
    told = fabric_inside("unattended", keys=SMALL)
    assert [switches for _, _, switches in told["alone"]] == 12 * [None]
    assert told["sent_alone"] == 0
    assert sorted(switches for _, _, switches in told["attended"]) == 4 * [1] + 8 * [3]
    assert told["protocols"].strip() == "[OpenFlow13, OpenFlow15]"


# --- it does not come up


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("orders", "the controller ended before it was discovered: KeyError: 'fabric'"),
        ("port", "the controller ended before it was discovered: OSError: [Errno 98] Address already in use"),
        ("rule", "the controller failed at switch leaf1: OpenFlow error "),
    ],
)
def test_trouble_is_one_line_and_leaves_nothing(fabric_inside: Inside, kind: str, said: str) -> None:
    told = fabric_inside("trouble", keys=SMALL, kind=kind)
    assert told["said"].startswith(said)
    assert "\n" not in told["said"]
    links = told["left"].pop("links")
    assert set(told["left"]) == {"processes", "namespaces", "files", "usual_openvswitch"}
    assert not any(told["left"].values())
    assert [name for name in links if "-eth" in name] == []


def test_a_run_without_a_controller_fails_with_one_line(kernel: Kernel, tmp_path: Path) -> None:
    """In the lab there is no framework of the name that is asked for."""
    spec = limits.resolve(parse(SMALL))
    rundir.write_spec(tmp_path, spec, experiment="hops", label="main", clock="virtual")
    words = (sys.executable, "-m", "experiments.guest", str(tmp_path), "lab")
    env = {**guest_environment(), "FABRICLAB_OPENFLOW_FRAMEWORK": "pox"}
    ran = run_in_lab(kernel, words, results=tmp_path, env=env)
    assert ran.status == 1
    (line,) = ran.stderr.splitlines()
    assert line.startswith("the controller ended before it was discovered: ImportError: no OpenFlow framework")
    assert json.loads((tmp_path / "measured.json").read_text())["complete"] is False


def test_a_fabric_can_be_built_again_where_one_was(fabric_inside: Inside) -> None:
    told = fabric_inside("twice", keys=SMALL)
    assert sorted(switches for _, _, switches in told["probes"]) == 4 * [1] + 8 * [3]


def test_nothing_is_left_of_a_fabric(fabric_inside: Inside) -> None:
    assert not any(fabric_inside("twice", keys=SMALL)["left"].values())
