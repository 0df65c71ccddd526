"""iperf3, through its Python wrapper, between pairs of hosts: each even rank serves, the odd rank after it sends to it.

    ./run_experiment launch -n 2 --set rate=10Gbps -- $(python3 lab/cache.py) examples/iperf3_pairs.py

(The project's environment has the wrapper.) iperf3 reads the clock all the time while it has nothing to send, and its
readings cost virtual time: its figure is what its client could send, which is below what a fast link can carry. It is
asked for a number of bytes, not for seconds: then it ends soon.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import time

import iperf3

ATTEMPTS, BETWEEN_S = 50, 0.01


def send(server: str, size_bytes: int) -> iperf3.TestResult:
    """Send so many bytes to the server, once it is there."""
    for _ in range(ATTEMPTS):
        client = iperf3.Client()
        client.server_hostname, client.duration = server, 0
        client.lib.iperf_set_test_bytes(client._test, ctypes.c_uint64(size_bytes))  # the wrapper has no name for it
        result = client.run()
        if result.error is None:
            return result
        time.sleep(BETWEEN_S)
    raise SystemExit(f"{server}: {result.error}")


def main() -> None:
    """Print what each client was able to send."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=20)
    arguments = parser.parse_args()
    rank, hosts = int(os.environ["RANK"]), os.environ["FABRICLAB_HOSTS"].split(",")
    if rank % 2:
        result = send(hosts[rank - 1], arguments.mb * 10**6)
        print(f"{hosts[rank]} > {hosts[rank - 1]}: {result.received_Mbps / 1e3:.2f} Gb/s", flush=True)
    elif rank + 1 < len(hosts):
        iperf3.Server().run()


if __name__ == "__main__":
    main()
