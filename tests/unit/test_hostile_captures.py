"""Bad captures, each kind by itself: no traceback, no wrong verdict given as certain, exit status as documented.

What is made worse here are golden captures, whose truth is known; so what is still said of them can be judged.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from analysis.capture.packets import Damage
from analysis.capture.reader import read_capture
from analysis.explain.document import document
from analysis.explain.explain import explain
from analysis.explain.known import Known
from analysis.explain.model import CERTAIN, Explanation, FlowStory
from analysis.transport.recovery import Recovery
from analysis.transport.stalls import APPLICATION_IDLE
from analysis.verdicts import COLLAPSE
from experiments.cli import main
from tests.fuzz.containers import Frame, frames_of, packed, pcap, pcapng

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
SENDER = "tail_loss/pcap/h2-eth0.pcap.gz"
LOSSY = tuple(
    f"{name}/pcap/h2-eth0.pcap.gz" for name in ("tail_loss", "full_window", "lost_retransmission", "loss_probe")
)
HOSTS = {"10.0.0.1": "h1", "10.0.0.2": "h2"}
KNOWN = Known(source="spec.yaml", recovery=Recovery(200_000_000, tlp=False), hosts=HOSTS)
TCP_SEQ, TCP_ACK, IP_SRC, IP_DST = 38, 42, 26, 30


@cache
def golden(name: str = SENDER) -> tuple[Frame, ...]:
    return tuple(frames_of(GOLDEN / name))


@pytest.fixture
def capture(tmp_path: Path) -> Callable[..., Path]:
    """A file of these frames, or bytes."""

    def write(content: Sequence[Frame] | bytes, name: str = "h2-eth0.pcap") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else pcap(content))
        return path

    return write


def only_flow(told: Explanation) -> FlowStory:
    (flow,) = told.flows
    return flow


def certain(told: Explanation) -> set[tuple[str, int]]:
    """Causes told as certain, and when each stall began, to the millisecond."""
    found = [stall for stall in told.stalls if stall.confidence == CERTAIN and stall.cause != APPLICATION_IDLE]
    return {(stall.cause, stall.start_ns // 10**6) for stall in found}


def assert_nothing_wrong_is_certain(told: Explanation, original: Explanation) -> None:
    """What is certain now was so before; and nothing made an incast of one flow."""
    assert certain(told) <= certain(original)
    assert told.verdicts[0].verdict != COLLAPSE
    json.dumps(document(told), allow_nan=False)


def analyze(*words: object) -> int:
    """`run_experiment analyze`, in this process: an exception that gets out is a traceback."""
    return main(["analyze", *map(str, words)])


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which a file is refused, exit status 2."""
    assert analyze(path) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.isprintable()
    return line


# --- files that are no capture


NO_CAPTURES = {
    "empty": b"",
    "text": b"this is no capture\n" * 10,
    "zeros": bytes(1000),
    "noise": random.Random(1).randbytes(5000),
    "png": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "elf": b"\x7fELF" + bytes(100),
    "json": b'{"packets": []}',
    "gzip of text": gzip.compress(b"no capture"),
    "gzip of nothing": gzip.compress(b""),
    "half a gzip header": b"\x1f\x8b\x08",
    "half a pcap header": pcap([])[:23],
    "two bytes": b"\xd4\xc3",
    "snoop": b"snoop\0\0\0" + bytes(40),
    "escape codes": b"\x1b[2J\x1b]0;owned\x07",
}


@pytest.mark.parametrize("name", NO_CAPTURES)
def test_a_file_that_is_no_capture_is_refused(
    name: str, capture: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capture(NO_CAPTURES[name], "file"), capsys)
    assert str(capture(NO_CAPTURES[name], "file")) in line


def test_a_file_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.pcap" in refused(tmp_path / "nowhere.pcap", capsys)


def test_a_folder_without_captures_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert str(tmp_path) in refused(tmp_path, capsys)


def test_a_file_that_cannot_be_read_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Reading one's own memory from its begin is an error of input and output, for root as well."""
    assert "/proc/self/mem" in refused(Path("/proc/self/mem"), capsys)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(capture: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = capture(golden())
    path.chmod(0)
    assert "ermission" in refused(path, capsys)


def test_one_bad_file_among_good_ones_is_named(
    capture: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = capture(golden()), capture(b"no capture", "bad.pcap")
    assert analyze(good, bad) == 2
    assert "bad.pcap" in capsys.readouterr().err


def test_a_fifo_is_read_as_a_stream(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(pcap(golden()),))
    writer.start()
    told = explain([fifo], known=KNOWN)
    writer.join()
    assert told.points[0].packets == len(golden())


# --- damaged ones


def test_a_capture_without_packets_is_explained(
    capture: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert analyze(capture(b"".join([pcap([])]))) == 0
    assert "0 packets" in capsys.readouterr().out


@pytest.mark.parametrize("name", LOSSY)
def test_a_truncated_capture_tells_nothing_that_the_whole_one_does_not(name: str, capture: Callable[..., Path]) -> None:
    whole = explain([capture(golden(name))], known=KNOWN)
    data = pcap(golden(name))
    for cut in random.Random(name).sample(range(24, len(data)), 25):
        path = capture(data[:cut])
        told = explain([path], known=KNOWN)
        assert_nothing_wrong_is_certain(told, whole)
        packets = read_capture(path)
        ends_whole = sum(16 + len(frame.data) for frame in golden(name)[: len(packets)]) + 24 == cut
        assert packets.truncated != ends_whole


@pytest.mark.parametrize("how", ["gzip", "zstd"])
@pytest.mark.parametrize("form", [pcap, pcapng])
def test_a_packed_capture_that_is_cut_gives_what_came_before(
    how: str, form: Callable[..., bytes], capture: Callable[..., Path]
) -> None:
    noise = random.Random(1)  # what a payload is to a packer: it comes in many blocks
    frames = [replace(frame, data=frame.data + noise.randbytes(200)) for frame in [*golden()] * 80]
    data = packed(form(frames), how)
    packets = read_capture(capture(data[: len(data) * 2 // 3]))
    assert packets.truncated
    assert len(frames) // 2 < len(packets) < len(frames)


def test_a_corrupt_length_loses_no_more_than_it_must(capture: Callable[..., Path]) -> None:
    """A record in the middle says that it is 4 GB long: what stood before it is told, and that the file is damaged."""
    original = explain([capture(golden())], known=KNOWN)
    data = bytearray(pcap(golden()))
    at = 24 + sum(16 + len(frame.data) for frame in golden()[:50])
    data[at + 8 : at + 12] = b"\xff\xff\xff\xff"
    packets = read_capture(capture(bytes(data)))
    assert len(packets) >= 50
    assert packets.damage != Damage()
    assert_nothing_wrong_is_certain(explain([capture(bytes(data))], known=KNOWN), original)


def test_noise_in_the_middle_is_counted(capture: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    data = pcap(golden())
    at = 24 + sum(16 + len(frame.data) for frame in golden()[:50])
    noise = b"\xff" * 333
    path = capture(data[:at] + noise + data[at:])
    assert read_capture(path).damage != Damage()
    assert analyze(path) == 0
    assert "333 bytes" in capsys.readouterr().out


def test_packets_of_no_bytes_are_counted(capture: Callable[..., Path]) -> None:
    frames = [replace(frame, data=b"", wire_bytes=0) for frame in golden()[:5]]
    packets = read_capture(capture([*frames, *golden()]))
    assert (len(packets), packets.damage.empty) == (len(golden()) + 5, 5)
    assert only_flow(explain([capture([*frames, *golden()])], known=KNOWN)).resent == 3


@pytest.mark.parametrize("snap", [1, 13, 14, 20, 33, 34, 40, 53, 54, 60])
def test_headers_that_were_cut_off_make_no_certainty(snap: int, capture: Callable[..., Path]) -> None:
    whole = explain([capture(golden())], known=KNOWN)
    path = capture([replace(frame, data=frame.data[:snap]) for frame in golden()])
    packets = read_capture(path)
    is_whole = snap >= 54  # Ethernet, IPv4, TCP without options: what the columns need
    assert (packets.damage.cut_headers > 0) or is_whole
    told = explain([path], known=KNOWN)
    assert_nothing_wrong_is_certain(told, whole)
    assert told.flows or not is_whole


def test_a_clock_that_was_set_back_proves_nothing(capture: Callable[..., Path]) -> None:
    """It is set back within the silence: there is none left, and nothing may be concluded of its length."""
    stall = next(i for i, (a, b) in enumerate(zip(golden(), golden()[1:])) if b.time_ns - a.time_ns > 10**8)
    back = [*golden()[: stall + 1], *(replace(f, time_ns=f.time_ns - 10**9) for f in golden()[stall + 1 :])]
    path = capture(back)
    assert read_capture(path).damage.backwards == 1
    told = explain([path], known=KNOWN)
    assert not certain(told)
    assert told.lost_share is None or 0 <= told.lost_share <= 1


def test_a_clock_that_jumps_to_and_fro_does_no_harm(capture: Callable[..., Path]) -> None:
    dice = random.Random(1)
    path = capture([replace(frame, time_ns=frame.time_ns + dice.randrange(-(10**9), 10**9)) for frame in golden()])
    assert read_capture(path).damage.backwards > 10
    told = explain([path], known=KNOWN)
    assert not certain(told)
    json.dumps(document(told), allow_nan=False)


@pytest.mark.parametrize("seconds", [0, 1, (1 << 31) - 1, (1 << 32) - 2])
def test_times_at_both_ends_are_times(seconds: int, capture: Callable[..., Path]) -> None:
    """1970, 2038 and 2106: the same is told as of any other time."""
    original = explain([capture(golden())], known=KNOWN)
    shift_ns = seconds * 10**9 - golden()[0].time_ns
    moved = [replace(frame, time_ns=frame.time_ns + shift_ns) for frame in golden()]
    path = capture(moved)
    assert read_capture(path).time_ns[0] == seconds * 10**9
    told = explain([path], known=KNOWN)
    assert [stall.seconds for stall in told.stalls] == [stall.seconds for stall in original.stalls]
    assert [stall.cause for stall in told.stalls] == [stall.cause for stall in original.stalls]
    assert analyze(path) == 0


# --- captures that lack something


@pytest.mark.parametrize("name", LOSSY)
def test_without_a_handshake_the_same_is_told(name: str, capture: Callable[..., Path]) -> None:
    original = explain([capture(golden(name))], known=KNOWN)
    later = [frame for frame in golden(name) if len(frame.data) < 48 or not frame.data[47] & 2]
    assert len(later) < len(golden(name))
    told = explain([capture(later)], known=KNOWN)
    assert not only_flow(told).handshake
    assert only_flow(told).resent == only_flow(original).resent
    assert [stall.cause for stall in told.stalls] == [stall.cause for stall in original.stalls]


@pytest.mark.parametrize("name", LOSSY)
@pytest.mark.parametrize("kept", ["data", "acknowledgements"])
def test_one_direction_alone_makes_no_certainty(name: str, kept: str, capture: Callable[..., Path]) -> None:
    original = explain([capture(golden(name))], known=KNOWN)
    host = bytes([10, 0, 0, 2 if kept == "data" else 1])
    half = [frame for frame in golden(name) if frame.data[IP_SRC : IP_SRC + 4] == host]
    told = explain([capture(half)], known=KNOWN)
    assert_nothing_wrong_is_certain(told, original)
    for flow in told.flows:
        assert not flow.both_ways


@pytest.mark.parametrize("name", LOSSY)
@pytest.mark.parametrize("before_end", [1, 1448 * 10, 1448 * 38, 1448 * 38 + 7])
def test_sequence_numbers_that_wrap_change_nothing(name: str, before_end: int, capture: Callable[..., Path]) -> None:
    original = only_flow(explain([capture(golden(name))], known=KNOWN))
    first = next(frame for frame in golden(name) if len(frame.data) > 60 and frame.data[IP_SRC + 3] == 2)
    shift = (1 << 32) - before_end - int.from_bytes(first.data[TCP_SEQ : TCP_SEQ + 4], "big")
    told = only_flow(explain([capture([shifted(frame, shift) for frame in golden(name)])], known=KNOWN))
    assert (told.delivered_bytes, told.payload_bytes) == (original.delivered_bytes, original.payload_bytes)
    assert dict(told.kinds) == dict(original.kinds)
    assert [stall.cause for stall in told.stalls] == [stall.cause for stall in original.stalls]


def shifted(frame: Frame, shift: int) -> Frame:
    """h2's sequence numbers, and h1's acknowledgements of them with their SACK blocks, moved on."""
    data = bytearray(frame.data)
    if data[12:14] != b"\x08\x00":
        return frame
    places = [TCP_SEQ] if data[IP_SRC + 3] == 2 else [TCP_ACK, *sack_places(data)]
    for at in places:
        if int.from_bytes(data[at : at + 4], "big") or at == TCP_SEQ:
            data[at : at + 4] = (int.from_bytes(data[at : at + 4], "big") + shift & 0xFFFFFFFF).to_bytes(4, "big")
    return replace(frame, data=bytes(data))


def sack_places(data: bytearray) -> list[int]:
    """Where the edges of SACK blocks stand (kind 5)."""
    at, end, found = 54, 34 + (data[46] >> 4) * 4, []
    while at + 1 < end and data[at]:
        if data[at] == 5:
            found += list(range(at + 2, at + data[at + 1], 4))
        at += 1 if data[at] == 1 else max(data[at + 1], 2)
    return found


@pytest.mark.parametrize("name", LOSSY)
@pytest.mark.parametrize("later_ns", [0, 900])
def test_packets_that_a_mirror_shows_twice_are_not_sent_twice(
    name: str, later_ns: int, capture: Callable[..., Path]
) -> None:
    original = explain([capture(golden(name))], known=KNOWN)
    twice = [copy for frame in golden(name) for copy in (frame, replace(frame, time_ns=frame.time_ns + later_ns))]
    told = explain([capture(twice)], known=KNOWN)
    assert_nothing_wrong_is_certain(told, original)
    assert only_flow(told).resent == only_flow(original).resent


@pytest.mark.parametrize("name", ["idle/pcap/h1-eth0.pcap.gz", "straggler/pcap/h1-eth0.pcap.gz"])
def test_packets_that_changed_places_are_no_losses(name: str, capture: Callable[..., Path]) -> None:
    """At the receiver neighbours arrive in the other order; nothing was sent again."""
    dice, frames = random.Random(1), list(golden(name))
    for at in range(0, len(frames) - 1, 2):
        if dice.random() < 0.2:
            one, other = frames[at], frames[at + 1]
            frames[at], frames[at + 1] = replace(other, time_ns=one.time_ns), replace(one, time_ns=other.time_ns)
    told = explain([capture(frames)])
    assert not certain(told)
    assert told.verdicts[0].verdict != COLLAPSE
    assert sum(flow.spurious for flow in told.flows) == 0
    assert not any(flow.kinds.get(kind) for flow in told.flows for kind in ("rto", "fast", "probe", "rack"))


# --- names and payloads that want to be more


HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>\x1b[31m\x1b]0;owned\x07\u202e"


def test_names_cannot_write_into_the_terminal(capture: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    name = HOSTILE.replace("/", "\u2215") + "\n.pcap"
    assert analyze(capture(golden(), name)) == 0
    assert_harmless(capsys.readouterr().out)
    assert analyze(capture(b"no capture", name)) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert_harmless(said)


def assert_harmless(said: str) -> None:
    """No control characters but line ends, and nothing that turns the writing round."""
    assert not [each for each in said if each not in "\n" and (ord(each) < 32 or 0x7F <= ord(each) < 0xA0)]
    assert "\u202e" not in said


def test_names_cannot_write_into_the_page(capture: Callable[..., Path], tmp_path: Path) -> None:
    from analysis.explain.page import write_page

    flow = ("10.0.0.2:20000", "10.0.0.1:5000")
    path = capture(golden(), HOSTILE.replace("/", "\u2215") + ".pcap")
    told = explain([path], names={flow: HOSTILE}, known=replace(KNOWN, source=HOSTILE, hosts={"10.0.0.2": HOSTILE}))
    page = write_page(told, tmp_path / "out").read_text()
    assert "<script>alert(1)" not in page
    assert "onerror=alert" not in page.replace("&lt;img src=x onerror=alert", "").replace(
        "\\u003cimg src=x onerror=alert", ""
    )
    assert "<img src=x" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)" in page  # it is there, as text


def test_a_payload_that_is_a_page_is_no_part_of_one(capture: Callable[..., Path], tmp_path: Path) -> None:
    from analysis.explain.page import write_page

    script = b"HTTP/1.1 200 OK\r\n\r\n<script>alert(3)</script>"
    frames = [replace(f, data=f.data[:66] + script if len(f.data) > 66 else f.data) for f in golden()]
    told = explain([capture(frames)], known=KNOWN)
    assert "alert(3)" not in write_page(told, tmp_path / "out").read_text()


# --- more than there should be


def test_a_scan_of_100000_flows_is_counted_in_seconds(capture: Callable[..., Path]) -> None:
    """As many connections of a SYN, its refusal, and one in ten with a little data."""
    path = capture(scan(100_000))
    begin_s, before_kib = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = explain([path])
    taken_s = time.process_time() - begin_s
    assert told.points[0].packets == 210_000
    assert taken_s < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 1 << 20
    assert not certain(told)


def scan(count: int) -> bytes:
    """A capture of `count` conversations."""
    syn = np.frombuffer(
        next(f.data for f in golden() if f.data[12:14] == b"\x08\x00" and f.data[47] == 2)[:54], np.uint8
    )
    frames = np.tile(syn, (2 * count + count // 10, 1))
    number = np.concatenate([np.arange(count), np.arange(count), np.arange(0, count, 10)])
    reset, data = slice(count, 2 * count), slice(2 * count, None)
    frames[:, 46] = 0x50
    frames[:, IP_DST + 1 : IP_DST + 4] = np.stack([number >> 16 & 255, number >> 8 & 255, number & 255], 1)
    back = frames[reset].copy()
    frames[reset, IP_SRC:IP_DST], frames[reset, IP_DST : IP_DST + 4] = (
        back[:, IP_DST : IP_DST + 4],
        back[:, IP_SRC:IP_DST],
    )
    frames[reset, 34:36], frames[reset, 36:38] = back[:, 36:38], back[:, 34:36]
    frames[reset, 47], frames[data, 47] = 0x14, 0x18
    frames[:, 16:18] = (0, 40)
    frames[data, 16:18] = (0, 140)
    header = np.zeros((len(frames), 4), "<u4")
    header[:, 0], header[:, 1] = 1_700_000_000, np.arange(len(frames)) * 1000
    header[:, 2], header[:, 3] = 54, np.where(np.arange(len(frames)) >= 2 * count, 154, 54)
    return pcap([]) + np.hstack([header.view(np.uint8), frames]).tobytes()


LIMITED = """
import resource, signal, sys
from topologies.units import BadRequest
from analysis.explain.explain import explain
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for name, limit in (pair.split("=") for pair in sys.argv[2:]):
    if name.startswith("RLIMIT"):
        resource.setrlimit(getattr(resource, name), (int(limit), int(limit)))
most = next(int(pair[5:]) for pair in sys.argv[2:] if pair.startswith("most="))
try:
    told = explain([sys.argv[1]], most_packets=most)
    print("packets", told.points[0].packets)
except (BadRequest, RuntimeError, OSError) as error:
    print("refused:", error)
"""


def limited(path: Path, *words: str) -> str:
    """What explaining a file says in a process with limits of its own."""
    command = [sys.executable, "-c", LIMITED, str(path), *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_gzip_bomb_is_unpacked_in_bounded_memory(capture: Callable[..., Path]) -> None:
    """400 KB that unpack to 384 MB of records without a byte."""
    bomb = gzip.compress(pcap([]) + bytes(384 << 20), 9)
    assert len(bomb) < 1 << 20
    said = limited(capture(bomb, "bomb.pcap.gz"), f"RLIMIT_AS={5 << 29}", "most=1000000")
    assert said.startswith("packets ")


def test_a_record_that_says_it_is_huge_takes_no_memory(capture: Callable[..., Path]) -> None:
    data = pcap([]) + b"\0" * 8 + b"\xff\xff\xff\x7f" * 2
    assert limited(capture(data), f"RLIMIT_AS={3 << 29}", "most=1000000") == "packets 0\n"


def test_a_full_disk_while_spooling_is_told_in_one_line(capture: Callable[..., Path]) -> None:
    """Files of this process may hold 64 KiB: the temporary ones of a capture that is too long for memory do not fit."""
    frames = [replace(f, time_ns=f.time_ns + copy * 10**9) for copy in range(100) for f in golden()]
    said = limited(capture(frames), f"RLIMIT_FSIZE={64 << 10}", "most=1000")
    assert said.startswith("refused: ")
    assert len(said.splitlines()) == 1
    assert "None" not in said


def test_a_capture_that_is_too_long_for_memory_is_told_the_same(capture: Callable[..., Path]) -> None:
    """Forty connections, by ports of their own: in memory at once, and in pieces from temporary files."""
    frames = [moved(frame, number) for frame in golden() for number in range(40)]
    path = capture(frames)
    original, told = explain([path], known=KNOWN), explain([path], known=KNOWN, most_packets=500)
    assert told.points == original.points
    assert len(told.flows) == 40
    for flow in original.flows:
        (same,) = [each for each in told.flows if each.name == flow.name]
        assert (same.resent, same.packets, same.stalls) == (flow.resent, flow.packets, flow.stalls)


def moved(frame: Frame, number: int) -> Frame:
    """A frame of another connection: h2's port counts up."""
    at = 34 if frame.data[IP_SRC + 3] == 2 else 36
    data = frame.data[:at] + (20_000 + number).to_bytes(2, "big") + frame.data[at + 2 :]
    return replace(frame, data=data, time_ns=frame.time_ns + number) if frame.data[12:14] == b"\x08\x00" else frame


def test_an_interrupt_ends_it_as_it_should(capture: Callable[..., Path]) -> None:
    fifo = capture(b"").with_name("fifo")
    os.mkfifo(fifo)
    command = [str(ROOT / "run_experiment"), "analyze", str(fifo)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with fifo.open("wb") as stream:  # opened from both ends: it waits for more
        stream.write(pcap(golden()))
        stream.flush()
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert "Traceback" not in said


def test_a_file_that_is_given_twice_counts_once(capture: Callable[..., Path]) -> None:
    path = capture(golden())
    told = explain([path, path, path.parent / "." / path.name], known=KNOWN)
    assert len(told.points) == 1
    assert only_flow(told).resent == 3
