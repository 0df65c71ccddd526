"""Verbs of an end that carries real bytes: a ring of registered memory, cut into slots.

What a sender has filled slot n with goes into slot n of its peer's ring: by RDMA WRITE, whose immediate data tells how
long it is, or by SEND, for which the peer's receives point at its slots in turn.
"""

from __future__ import annotations

import ctypes
import mmap
import socket
from collections.abc import Sequence

from pyverbs import enums
from pyverbs.wr import SGE, RecvWR, SendWR

from workloads.transport.slots import Filled, Heard
from workloads.transport.verbs import End, Nic, Payload, trouble

_EVERYTHING = 1 << 20
_RECEIVED = enums.IBV_WC_RECV  # a bit that the opcodes of all receives have


class RingNic(Nic):
    """A device with `size_bytes` of registered memory for the rings of all its ends: one piece, because a process of
    the lab has a limited number of them."""

    def __init__(self, name: str, ip: str, payload: Payload, size_bytes: int) -> None:
        super().__init__(name, ip, payload)
        self._memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory.madvise(mmap.MADV_DONTFORK)  # registered pages are copied at once when a process forks
        self._place = ctypes.c_char.from_buffer(self._memory)
        self._free_bytes = 0  # from there on
        self.view, self.address = memoryview(self._memory), ctypes.addressof(self._place)
        self.rings = self.registered(self.address, size_bytes)

    def take(self, size_bytes: int) -> int:
        """Where the next ring begins in the memory."""
        begin = self._free_bytes
        self._free_bytes += size_bytes
        return begin

    def close(self) -> None:
        """Close the device, and give the memory back."""
        super().close()
        self.view.release()
        del self._place
        self._memory.close()


class RingEnd(End):
    """One end of a stream: a queue pair with at most `depth` work requests each way, and `slots` slots of `slot_bytes`.
    Its `descriptor` is readable after anything that completes; see `End`."""

    def __init__(self, nic: RingNic, depth: int, slots: int, slot_bytes: int) -> None:
        super().__init__(nic, depth, solicited=False)
        self._slot_bytes, self._begin = slot_bytes, nic.take(slots * slot_bytes)
        self._nic = nic

    def _address(self, number: int) -> int:
        return self._nic.address + self._begin + number * self._slot_bytes

    def _slot(self, number: int, size_bytes: int) -> SGE:
        return SGE(self._address(number), size_bytes, self._nic.rings.lkey)

    def slot(self, number: int) -> memoryview:
        """The memory of a slot."""
        begin = self._begin + number * self._slot_bytes
        return self._nic.view[begin : begin + self._slot_bytes]

    def empty(self, number: int) -> None:
        """A message may come into that slot, which is the next in turn."""
        self._pair.post_recv(RecvWR(num_sge=1, sg=[self._slot(number, self._slot_bytes)]))

    def write_slots(self, peer: RingEnd, filled: Sequence[Filled]) -> None:
        """RDMA WRITEs, in order."""
        requests = []
        for each in filled:
            request = self._of_slot(enums.IBV_WR_RDMA_WRITE_WITH_IMM, each)
            request.set_wr_rdma(peer._nic.rings.rkey, peer._address(each.number))
            requests.append(request)
        self._post(requests)

    def send_slots(self, filled: Sequence[Filled]) -> None:
        """SENDs, in order."""
        self._post([self._of_slot(enums.IBV_WR_SEND, each) for each in filled])

    def _of_slot(self, opcode: int, filled: Filled) -> SendWR:
        return SendWR(
            wr_id=filled.serial or 0,
            opcode=opcode,
            num_sge=1,
            sg=[self._slot(filled.number, filled.size_bytes)],
            send_flags=0 if filled.serial is None else enums.IBV_SEND_SIGNALED,
            imm_data=socket.htonl(filled.size_bytes),
        )

    def tell(self, peer: RingEnd, number: int, acknowledged: bool) -> None:
        """An RDMA WRITE of nothing, with `number` as immediate data. Once in a while one is to be told as
        `acknowledged`, for its place in the queue."""
        request = SendWR(
            opcode=enums.IBV_WR_RDMA_WRITE_WITH_IMM,
            num_sge=1,
            sg=[self._slot(0, 0)],
            send_flags=enums.IBV_SEND_SIGNALED if acknowledged else 0,
            imm_data=socket.htonl(number),
        )
        request.set_wr_rdma(peer._nic.rings.rkey, peer._address(0))
        self._post([request])

    def heard(self) -> list[Heard]:
        """What has completed since the last look, in order."""
        _, found = self._queue.poll(_EVERYTHING)
        return [
            Heard(
                trouble(each.status),
                bool(each.opcode & _RECEIVED),
                each.byte_len,
                socket.ntohl(each.imm_data),
                each.wr_id,
            )
            for each in found
        ]
