"""Bit masks in bulk: many words expanded into the positions of their bits, without a Python loop."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["count_bits", "expand_bits", "span_mask"]


def count_bits(words: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.int64]:
    """How many bits each word has."""
    counts: NDArray[np.int64] = np.bitwise_count(words).astype(np.int64)
    return counts


def expand_bits(words: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.int64]:
    """The positions of all bits of all words, word after word, ascending within each."""
    octets = np.ascontiguousarray(words, words.dtype.newbyteorder("<")).view(np.uint8)
    bits = np.unpackbits(octets, bitorder="little").view(
        np.bool_
    )  # as truth values they are searched ten times as fast
    return np.flatnonzero(bits) & (8 * words.dtype.itemsize - 1)


def span_mask(low: int, high: int) -> int:
    """The word whose bits `[low, high)` are set."""
    return (1 << max(high, 0)) - 1 & ~((1 << max(low, 0)) - 1)
