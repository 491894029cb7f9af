"""All phases of a run: the prompt, then the layer-steps, and head and host at the end of each step.

Nothing crosses a phase, so that each distinct phase is taken once. A run is a list of visits: which
phases occur, and how often in each batch. :mod:`carsim.account.simulation` adds them up.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from carsim.machine.batches import Batches
from carsim.machine.cases import Cases
from carsim.machine.plan import Plan
from carsim.machine.visits import Visits, counted
from carsim.machine.walk import Walk
from carsim.program.layers import prompt_caches
from carsim.program.sample import text_block


def visit_phases(plan: Plan, batches: Batches, *, detail: bool = False) -> Iterator[Visits]:
    """Take every distinct phase of a run, and count how often each occurs.

    Args:
        plan: Policy, machine of D designs, video and the steps of it to simulate.
        batches: Decisions, bool[G, S, L, B].
        detail: Keep the outcome of each layer-step.
    """
    yield from visit_prompt(plan)
    yield from visit_layer_steps(plan, batches, detail=detail)
    yield from visit_step_ends(plan, batches)
    yield from visit_pixels(plan)


def visit_prompt(plan: Plan) -> Iterator[Visits]:
    """The prompt, layer by layer; of a sample its text."""
    if plan.machine.model.network is not None:
        yield from _visit_text(plan)
        return
    tokens = plan.video.prompt_tokens
    model = plan.machine.model
    caches = prompt_caches(model, plan.attention, plan.video)
    kinds = Counter((model.kind_of(layer), cache) for layer, cache in enumerate(caches))
    for (kind, cache), layers in kinds.items():
        outcome = plan.phases.prefill_layer(tokens, kind, cache)
        counts = np.array([[[layers if tokens else 0]]])
        yield Visits(name="prefill", outcome=outcome, counts=counts, counts_to_first_token=counts)


def _visit_text(plan: Plan) -> Iterator[Visits]:
    """The stated text encoder, and the block that prepares each prompt of a sample."""
    once = np.ones((1, 1, 1), np.int64)
    model = plan.machine.model
    assert model.sample is not None
    encoder = plan.phases.seconds(model.sample.encoder_s)
    yield Visits(name="prefill", outcome=encoder, counts=once, counts_to_first_token=once)
    block = text_block(model)
    if block is not None:
        outcome = plan.phases.of(block, Cases())
        yield Visits(
            name="prefill",
            outcome=outcome,
            counts=model.sample.prompts * once,
            counts_to_first_token=once,
        )


def visit_pixels(plan: Plan) -> Iterator[Visits]:
    """The pixel decoder, once a sample or chunk."""
    sample = plan.machine.model.sample
    if sample is not None and sample.decoder_s:
        once = np.ones((1, 1, 1), np.int64)
        yield Visits(
            name="pixels",
            outcome=plan.phases.seconds(sample.decoder_s),
            counts=sample.chunks * once,
            counts_to_first_token=once,
        )


def visit_layer_steps(plan: Plan, batches: Batches, *, detail: bool) -> Iterator[Visits]:
    """The layer-steps: those before anything is decided, then those with decisions."""
    for part in plan.parts(batches):
        walk = Walk(
            plan=part.plan,
            program=part.program,
            decisions=part.batches.by_name(part.program.decisions),
            recorded=batches.reads,
            steps=part.steps,
            detail=detail,
        )
        yield from walk.visits()


def visit_step_ends(plan: Plan, batches: Batches) -> Iterator[Visits]:
    """Head and host, once a step; the host starts no kernels of blocks that nobody computes."""
    n_steps = len(plan.steps)
    if plan.machine.include_head:
        once = np.ones((1, 1, 1), np.int64)
        yield Visits(
            name="head",
            outcome=plan.phases.head,
            counts=once * n_steps,
            counts_to_first_token=once,
            outcome_of=np.zeros((1, n_steps, 1), np.intp),
        )
    if plan.machine.host_cycles.any():
        idle_layers = np.zeros((1, n_steps), np.int64)
        if plan.phases.skipped_launch_cycles.any():
            idle_layers = plan.idle_layers(batches)
        numbers, case_of = np.unique(idle_layers, return_inverse=True)
        case_of = case_of.reshape(idle_layers.shape)[..., None]
        yield Visits(
            name="host",
            outcome=plan.phases.host(numbers),
            counts=counted(case_of[None], len(numbers)),
            counts_to_first_token=counted(case_of[None, :, : plan.first_steps], len(numbers)),
            outcome_of=case_of,
        )
