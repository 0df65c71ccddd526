"""Marking of every port: by its own link's rate, below where the port would drop or pause."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import limits, marks
from experiments.spec import Spec, known, parse
from topologies.profiles import Marking, MarkingByRate
from topologies.units import BadRequest

LEAF_SPINE = {"topology": "leaf_spine"}
GBPS = 10**9


def resolve(**keys: Any) -> Spec:
    return limits.resolve(parse(keys))


def at(rate_gbps: int, **keys: Any) -> tuple[int, int, float]:
    """kmin, kmax and pmax of ports of a rate."""
    marking = limits.switch_profile(resolve(**keys)).marking
    assert marking is not None
    curve = marking.at(rate_gbps * GBPS)
    return curve.kmin_bytes, curve.kmax_bytes, curve.pmax


def test_dctcps_step_is_every_links_own() -> None:
    # C x RTT / 7 at a round trip of 2 (4 x 1 us + 3 x 0.4 us): at 250 Gb/s 30.7 frames, at 1 Tb/s 122.7
    keys = {**LEAF_SPINE, "queue": "dctcp", "rate": "250Gbps", "delay": "1us", "spines": 1}
    assert resolve(**keys).kmin_bytes == 31 * 1514
    assert at(250, **keys) == (31 * 1514, 31 * 1514, 1.0)
    assert at(1000, **keys) == (123 * 1514, 123 * 1514, 1.0)


def test_dctcps_least_step_is_the_same_at_every_rate() -> None:
    keys = {**LEAF_SPINE, "queue": "dctcp", "rate": "1Gbps", "spines": 1}
    assert at(1, **keys) == at(4, **keys) == (20 * 1514, 20 * 1514, 1.0)


def test_a_given_step_is_that_of_hosts_and_scales_for_others() -> None:
    keys = {**LEAF_SPINE, "queue": "dctcp", "rate": "250Gbps", "delay": "1us", "spines": 1}
    given = {"kmin": "31KB", "kmax": "31KB"}
    assert at(250, **keys, **given) == (31_000, 31_000, 1.0)
    assert at(1000, **keys, **given) == (123_000, 123_000, 1.0)


def test_dcqcns_curve_is_the_papers_at_its_rate() -> None:
    keys = {"queue": "dcqcn", "buffer": "4MB"}
    assert at(40, **keys, rate="40Gbps") == (5_000, 200_000, 0.01)
    assert at(100, **keys, rate="100Gbps") == (12_500, 500_000, 0.01)
    assert at(400, **keys, rate="400Gbps") == (50_000, 2_000_000, 0.01)


def test_dcqcns_curve_is_every_links_own() -> None:
    keys = {**LEAF_SPINE, "queue": "dcqcn", "rate": "100Gbps", "spines": 1, "buffer": "4MB"}
    assert resolve(**keys).kmax_bytes == 500_000
    assert (at(100, **keys), at(400, **keys)) == ((12_500, 500_000, 0.01), (50_000, 2_000_000, 0.01))
    given = {"kmin": "25KB", "pmax": 0.02}
    assert (at(100, **keys, **given), at(400, **keys, **given)) == (
        (25_000, 500_000, 0.02),
        (100_000, 2_000_000, 0.02),
    )


def test_dcqcns_curve_ends_a_frame_below_the_buffer() -> None:
    keys = {**LEAF_SPINE, "queue": "dcqcn", "rate": "100Gbps", "spines": 1}
    assert at(100, **keys) == (12_500, 500_000, 0.01)
    assert at(400, **keys) == (50_000, 600_000 - 1514, 0.01)
    assert at(400, **keys, kmin="500KB", kmax="500KB") == (598_486, 598_486, 0.01)


def test_no_mark_is_meant_for_an_empty_queue() -> None:
    assert at(1, queue="dcqcn", rate="1Gbps") == (1514, 5_000, 0.01)


def test_a_threshold_that_is_not_given_gives_way() -> None:
    keys = {"queue": "dcqcn", "rate": "40Gbps"}
    assert at(40, **keys, kmin="300KB") == (300_000, 300_000, 0.01)
    assert at(40, **keys, kmax="3KB") == (3_000, 3_000, 0.01)


def test_an_nvswitch_marks_like_the_fastest_switch_outside() -> None:
    keys = {"topology": "gpu_pod", "queue": "dctcp"}
    assert at(3600, **keys) == at(400, **keys)
    assert at(3600, **keys, uplink_rate="1600Gbps", spines=1, servers=4) == at(
        1600, **keys, uplink_rate="1600Gbps", spines=1, servers=4
    )
    assert at(3600, **keys, nvlink_rate="3.6Tbps", rate="100Gbps") == at(100, **keys, rate="100Gbps")


def test_early_drops_do_not_know_rates() -> None:
    marking = limits.switch_profile(resolve(**LEAF_SPINE, queue="red", spines=1)).marking
    assert marking == Marking(150_000, 450_000, 0.1, drop=True)
    assert marking is not None
    assert marking.at(GBPS) == marking


def test_a_rate_that_no_link_has_is_no_ports() -> None:
    marking = limits.switch_profile(resolve(queue="dctcp")).marking
    assert isinstance(marking, MarkingByRate)
    with pytest.raises(KeyError):
        marking.at(GBPS)


PFC = {"pfc": "on", "transport": "roce", "xoff": "100KB"}


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {"queue": "dcqcn", "kmax": "600KB"},
            "kmax: 600KB is not below the buffer of 600KB: the tail would drop before all is marked;"
            " allowed: below the buffer",
        ),
        (
            {"queue": "dcqcn", "kmin": "50KB", "kmax": "40KB"},
            "kmin: 50KB is above kmax 40KB; allowed: up to kmax",
        ),
        (
            {**LEAF_SPINE, "queue": "dctcp", "rate": "100Gbps", "delay": "10us", "spines": 1, "buffer": "500KB"},
            "buffer: 500KB is not above the threshold (kmax) that follows from rate and delay, 588946B at 400Gbps: the"
            " tail would drop before all is marked; allowed: a larger buffer, or a kmax below it",
        ),
        (
            {**PFC, "queue": "dcqcn", "kmax": "100KB"},
            "kmax: 100KB is not below xoff of 100KB: PFC would act before all is marked; allowed: below xoff",
        ),
        (
            {**PFC, "queue": "dcqcn", "kmin": "120KB"},
            "kmin: 120KB is not below xoff of 100KB: PFC would act before anything is marked; allowed: below xoff",
        ),
        (
            {"pfc": "on", "traffic_class": "lossless", "xoff": "30KB", "queue": "dctcp"},
            "xoff: 30KB is not above the threshold (kmax) that follows from rate and delay, 30.28KB: PFC would act"
            " before all is marked; allowed: a larger xoff, or a kmax below it",
        ),
    ],
)
def test_marks_that_come_too_late_are_refused(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(BadRequest) as error:
        resolve(**keys)
    assert str(error.value) == line


def test_with_pfc_marks_end_below_xoff() -> None:
    assert at(400, **PFC, queue="dcqcn") == (50_000, 100_000 - 1514, 0.01)
    shared = resolve(pfc="on", transport="roce", queue="dcqcn", alpha="1/16", hosts=8)
    assert shared.kmax_bytes == known(shared.xoff_bytes) - 1514


@pytest.mark.parametrize(
    ("keys", "warned"),
    [
        ({"workload": "all_to_all", "alpha": "1", "pool": "600KB", "hosts": "5", "kmin": "60KB"}, True),
        ({"workload": "all_to_all", "alpha": "1", "pool": "600KB", "hosts": "5", "kmin": "59KB"}, False),
        ({"workload": "all_to_all", "xoff": "500KB", "hosts": "5", "kmin": "100KB"}, True),
        ({"workload": "all_to_all", "xoff": "500KB", "hosts": "5", "kmin": "99KB"}, False),
        ({"workload": "permutation", "xoff": "500KB", "hosts": "5", "kmin": "100KB"}, False),  # one queue a port
    ],
)
def test_marks_that_may_come_after_pauses_are_warned_of(keys: dict[str, Any], warned: bool) -> None:
    spec = resolve(pfc="on", transport="roce", queue="dcqcn", **keys)
    assert bool(marks.warnings(spec)) is warned


RATES = st.sampled_from(["1Gbps", "10Gbps", "25Gbps", "40Gbps", "100Gbps", "400Gbps", "800Gbps"])


@given(RATES, RATES, st.integers(20_000, 10**7), st.sampled_from(["1500B", "4200B", "9000B"]))
def test_every_port_marks_all_before_its_buffer_is_full(rate: str, uplink: str, buffer_bytes: int, mtu: str) -> None:
    keys = {"topology": "dumbbell", "queue": "dcqcn", "mtu": mtu, "buffer": f"{buffer_bytes}B"}
    spec = resolve(**keys, rate=rate, uplink_rate=uplink)
    marking = limits.switch_profile(spec).marking
    assert isinstance(marking, MarkingByRate)
    curves = [curve for _, curve in sorted(marking.curves)]
    for curve in curves:
        assert 0 < curve.kmin_bytes <= curve.kmax_bytes <= buffer_bytes - spec.frame_bytes
    assert curves == sorted(curves, key=lambda curve: (curve.kmin_bytes, curve.kmax_bytes))
    assert limits.resolve(spec) == spec
