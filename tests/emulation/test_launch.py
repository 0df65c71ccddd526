"""`run_experiment launch`: what a rank finds, how each way to end is told, the examples where their packages are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.kernel import Kernel
from tests.conftest import ROOT
from tests.emulation.conftest import Done, run_experiment

pytestmark = pytest.mark.lab

SYSTEM_PYTHON = "/usr/bin/python3"
PROGRAM = Path(__file__).with_name("launch_inside.py")
SIGTERM_STATUS, SIGKILL_STATUS = 143, 137
DDP_LIMIT_S = 180.0
LEAST_BUSBW_GBPS = 80.0


def launched(folder: Path, *words: str, options: tuple[str, ...] = ()) -> Done:
    """`./run_experiment launch OPTIONS --out FOLDER -- WORDS`."""
    command = ["launch", "--topology", "star", *options, "--out", str(folder), "--", *words]
    done = subprocess.run(
        [str(ROOT / "run_experiment"), *command], cwd=folder.parent, capture_output=True, text=True, timeout=DDP_LIMIT_S
    )
    return Done(folder, done.returncode, done.stdout, done.stderr, {}, {})


def statuses(run: Done) -> list[Any]:
    return [each["status"] for each in run.document("measured.json")["ranks"]]


def has_module(name: str) -> bool:
    return subprocess.run([SYSTEM_PYTHON, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0


# --- what a rank finds, and what is kept


def test_ranks_find_each_other_and_the_callers_own(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_CALLER", "a b")
    run = launched(tmp_path / "run", sys.executable, str(PROGRAM), "tell", options=("-n", "3", "--capture"))
    assert run.status == 0, run.stderr
    assert statuses(run) == [0, 0, 0]
    told = [json.loads((run.folder / "ranks" / str(rank) / "told.json").read_text()) for rank in range(3)]
    hosts = {f"h{number}": f"10.0.0.{number}" for number in (1, 2, 3)}
    for rank, each in enumerate(told):
        assert (each["RANK"], each["WORLD_SIZE"], each["LOCAL_RANK"], each["LOCAL_WORLD_SIZE"]) == (
            str(rank),
            "3",
            "0",
            "1",
        )
        assert (each["FABRICLAB_HOST"], each["hostname"], each["FABRICLAB_HOSTS"]) == (f"h{rank + 1}",) * 2 + (
            "h1,h2,h3",
        )
        assert (each["MASTER_ADDR"], each["MASTER_PORT"], each["hosts"]) == ("10.0.0.1", "29500", hosts)
        assert (each["cwd"], each["OF_THE_CALLER"], each["PATH"]) == (str(tmp_path), "a b", os.environ["PATH"])
        assert (each["OMP_NUM_THREADS"], each["GLOO_SOCKET_IFNAME"]) == ("1", "eth0")
    assert (run.folder / "ranks" / "0.out").read_text() == "rank 0 of 3, by TCP: 3\n"
    assert list(tmp_path.iterdir()) == [run.folder]
    assert {path.name for path in (run.folder / "pcap").iterdir()} == {"h1-eth0.pcap", "h2-eth0.pcap", "h3-eth0.pcap"}
    assert run.document("measured.json")["nic_bytes"]["h1"]["received"] > 0


def test_a_launch_is_launched_again_from_its_spec(kernel: Kernel, tmp_path: Path) -> None:
    first = launched(tmp_path / "first", SYSTEM_PYTHON, "-c", "print('hello')", options=("-n", "2"))
    assert first.status == 0, first.stderr
    (tmp_path / "elsewhere").mkdir()
    again = run_experiment(tmp_path / "elsewhere" / "again", "run", str(first.folder / "spec.yaml"), "--only")
    assert again.status == 0, again.stderr
    assert (again.folder / "ranks" / "1.out").read_text() == "hello\n"
    assert again.document("measured.json")["launch"] == first.document("measured.json")["launch"]


# --- ways to end


def test_a_rank_that_crashes_ends_the_run_and_is_named(kernel: Kernel, tmp_path: Path) -> None:
    run = launched(tmp_path / "run", SYSTEM_PYTHON, str(PROGRAM), "crash", options=("-n", "3"))
    assert run.status == 1
    assert re.search(r"rank 1 on h2 ended with status 1: .*ValueError: rank 1 has had enough", run.stderr)
    assert statuses(run) == [SIGTERM_STATUS, 1, SIGKILL_STATUS]
    measured = run.document("measured.json")
    assert measured["launch"]["ended"] == "failed"
    assert measured["ranks"][1]["last_lines"][-1] == "ValueError: rank 1 has had enough"
    begin_ns = measured["ranks"][1]["end_ns"]
    ends_s = [(measured["ranks"][rank]["end_ns"] - begin_ns) / 1e9 for rank in (0, 2)]
    assert ends_s == pytest.approx([1.0, 2.0], abs=0.01)
    assert run.document("summary.json")["verdict"] == "a rank failed"


def test_a_program_that_is_found_only_outside_fails_inside(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "program").write_text("#!/no/such/interpreter\n")
    (tmp_path / "program").chmod(0o755)
    run = launched(tmp_path / "run", "./program", options=("-n", "2"))
    assert run.status == 1
    assert re.search(r"rank 0 on h1 ended with status 12[67]: .*program", run.stderr)


def test_a_program_that_never_ends_is_ended_by_its_timeout(kernel: Kernel, tmp_path: Path) -> None:
    run = launched(tmp_path / "run", SYSTEM_PYTHON, str(PROGRAM), "sleep", options=("-n", "2", "--timeout", "20"))
    assert run.status == 1
    assert "after 20s of virtual time (timeout) h1, h2 still ran" in run.stderr
    assert statuses(run) == [SIGTERM_STATUS, SIGTERM_STATUS]
    assert run.document("measured.json")["virtual_s"] == pytest.approx(20, abs=0.01)
    assert run.document("summary.json")["verdict"] == "timeout"


def test_a_program_that_stops_virtual_time_is_ended_with_that_explanation(kernel: Kernel, tmp_path: Path) -> None:
    run = launched(tmp_path / "run", SYSTEM_PYTHON, str(PROGRAM), "spin", options=("-n", "2", "--stall", "5"))
    assert run.status == 1
    assert "no virtual progress in 5 s of wall time: the program computes for longer, or polls without" in run.stderr
    assert run.document("provenance.json")["ended_as"] == "stalled"
    assert (run.folder / "ranks" / "0.out").read_text() == "about to spin\n"


@pytest.mark.parametrize("way", ["poll", "peek"])
def test_who_polls_by_system_calls_lets_virtual_time_go_on(kernel: Kernel, tmp_path: Path, way: str) -> None:
    run = launched(tmp_path / "run", SYSTEM_PYTHON, str(PROGRAM), way, options=("-n", "2", "--stall", "30"))
    assert run.status == 0, run.stderr
    assert run.document("measured.json")["virtual_s"] == pytest.approx(0.1, abs=0.02)


# --- examples


def example(
    folder: Path, name: str, *words: str, ranks: int = 4, options: tuple[str, ...] = (), python: str = SYSTEM_PYTHON
) -> str:
    """What rank 0 of an example printed, which ends well; at 100 Gb/s."""
    line = ("-n", str(ranks), "--set", "rate=100Gbps", *options)
    run = launched(folder / "run", python, str(ROOT / "examples" / f"{name}.py"), *words, options=line)
    assert run.status == 0, run.stderr
    assert statuses(run) == [0] * ranks
    return "".join((run.folder / "ranks" / f"{rank}.out").read_text() for rank in range(ranks))


@pytest.mark.skipif(not has_module("torch"), reason="needs python3-torch: ./provision.sh examples")
def test_pytorch_trains_in_parallel_over_gloo(kernel: Kernel, tmp_path: Path) -> None:
    said = example(tmp_path, "ddp")
    assert said.endswith("4 ranks have the same weights\n")
    assert len(re.findall(r"^step \d: loss \d", said, re.MULTILINE)) == 5


@pytest.mark.skipif(not has_module("torch"), reason="needs python3-torch: ./provision.sh examples")
def test_gloo_fills_the_line(kernel: Kernel, tmp_path: Path) -> None:
    said = example(tmp_path, "gloo_allreduce", "--mib", "16", "--iterations", "2")
    (busbw,) = re.findall(r"busbw ([\d.]+) Gb/s", said)
    assert LEAST_BUSBW_GBPS <= float(busbw) <= 100


@pytest.mark.skipif(
    not (has_module("mpi4py") and shutil.which("mpirun")),
    reason="needs python3-mpi4py and openmpi-bin: ./provision.sh examples",
)
def test_mpi_reduces(kernel: Kernel, tmp_path: Path) -> None:
    said = example(tmp_path, "mpi_allreduce", options=("--mpi",))
    assert len(re.findall(r"^1048576 B .* busbw", said, re.MULTILINE)) == 2


@pytest.mark.skipif(
    not (has_module("mpi4py") and shutil.which("mpirun")), reason="needs python3-mpi4py and openmpi-bin"
)
def test_a_rank_of_mpirun_that_crashes_is_named(kernel: Kernel, tmp_path: Path) -> None:
    script = "from mpi4py import MPI; MPI.COMM_WORLD.rank == 1 and [][0]; MPI.COMM_WORLD.Barrier()"
    words = ("-m", "mpi4py", "-c", script)  # without -m a rank that fails waits for the others in MPI_Finalize
    run = launched(tmp_path / "run", SYSTEM_PYTHON, *words, options=("-n", "2", "--mpi"))
    assert run.status == 1
    assert "rank 1 on h2 ended with status 1: " in run.stderr
    assert "IndexError" in run.stderr


def test_iperf3_sends_by_its_wrapper(kernel: Kernel, tmp_path: Path) -> None:
    said = example(tmp_path, "iperf3_pairs", "--mb", "5", ranks=2, python=sys.executable)
    (gbps,) = re.findall(r"h2 > h1: ([\d.]+) Gb/s", said)
    assert 0 < float(gbps) < 100


def test_perftest_sends_all_its_packets(kernel: Kernel, tmp_path: Path) -> None:
    said = example(tmp_path, "perftest", "--messages", "50", ranks=2, options=("--set", "transport=roce"))
    assert "h1: 3200 rcvd_pkts, 3200 needed" in said
    assert "h2: 3200 sent_pkts, 3200 needed" in said
