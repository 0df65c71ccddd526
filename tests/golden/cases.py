"""The golden cases: what each shows, how it is played, and how its truth is worked out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.golden.truths import Facts, asked, deaf, idle, one_flow, paused_flows, queue_pairs, senders

_SLOW = {"rate": "1Gbps", "delay": "250us", "buffer": "1MB", "telemetry": "off"}
_NO_PROBES = {**_SLOW, "tlp": "off"}
_NO_SACK = {**_NO_PROBES, "sack": "off", "rack": "off"}
_BOTH = ["h2-eth0", "h1-eth0"]
_INCAST = {"senders": 6, "rate": "10Gbps", "buffer": "40KB", "telemetry": "off"}
_DCTCP = {"senders": 3, "rate": "10Gbps", "queue": "dctcp", "delay": "1us", "telemetry": "off"}
_STRAGGLER = {"senders": 4, "rate": "10Gbps", "slow_link": "h3:100Mbps", "buffer": "1MB", "telemetry": "off"}
_ROCE = {"transport": "roce", "rate": "100Gbps", "jitter": "5us", "rounds": 1, "bytes": "128KiB", "senders": 3}
_PFC = {**_ROCE, "pfc": "on", "queue": "droptail", "xoff": "60KB"}
_STUCK = {"pfc": "on", "traffic_class": "lossless", "rate": "10Gbps", "bytes": "128KiB", "rounds": 1, "senders": 2}


@dataclass(frozen=True)
class Case:
    """One golden case: what it shows, the function of inside.py that plays it ("" for a run) with its arguments, and
    the truth by what was told."""

    shows: str
    function: str
    arguments: Mapping[str, Any]
    truth: Callable[[Facts], Facts]


def _lossy(shows: str, keys: Facts, lost: Facts, truth: Any, pieces: Any = ((40, 0.0),)) -> Case:
    """A case of inside.losses, captured at both ends."""
    return Case(shows, "losses", {"keys": keys, "points": _BOTH, "pieces": pieces, "lost": lost}, truth)


def _each(numbers: range, times: int = 1) -> Facts:
    return {str(number): times for number in numbers}


INSIDE = {
    "tail_loss": _lossy(
        "The last three segments of a block are lost, and no probe may tell: the timeout has to find it.",
        _NO_PROBES,
        _each(range(37, 40)),
        one_flow("rto_tail_loss"),
    ),
    "full_window": _lossy(
        "All of a flight is lost while more waits for the window to open.",
        _NO_PROBES,
        _each(range(10, 30)),
        one_flow("rto_full_window_loss"),
    ),
    "full_window_no_sack": _lossy(
        "As full_window, without SACK: after the timeout all of the flight is sent again in order.",
        _NO_SACK,
        _each(range(10, 30)),
        one_flow("rto_full_window_loss"),
    ),
    "lost_retransmission": _lossy(
        "A segment is lost, and lost again when three duplicates have it sent once more.",
        _NO_SACK,
        {"15": 2},
        one_flow("rto_lost_retransmission"),
    ),
    "few_duplicates": _lossy(
        "The third last segment is lost: two duplicates come, one too few without SACK.",
        _NO_SACK,
        {"37": 1},
        one_flow("rto_few_duplicates"),
    ),
    "loss_probe": _lossy(
        "The last segment is lost, and the tail loss probe finds it.", _SLOW, {"39": 1}, one_flow("loss_probe")
    ),
    "loss_probe_early": _lossy(
        "The last two segments are lost: the probe comes after two round trips, and its answer tells of the other.",
        _SLOW,
        _each(range(38, 40)),
        one_flow(None),
    ),
    "rack": _lossy(
        "The third last segment is lost: only two are selectively acknowledged, and RACK's timer has it sent again.",
        _SLOW,
        {"37": 1},
        one_flow(None),
    ),
    "fast_sack": _lossy("A segment in the middle is lost, and SACK blocks tell.", _SLOW, {"15": 1}, one_flow(None)),
    "fast_no_sack": _lossy(
        "A segment in the middle is lost, and three duplicates tell.", _NO_SACK, {"15": 1}, one_flow(None)
    ),
    "spurious_timeout": Case(
        "Nothing is lost: packets suddenly take longer than the timeout, and what was sent again was needless.",
        "late",
        {"keys": _NO_PROBES, "points": _BOTH, "jump_us": 300_000, "overtaken": False},
        one_flow(None, spurious=True),
    ),
    "spurious_fast": Case(
        "Nothing is lost: a segment is overtaken by those behind it, and sent again needlessly.",
        "late",
        {"keys": _SLOW, "points": _BOTH, "jump_us": 15_000, "overtaken": True},
        one_flow(None, spurious=True),
    ),
    "delayed_ack": Case(
        "Requests of two small writes: Nagle's rule waits for an acknowledgement that the server delays.",
        "requests",
        {"keys": _SLOW, "points": _BOTH, "count": 12},
        asked,
    ),
    "zero_window": Case(
        "The receiver reads nothing for 300 ms, and closes its window.",
        "deaf",
        {"keys": _SLOW, "points": _BOTH, "sleep_s": 0.3},
        deaf,
    ),
    "idle": _lossy(
        "The program sends, has nothing to send for 250 ms, and sends again.",
        _SLOW,
        {},
        idle,
        ((20, 0.25), (20, 0.25), (20, 0.0)),
    ),
    "ipv6": Case(
        "As tail_loss, over IPv6.",
        "ipv6",
        {"keys": _NO_PROBES, "points": _BOTH, "lost": _each(range(37, 40))},
        one_flow("rto_tail_loss"),
    ),
    "vlan": Case(
        "As tail_loss, captured on a cable of which each frame carries a VLAN tag.",
        "vlan",
        {"keys": _NO_PROBES, "lost": _each(range(37, 40))},
        one_flow("rto_tail_loss", vlan=100),
    ),
    "any_sll": Case(
        "As tail_loss, captured on all interfaces of the sender at once: Linux's cooked frames.",
        "cooked",
        {"keys": _NO_PROBES, "old": True, "lost": _each(range(37, 40))},
        one_flow("rto_tail_loss"),
    ),
    "any_sll2": Case(
        "The same in their newer form.",
        "cooked",
        {"keys": _NO_PROBES, "old": False, "lost": _each(range(37, 40))},
        one_flow("rto_tail_loss"),
    ),
    "incast": Case(
        "Six senders at once: timeouts, drops at the hot port. Captured at every NIC and at that port.",
        "incast",
        {"keys": _INCAST, "size_bytes": 32 << 10, "count": 2},
        senders,
    ),
    "dctcp": Case(
        "Three DCTCP senders: the port marks (CE), the receiver echoes (ECE), the senders slow down (CWR).",
        "incast",
        {"keys": _DCTCP, "size_bytes": 256 << 10, "count": 1},
        senders,
    ),
    "straggler": Case(
        "Four senders, of which one has a slower link: all wait for it, and nothing is lost.",
        "incast",
        {"keys": _STRAGGLER, "size_bytes": 64 << 10, "count": 2},
        senders,
    ),
    "raw": Case(
        "As tail_loss, over a TUN device: packets without a link layer.",
        "tunnel",
        {"keys": _NO_PROBES, "lost": _each(range(37, 40))},
        one_flow("rto_tail_loss"),
    ),
}

RUNS = {
    "roce_cnp": Case(
        "RoCE with DCQCN: marks, and CNPs that answer them.",
        "",
        {**_ROCE, "pfc": "on", "queue": "dcqcn", "mtu": "4200B", "bytes": "1MiB"},
        queue_pairs,
    ),
    "roce_loss": Case(
        "RoCE without PFC: losses, NAKs, and timeouts of queue pairs.", "", {**_ROCE, "buffer": "50KB"}, queue_pairs
    ),
    "pfc_switch": Case("A leaf pauses the senders that fill its hot port.", "", _PFC, queue_pairs),
    "pfc_host": Case(
        "A receiver's NIC pauses its leaf for 60 ms; TCP waits.", "", {**_STUCK, "stuck": "h1@0ms-60ms"}, paused_flows
    ),
}
