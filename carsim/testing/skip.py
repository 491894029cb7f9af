"""The contract of a skip, on a small machine: in a decoder, and in networks of forwards.

A skip may be of one of both, such as one of cross-attention, which no decoder has. It is tested
where its ``mark`` accepts the layers, and has to accept those of a decoder or of a network.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from carsim.account.simulation import simulate_policy
from carsim.base.errors import InputError
from carsim.decisions.attention import PLAIN
from carsim.decisions.replay import FASTCAR
from carsim.design import Design
from carsim.hardware.schedule import SCHEDULES, Schedule
from carsim.machine.batches import Batches
from carsim.machine.cases import Cases
from carsim.machine.hardware import Hardware
from carsim.machine.layer_step import take_layer_step
from carsim.machine.phase import Outcome
from carsim.machine.phases import FIDELITIES, Phases
from carsim.machine.plan import Plan
from carsim.program.block import Block
from carsim.program.layers import plain_layers
from carsim.program.program import TOKEN, Layer
from carsim.program.sample import sample_program
from carsim.program.skips import Skip
from carsim.testing.machines import small_design
from carsim.testing.networks import NETWORKS, network_design, video_of
from carsim.testing.promise import holds
from carsim.workload.geometry import Video

TRIED_LAYERS = 256
"""Layers in which a kind must skip something somewhere; no network of today has as many."""

DECODER = "a decoder"
"""A refusal of the layers of the small decoder is found under this name."""

VIDEO = Video(n_frames=3, tokens_per_frame=4, prompt_tokens=3)


def design_that_skips(skip: Skip) -> Design:
    """The small design, with decisions that are known at the query."""
    changes = ["machine.decision_at=q", "policy.batch=4", "machine.cores=2"]
    design = small_design(*changes)
    policy = design.policy.model_copy(update={"skip": skip})
    return design.model_copy(update={"policy": policy})


def refusals(skip: Skip) -> dict[str, str]:
    """What has no blocks that the skip could leave out, and why: nothing was tested there."""
    refused = {}
    try:
        _marked(skip, plain_layers(design_that_skips(skip).model))
    except InputError as error:
        refused[DECODER] = error.problem
    for made in NETWORKS:
        try:
            _marked(skip, unmarked_layers(network_design(made)))
        except InputError as error:
            refused[made] = error.problem
    return refused


def unmarked_layers(design: Design) -> Sequence[Layer]:
    """The layers of a network, of whose blocks none is skipped."""
    return sample_program(design.model, None, decided=False).layers


def _marked(skip: Skip, layers: Sequence[Layer]) -> list[Layer]:
    """The layers as the skip marks them."""
    return [skip.mark(layer, number) for number, layer in enumerate(layers)]


def accepts_some_layers(skip: Skip) -> None:
    """The layers of a decoder or those of a network have what it leaves out."""
    refused = refusals(skip)
    reasons = "; ".join(f"{made}: {problem}" for made, problem in refused.items())
    holds(len(refused) <= len(NETWORKS), f"a decoder or a network can be marked ({reasons})")


def marks(skip: Skip) -> None:
    """Blocks keep their order and their work; equal layers of one number are marked equally."""
    refused = refusals(skip)
    if DECODER not in refused:
        _marks_layers(skip, plain_layers(design_that_skips(skip).model))
    for made in NETWORKS:
        if made not in refused:
            _marks_layers(skip, unmarked_layers(network_design(made)))


def _marks_layers(skip: Skip, plain: Sequence[Layer]) -> None:
    """Check the marks of some layers.

    Args:
        skip: The skip.
        plain: The layers without marks.
    """
    marked = _marked(skip, plain)
    for layer, plain_layer in zip(marked, plain, strict=True):
        names = [block.name for block in layer]
        holds(names == [block.name for block in plain_layer], "blocks keep their order")
        unmarked = tuple(replace(block, follows=None, holds=False) for block in layer)
        holds(unmarked == plain_layer, "marks change nothing but `follows` and `holds`")
        holds([block.follows or not block.holds for block in layer], "what is held is skipped")
    # A kind may skip later layers alone, which the small model does not have.
    last_layer = plain[-1]
    deeper = [skip.mark(last_layer, number) for number in range(len(marked), TRIED_LAYERS)]
    skipped = any(block.follows for layer in [*marked, *deeper] for block in layer)
    tried = f"layers 0 to {TRIED_LAYERS - 1} were tried"
    holds(skipped, f"a block of some layer is skipped; {tried}")
    # Once more, the last layer first, with copies of the blocks.
    for number, plain_layer in reversed(list(enumerate(plain))):
        marked_again = skip.mark(plain_layer, number)
        holds(marked_again == marked[number], "equal layers of one number are marked equally")


def sums_layer_steps(skip: Skip) -> None:
    """A run takes as long as its layer-steps one after the other, at both fidelity levels."""
    refused = refusals(skip)
    if DECODER not in refused:
        design = design_that_skips(skip)
        _sums_layer_steps_of(design, VIDEO, drawn_batches(design, VIDEO))
    for made in NETWORKS:
        if made not in refused:
            design = network_design(made)
            policy = design.policy.model_copy(update={"skip": skip.of_forwards})
            design = design.model_copy(update={"policy": policy})
            video = video_of(design)
            _sums_layer_steps_of(design, video, drawn_batches(design, video))


def drawn_batches(design: Design, video: Video) -> Batches:
    """Decisions of each name that the program knows; the first frame computes."""
    program = Phases(Hardware(design)).program(FASTCAR, decided=True)
    rng = np.random.default_rng(0)
    shape = (1, video.n_steps, design.model.body.n_layers, design.policy.batch)
    drawn = {}
    for name in program.decisions:
        drawn[name] = rng.random(shape) < 0.6
        if design.policy.skip.of_whole_forwards:
            drawn[name][:] = drawn[name][:, :, :1]
        drawn[name][:, : video.tokens_per_frame] = False
    further = {name: replay for name, replay in drawn.items() if name != TOKEN}
    return Batches(drawn[TOKEN], 1, 0, "drawn", "drawn", further=further)


def _sums_layer_steps_of(design: Design, video: Video, batches: Batches) -> None:
    """Check a run against its layer-steps, one after the other.

    Args:
        design: A decoder or network with the skip.
        video: Its steps.
        batches: Decisions.
    """
    replay = batches.replay
    work = []
    for fidelity in FIDELITIES:
        for kind in SCHEDULES:
            phases = Phases(Hardware(design), fidelity)
            plan = Plan(
                phases,
                video,
                attention=PLAIN,
                schedule=kind,
                rule=FASTCAR,
                steps=range(video.n_steps),
            )
            cycles: Counter[str] = Counter()

            def take(block: Block, cases: Cases, schedule: Schedule | None) -> Outcome:
                outcome = phases.of(block, cases, schedule)  # noqa: B023
                cycles[block.name] += int(outcome.cycles[0])  # noqa: B023
                return outcome

            for batch_step_layer in np.ndindex(replay.shape[:3]):
                take_layer_step(plan, batches, batch_step_layer, take)
            simulation = simulate_policy(plan, batches)
            for name, total in cycles.items():
                holds(simulation.totals[name].cycles == total, f"{kind}, {fidelity}: {name}")
            holds(simulation.bound_cycles <= simulation.cycles, "no run is faster than its bound")
            activity = simulation.activity
            work.append((activity.macs, activity.vector_ops, activity.dram_bytes))
    holds(work == [work[0]] * len(work), "work depends on no schedule and no fidelity")


SKIP_CHECKS = (accepts_some_layers, marks, sums_layer_steps)
