"""The contract of an attention policy in forwards, held to small networks and the reference."""

from collections.abc import Iterator

import numpy as np

from carsim.account.simulation import Simulation, simulate_policy
from carsim.base.section import FieldError
from carsim.decisions.attention import PLAIN, AttentionPolicy, ForwardShape
from carsim.decoder.chunked.decode import decode, drawn_video
from carsim.decoder.chunked.model import ChunkShape, drawn_model
from carsim.decoder.chunked.thin import thinning_of
from carsim.design import Design
from carsim.machine.phases import FIDELITIES
from carsim.program.diffusion import AttendChunks, forward_shape
from carsim.testing.networks import (
    CORES,
    NETWORKS,
    dense_batches,
    dense_plan,
    network_design,
    sample_of,
    video_of,
)
from carsim.testing.promise import holds

FORWARD_METHODS = (
    "forward_keys",
    "forward_held",
    "forward_work",
    "forward_side_bytes",
    "cross_keys",
    "cross_work",
)
"""Methods that have no effect unless ``masks_forwards`` is True."""

SHAPE = ChunkShape(
    n_layers=2,
    hidden_size=16,
    n_heads=2,
    ffn_size=24,
    frame_tokens=6,
    chunk_frames=2,
    channels=3,
    text_tokens=5,
)
"""Sizes of the network of the reference decoder."""

STEPS = 2
CHUNKS = 3

REFERENCE = "the reference decoder in chunks"
"""Name of the reference decoder among what a policy was not tested in."""


def refusals(policy: AttentionPolicy) -> dict[str, str]:
    """What a policy for forwards refuses to attend to, and why: nothing was tested there."""
    refused: dict[str, str] = {}
    if not policy.masks_forwards:
        return refused
    for made in NETWORKS:
        sample = sample_of(network_design(made))
        try:
            policy.check_forwards(in_chunks=sample.chunk_frames is not None)
        except FieldError as error:
            refused[made] = f"{error.field} {error.problem}"
    if not is_executed(policy):
        refused[REFERENCE] = f"it does not execute {policy.kind!r}"
    return refused


def tried_networks(policy: AttentionPolicy) -> Iterator[Design]:
    """Small networks whose forwards the policy accepts."""
    if not policy.masks_forwards:
        return
    refused = refusals(policy)
    for made in NETWORKS:
        if made not in refused:
            yield network_design(made)


def says_that_it_masks_forwards(policy: AttentionPolicy) -> None:
    """A policy with methods for forwards says so; otherwise no network may name it."""
    if policy.masks_forwards or policy.joins_others:
        return
    written = [
        name
        for name in FORWARD_METHODS
        if getattr(type(policy), name) is not getattr(AttentionPolicy, name)
    ]
    holds(not written, f"masks_forwards is True, as there is {', '.join(written)}")


def is_trivially_dense_in_forwards(policy: AttentionPolicy) -> None:
    """Under ``trivial()``, forwards score all keys, and take as long as dense ones."""
    trivial = type(policy).trivial()
    for design in tried_networks(trivial):
        dense = simulate_policy(dense_plan(design, PLAIN, "fluid"), dense_batches(design))
        own = simulate_policy(dense_plan(design, trivial, "fluid"), dense_batches(design))
        holds(own.cycles == dense.cycles, "trivial() takes as long as dense attention in forwards")
        is_equal = own.activity == dense.activity
        holds(is_equal, "trivial() does the work of dense attention in forwards")


def scores_what_it_says(policy: AttentionPolicy) -> None:
    """A machine multiplies the keys of ``forward_keys`` and the work of ``forward_work``."""
    for design in tried_networks(policy):
        simulations = []
        for fidelity in FIDELITIES:
            plan = dense_plan(design, policy, fidelity)
            simulation = simulate_policy(plan, dense_batches(design))
            holds(simulation.bound_cycles <= simulation.cycles, "no run is faster than its bound")
            simulations.append(simulation)
        activities = [simulation.activity for simulation in simulations]
        holds(activities == [activities[0]] * len(activities), "work depends on no fidelity")
        _products_are_stated(policy, design, simulations[0])


def _products_are_stated(policy: AttentionPolicy, design: Design, simulation: Simulation) -> None:
    """Check the products of self-attention against what the policy states.

    Args:
        policy: The policy.
        design: A small network.
        simulation: All of its forwards.
    """
    rows = design.policy.batch
    least = 0
    most = 0
    for block, layers in simulation.plan.program(decided=False).blocks.items():
        if block.name != "attention":
            continue
        reads = block.reads(simulation.plan.steps_at(np.arange(video_of(design).n_steps)))
        assert reads is not None
        shape = forward_shape(design.model, block.tokens)
        all_keys = np.full_like(reads.attended, block.tokens)
        if isinstance(block, AttendChunks):
            all_keys = np.array(block.keys_of_forward)
        scored = 2 * block.tokens * reads.attended * shape.width
        masked = reads.attended < all_keys
        work = np.broadcast_to(policy.forward_work(shape, all_keys).macs, masked.shape)
        # Products of a policy are dealt to the cores in whole rows of the width of a query.
        rounding = CORES * shape.width
        least += len(layers) * rows * int(scored.sum())
        most += len(layers) * int((rows * (scored + masked * work) + masked * rounding).sum())
    macs = simulation.totals["attention"].macs
    stated = f"{least:,} to {most:,} products, not {macs:,}"
    promise = f"attention multiplies what forward_keys and forward_work say: {stated}"
    holds(least <= macs <= most, promise)


def forwards_stand_alone(policy: AttentionPolicy) -> None:
    """Keys, work and bytes of a forward do not depend on the other forwards that are asked for."""
    if not policy.masks_forwards:
        return
    shape = ForwardShape(queries=24, n_heads=2, n_kv_heads=2, head_dim=8, forwards=5)
    keys = np.array([24, 48, 72, 96])
    done = np.array([0.0, 0.2, 0.5, 0.9])
    scored = policy.forward_keys(shape.queries, keys, done)
    held = policy.forward_held(shape.queries, keys)
    side_bytes = np.asarray(policy.forward_side_bytes(shape, keys))
    for number in range(len(keys)):
        one = slice(number, number + 1)
        alone = policy.forward_keys(shape.queries, keys[one], done[one])
        holds(np.asarray(alone == scored[one]), "forward_keys of a forward depend on it alone")
        holds(policy.forward_held(shape.queries, keys[one]) == held[one], "so does forward_held")
        of_one = np.asarray(policy.forward_side_bytes(shape, keys[one]))
        holds(of_one == side_bytes[one], "so does forward_side_bytes")


def decodes_chunks(policy: AttentionPolicy) -> None:
    """The reference decoder makes a video of finite values; under ``trivial()``, the dense one."""
    if not is_executed(policy):
        return
    model = drawn_model(SHAPE, seed=0)
    video = drawn_video(SHAPE, CHUNKS, correlation=0.5, seed=0)
    made = decode(model, video, STEPS, thinning=thinning_of(policy, SHAPE))
    holds(np.isfinite(made), "a video in chunks has finite values")
    trivial = type(policy).trivial()
    if is_executed(trivial):
        dense = decode(model, video, STEPS)
        own = decode(model, video, STEPS, thinning=thinning_of(trivial, SHAPE))
        holds(own.tobytes() == dense.tobytes(), "trivial() gives the dense video in chunks")


def is_executed(policy: AttentionPolicy) -> bool:
    """The reference decoder executes the policy on a video in chunks."""
    try:
        thinning_of(policy, SHAPE)
    except ValueError:
        return False
    return True


FORWARD_CHECKS = (
    says_that_it_masks_forwards,
    is_trivially_dense_in_forwards,
    scores_what_it_says,
    forwards_stand_alone,
    decodes_chunks,
)
