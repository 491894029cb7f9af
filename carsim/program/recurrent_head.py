"""The recurrent head of Metric3D v2: depth and normals, refined by gated recurrent units.

Shapes are those of ``mono/model/decode_heads/RAFTDepthNormalDPTDecoder5.py`` of
github.com/YvanYin/Metric3D. Places are at three scales: a quarter, a seventh and a fourteenth of
the picture's side. In an iteration the coarse unit is updated three times, the middle one twice and
the fine one once. A unit of states h takes its inputs x and a context c that does not change::

    z = sigmoid(conv(h, x) + c_z)
    r = sigmoid(conv(h, x) + c_r)
    h = (1 - z) h + z tanh(conv(r h, x) + c_q)

Simplifications: z and r are one convolution, since they have the same inputs; sigmoid and tanh cost
as much as GELU; states and contexts are read where a convolution needs them, and move only if not
all of the operation fits on chip. Every iteration makes upsampled maps, as the published program
does; their weights move as any output does, the maps themselves not at all. The mean over distances
takes element operations.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from carsim.program.convolution import BILINEAR_OPS, RELU_OPS, Convolve, Grid, convolve
from carsim.workload.elements import GELU_OPS, NORM_OPS, RESIDUAL_OPS
from carsim.workload.network import (
    DEPTH_ANCHORS,
    NORMAL_CHANNELS,
    REFINED_CHANNELS,
    UPSAMPLED_NEIGHBOURS,
    UPSAMPLED_SIDE,
    DepthEncoder,
)
from carsim.workload.sample import Sample

POOLING_OPS = 9
"""Per element of a state that enters a coarser unit: a mean over 3 x 3 places."""

BLEND_OPS = 3
"""Per element of a new state: r h, and (1 - z) h + z q in two multiply-adds."""

MEAN_OPS = 1
"""Per weight of a mean: a multiply-add."""


class Unit(NamedTuple):
    """A gated recurrent unit.

    Attributes:
        name: Its scale.
        grid: Its places.
        entering: Channels that enter its convolutions, the state among them.
        sampling_ops: Element operations for each place: states of other scales, pooled or sampled.
    """

    name: str
    grid: Grid
    entering: int
    sampling_ops: int


def recurrent_head(network: DepthEncoder, hidden_size: int, sample: Sample) -> list[Convolve]:
    """The convolutions of the recurrent head, in their order.

    Args:
        network: Channels of features and fusion, and the recurrent units.
        hidden_size: Width of the encoder.
        sample: The picture.
    """
    fine, middle, coarse = (Grid(*scale) for scale in network.scales(sample))
    grids = (fine, middle, coarse)
    blocks = _readout(network, hidden_size, coarse)
    blocks += _sampling(network, hidden_size, grids)
    blocks += _fusion(network, hidden_size, grids)
    blocks += _first_maps(network, fine)
    blocks += _contexts(network, grids)
    assert network.recurrent is not None
    iteration = _iteration(network.recurrent.channels, grids)
    return blocks + network.recurrent.iterations * iteration


def _readout(network: DepthEncoder, width: int, grid: Grid) -> list[Convolve]:
    """Patches of each feature, to which class and registers are added."""
    learned = (1 + network.registers) * width
    row = Grid(1, 1)
    blocks = []
    for number in range(4):
        name = f"readout {number}"
        blocks.append(
            convolve(f"{name} class", row, 1, inputs=learned, outputs=width, biased=False)
        )
        ops = RESIDUAL_OPS + GELU_OPS
        blocks.append(convolve(name, grid, 1, inputs=width, outputs=width, ops=ops))
    return blocks


def _sampling(network: DepthEncoder, width: int, grids: Sequence[Grid]) -> list[Convolve]:
    """Features at the two finer scales: a transposed convolution of 2 x 2, and one of 1 x 1."""
    fine, _, coarse = grids
    to_fine, to_middle, _, _ = network.head_channels
    return [
        convolve("sample 1", coarse, 1, inputs=width, outputs=4 * to_middle),
        convolve("sample 0", fine, 1, inputs=width, outputs=to_fine, source=coarse),
    ]


def _fusion(network: DepthEncoder, width: int, grids: Sequence[Grid]) -> list[Convolve]:
    """Three fusion blocks, from the coarse scale to the fine one."""
    fine, middle, coarse = grids
    channels = network.head_channels[1]
    blocks = _pairs("fusion 2", coarse, width, ["trunk"])
    blocks.append(convolve("fusion 2 out", coarse, 1, inputs=width, outputs=width))
    blocks += _pairs("fusion 1", coarse, width, ["branch", "trunk"])
    blocks.append(
        convolve(
            "fusion 1 out",
            middle,
            1,
            inputs=width,
            outputs=channels,
            ops=BILINEAR_OPS,
            source=coarse,
        )
    )
    blocks += _pairs("fusion 0", middle, channels, ["branch", "trunk"])
    confidences = 2  # of depth and of normals
    blocks.append(
        convolve(
            "fusion 0 out",
            fine,
            1,
            inputs=channels,
            outputs=network.fusion_channels + confidences,
            ops=BILINEAR_OPS,
            source=middle,
        )
    )
    return blocks


def _pairs(name: str, grid: Grid, channels: int, paths: Iterable[str]) -> list[Convolve]:
    """Two convolutions of 3 x 3 on each path, with what they add to."""
    ops = RELU_OPS + RESIDUAL_OPS
    return [
        convolve(f"{name} {path}.{number}", grid, 3, inputs=channels, outputs=channels, ops=ops)
        for path in paths
        for number in range(2)
    ]


def _first_maps(network: DepthEncoder, fine: Grid) -> list[Convolve]:
    """The first depth, a mean over distances, and the first normal."""
    fused = network.fusion_channels
    anchors = DEPTH_ANCHORS
    normal = NORMAL_CHANNELS
    return [
        convolve("depth 0", fine, 3, inputs=fused, outputs=anchors, ops=RELU_OPS),
        convolve(
            "depth 1", fine, 1, inputs=anchors, outputs=anchors, ops=MEAN_OPS, is_softmax=True
        ),
        convolve("normal 0", fine, 3, inputs=fused, outputs=normal, ops=RELU_OPS),
        convolve("normal 1", fine, 1, inputs=normal, outputs=normal, ops=RELU_OPS),
        convolve("normal 2", fine, 1, inputs=normal, outputs=normal, ops=RELU_OPS),
        convolve("normal 3", fine, 1, inputs=normal, outputs=3, ops=NORM_OPS),
    ]


def _contexts(network: DepthEncoder, grids: Sequence[Grid]) -> list[Convolve]:
    """First states and contexts of the units, and what their gates take of the contexts."""
    assert network.recurrent is not None
    states = network.recurrent.channels
    blocks = []
    for number, (grid, channels) in enumerate(zip(grids, network.head_channels[:3], strict=True)):
        for what in ("state", "context"):
            name = f"{what} {number}"
            ops = NORM_OPS + RELU_OPS
            blocks.append(convolve(f"{name}.0", grid, 3, inputs=channels, outputs=states, ops=ops))
            if channels != states:  # the residual is projected
                blocks.append(
                    convolve(
                        f"{name} short", grid, 1, inputs=channels, outputs=states, ops=NORM_OPS
                    )
                )
            # The residual joins behind the second convolution, before one more ReLU.
            ops = NORM_OPS + 2 * RELU_OPS + RESIDUAL_OPS
            block = convolve(
                f"{name}.1", grid, 3, inputs=states, outputs=states, ops=ops, beside=states
            )
            blocks.append(block)
            ops = GELU_OPS if what == "state" else RELU_OPS
            blocks.append(convolve(f"{name}.2", grid, 3, inputs=states, outputs=states, ops=ops))
        blocks.append(convolve(f"gates {number}", grid, 3, inputs=states, outputs=3 * states))
    return blocks


def _iteration(states: int, grids: Sequence[Grid]) -> list[Convolve]:
    """One update of depth and normals: all recurrent units, and what follows from the fine one."""
    fine, middle, coarse = grids
    coarse_unit = Unit("coarse", coarse, 2 * states, POOLING_OPS * states)
    both = POOLING_OPS + BILINEAR_OPS + BILINEAR_OPS  # the pooled state is sampled to its size
    middle_unit = Unit("middle", middle, 3 * states, both * states)
    fine_unit = Unit("fine", fine, 2 * states + REFINED_CHANNELS, BILINEAR_OPS * states)
    order = (coarse_unit, coarse_unit, middle_unit, coarse_unit, middle_unit, fine_unit)
    blocks = [conv for unit in order for conv in _update(unit, states)]
    ops = RELU_OPS
    blocks += [
        convolve("change of depth 0", fine, 3, inputs=states, outputs=states, ops=ops),
        convolve("change of depth 1", fine, 3, inputs=states, outputs=2, ops=RESIDUAL_OPS),
        convolve("change of normals 0", fine, 3, inputs=states, outputs=states, ops=ops),
        convolve(
            "change of normals 1",
            fine,
            3,
            inputs=states,
            outputs=REFINED_CHANNELS - 2,
            ops=RESIDUAL_OPS,
        ),
        convolve("upsampling 0", fine, 3, inputs=states, outputs=states, ops=ops),
        convolve(
            "upsampling 1",
            fine,
            1,
            inputs=states,
            outputs=UPSAMPLED_SIDE**2 * UPSAMPLED_NEIGHBOURS,
            ops=1 + MEAN_OPS * REFINED_CHANNELS,  # weights are scaled, then used for each map
            is_softmax=True,
        ),
    ]
    return blocks


def _update(unit: Unit, states: int) -> list[Convolve]:
    """Both gates of a unit, then its new state."""
    gates = 2 * states
    # Sampled once for both convolutions, and charged to the first.
    sampling_ops = -(-unit.sampling_ops // gates)
    return [
        convolve(
            f"{unit.name} gates",
            unit.grid,
            3,
            inputs=unit.entering,
            outputs=gates,
            ops=sampling_ops + RESIDUAL_OPS + GELU_OPS,
            beside=gates,  # their parts of the context
        ),
        convolve(
            f"{unit.name} state",
            unit.grid,
            3,
            inputs=unit.entering,
            outputs=states,
            ops=RESIDUAL_OPS + GELU_OPS + BLEND_OPS,
            beside=3 * states,  # context, update gate, last state
        ),
    ]
