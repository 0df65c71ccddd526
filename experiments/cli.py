"""The command line: reads the request, hands it to the module that does it, and turns errors into one line and
an exit status.

Exit status: 0 done; 1 the run failed; 2 a bad request. Messages go to stderr, results (a table, or one JSON
document with --json) to stdout.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from experiments import fabrics, limits, request, rundir, screen
from experiments.analyze import FORMS, analyze
from experiments.catalog import Plan, catalog, plan
from experiments.launch import STALL_S, check_program
from experiments.spec import LAUNCH, TOPOLOGIES, Spec, as_typed, parse
from lab.boot import Stop
from lab.cache import own_cache
from topologies.describe import FabricDescription
from topologies.units import BadRequest, format_duration

_COMMANDS = ("list", "check", "run", "launch", "shell", "topo", "analyze", "report", "export", "kernel", "bench")
_DRAWINGS = (".png", ".svg", ".pdf")
_INTERRUPTED = 130


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
        with _handling((signal.SIGTERM, signal.SIGHUP), _interrupt):
            arguments = _parser().parse_args(words or ["--help"])
            status = int(arguments.action(arguments) or 0)
            sys.stdout.flush()
            return status
    except BadRequest as error:
        screen.say(f"run_experiment: {error}")
        return 2
    except KeyboardInterrupt:
        screen.say("run_experiment: interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, RuntimeError) as error:
        screen.say(f"run_experiment: {error}")
        return 1


def _parser() -> argparse.ArgumentParser:
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
    listing.set_defaults(action=_list)
    commands.add_parser("check", help="what this machine can run, everything missing, and the fix").set_defaults(
        action=_check
    )
    _add_run(commands)
    _add_launch(commands)
    shell = commands.add_parser("shell", help="the Mininet prompt on a fabric")
    shell.add_argument("--topology", default="star", help=f"the fabric: {', '.join(TOPOLOGIES)} (default: star)")
    _add_spec_options(shell)
    shell.set_defaults(action=_shell)
    _add_topo(commands)
    _add_analyze(commands)
    _add_report(commands)
    _add_export(commands)
    _add_kernel(commands)
    bench = commands.add_parser("bench", help="the figures that this project promises, measured now")
    bench.add_argument("names", nargs="*", metavar="NAME", help="only these benches")
    bench.set_defaults(action=_bench)
    return parser


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a spec key; may be given again (list --keys)"
    )


def _add_spec_options(parser: argparse.ArgumentParser) -> None:
    _add_set(parser)
    parser.add_argument("--clock", choices=request.CLOCKS, help="the lab's clock (default: virtual)")
    parser.add_argument("--seed", help="seed of all randomness")
    parser.add_argument("--out", type=Path, metavar="DIR", help="run directory (default: results/NAME-DATE-TIME)")


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
    run.add_argument("experiment", metavar="NAME|FILE.yaml")
    _add_spec_options(run)
    run.add_argument("--only", action="store_true", help="the main run alone, without the cases it is compared with")
    _add_limits(run)
    run.set_defaults(action=_run)


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
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def _add_launch(commands: Any) -> None:
    launch = commands.add_parser("launch", help="run any program on a fabric, one rank a host: launch -n 8 -- PROGRAM")
    launch.add_argument("--topology", help=f"the fabric: {', '.join(TOPOLOGIES)} (default: leaf_spine)")
    launch.add_argument("-n", dest="ranks", metavar="RANKS", help="how many ranks (default: one for each host)")
    _add_spec_options(launch)
    launch.add_argument("--mpi", action="store_true", help="mpirun on h1 starts the ranks")
    launch.add_argument("--capture", action="store_true", help="capture at every host")
    launch.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="end ranks that still run after this virtual time"
    )
    _add_limits(launch)
    launch.add_argument("program", nargs="+", metavar="-- PROGRAM", help="the program and its words")
    launch.set_defaults(action=_launch, experiment=LAUNCH, only=True)


def _add_topo(commands: Any) -> None:
    topo = commands.add_parser("topo", help="a fabric on paper: its drawing, its switches and links as JSON")
    topo.add_argument("topology", metavar="NAME", help=", ".join(TOPOLOGIES))
    _add_set(topo)
    topo.add_argument("--draw", type=Path, metavar="FILE", help=f"draw it; the name ends in {', '.join(_DRAWINGS)}")
    topo.add_argument("--json", action="store_true", help="print all nodes and links as JSON, as a run's fabric.json")
    topo.add_argument(
        "--orders", type=Path, metavar="FILE", help="write what `python -m controller.launch` routes it by (plain mn)"
    )
    topo.set_defaults(action=_topo)


def _add_analyze(commands: Any) -> None:
    found = commands.add_parser("analyze", help="explain captures: any pcap or pcapng, from here or elsewhere")
    found.add_argument(
        "paths", nargs="+", metavar="FILE|DIR", help="captures, run directories (their pcap/), or - for standard input"
    )
    found.add_argument("--json", action="store_true", help="print the explanation as JSON (docs/analyze.md)")
    found.add_argument("--out", type=Path, metavar="DIR", help="write a page with figures, and tables, there")
    found.add_argument("--export", choices=FORMS, help=f"the form of the tables (default: {FORMS[0]})")
    found.set_defaults(action=_analyze)


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report", help="rebuild summary, figures and report of a run directory; of several, one page that compares them"
    )
    report.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    report.add_argument("--json", action="store_true", help="print the summary as JSON (of several runs: a list)")
    report.add_argument(
        "--out", type=Path, metavar="FILE", help="the comparison's page (default: comparison.html beside the first DIR)"
    )
    report.set_defaults(action=_report)


def _add_export(commands: Any) -> None:
    export = commands.add_parser("export", help="every table of a run directory as files: flows, stalls, queue, ...")
    export.add_argument("folder", type=Path, metavar="DIR")
    export.add_argument("--format", choices=("parquet", "csv"), default="parquet", help="default: parquet")
    export.add_argument("--out", type=Path, metavar="DIR", help="where to (default: tables/ in the run directory)")
    export.set_defaults(action=_export)


def _add_kernel(commands: Any) -> None:
    kernel = commands.add_parser("kernel", help="the lab kernel")
    steps = kernel.add_subparsers(metavar="build|info", required=True, parser_class=_Parser)
    build = steps.add_parser("build", help="build it, or say that it is built")
    build.add_argument(
        "--source", type=Path, metavar="FILE|DIR", help="a kernel source archive or folder, instead of Debian's newest"
    )
    build.set_defaults(action=_kernel_build)
    steps.add_parser("info", help="version, configuration, what is missing").set_defaults(action=_kernel_info)


def given_keys(arguments: argparse.Namespace) -> dict[str, str]:
    """Spec keys that the command line sets, as text."""
    seed = {} if arguments.seed is None else {"seed": arguments.seed}
    return {**request.from_words(arguments.set), **seed}


def _list(arguments: argparse.Namespace) -> None:
    if arguments.keys:
        rows = [
            {
                "key": item.metadata["name"],
                "default": as_typed(item.metadata["kind"].format(item.default)),
                "allowed": item.metadata["kind"].allowed,
                "meaning": item.metadata["help"],
            }
            for item in fields(Spec)
        ]
        title = "spec keys (--set KEY=VALUE)"
    else:
        rows = [{"experiment": item.name, **item.asks} for item in catalog().values()]
        title = "experiments (run_experiment NAME)"
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        screen.table(title, list(rows[0]), [[str(value) for value in row.values()] for row in rows])


def _check(arguments: argparse.Namespace) -> int:
    from experiments.preflight import checks

    found = checks()
    screen.table(
        "what this machine can run",
        ["requirement", "", "seen", "fix"],
        [
            [check.name, "ok" if check.holds else "MISSING", check.seen, "" if check.holds else check.fix]
            for check in found
        ],
    )
    return 0 if all(check.holds for check in found) else 1


def _kernel() -> Any:
    """The built lab kernel; raises RuntimeError with the command that builds it."""
    from lab.kernel import find_kernel

    kernel = find_kernel()
    if kernel is None:
        raise RuntimeError(
            "there is no lab kernel yet: build it once with `./run_experiment kernel build` (about ten CPU-minutes)"
        )
    for warning in kernel.warnings:
        screen.say(f"warning: {warning}")
    return kernel


@contextmanager
def stopping() -> Iterator[Stop]:
    """Ctrl-C, SIGTERM and SIGHUP ask the labs to end and keep what they have; a second one ends us at once, and
    the labs with us."""
    stop = Stop()

    def handle(number: int, frame: Any) -> None:
        if stop.requested:
            os._exit(_INTERRUPTED)
        stop.request()
        screen.say("stopping: what was measured is kept (once more to drop it)")

    with _handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), handle):
        yield stop


@contextmanager
def _handling(signals: Sequence[int], handle: Callable[[int, Any], None]) -> Iterator[None]:
    """`handle` is called for these signals while the block runs."""
    before = [signal.signal(number, handle) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before):
            signal.signal(number, handler)


def _interrupt(number: int, frame: Any) -> NoReturn:
    """End as Ctrl-C does, so that what the process holds (a terminal) is given back."""
    raise KeyboardInterrupt


def _run(arguments: argparse.Namespace) -> int:
    wanted = request.requested(arguments.experiment)
    arguments.clock = arguments.clock or wanted.clock or request.CLOCKS[0]
    asked = plan(wanted.experiment, {**wanted.keys, **given_keys(arguments)})
    specs = [("main", limits.resolve(asked.main)), *(() if arguments.only else _cases(asked))]
    for _, spec in specs:
        check_program(spec)
        limits.memory_bytes(spec)
    kernel = _kernel()
    folder = rundir.create(arguments.out, wanted.experiment.name)
    for label, spec in specs:
        for warning in limits.warnings(spec):
            screen.say(f"warning: {label}: {warning}")
    if asked.experiment.on_host is not None:
        screen.say(f"{asked.experiment.name}: measuring on this machine, on the real clock")
        rundir.write_host(folder, asked.experiment.on_host())
    try:
        return _run_all(arguments, asked, specs, kernel, folder)
    finally:
        rundir.hand_over(folder)


def _launch(arguments: argparse.Namespace) -> int:
    """The experiment `launch` with the keys that the options stand for."""
    given = {
        "command": shlex.join(arguments.program),
        "directory": str(Path.cwd()),
        "topology": arguments.topology,
        "ranks": arguments.ranks,
        "timeout": arguments.timeout and format_duration(math.ceil(arguments.timeout * 1e9)),
        "capture": "all" if arguments.capture else None,
        "starter": "mpirun" if arguments.mpi else None,
    }
    twice = {name for name, value in given.items() if value} & set(request.from_words(arguments.set)) - {"directory"}
    if twice:
        raise BadRequest(f"{min(twice)}: given twice, with --set too; allowed: once")
    arguments.set = [*(f"{name}={value}" for name, value in given.items() if value), *arguments.set]
    return _run(arguments)


def _cases(asked: Plan) -> Iterator[tuple[str, Spec]]:
    """The comparison runs, resolved; one that cannot work with what the user has set is told and left out."""
    for label, spec in asked.cases:
        try:
            yield label, limits.resolve(spec)
        except BadRequest as error:
            screen.say(f"warning: {label}: left out: {error}")


def _run_all(
    arguments: argparse.Namespace, asked: Plan, specs: list[tuple[str, Spec]], kernel: Any, folder: Path
) -> int:
    from experiments.runner import Setting, Task, run_all

    tasks = [
        Task(label, spec, rundir.case_folder(folder, label), asked.experiment.name, asked.experiment.asks)
        for label, spec in specs
    ]
    setting = Setting(kernel, arguments.clock, ("./run_experiment", *sys.argv[1:]), arguments.watchdog, arguments.stall)
    with stopping() as stop, screen.progress([task.label for task in tasks]) as note:
        failures = run_all(tasks, setting, stop, note)
    for line in failures:
        screen.say(f"run_experiment: {line}")
    if rundir.has_rounds(folder):
        try:
            with _whole(folder):
                _conclude(folder, arguments.json, asked.experiment.question)
        except BadRequest as error:
            if not failures:
                raise
            screen.say(f"run_experiment: no report: {error}")  # of what a failed run has left
        except KeyboardInterrupt:
            screen.say(f"the measurement is complete, its report is not: `./run_experiment report {folder}` makes it")
            raise
    if stop.requested:
        return _INTERRUPTED
    return 1 if failures else 0


def _conclude(folder: Path, as_json: bool, title: str) -> None:
    """Summary, figures and report of a finished run directory; the results to stdout."""
    _keep_matplotlib_at_home()
    from analysis.kinds import kind_of, table_of
    from analysis.pages.cases import columns
    from analysis.pages.run_page import write_report
    from analysis.run import Run
    from analysis.summary import write_summary

    run = Run(folder)
    for case in (*run.cases.values(), run):
        write_summary(case)
    report = write_report(run)
    summary = json.loads((folder / "summary.json").read_text())
    if as_json:
        print(json.dumps(summary, indent=1))
    else:
        sizes = table_of(run)
        if sizes is not None:
            screen.comparison(sizes.columns, sizes.rows, sizes.title)
        screen.comparison(columns(kind_of(run)), summary["comparison"], title)
        print(f"report: {report}")
        if (folder / "ranks").is_dir():
            print(f"output: {folder / 'ranks'} (of rank 0: 0.out, 0.err)")


def _analyze(arguments: argparse.Namespace) -> None:
    if arguments.export and arguments.out is None:
        raise BadRequest("--export: given without --out; allowed: with --out DIR, the folder that tables go to")
    _keep_matplotlib_at_home()
    analyze(arguments.paths, arguments.json, arguments.out, arguments.export)


def _report(arguments: argparse.Namespace) -> None:
    for folder in arguments.folders:
        if not (folder / "spec.yaml").is_file():
            raise BadRequest(
                f"DIR: {folder} is no run directory (it has no spec.yaml); allowed: a folder that `run` wrote"
            )
    if len(arguments.folders) > 1:
        return _compare(arguments)
    if arguments.out is not None:
        raise BadRequest("--out: given with one DIR; allowed: with several (the page of one is its report.html)")
    (folder,) = arguments.folders
    with _whole(folder):
        _conclude(folder, arguments.json, str(folder))


def _compare(arguments: argparse.Namespace) -> None:
    """The page that compares several runs."""
    _keep_matplotlib_at_home()
    from analysis.pages.comparison_page import FILE_NAME, write_comparison
    from analysis.run import Run
    from analysis.summary import summarize

    folders: list[Path] = arguments.folders
    runs, summaries = [Run(folder) for folder in folders], []
    for folder, run in zip(folders, runs):
        with _whole(folder):
            summaries.append(summarize(run))
    with _whole(*folders):
        page = write_comparison(runs, arguments.out or folders[0].resolve().parent / FILE_NAME)
    print(json.dumps(summaries, indent=1) if arguments.json else f"report: {page}")


# What values of the wrong kind in a run directory's files lead to, where no check of their own names them.
_DAMAGE = (
    *(TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError, AssertionError),
    *(RecursionError, MemoryError, StopIteration),
)


@contextmanager
def _whole(*folders: Path) -> Iterator[None]:
    """Run directories are taken to be sound; what shows that one is not is told in one line."""
    try:
        yield
    except BadRequest:
        raise
    except _DAMAGE as error:
        named = ", ".join(map(str, folders))
        said = " ".join(str(error).split())
        raise BadRequest(f"DIR: {named} is damaged ({type(error).__name__}: {said})") from error


def _export(arguments: argparse.Namespace) -> None:
    """The tables of a run directory, and those of its cases in folders of their own."""
    _keep_matplotlib_at_home()
    from analysis.api import Run
    from analysis.tables.export import export

    run, out = Run(arguments.folder), arguments.out or arguments.folder / "tables"
    folders = {out: run, **{out / "cases" / label: case for label, case in run.cases.items()}}
    paths = [path for folder, each in folders.items() for path in export(each.tables, folder, arguments.format)]
    print(f"tables: {len(paths)} files in {out}")


def _shell(arguments: argparse.Namespace) -> int:
    from experiments.runner import open_shell

    if not sys.stdin.isatty():
        raise BadRequest("shell: standard input is not a terminal; allowed: a terminal")
    spec = _shell_spec(arguments.topology, given_keys(arguments))
    limits.memory_bytes(spec)
    kernel = _kernel()
    folder = rundir.create(arguments.out, "shell")
    try:
        return open_shell(spec, kernel, arguments.clock or request.CLOCKS[0], folder)
    finally:
        if not rundir.discard_if_unused(folder):
            rundir.hand_over(folder)


def _shell_spec(topology: str, given: dict[str, str]) -> Spec:
    """A fabric to look around in: the size that its topology has by itself, a star of five hosts."""
    few = {"senders": 4} if topology == "star" and not given.keys() & {"hosts", "workload"} else {}
    if "failure" in given:
        raise BadRequest("failure: given at the prompt; allowed: in runs (here: link A B down)")
    return limits.resolve(parse({**few, "capture": "off", **_with_topology(topology, given)}))


def _with_topology(topology: str, given: dict[str, str]) -> dict[str, str]:
    """The keys with the topology that was asked for by name; raises BadRequest when they ask for another one."""
    if given.get("topology", topology) != topology:
        raise BadRequest(f"topology: {given['topology']} is given beside {topology}; allowed: one of them")
    return {**given, "topology": topology}


def _topo(arguments: argparse.Namespace) -> None:
    if arguments.draw is not None and arguments.draw.suffix not in _DRAWINGS:
        raise BadRequest(f"--draw: {arguments.draw} is given; allowed: a name that ends in {', '.join(_DRAWINGS)}")
    spec = limits.resolve(parse(_with_topology(arguments.topology, request.from_words(arguments.set))))
    described = fabrics.document(spec)
    from analysis.fabric import fabric_title

    said = [fabric_title(described)]
    if arguments.draw is not None:
        with _writing("--draw", arguments.draw):
            _draw(described, arguments.draw)
        said.append(f"drawing: {arguments.draw}")
    if arguments.orders is not None:
        orders = json.dumps(fabrics.routing_orders(spec, FabricDescription.from_json(described)).as_json())
        with _writing("--orders", arguments.orders):
            arguments.orders.write_text(orders)
        said.append(f"orders: {arguments.orders}")
    print(json.dumps(described, indent=1) if arguments.json else "\n".join(said))


@contextmanager
def _writing(option: str, path: Path) -> Iterator[None]:
    """A file that cannot be written is a bad request."""
    try:
        yield
    except OSError as error:
        raise BadRequest(
            f"{option}: {path} cannot be written ({error.strerror}); allowed: a file that you may write"
        ) from None


def _draw(described: dict[str, Any], path: Path) -> None:
    """The fabric's drawing as a file."""
    _keep_matplotlib_at_home()
    from analysis.fabric import fabric_title
    from analysis.figures.draw import draw_fabric

    draw_fabric(described, path, fabric_title(described))


def _keep_matplotlib_at_home() -> None:
    """Matplotlib's own files go to our cache, else it writes to the user's home."""
    os.environ.setdefault("MPLCONFIGDIR", str(own_cache() / "matplotlib"))


def _kernel_build(arguments: argparse.Namespace) -> None:
    from lab.build import build_kernel
    from lab.kernel import describe
    from lab.progress import shown_progress
    from lab.source import BadSource

    try:
        with shown_progress() as progress:
            kernel = build_kernel(arguments.source, progress)
    except BadSource as error:
        raise BadRequest(f"--source: {error}") from None
    print(describe(kernel))


def _kernel_info(arguments: argparse.Namespace) -> None:
    from lab.kernel import describe

    print(describe(_kernel()))


def _bench(arguments: argparse.Namespace) -> int:
    from experiments.bench import main as bench

    return bench(arguments.names, _kernel())
