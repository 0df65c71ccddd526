"""The command `sweep`: from the words to results, a table and a page, and on where an earlier call was ended."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import limits, request, rundir, screen
from experiments.commands.concluding import keep_matplotlib_at_home, whole
from experiments.commands.interrupting import INTERRUPTED, stopping
from experiments.commands.running import given_keys
from experiments.commands.setting import asked_by, check_programs
from topologies.plugins import located
from topologies.units import BadRequest

if TYPE_CHECKING:
    from distributed import Client

    from experiments.sweeping.engine import Room
    from experiments.sweeping.plan import Order, Plan
    from experiments.sweeping.store import Store
    from lab.session import Stop


def sweep(arguments: argparse.Namespace) -> int:
    """Every run that is not kept yet, then what all of them told; exit status 1 when one failed."""
    from experiments.sweeping import store
    from experiments.sweeping.worker import made_by

    planned = _planned(arguments)
    _check_room(arguments, planned)
    document = {**planned.document(), "made_by": made_by(), **_aside()}
    folder = _folder(arguments.out, planned.asked.experiment.name)
    for line in planned.left_out:
        screen.say(f"left out: {line}")
    with store.held(folder):
        if store.is_sweep(folder):
            store.check_same(folder, document)
        else:
            store.write_plan(folder, document)
        kept = store.Store(folder, planned.columns)
        try:
            return _carried_out(arguments, planned, document, kept)
        finally:
            if not store.discard_if_unused(folder):
                rundir.hand_over(folder)


def _planned(arguments: argparse.Namespace) -> Plan:
    """The sweep that was asked for, checked."""
    from experiments.sweeping import plan

    wanted = request.requested(arguments.experiment)
    if wanted.clock == "real" or wanted.time_scale is not None:
        raise BadRequest("clock: real, or slowed down, is given by the file; allowed in a sweep: virtual")
    if wanted.experiment.on_host is not None:
        raise BadRequest(f"sweep: {wanted.experiment.name} measures this machine itself; allowed: any other experiment")
    listed = [] if arguments.list is None else request.listed(arguments.list)
    asked = plan.Asked(
        wanted.experiment,
        {**wanted.keys, **given_keys(arguments)},
        plan.over(arguments.over),
        tuple(located(each, arguments.list.parent) for each in listed),
        arguments.repeat,
    )
    return plan.plan(asked, arguments.leave_out)


def _check_room(arguments: argparse.Namespace, planned: Plan) -> None:
    """That every point can run here, where it is to."""
    if arguments.scheduler is not None:
        if arguments.workers is not None:
            raise BadRequest("--workers: given with --scheduler, whose workers run already; allowed: one of them")
        return
    for point in planned.points:
        check_programs(point.spec)
        try:
            limits.memory_bytes(point.spec)
        except BadRequest as error:
            raise BadRequest(f"point {point.label}: {error}") from None


def _folder(out: Path | None, name: str) -> Path:
    """The sweep's folder: one that has a sweep is gone on with."""
    from experiments.sweeping import store

    if out is not None and store.is_sweep(out):
        return out.resolve()
    return rundir.create(out, f"sweep-{name}")


def _aside() -> dict[str, Any]:
    """What is good to know of a sweep, and may differ where one is gone on with."""
    return {"git_commit": rundir.git_commit(), "command": list(asked_by())}


def _carried_out(arguments: argparse.Namespace, planned: Plan, document: dict[str, Any], kept: Store) -> int:
    rows = kept.rows()
    if arguments.retry:
        failed = [row["run"] for row in rows if row["failure"] is not None]
        kept.drop(failed)
        rows = [row for row in rows if row["run"] not in set(failed)]
    there = {row["run"] for row in rows}
    orders = [order for order in planned.orders() if order.run not in there]
    if there and orders:
        screen.say(f"{len(there)} runs are there already, {len(orders)} are left")
    with stopping() as stop:
        try:
            if orders:
                _run(arguments, planned, document, orders, kept, stop)
        finally:
            kept.merge()
    is_any = bool(kept.rows())
    failures = _conclude(kept.folder, arguments.json) if is_any else 0
    if stop.requested:
        goes_on = f"the same command with --out {kept.folder} goes on" if is_any else "nothing had ended"
        screen.say(f"run_experiment: interrupted; {goes_on}")
        return INTERRUPTED
    return 1 if failures else 0


def _run(
    arguments: argparse.Namespace,
    planned: Plan,
    document: dict[str, Any],
    orders: list[Order],
    kept: Store,
    stop: Stop,
) -> None:
    """Carry out what is left, the largest labs first, and keep each row as it comes."""
    from experiments.sweeping import engine, progress
    from experiments.sweeping.worker import Ended, Terms

    keep = kept.folder / "runs" if arguments.keep else None
    terms = Terms(document["made_by"], tuple(document["command"]), arguments.watchdog, keep)
    orders.sort(key=lambda order: -limits.weight(order.spec))
    with _client(arguments, kept.folder, orders) as (client, room):
        there = len(planned.points) * planned.asked.repeats - len(orders)
        with progress.shown(there + len(orders), there, lambda: room.runs or engine.workers(client)) as told:

            def hear(ended: Ended) -> None:
                if ended.row is not None:
                    kept.put(ended.row)
                    told(ended.row)

            engine.carry_out_all(client, orders, terms, room, stop, hear)


@contextmanager
def _client(arguments: argparse.Namespace, folder: Path, orders: Sequence[Order]) -> Iterator[tuple[Client, Room]]:
    """The scheduler that is asked for, or workers of our own, with the room that there is."""
    from experiments.sweeping import engine

    log = folder / "dask.log"
    if arguments.scheduler is not None:
        with engine.remote(arguments.scheduler, log) as client:
            if not engine.workers(client):
                screen.say(f"{arguments.scheduler} has no worker yet: waiting for the first (docs/sweeps.md)")
            yield client, engine.Room(None)
        return
    room = engine.local_room(arguments.workers, orders)
    # Swept by a later session (lab.session.control_folder) when this process is killed.
    prefix = f"fabriclab-lab-{os.getpid()}-"
    with (
        tempfile.TemporaryDirectory(prefix=prefix) as scratch,
        engine.local(room.runs or 1, Path(scratch), log) as client,
    ):
        yield client, room


def _conclude(folder: Path, as_json: bool) -> int:
    """The table on standard output, and the page; returns how many runs failed."""
    keep_matplotlib_at_home()
    from analysis.pages.sweep_page import write_page
    from analysis.sweep import read
    from experiments.sweeping import table

    found = read(folder)
    with whole(folder):
        page = write_page(found)
    if as_json:
        print(json.dumps(table.document(found), indent=1))
    else:
        table.show(found)
        print(f"results: {folder / 'results'}\npage: {page}")
    table.tell_failures(found)
    return len(found.failures)
