"""What a payload says of an array, what is kept back of it, and how long it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.compression import CHUNK, LEVELS, Compressor, Remembering, make

NAMES = ("none", "topk", "int8", "sign")
MOST = 1e6
NUMBERS = st.floats(-MOST, MOST, width=32)
KEPT = st.floats(1e-6, 1)
LEAST_STEP = 2.0**-20  # relative, of float32 with room for a few roundings


def arrays(counts: st.SearchStrategy[int]) -> st.SearchStrategy[np.ndarray]:
    lists = counts.flatmap(lambda count: st.lists(NUMBERS, min_size=count, max_size=count))
    return lists.map(lambda numbers: np.array(numbers, np.float32))


SMALL = arrays(st.integers(1, 60))
SERIES = st.integers(1, 40).flatmap(lambda count: st.lists(arrays(st.just(count)), min_size=1, max_size=5))


def remembering(name: str, kept: float, size: int) -> Remembering:
    compressor = make(name, kept, size)
    assert isinstance(compressor, Remembering)
    return compressor


@given(st.sampled_from(NAMES), KEPT, SERIES)
def test_payloads_of_a_size_have_one_length_which_is_told_before(
    name: str, kept: float, series: Sequence[np.ndarray]
) -> None:
    compressor = make(name, kept, len(series[0]))
    for array in series:
        payload, before = compressor.encode(array), array.copy()
        assert (payload.dtype, payload.shape) == (np.uint8, (compressor.payload_bytes,))
        decoded = compressor.decode(payload)
        assert (decoded.dtype, decoded.shape) == (np.float32, array.shape)
        assert np.array_equal(array, before)


@pytest.mark.parametrize(
    ("name", "kept", "size", "payload_bytes"),
    [
        ("none", 1, 4096, 16384),
        ("topk", 0.01, 10_000, 100 * 8),
        ("topk", 0.001, 10, 8),  # one at least
        ("topk", 1, 5, 40),
        ("int8", 1, 1024, 1028),
        ("int8", 1, 1025, 1033),
        ("sign", 1, 4096, 4 + 512),
        ("sign", 1, 9, 4 + 2),
    ],
)
def test_known_lengths(name: str, kept: float, size: int, payload_bytes: int) -> None:
    assert make(name, kept, size).payload_bytes == payload_bytes


@given(SMALL)
def test_none_loses_nothing(array: np.ndarray) -> None:
    whole = make("none", 1, len(array))
    assert whole.decode(whole.encode(array)).tobytes() == array.tobytes()


@given(KEPT, SERIES)
def test_topk_owes_exactly_what_it_did_not_send(kept: float, series: Sequence[np.ndarray]) -> None:
    largest = remembering("topk", kept, len(series[0]))
    for array in series:
        wanted = largest.residual + array
        sent = largest.decode(largest.encode(array))
        assert np.array_equal(sent + largest.residual, wanted)
        assert not np.any((sent != 0) & (largest.residual != 0))
        assert np.abs(largest.residual).max() <= np.abs(sent[sent != 0]).min(initial=np.inf)


@given(SERIES)
def test_sign_owes_what_it_did_not_send_up_to_rounding(series: Sequence[np.ndarray]) -> None:
    signs = remembering("sign", 1, len(series[0]))
    for array in series:
        wanted = signs.residual + array
        sent = signs.decode(signs.encode(array))
        assert np.abs(sent + signs.residual - wanted).max() <= LEAST_STEP * np.abs(wanted).max()
        assert np.array_equal(sent >= 0, (wanted >= 0) | (sent == 0))
        assert np.ptp(np.abs(sent)) == 0
        assert np.abs(sent[0]) == pytest.approx(np.abs(wanted).mean(dtype=float), rel=1e-4, abs=1e-30)


@given(st.sampled_from(["topk", "sign"]), KEPT, SERIES)
def test_all_that_was_sent_and_what_is_owed_is_all_that_was_given(
    name: str, kept: float, series: Sequence[np.ndarray]
) -> None:
    compressor = remembering(name, kept, len(series[0]))
    sent = sum(compressor.decode(compressor.encode(array)).astype(float) for array in series)
    given_ = sum(array.astype(float) for array in series)
    assert np.abs(sent + compressor.residual - given_).max() <= len(series) * LEAST_STEP * len(series) * MOST


def test_topk_sends_every_number_in_the_end() -> None:
    """One of four at a time: what was small once grows until it is the largest."""
    largest, array = remembering("topk", 0.25, 4), np.array([4, 3, 2, 1], np.float32)
    payloads = [largest.encode(array) for _ in range(40)]
    assert set(np.nonzero(largest.decode_sum(payloads))[0]) == {0, 1, 2, 3}
    assert list(np.nonzero(largest.decode(payloads[0]))[0]) == [0]
    assert list(np.nonzero(largest.decode(payloads[1]))[0]) == [1]


@given(st.integers(1, 3 * CHUNK), st.integers(0, 99), st.floats(1e-30, 1e30))
def test_int8_errs_by_less_than_a_step_of_its_chunk(size: int, seed: int, unit: float) -> None:
    array = (np.random.default_rng(seed).normal(size=size) * unit).astype(np.float32)
    rounded = make("int8", 1, size, seed)
    errors = np.abs(rounded.decode(rounded.encode(array)) - array)
    for first in range(0, size, CHUNK):
        step = np.abs(array[first : first + CHUNK]).max() / LEVELS
        assert errors[first : first + CHUNK].max() <= step * (1 + 1e-4)


def test_int8_is_right_in_the_mean() -> None:
    """0.3 of a step is rounded up in three cases of ten: over 4,000 draws the mean is within five standard errors."""
    array = np.array([LEVELS, 0.3, -0.3, 12.7], np.float32)
    rounded, draws = make("int8", 1, 4, seed=7), 4000
    mean = sum(rounded.decode(rounded.encode(array)).astype(float) for _ in range(draws)) / draws
    assert np.abs(mean - array).max() < 5 * 0.5 / draws**0.5


def test_int8_rounds_by_its_seed() -> None:
    array = np.random.default_rng(1).normal(size=500).astype(np.float32)
    first, same, other = (make("int8", 1, 500, seed).encode(array) for seed in (3, 3, 4))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("name", NAMES)
def test_zeros_stay_zeros(name: str) -> None:
    compressor = make(name, 0.5, 7)
    assert not compressor.decode(compressor.encode(np.zeros(7, np.float32))).any()


def _all_of(name: str, kept: float, given_: Sequence[np.ndarray]) -> tuple[Compressor, list[np.ndarray]]:
    payloads = [make(name, kept, len(array), seed).encode(array) for seed, array in enumerate(given_)]
    return make(name, kept, len(given_[0])), payloads


@given(st.sampled_from(NAMES), KEPT, SERIES)
def test_a_sum_is_that_of_the_decoded(name: str, kept: float, given_: Sequence[np.ndarray]) -> None:
    """Bit for bit, and whoever adds it up: no compressor's memory takes part."""
    reader, payloads = _all_of(name, kept, given_)
    by_hand = np.zeros(len(given_[0]), np.float32)
    for payload in payloads:
        by_hand = by_hand + reader.decode(payload)
    assert np.array_equal(reader.decode_sum(payloads), by_hand)
