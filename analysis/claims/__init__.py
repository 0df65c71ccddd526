"""The lecture's claims as data, each with the judge that tells whether a run reproduces it."""

from __future__ import annotations

from analysis.claims import (
    slide_4,
    slide_8,
    slide_9,
    slide_9_nvlink,
    slide_10,
    slide_10_traffic,
    slide_11,
    slide_12,
    slide_13,
    slide_14,
    slide_14_cures,
    slide_14_job,
    slide_17,
    slide_20,
    slide_21,
    slide_23,
    slides_2_3,
    slides_6_7,
    slides_15_16,
    slides_18_19,
)
from analysis.claims.model import Claim

# In the lecture's order.
CLAIMS: tuple[Claim, ...] = (
    *slides_2_3.CLAIMS,
    *slide_4.CLAIMS,
    *slides_6_7.CLAIMS,
    *slide_8.CLAIMS,
    *slide_9.CLAIMS,
    *slide_9_nvlink.CLAIMS,
    *slide_10.CLAIMS,
    *slide_10_traffic.CLAIMS,
    *slide_11.CLAIMS,
    *slide_12.CLAIMS,
    *slide_13.CLAIMS,
    *slide_14.CLAIMS,
    *slide_14_job.CLAIMS,
    *slide_14_cures.CLAIMS,
    *slides_15_16.CLAIMS,
    *slide_17.CLAIMS,
    *slides_18_19.CLAIMS,
    *slide_20.CLAIMS,
    *slide_21.CLAIMS,
    *slide_23.CLAIMS,
)
