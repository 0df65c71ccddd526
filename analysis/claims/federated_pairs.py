"""Slide 21's figures, each from the pairs of runs that the report of federated learning compares too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

from analysis.claims.judging import UNTOLD, shown, untold_row
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Judged, Row
from analysis.kinds import federated_claims
from analysis.kinds.federated_claims import (
    FLAT_ROUNDS,
    HIERARCHICAL_ROUNDS,
    LEAST_SMALLER,
    ROCE_TIMES,
    TAIL_CUT,
    compared_runs,
)
from analysis.kinds.federated_rounds import (
    edge_rounds,
    ideal_s,
    ratio_of_compression,
    round_s,
    rounds_to_target,
    tail_upload_s,
)
from analysis.kinds.published import Compared
from analysis.run import Run

_Pair = tuple[Run, Run]
_ROUNDS = "fl_rounds of measured.json"


def over(first: float | None, second: float | None) -> float | None:
    """The ratio; None without both, or of nothing."""
    return first / second if first is not None and second else None


def _row(found: Compared, claimed: float, measured: float | None, unit: str, modelled: float | None = None) -> Row:
    return Row(found.what, claimed, modelled, measured, unit, found.tolerance, found.holds, f"{_ROUNDS}: {found.label}")


def _decided(found: Sequence[Compared], decides: Compared | None, unlike: str) -> tuple[str, str]:
    """Reproduced as the claim has it; if not, under the conditions of another pair that is as claimed: `unlike` says
    what is different about the others."""
    if decides is None or decides.holds is None:
        return NOT_REPRODUCED, UNTOLD
    own = f"{decides.what}: {decides.measured}"
    if decides.holds:
        return REPRODUCED, own
    other = next((each for each in found if each.holds), None)
    if other is not None:
        return REPRODUCED_IF, f"{unlike}: {other.what}: {other.measured} ({other.label}); {own}"
    others = ", ".join(dict.fromkeys(each.measured for each in found if each is not decides))
    more = f"; in the other pairs of runs {others}" if others else ""
    return NOT_REPRODUCED, f"{decides.what}: {decides.reason or decides.measured}{more}"


def _first(found: Sequence[Compared], pairs: Sequence[_Pair], fits: Callable[[Run, Run], bool]) -> Compared | None:
    return next((each for each, pair in zip(found, pairs) if fits(*pair)), None)


def roce(run: Run) -> Judged:
    """TCP as it is against RoCE, with the most clients that ran; hosts' processors cost nothing."""
    pairs = federated_claims.roce_pairs(compared_runs(run))
    found = [federated_claims.roce_row(*pair) for pair in pairs]
    most = max((tcp.spec["clients"] for tcp, _ in pairs), default=0)
    rows = tuple(
        _row(each, ROCE_TIMES, over(round_s(tcp), round_s(roce)), "x", over(ideal_s(tcp), ideal_s(roce)))
        for each, (tcp, roce) in zip(found, pairs)
    )
    decides = _first(found, pairs, lambda tcp, roce: tcp.spec["clients"] == most and _is_plain(tcp))
    verdict, because = _decided(found, decides, "network, cost of hosts or size of updates are others")
    missing = (untold_row("a round over TCP, against RoCE", ROCE_TIMES, "x"),)
    return Judged(verdict, because, rows or missing, shown(run, "rounds", "arrivals"))


def _is_plain(run: Run) -> bool:
    """Flat, hosts that cost nothing, and the lossy class of a tail-drop buffer."""
    keys = {"aggregation": "flat", "host_cost": "none", "traffic_class": "lossy", "queue": "droptail"}
    return all(run.spec.get(key) == value for key, value in keys.items())


def rounds(run: Run) -> Judged:
    """Flat against hierarchical, edges averaging once in a round."""
    pairs = federated_claims.rounds_pairs(compared_runs(run))
    found = [federated_claims.rounds_row(*pair) for pair in pairs]
    claimed = HIERARCHICAL_ROUNDS / FLAT_ROUNDS
    rows = tuple(
        _row(each, claimed, over(rounds_to_target(tree), rounds_to_target(flat)), "x", _modelled_rounds(tree))
        for each, (flat, tree) in zip(found, pairs)
    )
    decides = _first(found, pairs, lambda flat, tree: edge_rounds(tree) == 1)
    verdict, because = _decided(found, decides, "edges average more than once in a round")
    missing = (untold_row("rounds, hierarchical over flat", claimed, "x"),)
    return Judged(verdict, because, (*rows, *_counted(pairs)) or missing, shown(run, "accuracy"))


def _modelled_rounds(tree: Run) -> float | None:
    """Edges that average once make the same mean; of more there is no model."""
    return 1.0 if edge_rounds(tree) == 1 else None


def _counted(pairs: Sequence[_Pair]) -> tuple[Row, ...]:
    """The rounds themselves, of the first pair."""
    sides = zip(("flat", "hierarchical"), (FLAT_ROUNDS, HIERARCHICAL_ROUNDS), pairs[0] if pairs else ())
    return tuple(
        Row(f"rounds to the target, {side}", claimed, None, rounds_to_target(run), "rounds", "", None, _ROUNDS)
        for side, claimed, run in sides
    )


def smaller(run: Run) -> Judged:
    """Every scheme's update; one in the range that keeps accuracy is enough."""
    pairs = federated_claims.compressed_pairs(compared_runs(run))
    found = [federated_claims.smaller_row(*pair) for pair in pairs]
    rows = tuple(_row(each, LEAST_SMALLER, ratio_of_compression(one), "x") for each, (one, _) in zip(found, pairs)) or (
        untold_row("an update's size", LEAST_SMALLER, "x"),
    )
    if not found or any(each.holds is None for each in found):
        return Judged(NOT_REPRODUCED, UNTOLD, rows)
    words = "; ".join(f"{each.what}: {each.measured}" for each in found)
    verdict = REPRODUCED if any(each.holds for each in found) else NOT_REPRODUCED
    return Judged(verdict, words, rows, shown(run, "accuracy"))


def tail(run: Run) -> Judged:
    """Offload alone, everything else the same: at the rate of the run itself, else at another one."""
    pairs = [pair for pair in federated_claims.tail_pairs(compared_runs(run)) if _is_same_network(*pair)]
    found = [federated_claims.tail_row(*pair) for pair in pairs]
    rows = tuple(
        _row(each, 100 * TAIL_CUT, _cut(*pair), "%") for each, pair in zip(found, pairs)
    ) or (untold_row("p99 of uploads, cut by", 100 * TAIL_CUT, "%"),)  # fmt: skip
    own_bps = run.parameters.path.rate_bps
    decides = _first(found, pairs, lambda busy, offloaded: busy.parameters.path.rate_bps == own_bps)
    verdict, because = _decided(found, decides, "links are faster than the hosts' processors")
    return Judged(verdict, because, rows, shown(run, "tail"))


def _is_same_network(busy: Run, offloaded: Run) -> bool:
    return busy.parameters.is_roce == offloaded.parameters.is_roce


def _cut(busy: Run, offloaded: Run) -> float | None:
    left = over(tail_upload_s(offloaded), tail_upload_s(busy))
    return None if left is None else 100 * (1 - left)
