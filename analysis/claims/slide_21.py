"""Slide 21: federated learning with aggregators inside and between: rounds, time, sizes and tails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable

from analysis import text
from analysis.claims import federated_pairs
from analysis.claims.federated_pairs import over
from analysis.claims.judging import answer, shown, untold
from analysis.claims.model import Claim, Judged, Row, Trial
from analysis.kinds import federated_claims
from analysis.kinds.federated_claims import (
    FLAT_ROUNDS,
    HIERARCHICAL_ROUNDS,
    KEPT_ACCURACY,
    LEAST_SMALLER,
    MOST_SMALLER,
    ROCE_TIMES,
    TAIL_CUT,
    compared_runs,
)
from analysis.kinds.federated_rounds import (
    best_accuracy,
    cast_of,
    edge_rounds,
    finished,
    ideal_s,
    round_s,
)
from analysis.run import Run

_Pair = tuple[Run, Run]
_ROUNDS = "fl_rounds of measured.json"
_WITHIN = 0.10  # of what the tree of aggregators saves by arithmetic


# --- aggregation inside and between


def _two_levels(run: Run) -> Judged:
    """What the root's link carries, and a round takes, with edges and without; that both learn the same."""
    pairs = [pair for pair in federated_claims.tree_pairs(compared_runs(run)) if edge_rounds(pair[1]) == 1]
    if not pairs:
        return untold("bytes into the root's link a round, over those without edges", None, "x")
    flat, tree = next((pair for pair in pairs if pair[0].parameters.is_roce), pairs[0])
    rows = (_into_root(flat, tree), _shorter(flat, tree), _as_accurate(flat, tree))
    verdict, because = answer(rows, lambda: _saved_words(flat, tree, rows), lambda: _saved_words(flat, tree, rows))
    return Judged(verdict, because, rows, shown(run, "rounds", "accuracy"))


def _saved_words(flat: Run, tree: Run, rows: tuple[Row, Row, Row]) -> str:
    carried, took, lost = (row.measured or 0.0 for row in rows)
    return (
        f"the root's link carries {carried:.2f} of the bytes, a round takes {text.seconds(round_s(tree))} instead of "
        f"{text.seconds(round_s(flat))} ({took:.2f}), {lost:.1f} points of accuracy are lost ({flat.parameters.scheme})"
    )


def _into_root(flat: Run, tree: Run) -> Row:
    measured = over(_root_bytes(tree), _root_bytes(flat))
    modelled = over(_root_children(tree), _root_children(flat))
    return _by_model(
        "bytes into the root's link a round, over those without edges", modelled, measured, "port counters"
    )


def _shorter(flat: Run, tree: Run) -> Row:
    measured, modelled = over(round_s(tree), round_s(flat)), over(ideal_s(tree), ideal_s(flat))
    return _by_model("median round, over that without edges", modelled, measured, _ROUNDS)


def _by_model(quantity: str, modelled: float | None, measured: float | None, source: str) -> Row:
    off = over(measured, modelled)
    holds = None if off is None else abs(off - 1) <= _WITHIN and measured is not None and measured < 1
    tolerance = f"within {_WITHIN:.0%} of the model, and less"
    return Row(quantity, None, modelled, measured, "x", tolerance, holds, source)


def _as_accurate(flat: Run, tree: Run) -> Row:
    usual, best = best_accuracy(flat), best_accuracy(tree)
    lost = None if usual is None or best is None else 100 * (usual - best)
    holds = None if lost is None else lost <= 100 * KEPT_ACCURACY
    return Row("accuracy lost at best", None, 0.0, lost, "points", f"at most {100 * KEPT_ACCURACY:g}", holds, _ROUNDS)


def _root_children(run: Run) -> float | None:
    cast = cast_of(run)
    return len(cast.children(cast.root)) if cast else None


def _root_bytes(run: Run) -> float | None:
    """What the switch sent over the link to the root, a round."""
    cast, rounds = cast_of(run), len(finished(run))
    ports = [port for port in run.measured.get("ports", {}).values() if cast and port.get("peer") == cast.root]
    sent = [queue["bytes"] for port in ports for queue in port.get("qdiscs", []) if queue.get("parent") == "root"]
    return sum(sent) / rounds if sent and rounds else None


# --- claims

# Of the experiment's cases those that no claim is about cost a quarter of its time.
_CASES = (
    *(
        "hierarchical",
        "hierarchical-twice",
        "roce",
        "hierarchical-roce",
        "int8",
        "topk",
        "sign",
        "cost_tcp",
        "lossless",
    ),
    *("lossless-cost_tcp", "lossless-cost_rdma", "roce-cost_rdma", "fast-cost_tcp", "fast-cost_rdma"),
    *("fast-roce-cost_rdma", "dctcp-mtu_1500", "scale_10", "scale_10-roce"),
    *("clients_200", "clients_200-hierarchical", "clients_200-roce"),
)
_FEW = {"clients": "20"}
_FEW_CASES = (
    *("hierarchical", "topk", "sign"),
    *("lossless-cost_tcp", "lossless-cost_rdma", "fast-cost_tcp", "fast-cost_rdma"),
)
_TREE = {**_FEW, "rounds": "4", "transport": "roce", "pfc": "on"}
_BOTH = {"rounds": "4"}


def _claim(
    key: str,
    says: str,
    figures: str,
    model: str,
    tolerance: str,
    judge: Callable[[Run], Judged],
    quick: Mapping[str, str] = _FEW,
    quick_cases: tuple[str, ...] = _FEW_CASES,
) -> Claim:
    return Claim(
        key=key,
        slides="21",
        says=says,
        figures=figures,
        trial=Trial("federated", quick, {}, _CASES, quick_cases),
        model=model,
        tolerance=tolerance,
        judge=judge,
        assumptions=(
            "ResNet-50's update and the computing are divided by 100, timeouts are not",
            "a small real model on scikit-learn's digits; the update is padded to ResNet-50's",
        ),
    )


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "fl_two_levels",
        "Updates are averaged inside first, and only the averages between.",
        "",
        "the root's link carries an update for each edge, not for each client",
        "bytes and time within 10 % of the model, at most a point of accuracy lost",
        _two_levels,
        _TREE,
        ("hierarchical",),
    ),
    _claim(
        "fl_roce",
        "With 200 clients and ResNet-50 a round over RoCE is 3.6 times faster than over TCP.",
        f"{ROCE_TIMES:g}x",
        "links alone need as long over either: 1x; what is above it is waiting for timeouts",
        "within 25 %",
        federated_pairs.roce,
        _BOTH,
        ("roce",),
    ),
    _claim(
        "fl_rounds",
        "Hierarchical aggregation converges in 38 rounds, flat in 42.",
        f"{HIERARCHICAL_ROUNDS} against {FLAT_ROUNDS}",
        "edges that average once make the same mean as the root: 1x",
        f"a share within 5 % of {HIERARCHICAL_ROUNDS / FLAT_ROUNDS:.2f}",
        federated_pairs.rounds,
    ),
    _claim(
        "fl_compression",
        "Compression makes updates 10 to 50 times smaller.",
        f"{LEAST_SMALLER} to {MOST_SMALLER}x",
        "topk: the share kept and its indices; sign: a bit of 32; int8: a byte of four",
        "a scheme in the range that loses no more than a point of accuracy",
        federated_pairs.smaller,
    ),
    _claim(
        "fl_tail",
        "Offload cuts the tail latency by 60 %.",
        f"{100 * TAIL_CUT:.0f} %",
        "an upload takes the longer of the aggregator's link and its processor",
        "45 to 75 %",
        federated_pairs.tail,
    ),
)
