"""A lossless class has room for what a paused neighbour still sends, or is refused with the numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from controller.pause import CONTROLLER_NS, SharedBuffer, headroom_bytes, least_quanta, reaction_ns
from experiments import limits, lossless
from experiments.spec import SWITCHED, Spec, parse
from topologies.profiles import Lossless
from topologies.units import BadRequest

PFC = {"pfc": "on", "transport": "roce"}
LEAF_SPINE = {"topology": "leaf_spine"}
LONG_FLOWS = {**PFC, "workload": "long_flows"}
FRAME_BYTES = 1514
# 400 Gb/s x (2 x 500 ns + 2 x 400 ns + 60 B on the line, 2 ns, + 50 ns) = 92,600 B, and two frames
NEEDED_BYTES = 92_600 + 2 * FRAME_BYTES


def resolve(**keys: Any) -> Spec:
    return limits.resolve(parse(keys))


def test_thresholds_share_the_buffer_with_headroom() -> None:
    spec = resolve(**PFC)
    assert spec.headroom_bytes == NEEDED_BYTES
    assert spec.xoff_bytes == 600_000 - NEEDED_BYTES
    assert spec.xon_bytes == spec.xoff_bytes - 2 * FRAME_BYTES
    assert (spec.xoff_at, spec.alpha, spec.pause, spec.pause_quanta) == ("ingress", 0, "switch", 65535)
    assert (spec.pfc_watchdog_ns, spec.stuck, spec.pool_bytes) == (0, (), None)


def test_a_switch_gets_its_thresholds() -> None:
    assert limits.switch_profile(resolve(**PFC, xoff="100KB", xon="0B", headroom="96KB")).lossless == Lossless(
        100_000, 0, 96_000
    )
    assert limits.switch_profile(resolve(transport="roce")).lossless is None


def test_headroom_is_that_of_the_fastest_link() -> None:
    slow = resolve(**PFC, **LEAF_SPINE, rate="100Gbps")
    fast = resolve(**PFC, **LEAF_SPINE, rate="100Gbps", spines=1)
    pod = resolve(**PFC, topology="gpu_pod", rate="100Gbps", buffer="2MB")
    for spec, rate_bps in ((slow, 10**11), (fast, 4 * 10**11), (pod, 36 * 10**11)):
        reaction = reaction_ns(rate_bps, 400)
        assert spec.headroom_bytes == headroom_bytes(rate_bps, 500, FRAME_BYTES, reaction)


def test_a_controllers_latency_needs_headroom() -> None:
    keys = {**PFC, **LEAF_SPINE, "pause": "controller", "buffer": "2MB"}
    ordered_bytes = CONTROLLER_NS * 400 // 8
    assert resolve(**keys, control_latency="0ns").headroom_bytes == NEEDED_BYTES + ordered_bytes
    assert resolve(**keys, control_latency="10us").headroom_bytes == NEEDED_BYTES + ordered_bytes + 500_000
    assert resolve(**{**keys, "pause": "switch"}, control_latency="10us").headroom_bytes == NEEDED_BYTES


def test_at_the_egress_every_neighbour_has_headroom() -> None:
    spec = resolve(**PFC, hosts=5, xoff_at="egress")
    assert spec.xoff_bytes == 600_000 - 4 * NEEDED_BYTES
    assert limits.switch_profile(spec).lossless == Lossless(
        spec.xoff_bytes, spec.xoff_bytes - 2 * FRAME_BYTES, NEEDED_BYTES, "egress"
    )
    # a spine with four leaves has three other ports, a leaf with four hosts and one spine four
    wide = resolve(**PFC, **LEAF_SPINE, spines=1, uplink_rate="400Gbps", xoff_at="egress")
    assert wide.xoff_bytes == 600_000 - 4 * NEEDED_BYTES


def test_with_alpha_ports_share_what_dcqcns_authors_had() -> None:
    spec = resolve(**PFC, hosts=16, alpha=1)
    shared = SharedBuffer(6_000_000, 16, 1, NEEDED_BYTES).shared_bytes
    assert spec.pool_bytes == shared == 6_000_000 - 16 * NEEDED_BYTES
    assert spec.xoff_bytes == shared // 2
    assert lossless.first_pause_bytes(spec) == int(shared / 17)
    assert limits.switch_profile(spec).lossless == Lossless(
        spec.xoff_bytes, spec.xoff_bytes - 2 * FRAME_BYTES, NEEDED_BYTES, "ingress", spec.pool_bytes, 1.0
    )
    assert resolve(**PFC, hosts=16, alpha=1, pool="1MB").xoff_bytes == 500_000


def test_allow_loss_takes_what_headroom_there_is_and_warns() -> None:
    spec = resolve(**PFC, allow_loss="on", buffer="100KB")
    assert (spec.headroom_bytes, spec.xoff_bytes) == (50_000, 50_000)
    assert limits.warnings(spec) == [
        "headroom: 50KB is less than the 95628B that are needed: the lossless class may lose packets"
    ]
    assert resolve(**PFC, allow_loss="on", headroom="0B").xoff_bytes == 600_000
    enough = resolve(**PFC, allow_loss="on")
    assert enough.headroom_bytes == NEEDED_BYTES
    assert limits.warnings(enough) == []


def test_what_never_acts_is_warned_of() -> None:
    small = {**PFC, "hosts": 3, "window": "4KB"}
    assert limits.warnings(resolve(**small)) == ["pfc: 2 windows of 4KB are not above xoff 504372B: it never acts"]
    assert limits.warnings(resolve(**{**small, "window": "300KB"})) == []
    assert limits.warnings(resolve(**LONG_FLOWS, pfc_watchdog="40ms")) == [
        "pfc_watchdog: 40ms is not below the duration of 40ms: it never acts"
    ]
    assert limits.warnings(resolve(**LONG_FLOWS, pfc_watchdog="39ms")) == []


def test_a_pause_is_as_long_as_a_frame_can_say_or_the_run_lasts() -> None:
    assert resolve(**LONG_FLOWS).pause_quanta == 65535
    # 1 ms at 10 Gb/s are 19,531 times 512 bits
    assert resolve(**LONG_FLOWS, rate="10Gbps", duration="1ms").pause_quanta == 19_531
    assert resolve(**LONG_FLOWS, rate="10Gbps", duration="1ms", pause_quanta=52).pause_quanta == 52


NO_CLASS = "pfc: on is given with traffic_class=lossy; allowed: with traffic_class=lossless"
SEVERAL = "topology=dumbbell or leaf_spine or fat_tree or gpu_pod or ring or FILE.py:NAME"
LINK = "over a link of 400Gbps and 500ns"


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"pfc": "on"}, NO_CLASS),
        ({"pfc": "on", "transport": "roce", "traffic_class": "lossy"}, NO_CLASS),
        ({"pfc": "on", "workload": "pings"}, NO_CLASS),
        (
            {"traffic_class": "lossless", "workload": "pings"},
            "traffic_class: lossless is given with workload=pings;"
            " allowed: with workload=incast or permutation or all_to_all or"
            " long_flows or collective or training or federated or FILE.py:NAME or launch",
        ),
        (
            {"traffic_class": "lossless", "queue": "red"},
            "queue: red is given with traffic_class=lossless; allowed: with traffic_class=lossy",
        ),
        ({"xoff": "100KB"}, "xoff: 100KB is given with pfc=off; allowed: with pfc=on"),
        ({"stuck": "h1@2ms"}, "stuck: h1@2ms is given with pfc=off; allowed: with pfc=on"),
        ({"allow_loss": "on"}, "allow_loss: on is given with pfc=off; allowed: with pfc=on"),
        (
            {**PFC, "headroom": "95627B"},
            f"headroom: 95627B is given, and a neighbour {LINK} still sends 95628B;"
            " allowed: 95628B or more, or allow_loss=on",
        ),
        (
            {**PFC, **LEAF_SPINE, "headroom": "100KB", "pause": "controller", "control_latency": "10us"},
            f"headroom: 100KB is given, and a neighbour {LINK}, paused by the controller 10us later, still sends"
            " 895628B; allowed: 895628B or more, or allow_loss=on",
        ),
        (
            {**PFC, "buffer": "97141B"},
            "buffer: 97141B is given, and headroom of 95628B leaves no frame of it"
            f" (a neighbour {LINK} still sends 95628B); allowed: 97142B or more, or allow_loss=on",
        ),
        (
            {**PFC, "hosts": 8, "xoff_at": "egress"},
            "buffer: 600KB is given, and headroom of 95628B for each of 7 neighbours leaves no frame of it"
            f" (a neighbour {LINK} still sends 95628B); allowed: 670.91KB or more, or allow_loss=on",
        ),
        (
            {**PFC, "headroom": "600KB", "allow_loss": "on"},
            "buffer: 600KB is given, and headroom of 600KB leaves no frame of it"
            f" (a neighbour {LINK} still sends 95628B); allowed: 601514B or more",
        ),
        (
            {**PFC, "xoff": "504373B"},
            "xoff: 504373B and headroom of 95628B are above buffer=600KB; allowed: up to 504372B",
        ),
        ({**PFC, "xoff": "100KB", "xon": "100001B"}, "xon: 100001B is above xoff 100KB; allowed: up to xoff"),
        ({**PFC, "pool": "1MB"}, "pool: 1MB is given with alpha=off; allowed: with alpha"),
        (
            {**PFC, "alpha": 1, "xoff_at": "egress"},
            "alpha: 1 is given with xoff_at=egress; allowed: with xoff_at=ingress",
        ),
        (
            {**PFC, "hosts": 16, "alpha": 1, "xoff": "1MB"},
            "xoff: 1MB is given with alpha=1, which sets it; allowed: auto, or alpha=off",
        ),
        (
            {**PFC, "alpha": 1, "pool": "3027B"},
            "pool: 3027B is given; allowed: 3028B, which lets one port have a frame, to 2GiB",
        ),
        (
            {**PFC, "hosts": 16, "alpha": 1, "delay": "10us"},
            "pool: 0B is left of 6MB for 16 ports by headroom of 1045628B each;"
            " allowed: 3028B, which lets one port have a frame, to 2GiB",
        ),
        ({**PFC, "pause": "controller"}, f"pause: controller is given with topology=star; allowed: with {SEVERAL}"),
        (
            {"transport": "roce", "queue": "dcqcn", "marking": "controller"},
            f"marking: controller is given with topology=star; allowed: with {SEVERAL}",
        ),
        (
            {"marking": "controller"},
            "marking: controller is given with queue=droptail; allowed: with queue=dctcp or dcqcn",
        ),
        (
            {**PFC, "pause_quanta": 127},
            "pause_quanta: 127 is given; a refresh at half of them may wait for a frame of 1514B and is late;"
            " allowed: 128 to 65535",
        ),
        (
            {**LONG_FLOWS, "rate": "1Gbps", "duration": "25us"},
            "duration: 25us is given, in which no pause at 1Gbps ends that can be refreshed in time (50 quanta);"
            " allowed: 25.6us or more",
        ),
        (
            {**LONG_FLOWS, "rate": "10Gbps", "duration": "1ms", "pause_quanta": 19_532},
            "pause_quanta: 19532 is given, which at 10Gbps last 1000038ns and outlast the duration of 1ms;"
            " allowed: 52 to 19531",
        ),
        ({**PFC, "pfc_watchdog": "2h"}, "pfc_watchdog: 7200s is given; allowed: up to 3600s"),
        (
            {**PFC, "stuck": "h1@2ms"},
            "stuck: h1@2ms has no end, and workload=incast waits for all data; allowed: an end",
        ),
        ({**LONG_FLOWS, "stuck": "h17@2ms"}, "stuck: h17@2ms: there is no host h17; allowed: h1 to h16"),
        ({**LONG_FLOWS, "stuck": "h1@40ms"}, "stuck: h1@40ms is given; allowed: begins before 40ms"),
    ],
)
def test_what_would_lose_or_cannot_be_is_refused(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(BadRequest) as error:
        resolve(**keys)
    assert str(error.value) == line


@pytest.mark.parametrize(
    "keys",
    [
        {"pfc": "on", "traffic_class": "lossless"},
        {**PFC, "buffer": "97142B"},
        {**PFC, "headroom": "95628B", "xoff": "504372B", "xon": "504372B"},
        {**PFC, "pause_quanta": 128},
        {**PFC, "stuck": "h1@2ms-5ms", "pfc_watchdog": "1ms"},
        {**LONG_FLOWS, "stuck": "h1@2ms"},
        {**PFC, **LEAF_SPINE, "pause": "controller", "control_latency": "1us"},
        {**PFC, **LEAF_SPINE, "queue": "dcqcn", "marking": "controller"},
        *({**PFC, "topology": topology, "buffer": "4MB", "xoff_at": "egress"} for topology in ("dumbbell", "ring")),
    ],
)
def test_what_just_works_is_taken(keys: dict[str, Any]) -> None:
    spec = resolve(**keys)
    assert limits.resolve(spec) == spec
    assert limits.resolve(parse(spec.as_text())) == spec


RATES = st.sampled_from(["1Gbps", "10Gbps", "25Gbps", "40Gbps", "100Gbps", "400Gbps", "800Gbps"])
KEYS: dict[str, st.SearchStrategy[Any]] = {
    "topology": st.sampled_from(["star", *SWITCHED]),
    "rate": RATES,
    "delay": st.integers(0, 5000).map("{}ns".format),
    "switch_delay": st.integers(0, 2000).map("{}ns".format),
    "mtu": st.sampled_from(["576B", "1500B", "4200B", "9000B"]),
    "buffer": st.integers(20_000, 10**7).map("{}B".format),
    "queue": st.sampled_from(["droptail", "dctcp", "dcqcn"]),
    "transport": st.sampled_from(["tcp", "roce"]),
    "xoff_at": st.sampled_from(["ingress", "egress"]),
    "alpha": st.sampled_from(["off", "1/16", "1", "64"]),
    "xoff": st.integers(1, 10**6).map("{}B".format),
    "headroom": st.integers(0, 10**6).map("{}B".format),
    "allow_loss": st.booleans(),
    "workload": st.sampled_from(["incast", "long_flows"]),
}


@given(st.fixed_dictionaries({}, optional=KEYS))
def test_whatever_is_accepted_has_its_thresholds_in_order(keys: dict[str, Any]) -> None:
    cc = "dcqcn" if keys.get("transport") == "roce" and keys.get("queue") in ("dctcp", "dcqcn") else "auto"
    try:
        spec = resolve(pfc="on", traffic_class="lossless", cc=cc, **keys)
    except BadRequest as error:
        assert "; allowed: " in str(error)
        event("refused")
        return
    event("accepted")
    made = limits.switch_profile(spec).lossless
    assert made is not None
    assert 0 <= made.xon_bytes <= made.xoff_bytes
    if made.alpha is None:
        neighbours = 1 if made.at == "ingress" else lossless._most_ports(spec) - 1
        assert made.xoff_bytes + neighbours * made.headroom_bytes <= spec.buffer_bytes
    else:
        assert made.pool_bytes is not None
        assert made.xoff_bytes < made.pool_bytes
    if not spec.allow_loss:
        assert made.headroom_bytes >= lossless.needed_headroom_bytes(spec)
        assert limits.warnings(spec) == []
    if spec.kmax_bytes is not None:
        assert spec.kmax_bytes < made.xoff_bytes
    assert least_quanta(spec.frame_bytes, max(spec.link_rates_bps)) <= (spec.pause_quanta or 0) <= 65535
    assert limits.resolve(parse(spec.as_text())) == spec


@given(st.fixed_dictionaries({"rate": RATES, "delay": KEYS["delay"], "mtu": KEYS["mtu"]}))
def test_too_little_headroom_is_never_accepted(keys: dict[str, Any]) -> None:
    needed_bytes = lossless.needed_headroom_bytes(resolve(**PFC, buffer="100MB", **keys))
    with pytest.raises(BadRequest, match=r"^headroom: "):
        resolve(**PFC, buffer="100MB", headroom=f"{needed_bytes - 1}B", **keys)
    assert resolve(**PFC, buffer="100MB", headroom=f"{needed_bytes}B", **keys).headroom_bytes == needed_bytes
