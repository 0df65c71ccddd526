"""Our values for published curves, each from one run directory."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.kinds import pfc_unfairness, shares, victim
from analysis.kinds.arrivals import long_flows
from analysis.papers.model import Measure, Place
from analysis.queues import percentiles
from analysis.run import Run
from analysis.verdicts import goodput_bps, goodput_without_loss_bps

_WARM_UP_ROUNDS = 1  # connections open, and windows are those of RFC 6928: no query of a running service
_HALF = 0.5  # of a run with long flows: the second half is where they are judged


def goodput_mbps(run: Run, place: Place) -> float | None:
    """Goodput over all rounds, Mb/s."""
    found = goodput_bps(run.rounds)
    return None if found is None else found / 1e6


def goodput_share(run: Run, place: Place) -> float | None:
    """Goodput over all rounds, of what it would be without a loss."""
    found = goodput_bps(run.rounds)
    return None if found is None else found / goodput_without_loss_bps(run.parameters)


def mean_round_ms(run: Run, place: Place) -> float | None:
    """The mean time of a round, but for the first ones, in ms."""
    rounds = run.rounds[_WARM_UP_ROUNDS:]
    return 1e3 * sum(each.seconds for each in rounds) / len(rounds) if rounds else None


def timeouts_share(run: Run, place: Place) -> float | None:
    """The share of rounds, but for the first ones, that met a timeout: they last as long as one, or longer."""
    rounds, rto_ns = run.rounds[_WARM_UP_ROUNDS:], run.parameters.rto_min_ns
    return sum(each.end_ns - each.start_ns >= rto_ns for each in rounds) / len(rounds) if rounds else None


def queue_packets(run: Run, place: Place) -> float | None:
    """A percentile, `place`, of the hot port's queue in packets, weighted by time, in the second half of the run; the
    hundredth is the longest."""
    series = run.queue(run.hot_port)
    if series is None or not run.traffic_ns:
        return None
    start_ns, end_ns = run.traffic_ns
    inside = (series.time_ns >= start_ns + _HALF * (end_ns - start_ns)) & (series.time_ns < end_ns)
    held_ns = series.held_ns[inside]
    if not held_ns.any():
        return None
    return float(percentiles(series.queue_packets[inside], held_ns, [float(place) / 100])[0])


def longest_queue_kb(run: Run, place: Place) -> float | None:
    """The longest queue of any port that was sampled, KB."""
    longest = run.longest_queue_bytes
    return None if longest is None else longest / 1e3


def jain(run: Run, place: Place) -> float | None:
    """Jain's index of the flows through the bottleneck once settled."""
    return shares.fairness(run)


def line_share(run: Run, place: Place) -> float | None:
    """Of the payload that the bottleneck can carry, what arrived once settled."""
    return shares.line_share(run)


def lot_share(run: Run, place: Place) -> float | None:
    """Parking lot: the share of the line of the flow alone behind its port ("alone"), or of each of the others."""
    told = pfc_unfairness.row(run)["lone_bps" if place == "alone" else "sharing_bps"]
    return None if told is None else told / shares.payload_bps(run)


def victim_line_share(run: Run, place: Place) -> float | None:
    """The victim's share of the line."""
    told = victim.row(run)["victim_bps"]
    return None if told is None else told / shares.payload_bps(run)


def victim_way_share(run: Run, place: Place) -> float | None:
    """The victim's share of what its own way leaves it."""
    found: float | None = victim.row(run)["victim_share"]
    return found


def mean_mbps(groups: Mapping[str, tuple[str, ...]]) -> Measure:
    """Measures the mean goodput of the flows of a group of senders once settled, Mb/s; groups: name -> hosts."""

    def measure(run: Run, place: Place) -> float | None:
        found, hosts = shares.steady(run), groups[str(place)]
        names = [flow.name for flow in long_flows(run) if flow.sender in hosts]
        return None if found is None else sum(found.goodput_bps[name] for name in names) / len(names) / 1e6

    return measure
