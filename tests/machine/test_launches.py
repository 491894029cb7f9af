"""The launches of MLPs, which are saved where no sequence computes the MLP."""

from fractions import Fraction

import numpy as np
import pytest
from strategies import EXPERTS, LATENTS, Case, small_design

from carsim.design import override
from carsim.hardware.schedule import SCHEDULES
from carsim.program.layers import decoder_program
from carsim.program.skips import SkipMlp
from carsim.workload.body import Body
from carsim.workload.geometry import Video

VIDEO = Video(2, 4, 1)
LAYER_US = 7.0


def host_cycles(replay, overheads, fidelity="fluid", **machine) -> int:
    """Cycles of the host in a video whose decisions are bool[G, S, L, B]."""
    changes = {"machine.overheads": overheads, "machine.cores": 2, **machine}
    case = Case(override(small_design(), changes), VIDEO, schedule="drs", replay=replay)
    return Case(**{**vars(case), "fidelity": fidelity}).simulate().totals["host"].cycles


def test_the_launches_of_an_mlp_are_saved_where_all_replay() -> None:
    design = small_design()
    layers, batch = design.model.body.n_layers, design.policy.batch
    replay = np.zeros((1, VIDEO.n_steps, layers, batch), np.bool_)
    overheads = {"layer_us": LAYER_US, "step_us": 2.5}
    dense = host_cycles(replay, overheads)
    replay[0, 5, 1] = True  # one layer-step in which all replay
    replay[0, 6, :, 1:] = True  # steps in which one sequence computes save nothing
    one = Fraction(LAYER_US) * Fraction(3, 7) * Fraction(design.board.fabric_clock_mhz)
    for fidelity in ("fluid", "tile"):
        assert host_cycles(replay, overheads, fidelity) == dense - int(one)
    assert host_cycles(replay, {"step_us": 2.5}) == host_cycles(~replay & False, {"step_us": 2.5})


@pytest.mark.parametrize("control", ["bare_metal", "hls_host", "firmware", "gpu_graph"])
def test_they_are_saved_whatever_starts_kernels(control: str) -> None:
    design = small_design()
    shape = (1, VIDEO.n_steps, design.model.body.n_layers, design.policy.batch)
    replay = np.zeros(shape, np.bool_)
    replay[:, VIDEO.tokens_per_frame :] = True
    overheads = {"layer_us": LAYER_US, "control": control}
    dense = host_cycles(np.zeros(shape, np.bool_), overheads)
    skipped = (VIDEO.n_steps - VIDEO.tokens_per_frame) * shape[2]
    one = int(Fraction(LAYER_US) * Fraction(3, 7) * Fraction(design.board.fabric_clock_mhz))
    assert host_cycles(replay, overheads) == dense - skipped * one


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_decision_of_nobody_costs_no_launch_under_any_schedule(schedule: str) -> None:
    design = small_design(overheads={"layer_us": LAYER_US})
    shape = (1, VIDEO.n_steps, design.model.body.n_layers, design.policy.batch)
    replay = np.zeros(shape, np.bool_)
    case = Case(design, VIDEO, schedule=schedule, replay=replay)
    dense = Case(design, VIDEO, schedule=schedule)
    assert case.simulate().totals["host"].cycles == dense.simulate().totals["host"].cycles


BODY = {"n_layers": 4, "hidden_size": 8, "n_heads": 2, "n_kv_heads": 1, "ffn_size": 8}


@pytest.mark.parametrize(
    ("body", "share"),
    [
        ({}, Fraction(3, 7)),
        ({"mlp": "plain"}, Fraction(2, 6)),
        ({"experts": EXPERTS[1]}, Fraction(4, 8)),  # a router, and three products
        ({"experts": EXPERTS[2]}, Fraction(7, 11)),  # and three of shared experts
        (
            {"experts": {**EXPERTS[1], "dense_layers": 1, "dense_ffn_size": 8}},
            Fraction(3 + 3 * 4, 7 + 3 * 8),
        ),
        ({"latent": LATENTS[0]}, Fraction(3, 8)),
        ({"latent": LATENTS[1]}, Fraction(3, 9)),
    ],
)
def test_the_share_follows_from_the_model(body: dict, share: Fraction) -> None:
    model = small_design().model.model_copy(update={"body": Body(**{**BODY, **body})})
    program = decoder_program(model, SkipMlp(), None, decided=False)
    assert Fraction(*program.skipped_share_of_products(model)) == share
