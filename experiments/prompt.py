"""The Mininet prompt on a fabric, where that is: `python -m experiments.prompt RUN lab|machine`."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from mininet.cli import CLI
from mininet.log import setLogLevel

from experiments import rundir
from experiments.agents import at_work
from experiments.guest import tell
from experiments.stage import Stage, ground_of, staged
from topologies.qdisc import LOSSLESS_DSCP

_TCLASS = LOSSLESS_DSCP << 2 | 2  # and ECT(0), RFC 3168
_PERFTEST = (("h1", "&"), ("h2", "h1"))  # server and client


class Prompt(CLI):
    """Mininet's prompt, without the command that would hang on the virtual clock."""

    is_virtual = True

    def do_iperf(self, line: str) -> None:
        """Say what to use instead."""
        if self.is_virtual:
            print("iperf waits by spinning on the clock, which stands still meanwhile; instead:")
        print("try: h1 iperf3 -s -D -1, then h2 iperf3 -c h1 -n 20M, or measure with the experiments")

    do_iperfudp = do_iperf


def suggestions(stage: Stage) -> str:
    """Commands that make sense on this fabric."""
    tiers = stage.tiers
    cable = next((wire for wire in stage.description.wires if tiers[wire.a] and tiers[wire.b]), None)
    words = ["h1 ping -c 3 h2", "pingall", "h2 tc -s qdisc show dev eth0"]
    if cable is not None:
        words += [f"link {cable.a} {cable.b} down", "dpctl dump-groups", "sh ovs-vsctl show"]
    if stage.spec.transport == "roce":
        words += [f"{host} ib_send_bw -e -n 1000 --tclass={_TCLASS} -d rxe-{host} {rest}" for host, rest in _PERFTEST]
        words.append("h2 rdma statistic")
    return ", ".join([*words, "exit"])


def main(folder: Path, place: str) -> int:
    """Build the fabric of the folder's spec and hand the terminal to Mininet."""
    spec = rundir.read_spec(folder)
    setLogLevel("info")
    with (
        staged(spec, ground_of(place, rundir.read_clock(folder))) as stage,
        tempfile.TemporaryDirectory() as records,
        at_work(stage, time.time_ns(), Path(records), {}),
    ):
        os.environ["OVS_RUNDIR"] = str(stage.fabric.openvswitch.folder)  # where `sh ovs-vsctl` and the like look
        tell("phase", name="built")
        print(f"{len(stage.hosts)} hosts on {spec.topology}; try: {suggestions(stage)}")
        if spec.transport == "roce":
            print("ib_send_bw's own figures are of the processor's clock, not of this one: believe the counters")
        if stage.ground.is_ours:
            print(f"what you write to {folder} stays; everything else is gone at exit")
        Prompt.is_virtual = stage.ground.is_virtual  # its constructor does not return before the end
        Prompt(stage.fabric)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
