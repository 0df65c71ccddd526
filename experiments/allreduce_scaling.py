"""All-reduce on 4 to 64 hosts by every algorithm: what grows with the number of ranks, and where one overtakes another.

    h1 h2 ... hN    the ranks, and after them the parameter server or the aggregator
      \\  |   /
       leaf1        one switch: no uplink is shared, so that the algorithm alone decides

The server's incast is not the question here (see `incast`): ports mark as DCTCP wants it, and their buffers hold what
the senders have under way until the marks are heeded. Messages of 64 KiB: where few flows share a link, one may be as
much as a message behind the others. Four sizes, so that a line can be fitted and read at BERT-Large's 1.36 GB.
"""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.spec import Spec

RANKS = (4, 8, 16, 32, 64)
ALGORITHMS = ("ring", "tree", "hierarchical", "parameter_server", "in_network")
_MAIN = ("ring", 16)


def points(spec: Spec) -> tuple[Case, ...]:
    """Every algorithm at every number of ranks; the main run is one of them."""
    return tuple(
        Case(f"{algorithm}-n{ranks}", {"algorithm": algorithm, "ranks": ranks})
        for algorithm in ALGORITHMS
        for ranks in RANKS
        if (algorithm, ranks) != _MAIN
    )


EXPERIMENT = Experiment(
    name="allreduce_scaling",
    question="How does all-reduce grow with the number of ranks: parameter server, ring, double tree, hierarchical?",
    claim="slide 8: a parameter server's bandwidth need grows linearly with the workers, the ring's overhead per node"
    " stays constant",
    expects="the server's time is linear in the ranks, the ring's bytes per node constant; where delays decide, the"
    " tree overtakes the ring; in the network each rank sends the data once",
    defaults={
        "workload": "collective",
        "collective": "all_reduce",
        "algorithm": _MAIN[0],
        "ranks": _MAIN[1],
        "rate": "100Gbps",
        "mtu": "9000B",
        "buffer": "32MB",
        "queue": "dctcp",
        "chunk": "64KiB",
        "sizes": "1MiB,2MiB,4MiB,8MiB",
        "iterations": 1,
        "capture": "off",
        "telemetry": "off",
    },
    cases=points,
)
