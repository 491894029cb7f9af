"""Capture: decode the content of a recipe, really replaying, and keep every decision.

Rows are decoded in groups small enough for the processor's caches, each group in a worker process
that uses one thread, so that neither the number of workers nor that of threads changes a bit.

Quality: the same clips are decoded again with their true tokens fed, so that nothing drifts, under
the recipe's policy and beside it without replay, with dense attention, in the decoder's own
arithmetic. Losses are those of the conditional row without guidance.
"""

import hashlib
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.files import reason
from carsim.decisions.trace import Trace, TraceMeta
from carsim.decisions.trace.meta import MeasuredQuality, PerClip
from carsim.decisions.trace.precision import DecoderPrecision
from carsim.decoder.content import TOKENS_PER_FRAME, Codebook, load_codebook, load_scene
from carsim.decoder.content.videos import need_videos, read_video
from carsim.decoder.group import Decoded, RowGroup, decode_group
from carsim.decoder.model import DecoderModel, load_model
from carsim.decoder.quantise import quantise
from carsim.decoder.recipe import AnyRecipe, Recipe, SceneRecipe, VideoRecipe
from carsim.decoder.structures import Array, Config, DecoderPolicy, Weights
from carsim.decoder.workers import Progress, run_in_workers

GROUP_ROWS = 8
"""Rows decoded together. Part of the result: other group sizes round differently."""

References = dict[bytes, Decoded]
"""Decodings that qualities were measured against, by a hash of all that went into them."""


def capture(
    recipe: Recipe,
    folder: Path,
    *,
    workers: int = 2,
    progress: Progress | None = None,
    references: References | None = None,
) -> Trace:
    """Decode a recipe, and measure the quality it asks for.

    Args:
        recipe: The decoding.
        folder: Where the recipe's files are.
        workers: Processes; changes nothing but the time.
        progress: Called with row-steps done and in all.
        references: Decodings to measure quality against; used and added to, so that recipes of
            the same clips share them.

    Raises:
        InputError: A file of the recipe cannot be used, the extra ``content`` is missing,
            or a worker died.
    """
    check_needs(recipe, folder)
    codebook, groups = prepare(recipe, folder, workers=workers)
    references = {} if references is None else references
    clips = 0 if recipe.quality is None else recipe.quality.clips
    # Whole groups, as other group sizes round differently.
    judged = groups[: -(-2 * clips // len(groups[0].prompts))]
    own = [_true_tokens(group) for group in judged]
    beside = [_dense(group) for group in own]
    found = _decode([*groups, *own, *beside], references, workers, progress)
    references.update({_key(group): found[group] for group in beside})
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
    weights, kept = groups[0].model.source, _kept_tokens(joined("tokens"))
    meta, scores = metadata(recipe, weights, codebook.n_codes, kept, quality), joined("tas")
    reads = {name: [each.kv[name] for each in decoded] for name in decoded[0].kv}
    reads_joined = {name: np.concatenate(parts, axis=-1) for name, parts in reads.items()}
    return Trace(joined("replay"), _kept_scores(recipe, scores), meta, **reads_joined)


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
            problem = f"cannot be read: {reason(error)}"
            cure = f"check recipe {recipe.name}; those of carsim's model are in a checkout alone"
            raise InputError(str(path), problem, cure) from None
    for clip in recipe.clips:
        if isinstance(clip, VideoRecipe):
            need_videos(folder / clip.video)


def prepare(recipe: Recipe, folder: Path, *, workers: int = 0) -> tuple[Codebook, list[RowGroup]]:
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
            given_steps=recipe.fed_frames * TOKENS_PER_FRAME,
            sampling=recipe.sampling,
            seeds=tuple((recipe.seed, 1 + pair) for pair in pairs),
        )

    groups = [
        group_of(range(start, min(start + per_group, recipe.n_rows)))
        for start in range(0, recipe.n_rows, per_group)
    ]
    if recipe.precision is not None:
        clips_used = min(recipe.precision.calibration.clips, len(recipe.clips))
        quantised = _quantised(recipe.precision, group_of(range(2 * clips_used)), workers)
        groups = [replace(group, quantised=quantised) for group in groups]
    return codebook, groups


def _quantised(precision: DecoderPrecision, group: RowGroup, workers: int) -> Weights:
    """Weights in a precision, calibrated on the first frames of a group's clips."""
    steps = min(precision.calibration.frames * TOKENS_PER_FRAME, group.config.n_steps)
    piece = partial(quantise, replace(group, tokens=group.tokens[:steps]), precision)
    total = len(group.prompts) * steps
    return run_in_workers([piece], total=total, workers=min(workers, 1), progress=None)[0]


def _true_tokens(group: RowGroup) -> RowGroup:
    """The group with the tokens of its clips fed throughout."""
    return replace(group, sampling=None, given_steps=group.config.n_steps)


def _dense(group: RowGroup) -> RowGroup:
    """The group without replay, sparse attention or rounding."""
    dense = DecoderPolicy((None,) * group.config.geometry.n_layers)
    return replace(group, policy=dense, quantised=None)


def _key(group: RowGroup) -> bytes:
    """A hash of all that goes into the decoding of a group."""
    return hashlib.sha256(pickle.dumps(group)).digest()


def _decode(
    groups: Iterable[RowGroup], known: References, workers: int, progress: Progress | None
) -> dict[RowGroup, Decoded]:
    """The results of groups, each decoded once and none that is known."""
    keys = {group: _key(group) for group in groups}
    missing = {key: group for group, key in keys.items() if key not in known}
    pieces = [partial(decode_group, group) for group in missing.values()]
    total = sum(group.work for group in missing.values())
    results = run_in_workers(pieces, total=total, workers=workers, progress=progress)
    found = known | dict(zip(missing, results, strict=True))
    return {group: found[key] for group, key in keys.items()}


def metadata(
    recipe: Recipe,
    weights: str,
    n_codes: int,
    kept_tokens: Sequence[float],
    quality: MeasuredQuality | None,
) -> TraceMeta:
    """Metadata of the trace of a recipe.

    Args:
        recipe: The decoding.
        weights: Where the weights came from.
        n_codes: K.
        kept_tokens: Share of tokens equal to those one frame before, for each clip.
        quality: Measured quality, if any.
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
        weights=weights,
        sampling=recipe.sampling and recipe.sampling.model_dump(),
        content=content,
        quality=quality,
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
        raise InputError(
            str(path),
            f"has geometry {model.geometry} and {model.n_codes} codes, the recipe says "
            f"{recipe.decoded} and its codebook {codebook.n_codes}",
            "name the checkpoint, geometry and codebook that belong together",
        )
    return model


def _kept_scores(recipe: Recipe, tas: Array) -> Array:
    """Scores [S, L, B] to multiples of the recipe's step, each on its own side of tau."""
    if recipe.tas_step is None:
        return tas
    coarse = (np.round(tas / recipe.tas_step) * recipe.tas_step).astype(tas.dtype)
    tau = np.array([np.nan if each is None else each for each in recipe.policy.tau])[:, None]
    kept: Array = np.where((coarse > tau) == (tas > tau), coarse, tas)
    return kept


def _kept_tokens(tokens: NDArray[np.int64]) -> list[float]:
    """Share of tokens equal to those at the same place one frame before, per clip."""
    frames = tokens.reshape(-1, TOKENS_PER_FRAME, tokens.shape[1])
    if len(frames) == 1:
        return [0.0] * tokens.shape[1]
    return [round(float(share), 4) for share in (frames[1:] == frames[:-1]).mean(axis=(0, 1))]
