"""Drive a checkpoint token by token, closed loop, and keep every decision.

Model: the semantics of :mod:`carsim.decoder.decode`, with visual tokens sampled from the model
itself. The prompt's last hidden state gives token 0; step s is fed token s and gives token s + 1.
Every token passes through the body, the last one too (its successor is not used), so that a video
takes T * N steps. Simplification: all rows are decoded together, in lockstep.
"""

from collections.abc import Iterator
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.environment import library
from carsim.base.errors import InputError
from carsim.decisions.attention import AttentionPolicy, Query
from carsim.decisions.trace import Trace
from carsim.decoder.hf.checkpoint import HfModel, encode_prompts
from carsim.decoder.hf.replay import ReplayHooks
from carsim.decoder.hf.sampling import StepModel, TokenSampler
from carsim.decoder.hf_recipe import CheckpointRecipe
from carsim.decoder.workers import Progress

if TYPE_CHECKING:
    from torch import Tensor

Prompts = tuple[tuple[int, ...], ...]
"""Token numbers of every row."""


def capture_hf(
    model: HfModel,
    recipe: CheckpointRecipe,
    step_model: StepModel | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Decode with a checkpoint, really replaying.

    Args:
        model: The checkpoint; the recipe's ``weights`` only name it.
        recipe: The decoding.
        step_model: Samples and embeds visual tokens in place of the model's own head.
        progress: Called after each step with row-steps done and in all.

    Raises:
        InputError: The recipe does not fit the checkpoint, the checkpoint has no output head and
            there is no step model, the step model returns another shape, hidden states are not
            finite, or memory does not suffice.
    """
    torch = library("torch", f"recipe {recipe.name}")
    prompts = _prompts(model, recipe)
    try:
        policy = recipe.policy_of(model.geometry, recipe.pairs)
    except ValueError as error:
        raise InputError(f"recipe {recipe.name}", str(error)) from error
    next_inputs = step_model or TokenSampler(model, recipe)
    hooks = ReplayHooks(model, policy, recipe)
    try:
        with torch.inference_mode(), hooks.attached():
            for step in _decode(hooks, prompts, next_inputs):
                if progress:
                    progress(step * len(prompts), recipe.n_steps * len(prompts))
    except torch.cuda.OutOfMemoryError as error:
        cure = "give fewer prompts, or dtype: float16"
        raise InputError(f"recipe {recipe.name}", "out of memory on the device", cure) from error
    written = recipe.model_dump(mode="json")
    clips = [{"prompt": prompt} for prompt in written["prompts"]]
    meta = recipe.metadata(
        decoded=model.geometry,
        simulated=model.geometry,
        prompt_tokens=max(map(len, prompts)),
        prompt_lengths=tuple(map(len, prompts)),
        guidance_pairs=recipe.pairs,
        dtype=model.dtype,
        mode="sampled",
        weights=model.source,
        sampling={"by": type(step_model).__name__} if step_model else written["sampling"],
        content={"software": model.software, "clips": clips},
    )
    return Trace(replay=hooks.replay, tas=hooks.tas, meta=meta)


def _decode(hooks: ReplayHooks, prompts: Prompts, next_inputs: StepModel) -> Iterator[int]:
    """Prefill, then every step; yields the number of steps after each."""
    torch = library("torch", "a checkpoint")
    cache = library("transformers", "a checkpoint").DynamicCache()
    ids, valid = _pad(prompts)  # [B, P]
    padding = (~valid).sum(axis=1)  # [B]
    body = hooks.model.body
    attention = hooks.policy.attention
    device = body.embed_tokens.weight.device
    # transformers 5.24 renamed the argument.
    is_new = "cache" in signature(body.forward).parameters

    def forward(embedded: "Tensor", positions: NDArray[np.int64], seen: NDArray[np.bool_]) -> Any:
        """Hidden states of the last token of each row, [B, d]."""
        return body(
            inputs_embeds=embedded,
            attention_mask=_additive(seen, embedded),
            position_ids=torch.as_tensor(positions, device=device),
            use_cache=True,
            **{"cache" if is_new else "past_key_values": cache},
        ).last_hidden_state[:, -1]

    positions = np.where(valid, valid.cumsum(axis=1) - 1, 1)
    embedded = body.embed_tokens(torch.as_tensor(ids, device=device))
    hidden = forward(embedded, positions, attention.prompt_mask(valid))
    for step in range(hooks.recipe.n_steps):
        fed = next_inputs(_finite(hidden, step))
        if fed.shape != hidden.shape:
            problem = f"returned shape {tuple(fed.shape)}, expected {tuple(hidden.shape)}"
            raise InputError(f"step_model: step {step}", problem, "return one embedding per row")
        slots = valid.shape[1] + step + 1
        hooks.begin_step(step, cache)
        seen = visible_in_step(padding, slots, attention)[:, None]
        hidden = forward(fed[:, None], (slots - 1 - padding)[:, None], seen)
        yield step + 1
    _finite(hidden, hooks.recipe.n_steps)


def visible_in_step(
    padding: NDArray[np.int64], slots: int, attention: AttentionPolicy
) -> NDArray[np.bool_]:
    """bool[B, slots]: which key slots the newest token, in the last slot, attends to.

    Args:
        padding: Padding slots of each row.
        slots: Slots in use.
        attention: A policy whose reads follow from the context alone.

    >>> from carsim.decisions.attention import Streaming
    >>> visible_in_step(np.array([1]), 6, Streaming(sinks=1, window=2))
    array([[False,  True, False, False,  True,  True]])
    """
    nothing = np.empty((len(padding), 1, slots, 0))
    chosen = attention.select(None, 0, Query(nothing[:, :, 0], nothing[:, :, 0], nothing, padding))
    return chosen.read(padding, slots, 1)[0]


def _pad(prompts: Prompts) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Token numbers, left-padded with 0, and which of them are valid, [B, P] each."""
    lengths = np.array([[len(prompt)] for prompt in prompts])
    valid = np.arange(lengths.max()) >= lengths.max() - lengths
    ids = np.zeros(valid.shape, np.int64)
    ids[valid] = np.concatenate(prompts)
    return ids, valid


def _additive(seen: NDArray[np.bool_], like: "Tensor") -> "Tensor":
    """Mask for transformers, [B, 1, queries, slots]: 0 where seen, else the lowest number.

    Of single precision at most, in which transformers takes every softmax.
    """
    torch = library("torch", "a checkpoint")
    lowest = max(torch.finfo(like.dtype).min, torch.finfo(torch.float32).min)
    unseen = torch.as_tensor(~seen, device=like.device)[:, None]
    return like.new_zeros(unseen.shape).masked_fill(unseen, lowest)


def _finite(hidden: "Tensor", step: int) -> "Tensor":
    """The hidden states before a step, unless they are not numbers."""
    if not hidden.isfinite().all():
        problem = "NaN or infinite numbers"
        raise InputError(f"decoding: step {step}", problem, "check the weights, or use float32")
    return hidden


def _prompts(model: HfModel, recipe: CheckpointRecipe) -> Prompts:
    """Token numbers of every row's prompt."""
    texts = tuple(dict.fromkeys(row for row in recipe.rows if isinstance(row, str)))
    ids = dict(zip(texts, encode_prompts(model.folder, texts) if texts else (), strict=True))
    rows = tuple(ids[row] if isinstance(row, str) else row for row in recipe.rows)
    vocabulary = model.body.embed_tokens.weight.shape[0]
    field = f"recipe {recipe.name}: $.prompts"
    if not all(rows):
        raise InputError(field, "a prompt without tokens", "give every row a token or more")
    worst = max(map(max, rows))
    if worst >= vocabulary:
        raise InputError(field, f"token {worst}", f"give tokens of 0 to {vocabulary - 1}")
    return rows
