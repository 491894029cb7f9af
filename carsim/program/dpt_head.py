"""The DPT head of a depth encoder: features of four layers become a depth map."""

from carsim.program.convolution import BILINEAR_OPS, RELU_OPS, Convolve
from carsim.workload.network import HEAD_CHANNELS, DepthEncoder


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
