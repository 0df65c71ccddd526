"""Priority-based flow control (pure): thresholds and headroom, and the state machines of both ends of a pause.

    A ===== data =====> B        B's count of what came from A goes beyond XOFF: a pause frame to A, refreshed
      <-- pause frame --         until the count has fallen to XON, then a resume (Pauser, at B's ingress port).
                                 A holds the class until the frame's quanta are over or a resume comes (Paused);
                                 a hold that does not end is ended by a watchdog (Watchdog).

Machines are told the time in ns and say what happens; nothing here sends, waits or reads a clock. Frames are of IEEE
802.1Qbb, which leaves open when to refresh: here at half of the time of the quanta. The watchdog is that of SONiC
("PFC watchdog": detection and restoration time, action drop), told of every change instead of polling: a port counts
as paused while frames ask it to be silent, whether or not anything waits in its queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from controller.pfc_frame import FRAME_BYTES

QUANTUM_BITS = 512
_NS = 10**9
_AGENT_NS = 50  # from crossing to frame and from frame to hold a program reads the clock and asks the kernel
# From a pause's order to the controller until its packet-out is in the port's queue: a microsecond, and up to five were
# seen where Ryu and Open vSwitch had been busy.
CONTROLLER_NS = 6_000


def pause_ns(quanta: int, rate_bps: int) -> int:
    """How long so many quanta last on a link, in whole ns: 65535 are 838.848 us at 40 Gb/s."""
    return quanta * QUANTUM_BITS * _NS // rate_bps


def least_quanta(frame_bytes: int, rate_bps: int, order_ns: int = _AGENT_NS) -> int:
    """The fewest quanta that can be refreshed in time: a refresh, sent at half of them, may have to wait for a frame of
    `frame_bytes` that its port has begun, takes its own time at `rate_bps`, and as long as its order takes."""
    late_bits = (frame_bytes + FRAME_BYTES) * 8 + -(-order_ns * rate_bps // _NS)
    return -(-2 * late_bits // QUANTUM_BITS)


# --- how much room a lossless class needs


def reaction_ns(rate_bps: int, switch_delay_ns: int) -> int:
    """What our pause needs beyond the link's delay and whole frames: the switch's delay twice (the pause frame is
    delayed like any other, and data is counted behind it), the pause frame's own bits, and the program between."""
    return 2 * switch_delay_ns + -(-FRAME_BYTES * 8 * _NS // rate_bps) + _AGENT_NS


def headroom_bytes(rate_bps: int, delay_ns: int, frame_bytes: int, reaction_ns: int) -> int:
    """What may still come in from a neighbour once XOFF has been crossed: room that each port needs above XOFF.

    The link at `rate_bps` goes on for `delay_ns` (one way) until the pause has arrived and as long again for what is
    then under way, and for the `reaction_ns` of both ends; one frame is what the neighbour has begun, and one what the
    pause frame has to wait for (IEEE 802.1Qbb annex O; Cisco's and Mellanox's guides add the same terms).
    """
    flying_bits_ns = rate_bps * (2 * delay_ns + reaction_ns)
    return -(-flying_bits_ns // (8 * _NS)) + 2 * frame_bytes


@dataclass(frozen=True)
class SharedBuffer:
    """The memory of one switch, for `ports` ports with `classes` priorities each, of which every one keeps
    `headroom_bytes` to itself (DCQCN, SIGCOMM 2015, section 4)."""

    buffer_bytes: int
    ports: int
    classes: int
    headroom_bytes: float

    @property
    def shared_bytes(self) -> float:
        """What is left when all headroom has been set aside."""
        return self.buffer_bytes - self.ports * self.classes * self.headroom_bytes

    @property
    def most_xoff_bytes(self) -> float:
        """The highest XOFF at which all ports and priorities can be full at once without loss."""
        return self.shared_bytes / (self.ports * self.classes)

    @property
    def static_ecn_bytes(self) -> float:
        """Marking must begin below this to act before PFC: what came in by one port may lie in the queues of all ports,
        each just below the mark."""
        return self.most_xoff_bytes / self.ports

    def dynamic_xoff_bytes(self, beta: float, used_bytes: float) -> float:
        """XOFF that follows what is free: beta / classes of it (that quotient is the alpha of switch vendors)."""
        return beta * (self.shared_bytes - used_bytes) / self.classes

    def dynamic_ecn_bytes(self, beta: float) -> float:
        """The same with dynamic thresholds: every queue of every port and priority is just below the mark."""
        return beta * self.shared_bytes / (self.classes * self.ports * (beta + 1))


# --- the machines


COLUMNS = ("time_ns", "port", "event", "value")  # of a record of what happens at ports; `event` is an Event


class Event(IntEnum):
    """What happens at a port; the numbers are those of record files."""

    XOFF_SENT = 0
    XON_SENT = 1
    REFRESH_SENT = 2
    HELD = 3
    RELEASED = 4
    EXPIRED = 5
    WATCHDOG_ON = 6
    WATCHDOG_OFF = 7


class Pauser:
    """The sending side, of one ingress port and class: which frames to send, and when (`due_ns`) to be woken for the
    next; `quanta` of a pause on a link of `rate_bps`."""

    def __init__(self, quanta: int, rate_bps: int) -> None:
        self.quanta = quanta
        self.due_ns: int | None = None
        self._refresh_ns = pause_ns(quanta, rate_bps) // 2

    def crossing(self, now_ns: int, xoff: bool) -> Event | None:
        """A threshold has been crossed: XOFF upwards, or XON downwards. None when that was known."""
        if xoff == (self.due_ns is not None):
            return None
        self.due_ns = now_ns + self._refresh_ns if xoff else None
        return Event.XOFF_SENT if xoff else Event.XON_SENT

    def wake(self, now_ns: int) -> Event | None:
        """Time has passed: a refresh, when it is due."""
        if self.due_ns is None or now_ns < self.due_ns:
            return None
        self.due_ns = now_ns + self._refresh_ns
        return Event.REFRESH_SENT

    def quanta_of(self, event: Event) -> int:
        """What the frame of an event says."""
        return 0 if event is Event.XON_SENT else self.quanta


class Paused:
    """The receiving side, of one port and class on a link of `rate_bps`: silent until `due_ns`, or not (None)."""

    def __init__(self, rate_bps: int) -> None:
        self.due_ns: int | None = None
        self._rate_bps = rate_bps

    def frame(self, now_ns: int, quanta: int) -> Event | None:
        """A frame takes effect, instead of what the last one said. None when the port was silent already, or not."""
        was_paused = self.due_ns is not None
        self.due_ns = now_ns + pause_ns(quanta, self._rate_bps) if quanta else None
        if was_paused == bool(quanta):
            return None
        return Event.HELD if quanta else Event.RELEASED

    def wake(self, now_ns: int) -> Event | None:
        """Time has passed: the pause may be over."""
        if self.due_ns is None or now_ns < self.due_ns:
            return None
        self.due_ns = None
        return Event.EXPIRED


class Watchdog:
    """Bites a port that has been paused for `limit_ns` without interruption, and lets go when it has not been paused
    for as long; `due_ns` is when to wake it."""

    def __init__(self, limit_ns: int) -> None:
        self.bites = False
        self.due_ns: int | None = None
        self._limit_ns = limit_ns

    def paused(self, now_ns: int, is_paused: bool) -> None:
        """The port has become paused, or is no longer."""
        self.due_ns = now_ns + self._limit_ns if is_paused != self.bites else None

    def wake(self, now_ns: int) -> Event | None:
        """Time has passed: enough of it?"""
        if self.due_ns is None or now_ns < self.due_ns:
            return None
        self.due_ns = None
        self.bites = not self.bites
        return Event.WATCHDOG_ON if self.bites else Event.WATCHDOG_OFF


class Hold:
    """A port's lossless class as frames hold it and its watchdog (of `watchdog_ns`; None: there is none) frees it: what
    its neighbour asks for counts only while the watchdog does not bite."""

    def __init__(self, rate_bps: int, watchdog_ns: int | None = None) -> None:
        self._paused = Paused(rate_bps)
        self._watchdog = None if watchdog_ns is None else Watchdog(watchdog_ns)
        self.held = False

    @property
    def due_ns(self) -> int | None:
        """When to wake it."""
        dues = (self._paused.due_ns, None if self._watchdog is None else self._watchdog.due_ns)
        return min((due_ns for due_ns in dues if due_ns is not None), default=None)

    def frame(self, now_ns: int, quanta: int) -> list[Event]:
        """A frame takes effect; what happens, in order."""
        return self._changed(now_ns, self._paused.frame(now_ns, quanta))

    def wake(self, now_ns: int) -> list[Event]:
        """Time has passed; what happens, in order. A pause that ends just as the watchdog would bite was not too
        long."""
        events = self._changed(now_ns, self._paused.wake(now_ns))
        bite = None if self._watchdog is None else self._watchdog.wake(now_ns)
        if bite is None:
            return events
        events.append(bite)
        if self.held:  # only behind the bite: nothing of what is discarded may leave
            self.held = False
            events.append(Event.RELEASED)
        return events

    def _changed(self, now_ns: int, change: Event | None) -> list[Event]:
        if change is None:
            return []
        is_paused = change is Event.HELD
        if self._watchdog is not None:
            self._watchdog.paused(now_ns, is_paused)
            if self._watchdog.bites:
                return []
        self.held = is_paused
        return [change]
