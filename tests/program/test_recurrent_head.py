"""The recurrent head of Metric3D v2: shapes, oracle, both fidelity levels, bad input."""

from typing import Any

import numpy as np
import pytest
from drawn_forwards import designs
from forward_oracle import ForwardOracle
from hypothesis import given, settings

from carsim import InputError, load_design, run
from carsim.account.simulation import simulate_policy
from carsim.decisions.attention import Dense
from carsim.design import Design, override
from carsim.design.load import for_work
from carsim.hardware.schedule import BASELINE
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.program.convolution import Convolve
from carsim.program.recurrent_head import recurrent_head
from carsim.program.sample import forward_macs, sample_program
from carsim.validate.preset_counts import preset_model
from carsim.workload.geometry import Video
from carsim.workload.network import DepthEncoder
from carsim.workload.ops import Share
from carsim.workload.workload import workload_of

SMALL = "metric3d_vit_small"
"""ViT-S: 12 layers of 384, recurrent units of 48 channels, 4 iterations."""


def head_of(name: str, height: int, width: int) -> list[Convolve]:
    """Convolutions of the head of a preset."""
    model = preset_model(name, f"height={height} width={width}")
    assert isinstance(model.network, DepthEncoder)
    assert model.sample is not None
    return recurrent_head(model.network, model.body.hidden_size, model.sample)


def macs_of(blocks: list[Convolve], *words: str) -> int:
    """Products of the convolutions whose name begins with one of some words."""
    return sum(
        block.tokens * block.side**2 * block.inputs * block.outputs
        for block in blocks
        if block.label_of.startswith(words)
    )


# ------------------------------------------------------------------ shapes by hand


@pytest.mark.parametrize(
    ("words", "gmac"),
    [
        (("readout",), 2.0),
        (("sample",), 2.5),
        (("fusion",), 46.6),
        (("depth",), 11.7),
        (("normal",), 5.9),
        (("state", "context", "gates"), 15.8),
        (("coarse", "middle", "fine", "change", "upsampling"), 58.4),
    ],
)
def test_parts_of_the_head_at_616_x_1064_are_those_of_the_shapes(
    words: tuple[str, ...], gmac: float
) -> None:
    assert macs_of(head_of(SMALL, 616, 1064), *words) / 1e9 == pytest.approx(gmac, abs=0.06)


@pytest.mark.parametrize(
    ("name", "side", "encoder", "head"),
    [
        (SMALL, 252, 8.1, 13.9),
        (SMALL, 504, 43.5, 55.4),
        (SMALL, 1022, 376.7, 227.4),
        ("metric3d_vit_large", 252, 104.9, 128.0),
        ("metric3d_vit_large", 504, 477, 512),
        ("metric3d_vit_large", 1022, 3012, 2102),
    ],
)
def test_encoder_and_head_have_the_products_of_the_shapes(
    name: str, side: int, encoder: float, head: float
) -> None:
    of_head = macs_of(head_of(name, side, side), "")
    total = sum(forward_macs(preset_model(name, f"height={side} width={side}")).values())
    assert of_head / 1e9 == pytest.approx(head, rel=0.01)
    assert (total - of_head) / 1e9 == pytest.approx(encoder, rel=0.01)


def test_an_update_of_the_fine_unit_by_hand() -> None:
    blocks = {block.label_of: block for block in head_of(SMALL, 252, 252)}
    gates, state = blocks["fine gates"], blocks["fine state"]
    places = 63 * 63
    entering = 48 + 48 + 6  # its state, the middle one's, and the six maps
    assert macs_of([gates, state], "fine") == 3 * places * 9 * entering * 48
    assert (gates.beside, state.beside) == (2 * 48, 3 * 48)


def test_an_iteration_updates_three_two_and_one_times() -> None:
    names = [block.label_of for block in head_of(SMALL, 252, 252)]
    for name, times in {"coarse": 3, "middle": 2, "fine": 1}.items():
        assert names.count(f"{name} state") == 4 * times


def test_larger_pictures_leave_out_a_fraction_of_a_place() -> None:
    blocks = {block.label_of: block for block in head_of(SMALL, 1022, 1022)}
    assert blocks["sample 0"].tokens == 255**2  # 73 x 7 / 2 = 255.5


# ------------------------------------------------------------------ drawn


def plan_of(design: Design, fidelity: str = "fluid") -> Plan:
    """The plan of one forward."""
    phases = Phases(Hardware(design), fidelity)
    return Plan(phases, Video(1, 1, 0), Dense(), BASELINE.kind, None, range(1))


def batches_of(design: Design) -> Batches:
    """One forward of each row."""
    shape = (1, 1, design.model.body.n_layers, design.policy.batch)
    return Batches(np.zeros(shape, np.bool_), 1, 0, "dense", "dense")


@given(design=designs(kinds=("recurrent",)))
@settings(max_examples=40)
def test_products_bytes_and_exponentials_equal_the_oracle(design: Design) -> None:
    found = simulate_policy(plan_of(design), batches_of(design)).decode_activity
    counted = ForwardOracle(design).forward()
    assert found.macs == counted["macs"]
    assert sum(found.dram_bytes.values()) == counted["bytes"]
    program = sample_program(design.model, None, decided=False)
    exponentials = 0
    for layer in program.layers:
        for block in layer:
            rows = design.policy.batch * block.tokens
            ops = block.operations(design.model, None)(Share(rows))
            exponentials += sum(int(np.max(op.exponentials)) for op in ops)
    assert exponentials == counted["exponentials"]


@given(design=designs(kinds=("recurrent",)))
@settings(max_examples=20)
def test_fluid_is_near_tile(design: Design) -> None:
    cycles = {
        fidelity: simulate_policy(plan_of(design, fidelity), batches_of(design)).cycles
        for fidelity in ("fluid", "tile")
    }
    assert cycles["fluid"] == pytest.approx(cycles["tile"], rel=0.05)


# ------------------------------------------------------------------ runs


def test_states_and_weights_move_in_each_iteration() -> None:
    design = for_work(load_design("asic_28nm"), workload_of(f"image:{SMALL},252x252"))
    moved_bytes = []
    for iterations in (2, 3, 4):
        changed = override(design, {"model.network.recurrent.iterations": iterations})
        activity = simulate_policy(plan_of(changed), batches_of(changed)).decode_activity
        moved_bytes.append(sum(activity.dram_bytes.values()))
    two, three, four = moved_bytes
    assert four - three == three - two > 0


def vector_ops_of(design: Design) -> int:
    """Element operations of a forward; exponentials are counted as four."""
    return simulate_policy(plan_of(design), batches_of(design)).decode_activity.vector_ops


def test_polishing_takes_a_logarithm_and_an_exponential_of_each_input() -> None:
    design = for_work(load_design("asic_28nm"), workload_of(f"image:{SMALL},252x252"))
    plain = vector_ops_of(design)
    tokens = 18 * 18 + 1 + 4
    of_layers = override(design, {"model.polished": ["qkv", "out", "gate_up", "down"]})
    inputs = 12 * tokens * (384 + 384 + 384 + 1536)
    assert vector_ops_of(of_layers) - plain == 2 * 4 * inputs
    of_head = override(design, {"model.polished": ["convolution"]})
    inputs = 18 * 18 * 3 * 14 * 14  # pixels
    places = {block.label_of: block for block in head_of(SMALL, 252, 252)}
    assert places["sample 0"].entering == 18 * 18
    inputs += sum(block.entering * block.inputs for block in head_of(SMALL, 252, 252))
    assert vector_ops_of(of_head) - plain == 2 * 4 * inputs


def test_tables_of_polished_inputs_come_with_the_weights() -> None:
    design = for_work(load_design("asic_28nm"), workload_of(f"image:{SMALL},252x252"))
    moved_bytes = []
    for polished in ([], ["down"], ["down", "convolution"]):
        changed = override(design, {"model.polished": polished})
        activity = simulate_policy(plan_of(changed), batches_of(changed)).decode_activity
        moved_bytes.append(sum(activity.dram_bytes.values()))
    channels = 3 * 14 * 14 + sum(block.inputs for block in head_of(SMALL, 252, 252))
    plain, down, both = moved_bytes
    assert both - down == 6 * channels
    assert (down - plain) % (12 * 6 * 1536) == 0
    assert down > plain


def test_only_depth_encoders_polish_convolutions() -> None:
    with pytest.raises(InputError, match="polished: convolution is polished, and this model has"):
        load_design("asic_28nm", ["model.polished=[convolution]"])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"head_channels": [96, 192, 384, 768]},
            "model.network.head_channels: [96, 192, 384, 768] does not end with the hidden size",
        ),
        ({"recurrent": {"iterations": 0, "channels": 48}}, "iterations"),
        ({"recurrent": {"iterations": 65, "channels": 48}}, "iterations"),
        ({"recurrent": {"iterations": 4}}, "channels"),
        ({"recurrent": {"iterations": 4, "channels": 48, "scales": 3}}, "scales"),
    ],
)
def test_bad_heads_get_one_line(changes: dict[str, Any], problem: str) -> None:
    base = load_design("asic_28nm", [f"model.preset={SMALL}", "policy.batch=1"])
    with pytest.raises(InputError) as caught:
        override(base, {f"model.network.{name}": value for name, value in changes.items()})
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sides_that_no_patch_divides_are_refused() -> None:
    design = load_design("asic_28nm")
    with pytest.raises(InputError, match="height: 256 is no multiple of 14"):
        run(design, workload=f"image:{SMALL},256x256", allow_misfit=True, what_if=False)
