"""The page of a run: one self-contained HTML file, its figures and timelines inside, without the network; readable on a
phone, in print, light and dark. What every page shares is in pages/shell.py."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape
from pathlib import Path

from analysis import text
from analysis.fabric import fabric_title
from analysis.fidelity import VIRTUAL
from analysis.figures.draw import draw_fabric
from analysis.figures.style import Drawn
from analysis.files import write_whole
from analysis.kinds import kind_of
from analysis.pages import shell
from analysis.pages.cases import cases
from analysis.pages.drops import drops
from analysis.pages.evidence import evidence_table
from analysis.pages.fidelity import badges, fidelity_section
from analysis.pages.markup import Html, definitions
from analysis.pages.original_time import original_time_section
from analysis.pages.run_timelines import run_charts
from analysis.pages.shell import Page, paragraph, section
from analysis.run import UNFINISHED, Run
from analysis.verdicts import Verdict

_FABRIC = "fabric"
_FABRIC_CAPTION = "The fabric as laid out: hosts at the bottom, above them the tiers of switches, links by rate."
_REPEAT = (
    "From the project's folder; equal specification and seed give an equal run (each case has a spec.yaml of its own "
    "in cases/):"
)
_REPEAT_REAL = (
    "From the project's folder; equal specification and seed give an equal run in virtual time, and on the real clock "
    "one that is equal in kind, not in every time and packet (each case has a spec.yaml of its own in cases/):"
)
_ASKED = ("Question", "Claim", "Expected")
_EARLY = "The run was not completed: this page tells of what it had measured when it ended."
_REBUILD = "Figures and report are rebuilt from the run directory alone:"


def write_report(run: Run) -> Path:
    """Draw the figures, write report.html into the run directory and return its path."""
    path = run.path / "report.html"
    return write_whole(path, page(run, draw_all(run)))


def draw_all(run: Run) -> list[Drawn]:
    """Draw every figure of the run into its figures/ folder: the fabric, unless it is a star, and the workload's."""
    fabric = [] if run.parameters.topology == "star" else [_fabric(run)]
    return [*fabric, *kind_of(run).figures(run)]


def _fabric(run: Run) -> Drawn:
    if run.fabric is None:
        return Drawn(_FABRIC, None, reason="the run directory has no fabric.json")
    path, title = run.path / "figures" / "fabric.png", fabric_title(run.fabric)
    draw_fabric(run.fabric, path, title)
    return Drawn(_FABRIC, path, title, _FABRIC_CAPTION)


def page(run: Run, figures: Sequence[Drawn]) -> str:
    """The whole page, with `figures` inside."""
    kind, experiment = kind_of(run), str(run.spec.get("experiment"))
    verdict, charts = kind.verdict(run), run_charts(run)
    body = (
        _asked(run),
        Html(f"<p>{badges(run, verdict)}</p>"),
        paragraph(kind.beside(run)),
        shell.tiles(kind.tiles(run)),
        _missing(run, verdict),
        paragraph(_broken(run), "open"),
        _controller(run),
        section("Evidence", paragraph(kind.RULE, "soft"), evidence_table(verdict)),
        fidelity_section(run),
        cases(run),
        original_time_section(run),
        section(
            "What happened",
            shell.timelines(charts, figures),
            shell.figures(figures),
            shell.skipped(figures),
        ),
        kind.sections(run),
        section("Drops by port", drops(run)),
        section("Specification", specification(run)),
        section("Provenance", definitions(shell.flat(run.provenance))),
        section("How to reproduce", shell.commands((_repeat_words(run), repeat(run)), (_REBUILD, rebuild(run)))),
    )
    return shell.render(Page(f"{experiment}: {verdict.verdict}", experiment, kind.headline(run), body, charts))


def _asked(run: Run) -> Html:
    """What the experiment asks, the claim that it tries, and what should be seen, as far as the run tells."""
    asked = run.provenance.get("asked")
    told = asked if isinstance(asked, dict) else {}
    lines = (f"{name}: {told[name.lower()]}" for name in _ASKED if told.get(name.lower()))
    return Html("".join(paragraph(line, "soft") for line in lines))


def _missing(run: Run, verdict: Verdict) -> Html:
    """What the run directory lacks, after whether the run came to its end at all."""
    reasons = [reason.replace(f"{run.path}/", "") for reason in [*verdict.missing, *run.missing]]
    early = paragraph("" if run.measured.get("complete") else _EARLY, "open")
    return Html(early + shell.missing([reason for reason in reasons if reason != UNFINISHED]))


def _broken(run: Run) -> str:
    """What was broken on purpose while the hosts sent, where the page does not tell of it anyway."""
    tells = "failures" in run.measured and run.workload != "streams"
    events = run.entries("failures", ("time_ns", "target", "action"), whole=("time_ns",)) if tells else []
    begin_ns = run.rounds[0].start_ns if run.rounds else 0
    told = [
        f"{event['target']} {event['action']} {text.seconds((event['time_ns'] - begin_ns) / 1e9)} after the begin"
        for event in events
    ]
    return f"Failures on schedule: {'; '.join(told)}." if told else ""


def _controller(run: Run) -> Html:
    """What became of the controller; nothing when it was well or the run had none."""
    told = run.controller or {}
    died, wrong = told.get("died_ns"), told.get("wrong_links") or []
    ended = f"{_since_began(run, died)}; switches kept forwarding by the rules they had"
    lines = []
    if _is_killed(run):
        lines.append(paragraph(f"Controller: killed as scheduled{ended}.", "open"))
    elif died is not None or told.get("alive") is False:
        lines.append(paragraph(f"Controller: it died{ended}.", "bad"))
    if wrong:
        names = ", ".join(map(str, wrong))
        lines.append(paragraph(f"Controller: links found otherwise than the fabric has them: {names}.", "bad"))
    return Html("\n".join(lines))


def _is_killed(run: Run) -> bool:
    """Whether the run's own failure schedule kills the controller."""
    entries = run.entries("failures", ("target",)) if "failures" in run.measured else []
    return any(entry["target"] == "controller" for entry in entries)


def _since_began(run: Run, time_ns: int | None) -> str:
    """When something happened, by the clock of the first round; empty when one of the two is not known."""
    if time_ns is None or not run.rounds:
        return ""
    since_ns = time_ns - run.rounds[0].start_ns
    return f" {text.seconds(abs(since_ns) / 1e9)} {'after' if since_ns >= 0 else 'before'} the first round began"


def specification(run: Run) -> Html:
    """The keys of the spec, those without a value of their own in one line."""
    given = {key: value for key, value in run.spec.items() if value not in (None, "auto")}
    untold = ", ".join(key for key in run.spec if key not in given)
    rest = f'\n<p class="soft">Not used by this run: {escape(untold)}.</p>' if untold else ""
    return Html(definitions(given) + rest)


def _repeat_words(run: Run) -> str:
    """What to expect of another run like it and its cases."""
    clocks = {each.spec.get("clock") for each in (run, *run.cases.values())}
    return _REPEAT if clocks == {VIRTUAL} else _REPEAT_REAL


def repeat(run: Run) -> str:
    """The command that repeats the run from its own spec, of which clock and place are no keys."""
    place = run.provenance.get("place")
    on = f" --on {shlex.quote(str(place))}" if place else ""
    clock = "" if run.spec.get("clock") == VIRTUAL else f" --clock real{on}"
    return f"./run_experiment run {shlex.quote(str(from_here(run.path / 'spec.yaml')))}{clock}"


def rebuild(run: Run) -> str:
    """The command that rebuilds the page."""
    return f"./run_experiment report {shlex.quote(str(from_here(run.path)))}"


def from_here(path: Path) -> Path:
    """The path as one would type it: relative when below the current folder, else absolute."""
    whole, here = path.resolve(), Path.cwd()
    return whole.relative_to(here) if here in whole.parents else whole
