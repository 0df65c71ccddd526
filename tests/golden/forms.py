"""Golden captures as Wireshark's tools, and machines of the other byte order, would have written them."""

from __future__ import annotations

import gzip
import struct
import subprocess
import tempfile
from pathlib import Path

import zstandard

HERE = Path(__file__).parent


def make_forms(name: str) -> None:
    """The sender's capture of tail_loss as Wireshark's tools, and other machines, would have written it, and the cooked
    one as pcapng."""
    made = HERE / name
    made.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        plain, cooked, other = (Path(folder, f"{each}.pcap") for each in ("plain", "cooked", "other"))
        for path, kept in ((plain, "tail_loss"), (cooked, "any_sll2"), (other, "rack")):
            path.write_bytes(gzip.decompress((HERE / kept / "pcap" / "h2-eth0.pcap.gz").read_bytes()))
        _wireshark("editcap", "-F", "pcapng", plain, made / "tail_loss.pcapng")
        _wireshark("editcap", "-F", "pcapng", cooked, made / "any_sll2.pcapng")
        _wireshark("editcap", "-F", "pcap", plain, made / "tail_loss.microseconds.pcap")
        _wireshark("editcap", "-F", "nsecpcap", "-L", "-C", "14", "-T", "rawip", plain, made / "tail_loss.raw.pcap")
        _wireshark("mergecap", "-I", "none", "-F", "pcapng", "-w", made / "tail_loss_and_rack.pcapng", plain, other)
        (made / "tail_loss.big_endian.pcap").write_bytes(_swapped(plain.read_bytes()))
        (made / "tail_loss.big_endian.pcapng").write_bytes(_swapped_blocks((made / "tail_loss.pcapng").read_bytes()))
        (made / "tail_loss.pcap.zst").write_bytes(zstandard.compress(plain.read_bytes(), 19))


def _wireshark(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


def _swapped(capture: bytes) -> bytes:
    """A little-endian pcap as a machine of the other byte order writes it."""
    out = [struct.pack(">IHHiIII", *struct.unpack_from("<IHHiIII", capture))]
    offset = 24
    while offset < len(capture):
        record = struct.unpack_from("<IIII", capture, offset)
        out += [struct.pack(">IIII", *record), capture[offset + 16 : offset + 16 + record[2]]]
        offset += 16 + record[2]
    return b"".join(out)


_FIXED = {0x0A0D0D0A: "IHHq", 1: "HHI", 6: "IIIII"}  # section header, interface, enhanced packet: their first fields
_NUMBERS = {(1, 14): "Q"}  # options that are numbers of more than a byte: if_tsoffset


def _swapped_blocks(capture: bytes) -> bytes:
    """The same of a pcapng (draft-ietf-opsawg-pcapng, sections 3 and 4) of these kinds of blocks."""
    out = []
    offset = 0
    while offset < len(capture):
        kind, length = struct.unpack_from("<II", capture, offset)
        body = capture[offset + 8 : offset + length - 4]
        fixed = struct.calcsize("<" + _FIXED[kind])
        fields = struct.unpack_from("<" + _FIXED[kind], body)
        data = (fields[3] + 3 & ~3) if kind == 6 else 0
        rest = body[fixed : fixed + data] + _swapped_options(kind, body[fixed + data :])
        head, tail = struct.pack(">II", kind, length), struct.pack(">I", length)
        out.append(head + struct.pack(">" + _FIXED[kind], *fields) + rest + tail)
        offset += length
    return b"".join(out)


def _swapped_options(kind: int, options: bytes) -> bytes:
    out = []
    offset = 0
    while offset + 4 <= len(options):
        code, length = struct.unpack_from("<HH", options, offset)
        value = options[offset + 4 : offset + 4 + (length + 3 & ~3)]
        if (kind, code) in _NUMBERS:
            number = _NUMBERS[kind, code]
            value = struct.pack(">" + number, *struct.unpack("<" + number, value))
        out.append(struct.pack(">HH", code, length) + value)
        offset += 4 + len(value)
    return b"".join(out)
