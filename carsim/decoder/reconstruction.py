"""Reconstruction of rounded weights: each is rounded up or down so that outputs change least.

Model (QuartDepth, arXiv 2503.16709, after AdaRound, Nagel et al., arXiv 2004.10568): a weight goes
to one of the two values of its grid around it. To second order, changes D of the weights of a
product cost tr(D^T A D G). A are the second moments of its inputs, G those of the gradients of its
outputs; their Kronecker product stands for the Fisher matrix of the weights.

Here the choice is found by coordinate descent from the nearest values: weight after weight takes
the cheaper of its two values, given all others, until none changes. Each change lowers the cost.

Simplifications: G is the identity, as the reference decoder takes no gradients. Then each output of
a product stands for itself, and the cost is the squared error of the output. QuartDepth trains the
choice in 20,000 iterations of gradient descent. Inputs of later layers are those of exact earlier
ones. The diagonal of A is damped as in compensation.
"""

import numpy as np

from carsim.decisions.attention.base import Array
from carsim.decisions.trace.precision import Grouped
from carsim.decoder.precision import DAMPING, neighbours, rounded

MOST_SWEEPS = 30
"""Passes over all weights of a product at most."""

LEAST_GAIN = 1e-12
"""Share of its own cost that a weight must save to change, so that rounding errors end."""


def input_moments(x: Array) -> Array:
    """Second moments A of inputs [samples, n], damped: float64[n, n]."""
    x = x.astype(np.float64)
    moments: Array = x.T @ x / len(x)
    damping = DAMPING * np.trace(moments) / len(moments)
    return moments + damping * np.eye(len(moments))


def rounding_cost(change: Array, moments: Array) -> Array:
    """Cost of changed weights [n, out] for each output, [out].

    >>> float(rounding_cost(np.array([[1.0], [-1.0]]), np.array([[2.0, 1.0], [1.0, 2.0]]))[0])
    2.0
    """
    cost: Array = np.einsum("no,no->o", change, moments @ change)
    return cost


def reconstructed(w: Array, x: Array, grouped: Grouped) -> Array:
    """Weights on their grids, rounded so that outputs change least.

    Args:
        w: Weights for ``x @ w``, [n, out].
        x: Inputs as they enter the product, [samples, n].
        grouped: Bits of the weights, along their inputs.

    Returns:
        [n, out]; ``w`` itself at 16 bits.
    """
    if grouped.bits == 16:
        return w
    below, above = neighbours(w.T, grouped)
    lower: Array = below.T.astype(np.float64)
    upper: Array = above.T.astype(np.float64)
    exact: Array = w.astype(np.float64)
    nearest: Array = rounded(w.T, grouped).T.astype(np.float64) - exact
    change = _descend(nearest, lower - exact, upper - exact, input_moments(x))
    # Values of the grid are taken from where they are known exactly.
    is_upper = np.abs(change - (upper - exact)) < np.abs(change - (lower - exact))
    return np.where(is_upper, upper, lower).astype(w.dtype)


def _descend(change: Array, down: Array, up: Array, moments: Array) -> Array:
    """Take the cheaper of two changes for weight after weight, until none moves.

    Args:
        change: Changes to begin with, [n, out].
        down: Changes to the lower values, [n, out].
        up: Changes to the upper values, [n, out].
        moments: Second moments of the inputs, [n, n].
    """
    change = change.copy()
    slope = moments @ change
    for _ in range(MOST_SWEEPS):
        moved = 0
        for i, own in enumerate(np.diag(moments)):
            others = slope[i] - own * change[i]
            cost = own * change[i] ** 2 + 2 * others * change[i]
            cost_down = own * down[i] ** 2 + 2 * others * down[i]
            cost_up = own * up[i] ** 2 + 2 * others * up[i]
            best = np.where(cost_up < cost_down, up[i], down[i])
            gain = cost - np.minimum(cost_up, cost_down)
            is_better = gain > LEAST_GAIN * (np.abs(cost) + own * change[i] ** 2)
            step = np.where(is_better, best - change[i], 0.0)
            if not np.any(step):
                continue
            moved += int(np.count_nonzero(step))
            change[i] += step
            slope += np.outer(moments[:, i], step)
        if not moved:
            break
    return change
