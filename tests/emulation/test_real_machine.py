"""Runs on this machine's own kernel: what they need, what they show while they run, and that nothing stays behind.

They need root; where this kernel lacks netem the links have no delay. What cannot run here is skipped with the reason.
tests/emulation/test_real_machine_in_the_lab.py runs them on a kernel that has all.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from experiments import own_kernel
from lab import ledger
from lab import machine as session
from tests.conftest import ROOT
from tests.emulation import host
from tests.emulation.conftest import run_experiment
from tests.emulation.test_shell import opened
from topologies import trial
from topologies.ground import OWN_KINDS

pytestmark = pytest.mark.alone

LIMIT_S = 60.0
ON_MACHINE = ("incast", "--only", "--clock", "real", "--on", "machine")


@pytest.fixture(autouse=True, scope="module")
def _needs_this_machine() -> None:
    """Skips where runs cannot take place on this machine's own kernel."""
    obstacles = own_kernel.machine_obstacles()
    if obstacles:
        pytest.skip("; ".join(f"{each.what} (mended by: {each.fix})" for each in obstacles))


def keys(**values: str) -> list[str]:
    """A run of 8 senders over 20 Mb/s, without delays where there is no netem."""
    still = {} if "netem" in trial.kinds() else {"delay": "0ns", "switch_delay": "0ns"}
    given = {"senders": "8", "rate": "20Mbps", "bytes": "64KiB", "rounds": "2", **still, **values}
    return [f"--set={key}={value}" for key, value in given.items()]


def namespace() -> Path:
    """The process namespace of the session that the ledger tells of."""
    (first,) = re.findall(r'"pid": (\d+)', (ledger.FOLDER / "ledger").read_text())
    return Path(f"/proc/{first}/ns/pid").readlink()


def processes(within: Path) -> list[int]:
    """The processes of a process namespace, but those that wait only to be reaped: the first process of a container
    may take its time over orphans."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):  # ended, or not to be seen
            if (path / "ns/pid").readlink() == within and ledger.Process.of(int(path.name)).is_alive:
                found.append(int(path.name))
    return found


@contextmanager
def started(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`./run_experiment` on this machine's own kernel, once its fabric is built and named."""
    command = [str(ROOT / "run_experiment"), *ON_MACHINE, *words, "--out", str(folder)]
    with subprocess.Popen(command, cwd=folder.parent, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert host.within(LIMIT_S, lambda: (ledger.NAMES / "fl-h9").exists() or process.poll() is not None)
            assert process.poll() is None, process.communicate()[1]
            yield process
        finally:
            process.kill()
            process.wait()
            session.clean()


def clean() -> str:
    """What `run_experiment clean` says."""
    return subprocess.run([str(ROOT / "run_experiment"), "clean"], capture_output=True, text=True, check=True).stdout


LONG = ("--set=rounds=1000",)


def test_a_run_leaves_results_and_nothing_else(tmp_path: Path) -> None:
    done = run_experiment(tmp_path / "run", *ON_MACHINE, "--json", *keys())
    assert done.status == 0, done.stderr
    assert done.host_after == done.host_before
    assert not ledger.FOLDER.exists()
    summary, provenance = json.loads(done.stdout), done.document("provenance.json")
    assert (summary["clock"], provenance["place"], len(summary["rounds"])) == ("real", "machine", 2)
    assert provenance["kernel"]["version"] == os.uname().release
    assert 0.5 * 20e6 < summary["goodput_bps"] < 20e6
    assert sorted(path.name for path in (tmp_path / "run/pcap").iterdir())[-1] == "leaf1-eth1.pcap"


def test_the_fabric_can_be_looked_at_while_it_runs(tmp_path: Path) -> None:
    with started(tmp_path / "run", *keys(), *LONG):
        names = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
        assert {f"fl-h{number}" for number in range(1, 10)} | {"fl-switches"} <= set(re.findall(r"fl-\w+", names))
        pinged = subprocess.run(
            ["ip", "netns", "exec", "fl-h2", "ping", "-c", "1", "-W", "5", "10.0.0.3"], capture_output=True, text=True
        )
        assert pinged.returncode == 0, pinged.stdout
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
        assert "leaf1" not in links  # in a namespace of their own


def test_after_kill_9_the_kernel_ends_all_and_clean_removes_the_names(tmp_path: Path) -> None:
    before = host.state()
    with started(tmp_path / "run", *keys(), *LONG) as process:
        own = namespace()
        assert len(processes(own)) >= 4  # the first one, the guest, Open vSwitch's two
        process.kill()
        process.wait()
        assert host.within(2.0, lambda: not processes(own))
        assert host.state()["mounts"] != before["mounts"]
        said = clean()
        assert "fl-h1" in said and "fl-switches" in said
        assert host.state() == before
        assert not ledger.FOLDER.exists()
        assert clean() == "nothing is left of any run\n"


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    before = host.state()
    with started(tmp_path / "killed", *keys(), *LONG) as process:
        process.kill()
        process.wait()
        done = run_experiment(tmp_path / "run", *ON_MACHINE, *keys())
        assert done.status == 0, done.stderr
        assert done.host_after == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_it_has_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    before = host.state()
    with started(tmp_path / "run", *keys(), *LONG) as process:
        own = namespace()
        assert host.within(LIMIT_S, lambda: (tmp_path / "run/measured.json").exists())
        process.send_signal(number)
        _, said = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 130, said
    assert "interrupted" in said
    assert host.state() == before and not processes(own)
    measured = json.loads((tmp_path / "run/measured.json").read_text())
    assert measured["rounds"] and not measured["complete"]


def test_clean_does_not_touch_a_run_that_goes_on(tmp_path: Path) -> None:
    with started(tmp_path / "run", *keys(), *LONG) as process:
        done = subprocess.run([str(ROOT / "run_experiment"), "clean"], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"another run uses this machine's own kernel already (process {process.pid})" in done.stderr
        second = run_experiment(tmp_path / "second", *ON_MACHINE, *keys())
        assert second.status == 2 and f"(process {process.pid})" in second.stderr
        assert (ledger.NAMES / "fl-h1").exists() and process.poll() is None


@contextmanager
def network(name: str) -> Iterator[None]:
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def test_a_name_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    with network("fl-h1"):
        done = run_experiment(tmp_path / "run", *ON_MACHINE, *keys())
        assert done.status == 2
        (line,) = done.stderr.strip().splitlines()
        assert "the network name fl-h1 is taken" in line and "--clock virtual" in line
        assert done.host_after == done.host_before
        assert clean() == "nothing is left of any run\n"
        assert (ledger.NAMES / "fl-h1").exists()


def test_a_name_that_has_become_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    with started(tmp_path / "run", *keys(), *LONG) as process:
        process.kill()
        process.wait()
        subprocess.run(["ip", "netns", "delete", "fl-h1"], check=True)
        with network("fl-h1"):
            assert "fl-h1 left alone" in clean()
            assert (ledger.NAMES / "fl-h1").exists()


def test_beside_another_mininet_nothing_is_begun(tmp_path: Path) -> None:
    words = ["mnexec", "-c", "bash", "--norc", "--noediting", "-is", "mininet:h1"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as other:
        try:
            done = run_experiment(tmp_path / "run", *ON_MACHINE, *keys())
        finally:
            other.kill()
    assert done.status == 2
    (line,) = done.stderr.strip().splitlines()
    assert f"another Mininet is running (process {other.pid}, mininet:h1)" in line and "--clock virtual" in line


def test_a_full_disk_is_one_line_and_nothing_stays(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=True)
    try:
        done = run_experiment(small / "run", *ON_MACHINE, *keys())
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert done.status == 1
    assert "No space left on device" in done.stderr and "Traceback" not in done.stderr
    assert done.host_after == done.host_before and not ledger.FOLDER.exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["--set=pfc=on", "--set=traffic_class=lossless"],
            "pfc: on is given on this machine's own kernel; allowed: off",
        ),
        (["--set=transport=roce"], "roce is given on this machine's own kernel"),
        (["--set=rto_min=1ms"], "rto_min: 1ms is given; allowed: whole timer ticks of this kernel"),
        (["--set=delay=1us"], "delay, switch_delay: 1us, "),
    ],
)
def test_what_this_kernel_cannot_do_is_refused(tmp_path: Path, given: list[str], said: str) -> None:
    if trial.kinds() >= OWN_KINDS and ("pfc" in given[0] or "roce" in given[0]):
        pytest.skip("this kernel has the queues that PFC and RoCE need")
    if "rto_min" in given[0] and trial.here().tick_ns == 1_000_000:
        pytest.skip("this kernel's timers tick every millisecond")
    if "delay" in given[0] and "netem" in trial.kinds():
        pytest.skip("this kernel has netem")
    done = run_experiment(tmp_path / "run", *ON_MACHINE, *keys(), *given)
    assert done.status == 2
    (line,) = done.stderr.strip().splitlines()
    assert said in line and "--clock virtual" in line
    assert not (tmp_path / "run").exists()


def test_the_prompt_answers_and_ctrl_c_ends_what_runs_at_it(tmp_path: Path) -> None:
    before = host.state()
    words = ("--clock", "real", "--on", "machine", *keys(senders="2"))
    with opened(
        tmp_path / "run", *(word for word in words if "bytes" not in word and "rounds" not in word)
    ) as terminal:
        terminal.read_until("mininet> ")
        assert "h1 h2 h3 leaf1" in terminal.say("nodes")
        assert "2 received" in terminal.say("h1 ping -c 2 -i 0.2 h2")
        os.write(terminal.ours, b"h1 ping h2\n")
        terminal.read_until("icmp_seq=2")
        os.write(terminal.ours, b"\x03")
        assert "packet loss" in terminal.read_until("mininet> ")
        os.write(terminal.ours, b"exit\n")
        assert terminal.end() == 0
    assert host.state() == before


def test_ctrl_c_twice_ends_at_once_and_leaves_no_name(tmp_path: Path) -> None:
    before = host.state()
    with started(tmp_path / "run", *keys(), *LONG) as process:
        own = namespace()
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        assert process.wait(LIMIT_S) == 130
        assert host.within(2.0, lambda: not processes(own))
        assert host.state() == before


def test_a_launched_program_finds_hosts_by_name_and_this_machines_file_stays(tmp_path: Path) -> None:
    before = host.state(), Path("/etc/hosts").read_bytes()
    still = [word for word in keys() if "delay" in word]
    words = ("launch", "-n", "2", "--topology", "star", "--clock", "real", "--on", "machine", "--set=rate=100Mbps")
    command = [
        str(ROOT / "run_experiment"),
        *words,
        *still,
        "--out",
        str(tmp_path / "run"),
        "--",
        "getent",
        "hosts",
        "h2",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/ranks/0.out").read_text().split() == ["10.0.0.2", "h2"]
    assert (host.state(), Path("/etc/hosts").read_bytes()) == before
