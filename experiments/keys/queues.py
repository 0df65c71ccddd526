"""What a switch port does as its queue grows: it marks, drops, pauses."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.keys.key import LAUNCH, MARKING_QUEUES, ROUTED, STREAMED, Needs, doing, key, on
from experiments.kinds import (
    ALPHA,
    AUTO,
    OFF,
    PROBABILITY,
    QUANTA,
    SIZE,
    SIZE_OR_NONE,
    SPAN,
    STUCK,
    SWITCH,
    choice,
    off_or,
    optional,
)
from experiments.traffic import Stuck

PFC: Needs = {"pfc": ("on",)}
LOSSLESS: Needs = {"traffic_class": ("lossless",)}


@dataclass(frozen=True)
class QueueKeys:
    """What a switch port does as its queue grows: it marks, drops, pauses."""

    queue: str = key(
        "queue",
        choice("droptail", "red", *MARKING_QUEUES),
        "droptail",
        "what a switch port does as its buffer fills: nothing, drop early (lossy class only), mark at a step, mark by a"
        " curve",
        values={"red": {"traffic_class": ("lossy",)}},
    )
    kmin_bytes: int | None = key(
        "kmin",
        optional(SIZE),
        AUTO,
        "queue at which marking (red: dropping) begins, at the hosts' links; marks of faster and slower ones scale with"
        " their rate",
    )
    kmax_bytes: int | None = key(
        "kmax", optional(SIZE), AUTO, "queue from which every packet is marked (red: dropped), as kmin"
    )
    pmax: float | None = key("pmax", optional(PROBABILITY), AUTO, "probability of a mark (red: drop) just below kmax")
    marking: str | None = key(
        "marking",
        optional(choice("switch", "controller")),
        AUTO,
        "who marks: the port, or the controller by OpenFlow rules, control_latency after a queue crosses kmin",
        {"queue": MARKING_QUEUES},
        auto="switch",
        values={"controller": on(*ROUTED)},
    )
    pfc: str = key(
        "pfc",
        choice(OFF, "on"),
        OFF,
        "priority-based flow control of the lossless class (IEEE 802.1Qbb)",
        values={"on": LOSSLESS},
    )
    traffic_class: str = key(
        "traffic_class",
        choice(AUTO, "lossy", "lossless"),
        AUTO,
        "class of the workload's packets, lossless is DSCP 26; auto: lossless with transport=roce, else lossy",
        values={"lossless": doing(*STREAMED, LAUNCH)},
    )
    xoff_bytes: int | None = key(
        "xoff",
        optional(SIZE),
        AUTO,
        "bytes counted above which a neighbour is paused; auto: buffer less headroom",
        PFC,
    )
    xon_bytes: int | None = key(
        "xon", optional(SIZE_OR_NONE), AUTO, "bytes counted at which it is resumed; auto: two frames below xoff", PFC
    )
    headroom_bytes: int | None = key(
        "headroom",
        optional(SIZE_OR_NONE),
        AUTO,
        "room above xoff for what a paused neighbour still sends; auto: rate x (2 x delay + reaction) + 2 frames of the"
        " fastest link",
        PFC,
    )
    xoff_at: str | None = key(
        "xoff_at",
        optional(choice("ingress", "egress")),
        AUTO,
        "where bytes are counted: by the port that they came in by, or in the queue that they wait in",
        PFC,
        auto="ingress",
    )
    alpha: float | None = key(
        "alpha",
        optional(off_or(ALPHA)),
        AUTO,
        "xoff is not fixed but alpha times what is free of the pool",
        PFC,
        auto=OFF,
    )
    pool_bytes: int | None = key(
        "pool",
        optional(SIZE),
        AUTO,
        "memory that a switch's ports share, without headroom (needs alpha); auto: 12 MB for 32 ports less their"
        " headroom, by the ports of the largest switch",
        PFC,
    )
    pause: str | None = key(
        "pause",
        optional(choice("switch", "controller")),
        AUTO,
        "who orders pauses: the port, or the controller, control_latency after xoff or xon is crossed",
        PFC,
        auto="switch",
        values={"controller": on(*ROUTED)},
    )
    pause_quanta: int | None = key(
        "pause_quanta",
        optional(QUANTA),
        AUTO,
        "quanta of 512 bit times of a pause frame, refreshed at half of them; auto: 65535, or what the duration holds",
        PFC,
    )
    pfc_watchdog_ns: int | None = key(
        "pfc_watchdog",
        optional(off_or(SPAN)),
        AUTO,
        "a switch port that is paused for so long without a break discards its lossless queue, until it has not been"
        " for as long",
        PFC,
        auto=OFF,
    )
    stuck: tuple[Stuck, ...] | None = key(
        "stuck",
        optional(STUCK),
        AUTO,
        "hosts whose NIC sends pause frames all the time, and when, after the workload's begin",
        PFC,
        auto="none",
    )
    allow_loss: bool = key("allow_loss", SWITCH, OFF, "run with less headroom than is needed, with a warning", PFC)
