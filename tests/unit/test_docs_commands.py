"""Every command in README and the documentation, in the folder of somebody who follows them.

What only looks is executed as it stands. What runs labs is carried out as it stands up to the first boot: read,
planned and checked with all its comparison runs; then every experiment really runs, made short by `SMALL`. The commands
that are not executed stand in `READ_ALONE`, `RUN_ELSEWHERE` and `OTHERS`, with the reason.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from experiments import cli
from experiments.commands import running, sweep
from tests.documented import ROOT, Command, blocks, commands, pages, saved
from tests.unit.test_cli import planned as planned

STORED = ROOT / "analysis" / "notebooks" / "runs"

# --- how commands are tried

LOOKS = ("list", "topo", "analyze", "report", "export")  # executed as they stand
NEEDY = ("run", "topo", "analyze", "report", "export", "sweep")
RUNS = ("run", "launch", "shell")  # carried out up to the first boot; each experiment is run
SWEEPS = "sweep"  # planned to the last run; tests/emulation/test_sweep.py executes one
# Commands of ours that the real parser reads, and that are not executed here.
READ_ALONE = {
    "check": "boots a lab: tests/unit/test_preflight.py",
    "kernel": "builds for ten minutes: tests/unit/test_kernel_build.py",
    "bench": "measures for minutes",
    "claims": "runs for minutes: tests/emulation/test_claims.py",
    "papers": "runs for minutes: tests/emulation/test_papers.py",
    "calibrate": "measures for a minute, alone: tests/emulation/test_fidelity.py",
    "clean": "removes what other runs have left, as root: tests/emulation/test_real_machine.py",
}
# How commands of other programs begin, why they are not executed; make is asked for its targets.
OTHERS = {
    "make": "sets this machine up, or is this very test",
    "vagrant": "needs a hypervisor: tests/unit/test_vagrantfile.py",
    "sudo ip netns exec": "looks into a run that is under way",
    "sudo PYTHONPATH=. mn": "needs root: tests/emulation/test_controller.py routes what stock Mininet builds",
    "./provision.sh": "installs packages: tests/emulation/test_provisioning.py",
    "$(python3 lab/cache.py)": "is pytest itself, or serves until it is stopped",
    "python=": "names the environment's interpreter",
    "$python -m distributed": "serves on the machines of a cluster: tests/emulation/test_sweep.py",
    "lock=": "asks the package index for new locks",
    "$lock": "asks the package index for new locks",
}
# Experiment -> keys that make its main run short.
_SHORT_STEPS = {"ranks": "4", "steps": "2", "gradient": "1MiB"}
SMALL: Mapping[str, Mapping[str, str]] = {
    "incast": {"rounds": "1", "senders": "4"},
    "victim": {"duration": "300us"},
    "bisection": {"bytes": "100KB", "leaves": "2", "hosts_per_leaf": "2"},
    "failover": {"duration": "10ms", "failure": "leaf1-spine1:down@5ms", "leaves": "2", "hosts_per_leaf": "2"},
    "collectives": {"ranks": "4", "sizes": "64KiB"},
    "iperf3": {"senders": "2", "duration": "1s"},
    "straggler": _SHORT_STEPS,
    "overlap": _SHORT_STEPS,
    "parallelism": _SHORT_STEPS,
    "compression": {"ranks": "2", "steps": "2"},
    "training_breakdown": {"ranks": "4"},
    "federated": {"clients": "4", "leaves": "2", "rounds": "1"},
    "own": {"rounds": "1", "bytes": "64KiB"},
}
CLAIMS = "docs/claims.md"
RUN_ELSEWHERE = {"clocks": "takes its time on the real clock: tests/emulation/test_clocks.py"}
# Words that stand for a reader's own, in the running text; a folder DIR is there.
STAND_INS = {"NAME": "incast", "N": "9"}
SAVED = {name: text for page in pages().items() for name, text in saved(*page).items()}


def all_commands() -> Iterator[Command]:
    """Every command to type, each text once."""
    found = {each.text: each for page, text in pages().items() for each in commands(page, text)}
    return (each for each in found.values() if not each.is_synopsis and not is_name(each))


def is_name(command: Command) -> bool:
    """Whether the running text just names a command that needs more words."""
    return command.is_in_text and command.ours in ([name] for name in NEEDY)


def words_of(command: Command) -> list[str]:
    """The words of a command of ours, its name in front."""
    words = [STAND_INS.get(word, word) for word in command.ours]
    return words if words[0] in cli._COMMANDS else ["run", *words]


def ours(*names: str) -> list[Command]:
    """Our commands of these names, but for those that are shown to be refused."""
    return [each for each in all_commands() if each.ours and words_of(each)[0] in names and not is_refused(each)]


def is_refused(command: Command) -> bool:
    return command.answer.startswith("run_experiment: ")


def by_hand() -> list[Command]:
    """What runs and was written by hand: the page of claims was made by running what it shows."""
    return [each for each in ours("run") if each.page != CLAIMS]


def labs() -> dict[str, Command]:
    """A command for each experiment that the documentation runs; of `own`, for each file that a reader saves."""
    found: dict[str, Command] = {}
    for command in by_hand():
        words = words_of(command)
        plugs = [word for word in words if word.rpartition("=")[2].partition(":")[0] in SAVED]
        if words[1] == "own" and plugs:
            found.setdefault(plugs[0], command)
        elif words[1] in SMALL and words[1] != "own" and "--clock" not in words:
            found.setdefault(words[1], command)
    return found


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what a reader of the documentation has by then: runs, a capture, a program, `python`."""
    for name, stored in (("incast", "incast"), ("A", "incast"), ("B", "incast-dctcp")):
        shutil.copytree(STORED / stored, tmp_path / "results" / name)
    (tmp_path / "DIR").symlink_to(tmp_path / "results" / "A")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shutil.copy(STORED / "incast" / "pcap" / "leaf1-eth1.pcap", tmp_path / "trace.pcapng")
    for name, text in SAVED.items():
        (tmp_path / name).write_text(text)
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(python.parent), prepend=":")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- what there is


def test_there_are_commands_and_each_is_tried_in_some_way() -> None:
    found = list(all_commands())
    assert len(ours(*LOOKS)) > 5 and len(ours(*RUNS)) > 30
    assert [str(each) for each in found if not each.ours and not each.text.startswith(tuple(OTHERS))] == []
    assert {words_of(each)[0] for each in found if each.ours} == {*LOOKS, *RUNS, SWEEPS, *READ_ALONE}
    assert [begin for begin in OTHERS if not any(each.text.startswith(begin) for each in found)] == []


def test_where_it_is_said_that_a_command_is_tried_elsewhere_there_is_a_test() -> None:
    said = " ".join((*READ_ALONE.values(), *RUN_ELSEWHERE.values(), *OTHERS.values()))
    assert [path for path in re.findall(r"tests/\w+/\w+\.py", said) if not (ROOT / path).is_file()] == []


def test_every_experiment_that_is_shown_is_run() -> None:
    shown = {words_of(each)[1] for each in by_hand()}
    assert {name for name in shown if not name.endswith(".yaml")} == {*SMALL, *RUN_ELSEWHERE}


@pytest.mark.parametrize("line", ["incast --set senders=4", "rm -rf /", "./run_experimental"])
def test_something_else_among_commands_is_found(line: str) -> None:
    with pytest.raises(AssertionError, match=r"p\.md:4: no command that the tests know"):
        list(commands("p.md", f"Text:\n\n    make demo\n    {line}\n"))


def test_a_command_among_other_things_is_found() -> None:
    with pytest.raises(AssertionError, match=r"p\.md:2: a command among others"):
        list(commands("p.md", "```\nresults\n./run_experiment incast\n```\n"))


# --- what is executed as it stands


@pytest.mark.parametrize("command", ours(*LOOKS), ids=str)
def test_what_looks_is_executed(command: Command, newcomer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words_of(command)) == 0, capsys.readouterr().err


def test_the_list_of_targets_is_executed() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    targets = set(re.findall(r"make (\w+)", done.stdout))
    assert {each.words[1] for each in all_commands() if each.words[0] == "make"} <= targets


@pytest.mark.parametrize("command", [each for each in all_commands() if is_refused(each)], ids=str)
def test_what_is_refused_is_refused_as_shown(
    command: Command, newcomer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(command.ours) == 2
    assert re.fullmatch(re.escape(command.answer).replace(r"\.\.\.", ".*"), capsys.readouterr().err.rstrip("\n"))


# --- what runs labs, up to the first boot


@pytest.mark.parametrize("command", ours("run", "launch"), ids=str)
def test_what_runs_is_planned(
    command: Command, newcomer: Path, planned: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words_of(command)) == 0, capsys.readouterr().err
    assert "main" in planned["specs"]


@pytest.mark.parametrize("command", ours("shell"), ids=str)
def test_a_prompt_is_planned(command: Command, newcomer: Path) -> None:
    arguments = cli.command_line().parse_args(command.ours)
    assert running.shell_spec(arguments.topology, running.given_keys(arguments))


@pytest.mark.parametrize("command", ours(SWEEPS), ids=str)
def test_a_sweep_is_planned(command: Command, newcomer: Path) -> None:
    assert sweep._planned(cli.command_line().parse_args(words_of(command))).points


@pytest.mark.parametrize("command", ours(*READ_ALONE), ids=str)
def test_what_is_not_executed_is_read(command: Command) -> None:
    assert cli.command_line().parse_args(words_of(command)).action


def test_every_file_that_is_shown_is_one_that_a_command_uses() -> None:
    used = " ".join(each.text for each in all_commands())
    assert [name for name in SAVED if name not in used] == []
    shown = [each for page in pages().items() for each in blocks(*page) if each.text.startswith("experiment:")]
    assert [each for each in shown if each.text not in SAVED.values()] == []


# --- what runs labs, really


@pytest.mark.lab
@pytest.mark.parametrize("name", labs())
def test_what_runs_is_run_small(name: str, newcomer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = words_of(labs()[name])
    small = [word for key, value in SMALL[words[1]].items() for word in ("--set", f"{key}={value}")]
    assert cli.main([*words, *small, "--only", "--out", "run"]) == 0, capsys.readouterr().err
    assert (newcomer / "run" / "report.html").is_file()


@pytest.mark.lab
def test_a_launch_is_run(newcomer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (command, *_) = ours("launch")
    words = [*command.ours[: command.ours.index("--")], "--out", "run", "--", "python", "train.py"]
    assert cli.main(words) == 0, capsys.readouterr().err
    assert (newcomer / "run" / "ranks" / "0.out").read_text().startswith("29360128 bytes of 7 others in 2.")
