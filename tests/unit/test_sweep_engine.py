"""Runs are spread as there is room, what comes back of them is told, and a cluster's workers can be asked for."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import re
import runpy
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.columns import Column
from analysis.run import Run
from analysis.sweep import figure_columns
from experiments.catalog import catalog, find
from experiments.cli import main
from experiments.commands import sweep as command
from experiments.runner import RunFailed
from experiments.sweeping import engine, worker
from experiments.sweeping.engine import Room
from experiments.sweeping.plan import Asked, Order, over, plan
from experiments.sweeping.worker import Ended, Terms
from lab.session import Stop
from topologies.units import BadRequest

ROOT = Path(__file__).resolve().parents[2]
HERE = {"fabriclab": "0.1", "code": "abc", "kernel": "7.3 x"}
TERMS = Terms(HERE, ("./run_experiment", "sweep"), 60.0)


def orders(*words: str, repeats: int = 1) -> list[Order]:
    return list(plan(Asked(find("incast"), {}, over(words), repeats=repeats)).orders())


# --- room


def test_as_many_run_as_there_are_cores_and_as_memory_allows() -> None:
    small, other, large = orders("senders=2,3,64")
    room = Room(2, memory_bytes=10, needs_bytes={1: 4, 2: 5, 3: 11})
    assert room.has(small, [])
    assert room.has(other, [small])
    assert not room.has(large, [small])
    assert room.has(large, [])  # who needs more than there is runs alone
    assert not Room(2, 100, room.needs_bytes).has(small, [other, large])


def test_a_scheduler_elsewhere_gets_all_at_once() -> None:
    first, *others = orders("senders=2,3,4,5")
    assert Room(None).has(first, others)


# --- the engine, with real workers in this process


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    from distributed import Client

    settings = {"processes": False, "n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with Client(**settings, set_as_default=False, silence_logs=logging.CRITICAL) as made:
        yield made


def carried_out(client: Any, work: Any, monkeypatch: pytest.MonkeyPatch, some: list[Order], room: Room) -> list[Ended]:
    ended: list[Ended] = []
    monkeypatch.setattr(engine, "carry_out", work)
    with Stop() as stop:
        engine.carry_out_all(client, some, TERMS, room, stop, ended.append)
    return ended


def test_every_run_comes_back_once(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    some = orders("senders=2,3", repeats=5)
    found = carried_out(client, lambda order, terms: Ended({"run": order.run}), monkeypatch, some, Room(None))
    assert sorted(each.row["run"] for each in found if each.row) == list(range(1, 11))


def test_what_a_worker_cannot_even_begin_is_a_failure_of_that_run(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(order: Order, terms: Terms) -> Ended:
        if order.run == 2:
            raise ModuleNotFoundError("No module named 'experiments'")
        return Ended({"run": order.run})

    found = carried_out(client, work, monkeypatch, orders("senders=2,3"), Room(None))
    (failed,) = (each.row for each in found if each.row and "failure" in each.row)
    assert failed["run"] == 2 and failed["senders"] == 3
    assert failed["failure"] == "ModuleNotFoundError: No module named 'experiments'"


def test_a_full_disk_ends_the_sweep(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"^senders=2: no room: make room, and the same command goes on$"):
        carried_out(
            client, lambda order, terms: Ended(None, "no room: make room"), monkeypatch, orders("senders=2"), Room(None)
        )


def test_after_a_stop_none_is_begun(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Ended] = []
    monkeypatch.setattr(engine, "carry_out", lambda order, terms: Ended({"run": order.run}))
    with Stop() as stop:

        def hear(each: Ended) -> None:
            ended.append(each)
            stop.request()

        engine.carry_out_all(client, orders("senders=2,3,4"), TERMS, Room(1, 9, {1: 1, 2: 1, 3: 1}), stop, hear)
    assert len(ended) == 1


@pytest.mark.parametrize(
    "address", ["head", "head:8786", "tcp://head", "tcp://", "tcp://head:8786/x", "8786", "foo://head:8786"]
)
def test_what_is_no_address_is_refused(tmp_path: Path, address: str) -> None:
    with (
        pytest.raises(BadRequest, match=r"--scheduler: .* is given; allowed: the address"),
        engine.remote(address, tmp_path / "log"),
    ):
        pass


def test_a_scheduler_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "ANSWER_S", 0.2)
    with (
        pytest.raises(BadRequest, match=r"^--scheduler: tcp://127.0.0.1:9 does not answer \("),
        engine.remote("tcp://127.0.0.1:9", tmp_path / "log"),
    ):
        pass


def test_a_worker_keeps_what_it_says_from_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "dask.log"
    with engine._logging_to(log):
        logging.getLogger("distributed.nanny").warning("Restarting worker")
    assert "Restarting worker" in log.read_text()
    with engine._logging_to(tmp_path / "quiet.log"):
        pass
    assert not (tmp_path / "quiet.log").exists()
    assert capfd.readouterr() == ("", "")


# --- one run


def row_of(order: Order, monkeypatch: pytest.MonkeyPatch, outcome: Any, terms: Terms = TERMS) -> Ended:
    """What is kept of a run that `outcome` (an exception, or columns) comes of."""

    def measured(*_: Any) -> dict[str, Any]:
        if isinstance(outcome, Exception):
            raise outcome
        return dict(outcome)

    monkeypatch.setattr(worker, "made_by", lambda: dict(HERE))
    monkeypatch.setattr(worker, "_measured", measured)
    return worker.carry_out(order, terms)


def test_a_run_that_fails_is_a_row_with_its_reason_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    (order,) = orders("senders=2")
    row = row_of(order, monkeypatch, RunFailed("main: no end after\n 900 s of wall time")).row
    assert row is not None
    assert (row["run"], row["senders"], row["failure"]) == (1, 2, "main: no end after 900 s of wall time")
    told = row_of(order, monkeypatch, KeyError("rounds")).row
    assert told is not None and told["failure"] == "KeyError: 'rounds'"
    long = row_of(order, monkeypatch, RunFailed("x" * 10_000)).row
    assert long is not None and len(long["failure"]) < 500


def test_a_full_disk_is_no_fault_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    (order,) = orders("senders=2")
    failed = RunFailed("main: the folder cannot hold the results")
    failed.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert row_of(order, monkeypatch, failed) == Ended(None, "main: the folder cannot hold the results: make room")


def test_a_worker_of_another_version_ends_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    (order,) = orders("senders=2")
    ended = row_of(order, monkeypatch, {}, replace(TERMS, made_by={**HERE, "code": "def"}))
    assert ended.row is None
    assert ended.hopeless.endswith("has another code now: abc, and the sweep is made by def: restore it")


@pytest.mark.parametrize(("name", "own"), [("incast", "median_round_seconds"), ("all-reduce", "busbw_bps")])
def test_a_run_tells_its_summary_as_columns(name: str, own: str) -> None:
    run = Run(ROOT / "analysis" / "notebooks" / "runs" / name)
    found = worker.told(run, figure_columns(str(run.spec["experiment"]), [run.workload]))
    assert found["complete"] is True and found["rounds"] == len(run.rounds)
    assert found["round_least_s"] <= found["round_median_s"] <= found["round_most_s"]
    assert found[own] > 0 and isinstance(found["verdict"], str)


def test_a_figure_of_another_kind_is_an_error() -> None:
    number, words = Column("drops", "drops"), Column("cure", "cure", is_number=False)
    assert [worker.figure(number, value) for value in (None, 3, True)] == [None, 3.0, 1.0]
    assert [worker.figure(words, value) for value in ("dctcp", True, 3)] == ["dctcp", "on", "3"]
    with pytest.raises(TypeError, match="figure drops: 'many' is no number"):
        worker.figure(number, "many")


# --- the command


@pytest.mark.parametrize(
    "words", ["--repeat 0", "--repeat 100001", "--workers 0", "--workers 1025", "--workers " + "9" * 5000]
)
def test_more_than_a_machine_can_start_is_no_number_of_workers(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "incast", "--over", "senders=2", *words.split()]) == 2
    assert capsys.readouterr().err.endswith(f"allowed: 1 to {'100,000' if 'repeat' in words else '1,024'}\n")


def arguments(**changes: Any) -> argparse.Namespace:
    given = {"experiment": "incast", "over": ["senders=2"], "list": None, "set": [], "seed": None, "repeat": 1}
    others = {"leave_out": False, "scheduler": None, "workers": None, "out": None, "retry": False, "keep": False}
    return argparse.Namespace(**{**given, **others, "watchdog": 900.0, "json": False, **changes})


def test_what_measures_the_machine_itself_is_no_sweep(tmp_path: Path) -> None:
    host = next(each.name for each in catalog().values() if each.on_host is not None)
    with pytest.raises(BadRequest, match=f"sweep: {host} measures this machine itself"):
        command.sweep(arguments(experiment=host))
    file = tmp_path / "real.yaml"
    file.write_text("experiment: incast\nclock: real\n")
    with pytest.raises(BadRequest, match="clock: real, or slowed down, is given by the file"):
        command.sweep(arguments(experiment=str(file)))


def test_workers_of_a_scheduler_are_not_ours_to_count() -> None:
    with pytest.raises(BadRequest, match="--workers: given with --scheduler"):
        command.sweep(arguments(scheduler="tcp://head:8786", workers=2))


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(BadRequest, match="is not empty"):
        command.sweep(arguments(out=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


# --- the page on sweeps


def test_the_job_of_the_page_starts_one_run_a_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of docs/sweeps.md as it is there, down to the script that Slurm gets."""
    page = (ROOT / "docs" / "sweeps.md").read_text()
    (source,) = (code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "SLURMCluster(" in code)
    shown = source.partition("cluster.scale")[0]
    file = tmp_path / "slurm.py"
    file.write_text(
        shown.replace(
            "walltime=", 'scheduler_options={"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}, walltime='
        )
    )
    monkeypatch.chdir(ROOT)
    names = runpy.run_path(str(file))
    try:
        lines = names["cluster"].job_script().splitlines()
    finally:
        names["cluster"].close()
    assert {"#SBATCH -p compute", "#SBATCH --cpus-per-task=16", "#SBATCH -t 08:00:00", f"cd {ROOT}"} <= set(lines)
    (last,) = (line for line in lines if "dask_worker" in line)
    assert last.startswith(f"{sys.executable} -m distributed.cli.dask_worker tcp://127.0.0.1:")
    assert "--nthreads 1" in last and "--nworkers 16" in last
    told = [line for line in page.splitlines() if line.startswith("#SBATCH")]
    assert told == [line for line in lines if line.startswith("#SBATCH")]
