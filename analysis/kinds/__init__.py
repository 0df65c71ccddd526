"""Which module analyses a run: one per kind of workload, or of an experiment's own question, each offering what `Kind`
lists.

A kind is a plain module, such as analysis/kinds/incast.py, that defines the names of `Kind` as its own functions and
constants. It imports what it needs of analysis/ (run, verdicts, measures, columns, text), analysis/figures/ and
analysis/pages/markup.py, but not this module nor analysis/summary.py and pages/run_page.py, which call it. What every
run has (experiment, spec, drops, retransmits, controller, the drawing of the fabric, provenance) is told by these two;
a kind adds what only its workload has.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Callable, Protocol, cast

from analysis.columns import Column, Table
from analysis.figures.style import Drawn
from analysis.pages.markup import Html
from analysis.run import Run
from analysis.verdicts import Verdict
from topologies.units import BadRequest


class Kind(Protocol):
    """What a module that analyses one kind of workload offers.

    Every function reads the run directory alone, and copes with a run that was interrupted: facts that are not there
    are None in the summary, Evidence whose `holds` is None, a Skipped figure.
    """

    @property
    def RULE(self) -> str:  # noqa: N802  (a constant of the module)
        """How the verdict follows from the evidence: one sentence above the table of evidence."""

    @property
    def COLUMNS(self) -> tuple[Column, ...]:  # noqa: N802
        """The comparison's columns between the first (the run's label) and the last (its verdict)."""

    def summarize(self, run: Run) -> dict[str, Any]:
        """The workload's keys of summary.json, JSON-ready; they replace common keys of the same name, such as
        `packets` and `goodput_bps`, which are None where no kind tells them."""

    def verdict(self, run: Run) -> Verdict:
        """The answer to the workload's question, with its evidence; Verdict.good colours it."""

    def headline(self, run: Run) -> str:
        """The finding in one sentence, with its numbers: the page's first line."""

    def beside(self, run: Run) -> str:
        """What the cases (run.cases) show beside the run, as one sentence; empty without any."""

    def tiles(self, run: Run) -> list[tuple[str, str]]:
        """The handful of figures at the top of the page: name, value in words."""

    def figures(self, run: Run) -> list[Drawn]:
        """The figures, drawn into the run's figures/ folder with style.drawn; the fabric itself is not among them."""

    def sections(self, run: Run) -> Html:
        """The workload's own part of the page, each section with its <h2>; empty when there is none."""

    def row(self, run: Run) -> dict[str, Any]:
        """The run's row in the comparison, JSON-ready, without `label` and `verdict`."""

    def against(self, main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
        """How a case's row differs from the main run's, in words such as "53x faster"; empty when the two do not
        compare."""


# Workload -> module of this folder, loaded when a run of it is looked at.
_KINDS = {
    "incast": "incast",
    "permutation": "bisection",
    "all_to_all": "bisection",
    "pings": "hops",
    "datagrams": "polarisation",
    "streams": "failover",
    "long_flows": "long_flows",
    "collective": "collective",
    "training": "training",
    "federated": "federated",
    "launch": "launch",
    "iperf3": "iperf3",
    "own": "own",
}
# Experiments that ask something else of a workload; asked for another workload they are that one's.
_KINDS_OF_EXPERIMENTS = {
    ("headroom", "incast"): "headroom",
    ("clocks", "incast"): "clocks",
    ("control_latency", "long_flows"): "control_latency",
    ("pfc_unfairness", "long_flows"): "pfc_unfairness",
    ("victim", "long_flows"): "victim",
    ("pause_storm", "long_flows"): "pause_storm",
    ("deadlock", "long_flows"): "deadlock",
    ("dcqcn_convergence", "long_flows"): "dcqcn_convergence",
    ("allreduce_scaling", "collective"): "allreduce_scaling",
    ("hierarchy", "collective"): "hierarchy",
    ("cpu_overhead", "collective"): "cpu_overhead",
    ("straggler", "training"): "straggler",
    ("overlap", "training"): "overlap",
    ("compression", "training"): "compression",
    ("training_breakdown", "training"): "training_breakdown",
    ("parallelism", "training"): "parallelism",
}


def table_of(run: Run) -> Table | None:
    """The table that the run's workload is known for (`own_table` of its kind, which most do not have), for the
    terminal; None without one, or without a row."""
    make: Callable[[Run], Table] | None = getattr(kind_of(run), "own_table", None)
    made = None if make is None else make(run)
    return made if made is not None and made.rows else None


def kind_of(run: Run) -> Kind:
    """The module that analyses the run, by its experiment where that has one of its own, else by its workload; raises
    BadRequest naming a workload that none does."""
    found = kind_named(str(run.spec.get("experiment")), run.workload)
    if found is None:
        allowed = ", ".join(_KINDS)
        raise BadRequest(f"{run.path / 'measured.json'}: workload {run.workload!r}; allowed: {allowed}")
    return found


def kind_named(experiment: str, workload: str) -> Kind | None:
    """The module that analyses runs of an experiment with a workload; None when none does."""
    name = _KINDS_OF_EXPERIMENTS.get((experiment, workload)) or _KINDS.get(workload)
    return None if name is None else cast(Kind, importlib.import_module(f"analysis.kinds.{name}"))
