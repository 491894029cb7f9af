"""The DPT head of a depth encoder: features of four layers become a depth map."""

from collections.abc import Sequence

from carsim.program.convolution import BILINEAR_OPS, RELU_OPS, Convolve, Grid, convolve
from carsim.workload.elements import RESIDUAL_OPS
from carsim.workload.network import HEAD_CHANNELS, DepthEncoder


def dpt_head(network: DepthEncoder, hidden_size: int, grid: tuple[int, int]) -> list[Convolve]:
    """The convolutions of the DPT head, in their order.

    Args:
        network: Channels of features and fusion.
        hidden_size: Width of the encoder.
        grid: Rows and columns of patches.
    """
    rows, columns = grid
    patches = Grid(rows, columns)
    half = Grid(-(-rows // 2), -(-columns // 2))
    # Places of the four features, the finest first.
    scales = (Grid(4 * rows, 4 * columns), Grid(2 * rows, 2 * columns), patches, half)
    fine = Grid(8 * rows, 8 * columns)
    full = Grid(rows * network.patch_side, columns * network.patch_side)
    blocks = _features(network, hidden_size, scales)
    blocks += _fusion(network.fusion_channels, scales, fine)
    blocks += _depth(network.fusion_channels, fine, full)
    return blocks


def _features(network: DepthEncoder, hidden_size: int, scales: Sequence[Grid]) -> list[Convolve]:
    """Projections of the four features, their sampling, and their change to equal channels."""
    patches, half = scales[2:]
    first, second, _, last = network.head_channels
    blocks = []
    for number, channels in enumerate(network.head_channels):
        name = f"project {number}"
        blocks.append(convolve(name, patches, 1, inputs=hidden_size, outputs=channels))
    blocks.append(convolve("upsample 0", patches, 1, inputs=first, outputs=16 * first))
    blocks.append(convolve("upsample 1", patches, 1, inputs=second, outputs=4 * second))
    blocks.append(convolve("downsample 3", half, 3, inputs=last, outputs=last, source=patches))
    fused = network.fusion_channels
    for number, (scale, channels) in enumerate(zip(scales, network.head_channels, strict=True)):
        name = f"features {number}"
        blocks.append(convolve(name, scale, 3, inputs=channels, outputs=fused, biased=False))
    return blocks


def _fusion(fused: int, scales: Sequence[Grid], fine: Grid) -> list[Convolve]:
    """The four fusion blocks, from the deepest feature to the finest.

    Args:
        fused: Channels of the fused features.
        scales: Places of the four features, the finest first.
        fine: Places of the last fused feature.
    """
    blocks = []
    for number in reversed(range(4)):
        scale = scales[number]
        pairs = 1 if number == 3 else 2  # the deepest has nothing to be fused with
        for pair in range(2 * pairs):
            name = f"fusion {number}.{pair}"
            ops = RELU_OPS + RESIDUAL_OPS
            blocks.append(convolve(name, scale, 3, inputs=fused, outputs=fused, ops=ops))
        above = fine if number == 0 else scales[number - 1]
        out = convolve(
            f"fusion {number} out",
            above,
            1,
            inputs=fused,
            outputs=fused,
            ops=BILINEAR_OPS,
            source=scale,
        )
        blocks.append(out)
    return blocks


def _depth(fused: int, fine: Grid, full: Grid) -> list[Convolve]:
    """The convolutions from the last fused feature to a depth map of full size."""
    half = fused // 2
    ops = BILINEAR_OPS + RELU_OPS
    return [
        convolve("depth 0", fine, 3, inputs=fused, outputs=half),
        convolve("depth 1", full, 3, inputs=half, outputs=HEAD_CHANNELS, ops=ops, source=fine),
        convolve("depth 2", full, 1, inputs=HEAD_CHANNELS, outputs=1, ops=RELU_OPS),
    ]
