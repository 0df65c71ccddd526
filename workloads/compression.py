"""What is sent of a gradient or an update, and what the others make of it (pure NumPy).

| name | a number costs | what is lost |
|---|---|---|
| none | 4 bytes | nothing |
| topk | 8 bytes (index, value) of those that are sent | the smaller ones, until later (error feedback) |
| int8 | 1 byte, and 4 for each 1,024 numbers | precision: up to the chunk's largest magnitude / 127; unbiased |
| sign | 1 bit, and 4 bytes for all | all but signs and the mean magnitude, until later (error feedback) |

Error feedback: what was not sent is kept and added to what is sent next time, so that what compression leaves out is
late, not lost, as long as payloads are counted. One that its receiver drops, as an aggregator does with an update
beyond its quorum, is lost with all that it carried of earlier ones: a sender keeps only what it has not sent, and does
not know that it was late.

topk: Stich, Cordonnier, Jaggi, NeurIPS 2018; Deep Gradient Compression (Lin et al., ICLR 2018), here without its
momentum correction, clipping and warm-up. int8: QSGD (Alistarh et al., NeurIPS 2017) with the maximum norm of each
chunk and 127 levels, rounded up with the probability that makes the mean right; one byte a number, where QSGD has an
entropy code after it. sign: signSGD with the mean magnitude as its scale and error feedback (Karimireddy et al., ICML
2019).

A payload has one length for all arrays of a size: messages can be received before they are known. Numbers are written
in the machine's byte order. Arrays are one-dimensional float32 and finite.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np

CHUNK = 1024  # numbers with one scale (int8)
LEVELS = 127  # magnitudes above zero that an int8 tells apart, the same for both signs
_NUMBER_BYTES = 4  # float32, and topk's indices


class Compressor(ABC):
    """Between arrays of `size` numbers and payloads of `payload_bytes`. One belongs to one sender and one array of it:
    what is kept back of one goes with the next."""

    def __init__(self, size: int, payload_bytes: int) -> None:
        self.size, self.payload_bytes = size, payload_bytes

    @abstractmethod
    def encode(self, array: np.ndarray) -> np.ndarray:
        """The payload (uint8) that stands for the array."""

    @abstractmethod
    def decode(self, payload: np.ndarray) -> np.ndarray:
        """The array (float32) that a payload stands for; of any sender's, with nothing remembered."""

    def decode_sum(self, payloads: Iterable[np.ndarray]) -> np.ndarray:
        """The sum of the arrays that payloads stand for, added in their order; equal payloads give equal bits."""
        total = np.zeros(self.size, np.float32)
        for payload in payloads:
            total += self.decode(payload)
        return total


class _Whole(Compressor):
    """All numbers as they are."""

    def __init__(self, size: int) -> None:
        super().__init__(size, _NUMBER_BYTES * size)

    def encode(self, array: np.ndarray) -> np.ndarray:
        return np.asarray(array, np.float32).copy().view(np.uint8)

    def decode(self, payload: np.ndarray) -> np.ndarray:
        return payload.view(np.float32).copy()


class _Rounded(Compressor):
    """int8: whole multiples of each chunk's scale, seeded random rounding, right in the mean."""

    def __init__(self, size: int, seed: int) -> None:
        self._chunks = -(-size // CHUNK)
        self._dice = np.random.default_rng(seed)
        super().__init__(size, _NUMBER_BYTES * self._chunks + size)

    def encode(self, array: np.ndarray) -> np.ndarray:
        padded = np.zeros((self._chunks, CHUNK), np.float32)
        padded.ravel()[: self.size] = array
        scales = np.abs(padded).max(axis=1) / np.float32(LEVELS)
        steps = np.divide(padded, scales[:, None], out=np.zeros_like(padded), where=scales[:, None] > 0)
        rounded = np.floor(steps + self._dice.random(steps.shape, np.float32))
        # float32 can round 127 and a random number just below 1 up to 128
        numbers = np.clip(rounded, -LEVELS, LEVELS).astype(np.int8)
        return np.concatenate([scales.view(np.uint8), numbers.ravel()[: self.size].view(np.uint8)])

    def decode(self, payload: np.ndarray) -> np.ndarray:
        scales = payload[: _NUMBER_BYTES * self._chunks].copy().view(np.float32)
        numbers = payload[_NUMBER_BYTES * self._chunks :].view(np.int8)
        return numbers * np.repeat(scales, CHUNK)[: self.size]


class Remembering(Compressor):
    """With error feedback: `residual` is what was not sent so far."""

    def __init__(self, size: int, payload_bytes: int) -> None:
        super().__init__(size, payload_bytes)
        self.residual = np.zeros(size, np.float32)

    def encode(self, array: np.ndarray) -> np.ndarray:
        """The payload that stands for the array and what is owed; what it does not say is owed from now on."""
        wanted = self.residual + array
        payload = self._pack(wanted)
        self.residual = wanted - self.decode(payload)
        return payload

    @abstractmethod
    def _pack(self, wanted: np.ndarray) -> np.ndarray:
        """The payload, whatever it leaves out."""


class _Largest(Remembering):
    """topk: the numbers of the largest magnitude, each with its index (uint32, ascending; all before the values)."""

    def __init__(self, size: int, kept: float) -> None:
        self.count = min(max(1, math.floor(kept * size + 0.5)), size)
        super().__init__(size, 2 * _NUMBER_BYTES * self.count)

    def _pack(self, wanted: np.ndarray) -> np.ndarray:
        first = self.size - self.count
        largest = np.sort(np.argpartition(np.abs(wanted), first)[first:]) if first else np.arange(self.size)
        return np.concatenate([largest.astype(np.uint32).view(np.uint8), wanted[largest].view(np.uint8)])

    def _unpack(self, payload: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Indices, and their values."""
        words = payload.reshape(2, _NUMBER_BYTES * self.count)
        return words[0].copy().view(np.uint32), words[1].copy().view(np.float32)

    def decode(self, payload: np.ndarray) -> np.ndarray:
        array = np.zeros(self.size, np.float32)
        indices, values = self._unpack(payload)
        array[indices] = values
        return array

    def decode_sum(self, payloads: Iterable[np.ndarray]) -> np.ndarray:
        """As everywhere, but only what was sent is touched."""
        total = np.zeros(self.size, np.float32)
        for payload in payloads:
            indices, values = self._unpack(payload)
            total[indices] += values
        return total


class _Signs(Remembering):
    """sign: the mean magnitude (float32), then a bit a number: whether it is zero or above."""

    def __init__(self, size: int) -> None:
        super().__init__(size, _NUMBER_BYTES + -(-size // 8))

    def _pack(self, wanted: np.ndarray) -> np.ndarray:
        magnitude = np.abs(wanted).mean(dtype=np.float32, keepdims=True)
        return np.concatenate([magnitude.view(np.uint8), np.packbits(wanted >= 0)])

    def decode(self, payload: np.ndarray) -> np.ndarray:
        magnitude = payload[:_NUMBER_BYTES].copy().view(np.float32)
        are_positive = np.unpackbits(payload[_NUMBER_BYTES:], count=self.size).astype(bool)
        return np.where(are_positive, magnitude, -magnitude)


def make(name: str, kept: float, size: int, seed: int = 0) -> Compressor:
    """A compressor by the value of the key `compression`, for arrays of `size` numbers (one at least).

    kept: the part of the numbers that topk sends, one at least. seed: of int8's rounding; senders with seeds of their
    own err independently, so that errors average out in a sum.
    """
    if name == "topk":
        return _Largest(size, kept)
    if name == "int8":
        return _Rounded(size, seed)
    return {"none": _Whole, "sign": _Signs}[name](size)
