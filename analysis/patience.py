"""How late a process of a run on the real clock may be before packets notice: what it decides about them, and how soon
they would miss it.

Shapers, queues and TCP are the kernel's. Pauses, CNPs and rates, a controller's marks and the steps of a collective
come from processes, which are late when no CPU is free for them. The shortest of the times that a run has counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from analysis import text
from analysis.cost_model import ideal_round_seconds
from analysis.run import Run
from analysis.spec import CONTROLLER, INCAST
from topologies.units import parse_duration_ns

# Of a round, or of the time in which a port's buffer drains: late hosts change what is measured in proportion.
MOST_LATE_SHARE = 0.1
# Workloads whose processes only begin flows and see them end, in between the kernel sends.
_TRANSFERS, _IPERF3 = ("permutation", "all_to_all"), "iperf3"


@dataclass(frozen=True)
class Patience:
    """How late (s) processes may be, and why; None, and why not, where the run does not tell."""

    most_s: float | None
    because: str


def patience(run: Run) -> Patience:
    """The shortest time that a run leaves its processes; what a run does not tell is taken to be shorter still."""
    return min(_all(run), key=lambda each: -1.0 if each.most_s is None else each.most_s)


def _all(run: Run) -> Iterator[Patience]:
    round_s, spec = _undisturbed_s(run), run.parameters
    if round_s is not None:
        yield _hosts(round_s)
    if round_s is None or spec.marking == CONTROLLER:
        yield _drain(run)
    if spec.pfc:
        yield _headroom(run)
    if run.has_dcqcn:
        yield _cnp(run)


def _undisturbed_s(run: Run) -> float | None:
    """What a round takes where nothing is lost and nobody is late (s), by its spec and not as it was measured: a run
    that collapses must not be asked for less. None where processes decide when packets leave."""
    spec = run.parameters
    if run.workload == INCAST:
        return spec.ideal_seconds
    if run.workload == _IPERF3:
        return parse_duration_ns(run.given("duration"), "duration") / 1e9
    receivers = Counter(entry.get("receiver") for entry in run.measured.get("flows", ()))
    if run.workload not in _TRANSFERS or not receivers:
        return None
    return ideal_round_seconds(spec.path, max(receivers.values()), spec.sender_bytes, spec.jitter_ns)


def _hosts(round_s: float) -> Patience:
    return Patience(
        MOST_LATE_SHARE * round_s,
        f"a tenth of the {text.seconds(round_s)} that a round takes without loss: hosts only begin flows and see them "
        "end, and what their packets wait for is the shaper's, judged below",
    )


def _drain(run: Run) -> Patience:
    drain_s = run.parameters.buffer_bytes * 8 / run.parameters.path.rate_bps
    return Patience(
        MOST_LATE_SHARE * drain_s,
        f"a tenth of the {text.seconds(drain_s)} in which the buffer of a port drains: by so much of it a late process "
        "moves the queue",
    )


def _headroom(run: Run) -> Patience:
    """Of the port whose headroom fills first."""
    spans_s = {
        name: queue["options"]["headroom_bytes"] * 8 / port["rate_bps"]
        for name, port in run.measured.get("ports", {}).items()
        for queue in port.get("qdiscs", ())
        if "headroom_bytes" in queue.get("options", {}) and port.get("rate_bps")
    }
    if not spans_s:
        return Patience(None, "pauses are a process's, and no port of measured.json tells of its headroom")
    first = min(spans_s, key=lambda name: spans_s[name])
    return Patience(
        spans_s[first],
        f"a process sends the pauses, and the line fills the headroom of {first} in {text.seconds(spans_s[first])}: a "
        "pause that is later comes when packets have been lost",
    )


def _cnp(run: Run) -> Patience:
    """Rate timers that are late are made up for (controller.dcqcn), as far as they go; a CNP that was not sent is not.
    The rate timer is longer, too."""
    interval_s = parse_duration_ns(run.given("dcqcn_cnp_interval"), "dcqcn_cnp_interval") / 1e9
    return Patience(
        interval_s,
        f"a process answers marks, with a CNP each {text.seconds(interval_s)}: where it is later, of two that are due "
        "one is never sent, and senders cut their rates too seldom",
    )
