"""The half of iperf3's tests that runs inside the lab: `python -m tests.emulation.iperf3_inside FOLDER`, a run on a
fabric where somebody else listens on the port of the second server."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from experiments import drive_iperf3, limits
from experiments.playing import Run
from experiments.spec import parse
from experiments.stage import staged
from topologies.namespaces import entered


def taken(folder: Path) -> dict[str, Any]:
    """What the run says, and what it notes."""
    facts: dict[str, Any] = {}
    spec = limits.resolve(parse({"workload": "iperf3", "senders": 2, "rate": "100Mbps", "capture": "off"}))
    with staged(spec) as stage, mock.patch("experiments.drive_iperf3.tell"):
        with entered(stage.fabric.namespaces["h1"]):
            somebody = socket.create_server((stage.fabric.get("h1").IP(), 5202))
        with somebody:
            try:
                drive_iperf3.iperf3(Run(stage, facts, lambda done: None, folder / "telemetry"))
            except RuntimeError as error:
                return {"error": str(error), **facts["iperf3"]}
    return {"error": None}


if __name__ == "__main__":
    print(json.dumps(taken(Path(sys.argv[1]))))
