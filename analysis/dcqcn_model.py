"""DCQCN's fixed point (pure): how often packets are marked, and how long the queue is, when N flows share a link for
ever (Zhu et al., "ECN or Delay", CoNEXT 2016, section 3.1).

At the fixed point each flow has C/N. A mark cuts its rate by alpha/2, and alpha is p tau' C/N; between marks it gains
R_AI with every timer and byte counter. Equating both gives, for small p,

    p^3 = R_AI N^2 / (tau' C^2) x (1/B + N / (T C))^2

with rates in packets. The queue is where the marking curve has this probability. What the approximation leaves out
(fast recovery adds nothing, marks are rarer than CNPs) makes the true p, and the queue, smaller.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Curve:
    """A marking curve: 0 up to kmin, then linear to pmax at kmax, 1 above."""

    kmin_bytes: int
    kmax_bytes: int
    pmax: float

    def queue_bytes(self, probability: float) -> float:
        """The queue at which packets are marked with this probability: kmax for one above pmax."""
        if probability >= self.pmax:
            return float(self.kmax_bytes)
        return self.kmin_bytes + probability / self.pmax * (self.kmax_bytes - self.kmin_bytes)


@dataclass(frozen=True)
class Sender:
    """DCQCN's parameters that decide the fixed point, and the size of its packets."""

    rai_bps: int
    rate_timer_ns: int
    byte_counter_bytes: int
    alpha_timer_ns: int
    packet_bytes: int


def marking_probability(sender: Sender, flows: int, rate_bps: float) -> float:
    """The probability p at the fixed point of `flows` on a link; at most 1."""
    packet_bits = 8 * sender.packet_bytes
    line, step = rate_bps / packet_bits, sender.rai_bps / packet_bits
    timer_s, alpha_s = sender.rate_timer_ns / 1e9, sender.alpha_timer_ns / 1e9
    gains = sender.packet_bytes / sender.byte_counter_bytes + flows / (timer_s * line)
    cube = step * flows**2 / (alpha_s * line**2) * gains**2
    return float(min(cube ** (1 / 3), 1.0))
