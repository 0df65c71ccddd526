"""Slides 6 and 7: what federated learning sends, and what data and model parallelism send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis import text
from analysis.claims.judging import UNTOLD, shown, told, untold, untold_row
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, Claim, Judged, Row, Trial
from analysis.kinds import parallelism
from analysis.kinds.federated_rounds import Cast, cast_of, finished
from analysis.kinds.parallel_model import CHAIN, RING, WAYS
from analysis.kinds.shares import others
from analysis.kinds.training_steps import rank_hosts
from analysis.run import Run

# --- slide 6


def _updates_only(run: Run) -> Judged:
    """Who sent to whom how much, as the hosts' kernels counted it, beside models and updates alone."""
    cast, rounds = cast_of(run), len(finished(run))
    flows = run.entries("flows", ("sender", "receiver")) if "flows" in run.measured else []
    if cast is None or not rounds or not flows:
        return untold("clients' bytes", None, "bytes")
    counted = {(each["sender"], each["receiver"]): _sent(each) for each in flows}
    rows = _traffic_rows(cast, rounds, counted)
    up = rows[1].measured
    if any(row.holds is not True for row in rows):
        failed = "; ".join(row.quantity for row in rows if row.holds is not True)
        return Judged(NOT_REPRODUCED, f"otherwise than claimed: {failed}", rows, shown(run, "arrivals", "rounds"))
    because = (
        f"in each of {text.counted(rounds, 'round')} every one of {len(cast.clients)} clients got a model and sent an "
        f"update of {text.size(up)}, nothing else, and nothing to each other"
    )
    return Judged(REPRODUCED, because, rows, shown(run, "arrivals", "rounds"))


def _sent(flow: Mapping[str, Any]) -> int | None:
    """Payload that a connection's kernel sent, what it sent again left out; None where it does not tell."""
    info = flow.get("tcp_info")
    return info["bytes_sent"] - info["bytes_retrans"] if info else None


def _traffic_rows(cast: Cast, rounds: int, counted: dict[tuple[str, str], int | None]) -> tuple[Row, ...]:
    """Pairs that are no tree's, and bytes of the uploads and broadcasts that differ most from updates and models."""
    tree = {pair for child, parent in cast.parent.items() for pair in ((child, parent), (parent, child))}
    beside = len(set(counted) - tree)
    source = "tcp_info of each connection, measured.json"
    rows = [Row("pairs that talk, but client and aggregator", 0, 0, beside, "pairs", "none", beside == 0, "flows")]
    kinds = (
        ("a client's upload, a round", cast.sent_bytes, [(client, cast.parent[client]) for client in cast.clients]),
        ("a client's model, a round", cast.update_bytes, [(cast.parent[client], client) for client in cast.clients]),
    )
    for what, expected, pairs in kinds:
        found = [counted.get(pair) for pair in pairs]
        worst = _farthest([each / rounds for each in found if each is not None], expected)
        holds = None if None in found else worst == expected
        rows.append(Row(what, expected, expected, worst, "bytes", "exactly, every client", holds, source))
    return tuple(rows)


def _farthest(values: list[float], expected: float) -> float | None:
    return max(values, key=lambda value: abs(value - expected), default=None)


# --- slide 7


def _ways(run: Run) -> dict[str, Run]:
    """Way of sharing -> its run."""
    found = {parallelism.work(each).way: each for each in (run, *others(run).values())}
    return {way: found[way] for way in WAYS if way in found}


def _constant(run: Run) -> Judged:
    """As the report judges it: every step of every way needs the network."""
    ways, answer = _ways(run), parallelism.verdict(run).verdict
    rows = [row for way, each in ways.items() for row in _way_rows(way, each)]
    shares = {way: parallelism.share(each) for way, each in ways.items()}
    words = ", ".join(f"{way} {share:.0%}" for way, share in shares.items() if share is not None)
    because = f"{answer}: communication takes of a step {words or UNTOLD}"
    verdict = REPRODUCED if answer == parallelism.REPRODUCED else NOT_REPRODUCED
    empty = untold_row("share of a step", None, "%")
    return Judged(verdict, because, tuple(rows) or (empty,), shown(run, "parts"))


def _way_rows(way: str, run: Run) -> tuple[Row, Row]:
    sent, modelled, share = parallelism.row(run)["sent_bytes"], parallelism.work(run).sent_bytes, parallelism.share(run)
    least, within = parallelism.LEAST_SHARE, parallelism.BYTES_WITHIN
    right = None if sent is None or not modelled else abs(sent / modelled - 1) <= within
    return (
        Row(
            f"{way}: sent by a rank, a step",
            None,
            modelled,
            sent,
            "bytes",
            f"within {within:.0%} of the model",
            right,
            "traffic of measured.json",
        ),
        Row(
            f"{way}: share of a step",
            None,
            None,
            None if share is None else 100 * share,
            "%",
            f"at least {least:.0%}",
            None if share is None else share >= least,
            "steps of measured.json",
        ),
    )


_SHAPES = {"data": RING, "tensor": RING, "pipeline": CHAIN}


def _patterns(run: Run) -> Judged:
    """Which pairs talk: neighbours of a ring, or of a chain."""
    ways = _ways(run)
    rows = tuple(_pattern_row(way, each) for way, each in ways.items())
    told_ways = "; ".join(f"{way}: {parallelism.row(each)['shape']}" for way, each in ways.items())
    is_right = len(rows) == len(WAYS) and all(row.holds for row in rows)
    empty = told("pairs that talk", None, "pairs", UNTOLD)
    return Judged(
        REPRODUCED if is_right else NOT_REPRODUCED, told_ways or UNTOLD, rows or (empty,), shown(run, "traffic")
    )


def _pattern_row(way: str, run: Run) -> Row:
    """The pairs that talk; N of a ring, 2 (N - 1) of a chain."""
    ranks, found = len(rank_hosts(run)), parallelism.row(run)
    modelled = ranks if _SHAPES[way] == RING else 2 * (ranks - 1)
    holds = None if found["shape"] is None else (found["pairs"], found["shape"]) == (modelled, _SHAPES[way])
    return Row(
        f"{way}: pairs that talk",
        None,
        modelled,
        found["pairs"],
        "pairs",
        _SHAPES[way],
        holds,
        "traffic of measured.json",
    )


_PARALLELISM = Trial("parallelism", {}, {})

CLAIMS = (
    Claim(
        key="federated_traffic",
        slides="6",
        says="In federated learning clients send updates, never data, to an aggregator: broadcast and upload.",
        figures="hospitals, banks, mobiles, sensors as clients",
        trial=Trial("federated", {"clients": "20", "rounds": "2"}, {"clients": "50", "rounds": "4"}, only=True),
        model="a round: one model down to each client, one update up from each",
        tolerance="to the byte, and no pair talks but client and aggregator",
        judge=_updates_only,
        assumptions=("ResNet-50's update of 102.4 MB, divided by 100",),
    ),
    Claim(
        key="parallelism_communicates",
        slides="7",
        says="Data parallelism and model parallelism (tensor, pipeline) both need constant communication.",
        figures="",
        trial=_PARALLELISM,
        model="data 2 (N-1)/N of the gradients; tensor 2 (N-1)/N of the activations, 4 times a layer; pipeline the "
        "activations of every micro-batch to both neighbours",
        tolerance=f"bytes within {parallelism.BYTES_WITHIN:.0%} of the model, {parallelism.LEAST_SHARE:.0%} of every "
        "step or more communicating",
        judge=_constant,
        assumptions=("8 ranks at 100 Gb/s, 16 MiB of gradients, activations of 1 MiB, 5 ms of computing",),
    ),
    Claim(
        key="parallelism_patterns",
        slides="7",
        says="Data, tensor and pipeline parallelism each have a traffic pattern of their own.",
        figures="",
        trial=_PARALLELISM,
        model="a ring has N pairs that talk, a chain 2 (N-1)",
        tolerance="exactly these pairs",
        judge=_patterns,
        assumptions=("all-reduces by a ring",),
    ),
)
