"""A deadlock of pauses in a ring of switches whose packets all go the same way round, and what cures it."""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.pfc_unfairness import LOSSLESS
from experiments.spec import Spec

# Everyone sends two switches on. With one host on each switch the ring would carry that; with two, ports that are
# served alike give what is under way a third of the next link where it needs a half: the ring itself is paused.
_SWITCHES, _HOSTS, _AHEAD, _STEP_US = 4, 2, 2, 37
_PLACES = range(_SWITCHES * _HOSTS)
_TRAFFIC = ",".join(
    f"h{place + 1}>h{(place + _AHEAD * _HOSTS) % len(_PLACES) + 1}@{place * _STEP_US}us" for place in _PLACES
)


def cures(spec: Spec) -> tuple[Case, ...]:
    """Routes without a circle; a watchdog; losing packets instead of pausing; DCQCN, which slows senders down."""
    return (
        Case("up_down", {"routing": "up_down"}),
        Case("watchdog", {"pfc_watchdog": "1ms"}),
        Case("no_pfc", {"pfc": "off", "duration": "40ms"}),  # several of a queue pair's timeouts, of 67 ms
        Case("dcqcn", {"queue": "dcqcn"}),
    )


EXPERIMENT = Experiment(
    name="deadlock",
    question="Can pauses stop a lossless fabric for ever?",
    claim="slide 14: incast is cured by PFC; published: circles of waiting buffers deadlock (Hu et al., HotNets 2016)",
    expects="all flows stop within the first millisecond and never go on, with DCQCN too, which acts too late; routes"
    " without a circle never stop; a watchdog breaks the deadlock and loses packets",
    defaults={
        **LOSSLESS,
        "topology": "ring",
        "switches": _SWITCHES,
        "hosts_per_leaf": _HOSTS,
        "routing": "clockwise",
        "traffic": _TRAFFIC,
        "duration": "10ms",
    },
    cases=cures,
)
