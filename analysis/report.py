"""One self-contained HTML page for a run: images inside, no script, no network; readable on a phone, in
print, light and dark."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from analysis import text
from analysis.draw import draw_fabric
from analysis.fabric import fabric_title
from analysis.files import write_whole
from analysis.kinds import kind_of
from analysis.markup import Cell, Html, definitions, escaped, table
from analysis.report_cases import cases
from analysis.run import Run
from analysis.style import Drawn
from analysis.verdicts import Evidence, Value, Verdict, all_drops, watchdog_discards

_VERDICT_CLASSES = {False: "bad", True: "good", None: "open"}
_EVIDENCE = ("evidence", "holds", "configured", "modelled", "measured", "holds if", "read from")
_FABRIC = "fabric"
_FABRIC_CAPTION = "The fabric as laid out: hosts at the bottom, above them the tiers of switches, links by rate."
_HERE = Path(__file__).parent


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
    kind = kind_of(run)
    verdict = kind.verdict(run)
    fields: dict[str, Cell] = {
        "title": f"{run.spec.get('experiment')}: {verdict.verdict}",
        "css": Html((_HERE / "report.css").read_text(encoding="utf-8")),
        "experiment": str(run.spec.get("experiment")),
        "headline": kind.headline(run),
        "verdict": verdict.verdict,
        "verdict_class": _VERDICT_CLASSES[verdict.good],
        "beside": kind.beside(run),
        "tiles": _tiles(kind.tiles(run)),
        "missing": _missing(run, verdict),
        "controller": _controller(run),
        "rule": kind.RULE,
        "evidence": _evidence(verdict),
        "comparison": cases(run),
        "figures": Html("\n".join(_figure(figure) for figure in figures if figure.path)),
        "skipped": _skipped(figures),
        "sections": kind.sections(run),
        "drops": _drops(run),
        "spec": _spec(run),
        "provenance": definitions(_flat(run.provenance)),
        "repeat": _repeat(run),
        "rebuild": f"./run_experiment report {shlex.quote(str(_from_here(run.path)))}",
    }
    template = Template((_HERE / "report.html").read_text(encoding="utf-8"))
    return template.substitute({name: escaped(value) for name, value in fields.items()})


def _tiles(tiles: Iterable[tuple[str, str]]) -> Html:
    return Html(
        "\n".join(f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in tiles)
    )


def _missing(run: Run, verdict: Verdict) -> Html:
    """What the run directory lacks, so that nobody takes silence for zero."""
    reasons = [reason.replace(f"{run.path}/", "") for reason in dict.fromkeys([*verdict.missing, *run.missing])]
    shown = [*reasons[:6], *([f"and {len(reasons) - 6} more"] if len(reasons) > 6 else [])]
    missing = f'<p class="open">Missing: {escape("; ".join(shown))}.</p>' if shown else ""
    return Html(missing + _broken(run))


def _broken(run: Run) -> str:
    """What was broken on purpose while the hosts sent, where the page does not tell of it anyway."""
    tells = "failures" in run.measured and run.workload != "streams"
    events = run.entries("failures", ("time_ns", "target", "action")) if tells else []
    begin_ns = run.rounds[0].start_ns if run.rounds else 0
    told = [
        f"{event['target']} {event['action']} {text.seconds((event['time_ns'] - begin_ns) / 1e9)} after the begin"
        for event in events
    ]
    return f'<p class="open">Failures on schedule: {escape("; ".join(told))}.</p>' if told else ""


def _controller(run: Run) -> Html:
    """What became of the controller; nothing when it was well or the run had none."""
    told = run.controller or {}
    died, wrong = told.get("died_ns"), told.get("wrong_links") or []
    ended = f"{_since_began(run, died)}; switches kept forwarding by the rules they had"
    lines = []
    if _is_killed(run):
        lines.append(f'<p class="open">Controller: killed as scheduled{escape(ended)}.</p>')
    elif died is not None or told.get("alive") is False:
        lines.append(f'<p class="bad">Controller: it died{escape(ended)}.</p>')
    if wrong:
        names = escape(", ".join(map(str, wrong)))
        lines.append(f'<p class="bad">Controller: links found otherwise than the fabric has them: {names}.</p>')
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


def _evidence(verdict: Verdict) -> Html:
    return table(_EVIDENCE, (_evidence_row(piece) for piece in verdict.evidence), whole=(0, 1, 3, 4), stacked=True)


def _evidence_row(piece: Evidence) -> list[Cell]:
    words, colour = {True: ("✓ yes", "good"), False: ("✗ no", "bad"), None: ("missing", "open")}[piece.holds]
    if not piece.applies:
        words, colour = "n/a", "soft"
    holds = Html(f'<span class="{colour}">{words}</span>')
    values = (_quantity(value, piece.unit) for value in (piece.configured, piece.modelled, piece.measured))
    return [piece.name, holds, *values, piece.tolerance, piece.source]


def _quantity(value: Value, unit: str) -> str:
    if value is None or isinstance(value, str):
        return value or text.NOTHING
    scaled = {"s": text.seconds, "b/s": text.rate}.get(unit)
    if scaled:
        return scaled(value)
    return f"{text.count(value)} {unit.rstrip('s') if value == 1 else unit}"


def _figure(figure: Drawn) -> str:
    assert figure.path is not None
    image = base64.b64encode(figure.path.read_bytes()).decode("ascii")
    broad = ' class="broad"' if figure.name == _FABRIC else ""
    return (
        f'<figure{broad}><img alt="{escape(figure.title)}" src="data:image/png;base64,{image}">'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )


def _skipped(figures: Iterable[Drawn]) -> Html:
    reasons = "; ".join(f"{figure.name} ({figure.reason})" for figure in figures if not figure.path)
    return Html(f'<p class="soft">Not drawn: {escape(reasons)}.</p>' if reasons else "")


def _drops(run: Run) -> Html:
    drops, discards = all_drops(run), watchdog_discards(run) or {}
    if drops is None:
        return Html("<p>Not known: measured.json has no ports.</p>")
    rows = [
        [port, text.count(count), text.count(discards.get(port, 0)), _towards(run, port)]
        for port, count in drops.items()
    ]
    return (
        table(("port", "packets dropped", "of them by a watchdog", ""), rows, numbers=(1, 2))
        if rows
        else Html("<p>No queue overflowed: no port dropped a packet.</p>")
    )


def _towards(run: Run, port: str) -> str:
    return "towards the receiver" if port == run.hot_port else ""


def _spec(run: Run) -> Html:
    """The keys of the spec, those without a value of their own in one line."""
    given = {key: value for key, value in run.spec.items() if value not in (None, "auto")}
    untold = ", ".join(key for key in run.spec if key not in given)
    rest = f'\n<p class="soft">Not used by this run: {escape(untold)}.</p>' if untold else ""
    return Html(definitions(given) + rest)


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level, keys joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        flat.update(_flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value})
    return flat


def _repeat(run: Run) -> str:
    """The command that repeats the run from its own spec; the clock is no key of it."""
    clock = "" if run.spec.get("clock") == "virtual" else " --clock real"
    return f"./run_experiment run {shlex.quote(str(_from_here(run.path / 'spec.yaml')))}{clock}"


def _from_here(path: Path) -> Path:
    """The path as one would type it: relative when below the current folder, else absolute."""
    whole, here = path.resolve(), Path.cwd()
    return whole.relative_to(here) if here in whole.parents else whole
