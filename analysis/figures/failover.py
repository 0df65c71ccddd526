"""The figures of failures under steady streams: losses over time, and the cases beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import text
from analysis.figures.style import (
    IDEAL,
    INK,
    SMALL,
    Skipped,
    dress,
    label,
    legend_below,
    legend_rows,
    name_rows,
    new_figure,
)
from analysis.kinds.losses import Failure, begin_ns, delivered_share, failures, losses, streams
from analysis.run import Run

_BINS = 80
_LEAST_DEPTH = 5  # per cent of the delivered share that its axis shows at least
_MOST_ROWS = 24
_COLOURS = (INK, "#CC79A7", "#56B4E9", "#7F7F7F", "#8C564B")  # the run, then its cases
_LOST_COLOUR, _RECOVERY_COLOUR = "#0072B2", "#D55E00"
_MARKS = {  # event -> label, colour, line style
    "down": ("goes down", "#D55E00", "-"),
    "heard": ("controller hears", "#E69F00", ":"),
    "repaired": ("rules repaired", "#009E73", "--"),
    "up": ("comes up", "#0072B2", "-"),
}
_APART = 0.01  # of the time shown: what follows closer on the failure is not told from it
_LOST, _CLAIM = "lost datagram", "slide 10: good below 1 s"
_TIMELINE_CAPTION = (
    "Above, one row per flow that lost something: every mark is a lost datagram at the time it was sent, their number "
    "beside the name. Below, the share of all datagrams sent at a time that arrived, of this run and of the cases with "
    "the same failures. When the controller heard is only drawn where that can be told from the failure itself."
)
_CASES_CAPTION = (
    "Left: datagrams lost (dots) beside those that were in flight on the links that died (strokes); the axis is linear "
    "up to 10. Right: the longest time from a failure to its last loss; arrows: streams ended before they recovered."
)


def timeline(run: Run) -> tuple[Figure, str, str]:
    """Losses of every flow over time, with the failures and the controller's reactions, above the share delivered."""
    if not streams(run) or not failures(run):
        raise Skipped("no finished stream, or nothing failed")
    flows = sorted({loss.flow for loss in losses(run)}, key=text.natural)
    shown = _comparable(run)
    title = _timeline_title(run, flows)
    marks = {_MARKS[kind][0] for each in failures(run) for kind in _marks(run, each)}
    names = [*marks, *([_LOST] if flows else []), *(shown if len(shown) > 1 else ())]
    rows_in = 0.35 + 0.16 * min(max(len(flows), 1), _MOST_ROWS)
    figure, (whole,) = new_figure(title, height_in=rows_in + 1.75, legend_rows=legend_rows(names))
    upper, lower = _split(figure, whole, rows_in)
    for axes in (upper, lower):
        dress(axes)
        _draw_events(axes, run)
    _draw_losses(upper, run, flows)
    _draw_delivered(lower, shown)
    _share_axis(upper, lower, run)
    legend_below([upper, lower])
    return figure, title, _TIMELINE_CAPTION


def _row_names(run: Run, flows: Sequence[str]) -> list[str]:
    """The flows, each with how many datagrams it lost."""
    counts = Counter(loss.flow for loss in losses(run))
    return [f"{flow}: {counts[flow]:,}" for flow in flows]


def _split(figure: Figure, whole: Axes, upper_in: float) -> tuple[Axes, Axes]:
    """Two panels, one above the other, in the place of one; the upper as high as asked."""
    place = whole.get_position()
    whole.remove()
    height = place.height * figure.get_figheight()
    share = place.height * min(upper_in / height, 0.7)
    gap = 0.1 / figure.get_figheight()
    lower = figure.add_axes((place.x0, place.y0, place.width, place.height - share - gap))
    return figure.add_axes((place.x0, place.y1 - share, place.width, share)), lower


def _comparable(run: Run) -> dict[str, Run]:
    """The run and its first cases with the same failures of the same fabric, by label."""
    same = ("failure", "topology")
    cases = {
        name: case
        for name, case in run.cases.items()
        if case.workload == run.workload and all(case.spec.get(key) == run.spec.get(key) for key in same)
    }
    return dict([(run.parameters.label, run), *cases.items()][: len(_COLOURS)])


def _timeline_title(run: Run, flows: Sequence[str]) -> str:
    found = failures(run)
    lost = text.counted(len(losses(run)), "datagram")
    downs = Counter(each.target for each in found if each.action == "down")
    told = [f"{target} goes down" + (f" {count} times" if count > 1 else "") for target, count in downs.items()]
    names = "; ".join(told[:2]) + (f" and {len(told) - 2} more" if len(told) > 2 else "")
    if not flows:
        return f"{names}: nothing is lost"
    slowest = max(found, key=lambda each: each.last_loss_ns)
    over = (
        "some streams do not recover"
        if slowest.open_flows
        else f"over after {text.seconds(slowest.last_loss_ns / 1e9)}"
    )
    verb = "loses" if len(flows) == 1 else "lose"
    return f"{names}: {text.counted(len(flows), 'flow')} {verb} {lost}, {over}"


def _marks(run: Run, each: Failure) -> dict[str, int]:
    """A failure, and what the controller did about it as far as that is seen to be later, in ns from the failure."""
    reactions = {"heard": each.heard_ns, "repaired": each.repaired_ns}
    apart_ns = _APART * _lasted_ns(run)
    seen = {kind: after_ns for kind, after_ns in reactions.items() if after_ns is not None and after_ns > apart_ns}
    return {each.action: 0, **seen}


def _lasted_ns(run: Run) -> int:
    """How long the streams lasted."""
    return max(each["first_ns"] + each["sent"] * each["interval_ns"] for each in streams(run)) - begin_ns(run)


def _ms(time_ns: int, run: Run) -> float:
    return (time_ns - begin_ns(run)) / 1e6


def _draw_events(axes: Axes, run: Run) -> None:
    """A vertical line for every failure, and for what the controller did about it."""
    named: set[str] = set()
    for each in failures(run):
        for kind, after_ns in _marks(run, each).items():
            name, colour, style = _MARKS[kind]
            again = "_" if kind in named else ""  # matplotlib leaves such labels out of legends
            place = _ms(each.time_ns + after_ns, run)
            axes.axvline(place, color=colour, linestyle=style, linewidth=1.2, label=again + name)
            named.add(kind)


def _draw_losses(axes: Axes, run: Run, flows: Sequence[str]) -> None:
    rows = {flow: place for place, flow in enumerate(flows)}
    found = losses(run)
    axes.scatter(
        [_ms(loss.sent_ns, run) for loss in found],
        [rows[loss.flow] for loss in found],
        s=70,
        marker="|",
        color=INK,
        linewidths=1.1,
        label=_LOST if found else None,
        zorder=3,
    )
    name_rows(axes, _row_names(run, flows), _MOST_ROWS)
    axes.set_ylim(max(len(flows), 1) - 0.4, -0.6)
    axes.tick_params(labelbottom=False)


def _draw_delivered(axes: Axes, shown: dict[str, Run]) -> None:
    """The share delivered over time, as steps; the run itself on top."""
    lowest = 100.0
    for place, (name, each) in reversed(list(enumerate(shown.items()))):
        lasted_ns = max(one["sent"] * one["interval_ns"] for one in streams(each)) if streams(each) else 0
        interval_ns = max((one["interval_ns"] for one in streams(each)), default=1)
        times, shares = delivered_share(each, max(lasted_ns // _BINS // interval_ns, 1) * interval_ns)
        percent = [100 * share for share in shares]
        lowest = min([lowest, *percent])
        axes.step(
            times,
            percent,
            where="post",
            color=_COLOURS[place],
            linewidth=1.8 if place == 0 else 1.3,
            label=name if len(shown) > 1 else None,
        )
    depth = max(_LEAST_DEPTH, 1.2 * (100 - lowest))
    axes.set_ylim(100 - min(depth, 104), 100 + 0.06 * depth)


def _share_axis(upper: Axes, lower: Axes, run: Run) -> None:
    """One time axis for both panels: the streams' whole length."""
    for axes in (upper, lower):
        axes.set_xlim(0, _lasted_ns(run) / 1e6)
    label(upper, "", "")
    label(lower, "time since the streams began (ms)", "delivered (%)")


def failures_compared(run: Run) -> tuple[Figure, str, str]:
    """Losses, datagrams in flight and time to recovery, of the run and its cases."""
    runs = {
        run.parameters.label: run,
        **{name: case for name, case in run.cases.items() if case.workload == run.workload},
    }
    shown = {name: (each, failures(each)) for name, each in runs.items() if streams(each) and failures(each)}
    if len(shown) < 2:
        raise Skipped("no cases in cases/ to compare")
    title = _compared_title(shown)
    names = ["lost", "in flight on what died", "time to recovery", _CLAIM]
    figure, (left, right) = new_figure(
        title, columns=(1, 1), height_in=0.6 + 0.34 * len(shown), legend_rows=legend_rows(names)
    )
    for place, (each, found) in enumerate(shown.values()):
        first = names if place == 0 else [None] * len(names)
        left.plot([len(losses(each))], [place], "o", color=_LOST_COLOUR, markersize=7, label=first[0], zorder=3)
        in_flight = sum(one.in_flight for one in found)
        left.plot([in_flight] * 2, [place - 0.36, place + 0.36], color=IDEAL, linewidth=2, label=first[1])
        _draw_recovery(right, place, found, first[2])
    right.axvline(1.0, color=IDEAL, linestyle="--", linewidth=1, label=_CLAIM)
    _dress_compared(left, right, list(shown))
    legend_below([left, right])
    return figure, title, _CASES_CAPTION


def _draw_recovery(axes: Axes, place: int, found: Sequence[Failure], name: str | None) -> None:
    """The longest recovery of a run; an arrow to the right where a stream ended before it had recovered."""
    slowest = max(found, key=lambda each: (bool(each.open_flows), each.last_loss_ns))
    after_s = slowest.last_loss_ns / 1e9
    marker = ">" if slowest.open_flows else "o"
    axes.plot([max(after_s, 1e-7)], [place], marker, color=_RECOVERY_COLOUR, markersize=7, label=name, zorder=3)
    words = "no loss" if not after_s else text.seconds(after_s)
    axes.annotate(
        words, (max(after_s, 1e-7), place), (7, 0), textcoords="offset points", va="center", fontsize=SMALL,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )  # fmt: skip


def _dress_compared(left: Axes, right: Axes, names: Sequence[str]) -> None:
    for axes in (left, right):
        axes.set_ylim(len(names) - 0.4, -0.6)
    name_rows(left, names, len(names))
    right.set_yticks(range(len(names)), [""] * len(names))
    left.set_xscale("symlog", linthresh=10)
    left.margins(x=0.1)
    left.set_xlim(left=-0.6)
    left.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:,.0f}k" if value >= 1000 else f"{value:.0f}")
    right.set_xscale("log")
    right.set_xlim(5e-8, 300)
    right.set_xticks([1e-6, 1e-3, 1], [text.seconds(value) for value in (1e-6, 1e-3, 1)])
    right.minorticks_off()
    label(left, "datagrams", "")
    label(right, "time to recovery", "")


def _compared_title(shown: Mapping[str, tuple[Run, Sequence[Failure]]]) -> str:
    """What is lost with fast failover and without it."""
    told = []
    for is_on, name in ((True, "with fast failover"), (False, "by the controller alone")):
        lost = sorted(
            len(losses(each)) for each, _ in shown.values() if (each.spec.get("fast_failover") is True) == is_on
        )
        if lost:
            told.append(f"{name} " + (f"{lost[0]:,} to {lost[-1]:,}" if lost[0] < lost[-1] else f"{lost[0]:,}"))
    return f"Datagrams lost: {', '.join(told)}"
