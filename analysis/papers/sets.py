"""Every set of published curves, in the order of the page."""

from __future__ import annotations

from analysis.papers import dcqcn, dctcp, fast08, fine_rto
from analysis.papers.model import CurveSet

SETS: tuple[CurveSet, ...] = (
    fast08.BUFFERS,
    fast08.MODERN,
    fast08.RENO,
    fast08.SRUS,
    fine_rto.FINE_RTO,
    dctcp.QUEUE,
    dctcp.TIMEOUTS,
    dctcp.COMPLETION,
    dctcp.FAIRNESS,
    dctcp.MULTI_HOP,
    dcqcn.FAIRNESS,
    dcqcn.VICTIM,
    dcqcn.CONVERGENCE,
    dcqcn.QUEUE,
)
