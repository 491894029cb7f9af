"""Convolutions as products: the DPT head of a depth encoder, and the encoder's own blocks.

A convolution of k x k from c_in to c_out channels on h x w places is a product of (h w) tokens with
a (k^2 c_in) x c_out matrix. Each input moves once, if the activation buffer holds k rows of it, as
line buffers do; else k times. A transposed convolution whose stride is its side is one product with
side^2 c_out columns.

Simplifications: borders count as places like any other; bilinear sampling and sums of branches take
element operations and no traffic of their own.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from carsim.program.block import OpsOf
from carsim.program.diffusion import ForwardBlock
from carsim.program.reads import Reads
from carsim.workload.elements import BIAS_OPS
from carsim.workload.model import BIAS_BYTES, Model
from carsim.workload.network import HEAD_CHANNELS, DepthEncoder
from carsim.workload.ops import Category, Op, Share, Stream, weight_gemm
from carsim.workload.tiled import on_chip_of

BILINEAR_OPS = 4
"""Per element of bilinear sampling: four multiply-adds."""

RELU_OPS = 1
"""Per element of a ReLU."""


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
        biases = BIAS_BYTES * self.outputs if self.biased else 0
        weight_bytes = int(precision.bytes_of(k * self.outputs)) + biases

        def operations(share: Share) -> list[Op]:
            on_chip = on_chip_of(share)
            places = share.m
            rows = -(-places * self.entering // self.tokens)
            all_bytes = bytes_of(rows * self.inputs) + bytes_of(places * self.outputs)
            all_bytes = -(-all_bytes // on_chip.deals)
            spills = all_bytes > on_chip.activation_bytes
            again = np.where(self.side * row_bytes > on_chip.activation_bytes, self.side, 1)
            moved_bytes = again * bytes_of(rows * self.inputs) + bytes_of(places * self.outputs)
            columns = share.columns(self.outputs)
            return [
                Op(
                    Category.HEAD,
                    gemms=(weight_gemm(model, "head", m=places, k=k, n=columns),),
                    vector_ops=places * columns * (self.ops_per_output + self.biased * BIAS_OPS),
                    stream=Stream.WEIGHTS,
                    stream_bytes=share.streams * weight_bytes,
                    kv_side_bytes=spills * moved_bytes,
                    gathered_elements=places * self.outputs,
                )
            ]

        return operations


def dpt_head(network: DepthEncoder, hidden_size: int, grid: tuple[int, int]) -> list[Convolve]:
    """The convolutions of the DPT head, in their order.

    Args:
        network: Channels of features and fusion.
        hidden_size: Width of the encoder.
        grid: Rows and columns of patches.
    """
    rows, columns = grid
    fused = network.fusion_channels
    first, second, _, last = network.head_channels
    half = (-(-rows // 2), -(-columns // 2))
    sizes = [(4 * rows, 4 * columns), (2 * rows, 2 * columns), grid, half]
    blocks: list[Convolve] = []

    def conv(  # noqa: PLR0913 - a convolution has as many numbers
        name: str,
        side: int,
        inputs: int,
        outputs: int,
        at: tuple[int, int],
        source: tuple[int, int] | None = None,
        *,
        biased: bool = True,
        ops: int = 0,
    ) -> None:
        entering = at if source is None else source
        blocks.append(
            Convolve(
                tokens=at[0] * at[1],
                label_of=name,
                side=side,
                inputs=inputs,
                outputs=outputs,
                entering=entering[0] * entering[1],
                width=entering[1],
                biased=biased,
                ops_per_output=ops,
            )
        )

    for number, channels in enumerate(network.head_channels):
        conv(f"project {number}", 1, hidden_size, channels, grid)
    conv("upsample 0", 1, first, 16 * first, grid)
    conv("upsample 1", 1, second, 4 * second, grid)
    conv("downsample 3", 3, last, last, half, grid)
    for number, (size, channels) in enumerate(zip(sizes, network.head_channels, strict=True)):
        conv(f"features {number}", 3, channels, fused, size, biased=False)
    for number in reversed(range(4)):
        size = sizes[number]
        pairs = 1 if number == 3 else 2  # the deepest has nothing to be fused with
        for pair in range(2 * pairs):
            conv(f"fusion {number}.{pair}", 3, fused, fused, size, ops=RELU_OPS + 1)
        above = (8 * rows, 8 * columns) if number == 0 else sizes[number - 1]
        conv(f"fusion {number} out", 1, fused, fused, above, size, ops=BILINEAR_OPS)
    full = (rows * network.patch_side, columns * network.patch_side)
    above = (8 * rows, 8 * columns)
    conv("depth 0", 3, fused, fused // 2, above)
    conv("depth 1", 3, fused // 2, HEAD_CHANNELS, full, above, ops=BILINEAR_OPS + RELU_OPS)
    conv("depth 2", 1, HEAD_CHANNELS, 1, full, ops=RELU_OPS)
    return blocks
