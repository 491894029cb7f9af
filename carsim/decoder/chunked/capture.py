"""Capture: make the videos of a recipe, really reusing outputs, and keep every decision."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from carsim.decisions.attention import Dense
from carsim.decisions.attention.base import Bools
from carsim.decisions.replay import FASTCAR, Tas
from carsim.decisions.trace.file import Trace, unscored
from carsim.decisions.trace.meta import TraceMeta
from carsim.decisions.trace.token_ranges import forwards_of_calendar
from carsim.decoder.chunked.decode import (
    AcrossFrames,
    AcrossSteps,
    PlacedReuse,
    decode,
    drawn_video,
)
from carsim.decoder.chunked.model import drawn_model
from carsim.decoder.chunked.recipe import ChunkRecipe
from carsim.decoder.chunked.thin import Measured, thinning_of
from carsim.decoder.token_trace import TokenRule, trace_of_scores
from carsim.decoder.workers import Progress


def capture_chunks(recipe: ChunkRecipe, *, progress: Progress | None = None) -> Trace:
    """Make the videos of a recipe.

    Args:
        recipe: The videos.
        progress: Called with videos done and in all.
    """
    model = drawn_model(recipe.network.shape, recipe.network.seed)
    scores = []
    measured: list[Measured] = []
    for number in range(recipe.videos):
        video = drawn_video(
            model.shape, recipe.chunks, recipe.correlation, seed=recipe.seed + number
        )
        reuse = policy_of(recipe)
        thinning = thinning_of(recipe.attention, model.shape)
        decode(model, video, recipe.steps, reuse, thinning)
        measured.append(thinning.measured)
        if isinstance(reuse, AcrossFrames):
            scores.append(np.array(reuse.scores))
        if progress is not None:
            progress(number + 1, recipe.videos)
    meta = _meta(recipe, measured)
    if recipe.tau is not None:
        decided = TokenRule(float(recipe.tau), Tas(form="paper"), recipe.source)
        return trace_of_scores(meta, np.stack(scores, axis=2), decided, recipe.name)
    if recipe.every is not None:
        return _of_calendar(recipe, meta)
    shape = (meta.n_steps, recipe.network.n_layers, recipe.videos)
    return Trace(np.zeros(shape, np.bool_), np.full(shape, np.nan, np.float32), meta)


def policy_of(recipe: ChunkRecipe) -> PlacedReuse | None:
    """The policy of reuse of a recipe, for one video; None: nothing is reused."""
    if recipe.tau is None and recipe.every is None:
        return None
    if recipe.tau is not None:
        return AcrossFrames(
            shape=recipe.network.shape,
            tau=float(recipe.tau),
            across_chunks=recipe.source == "chunk",
            dense_steps=recipe.dense,
        )
    return AcrossSteps(part=recipe.part, reuses=_calendar(recipe))


def _calendar(recipe: ChunkRecipe) -> Bools:
    """Forwards that take outputs from the last one that computed, bool[S]."""
    assert recipe.every is not None
    chunk = forwards_of_calendar(recipe.steps, 1 + recipe.steps, recipe.every, dense=recipe.dense)
    return np.tile(chunk, recipe.chunks)


def _of_calendar(recipe: ChunkRecipe, meta: TraceMeta) -> Trace:
    """A trace of whole forwards that take outputs, as the recipe states."""
    reuses = _calendar(recipe)
    shape = (len(reuses), recipe.network.n_layers, recipe.videos)
    stated = f"one of {recipe.every} denoising steps computes, executed by the reference decoder"
    meta = meta.model_copy(update={"content": {**meta.content, "stated": stated}})
    return unscored(np.broadcast_to(reuses[:, None, None], shape), meta, recipe.name)


def measured_shares(measured: Sequence[Measured]) -> dict[str, float]:
    """Means over videos of the shares that were measured, by name."""
    shares = {}
    for name in Measured._fields:
        of_videos = [getattr(each, name) for each in measured]
        known = [share for share in of_videos if share is not None]
        if known:
            shares[name] = round(float(np.mean(known)), 4)
    return shares


def _meta(recipe: ChunkRecipe, measured: Sequence[Measured]) -> TraceMeta:
    """Metadata of a trace in which whole forwards are steps, each a frame of one token."""
    geometry = recipe.network.geometry
    content: dict[str, Any] = {
        "network": recipe.network.model_dump(),
        "chunks": recipe.chunks,
        "denoising_steps": recipe.steps,
        "correlation": recipe.correlation,
    }
    if not recipe.attention.exact:
        content["attention"] = recipe.attention.model_dump(mode="json")
        content["measured"] = measured_shares(measured)
    return TraceMeta(
        producer="carsim capture",
        producer_version=version("carsim"),
        decoded=geometry,
        simulated=geometry,
        n_frames=recipe.chunks * (recipe.steps + 1),
        tokens_per_frame=1,
        prompt_tokens=0,
        prompt_lengths=(0,) * recipe.videos,
        tau=None,
        rule=FASTCAR,
        attention=Dense(),
        seed=recipe.seed,
        dtype="float64",
        mode="sampled",
        weights=f"random, drawn with seed {recipe.network.seed}",
        content=content,
        command=f"carsim capture {recipe.name}.yaml",
    )
