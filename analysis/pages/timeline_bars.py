"""The timelines of a run that are bars on rows: what each flow did, who was paused, what each rank of a collective, of
a training or of a launch did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from analysis import text
from analysis.figures.style import cause_colour, look
from analysis.kinds import launch
from analysis.kinds.arrivals import long_flows
from analysis.kinds.training_steps import rank_hosts, training_steps
from analysis.pages.timeline_lines import round_begins, time_title
from analysis.pages.timelines import MOST_BARS, Bars, Chart, Clock, View, joined_spans
from analysis.pause_log import clipped, total_s
from analysis.run import Run
from analysis.transport.spans import Span
from analysis.transport.stalls import CAUSES, MEANINGS, Stall

MOST_ROWS = 64
_BLOCK, _SENDS, _COMPUTES, _COMMUNICATES = "#A9D3EA", "#56B4E9", "#E69F00", "#0072B2"
_COMPUTING, _COMMUNICATING = "computes", "communicates, waits"
_WARMS_UP, _FAILED = "#B0B0B0", "#D55E00"


class Bar(NamedTuple):
    """A span on a row, of one kind, and what hovering tells of it."""

    row: str
    kind: str
    begin_ns: int
    end_ns: int
    note: str = ""


def bars_of(bars: Iterable[Bar], rows: Sequence[str], colours: Mapping[str, str], clock: Clock) -> tuple[Bars, ...]:
    """Bars by kind, in the colours' order; those of rows that are not shown are left out, and of too many the
    shortest."""
    place = {name: number for number, name in enumerate(rows)}
    shown = sorted((bar for bar in bars if bar.row in place), key=lambda bar: bar.begin_ns - bar.end_ns)[:MOST_BARS]
    by_kind = {kind: [bar for bar in shown if bar.kind == kind] for kind in colours}
    return tuple(
        Bars(
            kind,
            colours[kind],
            [place[bar.row] for bar in some],
            clock.at([bar.begin_ns for bar in some]),
            clock.long([bar.end_ns - bar.begin_ns for bar in some]),
            [bar.note for bar in some] if any(bar.note for bar in some) else (),
        )
        for kind, some in by_kind.items()
        if some
    )


def run_bars(run: Run, clock: Clock) -> Chart | None:
    """What the parties of the run's workload did over time; None for a workload that has none, or tells nothing."""
    make = {
        "incast": _flow_chart,
        "permutation": _flow_chart,
        "all_to_all": _flow_chart,
        "long_flows": _long_flow_chart,
        "collective": _call_chart,
        "training": _step_chart,
        "launch": _rank_chart,
    }.get(run.workload)
    return None if make is None else make(run, clock)


def _flow_chart(run: Run, clock: Clock) -> Chart | None:
    """Each flow's blocks, and in them its stalls by cause."""
    keys = ("flow", "start_ns", "end_ns", "bytes")
    told = run.entries("transfers", keys, keys[1:]) if "transfers" in run.measured else []
    origin_ns = run.rounds[0].start_ns if run.rounds else 0
    stalls = [_stall_bar(stall, origin_ns) for stall in run.stalls]
    blocks = [
        Bar(str(each["flow"]), "block", each["start_ns"], each["end_ns"], text.size(each["bytes"])) for each in told
    ]
    if not blocks and not stalls:
        return None
    everybody = sorted({bar.row for bar in (*blocks, *stalls)}, key=text.natural)
    rows = _slowest(everybody, stalls or blocks)
    colours = {"block": _BLOCK, **{cause: cause_colour(cause) for cause in CAUSES}}
    return _gantt(
        run,
        clock,
        ("flows", _flow_title(run), f"{_flow_words(run)}{_left_out(rows, everybody, 'flow')}", "timeline"),
        rows,
        bars_of([*blocks, *stalls], rows, colours, clock),
        _stall_views(run, clock),
    )


def _stall_bar(stall: Stall, origin_ns: int) -> Bar:
    begin_ns = origin_ns + round(stall.start_s * 1e9)
    return Bar(stall.flow, stall.cause, begin_ns, begin_ns + round(stall.seconds * 1e9), MEANINGS[stall.cause])


def _slowest(rows: Sequence[str], bars: Sequence[Bar]) -> list[str]:
    """Those rows that the bars last longest on, in their order."""
    length: dict[str, int] = {}
    for bar in bars:
        length[bar.row] = length.get(bar.row, 0) + bar.end_ns - bar.begin_ns
    chosen = set(sorted(rows, key=lambda row: -length.get(row, 0))[:MOST_ROWS])
    return [row for row in rows if row in chosen]


def _left_out(rows: Sequence[str], everybody: Sequence[str], noun: str) -> str:
    return f" Shown: {len(rows)} of {text.counted(len(everybody), noun)}." if len(rows) < len(everybody) else ""


def _flow_title(run: Run) -> str:
    if not run.sent_flows:
        return "When each flow's blocks were under way"
    stalled = len({stall.flow for stall in run.stalls})
    told = f"{text.counted(len(run.stalls), 'stall')} of {text.counted(stalled, 'flow')}"
    return f"Flows over time: {told if run.stalls else 'none stalls'}"


def _flow_words(run: Run) -> str:
    stalls = "; a bar in another colour is a stall, its colour the cause" if run.sent_flows else ""
    return f"One row per flow: a light blue bar is a block, from its first byte to its last{stalls}."


def _stall_views(run: Run, clock: Clock) -> tuple[View, ...]:
    """The longest stall, and the first round where there are several."""
    views = []
    if len(run.rounds) > 1:
        views.append(View("first round", *clock.at([run.rounds[0].start_ns, run.rounds[0].end_ns]).tolist()))
    if run.stalls:
        longest = _stall_bar(max(run.stalls, key=lambda each: each.seconds), run.rounds[0].start_ns)
        begin, end = clock.at([longest.begin_ns, longest.end_ns]).tolist()
        views.append(View("longest stall", begin - 0.05 * (end - begin), end + 0.05 * (end - begin)))
    return tuple(views)


def _gantt(
    run: Run,
    clock: Clock,
    told: tuple[str, str, str, str],
    rows: Sequence[str],
    bars: tuple[Bars, ...],
    views: tuple[View, ...] = (),
) -> Chart:
    """A chart of rows; told: its name, title, caption, and the figure that shows the same."""
    name, title, caption, still = told
    moments = round_begins(run, clock)
    time = time_title(clock)
    return Chart(
        name, title, caption, time, clock.unit, bars=bars, rows=tuple(rows), views=views, moments=moments, still=still
    )


def _long_flow_chart(run: Run, clock: Clock) -> Chart | None:
    flows = long_flows(run)
    if not flows:
        return None
    rows = [flow.name for flow in flows][:MOST_ROWS]
    bars = [
        Bar(flow.name, "gave up" if flow.died else "sends", flow.begin_ns, flow.end_ns, _flow_note(flow.died))
        for flow in flows
    ]
    told = (
        "flows",
        f"{text.counted(len(flows), 'long flow')}: when each was to send",
        f"One row per flow.{_left_out(rows, [flow.name for flow in flows], 'flow')}",
        "",
    )
    return _gantt(run, clock, told, rows, bars_of(bars, rows, {"sends": _SENDS, "gave up": _FAILED}, clock))


def _flow_note(died: str | None) -> str:
    return f"given up: {died}" if died else ""


def pause_chart(run: Run, clock: Clock) -> Chart | None:
    """When each port was held by pauses, those held longest first; None without any."""
    log = run.pauses
    held = {} if log is None or run.traffic_ns is None else clipped(log.held, run.traffic_ns)
    if not held:
        return None
    ports = sorted(held, key=lambda port: (-total_s(held[port]), text.natural(port)))
    rows = ports[:MOST_ROWS]
    share = max(MOST_BARS // len(rows), 1)
    bars = [_pause_bar(port, joined) for port in rows for joined in joined_spans(held[port], share)]
    colour = look(run.parameters.scheme).colour
    total = text.seconds(total_s(held[ports[0]]))
    told = (
        "pauses",
        f"{text.counted(len(ports), 'port')} paused; {ports[0]} for {total}",
        "One row per port, switch ports and NICs, the longest held first; a bar is the time in which a pause of its "
        f"neighbour held its lossless class.{_joined_words(held, rows, share)}{_left_out(rows, ports, 'port')}",
        "pauses",
    )
    return _gantt(run, clock, told, rows, bars_of(bars, rows, {"held": colour}, clock))


def _pause_bar(port: str, joined: tuple[int, int, int, int]) -> Bar:
    begin_ns, end_ns, count, held_ns = joined
    note = f"{text.counted(count, 'pause')}, held for {text.seconds(held_ns / 1e9)} of it" if count > 1 else ""
    return Bar(port, "held", begin_ns, end_ns, note)


def _joined_words(held: Mapping[str, Sequence[Span]], rows: Sequence[str], share: int) -> str:
    several = any(len(held[port]) > share for port in rows)
    return " Of very many, those closest together are drawn as one, which hovering tells." if several else ""


def _call_chart(run: Run, clock: Clock) -> Chart | None:
    """Each rank's part of each call of a collective."""
    calls = run.entries("calls", ("size_bytes", "start_ns"), whole=("size_bytes", "start_ns"))
    hosts = list(map(str, (run.measured.get("collective") or {}).get("ranks", [])))
    rows = hosts[:MOST_ROWS]
    bars = [
        Bar(host, "warm-up" if call.get("warmup") else "call", call["start_ns"], end_ns, text.size(call["size_bytes"]))
        for call in calls
        for host, end_ns in zip(rows, call.get("rank_end_ns") or [])
    ]
    if not bars:
        return None
    shown = bars_of(bars, rows, {"call": _SENDS, "warm-up": _WARMS_UP}, clock)
    few = f" The longest {MOST_BARS:,} bars are drawn." if len(bars) > MOST_BARS else ""
    told = (
        "calls",
        f"{text.counted(len(calls), 'call')} by {text.counted(len(hosts), 'rank')}",
        f"One row per rank; a bar is its part of a call, until it has its result.{few}{_left_out(rows, hosts, 'rank')}",
        "",
    )
    return _gantt(run, clock, told, rows, shown)


def _step_chart(run: Run, clock: Clock) -> Chart | None:
    """Each rank's steps: computing, then waiting for others and for what they send."""
    steps, hosts = training_steps(run), list(map(str, rank_hosts(run)))
    if not steps or not hosts:
        return None
    rows = hosts[:MOST_ROWS]
    bars = []
    for step in steps:
        for host, turn in zip(rows, step.turns):
            note = f"step {step.number}{', too late to be waited for' if turn.late else ''}"
            done_ns = max(turn.end_ns, turn.compute_end_ns)
            bars.append(Bar(host, _COMPUTING, step.start_ns, turn.compute_end_ns, note))
            bars.append(Bar(host, _COMMUNICATING, turn.compute_end_ns, done_ns, note))
    colours = {_COMPUTING: _COMPUTES, _COMMUNICATING: _COMMUNICATES}
    words = "One row per rank: until its last gradient is computed, then until it has everybody's."
    told = ("steps", f"{text.counted(len(steps), 'step')} of {text.counted(len(hosts), 'rank')}", words, "")
    return _gantt(run, clock, told, rows, bars_of(bars, rows, colours, clock))


def _rank_chart(run: Run, clock: Clock) -> Chart | None:
    """From each rank's begin to its end."""
    ranks = [each for each in launch.ranks(run) if each.begin_ns is not None and each.end_ns is not None]
    if not ranks:
        return None
    names = [f"{each.number} {each.host}" for each in ranks]
    rows = names[:MOST_ROWS]
    bars = [
        Bar(name, "status 0" if each.status == 0 else "failed", each.begin_ns or 0, each.end_ns or 0, each.how)
        for name, each in zip(names, ranks)
    ]
    told = ("ranks", f"{text.counted(len(ranks), 'rank')} over time", "One row per rank.", "ranks_over_time")
    return _gantt(run, clock, told, rows, bars_of(bars, rows, {"status 0": _SENDS, "failed": _FAILED}, clock))
