"""Long flows and stuck receivers: read, written down, checked against the hosts and the time there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.traffic import (
    MOST_FLOWS,
    Flow,
    Stuck,
    check_stuck,
    checked_flows,
    format_spans,
    parse_flows,
    parse_stuck,
)
from topologies.units import BadRequest

HOSTS = ["h1", "h2", "h3", "h4"]
END_NS = 20_000_000
NAMES, TIMES = st.integers(1, 10**6).map("h{}".format), st.integers(0, 10**12)


def checked(text: str) -> tuple[Flow, ...]:
    return checked_flows(parse_flows(text), HOSTS, END_NS)


def test_flows_are_read() -> None:
    assert parse_flows("h2>h1@0ms-20ms, h3>h1@5.5us,h2>h1@1s-2s") == (
        Flow("h2", "h1", 0, 20_000_000),
        Flow("h3", "h1", 5500),
        Flow("h2", "h1", 10**9, 2 * 10**9),
    )


def test_stuck_receivers_are_read() -> None:
    assert parse_stuck("h1@2ms-12ms,h12@0s") == (Stuck("h1", 2_000_000, 12_000_000), Stuck("h12", 0))
    assert parse_stuck("none") == ()


@given(st.lists(st.builds(Flow, NAMES, NAMES, TIMES, TIMES | st.none()), min_size=1, max_size=4))
def test_flows_survive_being_written_down(flows: list[Flow]) -> None:
    assert parse_flows(format_spans(flows)) == tuple(flows)


@given(st.lists(st.builds(Stuck, NAMES, TIMES, TIMES | st.none()), max_size=4))
def test_stuck_receivers_survive_being_written_down(stuck: list[Stuck]) -> None:
    assert parse_stuck(format_spans(stuck)) == tuple(stuck)


def test_what_has_no_end_lasts_as_long_as_the_workload() -> None:
    assert checked("h2>h1@0s,h3>h1@1ms-2ms") == (Flow("h2", "h1", 0, END_NS), Flow("h3", "h1", 1_000_000, 2_000_000))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("h2>h1", "traffic: 'h2>h1' is not understood; allowed: SENDER>RECEIVER@BEGIN-END, the end may be left out; "),
        ("none", "traffic: 'none' is not understood; allowed: "),
        ("h5>h1@0s", "traffic: h5>h1@0ns: there is no host h5; allowed: h1 to h4"),
        ("h1>h9@0s-1ms", "traffic: h1>h9@0ns-1ms: there is no host h9; allowed: h1 to h4"),
        ("h2>h2@0s", "traffic: h2>h2@0ns: the sender is the receiver; allowed: two hosts"),
        ("h2>h1@5ms-5ms", "traffic: h2>h1@5ms-5ms is an empty span; allowed: ends after begins"),
        ("h2>h1@5ms-4ms", "traffic: h2>h1@5ms-4ms is an empty span; allowed: ends after begins"),
        ("h2>h1@20ms", "traffic: h2>h1@20ms is given; allowed: begins before 20ms"),
        ("h2>h1@5ms-21ms", "traffic: h2>h1@5ms-21ms is given; allowed: ends up to duration=20ms"),
        (",".join(["h2>h1@0s"] * (MOST_FLOWS + 1)), "traffic: 1001 flows are given; allowed: up to 1000"),
    ],
)
def test_traffic_that_cannot_be_is_refused_in_one_line(text: str, line: str) -> None:
    with pytest.raises(BadRequest) as error:
        checked(text)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "end_ns", "line"),
    [
        ("h1", END_NS, "stuck: 'h1' is not understood; allowed: HOST@BEGIN-END, the end may be left out; "),
        ("h9@0s", END_NS, "stuck: h9@0ns: there is no host h9; allowed: h1 to h4"),
        ("h1@2ms-2ms", END_NS, "stuck: h1@2ms-2ms is an empty span; allowed: ends after begins"),
        ("h1@2ms-1ms", None, "stuck: h1@2ms-1ms is an empty span; allowed: ends after begins"),
        ("h1@20ms", END_NS, "stuck: h1@20ms is given; allowed: begins before 20ms"),
        ("h1@1ms-2ms,h1@3ms-4ms", END_NS, "stuck: h1 is given more than once; allowed: once"),
    ],
)
def test_who_cannot_get_stuck_is_refused_in_one_line(text: str, end_ns: int | None, line: str) -> None:
    with pytest.raises(BadRequest) as error:
        check_stuck(parse_stuck(text), HOSTS, end_ns)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


def test_receivers_may_be_stuck_longer_than_there_is_traffic() -> None:
    check_stuck(parse_stuck("h1@0s,h2@1ms-1h"), HOSTS, END_NS)
    check_stuck(parse_stuck("h1@1h-2h"), HOSTS, None)
