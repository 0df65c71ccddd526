"""The model of a training step: what hides behind what."""

from __future__ import annotations

import pytest

from analysis.kinds.training_model import bucket_sizes, data_parallel, most_saved, served, tensor_parallel


def test_buckets_are_of_one_size_but_for_the_last() -> None:
    assert bucket_sizes(10, 4) == [4, 4, 2]
    assert bucket_sizes(10, None) == [10]
    assert bucket_sizes(10, 20) == [10]


def test_without_overlap_everything_follows_computing() -> None:
    step = data_parallel(3.0, [1, 1], [0.5, 0.5], overlap=False)
    assert (step.seconds, step.exposed_s, step.hidden_share) == (4.0, 1.0, 0.0)


def test_short_buckets_hide_behind_backward_but_for_the_last() -> None:
    """Backward takes 2 of 3: buckets are ready at 2 and at 3."""
    step = data_parallel(3.0, [1, 1], [0.5, 0.5], overlap=True)
    assert step.seconds == pytest.approx(3.5)
    assert step.hidden_share == pytest.approx(0.5)


def test_long_buckets_wait_for_each_other() -> None:
    """The first begins at 2 and keeps the second until 5."""
    assert data_parallel(3.0, [1, 1], [3.0, 3.0], overlap=True).seconds == pytest.approx(8.0)


def test_buckets_of_other_sizes_are_ready_by_their_share() -> None:
    step = data_parallel(3.0, [3, 1], [0.1, 0.1], overlap=True)
    assert step.seconds == pytest.approx(3.1)
    assert data_parallel(3.0, [3, 1], [0.9, 0.1], overlap=True).seconds == pytest.approx(1 + 1.5 + 0.9 + 0.1)


def test_parameters_come_back_when_all_gradients_are_there() -> None:
    step = served(3.0, [1, 1], 0.5, overlap=True)
    assert step.seconds == pytest.approx(3.0 + 0.5 + 1.0)
    assert step.travel_s == pytest.approx(2.0)


def test_nothing_hides_the_reductions_of_tensor_parallelism() -> None:
    step = tensor_parallel(4.0, 4, 8, 0.25)
    assert (step.compute_s, step.seconds) == (1.0, 3.0)


@pytest.mark.parametrize(("compute_s", "travel_s"), [(3.0, 2.0), (1.0, 10.0), (10.0, 1.0), (2.0, 2.0)])
def test_overlap_saves_at_most_forty_percent(compute_s: float, travel_s: float) -> None:
    assert 0 < most_saved(compute_s, travel_s) <= 0.4


def test_it_saves_that_where_gradients_travel_as_long_as_backward_computes() -> None:
    assert most_saved(3.0, 2.0) == pytest.approx(0.4)
    many = 1000
    step = data_parallel(3.0, [1] * many, [2.0 / many] * many, overlap=True)
    assert 1 - step.seconds / 5.0 == pytest.approx(0.4, abs=0.001)
