"""What a spec leaves open is derived; what cannot work is refused in one line, with the numbers."""

from __future__ import annotations

from typing import Any

import pytest

from experiments import limits
from experiments.spec import Spec, parse
from topologies.profiles import Marking
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
        ({"rto_min": "500us"}, "rto_min: 500us is given; allowed: whole timer ticks of 1ms, one or more"),
        ({"rto_min": "1500us"}, "rto_min: 1.5ms is given; allowed: whole timer ticks of 1ms, one or more"),
        ({"rto_min": "1ns"}, "rto_min: 1ns is given; allowed: whole timer ticks of 1ms, one or more"),
        ({"senders": 1024}, "senders: 1024 is given; allowed: up to 1023"),
        ({"rate": "7bps"}, "rate: 7bps is given; allowed: whole bytes per second, 100Kbps to 3.2Tbps"),
        ({"rate": "3.3Tbps"}, "rate: 3.3Tbps is given; allowed: whole bytes per second, 100Kbps to 3.2Tbps"),
        ({"rack": "off"}, "rack: off is given with sack on; allowed: off only together with sack=off"),
        ({"kmin": "1KB"}, "kmin, kmax, pmax: given with queue=droptail; allowed: with queue=red or queue=dctcp"),
        ({"pmax": 0.5}, "kmin, kmax, pmax: given with queue=droptail; allowed: with queue=red or queue=dctcp"),
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
            "kmax: 30.28KB is not below the buffer of 30.28KB: the tail would drop before all is marked;"
            " allowed: below the buffer",
        ),
        (
            {"delay": "10s"},
            "delay, switch_delay: a round trip of 40s is given;"
            " allowed: up to 900ms (ARP and SYN give up after a second)",
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


@pytest.mark.parametrize(
    "keys",
    [
        {"mtu": "576B"},
        {"mtu": "9000B"},
        {"buffer": "1514B"},
        {"rto_min": "1ms"},
        {"senders": 1023},
        {"rate": "100Kbps"},
        {"rate": "3.2Tbps"},
        {"rack": "off", "sack": "off"},
        {"queue": "red", "kmin": "50KB", "kmax": "50KB"},
        {"queue": "dctcp", "kmin": "599999B", "kmax": "599999B"},
        {"queue": "dctcp", "pmax": 1},
    ],
)
def test_what_just_works_is_taken(keys: dict[str, Any]) -> None:
    resolve(**keys)


def test_congestion_control_follows_the_queue() -> None:
    assert resolve().cc == "cubic"
    assert resolve(queue="red").cc == "cubic"
    assert resolve(queue="dctcp").cc == "dctcp"
    assert resolve(queue="dctcp", cc="reno").cc == "reno"


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


@pytest.mark.parametrize("queue", ["droptail", "red", "dctcp"])
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
    assert switch.marking == Marking(50_000, 50_000, 1.0, drop=False)
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
    assert not limits.host_profile(resolve(queue="droptail")).ecn
    assert not limits.host_profile(resolve(queue="red")).ecn
    assert limits.switch_profile(resolve(queue="droptail")).marking is None
    red = limits.switch_profile(resolve(queue="red")).marking
    assert red is not None
    assert red.drop


# --- memory


@pytest.mark.parametrize("more", [{"senders": 1000}, {"bytes": "4MiB"}, {"rounds": 400}, {"capture": "all"}])
def test_memory_grows_with_what_needs_it(more: dict[str, Any]) -> None:
    base = {"senders": 8, "capture": "hot"}
    assert limits.memory_bytes(resolve(**{**base, **more})) > limits.memory_bytes(resolve(**base))


def test_more_memory_than_is_free_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = resolve(senders=200, capture="off")
    needed_bytes = limits.memory_bytes(spec)
    monkeypatch.setattr(limits, "_available_bytes", lambda: needed_bytes)
    assert limits.memory_bytes(spec) == needed_bytes
    monkeypatch.setattr(limits, "_available_bytes", lambda: needed_bytes - 1)
    with pytest.raises(BadRequest) as error:
        limits.memory_bytes(spec)
    assert str(error.value) == (
        f"senders: 200 with bytes=256KiB, rounds=4, capture=off need {needed_bytes >> 20} MiB of memory;"
        f" allowed: what this machine has free, {needed_bytes - 1 >> 20} MiB"
    )


def test_free_memory_is_what_the_kernel_says() -> None:
    assert 0 < limits._available_bytes() < 1 << 50
