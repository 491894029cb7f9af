"""Hooks that make a LLaMA body of transformers replay as FastCar does, leaving its source alone.

Model: the decoder semantics of :mod:`carsim.decoder.decode`. The query is what ``q_proj`` gave, the
aligned key is read from the key-value cache, where it stands rotated; rows that replay are taken
out of the MLP's input, so that their MLP is really skipped, and what is held for their place takes
the place of its output. Simplification: scores of half-precision models are taken in single
precision at least.
"""

from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.hf.checkpoint import HfModel, import_extra
from carsim.decoder.structures import Array, Policy

if TYPE_CHECKING:
    from torch import Tensor


class ReplayHooks:
    """A context in which the model's MLPs replay; S steps, L layers, B rows.

    Args:
        model: The checkpoint.
        policy: Replay; attention is masked by the caller.
        tokens_per_frame: N.
        n_steps: S.
        n_rows: B.

    Attributes:
        replay: bool[S, L, B], filled in as steps are decoded.
        tas: [S, L, B], NaN where not evaluated.
    """

    def __init__(
        self, model: HfModel, policy: Policy, *, tokens_per_frame: int, n_steps: int, n_rows: int
    ) -> None:
        shape = (n_steps, model.geometry.n_layers, n_rows)
        self.replay = np.zeros(shape, bool)
        wide = np.float64 if model.dtype == "float64" else np.float32
        self.tas: Array = np.full(shape, np.nan, wide)
        self._model, self._policy = model, policy
        self._per_frame = tokens_per_frame
        self._held = model.body.embed_tokens.weight.new_zeros(
            (model.geometry.n_layers, n_rows, tokens_per_frame, model.geometry.hidden_size)
        )
        self._hooks = ExitStack()
        self._step: int | None = None
        self._cache: Any = None
        self._q: Any = None
        self._rotary: Any = None

    def __enter__(self) -> Self:
        """Attach the hooks."""
        body = self._model.body
        handles = [body.rotary_emb.register_forward_hook(self._keep_rotary)]
        for layer, block in enumerate(body.layers):
            handles += [
                block.self_attn.q_proj.register_forward_hook(self._keep_query),
                block.mlp.register_forward_pre_hook(partial(self._before_mlp, layer)),
                block.mlp.register_forward_hook(partial(self._after_mlp, layer)),
            ]
        for handle in handles:
            self._hooks.callback(handle.remove)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Take the hooks off: the model is as it was."""
        self._hooks.close()

    def begin_step(self, step: int, cache: Any) -> None:
        """Say that the next forward pass is a decode step; before the first, all is prefill.

        Args:
            step: Decode step.
            cache: The key-value cache (``DynamicCache``) that the pass will append to.
        """
        self._step, self._cache = step, cache

    def _keep_rotary(self, module: Any, inputs: Any, output: Any) -> None:
        self._rotary = output  # cosine and sine, [B, 1, hd] each

    def _keep_query(self, module: Any, inputs: Any, output: "Tensor") -> None:
        self._q = output

    def _before_mlp(self, layer: int, module: Any, inputs: tuple[Any, ...]) -> Any:
        """Decide, and leave the rows that compute as the MLP's input."""
        if self._step is None:
            return None
        replay = self._decide(layer, self._step)
        self.replay[self._step, layer] = replay
        return (inputs[0][np.flatnonzero(~replay)],) if replay.any() else None

    def _after_mlp(self, layer: int, module: Any, inputs: Any, output: "Tensor") -> Any:
        """Hold what was computed, and give what is held, fresh or replayed."""
        if self._step is None:
            return None
        held = self._held[layer, :, self._step % self._per_frame]  # [B, d], a view
        held[np.flatnonzero(~self.replay[self._step, layer])] = output[:, 0]
        return held[:, None]

    def _decide(self, layer: int, step: int) -> NDArray[np.bool_]:
        """bool[B]: which rows replay."""
        if not self._policy.replay.scores(layer, step, self._per_frame):
            return np.zeros(self.replay.shape[2], bool)
        tas = self._score(layer).cpu().numpy()
        self.tas[step, layer] = tas
        return self._policy.replay.decide(tas, layer)

    def _score(self, layer: int) -> "Tensor":
        """TAS of FastCar (arXiv 2505.14709, section 4), [B]."""
        torch = import_extra("torch")
        shape = self._model.geometry
        key = self._cache.layers[layer].keys[:, :, -1 - self._per_frame]  # [B, KV, hd], rotated
        wide = torch.promote_types(key.dtype, torch.float32)
        query = self._q.reshape(len(key), shape.n_heads, shape.head_dim).to(wide)
        if self._policy.tas_form == "paper":
            cos, sin = (table.to(wide) for table in self._rotary)
            low, high = query.chunk(2, dim=-1)
            query = query * cos + torch.cat([-high, low], dim=-1) * sin
        grouped = query.reshape(len(key), shape.n_kv_heads, -1, shape.head_dim)
        products = (grouped * key.to(wide)[:, :, None]).sum(dim=(1, 2, 3))
        score: Tensor = products / (shape.n_heads * shape.head_dim**0.5)
        return score
