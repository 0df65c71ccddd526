"""What slower time keeps of a run and what it loses (pure), as quotients before and after.

A quotient that follows from the spec alone is kept, unless a bound or whole numbers have cut it. What is in no spec
goes on at its own pace: the kernel's timers, a controller, a program. That is lost, and how long it was and is is told
in the run's own time, mostly in round trips of the longest path.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

from analysis.text import digits
from controller.pause import CONTROLLER_NS
from experiments import marks
from experiments.connections import ack_timeout_ns
from experiments.limits import MOST_RTO_NS, TICK_NS
from experiments.spec import LAUNCH, OWN, TRANSFERS, Spec, applies, known, word
from topologies.profiles import MarkingByRate
from workloads.host_cost import COSTS
from workloads.rounds import PAUSE_NS

KEPT_WITHIN = 1e-3  # whole nanoseconds and whole bytes per second round by less

# Linux's own times (include/net/tcp.h, net/ipv4/tcp_cubic.c, net/ipv4/tcp_bbr.c), which nobody can set.
_DELAYED_ACK_NS = 40_000_000  # TCP_DELACK_MIN
_FIRST_RTO_NS = 1_000_000_000  # TCP_TIMEOUT_INIT
_TIMER_FLOOR_NS = 2_000_000  # TCP_TIMEOUT_MIN_US
_HYSTART_NS = 4_000_000  # HYSTART_DELAY_MIN
_BBR_WINDOW_NS = 10_000_000_000  # bbr_min_rtt_win_sec
_CUBIC_C, _CUBIC_CUT = 0.4, 0.3  # segments per second cubed; what a loss takes of the window
_PACKET_NS = 5_000  # of one core, for a packet's whole way: some 200,000 a second pass a fabric
_Own = tuple[str, float, str]

_ROUNDED = "rates are whole bytes per second, durations whole nanoseconds"
_CUT = {
    "rto_min": f"Linux waits no longer than {MOST_RTO_NS // 10**9} s (TCP_RTO_MAX), and counts whole ticks",
    "control_latency": "a controller is at most a second late",
    "marks": "usual thresholds of another rate follow from the rate",
}


@dataclass(frozen=True)
class Row:
    """A quotient by name, before and after, and why it changes where it is lost."""

    name: str
    before: float
    after: float
    why: str = ""

    @property
    def words(self) -> str:
        """The row as one line."""
        values = digits(self.before) if self.before == self.after else f"{digits(self.before)} -> {digits(self.after)}"
        return f"{self.name}: {values}" + (f" ({self.why})" if self.why else "")


def kept(before: Spec, after: Spec) -> list[Row]:
    """What is as it was."""
    return [row for row in _spec_rows(before, after) if _is_kept(row)]


def lost(before: Spec, after: Spec, is_real: bool) -> list[Row]:
    """What is not; `is_real`: on a clock on which computing takes time."""
    cut = [Row(row.name, row.before, row.after, _why(row.name)) for row in _spec_rows(before, after)]
    now = {name: value for name, value, _ in _own(after, is_real)}
    own = [Row(name, value, now[name], why) for name, value, why in _own(before, is_real)]
    return [row for row in (*cut, *own) if not _is_kept(row)]


def _spec_rows(before: Spec, after: Spec) -> list[Row]:
    now = dict(_of_spec(after))
    return [Row(name, value, now.get(name, math.nan)) for name, value in _of_spec(before)]


def _is_kept(row: Row) -> bool:
    return math.isclose(row.before, row.after, rel_tol=KEPT_WITHIN)


def _why(name: str) -> str:
    return _CUT.get(name.split(" ")[0], _ROUNDED)


# --- what follows from the spec


def _of_spec(spec: Spec) -> Iterator[tuple[str, float]]:
    """The quotients that follow from a resolved spec: sizes, durations, rates, each by another."""
    yield "senders" if spec.senders else "hosts", spec.senders or known(spec.hosts)
    yield "buffer / frame", spec.buffer_bytes / spec.frame_bytes
    bdp_bytes = spec.rate_bps * spec.rtt_ns / 8e9
    if bdp_bytes:
        yield "BDP / frame", bdp_bytes / spec.frame_bytes
        yield "buffer / BDP", spec.buffer_bytes / bdp_bytes
        if spec.workload in TRANSFERS:
            yield "bytes (SRU) / BDP", spec.sru_bytes / bdp_bytes
    yield from _durations(spec)
    yield from _rates(spec)
    yield from _marks(spec)


def _durations(spec: Spec) -> Iterator[tuple[str, float]]:
    """Every duration of the spec in round trips."""
    for key, value in _values(spec, "_ns"):
        yield f"{key} / {_base(spec)}", value / _base_ns(spec)


def _rates(spec: Spec) -> Iterator[tuple[str, float]]:
    """Every rate of the spec by the rate of hosts' links."""
    for key, value in _values(spec, "_bps"):
        if key != "rate":
            yield f"{key} / rate", value / spec.rate_bps


def _values(spec: Spec, unit: str) -> list[tuple[str, int]]:
    """Key and value of all that the spec has in a unit, where it applies and is not off."""
    found = [(item, getattr(spec, item.name)) for item in fields(spec) if item.name.endswith(unit)]
    return [(item.metadata["name"], value) for item, value in found if value and applies(spec, item)]


def _marks(spec: Spec) -> Iterator[tuple[str, float]]:
    """Where marking begins at each kind of link."""
    marking = marks.marking(spec)
    if marking is None:
        return
    curves = marking.curves if isinstance(marking, MarkingByRate) else ((spec.rate_bps, marking),)
    for rate_bps, curve in curves:
        yield f"marks at {rate_bps / spec.rate_bps:.3g} x rate / frame", curve.kmin_bytes / spec.frame_bytes


def _base_ns(spec: Spec) -> float:
    """What durations are measured in: the longest path's round trip; where links have no delay, a frame's time."""
    return spec.rtt_ns or _frame_ns(spec)


def _base(spec: Spec) -> str:
    return "RTT" if spec.rtt_ns else "frame time"


def _frame_ns(spec: Spec) -> float:
    return spec.frame_bytes * 8e9 / spec.rate_bps


# --- what goes on at its own pace


def _own(spec: Spec, is_real: bool) -> Iterator[_Own]:
    """What is in no spec: name, value, why it does not follow."""
    yield from _of_tcp(spec) if spec.transport == "tcp" else _of_roce(spec)
    if spec.workload in TRANSFERS:
        yield f"quiet between rounds / {_base(spec)}", PAUSE_NS / _base_ns(spec), "the same for all fabrics"
    if "controller" in (spec.marking, spec.pause):
        yield f"controller's own way / {_base(spec)}", CONTROLLER_NS / _base_ns(spec), "messages of the control plane"
    if spec.host_cost not in (None, "none"):
        cost_ns = COSTS[known(spec.host_cost)].busy_ns(spec.mtu_bytes, spec.mtu_bytes)
        yield "cost of a packet (host_cost) / frame time", cost_ns / _frame_ns(spec), "a processor's nanoseconds"
    if word(spec.workload) in (LAUNCH, OWN):
        yield f"a second of the program's / {_base(spec)}", 1e9 / _base_ns(spec), "it computes and sleeps as ever"
    if is_real:
        yield (
            "processing of a packet / frame time",
            _PACKET_NS / _frame_ns(spec),
            "computing takes time on the real clock: near 1 the processor is what limits, not the link",
        )


def _of_tcp(spec: Spec) -> Iterator[_Own]:
    base, base_ns, rto_ns = _base(spec), _base_ns(spec), spec.rto_min_ns
    yield "delayed acknowledgement / rto_min", min(_DELAYED_ACK_NS, rto_ns) / rto_ns, "Linux's 40 ms (TCP_DELACK_MIN)"
    yield "doublings of the timeout", (MOST_RTO_NS // rto_ns).bit_length() - 1, "none goes beyond TCP_RTO_MAX"
    yield f"first timeout, of a SYN / {base}", _FIRST_RTO_NS / base_ns, "Linux's second (TCP_TIMEOUT_INIT)"
    yield f"timers' tick / {base}", TICK_NS / base_ns, "a thousandth of a second (HZ)"
    if spec.tlp:
        yield (
            f"tail loss probe / {base}",
            (2 * base_ns + _TIMER_FLOOR_NS) / base_ns,
            "2 RTT + 2 ms (TCP_TIMEOUT_MIN_US)",
        )
    if spec.rack and spec.sack:
        wait_ns = spec.rtt_ns / 4 + _TIMER_FLOOR_NS
        yield f"RACK's timer / {base}", wait_ns / base_ns, "1/4 RTT and Linux's 2 ms (TCP_TIMEOUT_MIN_US)"
    if spec.cc == "cubic":
        yield f"CUBIC's way back after a loss / {base}", _cubic_ns(spec) / base_ns, "it counts seconds, not round trips"
        yield f"HyStart's least delay / {base}", _HYSTART_NS / base_ns, "CUBIC leaves slow start for 4 ms of queue"
    if spec.cc == "bbr":
        yield f"BBR's window of the least RTT / {base}", _BBR_WINDOW_NS / base_ns, "Linux's 10 s"


def _cubic_ns(spec: Spec) -> float:
    """K of RFC 9438: how long CUBIC takes to come back to the window in which it lost, one that fills pipe and buffer
    together with all other senders."""
    held_bytes = spec.buffer_bytes + spec.rate_bps * spec.rtt_ns / 8e9
    window = max(1.0, held_bytes / (spec.senders or 1) / spec.mtu_bytes)
    return float((window * _CUBIC_CUT / _CUBIC_C) ** (1 / 3)) * 1e9


def _of_roce(spec: Spec) -> Iterator[_Own]:
    timeout = ack_timeout_ns(spec) / _base_ns(spec)
    yield f"acknowledgement timeout / {_base(spec)}", timeout, "a queue pair's, in powers of two from 67 ms on"
