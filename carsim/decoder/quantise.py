"""Weights and arithmetic of a precision, calibrated on a teacher-forced prefix of clips.

Model: the rows of a group are decoded in the decoder's own arithmetic, densely and without replay;
the inputs of all products are kept. From them follow ranges and polishing of inputs, and then the
change of the weights that makes up for rounding; weights are rounded last. Samples are the valid
prompt tokens and all decoded steps: for the default of four clips and one frame, 8 rows of 256
steps and their prompts, some 2,300 for each channel.
"""

from dataclasses import replace

import numpy as np

from carsim.decisions.attention.base import Bools
from carsim.decisions.trace.precision import PRODUCTS, DecoderPrecision, Grouped, Product
from carsim.decoder.group import Decoding, RowGroup, embed_prompts
from carsim.decoder.precision import Arithmetic, Inputs, compensation, rounded
from carsim.decoder.structures import Array, DecoderPolicy, Weights, stack_weights
from carsim.decoder.workers import Advance


class Collector(Arithmetic):
    """Rounds nothing and keeps the inputs of all products.

    Args:
        n_layers: L.
        valid: bool[B, P], False for padding of the prompts.
    """

    def __init__(self, n_layers: int, valid: Bools) -> None:
        super().__init__()
        self._valid = valid
        self._kept: dict[Product, list[list[Array]]] = {
            product: [[] for _ in range(n_layers)] for product in PRODUCTS
        }

    def entering(self, product: Product, layer: int, x: Array) -> Array:
        """The inputs as they are; those of a prompt are [B, P, n], later ones [B, n]."""
        self._kept[product][layer].append(x[self._valid] if x.ndim == 3 else x)
        return x

    def samples(self, product: Product) -> Array:
        """[L, samples, n]."""
        return np.stack([np.concatenate(layer) for layer in self._kept[product]])


def quantise(group: RowGroup, precision: DecoderPrecision, advance: Advance) -> Weights:
    """Weights of a group's model in a precision.

    Args:
        group: Rows to calibrate on; all steps of its video are fed its clips' tokens.
        precision: The precision.
        advance: Told the row-steps that were decoded.
    """
    weights = stack_weights(group.config, group.model.arrays)
    inputs: dict[Product, Inputs] = {}
    changes: dict[Product, Array] = {}
    if precision.activations < 16:
        collector = collect(group, weights, advance)
        for product in PRODUCTS:
            samples = collector.samples(product)
            polish = product in precision.polish
            inputs[product] = made = Inputs.of(samples, precision.activations, polish=polish)
            if precision.compensate:
                layers = enumerate(zip(matrix(weights, product), samples, strict=True))
                found = [compensation(w, x, made.round(layer, x)) for layer, (w, x) in layers]
                changes[product] = np.stack(found)
    matrices = {
        f"w_{product}": _rounded(matrix(weights, product), changes.get(product), precision.weights)
        for product in PRODUCTS
    }
    arithmetic = Arithmetic(inputs, precision.kv, precision.replay)
    return replace(weights, **matrices, arithmetic=arithmetic)


def matrix(weights: Weights, product: Product) -> Array:
    """The weights of a product, [L, inputs, outputs]."""
    found: Array = getattr(weights, f"w_{product}")
    return found


def collect(group: RowGroup, weights: Weights, advance: Advance) -> Collector:
    """The inputs of all products while a group is decoded, densely and without replay."""
    dense = DecoderPolicy((None,) * group.config.geometry.n_layers)
    _, mask = embed_prompts(group.model, group.prompts, group.prompt_tokens, group.config)
    collector = Collector(group.config.geometry.n_layers, mask)
    watched = replace(weights, arithmetic=collector)
    decoding, fed = Decoding(replace(group, policy=dense, quantised=watched)), None
    for tokens in group.tokens:
        decoding.feed(fed)
        fed = tokens
        advance(len(group.prompts))
    return collector


def _rounded(w: Array, change: Array | None, grouped: Grouped) -> Array:
    """Weights [L, inputs, outputs], changed and then rounded along their inputs."""
    if change is not None:
        w = (w + change).astype(w.dtype)
    if grouped.bits == 16:
        return w
    return np.ascontiguousarray(rounded(w.swapaxes(1, 2), grouped).swapaxes(1, 2))
