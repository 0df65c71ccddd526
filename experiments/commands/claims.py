"""The command `claims`: the lecture walked through, from the runs that claims need to the page of what was found."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments import screen, walking
from experiments.claims import COMMAND, DOCUMENT, PAGE, planned
from experiments.commands.concluding import DAMAGE, keep_matplotlib_at_home, reported
from experiments.commands.interrupting import INTERRUPTED
from experiments.commands.setting import asked_by
from experiments.commands.walking import held, provenances, run_missing, setting
from lab.session import die_with
from topologies.units import BadRequest, named_error

if TYPE_CHECKING:
    from analysis.claims.document import Attempt
    from analysis.claims.model import Claim, Judged
    from analysis.run import Run


def claims(arguments: argparse.Namespace) -> int:
    """Run what the claims need, judge them, write the page; exit status 1 when one could not be tried."""
    from analysis.claims import CLAIMS

    asked = walking.chosen(CLAIMS, arguments.only)
    _check_markdown(arguments.markdown)
    wanted = planned(CLAIMS, arguments.mode, asked)
    shared = setting(wanted)
    with held(arguments.out, COMMAND) as out:
        failures = run_missing(wanted, out / arguments.mode, out, shared)
        return INTERRUPTED if failures is None else conclude(arguments, asked, wanted, out, failures)


def _check_markdown(path: Path | None) -> None:
    """Raise BadRequest for a file that cannot be written, before anything runs for it."""
    if path is not None and (path.is_dir() or not os.access(path.absolute().parent, os.W_OK)):
        raise BadRequest(f"--markdown: {path} cannot be written; allowed: a file in a folder that you may write")


def conclude(
    arguments: argparse.Namespace,
    asked: Sequence[Claim],
    wanted: Sequence[walking.Wanted],
    out: Path,
    failures: Mapping[str, str],
) -> int:
    """Judge, write reports, page and document; exit status."""
    keep_matplotlib_at_home()
    from analysis.claims.document import Walk, check, document
    from analysis.claims.markdown import markdown
    from analysis.claims.page import page
    from analysis.files import write_whole

    attempts = _attempts(asked, wanted, out / arguments.mode, failures)
    check(attempts)
    command = shlex.join(asked_by())
    told = document(Walk(arguments.mode, out, command, attempts, provenances(wanted, out / arguments.mode)))
    write_whole(out / DOCUMENT, json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    write_whole(out / PAGE, page(told, out))
    if arguments.markdown is not None:
        write_whole(arguments.markdown, markdown(told))
    _show(told, out, arguments.json)
    return 1 if any(attempt.failure for attempt in attempts) else 0


def _show(told: Mapping[str, Any], out: Path, as_json: bool) -> None:
    from analysis.claims import words

    if as_json:
        print(json.dumps(told, indent=1, ensure_ascii=False))
        return
    rows = [
        [claim["slides"], claim["key"], *words.first_figures(claim), f"{words.verdict(claim)}"]
        for claim in told["claims"]
    ]
    screen.table("The lecture's claims", ("slide", "claim", "claimed", "measured", "verdict"), rows)
    print(words.counted(told["verdicts"]))
    print(f"page: {out / PAGE}")


def _attempts(
    asked: Sequence[Claim], wanted: Sequence[walking.Wanted], folder: Path, failures: Mapping[str, str]
) -> list[Attempt]:
    """Every claim that was asked for, in the lecture's order: judged, or why it could not be."""
    from analysis.claims.document import Attempt

    judged = _judged([each for each in wanted if _why(each, failures) is None], folder)
    attempts = []
    for claim in asked:
        of = next(each for each in wanted if claim in each.claims)
        found = judged.get(claim.key, f"could not be run: {_why(of, failures)}")
        failure = found if isinstance(found, str) else None
        result = _untried(claim, found) if isinstance(found, str) else found
        attempts.append(Attempt(claim, result, folder / of.name, of.command, failure))
    return attempts


def _why(wanted: walking.Wanted, failures: Mapping[str, str]) -> str | None:
    """Why one of its runs failed; None where none did."""
    return next((why for name, why in failures.items() if name.partition("/")[0] == wanted.name), None)


def _untried(claim: Claim, why: str) -> Judged:
    """What is known of a claim that has no run: nothing but what is claimed."""
    from analysis.claims.model import NOT_REPRODUCED, Judged, Row

    row = Row(claim.figures, None, None, None, "", claim.tolerance, None, "no run")
    return Judged(NOT_REPRODUCED, why, (row,))


def _judged(sound: Sequence[walking.Wanted], folder: Path) -> dict[str, Judged | str]:
    """Key of a claim -> what its judge found, or why it could not; reports are written besides, on all cores."""
    cores, found = min(len(os.sched_getaffinity(0)), max(len(sound), 1)), {}
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(cores, context, _settle, (os.getpid(),)) as pool:
        for each, told in zip(sound, pool.map(_judge_all, sound, [folder / each.name for each in sound])):
            screen.say(f"{each.name}: judged")
            found.update(told)
    return found


def _settle(parent: int) -> None:
    """What a judging process does first: Ctrl-C is its parent's to hear, and it does not outlive that, for the lock of
    the folder is its own as well."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)


def _judge_all(wanted: walking.Wanted, folder: Path) -> dict[str, Judged | str]:
    """The report of a run, and what each claim's judge says of it."""
    from analysis.run import Run

    run = Run(folder)
    try:
        if walking.needs_report(folder):
            reported(run)
    except (OSError, BadRequest, *DAMAGE) as error:
        return dict.fromkeys((claim.key for claim in wanted.claims), f"no report: {named_error(error)}")
    return {claim.key: _judge(claim, run) for claim in wanted.claims}


def _judge(claim: Claim, run: Run) -> Judged | str:
    try:
        return claim.judge(run)
    except (OSError, BadRequest, *DAMAGE) as error:
        return f"could not be judged: {named_error(error)}"
