"""The small real network: its gradient, who learns from which images, and that it learns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import compression, digits
from workloads.digits import Images, Replica, loss_and_gradient, numbers, shards, split, widest

SEED = 5
TRAINING = 1438  # of 1,797 images a fifth, 359, is held out


def test_the_gradient_is_that_of_finite_differences() -> None:
    """In float64, central differences of 1e-6 err by about 1e-10."""
    dice = np.random.default_rng(1)
    hidden, step = 5, 1e-6
    images = Images(dice.random((7, 64)), dice.integers(0, 10, 7))
    parameters = dice.normal(size=numbers(hidden))
    _, gradient = loss_and_gradient(parameters, hidden, images)
    slopes = []
    for place in range(len(parameters)):
        ends = []
        for sign in (1, -1):
            moved = parameters.copy()
            moved[place] += sign * step
            ends.append(loss_and_gradient(moved, hidden, images)[0])
        slopes.append((ends[0] - ends[1]) / (2 * step))
    assert gradient == pytest.approx(np.array(slopes), abs=1e-7)
    assert np.abs(gradient).max() > 0.01


def test_of_ten_equal_chances_the_loss_is_the_logarithm_of_ten() -> None:
    loss, _ = loss_and_gradient(np.zeros(numbers(3), np.float32), 3, split(SEED)[0])
    assert loss == pytest.approx(np.log(10), rel=1e-5)


def test_images_held_out_are_none_to_learn_from() -> None:
    learned, held_out = split(SEED)
    assert (len(learned.labels), len(held_out.labels)) == (TRAINING, 359)
    both = np.concatenate([learned.pixels, held_out.pixels])
    assert len(np.unique(both, axis=0)) == len(both)
    assert (both.dtype, both.min(), both.max()) == (np.float32, 0, 1)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 300), st.integers(0, 9), st.sampled_from([None, 0.05, 0.5, 10.0]))
def test_every_image_belongs_to_one_rank_and_no_rank_is_without(ranks: int, seed: int, alpha: float | None) -> None:
    parts = shards(ranks, seed, alpha)
    assert len(parts) == ranks
    assert all(len(part) for part in parts)
    assert sorted(np.concatenate(parts)) == list(range(TRAINING))
    if alpha is None:
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert all(np.array_equal(a, b) for a, b in zip(parts, shards(ranks, seed, alpha)))


def test_a_small_alpha_gives_a_rank_few_classes() -> None:
    labels = split(SEED)[0].labels

    def classes(alpha: float | None) -> float:
        return float(np.mean([len(set(labels[part])) for part in shards(20, SEED, alpha)]))

    assert classes(0.05) < 4 < 8 < classes(100.0) <= 10
    assert classes(None) > 9.5


@pytest.mark.parametrize("ranks", [0, TRAINING + 1])
def test_more_ranks_than_images_are_refused(ranks: int) -> None:
    with pytest.raises(ValueError, match=f"allowed: 1 to {TRAINING}"):
        shards(ranks, SEED)


@pytest.mark.parametrize(("most", "hidden"), [(84, 0), (85, 1), (159, 1), (160, 2), (10**7, digits.MOST_HIDDEN)])
def test_the_widest_network_that_fits(most: int, hidden: int) -> None:
    assert widest(most) == hidden
    assert hidden in (0, digits.MOST_HIDDEN) or numbers(hidden) <= most < numbers(hidden + 1)


def test_ranks_begin_alike_and_see_different_images() -> None:
    first, second, again = (Replica(rank, 4, SEED) for rank in (0, 1, 0))
    assert np.array_equal(first.parameters, second.parameters)
    gradient = first.gradient()
    assert (gradient.dtype, gradient.shape) == (np.float32, (first.size,))
    assert np.array_equal(gradient, again.gradient())
    assert not np.array_equal(gradient, second.gradient())
    assert not np.array_equal(Replica(0, 4, SEED + 1).parameters, first.parameters)


def test_parameters_are_given_out_and_taken_over_as_copies() -> None:
    first, second = Replica(0, 2, SEED), Replica(1, 2, SEED)
    before = first.parameters
    first.apply(np.ones(first.size, np.float32))
    assert np.allclose(first.parameters, before - first.learning_rate, atol=1e-6)
    second.parameters = first.parameters
    assert np.array_equal(second.parameters, first.parameters)
    second.train_locally(1)
    assert not np.array_equal(second.parameters, first.parameters)


def test_batches_take_no_image_again_before_a_new_order() -> None:
    """Five images in batches of two: the odd one out is left out, and waits no longer."""
    replica = Replica(0, 1, SEED, batch=2, mine=[3, 14, 15, 92, 65])
    seen = [replica._next_batch().tolist() for _ in range(4)]
    assert len(set(seen[0] + seen[1])) == len(set(seen[2] + seen[3])) == 4


def test_a_replica_of_few_images_learns_from_all_of_them() -> None:
    few = Replica(0, 1, SEED, batch=32, mine=[1, 2, 3])
    assert few.images == 3
    _, expected = loss_and_gradient(few.parameters, few.hidden, split(SEED)[0].of(np.array([1, 2, 3])))
    assert few.gradient() == pytest.approx(expected, abs=1e-6)


def test_data_parallel_steps_learn_the_digits() -> None:
    replicas = [Replica(rank, 4, SEED) for rank in range(4)]
    begin = replicas[0].evaluate()
    for _ in range(60):
        mean = np.mean([each.gradient() for each in replicas], axis=0)
        for each in replicas:
            each.apply(mean)
    loss, accuracy = replicas[0].evaluate()
    assert begin[1] < 0.3
    assert accuracy > 0.88
    assert loss < begin[0] / 4
    assert all(np.array_equal(each.parameters, replicas[0].parameters) for each in replicas)


def test_training_alone_learns_them_too() -> None:
    alone = Replica(0, 1, SEED)
    alone.train_locally(3)
    assert alone.evaluate()[1] > 0.9


@pytest.mark.parametrize(("images", "batches"), [(19, [10, 9]), (20, [10, 10]), (3, [3])])
def test_an_epoch_uses_every_image_once(images: int, batches: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []

    def noted(parameters: np.ndarray, hidden: int, taken: Images) -> tuple[float, np.ndarray]:
        seen.append(taken.pixels)
        return loss_and_gradient(parameters, hidden, taken)

    monkeypatch.setattr(digits, "loss_and_gradient", noted)
    alone = Replica(0, 1, SEED, batch=10, mine=range(images))
    own = np.unique(split(SEED)[0].pixels[:images], axis=0)
    for epochs in (1, 2):
        seen.clear()
        alone.train_locally(epochs)
        assert [len(each) for each in seen] == batches * epochs
        found, times = np.unique(np.concatenate(seen), axis=0, return_counts=True)
        assert np.array_equal(found, own)
        assert set(times) == {epochs}


def test_a_hundredth_of_the_gradient_learns_them_with_error_feedback_only() -> None:
    """Without what it owes, topk sends the same few numbers again and again and leaves the others for good."""

    def accuracy(remembers: bool) -> float:
        replica = Replica(0, 1, SEED)
        largest = compression.make("topk", 0.001, replica.size)
        for _ in range(150):
            compressor = largest if remembers else compression.make("topk", 0.001, replica.size)
            replica.apply(compressor.decode(compressor.encode(replica.gradient())))
        return replica.evaluate()[1]

    assert accuracy(remembers=True) > accuracy(remembers=False) + 0.1
