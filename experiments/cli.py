"""The command line: reads the request, hands it to the module that does it, and turns errors into one line and
an exit status.

Exit status: 0 done; 1 the run failed; 2 a bad request. Messages go to stderr, results (a table, or one JSON
document with --json) to stdout.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from experiments import request, rundir, screen
from experiments.analyze import FORMS
from experiments.calibration import DEFAULT_HOSTS, FEWEST_HOSTS
from experiments.commands import claims, concluding, describing, machine, papers, running, sweep
from experiments.commands.interrupting import INTERRUPTED, handling, interrupt
from experiments.launch import STALL_S
from experiments.shape import MOST_HOSTS
from experiments.spec import LAUNCH, OWN, TOPOLOGIES
from topologies.ground import PLACES
from topologies.units import BadRequest

_COMMANDS = (
    "list",
    "check",
    "calibrate",
    "clean",
    "run",
    "launch",
    "shell",
    "topo",
    "analyze",
    "report",
    "export",
    "claims",
    "papers",
    "sweep",
    "kernel",
    "bench",
)

_MOST_REPEATS, _MOST_WORKERS = 100_000, 1_024


class _Parser(argparse.ArgumentParser):
    """Errors are one line, exit status 2."""

    def error(self, message: str) -> NoReturn:
        raise BadRequest(message)


def main(argv: Sequence[str]) -> int:
    """Run one command line; returns its exit status."""
    screen.mend_streams()
    words = list(argv)
    if words and not words[0].startswith("-") and words[0] not in _COMMANDS:
        words.insert(0, "run")
    try:
        with handling((signal.SIGTERM, signal.SIGHUP), interrupt):
            arguments = command_line().parse_args(words or ["--help"])
            status = int(arguments.action(arguments) or 0)
            sys.stdout.flush()
            return status
    except BadRequest as error:
        screen.say(f"run_experiment: {error}")
        return 2
    except KeyboardInterrupt:
        screen.say("run_experiment: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, RuntimeError) as error:
        screen.say(f"run_experiment: {error}")
        return 1


def command_line() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _Parser(
        prog="run_experiment",
        description="fabriclab: AI-cluster networks, packet by packet, in virtual time.",
        epilog="`run_experiment NAME ...` is short for `run_experiment run NAME ...`.",
    )
    parser.add_argument("--version", action="version", version=f"fabriclab {rundir.version()}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    listing = commands.add_parser(
        "list", help="every experiment, its question, the claim it tests; --keys: every spec key"
    )
    listing.add_argument("--keys", action="store_true", help="list the spec's keys instead")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(action=describing.list_all)
    commands.add_parser("check", help="what this machine can run, everything missing, and the fix").set_defaults(
        action=machine.check
    )
    _add_calibrate(commands)
    clean = commands.add_parser("clean", help="remove what a killed run on the real clock has left on this machine")
    clean.set_defaults(action=machine.clean)
    _add_run(commands)
    _add_launch(commands)
    shell = commands.add_parser("shell", help="the Mininet prompt on a fabric")
    shell.add_argument(
        "--topology", default="star", help=f"the fabric: {', '.join((*TOPOLOGIES, OWN))} (default: star)"
    )
    _add_spec_options(shell)
    shell.set_defaults(action=running.shell)
    _add_topo(commands)
    _add_analyze(commands)
    _add_report(commands)
    _add_export(commands)
    _add_claims(commands)
    _add_papers(commands)
    _add_sweep(commands)
    _add_kernel(commands)
    bench = commands.add_parser("bench", help="the figures that this project promises, measured now")
    bench.add_argument("names", nargs="*", metavar="NAME", help="only these benches")
    bench.set_defaults(action=machine.bench)
    return parser


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a spec key; may be given again (list --keys)"
    )


def _add_spec_options(parser: argparse.ArgumentParser) -> None:
    _add_set(parser)
    parser.add_argument(
        "--clock", choices=request.CLOCKS, help="virtual (the default), or real: as fast as this machine's processor"
    )
    _add_place(parser)
    parser.add_argument("--seed", help="seed of all randomness")
    parser.add_argument("--out", type=Path, metavar="DIR", help="run directory (default: results/NAME-DATE-TIME)")


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on",
        choices=PLACES,
        help="where the real clock runs: on this machine's own kernel (machine: needs root), or in the lab's; default:"
        " machine where that can be",
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is given; allowed: seconds above zero")
    return value


def _add_run(commands: Any) -> None:
    run = commands.add_parser("run", help="run an experiment by name, or a YAML file")
    run.add_argument("experiment", metavar="NAME|FILE.yaml", help="an experiment, or a file with one and its keys")
    _add_spec_options(run)
    run.add_argument("--only", action="store_true", help="the main run alone, without the cases it is compared with")
    _add_limits(run)
    run.set_defaults(action=running.run)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--watchdog",
        type=_seconds,
        default=900.0,
        metavar="SECONDS",
        help="wall-clock limit of each run (default: 900)",
    )
    parser.add_argument(
        "--stall",
        type=_seconds,
        default=STALL_S,
        metavar="SECONDS",
        help=f"end a launched program that makes no virtual progress for this wall time (default: {STALL_S:g})",
    )
    parser.add_argument(
        "--scale", metavar="S", help="let time run S times slower: rates / S, durations x S (docs/real-clock.md)"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def _add_calibrate(commands: Any) -> None:
    calibrate = commands.add_parser("calibrate", help="the highest rate that this machine carries on the real clock")
    calibrate.add_argument(
        "--hosts", type=_hosts, default=DEFAULT_HOSTS, metavar="N", help=f"of a star (default: {DEFAULT_HOSTS})"
    )
    _add_place(calibrate)
    calibrate.add_argument("--json", action="store_true", help="print the result as JSON")
    calibrate.set_defaults(action=machine.calibrate)


def _hosts(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not FEWEST_HOSTS <= int(text) <= MOST_HOSTS:
        raise argparse.ArgumentTypeError(f"{text!r} is given; allowed: {FEWEST_HOSTS} to {MOST_HOSTS}")
    return int(text)


def _add_launch(commands: Any) -> None:
    launch = commands.add_parser("launch", help="run any program on a fabric, one rank a host: launch -n 8 -- PROGRAM")
    launch.add_argument("--topology", help=f"the fabric: {', '.join((*TOPOLOGIES, OWN))} (default: leaf_spine)")
    launch.add_argument("-n", dest="ranks", metavar="RANKS", help="how many ranks (default: one for each host)")
    _add_spec_options(launch)
    launch.add_argument("--mpi", action="store_true", help="mpirun on h1 starts the ranks")
    launch.add_argument("--capture", action="store_true", help="capture at every host")
    launch.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="end ranks that still run after this virtual time"
    )
    _add_limits(launch)
    launch.add_argument("program", nargs="+", metavar="-- PROGRAM", help="the program and its words")
    launch.set_defaults(action=running.launch, experiment=LAUNCH, only=True)


def _add_topo(commands: Any) -> None:
    topo = commands.add_parser("topo", help="a fabric on paper: its drawing, its switches and links as JSON")
    topo.add_argument("topology", metavar="NAME", help=", ".join((*TOPOLOGIES, OWN)))
    _add_set(topo)
    topo.add_argument(
        "--draw", type=Path, metavar="FILE", help=f"draw it; the name ends in {', '.join(describing.DRAWINGS)}"
    )
    topo.add_argument("--json", action="store_true", help="print all nodes and links as JSON, as a run's fabric.json")
    topo.add_argument(
        "--orders", type=Path, metavar="FILE", help="write what `python -m controller.launch` routes it by (plain mn)"
    )
    topo.set_defaults(action=describing.topo)


def _add_analyze(commands: Any) -> None:
    found = commands.add_parser("analyze", help="explain captures: any pcap or pcapng, from here or elsewhere")
    found.add_argument(
        "paths", nargs="+", metavar="FILE|DIR", help="captures, run directories (their pcap/), or - for standard input"
    )
    found.add_argument("--json", action="store_true", help="print the explanation as JSON (docs/analyze.md)")
    found.add_argument("--out", type=Path, metavar="DIR", help="write a page with figures, and tables, there")
    found.add_argument("--export", choices=FORMS, help=f"the form of the tables (default: {FORMS[0]})")
    found.set_defaults(action=concluding.analyze)


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report", help="rebuild summary, figures and report of a run directory; of several, one page that compares them"
    )
    report.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="run directories")
    report.add_argument("--json", action="store_true", help="print the summary as JSON (of several runs: a list)")
    report.add_argument(
        "--out", type=Path, metavar="FILE", help="the comparison's page (default: comparison.html beside the first DIR)"
    )
    report.set_defaults(action=concluding.report)


def _add_export(commands: Any) -> None:
    export = commands.add_parser("export", help="every table of a run directory as files: flows, stalls, queue, ...")
    export.add_argument("folder", type=Path, metavar="DIR", help="a run directory")
    export.add_argument("--format", choices=("parquet", "csv"), default="parquet", help="default: parquet")
    export.add_argument("--out", type=Path, metavar="DIR", help="where to (default: tables/ in the run directory)")
    export.set_defaults(action=concluding.export)


def _add_claims(commands: Any) -> None:
    tried = commands.add_parser("claims", help="try every claim of the lecture: one page of what was found")
    mode = tried.add_mutually_exclusive_group()
    mode.add_argument("--quick", dest="mode", action="store_const", const="quick", help="in minutes (the default)")
    mode.add_argument("--full", dest="mode", action="store_const", const="full", help="in full, in half an hour")
    tried.add_argument("--only", nargs="+", metavar="KEY", help="these claims alone")
    tried.add_argument(
        "--out", type=Path, metavar="DIR", help="where to; what it holds is kept (default: results/claims-DATE-TIME)"
    )
    tried.add_argument("--json", action="store_true", help="print all that was found as JSON")
    tried.add_argument("--markdown", type=Path, metavar="FILE", help="write the page as Markdown too, without figures")
    tried.set_defaults(action=claims.claims, mode="quick")


def _add_papers(commands: Any) -> None:
    compared = commands.add_parser("papers", help="published curves and ours over the same axes, with scores")
    compared.add_argument("--only", nargs="+", metavar="NAME", help="these sets of curves alone")
    compared.add_argument(
        "--out", type=Path, metavar="DIR", help="where to; what it holds is kept (default: results/papers-DATE-TIME)"
    )
    compared.add_argument("--json", action="store_true", help="print all points and scores as JSON")
    compared.set_defaults(action=papers.papers)


def _add_sweep(commands: Any) -> None:
    swept = commands.add_parser("sweep", help="many runs of one experiment, over keys and seeds (docs/sweeps.md)")
    swept.add_argument("experiment", metavar="NAME|FILE.yaml", help="an experiment, or a file with one and its keys")
    swept.add_argument(
        "--over",
        action="append",
        default=[],
        metavar="KEY=V1,V2",
        help="a spec key and its values; given again, all combinations are run",
    )
    swept.add_argument("--list", type=Path, metavar="FILE.yaml", help="a list of points, each a mapping of spec keys")
    _add_set(swept)
    swept.add_argument("--seed", help="seed of each point's first run; its others have the next ones")
    swept.add_argument("--repeat", type=_repeats, default=1, metavar="R", help="runs of each point (default: 1)")
    swept.add_argument("--leave-out", action="store_true", help="go on without points that cannot work, and tell them")
    swept.add_argument(
        "--scheduler", metavar="ADDRESS", help="a Dask scheduler that runs already (default: this machine)"
    )
    swept.add_argument("--workers", type=_workers, metavar="N", help="runs at a time here (default: one a core)")
    swept.add_argument("--out", type=Path, metavar="DIR", help="where to; a sweep that it holds is gone on with")
    swept.add_argument("--retry", action="store_true", help="run again what failed before")
    swept.add_argument("--keep", action="store_true", help="keep the run directory of every run, in DIR/runs/")
    swept.add_argument(
        "--watchdog",
        type=_seconds,
        default=900.0,
        metavar="SECONDS",
        help="wall-clock limit of each run (default: 900)",
    )
    swept.add_argument("--json", action="store_true", help="print the points as JSON")
    swept.set_defaults(action=sweep.sweep)


def _repeats(text: str) -> int:
    return _count(text, _MOST_REPEATS)


def _workers(text: str) -> int:
    return _count(text, _MOST_WORKERS)


def _count(text: str, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(most)) or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is given; allowed: 1 to {most:,}")
    return int(text)


def _add_kernel(commands: Any) -> None:
    kernel = commands.add_parser("kernel", help="the lab kernel")
    steps = kernel.add_subparsers(metavar="build|info", required=True, parser_class=_Parser)
    build = steps.add_parser("build", help="build it, or say that it is built")
    build.add_argument(
        "--source", type=Path, metavar="FILE|DIR", help="a kernel source archive or folder, instead of Debian's newest"
    )
    build.set_defaults(action=machine.kernel_build)
    steps.add_parser("info", help="version, configuration, what is missing").set_defaults(action=machine.kernel_info)
