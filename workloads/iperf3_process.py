"""One end of an iperf3 test, through iperf3's Python wrapper: `python -m workloads.iperf3_process ASKED` (JSON).

A client says that it is ready and waits for the time at which all begin. What iperf3 tells is kept as it tells it.
Exit status 1 with a line on standard error when iperf3 fails.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import struct
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

WRAPPER, LIBRARY = "iperf3", "libiperf.so.0"
CLIENT, SERVER = "client", "server"
MOST_STREAMS = 128  # iperf.h, MAX_STREAMS
PIPE_BYTES = 1 << 20  # as much as anybody may ask for (pipe(7), pipe-max-size)
BEGIN = struct.Struct("=q")  # what the gate lets through to each client: a time, CLOCK_REALTIME in ns
_F_SETPIPE_SZ = 1031  # fcntl.h; Python has a name for it from 3.10 on


@dataclass(frozen=True)
class Asked:
    """What a process is to do: a server on `address` and `port`, or a client of it, which sends for `seconds` over so
    many streams, and begins `offset_ns` after the time that comes through the named pipe `gate`; it is told in the
    named pipe `ready` that it waits there. `results` is the file for what iperf3 tells."""

    role: str
    address: str
    port: int
    seconds: int
    streams: int
    interval_s: float
    offset_ns: int
    ready: str
    gate: str
    results: str

    def words(self) -> tuple[str, ...]:
        """The command of the process."""
        return (sys.executable, "-m", "workloads.iperf3_process", json.dumps(asdict(self)))


def _server(asked: Asked) -> Any:
    import iperf3

    server = iperf3.Server(lib_name=LIBRARY)
    server.bind_address, server.port = asked.address, asked.port
    return server


def _client(asked: Asked) -> Any:
    import iperf3

    client = iperf3.Client(lib_name=LIBRARY)
    client.server_hostname, client.port = asked.address, asked.port
    client.duration, client.num_streams = asked.seconds, asked.streams
    # The usual, random payload (iperf_api.c, iperf_new_stream) differs with the length of the results' path.
    _set(client, "repeating_payload", ctypes.c_int, 1)
    return client


def _note_every(end: Any, interval_s: float) -> None:
    for name in ("stats", "reporter"):
        _set(end, f"{name}_interval", ctypes.c_double, interval_s)


def _set(end: Any, name: str, kind: Any, value: float) -> None:
    """What the wrapper has no name for."""
    call = getattr(end.lib, f"iperf_set_test_{name}")
    call.restype, call.argtypes = None, (ctypes.c_void_p, kind)
    call(end._test, value)


def _begin(asked: Asked) -> None:
    """Wait until all are ready, then for the time at which this one begins."""
    with open(asked.ready, "wb", buffering=0) as ready, open(asked.gate, "rb", buffering=0) as gate:
        ready.write(b"r")
        (begin_ns,) = BEGIN.unpack(gate.read(BEGIN.size))
    time.sleep(max(0, begin_ns + asked.offset_ns - time.time_ns()) / 1e9)


def main(asked: Asked) -> int:
    """Run the end to the end of its test, and keep what it tells."""
    end = _server(asked) if asked.role == SERVER else _client(asked)
    fcntl.fcntl(end._pipe_in, _F_SETPIPE_SZ, PIPE_BYTES)
    _note_every(end, asked.interval_s)
    if asked.role == CLIENT:
        _begin(asked)
    begin_ns = time.time_ns()
    result = end.run()
    told = {"begin_ns": begin_ns, "end_ns": time.time_ns(), "version": end.iperf_version}
    Path(asked.results).write_text(result.text + "\n")
    os.write(1, json.dumps(told).encode() + b"\n")
    if result.error:
        print(result.error, file=sys.stderr)
    return 1 if result.error else 0


if __name__ == "__main__":
    sys.exit(main(Asked(**json.loads(sys.argv[1]))))
