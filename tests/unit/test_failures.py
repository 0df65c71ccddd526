"""Failure schedules: read, written down, checked against the fabric, and what each event takes down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.failures import Failure, affected_wires, check_failures, format_failures, parse_failures
from topologies.describe import FabricDescription, describe
from topologies.dumbbell import Dumbbell
from topologies.gpu_pod import GpuPod
from topologies.leaf_spine import LeafSpine
from topologies.units import BadRequest

FABRIC = describe(LeafSpine(leaves=3, spines=2, hosts_per_leaf=2))
END_NS = 40_000_000
TARGETS = st.from_regex(r"[a-z]{1,8}[0-9]{1,3}(-[a-z]{1,8}[0-9]{1,3})?", fullmatch=True)
EVENTS = st.builds(Failure, st.integers(0, 10**12), TARGETS, st.sampled_from(["down", "up"]))


def checked(text: str, fabric: FabricDescription = FABRIC, end_ns: int = END_NS) -> tuple[Failure, ...]:
    failures = parse_failures(text)
    check_failures(failures, fabric, end_ns)
    return failures


def ends(text: str, fabric: FabricDescription = FABRIC) -> list[str]:
    (failure,) = parse_failures(text)
    return [f"{wire.a}-{wire.b}" for wire in affected_wires(failure, fabric)]


def test_a_schedule_is_read() -> None:
    assert parse_failures("leaf1-spine1:down@10ms, leaf1-spine1:up@0.03s") == (
        Failure(10_000_000, "leaf1-spine1", "down"),
        Failure(30_000_000, "leaf1-spine1", "up"),
    )
    assert parse_failures("spine2:down@0s,spine1:down@0s") == (
        Failure(0, "spine2", "down"),
        Failure(0, "spine1", "down"),
    )
    assert parse_failures("none") == ()


@given(st.lists(EVENTS, max_size=4))
def test_a_schedule_survives_being_written_down(events: list[Failure]) -> None:
    failures = tuple(sorted(events, key=lambda event: event.time_ns))
    assert parse_failures(format_failures(failures)) == failures


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "leaf1:down",
            "failure: 'leaf1:down' is not understood; allowed: SWITCH, SWITCH-SWITCH or controller, :down@ or :up@, a"
            " time",
        ),
        ("leaf1:down@-1ms", "failure: 'leaf1:down@-1ms' is not understood; allowed: "),
        (
            "spine1:down@5ms,spine2:down@4ms",
            "failure: 'spine1:down@5ms,spine2:down@4ms' is not in order of time; allowed: earlier events first",
        ),
        (
            "leaf9:down@5ms",
            "failure: leaf9:down@5ms: there is no switch leaf9; allowed: leaf1 to leaf3, spine1 to spine2",
        ),
        ("h1:down@5ms", "failure: h1:down@5ms: there is no switch h1; allowed: leaf1 to leaf3, spine1 to spine2"),
        ("h1-leaf1:down@5ms", "failure: h1-leaf1:down@5ms: there is no switch h1; allowed: "),
        (
            "leaf1-leaf2:down@5ms",
            "failure: leaf1-leaf2:down@5ms: there is no such link; allowed: leaf1-spine1, leaf1-spine2",
        ),
        ("leaf1-leaf1:down@5ms", "failure: leaf1-leaf1:down@5ms: there is no such link; allowed: leaf1-spine1, "),
        ("spine1:down@40ms", "failure: spine1:down@40ms is given; allowed: times before 40ms"),
        ("spine1:up@5ms", "failure: spine1:up@5ms: it has not gone down before; allowed: up after down"),
        (
            "spine1:down@5ms,spine1:up@6ms,spine1:up@7ms",
            "failure: spine1:up@7ms: it has not gone down before; allowed: up after down",
        ),
        (
            "spine1:down@5ms,spine1:down@6ms",
            "failure: spine1:down@6ms: leaf1-spine1 is down already; allowed: down of what is wholly up",
        ),
        ("spine1:down@5ms,leaf2-spine1:down@6ms", "failure: leaf2-spine1:down@6ms: leaf2-spine1 is down already; "),
        ("leaf2-spine1:down@5ms,spine1:down@6ms", "failure: spine1:down@6ms: leaf2-spine1 is down already; "),
        ("spine1:down@5ms,leaf2-spine1:up@6ms", "failure: leaf2-spine1:up@6ms: it has not gone down before; "),
    ],
)
def test_what_cannot_happen_is_refused_in_one_line(text: str, line: str) -> None:
    with pytest.raises(BadRequest) as error:
        checked(text)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "none",
        "spine1:down@0s",
        "spine1:down@39999999ns",
        "leaf1-spine1:down@1ms,leaf1-spine1:up@2ms,leaf1-spine1:down@3ms",
        "leaf1-spine1:down@1ms,spine1-leaf1:up@2ms",
        "leaf1-spine1:down@1ms,leaf2-spine1:down@1ms",
        "leaf1-spine1:down@1ms,leaf1-spine1:up@2ms,spine1:down@2ms,spine1:up@2ms",
    ],
)
def test_what_can_happen_is_taken(text: str) -> None:
    assert checked(text) == parse_failures(text)


def test_long_lists_of_links_are_cut() -> None:
    with pytest.raises(BadRequest) as error:
        checked("spine1-spine2:down@1ms", describe(LeafSpine(leaves=12, spines=2, hosts_per_leaf=1)))
    assert str(error.value).endswith("leaf7-spine1, leaf8-spine1 and 4 more")


def test_a_link_is_one_wire_and_a_switch_all_of_its_own() -> None:
    assert ends("leaf1-spine2:down@1ms") == ends("spine2-leaf1:up@2ms") == ["leaf1-spine2"]
    assert ends("spine2:down@1ms") == ["leaf1-spine2", "leaf2-spine2", "leaf3-spine2"]
    assert sorted(ends("leaf3:down@1ms")) == ["h5-leaf3", "h6-leaf3", "leaf3-spine1", "leaf3-spine2"]


def test_names_are_whole() -> None:
    many = describe(LeafSpine(leaves=11, spines=1, hosts_per_leaf=1))
    assert ends("leaf1:down@1ms", many) == ["h1-leaf1", "leaf1-spine1"]


def test_every_fabrics_switches_can_fail() -> None:
    assert ends("left1-right1:down@1ms", describe(Dumbbell(hosts=2))) == ["left1-right1"]
    assert ends("nvs2:down@1ms", describe(GpuPod(servers=2))) == [f"h{gpu}-nvs2" for gpu in range(9, 17)]
