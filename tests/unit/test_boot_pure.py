"""Booting the lab, as far as that needs no kernel; a shell script stands in for one where a process is needed."""

from __future__ import annotations

import io
import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lab import boot, huge_pages, init, session
from lab.boot import memory_folder
from lab.session import Job, LabError, Outcome, Stop


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Control folders, locks and guest memory of these tests lie in a folder of their own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("FABRICLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FABRICLAB_MEMORY", str(tmp_path))
    (tmp_path / "tmp").mkdir()
    return tmp_path


def script(folder: Path, text: str) -> Path:
    """A program to boot instead of a kernel: it finds orders on 3, events on 4, the command's standard error on 5."""
    path = folder / "kernel"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def booted(folder: Path, text: str, stop: Stop | None = None, **job: Any) -> tuple[Outcome, list[Any], bytes, bytes]:
    """How booting the script went: outcome, events, output, standard error."""
    out, err, events = io.BytesIO(), io.BytesIO(), []
    asked = Job(("true",), folder, watchdog_s=job.pop("watchdog_s", 20.0), memory_bytes=1 << 20, **job)
    outcome = boot.run(script(folder, text), asked, lambda event, wall_s: events.append(event), out, err, stop)
    return outcome, events, out.getvalue(), err.getvalue()


# --- the conversation with a kernel


def test_streams_and_events_are_kept_apart(places: Path) -> None:
    outcome, events, out, err = booted(
        places,
        """echo out; echo err >&5; echo a kernel line >&2; echo >&2
        printf '{"event": "booted"}\\n{"event": "pha' >&4; sleep 0.1; printf 'se"}\\n\\n' >&4
        echo '{"event": "exit", "status": 0}' >&4""",
    )
    assert (outcome.status, outcome.ended_as) == (0, "done")
    assert events == [{"event": "booted"}, {"event": "phase"}, {"event": "exit", "status": 0}]
    assert (out, err, outcome.log) == (b"out\n", b"err\n", ("a kernel line",))


@pytest.mark.parametrize(
    ("text", "status", "ended_as"),
    [
        ("""echo '{"event": "exit", "status": 0}' >&4""", 0, "done"),
        ("""echo '{"event": "exit", "status": 3}' >&4; exit 9""", 3, "failed"),
        ("exit 0", 1, "died"),
        ("kill -SEGV $$", 1, "died"),
    ],
)
def test_how_it_ended(places: Path, text: str, status: int, ended_as: str) -> None:
    outcome, *_ = booted(places, text)
    assert (outcome.status, outcome.ended_as) == (status, ended_as)


def test_the_log_keeps_the_last_lines(places: Path) -> None:
    outcome, *_ = booted(places, "seq 1 1000 >&2")
    assert outcome.log[-1] == "1000"
    assert len(outcome.log) < 100


def test_a_stop_is_passed_on_and_answered(places: Path) -> None:
    stop = Stop()
    threading.Timer(0.2, stop.request).start()
    outcome, *_ = booted(places, """read order <&3; echo "{\\"event\\": \\"exit\\", \\"status\\": 7}" >&4""", stop)
    assert (outcome.status, outcome.ended_as) == (7, "interrupted")
    assert outcome.wall_s < 5


def test_a_stop_that_was_asked_for_before_is_heard(places: Path) -> None:
    stop = Stop()
    stop.request()
    assert booted(places, "read order <&3; exit", stop)[0].ended_as == "interrupted"


def test_one_stop_reaches_every_lab(places: Path) -> None:
    stop = Stop()
    stop.request()
    for _ in range(3):
        assert booted(places, "read order <&3; exit", stop)[0].ended_as == "interrupted"


@pytest.mark.parametrize("stopped", [False, True])
def test_who_does_not_listen_is_killed(places: Path, monkeypatch: pytest.MonkeyPatch, stopped: bool) -> None:
    monkeypatch.setattr(session, "_STOP_GRACE_S", 0.3)
    stop = Stop()
    if stopped:
        stop.request()
    outcome, *_ = booted(places, "exec sleep 60", stop, watchdog_s=60.0 if stopped else 0.3)
    assert outcome.ended_as == ("interrupted" if stopped else "watchdog")
    assert outcome.wall_s < 5


class Slow(io.BytesIO):
    """A reader that is never done before there is more."""

    def write(self, data: Any) -> int:
        time.sleep(0.02)
        return super().write(data)


def test_the_watchdog_bites_while_output_floods_in(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_STOP_GRACE_S", 0.3)
    job = Job(("true",), places, watchdog_s=0.5, memory_bytes=1 << 20)
    out = Slow()
    outcome = boot.run(script(places, "exec timeout 10 yes"), job, stdout=out, stderr=io.BytesIO())
    assert outcome.ended_as == "watchdog"
    assert outcome.wall_s < 5
    assert len(out.getvalue()) > 10_000


def test_a_command_that_stops_beating_is_stalled(places: Path) -> None:
    text = """echo '{"event": "beat"}' >&4; read order <&3; echo "{\\"event\\": \\"exit\\", \\"status\\": 7}" >&4"""
    outcome, events, *_ = booted(places, text, stall_s=0.3)
    assert (outcome.status, outcome.ended_as) == (7, "stalled")
    assert [event["event"] for event in events] == ["beat", "exit"]


def test_a_stalled_command_that_does_not_listen_is_killed(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_STOP_GRACE_S", 0.3)
    outcome, *_ = booted(places, """echo '{"event": "beat"}' >&4; exec sleep 60""", stall_s=0.3)
    assert outcome.ended_as == "stalled"
    assert outcome.wall_s < 5


BEATS = """for beat in 1 2 3 4 5 6; do echo '{"event": "beat"}' >&4; sleep 0.2; done"""


@pytest.mark.parametrize(
    "text",
    [
        BEATS,  # for longer than it may stand still in all
        """echo '{"event": "beat"}' >&4; echo '{"event": "phase"}' >&4; sleep 0.8""",  # the beats are over
        "sleep 0.8",  # it has never begun to beat
    ],
)
def test_only_a_beat_that_is_missed_is_a_stall(places: Path, text: str) -> None:
    outcome, *_ = booted(places, text + """; echo '{"event": "exit", "status": 0}' >&4""", stall_s=0.6)
    assert outcome.ended_as == "done"


def test_the_job_is_as_asked(places: Path) -> None:
    (places / "link").symlink_to(places)
    job = Job(("a", "b c"), places / "link", {"X": "1"}, Path("/usr"), interactive=True)
    assert json.loads(json.dumps(session.job_document(job))) == {
        "argv": ["a", "b c"], "env": {"X": "1"}, "cwd": "/usr", "results": str(places), "interactive": True,
    }  # fmt: skip


def test_the_kernels_command_line_follows_the_job(places: Path) -> None:
    words = boot._command(Path("/k/linux"), Job((), places, memory_bytes=(300 << 20) + 5), Path("/control"))
    assert words[0] == "/k/linux"
    assert {"mem=300M", "uml_dir=/control", "time-travel=inf-cpu", f"time-travel-start={boot.VIRTUAL_START_NS}"} <= set(
        words
    )
    assert words[-1] == "/control/job.json"
    real = boot._command(Path("/k/linux"), Job((), places, clock="real"), Path("/control"))
    assert not [word for word in real if word.startswith("time-travel")]
    quiet, shell = (boot._command(Path("/k"), Job((), places, interactive=on), Path("/c")) for on in (False, True))
    assert "con0=null,fd:1" in quiet
    assert "con0=fd:0,fd:1" in shell


def test_the_seed_and_the_memory_reach_the_kernel_and_the_callers_variables_do_not(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAK", "1")
    _, _, out, _ = booted(places, "env; exit", seed=255)
    found = dict(line.split("=", 1) for line in out.decode().splitlines())
    assert (found["LAB_SEED"], found["TMPDIR"]) == ("ff", str(places))
    assert "LEAK" not in found


# --- what is left


def test_the_control_folder_is_gone_as_soon_as_the_lab_is_up(places: Path) -> None:
    seen: list[list[Path]] = []
    text = """echo '{"event": "booted"}' >&4; read go <&3"""
    stop = Stop()

    def on_event(event: Any, wall_s: float) -> None:
        seen.append(list((places / "tmp").iterdir()))
        stop.request()

    job = Job(("true",), places, watchdog_s=20.0, memory_bytes=1 << 20)
    boot.run(script(places, text), job, on_event, io.BytesIO(), io.BytesIO(), stop)
    assert seen == [[]]


def test_no_descriptor_is_left_open(places: Path) -> None:
    booted(places, "exit")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        booted(places, "exit")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_exception_in_a_callback_ends_the_lab(places: Path) -> None:
    def on_event(event: Any, wall_s: float) -> None:
        raise RuntimeError("enough")

    job = Job(("true",), places, watchdog_s=60.0, memory_bytes=1 << 20)
    kernel = script(places, f"""echo $$ > {places}/pid; echo '{{"event": "booted"}}' >&4; exec sleep 60""")
    with pytest.raises(RuntimeError, match="enough"):
        boot.run(kernel, job, on_event, io.BytesIO(), io.BytesIO())
    assert not Path("/proc", (places / "pid").read_text().strip()).exists()
    assert list((places / "tmp").iterdir()) == []


# --- cores and memory


def test_labs_take_different_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5})
    with boot._core() as first, boot._core() as second:
        assert {first, second} == {3, 5}
        with boot._core() as third:  # more labs than cores
            assert third in {3, 5}
    with boot._core() as again:
        assert again == first


def test_without_a_place_for_locks_any_core_will_do(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (places / "file").touch()
    monkeypatch.setenv("FABRICLAB_CACHE", str(places / "file"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    with boot._core() as core:
        assert core == 3


def test_memory_lies_where_there_is_room(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory_folder(1 << 20) == places
    monkeypatch.setenv("FABRICLAB_MEMORY", "/no/such/folder")
    with pytest.raises(LabError, match="no room for 1 MiB of guest memory in /no/such/folder: set FABRICLAB_MEMORY"):
        memory_folder(1 << 20)
    monkeypatch.delenv("FABRICLAB_MEMORY")
    monkeypatch.setattr(huge_pages, "folder", lambda: None)
    assert memory_folder(1 << 20) in (Path("/dev/shm"), places / "tmp")


def test_no_room_for_memory_is_one_line(places: Path) -> None:
    with pytest.raises(LabError) as error:
        memory_folder(1 << 60)
    assert str(error.value).startswith(f"no room for {1 << 40} MiB of guest memory in {places}: ")
    assert str(error.value).endswith(": set FABRICLAB_MEMORY to a folder with room")


# --- the first process in the lab


@pytest.mark.parametrize(
    ("command", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137), ("kill -TERM $$", 143)]
)
def test_an_exit_status_is_told_in_shell_terms(command: str, status: int) -> None:
    pid = os.spawnlp(os.P_NOWAIT, "sh", "sh", "-c", command)
    found = None
    while found is None:
        found = init._reap(pid)
    assert found == status


def test_init_needs_nothing_but_the_standard_library() -> None:
    import ast
    import sys

    tree = ast.parse(Path(init.__file__).read_text())
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    known = getattr(sys, "stdlib_module_names", None)  # Python 3.10 and later
    assert known is None or {module.partition(".")[0] for module in modules} <= set(known)
