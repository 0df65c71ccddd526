"""A program of the user's on the fabric: how each rank ended, and what its host sent and received (a kind, see
analysis/kinds)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures.launch import ranks_over_time, rates_over_time, wire_bytes
from analysis.figures.style import Drawn, drawn
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, total_drops

DONE, FAILED, TIMEOUT, BROKEN_OFF = "all ranks done", "a rank failed", "timeout", "broken off"
_ENDED = {"done": DONE, "failed": FAILED, "timeout": TIMEOUT}
_NEEDED = ("rank", "host", "status", "signal", "begin_ns", "end_ns", "last_lines")
_SHOWN_RANKS = 64

RULE = "A launch is done when every rank has ended by itself with exit status 0."

COLUMNS = (
    Column("ranks", "ranks", text.count, essential=True),
    Column("status 0", "well", text.count, essential=True),
    Column("time", "seconds", text.seconds, essential=True),
    Column("most sent", "most_sent_bytes", text.size),
    Column("most received", "most_received_bytes", text.size),
    Column("drops", "drops", text.count, essential=True),
)


@dataclass(frozen=True)
class Rank:
    """One rank as measured.json tells of it; times None where it did not begin or end, status None where it was not
    known."""

    number: int
    host: str
    status: int | None
    signal: str | None
    begin_ns: int | None
    end_ns: int | None
    last_lines: tuple[str, ...]

    @property
    def seconds(self) -> float | None:
        """How long it ran; None unless it began and ended."""
        return None if self.begin_ns is None or self.end_ns is None else (self.end_ns - self.begin_ns) / 1e9

    @property
    def how(self) -> str:
        """How it ended, in words."""
        if self.status is None:
            return "no end known"
        return self.signal or f"status {self.status}"


def ranks(run: Run) -> tuple[Rank, ...]:
    """All ranks in order; raises BadRequest for entries that are no ranks."""
    return tuple(
        Rank(
            entry["rank"],
            str(entry["host"]),
            entry["status"],
            entry["signal"],
            entry["begin_ns"],
            entry["end_ns"],
            tuple(map(str, entry["last_lines"])),
        )
        for entry in run.entries("ranks", _NEEDED, whole=("rank",))
    )


def host_bytes(run: Run) -> dict[str, dict[str, int]]:
    """Host -> bytes "sent" and "received" on its link; empty where nothing was counted."""
    found: dict[str, dict[str, int]] = run.measured.get("nic_bytes", {})
    return found


def summarize(run: Run) -> dict[str, Any]:
    """The command, every rank, and what every host's link carried."""
    told = run.measured.get("launch", {})
    return {
        "launch": {
            "command": told.get("command"),
            "starter": told.get("starter"),
            "ended": told.get("ended"),
            "seconds": _seconds(run),
            "ranks": {
                str(each.number): {
                    "host": each.host,
                    "status": each.status,
                    "signal": each.signal,
                    "seconds": each.seconds,
                }
                for each in ranks(run)
            },
            "nic_bytes": host_bytes(run),
        }
    }


def _seconds(run: Run) -> float | None:
    """Virtual time of the whole launch."""
    return run.rounds[0].seconds if run.rounds else None


def verdict(run: Run) -> Verdict:
    """Whether all ranks ended well, and if not, what ended the run."""
    piece = _ended_well(run)
    if piece.holds:
        return Verdict("launch", DONE, (piece,), good=True)
    ended = str(run.measured.get("launch", {}).get("ended"))
    if piece.holds is None:
        return Verdict("launch", NOT_PROVEN, (piece,))
    answer = _ENDED.get(ended, BROKEN_OFF)
    return Verdict("launch", BROKEN_OFF if answer == DONE else answer, (piece,), good=False)


def _ended_well(run: Run) -> Evidence:
    found = ranks(run)
    well = sum(each.status == 0 for each in found)
    return Evidence(
        name="ranks that ended well",
        configured=len(found) or None,
        modelled=None,
        measured=well if found else None,
        unit="ranks",
        tolerance="all, with exit status 0",
        holds=well == len(found) if found else None,
        source="ranks of measured.json" if found else "measured.json has no ranks",
    )


def _failed(run: Run) -> Rank | None:
    """The rank that failed first."""
    failed = [each for each in ranks(run) if each.status]
    return min(failed, key=lambda each: each.end_ns or 0, default=None)


def headline(run: Run) -> str:
    """What ran, on how many ranks, for how long; or which rank failed."""
    count = text.counted(len(ranks(run)), "rank")
    answer, first = verdict(run).verdict, _failed(run)
    if answer == FAILED and first is not None:
        return f"rank {first.number} of {len(ranks(run))}, on {first.host}, ended with {first.how}"
    if answer == DONE:
        return f"{count} ended with status 0 after {text.seconds(_seconds(run))} of {run.time_words}"
    running = sum(each.status != 0 for each in ranks(run))
    lasted = f"{text.seconds(_seconds(run))} of {run.time_words}"
    return f"{running} of {count} had not ended when the launch was, after {lasted}"


def beside(run: Run) -> str:
    """A launch has no cases."""
    return ""


def tiles(run: Run) -> list[tuple[str, str]]:
    """Ranks, time, and the links that carried most."""
    told = row(run)
    return [
        ("ranks", text.count(told["ranks"])),
        ("ended with status 0", text.count(told["well"])),
        (run.time_words, text.seconds(told["seconds"])),
        ("most sent by a host", text.size(told["most_sent_bytes"])),
        ("most received by a host", text.size(told["most_received_bytes"])),
        ("drops", text.count(told["drops"])),
    ]


def figures(run: Run) -> list[Drawn]:
    """When each rank ran, what each host's link carried, and with captures its rate over time."""
    spans = {f"rank {each.number} ({each.host})": (each.begin_ns, each.end_ns, each.status) for each in ranks(run)}
    ways = {
        "ranks": partial(ranks_over_time, spans),
        "bytes": partial(wire_bytes, host_bytes(run)),
        "rates": partial(rates_over_time, run, [each.host for each in ranks(run)]),
    }
    return [drawn(name, run.path / "figures", way) for name, way in ways.items()]


def sections(run: Run) -> Html:
    """The command, then every rank: how it ended, how long it ran, what its host sent, its last line."""
    found, counted = ranks(run), host_bytes(run)
    if not found:
        return Html("")
    heads = ("rank", "host", "ended", "ran", "sent", "received", "last line")
    rows = [
        [
            str(each.number),
            each.host,
            each.how,
            text.seconds(each.seconds),
            *(text.size(counted.get(each.host, {}).get(way)) for way in ("sent", "received")),
            each.last_lines[-1].strip() if each.last_lines else text.NOTHING,
        ]
        for each in found[:_SHOWN_RANKS]
    ]
    rest = f", the first {_SHOWN_RANKS} of {len(found)}" if len(found) > _SHOWN_RANKS else ""
    return Html(f"<h2>Ranks{rest}</h2>\n{_command(run)}\n{table(heads, rows, numbers=(3, 4, 5), stacked=True)}")


def _command(run: Run) -> Html:
    """What was run, and where its output is."""
    words = run.measured.get("launch", {}).get("command") or []
    return table(("command", "output"), [[shlex.join(map(str, words)), "ranks/RANK.out, ranks/RANK.err"]], whole=())


def row(run: Run) -> dict[str, Any]:
    """How many ranks ended well, how long it took, and what the busiest links carried."""
    found, counted = ranks(run), host_bytes(run).values()
    return {
        "ranks": len(found),
        "well": sum(each.status == 0 for each in found),
        "seconds": _seconds(run),
        "most_sent_bytes": max((each["sent"] for each in counted), default=None),
        "most_received_bytes": max((each["received"] for each in counted), default=None),
        "drops": total_drops(run),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How the time compares."""
    if not main["seconds"] or not row["seconds"]:
        return ""
    return f"{text.digits(row['seconds'] / main['seconds'])}x the time"
