"""A small real network that learns scikit-learn's digits (1,797 images of 8 x 8 pixels, which the package ships), so
that what compression, stragglers and late updates do to a model is seen on a real one.

    64 pixels -> `hidden` rectified units -> 10 classes, softmax and cross-entropy; plain gradient descent

scikit-learn's own networks keep their gradients to themselves, and these have to travel. A fifth of the images, drawn
by the seed, is held out for tests; the rest is dealt to the ranks. Computing takes no virtual time. scikit-learn is
imported where it is used: that takes about a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

PIXELS, CLASSES = 64, 10
HIDDEN, BATCH, LEARNING_RATE = 64, 32, 0.2
MOST_HIDDEN = 4096  # about 300,000 numbers: a wider network needs a smaller learning rate, and learns no better
_TEST_PART = 5  # one image in so many is held out
_BRIGHTEST = 16.0  # of a pixel of the data set


@dataclass(frozen=True, eq=False)
class Images:
    """Pixels (count x 64, float32, 0 to 1) and what each shows (0 to 9)."""

    pixels: np.ndarray
    labels: np.ndarray

    def of(self, chosen: np.ndarray) -> Images:
        """Those of them, by index."""
        return Images(self.pixels[chosen], self.labels[chosen])


@lru_cache(maxsize=1)
def _all_images() -> Images:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return Images((pixels / _BRIGHTEST).astype(np.float32), labels)


@lru_cache(maxsize=4)
def split(seed: int) -> tuple[Images, Images]:
    """The images to learn from, and those held out; equal seeds give equal ones."""
    images = _all_images()
    order = np.random.default_rng([seed, 0]).permutation(len(images.labels))
    held_out = len(order) // _TEST_PART
    return images.of(order[held_out:]), images.of(order[:held_out])


def shards(ranks: int, seed: int, alpha: float | None = None) -> list[np.ndarray]:
    """For each rank the indices of the training images that it alone has, at least one each.

    alpha None: dealt at random, sizes differing by one at most. Else each class is divided by proportions from a
    Dirichlet distribution of that concentration (Hsu, Qi, Brown 2019): the smaller, the more a rank sees of few classes
    only; a rank left empty gets an image from the fullest. Raises ValueError for more ranks than images.
    """
    labels = split(seed)[0].labels
    if not 1 <= ranks <= len(labels):
        raise ValueError(f"{ranks} ranks; allowed: 1 to {len(labels)}, one image each")
    dice = np.random.default_rng([seed, 1])
    if alpha is None:
        return [np.sort(part) for part in np.array_split(dice.permutation(len(labels)), ranks)]
    return _by_class(labels, ranks, alpha, dice)


def _by_class(labels: np.ndarray, ranks: int, alpha: float, dice: np.random.Generator) -> list[np.ndarray]:
    dealt: list[list[int]] = [[] for _ in range(ranks)]
    for digit in range(CLASSES):
        members = dice.permutation(np.flatnonzero(labels == digit))
        cuts = np.cumsum(dice.dirichlet(np.full(ranks, alpha)))[:-1] * len(members)
        for mine, part in zip(dealt, np.split(members, cuts.round().astype(int))):
            mine.extend(part.tolist())
    for mine in dealt:
        if not mine:
            mine.append(max(dealt, key=len).pop())
    return [np.array(sorted(mine)) for mine in dealt]


def numbers(hidden: int) -> int:
    """How many parameters a network with so many hidden units has."""
    return hidden * (PIXELS + 1) + CLASSES * (hidden + 1)


def widest(most_numbers: int) -> int:
    """Hidden units of the widest network of at most so many parameters, MOST_HIDDEN at most; zero when none fits."""
    return max(0, min((most_numbers - CLASSES) // (PIXELS + 1 + CLASSES), MOST_HIDDEN))


def _layers(parameters: np.ndarray, hidden: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Views of the vector: weights and biases of the first layer, then of the second."""
    ends = np.cumsum([PIXELS * hidden, hidden, hidden * CLASSES])
    first, first_bias, second, second_bias = np.split(parameters, ends)
    return first.reshape(PIXELS, hidden), first_bias, second.reshape(hidden, CLASSES), second_bias


def _begin(hidden: int, seed: int) -> np.ndarray:
    """Parameters to begin with: weights as He et al. 2015 have them, biases zero."""
    dice = np.random.default_rng([seed, 2])
    parameters = np.zeros(numbers(hidden), np.float32)
    first, _, second, _ = _layers(parameters, hidden)
    first[:] = dice.normal(0, np.sqrt(2 / PIXELS), first.shape)
    second[:] = dice.normal(0, np.sqrt(2 / hidden), second.shape)
    return parameters


def _log_odds(parameters: np.ndarray, hidden: int, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the hidden units say of each image, and the logarithm of each class's probability."""
    first, first_bias, second, second_bias = _layers(parameters, hidden)
    seen = np.maximum(pixels @ first + first_bias, 0)
    scores = seen @ second + second_bias
    scores -= scores.max(axis=1, keepdims=True)
    return seen, scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def loss_and_gradient(parameters: np.ndarray, hidden: int, images: Images) -> tuple[float, np.ndarray]:
    """Mean cross-entropy over the images, and its gradient, in the type of the parameters."""
    seen, log_odds = _log_odds(parameters, hidden, images.pixels)
    rows, count = np.arange(len(images.labels)), len(images.labels)
    wrong = np.exp(log_odds)
    wrong[rows, images.labels] -= 1
    wrong /= count
    back = (wrong @ _layers(parameters, hidden)[2].T) * (seen > 0)
    parts = (images.pixels.T @ back, back.sum(axis=0), seen.T @ wrong, wrong.sum(axis=0))
    loss = -float(log_odds[rows, images.labels].mean())
    return loss, np.concatenate([part.ravel() for part in parts])


class Replica:
    """A rank's copy of the network, and its share of the images.

    Equal seeds begin with equal parameters on all ranks; which images a rank takes when follows from seed and rank.
    mine: indices of its images (None: an equal random share, see `shards`). Raises ValueError for more ranks than
    images.
    """

    def __init__(
        self,
        rank: int,
        ranks: int,
        seed: int,
        batch: int = BATCH,
        hidden: int = HIDDEN,
        learning_rate: float = LEARNING_RATE,
        mine: Sequence[int] | np.ndarray | None = None,
    ) -> None:
        self.hidden, self.batch, self.learning_rate = hidden, batch, learning_rate
        learned, self._held_out = split(seed)
        self._images = learned.of(np.asarray(shards(ranks, seed)[rank] if mine is None else mine))
        self._parameters = _begin(hidden, seed)
        self._dice = np.random.default_rng([seed, 3, rank])
        self._waiting = np.empty(0, np.intp)

    @property
    def size(self) -> int:
        """How many numbers the parameters, and so a gradient, are."""
        return len(self._parameters)

    @property
    def images(self) -> int:
        """How many images are its own to learn from: its weight in an average."""
        return len(self._images.labels)

    @property
    def parameters(self) -> np.ndarray:
        """All weights and biases, a float32 vector of its own; set it to take over another's."""
        return self._parameters.copy()

    @parameters.setter
    def parameters(self, values: np.ndarray) -> None:
        self._parameters[:] = values

    def gradient(self) -> np.ndarray:
        """The gradient (float32) of the next batch of its own images, in a new order once fewer than a batch are left:
        those are left out that time, and each has the same chance of it."""
        return self._gradient_of(self._next_batch())

    def _gradient_of(self, batch: np.ndarray) -> np.ndarray:
        return loss_and_gradient(self._parameters, self.hidden, self._images.of(batch))[1]

    def _next_batch(self) -> np.ndarray:
        wanted = min(self.batch, self.images)
        if len(self._waiting) < wanted:
            self._waiting = self._dice.permutation(self.images)
        batch, self._waiting = self._waiting[:wanted], self._waiting[wanted:]
        return batch

    def apply(self, mean_gradient: np.ndarray) -> None:
        """One step of gradient descent along a gradient, its own or the mean of all ranks'."""
        self._parameters -= np.float32(self.learning_rate) * mean_gradient

    def train_locally(self, epochs: int) -> None:
        """So many times over all of its own images, each time in a new order, batch by batch, alone; the last batch is
        shorter where they do not come out even (federated averaging's client, McMahan et al. 2017, algorithm 1)."""
        for _ in range(epochs):
            order = self._dice.permutation(self.images)
            for first in range(0, self.images, self.batch):
                self.apply(self._gradient_of(order[first : first + self.batch]))

    def evaluate(self) -> tuple[float, float]:
        """Mean cross-entropy on the images held out, and the part of them that it tells right."""
        labels = self._held_out.labels
        log_odds = _log_odds(self._parameters, self.hidden, self._held_out.pixels)[1]
        loss = -float(log_odds[np.arange(len(labels)), labels].mean())
        return loss, float((log_odds.argmax(axis=1) == labels).mean())
