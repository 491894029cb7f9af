"""Decode steps of the proxy model's shape, and the matrix products of each step alone.

Rows are decoded eight at a time, as capture does it, or as many as asked for. The share of products
is a ratio of processor times in one process, turn about: a decode step, then the matrix products of
that very step alone, with the same operands in the same order. Alone, products find their operands
in cache more often than among other work, so their share is rather too low than too high.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.model import load_model
from carsim.decoder.structures import Array, Config, DecoderPolicy, State, Weights, stack_weights

ROOT = Path(__file__).resolve().parents[2]
FRAMES, TOKENS, PROMPT = 8, 256, 62
TAU = 0.5
"""About half of the eligible layer-steps of the proxy model's own traces replay at it."""


class Watched(np.ndarray):
    """An array that notes the operands of the matrix products it takes part in."""

    products: tuple[tuple[Array, Array], ...] = ()

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        """Do the operation on plain arrays; what comes out is watched."""
        plain = [x.view(np.ndarray) if isinstance(x, np.ndarray) else x for x in inputs]
        if out is not None:
            options["out"] = tuple(x.view(np.ndarray) for x in out)
        if ufunc is np.matmul:
            Watched.products += ((plain[0].copy(), plain[1]),)
        result = getattr(ufunc, method)(*plain, **options)
        return result.view(Watched) if isinstance(result, np.ndarray) else result


class Decoding:
    """Rows of the proxy model, at any step of a video.

    Args:
        rows: Decoded at a time.
        tau: Threshold of all layers; infinity computes everything.
    """

    def __init__(self, rows: int = 8, tau: float = TAU) -> None:
        model = load_model(ROOT / "studies" / "proxy" / "twin.safetensors")
        self._config = Config(model.geometry, TOKENS, FRAMES)
        self._policy = DecoderPolicy((tau,) * model.geometry.n_layers)
        self._weights: Weights = stack_weights(self._config, model.arrays)
        rng = np.random.default_rng(0)
        text = model.arrays["embed_text"][rng.integers(97, 123, (rows, PROMPT))]
        self._state: State = prefill(
            self._config,
            self._policy,
            self._weights,
            text.astype(np.float32),
            np.ones((rows, PROMPT), bool),
        )[0]
        visual = model.arrays["embed_visual"].astype(np.float32)
        tokens = rng.integers(0, len(visual), (TOKENS, rows // 2))
        self._x = visual[
            np.repeat(tokens, 2, axis=1)
        ]  # [N, B, d]; frames repeat, so that TAS varies

    def go_to(self, step: int) -> None:
        """Stand before a step; what was skipped on the way is filled with what came before."""
        state, slots = self._state, self._state.n_slots
        extra = step - state.step
        if extra > 0:
            source = np.arange(extra) % slots
            state.k[..., slots : slots + extra, :] = state.k[..., source, :]
            state.v[..., slots : slots + extra, :] = state.v[..., source, :]
        state.step = step

    def step(self, *, watched: bool = False) -> None:
        """Decode the step, and stand before it again."""
        x: NDArray[Any] = self._x[self._state.step % TOKENS]
        decode_step(
            self._config,
            self._policy,
            self._weights,
            self._state,
            x.view(Watched) if watched else x,
        )
        self._state.step -= 1

    def products(self) -> tuple[tuple[Array, Array], ...]:
        """Operands of the matrix products of the step."""
        Watched.products = ()
        self.step(watched=True)
        return Watched.products

    def share(self, step: int, repeat: int = 7) -> float:
        """Share of products in the processor time of a step, the median of several turns."""
        self.go_to(step)
        products = self.products()

        def multiply() -> None:
            for a, b in products:
                np.matmul(a, b)

        turns = ((seconds(self.step), seconds(multiply)) for _ in range(repeat))
        return statistics.median(alone / whole for whole, alone in turns)


def seconds(work: Callable[[], object], repeat: int = 1) -> float:
    """Processor seconds, the mean of several runs."""
    begun = time.process_time()
    for _ in range(repeat):
        work()
    return (time.process_time() - begun) / repeat
