"""The spec: every key reads what it should, refuses the rest in one line, and survives being written down."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from fractions import Fraction
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controller.dcqcn import Dcqcn
from experiments.failures import Failure, format_failures
from experiments.keys.collectives import ALGORITHMS, COLLECTIVES
from experiments.kinds import format_ratio
from experiments.spec import (
    OWN,
    ROUTED,
    SWITCHED,
    TOPOLOGIES,
    WORKLOADS,
    Spec,
    decided,
    keys,
    known,
    parse,
    unfit,
    with_plain_autos,
    without,
)
from experiments.traffic import Flow, Stuck, format_spans
from topologies.units import BadRequest

# Key -> values that it must refuse, beside those of NOTHING.
REFUSED: dict[str, list[Any]] = {
    "topology": ["mesh", "Star", "", "own.py", "own:Ring", "nowhere.py:Ring", "/:x", "own.py:2nd", 5],
    "hosts": ["0", "-4", "all", 4.0],
    "leaves": ["0", "few"],
    "spines": ["0", 1.5],
    "hosts_per_leaf": ["0", "4.0"],
    "switches": ["0", "few"],
    "k": ["0", "four", True],
    "servers": ["0", "-1"],
    "rails": ["maybe", 2],
    "oversubscription": ["0:1", "1:2", "9:1", "17:2", "2:0", "2.5", 2.5, "2:1:1", "1/2", ":", "-2", True, 0, 1e9],
    "rate": ["0Gbps", "400", 400, "400KB", "0.1bps", "-1Gbps"],
    "uplink_rate": ["0Gbps", "400", 400],
    "nvlink_rate": ["0Tbps", "3.6"],
    "delay": ["1", 1, "1KB", "-1us", "0.1ns"],
    "switch_delay": ["1", "1KB", "-1us"],
    "buffer": ["0B", "600", 600, "600Gbps", "1.5B", "-1KB"],
    "mtu": ["0B", "1500", 1500],
    "queue": ["fifo", "DropTail", True],
    "kmin": ["0B", "12", "often"],
    "kmax": ["0B", "12"],
    "pmax": ["0", 0, "1.1", "-0.5", "nan", "inf", "half"],
    "marking": ["ryu", True],
    "pfc": ["maybe", 1],
    "traffic_class": ["best", True],
    "xoff": ["0B", "100", 100],
    "xon": ["100", 0, "-1KB"],
    "headroom": ["100", 0, "-1KB"],
    "xoff_at": ["both", True],
    "alpha": ["1/17", "0.03", "65", "0", 0, 0.001, "1/3", "-1", True, "1/0", "nan", "1:2"],
    "pool": ["0B", "12"],
    "pause": ["ryu", True],
    "pause_quanta": ["0", 65536, "-1", 1.5, True, "many"],
    "pfc_watchdog": ["0ms", "100", 100, True, "on"],
    "stuck": ["h1", "h1@", "h1@5", "h1@5ms-", "h1@5ms-6", "leaf1@5ms", "h1>h2@5ms", "h1@5ms,", "h1@0.1ns", 5, "h@1ms"],
    "allow_loss": ["maybe", 2],
    "transport": ["udp", "RoCE"],
    "cc": ["vegas", "CUBIC"],
    "sack": ["maybe", "2", 2],
    "tlp": ["maybe"],
    "rack": ["maybe"],
    "rto_min": ["0ms", "200", 200, "-200ms"],
    "initial_window": ["0", 0, "-1", 2.0, "2 packets", "auto"],
    "verb": ["read", True],
    "roce_mtu": ["1500B", "1024", 1024, "8KiB", "0B"],
    "window": ["0B", "100", True],
    "dcqcn_cnp_interval": ["0us", "50", 50],
    "dcqcn_alpha_timer": ["0us", "55", 55],
    "dcqcn_rate_timer": ["0us", "55", 55],
    "dcqcn_byte_counter": ["0B", "10", 10],
    "dcqcn_f": ["0", 5.0, True],
    "dcqcn_g": ["0", "1.1", "1/256"],
    "dcqcn_rai": ["0bps", "40", 40],
    "dcqcn_rhai": ["0bps", "200MB"],
    "dcqcn_min_rate": ["0bps", "10"],
    "workload": ["ping", "Incast", True, "nowhere.py:Shuffle", "own.py:", "auto"],
    "senders": ["0", 0, "-1", "many", "4.0", 4.0, True, "1e3"],
    "bytes": ["0B", "256", 256],
    "rounds": ["0", "-4", 1.5],
    "jitter": ["100", "-1us"],
    "traffic": [
        *("none", "h2@5ms", "h2>h1", "h2>h1@", "h2>h1@5", "h2>h1@5ms-", "h2>h1@5ms-6", "h2>h1@-5ms", "h2>leaf1@5ms"),
        *("h2>h1@5ms,", "h2-h1@5ms", "h2>h1>h3@5ms", "h2>h1@0.1ns", 5, True),
    ],
    "flows": ["0", "many"],
    "interval": ["0us", "10", 10, "-1us"],
    "duration": ["0ms", "40", 40],
    "iperf3_streams": ["0", "-1", 1.5],
    "iperf3_interval": ["0ms", "1", 1, "-1s"],
    "routing": ["ospf", "ECMP"],
    "ecmp_seed": ["7", "random"],
    "fast_failover": ["maybe"],
    "control_latency": ["5", 5, "-1ms"],
    "failure": [
        *("off", "leaf1:down", "leaf1:down@", "leaf1:down@10", "leaf1:down@-5ms", "leaf1:gone@5ms", "leaf1-:up@5ms"),
        *("leaf1:down@5ms,", "leaf1-spine1-h1:up@5ms", "Leaf1:down@5ms", "leaf1:down@0.1ns", 5, True),
        "leaf1:down@5ms,leaf1:up@4ms",
    ],
    "openflow": ["1.0", "1.30", 13, True],
    "policy": ["ecmp", "own.py", "nowhere.py:Mine", True, "auto"],
    "capture": ["some", "on", True],
    "telemetry": ["maybe"],
    "seed": ["one", 1.0, "0x10", True, 2**63, str(-(2**63))],
    "helper_rate": ["0Gbps", "400"],
    "slow_link": ["h3", "h3:10", "leaf1:1Gbps", "h0:1Gbps", "h3:1Gbps,", "h3:1Gbps,h3:2Gbps", 5],
    "lossy_link": ["h3:0", "h3:1", "h3:-0.1", "h3:1%", "h3:nan", "h3:0.1,h3:0.2", True],
    "ranks": ["0", "-1", 4.0],
    "collective": ["allreduce", "barrier", True],
    "algorithm": ["rings", "tree2"],
    "shards": ["0", 1.5],
    "group": ["0", "all"],
    "sizes": ["0B", "1", "1KB-", "4KB-1KB,", "1KB;2KB", "-1KB", 5, "1MB-3MB", "4KB-1KB", "4KB,2KB-1KB"],
    "dtype": ["float64", "int"],
    "iterations": ["0", "-1"],
    "warmup": ["-1", "few"],
    "chunk": ["0B", "256"],
    "host_cost": ["udp", "on"],
    "parallelism": ["expert", "zero"],
    "gradient": ["0B", "100"],
    "steps": ["0", 1.5],
    "compute": ["0ms", "5"],
    "bucket": ["0B", "25"],
    "overlap": ["maybe", 2],
    "layers": ["0", "-1"],
    "micro_batches": ["0", "few"],
    "activation": ["0B", "1"],
    "model": ["resnet", "on"],
    "slow_host": ["h3", "h3:0", "h3:-1", "h3:1001", "h3:2x", "h3:2,h3:3", "h3:inf"],
    "backup_workers": ["-1", 1.5, True],
    "compression": ["zip", "top-k"],
    "kept": ["0", "1.1", "1%"],
    "clients": ["0", "-1"],
    "aggregation": ["ring", True],
    "edges": ["0", "few"],
    "update": ["0B", "100"],
    "scale": ["0", 1.5],
    "spread": ["-1", "3.1", "wide", "nan"],
    "quorum": ["0", "1.1"],
    "target": ["0", "90%"],
    "command": ["", " ", "a\nb", 5],
    "directory": ["", "\t"],
    "starter": ["ssh", True],
    "timeout": ["0s", "5", 5, "-1s"],
    "edge_rounds": ["0", 1.5],
}
OWN_FILE = f"{__file__}:Name"  # what is in it is looked at when the spec is resolved
NOTHING: list[Any] = ["", " ", [], {}, object]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_a_bad_value_is_refused_in_one_line(name: str, value: Any) -> None:
    with pytest.raises(BadRequest) as error:
        parse({name: value})
    line = str(error.value)
    assert line.startswith(f"{name}: {value!r} ")
    assert "; allowed: " in line
    assert "\n" not in line


@pytest.mark.parametrize("name", list(keys()))
@pytest.mark.parametrize("value", NOTHING, ids=repr)
def test_nothing_is_refused_by_every_key(name: str, value: Any) -> None:
    with pytest.raises(BadRequest, match=f"^{name}: .+; allowed: .+$"):
        parse({name: value})


def test_every_key_has_values_to_refuse() -> None:
    assert set(REFUSED) == set(keys())


@pytest.mark.parametrize(
    ("name", "hint"), [("sender", "senders"), ("buffers", "buffer"), ("rto-min", "rto_min"), ("kmim", "kmin")]
)
def test_an_unknown_key_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(
        BadRequest, match=rf"^{name}: unknown key \(did you mean {hint}\?\); allowed: topology, hosts, .+$"
    ):
        parse({name: "4"})


@pytest.mark.parametrize("name", ["colour", "", 7, None])
def test_an_unknown_key_is_refused_with_all_that_are_allowed(name: Any) -> None:
    with pytest.raises(BadRequest) as error:
        parse({name: "4"})
    assert str(error.value) == f"{name}: unknown key; allowed: {', '.join(keys())}"


def test_what_is_not_given_is_kept() -> None:
    base = parse({"senders": "8", "rate": "1Gbps"})
    changed = parse({"senders": 9}, base)
    assert (changed.senders, changed.rate_bps) == (9, 10**9)
    assert parse({}, base) == base
    assert parse({}) == Spec()


def test_a_spec_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Spec().senders = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("capture: off", {"capture": "off"}),
        ("sack: off", {"sack": False}),
        ("sack: on", {"sack": True}),
        ("tlp: no", {"tlp": False}),
        ("rack: 'true'", {"rack": True}),
        ("telemetry: 0", {"telemetry": False}),
        ("senders: 8", {"senders": 8}),
        ("seed: -3", {"seed": -3}),
        ("kmin: auto", {"kmin_bytes": None}),
        ("kmin:", {"kmin_bytes": None}),
        ("pmax: 0.25", {"pmax": 0.25}),
        ("pmax: 1", {"pmax": 1.0}),
        ("kmax: 64KiB", {"kmax_bytes": 65536}),
        ("oversubscription: 2", {"oversubscription": Fraction(2)}),
        ("oversubscription: '3:2'", {"oversubscription": Fraction(3, 2)}),
        ("oversubscription: '6:4'", {"oversubscription": Fraction(3, 2)}),
        ("openflow: 1.3", {"openflow": "1.3"}),
        ("rails: off", {"rails": False}),
        ("hosts: auto", {"hosts": None}),
        ("failure: none", {"failures": ()}),
        ("pfc: on", {"pfc": "on"}),
        ("pfc: off", {"pfc": "off"}),
        ("alpha: off", {"alpha": 0.0}),
        ("alpha: 1/16", {"alpha": 0.0625}),
        ("alpha: 8", {"alpha": 8.0}),
        ("pfc_watchdog: off", {"pfc_watchdog_ns": 0}),
        ("window: 'off'", {"window_bytes": 0}),
        ("window: 64KiB", {"window_bytes": 65536}),
        ("headroom: 0B", {"headroom_bytes": 0}),
        ("cc: none", {"cc": "none"}),
        ("stuck: none", {"stuck": ()}),
        ("stuck: h1@2ms", {"stuck": (Stuck("h1", 2_000_000),)}),
        ("traffic: h2>h1@0ms-20ms", {"traffic": (Flow("h2", "h1", 0, 20_000_000),)}),
        ("failure: spine2:down@5ms", {"failures": (Failure(5_000_000, "spine2", "down"),)}),
    ],
)
def test_yaml_values_are_read(text: str, expected: dict[str, Any]) -> None:
    spec = parse(yaml.safe_load(text))
    assert {name: getattr(spec, name) for name in expected} == expected


def _quantities(units: list[str], least: int) -> st.SearchStrategy[str]:
    return st.builds(lambda value, unit: f"{value}{unit}", st.integers(least, 10**6), st.sampled_from(units))


RATES, SIZES = _quantities(["bps", "Mbps", "Gbps"], 1), _quantities(["B", "KB", "KiB", "MB"], 1)
COUNTS = st.integers(1, 10**6) | st.sampled_from(["4", "auto", None])
SCHEDULES = st.lists(
    st.builds(
        Failure, st.integers(0, 10**10), st.sampled_from(["leaf1", "leaf1-spine2"]), st.sampled_from(["up", "down"])
    )
).map(lambda events: format_failures(sorted(events, key=lambda event: event.time_ns)))
HOSTS, TIMES = st.sampled_from(["h1", "h20"]), st.integers(0, 10**10)
FLOWS = st.lists(st.builds(Flow, HOSTS, HOSTS, TIMES, TIMES | st.none()), min_size=1).map(format_spans)
RECEIVERS = st.lists(st.builds(Stuck, HOSTS, TIMES, TIMES | st.none())).map(format_spans)
SPANS = _quantities(["us", "ms"], 1) | st.just("auto")
SWITCHES = st.sampled_from(["on", "off", "true", "no", "1", True, False])
LAGGARDS = st.sampled_from(["h1", "h2", "h30"])


def _laggards(found: dict[str, Any]) -> str:
    return ",".join(f"{host}:{value}" for host, value in found.items()) or "none"


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "topology": st.sampled_from([*TOPOLOGIES, OWN_FILE]),
    "hosts": COUNTS,
    "leaves": COUNTS,
    "spines": COUNTS,
    "hosts_per_leaf": COUNTS,
    "switches": COUNTS,
    "k": COUNTS,
    "servers": COUNTS,
    "rails": SWITCHES | st.just("auto"),
    "oversubscription": st.fractions(1, 8, max_denominator=10**8).map(format_ratio) | st.sampled_from([1, "8", "auto"]),
    "rate": RATES,
    "uplink_rate": RATES | st.just("auto"),
    "nvlink_rate": RATES | st.just("auto"),
    "delay": _quantities(["ns", "us", "ms"], 0),
    "switch_delay": _quantities(["ns", "us"], 0),
    "buffer": SIZES,
    "mtu": SIZES,
    "queue": st.sampled_from(["droptail", "red", "dctcp", "dcqcn"]),
    "kmin": SIZES | st.just("auto"),
    "kmax": SIZES | st.none(),
    "pmax": st.floats(0, 1, exclude_min=True) | st.just("auto"),
    "marking": st.sampled_from(["switch", "controller", "auto"]),
    "pfc": st.sampled_from(["off", "on", True, False]),
    "traffic_class": st.sampled_from(["auto", "lossy", "lossless"]),
    "xoff": SIZES | st.just("auto"),
    "xon": _quantities(["B", "KB"], 0) | st.just("auto"),
    "headroom": _quantities(["B", "KB"], 0) | st.none(),
    "xoff_at": st.sampled_from(["ingress", "egress", "auto"]),
    "alpha": st.integers(16, 64 * 256).map(lambda steps: f"{steps}/256")
    | st.sampled_from(["off", False, 1, 0.5, None]),
    "pool": SIZES | st.just("auto"),
    "pause": st.sampled_from(["switch", "controller", "auto"]),
    "pause_quanta": st.integers(1, 65535) | st.just("auto"),
    "pfc_watchdog": SPANS | st.sampled_from(["off", False]),
    "stuck": RECEIVERS | st.just("auto"),
    "allow_loss": SWITCHES,
    "transport": st.sampled_from(["tcp", "roce"]),
    "cc": st.sampled_from(["auto", "reno", "cubic", "dctcp", "bbr", "dcqcn", "none"]),
    "sack": SWITCHES,
    "tlp": SWITCHES,
    "rack": SWITCHES,
    "rto_min": _quantities(["us", "ms", "s"], 1),
    "initial_window": st.integers(1, 10**6),
    "verb": st.sampled_from(["write", "send", "auto"]),
    "roce_mtu": st.sampled_from(["256B", "512B", "1KiB", "1024B", "2048B", "4096B", "auto"]),
    "window": SIZES | st.sampled_from(["off", "auto"]),
    "dcqcn_cnp_interval": SPANS,
    "dcqcn_alpha_timer": SPANS,
    "dcqcn_rate_timer": SPANS,
    "dcqcn_byte_counter": SIZES | st.none(),
    "dcqcn_f": COUNTS,
    "dcqcn_g": st.floats(0, 1, exclude_min=True) | st.just("auto"),
    "dcqcn_rai": RATES | st.just("auto"),
    "dcqcn_rhai": RATES | st.just("auto"),
    "dcqcn_min_rate": RATES | st.just("auto"),
    "workload": st.sampled_from([*WORKLOADS, OWN_FILE]),
    "senders": COUNTS,
    "bytes": SIZES,
    "rounds": st.integers(1, 10**6).map(str),
    "jitter": _quantities(["ns", "us"], 0),
    "traffic": FLOWS | st.just("auto"),
    "flows": COUNTS,
    "interval": _quantities(["ns", "us"], 1) | st.just("auto"),
    "duration": _quantities(["us", "ms", "s"], 1) | st.just("auto"),
    "iperf3_streams": COUNTS,
    "iperf3_interval": _quantities(["ms", "s"], 1) | st.just("auto"),
    "routing": st.sampled_from(["ecmp", "d_mod_k", "clockwise", "up_down", "auto"]),
    "ecmp_seed": st.sampled_from(["per_switch", "same", "auto"]),
    "fast_failover": SWITCHES | st.just("auto"),
    "control_latency": _quantities(["ns", "us", "ms"], 0) | st.just("auto"),
    "failure": SCHEDULES | st.just("auto"),
    "slow_link": st.dictionaries(LAGGARDS, RATES, min_size=1).map(_laggards) | st.just("none"),
    "lossy_link": st.dictionaries(LAGGARDS, st.floats(0, 1, exclude_min=True, exclude_max=True)).map(_laggards),
    "ranks": COUNTS,
    "collective": st.sampled_from([*COLLECTIVES, "auto"]),
    "algorithm": st.sampled_from([*ALGORITHMS, "auto"]),
    "shards": COUNTS,
    "helper_rate": RATES | st.just("auto"),
    "group": COUNTS,
    "sizes": st.lists(SIZES, min_size=1, max_size=5).map(",".join) | st.sampled_from(["1KiB-1MiB", "8B", "auto"]),
    "dtype": st.sampled_from(["float32", "float16", "int8", "auto"]),
    "iterations": COUNTS,
    "warmup": COUNTS,
    "chunk": SIZES | st.just("auto"),
    "host_cost": st.sampled_from(["none", "tcp", "rdma", "auto"]),
    "parallelism": st.sampled_from(["data", "tensor", "pipeline", "auto"]),
    "gradient": SIZES | st.just("auto"),
    "steps": COUNTS,
    "compute": SPANS,
    "bucket": SIZES | st.sampled_from(["off", "auto"]),
    "overlap": SWITCHES | st.just("auto"),
    "layers": COUNTS,
    "micro_batches": COUNTS,
    "activation": SIZES | st.just("auto"),
    "model": st.sampled_from(["none", "digits", "auto"]),
    "slow_host": st.dictionaries(LAGGARDS, st.floats(0, 1000, exclude_min=True)).map(_laggards),
    "backup_workers": st.integers(0, 1000) | st.just("auto"),
    "compression": st.sampled_from(["none", "topk", "int8", "sign", "auto"]),
    "kept": st.floats(0, 1, exclude_min=True) | st.just("auto"),
    "clients": COUNTS,
    "aggregation": st.sampled_from(["flat", "hierarchical", "auto"]),
    "edges": COUNTS,
    "update": SIZES | st.just("auto"),
    "scale": COUNTS,
    "spread": st.floats(0, 3) | st.just("auto"),
    "quorum": st.floats(0, 1, exclude_min=True) | st.just("auto"),
    "target": st.floats(0, 1, exclude_min=True) | st.just("auto"),
    "command": st.sampled_from(["python train.py --lr 0.1", "true", "auto"]),
    "directory": st.sampled_from(["/tmp", ".", "auto"]),
    "starter": st.sampled_from(["ranks", "mpirun", "auto"]),
    "timeout": _quantities(["ms", "s"], 1) | st.sampled_from(["off", False]),
    "edge_rounds": COUNTS,
    "openflow": st.sampled_from(["1.5", "1.3", 1.5, "auto"]),
    "policy": st.sampled_from(["none", OWN_FILE]),
    "capture": st.sampled_from(["off", "hot", "all", False]),
    "telemetry": SWITCHES,
    "seed": st.integers(-(2**63) + 1, 2**63 - 1),
}


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_a_spec_survives_being_written_down(values: dict[str, Any]) -> None:
    spec = parse(values)
    assert parse(spec.as_text()) == spec
    assert parse(yaml.safe_load(yaml.safe_dump(spec.as_text()))) == spec


def test_every_key_can_be_written_down() -> None:
    assert set(VALUES) == set(keys()) == set(Spec().as_text())


def test_every_key_is_documented() -> None:
    for item in fields(Spec):
        assert len(item.metadata["help"].split()) > 0
        assert item.metadata["kind"].allowed
        assert "|" not in item.metadata["name"]


@pytest.mark.parametrize(
    ("topology", "round_trip_ns"),
    [
        # there and back, links of 1 us and switches of 0.5 us: 2 and 1, 3 and 2, 4 and 3, 6 and 5
        ("star", 2 * (2000 + 500)),
        ("dumbbell", 2 * (3000 + 1000)),
        ("leaf_spine", 2 * (4000 + 1500)),
        ("gpu_pod", 2 * (4000 + 1500)),
        ("fat_tree", 2 * (6000 + 2500)),
        # of 5 switches all but one, and the links of both hosts
        ("ring", 2 * (5000 + 2000)),
    ],
)
def test_the_round_trip_is_the_longest_paths(topology: str, round_trip_ns: int) -> None:
    keys = {"switches": 5} if topology == "ring" else {}
    assert parse({"topology": topology, "delay": "1us", "switch_delay": "500ns", **keys}).rtt_ns == round_trip_ns


def test_clockwise_there_and_back_is_once_round() -> None:
    keys = {"topology": "ring", "switches": 5, "routing": "clockwise", "delay": "1us", "switch_delay": "500ns"}
    # 5 links between switches and 4 of hosts; each of both ends' switches is passed twice
    assert parse(keys).rtt_ns == 9 * 1000 + 7 * 500


# --- keys that do not apply


def test_what_is_given_and_does_not_apply_is_found() -> None:
    spec = parse({"topology": "fat_tree", "leaves": 4, "workload": "pings", "senders": 3, "k": 6})
    found = [(key.name, key.value, key.other, key.other_value, key.needed) for key in unfit(spec)]
    assert found == [
        ("leaves", "4", "topology", "fat_tree", ("leaf_spine", "gpu_pod", OWN)),
        ("senders", "3", "workload", "pings", ("incast", "iperf3")),
    ]
    assert unfit(without(spec, ["leaves", "senders"])) == ()
    assert without(spec, ["leaves", "senders"]).k == 6


def test_a_default_is_never_unfit() -> None:
    for topology in TOPOLOGIES:
        for workload in WORKLOADS:
            assert unfit(parse({"topology": topology, "workload": workload, "hosts": 8})) == ()


def test_what_does_not_apply_stays_open() -> None:
    spec = with_plain_autos(parse({"topology": "fat_tree", "workload": "streams", "duration": "1ms"}))
    assert (spec.k, spec.interval_ns, spec.duration_ns, spec.failures, spec.openflow) == (4, 10_000, 10**6, (), "1.5")
    assert (spec.rails, spec.flows, spec.nvlink_rate_bps) == (None, None, None)


def test_known_tells_values_from_gaps() -> None:
    assert known(0) == 0
    with pytest.raises(ValueError, match="leaves open"):
        known(None)


@pytest.mark.parametrize(
    ("given", "cc", "traffic_class"),
    [
        ({}, "cubic", "lossy"),
        ({"queue": "red"}, "cubic", "lossy"),
        ({"queue": "dctcp"}, "dctcp", "lossy"),
        ({"queue": "dcqcn"}, "dctcp", "lossy"),
        ({"cc": "reno", "queue": "dcqcn", "traffic_class": "lossless"}, "reno", "lossless"),
        ({"transport": "roce"}, "none", "lossless"),
        ({"transport": "roce", "queue": "dctcp"}, "dcqcn", "lossless"),
        ({"transport": "roce", "queue": "dcqcn"}, "dcqcn", "lossless"),
        ({"transport": "roce", "cc": "dcqcn", "traffic_class": "lossy"}, "dcqcn", "lossy"),
    ],
)
def test_transport_and_queue_decide(given: dict[str, Any], cc: str, traffic_class: str) -> None:
    spec = decided(parse(given))
    assert (spec.cc, spec.traffic_class) == (cc, traffic_class)
    assert decided(spec) == spec


def test_a_key_fits_what_auto_decides() -> None:
    dcqcn = {"transport": "roce", "dcqcn_f": 3}
    assert unfit(parse({**dcqcn, "queue": "dcqcn"})) == ()
    (found,) = unfit(parse(dcqcn))
    assert (found.name, found.other, found.other_value, found.needed) == ("dcqcn_f", "cc", "none", ("dcqcn",))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"cc": "dcqcn"}, ("cc", "transport", "tcp", ("roce",))),
        ({"cc": "reno", "transport": "roce"}, ("cc", "transport", "roce", ("tcp",))),
        ({"cc": "bbr", "queue": "dcqcn"}, ("cc", "queue", "dcqcn", ("droptail", "red"))),
        ({"cc": "none", "transport": "roce", "queue": "dctcp"}, ("cc", "queue", "dctcp", ("droptail", "red"))),
        ({"queue": "red", "transport": "roce"}, ("queue", "traffic_class", "lossless", ("lossy",))),
        ({"pfc": "on"}, ("pfc", "traffic_class", "lossy", ("lossless",))),
        ({"topology": "ring", "routing": "ecmp"}, ("routing", "topology", "ring", (*SWITCHED[:-1], OWN))),
        ({"policy": OWN_FILE}, ("policy", "topology", "star", ROUTED)),
        ({"topology": OWN_FILE, "rails": True}, ("rails", "topology", OWN_FILE, ("gpu_pod",))),
        ({"topology": "fat_tree", "routing": "up_down"}, ("routing", "topology", "fat_tree", ("ring", OWN))),
    ],
)
def test_one_value_of_a_key_may_not_fit(given: dict[str, Any], found: tuple[Any, ...]) -> None:
    key = unfit(parse(given))[0]
    assert (key.name, key.other, key.other_value, key.needed) == found


@pytest.mark.parametrize(
    "given",
    [
        {"cc": "bbr", "queue": "red"},
        {"cc": "dcqcn", "transport": "roce"},
        {"cc": "none", "transport": "roce"},
        {"queue": "red", "transport": "roce", "traffic_class": "lossy"},
        {"pfc": "on", "traffic_class": "lossless"},
        {"topology": "ring", "routing": "clockwise"},
        {"topology": OWN_FILE, "routing": "up_down", "leaves": 3, "policy": OWN_FILE},
        {"workload": OWN_FILE, "bytes": "1MB", "transport": "roce"},
    ],
)
def test_other_values_of_it_do(given: dict[str, Any]) -> None:
    assert unfit(parse(given)) == ()


def test_dcqcns_constants_are_those_of_its_machines() -> None:
    spec = with_plain_autos(decided(parse({"transport": "roce", "queue": "dcqcn"})))
    usual = Dcqcn()
    for item in fields(Dcqcn):
        if item.name != "initial_alpha":
            assert getattr(spec, f"dcqcn_{item.name}") == getattr(usual, item.name), item.name
