"""Sizes of the decoders that are measured: three of our own, and presets of models."""

from typing import NamedTuple

from carsim.base.errors import InputError
from carsim.base.section import tuples
from carsim.base.text import choose
from carsim.decisions.trace.meta import Geometry
from carsim.design.load import preset, shipped_presets
from carsim.workload.model import Model

FLOAT_BYTES = 4
"""Weights, keys, values and activations are float32."""

SIZES = {
    shape.name: shape
    for shape in (
        Geometry(
            name="tiny",
            n_layers=4,
            hidden_size=64,
            n_heads=4,
            n_kv_heads=4,
            head_dim=16,
            ffn_size=172,
        ),
        Geometry(
            name="medium",
            n_layers=4,
            hidden_size=256,
            n_heads=8,
            n_kv_heads=8,
            head_dim=32,
            ffn_size=704,
        ),
        # 1040 is not 1024: rows of 4096 bytes would compete for few sets of the first cache.
        Geometry(
            name="large",
            n_layers=3,
            hidden_size=1040,
            n_heads=8,
            n_kv_heads=8,
            head_dim=130,
            ffn_size=2832,
        ),
    )
}
"""Decoders by name. In float32, ``tiny`` has 0.8 MB of weights (second cache of most CPUs),
``medium`` 13 MB (last cache), ``large`` 158 MB (beyond the last cache)."""


class Weights(NamedTuple):
    """Weights of one layer, by block."""

    attention: int
    mlp: int

    @property
    def mlp_share(self) -> float:
        """Share of the MLP in the weights, and so in the products, of a layer."""
        return self.mlp / (self.attention + self.mlp)


def weights_of(shape: Geometry) -> Weights:
    """Weights of one layer, norms left out."""
    heads = shape.n_heads + 2 * shape.n_kv_heads
    attention = shape.hidden_size * shape.head_dim * (heads + shape.n_heads)
    return Weights(attention=attention, mlp=3 * shape.hidden_size * shape.ffn_size)


def bytes_of(shape: Geometry) -> int:
    """Bytes of all weights of a decoder."""
    return FLOAT_BYTES * shape.n_layers * sum(weights_of(shape))


def shape_of(name: str) -> Geometry:
    """The decoder of a name: one of :data:`SIZES`, or the body of a model's preset.

    Raises:
        InputError: No such name, or a preset whose body is no plain decoder with gated MLPs.
    """
    if name in SIZES:
        return SIZES[name]
    presets = shipped_presets()["model"]
    if name not in presets:
        names = list(dict.fromkeys([*SIZES, *presets]))
        raise InputError("`model`", f"no decoder {name!r}", choose(name, names, "choose from"))
    body = Model.model_validate(tuples(preset("model", name, "`model`"))).body
    if body.mlp != "gated" or body.experts is not None or body.latent is not None:
        problem = f"{name} has experts, latent attention or MLPs without a gate"
        raise InputError("`model`", problem, f"take a plain decoder, such as {', '.join(SIZES)}")
    return Geometry(
        name=name,
        n_layers=body.n_layers,
        hidden_size=body.hidden_size,
        n_heads=body.n_heads,
        n_kv_heads=body.n_kv_heads,
        head_dim=body.head_dim,
        ffn_size=body.ffn_size,
    )
