"""RoCEv2 over soft-RoCE: what is on the wire, judged by a decoder of its own and by tshark; incast; windows; queue
pairs that die; devices that come and go; a real client."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from experiments.runner import guest_environment
from lab.kernel import Kernel
from tests.conftest import run_in_lab
from tests.emulation.captures import Frame, read
from tests.emulation.conftest import Inside
from tests.emulation.same import unlike

pytestmark = pytest.mark.lab

STAR: dict[str, Any] = {"senders": 1, "mtu": "4300B", "rate": "100Gbps", "delay": "1us", "buffer": "20MB"}
ROCE_PORT = 4791
ICRC_BYTES = 4
DATA_DSCP, ACK_DSCP = 26, 48
CLASSES = {"dscp": DATA_DSCP, "ack_dscp": ACK_DSCP}
ECT0, NOT_ECT = 2, 0
# IBA 9.2.1
SEND = {"first": 0x00, "middle": 0x01, "last": 0x02, "only": 0x04}
WRITE = {"first": 0x06, "middle": 0x07, "last": 0x08, "last_imm": 0x09, "only_imm": 0x0B}
ACKNOWLEDGE = 0x11
WITH_RETH, WITH_IMM, WITH_AETH = (0x06, 0x0A, 0x0B), (0x09, 0x0B), (ACKNOWLEDGE,)
ACK_TIMEOUT_NS = 4096 << 14


@pytest.fixture
def roce_inside(kernel: Kernel, tmp_path: Path) -> Inside:
    return partial(call, kernel, tmp_path)


def call(kernel: Kernel, results: Path, name: str, **arguments: Any) -> Any:
    """Call a function of tests/emulation/roce_inside.py in the lab."""
    words = (sys.executable, "-m", "tests.emulation.roce_inside", name, json.dumps(arguments))
    return run_in_lab(kernel, words, results=results, env=guest_environment(), memory_bytes=1 << 30).json


# --- an independent decoder (IBA 9.2, annex A17)


@dataclass(frozen=True)
class Packet:
    """One RoCEv2 packet: where it came from, its class, its base transport header, and what its payload has."""

    time_ns: int
    source: str
    dscp: int
    ecn: int
    opcode: int
    queue_pair: int
    psn: int
    payload_bytes: int
    dma_bytes: int | None
    immediate: int | None
    icrc_holds: bool


def decode(frame: Frame) -> Packet:
    ip = frame.kept[14:]
    (length,) = struct.unpack_from("!H", ip, 2)
    packet = ip[:length]
    assert len(packet) == length, "cut"
    assert (packet[0], packet[9]) == (0x45, 17)
    assert struct.unpack_from("!H", packet, 22)[0] == ROCE_PORT
    opcode, pad = packet[28], packet[29] >> 4 & 3
    queue_pair, psn = (int.from_bytes(packet[at : at + 3], "big") for at in (33, 37))
    place, dma_bytes, immediate = 40, None, None
    if opcode in WITH_RETH:
        (dma_bytes,) = struct.unpack_from("!I", packet, place + 12)
        place += 16
    if opcode in WITH_IMM:
        (immediate,) = struct.unpack_from("!I", packet, place)
    place += 4 * (opcode in WITH_IMM) + 4 * (opcode in WITH_AETH)
    payload_bytes = length - place - pad - ICRC_BYTES
    return Packet(
        frame.time_ns,
        frame.source,
        packet[1] >> 2,
        packet[1] & 3,
        opcode,
        queue_pair,
        psn,
        payload_bytes,
        dma_bytes,
        immediate,
        icrc(packet) == packet[-ICRC_BYTES:],
    )


def icrc(packet: bytes) -> bytes:
    """The CRC over what no router changes, the rest as ones, behind eight bytes of ones for InfiniBand's own header."""
    fixed = bytearray(packet[:-ICRC_BYTES])
    for at in (1, 8, 10, 11, 26, 27, 32):  # TOS, TTL, both checksums, and a reserved byte of the transport header
        fixed[at] = 0xFF
    return struct.pack("<I", zlib.crc32(bytes(8 * [0xFF]) + fixed))


def packets(path: Path) -> list[Packet]:
    return [decode(frame) for frame in read(path) if frame.is_ip]


def expected_opcodes(verb: str, sizes: list[int], mtu_bytes: int) -> list[int]:
    """Of the handshake and then of messages of these sizes."""
    kinds = SEND if verb == "send" else {**WRITE, "last": WRITE["last_imm"], "only": WRITE["only_imm"]}
    opcodes = [WRITE["first"], WRITE["last"]]
    for size in sizes:
        count = -(-size // mtu_bytes)
        opcodes += [kinds["first"], *(count - 2) * [kinds["middle"]], kinds["last"]] if count > 1 else [kinds["only"]]
    return opcodes


MESSAGE_BYTES = 100_000


@pytest.mark.parametrize(("verb", "mtu_bytes"), [("write", 4096), ("send", 4096), ("write", 256), ("send", 1024)])
def test_the_wire(roce_inside: Inside, tmp_path: Path, verb: str, mtu_bytes: int) -> None:
    """Two rounds of two messages and a short one: every packet, its class, its sequence number and its checksum."""
    asked = {"verb": verb, "mtu_bytes": mtu_bytes, "message_bytes": MESSAGE_BYTES, **CLASSES}
    size = 2 * MESSAGE_BYTES + 1001
    told = roce_inside("transfers", keys=STAR, asked=asked, size_bytes=size, count=2, folder=str(tmp_path))
    (source, destination) = told["ends"][0]
    found = packets(tmp_path / "h1.pcap")
    data = [packet for packet in found if packet.source == source[0]]
    acks = [packet for packet in found if packet.source == destination[0]]
    sizes = 2 * [MESSAGE_BYTES, MESSAGE_BYTES, 1001]
    assert told["losses"] == {"h1": 0, "h2": 0}
    assert [packet.opcode for packet in data] == expected_opcodes(verb, sizes, mtu_bytes)
    assert [packet.psn for packet in data] == list(range(len(data)))
    assert sum(packet.payload_bytes for packet in data) == mtu_bytes + 1 + sum(sizes)
    assert max(packet.payload_bytes for packet in data) == mtu_bytes
    assert {(packet.dscp, packet.ecn, packet.queue_pair) for packet in data} == {(DATA_DSCP, ECT0, destination[1])}
    assert {(packet.opcode, packet.dscp, packet.ecn, packet.queue_pair) for packet in acks} == {
        (ACKNOWLEDGE, ACK_DSCP, NOT_ECT, source[1])
    }
    announced = [packet.immediate for packet in data if packet.immediate is not None]
    assert announced == (sizes if verb == "write" else [])
    assert [packet.dma_bytes for packet in data if packet.dma_bytes is not None][1:] == announced
    assert all(packet.icrc_holds for packet in found)
    check_told(told, verb, mtu_bytes, len(data), len(acks))
    assert tshark(tmp_path / "h1.pcap") == [
        (packet.source, packet.dscp, packet.ecn, packet.opcode, packet.queue_pair, packet.psn) for packet in found
    ]


def check_told(told: Any, verb: str, mtu_bytes: int, data: int, acks: int) -> None:
    """What the connection and the devices' counters say agrees with the wire."""
    source, destination = told["ends"][0]
    assert told["flows"] == [
        {
            "flow": "h2",
            "sender": "h2",
            "receiver": "h1",
            "source": f"{source[0]}:{source[1]}",
            "destination": f"{destination[0]}:{destination[1]}",
            "roce": {
                "verb": verb,
                "mtu_bytes": mtu_bytes,
                "window_bytes": None,
                "sender_psn": data,
                "receiver_psn": data,
            },
        }
    ]
    assert told["queue_pairs"] == {"h1": {str(destination[1]): source[1]}, "h2": {str(source[1]): destination[1]}}
    handshake, its_ack = 2, 1
    assert told["counters"]["h2"]["sent_pkts"] == told["counters"]["h1"]["rcvd_pkts"] == data - handshake
    assert told["counters"]["h1"]["sent_pkts"] == told["counters"]["h2"]["rcvd_pkts"] == acks - its_ack


def tshark(path: Path) -> list[tuple[str, int, int, int, int, int]]:
    if shutil.which("tshark") is None:
        pytest.skip("tshark, the outside judge, is not installed")
    fields = ["ip.src", "ip.dsfield.dscp", "ip.dsfield.ecn"]
    fields += [f"infiniband.bth.{name}" for name in ("opcode", "destqp", "psn")]
    words = ["tshark", "-r", str(path), "-Y", "infiniband", "-T", "fields", *(f"-e{field}" for field in fields)]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return [(source, *(int(value, 0) for value in rest)) for source, *rest in map(str.split, lines)]  # type: ignore[misc]


# --- figures


def goodput_bps(round_: list[int]) -> float:
    begin_ns, end_ns, size_bytes = round_
    return size_bytes * 8e9 / (end_ns - begin_ns)


@pytest.mark.parametrize("verb", ["write", "send"])
def test_one_queue_pair_fills_a_link(roce_inside: Inside, verb: str) -> None:
    told = roce_inside("transfers", keys=STAR, asked={"verb": verb, **CLASSES}, size_bytes=50_000_000)
    assert goodput_bps(told["rounds"][0]) > 0.97e11  # asked are 90 % of 100 Gb/s; headers are 1.9 %


def test_sixteen_queue_pairs_share_a_link_without_loss(roce_inside: Inside) -> None:
    keys, size, count = {**STAR, "senders": 16}, 300_000, 3
    told = roce_inside("transfers", keys=keys, asked=CLASSES, size_bytes=size, count=count)
    assert all(goodput_bps(each) > 0.95e11 for each in told["rounds"])
    assert set(told["drops"].values()) == {0}
    assert len({tuple(end) for pair in told["ends"] for end in pair}) == 32
    trouble = {"duplicate_request", "out_of_seq_request", "rcvd_rnr_err", "send_rnr_err", "completer_retry_err"}
    assert {counters[name] for counters in told["counters"].values() for name in trouble} == {0}
    assert told["counters"]["h1"]["rcvd_pkts"] == 16 * count * -(-size // 4096)


def test_lost_packets_are_sent_again(roce_inside: Inside) -> None:
    """Sixteen senders into a buffer of 100 KB: go-back-N fetches everything that the switch has dropped."""
    keys = {**STAR, "senders": 16, "buffer": "100KB"}
    told = roce_inside("transfers", keys=keys, asked={}, size_bytes=300_000)
    counters = told["counters"]
    assert sum(told["drops"].values()) > 100
    assert counters["h1"]["out_of_seq_request"] > 0
    assert sum(counters[host]["sent_pkts"] for host in counters if host != "h1") > counters["h1"]["rcvd_pkts"]
    assert {flow["roce"]["receiver_psn"] for flow in told["flows"]} == {2 + -(-300_000 // 4096)}


@pytest.mark.parametrize("verb", ["write", "send"])
def test_long_flows(roce_inside: Inside, verb: str) -> None:
    """Three flows of 3 ms, 3.6 ms from the first begin to the last end: the link is full, and what is sent arrives."""
    asked = {"verb": verb, "queue_bytes": 1 << 20}
    told = roce_inside("long_flows", keys={**STAR, "senders": 3}, asked=asked, duration_ns=3_000_000)
    outcomes = told["outcomes"]
    assert all(each["sent_bytes"] == each["delivered_bytes"] for each in outcomes)
    assert {each["died"] for each in outcomes} == {None}
    seconds = (max(each["last_arrival_ns"] for each in outcomes) - outcomes[0]["begin_ns"]) / 1e9
    assert 0.95e11 < sum(each["delivered_bytes"] for each in outcomes) * 8 / seconds < 1e11


def test_equal_runs_have_equal_packets(kernel: Kernel, tmp_path: Path) -> None:
    """Losses, timeouts and what is sent again included."""
    runs = [tmp_path / "one", tmp_path / "two"]
    for folder in runs:
        folder.mkdir()
        keys = {**STAR, "senders": 4, "buffer": "100KB"}
        call(kernel, folder, "transfers", keys=keys, asked={}, size_bytes=300_000, folder=str(folder))
    assert unlike(runs[0], runs[1], [f"{host}.pcap" for host in ("h1", "h2", "h3", "h4", "h5")]) == []


@pytest.mark.parametrize(
    "keys",
    [
        {"topology": "dumbbell", "hosts": 4},
        {"topology": "leaf_spine", "leaves": 2, "hosts": 4, "spines": 2},
    ],
    ids=["dumbbell", "leaf_spine"],
)
def test_routed_fabrics(roce_inside: Inside, keys: dict[str, Any]) -> None:
    keys = {**keys, "mtu": "4300B", "rate": "100Gbps", "delay": "1us", "buffer": "20MB"}
    told = roce_inside("transfers", keys=keys, asked=CLASSES, size_bytes=300_000)
    assert goodput_bps(told["rounds"][0]) > 0.9e11
    assert set(told["drops"].values()) == {0}
    assert told["counters"]["h1"]["rcvd_pkts"] == 3 * -(-300_000 // 4096)


@pytest.mark.parametrize("verb", ["write", "send"])
def test_a_window_bounds_what_is_unacknowledged(roce_inside: Inside, tmp_path: Path, verb: str) -> None:
    """Judged at the sender: no packet is ahead of the last acknowledgement by more than the window."""
    window, mtu = 64 << 10, 1024
    keys = {**STAR, "delay": "5us"}
    asked = {"verb": verb, "mtu_bytes": mtu, "window_bytes": window, **CLASSES}
    told = roce_inside("transfers", keys=keys, asked=asked, size_bytes=1_000_000, folder=str(tmp_path))
    acknowledged, ahead = 0, []
    for packet in packets(tmp_path / "h2.pcap"):
        if packet.opcode == ACKNOWLEDGE:
            acknowledged = packet.psn + 1
        else:
            ahead.append((packet.psn + 1 - acknowledged) * mtu)
    assert window / 2 < max(ahead) <= window
    rtt_s = 20e-6
    assert goodput_bps(told["rounds"][0]) < window * 8 / rtt_s  # what it costs


# --- what goes wrong


@pytest.mark.parametrize("cause", ["link", "end", "error"])
def test_a_queue_pair_that_dies_is_told(roce_inside: Inside, cause: str) -> None:
    """The sender tries once and six times more, each for an ACK timeout, of which the kernel's tick makes a little
    more."""
    told = roce_inside("death", keys=STAR, asked=CLASSES, cause=cause)
    assert told["said"] == "flow h2 to h1 has died at h2: transport retry counter exceeded"
    assert 7 * ACK_TIMEOUT_NS < told["after_ns"] < 8 * ACK_TIMEOUT_NS


def test_timeouts_and_retries_are_as_asked(roce_inside: Inside) -> None:
    told = roce_inside("death", keys=STAR, asked={"ack_timeout": 12, "retries": 2}, cause="link")
    assert 3 * (4096 << 12) < told["after_ns"] < 4 * (4096 << 12) + 2_000_000


def test_who_cannot_connect_is_told(roce_inside: Inside) -> None:
    assert roce_inside("unreachable", keys=STAR, asked={}).startswith("[Errno 110] h2 cannot connect to h1: ")


def test_hosts_without_devices_are_told(roce_inside: Inside) -> None:
    *told, connecting = roce_inside("without_device", keys=STAR)
    assert told == 2 * ["[Errno 19] h1 has no RDMA device rxe-h1"]
    assert connecting.startswith("[Errno 19] RDMA device rxe-h2 cannot be opened: ")


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "shared"])
def test_devices_come_and_go(roce_inside: Inside, isolated: bool) -> None:
    names = ["rxe-h1", "rxe-h2", "rxe-h3"]
    told = roce_inside("devices", keys={**STAR, "senders": 2}, isolated=isolated)
    attached = {name[4:]: [name] if isolated else names for name in names}
    gone: dict[str, list[str]] = {host: [] for host in attached}
    assert told["seen"] == [attached, gone, attached, gone]
    assert told["first"] == []


# --- a real client


def test_perftest(roce_inside: Inside, tmp_path: Path) -> None:
    """ib_send_bw waits on events and moves what it was asked for. Its own figures, and its exit status, come from the
    processor's cycle counter, which tells real time: they mean nothing here."""
    count, size, mtu = 200, 1 << 16, 4096
    words = ["-n", str(count), "-s", str(size), "-m", str(mtu), f"--tclass={DATA_DSCP << 2 | ECT0}"]
    told = roce_inside("perftest", keys=STAR, program="ib_send_bw", words=words, folder=str(tmp_path))
    found = packets_of_headers(tmp_path / "h1.pcap")
    data = Counter(opcode for source, opcode, dscp in found if source == "10.0.0.2" and dscp == DATA_DSCP)
    per_message = size // mtu
    assert data == {
        SEND["first"]: count,
        SEND["middle"]: count * (per_message - 2),
        SEND["last"]: count,
    }
    assert told["counters"]["h1"]["rcvd_pkts"] == count * per_message
    assert told["counters"]["h1"]["rdma_recvs"] == told["counters"]["h2"]["rdma_sends"] == count
    assert len(told["queue_pairs"]) == 1
    assert f"Mtu             : {mtu}[B]" in told["outputs"][1][0]


def packets_of_headers(path: Path) -> list[tuple[str, int, int]]:
    """Source, opcode and DSCP of every RoCE packet among others."""
    frames = [frame for frame in read(path) if frame.is_ip and frame.kept[23] == 17]
    return [(frame.source, frame.kept[42], frame.kept[15] >> 2) for frame in frames]
