"""What TCP and RoCE take: algorithms, packet sizes, windows, DCQCN's parameters; the rest is refused."""

from __future__ import annotations

from typing import Any

import pytest

from controller.dcqcn import Dcqcn
from experiments import limits, roce
from experiments.spec import Spec, parse
from topologies.units import BadRequest

ROCE = {"transport": "roce"}
DCQCN = {**ROCE, "queue": "dcqcn"}
CARRIED = (
    "workload=incast or permutation or all_to_all or long_flows or collective or training or federated"
    " or FILE.py:NAME or launch"
)


def resolve(**keys: Any) -> Spec:
    return limits.resolve(parse(keys))


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"cc": "dcqcn"}, "cc: dcqcn is given with transport=tcp; allowed: with transport=roce"),
        ({"cc": "none"}, "cc: none is given with transport=tcp; allowed: with transport=roce"),
        ({**ROCE, "cc": "reno"}, "cc: reno is given with transport=roce; allowed: with transport=tcp"),
        ({"cc": "bbr", "queue": "dctcp"}, "cc: bbr is given with queue=dctcp; allowed: with queue=droptail or red"),
        ({**DCQCN, "cc": "none"}, "cc: none is given with queue=dcqcn; allowed: with queue=droptail or red"),
        ({**ROCE, "workload": "pings"}, f"transport: roce is given with workload=pings; allowed: with {CARRIED}"),
        (
            {**ROCE, "workload": "streams"},
            f"transport: roce is given with workload=streams; allowed: with {CARRIED}",
        ),
        ({**ROCE, "rto_min": "1ms"}, "rto_min: 1ms is given with transport=roce; allowed: with transport=tcp"),
        ({"verb": "send"}, "verb: send is given with transport=tcp; allowed: with transport=roce"),
        ({"window": "64KB"}, "window: 64KB is given with transport=tcp; allowed: with transport=roce"),
        ({**ROCE, "dcqcn_f": 3}, "dcqcn_f: 3 is given with cc=none; allowed: with cc=dcqcn"),
        (
            {**ROCE, "roce_mtu": "2048B"},
            "roce_mtu: 2048B and 80B of headers are above mtu=1.5KB; allowed: up to 1024B, or mtu=2128B",
        ),
        (
            {**ROCE, "roce_mtu": "4096B", "mtu": "4175B"},
            "roce_mtu: 4096B and 80B of headers are above mtu=4175B; allowed: up to 2048B, or mtu=4176B",
        ),
        (
            {**ROCE, "window": "1023B"},
            "window: 1023B holds no packet; allowed: off, or roce_mtu=1024B or more",
        ),
        ({**DCQCN, "rate": "8Mbps"}, "dcqcn_min_rate: 10Mbps is above rate=8Mbps; allowed: up to the rate"),
        (
            {**DCQCN, "dcqcn_alpha_timer": "50us"},
            "dcqcn_alpha_timer: 50us is not above the interval between two CNPs: alpha would fall though marks go on;"
            " allowed: above dcqcn_cnp_interval=50us",
        ),
        (
            {**DCQCN, "dcqcn_min_rate": "401Gbps"},
            "dcqcn_min_rate: 401Gbps is above rate=400Gbps; allowed: up to the rate",
        ),
        ({**DCQCN, "dcqcn_rate_timer": "2h"}, "dcqcn_rate_timer: 7200s is given; allowed: up to 3600s"),
        (
            {**DCQCN, "traffic_class": "lossy"},
            "traffic_class: lossy is given with cc=dcqcn, which paces the lossless class; allowed: lossless",
        ),
    ],
)
def test_what_hosts_cannot_do_is_refused(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(BadRequest) as error:
        resolve(**keys)
    assert str(error.value) == line


@pytest.mark.parametrize(
    ("mtu", "roce_mtu_bytes"),
    [("576B", 256), ("591B", 256), ("592B", 512), ("1500B", 1024), ("4175B", 2048), ("4176B", 4096), ("9000B", 4096)],
)
def test_a_packet_is_the_largest_that_fits(mtu: str, roce_mtu_bytes: int) -> None:
    assert resolve(**ROCE, mtu=mtu).roce_mtu_bytes == roce_mtu_bytes
    assert resolve(**ROCE, mtu="9000B", roce_mtu=f"{roce_mtu_bytes}B").roce_mtu_bytes == roce_mtu_bytes


def test_roce_keys_have_their_usual_values() -> None:
    spec = resolve(**ROCE)
    assert (spec.verb, spec.window_bytes, spec.traffic_class) == ("write", 0, "lossless")
    assert resolve(**ROCE, window="1024B").window_bytes == 1024
    assert (resolve().verb, resolve().window_bytes, resolve().roce_mtu_bytes) == (None, None, None)


def test_hosts_get_rdma_devices_and_a_tcp_that_the_kernel_knows() -> None:
    host = limits.host_profile(resolve(**DCQCN))
    assert host.roce
    assert host.cc == "cubic"


def test_dcqcn_has_the_papers_parameters() -> None:
    assert roce.dcqcn(resolve(**DCQCN)) == Dcqcn()
    assert roce.dcqcn(resolve(**ROCE)) is None
    assert roce.dcqcn(resolve(queue="dcqcn")) is None


def test_dcqcn_has_what_it_is_given() -> None:
    given = {
        "cnp_interval": "10us",
        "alpha_timer": "20us",
        "rate_timer": "30us",
        "byte_counter": "1MB",
        "f": 3,
        "g": 0.25,
        "rai": "1Gbps",
        "rhai": "2Gbps",
        "min_rate": "3Gbps",
    }
    spec = resolve(**DCQCN, **{f"dcqcn_{name}": value for name, value in given.items()})
    expected = Dcqcn(10_000, 20_000, 30_000, 1_000_000, 3, 0.25, 10**9, 2 * 10**9, 3 * 10**9)
    assert roce.dcqcn(spec) == expected


def test_reactions_that_nothing_asks_for_are_warned_of() -> None:
    assert limits.warnings(resolve(**ROCE, cc="dcqcn")) == [
        "cc: dcqcn slows down for marks, and queue=droptail makes none: it never acts"
    ]
    assert limits.warnings(resolve(**ROCE, cc="dcqcn", queue="dctcp")) == []
