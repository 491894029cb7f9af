"""Weights and arithmetic of a precision, calibrated on a teacher-forced prefix of clips.

Model: the rows of a group are decoded in the decoder's own arithmetic, densely and without replay;
the inputs of all products are kept. From them follow ranges and polishing of inputs, and then the
change of the weights that makes up for rounding; weights are rounded last, to the nearest value or
by reconstruction. Samples are the valid
prompt tokens and all decoded steps: for the default of four clips and one frame, 8 rows of 256
steps and their prompts, some 2,300 for each channel.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from carsim.decisions.attention.base import Bools
from carsim.decisions.trace.precision import DecoderPrecision, Grouped, Product
from carsim.decoder.group import Decoding, RowGroup, embed_prompts
from carsim.decoder.precision import Arithmetic, Inputs, compensation, rounded
from carsim.decoder.reconstruction import reconstructed
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
        self._inputs = defaultdict[tuple[Product, int], list[Array]](list)

    def entering(self, product: Product, layer: int, x: Array) -> Array:
        """The inputs as they are; those of a prompt are [B, P, n], later ones [B, n]."""
        self._inputs[product, layer].append(x[self._valid] if x.ndim == 3 else x)
        return x

    def samples(self, product: Product, layer: int) -> Array:
        """Inputs of a product in a layer, [samples, n]."""
        return np.concatenate(self._inputs[product, layer])


def quantise(group: RowGroup, precision: DecoderPrecision, advance: Advance) -> Weights:
    """Weights of a group's model in a precision.

    Args:
        group: Rows to calibrate on; all steps of its video are fed its clips' tokens.
        precision: The precision.
        advance: Told the row-steps that were decoded.
    """
    weights = stack_weights(group.config, group.model.arrays)
    matrices: dict[Product, Array] = {  # [L, inputs, outputs] each
        "qkv": weights.w_qkv,
        "out": weights.w_out,
        "gate_up": weights.w_gate_up,
        "down": weights.w_down,
    }
    inputs: dict[Product, list[Inputs]] = {}
    rounds_inputs = precision.activations < 16
    if rounds_inputs or precision.reconstruct:
        collector = collect(group, weights, advance)
    for product, w in matrices.items():
        samples: list[Array] = []
        if rounds_inputs or precision.reconstruct:
            samples = [collector.samples(product, layer) for layer in range(len(w))]
        if rounds_inputs:
            polish = product in precision.polish
            inputs[product] = [Inputs.of(x, precision.activations, polish=polish) for x in samples]
        if precision.compensate:
            w = _compensated(w, samples, inputs[product])
        if precision.reconstruct:
            if rounds_inputs:
                samples = _entering(samples, inputs[product])
            matrices[product] = _reconstructed(w, samples, precision.weights)
        else:
            matrices[product] = _rounded(w, precision.weights)
    return replace(
        weights,
        w_qkv=matrices["qkv"],
        w_out=matrices["out"],
        w_gate_up=matrices["gate_up"],
        w_down=matrices["down"],
        arithmetic=Arithmetic(inputs, precision.kv, precision.replay),
    )


def _entering(samples: Sequence[Array], inputs: Sequence[Inputs]) -> list[Array]:
    """Inputs of a product as they enter it in each layer, rounded."""
    return [rounding.round(x) for x, rounding in zip(samples, inputs, strict=True)]


def _reconstructed(w: Array, samples: Sequence[Array], grouped: Grouped) -> Array:
    """Weights [L, n, out] of a product, rounded so that its outputs change least."""
    layers = [reconstructed(w_layer, x, grouped) for w_layer, x in zip(w, samples, strict=True)]
    return np.ascontiguousarray(np.stack(layers))


def _compensated(w: Array, samples: Sequence[Array], inputs: Sequence[Inputs]) -> Array:
    """Weights that make up for rounded inputs.

    Args:
        w: Weights of a product, [L, n, out].
        samples: Its inputs in each layer, [samples, n].
        inputs: Rounding of these inputs in each layer.

    Returns:
        [L, n, out].
    """
    change = [
        compensation(w_layer, x, rounding.round(x))
        for w_layer, x, rounding in zip(w, samples, inputs, strict=True)
    ]
    return (w + change).astype(w.dtype)


def collect(group: RowGroup, weights: Weights, advance: Advance) -> Collector:
    """The inputs of all products while a group is decoded, densely and without replay."""
    dense = DecoderPolicy((None,) * group.config.geometry.n_layers)
    _, mask = embed_prompts(group.model, group.prompts, group.prompt_tokens, group.config)
    collector = Collector(mask)
    watched = replace(weights, arithmetic=collector)
    decoding = Decoding(replace(group, policy=dense, quantised=watched))
    fed = None
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
