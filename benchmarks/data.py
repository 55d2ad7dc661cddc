"""Real data without downloads: scikit-learn's digits, and the text of Python's own manual."""

import pydoc_data.topics
from collections import Counter

import numpy as np
from numpy.typing import NDArray

try:
    from sklearn.datasets import load_digits
except ImportError:  # the timings do not depend on the data
    load_digits = None

Batch = tuple[NDArray[np.float32], NDArray[np.int64]]


def text_ids(vocab: int = 65) -> NDArray[np.int64]:
    """The manual as character ids: the vocab - 1 most common characters, and 0 for the others."""
    text = "".join(pydoc_data.topics.topics.values())
    common = [character for character, _ in Counter(text).most_common(vocab - 1)]
    table = {character: number + 1 for number, character in enumerate(common)}
    return np.array([table.get(character, 0) for character in text], dtype=np.int64)


def text_batch(batch: int, time: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(inputs, targets), each of shape (batch, time): the targets are one character ahead."""
    ids = text_ids()
    starts = np.random.default_rng(0).integers(0, len(ids) - time - 1, batch)
    return (
        np.stack([ids[s : s + time] for s in starts]),
        np.stack([ids[s + 1 : s + time + 1] for s in starts]),
    )


def digits_batch(batch: int) -> Batch:
    """Standardised 8x8 digits as rows of 64, with labels; random numbers without scikit-learn."""
    if load_digits is None:
        rng = np.random.default_rng(0)
        return rng.standard_normal((batch, 64), dtype=np.float32), rng.integers(0, 10, batch)
    digits = load_digits()
    x = digits.data.astype(np.float32)
    x = (x - x.mean(0)) / (x.std(0) + 1e-6)
    return x[:batch].astype(np.float32), digits.target[:batch].astype(np.int64)


def image_batch(batch: int) -> Batch:
    """Digits enlarged to (batch, 3, 32, 32)."""
    x, y = digits_batch(batch)
    enlarged = np.kron(x.reshape(batch, 1, 8, 8), np.ones((1, 1, 4, 4), np.float32))
    return np.repeat(enlarged, 3, axis=1).astype(np.float32), y


def sequence_batch(batch: int, time: int, width: int) -> Batch:
    """Random sequences (batch, time, width) with labels."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, time, width), dtype=np.float32)
    return x, rng.integers(0, 10, batch)
