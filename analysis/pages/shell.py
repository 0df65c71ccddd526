"""The shell of every page: one HTML file that is whole without the network, for light and dark, screens and paper.

Its timelines are drawn by plotly.js, which is stored in the page once, compressed, and only where there are timelines.
The page's own policy (Content-Security-Policy) forbids it to load anything, and to run anything but the two scripts
whose hashes it names, whatever a name from a run directory or a capture holds.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from analysis.figures.style import Drawn
from analysis.pages.markup import Cell, Html, escaped
from analysis.pages.timelines import Chart, as_json

VERDICT_CLASSES = {False: "bad", True: "good", None: "open"}
BROAD_FIGURES = ("fabric", "heat", "tree")  # figures that need the page's whole width
_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SHOWN_REASONS = 6
_HERE = Path(__file__).parent
_ZOOM = "Drag across a timeline to zoom into a time, double-click for all of it; the others follow."
_NO_SCRIPT = "The timelines that can be zoomed need JavaScript. Every figure is on the page as a picture all the same."
_OLD_BROWSER = "This browser cannot draw the timelines that can be zoomed; the figures show what was found."


@dataclass(frozen=True)
class Page:
    """What stands on a page: `kicker` above the headline, then `body`; charts go where `timelines` put them."""

    title: str
    kicker: str
    headline: str
    body: Sequence[Html]
    charts: Sequence[Chart] = ()


def render(page: Page) -> str:
    """The whole page."""
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    hashes = [_hash(script.encode()), *([_plotly().hash] if page.charts else [])]
    fields: Mapping[str, Cell] = {
        "policy": _policy(hashes),
        "title": page.title,
        "css": Html((_HERE / "page.css").read_text(encoding="utf-8")),
        "kicker": page.kicker,
        "headline": page.headline,
        "body": Html("\n".join(part for part in page.body if part)),
        "scripts": Html("\n".join([*_data(page.charts), f"<script>{script}</script>"])),
    }
    template = Template((_HERE / "page.html").read_text(encoding="utf-8"))
    return _visible(template.substitute({name: escaped(value) for name, value in fields.items()}))


def _visible(page: str) -> str:
    """The page with every control character, and all that turns the writing round, as its escape: names come from
    captures and folders. Our own script and style have none."""
    return _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape").decode(), page)


def _policy(hashes: Iterable[str]) -> str:
    """Pictures from the page itself, its own styles, its own scripts; nothing from anywhere else."""
    scripts = " ".join(f"'{each}'" for each in hashes)
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {scripts}; "
        "base-uri 'none'; form-action 'none'"
    )


def _data(charts: Sequence[Chart]) -> list[str]:
    if not charts:
        return []
    return [
        f'<script type="application/json" id="charts">{as_json(charts)}</script>',
        f'<script type="text/plain" id="plotly">{_plotly().packed}</script>',
    ]


@dataclass(frozen=True)
class _Plotly:
    """The drawing library: gzip in base64 for the page, which inflates it, and the hash by which the policy knows
    it."""

    packed: str
    hash: str


@lru_cache(maxsize=1)
def _plotly() -> _Plotly:
    from plotly.offline import get_plotlyjs

    source = get_plotlyjs().encode()
    packed = gzip.compress(source, mtime=0)  # without the time: equal runs, equal pages
    return _Plotly(base64.b64encode(packed).decode("ascii"), _hash(source))


def _hash(script: bytes) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode('ascii')}"


def section(heading: str, *parts: Cell) -> Html:
    """A heading with what stands under it; nothing when there is nothing."""
    filled = [escaped(part) for part in parts if part]
    return Html("\n".join([f"<h2>{escape(heading)}</h2>", *filled]) if filled else "")


def paragraph(words: str, kind: str = "") -> Html:
    """A paragraph, of one of the style sheet's classes; nothing without words."""
    opening = f'<p class="{kind}">' if kind else "<p>"
    return Html(f"{opening}{escape(words)}</p>" if words else "")


def badge(words: str, good: bool | None) -> Html:
    """A verdict as a coloured pill."""
    return Html(f'<span class="verdict {VERDICT_CLASSES[good]}">{escape(words)}</span>')


def tiles(shown: Iterable[tuple[str, str]]) -> Html:
    """The handful of figures at the top of a page: name, value in words."""
    each = "\n".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in shown
    )
    return Html(f'<div class="tiles">\n{each}\n</div>' if each else "")


def timelines(charts: Sequence[Chart], drawn: Iterable[Drawn] = ()) -> Html:
    """Where page.js draws the charts; what one of the figures shows as well is left out on paper."""
    stills = {figure.name for figure in drawn if figure.path}
    each = "\n".join(_chart(place, chart, chart.still in stills) for place, chart in enumerate(charts))
    told = (
        f'<noscript><p class="soft">{escape(_NO_SCRIPT)}</p></noscript>\n'
        f'<p class="soft" id="undrawn" hidden>{escape(_OLD_BROWSER)}</p>\n'
        f'<div id="timelines" hidden>\n<p class="soft hint">{escape(_ZOOM)}</p>\n{each}\n</div>'
    )
    return Html(told if charts else "")


def _chart(place: int, chart: Chart, has_still: bool) -> str:
    kind = "timeline has-still" if has_still else "timeline"
    buttons = "".join(
        f'<button type="button" data-view="{number}">{escape(view.name)}</button>'
        for number, view in enumerate(chart.views)
    )
    everything = '<button type="button" data-view="all">all</button>'
    views = f'<div class="views">{everything}{buttons}</div>'
    return (
        f'<figure class="{kind}" data-chart="{place}"><h3>{escape(chart.title)}</h3>{views}'
        f'<div class="plot" role="img" aria-label="{escape(chart.title)}"></div>'
        f"<figcaption>{escape(chart.caption)}</figcaption></figure>"
    )


def figures(drawn: Iterable[Drawn]) -> Html:
    """The figures as pictures inside the page."""
    shown = "\n".join(figure_of(figure) for figure in drawn if figure.path)
    return Html(f'<div class="figures">\n{shown}\n</div>' if shown else "")


def figure_of(figure: Drawn, heading: str = "") -> str:
    """One figure as a picture inside the page, with its caption, below a heading of its own where there is one."""
    assert figure.path is not None
    image = base64.b64encode(figure.path.read_bytes()).decode("ascii")
    broad = ' class="broad"' if figure.name in BROAD_FIGURES else ""
    above = f"<h3>{escape(heading)}</h3>" if heading else ""
    return (
        f'<figure{broad}>{above}<img alt="{escape(figure.title)}" src="data:image/png;base64,{image}">'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )


def skipped(drawn: Iterable[Drawn]) -> Html:
    """Which figures were not drawn, and why."""
    reasons = "; ".join(f"{figure.name} ({figure.reason})" for figure in drawn if not figure.path)
    return paragraph(f"Not drawn: {reasons}." if reasons else "", "soft")


def missing(reasons: Sequence[str]) -> Html:
    """What is missing, so that nobody takes silence for zero."""
    shown = list(dict.fromkeys(reasons))
    rest = len(shown) - _SHOWN_REASONS
    told = [*shown[:_SHOWN_REASONS], *([f"and {rest} more"] if rest > 0 else [])]
    return paragraph(f"Missing: {'; '.join(told)}." if told else "", "open")


def commands(*said: tuple[str, str]) -> Html:
    """Commands to type, each below what it does."""
    return Html("\n".join(f'<p class="soft">{escape(what)}</p>\n<code>{escape(line)}</code>' for what, line in said))


def flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level, keys joined by dots."""
    found: dict[str, Any] = {}
    for key, value in mapping.items():
        found.update(flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value})
    return found
