"""Runs the controller: `python -m controller.launch ORDERS.json --port PORT --events FILE [--commands SOCKET]`.

Started by `controller.process` for a run; by hand it routes any fabric of these Topo classes, also one that plain
`mn` has built, for which `run_experiment topo NAME --orders FILE` writes the orders.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from controller import framework
from controller.app import FabricController
from controller.policy import Orders

VERSIONS = {"1.3": framework.ofproto_v1_3.OFP_VERSION, "1.5": framework.ofproto_v1_5.OFP_VERSION}
APPS = ("controller.app", f"{framework.NAME}.controller.ofp_handler")


def main(words: Sequence[str]) -> int:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="python -m controller.launch", description=__doc__)
    parser.add_argument("orders", type=Path)
    parser.add_argument("--port", type=int, default=6653)
    parser.add_argument("--events", default="/dev/stdout", help="file for JSON lines (default: standard output)")
    parser.add_argument("--commands", help="Unix datagram socket to be made, for commands (see controller.commands)")
    parser.add_argument("--openflow", choices=VERSIONS, default="1.5")
    arguments = parser.parse_args(words)
    FabricController.orders = Orders.from_json(json.loads(arguments.orders.read_text()))
    FabricController.report = os.open(arguments.events, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    FabricController.inlet = arguments.commands
    FabricController.OFP_VERSIONS = [VERSIONS[arguments.openflow]]
    framework.controller.CONF.ofp_tcp_listen_port = arguments.port
    framework.controller.CONF.ofp_listen_host = "127.0.0.1"
    framework.app_manager.AppManager.run_apps(list(APPS))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
