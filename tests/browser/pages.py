"""Pages of several kinds, from run directories and explanations made by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from analysis.explain.page import write_page
from analysis.pages.comparison_page import write_comparison
from analysis.pages.run_page import write_report
from analysis.run import Run
from tests.unit import test_analysis_collective, test_analysis_cures, test_analysis_training, test_launch
from tests.unit.explained import explanation
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_long_flows import MS, two_run
from tests.unit.test_analysis_report import sweep
from tests.unit.test_analysis_run import ROUND_US, make_run

EVIL = "<img src=x onerror=\"document.title='owned'\"></script><!--\u2028'&$x %{x} <a href='http://x.invalid'>h9</a>"


def transfers(*hosts: str) -> dict[str, list[dict[str, object]]]:
    times = {"start_ns": T0_NS, "end_ns": T0_NS + ROUND_US * 1000, "bytes": 6000, "round": 0}
    return {"transfers": [{"flow": host, **times} for host in hosts]}


def incast(path: Path) -> Path:
    """A collapse beside a case and a sweep, whose flow h3 stalls."""
    run = sweep(path)
    return write_report(make_run(run.path, facts=transfers("h2", "h3")))


def roce(path: Path) -> Path:
    """Pauses, and DCQCN's rates."""
    run = test_analysis_cures.roce_run(path, {**test_analysis_cures.PFC, **test_analysis_cures.DCQCN})
    test_analysis_cures.write_pauses(run.path, [(1000, "h2-eth0", "held"), (3000, "h2-eth0", "released")])
    test_analysis_cures.write_rates(
        run.path, [(100 * n, f"h{host}>h1", "rate", n * 10**9, 0.5) for n in range(1, 9) for host in (2, 3)]
    )
    return write_report(Run(run.path))


def long_flows(path: Path) -> Path:
    """Two flows of which one gets more."""
    pauses = [(MS, "h2-eth0", "held"), (2 * MS, "h2-eth0", "released")]
    return write_report(two_run(path, 25e9, 10e9, pauses=pauses))


def collective(path: Path) -> Path:
    return write_report(test_analysis_collective.make(path))


def training(path: Path) -> Path:
    return write_report(test_analysis_training.run_of(path, test_analysis_training.even(5, 20)))


def launch(path: Path) -> Path:
    """One rank of two failed."""
    ranks = [test_launch.rank(0), test_launch.rank(1, 3)]
    return write_report(test_launch.run_of(path, ranks, "failed"))


def comparison(path: Path) -> Path:
    """Two runs of one kind, and one of another."""
    one, two, other = path / "one", path / "two", path / "other"
    rounds = [{"start_ns": T0_NS, "end_ns": T0_NS + 4000, "bytes": 12_000}]
    runs = [make_run(one), make_run(two, {"cc": "dctcp"}, {"rounds": rounds}), two_run(other, 20e9, 15e9)]
    return write_comparison(runs, path / "comparison.html")


def captures(path: Path) -> Path:
    return write_page(explanation(), path)


def hostile_run(path: Path) -> Path:
    """Names that try to be markup in every place that a run has for them."""
    flows = [{**flow, "flow": f"{EVIL}{flow['flow']}"} for flow in test_analysis_cures.measured()["flows"]]
    names = [flow["flow"] for flow in flows]
    ports = {EVIL: test_analysis_cures.lossless_port(2, hot=True)}
    facts = {"flows": flows, "ports": ports, **transfers(*names)}
    run = make_run(path / EVIL.replace("/", ""), {"label": EVIL, "experiment": EVIL, "cc": EVIL}, facts)
    make_run(run.path / "cases" / "case", {"label": EVIL, "rto_min": "1ms"})
    return write_report(run)


def hostile_captures(path: Path) -> Path:
    """The same of an explanation."""
    return write_page(explanation(EVIL, EVIL), path)


PAGES: Mapping[str, Callable[[Path], Path]] = {
    make.__name__: make for make in (incast, roce, long_flows, collective, training, launch, comparison, captures)
}
HOSTILE: Mapping[str, Callable[[Path], Path]] = {make.__name__: make for make in (hostile_run, hostile_captures)}
