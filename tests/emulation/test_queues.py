"""Ports and NICs do what was configured: rates, delays, buffers, marks, classes; each judged from packets alone."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.emulation.captures import Frame, read
from tests.emulation.conftest import Done, Inside
from tests.emulation.replay import Arrival, replay
from topologies.units import parse_bytes, parse_duration_ns, parse_rate_bps

pytestmark = pytest.mark.lab

FRAME_BYTES = 1514
RATE_TOLERANCE = 0.01
DELAY_TOLERANCE_NS = 10
TCP_FLAGS_AT, ACK, ECE = 14 + 20 + 13, 0x10, 0x40  # RFC 9293, RFC 3168


def data(folder: Path, point: str) -> list[Frame]:
    return [frame for frame in read(folder / f"{point}.pcap") if frame.is_ip]


# --- asked and read back

STACKS: dict[str, list[tuple[str, str, str]]] = {
    "droptail": [("pfc", "6:", "3:2"), ("bfifo", "8:", "3:3")],
    "red": [("pfc", "6:", "3:2"), ("red", "7:", "3:3"), ("bfifo", "8:", "7:1")],  # the lossless class may not drop
    "dctcp": [("red", "5:", "3:2"), ("pfc", "6:", "5:1"), ("red", "7:", "3:3"), ("bfifo", "8:", "7:1")],
}
MARKING: dict[str, dict[str, Any]] = {
    "red": {"kmin_bytes": 25_000, "kmax_bytes": 75_000, "pmax": 0.25, "limit_bytes": 100_000, "ecn": False},
    "dctcp": {"kmin_bytes": 60_000, "kmax_bytes": 60_000, "pmax": 1.0, "limit_bytes": 100_000, "ecn": True},
}
KEYS: dict[str, dict[str, str]] = {
    "droptail": {},
    "red": {"kmin": "25KB", "kmax": "75KB", "pmax": "0.25"},
    "dctcp": {"kmin": "60KB", "kmax": "60KB"},
}


@pytest.mark.parametrize("queue", STACKS)
def test_every_queue_is_as_asked(inside: Inside, queue: str) -> None:
    keys = {"senders": 2, "queue": queue, "rate": "40Gbps", "delay": "700ns", "switch_delay": "300ns"}
    found = inside("queues", keys={**keys, "buffer": "100KB", **KEYS[queue]})
    assert sorted(found["ports"]) == ["leaf1-eth1", "leaf1-eth2", "leaf1-eth3"]
    assert sorted(found["nics"]) == ["h1", "h2", "h3"]
    expected = {
        ("netem", "1:", "root"),
        ("tbf", "2:", "1:1"),
        ("prio", "3:", "2:1"),
        ("bfifo", "4:", "3:1"),
        *STACKS[queue],
    }
    for stack in found["ports"].values():
        assert {(each["kind"], each["handle"], each["parent"]) for each in stack} == expected
        options = {each["handle"]: each["options"] for each in stack}
        assert options["1:"]["delay_ns"] == 1000
        assert options["2:"]["rate_bps"] == 40_000_000_000
        assert options["8:"] == {"limit_bytes": 100_000}
        if queue in MARKING:
            assert options["7:"] == pytest.approx(MARKING[queue], abs=1e-6)
    for stack in found["nics"].values():
        assert {(each["kind"], each["handle"], each["parent"]) for each in stack} == {
            ("netem", "1:", "root"),
            ("tbf", "2:", "1:1"),
            ("prio", "3:", "2:1"),
            ("bfifo", "4:", "3:1"),
            ("rnic", "6:", "3:2"),
            ("bfifo", "8:", "3:3"),
        }
        (delay,) = (each["options"]["delay_ns"] for each in stack if each["kind"] == "netem")
        assert delay == 700


def test_tc_reads_the_same_queues(inside: Inside) -> None:
    found = inside(
        "queues", keys={"senders": 1, "queue": "dctcp", "rate": "40Gbps", "buffer": "100KB", **KEYS["dctcp"]}
    )
    port, nic = found["tc"]["leaf1-eth1"], found["tc"]["h1"]
    for line in (
        r"qdisc netem 1: root .*limit 10000000 ",
        r"qdisc tbf 2: parent 1:1 rate 40Gbit ",
        r"qdisc prio 3: parent 2:1 bands 3 priomap" + 16 * " 2",
        r"qdisc red 7: parent 3:3 limit 100000b min 60001b max 60001b ecn nodrop ewma 0 probability 1 ",
        r"qdisc bfifo 8: parent 7:1 limit 100000b",
        r"qdisc pfc 6: parent 5:1",
    ):
        assert re.search(line, port), port
    assert re.search(r"qdisc tbf 2: parent 1:1 rate 40Gbit ", nic), nic


def test_dscp_chooses_the_class(inside: Inside) -> None:
    best_effort, lossless, control, expedited = inside(
        "classes", keys={"senders": 1, "queue": "droptail"}, dscps=[0, 26, 48, 46]
    )
    chosen = {"lossy": "8:", "lossless": "6:", "control": "4:"}
    assert {name: best_effort[handle] for name, handle in chosen.items()} == {"lossy": 10, "lossless": 0, "control": 0}
    assert {name: lossless[handle] for name, handle in chosen.items()} == {"lossy": 0, "lossless": 10, "control": 0}
    assert {name: control[handle] for name, handle in chosen.items()} == {"lossy": 0, "lossless": 0, "control": 10}
    assert expedited == best_effort


def test_pure_acknowledgements_have_the_nics_first_queue(collapse: Done) -> None:
    """The hot port's capture tells both directions of the receiver's link, and goes on when counters have been read."""
    measured = collapse.document("measured.json")
    frames = [
        frame
        for frame in read(collapse.folder / "pcap" / "leaf1-eth1.pcap")
        if frame.source == "10.0.0.1" and frame.time_ns <= measured["rounds"][-1]["end_ns"]
    ]
    acknowledgements = [frame for frame in frames if frame.kept[TCP_FLAGS_AT] & ~ECE == ACK and frame.wire_bytes < 142]
    nic = {item["handle"]: item for item in measured["nics"]["h1"]["qdiscs"]}
    handshakes = len(frames) - len(acknowledgements)
    assert handshakes == len(measured["flows"])
    on_the_link = nic["4:"]["packets"] - len(acknowledgements)
    assert 0 <= on_the_link < 10 < len(acknowledgements) / 100
    assert nic["8:"]["packets"] == 2 * handshakes  # SYN-ACKs, and answers to the senders' ARP
    assert nic["4:"]["drops"] == nic["8:"]["drops"] == 0


def test_a_nic_with_many_queue_pairs_tells_of_those_that_are_paced(inside: Inside) -> None:
    """A message holds some ninety: those come first."""
    paced = [3, 100, 199, 200]
    told = inside("many_queue_pairs", count=200, paced=paced)
    assert sorted(number for number, rate, _ in told if rate == 10**9) == paced
    assert {rate for _, rate, _ in told} == {None, 10**9}
    assert {sent for *_, sent in told} == {14 + 20 + 8 + 12}
    assert len(paced) < len(told) < 200


# --- rate and delay


@pytest.mark.parametrize("rate", ["10Mbps", "1Gbps", "10Gbps", "100Gbps", "400Gbps"])
def test_rate_is_exact(inside: Inside, tmp_path: Path, rate: str) -> None:
    """Two senders offer twice the rate: the NICs pace each of them, the port both."""
    keys = {"senders": 2, "rate": rate, "buffer": "2MB"}
    inside("bursts", keys=keys, folder=str(tmp_path), sizes=150 * [1500], stagger_ns=0)
    for point, count in (("h2-eth0", 150), ("h3-eth0", 150), ("leaf1-eth1", 300)):
        frames = data(tmp_path, point)
        assert len(frames) == count
        busy_ns = frames[-1].time_ns - frames[0].time_ns
        measured_bps = sum(frame.wire_bytes for frame in frames[1:]) * 8e9 / busy_ns
        assert measured_bps == pytest.approx(parse_rate_bps(rate), rel=RATE_TOLERANCE)


@pytest.mark.parametrize(("delay", "switch_delay"), [("500ns", "0ns"), ("500ns", "300ns"), ("75ms", "1us")])
def test_delay_is_exact(inside: Inside, tmp_path: Path, delay: str, switch_delay: str) -> None:
    """A NIC's capture is behind its link's delay, the port's behind link and switch; a lone frame does not wait."""
    link_ns, switch_ns = parse_duration_ns(delay), parse_duration_ns(switch_delay)
    keys = {"senders": 1, "rate": "400Gbps", "delay": delay, "switch_delay": switch_delay}
    sizes = [60, 1500, 60, 1500, 576]
    told = inside("bursts", keys=keys, folder=str(tmp_path), sizes=sizes, stagger_ns=0, gap_s=0.2)
    sent_ns = told["sent_ns"][0]
    nic_ns, port_ns, receiver_ns = (
        [frame.time_ns for frame in data(tmp_path, point)] for point in ("h2-eth0", "leaf1-eth1", "h1-eth0")
    )
    assert len(sent_ns) == len(nic_ns) == len(port_ns) == len(receiver_ns) == len(sizes)
    for sent, at_nic, at_port, at_receiver in zip(sent_ns, nic_ns, port_ns, receiver_ns):
        assert abs(at_nic - sent - link_ns) <= DELAY_TOLERANCE_NS
        assert abs(at_port - at_nic - link_ns - switch_ns) <= DELAY_TOLERANCE_NS
        assert at_receiver == at_port


# --- buffer and marks


def arrivals(
    inside: Inside, folder: Path, keys: dict[str, Any], sizes: list[int], stagger_ns: int
) -> tuple[Any, list[Arrival]]:
    told = inside("bursts", keys=keys, folder=str(folder), sizes=sizes, stagger_ns=stagger_ns)
    assert set(told["losses"].values()) == {0}
    sent = [frame for number in range(2, keys["senders"] + 2) for frame in data(folder, f"h{number}-eth0")]
    assert len(sent) == keys["senders"] * len(sizes)
    port_delay_ns = parse_duration_ns(keys["delay"]) + parse_duration_ns(keys["switch_delay"])
    return told, replay(sent, data(folder, "leaf1-eth1"), port_delay_ns)


def total(told: Any, kind: str, counter: str) -> int:
    return sum(each[counter] for each in told["hot"] if each["kind"] == kind)


@pytest.mark.parametrize(
    ("rate", "buffer"), [("400Gbps", "600KB"), ("400Gbps", "64KB"), ("10Gbps", "30001B"), ("1Gbps", "1514B")]
)
def test_a_burst_drops_exactly_at_the_buffer(inside: Inside, tmp_path: Path, rate: str, buffer: str) -> None:
    """Every frame that would have exceeded the buffer was dropped, and no other."""
    buffer_bytes = parse_bytes(buffer)
    keys = {"senders": 8, "rate": rate, "buffer": buffer, "delay": "500ns", "switch_delay": "300ns"}
    told, found = arrivals(inside, tmp_path, keys, 100 * [1500], stagger_ns=7)
    dropped = [each for each in found if not each.passed]
    passed = [each for each in found if each.passed]
    assert len(dropped) == total(told, "bfifo", "drops") > 100
    assert all(each.most_bytes + each.frame_bytes > buffer_bytes for each in dropped)
    assert all(each.least_bytes + each.frame_bytes <= buffer_bytes for each in passed)
    assert (
        max(each.most_bytes + each.frame_bytes for each in passed) > buffer_bytes - FRAME_BYTES
    )  # it was used to the end


@pytest.mark.parametrize(("rate", "threshold", "stagger_ns"), [("400Gbps", "45420B", 7), ("10Gbps", "30280B", 100)])
def test_a_step_marks_exactly_what_finds_more_than_the_threshold(
    inside: Inside, tmp_path: Path, rate: str, threshold: str, stagger_ns: int
) -> None:
    """Frames of several sizes at 400 Gb/s; at 10 Gb/s full ones, of which the 21st finds exactly the threshold."""
    threshold_bytes = parse_bytes(threshold)
    keys = {"senders": 8, "rate": rate, "delay": "500ns", "switch_delay": "300ns", "queue": "dctcp", "buffer": "2MB"}
    sizes = 20 * [1500, 700, 1500, 64, 900] if rate == "400Gbps" else 60 * [1500]
    told, found = arrivals(inside, tmp_path, {**keys, "kmin": threshold, "kmax": threshold}, sizes, stagger_ns)
    marked = [each for each in found if each.marked]
    unmarked = [each for each in found if not each.marked]
    assert len(marked) == total(told, "red", "marked") > 300
    assert len(unmarked) > 20
    assert all(each.passed for each in found)
    assert all(each.most_bytes > threshold_bytes for each in marked)
    assert all(each.least_bytes <= threshold_bytes for each in unmarked)
    if rate == "10Gbps":
        assert any(each.least_bytes == each.most_bytes == threshold_bytes for each in unmarked)


def test_dctcp_marks_exactly_what_finds_more_than_the_threshold(marked: Done) -> None:
    """The same with real DCTCP flows."""
    spec, measured = marked.document("summary.json")["spec"], marked.document("measured.json")
    threshold_bytes = parse_bytes(spec["kmin"])
    pcap = marked.folder / "pcap"
    sent = [
        frame for number in range(2, 10) for frame in data(pcap, f"h{number}-eth0") if frame.destination == "10.0.0.1"
    ]
    left = [frame for frame in data(pcap, "leaf1-eth1") if frame.destination == "10.0.0.1"]
    found = replay(sent, left, parse_duration_ns(spec["delay"]) + parse_duration_ns(spec["switch_delay"]))
    marks = [each for each in found if each.marked]
    unmarked = [each for each in found if each.passed and not each.marked]
    assert all(each.most_bytes > threshold_bytes for each in marks)
    assert all(each.least_bytes <= threshold_bytes for each in unmarked if each.frame_bytes == FRAME_BYTES)
    told = {"hot": measured["ports"]["leaf1-eth1"]["qdiscs"]}
    assert len(marks) == total(told, "red", "marked") > 1000


# --- over time


def test_no_port_beats_its_rate_in_any_millisecond(marked: Done) -> None:
    """And the hot port reaches it in half of them at least, between the first and the last."""
    bin_bytes = parse_rate_bps("10Gbps") // 8 // 1000
    for capture in sorted((marked.folder / "pcap").glob("*.pcap")):
        bins: Counter[int] = Counter()
        for frame in read(capture):
            if frame.is_ip and frame.destination == "10.0.0.1":
                bins[frame.time_ns // 1_000_000] += frame.wire_bytes
        assert max(bins.values()) <= bin_bytes * (1 + RATE_TOLERANCE), capture
        if capture.stem == "leaf1-eth1":
            full = sorted(bins)[1:-1]
            assert len(full) >= 10
            assert median(bins[each] for each in full) >= bin_bytes * (1 - RATE_TOLERANCE)


def test_no_frame_is_longer_than_the_mtu_and_its_header(collapse: Done, marked: Done) -> None:
    for run in (collapse, marked):
        captures = sorted((run.folder / "pcap").glob("*.pcap"))
        longest = max(frame.wire_bytes for capture in captures for frame in read(capture))
        assert longest == FRAME_BYTES


def test_a_long_path_is_filled(inside: Inside) -> None:
    """1 Gb/s over an RTT of 150 ms: one flow fills it once its window is open (1448 data bytes in a frame of 1514)."""
    keys = {"senders": 1, "rate": "1Gbps", "delay": "37500us", "switch_delay": "0ns", "buffer": "40MB"}
    told = inside("long_flow", keys=keys, size_bytes=300 << 20, window_s=1.0)
    assert told["info"]["min_rtt_us"] == pytest.approx(150_000, rel=0.001)
    assert told["info"]["total_retrans"] == 0
    assert told["last_bytes"] * 8 == pytest.approx(1e9 * 1448 / FRAME_BYTES, rel=RATE_TOLERANCE)
