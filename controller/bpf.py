"""Classic BPF: which packets a socket is shown, as programs of instructions (linux/filter.h, linux/bpf_common.h)."""

from __future__ import annotations

import ctypes
import socket
import struct

LOAD_BYTE, LOAD_HALF, LOAD_WORD, AND = 0x30, 0x28, 0x20, 0x54
IF_EQUAL, IF_BITS, RETURN = 0x15, 0x45, 0x06
PACKET_TYPE = 0xFFFFF000 + 4  # SKF_AD_OFF + SKF_AD_PKTTYPE: loads a number such as socket.PACKET_OUTGOING
_INSTRUCTION = struct.Struct("=HBBI")
_SO_ATTACH_FILTER = 26


def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """struct sock_filter; jumps count the instructions that are passed over."""
    return _INSTRUCTION.pack(code, if_true, if_false, value)


def attach(to: socket.socket, program: bytes) -> None:
    """Show the socket what the program, joined instructions, lets through from now on, in place of an earlier one."""
    held = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HL", len(program) // _INSTRUCTION.size, ctypes.addressof(held))
    to.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)


NOTHING, ONE_BYTE = instruction(RETURN, 0), instruction(RETURN, 1)
EVERYTHING_THAT_LEAVES = b"".join(
    (instruction(LOAD_BYTE, PACKET_TYPE), instruction(IF_EQUAL, socket.PACKET_OUTGOING, 0, 1), ONE_BYTE, NOTHING)
)
