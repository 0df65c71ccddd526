"""What a switch does about a dead port by itself, before the controller knows.

Upwards any other uplink will do: a select group passes over dead buckets. Downwards there is one way only, and when it
is dead the packet is bounced: to the next port below (a fast-failover group), whose switch sees a packet from above
that is not for anything below it, and passes it on: an edge up again, to any switch but the one it came from; a
switch of a middle tier down to an edge, which does the same. So a packet gets round any one dead link between
switches, or dead switch above the racks, of a Clos network at the price of a detour (F10, NSDI 2013, calls the like
local rerouting). Two deaths in a wrong place can bounce a packet for ever: its TTL ends that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

IN_PORT = 0xFFFFFFF8  # OFPP_IN_PORT: out of the port by which the packet came


@dataclass(frozen=True)
class Bucket:
    """Output to `port`, considered while `watch` is alive (None: always)."""

    port: int
    watch: int | None


@dataclass(frozen=True)
class Group:
    """An OpenFlow group. kind "select": a hash with `seed` over the packet's addresses and ports chooses among live
    buckets; "failover": the first live bucket."""

    kind: str
    buckets: tuple[Bucket, ...]
    seed: int = 0


def select(ports: Sequence[int], seed: int, watched: bool) -> Group:
    """ECMP over `ports`; unwatched, packets hashed to a dead port are lost until the controller has repaired it."""
    return Group("select", tuple(Bucket(port, port if watched else None) for port in ports), seed)


def next_in_ring(port: int, ring: Sequence[int]) -> int | None:
    """The port after `port` in the ring; None when it is alone."""
    place = ring.index(port)
    return ring[(place + 1) % len(ring)] if len(ring) > 1 else None


def bounce(port: int, detour: int) -> Group:
    """Out of `port`, or else of `detour`."""
    return Group("failover", (Bucket(port, port), Bucket(detour, detour)))


def bounce_back(port: int, came_by: int) -> Group:
    """Out of `port`, or else back where the packet came from: for packets that come by the detour's own port."""
    return Group("failover", (Bucket(port, port), Bucket(IN_PORT, came_by)))
