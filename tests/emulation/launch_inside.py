"""A program for the launch's tests: `python launch_inside.py WHAT`, a rank that does one thing."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

RANK, SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
MASTER = (os.environ.get("MASTER_ADDR", ""), int(os.environ.get("MASTER_PORT", "0")))
LISTEN_S = 0.1


def tell() -> None:
    """What this rank finds, into the folder that is kept; and a file where it stands, which is not."""
    caller = ("OF_THE_CALLER", "PATH")
    ours = ("MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "FABRICLAB_HOST", "FABRICLAB_HOSTS")
    names = (*caller, *ours, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    found = {name: os.environ.get(name) for name in names}
    hosts = {name: socket.gethostbyname(name) for name in os.environ["FABRICLAB_HOSTS"].split(",")}
    told = {**found, "hostname": socket.gethostname(), "cwd": str(Path.cwd()), "hosts": hosts}
    Path(os.environ["FABRICLAB_RESULTS"], "told.json").write_text(json.dumps(told))
    Path(f"unwanted-{RANK}").write_text("written where the caller stands")
    print(f"rank {RANK} of {SIZE}, by TCP: {_sum()}", flush=True)


def _sum() -> int:
    """The sum of all ranks' numbers, gathered at rank 0; 0 elsewhere."""
    if RANK:
        time.sleep(LISTEN_S)
        with socket.create_connection(MASTER) as stream:
            stream.sendall(bytes([RANK]))
        return 0
    with socket.create_server(MASTER) as server:
        total = 0
        for _ in range(SIZE - 1):
            stream, _ = server.accept()
            with stream:
                total += stream.recv(1)[0]
    return total


def crash() -> None:
    """Rank 1 fails; the others wait for it, rank 2 deaf to SIGTERM."""
    if RANK == 1:
        time.sleep(0.5)
        raise ValueError("rank 1 has had enough")
    if RANK == 2:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)


def sleep() -> None:
    """Never end, in virtual time."""
    time.sleep(1000)


def spin() -> None:
    """Poll memory."""
    print("about to spin", flush=True)
    while RANK >= 0:
        pass


def poll() -> None:
    """Wait for rank 0, which sleeps for a while, by calls that find nothing and do not wait."""
    if RANK == 0:
        time.sleep(LISTEN_S)
        Path("/dev/shm/ready").touch()
        return
    poller = select.epoll()
    while not Path("/dev/shm/ready").exists():
        for _ in range(100):
            poller.poll(0)
            os.sched_yield()


def peek() -> None:
    """Wait for rank 0 by calls that succeed at once."""
    if RANK == 0:
        time.sleep(LISTEN_S)
        Path("/dev/shm/ready").touch()
        return
    descriptor = os.open("/dev/zero", os.O_RDONLY)
    while not Path("/dev/shm/ready").exists():
        for _ in range(10_000):
            os.read(descriptor, 1)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
