"""Slide 8: a parameter server beside a ring, with more and more workers, and with BERT-Large's gradients."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import text
from analysis.claims.fit import fit
from analysis.claims.judging import UNTOLD, alike, answer, shown, told, within
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.kinds import allreduce_scaling
from analysis.kinds.collective_calls import helper_hosts, nic_bytes_per_call
from analysis.kinds.scaling_points import (
    BERT_LARGE_BYTES,
    Point,
    compared_bytes,
    modelled_s,
    points,
)
from analysis.run import Run

_SERVER, _RING = "parameter_server", "ring"
_WITHIN = allreduce_scaling.BYTES_TOLERANCE  # headers and acknowledgements
_SLOPE = allreduce_scaling.SLOPE_TOLERANCE  # of the server's time for each worker
_NIC = "nic_bytes of measured.json"
_LINE = "line through the sizes sent"
_FEWEST = 3  # numbers of ranks by which a growth is told


def _server_bytes(run: Run) -> dict[int, tuple[float, float]]:
    """Workers -> bytes that the parameter server's NIC carries one way in a call, and the data of all workers."""
    found, size_bytes = points(run), compared_bytes(points(run)) or 0
    told_bytes = {}
    for number, point in found.get(_SERVER, {}).items():
        row = point.row(size_bytes)
        measured = None if row is None else nic_bytes_per_call(point.run, row, helper_hosts(point.run))
        if measured is not None:
            told_bytes[number] = (measured, float(number * size_bytes))
    return told_bytes


def _grows(found: Mapping[int, tuple[float, float]]) -> tuple[float, float] | None:
    """How many times the fewest ranks' bytes those of the most are, measured and modelled; None for too few."""
    if len(found) < _FEWEST:
        return None
    (least, least_model), (most, most_model) = found[min(found)], found[max(found)]
    return most / least, most_model / least_model


def _server_linear(run: Run) -> Judged:
    """Bytes at the server's NIC for each number of workers, and how its time grows with each further one."""
    found, slopes = _server_bytes(run), allreduce_scaling.summarize(run)["scaling"]["server_slope_s"]
    grown = _grows(found)
    times = max(found) / min(found) if found else None
    rows = (
        *(_bytes_row("server's NIC", number, *pair, "workers") for number, pair in found.items()),
        Row(
            f"growth of the bytes, {_span(found)}",
            times,
            times,
            None if grown is None else grown[0],
            "x",
            within(_WITHIN),
            None if grown is None or times is None else alike(grown[0], times, _WITHIN),
            _NIC,
        ),
        _slope_row(slopes),
    )
    verdict, because = answer(
        rows,
        lambda: (
            f"from {_span(found)} the server's NIC carries {text.times(grown and grown[0])} the bytes, "
            f"{text.seconds(slopes[0])} for each worker"
        ),
        lambda: f"from {_span(found)} the server's NIC carries {text.times(grown and grown[0])} the bytes",
    )
    return Judged(verdict, because, rows, shown(run, "server_and_ring"))


def _slope_row(slopes: tuple[float, float] | None) -> Row:
    share = _SLOPE
    measured, modelled = slopes or (None, None)
    holds = None if measured is None or modelled is None else alike(measured, modelled, share)
    return Row(
        "server's time for each further worker",
        None,
        modelled,
        measured,
        "s",
        f"{within(share)} of the model",
        holds,
        "regression over the workers",
    )


def _span(found: Mapping[int, object]) -> str:
    return f"{min(found)} to {max(found)}" if found else "no number of ranks"


def _bytes_row(whose: str, number: int, measured: float, modelled: float, noun: str) -> Row:
    return Row(
        f"{whose}, one way, {number} {noun}",
        None,
        modelled,
        measured,
        "bytes",
        f"{within(_WITHIN)} of the model, which has no headers",
        alike(measured, modelled, _WITHIN),
        _NIC,
    )


def _ring_constant(run: Run) -> Judged:
    """Bytes of a rank's NIC for each number of ranks: 2 (N-1)/N of the data, which goes towards twice."""
    found, size_bytes = allreduce_scaling.ring_bytes(run), compared_bytes(points(run)) or 0
    grown, most = _grows(found), max((measured for measured, _ in found.values()), default=None)
    rows = (
        *(_bytes_row("a rank's NIC", number, *pair, "ranks") for number, pair in found.items()),
        Row(
            "the most of all, over the data",
            2,
            2,
            None if most is None or not size_bytes else most / size_bytes,
            "x",
            f"at most twice, {_WITHIN:.0%} for headers",
            None if most is None else most <= 2 * size_bytes * (1 + _WITHIN),
            _NIC,
        ),
        told(
            f"growth of the bytes, {_span(found)} ranks",
            None if grown is None else grown[0],
            "x",
            _NIC,
            None if grown is None else grown[1],
        ),
    )
    verdict, because = answer(rows, lambda: _ring_words(found), lambda: _ring_words(found))
    if grown is None:
        return Judged(NOT_REPRODUCED, f"{UNTOLD}: too few numbers of ranks", rows)
    if verdict == REPRODUCED and grown[0] > 1 + _WITHIN:
        verdict, because = REPRODUCED_IF, f"constant means bounded by twice the data: {because}"
    return Judged(verdict, because, rows, shown(run, "server_and_ring"))


def _ring_words(found: Mapping[int, tuple[float, float]]) -> str:
    return "a rank sends " + ", ".join(f"{text.size(found[number][0])} with {number}" for number in found)


def _bert_large(run: Run) -> Judged:
    """BERT-Large's gradients by the lines through what each number of ranks sent: the server's time grows as its
    workers, the ring's no more than its bytes."""
    found = points(run)
    server, ring = (_bert_times(found.get(name, {})) for name in (_SERVER, _RING))
    if len(server) < _FEWEST or len(ring) < _FEWEST:
        return Judged(NOT_REPRODUCED, f"{UNTOLD}: too few runs", (told("BERT-Large", None, "s", UNTOLD),))
    fewest, most = min(server.keys() & ring.keys()), max(server.keys() & ring.keys())
    rows = [
        Row(
            f"{name.replace('_', ' ')}, {number} ranks",
            None,
            modelled_s(found[name][number], number, BERT_LARGE_BYTES),
            times[number],
            "s",
            "",
            None,
            _LINE,
            extrapolated=True,
        )
        for name, times in ((_SERVER, server), (_RING, ring))
        for number in (fewest, most)
    ]
    server_grown, ring_grown = server[most] / server[fewest], ring[most] / ring[fewest]
    linear, bound = most / fewest, fewest / (fewest - 1)
    rows += [
        Row(
            f"server's time, {fewest} to {most} ranks",
            linear,
            linear,
            server_grown,
            "x",
            within(_WITHIN),
            alike(server_grown, linear, _WITHIN),
            _LINE,
            extrapolated=True,
        ),
        Row(
            f"ring's time, {fewest} to {most} ranks",
            None,
            bound * (most - 1) / most,
            ring_grown,
            "x",
            f"at most {bound:.3g} times, {_WITHIN:.0%} for delays: that is the bytes' bound",
            ring_grown <= bound * (1 + _WITHIN),
            _LINE,
            extrapolated=True,
        ),
    ]
    because = (
        f"from {fewest} to {most} ranks the server's time grows {text.times(server_grown)}, to "
        f"{text.seconds(server[most])}, the ring's {text.times(ring_grown)}, to {text.seconds(ring[most])}"
    )
    holds = all(row.holds for row in rows if row.tolerance)
    return Judged(REPRODUCED if holds else NOT_REPRODUCED, because, tuple(rows), shown(run, "over_size"))


def _bert_times(several: dict[int, Point]) -> dict[int, float]:
    """Ranks -> seconds by the line through the sizes that so many ranks sent."""
    lines = {number: fit((row.size_bytes, row.seconds) for row in point.rows) for number, point in several.items()}
    return {number: line.seconds(BERT_LARGE_BYTES) for number, line in lines.items() if line is not None}


_CASES = tuple(
    f"{algorithm}-n{ranks}"
    for algorithm in (_SERVER, _RING)
    for ranks in (4, 8, 16, 32, 64)
    if (algorithm, ranks) != (_RING, 16)
)
_SCALING = Trial(
    "allreduce_scaling",
    {"warmup": "0", "sizes": "512KiB,1MiB,2MiB,4MiB"},
    {},
    _CASES,
    tuple(label for label in _CASES if not label.endswith("-n64")),
)
_STAR = "one switch, so that no uplink is shared; marks keep the server's port from losing"

CLAIMS = (
    Claim(
        key="server_linear",
        slides="8",
        says="A parameter server's bandwidth need grows linearly with the workers.",
        figures="linear in N",
        trial=_SCALING,
        model="N gradients in, N sums out, all over the server's one link",
        tolerance=f"bytes {within(_WITHIN)}, time for each worker {within(_SLOPE)} of the model",
        judge=_server_linear,
        assumptions=(_STAR,),
    ),
    Claim(
        key="ring_constant",
        slides="8",
        says="A ring's overhead for each node stays constant, whatever the number of nodes.",
        figures="constant in N",
        trial=_SCALING,
        model="2 (N-1)/N of the data: 1.5 times with 4 ranks, never more than twice",
        tolerance=f"bytes {within(_WITHIN)} of the model; constant without more where they grow by less",
        judge=_ring_constant,
        assumptions=(_STAR,),
    ),
    Claim(
        key="bert_large",
        slides="8",
        says="With BERT-Large's gradients a parameter server slows down with every worker, and a ring does not.",
        figures="about 340 million parameters, 1.36 GB",
        trial=_SCALING,
        model="server 2 N S / B; ring 2 (N-1)/N S / B + 2 (N-1) alpha",
        tolerance=f"the server's time grows as the workers {within(_WITHIN)}, the ring's within its bytes' bound",
        judge=_bert_large,
        assumptions=(_STAR, "float32; 1.36 GB are read off lines through smaller sizes"),
    ),
)
