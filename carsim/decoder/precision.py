"""Rounding to few bits while decoding, with the polishing and compensation of QuartDepth.

Model (arXiv 2503.16709, adapted; fake quantisation): numbers are rounded to the values of integer
codes, and products are taken of those values in the decoder's own arithmetic. Rounded are

* weights, once, per output channel or in groups of its inputs;
* inputs of the four products with weights, on a grid that calibration has fixed for each channel
  (static, as QuartDepth's: hardware scales by a table, a row depends on no other row, and no range
  has to be searched first). What lies outside of the calibrated range goes to its end;
* keys and values when they are cached, per token, head and group of elements, keys after the rotary
  embedding. Later steps read the codes, which are never rounded again;
* MLP outputs when they are held, one grid per output. The row that computes adds its fresh output;
  a row that replays adds the stored code, which stays as it is however often it is replayed.

*Polishing* rounds on a logarithmic scale: Phi(x) = sign(x) (log2(|x| + w) - log2 w) before, its
inverse after, with w of each channel the 95th percentile of its |x|. Outliers, which would stretch
an even grid, lie close together there. They are found in the inputs of the down projection, where
two activations are multiplied, so polish those first.

*Compensation* changes weights W (out x in) by dW = W (x - x') x'^T (x' x'^T + lambda I)^-1, where x
are calibrated inputs, one a column, and x' the same rounded: the damped least-squares solution of
(W + dW) x' = W x. (Notes on the paper print a minus, under which the error would grow.) lambda is
0.01 of the mean of the diagonal, as in the released code. Weights are rounded afterwards.

*Reconstruction* chooses for each weight whether it is rounded up or down
(:mod:`carsim.decoder.reconstruction`). Without it, weights go to the nearest value.

Simplifications: queries, attention weights, norms, embeddings and the token head are not rounded;
inputs of later layers are calibrated on exact earlier ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from carsim.decisions.attention.base import Array
from carsim.decisions.trace.precision import DecoderPrecision, Grouped, Product

PERCENTILE = 95
"""Of |x| of a channel, for w; arXiv 2503.16709."""

DAMPING = 0.01
"""lambda as a share of the mean diagonal; released code of arXiv 2503.16709."""


class CodeGrid(NamedTuple):
    """The values ``(code - zero) * step`` of the codes 0 to ``most``; arrays that broadcast.

    Attributes:
        step: Distance of two values, positive.
        zero: Code of 0: a whole number, which need not be one of the codes.
        most: Largest code.
    """

    step: Array
    zero: Array
    most: int

    @staticmethod
    def over(low: Array, high: Array, bits: int) -> "CodeGrid":
        """The grid over a range; a range without extent is met exactly.

        >>> CodeGrid.over(np.array(-1.0), np.array(2.0), bits=2).round(np.array([-9.0, 0.4, 0.6]))
        array([-1.,  0.,  1.])
        """
        most = (1 << bits) - 1
        least = np.maximum(np.abs(low), np.abs(high)) * np.finfo(low.dtype).eps
        step = np.maximum((high - low) / most, least)
        step = np.where(step > 0, step, 1).astype(low.dtype)
        return CodeGrid(step, np.rint(-low / step), most)

    def round(self, x: Array) -> Array:
        """The nearest values."""
        codes: Array = np.rint(x / self.step)
        codes += self.zero
        np.clip(codes, 0, self.most, out=codes)
        codes -= self.zero
        codes *= self.step
        return codes

    def around(self, x: Array) -> tuple[Array, Array]:
        """The values next to numbers: one below or equal, one above; ends of the grid at its ends.

        >>> CodeGrid(np.array(0.5), np.array(2.0), 3).around(np.array([-9.0, 0.1, 0.2]))
        (array([-1.,  0.,  0.]), array([-0.5,  0.5,  0.5]))
        """
        codes = np.clip(np.floor(x / self.step) + self.zero, 0, self.most)
        above = np.minimum(codes + 1, self.most)
        return (codes - self.zero) * self.step, (above - self.zero) * self.step


def polished(x: Array, w: Array) -> Array:
    """Phi: signed logarithm of 1 + |x| / w, odd and monotone.

    >>> polished(np.array([-3.0, 0.0, 7.0]), np.array(1.0))
    array([-2.,  0.,  3.])
    """
    logs: Array = np.log1p(np.abs(x) / w)
    return np.copysign(logs / logs.dtype.type(np.log(2)), x)


def unpolished(y: Array, w: Array) -> Array:
    """The inverse of :func:`polished`."""
    return np.copysign(np.expm1(np.abs(y) * y.dtype.type(np.log(2))) * w, y)


def polishing(x: Array) -> Array:
    """Positive w of each channel, [n] of samples [samples, n]."""
    sizes = np.abs(x)
    w = np.percentile(sizes, PERCENTILE, axis=0)
    largest = sizes.max(axis=0)
    # A channel that is mostly 0 takes its largest sample, one that is always 0 may take any w.
    w = np.where(w > 0, w, largest)
    return np.where(w > 0, w, 1).astype(x.dtype)


def rounded(x: Array, grouped: Grouped) -> Array:
    """Numbers on the grids of their own ranges, along the last axis.

    Args:
        x: [.., n]; there may be no rows.
        grouped: Bits, and the neighbours that share a grid, a divisor of n; all n if it has none.

    Returns:
        [.., n]; ``x`` itself at 16 bits.
    """
    if grouped.bits == 16:
        return x
    size = grouped.group or x.shape[-1]
    groups = x.reshape(*x.shape[:-1], x.shape[-1] // size, size)
    low = groups.min(axis=-1, keepdims=True)
    high = groups.max(axis=-1, keepdims=True)
    return CodeGrid.over(low, high, grouped.bits).round(groups).reshape(x.shape)


def neighbours(x: Array, grouped: Grouped) -> tuple[Array, Array]:
    """The two values around each number, on the grids that :func:`rounded` takes.

    Args:
        x: [.., n].
        grouped: Fewer than 16 bits, and the neighbours that share a grid.

    Returns:
        Lower and upper values, [.., n].
    """
    size = grouped.group or x.shape[-1]
    groups = x.reshape(*x.shape[:-1], x.shape[-1] // size, size)
    low = groups.min(axis=-1, keepdims=True)
    high = groups.max(axis=-1, keepdims=True)
    below, above = CodeGrid.over(low, high, grouped.bits).around(groups)
    return below.reshape(x.shape), above.reshape(x.shape)


def compensation(w: Array, x: Array, x_rounded: Array) -> Array:
    """Change of weights that makes up for rounded inputs, float64.

    Args:
        w: Weights for ``x @ w``, [n, out].
        x: Inputs, [samples, n].
        x_rounded: Rounded inputs, [samples, n].

    Returns:
        [n, out]: the d that minimises |x w - x' (w + d)|^2 + lambda |d|^2.
    """
    x = x.astype(np.float64)
    x_rounded = x_rounded.astype(np.float64)
    gram = x_rounded.T @ x_rounded  # [n, n]
    damping = DAMPING * np.trace(gram) / len(gram)
    if damping == 0:  # all samples are rounded to 0
        return np.zeros(w.shape)
    lost_outputs = (x - x_rounded) @ w  # [samples, out]
    return np.linalg.solve(gram + damping * np.eye(len(gram)), x_rounded.T @ lost_outputs)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rounding of the inputs of one product in one layer, fixed for each channel.

    Attributes:
        grid: Arrays [n].
        w: Polishing, [n]; None without.
    """

    grid: CodeGrid
    w: Array | None = None

    @staticmethod
    def of(samples: Array, bits: int, *, polish: bool) -> "Inputs":
        """The rounding that samples [samples, n] call for."""
        low = samples.min(axis=0)
        high = samples.max(axis=0)
        if not polish:
            return Inputs(CodeGrid.over(low, high, bits))
        w = polishing(samples)
        # Polishing is monotone: the ends of the range stay the ends.
        grid = CodeGrid.over(polished(low, w), polished(high, w), bits)
        return Inputs(grid, w)

    def round(self, x: Array) -> Array:
        """Inputs [.., n], rounded."""
        if self.w is None:
            return self.grid.round(x)
        return unpolished(self.grid.round(polished(x, self.w)), self.w)


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """What a decoder does to numbers on their way; as it is, nothing.

    Attributes:
        inputs: Rounding of inputs by layer, of the products that have one.
        kv: DecoderPrecision of the cache of keys and values.
        replay: Bits of cached outputs.
    """

    inputs: Mapping[Product, Sequence[Inputs]] = field(default_factory=dict)
    kv: Grouped = DecoderPrecision().kv
    replay: int = DecoderPrecision().replay

    def entering(self, product: Product, layer: int, x: Array) -> Array:
        """Inputs [.., n] as they enter the product."""
        return self.inputs[product][layer].round(x) if product in self.inputs else x

    def cached(self, x: Array) -> Array:
        """New keys or values [.., hd] as the cache keeps them."""
        return rounded(x, self.kv)

    def held(self, x: Array) -> Array:
        """Fresh MLP outputs [.., d] as they are held for replay."""
        return x if self.replay == 16 else rounded(x, Grouped(bits=self.replay))  # type: ignore[arg-type]


EXACT = Arithmetic()
"""Nothing is rounded."""
