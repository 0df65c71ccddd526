"""The Mininet prompt on a fabric, inside the lab: `python -m experiments.prompt RUN`."""

from __future__ import annotations

import sys
from pathlib import Path

from mininet.cli import CLI
from mininet.log import setLogLevel

from experiments import rundir
from experiments.stage import staged


def main(folder: Path) -> int:
    """Build the fabric of the folder's spec and hand the terminal to Mininet."""
    spec = rundir.read_spec(folder)
    setLogLevel("info")
    with staged(spec) as stage:
        where = f"{len(stage.hosts)} hosts on {spec.topology}"
        print(f"{where}; try: h1 ping -c 3 h2, h2 tc -s qdisc show dev eth0, pingall, link leaf1 spine1 down, exit")
        print(f"what you write to {folder} stays; everything else is gone at exit")
        CLI(stage.fabric)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
