"""One self-contained HTML page for a run: images inside, no script, no network; readable on a phone, in
print, light and dark."""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from analysis import text
from analysis.cost_model import buffer_fill_seconds, goodput_one_timeout_bps, line_rate_fill_seconds
from analysis.markup import Cell, Html, definitions, escaped, table
from analysis.plots import draw_all
from analysis.report_cases import cases, cures
from analysis.run import Run
from analysis.stalls import MEANINGS, Stall
from analysis.style import Drawn
from analysis.summary import counter_matches, fill_s, kernel_timeouts, retransmits
from analysis.verdicts import (
    COLLAPSE,
    NO_COLLAPSE,
    Evidence,
    Value,
    Verdict,
    all_drops,
    goodput_bps,
    incast_verdict,
    median_seconds,
)

_SHOWN_STALLS = 12
_VERDICT_CLASSES = {COLLAPSE: "bad", NO_COLLAPSE: "good"}
_EVIDENCE = ("evidence", "holds", "configured", "modelled", "measured", "holds if", "read from")
_HERE = Path(__file__).parent


def write_report(run: Run) -> Path:
    """Draw the figures, write report.html into the run directory and return its path."""
    path = run.path / "report.html"
    path.write_text(page(run, draw_all(run)), encoding="utf-8")
    return path


def page(run: Run, figures: Sequence[Drawn]) -> str:
    """The whole page, with `figures` inside."""
    verdict = incast_verdict(run)
    fields: dict[str, Cell] = {
        "title": f"{run.spec.get('experiment')}: {verdict.verdict}",
        "css": Html((_HERE / "report.css").read_text(encoding="utf-8")),
        "experiment": str(run.spec.get("experiment")),
        "headline": headline(run),
        "verdict": verdict.verdict,
        "verdict_class": _VERDICT_CLASSES.get(verdict.verdict, "open"),
        "cures": cures(run),
        "tiles": _tiles(run),
        "missing": _missing(run, verdict),
        "evidence": _evidence(verdict),
        "comparison": cases(run),
        "figures": Html("\n".join(_figure(figure) for figure in figures if figure.path)),
        "skipped": _skipped(figures),
        "models": _models(run),
        "stalls": _stalls(run.stalls),
        "counters": _counters(run),
        "drops": _drops(run),
        "spec": definitions(run.spec),
        "provenance": definitions(_flat(run.provenance)),
        "repeat": _repeat(run),
        "rebuild": f"./run_experiment report {shlex.quote(str(_from_here(run.path)))}",
    }
    template = Template((_HERE / "report.html").read_text(encoding="utf-8"))
    return template.substitute({name: escaped(value) for name, value in fields.items()})


def headline(run: Run) -> str:
    """The finding in one sentence, with its numbers."""
    spec, median = run.parameters, median_seconds(run.rounds)
    rate, buffer = text.rate(spec.path.rate_bps), text.size(spec.buffer_bytes)
    where = f"{spec.senders} senders to 1 at {rate} with a {buffer} buffer"
    if median is None:
        return f"{where}: no round was finished"
    factor = text.digits(median / spec.ideal_seconds)
    ideal = text.seconds(spec.ideal_seconds)
    return f"{where}: rounds take {text.seconds(median)} where {ideal} would do, {factor} times as long"


def _tiles(run: Run) -> Html:
    tiles = (
        ("goodput", text.rate(goodput_bps(run.rounds))),
        ("median round", text.seconds(median_seconds(run.rounds))),
        ("round without loss", text.seconds(run.parameters.ideal_seconds)),
        ("timeouts", text.count(kernel_timeouts(run))),
        ("retransmissions", text.count(retransmits(run))),
        ("drops", text.count(sum(all_drops(run).values()))),
    )
    return Html(
        "\n".join(f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in tiles)
    )


def _missing(run: Run, verdict: Verdict) -> Html:
    """What the run directory lacks, so that nobody takes silence for zero."""
    reasons = [reason.replace(f"{run.path}/", "") for reason in dict.fromkeys([*verdict.missing, *run.missing])]
    shown = [*reasons[:6], *([f"and {len(reasons) - 6} more"] if len(reasons) > 6 else [])]
    return Html(f'<p class="open">Missing: {escape("; ".join(shown))}.</p>' if shown else "")


def _evidence(verdict: Verdict) -> Html:
    return table(_EVIDENCE, (_evidence_row(piece) for piece in verdict.evidence), whole=(0, 1), stacked=True)


def _evidence_row(piece: Evidence) -> list[Cell]:
    words, colour = {True: ("✓ yes", "good"), False: ("✗ no", "bad"), None: ("missing", "open")}[piece.holds]
    holds = Html(f'<span class="{colour}">{words}</span>')
    values = (_quantity(value, piece.unit) for value in (piece.configured, piece.modelled, piece.measured))
    return [piece.name, holds, *values, piece.tolerance, piece.source]


def _quantity(value: Value, unit: str) -> str:
    if value is None or isinstance(value, str):
        return value or text.NOTHING
    scaled = {"s": text.seconds, "b/s": text.rate}.get(unit)
    return scaled(value) if scaled else f"{text.count(value)} {unit}"


def _figure(figure: Drawn) -> str:
    assert figure.path is not None
    image = base64.b64encode(figure.path.read_bytes()).decode("ascii")
    return (
        f'<figure><img alt="{escape(figure.title)}" src="data:image/png;base64,{image}">'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )


def _skipped(figures: Iterable[Drawn]) -> Html:
    reasons = "; ".join(f"{figure.name} ({figure.reason})" for figure in figures if not figure.path)
    return Html(f'<p class="soft">Not drawn: {escape(reasons)}.</p>' if reasons else "")


def _models(run: Run) -> Html:
    """What the arithmetic of cost_model says, beside what was measured."""
    spec = run.parameters
    block_bytes = spec.senders * spec.sender_bytes
    without_loss_bps = block_bytes * 8 / spec.ideal_seconds
    one_timeout_bps = goodput_one_timeout_bps(block_bytes, without_loss_bps, spec.rto_min_ns)
    lossless = (
        "every wire bit once through the receiver's link, or, if longer, the last of N starts in the jitter J, "
        "J N / (N + 1), and its block; with one one-way delay"
    )
    one_timeout = "one timeout per round: B / (B/C + RTOmin)"
    rows = [
        ["round", text.seconds(spec.ideal_seconds), text.seconds(median_seconds(run.rounds)), lossless],
        ["goodput", text.rate(one_timeout_bps), text.rate(goodput_bps(run.rounds)), one_timeout],
        *_fill_models(run),
    ]
    return table(("quantity", "modelled", "measured", "model"), rows, numbers=(1, 2), stacked=True)


def _fill_models(run: Run) -> list[list[str]]:
    """The least time in which the buffer fills, and the lecture's figure, beside the measured time."""
    spec, name, measured = run.parameters, "buffer full after", text.seconds(fill_s(run))
    least_s = buffer_fill_seconds(spec.buffer_bytes, spec.senders, spec.path.rate_bps)
    least = (
        f"at the least: all {spec.senders} senders at line rate at once, buffer / ((N - 1) C). Starts spread over the "
        f"jitter of {text.seconds(spec.jitter_ns / 1e9)} and slow start make it longer; by how much hangs on how the "
        "starts cluster, which no simple model tells"
    )
    one_rate_s = line_rate_fill_seconds(spec.buffer_bytes, spec.path.rate_bps)
    one_rate = "one line rate into it, nothing leaves: buffer / C (the lecture's 12 µs: 600 KB at 400 Gb/s)"
    return [
        [name, "never" if math.isinf(least_s) else text.seconds(least_s), measured, least],
        [name, text.seconds(one_rate_s), measured, one_rate],
    ]


def _stalls(stalls: Sequence[Stall]) -> Html:
    """How many stalls of each cause, then the longest ones."""
    if not stalls:
        return Html("<p>No flow stalled, as far as the sender captures tell.</p>")
    causes = {cause: [stall.seconds for stall in stalls if stall.cause == cause] for cause in MEANINGS}
    totals = [
        [cause, MEANINGS[cause], text.count(len(spans)), text.seconds(sum(spans))]
        for cause, spans in causes.items()
        if spans
    ]
    longest = sorted(stalls, key=lambda stall: (-stall.seconds, stall.start_s))[:_SHOWN_STALLS]
    rows = [[stall.flow, text.seconds(stall.start_s), text.seconds(stall.seconds), stall.cause] for stall in longest]
    return Html(
        table(("cause", "meaning", "stalls", "flow seconds"), totals, numbers=(2, 3), stacked=True)
        + f"<p>The longest {len(rows)} of {text.counted(len(stalls), 'stall')}:</p>"
        + table(("flow", "began", "lasted", "cause"), rows, numbers=(1, 2))
    )


def _counters(run: Run) -> Html:
    matches = counter_matches(run)
    if not matches:
        return Html("<p>Not compared: kernel counters or some sender captures are missing.</p>")
    rows = [
        [
            each.counter,
            each.meaning,
            text.count(each.kernel),
            text.count(each.captured),
            "✓ yes" if each.agrees else "✗ no",
        ]
        for each in matches
    ]
    return table(("kernel counter", "meaning", "kernel", "captures", "agree"), rows, numbers=(2, 3), stacked=True)


def _drops(run: Run) -> Html:
    drops = all_drops(run)
    rows = [
        [port, text.count(count), "towards the receiver" if port == run.hot_port else ""]
        for port, count in drops.items()
    ]
    return (
        table(("port", "packets dropped", ""), rows, numbers=(1,)) if rows else Html("<p>No port dropped a packet.</p>")
    )


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
