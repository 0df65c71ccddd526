"""DCQCN (pure): the notification point that answers marks with CNPs, and the reaction point that sets a queue pair's
rate.

Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 3.1. R_C is the current rate,
R_T the target rate:

    CNP                        R_T = R_C;  R_C = R_C (1 - alpha/2);  alpha = (1-g) alpha + g              (1)
    an alpha timer without CNP alpha = (1-g) alpha                                                        (2)
    rate timer, byte counter   T, BC: how often either has run out since the last CNP; then
        max(T, BC) <= F        fast recovery:     R_C = (R_T + R_C) / 2                                   (3)
        otherwise              additive increase: R_T = R_T + R_AI,             R_C = (R_T + R_C) / 2     (4)
        min(T, BC) > F         hyper increase:    R_T = R_T + i R_HAI, i = min(T, BC) - F, R_C likewise

A CNP also restarts the timers and both counts. A flow begins at line rate, without a limiter, and with alpha = 1: its
first CNP halves it.

What the paper leaves open, and how it is answered here:

* F = 5 is read as five iterations of fast recovery in a row; the authors' simulator makes four (ns3-rdma,
  qbb-net-device.cc, rpr_fast_time). Hyper increase, which the paper does not spell out, grows by another R_HAI each
  time, as in that simulator (rpr_hyper_increase).
* A limiter whose rate has come back to the line rate is released, as in ConnectX NICs (mlxconfig, RPG_MAX_RATE).
  Nothing is timed then but alpha, which goes on decaying by (2): the next CNP cuts by what alpha is by then. Until then
  R_T may lie above the line rate; were it held there, R_C would come ever nearer and never arrive.
* alpha matters to a CNP alone, so that (2) is reckoned when one comes, for all the alpha timers since the last.
* Bytes are counted when the rate timer runs out: a byte counter that has run out meanwhile acts up to one rate timer
  late. The first reading after a CNP is taken back by what the limiter has let through since, which is what was sent
  if the queue pair was never idle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Dcqcn:
    """The parameters of DCQCN, by default the paper's (which names no least rate): the CNP interval of the NP; of the
    RP the timers, the byte counter, the iterations of fast recovery (F), the gain of alpha (g), the steps of additive
    and hyper increase, the least rate, and the first alpha."""

    cnp_interval_ns: int = 50_000
    alpha_timer_ns: int = 55_000
    rate_timer_ns: int = 55_000
    byte_counter_bytes: int = 10_000_000
    f: int = 5
    g: float = 1 / 256
    rai_bps: int = 40_000_000
    rhai_bps: int = 200_000_000
    min_rate_bps: int = 10_000_000
    initial_alpha: float = 1.0


class NotificationPoint:
    """The receiving NIC: which CE-marked packets are answered by a CNP, at most one per interval and queue pair."""

    __slots__ = ("_free_ns", "_interval_ns")

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns = interval_ns
        self._free_ns: dict[int, int] = {}

    def answers(self, queue_pair: int, now_ns: int) -> bool:
        """Whether the marked packet of this queue pair that has come now is answered; if so, none is that comes less
        than an interval after it."""
        if now_ns < self._free_ns.get(queue_pair, now_ns):
            return False
        self._free_ns[queue_pair] = now_ns + self._interval_ns
        return True


class ReactionPoint:
    """The sending NIC's state of one queue pair. Its owner tells it of each CNP, calls `advance` at `next_ns` and
    applies `rate_bps`; a limiter that is free (`next_ns` is None) needs nothing."""

    __slots__ = (
        "_alpha",
        "_alpha_ns",
        "_byte_stage",
        "_bytes_from",
        "_line_bps",
        "_most_bytes",
        "_parameters",
        "_rate",
        "_target",
        "_timer_stage",
        "next_ns",
    )

    def __init__(self, parameters: Dcqcn, line_rate_bps: int) -> None:
        self._parameters = parameters
        self._line_bps = line_rate_bps
        self._rate = self._target = float(line_rate_bps)
        self._alpha = parameters.initial_alpha
        self._alpha_ns: int | None = None  # when it was that; it decays from the first CNP on
        self._timer_stage = self._byte_stage = 0
        self._bytes_from: int | None = None  # what had been sent when the count at hand began; None: not known yet
        self._most_bytes = 0.0  # what the limiter can have let through since
        self.next_ns: int | None = None

    @property
    def rate_bps(self) -> int:
        """R_C: what the queue pair may send at."""
        return int(self._rate)

    @property
    def target_bps(self) -> int:
        """R_T: what it recovers to."""
        return int(self._target)

    def alpha(self, now_ns: int) -> float:
        """The rate reduction factor, after as many decays (2) as alpha timers have run out since the last CNP."""
        if self._alpha_ns is None:
            return self._alpha
        decays = (now_ns - self._alpha_ns) // self._parameters.alpha_timer_ns
        return float(self._alpha * (1 - self._parameters.g) ** decays)

    def cnp(self, now_ns: int) -> None:
        """A CNP has come: cut the rate (1), begin again with everything that raises it."""
        parameters, alpha = self._parameters, self.alpha(now_ns)
        self._target = self._rate
        least = min(parameters.min_rate_bps, self._line_bps)
        self._rate = max(self._rate * (1 - alpha / 2), float(least))
        self._alpha, self._alpha_ns = (1 - parameters.g) * alpha + parameters.g, now_ns
        self._timer_stage = self._byte_stage = 0
        self._bytes_from, self._most_bytes = None, 0.0
        self.next_ns = now_ns + parameters.rate_timer_ns

    def advance(self, now_ns: int, sent_bytes: Callable[[], int]) -> None:
        """Everything up to `now_ns`. `sent_bytes()`, the bytes that the queue pair has sent in all, is asked only where
        the byte counter needs it: after a CNP, and when the rate since would have let it run out."""
        while self.next_ns is not None and self.next_ns <= now_ns:
            self._most_bytes += self._rate * self._parameters.rate_timer_ns / 8e9
            self.next_ns += self._parameters.rate_timer_ns
            self._timer_stage += 1
            self._increase()
        if self.next_ns is not None and (
            self._bytes_from is None or self._most_bytes >= self._parameters.byte_counter_bytes
        ):
            self._count(sent_bytes())

    def _count(self, sent_bytes: int) -> None:
        """Let the byte counter run out as often as it has."""
        if self._bytes_from is None:
            self._bytes_from = max(0, sent_bytes - int(self._most_bytes))
        size = self._parameters.byte_counter_bytes
        while self.next_ns is not None and sent_bytes - self._bytes_from >= size:
            self._bytes_from += size
            self._byte_stage += 1
            self._increase()
        self._most_bytes = float(sent_bytes - self._bytes_from)

    def _increase(self) -> None:
        parameters, hyper = self._parameters, min(self._timer_stage, self._byte_stage) - self._parameters.f
        if hyper > 0:
            self._target += hyper * parameters.rhai_bps
        elif max(self._timer_stage, self._byte_stage) > parameters.f:
            self._target += parameters.rai_bps
        self._rate = (self._target + self._rate) / 2
        if self._rate >= self._line_bps:
            self._rate = self._target = float(self._line_bps)
            self.next_ns = None
