"""Where captures come from: packed files whole and cut, standard input, what cannot be read, and bounded memory."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard

from analysis.capture.addresses import AddressTable
from analysis.capture.packets import COLUMNS, Damage, Packets, joined
from analysis.capture.reader import read_capture, stream_capture
from analysis.capture.source import WINDOW_BYTES
from tests.unit.frames import T0_NS, pcap_bytes, tcp_frame
from tests.unit.pcapng_blocks import NANOSECONDS, enhanced, interface, section
from topologies.units import BadRequest

ROOT = Path(__file__).resolve().parents[2]
RECORDS = [(T0_NS + n, tcp_frame("1.2.3.4:5", "6.7.8.9:10", n, 4, n % 7, sacks=n % 3)) for n in range(3000)]
PCAP = pcap_bytes(RECORDS, snaplen=9999)
PCAPNG = section() + interface(1, NANOSECONDS) + b"".join(enhanced(*record) for record in RECORDS)
PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstandard.compress}


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def is_same(one: Packets, other: Packets) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in COLUMNS)


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("content", [PCAP, PCAPNG], ids=["pcap", "pcapng"])
def test_packed_files_are_told_by_their_content(tmp_path: Path, packer: str, content: bytes) -> None:
    expected = read_capture(written(tmp_path / "plain.zst", content))
    found = read_capture(written(tmp_path / "packed.pcap", PACKERS[packer](content)))
    assert len(found) == len(RECORDS)
    assert is_same(found, expected)
    assert found.damage == Damage()


@pytest.mark.parametrize("packer", PACKERS)
def test_members_one_after_the_other_are_one_file(tmp_path: Path, packer: str) -> None:
    pack, half = PACKERS[packer], len(PCAP) // 2
    found = read_capture(written(tmp_path / "a", pack(PCAP[:half]) + pack(PCAP[half:])))
    assert (len(found), found.damage) == (len(RECORDS), Damage())


@pytest.mark.parametrize("packer", PACKERS)
def test_a_cut_packed_file_keeps_what_came_before(tmp_path: Path, packer: str) -> None:
    noise = np.random.default_rng(1).bytes(1 << 20)  # does not shrink: half of the file is half of the packets
    records = [(T0_NS + at, noise[at : at + 1024]) for at in range(0, len(noise), 1024)]
    packed = PACKERS[packer](pcap_bytes(records, snaplen=9999))
    found = read_capture(written(tmp_path / "a", packed[: len(packed) // 2]))
    assert found.truncated
    assert 0.3 * len(records) < len(found) < 0.6 * len(records)
    assert np.array_equal(found.time_ns, [time_ns for time_ns, _ in records][: len(found)])


@pytest.mark.parametrize("packer", PACKERS)
def test_a_packed_file_cut_between_records_is_told(tmp_path: Path, packer: str) -> None:
    """All that was packed is there, but for the last bytes of the packing itself."""
    found = read_capture(written(tmp_path / "a", PACKERS[packer](PCAP)[:-3]))
    assert found.truncated


def test_a_gzip_file_damaged_inside_keeps_what_came_before(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(PCAP, 0))
    packed[len(packed) // 2] ^= 0xFF  # stored bytes: only the check sum at the end tells
    found = read_capture(written(tmp_path / "a", bytes(packed)))
    assert found.truncated
    assert len(found) > len(RECORDS) // 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "the file is empty"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (gzip.compress(PCAP, mtime=0)[:12], "cannot be unpacked"),
        (b"\x1f\x8b" + bytes(50), "cannot be unpacked"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 50, "cannot be unpacked"),
        (gzip.compress(gzip.compress(PCAP)), "begins with 1f8b"),
        (b"<html>", "begins with 3c68746d"),
        (b"\n", "begins with 0a"),
    ],
)
def test_what_is_no_capture_is_told_in_one_line(tmp_path: Path, content: bytes, why: str) -> None:
    path = written(tmp_path / "stranger.bin", content)
    for read in (read_capture, lambda path: next(stream_capture(path))):
        with pytest.raises(BadRequest, match=r"stranger\.bin") as error:
            read(path)
        assert why in str(error.value)
        assert "\n" not in str(error.value)


def test_folders_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=f"{tmp_path}: cannot be read: Is a directory"):
        read_capture(tmp_path)
    with pytest.raises(BadRequest, match=r"none.pcap: cannot be read: No such file"):
        read_capture(tmp_path / "none.pcap")
    with pytest.raises(BadRequest, match="cannot be read"):
        read_capture("a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "secret.pcap", PCAP)
    path.chmod(0)
    with pytest.raises(BadRequest, match=r"secret.pcap: cannot be read: Permission denied"):
        read_capture(path)


@pytest.mark.parametrize("content", [PCAP, gzip.compress(PCAPNG)], ids=["pcap", "pcapng.gz"])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert len(read_capture("-")) == len(RECORDS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(BadRequest, match="standard input: the file is empty"):
        read_capture("-")


@pytest.mark.parametrize("chunk_packets", [1, 7, 1000, 3000, 10**6])
@pytest.mark.parametrize("content", [PCAP, PCAPNG[:-1]], ids=["pcap", "cut pcapng"])
def test_pieces_are_the_whole(tmp_path: Path, content: bytes, chunk_packets: int) -> None:
    path = written(tmp_path / "a", content)
    whole, pieces = read_capture(path), list(stream_capture(path, chunk_packets=chunk_packets))
    assert max(map(len, pieces)) <= chunk_packets
    assert is_same(joined(pieces), whole)
    assert [piece.truncated for piece in pieces] == [False] * (len(pieces) - 1) + [whole.truncated]
    assert joined(pieces).damage == whole.damage


def test_a_capture_without_packets_is_one_empty_piece(tmp_path: Path) -> None:
    (piece,) = stream_capture(written(tmp_path / "a", pcap_bytes([])))
    assert len(piece) == 0
    assert len(piece.number) == 0


def test_times_that_go_backwards_are_counted_in_their_own_piece(tmp_path: Path) -> None:
    times = [5, 6, 3, 4, 2, 9]
    path = written(tmp_path / "a", pcap_bytes([(T0_NS + each, b"x" * 60) for each in times]))
    for chunk_packets, counts in ((6, [2]), (2, [0, 1, 1]), (1, [0, 0, 1, 0, 1, 0])):
        pieces = stream_capture(path, chunk_packets=chunk_packets)
        assert [piece.damage.backwards for piece in pieces] == counts


def test_records_across_the_borders_of_windows(tmp_path: Path) -> None:
    """Frames of many lengths, each numbered, over several windows."""
    lengths = np.random.default_rng(2).integers(0, 40_000, 700)
    assert lengths.sum() > 3 * WINDOW_BYTES
    frames = [bytes(6) + n.to_bytes(6, "big") + bytes(int(length)) for n, length in enumerate(lengths)]
    records = [(T0_NS + n, frame) for n, frame in enumerate(frames)]
    for name, content in (
        ("a.pcap", pcap_bytes(records, snaplen=99_999)),
        ("a.pcapng", section() + interface(1, NANOSECONDS) + b"".join(enhanced(*record) for record in records)),
    ):
        found = read_capture(written(tmp_path / name, content))
        numbers = np.where(found.captured_bytes >= 14, found.src_mac, np.arange(len(lengths)))
        assert np.array_equal(numbers, np.arange(len(lengths)))
        assert np.array_equal(found.wire_bytes, lengths + 12)


def test_addresses_are_shared_by_files(tmp_path: Path) -> None:
    def frame(source: int, destination: int) -> bytes:
        head = b"\x60\x00\x00\x00\x00\x00\x3b\x40"
        return bytes(12) + b"\x86\xdd" + head + source.to_bytes(16, "big") + destination.to_bytes(16, "big")

    table = AddressTable()
    one = read_capture(written(tmp_path / "a", pcap_bytes([(0, frame(1, 2)), (0, frame(2, 3))])), table)
    two = read_capture(written(tmp_path / "b", pcap_bytes([(0, frame(9, 3)), (0, frame(2, 9))])), table)
    assert [one.address(each) for each in one.src_ip] == ["::1", "::2"]
    assert [two.address(each) for each in two.src_ip] == ["::9", "::2"]
    assert one.dst_ip[0] == two.src_ip[1]
    assert one.dst_ip[1] == two.dst_ip[0]
    assert (len(one.ipv6), len(two.ipv6)) == (3, 4)


def test_many_addresses_with_equal_keys_are_kept_apart() -> None:
    """An address whose key another one has already: the table's own sum, solved for the lower half."""
    table = AddressTable()
    values = np.random.default_rng(3).integers(0, 2**63, (2000, 2), np.uint64)
    mixed = (values[:, 0] ^ values[:, 0] >> np.uint64(32)) * np.uint64(0x9E3779B97F4A7C15)
    values[:, 1] = mixed  # key 0 for all
    addresses = values.view("V16")[:, 0]
    first, again = table.numbers(addresses), table.numbers(addresses)
    assert np.array_equal(first, again)
    assert len(np.unique(first)) == 2000


MEASURE = """
import sys, resource
from analysis.capture.reader import stream_capture
count = sum(len(each) for each in stream_capture(sys.argv[1]))
status = open("/proc/self/status").read()
print(count, int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""


def peak_mb(path: Path) -> tuple[int, int]:
    """Packets of a capture, and the peak memory of a process that streams it in MB."""
    words = [sys.executable, "-c", MEASURE, str(path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    count, peak = done.stdout.split()
    return int(count), int(peak)


def test_streaming_takes_little_memory(tmp_path: Path) -> None:
    """100 MB packed into little: 1.2 million packets."""
    records = b"".join([PCAP, *[PCAP[24:]] * 399])
    path = written(tmp_path / "a.zst", zstandard.compress(records, 1))
    count, peak = peak_mb(path)
    assert count == 400 * len(RECORDS)
    assert peak < 300


@pytest.mark.parametrize(
    "hostile",
    [
        PCAP + b"\0" * 8 + b"\xff" * 8,
        PCAPNG + b"\x06\0\0\0" + b"\xfc\xff\xff\xff" + bytes(100),
        PCAPNG + b"\xad\x0b\0\0" + b"\xfc\xff\xff\xff" + bytes(100),
        PCAPNG + b"\x01\0\0\0" + b"\xfc\xff\xff\xff" + bytes(100),
        gzip.compress(PCAP + bytes(200_000_000), 1),
        zstandard.compress(PCAPNG + b"\x06\0\0\0" * 30_000_000, 1),
    ],
    ids=["record", "packet block", "other block", "interface", "packed zeros", "packed damage"],
)
def test_a_hostile_length_takes_no_memory(tmp_path: Path, hostile: bytes) -> None:
    count, peak = peak_mb(written(tmp_path / "a", hostile))
    assert count >= len(RECORDS)
    assert peak < 200
