"""Quantities in text: what is written is read back exactly, and what cannot be exact is refused in one line."""

from __future__ import annotations

import re
from typing import Any, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.units import (
    BadRequest,
    format_bytes,
    format_duration,
    format_rate,
    parse_bytes,
    parse_duration_ns,
    parse_rate_bps,
)

Parse = Callable[..., int]
PARSERS: list[Any] = [parse_rate_bps, parse_bytes, parse_duration_ns]


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_rate_bps, "400Gbps", 400_000_000_000),
        (parse_rate_bps, "2.5Gbps", 2_500_000_000),
        (parse_rate_bps, " 10 Mbps ", 10_000_000),
        (parse_rate_bps, "1Kbps", 1000),
        (parse_rate_bps, "1kbps", 1000),
        (parse_rate_bps, "1.6Tbps", 1_600_000_000_000),
        (parse_bytes, "600KB", 600_000),
        (parse_bytes, "600kB", 600_000),
        (parse_bytes, "256KiB", 262_144),
        (parse_bytes, "0.5KiB", 512),
        (parse_bytes, "9000B", 9000),
        (parse_bytes, "1.5MB", 1_500_000),
        (parse_duration_ns, "1us", 1000),
        (parse_duration_ns, "1.5us", 1500),
        (parse_duration_ns, "200ms", 200_000_000),
        (parse_duration_ns, "0ns", 0),
        (parse_duration_ns, "2min", 120_000_000_000),
        (parse_duration_ns, "0.001us", 1),
    ],
)
def test_a_quantity_is_read(parse: Parse, text: str, value: int) -> None:
    assert parse(text) == value


@pytest.mark.parametrize("parse", PARSERS)
@pytest.mark.parametrize(
    "text",
    ["", "400", "Gbps", "KB", "us", "-1Gbps", "-1KB", "-1us", "+1us", "1e9bps", "1,5us", "1.us", ".5us", "1 2us",
     "1GBPS", "1 GB/s", "0x10B", "nan", "infs", "1us\n1us", "٣us", 400, 1.5, None, True, [], b"1us"],
)  # fmt: skip
def test_what_is_no_quantity_is_refused_in_one_line(parse: Parse, text: object) -> None:
    with pytest.raises(BadRequest) as error:
        parse(text, "some_key")
    line = (
        re.escape(f"some_key: {text!r} is not understood")
        + r"( \(did you mean (\S+)\?\))?; allowed: a number and a unit, .+"
    )
    match = re.fullmatch(line, str(error.value))
    assert match, error.value
    assert match[2] is None or parse(match[2])


@pytest.mark.parametrize(
    ("parse", "text", "meant"),
    [
        (parse_rate_bps, "1G", "1Gbps"),
        (parse_rate_bps, "2.5gbps", "2.5Gbps"),
        (parse_bytes, "600K", "600KB"),
        (parse_bytes, "1.5k", "1.5KB"),
        (parse_bytes, "256kib", "256KiB"),
        (parse_duration_ns, "1.5u", "1.5us"),
        (parse_duration_ns, "200MS", "200ms"),
    ],
)
def test_a_unit_cut_short_is_understood_by_the_refusal(parse: Parse, text: str, meant: str) -> None:
    with pytest.raises(BadRequest, match=rf"^key: '{text}' is not understood \(did you mean {meant}\?\); allowed: "):
        parse(text, "key")
    assert parse(meant)


@pytest.mark.parametrize(
    ("parse", "text", "base"),
    [
        (parse_rate_bps, "0.5bps", "bits per second"),
        (parse_rate_bps, "1.0000000001Gbps", "bits per second"),
        (parse_bytes, "1.5B", "bytes"),
        (parse_bytes, "0.0001KiB", "bytes"),
        (parse_duration_ns, "0.1ns", "nanoseconds"),
        (parse_duration_ns, "1.0001us", "nanoseconds"),
    ],
)
def test_what_is_not_whole_is_refused_in_one_line(parse: Parse, text: str, base: str) -> None:
    with pytest.raises(BadRequest, match=rf"^key: '{text}' is not a whole number of {base}; allowed: .+$"):
        parse(text, "key")


@pytest.mark.parametrize(
    ("parse", "unit"), [(parse_rate_bps, "us"), (parse_bytes, "Gbps"), (parse_duration_ns, "KB"), (parse_bytes, "Gib")]
)
def test_a_unit_of_another_kind_is_refused_and_the_right_ones_are_named(parse: Parse, unit: str) -> None:
    with pytest.raises(BadRequest) as error:
        parse(f"1{unit}")
    allowed = str(error.value).partition("one of ")[2].split(", ")
    assert unit not in allowed
    assert [parse(f"1{name}") for name in allowed]


@given(st.integers(0, 10**15))
def test_a_rate_survives_text(value: int) -> None:
    assert parse_rate_bps(format_rate(value)) == value


@given(st.integers(0, 2**60))
def test_a_size_survives_text(value: int) -> None:
    assert parse_bytes(format_bytes(value)) == value


@given(st.integers(0, 10**18))
def test_a_duration_survives_text(value: int) -> None:
    assert parse_duration_ns(format_duration(value)) == value


@given(st.integers(1, 10**4), st.integers(-2, 12))
def test_a_value_with_few_digits_survives_text_whatever_its_size(digits: int, power: int) -> None:
    value = digits * 10**power if power >= 0 else digits
    assert parse_rate_bps(format_rate(value)) == parse_bytes(format_bytes(value)) == value
    assert parse_duration_ns(format_duration(value)) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_rate(400_000_000_000), "400Gbps"),
        (format_rate(2_500_000_000), "2.5Gbps"),
        (format_rate(1), "1bps"),
        (format_bytes(600_000), "600KB"),
        (format_bytes(262_144), "256KiB"),
        (format_bytes(1 << 20), "1MiB"),
        (format_bytes(1_000_000), "1MB"),
        (format_bytes(0), "0B"),
        (format_duration(200_000_000), "200ms"),
        (format_duration(1500), "1.5us"),
        (format_duration(500), "500ns"),
        (format_duration(0), "0ns"),
    ],
)
def test_text_is_as_a_person_would_write_it(text: str, expected: str) -> None:
    assert text == expected
