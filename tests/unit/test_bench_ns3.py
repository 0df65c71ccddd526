"""The bench's ns-3: where it is looked for, what is said when it fails, and that its workload is ours."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from experiments import bench_ns3, limits
from experiments.spec import Spec, known
from topologies.units import format_duration, format_rate
from workloads.rounds import Rounds, start_offsets_ns


def fake_python(folder: Path, script: str) -> str:
    """An executable that stands for a Python: it ignores its arguments and runs `script`."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return str(python)


def test_the_named_python_is_taken_when_it_has_ns3(tmp_path: Path) -> None:
    python = fake_python(tmp_path, "exit 0")
    assert bench_ns3.find_ns3({bench_ns3.PYTHON_VARIABLE: python}) == python


@pytest.mark.parametrize("named", ["without ns", "no such file", "no program"])
def test_a_python_that_cannot_import_ns_is_not_taken(tmp_path: Path, named: str) -> None:
    python = fake_python(tmp_path, "exit 1")
    if named == "no such file":
        Path(python).unlink()
    elif named == "no program":
        Path(python).chmod(0o644)
    assert bench_ns3.find_ns3({bench_ns3.PYTHON_VARIABLE: python}) is None


def test_a_real_python_is_asked_for_both_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    environ = {bench_ns3.PYTHON_VARIABLE: sys.executable}
    found = []
    for module in ("ns", "cppyy"):
        found.append(bench_ns3.find_ns3(environ))
        (tmp_path / f"{module}.py").touch()
    assert [*found, bench_ns3.find_ns3(environ)] == [None, None, sys.executable]


def test_without_the_variable_the_running_python_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path, "exit 0"))
    assert bench_ns3.find_ns3({}) == sys.executable


def test_a_result_is_read_and_chatter_on_stderr_is_not(tmp_path: Path) -> None:
    python = fake_python(tmp_path, """echo noise >&2; echo '{"rounds_s": [0.2], "wall_s": 1.5}'""")
    assert bench_ns3.measure(python) == {"rounds_s": [0.2], "wall_s": 1.5}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo first >&2; echo 'ImportError: libns3' >&2; exit 1", "failed: ImportError: libns3"),
        ("exit 3", "failed: exit status 3"),
        ("exec sleep 30", "did not finish within 0.5 s"),
        ("echo no JSON", "printed no result"),
    ],
)
def test_a_failure_is_one_line(tmp_path: Path, script: str, said: str) -> None:
    python = fake_python(tmp_path, script)
    with pytest.raises(RuntimeError) as error:
        bench_ns3.measure(python, timeout_s=0.5)
    assert str(error.value) == f"ns-3 ({python}) {said}"


def test_the_workload_is_the_default_spec() -> None:
    spec = limits.resolve(Spec())
    assert (spec.senders, spec.rounds, spec.seed) == (bench_ns3.SENDERS, bench_ns3.ROUNDS, bench_ns3.SEED)
    assert (spec.sru_bytes, spec.buffer_bytes) == (bench_ns3.SRU_BYTES, bench_ns3.BUFFER_BYTES)
    assert spec.jitter_ns == bench_ns3.JITTER_NS
    assert bench_ns3._DEFAULTS["PointToPointChannel::Delay"] == f"{spec.delay_ns + spec.switch_delay_ns // 2}ns"
    assert bench_ns3._DEFAULTS["PointToPointNetDevice::DataRate"] == format_rate(spec.rate_bps)
    assert bench_ns3._DEFAULTS["TcpSocketBase::MinRto"] == format_duration(spec.rto_min_ns)
    ours = Rounds(spec.sru_bytes, spec.rounds, spec.jitter_ns, spec.seed)
    rounds = [start_offsets_ns(ours, known(spec.senders), number) for number in range(spec.rounds)]
    assert bench_ns3.starts_ns() == [start_ns for starts in rounds for start_ns in starts]


def test_data_packets_of_64_senders_4_rounds_and_182_segments() -> None:
    assert bench_ns3.data_packets() == 64 * 4 * 182
