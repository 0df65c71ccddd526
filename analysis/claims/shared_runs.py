"""Keys of runs that claims of several parts of the lecture share: equal keys, and one run serves them all.

`hierarchy` sends three messages of each size, without one to warm up in the quick run; the pods that these claims do
not ask for are left out by the labels of their cases.
"""

from __future__ import annotations

from collections.abc import Mapping

HIERARCHY = "hierarchy"
HIERARCHY_QUICK: Mapping[str, str] = {"warmup": "0"}
HIERARCHY_FULL: Mapping[str, str] = {}  # as the experiment stands
# One server with each link inside, and eight by each way; the main run is that of eight, hierarchical and overlapped.
HIERARCHY_CASES = (
    "1_server-nvlink4",
    "1_server-pcie5",
    "1_server-pcie4",
    "8_servers-ring",
    "8_servers-in_turn",
)

CPU_OVERHEAD = "cpu_overhead"
CPU_OVERHEAD_QUICK: Mapping[str, str] = {"iterations": "1", "warmup": "0"}
CPU_OVERHEAD_FULL: Mapping[str, str] = {}
CPU_OVERHEAD_CASES = ("rdma", "tcp-free", "all_reduce-tcp", "all_reduce-rdma")
