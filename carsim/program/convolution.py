"""Convolutions as products: the blocks of which heads of depth encoders consist.

A convolution of k x k from c_in to c_out channels on h x w places is a product of (h w) tokens with
a (k^2 c_in) x c_out matrix. Each input moves once, if the activation buffer holds k rows of it, as
line buffers do; else k times. A transposed convolution whose stride is its side is one product with
side^2 c_out columns.

Simplifications: borders count as places like any other; bilinear sampling and sums of branches take
element operations and no traffic of their own. An input is polished once, however many outputs it
enters. The heads themselves are in
:mod:`carsim.program.dpt_head` and :mod:`carsim.program.recurrent_head`.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from carsim.program.block import OpsOf
from carsim.program.diffusion import ForwardBlock
from carsim.program.reads import Reads
from carsim.workload.elements import BIAS_OPS, polishing_ops
from carsim.workload.model import BIAS_BYTES, TABLE_BYTES, Model
from carsim.workload.ops import Category, Op, Share, Stream, weight_gemm
from carsim.workload.tiled import on_chip_of

BILINEAR_OPS = 4
"""Per element of bilinear sampling: four multiply-adds."""

RELU_OPS = 1
"""Per element of a ReLU."""


class Grid(NamedTuple):
    """Places in rows and columns."""

    rows: int
    columns: int

    @property
    def places(self) -> int:
        """All of them."""
        return self.rows * self.columns


@dataclass(frozen=True)
class Convolve(ForwardBlock):
    """A convolution; ``tokens`` are the places of its output.

    Attributes:
        label_of: Its name within the head.
        side: Side of the kernel.
        inputs: Channels that enter.
        outputs: Channels that leave.
        entering: Places of its input.
        width: Places of a row of its input.
        biased: A bias is added.
        ops_per_output: Element operations for each output.
        beside: Channels that are read for each place of the output, beside the input.
        is_softmax: Outputs pass a softmax.
    """

    name: ClassVar[str] = "convolution"
    title: ClassVar[str] = "convolutions"

    label_of: str = ""
    side: int = 1
    inputs: int = 1
    outputs: int = 1
    entering: int = 1
    width: int = 1
    biased: bool = True
    ops_per_output: int = 0
    beside: int = 0
    is_softmax: bool = False

    @property
    def label(self) -> str:
        """English name."""
        return f"convolution {self.label_of}"

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """The product, with the activations that move."""
        k = self.side * self.side * self.inputs
        precision = model.precision_of("head")
        bytes_of = model.activations.bytes_of
        row_bytes = int(bytes_of(self.width * self.inputs))
        beside_weights = BIAS_BYTES * self.outputs if self.biased else 0
        if "convolution" in model.polished:
            beside_weights += TABLE_BYTES * self.inputs
        weight_bytes = int(precision.bytes_of(k * self.outputs)) + beside_weights

        def operations(share: Share) -> list[Op]:
            on_chip = on_chip_of(share)
            places = share.m
            entering = -(-places * self.entering // self.tokens)
            once_bytes = bytes_of(places * (self.outputs + self.beside))
            alive_bytes = bytes_of(entering * self.inputs) + once_bytes
            alive_bytes = -(-alive_bytes // on_chip.deals)
            spills = alive_bytes > on_chip.activation_bytes
            again = np.where(self.side * row_bytes > on_chip.activation_bytes, self.side, 1)
            moved_bytes = again * bytes_of(entering * self.inputs) + once_bytes
            columns = share.columns(self.outputs)
            return [
                Op(
                    Category.HEAD,
                    gemms=(weight_gemm(model, "head", m=places, k=k, n=columns),),
                    vector_ops=places * columns * (self.ops_per_output + self.biased * BIAS_OPS)
                    + polishing_ops(model, "convolution", entering * self.inputs),
                    stream=Stream.WEIGHTS,
                    stream_bytes=share.streams * weight_bytes,
                    kv_side_bytes=spills * moved_bytes,
                    gathered_elements=places * self.outputs,
                    exponentials=places * columns if self.is_softmax else 0,
                )
            ]

        return operations


def convolve(  # noqa: PLR0913 - a convolution has as many numbers
    name: str,
    grid: Grid,
    side: int,
    *,
    inputs: int,
    outputs: int,
    ops: int = 0,
    biased: bool = True,
    source: Grid | None = None,
    beside: int = 0,
    is_softmax: bool = False,
) -> Convolve:
    """A convolution from one grid of places to another.

    Args:
        name: Its name within the head.
        grid: Places of its output.
        side: Side of the kernel.
        inputs: Channels that enter.
        outputs: Channels that leave.
        ops: Element operations for each output.
        biased: A bias is added.
        source: Places of its input; None: those of its output.
        beside: Channels that are read for each place of the output, beside the input.
        is_softmax: Outputs pass a softmax.
    """
    entering = grid if source is None else source
    return Convolve(
        tokens=grid.places,
        label_of=name,
        side=side,
        inputs=inputs,
        outputs=outputs,
        entering=entering.places,
        width=entering.columns,
        biased=biased,
        ops_per_output=ops,
        beside=beside,
        is_softmax=is_softmax,
    )
