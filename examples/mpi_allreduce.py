"""An all-reduce by MPI (mpi4py), its sum checked.

    ./run_experiment launch -n 4 --set rate=100Gbps --mpi -- /usr/bin/python3 examples/mpi_allreduce.py

A rank that waits polls, as MPI's ranks do: a poll costs it virtual time, and the lab wall time.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from mpi4py import MPI


def timed(world: MPI.Comm, numbers: np.ndarray) -> float:
    """Seconds of one all-reduce; aborts all ranks when its sum is wrong."""
    total = np.empty_like(numbers)
    world.Barrier()
    begin = time.perf_counter()
    world.Allreduce(numbers, total)
    seconds = time.perf_counter() - begin
    if not np.array_equal(total, numbers * world.size):
        print("the sum is wrong", flush=True)
        world.Abort(1)
    return seconds


def main() -> None:
    """Print a line for each call."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kib", type=int, default=1024, help="size of the buffer")
    parser.add_argument("--iterations", type=int, default=2)
    arguments = parser.parse_args()
    world = MPI.COMM_WORLD
    numbers = np.ones(arguments.kib << 8, np.float32)
    for _ in range(arguments.iterations):
        seconds = timed(world, numbers)
        if world.rank == 0:
            busbw_gbps = numbers.nbytes * 8 / seconds / 1e9 * 2 * (world.size - 1) / world.size
            print(f"{numbers.nbytes} B {seconds * 1e6:.1f} us busbw {busbw_gbps:.2f} Gb/s", flush=True)


if __name__ == "__main__":
    main()
