"""How much room above XOFF a lossless class needs: what an incast loses with less, beside the formula (a kind, see
analysis/kinds)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures.headroom import losses
from analysis.figures.signals import pauses as pauses_figure
from analysis.figures.style import Drawn, drawn
from analysis.kinds import incast
from analysis.kinds.incast import faster
from analysis.kinds.room import Room, room, rooms
from analysis.measures import paused_s, pauses, queue_bytes
from analysis.pages.markup import Html
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, goodput_bps, median_seconds, processor, proven

ENOUGH, LOSES = "no loss", "loses packets"
HOLDS, TOO_LITTLE, GENEROUS = "the formula is enough", "the formula asks too little", "less than the formula would do"

RULE = (
    "Headroom is enough when ports paused their neighbours and the lossless class lost nothing all the same. The "
    "formula is enough when that is so wherever there is as much as it asks for, and packets are lost with some lesser "
    "headroom, if not with every one: how much of what it asks for a port used at most is told beside."
)
_COUNTERS = "queue counters of measured.json"
_NO_COUNTERS = "measured.json has no ports, or the run no PFC"


def _share(value: float | None) -> str:
    return text.NOTHING if value is None else f"{value:.0%}"


COLUMNS = (
    Column("headroom", "headroom_bytes", text.size, essential=True),
    Column("of the formula's", "headroom_share", _share, essential=True),
    Column("lost", "lossless_drops", text.count, essential=True),
    Column("headroom used", "headroom_used_bytes", text.size),
    Column("goodput", "goodput_bps", text.rate, essential=True),
    Column("median round", "median_round_seconds", text.seconds),
    Column("pauses", "pfc_pauses", text.count),
    Column("paused", "pfc_paused_s", text.seconds),
    Column("queue max", "queue_max_bytes", text.size),
)


def summarize(run: Run) -> dict[str, Any]:
    """What an incast tells, and the headroom given, needed and used."""
    found = room(run)
    told = {"given_bytes": found.given_bytes, "needed_bytes": found.needed_bytes, "used_bytes": found.used_bytes}
    return {**incast.summarize(run), "headroom": told}


def verdict(run: Run) -> Verdict:
    """Whether a run's headroom was enough; with cases, whether the formula holds."""
    if len(rooms(run)) < 2:
        return _single(run)
    pieces = (_at_least(rooms(run)), _below(rooms(run)), _used(rooms(run)), processor(run))
    enough, too_little, *_ = pieces
    if enough.holds is False:
        return proven(Verdict("headroom", TOO_LITTLE, pieces, good=False))
    if enough.holds and too_little.holds is False:
        return proven(Verdict("headroom", GENEROUS, pieces))
    return _proven(HOLDS, pieces)


def _single(run: Run) -> Verdict:
    found, pieces = room(run), (_paused(run), _lost(room(run)), processor(run))
    if found.lost:
        return proven(Verdict("headroom", LOSES, pieces, good=False if found.is_enough else None))
    return _proven(ENOUGH, pieces)


def _proven(answer: str, pieces: tuple[Evidence, ...]) -> Verdict:
    """The answer, if all the evidence holds."""
    holds = all(each.holds for each in pieces if each.applies)
    return Verdict("headroom", answer if holds else NOT_PROVEN, pieces, good=True if holds else None)


def _paused(run: Run) -> Evidence:
    """Whether the headroom was put to the test."""
    count = pauses(run)
    return Evidence(
        name="pauses",
        configured=None,
        modelled=None,
        measured=count,
        unit="pauses",
        tolerance="at least 1",
        holds=None if count is None else count >= 1,
        source=_NO_COUNTERS if count is None else "telemetry/pauses.parquet, or queue counters",
    )


def _lost(found: Room) -> Evidence:
    return Evidence(
        name="lossless class",
        configured=f"headroom {text.size(found.given_bytes)}",
        modelled=0 if found.is_enough else None,
        measured=found.lost,
        unit="packets lost",
        tolerance=f"none; the formula asks for {text.size(found.needed_bytes)}",
        holds=None if found.lost is None else found.lost == 0,
        source=_NO_COUNTERS if found.lost is None else _COUNTERS,
    )


def _at_least(found: Sequence[Room]) -> Evidence:
    """What was lost with the formula's headroom or more."""
    tested = [each for each in found if each.is_enough and each.pauses]
    return _sum("as much headroom as the formula asks for, or more", tested, "none lost in any of these runs", least=0)


def _below(found: Sequence[Room]) -> Evidence:
    """What was lost with less."""
    tested = [each for each in found if not each.is_enough and each.pauses]
    return _sum("less headroom than the formula asks for", tested, "at least 1 lost in all", least=1)


def _used(found: Sequence[Room]) -> Evidence:
    """The most that a port used where there is as much as the formula asks for: how much it asks beyond need."""
    most = max(
        (each for each in found if each.is_enough and each.used_bytes is not None),
        key=lambda each: each.used_bytes or 0,
        default=None,
    )
    return Evidence(
        name="headroom used of what the formula asks for",
        configured=None,
        modelled=most.needed_bytes if most else None,
        measured=most.used_bytes if most else None,
        unit="bytes",
        tolerance=f"{_share((most.used_bytes or 0) / most.needed_bytes)} of it" if most else "",
        holds=None,
        source="for information: it decides nothing" if most else "for information; no port tells",
        applies=False,
    )


def _sum(name: str, tested: Sequence[Room], tolerance: str, least: int) -> Evidence:
    """What runs in which ports paused their neighbours lost together."""
    lost = [each.lost for each in tested if each.lost is not None]
    total = sum(lost) if lost else None
    return Evidence(
        name=name,
        configured=f"{text.counted(len(tested), 'run')} with pauses",
        modelled=None if least else 0,
        measured=total,
        unit="packets lost",
        tolerance=tolerance,
        holds=None if total is None else (total >= least if least else total == 0),
        source=_COUNTERS if total is not None else f"no run with {name} had a pause",
    )


def headline(run: Run) -> str:
    """What is lost with how much headroom, and what the formula asks for."""
    found, spec = room(run), run.parameters
    where = f"{text.counted(spec.senders, 'sender')} to 1 at {text.rate(spec.path.rate_bps)}"
    lost = "nothing" if found.lost == 0 else text.counted(found.lost, "packet") if found.lost else "an unknown number"
    used = "" if found.used_bytes is None else f", of which {_share(found.used_bytes / found.needed_bytes)} was used"
    formula = f"the formula asks for {text.size(found.needed_bytes)}{used}"
    return f"{where}: with {text.size(found.given_bytes)} of headroom the lossless class lost {lost}; {formula}"


def beside(run: Run) -> str:
    """What every case lost, as one sentence."""
    told = [
        f"{text.size(each.given_bytes)} ({_share(each.share)}): {text.count(each.lost)}"
        for each in rooms(run)
        if each.label != run.parameters.label
    ]
    return f"Packets lost with other headroom: {'; '.join(told)}." if told else ""


def tiles(run: Run) -> list[tuple[str, str]]:
    """Headroom given, asked for and used, and what was lost."""
    found = room(run)
    return [
        ("headroom of each port", text.size(found.given_bytes)),
        ("the formula asks for", text.size(found.needed_bytes)),
        ("most in use", text.size(found.used_bytes)),
        ("packets lost", text.count(found.lost)),
        ("pauses", text.count(pauses(run))),
        ("goodput", text.rate(goodput_bps(run.rounds))),
    ]


def figures(run: Run) -> list[Drawn]:
    """Losses against headroom, and who was paused when."""
    folder = run.path / "figures"
    return [drawn("losses", folder, partial(losses, run)), drawn("pauses", folder, partial(pauses_figure, run))]


def row(run: Run) -> dict[str, Any]:
    """Headroom given and used, what was lost, and how fast the rounds were."""
    found = room(run)
    return {
        "headroom_bytes": found.given_bytes,
        "headroom_share": found.share,
        "headroom_used_bytes": found.used_bytes,
        "lossless_drops": found.lost,
        "goodput_bps": goodput_bps(run.rounds),
        "median_round_seconds": median_seconds(run.rounds),
        "pfc_pauses": pauses(run),
        "pfc_paused_s": paused_s(run),
        "queue_max_bytes": (queue_bytes(run) or {}).get("max"),
    }


def sections(run: Run) -> Html:
    """What the page of an incast has."""
    return incast.sections(run)


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How much shorter or longer the median round is than the main run's."""
    return faster(main["median_round_seconds"], row["median_round_seconds"])
