"""What all tests share: the lab, a way to run code in it, and the rule that it is used where there is one.

A test marked `lab` boots the lab kernel. Without a kernel, or without the programs that a run needs, it is skipped,
and the reason is printed. Where there is a kernel, a run of all tests in which no lab test ran is a failure.
"""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Callable, Iterator
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
LAB_RAN = pytest.StashKey[bool]()
LAB_TROUBLE = pytest.StashKey[str]()


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
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """The lab kernel; skips when the lab cannot boot."""
    trouble = lab_trouble()
    found = find_kernel()
    if trouble or found is None:
        request.config.stash[LAB_TROUBLE] = trouble
        pytest.skip(f"the lab cannot boot here: {trouble}")
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: Any = yield
    if report.when == "call" and not report.skipped and item.get_closest_marker("lab"):
        item.config.stash[LAB_RAN] = True
    return report


def is_narrowed(config: pytest.Config) -> bool:
    """Whether less than all tests was asked for."""
    options = config.option
    by_options = options.keyword or options.markexpr or options.deselect or options.ignore or options.ignore_glob
    return bool(by_options or options.collectonly or config.args_source is not pytest.Config.ArgsSource.TESTPATHS)


def unused_lab(config: pytest.Config) -> str:
    """What is wrong with a run of all tests that left a bootable lab unused; empty when nothing is."""
    if is_narrowed(config) or config.stash.get(LAB_RAN, False) or find_kernel() is None:
        return ""
    trouble = config.stash.get(LAB_TROUBLE, "")
    return f"the lab kernel is there, but no lab test ran: {trouble or 'none was found'}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and unused_lab(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    trouble = config.stash.get(LAB_TROUBLE, "")
    if trouble:
        terminalreporter.write_line(f"lab tests skipped: {trouble}", yellow=True)
    if unused_lab(config):
        terminalreporter.write_line(f"FAILED: {unused_lab(config)}", red=True)
