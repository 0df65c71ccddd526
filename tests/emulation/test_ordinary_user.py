"""A run as a user without any privilege leaves the host as it found it, and its own files whole."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.cache import environment_python
from lab.kernel import Kernel
from tests.conftest import ROOT
from tests.emulation import host
from tests.emulation.captures import read
from tests.emulation.conftest import RUN_LIMIT_S, run_experiment
from tests.emulation.same import unlike

pytestmark = [pytest.mark.lab, pytest.mark.alone]

NOBODY = 65534
WATCHED = ("/etc", "/run", "/var", "/tmp", "/dev/shm", "/home", "/root", "/opt", "/srv")


@dataclass(frozen=True)
class Visit:
    """What nobody did: the run directory, how it ended, and the host before and after."""

    base: Path
    folder: Path
    status: int
    stderr: str
    before: dict[str, str]
    after: dict[str, str]
    new_files: list[str]


def processes_of(user: int) -> list[str]:
    found = subprocess.run(["ps", "-o", "pid=,args=", "-u", str(user)], capture_output=True, text=True)
    return sorted(found.stdout.splitlines())


def files_of(user: int, stamp: Path) -> list[str]:
    """Everything that the user made or changed on the host since the stamp."""
    places = [place for place in WATCHED if Path(place).is_dir()]
    words = ["find", *places, "-uid", str(user), "(", "-newer", str(stamp), "-o", "-cnewer", str(stamp), ")"]
    return sorted(subprocess.run(words, capture_output=True, text=True).stdout.splitlines())


def as_nobody(base: Path, kernel: Kernel, *words: str) -> list[str]:
    """The command that runs WORDS as nobody, who sees repository, environment and kernel below `base`.

    They are bind mounts in a mount namespace of their own: their real places may be closed to others.
    """
    python = environment_python()
    assert python is not None
    mounts = {ROOT: "repository", python.parents[2]: "cache/environments", kernel.path.parents[1]: "cache/kernels"}
    lines = [f"mount --bind {shlex.quote(str(real))} {base / name}" for real, name in mounts.items()]
    enter = f"exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --no-new-privs -- "
    variables = ["env", "-i", f"PATH={os.defpath}", f"HOME={base / 'home'}", f"FABRICLAB_CACHE={base / 'cache'}"]
    lines += [
        f"cd {base / 'out'}",
        enter + shlex.join([*variables, str(base / "repository" / "run_experiment"), *words]),
    ]
    return ["unshare", "--mount", "--propagation", "private", "sh", "-e", "-c", "\n".join(lines)]


@pytest.fixture(scope="module")
def visit(kernel: Kernel) -> Iterator[Visit]:
    if os.geteuid():
        pytest.skip("only root can become nobody (as an ordinary user every other lab test is such a run)")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("this root may not make a mount namespace")
    base = Path(tempfile.mkdtemp(prefix="fabriclab-nobody-", dir="/tmp"))
    try:
        yield pay_visit(base, kernel)
    finally:
        shutil.rmtree(base)


def pay_visit(base: Path, kernel: Kernel) -> Visit:
    base.chmod(0o755)
    for name in ("repository", "cache", "cache/environments", "cache/kernels", "out", "home"):
        (base / name).mkdir()
    for name in ("cache", "out", "home"):
        os.chown(base / name, NOBODY, NOBODY)
    stamp = base / "stamp"
    stamp.touch()
    before = {**host.state(), "processes": "\n".join(processes_of(NOBODY))}
    words = as_nobody(base, kernel, "incast", "--only", "--set", "senders=4", "--out", "run")
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_LIMIT_S)
    after = {**host.state(), "processes": "\n".join(processes_of(NOBODY))}
    return Visit(base, base / "out" / "run", done.returncode, done.stderr, before, after, files_of(NOBODY, stamp))


def test_it_works_without_privilege(visit: Visit) -> None:
    assert visit.status == 0, visit.stderr
    assert [line.partition(":")[0] for line in visit.stderr.splitlines()] == ["main"]
    assert (visit.folder / "report.html").is_file()
    assert json.loads((visit.folder / "summary.json").read_text())["complete"] is True


def test_it_changes_nothing_on_the_host(visit: Visit) -> None:
    assert visit.after == visit.before
    kept = [visit.base / "out", visit.base / "cache" / "cores", visit.base / "cache" / "matplotlib"]
    others = [path for path in map(Path, visit.new_files) if not any(path.is_relative_to(folder) for folder in kept)]
    assert others == [visit.base / "cache"]


def test_its_files_are_its_own(visit: Visit) -> None:
    assert {path.stat().st_uid for path in visit.folder.rglob("*")} == {NOBODY}


def test_it_measures_what_root_measures(visit: Visit, tmp_path: Path) -> None:
    done = run_experiment(tmp_path / "run", "incast", "--only", "--set", "senders=4")
    assert done.status == 0, done.stderr
    captures = [f"pcap/h{number}-eth0.pcap" for number in range(2, 6)]
    assert unlike(done.folder, visit.folder, ["measured.json", "telemetry/queue.parquet", *captures]) == []


def test_its_captures_are_complete(visit: Visit) -> None:
    measured = json.loads((visit.folder / "measured.json").read_text())
    assert set(measured["capture"].values()) == {0}
    assert len(measured["flows"]) == 4
    for flow in measured["flows"]:
        frames = read(visit.folder / "pcap" / f"{flow['sender']}-eth0.pcap")
        sent = [
            frame for frame in frames if frame.is_ip and frame.destination == "10.0.0.1" and frame.wire_bytes > 14 + 60
        ]
        assert len(sent) == flow["tcp_info"]["data_segs_out"] > 500
