"""The examples that a user would copy, run as they are; and code of the user's own in the lab: the same again from its
run directory, shares and pins as real switches make them, a lossless fabric that nobody has built in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.kernel import Kernel
from tests.conftest import ROOT
from tests.emulation.conftest import Done, run_experiment
from tests.emulation.same import unlike

pytestmark = pytest.mark.lab

EXAMPLES = ROOT / "examples"
VERDICTS = {
    "incast_cures": "incast collapse",
    "allreduce_on_leaf_spine": "right, and as fast as modelled",
    "federated_edges": "converges, slowed by stragglers",
}


def summary(done: Done) -> dict[str, Any]:
    """The summary of a run that has gone well."""
    assert done.status == 0, done.stderr
    assert done.host_after == done.host_before
    return dict(done.document("summary.json"))


@pytest.mark.parametrize("name", list(VERDICTS))
def test_an_example_runs_as_it_is(kernel: Kernel, tmp_path: Path, name: str) -> None:
    done = run_experiment(tmp_path / "run", "run", str(EXAMPLES / f"{name}.yaml"), "--only")
    assert summary(done)["verdict"] == VERDICTS[name]


def test_own_code_runs_and_a_run_directory_repeats_it(kernel: Kernel, tmp_path: Path) -> None:
    for path in EXAMPLES.glob("own*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    first = run_experiment(tmp_path / "first", "run", str(tmp_path / "own.yaml"))
    told = summary(first)
    assert told["verdict"] == "all arrived, nothing was lost"
    assert (told["own"]["name"], told["own"]["transfers"], len(told["rounds"])) == ("Shuffle", 2 * 36, 2)
    assert first.document("fabric.json")["topology"] == "dragonfly"
    for path in tmp_path.glob("own*.py"):
        path.write_text("raise ValueError('not this one')")
    again = run_experiment(tmp_path / "again", "run", str(first.folder / "spec.yaml"))
    summary(again)
    assert unlike(first.folder, again.folder, ["measured.json"]) == []


def test_pinned_elephants_have_an_uplink_each(kernel: Kernel, tmp_path: Path) -> None:
    words = ("leaves=2", "hosts_per_leaf=4", "bytes=256KiB", "rate=100Gbps", "rounds=1")
    keys = [f"--set={word}" for word in words]
    pinned = f"--set=policy={EXAMPLES / 'own_policy.py'}:Elephants"
    hashed = run_experiment(tmp_path / "hashed", "own", *keys)
    own = run_experiment(tmp_path / "pinned", "own", *keys, pinned)
    flows = [sorted(done.document("measured.json")["link_flows"].values()) for done in (hashed, own)]
    assert max(flows[0]) > 1 and set(flows[1]) == {1}
    by_hash, by_pins = (summary(done)["bisection"]["worst_share"] for done in (hashed, own))
    assert by_hash < by_pins


def test_shares_are_what_switches_make_of_them(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from controller.policy import Policy\nclass Thirds(Policy):\n"
        "    def ways(self, network, switch, target, ports):\n        return (ports[0], ports[0], *ports[1:])\n"
    )
    words = ("workload=datagrams", "leaves=2", "spines=2", "hosts_per_leaf=2", "flows=1500")
    keys = [f"--set={word}" for word in (*words, f"policy={tmp_path / 'own.py'}:Thirds")]
    done = run_experiment(tmp_path / "run", "own", "--json", *keys)
    assert done.status == 0, done.stderr
    sent = done.document("measured.json")["port_packets"]
    for leaf in ("leaf1", "leaf2"):
        first, second = sent[f"{leaf}-eth3"], sent[f"{leaf}-eth4"]
        # two of three shares, within four standard deviations of so many flows that choose alone
        assert abs(first / (first + second) - 2 / 3) < 4 * (2 / 9 / (first + second)) ** 0.5


def test_a_lossless_fabric_of_ones_own(kernel: Kernel, tmp_path: Path) -> None:
    own = (f"topology={EXAMPLES}/own_topology.py:dragonfly", f"workload={EXAMPLES}/own_workload.py:Shuffle")
    words = ("switches=2", "routing=up_down", "transport=roce", "pfc=on", "queue=dcqcn", "rate=100Gbps", "bytes=256KiB")
    told = summary(run_experiment(tmp_path / "run", "own", *(f"--set={word}" for word in (*own, *words))))
    assert (told["drops"], told["lossless_drops"], told["verdict"]) == (0, 0, "all arrived, nothing was lost")


def test_what_own_code_does_in_the_lab_alone_is_told_in_one_line(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import os\nclass Here:\n    def __init__(self, hosts, asked):\n        pass\n"
        "    def pairs(self):\n        return [('h1', 'h2')]\n    def begin(self, traffic):\n"
        "        if os.uname().nodename == 'lab':\n            raise KeyError('only here')\n"
        "        traffic.send(('h1', 'h2'), 5)\n"
    )
    words = (f"workload={tmp_path / 'own.py'}:Here", "topology=star", "hosts=3")
    done = run_experiment(tmp_path / "run", "own", *(f"--set={word}" for word in words))
    assert done.status == 1
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("run_experiment: ")]
    assert "own/workload.py:9 raises KeyError: 'only here'" in line
    assert json.loads((done.folder / "provenance.json").read_text())["ended_as"] == "failed"
