"""Runs in slower time: the runs of a call slowed down, and what is told of that before they begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from experiments.catalog import Labelled
from experiments.slow_motion.kept_and_lost import Row, kept, lost
from experiments.slow_motion.spec import as_number, changes, ideal_s, slowed, stalled_s
from experiments.slow_motion.spec import watchdog_s as needed_watchdog_s
from experiments.spec import Spec
from topologies.units import BadRequest

Say = Callable[[str], None]


def slowed_and_told(runs: list[Labelled], times: Fraction, watchdog_s: float, say: Say) -> list[tuple[str, Spec]]:
    """The runs' specs, so many times slower; says what is kept and what is lost, of the main run, the first, all and of
    the others what it does not tell. One beside it that cannot be so slow is told and left out; raises BadRequest where
    the main run cannot."""
    main, *cases = runs
    done = {main.label: slowed(main.spec, times)}
    for case in cases:
        try:
            done[case.label] = slowed(case.spec, times)
        except BadRequest as error:
            say(f"warning: {case.label}: left out: {error}")
    for line in _lines([run for run in runs if run.label in done], done, times, watchdog_s):
        say(line)
    return list(done.items())


def _lines(runs: list[Labelled], done: dict[str, Spec], times: Fraction, watchdog_s: float) -> Iterator[str]:
    main, *cases = runs
    after, of_main = done[main.label], _lost(main, done)
    yield f"--scale {as_number(times)}: in {main.label} time runs {as_number(times):,} times slower"
    yield from (f"  {each.key}: {each.before} -> {each.after}" for each in changes(main.spec, after))
    yield "kept:"
    yield from _indented(kept(main.spec, after))
    yield "lost:"
    yield from _indented(of_main)
    for case in cases:
        own = [row for row in _lost(case, done) if row not in of_main]
        yield from (f"  {case.label}: {row.words}" for row in own)
    for run in runs:
        yield from _wall_lines(run, done[run.label], watchdog_s)


def _lost(run: Labelled, done: dict[str, Spec]) -> list[Row]:
    return lost(run.spec, done[run.label], run.clock == "real")


def _indented(rows: list[Row]) -> Iterator[str]:
    return (f"  {row.words}" for row in rows)


def _wall_lines(run: Labelled, after: Spec, watchdog_s: float) -> Iterator[str]:
    """How long a run on the real clock will take; nothing of one in virtual time, whose stalls cost no wall time."""
    if run.clock != "real":
        return
    least_s, longest_s, needed_s = ideal_s(after), stalled_s(after), needed_watchdog_s(after)
    if least_s is None or needed_s is None:
        yield f"{run.label}: how long it takes on the real clock does not follow from its spec"
        return
    stalls = "" if longest_s is None else f", {longest_s:,.0f} s with a timeout in each round"
    enough = "" if needed_s <= watchdog_s else f": needs --watchdog {needed_s}"
    yield f"{run.label}: takes {least_s:,.1f} s of wall time at the least{stalls}{enough}"
