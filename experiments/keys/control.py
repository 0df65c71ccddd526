"""What the controller does, and what fails."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.failures import Failure
from experiments.keys.key import ROUTED, TRANSFERS, doing, each, key, on
from experiments.kinds import AUTO, DURATION, NONE, OWN, SCHEDULE, SWITCH, choice, optional, own_or
from topologies.plugins import Plug

PATH_CHOICES, RING_ROUTES = ("ecmp", "d_mod_k"), ("clockwise", "up_down")


@dataclass(frozen=True)
class ControlKeys:
    """What the controller does, and what fails."""

    routing: str | None = key(
        "routing",
        optional(choice(*PATH_CHOICES, *RING_ROUTES)),
        AUTO,
        "the choice among equal paths: by a hash of the flow (auto), or by the receiver's number (D-mod-k, Zahavi"
        " 2010); on a ring all one way round, or up*/down* (auto), which cannot deadlock",
        on(*ROUTED),
        values={
            **each(PATH_CHOICES, on(*(topology for topology in ROUTED if topology != "ring"))),
            "clockwise": on("ring"),
            "up_down": on("ring", OWN),
        },
    )
    ecmp_seed: str | None = key(
        "ecmp_seed",
        optional(choice("per_switch", "same")),
        AUTO,
        "the hash's seed: another in each switch, or one for all; auto: per_switch, with openflow=1.3 same",
        on(*ROUTED),
    )
    fast_failover: bool | None = key(
        "fast_failover",
        optional(SWITCH),
        AUTO,
        "switches go round a dead port by themselves",
        on(*ROUTED),
        auto="on",
    )
    control_latency_ns: int | None = key(
        "control_latency",
        optional(DURATION),
        AUTO,
        "from the controller's hearing of a change to its acting on it; 1ms or more when something fails",
        on(*ROUTED),
        auto="1ms",
    )
    failures: tuple[Failure, ...] | None = key(
        "failure",
        optional(SCHEDULE),
        AUTO,
        "links (by their two switches) and switches that go down or come up, after the workload's begin",
        {**on(*ROUTED), **doing(*TRANSFERS, "streams", OWN)},
        auto="none",
    )
    openflow: str | None = key(
        "openflow",
        optional(choice("1.5", "1.3")),
        AUTO,
        "version that controller and switches speak; 1.3 has no seed for the hash",
        on(*ROUTED),
        auto="1.5",
    )
    policy: str | Plug = key(  # noqa: RUF009 (a Plug is frozen)
        "policy",
        own_or(NONE),
        NONE,
        "a class of your own in the controller, derived from controller.policy.Policy: which ways, which marking",
        values={OWN: on(*ROUTED)},
    )
