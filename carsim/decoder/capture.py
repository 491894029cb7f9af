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
from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import Replay
from carsim.decisions.trace import Trace
from carsim.decisions.trace.file import Scored
from carsim.decisions.trace.meta import (
    SCHEMA_VERSION,
    TOKEN,
    WIDER_VERSION,
    DecisionMeta,
    MeasuredQuality,
    PerClip,
    TraceMeta,
)
from carsim.decoder.chunked.recipe import ChunkRecipe
from carsim.decoder.content import TOKENS_PER_FRAME, Codebook, load_codebook, load_scene
from carsim.decoder.content.scenes import kept_share
from carsim.decoder.content.videos import need_videos, read_video
from carsim.decoder.group import Decoded, RowGroup, decode_group
from carsim.decoder.model import DecoderModel, load_model
from carsim.decoder.pipeline_recipe import PipelineRecipe
from carsim.decoder.quantise import quantise
from carsim.decoder.recipe import AnyRecipe, Recipe, SceneRecipe, VideoRecipe
from carsim.decoder.skipping import KNOWN_BEHIND
from carsim.decoder.structures import MLP_ALONE, Array, Config, DecoderPolicy
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
    fed_truly: list[RowGroup] = []
    fed_densely: list[RowGroup] = []
    if recipe.quality is not None:
        fed_truly = _fed_true_tokens(groups, recipe.quality.clips)
        dense = DecoderPolicy((None,) * recipe.decoded.n_layers)
        fed_densely = [replace(group, policy=dense, quantised=None) for group in fed_truly]
    # A group whose true tokens are fed in any case is decoded once.
    distinct = list(dict.fromkeys([*groups, *fed_truly, *fed_densely]))
    results = run_in_workers(
        [partial(decode_group, group) for group in distinct],
        total=sum(group.work for group in distinct),
        workers=workers,
        progress=progress,
    )
    decoded_of = dict(zip(distinct, results, strict=True))
    quality = None
    if recipe.quality is not None:
        nats = PerClip(
            own=_losses([decoded_of[group] for group in fed_truly], recipe),
            dense=_losses([decoded_of[group] for group in fed_densely], recipe),
        )
        quality = MeasuredQuality(first_frame=recipe.judged_from, teacher_forced_nats=nats)
    decoded = [decoded_of[group] for group in groups]
    return _trace(recipe, groups[0].model, decoded, quality)


def _fed_true_tokens(groups: list[RowGroup], clips: int) -> list[RowGroup]:
    """The groups of the first clips, fed the true tokens of all steps.

    Groups stay whole, as other group sizes round differently.
    """
    rows_per_group = len(groups[0].prompts)
    first_groups = groups[: -(-2 * clips // rows_per_group)]
    if groups[0].sampling is None:
        return first_groups
    n_steps = groups[0].config.n_steps
    return [replace(group, sampling=None, given_steps=n_steps) for group in first_groups]


def _losses(decoded: list[Decoded], recipe: Recipe) -> tuple[float, ...]:
    """Mean loss of each clip whose quality is measured, in nats per token."""
    assert recipe.quality is not None
    nats = np.concatenate([group.nats for group in decoded], axis=1)  # [S, clips]
    first_step = recipe.judged_from * TOKENS_PER_FRAME
    means = nats[first_step:, : recipe.quality.clips].mean(axis=0)
    return tuple(round(float(mean), 5) for mean in means)


def _trace(
    recipe: Recipe, model: DecoderModel, decoded: list[Decoded], quality: MeasuredQuality | None
) -> Trace:
    """The groups of a recipe as one trace: their rows side by side, in order."""
    tokens = np.concatenate([group.tokens for group in decoded], axis=-1)  # [S, clips]
    codes_of_clips = tokens.T.reshape(len(recipe.clips), -1, TOKENS_PER_FRAME)
    shares = [round(kept_share(codes), 4) for codes in codes_of_clips]
    scored = {name: _scored(recipe, decoded, name) for name in recipe.policy.decisions}
    reads: dict[str, Ints | None] = {
        name: np.concatenate([group.kv[name] for group in decoded], axis=-1)
        for name in decoded[0].kv
    }
    return Trace(
        replay=scored[TOKEN].replay,
        tas=scored[TOKEN].tas,
        meta=metadata(recipe, model.n_codes, shares, weights=model.source, quality=quality),
        further={name: of_name for name, of_name in scored.items() if name != TOKEN},
        kv_tokens=reads.get("kv_tokens"),
        kv_runs=reads.get("kv_runs"),
        kv_held=reads.get("kv_held"),
    )


def _scored(recipe: Recipe, decoded: list[Decoded], name: str) -> Scored:
    """A decision of a recipe by all groups, side by side; scores as its trace keeps them."""
    of_groups = [group.scored(name) for group in decoded]
    tas = np.concatenate([scored.tas for scored in of_groups], axis=-1)
    return Scored(
        replay=np.concatenate([scored.replay for scored in of_groups], axis=-1),
        tas=_to_multiples(tas, recipe.policy.decisions[name], step=recipe.tas_step),
    )


SHIPPED_CONTENT = ("small.safetensors", "codebook_512.npz", "scenes.npz")
"""Files of the small model, which the wheel has, too."""

_PACKAGE = Path(__file__).parents[1]
_SHIPPED_FOLDERS = (
    _PACKAGE / "idea/data",
    _PACKAGE.parent / "studies/proxy",
    _PACKAGE.parent / "traces",
)


def content_file(folder: Path, name: str) -> Path:
    """A file that a recipe names: beside the recipe, else the shipped one of that name.

    Args:
        folder: Folder of the recipe.
        name: As the recipe has it; one of :data:`SHIPPED_CONTENT` may be a shipped file.
    """
    path = folder / name
    if name in SHIPPED_CONTENT and not path.exists():
        shipped = [each / name for each in _SHIPPED_FOLDERS]
        return next((candidate for candidate in shipped if candidate.is_file()), path)
    return path


def check_needs(recipe: AnyRecipe, folder: Path) -> None:
    """Refuse a recipe whose files or libraries are not there, before anything is decoded.

    Raises:
        InputError: One of them is missing.
    """
    if isinstance(recipe, ChunkRecipe):
        return  # its weights and noise are drawn
    if isinstance(recipe, PipelineRecipe):
        from carsim.decoder.hf.pipeline import check_pipeline

        check_pipeline(folder / recipe.weights.diffusers)
        return
    if not isinstance(recipe, Recipe):
        from carsim.decoder.hf.checkpoint import check_checkpoint

        check_checkpoint(folder / recipe.weights.hf)
        return
    names = (recipe.codebook, recipe.scenes, recipe.weights)
    for name in names:
        if name is None:
            continue
        path = content_file(folder, name)
        try:
            path.stat()
        except OSError as error:
            shipped = ", ".join(SHIPPED_CONTENT)
            cure = f"check recipe {recipe.name}; carsim ships {shipped}"
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
    codebook = load_codebook(content_file(folder, recipe.codebook))
    model = _model(recipe, codebook, folder)
    clips = [_codes(clip, recipe, folder, codebook) for clip in recipe.clips]
    tokens = np.stack([codes.ravel() for codes in clips], axis=1)
    config = Config(recipe.decoded, TOKENS_PER_FRAME, recipe.n_frames, dtype=recipe.dtype)
    fed_frames = recipe.n_frames if recipe.given_frames is None else recipe.given_frames
    scopes = {made.scope for made in recipe.policy.decisions.values()}
    per_group = recipe.n_rows if "batch" in scopes else GROUP_ROWS

    def group_of(rows: range) -> RowGroup:
        pairs = range(rows.start // 2, rows.stop // 2)
        pairs_in_group = tuple((row, row + 1) for row in range(0, len(rows), 2))
        return RowGroup(
            config=config,
            policy=replace(recipe.policy, pairs=pairs_in_group),
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
        quantise_first = partial(quantise, first, recipe.precision)
        (quantised,) = run_in_workers(
            [quantise_first], total=1, workers=min(workers, 1), progress=None
        )
        groups = [replace(group, quantised=quantised) for group in groups]
    return groups


def metadata(
    recipe: Recipe,
    n_codes: int,
    kept_tokens: Sequence[float],
    *,
    weights: str,
    quality: MeasuredQuality | None,
) -> TraceMeta:
    """Metadata of the trace of a recipe.

    Args:
        recipe: The decoding.
        n_codes: K.
        kept_tokens: Share of tokens equal to those one frame before, for each clip.
        weights: Source of the model's weights.
        quality: Its measured quality, if any.
    """
    content: dict[str, Any] = {"codes": n_codes}
    if recipe.sampling:
        content["given_frames"] = recipe.given_frames
    if recipe.tas_step:
        content["tas_step"] = recipe.tas_step
    clips = zip(recipe.clips, kept_tokens, strict=True)
    content["clips"] = [clip.model_dump() | {"kept_tokens": share} for clip, share in clips]
    decisions = None
    if recipe.skip != MLP_ALONE:
        decisions = {name: _decision(recipe, name) for name in recipe.policy.decisions}
    return recipe.metadata(
        schema_version=SCHEMA_VERSION if decisions is None else WIDER_VERSION,
        decisions=decisions,
        weights=weights,
        quality=quality,
        tokens_per_frame=TOKENS_PER_FRAME,
        prompt_lengths=tuple(map(len, recipe.prompts)),
        guidance_pairs=recipe.pairs,
        mode="sampled" if recipe.sampling else "teacher_forced",
        sampling=recipe.sampling and recipe.sampling.model_dump(),
        content=content,
    )


def _decision(recipe: Recipe, name: str) -> DecisionMeta:
    """What a decision of a recipe skips; of a further one, also how it was made."""
    skipped = recipe.policy.skipped[name]
    decision = DecisionMeta(
        skip=recipe.skip.kind,
        known=KNOWN_BEHIND[skipped.stage],
        blocks=skipped.blocks,
        holds=skipped.holds,
    )
    if name == TOKEN:
        return decision
    made = recipe.policy.decisions[name]
    tau = recipe.with_exempt_layers(recipe.decisions[name].tau)
    changes = {"rule": made.rule, "tau": tau, "scope": made.scope}
    return decision.model_copy(update=changes)


def _codes(
    clip: SceneRecipe | VideoRecipe, recipe: Recipe, folder: Path, codebook: Codebook
) -> NDArray[np.int64]:
    """Visual tokens of a clip, int64[T, 256]."""
    if isinstance(clip, VideoRecipe):
        return codebook.encode(read_video(folder / clip.video, recipe.n_frames, clip.every))
    assert recipe.scenes is not None
    scenes = content_file(folder, recipe.scenes)
    return load_scene(scenes, clip.scene, recipe.n_frames, codebook.n_codes)


def _model(recipe: Recipe, codebook: Codebook, folder: Path) -> DecoderModel:
    path = content_file(folder, recipe.weights)
    model = load_model(path)
    numbers = recipe.decoded.model_dump(exclude={"name"})
    if model.geometry.model_dump(exclude={"name"}) != numbers or model.n_codes != codebook.n_codes:
        has = f"has geometry {model.geometry} and {model.n_codes} codes, the recipe says"
        cure = "name the checkpoint, geometry and codebook that belong together"
        raise InputError(str(path), f"{has} {recipe.decoded} and {codebook.n_codes}", cure)
    return model


def _to_multiples(tas: Array, made: Replay, step: float | None) -> Array:
    """Scores as multiples of a step, each on its own side of tau.

    Args:
        tas: Scores, [S, L, B].
        made: The decisions that follow from them.
        step: The step; None: scores stay as they are.
    """
    if step is None:
        return tas
    coarse = (np.round(tas / step) * step).astype(tas.dtype)
    return np.where(made.exceeds(coarse) == made.exceeds(tas), coarse, tas)
