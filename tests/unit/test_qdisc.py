"""Queue stacks: how they are laid out, packed for the kernel, read from what a kernel told, and compared."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import live_queues, qdisc, qdisc_kinds
from topologies.netlink import RTM_NEWQDISC, RTM_NEWTFILTER, Request, attribute, attributes, nested, number
from topologies.profiles import LinkProfile, Lossless, Marking, MarkingByRate, SwitchProfile
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
        ("pfc", "6:", "3:2"),
        ("bfifo", "8:", "3:3"),
    ]


def test_a_port_with_marking() -> None:
    assert layout(switch_port(LINK, MARKED)) == [
        ("netem", "1:", "root"),
        ("tbf", "2:", "1:1"),
        ("prio", "3:", "2:1"),
        ("bfifo", "4:", "3:1"),
        ("red", "5:", "3:2"),
        ("pfc", "6:", "5:1"),
        ("red", "7:", "3:3"),
        ("bfifo", "8:", "7:1"),
    ]


def test_a_nic() -> None:
    assert layout(nic(LINK)) == [
        ("netem", "1:", "root"),
        ("tbf", "2:", "1:1"),
        ("prio", "3:", "2:1"),
        ("bfifo", "4:", "3:1"),
        ("rnic", "6:", "3:2"),
        ("bfifo", "8:", "3:3"),
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
    # Without thresholds it drops at the buffer's end, as a bfifo would.
    assert (options["6:"]["limit_bytes"], options["6:"]["xoff_bytes"], options["6:"]["at_egress"]) == (100_000, 0, True)
    nic_options = {item.as_json()["handle"]: item.options for item in nic(LINK)}
    assert nic_options["1:"]["delay_ns"] == 500  # the link's alone


def pfc_options(lossless: Lossless, pool: int = 0) -> dict[str, Any]:
    (found,) = (
        item.options for item in switch_port(LINK, replace(PLAIN, lossless=lossless), pool) if item.kind == "pfc"
    )
    return found


def test_a_lossless_class_counted_at_the_ingress_has_no_end_of_its_own() -> None:
    assert pfc_options(Lossless(60_000, 57_000, 40_000)) == {
        "limit_bytes": 2**32 - 1,
        "xoff_bytes": 60_000,
        "xon_bytes": 57_000,
        "headroom_bytes": 40_000,
        "at_egress": False,
        "alpha": 0.0,
        "pool": 0,
        "pool_bytes": 0,
    }


def test_a_lossless_class_counted_at_the_egress_ends_with_the_buffer() -> None:
    options = pfc_options(Lossless(60_000, 57_000, 40_000, at="egress"))
    assert (options["limit_bytes"], options["at_egress"]) == (600_000, True)


def test_ports_of_a_switch_share_its_pool() -> None:
    options = pfc_options(Lossless(60_000, 57_000, 40_000, pool_bytes=9_000_000, alpha=0.5), pool=7)
    assert (options["pool"], options["pool_bytes"], options["alpha"]) == (7, 9_000_000, 0.5)


def test_each_port_marks_by_the_curve_of_its_rate() -> None:
    slow, fast = Marking(5_000, 200_000, 0.01), Marking(50_000, 500_000, 0.01)
    switch = replace(PLAIN, marking=MarkingByRate(((40_000_000_000, slow), (400_000_000_000, fast))))
    for link, curve in ((LINK, fast), (replace(LINK, rate_bps=40_000_000_000), slow)):
        reds = [item.options for item in switch_port(link, switch) if item.kind == "red"]
        assert [(each["kmin_bytes"], each["kmax_bytes"]) for each in reds] == 2 * [(curve.kmin_bytes, curve.kmax_bytes)]


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
    "netem": st.fixed_dictionaries(
        {"delay_ns": st.integers(0, 2**62), "limit_packets": st.integers(1, 2**31), "loss": st.integers(0, 2**32 - 1)}
    ),
    "prio": st.fixed_dictionaries({"bands": st.integers(2, 16), "default_band": st.integers(0, 15)}),
    "bfifo": st.fixed_dictionaries({"limit_bytes": st.integers(1, 2**32 - 1)}),
    "rnic": st.fixed_dictionaries({"limit_bytes": st.integers(1, 2**32 - 1)}),
    "pfc": st.fixed_dictionaries(
        {
            "limit_bytes": st.integers(1, 2**32 - 1),
            "xoff_bytes": st.integers(2**30, 2**31),
            "xon_bytes": st.integers(0, 2**30),
            "headroom_bytes": st.integers(0, 2**31),
            "at_egress": st.booleans(),
            "alpha": st.integers(0, 64 * 256).map(lambda share: share / 256),
            "pool": st.integers(0, 2**31),
            "pool_bytes": st.integers(0, 2**31),
        }
    ),
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
    assert payload[4] == struct.pack("=II", 1 | 8 | 16, 1 | 8 | 16)  # ECN, no early drop, each by a draw of its own


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
        "classify pause frames on interface 9",
        "classify DSCP 48 on interface 9",
        "classify DSCP 26 on interface 9",
    ]


def test_a_nic_puts_pure_acknowledgements_first() -> None:
    filters = [request.says for request in install(9, nic(LINK), is_nic=True) if request.kind == RTM_NEWTFILTER]
    assert "classify pure acknowledgements on interface 9" in filters


# --- orders to queues at work


def order(request: Request) -> tuple[int, bytes, dict[int, bytes]]:
    """Handle, kind and options of an order; it makes no queue."""
    assert (request.kind, request.flags) == (RTM_NEWQDISC, 0)
    _, handle, parent, _ = struct.unpack_from("=BxxxiIII", request.body)[1:]
    assert parent == 0
    found = attributes(request.body[20:])
    return handle >> 16, found[1], attributes(found[2])


@pytest.mark.parametrize(("is_nic", "kind"), [(False, b"pfc\0"), (True, b"rnic\0")])
@pytest.mark.parametrize("held", [True, False])
def test_the_lossless_class_is_held(is_nic: bool, kind: bytes, held: bool) -> None:
    assert order(live_queues.hold(9, held, is_nic)) == (6, kind, {2: struct.pack("=I", held)})


def test_a_port_discards() -> None:
    assert order(live_queues.discard(9, True)) == (6, b"pfc\0", {3: struct.pack("=I", 1)})


@pytest.mark.parametrize(("rate_bps", "bytes_ps"), [(40_000_000_000, 5_000_000_000), (None, 0), (3, 1)])
def test_a_queue_pair_is_paced(rate_bps: int | None, bytes_ps: int) -> None:
    """No rate is so low that it would mean none."""
    expected = bytes((10, 0, 0, 1)) + struct.pack("=IQ", 17, bytes_ps)
    assert order(live_queues.pace(9, "10.0.0.1", 17, rate_bps)) == (6, b"rnic\0", {3: expected})


@pytest.mark.parametrize(("is_lossless", "handle"), [(True, 5), (False, 7)])
def test_a_changed_curve_makes_no_new_queue(is_lossless: bool, handle: int) -> None:
    found, kind, options = order(live_queues.change_marking(9, is_lossless, Marking(7, 70, 0.25)))
    assert (found, kind) == (handle, b"red\0")
    assert struct.unpack_from("=III", options[1]) == (0, 8, 71)  # a limit would be a new bfifo's


def test_queue_pairs_are_read() -> None:
    class Nic:
        def query(self, request: Request) -> list[bytes]:
            pairs = [
                attribute(4, bytes((10, 0, 0, 1)) + struct.pack("=IQQII", 17, 125_000_000, 4096, 1024, 0)),
                attribute(4, bytes((10, 0, 0, 2)) + struct.pack("=IQQII", 17, 0, 9, 0, 0)),
            ]
            head = struct.pack("=BxxxiIII", 0, 3, 0x60000, 0x30002, 1)
            return [head + nested(2, number(1, 1 << 30), number(2, 0), *pairs)]

    assert live_queues.read_queue_pairs(Nic(), 3) == {  # type: ignore[arg-type]
        ("10.0.0.1", 17): live_queues.Paced(1_000_000_000, 4096, 1024),
        ("10.0.0.2", 17): live_queues.Paced(None, 9, 0),
    }


# --- what a kernel told (7.3: a port at which two lossless and a lossy sender have met)


def recorded() -> list[Qdisc]:
    return [qdisc._decode(bytes.fromhex(line))[1] for line in RECORDED.read_text().splitlines()]


def test_a_recorded_stack_is_read() -> None:
    link = LinkProfile(100_000_000_000, 500, 1500)
    switch = replace(MARKED, lossless=Lossless(60_000, 57_000, 40_000))
    assert differences(switch_port(link, switch, pool=1), recorded(), link) == []


def test_recorded_counters_are_read() -> None:
    by_handle = {item.as_json()["handle"]: item.as_json() for item in recorded()}
    assert by_handle["8:"] == {
        "kind": "bfifo", "handle": "8:", "parent": "7:1", "options": {"limit_bytes": 100_000}, "bytes": 100_093,
        "packets": 70, "drops": 134, "overlimits": 0, "backlog_packets": 0, "backlog_bytes": 0,
    }  # fmt: skip
    assert (by_handle["7:"]["marked"], by_handle["7:"]["early"], by_handle["7:"]["overlimits"]) == (160, 0, 160)
    assert by_handle["2:"]["overlimits"] == 1745
    pfc = by_handle["6:"]
    assert (pfc["packets"], pfc["drops"], pfc["xoffs"], pfc["held_ns"], pfc["max_ingress_bytes"]) == (331, 71, 0, 0, 0)
    assert "marked" not in by_handle["8:"]


def test_more_than_four_billion_packets_are_counted() -> None:
    basic, packets = attribute(1, struct.pack("=QI4x", 2**40, 5)), attribute(8, struct.pack("=Q", 2**32 + 5))
    assert qdisc_kinds.statistics("bfifo", basic + packets)["packets"] == 2**32 + 5
    assert qdisc_kinds.statistics("bfifo", basic)["packets"] == 5


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


class Telling(live_queues.Probe):
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
