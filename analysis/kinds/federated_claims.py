"""What the lecture says of federated learning (slide 21) beside what a run and its cases measured: RoCE against TCP,
rounds with and without edge aggregators, smaller updates, shorter tails.

Runs are compared that differ in what the claim is about, and in nothing else that would change the figure; what a
figure depends on shows in the several pairs there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from analysis import text
from analysis.kinds.federated_rounds import (
    best_accuracy,
    cast_of,
    edge_rounds,
    ratio_of_compression,
    round_s,
    rounds_to_target,
    tail_upload_s,
    target,
)
from analysis.kinds.published import Compared, published_table
from analysis.measures import kernel_timeouts
from analysis.pages.markup import Html
from analysis.run import Run

SLIDE = "the lecture, slide 21"
ROCE_TIMES, ROCE_TOLERANCE = 3.6, 0.25
HIERARCHICAL_ROUNDS, FLAT_ROUNDS, ROUNDS_TOLERANCE = 38, 42, 0.05
LEAST_SMALLER, MOST_SMALLER = 10, 50
KEPT_ACCURACY = 0.01  # of the run without compression: a point
TAIL_CUT, TAIL_TOLERANCE = 0.6, 0.15

_SIZE = ("clients", "update", "scale", "compression", "kept", "spread", "quorum", "slow_host", "compute", "rate")
_TREE = ("aggregation", "edges", "edge_rounds")
_NETWORK = ("topology", "transport", "traffic_class", "pfc", "queue", "cc", "buffer", "mtu", "rto_min")
_COST = "host_cost"
_OFFLOADED = {"tcp": "rdma", "none": "none"}  # what a host costs with TCP, and with RoCE


def claims_section(run: Run) -> Html:
    """The table of claims; empty without a case that has anything to compare."""
    return published_table(claims(run))


def claims(run: Run) -> list[Compared]:
    """Every pair of runs that a claim is about, and every case with compression."""
    runs = compared_runs(run)
    return [
        *(roce_row(*pair) for pair in roce_pairs(runs)),
        *(rounds_row(*pair) for pair in rounds_pairs(runs)),
        *(smaller_row(*pair) for pair in compressed_pairs(runs)),
        *(tail_row(*pair) for pair in tail_pairs(runs)),
    ]


def compared_runs(run: Run) -> list[Run]:
    """The run and its cases, as far as they have begun."""
    return [each for each in (run, *run.cases.values()) if each.workload == run.workload and cast_of(each)]


def _pairs(
    runs: list[Run], first: Callable[[Run], bool], second: Callable[[Run, Run], bool]
) -> Iterator[tuple[Run, Run]]:
    return ((one, other) for one in runs if first(one) for other in runs if other is not one and second(one, other))


def _alike(one: Run, other: Run, *keys: str) -> bool:
    return all(one.spec.get(key) == other.spec.get(key) for key in keys)


def _both(one: Run, other: Run) -> str:
    return f"{one.parameters.label} / {other.parameters.label}"


# --- RoCE against TCP


def roce_pairs(runs: list[Run]) -> list[tuple[Run, Run]]:
    """The same over TCP and over RoCE, hosts that cost against hosts whose NICs spare them."""

    def counterpart(tcp: Run, roce: Run) -> bool:
        cost = _OFFLOADED.get(str(tcp.spec.get(_COST)))
        return roce.parameters.is_roce and roce.spec.get(_COST) == cost and _alike(tcp, roce, *_SIZE, *_TREE)

    return list(_pairs(runs, lambda one: not one.parameters.is_roce, counterpart))


def roce_row(tcp: Run, roce: Run) -> Compared:
    """How many times as long a round takes over TCP."""
    tcp_s, roce_s, timeouts = round_s(tcp), round_s(roce), kernel_timeouts(tcp)
    ratio = tcp_s / roce_s if tcp_s and roce_s else None
    holds = None if ratio is None else abs(ratio - ROCE_TIMES) <= ROCE_TOLERANCE * ROCE_TIMES
    busy = ", hosts cost" if tcp.spec.get(_COST) == "tcp" else ""
    waited = f"TCP had {text.counted(timeouts, 'timeout')}" if timeouts else "TCP had no timeout"
    return Compared(
        _both(tcp, roce),
        f"a round over TCP, against RoCE: {tcp.spec['clients']} clients, {text.rate(tcp.parameters.path.rate_bps)}, "
        f"{tcp.parameters.scheme}, update / {tcp.spec['scale']}{busy}",
        f"{ROCE_TIMES:g}x with 200 clients",
        SLIDE,
        "",
        text.times(ratio),
        f"within {ROCE_TOLERANCE:.0%}, on whatever network",
        holds,
        f"{text.times(ratio)} is measured, {waited}",
    )


# --- rounds with and without edges


def tree_pairs(runs: list[Run]) -> list[tuple[Run, Run]]:
    """Flat and hierarchical, everything else the same."""

    def counterpart(flat: Run, tree: Run) -> bool:
        return tree.spec.get("aggregation") == "hierarchical" and _alike(flat, tree, *_SIZE, *_NETWORK, _COST)

    return list(_pairs(runs, lambda one: one.spec.get("aggregation") == "flat", counterpart))


def rounds_pairs(runs: list[Run]) -> list[tuple[Run, Run]]:
    """Those of which one at the least gets as good as asked."""
    return [pair for pair in tree_pairs(runs) if any(rounds_to_target(each) for each in pair)]


def rounds_row(flat: Run, tree: Run) -> Compared:
    """How many rounds each needs to get as good as asked."""
    many, few, published = rounds_to_target(flat), rounds_to_target(tree), HIERARCHICAL_ROUNDS / FLAT_ROUNDS
    share = few / many if few and many else None
    averages = edge_rounds(tree)
    why = (
        "edges that average once in a round make the same mean as the root alone"
        if averages == 1
        else f"edges train {averages} times in a round, so that a round is worth more, and takes longer"
    )
    return Compared(
        _both(flat, tree),
        f"rounds to {target(flat):.0%}, flat against hierarchical; edges average {averages}x a round",
        f"{FLAT_ROUNDS} against {HIERARCHICAL_ROUNDS}",
        SLIDE,
        "",
        f"{text.count(many)} against {text.count(few)}",
        f"a share within {ROUNDS_TOLERANCE:.0%} of {published:.2f}",
        None if share is None else abs(share - published) <= ROUNDS_TOLERANCE * published,
        f"{text.count(many)} against {text.count(few)} is measured: {why}",
    )


# --- smaller updates


def compressed_pairs(runs: list[Run]) -> list[tuple[Run, Run | None]]:
    """What is sent compressed, and the same without compression where that ran."""
    return [(each, _whole(runs, each)) for each in runs if each.spec.get("compression") != "none"]


def _whole(runs: list[Run], compressed: Run) -> Run | None:
    """The run that sends the same without compression."""
    keys = tuple(key for key in _SIZE if key not in ("compression", "kept"))
    same = (one for one in runs if one.spec.get("compression") == "none")
    return next((one for one in same if _alike(one, compressed, *keys, *_TREE, *_NETWORK, _COST)), None)


def smaller_row(run: Run, whole: Run | None) -> Compared:
    """How much smaller an update is, and what the model loses."""
    ratio, best, usual = ratio_of_compression(run), best_accuracy(run), best_accuracy(whole) if whole else None
    known = ratio is not None and best is not None and usual is not None
    kept = f", {run.spec['kept']} of all" if run.spec.get("compression") == "topk" else ""
    cost = f"{best:.1%} at best, {usual:.1%} without" if best is not None and usual is not None else text.NOTHING
    return Compared(
        run.parameters.label,
        f"an update's size with {run.spec['compression']}{kept}, accuracy kept",
        f"{LEAST_SMALLER} to {MOST_SMALLER}x smaller",
        SLIDE,
        "",
        f"{text.times(ratio)} smaller, {cost}",
        f"in that range, and no more than {KEPT_ACCURACY:.0%} of accuracy lost",
        None if not known else LEAST_SMALLER <= ratio <= MOST_SMALLER and best >= usual - KEPT_ACCURACY,  # type: ignore[operator]
        f"{text.times(ratio)} smaller, {cost}",
    )


# --- tails


def tail_pairs(runs: list[Run]) -> list[tuple[Run, Run]]:
    """Hosts whose processors move the data against NICs that do: over the same network, and over each one's own."""

    def counterpart(busy: Run, offloaded: Run) -> bool:
        same = offloaded.spec.get(_COST) == "rdma" and _alike(busy, offloaded, *_SIZE, *_TREE)
        return same and (offloaded.parameters.is_roce or _alike(busy, offloaded, *_NETWORK))

    return list(_pairs(runs, lambda one: one.spec.get(_COST) == "tcp", counterpart))


def tail_row(busy: Run, offloaded: Run) -> Compared:
    """By how much the slowest uploads get shorter."""
    before_s, after_s = tail_upload_s(busy), tail_upload_s(offloaded)
    cut = 1 - after_s / before_s if before_s and after_s is not None else None
    timeouts = kernel_timeouts(busy)
    why = f"{text.counted(timeouts, 'timeout')} made the tail" if timeouts else "links, not processors, make the tail"
    measured = f"{100 * cut:.0f} %: {text.seconds(before_s)} to {text.seconds(after_s)}" if cut is not None else ""
    return Compared(
        _both(busy, offloaded),
        f"p99 of uploads, hosts that cost as TCP's do against RDMA's: {text.rate(busy.parameters.path.rate_bps)}, "
        f"{busy.parameters.scheme} against {offloaded.parameters.scheme}",
        f"offload cuts it by {100 * TAIL_CUT:.0f} %",
        SLIDE,
        "",
        measured or text.NOTHING,
        f"{100 * (TAIL_CUT - TAIL_TOLERANCE):.0f} to {100 * (TAIL_CUT + TAIL_TOLERANCE):.0f} %",
        None if cut is None else abs(cut - TAIL_CUT) <= TAIL_TOLERANCE,
        f"{measured}; {why}",
    )
