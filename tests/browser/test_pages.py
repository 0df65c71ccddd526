"""Every kind of page in Chromium, without a network: nothing asked for, nothing complained of, all to be seen."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import PHONE, WIDE, Browser
from tests.browser.pages import EVIL, HOSTILE, PAGES

pytestmark = pytest.mark.browser

BOXES = "return [...document.querySelectorAll(arguments[0])].map(one => one.getBoundingClientRect().toJSON())"
RANGES = "return [...document.querySelectorAll('.plot')].map(plot => plot.layout.xaxis.range)"
MISSING_STREAM = "delete window.DecompressionStream"
with_timelines = pytest.mark.parametrize("kind", [name for name in PAGES if name != "collective"])


@pytest.fixture(scope="package")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every page, made once."""
    return {name: make(tmp_path_factory.mktemp(name) / "run") for name, make in {**PAGES, **HOSTILE}.items()}


def open_whole(browser: Browser, page: Path, **how: Any) -> None:
    """Open a page and see that it is drawn, and that nothing went wrong."""
    browser.open(page, **how)
    assert browser.run("return document.documentElement.dataset.drawn") in ("yes", None)
    assert browser.complaints() == []
    assert browser.requests() == [page.resolve().as_uri()]


def seen(browser: Browser, selector: str) -> list[dict[str, float]]:
    """The boxes of all elements, which must have a size."""
    boxes = browser.run(BOXES, selector)
    assert all(box["width"] > 50 and box["height"] > 30 for box in boxes), boxes
    return boxes


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("kind", PAGES)
def test_a_page_is_whole_without_a_network(browser: Browser, pages: dict[str, Path], kind: str, width: int) -> None:
    open_whole(browser, pages[kind], width=width)
    assert seen(browser, "figure img")
    assert browser.run("return [...document.images].every(one => one.complete && one.naturalWidth > 0)")
    charts = len(browser.run(BOXES, "figure.timeline"))
    assert len(seen(browser, ".plot svg.main-svg:first-child")) == charts
    assert browser.run("return document.querySelectorAll('.plot .trace, .plot .barlayer .point').length") >= charts
    assert browser.run("return document.documentElement.scrollWidth") <= width


@with_timelines
def test_dragging_zooms_all_timelines_and_a_button_shows_all_again(
    browser: Browser, pages: dict[str, Path], kind: str
) -> None:
    open_whole(browser, pages[kind])
    before = browser.run(RANGES)
    drag(browser, 0.3, 0.6)
    ranges = browser.wait(f"{RANGES.replace('return', 'const found =')}; return found[0][0] > 0 && found")
    span = before[0][1] - before[0][0]
    for low, high in ranges:
        assert low == pytest.approx(before[0][0] + 0.3 * span, abs=0.05 * span)
        assert high == pytest.approx(before[0][0] + 0.6 * span, abs=0.05 * span)
    browser.run("document.querySelector('.views [data-view=all]').click()")
    browser.wait(f"return JSON.stringify((() => {{ {RANGES} }})()) === JSON.stringify(arguments[0])", before)
    assert browser.complaints() == []


def drag(browser: Browser, begin: float, end: float) -> None:
    """Drag across the first timeline, from one share of its width to another."""
    browser.run("document.querySelector('.plot').scrollIntoView({block: 'center'})")
    (box,) = browser.run(BOXES, ".plot .nsewdrag")[:1]
    y = box["y"] + box["height"] / 2
    places = [box["x"] + share * box["width"] for share in (begin, (begin + end) / 2, end)]
    mouse(browser, "mousePressed", places[0], y)
    for x in places[1:]:
        mouse(browser, "mouseMoved", x, y)
    mouse(browser, "mouseReleased", places[-1], y)


def mouse(browser: Browser, what: str, x: float, y: float) -> None:
    held = {"button": "left", "buttons": 0 if what == "mouseReleased" else 1, "clickCount": 1}
    browser.command("Input.dispatchMouseEvent", type=what, x=x, y=y, **held)


def test_a_view_is_a_button_that_the_keyboard_reaches(browser: Browser, pages: dict[str, Path]) -> None:
    open_whole(browser, pages["captures"])
    before = browser.run(RANGES)
    browser.run("document.querySelector('[data-view=\"0\"]').focus()")
    press(browser, "Enter")
    ranges = browser.wait(f"{RANGES.replace('return', 'const found =')}; return found[0][0] > 0 && found")
    assert all(low == pytest.approx(90) and high == pytest.approx(310) for low, high in ranges)
    assert before[0][0] == 0


def press(browser: Browser, key: str) -> None:
    told = {"key": key, "code": key, "windowsVirtualKeyCode": 13, "text": "\r"}
    browser.command("Input.dispatchKeyEvent", type="keyDown", **told)
    browser.command("Input.dispatchKeyEvent", type="keyUp", **told)


def test_hovering_tells_flow_time_and_cause(browser: Browser, pages: dict[str, Path]) -> None:
    open_whole(browser, pages["captures"])
    browser.run("document.querySelector('.plot').scrollIntoView({block: 'center'})")
    (box,) = browser.run(BOXES, ".plot .nsewdrag")[:1]
    for aside in (0, 1):
        told = {"x": box["x"] + box["width"] / 2 + aside, "y": box["y"] + box["height"] / 4}
        browser.command("Input.dispatchMouseEvent", type="mouseMoved", **told)
    words = browser.wait("return document.querySelector('.hoverlayer')?.textContent")
    for word in ("10.0.0.2:5000 > 10.0.0.1:4000", "rto_tail_loss", "200 ms", "100 ms", "likely"):
        assert word in words


@pytest.mark.parametrize("by_key", [False, True])
def test_a_table_sorts_by_value(browser: Browser, pages: dict[str, Path], by_key: bool) -> None:
    open_whole(browser, pages["comparison"])
    table = "[...document.querySelectorAll('table')].find(one => one.textContent.includes('median round'))"
    place = browser.run(
        f"return [...{table}.tHead.rows[0].cells].findIndex(one => one.textContent.includes('median round'))"
    )
    cells = f"return [...{table}.tBodies[0].rows].map(row => row.cells[{place}].textContent)"
    head = f"{table}.tHead.rows[0].cells[{place}]"

    def sort() -> tuple[list[str], str]:
        if by_key:
            browser.run(f"{head}.querySelector('button').focus()")
            press(browser, "Enter")
        else:
            browser.run(f"{head}.querySelector('button').click()")
        return browser.run(cells), browser.run(f"return {head}.getAttribute('aria-sort')")

    assert browser.run(f"return {head}.getAttribute('aria-sort')") is None
    assert sort() == (["201 ms", "4 µs"], "descending")  # by its text 4 µs would be the larger one
    assert sort() == (["4 µs", "201 ms"], "ascending")
    assert browser.run(f"return {table}.querySelectorAll('[aria-sort]').length") == 1


@with_timelines
def test_light_and_dark_are_followed_while_the_page_is_open(
    browser: Browser, pages: dict[str, Path], kind: str
) -> None:
    colours = "return [getComputedStyle(document.body).backgroundColor, document.querySelector('.plot').layout.%s]"
    paper, ink = colours % "paper_bgcolor", colours % "font.color"
    open_whole(browser, pages[kind], is_dark=True)
    assert browser.run(paper) == ["rgb(23, 23, 26)", "#17171a"]
    assert browser.run(ink)[1] == "#ececf0"
    browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser.wait("return document.querySelector('.plot').layout.paper_bgcolor === '#ffffff'")
    assert browser.run(paper)[0] == "rgb(255, 255, 255)"


@pytest.mark.parametrize("kind", PAGES)
def test_paper_shows_each_thing_once_and_nothing_is_cut(browser: Browser, pages: dict[str, Path], kind: str) -> None:
    open_whole(browser, pages[kind], is_dark=True)
    browser.resize(720)
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    browser.command("Emulation.setEmulatedMedia", media="print")
    try:
        shown = browser.run(
            "return [...document.querySelectorAll('figure.timeline')].map("
            "one => [one.classList.contains('has-still'), one.getClientRects().length > 0])"
        )
        assert all(has_still != is_shown for has_still, is_shown in shown)
        assert seen(browser, "figure img")
        assert browser.run("return [...document.querySelectorAll('.plot')].every(one => one.layout.width <= 660)")
        assert browser.run("return document.documentElement.scrollWidth") <= 720
        printed = base64.b64decode(browser.command("Page.printToPDF", printBackground=True)["data"])
        assert printed.startswith(b"%PDF")
    finally:
        browser.command("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("kind", ["incast", "comparison", "captures"])
def test_without_scripts_all_figures_are_there_and_it_is_said(
    browser: Browser, pages: dict[str, Path], kind: str
) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    browser.driver.get(pages[kind].resolve().as_uri())
    browser.command("Emulation.setScriptExecutionDisabled", value=False)  # it takes effect with the next page
    assert seen(browser, "figure img")
    (note,) = browser.run(BOXES, "noscript p")
    assert note["height"] > 10
    assert browser.run("return document.getElementById('timelines').hidden")


def test_a_browser_that_cannot_inflate_says_so(browser: Browser, pages: dict[str, Path]) -> None:
    planted = browser.command("Page.addScriptToEvaluateOnNewDocument", source=MISSING_STREAM)
    try:
        browser.open(pages["incast"])
        assert browser.run("return document.documentElement.dataset.drawn") == "no"
        assert len(seen(browser, "figure img")) >= 4
        assert browser.run("return document.getElementById('undrawn').getClientRects().length") == 1
    finally:
        browser.command("Page.removeScriptToEvaluateOnNewDocument", identifier=planted["identifier"])


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_name_stays_a_name(browser: Browser, pages: dict[str, Path], kind: str) -> None:
    open_whole(browser, pages[kind])
    assert "owned" not in browser.driver.title[:5]
    assert browser.run("return document.querySelectorAll('main a, .plot a, .plot image, main script').length") == 0
    assert browser.run("return [...document.images].every(one => one.src.startsWith('data:image/png;base64,'))")
    assert browser.run("return document.scripts.length") <= 4
    drawn = browser.run("return [...document.querySelectorAll('.plot svg text')].map(one => one.textContent).join(' ')")
    assert EVIL[:8] in drawn
    assert EVIL[:20] in browser.run("return document.body.innerText")


def test_the_policy_stops_what_gets_in_all_the_same(browser: Browser, pages: dict[str, Path]) -> None:
    open_whole(browser, pages["incast"])
    browser.run(
        "document.body.insertAdjacentHTML('beforeend', arguments[0])",
        '<img src="http://127.0.0.1:9/x.png" onerror="window.owned = 1"><img src="data:,x" onerror="window.owned = 1">',
    )
    browser.run(
        "const one = document.createElement('script'); one.text = 'window.owned = 1'; document.body.append(one)"
    )
    browser.run("return fetch('http://127.0.0.1:9/').then(() => 1, () => 2)")
    assert browser.run("return window.owned") is None
    assert browser.requests() == []
    assert any("Content Security Policy" in line for line in browser.complaints())
