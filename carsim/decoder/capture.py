"""Capture: decode the content of a recipe, really replaying, and keep every decision.

Rows are decoded in groups small enough for the processor's caches, each group in a worker process
that uses one thread, so that neither the number of workers nor that of threads changes a bit.

Quality: the same clips are decoded again with their true tokens fed, so that nothing drifts, under
the recipe's policy and beside it without replay, with dense attention, in the decoder's own
arithmetic. Losses are those of the conditional row without guidance.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.files import reason
from carsim.decisions.trace import Trace
from carsim.decisions.trace.meta import MeasuredQuality, PerClip, TraceMeta
from carsim.decoder.content import TOKENS_PER_FRAME, Codebook, load_codebook, load_scene
from carsim.decoder.content.scenes import kept_share
from carsim.decoder.content.videos import need_videos, read_video
from carsim.decoder.group import RowGroup, decode_group
from carsim.decoder.model import DecoderModel, load_model
from carsim.decoder.quantise import quantise
from carsim.decoder.recipe import AnyRecipe, Recipe, SceneRecipe, VideoRecipe
from carsim.decoder.structures import Array, Config, DecoderPolicy
from carsim.decoder.workers import Progress, run_in_workers

GROUP_ROWS = 8
"""Rows decoded together. Part of the result: other group sizes round differently."""


def capture(
    recipe: Recipe, folder: Path, *, workers: int = 2, progress: Progress | None = None
) -> Trace:
    """Decode a recipe, and measure the quality it asks for.

    Args:
        recipe: The decoding.
        folder: Where the recipe's files are.
        workers: Processes; changes nothing but the time.
        progress: Called with row-steps done and in all.

    Raises:
        InputError: A file of the recipe cannot be used, the extra ``content`` is missing,
            or a worker died.
    """
    check_needs(recipe, folder)
    groups = prepare(recipe, folder, workers=workers)
    clips = 0 if recipe.quality is None else recipe.quality.clips
    # Whole groups, as other group sizes round differently.
    own = groups[: -(-2 * clips // len(groups[0].prompts))]
    if recipe.sampling:  # else true tokens are fed in any case
        own = [replace(group, sampling=None, given_steps=groups[0].config.n_steps) for group in own]
    dense = DecoderPolicy((None,) * recipe.decoded.n_layers)
    beside = [replace(group, policy=dense, quantised=None) for group in own]
    todo = list(dict.fromkeys([*groups, *own, *beside]))
    pieces = [partial(decode_group, group) for group in todo]
    total = sum(group.work for group in todo)
    results = run_in_workers(pieces, total=total, workers=workers, progress=progress)
    found = dict(zip(todo, results, strict=True))
    decoded = [found[group] for group in groups]

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(each, name) for each in decoded], axis=-1)

    def losses(judging: list[RowGroup]) -> tuple[float, ...]:
        nats = np.concatenate([found[group].nats for group in judging], axis=1)
        means = nats[recipe.judged_from * TOKENS_PER_FRAME :, :clips].mean(axis=0)
        return tuple(round(float(mean), 5) for mean in means)

    quality = None
    if recipe.quality is not None:
        nats = PerClip(own=losses(own), dense=losses(beside))
        quality = MeasuredQuality(first_frame=recipe.judged_from, teacher_forced_nats=nats)
    clips_seen = joined("tokens").T.reshape(len(recipe.clips), -1, TOKENS_PER_FRAME)
    kept = [round(kept_share(codes), 4) for codes in clips_seen]
    model = groups[0].model
    meta = metadata(recipe, model.n_codes, kept, weights=model.source, quality=quality)
    reads = {
        name: np.concatenate([each.kv[name] for each in decoded], axis=-1) for name in decoded[0].kv
    }
    return Trace(joined("replay"), _kept_scores(recipe, joined("tas")), meta, **reads)


def check_needs(recipe: AnyRecipe, folder: Path) -> None:
    """Refuse a recipe whose files or libraries are not there, before anything is decoded.

    Raises:
        InputError: One of them is missing.
    """
    if not isinstance(recipe, Recipe):
        from carsim.decoder.hf.checkpoint import check_checkpoint

        check_checkpoint(folder / recipe.weights.hf)
        return
    names = (recipe.codebook, recipe.scenes, recipe.weights)
    for path in (folder / name for name in names if name is not None):
        try:
            path.stat()
        except OSError as error:
            cure = f"check recipe {recipe.name}; those of carsim's model are in a checkout alone"
            raise InputError(str(path), f"cannot be read: {reason(error)}", cure) from None
    for clip in recipe.clips:
        if isinstance(clip, VideoRecipe):
            need_videos(folder / clip.video)


def prepare(recipe: Recipe, folder: Path, *, workers: int = 0) -> list[RowGroup]:
    """Read the files of a recipe, and put its rows into groups that are decoded together.

    Rows go by :data:`GROUP_ROWS`; all together where the whole batch decides as one. Weights in
    another precision are made here, once for all groups.

    Args:
        recipe: The decoding.
        folder: Where the recipe's files are.
        workers: 0 calibrates the precision in this process, with the threads it has, else a worker
            does.

    Raises:
        InputError: A file of the recipe cannot be used, or the extra ``content`` is missing.
    """
    codebook = load_codebook(folder / recipe.codebook)
    model = _model(recipe, codebook, folder)
    clips = [_codes(clip, recipe, folder, codebook) for clip in recipe.clips]
    tokens = np.stack([codes.ravel() for codes in clips], axis=1)
    config = Config(recipe.decoded, TOKENS_PER_FRAME, recipe.n_frames, dtype=recipe.dtype)
    fed_frames = recipe.n_frames if recipe.given_frames is None else recipe.given_frames
    per_group = recipe.n_rows if recipe.decision_scope == "batch" else GROUP_ROWS

    def group_of(rows: range) -> RowGroup:
        pairs = range(rows.start // 2, rows.stop // 2)
        own = tuple((row, row + 1) for row in range(0, len(rows), 2))
        return RowGroup(
            config=config,
            policy=replace(recipe.policy, pairs=own),
            model=model,
            prompts=recipe.prompts[rows.start : rows.stop],
            prompt_tokens=recipe.prompt_tokens,
            tokens=tokens[:, pairs.start : pairs.stop],
            given_steps=fed_frames * TOKENS_PER_FRAME,
            sampling=recipe.sampling,
            seeds=tuple((recipe.seed, 1 + pair) for pair in pairs),
        )

    rows = range(recipe.n_rows)
    groups = [group_of(rows[n : n + per_group]) for n in rows[::per_group]]
    if recipe.precision is not None:
        sample = recipe.precision.calibration
        first = group_of(range(2 * min(sample.clips, len(recipe.clips))))
        first = replace(first, tokens=first.tokens[: sample.frames * TOKENS_PER_FRAME])
        piece, at_once = partial(quantise, first, recipe.precision), min(workers, 1)
        (quantised,) = run_in_workers([piece], total=1, workers=at_once, progress=None)
        groups = [replace(group, quantised=quantised) for group in groups]
    return groups


def metadata(recipe: Recipe, n_codes: int, kept_tokens: Sequence[float], **more: Any) -> TraceMeta:
    """Metadata of the trace of a recipe.

    Args:
        recipe: The decoding.
        n_codes: K.
        kept_tokens: Share of tokens equal to those one frame before, for each clip.
        more: What the recipe does not say: ``weights``, and ``quality``, if any.
    """
    content: dict[str, Any] = {"codes": n_codes}
    if recipe.sampling:
        content["given_frames"] = recipe.given_frames
    if recipe.tas_step:
        content["tas_step"] = recipe.tas_step
    clips = zip(recipe.clips, kept_tokens, strict=True)
    content["clips"] = [clip.model_dump() | {"kept_tokens": share} for clip, share in clips]
    return recipe.metadata(
        tokens_per_frame=TOKENS_PER_FRAME,
        prompt_lengths=tuple(map(len, recipe.prompts)),
        guidance_pairs=recipe.pairs,
        mode="sampled" if recipe.sampling else "teacher_forced",
        sampling=recipe.sampling and recipe.sampling.model_dump(),
        content=content,
        **more,
    )


def _codes(
    clip: SceneRecipe | VideoRecipe, recipe: Recipe, folder: Path, codebook: Codebook
) -> NDArray[np.int64]:
    """Visual tokens of a clip, int64[T, 256]."""
    if isinstance(clip, VideoRecipe):
        return codebook.encode(read_video(folder / clip.video, recipe.n_frames, clip.every))
    assert recipe.scenes is not None
    return load_scene(folder / recipe.scenes, clip.scene, recipe.n_frames, codebook.n_codes)


def _model(recipe: Recipe, codebook: Codebook, folder: Path) -> DecoderModel:
    path = folder / recipe.weights
    model = load_model(path)
    numbers = recipe.decoded.model_dump(exclude={"name"})
    if model.geometry.model_dump(exclude={"name"}) != numbers or model.n_codes != codebook.n_codes:
        has = f"has geometry {model.geometry} and {model.n_codes} codes, the recipe says"
        cure = "name the checkpoint, geometry and codebook that belong together"
        raise InputError(str(path), f"{has} {recipe.decoded} and {codebook.n_codes}", cure)
    return model


def _kept_scores(recipe: Recipe, tas: Array) -> Array:
    """Scores [S, L, B] to multiples of the recipe's step, each on its own side of tau."""
    if recipe.tas_step is None:
        return tas
    coarse = (np.round(tas / recipe.tas_step) * recipe.tas_step).astype(tas.dtype)
    exceeds = recipe.policy.exceeds
    return np.where(exceeds(coarse) == exceeds(tas), coarse, tas)
