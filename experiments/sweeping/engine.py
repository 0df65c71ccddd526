"""Spreads runs over processes by Dask distributed: on this machine, or wherever the workers of a scheduler are.

On this machine there are as many workers as cores, and as many labs at once as memory allows. They end with this
process, however it ends: dask's workers watch a pipe from their parent, and a lab dies with its worker. No port is open
but on the loopback interface; no dashboard is served; what dask has to say goes to a log.
"""

from __future__ import annotations

import logging
import os
import re
import time
import warnings
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Callable

from experiments import limits
from experiments.sweeping.plan import Order
from experiments.sweeping.worker import Ended, Terms, carry_out, stop_all
from lab.session import Stop
from topologies.units import BadRequest, in_one_line, named_error

if TYPE_CHECKING:
    from distributed import Client

MOST_DEATHS = 3  # of its worker, after which a run counts as failed: it is tried again twice
ANSWER_S = 10.0
_POLL_S = 0.2
_MEMORY_SHARE = 0.9  # of what is free, for all labs together
_LOOK_S = 20.0
_MOST_EMPTY = 5  # looks; a worker that has died is started again between two of them
_ADDRESS = re.compile(r"(tcp|tls|wss?)://[^/\s]+:[0-9]{1,5}")
_SHIELD = "experiments.sweeping.shield"
_LOGGERS = ("distributed", "tornado", "bokeh", "asyncio")


@dataclass(frozen=True)
class Room:
    """How many runs may be under way at once (None: whoever carries them out decides), and how much memory they may
    have together; point -> what a run of it needs."""

    runs: int | None
    memory_bytes: int = 0
    needs_bytes: Mapping[int, int] = field(default_factory=dict)

    def has(self, order: Order, under_way: Collection[Order]) -> bool:
        """Whether one more may begin; the first always may."""
        if not under_way or self.runs is None:
            return True
        if len(under_way) >= self.runs:
            return False
        return sum(self.needs_bytes[each.point] for each in (order, *under_way)) <= self.memory_bytes


def local_room(wanted: int | None, orders: Sequence[Order]) -> Room:
    """Room for as many runs as there are cores, or are `wanted`, and as their labs find memory; raises BadRequest for
    one that finds none."""
    import psutil

    specs = {order.point: order.spec for order in orders}
    needs_bytes = {point: limits.memory_bytes(spec) for point, spec in specs.items()}
    runs = min(wanted or len(os.sched_getaffinity(0)), len(orders))
    return Room(runs, int(psutil.virtual_memory().available * _MEMORY_SHARE), needs_bytes)


@contextmanager
def local(workers: int, scratch: Path, log: Path) -> Iterator[Client]:
    """So many worker processes on this machine, one run at a time each."""
    import dask
    from distributed import Client, LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": MOST_DEATHS - 1,
        "distributed.scheduler.worker-saturation": 1.0,  # a worker's death is the fault of what it ran, not of others
        "distributed.worker.multiprocessing-method": "spawn",
        "distributed.deploy.lost-worker-timeout": "1 day",  # the dead are started again, however long it takes
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.worker.preload": [_SHIELD],
        "fabriclab.sweep.log": str(log),
    }
    _silence_tracker()
    with _logging_to(log), dask.config.set(settings):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # else it takes 8787 from a scheduler of the user's
            memory_limit=0,  # it is the labs' memory that counts, which is not the worker's
            local_directory=str(scratch),
            silence_logs=logging.WARNING,
            security=_own_security(),
        )
        with cluster, Client(cluster) as client:
            yield client


def _silence_tracker() -> None:
    """The process that removes semaphores of dead workers would tell so on the terminal when we are killed."""
    from multiprocessing import resource_tracker

    kept = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    resource_tracker.ensure_running()
    del os.environ["PYTHONWARNINGS"]
    os.environ.update({} if kept is None else {"PYTHONWARNINGS": kept})


def _own_security() -> Any:
    """Keys for this one sweep, so that nobody else on this machine can give its workers orders; None where there is no
    cryptography to make them."""
    from distributed import Security

    with suppress(ImportError):
        return Security.temporary()
    return None


@contextmanager
def remote(address: str, log: Path) -> Iterator[Client]:
    """A scheduler that runs somewhere; raises BadRequest when it does not answer."""
    from distributed import Client

    allowed = "the address of a Dask scheduler that runs, such as tcp://host:8786"
    if not _ADDRESS.fullmatch(address):
        raise BadRequest(f"--scheduler: {address!r} is given; allowed: {allowed}")
    with _logging_to(log):
        try:
            client = Client(address, timeout=ANSWER_S, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            said = in_one_line(error)
            raise BadRequest(f"--scheduler: {address} does not answer ({said}); allowed: {allowed}") from None
        with client:
            yield client


def workers(client: Client) -> int:
    """How many runs the scheduler's workers can have under way at once."""
    return sum(client.nthreads().values())


def carry_out_all(
    client: Client, orders: Iterable[Order], terms: Terms, room: Room, stop: Stop, hear: Callable[[Ended], None]
) -> None:
    """Every order, in this sequence as far as there is room; `hear` is called with each end in this thread. After a
    stop no more are begun, and those under way are ended. Raises RuntimeError when the scheduler is gone, or no further
    run can go well."""
    waiting = deque(orders)
    under_way: dict[str, tuple[Any, Order]] = {}
    ended: SimpleQueue[str] = SimpleQueue()
    watch = _Watch(client, has_own_workers=room.runs is not None)
    while (waiting or under_way) and not stop.requested:
        while waiting and room.has(waiting[0], [order for _, order in under_way.values()]):
            order = waiting.popleft()
            future = client.submit(carry_out, order, terms, pure=False)
            under_way[str(future.key)] = future, order
            future.add_done_callback(lambda future: ended.put(str(future.key)))
        try:
            found = _end(*under_way.pop(ended.get(timeout=_POLL_S)))
        except Empty:
            watch.look()
        else:
            hear(found)
    if under_way:
        _end_now(client)


class _Watch:
    """Whether anybody is left who could carry out what is under way."""

    def __init__(self, client: Client, has_own_workers: bool) -> None:
        self._client, self._has_own_workers = client, has_own_workers
        self._next_s = time.monotonic() + _LOOK_S
        self._empty = 0

    def look(self) -> None:
        """Now and then; raises RuntimeError when the scheduler, or every worker of our own, is gone for good."""
        if time.monotonic() < self._next_s:
            return
        if self._client.status != "running":
            raise RuntimeError(_GONE)
        self._empty = self._empty + 1 if self._has_own_workers and not workers(self._client) else 0
        if self._empty > _MOST_EMPTY:
            raise RuntimeError("no worker can be started any more (see dask.log); what ended before is kept")
        self._next_s = time.monotonic() + _LOOK_S


_GONE = "the scheduler is gone; what ended before is kept: the same command goes on"


def _end(future: Any, order: Order) -> Ended:
    """What came of a run."""
    from distributed import KilledWorker

    if future.status == "finished":
        ended: Ended = future.result()
        if ended.hopeless:
            raise RuntimeError(f"{order.label}: {ended.hopeless}, and the same command goes on")
        return ended
    if future.status != "error":
        raise RuntimeError(_GONE)
    error = future.exception()
    is_dead = isinstance(error, KilledWorker)
    reason = "its worker died every time that it was tried" if is_dead else named_error(error)
    return Ended({**order.values, "failure": reason})


def _end_now(client: Client) -> None:
    """Have all runs under way end; who does not hear it is gone already."""
    with suppress(Exception):
        client.run(stop_all, nanny=False, on_error="ignore")


@contextmanager
def _logging_to(log: Path) -> Iterator[None]:
    """What dask, and what it stands on, has to say goes to a file, which is removed when it is empty."""
    import distributed  # noqa: F401 (its import sets the loggers up that are redirected here)

    handler = logging.FileHandler(log, delay=False)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    kept = {name: (logger.handlers[:], logger.propagate) for name, logger in _loggers()}
    for _, logger in _loggers():
        logger.handlers, logger.propagate = [], True
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings():
            logging.captureWarnings(True)
            yield
    finally:
        logging.captureWarnings(False)
        logging.getLogger().removeHandler(handler)
        handler.close()
        for name, logger in _loggers():
            logger.handlers, logger.propagate = kept.get(name, ([], True))
        if not log.stat().st_size:
            log.unlink()


def _loggers() -> list[tuple[str, logging.Logger]]:
    """The loggers of dask and what it stands on."""
    found = logging.Logger.manager.loggerDict.items()
    return [
        (name, logger)
        for name, logger in found
        if isinstance(logger, logging.Logger) and name.split(".")[0] in _LOGGERS
    ]
