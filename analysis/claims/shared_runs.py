"""Runs that claims of several parts of the lecture share: one serves them all."""

from __future__ import annotations

from analysis.claims.model import Trial

# Three messages of each size, in the quick run without one to warm up. One server with each link inside, and eight by
# each way; the main run is that of eight, hierarchical and overlapped. The other pods nobody asks for.
HIERARCHY = Trial(
    "hierarchy",
    {"warmup": "0"},
    {},
    cases=("1_server-nvlink4", "1_server-pcie5", "1_server-pcie4", "8_servers-ring", "8_servers-in_turn"),
)
CPU_OVERHEAD = Trial(
    "cpu_overhead",
    {"iterations": "1", "warmup": "0"},
    {},
    cases=("rdma", "tcp-free", "all_reduce-tcp", "all_reduce-rdma"),
)
