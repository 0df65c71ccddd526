"""The lab kernel as a place to run a command: status, output, environment, files, clock, and every way to end."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab import boot, session
from lab.kernel import Kernel
from lab.session import Job, Outcome, Stop
from tests.conftest import ROOT, InLab, run_in_lab
from tests.emulation.host import children_of, processes_of_session, within

pytestmark = pytest.mark.lab

PYTHON = sys.executable
NO_PID = 2**22 + 1  # above every kernel's limit
LOOP = "import time\nwhile True:\n    time.sleep(0.001)\n"


def sh(kernel: Kernel, results: Path, script: str, **job: Any) -> Any:
    return run_in_lab(kernel, ("sh", "-c", script), results=results, **job)


@pytest.mark.parametrize(
    ("script", "status", "ended_as"),
    [("exit 0", 0, "done"), ("exit 3", 3, "failed"), ("kill -9 $$", 137, "failed"), ("kill -TERM $$", 143, "failed")],
)
def test_exit_status_is_the_commands(kernel: Kernel, tmp_path: Path, script: str, status: int, ended_as: str) -> None:
    ran = sh(kernel, tmp_path, script)
    assert (ran.status, ran.outcome.ended_as) == (status, ended_as)


def test_a_missing_program_says_so(kernel: Kernel, tmp_path: Path) -> None:
    ran = run_in_lab(kernel, ("no-such-program",), results=tmp_path)
    assert (ran.status, ran.stderr) == (127, "no-such-program: No such file or directory\n")


def test_orphans_do_not_keep_the_lab_up(kernel: Kernel, tmp_path: Path) -> None:
    ran = sh(kernel, tmp_path, "(while :; do sleep 1; done) & exit 5")
    assert (ran.status, ran.outcome.ended_as) == (5, "failed")


def test_output_is_complete_and_kept_apart(in_lab: InLab) -> None:
    lines = 8_000
    ran = in_lab(
        "import sys\n"
        f"for number in range({lines}):\n"
        "    print(f'out {number:07d}' + 640 * 'o')\n"
        "    print(f'err {number:07d}' + 640 * 'e', file=sys.stderr)\n"
    )
    assert len(ran.stdout) > 5_000_000
    assert ran.stdout == "".join(f"out {number:07d}{640 * 'o'}\n" for number in range(lines))
    assert ran.stderr == "".join(f"err {number:07d}{640 * 'e'}\n" for number in range(lines))


def test_output_passes_bytes_unchanged(kernel: Kernel, tmp_path: Path) -> None:
    code = "import os; os.write(1, bytes(range(256)) * 64)"
    stdout = io.BytesIO()
    boot.run(kernel.path, Job((PYTHON, "-c", code), tmp_path, watchdog_s=30), stdout=stdout, stderr=io.BytesIO())
    assert stdout.getvalue() == bytes(range(256)) * 64


def test_environment_is_exactly_the_one_given(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAK", "1")
    ran = run_in_lab(kernel, ("/usr/bin/env",), results=tmp_path, env={"PATH": "/bin", "ONE": "two words"})
    assert sorted(ran.stdout.splitlines()) == ["ONE=two words", "PATH=/bin"]


def test_the_command_starts_in_its_folder(kernel: Kernel, tmp_path: Path) -> None:
    assert sh(kernel, tmp_path, "pwd", cwd=Path("/usr/lib")).stdout == "/usr/lib\n"


def test_only_the_results_folder_reaches_the_host(kernel: Kernel, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    places = [tmp_path / "elsewhere", Path("/etc/fabriclab-test"), Path("/var/fabriclab-test"), Path("/fabriclab-test")]
    victim = tmp_path / "victim"
    victim.write_text("before")
    script = "; ".join(
        [
            "set -e",
            *(f"echo x > {place}; test -s {place}" for place in places),
            f"echo after > {victim}",
            "echo kept > kept",
        ]
    )
    ran = sh(kernel, results, script, cwd=results)
    assert (ran.status, ran.stderr) == (0, "")
    assert (results / "kept").read_text() == "kept\n"
    assert [place for place in places if place.exists()] == []
    assert victim.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results", "victim"]


@pytest.mark.parametrize("name", ["with space", "comma,colon:", "öäü", "quote'\"", "back\\slash", "=equals", "-dash"])
def test_the_results_folder_may_have_any_name(kernel: Kernel, tmp_path: Path, name: str) -> None:
    results = tmp_path / name
    results.mkdir()
    ran = run_in_lab(kernel, ("touch", "here"), results=results, cwd=results)
    assert (ran.status, ran.stderr) == (0, "")
    assert (results / "here").exists()


def test_virtual_time_starts_where_it_should_and_costs_nothing(in_lab: InLab) -> None:
    ran = in_lab("import time; first = time.time_ns(); time.sleep(1000); print([first, time.time_ns() - first])")
    first_ns, slept_ns = ran.json
    assert 0 <= first_ns - boot.VIRTUAL_START_NS < 10**9
    assert 1000 * 10**9 <= slept_ns < 1000 * 10**9 + 10**8
    assert ran.outcome.wall_s < 2


def test_computing_takes_no_virtual_time(in_lab: InLab) -> None:
    ran = in_lab("import time; first = time.time_ns(); sum(range(1_000_000)); print(time.time_ns() - first)")
    assert ran.json < 1000  # tens of milliseconds of a real clock


@pytest.mark.alone
def test_the_real_clock_is_real(in_lab: InLab) -> None:
    before_s = time.time()
    ran = in_lab("import time; first = time.time(); time.sleep(1); print([first, time.time()])", clock="real")
    first_s, last_s = ran.json
    assert ran.outcome.wall_s >= 1
    assert before_s - 1 <= first_s <= last_s - 1 <= last_s <= time.time() + 1


@pytest.mark.parametrize("memory_bytes", [256 << 20, 1 << 30])
def test_memory_is_as_asked(in_lab: InLab, memory_bytes: int) -> None:
    ran = in_lab("print(open('/proc/meminfo').readline().split()[1])", memory_bytes=memory_bytes)
    assert 0.85 * memory_bytes < ran.json * 1024 <= memory_bytes


def test_more_memory_than_there_is_is_one_line(kernel: Kernel, tmp_path: Path) -> None:
    with pytest.raises(boot.LabError, match=r"^no room for \d+ MiB of guest memory in .+: set FABRICLAB_MEMORY"):
        sh(kernel, tmp_path, "exit 0", memory_bytes=1 << 50)


def test_equal_seeds_give_equal_entropy(in_lab: InLab) -> None:
    code = "import os, uuid; print([os.urandom(16).hex(), str(uuid.uuid4()), open('/proc/self/maps').read()])"
    one, again, other = (in_lab(f"import json; {code.replace('print(', 'print(json.dumps(')})", seed=seed).json
                         for seed in (1, 1, 2))  # fmt: skip
    assert one == again
    assert one[0] != other[0]
    assert one[1] != other[1]


def test_events_reach_the_host_in_order(kernel: Kernel, tmp_path: Path) -> None:
    code = """import json, os
for number in range(1000):
    os.write(3, json.dumps({"event": "test", "number": number}).encode() + b"\\n")"""
    events: list[dict[str, Any]] = []
    job = Job((PYTHON, "-c", code), tmp_path, watchdog_s=30)
    boot.run(kernel.path, job, lambda event, wall_s: events.append(event), io.BytesIO(), io.BytesIO())
    assert events[0] == {"event": "booted"}
    assert events[1:-1] == [{"event": "test", "number": number} for number in range(1000)]
    assert events[-1] == {"event": "exit", "status": 0}


# --- ends that nobody wished for


@pytest.mark.parametrize("code", ["while True: pass", "while True: print(100 * 'x')", LOOP])
def test_the_watchdog_ends_a_guest_that_does_not_end(in_lab: InLab, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(session, "_STOP_GRACE_S", 1.0)
    ran = in_lab(code, watchdog_s=2)
    assert (ran.outcome.ended_as, ran.status != 0) == ("watchdog", True)
    assert 2 <= ran.outcome.wall_s < 6


def test_the_watchdog_lets_the_command_keep_what_it_has(in_lab: InLab, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    code = "import time\ntry:\n    while True: time.sleep(0.001)\n"
    code += f"except KeyboardInterrupt:\n    open({str(kept)!r}, 'w')\n"
    ran = in_lab(code, watchdog_s=1)
    assert ran.outcome.ended_as == "watchdog"
    assert kept.exists()
    assert ran.outcome.wall_s < 4


def stopped(kernel: Kernel, results: Path, code: str) -> Outcome:
    """Run `code` and ask it to stop half a second after the lab is up."""
    stop = Stop()

    def on_event(event: dict[str, Any], wall_s: float) -> None:
        if event["event"] == "booted":
            threading.Timer(0.5, stop.request).start()

    job = Job((PYTHON, "-c", code), results, watchdog_s=30)
    return boot.run(kernel.path, job, on_event, io.BytesIO(), io.BytesIO(), stop)


def test_a_stop_interrupts_the_command_and_lets_it_finish(kernel: Kernel, tmp_path: Path) -> None:
    code = f"""import sys, time
try:
    while True:
        time.sleep(0.001)
except KeyboardInterrupt:
    open({str(tmp_path / "kept")!r}, "w").write("kept")
    sys.exit(7)"""
    outcome = stopped(kernel, tmp_path, code)
    assert (outcome.status, outcome.ended_as) == (7, "interrupted")
    assert outcome.wall_s < 5
    assert (tmp_path / "kept").read_text() == "kept"


@pytest.mark.parametrize("code", ["while True: pass", f"import signal; signal.signal(2, signal.SIG_IGN); {LOOP}"])
def test_a_stop_ends_even_who_does_not_listen(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(session, "_STOP_GRACE_S", 1.0)
    outcome = stopped(kernel, tmp_path, code)
    assert outcome.ended_as == "interrupted"
    assert outcome.wall_s < 6


def test_a_kernel_that_dies_is_told(kernel: Kernel, tmp_path: Path) -> None:
    def on_event(event: dict[str, Any], wall_s: float) -> None:
        (pid,) = children_of(os.getpid())
        os.kill(pid, signal.SIGKILL)

    job = Job((PYTHON, "-c", LOOP), tmp_path, watchdog_s=30)
    outcome = boot.run(kernel.path, job, on_event, io.BytesIO(), io.BytesIO())
    assert (outcome.status, outcome.ended_as) == (1, "died")
    assert outcome.wall_s < 5


def test_a_command_that_eats_all_memory_fails_alone(in_lab: InLab) -> None:
    ran = in_lab("eaten = [bytearray(1 << 20) for _ in range(1000)]", memory_bytes=256 << 20)
    assert (ran.status, ran.outcome.ended_as) == (137, "failed")


# --- nothing stays behind

BOOTER = f"""import sys
from pathlib import Path
from lab.boot import run
from lab.session import Job
job = Job(({PYTHON!r}, "-c", {LOOP!r}), Path(sys.argv[2]))
run(Path(sys.argv[1]), job, lambda event, wall_s: print(event["event"], flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_process_takes_its_lab_along(kernel: Kernel, tmp_path: Path, number: signal.Signals) -> None:
    with memory_folder() as memory:
        mounts = Path("/proc/mounts").read_text()
        words = [PYTHON, "-c", BOOTER, str(kernel.path), str(tmp_path)]
        environment = {**os.environ, "FABRICLAB_MEMORY": str(memory), "TMPDIR": str(tmp_path)}
        with subprocess.Popen(
            words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"booted\n"
            (lab,) = children_of(process.pid)
            assert len(processes_of_session(lab)) > 1  # the kernel and its guests
            process.send_signal(number)
            process.wait(5)
        assert within(2, lambda: not processes_of_session(lab))
        assert list(memory.iterdir()) == []
        assert list(tmp_path.iterdir()) == []
        assert Path("/proc/mounts").read_text() == mounts


def test_a_folder_of_a_dead_lab_is_swept(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # where a longer path would not be used
        monkeypatch.setattr(tempfile, "tempdir", short)
        stale, alive = (Path(short, f"fabriclab-lab-{pid}-x") for pid in (NO_PID, os.getppid()))
        booting = Path(short, f"fabriclab-lab-{NO_PID}-y")  # perhaps: of a container that shares the folder alone
        for folder in (stale, alive, booting):
            folder.mkdir()
        for folder in (stale, alive):
            os.utime(folder, (0, 0))
        assert sh(kernel, tmp_path, "exit 0").status == 0
        assert sorted(Path(short).iterdir()) == sorted([alive, booting])


def test_two_labs_run_at_once(kernel: Kernel, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(lambda folder: sh(kernel, folder, f"sleep 1; pwd > {folder}/out", cwd=folder), folders))
    assert [each.status for each in ran] == [0, 0]
    assert [(folder / "out").read_text() for folder in folders] == [f"{folder}\n" for folder in folders]


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder of its own for guest memory, in memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Path(folder)
