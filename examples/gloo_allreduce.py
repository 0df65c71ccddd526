"""Bandwidth of PyTorch's all-reduce over gloo, as nccl-tests tell it.

    ./run_experiment launch -n 4 --set rate=100Gbps -- /usr/bin/python3 examples/gloo_allreduce.py

algbw is bytes over time; busbw is algbw times 2 (n - 1) / n, what a ring sends over each link: it can be held beside
the link's rate whatever n is (nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist


def timed(size_bytes: int) -> float:
    """Seconds of one all-reduce of float32 ones; raises SystemExit when its sum is wrong."""
    numbers = torch.ones(size_bytes // 4)
    dist.barrier()
    begin = time.perf_counter()
    dist.all_reduce(numbers)
    seconds = time.perf_counter() - begin
    if not torch.all(numbers == dist.get_world_size()):
        raise SystemExit("the sum is wrong")
    return seconds


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, nargs="+", default=[1, 16], help="sizes of the buffer")
    parser.add_argument("--iterations", type=int, default=3)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    for size_bytes in (mib << 20 for mib in arguments.mib):
        timed(size_bytes)  # connections open up in the first
        seconds = sum(timed(size_bytes) for _ in range(arguments.iterations)) / arguments.iterations
        algbw_gbps = size_bytes * 8 / seconds / 1e9
        if dist.get_rank() == 0:
            busbw_gbps = algbw_gbps * 2 * (ranks - 1) / ranks
            print(
                f"{size_bytes} B {seconds * 1e6:.1f} us algbw {algbw_gbps:.2f} Gb/s busbw {busbw_gbps:.2f} Gb/s",
                flush=True,
            )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
