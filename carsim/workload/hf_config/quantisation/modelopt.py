"""ModelOpt, in the sidecar ``hf_quant_config.json`` or in ``config.json`` itself.

``quant_algo`` names the format. Scales of FP8 are one of 32 bits for the weights and one for the
inputs of a matrix. NVFP4 has a scale of 8 bits for 16 weights, and those two beside it.
Source: NVIDIA/TensorRT-Model-Optimizer, ``modelopt/torch/export``.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from carsim.base.section import FieldError
from carsim.base.yaml_file import shown
from carsim.workload.hf_config.keys import SET_WEIGHTS
from carsim.workload.hf_config.quantisation.fields import Fields, is_globbed
from carsim.workload.hf_config.quantisation.form import PER_OUTPUT, Form, Scheme
from carsim.workload.hf_config.tensors import Matrix

SCALES_OF_A_MATRIX_BITS = 2 * 32
"""Bits of the scales of a matrix: of its weights, and of its inputs."""


class Algorithm(NamedTuple):
    """A value of ``quant_algo``.

    Attributes:
        bits: Bits of a weight.
        group: Inputs that share a scale; None: one scale for a matrix.
        scale_bits: Bits of a group's scale.
        activation_bits: Bits of the inputs of products; None: they are not rounded.
    """

    bits: int
    group: int | None
    scale_bits: int
    activation_bits: int | None


ALGORITHMS: Mapping[str, Algorithm] = {
    "FP8": Algorithm(8, group=None, scale_bits=0, activation_bits=8),
    "FP8_PER_CHANNEL_PER_TOKEN": Algorithm(8, PER_OUTPUT, scale_bits=32, activation_bits=8),
    "NVFP4": Algorithm(4, group=16, scale_bits=8, activation_bits=4),
    "NVFP4_AWQ": Algorithm(4, group=16, scale_bits=8, activation_bits=4),
    "W4A16_NVFP4": Algorithm(4, group=16, scale_bits=8, activation_bits=None),
    "MXFP4": Algorithm(4, group=32, scale_bits=8, activation_bits=None),
    "W4A16_AWQ": Algorithm(4, group=128, scale_bits=16, activation_bits=None),
    "W4A8_AWQ": Algorithm(4, group=128, scale_bits=16, activation_bits=8),
    "W8A8_SQ_PER_CHANNEL": Algorithm(8, PER_OUTPUT, scale_bits=32, activation_bits=8),
    "W8A16": Algorithm(8, PER_OUTPUT, scale_bits=16, activation_bits=None),
}
"""Formats of ModelOpt."""

KV_BITS: Mapping[str, int] = {"FP8": 8, "INT8": 8, "NVFP4": 4}


def read_modelopt(fields: Fields) -> Scheme:
    """Forms of a ModelOpt file, from what lies in its ``quantization``."""
    inner = fields.inner("quantization")
    if inner.raw:
        fields = inner
    name = fields.text("quant_algo")
    by_layer = {}
    activations: list[int] = []
    layers = fields.inner("quantized_layers")
    if name == "MIXED_PRECISION":
        for module, section in layers.sections().items():
            by_layer[module] = _form(section, activations)
        usual = None
    else:
        usual = _form(fields, activations)
    left_out = fields.names("exclude_modules") + fields.names("ignore")
    cache = fields.text("kv_cache_quant_algo")
    if cache and cache not in KV_BITS:
        problem = f"{shown(cache)} is none of {', '.join(KV_BITS)}"
        raise FieldError(fields.at("kv_cache_quant_algo"), problem, SET_WEIGHTS + ", and model.kv")

    def form_of(matrix: Matrix) -> Form | None:
        if not matrix.is_plain and matrix.role in ("embedding", "head"):
            return None
        if is_globbed(matrix, left_out):
            return None
        for module, form in by_layer.items():
            if is_globbed(matrix, [module]):
                return form
        return None if matrix.role == "router" else usual

    return Scheme(
        f"ModelOpt, {name}",
        form_of,
        activation_bits=max(activations, default=None),
        kv_bits=KV_BITS.get(cache),
    )


def _form(fields: Fields, activations: list[int]) -> Form:
    """Form of an algorithm; the bits of its activations are added to a list."""
    name = fields.text("quant_algo")
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        problem = f"{shown(name)} is none of {', '.join(ALGORITHMS)}"
        raise FieldError(fields.at("quant_algo"), problem, SET_WEIGHTS)
    if algorithm.activation_bits is not None:
        activations.append(algorithm.activation_bits)
    group = algorithm.group
    if group is not None and group != PER_OUTPUT:
        group = fields.whole("group_size", group)
    return Form(
        Fraction(algorithm.bits),
        group=group,
        scale_bits=algorithm.scale_bits,
        tensor_bits=SCALES_OF_A_MATRIX_BITS,
    )
