"""Types of weights of GGUF, by name: ``q4_k_m`` and its like.

A name stands for a mixture: llama.cpp gives some matrices of some layers more bits. The rules are
those of ``llama_tensor_get_type`` (ggml-org/llama.cpp, ``src/llama-quant.cpp``) without an
importance matrix. A matrix whose inputs are no multiple of 256 falls back to a type with smaller
blocks. Norms and routers have 32 bits.

Simplification: exceptions for models of 70 billion weights or of eight experts are left out.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from carsim.base.section import FieldError
from carsim.base.text import choose
from carsim.base.yaml_file import shown
from carsim.workload.hf_config.quantisation.form import Form, Scheme, plain
from carsim.workload.hf_config.tensors import Matrix

FLOAT_BITS = 32
"""Bits of what GGUF does not quantise."""


class Block(NamedTuple):
    """A block of weights with its scales: ``GGML_QUANT_SIZES`` of the library gguf."""

    weights: int
    nbytes: int


BLOCKS: Mapping[str, Block] = {
    "F32": Block(1, 4),
    "F16": Block(1, 2),
    "BF16": Block(1, 2),
    "Q4_0": Block(32, 18),
    "Q4_1": Block(32, 20),
    "Q5_0": Block(32, 22),
    "Q5_1": Block(32, 24),
    "Q8_0": Block(32, 34),
    "Q2_K": Block(256, 84),
    "Q3_K": Block(256, 110),
    "Q4_K": Block(256, 144),
    "Q5_K": Block(256, 176),
    "Q6_K": Block(256, 210),
    "IQ4_NL": Block(32, 18),
    "IQ4_XS": Block(256, 136),
}
"""Types of a matrix that names below use."""

FALLBACK = {
    "Q2_K": "IQ4_NL",
    "Q3_K": "IQ4_NL",
    "IQ4_XS": "IQ4_NL",
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
}
"""Types for matrices whose inputs are no multiple of 256."""

MIXTURES: Mapping[str, str] = {
    "F16": "F16",
    "BF16": "BF16",
    "Q4_0": "Q4_0",
    "Q4_1": "Q4_1",
    "Q5_0": "Q5_0",
    "Q5_1": "Q5_1",
    "Q8_0": "Q8_0",
    "Q2_K": "Q2_K",
    "Q3_K_S": "Q3_K",
    "Q3_K_M": "Q3_K",
    "Q3_K_L": "Q3_K",
    "Q4_K_S": "Q4_K",
    "Q4_K_M": "Q4_K",
    "Q5_K_S": "Q5_K",
    "Q5_K_M": "Q5_K",
    "Q6_K": "Q6_K",
    "IQ4_NL": "IQ4_NL",
    "IQ4_XS": "IQ4_XS",
}
"""Name -> type of most matrices."""


def form_of_type(name: str, block: Block) -> Form:
    """Form of a type: the bits in its name, and its scales in what is left of a block."""
    if block.weights == 1:
        return plain(8 * block.nbytes)
    digits = re.search(r"[0-9]+", name)
    bits = int(digits[0]) if digits else 8 * block.nbytes // block.weights
    scale_bits = 8 * block.nbytes - bits * block.weights
    if scale_bits <= 0:  # the name rounds bits up
        return Form(Fraction(8 * block.nbytes, block.weights))
    return Form(Fraction(bits), group=block.weights, scale_bits=scale_bits)


def gguf_scheme(name: str, n_layers: int, group_size: int) -> Scheme:
    """Forms of a mixture.

    Args:
        name: Name such as ``q4_k_m``, in any case.
        n_layers: Layers of the model.
        group_size: Queries that share a key head.

    Raises:
        FieldError: Unknown name.
    """
    mixture = name.upper()
    if mixture not in MIXTURES:
        names = [type_name.lower() for type_name in MIXTURES]
        cure = choose(name.lower(), names, "name a type of GGUF:") + ", or give bits: {bits: 4}"
        raise FieldError("weights", f"{shown(name)} is no precision", cure)

    def form_of(matrix: Matrix) -> Form | None:
        if matrix.role == "router":
            return plain(FLOAT_BITS)
        kind = _type(mixture, matrix, n_layers=n_layers, group_size=group_size)
        if matrix.inputs % BLOCKS[kind].weights:
            kind = FALLBACK.get(kind, "F16")
        if matrix.inputs % BLOCKS[kind].weights:
            kind = "F16"
        return form_of_type(kind, BLOCKS[kind])

    return Scheme(f"GGUF, {mixture}", form_of)


def gets_more_bits(layer: int, n_layers: int) -> bool:
    """The layer is among the first or last eighth, or every third between (``use_more_bits``).

    >>> [layer for layer in range(16) if gets_more_bits(layer, 16)]
    [0, 1, 4, 7, 10, 13, 14, 15]
    """
    eighth = n_layers // 8
    is_outer = layer < eighth or layer >= 7 * n_layers // 8
    return is_outer or (layer - eighth) % 3 == 2


def _type(mixture: str, matrix: Matrix, *, n_layers: int, group_size: int) -> str:
    """Type of a matrix in a mixture."""
    usual = MIXTURES[mixture]
    is_float = BLOCKS[usual].weights == 1
    if matrix.role == "head":
        return usual if is_float or usual == "Q8_0" else "Q6_K"
    if matrix.layer is None or is_float:
        return usual
    layer = matrix.layer
    if matrix.part == "v":
        return _type_of_values(mixture, layer, n_layers=n_layers, group_size=group_size)
    if matrix.part == "out":
        return {"Q2_K": "Q3_K", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K"}.get(mixture, usual)
    if matrix.part == "down":
        return _type_of_down(mixture, layer, n_layers=n_layers)
    return usual


def _type_of_values(mixture: str, layer: int, *, n_layers: int, group_size: int) -> str:
    """Type of the matrix that makes values."""
    usual = MIXTURES[mixture]
    if mixture == "Q2_K":
        return "Q4_K" if group_size >= 4 else "Q3_K"
    if mixture == "Q3_K_M":
        return "Q5_K" if layer < 2 else "Q4_K"
    if mixture == "Q3_K_L":
        return "Q5_K"
    if mixture in ("Q4_K_M", "Q5_K_M"):
        return "Q6_K" if gets_more_bits(layer, n_layers) else usual
    if mixture == "Q4_K_S":
        return "Q5_K" if layer < 4 else usual
    return usual


def _type_of_down(mixture: str, layer: int, *, n_layers: int) -> str:
    """Type of the last matrix of an MLP."""
    usual = MIXTURES[mixture]
    if mixture == "Q2_K":
        return "Q3_K"
    if mixture == "Q3_K_M":
        return "Q5_K" if layer < n_layers // 16 else "Q4_K"
    if mixture == "Q3_K_L":
        return "Q5_K"
    if mixture in ("Q4_K_M", "Q5_K_M"):
        return "Q6_K" if gets_more_bits(layer, n_layers) else usual
    if mixture == "Q4_K_S":
        return "Q5_K" if layer < n_layers // 8 else usual
    return usual
