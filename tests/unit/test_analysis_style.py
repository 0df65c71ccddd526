"""What all figures share: names that are safe to draw, colours, margins, legends, equal bytes."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.explain.causes import MEANINGS
from analysis.figures.collective import time_axis
from analysis.figures.style import (
    NAME_LETTERS,
    Skipped,
    cause_colour,
    drawn,
    label,
    legend_below,
    legend_rows,
    name_rows,
    new_figure,
    save,
    shown,
    time_unit,
    vertical_scale,
)

HOSTILE = "$\\frac{a}{$<b>\n\r\t\x00\x1b[31m\u202e\u2066\ud800\U0001f600" + "w" * 300


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("h2-eth0", "h2-eth0"),
        ("$x^2$", "$x^2$"),
        ("two\nlines\tand a tab", "two lines and a tab"),
        ("\x00\x1b[1m\u202e", "\ufffd\ufffd[1m\ufffd"),
        ("\U0001f9a5", "\ufffd"),
        ("abcdefghijklmnopqrstuvwxyz0123456", "abcdefghijklmnopqr…yz0123456"),
        ("", ""),
    ],
)
def test_a_name_is_shown_in_one_line_without_what_cannot_be_drawn(words: str, seen: str) -> None:
    assert shown(words) == seen
    assert len(seen) <= NAME_LETTERS


def test_hostile_names_are_drawn_without_a_warning_and_inside_the_figure(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure, (axes,) = new_figure(HOSTILE, legend_rows=legend_rows([HOSTILE, "b"]))
        axes.plot([1, 2], [0, 1], label=HOSTILE)
        axes.plot([1, 2], [1, 0], label="b")
        name_rows(axes, [HOSTILE, "h3"])
        label(axes, "time (s)", "")
        legend_below([axes])
        save(figure, tmp_path / "a.png")
    figure.canvas.draw()
    for text in [*axes.get_yticklabels(), *figure.legends[0].get_texts()]:
        box = text.get_window_extent()
        assert 0 <= box.x0 <= box.x1 <= figure.bbox.width, text.get_text()
    assert all(len(text.get_text()) <= 46 for text in figure.legends[0].get_texts())


@pytest.mark.parametrize("most", [1.0, 10_000.0, 10_000_000.0])
def test_no_label_of_the_vertical_axis_is_cut(tmp_path: Path, most: float) -> None:
    figure, (axes,) = new_figure("numbers of many digits")
    axes.plot([1, 2], [0, most])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    label(axes, "", "a name (µs)")
    right = axes.get_position().x1
    save(figure, tmp_path / "a.png")
    figure.canvas.draw()
    box = axes.yaxis.get_tightbbox(figure.canvas.get_renderer())  # type: ignore[attr-defined]
    assert box is not None
    assert box.x0 >= 0
    assert axes.get_position().x1 == pytest.approx(right)


@pytest.mark.parametrize("decades", [0.3, 1, 1.5, 2, 3, 4, 5, 7])
def test_names_on_an_axis_of_times_do_not_meet(decades: float) -> None:
    figure, (axes,) = new_figure("times")
    axes.plot([1, 2], [2, 2 * 10**decades])
    time_axis(axes)
    figure.canvas.draw()
    low, high = axes.get_ylim()
    seen = [text for place, text in zip(axes.get_yticks(), axes.get_yticklabels()) if low <= place <= high]
    boxes = sorted((box.y0, box.y1) for box in (text.get_window_extent() for text in seen))
    assert len(boxes) >= 2
    assert all(first[1] < second[0] for first, second in zip(boxes, boxes[1:]))


def test_two_panels_stay_beside_each_other_when_the_margin_grows(tmp_path: Path) -> None:
    figure, (left, right) = new_figure("a title", (1, 1))
    left.set_yticks([0, 1], ["a long name of a row", "another one"])
    apart = right.get_position().x0 - left.get_position().x1
    save(figure, tmp_path / "a.png")
    assert 0 < right.get_position().x0 - left.get_position().x1 <= apart
    assert left.get_position().width == pytest.approx(right.get_position().width)


def test_every_cause_of_a_stall_has_a_colour_of_its_own() -> None:
    colours = [cause_colour(cause) for cause in MEANINGS]
    assert len(set(colours)) == len(colours)


def test_equal_figures_are_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        figure, (axes,) = new_figure("a finding")
        axes.plot([1, 2, 3], [1, 3, 2], label="one")
        legend_below([axes])
        save(figure, tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize(
    ("span_ns", "unit"), [(2e9, (1e9, "s")), (1e9, (1e9, "s")), (5e5, (1e3, "µs")), (1e6, (1e6, "ms")), (0, (1, "ns"))]
)
def test_the_unit_of_a_time_axis(span_ns: float, unit: tuple[float, str]) -> None:
    assert time_unit(span_ns) == unit


def test_our_texts_are_no_formulas_and_other_figures_have_theirs(tmp_path: Path) -> None:
    """A number at a logarithmic axis is a formula; names of rows, and labels that are made while drawing, are none."""
    figure, (axes,) = new_figure("$a$")
    axes.plot([1, 1000], [0, 1])
    axes.set_xscale("log")
    name_rows(axes, ["$b$", "$c$"])
    save(figure, tmp_path / "a.png")
    assert not any(words.get_parse_math() for words in figure.findobj(Text))
    other = Figure()
    FigureCanvasAgg(other)
    other.add_subplot().set_xscale("log")
    other.canvas.draw()
    assert all(words.get_parse_math() for words in other.findobj(Text))


def test_values_that_span_much_get_a_logarithmic_axis() -> None:
    for values, scale in (([1.0, 2.0], "linear"), ([1.0, 100.0], "log")):
        _, (axes,) = new_figure("a finding")
        vertical_scale(axes, values)
        assert axes.get_yscale() == scale


def test_a_drawing_without_inputs_tells_why(tmp_path: Path) -> None:
    def draw() -> object:
        raise Skipped("no packets")

    found = drawn("x", tmp_path, draw)  # type: ignore[arg-type]
    assert (found.path, found.reason) == (None, "no packets")
    assert not list(tmp_path.iterdir())
