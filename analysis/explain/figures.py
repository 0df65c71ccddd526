"""The figures of an explanation, from captures alone: each states what was found, or says why it is not drawn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from analysis.explain import figures_flows, figures_path, figures_sequence
from analysis.explain.model import Explanation
from analysis.figures.style import Drawn, drawn

_DRAWINGS = {
    "sequence": figures_sequence.sequence,
    "goodput": figures_flows.goodput,
    "gantt": figures_flows.gantt,
    "rtt": figures_flows.round_trips,
    "delay": figures_path.delay,
    "pauses": figures_path.pauses,
    "tail": figures_flows.tail,
    "losses": figures_path.losses,
}
NAMES: Sequence[str] = tuple(_DRAWINGS)


def draw_all(explanation: Explanation, folder: Path) -> list[Drawn]:
    """Draw every figure into `folder`, in the order in which a page shows them."""
    return [drawn(name, folder, partial(draw, explanation)) for name, draw in _DRAWINGS.items()]
