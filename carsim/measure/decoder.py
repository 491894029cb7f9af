"""A LLaMA-style decoder that really skips MLPs, and takes the time of each block.

Blocks of a layer: *attention* (norm, query, key and value, rotary embedding, cache, scores, output
projection, residual) of all rows, then the *MLP* (norm, gate and up, SiLU, down, residual) of the
rows that compute. Rows that replay add the output that is held for them. A frame has one token, so
that a replay takes the output of the step before.

Simplifications: weights, inputs and cached keys are random, and decisions are forced: their score
is not computed. Row lists are made before the clock starts. There is no head, no sampling and no
prompt pass. With several workers, each holds all weights, and rows of the residual stream and held
outputs lie in memory that they share.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from carsim.decisions.trace.meta import Geometry
from carsim.measure.backend import Backend

EPS = 1e-5
"""Added to mean squares by the norm, as LLaMA does."""

Probe = Literal["", "gather", "replay"]

Barrier = Callable[[], None]
"""Waits until all workers have come as far."""


@dataclass(frozen=True)
class Rows:
    """Rows of one worker in one MLP.

    Attributes:
        computes_share: Compute all rows of the worker's own share, without gathering.
        computing: Row numbers to compute, an array of the backend; None for none.
        replaying: Row numbers of the worker's own share that replay, likewise.
        holds: Outputs are kept for a later replay, as dense decoding does not.
        probe: Part of the work that is timed alone: gathering and scattering of rows, or adding
            held outputs; empty for all of it.
    """

    computes_share: bool
    computing: Any
    replaying: Any
    holds: bool
    probe: Probe = ""


class Layer:
    """Weights of one layer, laid out for ``x @ w``, and its share of the caches.

    Args:
        backend: The library of arrays.
        shape: Sizes.
        generator: Draws the weights.
        rows: Rows of the largest batch that this worker attends for.
        slots: Tokens of the cache.
    """

    def __init__(
        self,
        backend: Backend,
        shape: Geometry,
        generator: np.random.Generator,
        rows: int,
        slots: int,
    ) -> None:
        def matrix(inputs: int, outputs: int) -> Any:
            drawn = generator.standard_normal((inputs, outputs), dtype=np.float32)
            return backend.array(drawn * np.float32(inputs**-0.5))

        width = shape.hidden_size
        head_dim = shape.head_dim
        heads = shape.n_heads + 2 * shape.n_kv_heads
        self.w_qkv = matrix(width, heads * head_dim)
        self.w_out = matrix(shape.n_heads * head_dim, width)
        self.w_gate_up = matrix(width, 2 * shape.ffn_size)
        self.w_down = matrix(shape.ffn_size, width)
        self.norm_attention = backend.array(np.ones(width, np.float32))
        self.norm_mlp = backend.array(np.ones(width, np.float32))
        cache_shape = (rows, shape.n_kv_heads, slots, head_dim)
        self.keys = backend.array(generator.standard_normal(cache_shape, dtype=np.float32))
        self.values = backend.array(generator.standard_normal(cache_shape, dtype=np.float32))


class Decoder:
    """The decoder of one worker.

    Args:
        backend: The library of arrays.
        shape: Sizes.
        prompt: Tokens in the cache before the first step.
        n_steps: Steps of a video.
        rows: Rows of the largest batch.
        worker: Number of this worker.
        workers: Workers in all.
        residual: Residual stream of all rows, [rows, d], shared by the workers.
        held: Outputs held for a replay, [L, rows, d], shared by the workers.
        seed: Draws weights, inputs and caches; all workers take the same.
    """

    def __init__(
        self,
        backend: Backend,
        shape: Geometry,
        *,
        prompt: int,
        n_steps: int,
        rows: int,
        worker: int,
        workers: int,
        residual: Any,
        held: Any,
        seed: int,
    ) -> None:
        self.backend = backend
        self.shape = shape
        self.prompt = prompt
        self.worker = worker
        self.workers = workers
        self.residual = residual
        self.held = held
        generator = np.random.default_rng(seed)
        slots = prompt + n_steps
        rows_of_worker = rows // workers
        self.layers = [
            Layer(backend, shape, generator, rows=rows_of_worker, slots=slots)
            for _ in range(shape.n_layers)
        ]
        inputs = generator.standard_normal((rows, shape.hidden_size), dtype=np.float32)
        self.inputs = backend.array(inputs)
        # Rotary embedding: angles [slots, head_dim / 2].
        exponents = np.arange(0, shape.head_dim, 2) / shape.head_dim
        angles = np.arange(slots)[:, None] * 10000.0**-exponents
        cos = np.cos(angles)
        sin = np.sin(angles)
        self.cos = backend.array(np.concatenate([cos, cos], axis=1).astype(np.float32))
        self.sin = backend.array(np.concatenate([-sin, sin], axis=1).astype(np.float32))

    def step(self, step: int, batch: int, plan: Sequence[Rows], barrier: Barrier) -> list[float]:
        """Decode one token of every row of this worker.

        Args:
            step: Number of the step; its context is the prompt, the steps before, and itself.
            batch: Rows of all workers.
            plan: The rows of each layer's MLP.
            barrier: Called after each block, outside of its time.

        Returns:
            Microseconds of each block: attention and MLP of the first layer, and so on.
        """
        share = batch // self.workers
        home = slice(self.worker * share, (self.worker + 1) * share)
        self.residual[home] = self.inputs[home]
        barrier()
        mark = self.backend.mark
        marks = []
        for number, layer in enumerate(self.layers):
            marks.append(mark())
            self._attention(layer, home, share, self.prompt + step)
            marks.append(mark())
            barrier()
            marks += self._timed_mlp(layer, self.held[number], home, plan[number])
            barrier()
        times = self.backend.elapsed_us(marks)[::2]  # between them are waits, and untimed work
        if plan[0].probe == "gather":  # gathering and scattering are timed apart
            attention, gather, scatter = np.reshape(times, (len(self.layers), 3)).T
            return list(np.stack([attention, gather + scatter], axis=1).ravel())
        return times

    def _norm(self, x: Any, weight: Any) -> Any:
        """Root-mean-square norm over the last axis."""
        squares = self.backend.xp.sum(x * x, axis=-1, keepdims=True)
        root = self.backend.xp.sqrt(squares / x.shape[-1] + EPS)
        return x / root * weight

    def _attention(self, layer: Layer, home: slice, rows: int, slot: int) -> None:
        """Add attention to the residual stream of this worker's rows."""
        xp = self.backend.xp
        shape = self.shape
        kv_heads = shape.n_kv_heads
        head_dim = shape.head_dim
        normed = self._norm(self.residual[home], layer.norm_attention)
        heads = (normed @ layer.w_qkv).reshape(rows, -1, head_dim)  # [b, H + 2 KV, hd]
        unrotated = heads[:, :-kv_heads]  # queries and keys
        values = heads[:, -kv_heads:]
        half = head_dim // 2
        swapped = xp.concatenate([unrotated[..., half:], unrotated[..., :half]], axis=-1)
        rotated = unrotated * self.cos[slot] + swapped * self.sin[slot]
        layer.keys[:rows, :, slot] = rotated[:, shape.n_heads :]
        layer.values[:rows, :, slot] = values
        query = rotated[:, : shape.n_heads].reshape(rows, kv_heads, -1, head_dim)
        keys = layer.keys[:rows, :, : slot + 1]
        scores = query @ keys.swapaxes(-1, -2) * head_dim**-0.5  # [b, KV, g, slots]
        weights = xp.exp(scores - xp.amax(scores, axis=-1, keepdims=True))
        out = weights @ layer.values[:rows, :, : slot + 1]
        out = out / xp.sum(weights, axis=-1, keepdims=True)
        self.residual[home] += out.reshape(rows, -1) @ layer.w_out

    def _timed_mlp(self, layer: Layer, held: Any, home: slice, rows: Rows) -> list[Any]:
        """Take the MLP of a layer. Returns the marks of the timed part: starts and ends in turn."""
        mark = self.backend.mark
        marks = [mark()]
        if rows.probe == "gather":
            gathered = self.residual[rows.computing]
            marks.append(mark())
            out = self._mlp(layer, gathered)
            marks.append(mark())
            self.residual[rows.computing] += out
            held[rows.computing] = out
        elif rows.probe == "replay":
            self.residual[rows.replaying] += held[rows.replaying]
            marks.append(mark())
            self.residual[home] += self._mlp(layer, self.residual[home])
            return marks
        else:
            self._mlp_or_replay(layer, held, home, rows)
        marks.append(mark())
        return marks

    def _mlp_or_replay(self, layer: Layer, held: Any, home: slice, rows: Rows) -> None:
        """Add MLPs of the rows that compute, and held outputs of those that replay."""
        if rows.replaying is not None:
            self.residual[rows.replaying] += held[rows.replaying]
        if rows.computes_share:
            out = self._mlp(layer, self.residual[home])
            self.residual[home] += out
            if rows.holds:
                held[home] = out
        elif rows.computing is not None:
            out = self._mlp(layer, self.residual[rows.computing])
            self.residual[rows.computing] += out
            if rows.holds:
                held[rows.computing] = out

    def _mlp(self, layer: Layer, x: Any) -> Any:
        """The MLP of some rows, [m, d] to [m, d]."""
        xp = self.backend.xp
        gate_up = self._norm(x, layer.norm_mlp) @ layer.w_gate_up
        inner = self.shape.ffn_size
        gate = gate_up[:, :inner]
        up = gate_up[:, inner:]
        return gate / (1 + xp.exp(-gate)) * up @ layer.w_down


def probe_rows(backend: Backend, batch: int, worker: int, workers: int, probe: Probe) -> Rows:
    """The rows of one worker in an MLP that all compute, and of which a part is timed.

    Args:
        backend: Makes the lists of rows.
        batch: Rows of all workers.
        worker: Number of the worker.
        workers: Workers in all.
        probe: The part that is timed.
    """
    share = batch // workers
    listed = backend.array(np.arange(worker * share, (worker + 1) * share))
    return Rows(computes_share=False, computing=listed, replaying=listed, holds=True, probe=probe)


def rows_of(
    backend: Backend, plan: Sequence[Sequence[int]], batch: int, worker: int, *, holds: bool
) -> Rows:
    """The rows of one worker in one MLP.

    Args:
        backend: Makes the lists of rows.
        plan: Rows that each worker computes.
        batch: Rows of all workers.
        worker: Number of the worker.
        holds: Outputs are kept for a later replay.
    """
    share = batch // len(plan)
    home = range(worker * share, (worker + 1) * share)
    computing = plan[worker]
    anywhere = {row for rows in plan for row in rows}
    replaying = [row for row in home if row not in anywhere]

    def listed(rows: Sequence[int]) -> Any:
        return backend.array(np.array(rows, np.int64)) if rows else None

    computes_share = list(computing) == list(home)
    return Rows(
        computes_share=computes_share,
        computing=None if computes_share else listed(computing),
        replaying=listed(replaying),
        holds=holds,
    )
