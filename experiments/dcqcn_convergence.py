"""DCQCN while flows join and leave, and with 2 to 16 of them on one link of 40 and 100 Gb/s."""

from __future__ import annotations

from experiments.catalog import Case, Experiment
from experiments.pfc_unfairness import LOSSLESS, crowd
from experiments.spec import Spec

SENDERS = (2, 4, 8, 16)
RATES = ("40Gbps", "100Gbps")
# A flow that joins is cut to a fraction of its share, and gains 40 Mb/s every 55 us: 10 Gb/s take it 14 ms and more.
_TRAFFIC = "h2>h1@0ms,h3>h1@50ms-270ms,h4>h1@100ms-240ms,h5>h1@150ms-210ms"
# HPCC's authors give DCQCN Kmin = 100 KB, Kmax = 400 KB at 25 Gb/s, in proportion to the rate, and Pmax 0.2.
_HPCC_KB_PER_GBPS, _HPCC_PMAX = (4, 16), 0.2


def ratios(spec: Spec) -> tuple[Case, ...]:
    """N to 1 at both rates, by the thresholds of DCQCN's authors and by those of HPCC's; HPCC's own 7 to 1."""
    own = [Case(f"{count}to1-{int(rate[:-4])}g", _ratio(count, rate)) for rate in RATES for count in SENDERS]
    deep = [
        Case(f"{count}to1-{int(rate[:-4])}g-hpcc", {**_ratio(count, rate), **_hpcc(rate)})
        for rate in RATES
        for count in SENDERS
    ]
    return (*own, *deep, Case("7to1-25g-hpcc", {**_ratio(7, "25Gbps"), **_hpcc("25Gbps")}))


def _ratio(senders: int, rate: str) -> dict[str, object]:
    names = [f"h{number}" for number in range(2, senders + 2)]
    # Two flows have the furthest to go from what they begin with to equal shares.
    duration = "160ms" if senders == min(SENDERS) else "80ms"
    return {"hosts": senders + 1, "rate": rate, "traffic": crowd(names), "duration": duration}


def _hpcc(rate: str) -> dict[str, object]:
    kmin_kb, kmax_kb = (each * int(rate[:-4]) for each in _HPCC_KB_PER_GBPS)
    curve = {"kmin": f"{kmin_kb}KB", "kmax": f"{kmax_kb}KB", "pmax": _HPCC_PMAX}
    return {**curve, "buffer": f"{2 * kmax_kb}KB"}


EXPERIMENT = Experiment(
    name="dcqcn_convergence",
    question="Do DCQCN's flows share a link fairly, fill it, and keep its queue short, as they come and go?",
    claim="slide 14: incast is cured by DCQCN; published: fair, more than 97 % of the line used (Zhu et al.)",
    expects="at least 95 % of the line, Jain's index of 0.95 or more, a queue under Kmax, and no pause once settled",
    defaults={
        **LOSSLESS,
        "topology": "star",
        "hosts": 5,
        "queue": "dcqcn",
        "mtu": "1500B",  # packets of 1 KB, as both papers have them: of 4 KB there are too few marks for many flows
        "buffer": "600KB",  # at 100 Gb/s Kmax is 500 KB
        "traffic": _TRAFFIC,
        "duration": "300ms",
    },
    cases=ratios,
)
