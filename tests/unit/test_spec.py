"""The spec: every key reads what it should, refuses the rest in one line, and survives being written down."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from experiments.spec import Spec, keys, parse
from topologies.units import BadRequest

# Key -> values that it must refuse, beside those of NOTHING.
REFUSED: dict[str, list[Any]] = {
    "topology": ["ring", "Star", ""],
    "rate": ["0Gbps", "400", 400, "400KB", "0.1bps", "-1Gbps"],
    "delay": ["1", 1, "1KB", "-1us", "0.1ns"],
    "switch_delay": ["1", "1KB", "-1us"],
    "buffer": ["0B", "600", 600, "600Gbps", "1.5B", "-1KB"],
    "mtu": ["0B", "1500", 1500],
    "queue": ["fifo", "DropTail", True],
    "kmin": ["0B", "12", "often"],
    "kmax": ["0B", "12"],
    "pmax": ["0", 0, "1.1", "-0.5", "nan", "inf", "half"],
    "transport": ["udp", "roce"],
    "cc": ["vegas", "CUBIC"],
    "sack": ["maybe", "2", 2],
    "tlp": ["maybe"],
    "rack": ["maybe"],
    "rto_min": ["0ms", "200", 200, "-200ms"],
    "senders": ["0", 0, "-1", "many", "4.0", 4.0, True, "1e3"],
    "bytes": ["0B", "256", 256],
    "rounds": ["0", "-4", 1.5],
    "jitter": ["100", "-1us"],
    "capture": ["some", "on", True],
    "telemetry": ["maybe"],
    "seed": ["one", 1.0, "0x10", True],
}
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
        BadRequest, match=rf"^{name}: unknown key \(did you mean {hint}\?\); allowed: topology, rate, .+$"
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
    ],
)
def test_yaml_values_are_read(text: str, expected: dict[str, Any]) -> None:
    spec = parse(yaml.safe_load(text))
    assert {name: getattr(spec, name) for name in expected} == expected


def _quantities(units: list[str], least: int) -> st.SearchStrategy[str]:
    return st.builds(lambda value, unit: f"{value}{unit}", st.integers(least, 10**6), st.sampled_from(units))


RATES, SIZES = _quantities(["bps", "Mbps", "Gbps"], 1), _quantities(["B", "KB", "KiB", "MB"], 1)
SWITCHES = st.sampled_from(["on", "off", "true", "no", "1", True, False])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "topology": st.just("star"),
    "rate": RATES,
    "delay": _quantities(["ns", "us", "ms"], 0),
    "switch_delay": _quantities(["ns", "us"], 0),
    "buffer": SIZES,
    "mtu": SIZES,
    "queue": st.sampled_from(["droptail", "red", "dctcp"]),
    "kmin": SIZES | st.just("auto"),
    "kmax": SIZES | st.none(),
    "pmax": st.floats(0, 1, exclude_min=True) | st.just("auto"),
    "transport": st.just("tcp"),
    "cc": st.sampled_from(["auto", "reno", "cubic", "dctcp", "bbr"]),
    "sack": SWITCHES,
    "tlp": SWITCHES,
    "rack": SWITCHES,
    "rto_min": _quantities(["us", "ms", "s"], 1),
    "senders": st.integers(1, 1023),
    "bytes": SIZES,
    "rounds": st.integers(1, 10**6).map(str),
    "jitter": _quantities(["ns", "us"], 0),
    "capture": st.sampled_from(["off", "hot", "all", False]),
    "telemetry": SWITCHES,
    "seed": st.integers(-(2**70), 2**70),
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


def test_hosts_and_round_trip() -> None:
    spec = parse({"senders": 64, "delay": "1us", "switch_delay": "500ns"})
    assert spec.hosts == 65
    assert spec.rtt_ns == 5000  # there and back: two links of 1 us and a switch of 0.5 us
