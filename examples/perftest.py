"""perftest's ib_send_bw between pairs of hosts, over soft-RoCE: each even rank serves, the odd rank after it sends.

    ./run_experiment launch -n 2 --set transport=roce --set rate=100Gbps --capture -- python3 examples/perftest.py

With -e both sides sleep until a completion comes. Without it, and in ib_write_bw, they poll for completions without
calling the kernel, which stops virtual time. perftest takes its times from the processor's cycle counter, which runs
with the host's time: its bandwidth means nothing here, and often it refuses to print one and fails. What the device has
sent and received is right, and so is the rate over time in the report.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

LEAD_S = 0.05  # the server is there by then
PATH_MTU_BYTES = 1024  # that perftest takes by itself
NO_REPORT = "Can't produce a report"


def packets(way: str) -> int:
    """What this host's RDMA device counts: "sent_pkts" or "rcvd_pkts"."""
    told = subprocess.run(["rdma", "--json", "statistic", "show"], check=True, stdout=subprocess.PIPE)
    return int(json.loads(told.stdout)[0][way])


def ran(words: list[str]) -> bool:
    """Whether perftest did its work, whatever it thinks of the clock."""
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, flush=True)
    return done.returncode == 0 or NO_REPORT in done.stdout


def main() -> int:
    """0 when all packets of all messages were sent, or received, by this host."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--size", type=int, default=65536, help="of a message, bytes")
    arguments = parser.parse_args()
    rank, hosts = int(os.environ["RANK"]), os.environ["FABRICLAB_HOSTS"].split(",")
    words = ["ib_send_bw", "--events", "--size", str(arguments.size), "--iters", str(arguments.messages)]
    if rank % 2:
        time.sleep(LEAD_S)
        words.append(hosts[rank - 1])
    elif rank + 1 == len(hosts):
        return 0
    is_through = ran(words)
    way, needed = ("sent_pkts" if rank % 2 else "rcvd_pkts"), -(-arguments.size // PATH_MTU_BYTES) * arguments.messages
    counted = packets(way)
    print(f"{hosts[rank]}: {counted} {way}, {needed} needed", flush=True)
    return 0 if is_through and counted >= needed else 1


if __name__ == "__main__":
    sys.exit(main())
