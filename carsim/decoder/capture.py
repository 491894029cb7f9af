"""Capture: decode the content of a recipe, really replaying, and keep every decision.

Rows are decoded in groups small enough for the processor's caches, each group in a worker process
that uses one thread, so that neither the number of workers nor that of threads changes a bit.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.content import TOKENS_PER_FRAME, Clip, Codebook, load_codebook, make_clip
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.model import Model, load_model, random_model
from carsim.decoder.recipe import Recipe, Sampling
from carsim.decoder.structures import Array, Config, LayerRecord, Policy, stack_weights
from carsim.decoder.workers import Progress, run_in_workers
from carsim.errors import InputError
from carsim.trace import Trace, TraceMeta

GROUP_ROWS = 8
"""Rows decoded together. Part of the result: other group sizes round differently."""


@dataclass(frozen=True, eq=False)
class Group:
    """Rows that are decoded together: whole guidance pairs.

    Attributes:
        config: Shapes and arithmetic.
        policy: What is skipped; its pairs count from this group's first row.
        model: Weights and embeddings.
        prompts: Prompt bytes of each row.
        prompt_tokens: P.
        tokens: int64[S, pairs], the visual tokens of each pair's clip.
        sampling: Present: tokens are sampled instead.
        seeds: One per pair, for sampling.
    """

    config: Config
    policy: Policy
    model: Model
    prompts: tuple[bytes, ...]
    prompt_tokens: int
    tokens: NDArray[np.int64]
    sampling: Sampling | None
    seeds: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Decoded:
    """What decoding a group gave.

    Attributes:
        replay: bool[S, L, B].
        tas: [S, L, B] in the arithmetic of the decoder, NaN where not evaluated.
        tokens: int64[S, pairs], given or sampled.
    """

    replay: NDArray[np.bool_]
    tas: Array
    tokens: NDArray[np.int64]


def capture(
    recipe: Recipe, folder: Path, *, workers: int = 2, progress: Progress | None = None
) -> Trace:
    """Decode a recipe.

    Args:
        recipe: What to decode.
        folder: Where the recipe's files are.
        workers: Processes; changes nothing but the time.
        progress: Told how far it is.

    Raises:
        InputError: A file of the recipe cannot be used, the extra ``carsim[content]`` is missing,
            or a worker died.
    """
    codebook = load_codebook(folder / recipe.codebook)
    model = _model(recipe, codebook, folder)
    clips = [Clip(**clip.model_dump()) for clip in recipe.clips]
    tokens = np.stack(
        [codebook.encode(make_clip(clip, recipe.n_frames)).ravel() for clip in clips], axis=1
    )
    decoded = run_in_workers(
        [partial(decode_group, group) for group in _groups(recipe, model, tokens)],
        total=recipe.n_rows * recipe.n_steps,
        workers=workers,
        progress=progress,
    )
    kept = np.concatenate([group.tokens for group in decoded], axis=1)
    return Trace(
        replay=np.concatenate([group.replay for group in decoded], axis=2),
        tas=np.concatenate([group.tas for group in decoded], axis=2),
        meta=TraceMeta(
            producer="carsim capture",
            producer_version=version("carsim"),
            decoded=recipe.decoded,
            n_frames=recipe.n_frames,
            tokens_per_frame=TOKENS_PER_FRAME,
            prompt_tokens=recipe.prompt_tokens,
            prompt_lengths=tuple(len(prompt) for prompt in recipe.prompts),
            tau=recipe.tau,
            tas_form=recipe.tas_form,
            attention=recipe.attention,
            seed=recipe.seed,
            guidance_pairs=recipe.pairs,
            decision_scope=recipe.decision_scope,
            dtype=recipe.dtype,
            mode="sampled" if recipe.sampling else "teacher_forced",
            weights=model.source,
            sampling=recipe.sampling.model_dump() if recipe.sampling else None,
            content={
                "codes": codebook.n_codes,
                "clips": [
                    asdict(clip) | {"kept_tokens": share}
                    for clip, share in zip(clips, _kept_tokens(kept), strict=True)
                ],
            },
            command=f"carsim capture {recipe.name}.yaml",
        ),
    )


def decode_group(group: Group, advance: Callable[[int], None]) -> Decoded:
    """Decode one group of rows step by step.

    The step that yields token s is fed token s - 1; the first is fed ``begin``.

    Args:
        group: What to decode.
        advance: Told after each step how many rows it advanced.
    """
    config, model = group.config, group.model
    n_steps, rows = config.n_steps, len(group.prompts)
    weights = stack_weights(config, model.arrays)
    visual = model.arrays["embed_visual"].astype(config.dtype)  # [K, d]
    prompt, mask = _embed_prompts(group)
    state, _ = prefill(config, group.policy, weights, prompt, mask)
    shape = (n_steps, config.geometry.n_layers, rows)
    replay, tas = np.zeros(shape, bool), np.full(shape, np.nan, config.dtype)
    tokens = group.tokens.copy()
    draw = _sampler(group) if group.sampling else None

    def record(seen: LayerRecord) -> None:
        replay[seen.step, seen.layer] = seen.replay
        if seen.tas is not None:
            tas[seen.step, seen.layer] = seen.tas

    x = np.tile(model.arrays["begin"].astype(config.dtype), (rows, 1))
    for step in range(n_steps):
        hidden = decode_step(config, group.policy, weights, state, x, record)
        if draw:
            tokens[step] = draw(hidden)
        x = visual[np.repeat(tokens[step], 2)]  # both rows of a pair see the same token
        advance(rows)
    return Decoded(replay, tas, tokens)


def _embed_prompts(group: Group) -> tuple[Array, NDArray[np.bool_]]:
    """Left-padded embeddings [B, P, d] and their mask [B, P]; padding is zero."""
    text = group.model.arrays["embed_text"].astype(group.config.dtype)
    mask = np.zeros((len(group.prompts), group.prompt_tokens), bool)
    embedded = np.zeros((*mask.shape, text.shape[1]), text.dtype)
    for row, prompt in enumerate(group.prompts):
        mask[row, -len(prompt) :] = True
        embedded[row, -len(prompt) :] = text[list(prompt)]
    return embedded, mask


def _sampler(group: Group) -> Callable[[Array], NDArray[np.int64]]:
    """Draw one token per guidance pair from its mixed logits."""
    assert group.sampling is not None
    temperature, scale = group.sampling.temperature, group.sampling.guidance_scale
    head = group.model.arrays["head"].astype(np.float64).T  # [d, K]
    generators = [np.random.default_rng(seed) for seed in group.seeds]

    def draw(hidden: Array) -> NDArray[np.int64]:
        logits = hidden.astype(np.float64) @ head  # [B, K]
        conditional, blank = logits[0::2], logits[1::2]
        mixed = (blank + scale * (conditional - blank)) / temperature
        odds = np.exp(mixed - mixed.max(axis=1, keepdims=True)).cumsum(axis=1)
        return np.array(
            [
                np.searchsorted(row, rng.random() * row[-1], side="right")
                for row, rng in zip(odds, generators, strict=True)
            ]
        )

    return draw


def _model(recipe: Recipe, codebook: Codebook, folder: Path) -> Model:
    if recipe.weights == "random":
        return random_model(recipe.decoded, codebook, recipe.seed)
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


def _groups(recipe: Recipe, model: Model, tokens: NDArray[np.int64]) -> list[Group]:
    """Rows in groups of :data:`GROUP_ROWS`; all together where the whole batch decides as one."""
    config = Config(recipe.decoded, TOKENS_PER_FRAME, recipe.n_frames, dtype=recipe.dtype)
    per_group = recipe.n_rows if recipe.decision_scope == "batch" else GROUP_ROWS
    groups = []
    for start in range(0, recipe.n_rows, per_group):
        rows = range(start, min(start + per_group, recipe.n_rows))
        pairs = range(start // 2, rows.stop // 2)
        groups.append(
            Group(
                config=config,
                policy=Policy(
                    recipe.policy.tau,
                    recipe.tas_form,
                    recipe.attention,
                    recipe.decision_scope,
                    tuple((row, row + 1) for row in range(0, len(rows), 2)),
                ),
                model=model,
                prompts=recipe.prompts[rows.start : rows.stop],
                prompt_tokens=recipe.prompt_tokens,
                tokens=tokens[:, pairs.start : pairs.stop],
                sampling=recipe.sampling,
                seeds=tuple((recipe.seed, 1 + pair) for pair in pairs),
            )
        )
    return groups


def _kept_tokens(tokens: NDArray[np.int64]) -> list[float]:
    """Share of tokens equal to those at the same place one frame before, per clip."""
    frames = tokens.reshape(-1, TOKENS_PER_FRAME, tokens.shape[1])
    if len(frames) == 1:
        return [0.0] * tokens.shape[1]
    return [round(float(share), 4) for share in (frames[1:] == frames[:-1]).mean(axis=(0, 1))]
