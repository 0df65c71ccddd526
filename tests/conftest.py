"""What all tests share: the lab, a way to run code in it, and the rule that it is used where there is one.

A test marked `lab` boots the lab kernel. Without a kernel, or without the programs that a run needs, it is skipped,
and the reason is printed. Where there is a kernel, a run of all tests in which no lab test ran is a failure.

`make test` runs the tests twice over: first all but those marked `alone`, on all cores; then these, one at a time.
"""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from experiments.preflight import lab_checks
from experiments.runner import guest_environment
from lab import boot
from lab.kernel import Kernel, find_kernel
from lab.session import Job, Outcome

# A shell starts what it puts in the background with SIGINT ignored, and children inherit that: Ctrl-C tests would wait
# for ever for programs that cannot hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is slow and no failure, and a folder that others own is no place for a database.
hypothesis.settings.register_profile("fabriclab", deadline=None, database=None)
hypothesis.settings.load_profile("fabriclab")

ROOT = Path(boot.__file__).resolve().parents[1]
NO_LAB = "the lab cannot boot here: "
HALVES = ("not alone", "alone")  # what `make test` asks for with -m


@dataclass(frozen=True)
class Ran:
    """How Python code ended inside the lab, what it wrote, and the boot it ran in."""

    status: int
    stdout: str
    stderr: str
    outcome: Outcome

    @property
    def json(self) -> Any:
        """The JSON document that the code printed; fails the test when it did not end well."""
        assert self.status == 0, self.stderr or self.outcome
        return json.loads(self.stdout)


InLab = Callable[..., Ran]


def lab_trouble() -> str:
    """Why no lab can be booted on this machine, empty when one can: a boot that fails all the same is a failed test."""
    missing = [check for check in lab_checks() if not check.holds and check.name != "boot"]
    return "; ".join(f"{check.name}: {check.seen} ({check.fix})" for check in missing)


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    """The lab kernel; skips when the lab cannot boot."""
    trouble = lab_trouble()
    found = find_kernel()
    if trouble or found is None:
        pytest.skip(f"{NO_LAB}{trouble}")
    return found


@pytest.fixture(autouse=True)
def _lab_where_marked(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("lab"):
        request.getfixturevalue("kernel")


@pytest.fixture
def in_lab(kernel: Kernel, tmp_path: Path) -> InLab:
    """Run Python code (`-c CODE ARGUMENTS...`) in a lab with the environment's Python, in the repository's folder.

    Keywords are those of lab.session.Job. Its results folder is the test's `tmp_path`.
    """

    def run(code: str, *arguments: str, **job: Any) -> Ran:
        return run_in_lab(kernel, (sys.executable, "-c", code, *arguments), results=tmp_path, **job)

    return run


def run_in_lab(kernel: Kernel, argv: tuple[str, ...], **job: Any) -> Ran:
    """Boot and run `argv`; keywords are those of lab.session.Job."""
    asked = Job(argv, **{"env": guest_environment(), "cwd": ROOT, "watchdog_s": 60.0, **job})
    stdout, stderr = io.BytesIO(), io.BytesIO()
    outcome = boot.run(kernel.path, asked, stdout=stdout, stderr=stderr)
    return Ran(outcome.status, stdout.getvalue().decode(), stderr.getvalue().decode(), outcome)


# --- the lab is used where there is one


class LabRule:
    """What became of the lab tests, also of those that other processes ran."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.has_run = False
        self.trouble = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "lab" not in report.keywords:
            return
        if report.skipped and isinstance(report.longrepr, tuple):
            _, found, reason = report.longrepr[2].partition(NO_LAB)
            self.trouble = reason if found else self.trouble
        elif report.when == "call":
            self.has_run = True

    def broken(self) -> str:
        """What is wrong with a run of all tests that left a bootable lab unused; empty when nothing is."""
        if is_narrowed(self.config) or self.has_run or find_kernel() is None:
            return ""
        return f"the lab kernel is there, but no lab test ran: {self.trouble or 'none was found'}"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and self.broken():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.trouble:
            terminalreporter.write_line(f"lab tests skipped: {self.trouble}", yellow=True)
        if self.broken():
            terminalreporter.write_line(f"FAILED: {self.broken()}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # one process judges, and those that run tests for it do not
        config.pluginmanager.register(LabRule(config))


def is_narrowed(config: pytest.Config) -> bool:
    """Whether less than all tests, or one of their halves, was asked for."""
    options = config.option
    by_options = options.keyword or options.deselect or options.ignore or options.ignore_glob or options.collectonly
    by_mark = options.markexpr not in ("", *HALVES)
    return bool(by_options or by_mark or config.args_source is not pytest.Config.ArgsSource.TESTPATHS)
