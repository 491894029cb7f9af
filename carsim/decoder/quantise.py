"""Weights and arithmetic of a precision, calibrated on a teacher-forced prefix of clips.

Model: the rows of a group are decoded in the decoder's own arithmetic, densely and without replay;
the inputs of all products are kept. From them follow ranges and polishing of inputs, and then the
change of the weights that makes up for rounding; weights are rounded last. Samples are the valid
prompt tokens and all decoded steps: for the default of four clips and one frame, 8 rows of 256
steps and their prompts, some 2,300 for each channel.
"""

from collections import defaultdict
from dataclasses import replace
from typing import Any

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
        valid: bool[B, P], False for padding of the prompts.
    """

    def __init__(self, valid: Bools) -> None:
        super().__init__()
        self._valid = valid
        self._kept = defaultdict[tuple[Product, int], list[Array]](list)

    def entering(self, product: Product, layer: int, x: Array) -> Array:
        """The inputs as they are; those of a prompt are [B, P, n], later ones [B, n]."""
        self._kept[product, layer].append(x[self._valid] if x.ndim == 3 else x)
        return x

    def samples(self, product: Product, layer: int) -> Array:
        """[samples, n]."""
        return np.concatenate(self._kept[product, layer])


def quantise(group: RowGroup, precision: DecoderPrecision, advance: Advance) -> Weights:
    """Weights of a group's model in a precision.

    Args:
        group: Rows to calibrate on; all steps of its video are fed its clips' tokens.
        precision: The precision.
        advance: Told the row-steps that were decoded.
    """
    weights = stack_weights(group.config, group.model.arrays)
    inputs: dict[Product, list[Inputs]] = {}
    matrices: dict[str, Any] = {f"w_{name}": getattr(weights, f"w_{name}") for name in PRODUCTS}
    if precision.activations < 16:
        collector = collect(group, weights, advance)
        for product in PRODUCTS:
            w, polish = matrices[f"w_{product}"], product in precision.polish
            samples = [collector.samples(product, layer) for layer in range(len(w))]
            made = [Inputs.of(x, precision.activations, polish=polish) for x in samples]
            inputs[product] = made
            if precision.compensate:
                layers = zip(w, samples, made, strict=True)
                change = [compensation(w, x, grid.round(x)) for w, x, grid in layers]
                matrices[f"w_{product}"] = (w + change).astype(w.dtype)
    matrices = {name: _rounded(w, precision.weights) for name, w in matrices.items()}
    arithmetic = Arithmetic(inputs, precision.kv, precision.replay)
    return replace(weights, **matrices, arithmetic=arithmetic)


def collect(group: RowGroup, weights: Weights, advance: Advance) -> Collector:
    """The inputs of all products while a group is decoded, densely and without replay."""
    dense = DecoderPolicy((None,) * group.config.geometry.n_layers)
    _, mask = embed_prompts(group.model, group.prompts, group.prompt_tokens, group.config)
    collector = Collector(mask)
    watched = replace(weights, arithmetic=collector)
    decoding, fed = Decoding(replace(group, policy=dense, quantised=watched)), None
    for tokens in group.tokens:
        decoding.feed(fed)
        fed = tokens
        advance(len(group.prompts))
    return collector


def _rounded(w: Array, grouped: Grouped) -> Array:
    """Weights [L, inputs, outputs], rounded along their inputs."""
    if grouped.bits == 16:
        return w
    return np.ascontiguousarray(rounded(w.swapaxes(1, 2), grouped).swapaxes(1, 2))
