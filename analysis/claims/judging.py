"""What judges of claims share: a row beside its tolerance, and the verdict that rows and comparisons give together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Callable

from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Judged, Row
from analysis.kinds.published import Compared
from analysis.run import Run

UNTOLD = "the run does not tell it"


def untold_row(quantity: str, claimed: float | None, unit: str) -> Row:
    """The row of a run that does not tell."""
    return Row(quantity, claimed, None, None, unit, "", None, UNTOLD)


def untold(quantity: str, claimed: float | None, unit: str) -> Judged:
    """What is judged of a run that does not tell."""
    return Judged(NOT_REPRODUCED, UNTOLD, (untold_row(quantity, claimed, unit),))


def within(share: float) -> str:
    """A tolerance in words."""
    return f"within {share:.0%}"


def alike(measured: float | None, expected: float, share: float) -> bool | None:
    """Whether the two differ by no more than a share of what is expected; None where nothing is measured."""
    return None if measured is None else abs(measured - expected) <= share * abs(expected)


def near(
    quantity: str,
    claimed: float,
    measured: float | None,
    unit: str,
    share: float,
    source: str,
    modelled: float | None = None,
    extrapolated: bool = False,
) -> Row:
    """A figure that holds when it is within a share of the claimed one."""
    holds = alike(measured, claimed, share)
    return Row(quantity, claimed, modelled, measured, unit, within(share), holds, source, extrapolated)


def told(quantity: str, measured: float | None, unit: str, source: str, modelled: float | None = None) -> Row:
    """A figure that nothing is claimed of: it says what the others rest on."""
    return Row(quantity, None, modelled, measured, unit, "", None, source)


def of_compared(
    compared: Compared,
    claimed: float,
    measured: float | None,
    unit: str,
    modelled: float | None = None,
    extrapolated: bool = False,
) -> Row:
    """The row of a comparison that the run's own report makes: its tolerance and whether it holds are the report's."""
    source = f"{compared.label}, measured.json"
    return Row(
        compared.what, claimed, modelled, measured, unit, compared.tolerance, compared.holds, source, extrapolated
    )


def together(found: Sequence[Compared]) -> tuple[str, str]:
    """The verdict of several comparisons, and why: each must hold; under assumptions where one needs any."""
    if not found or any(each.holds is None for each in found):
        return NOT_REPRODUCED, UNTOLD
    failed = [each for each in found if not each.holds]
    if failed:
        return NOT_REPRODUCED, "; ".join(f"{each.what}: {each.reason or each.measured}" for each in failed)
    assumptions = dict.fromkeys(each.assumption for each in found if each.assumption)
    measured = "; ".join(f"{each.what}: {each.measured}" for each in found)
    return (REPRODUCED_IF, f"{'; '.join(assumptions)} ({measured})") if assumptions else (REPRODUCED, measured)


def answer(rows: Sequence[Row], yes: Callable[[], str], no: Callable[[], str]) -> tuple[str, str]:
    """Reproduced when every row that claims something holds; the words of either answer are asked for only where all
    its numbers are there."""
    holds = [row.holds for row in rows if row.tolerance]
    if not holds or None in holds:
        return NOT_REPRODUCED, UNTOLD
    return (REPRODUCED, yes()) if all(holds) else (NOT_REPRODUCED, no())


def shown(run: Run, *names: str) -> tuple[Path, ...]:
    """Those of the report's figures that were drawn."""
    files = (run.path / "figures" / f"{name}.png" for name in names)
    return tuple(file for file in files if file.is_file())
