"""A launched program: what is refused before anything boots, the caller's environment, the words that failures are told
in, mpirun's parts, and the analysis of a run directory."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis import summarize
from analysis.kinds import launch as kind
from analysis.pages.run_page import page
from analysis.run import Run
from experiments import cli, drive_launch, launch, limits
from experiments.commands import running
from experiments.runner import Setting, Task, _job
from experiments.spec import Spec, parse
from lab.kernel import Kernel
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_kinds import fabric_json, fabric_run
from topologies.units import BadRequest
from workloads import launch as workloads_launch
from workloads import mpirun
from workloads.launch import End, last_lines

BAD_REQUEST = 2


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(**keys: Any) -> Spec:
    return limits.resolve(parse({"workload": "launch", "topology": "star", "ranks": 2, **keys}))


# --- the command line


def line_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that a refused request ends with."""
    assert cli.main(["launch", *words]) == BAD_REQUEST
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.removeprefix("run_experiment: ").rstrip("\n")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "the following arguments are required: -- PROGRAM"),
        (["--", "no-such-program"], "command: no-such-program is no program in the PATH, nor from /"),
        (["--", "./no-such-program"], "command: ./no-such-program is no program in the PATH, nor from /"),
        (["-n", "0", "--", "true"], "ranks: '0' is given; allowed: above zero"),
        (["-n", "2", "--set", "ranks=3", "--", "true"], "ranks: given twice, with --set too; allowed: once"),
        (["--mpi", "--set", "starter=ranks", "--", "true"], "starter: given twice"),
        (["--timeout", "0", "--", "true"], "argument --timeout: '0' is given; allowed: seconds above zero"),
        (["--stall", "soon", "--", "true"], "argument --stall: 'soon' is given; allowed: seconds above zero"),
        (["--topology", "mesh", "--", "true"], "topology: 'mesh' is unknown; allowed: star"),
        (["--", "echo", "a\nb"], "command: \"echo 'a\\nb'\" is given; allowed: printable text in one line"),
    ],
)
def test_a_bad_launch_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str], line: str) -> None:
    assert line_of(capsys, *words).startswith(line)


def test_a_launch_without_a_program_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "launch"]) == BAD_REQUEST
    assert "command: auto is given with workload=launch" in capsys.readouterr().err


def test_options_become_keys(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(running, "run", seen.append)
    words = ["-n", "3", "--timeout", "1.5", "--mpi", "--capture", "--set", "rate=100Gbps", "--stall", "7"]
    assert cli.main(["launch", *words, "--", "python3", "-c", "print('a b')", "--n", "4"]) == 0
    (arguments,) = seen
    assert (arguments.experiment, arguments.only, arguments.stall) == ("launch", True, 7.0)
    keys = dict(word.split("=", 1) for word in arguments.set)
    assert keys == {
        "command": "python3 -c 'print('\"'\"'a b'\"'\"')' --n 4",
        "directory": str(folder),
        "ranks": "3",
        "timeout": "1.5s",
        "capture": "all",
        "starter": "mpirun",
        "rate": "100Gbps",
    }
    assert launch.words(parse(keys)) == ["python3", "-c", "print('a b')", "--n", "4"]


def test_a_program_is_looked_for_where_it_runs(folder: Path) -> None:
    (folder / "own").mkdir()
    program = folder / "own" / "program"
    program.touch(mode=0o644)
    with pytest.raises(BadRequest, match="is no program"):
        launch.check_program(asked(command="./program", directory=str(folder / "own")))
    program.chmod(0o755)
    launch.check_program(asked(command="./program", directory=str(folder / "own")))
    with pytest.raises(BadRequest, match=r"directory: .*/gone is given, and is no folder"):
        launch.check_program(asked(command="true", directory=str(folder / "gone")))
    with pytest.raises(BadRequest, match="No closing quotation"):
        launch.check_program(asked(command="echo 'open"))


def test_mpirun_must_be_there(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "true").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(folder))
    launch.check_program(asked(command="true"))
    with pytest.raises(BadRequest, match="starter: mpirun is given, and is not installed; allowed: ranks, or apt-get"):
        launch.check_program(asked(command="true", starter="mpirun"))


def test_only_a_launch_has_a_program() -> None:
    launch.check_program(limits.resolve(parse({"workload": "incast"})))
    with pytest.raises(BadRequest, match="timeout: 1s is given with workload=incast; allowed: with workload=launch"):
        limits.resolve(parse({"workload": "incast", "timeout": "1s"}))


# --- into the lab


def test_the_callers_environment_goes_in_beside_the_labs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", "/own/bin")
    monkeypatch.setenv("BASH_FUNC_f%%", "() { true; }")
    setting = Setting(Kernel.__new__(Kernel), "virtual", ("x",), stall_s=7.0)
    job = _job(Task("main", asked(command="true"), folder, "launch"), setting)
    assert job.env["PATH"] != "/own/bin"
    assert job.stall_s == 7.0
    found = launch.callers(job.env)
    assert found == dict(os.environ)
    assert launch.directory(asked(), job.env) == folder
    assert launch.directory(asked(directory="/elsewhere"), job.env) == Path("/elsewhere")
    other = _job(Task("main", limits.resolve(parse({"workload": "incast"})), folder, "incast"), setting)
    assert launch.callers(other.env) == {}


@pytest.mark.parametrize(
    ("status", "name"),
    [(None, None), (0, None), (3, None), (128, None), (137, "SIGKILL"), (139, "SIGSEGV"), (255, None)],
)
def test_a_status_above_128_is_a_signal(status: int | None, name: str | None) -> None:
    assert drive_launch.signal_name(status) == name


def test_last_lines_are_of_standard_error_or_else_of_output(folder: Path) -> None:
    assert last_lines(folder / "0") == []
    (folder / "0.out").write_text("".join(f"line {number}\n" for number in range(10_000)) + "\n \n")
    assert last_lines(folder / "0") == [f"line {number}" for number in range(9_990, 10_000)]
    (folder / "0.err").write_bytes(b"Traceback\n\xff\n")
    assert last_lines(folder / "0") == ["Traceback", "\N{REPLACEMENT CHARACTER}"]


def failed(ended: str, starter: str, statuses: list[int | None]) -> str:
    """What the end of a launch is told in."""
    rows = [
        {
            "rank": rank,
            "host": f"h{rank + 1}",
            "status": status,
            "signal": drive_launch.signal_name(status),
            "end_ns": None if status is None else T0_NS - rank,
            "last_lines": ["a", " b ", "c", f"rank {rank} says so"],
        }
        for rank, status in enumerate(statuses)
    ]
    program = SimpleNamespace(output=Path("mpirun"), host=SimpleNamespace(name="h1"))
    followed = [SimpleNamespace(program=program, end=End(status=1))]
    under_way: Any = SimpleNamespace(ended=ended, first_failed=1, timeout_ns=2_000_000_000, followed=followed)
    with pytest.raises(RuntimeError) as error:
        drive_launch._judge({"launch": {"starter": starter}, "ranks": rows}, under_way)
    return str(error.value)


def test_the_first_failed_rank_is_told(folder: Path) -> None:
    assert failed("failed", "ranks", [0, 3, 143]) == "rank 1 on h2 ended with status 3: b | c | rank 1 says so"
    assert failed("failed", "ranks", [0, 139, 143]).startswith("rank 1 on h2 was ended by SIGSEGV: ")
    assert failed("failed", "mpirun", [0, None, 5, 4]).startswith("rank 3 on h4 ended with status 4: ")
    (folder / "mpirun.err").write_text("no such host\n")
    assert failed("failed", "mpirun", [None, None]) == "mpirun on h1 ended with status 1: no such host"


def test_a_timeout_names_who_still_ran() -> None:
    assert failed("timeout", "ranks", [0, 143, 137, 0]) == "after 2s of virtual time (timeout) h2, h3 still ran"


# --- mpirun


def test_the_agent_runs_words_on_the_host_that_is_named(folder: Path) -> None:
    """Standing in for the two programs that need privilege: each runs what it is given, and says so."""
    for name, script in (("enter", 'echo "in $1"; shift'), ("chrt", "shift 2"), ("unshare", "shift")):
        (folder / name).write_text(f'#!/bin/sh\n{script}\nexec "$@"\n')
        (folder / name).chmod(0o755)
    hosts = [
        SimpleNamespace(name=f"h{number}", is_ours=True, enter_command=lambda n=number: ["enter", f"net {n}"])
        for number in (1, 2)
    ]
    mpirun.write_agent(folder / "agent", hosts)
    agent = (folder / "agent").read_text().replace(">/proc/sys/kernel/hostname", "")
    (folder / "agent").write_text(agent)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    for words in (["-x", "h2", "PATH=/x ;", "echo $((1 + 1))"], ["h2", "PATH=/x ; echo $((1 + 1))"]):
        done = subprocess.run([folder / "agent", *words], env=env, capture_output=True, text=True, check=True)
        assert done.stdout == "in net 2\nh2\n2\n"
    refused = subprocess.run([folder / "agent", "h3", "true"], env=env, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr) == (255, "no host h3\n")


def test_a_rank_of_mpirun_leaves_its_output_and_end(folder: Path) -> None:
    script = 'echo "$FABRICLAB_RESULTS" "$RANK"; echo oh >&2; exit 3'
    words = mpirun.words(2, folder / "hosts", folder, ["/bin/sh", "-c", script])
    assert words[:5] == ("mpirun", "-n", "2", "--hostfile", str(folder / "hosts"))
    done = subprocess.run(words[5:], env={**os.environ, "OMPI_COMM_WORLD_RANK": "1"}, check=False)
    assert done.returncode == 3
    assert (folder / "1.out").read_text() == f"{folder}/1 1\n"
    assert last_lines(folder / "1") == ["oh"]
    ends = mpirun.ends(folder, 2)
    assert list(ends) == [1]
    assert ends[1].status == 3
    assert 0 < (ends[1].begin_ns or 0) < (ends[1].end_ns or 0)
    assert mpirun.ends(folder, 2) == {}


# --- analysis


def rank(number: int, status: int | None = 0, **changes: Any) -> dict[str, Any]:
    plain = {
        "rank": number,
        "host": f"h{number + 1}",
        "status": status,
        "signal": None,
        "begin_ns": T0_NS + number * 10**6,
        "end_ns": None if status is None else T0_NS + 50 * 10**6,
        "last_lines": [f"<rank {number}>"],
    }
    return {**plain, **changes}


def run_of(path: Path, ranks: list[dict[str, Any]], ended: str = "done", **facts: Any) -> Run:
    fabric = fabric_json("leaf_spine", leaves=2, hosts_per_leaf=2, spines=1)
    told = {
        "workload": "launch",
        "launch": {"command": ["python3", "a b.py"], "directory": "/x", "starter": "ranks", "ended": ended},
        "ranks": ranks,
        "nic_bytes": {f"h{number}": {"sent": number * 10**6, "received": 10**6} for number in range(1, 5)},
        "rounds": [{"start_ns": T0_NS, "end_ns": T0_NS + 50 * 10**6, "bytes": 10**7}],
    }
    return fabric_run(path, fabric, {**told, **facts})


@pytest.mark.parametrize(
    ("statuses", "ended", "answer", "good", "headline"),
    [
        ([0, 0], "done", kind.DONE, True, "2 ranks ended with status 0 after 50 ms of virtual time"),
        ([0, 3], "failed", kind.FAILED, False, "rank 1 of 2, on h2, ended with status 3"),
        ([0, 143], "timeout", kind.TIMEOUT, False, "1 of 2 ranks had not ended when the launch was"),
        ([0, None], "done", kind.BROKEN_OFF, False, "1 of 2 ranks had not ended when the launch was"),
    ],
)
def test_the_verdict_on_a_launch(
    tmp_path: Path, statuses: list[int | None], ended: str, answer: str, good: bool, headline: str
) -> None:
    run = run_of(tmp_path / "run", [rank(number, status) for number, status in enumerate(statuses)], ended)
    found = kind.verdict(run)
    assert (found.verdict, found.good) == (answer, good)
    assert kind.headline(run).startswith(headline)


def test_a_launch_without_ranks_is_not_proven(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [], complete=False)
    assert kind.verdict(run).verdict == "not proven"
    assert summarize(run)["launch"]["ranks"] == {}


def test_the_report_tells_ranks_and_links(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [rank(0), rank(1, 137, signal="SIGKILL")], "failed")
    summary = summarize(run)
    assert summary["launch"]["ranks"]["1"] == {"host": "h2", "status": 137, "signal": "SIGKILL", "seconds": 0.049}
    assert summary["launch"]["nic_bytes"]["h4"] == {"sent": 4 * 10**6, "received": 10**6}
    (row,) = summary["comparison"]
    assert (row["ranks"], row["well"], row["most_sent_bytes"], row["drops"]) == (2, 1, 4 * 10**6, 0)
    told = page(run, kind.figures(run))
    assert "&lt;rank 1&gt;" in told
    assert "python3 &#x27;a b.py&#x27;" in told
    assert "launch --capture" in told  # the figure of rates is skipped
    assert json.loads((run.path / "measured.json").read_text())["complete"] is True


@pytest.mark.parametrize("damage", [{"status": "well"}, {"begin_ns": 1.5}])
def test_a_damaged_rank_is_named(tmp_path: Path, damage: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="of an entry of 'ranks'"):
        summarize(run_of(tmp_path / "run", [rank(0, **damage)]))


def test_a_timeout_between_two_short_ranks_ends_the_launch() -> None:
    """Ranks start one after the other: a timeout may fall where none runs."""
    launched = workloads_launch.Launch([], timeout_ns=20_000_000, beat=lambda: None)
    launched.run(time.time_ns())  # none is started, as none is there yet
    assert launched.ended == "timeout"


def test_last_lines_do_not_steer_a_terminal(folder: Path) -> None:
    (folder / "0.err").write_bytes(b"\x1b[2Jred\x08\x00 \ttab \xc3\xa9\n")
    assert last_lines(folder / "0") == ["\\x1b[2Jred\\x08\\x00 \ttab \N{LATIN SMALL LETTER E WITH ACUTE}"]
