"""What policies that search for keys share: the best, few bits, signatures, the unit.

The unit, one a core, is a sorter that was built in gates (:mod:`carsim.hardware.rtl.topk`). Scores
come from the array, one a cycle, and are merged into runs of 2, 4, ... scores, with a comparator
for each length and every key held twice; the first of the last run are the list of what is fetched.
Signatures of single keys are compared by a bank of XOR gates, :data:`BANK_TOKENS` a cycle.

Simplifications: the scan begins when all scores are there, though a sorter could follow them; the
first keys are fetched as soon as it is over; and it has at most :data:`MOST_SCORES`, which is not
checked.
"""

from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from carsim.base.units import rational, scaled
from carsim.decisions.attention.base import Array, Bools, Ints, SelectionUnit

EXACT_BITS = 32
"""So many bits stand for vectors that are kept as they are."""

SCALE_BITS = 16
"""Of the one scale that a vector of few bits carries."""

MOST_SCORES = 4096
"""Scores of a row that the sorter takes at most: 4,096 blocks of 16 tokens are 65,536 tokens."""

SCORE_BITS = 16
"""Bits of a score in the sorter."""

INDEX_BITS = 16
"""Bits of an index in the sorter."""

SORTER_COMPARATORS = 2
"""Comparators that a level of the sorter is worth in LUTs, as it also holds two keys and passes one
on: 1,650 LUTs of a synthesised one are 4.3 a bit, and a comparator takes 2 a bit."""

BANK_TOKENS = 16
"""Keys whose signatures are compared with a query's in a cycle."""

MOST_BITS = 16
"""Of a signature."""

Codes = NDArray[np.uint16]
Share = Annotated[float, Field(gt=0, le=1)]
KeyBits = Annotated[int, Field(ge=2, le=EXACT_BITS)]
Tables = Annotated[int, Field(gt=0, le=64, description="signatures of a key")]


def share_of(share: float, number: Any) -> Any:
    """ceil(share * number), the share as it is written: 0.07 of 100 is 7.

    >>> share_of(0.07, 100), share_of(0.25, np.array([0, 1, 4, 5])).tolist()
    (7, [0, 1, 1, 2])
    """
    return scaled(number, rational(share))


def best(scores: Array, k: Ints | int) -> Bools:
    """The k highest scores of the last axis; of equal ones the later, which are newer.

    Args:
        scores: [.., n].
        k: One for all, or of a shape that broadcasts to [..].

    >>> best(np.array([[3, 1, 3, 2], [1, 1, 1, 1]]), np.array([2, 3])).astype(int).tolist()
    [[1, 0, 1, 0], [0, 1, 1, 1]]
    """
    n = scores.shape[-1]
    wanted = np.broadcast_to(k, scores.shape[:-1])[..., None]
    # Rank of the least score that is chosen, in ascending order, [.., 1].
    rank = np.clip(n - wanted, 0, n - 1)
    partly_sorted = np.partition(scores, np.unique(rank), axis=-1)
    least = np.take_along_axis(partly_sorted, rank, axis=-1)
    chosen: Bools = scores >= least
    if np.count_nonzero(chosen) == wanted.sum():
        return chosen
    # Scores are equal to the least one that is chosen, or k is 0 or above n.
    is_above = scores > least
    is_equal = scores == least
    number_from_end = is_equal[..., ::-1].cumsum(axis=-1)[..., ::-1]
    wanted_of_equal = wanted - is_above.sum(axis=-1, keepdims=True)
    return is_above | (is_equal & (number_from_end <= wanted_of_equal))


def few_bits(vectors: Array, bits: int) -> Array:
    """Vectors as they come back from so many bits an element: symmetric, a scale for each vector.

    Args:
        vectors: [.., hd].
        bits: 2 or more; :data:`EXACT_BITS` changes nothing.
    """
    if bits == EXACT_BITS:
        return vectors
    largest_code = 2 ** (bits - 1) - 1
    scale = np.abs(vectors).max(axis=-1, keepdims=True) / largest_code  # [.., 1]
    scale = np.where(scale > 0, scale, 1).astype(vectors.dtype)
    codes = np.clip(np.rint(vectors / scale), -largest_code, largest_code)
    return codes * scale


def vector_bytes(head_dim: int, bits: int) -> int:
    """Bytes of a vector of few bits and its scale, rounded up; exact ones have no scale."""
    scale_bits = 0 if bits == EXACT_BITS else SCALE_BITS
    return -(-(head_dim * bits + scale_bits) // 8)


@lru_cache(maxsize=16)
def hyperplanes(tables: int, bits: int, head_dim: int, seed: int) -> NDArray[np.float64]:
    """Normals of random hyperplanes, [tables, bits, hd]: those of fewer tables are the first."""
    drawn = np.random.default_rng(seed).standard_normal((tables, bits, head_dim))
    drawn.flags.writeable = False
    return drawn


def signatures(vectors: Array, planes: NDArray[np.float64]) -> Codes:
    """Codes of vectors [.., hd], uint16[.., tables]: a bit for the side of each plane they lie on.

    Two vectors share a bit with a chance of 1 - angle / pi (Charikar, STOC 2002), and a code of b
    bits with its b-th power. Vectors are summed up channel by channel, so that equal ones get equal
    codes whatever stands beside them.
    """
    sides = np.einsum("...d,tbd->...tb", vectors, planes.astype(vectors.dtype)) > 0
    value_of_bit = 2.0 ** np.arange(planes.shape[1])
    return (sides @ value_of_bit).astype(np.uint16)


def hash_macs(n_heads: int, n_kv_heads: int, head_dim: int, planes: int) -> int:
    """Products with which the queries and keys of one token get their codes."""
    return (n_heads + n_kv_heads) * head_dim * planes


def grouped(q: Array, n_kv_heads: int) -> Array:
    """Queries by the key head that serves them, [B, H, hd] -> [B, KV, g, hd]."""
    return q.reshape(len(q), n_kv_heads, -1, q.shape[-1])


def sorter() -> SelectionUnit:
    """The top-k of one core."""
    word_bits = SCORE_BITS + INDEX_BITS
    levels = (MOST_SCORES - 1).bit_length()
    return SelectionUnit(
        comparator_bits=SORTER_COMPARATORS * levels * word_bits,
        buffer_bytes=2 * MOST_SCORES * word_bits // 8,  # every key is held twice
        word_bits=word_bits,
    )


def bank(signature_bits: int) -> SelectionUnit:
    """Gates that compare signatures, and the list of what they find."""
    word_bits = SCORE_BITS + INDEX_BITS
    return SelectionUnit(
        comparator_bits=BANK_TOKENS * signature_bits,
        buffer_bytes=MOST_SCORES * word_bits // 8,
        word_bits=word_bits,
    )


def most_runs(pieces: Ints, gaps: Ints) -> Ints:
    """Most runs that so many pieces can form, as every two runs have an unread piece between."""
    return np.minimum(pieces, gaps + 1)
