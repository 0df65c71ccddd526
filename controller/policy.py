"""How a fabric is to be routed and marked: the choices of a run, as one frozen value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from topologies.describe import FabricDescription
from topologies.profiles import Marking

ECMP, D_MOD_K, CLOCKWISE, UP_DOWN = "ecmp", "d_mod_k", "clockwise", "up_down"
FRAMEWORKS = {"ryu": "ryu", "os_ken": "os-ken"}  # package -> name of its distribution
FRAMEWORK_VARIABLE = "FABRICLAB_OPENFLOW_FRAMEWORK"
PER_SWITCH, SAME = "per_switch", "same"
SWITCH, CONTROLLER = "switch", "controller"


@dataclass(frozen=True)
class Policy:
    """routing: ECMP by a hash, or D_MOD_K, the uplink by the destination's number; of a ring CLOCKWISE or UP_DOWN (see
    `routing`). hash_seeds: PER_SWITCH, or SAME everywhere (which polarises). fast_failover: switches go round a dead
    port by themselves. latency_ns: how long the controller waits before it acts on a change. seed: of all hash seeds.

    thresholds: the curve by which ports of each rate mark, in pairs of rate in bits/s and curve; none: nothing marks.
    marking: SWITCH, each port's RED does, and the controller sets its curve when the switch joins; CONTROLLER, rules
    do while the controller says so (see `rules`).
    """

    routing: str = ECMP
    hash_seeds: str = PER_SWITCH
    fast_failover: bool = True
    latency_ns: int = 1_000_000
    seed: int = 1
    marking: str = SWITCH
    thresholds: tuple[tuple[int, Marking], ...] = ()

    def hash_seed(self, dpid: int) -> int:
        """The 64-bit hash seed of a switch; equal policies give equal seeds."""
        whose = dpid if self.hash_seeds == PER_SWITCH else 0
        return int.from_bytes(blake2b(f"{self.seed}/{whose}".encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True)
class Orders:
    """What the controller is started with: the fabric, and how to route and mark it."""

    fabric: FabricDescription
    policy: Policy

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `from_json`."""
        return {"fabric": self.fabric.as_json(), "policy": asdict(self.policy)}

    @staticmethod
    def from_json(document: dict[str, Any]) -> Orders:
        """The orders that `as_json` told."""
        curves = tuple((rate_bps, Marking(**curve)) for rate_bps, curve in document["policy"]["thresholds"])
        policy = {**document["policy"], "thresholds": curves}
        return Orders(FabricDescription.from_json(document["fabric"]), Policy(**policy))
