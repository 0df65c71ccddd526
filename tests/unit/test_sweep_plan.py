"""What a sweep runs: its points, its seeds, and what is refused before anything is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.catalog import find
from experiments.request import listed
from experiments.sweeping.plan import MOST_RUNS, Asked, over, plan
from topologies.units import BadRequest

INCAST = find("incast")


def asked(*words: str, **more: object) -> Asked:
    return Asked(INCAST, {"bytes": "64KiB"}, over(words), **more)  # type: ignore[arg-type]


def test_every_combination_is_a_point_and_every_repeat_a_run_with_the_next_seed() -> None:
    planned = plan(asked("senders=2,4", "buffer=64KB,1MB", repeats=3))
    assert [point.label for point in planned.points] == [
        "senders=2, buffer=64KB",
        "senders=2, buffer=1MB",
        "senders=4, buffer=64KB",
        "senders=4, buffer=1MB",
    ]
    orders = list(planned.orders())
    assert [order.run for order in orders] == list(range(1, 13))
    assert [(order.point, order.repeat, order.spec.seed) for order in orders[:4]] == [
        (1, 1, 1),
        (1, 2, 2),
        (1, 3, 3),
        (2, 1, 1),
    ]
    assert (orders[11].spec.senders, orders[11].spec.buffer_bytes, orders[11].spec.sru_bytes) == (4, 1_000_000, 65536)


def test_listed_points_are_combined_with_the_values_given() -> None:
    points = ({"cc": "reno"}, {"queue": "dctcp", "buffer": "1MB"})
    planned = plan(asked("senders=2,4", listed=points))
    assert [dict(point.changes) for point in planned.points] == [
        {"cc": "reno", "senders": "2"},
        {"cc": "reno", "senders": "4"},
        {"queue": "dctcp", "buffer": "1MB", "senders": "2"},
        {"queue": "dctcp", "buffer": "1MB", "senders": "4"},
    ]
    assert planned.document()["axes"] == {
        "cc": "cc",
        "senders": "senders",
        "queue": "queue",
        "buffer": "buffer_bytes",
    }


def test_values_are_those_of_the_spec_however_they_are_written() -> None:
    one, other = (plan(asked(f"rate={rate}")).document() for rate in ("1000Mbps,2Gbps", "1Gbps,2000Mbps"))
    assert one == other


@pytest.mark.parametrize(
    ("words", "more", "said"),
    [
        (("sender=2,4",), {}, "sender: unknown key (did you mean senders?)"),
        (("senders=two",), {}, "senders: 'two' is not understood"),
        (("senders=",), {}, "--over: 'senders=' has an empty value"),
        (("senders=2,,4",), {}, "--over: 'senders=2,,4' has an empty value"),
        (("senders",), {}, "--over: 'senders' is given; allowed: KEY=VALUE,VALUE..."),
        (("senders=2", "senders=4"), {}, "--over: senders is given twice"),
        (("bytes=1MiB",), {}, "bytes: is given twice"),
        (("senders=2",), {"listed": ({"senders": "4"},)}, "senders: is given twice"),
        (("senders=2,2",), {}, "senders=2 and senders=2 are the same run"),
        (("rate=1Gbps,1000Mbps",), {}, "rate=1Gbps and rate=1Gbps are the same run"),
        (("seed=1,2",), {"repeats": 2}, "--repeat: given with a sweep over seed"),
        ((f"seed=1,{2**63 - 1}",), {}, f"seed: {2**63 - 1} is given; allowed in a sweep: "),
        (("transport=roce", "window=1MB,99999999TB"), {}, "window: 99999999000GB is given; allowed in a sweep: "),
        ((), {}, "sweep: nothing to sweep over is given"),
        (("senders=2,4",), {"repeats": MOST_RUNS}, "sweep: 200,000 runs are asked for; allowed: up to 100,000"),
        (("buffer=64KB,100B",), {}, "point buffer=100B: buffer: 100B is given and holds no packet"),
        (("topology=star,fat_tree", "k=4"), {}, "point topology=star, k=4: k: 4 is given with topology=star"),
    ],
)
def test_what_cannot_work_is_told_in_one_line(words: tuple[str, ...], more: dict[str, object], said: str) -> None:
    with pytest.raises(BadRequest) as refused:
        plan(asked(*words, **more))
    assert str(refused.value).startswith((said, f"sweep: {said}"))
    assert "\n" not in str(refused.value)


def test_points_that_cannot_work_are_left_out_where_that_is_asked_for() -> None:
    planned = plan(asked("buffer=64KB,100B,1MB"), leave_out=True)
    assert [(point.number, point.label) for point in planned.points] == [(1, "buffer=64KB"), (2, "buffer=1MB")]
    (line,) = planned.left_out
    assert line.startswith("buffer=100B: buffer: 100B is given")


def test_a_sweep_of_nothing_but_impossible_points_is_refused() -> None:
    with pytest.raises(BadRequest, match="none of the 1 points can work, the first is buffer=100B: buffer: "):
        plan(asked("buffer=100B"), leave_out=True)


def test_an_unknown_key_is_refused_even_when_points_may_be_left_out() -> None:
    with pytest.raises(BadRequest, match=r"^nonsense: unknown key"):
        plan(asked("nonsense=1"), leave_out=True)


def test_columns_are_those_that_mean_something_to_a_point() -> None:
    star, tree = plan(asked("topology=star")), plan(asked("topology=star,fat_tree"))
    assert "k" not in star.columns and tree.columns["k"] == "int64"
    types = {"buffer_bytes": "int64", "cc": "string", "sack": "bool", "goodput_bps": "double", "failure": "string"}
    assert {name: star.columns[name] for name in types} == types
    assert {"median_round_seconds", "cure"} <= set(star.columns)  # the kind's own
    spec_values = next(iter(tree.orders())).values
    assert spec_values["k"] is None and spec_values["buffer_bytes"] == 600_000 and spec_values["sack"] is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "is an empty list; allowed: one point or more"),
        ("senders: 2", "is no list of points"),
        ("- 2\n- 4", "is no list of points"),
        ("- {}", "is no list of points"),
        ("- {senders: 2, senders: 3}", "is no spec in YAML"),
    ],
)
def test_a_file_that_is_no_list_of_points_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "points.yaml"
    path.write_text(text)
    with pytest.raises(BadRequest, match=said):
        listed(path)


def test_a_file_of_points_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "points.yaml"
    path.write_text("- {senders: 010}\n- {senders: 2, sack: off}\n")
    assert listed(path) == [{"senders": "010"}, {"senders": "2", "sack": "off"}]
