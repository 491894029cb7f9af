"""Hooks that make a LLaMA-type body of transformers replay as FastCar does, its source left alone.

Model: the decoder semantics of :mod:`carsim.decoder.decode`. The query is what ``q_proj`` gave, or
``q_norm`` where queries are normed; the aligned key is read from the key-value cache, where it
stands rotated; rows that replay are taken out of the MLP's input, so that their MLP is really
skipped, and what is held for their place takes the place of its output. Scores are the rule's own,
in NumPy, from what the hooks saw of a layer.
Simplification: scores of half-precision models are taken in single precision at least.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.environment import library
from carsim.decisions.replay import Seen
from carsim.decoder.hf.checkpoint import HfModel
from carsim.decoder.hf_recipe import CheckpointRecipe
from carsim.decoder.structures import Array, DecoderPolicy, rule_shape

if TYPE_CHECKING:
    from torch import Tensor


class ReplayHooks:
    """Hooks by which the model's MLPs replay; S steps, L layers, B rows.

    Args:
        model: The checkpoint.
        policy: Replay; attention is masked by the caller.
        recipe: Shape of the video.

    Attributes:
        model: As given.
        policy: As given.
        recipe: As given.
        replay: bool[S, L, B], filled in as steps are decoded.
        tas: [S, L, B], NaN where not evaluated.
    """

    def __init__(self, model: HfModel, policy: DecoderPolicy, recipe: CheckpointRecipe) -> None:
        self.model = model
        self.policy = policy
        self.recipe = recipe
        n_rows = len(recipe.rows)
        shape = (recipe.n_steps, model.geometry.n_layers, n_rows)
        self.replay = np.zeros(shape, bool)
        wide = np.float64 if model.dtype == "float64" else np.float32
        self.tas: Array = np.full(shape, np.nan, wide)
        self._per_frame = recipe.tokens_per_frame
        self._held = model.body.embed_tokens.weight.new_zeros(
            (model.geometry.n_layers, n_rows, recipe.tokens_per_frame, model.geometry.hidden_size)
        )
        self._step: int | None = None
        self._cache: Any = None
        self._q: Any = None
        self._rotary: Any = None
        self._state = policy.rule.begin(
            rule_shape(model.geometry, recipe.tokens_per_frame, n_rows, np.dtype(wide))
        )

    @contextmanager
    def attached(self) -> Iterator[None]:
        """A context in which they act; after it, the model is as it was."""
        body = self.model.body
        query = self.model.kind.query
        handles = [body.rotary_emb.register_forward_hook(self._keep_rotary)]
        for layer, block in enumerate(body.layers):
            handles += [
                getattr(block.self_attn, query).register_forward_hook(self._keep_query),
                block.mlp.register_forward_pre_hook(partial(self._before_mlp, layer)),
                block.mlp.register_forward_hook(partial(self._after_mlp, layer)),
            ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def begin_step(self, step: int, cache: Any) -> None:
        """Say that the next forward pass is a decode step; before the first, all is prefill.

        Args:
            step: Decode step.
            cache: The key-value cache (``DynamicCache``) that the pass will append to.
        """
        self._step = step
        self._cache = cache

    def _keep_rotary(self, module: Any, inputs: Any, output: Any) -> None:
        self._rotary = output  # cosine and sine, [B, 1, hd] each

    def _keep_query(self, module: Any, inputs: Any, output: "Tensor") -> None:
        self._q = output

    def _before_mlp(self, layer: int, module: Any, inputs: tuple[Any, ...]) -> Any:
        """Decide, and leave the rows that compute as the MLP's input."""
        if self._step is None:
            return None
        replay = self._decide(layer, self._step, inputs[0][:, 0])
        self.replay[self._step, layer] = replay
        return (inputs[0][np.flatnonzero(~replay)],) if replay.any() else None

    def _after_mlp(self, layer: int, module: Any, inputs: Any, output: "Tensor") -> Any:
        """Hold what was computed, and give what is held, fresh or replayed."""
        if self._step is None:
            return None
        outputs = self._held[layer, :, self._step % self._per_frame]  # [B, d], a view
        replay = self.replay[self._step, layer]
        rule = self.policy.rule
        outputs[np.flatnonzero(~replay)] = output[:, 0]
        if rule.damps:
            outputs[np.flatnonzero(replay)] *= rule.gain_of(layer)
        return outputs[:, None]

    def _decide(self, layer: int, step: int, mlp_input: "Tensor") -> NDArray[np.bool_]:
        """bool[B]: which rows replay; the rule learns of those that do not."""
        policy = self.policy
        replay = np.zeros(self.replay.shape[2], bool)
        if policy.tau[layer] is None:
            return replay
        frame, place = divmod(step, self._per_frame)
        seen = self._seen(layer, frame, mlp_input)
        if policy.scores(layer, step, self._per_frame):
            score = policy.rule.score(self._state, layer, place, seen)
            self.tas[step, layer] = score
            before = self.replay[place : step : self._per_frame, layer]  # [frames, B]
            replay = policy.decide(score, layer, policy.worn(before))
        policy.rule.computed(self._state, layer, place, ~replay, seen)
        return replay

    def _seen(self, layer: int, frame: int, mlp_input: "Tensor") -> Seen:
        """The layer as a rule may look at it, in single precision at least."""
        torch = library("torch", "a checkpoint")
        shape = self.model.geometry
        rows = len(mlp_input)
        wide = torch.promote_types(mlp_input.dtype, torch.float32)
        q = self._q.reshape(rows, shape.n_heads, shape.head_dim).to(wide)
        cos, sin = self._rotary
        first_half, second_half = q.chunk(2, dim=-1)
        halves_swapped = torch.cat([-second_half, first_half], dim=-1)
        q_rotated = q * cos.to(wide) + halves_swapped * sin.to(wide)
        keys = self._cache.layers[layer].keys  # [B, KV, slots, hd], rotated

        def numbers(values: "Tensor") -> Array:
            return values.to(wide).cpu().numpy()

        return Seen(
            q=numbers(q),
            q_rotated=numbers(q_rotated),
            key=lambda ago: numbers(keys[:, :, -1 - ago]),
            mlp_input=numbers(mlp_input),
            tokens_per_frame=self._per_frame,
            frame=frame,
        )
