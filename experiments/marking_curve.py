"""How often a port marks at each depth of its queue, measured inside the lab against the line that was configured.

`python -m experiments.marking_curve` in the lab prints one JSON document: rate -> rows of depth, line and measurement.
Two hosts send at line rate to a third again and again: the queue before it climbs by one frame for every two that
arrive, so that the frame that comes n-th has found n/2 frames waiting. Every frame tells by its ECN bits whether it was
marked on the way.
"""

from __future__ import annotations

import ctypes
import json
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass

from topologies.emulate import Fabric, emulate
from topologies.namespaces import entered
from topologies.profiles import HostProfile, LinkProfile, Marking, SwitchProfile
from topologies.star import Star

RATES_BPS = (10_000_000_000, 400_000_000_000)
DEPTHS = 10
_CURVE_FRAMES = (20, 220)  # kmin and kmax
_PMAX = 0.5
_FRAMES = 260  # of each sender, in each climb
_CLIMBS = 40
_DELAY_NS, _SWITCH_NS, _MTU_BYTES = 1_000, 500, 1500
_PAYLOAD = bytes(_MTU_BYTES - 28)
_PORT = 7000
_ECT0, _CE, _ECN_MASK = 0b10, 0b11, 0b11
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_BUFFER_BYTES = 256 << 20
_WARM_UP_S = 1.0
_PR_SET_TIMERSLACK = 29


@dataclass(frozen=True)
class Point:
    """At queues around `depth_bytes`: the probability that the curve asks for, and the share of `frames` marked."""

    depth_bytes: int
    line: float
    measured: float
    frames: int


def line(marking: Marking, queue_bytes: float) -> float:
    """The probability of a mark at a queue (DCQCN, SIGCOMM 2015, figure 5)."""
    if queue_bytes <= marking.kmin_bytes:
        return 0.0
    if queue_bytes > marking.kmax_bytes:
        return 1.0
    return marking.pmax * (queue_bytes - marking.kmin_bytes) / (marking.kmax_bytes - marking.kmin_bytes)


def measure(rate_bps: int) -> list[Point]:
    """The curve of a port of this rate, at depths evenly from kmin to kmax."""
    link = LinkProfile(rate_bps, _DELAY_NS, _MTU_BYTES)
    kmin, kmax = (frames * link.frame_bytes for frames in _CURVE_FRAMES)
    marking = Marking(kmin, kmax, _PMAX)
    host = HostProfile("cubic", 200_000_000)
    switch = SwitchProfile(_SWITCH_NS, 10 * kmax, marking)
    found: Counter[int] = Counter()
    seen: Counter[int] = Counter()
    with emulate(Star(hosts=3, link=link, switch=switch), host) as fabric:
        receiver, senders = _receiver(fabric), [_sender(fabric, name) for name in ("h2", "h3")]
        for _ in range(_CLIMBS):
            for number, is_marked in enumerate(_climb(receiver, senders, link)):
                found[number // 2] += is_marked
                seen[number // 2] += 1
    return [_point(marking, link, begin, found, seen) for begin in _bins()]


def _bins() -> list[int]:
    """First depth, in frames, of each bin."""
    first, last = _CURVE_FRAMES
    return [first + (last - first) * index // DEPTHS for index in range(DEPTHS)]


def _point(marking: Marking, link: LinkProfile, begin: int, found: Counter[int], seen: Counter[int]) -> Point:
    depths = range(begin, begin + (_CURVE_FRAMES[1] - _CURVE_FRAMES[0]) // DEPTHS)
    frames = sum(seen[depth] for depth in depths)
    asked = sum(line(marking, depth * link.frame_bytes) * seen[depth] for depth in depths) / frames
    middle_bytes = link.frame_bytes * (depths[0] + depths[-1]) // 2
    return Point(middle_bytes, asked, sum(found[depth] for depth in depths) / frames, frames)


def _climb(receiver: socket.socket, senders: list[socket.socket], link: LinkProfile) -> list[bool]:
    """Both senders send all their frames at once: in the order of arrival, whether each was marked."""
    for sender in senders:
        for _ in range(_FRAMES):
            sender.send(_PAYLOAD)
    sent = len(senders) * _FRAMES
    time.sleep(sent * link.frame_bytes * 8 / link.rate_bps + 100e-6)
    marked = []
    for _ in range(sent):
        _, ancillary, _, _ = receiver.recvmsg(len(_PAYLOAD), 64)
        (ecn,) = (data[0] & _ECN_MASK for level, kind, data in ancillary if kind == socket.IP_TOS)
        marked.append(ecn == _CE)
    return marked


def _receiver(fabric: Fabric) -> socket.socket:
    with entered(fabric.namespaces["h1"]):
        found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    found.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    found.bind(("", _PORT))
    return found


def _sender(fabric: Fabric, name: str) -> socket.socket:
    """Connected, and known to the switch."""
    with entered(fabric.namespaces[name]):
        found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BUFFER_BYTES)
    found.sendto(b"", (fabric.nameToNode["h1"].IP(), _PORT + 1))
    time.sleep(_WARM_UP_S)
    found.connect((fabric.nameToNode["h1"].IP(), _PORT))
    found.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, _ECT0)
    return found


def main() -> int:
    """Print the curves as one JSON document."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    print(json.dumps({str(rate_bps): [vars(point) for point in measure(rate_bps)] for rate_bps in RATES_BPS}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
