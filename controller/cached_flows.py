"""What Open vSwitch's kernel side remembers of flows: forgotten at once, so that new rules act on the next packet.

Open vSwitch itself goes through the flows that it has cached after a change, but not within 5 ms of the last time
(ofproto-dpif-upcall.c). Spoken is the JSON-RPC of its control socket (ovs-appctl(8)), without a process for each call.
"""

from __future__ import annotations

import json
import socket

from controller import framework

_PURGE = json.dumps({"id": 0, "method": "revalidator/purge", "params": []}).encode()
_ANSWER_BYTES = 4096


def forget(control: str) -> None:
    """Have the switch of the control socket `control` look the next packet of every flow up again; raises OSError when
    it cannot be asked, or refuses."""
    with framework.sockets.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(control)
        line.sendall(_PURGE)
        refused = json.loads(line.recv(_ANSWER_BYTES))["error"]
    if refused:
        raise OSError(f"revalidator/purge: {refused}")
