"""Queue stacks: how they are laid out, packed for the kernel, read from what a kernel told, and compared."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import qdisc
from topologies.netlink import RTM_NEWQDISC, RTM_NEWTFILTER, attribute, attributes, nested, number
from topologies.profiles import LinkProfile, Marking, SwitchProfile
from topologies.qdisc import ROOT, Qdisc, burst_bytes, differences, install, nic, switch_port

LINK = LinkProfile(400_000_000_000, 500, 1500)
STEP = Marking(60_000, 60_000, 1.0)
PLAIN, MARKED = SwitchProfile(400, 600_000), SwitchProfile(400, 100_000, STEP)
RECORDED = Path(__file__).parent / "data" / "qdiscs.hex"


def layout(stack: tuple[Qdisc, ...] | list[Qdisc]) -> list[tuple[Any, ...]]:
    return [tuple(item.as_json()[name] for name in ("kind", "handle", "parent")) for item in stack]


# --- layout


def test_a_port_without_marking() -> None:
    assert layout(switch_port(LINK, PLAIN)) == [
        ("netem", "1:", "root"),
        ("tbf", "2:", "1:1"),
        ("prio", "3:", "2:1"),
        ("bfifo", "4:", "3:1"),
        ("plug", "6:", "3:2"),
        ("bfifo", "8:", "3:3"),
    ]


def test_a_port_with_marking() -> None:
    assert layout(switch_port(LINK, MARKED)) == [
        ("netem", "1:", "root"),
        ("tbf", "2:", "1:1"),
        ("prio", "3:", "2:1"),
        ("bfifo", "4:", "3:1"),
        ("red", "5:", "3:2"),
        ("plug", "6:", "5:1"),
        ("red", "7:", "3:3"),
        ("bfifo", "8:", "7:1"),
    ]


def test_a_nic() -> None:
    assert layout(nic(LINK)) == [
        ("netem", "1:", "root"),
        ("tbf", "2:", "1:1"),
        ("prio", "3:", "2:1"),
        ("bfifo", "4:", "3:1"),
        ("bfifo", "5:", "3:2"),
    ]


def test_options_are_the_profiles() -> None:
    options = {item.as_json()["handle"]: item.options for item in switch_port(LINK, MARKED)}
    assert options["1:"]["delay_ns"] == 900  # link and switch
    assert options["2:"]["rate_bps"] == 400_000_000_000
    assert options["8:"] == {"limit_bytes": 100_000}
    assert options["7:"] == {
        "kmin_bytes": 60_000,
        "kmax_bytes": 60_000,
        "pmax": 1.0,
        "limit_bytes": 100_000,
        "ecn": True,
    }
    red = switch_port(LINK, replace(MARKED, marking=Marking(1000, 2000, 0.1, drop=True)))
    # The lossless class may not drop.
    assert [(item.handle >> 16, item.options["ecn"]) for item in red if item.kind == "red"] == [(7, False)]
    nic_options = {item.as_json()["handle"]: item.options for item in nic(LINK)}
    assert nic_options["1:"]["delay_ns"] == 500  # the link's alone


@given(st.integers(8, 4 * 10**11).map(lambda rate: rate // 8 * 8), st.integers(576, 9000))
def test_the_burst_is_one_frame_and_a_few_nanoseconds(rate_bps: int, mtu_bytes: int) -> None:
    """Less than a frame could never be sent; two frames would double a shallow buffer's burst."""
    link = LinkProfile(rate_bps, 0, mtu_bytes)
    assert link.frame_bytes < burst_bytes(link) <= link.frame_bytes + rate_bps * 20e-9 / 8 + 1


@pytest.mark.parametrize(
    ("handle", "expected"),
    [(ROOT, "root"), (1 << 16, "1:"), (3 << 16 | 2, "3:2"), (0xA << 16 | 0x1F, "a:1f"), (0x8001 << 16, "8001:")],
)
def test_handles_are_written_as_tc_writes_them(handle: int, expected: str) -> None:
    assert Qdisc("x", handle, handle).as_json()["handle"] == expected
    assert Qdisc("x", handle, handle).as_json()["parent"] == expected


# --- packing

OPTIONS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "netem": st.fixed_dictionaries({"delay_ns": st.integers(0, 2**62), "limit_packets": st.integers(1, 2**31)}),
    "prio": st.fixed_dictionaries({"bands": st.integers(2, 16), "default_band": st.integers(0, 15)}),
    "bfifo": st.fixed_dictionaries({"limit_bytes": st.integers(1, 2**32 - 1)}),
    "red": st.fixed_dictionaries(
        {
            "kmin_bytes": st.integers(1, 2**31),
            "kmax_bytes": st.integers(1, 2**31),
            "pmax": st.just(0.25),
            "limit_bytes": st.integers(1, 2**32 - 1),
            "ecn": st.booleans(),
        }
    ),
}


def packed(kind: str, options: dict[str, Any]) -> bytes:
    """The payload of TCA_OPTIONS that is sent for a qdisc."""
    (request, *_) = install(3, (Qdisc(kind, 0x10000, ROOT, options),))
    return attributes(request.body[20:])[2]


def told(kind: str, payload: bytes) -> Qdisc:
    """What is read when a kernel tells a qdisc with these TCA_OPTIONS."""
    body = (
        struct.pack("=BxxxiIII", 0, 3, 0x10000, ROOT, 1) + attribute(1, kind.encode() + b"\0") + attribute(2, payload)
    )
    ifindex, found = qdisc._decode(body)
    assert (ifindex, found.handle, found.parent, found.kind) == (3, 0x10000, ROOT, kind)
    return found


@pytest.mark.parametrize("kind", OPTIONS)
@given(st.data())
def test_what_is_packed_is_read_back(kind: str, data: st.DataObject) -> None:
    options = data.draw(OPTIONS[kind])
    assert told(kind, packed(kind, options)).options == options


@given(st.integers(1, 5 * 10**11))
def test_a_rate_is_packed_exactly(rate_bytes_ps: int) -> None:
    options = {"rate_bps": rate_bytes_ps * 8, "burst_bytes": 2000}
    assert told("tbf", packed("tbf", options)).options["rate_bps"] == rate_bytes_ps * 8
    assert attributes(packed("tbf", options))[6] == struct.pack("=I", 2000)  # TCA_TBF_BURST


def test_a_small_rate_needs_no_64_bits() -> None:
    qopt = struct.pack("=BBHhHI", 0, 1, 0, 0, 0, 1_250_000) + bytes(12) + struct.pack("=III", 0, 25_000, 0)
    options = told("tbf", attribute(1, qopt)).options
    assert options == {"rate_bps": 10_000_000, "burst_bytes": 2000}  # 25,000 ticks of 64 ns at 1.25 MB/s


@pytest.mark.parametrize(("pmax", "packed_pmax"), [(1.0, 2**32 - 1), (0.5, 2**31), (2**-32, 1)])
def test_a_probability_is_packed_in_units_of_two_to_the_minus_32(pmax: float, packed_pmax: int) -> None:
    options = {"kmin_bytes": 1, "kmax_bytes": 2, "pmax": pmax, "limit_bytes": 3, "ecn": True}
    payload = packed("red", options)
    assert attributes(payload)[3] == struct.pack("=I", packed_pmax)
    assert told("red", payload).options["pmax"] == pytest.approx(pmax, abs=2**-32)


def test_red_looks_at_the_queue_of_this_instant() -> None:
    """Wlog 0 and an idle table of 31s; acting from a byte above the thresholds on is acting above them."""
    payload = attributes(packed("red", {"kmin_bytes": 7, "kmax_bytes": 8, "pmax": 1.0, "limit_bytes": 9, "ecn": True}))
    assert payload[1] == struct.pack("=IIIBBBB", 9, 8, 9, 0, 0, 0, 0)
    assert payload[2] == bytes([31]) * 256
    assert payload[4] == struct.pack("=II", 1 | 8, 1 | 8)  # ECN, no early drop


@pytest.mark.parametrize("marking", [None, STEP])
def test_requests_build_the_stack_in_order(marking: Marking | None) -> None:
    stack = switch_port(LINK, replace(MARKED, marking=marking))
    requests = list(install(9, stack))
    made = [request for request in requests if request.kind == RTM_NEWQDISC and request.flags == 0x600]
    assert [struct.unpack_from("=BxxxiII", request.body)[1:] for request in made] == [
        (9, item.handle, item.parent) for item in stack
    ]
    filters = [request for request in requests if request.kind == RTM_NEWTFILTER]
    assert [request.says for request in filters] == [
        "classify DSCP 48 on interface 9",
        "classify DSCP 26 on interface 9",
    ]
    changed = [request for request in requests if request.kind == RTM_NEWQDISC and request.flags == 0]
    (release,) = changed  # a plug that is made holds everything
    assert attributes(release.body[20:])[2] == struct.pack("=iI", 2, 0)  # TCQ_PLUG_RELEASE_INDEFINITE


# --- what a kernel told (7.3: a port behind which eight flows were in each other's way)


def recorded() -> list[Qdisc]:
    return [qdisc._decode(bytes.fromhex(line))[1] for line in RECORDED.read_text().splitlines()]


def test_a_recorded_stack_is_read() -> None:
    link = LinkProfile(100_000_000_000, 500, 1500)
    assert differences(switch_port(link, MARKED), recorded(), link) == []


def test_recorded_counters_are_read() -> None:
    by_handle = {item.as_json()["handle"]: item.as_json() for item in recorded()}
    assert by_handle["8:"] == {
        "kind": "bfifo", "handle": "8:", "parent": "7:1", "options": {"limit_bytes": 100_000}, "bytes": 8_774_378,
        "packets": 5825, "drops": 57, "overlimits": 0, "backlog_packets": 0, "backlog_bytes": 0,
    }  # fmt: skip
    assert (by_handle["7:"]["marked"], by_handle["7:"]["early"], by_handle["7:"]["overlimits"]) == (707, 0, 753)
    assert by_handle["2:"]["overlimits"] == 23_225
    assert "marked" not in by_handle["8:"]


def test_more_than_four_billion_packets_are_counted() -> None:
    basic, packets = attribute(1, struct.pack("=QI4x", 2**40, 5)), attribute(8, struct.pack("=Q", 2**32 + 5))
    assert qdisc._statistics("bfifo", basic + packets)["packets"] == 2**32 + 5
    assert qdisc._statistics("bfifo", basic)["packets"] == 5


def test_foreign_qdiscs_are_left_out() -> None:
    class Kernel:
        def query(self, request: Any) -> list[bytes]:
            foreign = struct.pack("=BxxxiIII", 0, 6, 0, ROOT, 1) + attribute(1, b"noqueue\0")
            return [foreign, *map(bytes.fromhex, RECORDED.read_text().splitlines())]

    found = qdisc.read_all(Kernel())  # type: ignore[arg-type]
    assert list(found) == [6]
    assert "noqueue" not in {item.kind for item in found[6]}


# --- asked and got


def got(stack: tuple[Qdisc, ...], handle: str, **changes: Any) -> list[Qdisc]:
    """The stack as a kernel would tell it, with changes at one handle (options by name, or a field)."""
    found = []
    for item in stack:
        if item.as_json()["handle"] == handle:
            own = {name: changes[name] for name in ("kind", "parent") if name in changes}
            item = replace(item, options={**item.options, **{k: v for k, v in changes.items() if k not in own}}, **own)
        found.append(item)
    return found


def test_equal_stacks_do_not_differ() -> None:
    stack = switch_port(LINK, MARKED)
    assert differences(stack, list(stack), LINK) == []
    assert differences(stack, list(reversed(stack)), LINK) == []


@pytest.mark.parametrize(
    ("handle", "changes", "line"),
    [
        ("1:", {"delay_ns": 901}, "netem 1:: delay_ns is 901, asked 900"),
        ("1:", {"limit_packets": 1000}, "netem 1:: limit_packets is 1000, asked 10000000"),
        ("2:", {"rate_bps": 399_999_999_992}, "tbf 2:: rate_bps is 399999999992, asked 400000000000"),
        ("3:", {"bands": 4}, "prio 3:: bands is 4, asked 3"),
        ("7:", {"kmin_bytes": 59_999}, "red 7:: kmin_bytes is 59999, asked 60000"),
        ("7:", {"pmax": 0.99}, "red 7:: pmax is 0.99, asked 1.0"),
        ("7:", {"ecn": False}, "red 7:: ecn is False, asked True"),
        ("8:", {"limit_bytes": 99_999}, "bfifo 8:: limit_bytes is 99999, asked 100000"),
        ("8:", {"kind": "pfifo"}, "bfifo 8: at 7:1 is missing"),
        ("8:", {"parent": 3 << 16 | 3}, "bfifo 8: at 7:1 is missing"),
    ],
)
def test_every_difference_is_a_line(handle: str, changes: dict[str, Any], line: str) -> None:
    stack = switch_port(LINK, MARKED)
    assert differences(stack, got(stack, handle, **changes), LINK) == [line]


def test_what_is_missing_is_a_line() -> None:
    stack = switch_port(LINK, MARKED)
    assert differences(stack, list(stack[:-1]), LINK) == ["bfifo 8: at 7:1 is missing"]
    assert len(differences(stack, [], LINK)) == len(stack)


def test_what_the_kernel_rounds_is_no_difference() -> None:
    """It tells a burst in ticks of 64 ns and a probability in 2^-32."""
    slow = LinkProfile(10_000_000_000, 0, 1500)
    stack = nic(slow)
    asked = int(stack[1].options["burst_bytes"])
    assert differences(stack, got(stack, "2:", burst_bytes=asked - 80), slow) == []
    assert len(differences(stack, got(stack, "2:", burst_bytes=asked - 82), slow)) == 1
    assert len(differences(stack, got(stack, "2:", burst_bytes=asked + 82), slow)) == 1
    marked = switch_port(LINK, MARKED)
    assert differences(marked, got(marked, "7:", pmax=1 - 2**-32), LINK) == []


# --- a probe finds its numbers wherever the kernel puts them


def answer(kind: bytes, statistics: bytes) -> bytes:
    body = struct.pack("=BxxxiIII", 0, 3, 0x70000, 0x30003, 1) + attribute(1, kind)
    return bytes(16) + body + attribute(2, bytes(20)) + attribute(7, statistics)


class Telling(qdisc.Probe):
    """A probe whose kernel tells prepared answers."""

    def __init__(self, answers: list[bytes]) -> None:
        self._answers = answers
        self._request, self._length, self._queue_at, self._red_at = b"", 0, 0, None
        self._netlink = self  # type: ignore[assignment]

    def exchange(self, prepared: bytes) -> bytes:
        return self._answers.pop(0)


def test_a_probe_reads_queue_and_marks() -> None:
    basic, queue = attribute(1, bytes(16)), attribute(3, struct.pack("=5I", 3, 4542, 17, 0, 0))
    xstats = attribute(4, struct.pack("=4I", 1, 2, 3, 44))
    probe = Telling([answer(b"red\0", basic + queue + xstats), answer(b"bfifo\0", queue + basic + xstats)])
    assert probe.read() == (4542, 3, 17, 44)
    assert probe.read() == (4542, 3, 17, 0)  # another layout; only RED's own statistics tell marks


def test_a_probe_that_is_told_nothing_says_so() -> None:
    silent = bytes(16) + struct.pack("=BxxxiIII", 0, 3, 0x70000, 0x30003, 1) + nested(2, number(1, 1))
    with pytest.raises(OSError, match="does not tell this qdisc's counters"):
        Telling([silent]).read()
