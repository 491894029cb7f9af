"""Where the reference decoder spends its time, on the twin's shape; prints one JSON line.

    python studies/speed/decoder.py [--steps 0,255,256,512,1024,1536,2047] [--rows 8] [--repeat 7]

Rows are decoded eight at a time, as capture does it, or as many as asked for. All shares are ratios
of processor times in one process, turn about: a decode step, then the matrix products of that very
step alone, with the same operands in the same order, then the rates of the machine. Alone, products
find their operands in cache more often than among other work, so their share is rather too low than
too high.

The **roofline** of a step is the least time that one core of this machine needs for it. Each matrix
product takes max(operations / peak, bytes / bandwidth), each exponential what NumPy takes for one:

* operations are 2 per multiplication with addition, bytes those of the second operand (weights,
  keys, values), read once from memory, as a step reads more than a cache holds; both are counted
  from the operands, so that replayed MLPs are not in it. First operands and results stay in cache;
* peak is that of products of 256 x 256 matrices, which lie in the core's cache;
* bandwidth is that of a scalar product of two halves of 256 MiB, by the same BLAS;
* exponentials are counted, and NumPy's rate is that on 64 Ki elements in cache.

A share above 1 is impossible: the work beside it changed between two measurements. Such a step is
refused, with exit status 1.

Products and exponentials wait for each other, so that their times add up. Simplifications, all of
which make the roofline faster than the machine: all other operations on elements are free (they
could be done on the way), and a cache never misses. The **kernels** of a step are its products as
BLAS does them at these shapes, measured alone, and the exponentials: what is left is NumPy's other
operations, and Python. Shares over a whole clip weigh its steps by their time; between the steps
that are measured, times are taken as straight lines.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.model import load_model
from carsim.decoder.structures import Array, Config, DecoderPolicy, State, Weights, stack_weights

ROOT = Path(__file__).resolve().parents[2]
FRAMES, TOKENS, PROMPT = 8, 256, 62
STEPS = "0,255,256,512,1024,1536,2047"
"""Those that are measured; the second frame is the first that scores."""

SHARES = ("products", "kernels", "roofline")
TAU = 0.5
"""About half of the eligible layer-steps of the twin's own traces replay at it."""


class Watched(np.ndarray):
    """An array that notes the operands of the matrix products it takes part in."""

    products: tuple[tuple[Array, Array], ...] = ()
    exponentials = 0

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        """Do the operation on plain arrays; what comes out is watched."""
        plain = [x.view(np.ndarray) if isinstance(x, np.ndarray) else x for x in inputs]
        if out is not None:
            options["out"] = tuple(x.view(np.ndarray) for x in out)
        if ufunc is np.matmul:
            Watched.products += ((plain[0].copy(), plain[1]),)
        if ufunc is np.exp:
            Watched.exponentials += plain[0].size
        result = getattr(ufunc, method)(*plain, **options)
        return result.view(Watched) if isinstance(result, np.ndarray) else result


class Decoding:
    """Rows of the twin, at any step of a video.

    Args:
        rows: Decoded at a time.
        tau: Threshold of all layers; infinity computes everything.
    """

    def __init__(self, rows: int = 8, tau: float = TAU) -> None:
        model = load_model(ROOT / "studies" / "twin" / "twin.safetensors")
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
        return self.work()[0]

    def work(self) -> tuple[tuple[tuple[Array, Array], ...], int]:
        """The same, and how many exponentials the step takes."""
        Watched.products, Watched.exponentials = (), 0
        self.step(watched=True)
        return Watched.products, Watched.exponentials


@dataclass(frozen=True)
class Rates:
    """What one core does in a second.

    Attributes:
        operations: Of matrix products in cache.
        bytes_read: From memory.
        exponentials: In cache.
    """

    operations: float
    bytes_read: float
    exponentials: float

    def least_s(self, products: Sequence[tuple[Array, Array]], exponentials: int) -> float:
        """The roofline of a step, by the operands of its products."""
        of_products = sum(
            max(2 * a.size * b.shape[-1] / self.operations, b.nbytes / self.bytes_read)
            for a, b in products
        )
        return of_products + exponentials / self.exponentials


class Machine:
    """Measures the rates of this machine, a hundredth of a second each time."""

    def __init__(self) -> None:
        self._read = np.ones((2, 32 << 20), np.float32)
        self._square = np.ones((256, 256), np.float32)
        self._spread = np.linspace(-10, 0, 64 << 10, dtype=np.float32)

    def rates(self) -> Rates:
        """As they are now."""
        square, spread, out = self._square, self._spread, np.empty_like(self._spread)
        product, result = 2 * len(square) ** 3, np.empty_like(square)
        return Rates(
            operations=product / seconds(lambda: np.matmul(square, square, out=result), 5),
            bytes_read=self._read.nbytes / seconds(lambda: np.dot(*self._read)),
            exponentials=spread.size / seconds(lambda: np.exp(spread, out=out), 5),
        )


def seconds(work: Callable[[], object], repeat: int = 1) -> float:
    """Processor seconds, the mean of several runs."""
    begun = time.process_time()
    for _ in range(repeat):
        work()
    return (time.process_time() - begun) / repeat


def shares(decoding: Decoding, machine: Machine, step: int, repeat: int) -> dict[str, float]:
    """Median milliseconds of a step and of parts of it, and medians of their ratios."""
    decoding.go_to(step)
    products, exponentials = decoding.work()

    def multiply() -> None:
        for a, b in products:
            np.matmul(a, b)

    turns = []
    for _ in range(repeat):
        whole, alone, rates = seconds(decoding.step), seconds(multiply), machine.rates()
        kernels = alone + exponentials / rates.exponentials
        turns.append((whole, alone, kernels, rates.least_s(products, exponentials)))
    found = {"step": step, "products": len(products)}
    for name, times in zip(("step", *SHARES), zip(*turns, strict=True), strict=True):
        found[f"{name}_ms"] = 1e3 * statistics.median(times)
    for number, name in enumerate(SHARES, start=1):
        found[f"{name}_share"] = statistics.median(turn[number] / turn[0] for turn in turns)
    return possible(found)


def possible(found: dict[str, float]) -> dict[str, float]:
    """What was measured of a step, unless a part took longer than the whole.

    Raises:
        SystemExit: A share is above 1.
    """
    for name in SHARES:
        share = found[f"{name}_share"]
        if share > 1:
            raise SystemExit(
                f"step {found['step']}: {name} is {share:.2f} of a step, more than all of it: "
                "other work disturbed the measurement; repeat it on an idle machine"
            )
    return found


def clip_share(steps: Sequence[dict[str, float]], of: str = "roofline") -> float:
    """Share of the time of a whole clip, from measured steps of it.

    Args:
        steps: Results of :func:`shares`, the first and the last step of the clip among them.
        of: One of :data:`SHARES`.
    """
    at = [row["step"] for row in steps]
    every = np.arange(at[0], at[-1] + 1)
    whole = np.interp(every, at, [row["step_ms"] for row in steps])
    share = np.interp(every, at, [row[f"{of}_share"] for row in steps])
    return float((share * whole).sum() / whole.sum())


def main() -> None:
    """Measure a few steps of a video."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", default=STEPS)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    decoding = Decoding(options.rows)
    steps = [int(step) for step in options.steps.split(",")]
    machine = Machine()
    print(json.dumps([shares(decoding, machine, step, options.repeat) for step in steps]))


if __name__ == "__main__":
    main()
