"""Thresholds for a wanted replay ratio, one for all layers or one per layer, from dense scores."""

import numpy as np
from numpy.typing import NDArray

from studies.decisions.content import FIRST_LAYER
from studies.decisions.record import Array, Observed

Taus = tuple[float, ...]
_STEPS = 50  # per layer, of the shares that the least error is searched over


def one_tau(scores: Array, share: float, first_layer: int = FIRST_LAYER) -> Taus:
    """One threshold for all layers from the first that may replay on.

    Args:
        scores: [R, L, E], of dense decoding.
        share: Of the decisions of these layers that replay.
        first_layer: Layers before it never replay.

    >>> scores = np.arange(8.0).reshape(1, 2, 4)
    >>> one_tau(scores, 0.5, first_layer=0)
    (3.5, 3.5)
    """
    tau = float(np.quantile(scores[:, first_layer:], 1 - share)) if share < 1 else -np.inf
    return _never_before(first_layer, [tau] * scores.shape[1])


def equal_shares(scores: Array, share: float, first_layer: int = FIRST_LAYER) -> Taus:
    """A threshold per layer, so that each replays the same share.

    >>> scores = np.arange(8.0).reshape(1, 2, 4)
    >>> equal_shares(scores, 0.5, first_layer=0)
    (1.5, 5.5)
    """
    return per_layer(scores, np.full(scores.shape[1], share), first_layer)


def least_error(seen: Observed, share: float, first_layer: int = FIRST_LAYER) -> Taus:
    """Thresholds per layer that together replay a share at the least error of MLP outputs.

    The error of a replay is the square of the change of the MLP's output over that of the length of
    the residual stream which it is added to. Simplification: errors of dense decoding, added up.
    """
    error = (seen.mlp_change / seen.middle_length) ** 2
    layers = range(first_layer, error.shape[1])
    costs = np.stack([_cost(seen.paper[:, i], error[:, i]) for i in layers])  # [layers, steps + 1]
    shares = np.zeros(error.shape[1])
    shares[first_layer:] = cheapest(costs, round(share * _STEPS * len(layers))) / _STEPS
    return per_layer(seen.paper, shares, first_layer)


def _cost(scores: Array, error: Array) -> Array:
    """Error of replaying the first k / _STEPS of places, highest scores first, [_STEPS + 1]."""
    order = np.argsort(-scores, axis=None, kind="stable")
    summed = np.concatenate([[0.0], error.ravel()[order].cumsum(dtype=np.float64)])
    places = np.linspace(0, error.size, _STEPS + 1).round().astype(int)
    cost: Array = summed[places] / error.size
    return cost


def cheapest(costs: Array, total: int) -> NDArray[np.int64]:
    """How many steps each layer takes, so that they are ``total`` and cost least.

    Args:
        costs: [layers, steps + 1], cost of k steps in a layer.
        total: Steps of all layers.

    >>> cheapest(np.array([[0, 4, 9], [0, 2, 3]]), 2)
    array([0, 2])
    >>> cheapest(np.array([[0, 4, 9], [0, 2, 3]]), 3)
    array([1, 2])
    """
    best = np.full(total + 1, np.inf)
    best[0] = 0.0
    choices = []
    for cost in costs:
        trials = np.full((len(cost), total + 1), np.inf)
        for steps in range(min(len(cost), total + 1)):
            trials[steps, steps:] = best[: total + 1 - steps] + cost[steps]
        choices.append(trials.argmin(axis=0))
        best = trials.min(axis=0)
    taken = []
    for choice in reversed(choices):
        taken.append(int(choice[total]))
        total -= taken[-1]
    return np.array(taken[::-1])


def per_layer(scores: Array, shares: Array, first_layer: int) -> Taus:
    """The threshold of each layer that lets it replay its share."""
    taus = []
    for layer, share in enumerate(shares):
        if share <= 0:
            taus.append(np.inf)
        elif share >= 1:
            taus.append(-np.inf)
        else:
            taus.append(float(np.quantile(scores[:, layer], 1 - share)))
    return _never_before(first_layer, taus)


def _never_before(first_layer: int, taus: list[float]) -> Taus:
    return tuple(np.inf if i < first_layer else round(tau, 4) for i, tau in enumerate(taus))
