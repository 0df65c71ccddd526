"""How a fabric is to be routed and marked: the choices of a run, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from controller.prefixes import Ports
from topologies import plugins
from topologies.describe import FabricDescription
from topologies.plugins import Plug
from topologies.profiles import Marking

ECMP, D_MOD_K, CLOCKWISE, UP_DOWN = "ecmp", "d_mod_k", "clockwise", "up_down"
FRAMEWORKS = {"ryu": "ryu", "os_ken": "os-ken"}  # package -> name of its distribution
FRAMEWORK_VARIABLE = "FABRICLAB_OPENFLOW_FRAMEWORK"
KEY = "policy"
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

    A policy of the user's own derives from it and says something else in `ways`, `pinned`, `curve` or `hash_seed`; what
    it is asked hangs on the fabric and on what is alive, and so has its answer.
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

    def ways(self, network: Any, switch: str, target: str, ports: Ports) -> Ports:
        """The ports by which `switch` of a `controller.routing.Network` sends to the rack of switch `target`: some of
        `ports`, which the routing allows, each as often as it is to have shares of the flows (WCMP, Zhou et al.,
        EuroSys 2014)."""
        return ports

    def pinned(self, network: Any, switch: str) -> Mapping[tuple[str, str], int]:
        """(sender, receiver) -> the port by which their packets leave `switch`, whatever the hash says, as long as the
        routing allows it."""
        return {}

    def curve(self, rate_bps: int, usual: Marking) -> Marking:
        """How ports of this rate mark with queue=dctcp or dcqcn where the spec leaves it open; `usual` is what it would
        be without a policy."""
        return usual


def policy_class(plug: Plug | None) -> type[Policy]:
    """The class of a policy of the user's own, ours for None; raises BadRequest for a plug that is none."""
    if plug is None:
        return Policy
    found = plugins.load(plug, KEY)
    if not isinstance(found, type) or not issubclass(found, Policy):
        kind = found.__name__ if isinstance(found, type) else type(found).__name__
        raise plugins.refuse(plug, KEY, f"is {kind}", "a class derived from controller.policy.Policy")
    return found


@dataclass(frozen=True)
class Orders:
    """What the controller is started with: the fabric, and how to route and mark it; `own`: the code of the policy,
    where it is the user's own."""

    fabric: FabricDescription
    policy: Policy
    own: Plug | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `from_json`."""
        own = {"own": self.own.as_json()} if self.own else {}
        return {"fabric": self.fabric.as_json(), "policy": asdict(self.policy), **own}

    @staticmethod
    def from_json(document: dict[str, Any]) -> Orders:
        """The orders that `as_json` told."""
        curves = tuple((rate_bps, Marking(**curve)) for rate_bps, curve in document["policy"]["thresholds"])
        policy = {**document["policy"], "thresholds": curves}
        own = Plug(**document["own"]) if "own" in document else None
        return Orders(FabricDescription.from_json(document["fabric"]), policy_class(own)(**policy), own)
