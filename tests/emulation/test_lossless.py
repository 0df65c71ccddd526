"""Nothing is lost in the lossless class of whatever fabric, incast and rate the validator accepts with PFC on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments import limits, rundir
from experiments.runner import Setting, Task, run_all
from experiments.spec import Spec, parse
from lab.kernel import Kernel
from lab.session import Stop
from topologies.units import BadRequest

pytestmark = pytest.mark.lab

RUNS = 32
SEED = 2015
LEAST_PAUSED = RUNS // 2  # in fewer runs with a pause there would have been little to lose
FABRICS: tuple[dict[str, Any], ...] = (
    {"topology": "star"},
    {"topology": "dumbbell", "hosts": 8},
    {"topology": "leaf_spine", "leaves": 3, "spines": 2, "hosts_per_leaf": 4},
    {"topology": "leaf_spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 6},
    {"topology": "fat_tree", "k": 4},
    {"topology": "ring", "switches": 4, "hosts_per_leaf": 2},
)


def drawn(dice: random.Random) -> dict[str, Any]:
    """Keys of one run: buffers are as small as PFC allows for, or a little larger."""
    fabric = dice.choice(FABRICS)
    transport = dice.choice(("roce", "roce", "tcp"))
    keys = {
        **fabric,
        "transport": transport,
        "pfc": "on",
        "traffic_class": "lossless",
        "rate": dice.choice(("10Gbps", "25Gbps", "40Gbps", "100Gbps", "200Gbps", "400Gbps")),
        "delay": dice.choice(("0ns", "100ns", "500ns", "1us", "5us")),
        "switch_delay": dice.choice(("0ns", "300ns", "1us")),
        "mtu": dice.choice(("1500B", "4200B", "9000B")),
        "buffer": f"{dice.randint(20, 400)}KB",
        "bytes": f"{dice.randint(60, 600)}KB",
        "rounds": 2,
        "jitter": dice.choice(("0s", "10us", "50us")),
        "seed": dice.randint(1, 1000),
        "capture": "off",
        "telemetry": "off",
    }
    if fabric["topology"] == "star":
        keys["senders"] = dice.randint(2, 24)
    choice = dice.random()
    if choice < 0.25:
        keys["xoff_at"] = "egress"
    elif choice < 0.5:
        keys["alpha"] = dice.choice(("0.125", "0.5", "2", "8"))
        keys["pool"] = f"{dice.randint(60, 400)}KB"
    return keys


def accepted(dice: random.Random) -> Iterator[Spec]:
    """Specs that the validator accepts, without end; the rest is drawn again."""
    while True:
        try:
            yield limits.resolve(parse(drawn(dice)))
        except BadRequest:
            continue


def lossless_queues(measured: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        item for port in (*measured["ports"].values(), *measured["nics"].values()) for item in port["qdiscs"]
        if item["kind"] in ("pfc", "rnic")
    ]  # fmt: skip


def test_nothing_is_lost_in_what_the_validator_accepts(kernel: Kernel, tmp_path: Path) -> None:
    specs = [spec for _, spec in zip(range(RUNS), accepted(random.Random(SEED)))]
    tasks = [
        Task(f"run{number}", spec, rundir.case_folder(tmp_path, f"run{number}"), "incast")
        for number, spec in enumerate(specs)
    ]
    assert run_all(tasks, Setting(kernel, "virtual", ("test",)), Stop()) == []
    lost, paused = {}, 0
    for task in tasks:
        measured = json.loads((task.folder / "measured.json").read_text())
        assert len(measured["rounds"]) == 2
        queues = lossless_queues(measured)
        assert sum(queue["packets"] for queue in queues) > 100
        paused += any(queue.get("xoffs") for queue in queues)
        drops = sum(queue["drops"] for queue in queues)
        if drops:
            lost[task.label] = (drops, task.spec.as_text())
    assert lost == {}
    assert paused >= LEAST_PAUSED
