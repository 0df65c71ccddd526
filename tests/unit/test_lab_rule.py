"""The rule of tests/conftest.py: where there is a lab kernel, a run of all tests without a lab test is a failure."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import HALVES

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = f"""[tool:pytest]
testpaths = tests
pythonpath = {ROOT}
addopts = --strict-markers --import-mode=importlib
markers =
    alone: needs the machine to itself
    lab: boots the lab kernel
"""
# Behind our conftest stands what there is on a made-up machine.
KERNEL, NO_KERNEL = "SimpleNamespace()", "None"
CHECK = "SimpleNamespace(name={name!r}, holds=False, seen='nothing', fix='make it')"
UNIT = "def test_unit(): pass\n"
LAB = "import pytest\n@pytest.mark.lab\ndef test_lab(): {body}\n"


def run(
    folder: Path, tests: str, *words: str, kernel: str = KERNEL, missing: str = ""
) -> subprocess.CompletedProcess[str]:
    """`pytest WORDS` in a folder with these tests, on a machine with or without a kernel, or something else."""
    (folder / "tests").mkdir()
    (folder / "setup.cfg").write_text(SETTINGS)
    text = (ROOT / "tests" / "conftest.py").read_text()
    machine = "from types import SimpleNamespace\n" + f"find_kernel = lambda: {kernel}\n"
    machine += f"lab_checks = lambda: [{CHECK.format(name=missing) if missing else ''}]\n"
    (folder / "tests" / "conftest.py").write_text(text + "\n" + machine)
    (folder / "tests" / "test_them.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_lab_tests_that_ran_are_enough(tmp_path: Path) -> None:
    done = run(tmp_path, UNIT + LAB.format(body="pass"))
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout


def test_no_lab_test_is_a_failure(tmp_path: Path) -> None:
    done = run(tmp_path, UNIT)
    assert done.returncode == 1
    assert "FAILED: the lab kernel is there, but no lab test ran: none was found" in done.stdout


def test_lab_tests_that_skip_themselves_are_a_failure(tmp_path: Path) -> None:
    done = run(tmp_path, UNIT + LAB.format(body="pytest.skip('not today')"))
    assert done.returncode == 1
    assert "no lab test ran" in done.stdout


def test_lab_tests_skipped_for_a_missing_tool_are_a_failure_that_names_it(tmp_path: Path) -> None:
    done = run(tmp_path, UNIT + LAB.format(body="pass"), missing="tools")
    assert done.returncode == 1
    assert "FAILED: the lab kernel is there, but no lab test ran: tools: nothing (make it)" in done.stdout


def test_without_a_kernel_lab_tests_are_skipped_and_the_reason_is_printed(tmp_path: Path) -> None:
    done = run(tmp_path, UNIT + LAB.format(body="pass"), kernel=NO_KERNEL, missing="lab kernel")
    assert done.returncode == 0
    assert "1 passed, 1 skipped" in done.stdout
    assert "lab tests skipped: lab kernel: nothing (make it)" in done.stdout


def test_a_boot_that_fails_skips_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, UNIT + LAB.format(body="pass"), missing="boot")
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout


@pytest.mark.parametrize("words", [["-k", "unit"], ["-m", "not lab"], ["tests/test_them.py"], ["--collect-only"]])
def test_who_asks_for_less_gets_less(tmp_path: Path, words: list[str]) -> None:
    done = run(tmp_path, UNIT, *words)
    assert done.returncode == 0, done.stdout


def test_a_failure_stays_a_failure(tmp_path: Path) -> None:
    done = run(tmp_path, "def test_unit(): assert False\n")
    assert done.returncode == 1
    assert "1 failed" in done.stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_test_asks_for_all_tests() -> None:
    done = subprocess.run(["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    asked = [line.partition("-m pytest ")[2] for line in done.stdout.splitlines() if "-m pytest" in line]
    assert [shlex.split(words)[-2:] for words in asked] == [["-m", half] for half in HALVES]
    assert {word for words in asked for word in shlex.split(words)} <= {
        *("-p", "no:cacheprovider", "-n", "logical", "--dist", "loadfile", "--no-loadscope-reorder", "-m"),
        *HALVES,
    }


@pytest.mark.parametrize("half", HALVES)
def test_each_half_of_all_tests_is_held_to_it(tmp_path: Path, half: str) -> None:
    assert run(tmp_path, UNIT, "-m", half).returncode == 1


def test_lab_tests_that_other_processes_ran_count(tmp_path: Path) -> None:
    done = run(tmp_path, UNIT + LAB.format(body="pass"), "-n", "2")
    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout
    other = tmp_path / "other"
    other.mkdir()
    assert run(other, UNIT, "-n", "2").returncode == 1
