"""All collectives and algorithms in nccl-tests' terms: time, algbw and busbw of each size, and how many numbers are
wrong.

    h1 h2 ... h16  h17    the ranks; h17 is the parameter server or the aggregator, where there is one
      \\  |   /    /
        leaf1             one switch: what a rank's link carries is the algorithm's doing alone

Ports mark as DCTCP wants it: where many send to one, the question here is not the incast (see `incast`). The other
algorithms and collectives stop at smaller sizes: some of them move many times the bytes of a ring.
"""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.cluster import CHOICES
from experiments.kinds import SIZES
from experiments.spec import Spec

_SIZES, _SHORT_SIZES = "64KiB-64MiB", "64KiB-4MiB"


def others(spec: Spec) -> tuple[Case, ...]:
    """The other algorithms of all-reduce, the other collectives by their usual algorithm, and the ring over RoCE."""
    shorter = {"sizes": _SHORT_SIZES} if spec.sizes_bytes == SIZES.parse(_SIZES, "sizes") else {}
    collective, *rest = CHOICES
    algorithms = (Case(each, {"algorithm": each, **shorter}) for each in CHOICES[collective] if each != "ring")
    collectives = (Case(each, {"collective": each, "algorithm": CHOICES[each][0], **shorter}) for each in rest)
    roce = Case("ring-roce", {"transport": "roce", "pfc": "on", "queue": "droptail", **shorter})
    return (*algorithms, *collectives, roce)


EXPERIMENT = Experiment(
    name="collectives",
    question="How fast is each collective by each algorithm, and is its result right to the last number?",
    claim="slides 6, 8, 9: ring all-reduce moves 2(N-1)/N of the data per node whatever N is; six collectives and their"
    " patterns",
    expects="the ring's busbw comes within 85 % of the line at 64 MiB; no number is wrong; in the network a worker's"
    " link carries about half of the ring's bytes",
    defaults={
        "workload": "collective",
        "collective": "all_reduce",
        "algorithm": "ring",
        "ranks": 16,
        "rate": "100Gbps",
        "mtu": "9000B",
        "queue": "dctcp",
        "buffer": "4MB",
        "chunk": "64KiB",
        "sizes": _SIZES,
        "iterations": 2,
        "capture": "off",
        "telemetry": "off",
    },
    cases=others,
)
