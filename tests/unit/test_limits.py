"""What a spec leaves open is derived; what cannot work is refused in one line, with the numbers."""

from __future__ import annotations

from typing import Any

import pytest

from experiments import cluster, limits
from experiments.spec import OWN, TOPOLOGIES, WORKLOADS, Spec, parse
from experiments.spec import keys as keys_of_spec
from experiments.traffic import Flow
from topologies.profiles import Marking, MarkingByRate
from topologies.units import BadRequest


def resolve(**keys: Any) -> Spec:
    return limits.resolve(parse(keys))


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"mtu": "575B"}, "mtu: 575B is given; allowed: 576B to 9000B"),
        ({"mtu": "9001B"}, "mtu: 9001B is given; allowed: 576B to 9000B"),
        ({"buffer": "1513B"}, "buffer: 1513B is given and holds no packet; allowed: one frame of 1514B or more"),
        (
            {"buffer": "9KB", "mtu": "9000B"},
            "buffer: 9KB is given and holds no packet; allowed: one frame of 9014B or more",
        ),
        ({"rto_min": "500us"}, "rto_min: 500us is given; allowed: whole timer ticks of 1ms, one or more, up to 120s"),
        ({"rto_min": "1500us"}, "rto_min: 1.5ms is given; allowed: whole timer ticks of 1ms, one or more, up to 120s"),
        ({"rto_min": "121s"}, "rto_min: 121s is given; allowed: whole timer ticks of 1ms, one or more, up to 120s"),
        ({"rto_min": "1ns"}, "rto_min: 1ns is given; allowed: whole timer ticks of 1ms, one or more, up to 120s"),
        ({"initial_window": 10_001}, "initial_window: 10001 is given; allowed: 1 to 10000"),
        ({"senders": 1024}, "senders: 1024 is given; allowed: up to 1023"),
        ({"rate": "7bps"}, "rate: 7bps is given; allowed: whole bytes per second, 100Kbps to 3.2Tbps"),
        ({"rate": "3.3Tbps"}, "rate: 3.3Tbps is given; allowed: whole bytes per second, 100Kbps to 3.2Tbps"),
        ({"rack": "off"}, "rack: off is given with sack on; allowed: off only together with sack=off"),
        ({"kmin": "1KB"}, "kmin, kmax, pmax: given with queue=droptail; allowed: with queue=red, dctcp or dcqcn"),
        ({"pmax": 0.5}, "kmin, kmax, pmax: given with queue=droptail; allowed: with queue=red, dctcp or dcqcn"),
        (
            {"queue": "red", "kmin": "50KB", "kmax": "49KB"},
            "kmin: 50KB is above kmax 49KB; allowed: up to kmax",
        ),
        (
            {"queue": "red", "kmax": "600KB"},
            "kmax: 600KB is not below the buffer of 600KB: the tail would drop before all is marked;"
            " allowed: below the buffer",
        ),
        (
            {"queue": "dctcp", "buffer": "30280B"},
            "buffer: 30.28KB is not above the threshold (kmax) that follows from rate and delay, 30.28KB: the tail"
            " would drop before all is marked; allowed: a larger buffer, or a kmax below it",
        ),
        (
            {"delay": "10s"},
            "delay, switch_delay: a round trip of 40s is given;"
            " allowed: up to 900ms (ARP and SYN are sent again after a second)",
        ),
        ({"buffer": "4GiB"}, "buffer: 4GiB is given; allowed: up to 2GiB"),
        ({"jitter": "2h"}, "jitter: 7200s is given; allowed: up to 3600s"),
        ({"queue": "red", "pmax": 1e-7}, "pmax: 1e-07 is given; allowed: 1e-06 to 1"),
        ({"rate": "8bps"}, "rate: 8bps is given; allowed: whole bytes per second, 100Kbps to 3.2Tbps"),
        (
            {"queue": "dctcp", "kmin": "40KB", "kmax": "50KB"},
            "kmin, kmax, pmax: queue=dctcp marks at a step; allowed: kmin equal to kmax, pmax 1",
        ),
        (
            {"queue": "dctcp", "kmin": "40KB"},
            "kmin, kmax, pmax: queue=dctcp marks at a step; allowed: kmin equal to kmax, pmax 1",
        ),
        (
            {"queue": "dctcp", "pmax": 0.5},
            "kmin, kmax, pmax: queue=dctcp marks at a step; allowed: kmin equal to kmax, pmax 1",
        ),
    ],
)
def test_what_cannot_work_is_refused(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(BadRequest) as error:
        resolve(**keys)
    assert str(error.value) == line


LEAF_SPINE, FAT_TREE, GPU_POD = {"topology": "leaf_spine"}, {"topology": "fat_tree"}, {"topology": "gpu_pod"}
STREAMS, RING = {**LEAF_SPINE, "workload": "streams"}, {"topology": "ring"}
NO_RING = "topology=dumbbell or leaf_spine or fat_tree or gpu_pod"
SEVERAL = f"{NO_RING} or ring or {OWN}"
RATE_RANGE = "allowed: whole bytes per second, 100Kbps to 3.2Tbps"


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({**FAT_TREE, "k": 5}, "k: 5 is given; allowed: even numbers from 4 to 16"),
        ({**FAT_TREE, "k": 2}, "k: 2 is given; allowed: even numbers from 4 to 16"),
        ({**FAT_TREE, "k": 18}, "k: 18 is given; allowed: even numbers from 4 to 16"),
        (
            {**FAT_TREE, "hosts": 17},
            "hosts: 17 is given with 16 places (k=4: 4 pods, 2 edges in each, 2 hosts on each); allowed: 2 to 16",
        ),
        (
            {**LEAF_SPINE, "hosts": 17, "hosts_per_leaf": 4},
            "hosts: 17 is given with 16 places (4 leaves of 4); allowed: 2 to 16",
        ),
        ({"topology": "dumbbell", "hosts": 509}, "hosts: 509 is given with 508 places (254 a side); allowed: 2 to 508"),
        ({"hosts": 1025}, "hosts: 1025 is given with 1024 places (one switch); allowed: 2 to 1024"),
        ({"hosts": 1}, "hosts: 1 is given; allowed: 2 to 1024"),
        (
            {**LEAF_SPINE, "leaves": 100, "hosts_per_leaf": 100},
            "hosts: auto, all places (100 leaves of 100), is 10000; allowed: 2 to 1024",
        ),
        ({**LEAF_SPINE, "hosts": 1200, "leaves": 8}, "hosts: 1200 is given; allowed: 2 to 1024"),
        ({**LEAF_SPINE, "leaves": 255}, "leaves: 255 is given; allowed: up to 254"),
        ({**LEAF_SPINE, "hosts_per_leaf": 255}, "hosts_per_leaf: 255 is given; allowed: up to 254"),
        (
            {**LEAF_SPINE, "hosts": 1024},
            "hosts_per_leaf: 256 are needed for hosts=1024 on 4 leaves; allowed: up to 254",
        ),
        ({**LEAF_SPINE, "spines": 255}, "spines: 255 is given; allowed: up to 254"),
        (
            {**LEAF_SPINE, "hosts_per_leaf": 254, "leaves": 2, "uplink_rate": "100Gbps"},
            "spines: 1016 are needed; allowed: up to 254, with a higher uplink_rate or oversubscription",
        ),
        ({**GPU_POD, "hosts": 20}, "hosts: 20 is given with topology=gpu_pod; allowed: whole servers of 8"),
        (
            {**GPU_POD, "hosts": 16, "servers": 4},
            "hosts: 16 is given with 32 GPUs (servers=4); allowed: 32, or other servers",
        ),
        ({**GPU_POD, "servers": 129}, "servers: 129 is given; allowed: up to 128"),
        (
            {**GPU_POD, "leaves": 4},
            "leaves: 4 is given with rails=on; allowed: with rails=off; there is one leaf for each rail",
        ),
        (
            {**GPU_POD, "rails": "off", "leaves": 255},
            "leaves: 255 is given; allowed: up to 254",
        ),
        (
            {**GPU_POD, "rails": "off", "leaves": 1, "servers": 40},
            "leaves: 1 for 40 servers make 320 hosts a leaf; allowed: up to 254",
        ),
        ({**LEAF_SPINE, "senders": 16}, "senders: 16 is given with hosts=16; allowed: up to 15"),
        ({"hosts": 3, "senders": 4}, "senders: 4 is given with hosts=3; allowed: up to 2"),
        (
            {**LEAF_SPINE, "spines": 2, "uplink_rate": "400Gbps", "oversubscription": "1:1"},
            "oversubscription: 1:1 is given, but 4 x 400Gbps of a rack's hosts over 2 uplinks of 400Gbps are 2:1;"
            " allowed: 2:1, or other uplinks",
        ),
        (
            {**FAT_TREE, "uplink_rate": "200Gbps", "oversubscription": "4:1"},
            "oversubscription: 4:1 is given, but 2 x 400Gbps of a rack's hosts over 2 uplinks of 200Gbps are 2:1;"
            " allowed: 2:1, or other uplinks",
        ),
        (
            {**LEAF_SPINE, "spines": 8, "uplink_rate": "400Gbps"},
            "oversubscription: 4 x 400Gbps of a rack's hosts over 8 uplinks of 400Gbps are 1:2; allowed: 1:1 to 8:1",
        ),
        (
            {**LEAF_SPINE, "uplink_rate": "300Gbps"},
            "uplink_rate: 300Gbps is given, and 4 x 400Gbps of a leaf's hosts at 1:1 need 5.333 such links;"
            " allowed: uplink_rate=320Gbps or 400Gbps, or spines as well",
        ),
        (
            {**LEAF_SPINE, "spines": 3},
            "uplink_rate: 4 x 400Gbps of a rack's hosts at 1:1 over 3 uplinks are 5.333333333e+11 bits/s each,"
            " no whole number of bytes per second; allowed: spines=2 or 4 or 1",
        ),
        (
            {**FAT_TREE, "oversubscription": "3:1"},
            "uplink_rate: 2 x 400Gbps of a rack's hosts at 3:1 over 2 uplinks are 1.333333333e+11 bits/s each,"
            " no whole number of bytes per second; allowed: oversubscription=1:1 or 2:1 or 4:1 or 8:1 or 5:4",
        ),
        ({**LEAF_SPINE, "uplink_rate": "8bps"}, f"uplink_rate: 8bps is given; {RATE_RANGE}"),
        ({**FAT_TREE, "uplink_rate": "4Tbps"}, f"uplink_rate: 4Tbps is given; {RATE_RANGE}"),
        (
            {**LEAF_SPINE, "rate": "100Kbps", "oversubscription": "8:1"},
            f"uplink_rate: 50Kbps follows from 8:1 over 1 uplinks; {RATE_RANGE}",
        ),
        (
            {**GPU_POD, "nvlink_rate": "9Tbps"},
            "nvlink_rate: 9Tbps is given; allowed: whole bytes per second, 100Kbps to 8Tbps",
        ),
        (
            {**LEAF_SPINE, "k": 6},
            "k: 6 is given with topology=leaf_spine; allowed: with topology=fat_tree or FILE.py:NAME",
        ),
        (
            {"spines": 2},
            "spines: 2 is given with topology=star; allowed: with topology=leaf_spine or gpu_pod or FILE.py:NAME",
        ),
        ({"uplink_rate": "1Gbps"}, f"uplink_rate: 1Gbps is given with topology=star; allowed: with {SEVERAL}"),
        ({"routing": "d_mod_k"}, f"routing: d_mod_k is given with topology=star; allowed: with {NO_RING} or {OWN}"),
        ({"ecmp_seed": "same"}, f"ecmp_seed: same is given with topology=star; allowed: with {SEVERAL}"),
        ({"fast_failover": "off"}, f"fast_failover: off is given with topology=star; allowed: with {SEVERAL}"),
        ({"control_latency": "1ms"}, f"control_latency: 1ms is given with topology=star; allowed: with {SEVERAL}"),
        (
            {"failure": "leaf1:down@1ms"},
            f"failure: leaf1:down@1ms is given with topology=star; allowed: with {SEVERAL}",
        ),
        ({"openflow": "1.3"}, f"openflow: 1.3 is given with topology=star; allowed: with {SEVERAL}"),
        (
            {"workload": "pings", "senders": 3},
            "senders: 3 is given with workload=pings; allowed: with workload=incast or iperf3",
        ),
        (
            {"workload": "pings", "rounds": 7},
            "rounds: 7 is given with workload=pings; allowed: with workload=incast or permutation or all_to_all or"
            " federated or FILE.py:NAME",
        ),
        ({"flows": 7}, "flows: 7 is given with workload=incast; allowed: with workload=datagrams"),
        (
            {"duration": "7ms"},
            "duration: 7ms is given with workload=incast; allowed: with workload=streams or long_flows or iperf3",
        ),
        (
            {**LEAF_SPINE, "openflow": "1.3", "ecmp_seed": "per_switch"},
            "ecmp_seed: per_switch is given with openflow=1.3, which has no seeds; allowed: same, or openflow=1.5",
        ),
        ({**LEAF_SPINE, "control_latency": "1001ms"}, "control_latency: 1001ms is given; allowed: up to 1s"),
        (
            {**LEAF_SPINE, "failure": "spine1:down@4ms", "control_latency": "999us"},
            "control_latency: 999us is given with a failure; allowed: 1ms or more (what fails together is told port by"
            " port)",
        ),
        ({**STREAMS, "failure": "spine1:down@40ms"}, "failure: spine1:down@40ms is given; allowed: times before 40ms"),
        (
            {**STREAMS, "failure": "spine5:down@4ms"},
            "failure: spine5:down@4ms: there is no switch spine5; allowed: leaf1 to leaf4, spine1 to spine4",
        ),
        (
            {**LEAF_SPINE, "failure": "spine1:up@4ms"},
            "failure: spine1:up@4ms: it has not gone down before; allowed: up after down",
        ),
        (
            {**STREAMS, "rate": "1Gbps", "interval": "9us"},
            "interval: 9us is given: 16 streams of 78B frames could fill a link of 1Gbps; allowed: 9984ns or more",
        ),
        (
            {**STREAMS, "interval": "1ms", "duration": "999us"},
            "duration: 999us is given; allowed: interval=1ms or more",
        ),
        ({**STREAMS, "duration": "2h"}, "duration: 7200s is given; allowed: up to 3600s"),
        ({**RING, "switches": 2}, "switches: 2 is given; allowed: 3 to 254"),
        ({**RING, "switches": 255}, "switches: 255 is given; allowed: 3 to 254"),
        ({**RING, "hosts_per_leaf": 255}, "hosts_per_leaf: 255 is given; allowed: up to 254"),
        (
            {**RING, "hosts": 1020},
            "hosts_per_leaf: 255 are needed for hosts=1020 on 4 switches; allowed: up to 254",
        ),
        ({**RING, "hosts": 6}, "hosts: 6 is given with topology=ring; allowed: 8, 2 on each switch"),
        ({**RING, "routing": "ecmp"}, f"routing: ecmp is given with topology=ring; allowed: with {NO_RING} or {OWN}"),
        (
            {**LEAF_SPINE, "routing": "clockwise"},
            "routing: clockwise is given with topology=leaf_spine; allowed: with topology=ring",
        ),
        ({"switches": 5}, "switches: 5 is given with topology=star; allowed: with topology=ring or FILE.py:NAME"),
    ],
)
def test_a_fabric_or_workload_that_cannot_be_is_refused(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(BadRequest) as error:
        resolve(**keys)
    assert str(error.value) == line


@pytest.mark.parametrize(
    "keys",
    [
        {"mtu": "576B"},
        {"mtu": "9000B"},
        {"buffer": "1514B"},
        {"rto_min": "1ms"},
        {"initial_window": 1},
        {"initial_window": 10_000},
        {"senders": 1023},
        {"rate": "100Kbps"},
        {"rate": "3.2Tbps"},
        {"rack": "off", "sack": "off"},
        {"queue": "red", "kmin": "50KB", "kmax": "50KB"},
        {"queue": "dctcp", "kmin": "599999B", "kmax": "599999B"},
        {"queue": "dctcp", "pmax": 1},
        {"hosts": 2},
        {"hosts": 1024},
        {**FAT_TREE, "k": 16},
        {**FAT_TREE, "hosts": 2},
        {**LEAF_SPINE, "leaves": 254, "hosts_per_leaf": 4},
        {**LEAF_SPINE, "leaves": 4, "hosts_per_leaf": 254},
        {**LEAF_SPINE, "leaves": 1, "hosts": 2},
        {"topology": "dumbbell", "hosts": 508},
        {**GPU_POD, "servers": 128},
        {**GPU_POD, "nvlink_rate": "8Tbps"},
        {**LEAF_SPINE, "control_latency": "1s"},
        {**LEAF_SPINE, "control_latency": "0ns"},
        {**LEAF_SPINE, "control_latency": "1ms", "failure": "spine1:down@4ms"},
        {**RING, "switches": 3},
        {**RING, "switches": 254, "hosts_per_leaf": 4},
        {**RING, "routing": "clockwise"},
        {**LEAF_SPINE, "openflow": "1.3", "ecmp_seed": "same"},
        {**STREAMS, "rate": "1Gbps"},
        {**STREAMS, "failure": "spine1:down@39999us"},
        {**LEAF_SPINE, "failure": "leaf1-spine4:down@50ms"},
    ],
)
def test_what_just_works_is_taken(keys: dict[str, Any]) -> None:
    resolve(**keys)


def test_congestion_control_follows_the_queue() -> None:
    assert resolve().cc == "cubic"
    assert resolve(queue="red").cc == "cubic"
    assert resolve(queue="dctcp").cc == "dctcp"
    assert resolve(queue="dctcp", cc="reno").cc == "reno"
    assert resolve(queue="dcqcn").cc == "dctcp"
    assert resolve(transport="roce").cc == "none"
    assert resolve(transport="roce", queue="dcqcn").cc == "dcqcn"


@pytest.mark.parametrize(
    ("rate", "delay", "switch_delay", "mtu", "threshold_bytes"),
    [
        # C x RTT / 7 is 400 Gb/s x 5 us / 7 = 35,714 bytes: 23.6 frames
        ("400Gbps", "1us", "500ns", "1500B", 24 * 1514),
        # 3.6 frames: the least is 20
        ("10Gbps", "10us", "0ns", "1500B", 20 * 1514),
        # 1 Gb/s x 100 ms / 7 = 1,785,714 bytes: 198.1 frames of jumbo size
        ("1Gbps", "25ms", "0ns", "9000B", 199 * 9014),
    ],
)
def test_dctcps_threshold_follows_rate_and_round_trip(
    rate: str, delay: str, switch_delay: str, mtu: str, threshold_bytes: int
) -> None:
    spec = resolve(queue="dctcp", rate=rate, delay=delay, switch_delay=switch_delay, mtu=mtu, buffer="10MB")
    assert (spec.kmin_bytes, spec.kmax_bytes, spec.pmax) == (threshold_bytes, threshold_bytes, 1.0)


def test_reds_thresholds_follow_the_buffer() -> None:
    spec = resolve(queue="red", buffer="400KB")
    assert (spec.kmin_bytes, spec.kmax_bytes, spec.pmax) == (100_000, 300_000, 0.1)
    given = resolve(queue="red", buffer="400KB", kmin="10KB", kmax="20KB", pmax=0.5)
    assert (given.kmin_bytes, given.kmax_bytes, given.pmax) == (10_000, 20_000, 0.5)


@pytest.mark.parametrize("queue", ["droptail", "red", "dctcp", "dcqcn"])
def test_resolving_again_changes_nothing(queue: str) -> None:
    spec = resolve(queue=queue)
    assert limits.resolve(spec) == spec
    assert limits.resolve(parse(spec.as_text())) == spec


def test_profiles_carry_the_spec() -> None:
    spec = resolve(
        queue="dctcp", kmin="50KB", kmax="50KB", rate="1Gbps", delay="3us", mtu="9000B", rto_min="5ms", tlp="off"
    )
    link, switch, host = limits.link_profile(spec), limits.switch_profile(spec), limits.host_profile(spec)
    assert (link.rate_bps, link.delay_ns, link.mtu_bytes, link.frame_bytes) == (10**9, 3000, 9000, 9014)
    assert (switch.delay_ns, switch.buffer_bytes) == (spec.switch_delay_ns, 600_000)
    assert switch.marking == MarkingByRate(((10**9, Marking(50_000, 50_000, 1.0, drop=False)),))
    assert switch.lossless is None
    assert not host.roce
    assert host.initial_window_packets == 10
    assert limits.host_profile(resolve(initial_window=2)).initial_window_packets == 2
    assert (host.cc, host.rto_min_ns, host.sack, host.tlp, host.rack, host.ecn) == (
        "dctcp",
        5_000_000,
        True,
        False,
        True,
        True,
    )


def test_only_marking_queues_negotiate_ecn() -> None:
    assert limits.host_profile(resolve(queue="dctcp")).ecn
    assert limits.host_profile(resolve(queue="dcqcn")).ecn
    assert not limits.host_profile(resolve(queue="droptail")).ecn
    assert not limits.host_profile(resolve(queue="red")).ecn
    assert limits.switch_profile(resolve(queue="droptail")).marking is None
    red = limits.switch_profile(resolve(queue="red")).marking
    assert isinstance(red, Marking)
    assert red.drop


# --- sizes


def sizes(*names: str, **keys: Any) -> tuple[Any, ...]:
    text = resolve(**keys).as_text()
    return tuple(text[name] for name in names)


@pytest.mark.parametrize(
    ("keys", "hosts", "senders"),
    [
        ({}, 65, 64),
        ({"senders": 8}, 9, 8),
        ({"hosts": 10}, 10, 9),
        ({"hosts": 10, "senders": 3}, 10, 3),
        ({"workload": "permutation"}, 16, "auto"),
        ({"topology": "dumbbell"}, 4, 3),
        (LEAF_SPINE, 16, 15),
        ({**LEAF_SPINE, "senders": 3}, 16, 3),
        ({**LEAF_SPINE, "leaves": 2}, 8, 7),
        (FAT_TREE, 16, 15),
        ({**FAT_TREE, "k": 8}, 128, 127),
        (GPU_POD, 16, 15),
        ({**GPU_POD, "servers": 5, "workload": "pings"}, 40, "auto"),
        (RING, 4, 3),
        ({**RING, "switches": 5, "hosts_per_leaf": 3}, 15, 14),
    ],
)
def test_hosts_fill_all_places(keys: dict[str, Any], hosts: int, senders: Any) -> None:
    assert sizes("hosts", "senders", **keys) == (hosts, senders)


def test_places_follow_the_hosts() -> None:
    assert sizes("leaves", "hosts_per_leaf", **LEAF_SPINE) == (4, 4)
    assert sizes("leaves", "hosts_per_leaf", **LEAF_SPINE, hosts=17) == (4, 5)
    assert sizes("leaves", "hosts_per_leaf", **LEAF_SPINE, hosts=17, leaves=6) == (6, 3)
    assert sizes("servers", "leaves", "spines", **GPU_POD, hosts=24) == (3, "auto", 3)
    assert sizes("servers", "leaves", "spines", **GPU_POD, rails="off", hosts=24) == (3, 3, 8)
    assert sizes("servers", "leaves", "spines", **GPU_POD, rails="off", servers=12) == (12, 8, 16)
    assert sizes("switches", "hosts_per_leaf", **RING, hosts=15, switches=5) == (5, 3)


@pytest.mark.parametrize(
    ("keys", "spines", "uplink_rate", "ratio"),
    [
        (LEAF_SPINE, 4, "400Gbps", "1:1"),
        ({**LEAF_SPINE, "oversubscription": "2:1"}, 2, "400Gbps", "2:1"),
        ({**LEAF_SPINE, "oversubscription": "8:1"}, 1, "200Gbps", "8:1"),
        ({**LEAF_SPINE, "oversubscription": "3:2", "hosts_per_leaf": 3}, 2, "400Gbps", "3:2"),
        ({**LEAF_SPINE, "oversubscription": "2:1", "hosts_per_leaf": 3}, 2, "300Gbps", "2:1"),
        ({**LEAF_SPINE, "uplink_rate": "800Gbps"}, 2, "800Gbps", "1:1"),
        ({**LEAF_SPINE, "uplink_rate": "100Gbps", "oversubscription": "4:1"}, 4, "100Gbps", "4:1"),
        ({**LEAF_SPINE, "spines": 2}, 2, "800Gbps", "1:1"),
        ({**LEAF_SPINE, "spines": 2, "oversubscription": "4:1"}, 2, "200Gbps", "4:1"),
        ({**LEAF_SPINE, "spines": 3, "uplink_rate": "400Gbps"}, 3, "400Gbps", "4:3"),
        ({**LEAF_SPINE, "spines": 2, "uplink_rate": "400Gbps", "oversubscription": 2}, 2, "400Gbps", "2:1"),
        (FAT_TREE, "auto", "400Gbps", "1:1"),
        ({**FAT_TREE, "oversubscription": "4:1"}, "auto", "100Gbps", "4:1"),
        ({**FAT_TREE, "uplink_rate": "300Gbps"}, "auto", "300Gbps", "4:3"),
        ({"topology": "dumbbell"}, "auto", "400Gbps", "auto"),
        ({"topology": "dumbbell", "uplink_rate": "3.2Tbps"}, "auto", "3.2Tbps", "auto"),
        ({**GPU_POD, "servers": 4, "oversubscription": "2:1"}, 2, "400Gbps", "2:1"),
        (RING, "auto", "400Gbps", "auto"),
        ({**RING, "uplink_rate": "100Gbps"}, "auto", "100Gbps", "auto"),
        ({}, "auto", "auto", "auto"),
    ],
)
def test_two_of_spines_rate_and_ratio_give_the_third(
    keys: dict[str, Any], spines: Any, uplink_rate: str, ratio: str
) -> None:
    assert sizes("spines", "uplink_rate", "oversubscription", **keys) == (spines, uplink_rate, ratio)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_topology_runs_every_workload_and_resolves_to_itself(topology: str, workload: str) -> None:
    told = {"command": "true", "directory": "/"} if workload == "launch" else {}
    spec = resolve(topology=topology, workload=workload, **told)
    assert limits.resolve(spec) == spec
    assert limits.resolve(parse(spec.as_text())) == spec
    applying = {
        name for name, item in keys_of_spec().items() if all(getattr(spec, o) in v for o, v in needs(item).items())
    }
    still_open = {name for name in applying if spec.as_text()[name] == "auto"}
    assert still_open <= {"kmin", "kmax", "pmax", *(["leaves"] if topology == "gpu_pod" else [])}
    apart = {
        "bytes",
        "rounds",
        "jitter",
        "transport",
        "allow_loss",
        "slow_link",
        "lossy_link",
        "timeout",
    }  # which have a value even where they do not apply
    assert all(spec.as_text()[name] == "auto" for name in set(keys_of_spec()) - applying - apart)


def needs(item: Any) -> dict[str, tuple[str, ...]]:
    return dict(item.metadata["needs"])


def test_seeds_follow_the_version_spoken() -> None:
    assert resolve(**LEAF_SPINE).ecmp_seed == "per_switch"
    assert resolve(**LEAF_SPINE, openflow="1.3").ecmp_seed == "same"


def test_a_ring_goes_up_and_down_unless_it_is_told_otherwise() -> None:
    assert (resolve(**RING).routing, resolve(**LEAF_SPINE).routing, resolve().routing) == ("up_down", "ecmp", None)


def test_without_traffic_all_others_send_to_the_first() -> None:
    spec = resolve(workload="long_flows", hosts=4, duration="7ms")
    assert spec.traffic == tuple(Flow(sender, "h1", 0, 7_000_000) for sender in ("h2", "h3", "h4"))
    assert resolve(workload="incast").traffic is None


def test_flows_without_an_end_last_as_long_as_the_workload() -> None:
    spec = resolve(workload="long_flows", hosts=4, traffic="h2>h1@0s-5ms,h3>h1@1ms")
    assert spec.as_text()["traffic"] == "h2>h1@0ns-5ms,h3>h1@1ms-40ms"


def test_a_run_without_doubts_has_no_warnings() -> None:
    for queue in ("droptail", "red", "dctcp", "dcqcn"):
        assert limits.warnings(resolve(queue=queue)) == []


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"workload": "collective"}, ("star", 16, 16, "ring", None)),
        ({"workload": "collective", "ranks": 5}, ("star", 5, 5, "ring", None)),
        ({"workload": "collective", "ranks": 16, "algorithm": "in_network"}, ("star", 17, 16, "in_network", None)),
        ({"workload": "collective", "hosts": 9, "algorithm": "in_network"}, ("star", 9, 8, "in_network", None)),
        ({"workload": "collective", "collective": "gather", **LEAF_SPINE}, ("leaf_spine", 16, 16, "direct", None)),
        ({"workload": "collective", "ranks": 10, **LEAF_SPINE}, ("leaf_spine", 10, 10, "ring", None)),
        ({"workload": "training", "ranks": 9, "topology": "gpu_pod"}, ("gpu_pod", 16, 9, "ring", None)),
        (
            {"workload": "collective", "topology": "gpu_pod", "algorithm": "hierarchical"},
            ("gpu_pod", 16, 16, "hierarchical", 8),
        ),
        (
            {"workload": "training", "ranks": 4, "algorithm": "parameter_server", "shards": 3},
            ("star", 7, 4, "parameter_server", None),
        ),
    ],
)
def test_ranks_have_hosts_and_helpers_beside_them(keys: dict[str, Any], expected: tuple[Any, ...]) -> None:
    spec = resolve(**keys)
    assert (spec.topology, spec.hosts, spec.ranks, spec.algorithm, spec.group) == expected


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"workload": "collective", "ranks": 1}, "ranks: 1 with hosts=2; allowed: 2 to 2"),
        (
            {"workload": "collective", "ranks": 8, "hosts": 8, "algorithm": "in_network"},
            "ranks: 8 and 1 beside them with hosts=8; allowed: 2 to 7",
        ),
        (
            {"workload": "collective", "collective": "gather", "algorithm": "ring"},
            "algorithm: ring is given with collective=gather; allowed: direct, tree",
        ),
        (
            {"workload": "collective", "algorithm": "hierarchical", "ranks": 9, "group": 4},
            "group: 4 is given with ranks=9; allowed: a divisor of the number of ranks",
        ),
        ({"slow_link": "h99:1Gbps"}, "slow_link: there is no host h99; allowed: h1 to h65"),
        ({"workload": "federated", "hosts": 2}, "hosts: 2 is given for clients and 1 beside them; allowed: 3 or more"),
    ],
)
def test_ranks_that_cannot_be_are_refused(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(BadRequest) as error:
        resolve(**keys)
    assert str(error.value) == line


def test_helpers_have_links_of_their_own() -> None:
    aggregator = resolve(workload="collective", ranks=4, algorithm="in_network", rate="100Gbps")
    assert {host: link.rate_bps for host, link in cluster.own_links(aggregator).items()} == {"h5": 400 * 10**9}
    assert resolve(workload="collective", ranks=64, algorithm="in_network").helper_rate_bps == 8000 * 10**9
    slow = resolve(workload="training", ranks=4, slow_link="h2:1Gbps", lossy_link="h2:0.5,h3:0.1")
    assert {host: (link.rate_bps, link.loss) for host, link in cluster.own_links(slow).items()} == {
        "h2": (10**9, 0.5),
        "h3": (slow.rate_bps, 0.1),
    }
