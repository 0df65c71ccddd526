"""PyTorch DistributedDataParallel over gloo: a few steps of a small model, each rank on its own part of the data.

    ./run_experiment launch -n 4 --set rate=100Gbps -- /usr/bin/python3 examples/ddp.py

Nothing in it knows of the lab: it is the program of PyTorch's own tutorial, with data made from a seed. All ranks end
with the same weights, which every rank checks. Computing takes no virtual time; `--compute SECONDS` sleeps that long in
each step, as an accelerator would take, so that the time of a step is its own and the network's.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FEATURES, HIDDEN, CLASSES, BATCH = 64, 1024, 10, 32


def data(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch whose classes can be learned: the largest of the first ten features."""
    dice = torch.Generator().manual_seed(1000 * rank + step)
    features = torch.randn(BATCH, FEATURES, generator=dice)
    return features, features[:, :CLASSES].argmax(dim=1)


def train(steps: int, compute_s: float) -> nn.Module:
    """Train the model; rank 0 prints each step."""
    torch.manual_seed(0)
    model = DistributedDataParallel(
        nn.Sequential(
            nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES)
        )
    )
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        begin = time.perf_counter()
        features, classes = data(dist.get_rank(), step)
        loss = nn.functional.cross_entropy(model(features), classes)
        optimiser.zero_grad()
        time.sleep(compute_s)
        loss.backward()
        optimiser.step()
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.4f}, {(time.perf_counter() - begin) * 1e3:.3f} ms", flush=True)
    return model


def same_everywhere(model: nn.Module) -> bool:
    """Whether all ranks have the same weights."""
    own = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    first = own.clone()
    dist.broadcast(first, src=0)
    return torch.equal(own, first)


def main() -> None:
    """Train, and end with an error when the ranks' weights differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--compute", type=float, default=0.0, metavar="SECONDS")
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    model = train(arguments.steps, arguments.compute)
    if not same_everywhere(model):
        raise SystemExit("the ranks' weights differ")
    dist.barrier()
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks have the same weights", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
