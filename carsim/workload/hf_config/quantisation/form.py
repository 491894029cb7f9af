"""How the weights of a matrix are stored: bits, and what belongs to them."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from carsim.workload.hf_config.tensors import Matrix

PER_OUTPUT = -1
"""In place of a group's size: all inputs of an output share a scale."""


@dataclass(frozen=True, slots=True)
class Form:
    """Form in which a matrix is stored.

    Attributes:
        bits: Bits of a weight; a fraction where a format mixes widths.
        group: Inputs of one output that share a scale; ``PER_OUTPUT``: all of them; None: no scale
            but those of ``tensor_bits``.
        scale_bits: Bits of a group's scale.
        zero_bits: Bits of a group's zero point.
        block_outputs: Outputs that share a scale as well, where scales are for blocks.
        input_bits: Bits for each input of a matrix, such as the order of inputs that GPTQ stores.
        tensor_bits: Bits for each matrix as a whole.
        flat: Groups run through the whole matrix, from one output to the next.
    """

    bits: Fraction
    group: int | None = None
    scale_bits: int = 0
    zero_bits: int = 0
    block_outputs: int = 1
    input_bits: int = 0
    tensor_bits: int = 0
    flat: bool = False

    def stored_bytes(self, matrix: Matrix) -> int:
        """Bytes of a module in a checkpoint, rounded up for each matrix."""
        inputs = matrix.inputs
        outputs = matrix.outputs
        groups = 0
        if self.group == PER_OUTPUT:
            groups = outputs
        elif self.group is not None and self.flat:
            groups = -(-inputs * outputs // self.group)
        elif self.group is not None:
            groups = -(-inputs // self.group) * -(-outputs // self.block_outputs)
        bits = inputs * outputs * self.bits
        bits += groups * (self.scale_bits + self.zero_bits)
        bits += inputs * self.input_bits + self.tensor_bits
        return matrix.copies * -(-bits // 8)

    @property
    def precision(self) -> dict[str, Any]:
        """Fields of a precision of a design.

        A scale for each output, and bits for each input or matrix, are left out: they are less than
        0.1 % of a matrix of 2048 inputs.
        """
        bits = int(self.bits) if self.bits.denominator == 1 else float(self.bits)
        if self.group is None or self.group == PER_OUTPUT or not self.scale_bits:
            return {"bits": bits}
        fields = {
            "bits": bits,
            "group": self.group * self.block_outputs,
            "scale_bits": self.scale_bits,
        }
        return fields | ({"zero_bits": self.zero_bits} if self.zero_bits else {})


def plain(bits: int | Fraction) -> Form:
    """Weights without scales."""
    return Form(Fraction(bits))


@dataclass(frozen=True)
class Scheme:
    """Forms of all matrices of a file.

    Attributes:
        name: Format, as a user knows it.
        form_of: The form of a matrix; None: it is not quantised.
        activation_bits: Bits of the inputs of products, where the format rounds them.
        kv_bits: Bits of the KV cache, where the format has it.
    """

    name: str
    form_of: Callable[[Matrix], Form | None]
    activation_bits: int | None = None
    kv_bits: int | None = None
