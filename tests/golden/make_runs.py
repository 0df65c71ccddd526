"""Makes the run directories of `runs/`, one for each workload, small, in the lab:
`$(python3 lab/cache.py) -m tests.golden.make_runs [NAME...]`."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from analysis.notebooks.make_runs import ROOT, results, store

RUNS = Path(__file__).resolve().parent / "runs"
WORDS = {
    "roce": "incast --set transport=roce --set senders=4 --set rounds=2 --set bytes=16KiB --set buffer=20KB"
    " --set jitter=1us",
    "permutation": "bisection --set leaves=2 --set hosts_per_leaf=2 --set bytes=64KiB --set rounds=1",
    "pings": "hops --set topology=leaf_spine --set leaves=2 --set hosts_per_leaf=2",
    "datagrams": "polarisation --set topology=leaf_spine --set leaves=2 --set hosts_per_leaf=2 --set flows=20",
    "streams": "failover --set leaves=2 --set hosts_per_leaf=2 --set duration=8ms --set fast_failover=off"
    " --set failure=leaf1-spine1:down@2ms",
    "collective": "collectives --set ranks=2 --set sizes=4KiB,16KiB --set iterations=2 --set host_cost=tcp",
    "training": "straggler --set ranks=3 --set hosts=4 --set steps=2 --set gradient=16KiB",
    "federated": "federated --set clients=3 --set hosts=4 --set rounds=2 --set update=100KB --set scale=1",
    "launch": "launch -n 2 --topology star --set hosts=2 --set directory=/tmp -- echo hello",
    "pauses": "incast --set pfc=on --set traffic_class=lossless --set senders=4 --set bytes=64KiB --set xoff_at=egress"
    " --set rounds=1 --set buffer=110KB --set rate=100Gbps --set jitter=1us --set capture=off",
}


def main(names: list[str]) -> None:
    """Make these runs, all without names."""
    for name in names or WORDS:
        with tempfile.TemporaryDirectory(dir=results()) as made:
            run = Path(made) / name
            command = ["./run_experiment", *words(name, str(run.relative_to(ROOT)))]
            subprocess.run(command, cwd=ROOT, check=True)
            store(run, RUNS / name)


def words(name: str, out: str) -> list[str]:
    """The command line of a run, which has no cases."""
    found = shlex.split(WORDS[name])
    return [found[0], "--out", out, *([] if found[0] == "launch" else ["--only"]), *found[1:]]


if __name__ == "__main__":
    main(sys.argv[1:])
