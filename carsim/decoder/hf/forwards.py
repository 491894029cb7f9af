"""Hooks that score the tokens of the forwards of a diffusion transformer of diffusers.

Model: in an open loop hooks only look, so that the network computes what it computes without them.
The decisions say which tokens would replay; that a replay changes what comes after it is left out.
In a closed loop, the outputs of MLPs are replaced for tokens that replay. The MLP still runs for
all tokens, so that nothing gets faster.

``frame``: FastCar's score, the mean over heads of <q, k> / sqrt(hd), with the query of a token and
the key of its place one latent frame earlier in the same forward. Both are those that attention
multiplies: normed and rotated. They are read where ``scaled_dot_product_attention`` of PyTorch is
called; in a block, the first call is self-attention.

``step``: minus the relative change of the MLP's input, -|u - h|^2 / |h|^2, where h is the input at
the last step that computed the token (:class:`~carsim.decisions.replay.InputChange`). A token that
would replay keeps its h. In the first and the last step, all tokens compute.

``forward``: minus the relative change of the modulated input of the first block's self-attention
from step to step, |u - u'| / |u'| in sums of magnitudes, rescaled by a polynomial and added up
since the last step that computed (TeaCache, arXiv 2411.19108). In the first and the last step, all
compute. Every row decides by itself.

Guidance passes are rows. Pipelines run passes in one forward, as rows of it, or in forwards of
their own, which have the time of the first. Simplifications: scores are taken in single precision
at least; ``step`` holds the MLP's inputs of all layers and rows on the device of the network, and
in a closed loop also its outputs.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import signature
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.environment import library
from carsim.base.errors import InputError
from carsim.base.sizes import MOST
from carsim.decisions.attention.base import Ints
from carsim.decisions.trace.decisions import check_memory
from carsim.decoder.hf.networks import LatentGrid, geometry_of, kind_of, latent_grid
from carsim.decoder.pipeline_recipe import Source

if TYPE_CHECKING:
    from torch import Tensor

Singles = NDArray[np.float32]
Reals = NDArray[np.float64]

DECISION_BYTES = 6
"""Of a token's decision and its score in a file."""


class Wanted(NamedTuple):
    """Decisions that are asked for.

    Attributes:
        source: Output that may be taken.
        tau: Tokens or forwards of a higher score replay.
        dense: First denoising steps, in which all tokens compute.
        range_tokens: Tokens whose decisions are summed up; with 1, scores are recorded.
        steps: Denoising steps.
        polynomial: Coefficients that rescale a change of a forward, of the highest power first.
        is_closed: Tokens that replay really take other outputs.
    """

    source: Source
    tau: float
    dense: int
    range_tokens: int
    steps: int
    polynomial: tuple[float, ...] = (1.0, 0.0)
    is_closed: bool = False


class Recorded(NamedTuple):
    """Decisions of all samples. S steps, L layers, B rows, n tokens, R ranges of a row.

    Attributes:
        scores: [S, L, B, n], NaN where a token has none; None where ranges have several tokens, or
            whole forwards decide.
        reused: Tokens of each range that replay, [S, L, B, R]; None where there are scores, or
            whole forwards decide.
        least: The least score of each row, [S, L, B], in which a token without a score counts as
            tau; or the score of the row where whole forwards decide.
        grid: Tokens of a forward.
        passes: Guidance passes, each of which is a row.
    """

    scores: Singles | None
    reused: Ints | None
    least: Reals
    grid: LatentGrid
    passes: int


class OneForward(NamedTuple):
    """Scores and decisions of one forward of b rows. L layers, n tokens, R ranges of a row.

    Attributes:
        scores: [L, b, n].
        reused: [L, b, R].
        least: [L, b].
    """

    scores: Singles
    reused: Ints
    least: Reals


class ForwardRecorder:
    """Hooks on a network, and what they have recorded.

    Args:
        network: A transformer of diffusers, of a class of
            :data:`~carsim.decoder.hf.networks.KINDS`.
        wanted: Decisions that are asked for.
        place: Name of the recipe, for errors.

    Attributes:
        geometry: The network's body.

    Raises:
        InputError: The class is not read, or its outputs cannot be replaced.
    """

    def __init__(self, network: Any, wanted: Wanted, place: str) -> None:
        name = type(network).__name__
        self.network = network
        self.wanted = wanted
        self.kind = kind_of(name, place)
        self.config: Mapping[str, Any] = dict(network.config)
        self.geometry = geometry_of(name, self.config, f"{place}: {name}")
        self._place = place
        if wanted.is_closed and not self.kind.has_whole_mlps:
            problem = f"loop: closed, and some blocks of {name} have no module that is the MLP"
            raise self._refusal(problem, "say loop: open")
        self._samples: list[dict[tuple[int, int], OneForward]] = []  # by step and pass
        self._grid: LatentGrid | None = None
        self._rows = 0
        self._time: float | None = None
        self._step = -1
        self._pass = 0
        self._layer: int | None = None
        self._scores: dict[int, Tensor] = {}  # of this forward, by layer, [b, n]
        self._held: dict[tuple[int, int], Tensor] = {}  # inputs by pass and layer, [b, n, d]
        self._outputs: dict[tuple[int, int], Tensor] = {}  # of MLPs, as the inputs
        self._row_scores: Singles | None = None  # of this forward, [b]
        self._added_up: dict[int, NDArray[np.float64]] = {}  # changes of rows by pass, [b]

    # ---------------------------------------------------------------- driving

    @contextmanager
    def attached(self) -> Iterator[None]:
        """A context in which forwards are recorded; after it, the network is as it was."""
        with ExitStack() as stack:
            for handle in self._hooks():
                stack.callback(handle.remove)
            if self.wanted.source == "frame":
                stack.enter_context(watched_attention(self._see_attention))
            yield

    def begin_sample(self) -> None:
        """Say that the next forward is the first of a sample."""
        self._samples.append({})
        self._time = None
        self._step = -1
        self._pass = 0
        self._held.clear()
        self._outputs.clear()
        self._added_up.clear()

    def _hooks(self) -> Iterator[Any]:
        """Handles of all hooks."""
        yield self.network.register_forward_pre_hook(self._begin, with_kwargs=True)
        yield self.network.register_forward_hook(self._end)
        if self.wanted.source == "forward":
            blocks = self.kind.blocks[0]
            first = getattr(getattr(self.network, blocks.name)[0], blocks.attention)
            yield first.register_forward_pre_hook(self._see_first, with_kwargs=True)
            return
        layer = 0
        for blocks in self.kind.blocks:
            for block in getattr(self.network, blocks.name):
                yield block.register_forward_pre_hook(partial(self._enter_block, layer))
                yield block.register_forward_hook(partial(self._leave_block, layer))
                mlp = getattr(block, blocks.mlp)
                if self.wanted.source == "step":
                    yield mlp.register_forward_pre_hook(partial(self._see_mlp, layer))
                if self.wanted.is_closed:
                    yield mlp.register_forward_hook(partial(self._replace, layer))
                layer += 1

    # ---------------------------------------------------------------- forwards

    def _begin(self, module: Any, args: Any, kwargs: Any) -> None:
        """A forward begins: another step, or another guidance pass of the same one."""
        given = signature(self.network.forward).bind(*args, **kwargs).arguments
        time = float(given["timestep"].max())
        if time == self._time:
            self._pass += 1
        else:
            self._time = time
            self._step += 1
            self._pass = 0
        grid = latent_grid(self.kind.layout, self.config, given)
        rows = len(given["hidden_states"])
        if self._grid is None:
            self._check_grid(grid)
            self._grid = grid
            self._rows = rows
        if (grid, rows) != (self._grid, self._rows):
            problem = (
                f"step {self._step}: {rows} rows of {grid.tokens:,} tokens, and "
                f"{self._rows} of {self._grid.tokens:,} before"
            )
            raise self._refusal(problem, "make all samples of one size and one batch")
        self._check_size((self._pass + 1) * rows, grid.tokens)
        self._scores.clear()
        self._row_scores = None

    def _check_grid(self, grid: LatentGrid) -> None:
        """Refuse a picture that has no earlier frame, and ranges that do not divide a frame."""
        if self.wanted.source == "frame" and grid.frames < 2:
            problem = "source: frame, and a forward has one latent frame"
            raise self._refusal(problem, "take more frames, or source: step")
        of_frame = grid.tokens // grid.frames
        if of_frame % self.wanted.range_tokens:
            problem = f"range_tokens: {self.wanted.range_tokens} do not divide the {of_frame:,}"
            raise self._refusal(f"{problem} tokens of a latent frame", "give a divisor")

    def _check_size(self, rows: int, tokens: int) -> None:
        """Refuse decisions that would take too much memory."""
        layers = self.geometry.n_layers
        ranges = tokens // self.wanted.range_tokens
        if self.wanted.source == "forward":
            ranges = 1
        per_sample = self.wanted.steps * layers * rows * ranges * DECISION_BYTES
        decisions = f"decisions of {self.wanted.steps:,} steps, {layers} layers, {rows} rows"
        cure = "give range_tokens, such as 40, or fewer prompts"
        check_memory(
            self._place, f"{decisions} and {ranges:,} ranges", len(self._samples) * per_sample, cure
        )

    def _end(self, module: Any, inputs: Any, output: Any) -> None:
        """A forward is over: keep its scores, or what they decide by range."""
        assert self._grid is not None
        tokens = self._grid.tokens
        shape = (self.geometry.n_layers, self._rows, tokens)
        if self.wanted.source == "forward":
            self._samples[-1][self._step, self._pass] = self._of_rows()
            return
        scores = np.full(shape, np.nan, np.float32)
        for layer, of_layer in self._scores.items():
            scores[layer] = of_layer.cpu().numpy()
        self._samples[-1][self._step, self._pass] = self._decided(scores)

    def _of_rows(self) -> OneForward:
        """Scores of whole rows, alike in all layers."""
        rows = np.full(self._rows, self.wanted.tau)
        if self._row_scores is not None:
            rows = self._row_scores.astype(np.float64)
        nothing = np.zeros((self.geometry.n_layers, self._rows, 0), np.uint16)
        least = np.broadcast_to(rows, nothing.shape[:2])
        return OneForward(scores=nothing.astype(np.float32), reused=nothing, least=least)

    def _decided(self, scores: Singles) -> OneForward:
        """Decisions of scores [L, b, n]; without the scores, where they are not kept."""
        wanted = self.wanted
        if wanted.range_tokens == 1:
            nothing = np.zeros((*scores.shape[:2], 0), np.uint16)
            return OneForward(scores, nothing, least=np.zeros(scores.shape[:2]))
        with np.errstate(invalid="ignore"):
            replays = scores.astype(np.float64) > wanted.tau
        ranges = replays.reshape(*scores.shape[:2], -1, wanted.range_tokens)
        least = np.where(np.isnan(scores), wanted.tau, scores.astype(np.float64)).min(axis=2)
        return OneForward(scores[..., :0], ranges.sum(axis=3, dtype=np.uint16), least)

    # ---------------------------------------------------------------- blocks

    def _enter_block(self, layer: int, module: Any, inputs: Any) -> None:
        self._layer = layer

    def _leave_block(self, layer: int, module: Any, inputs: Any, output: Any) -> None:
        self._layer = None
        if self._scores_now and layer not in self._scores:
            problem = f"block {layer} calls no scaled_dot_product_attention of PyTorch"
            raise self._refusal(problem, "call network.set_attention_backend('native')")

    @property
    def _scores_now(self) -> bool:
        """The tokens of this step are scored, or its forwards."""
        if self._step < self.wanted.dense:
            return False
        # The first and the last step compute where outputs of earlier steps are taken.
        return self.wanted.source == "frame" or 0 < self._step < self.wanted.steps - 1

    def _see_attention(self, queries: "Tensor", keys: "Tensor") -> None:
        """Score the tokens of a block against keys one latent frame earlier.

        Args:
            queries: Of all tokens of the sequence, [b, H, m, hd].
            keys: [b, H, m, hd].
        """
        layer = self._layer
        if layer is None or layer in self._scores or not self._scores_now:
            return
        assert self._grid is not None
        torch = library("torch", self._place)
        n = self._grid.tokens
        of_frame = n // self._grid.frames
        wide = torch.promote_types(queries.dtype, torch.float32)
        later = self._of_image(queries, axis=2)[:, :, of_frame:].to(wide)
        earlier = self._of_image(keys, axis=2)[:, :, :-of_frame].to(wide)
        products = (later * earlier).sum(dim=-1)  # [b, H, n - N]
        scores = queries.new_full((len(queries), n), float("nan"), dtype=torch.float32)
        scores[:, of_frame:] = products.mean(dim=1) / sqrt(queries.shape[-1])
        self._scores[layer] = scores

    def _see_mlp(self, layer: int, module: Any, inputs: tuple[Any, ...]) -> None:
        """Score the tokens of a block by the change of the MLP's input, [b, m, d]."""
        torch = library("torch", self._place)
        image = self._of_image(inputs[0], axis=1)
        held_at = (self._pass, layer)
        if not self._scores_now:
            self._held[held_at] = image.clone()
            # A layer without scores is a layer that computes.
            self._scores[layer] = image.new_full(image.shape[:2], float("nan"), dtype=torch.float32)
            return
        held = self._held[held_at]
        wide = torch.promote_types(image.dtype, torch.float32)
        change = (image.to(wide) - held.to(wide)).square().sum(dim=-1)
        relative = change / held.to(wide).square().sum(dim=-1)
        relative = torch.where(change == 0, change, relative).clamp(max=MOST)
        scores = (0 - relative).to(torch.float32)
        self._scores[layer] = scores
        computes = ~(scores.double() > self.wanted.tau)
        self._held[held_at] = torch.where(computes[..., None], image, held)

    def _replace(self, layer: int, module: Any, inputs: Any, output: "Tensor") -> Any:
        """Outputs of an MLP, [b, m, d], where tokens that replay take another one."""
        torch = library("torch", self._place)
        if layer not in self._scores:
            return None
        image = self._of_image(output, axis=1).clone()
        replays = (self._scores[layer].double() > self.wanted.tau)[..., None]  # [b, n, 1]
        if self.wanted.source == "step":
            held_at = (self._pass, layer)
            if held_at in self._outputs:
                image = torch.where(replays, self._outputs[held_at], image)
            self._outputs[held_at] = image
        else:
            assert self._grid is not None
            of_frame = self._grid.tokens // self._grid.frames
            for first in range(of_frame, self._grid.tokens, of_frame):
                here = slice(first, first + of_frame)
                before = image[:, first - of_frame : first]
                image[:, here] = torch.where(replays[:, here], before, image[:, here])
        replaced = output.clone()
        self._of_image(replaced, axis=1).copy_(image)
        return replaced

    def _see_first(self, module: Any, args: Any, kwargs: Any) -> None:
        """Score the rows of a forward by the input of the first block's self-attention."""
        entered = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        image = self._of_image(entered, axis=1).double()
        held_at = (self._pass, 0)
        before = self._held.get(held_at)
        self._held[held_at] = image.clone()
        added_up = self._added_up.get(self._pass, np.zeros(self._rows))
        if before is not None and self._scores_now:
            change = (image - before).abs().sum(dim=(1, 2)) / before.abs().sum(dim=(1, 2))
            added_up = added_up + np.polyval(self.wanted.polynomial, change.cpu().numpy())
            self._row_scores = (0 - added_up).astype(np.float32)
            computes = ~(self._row_scores.astype(np.float64) > self.wanted.tau)
            added_up = np.where(computes, 0.0, added_up)
        self._added_up[self._pass] = added_up

    def _of_image(self, sequence: "Tensor", axis: int) -> "Tensor":
        """The image tokens of a sequence that may hold those of the prompt, too."""
        assert self._grid is not None
        n = self._grid.tokens
        first = sequence.shape[axis] - n if self.kind.text == "before" else 0
        return sequence.narrow(axis, first, n)

    # ---------------------------------------------------------------- results

    def recorded(self) -> Recorded:
        """Everything that was recorded.

        Raises:
            InputError: Steps or guidance passes differ from step to step or sample to sample.
        """
        passes = self._passes()
        by_step = [self._of_step(step, passes) for step in range(self.wanted.steps)]
        scores = np.stack([forward.scores for forward in by_step])
        reused = np.stack([forward.reused for forward in by_step])
        least = np.stack([forward.least for forward in by_step])
        assert self._grid is not None
        of_tokens = self.wanted.source != "forward"
        has_scores = self.wanted.range_tokens == 1
        return Recorded(
            scores=scores if of_tokens and has_scores else None,
            reused=reused if of_tokens and not has_scores else None,
            least=least,
            grid=self._grid,
            passes=passes,
        )

    def _of_step(self, step: int, passes: int) -> OneForward:
        """Rows of all samples in a step, one sample after the other."""
        samples = []
        for sample in self._samples:
            forwards = [sample[step, number] for number in range(passes)]
            samples.append(_with_passes(forwards))
        return _side_by_side(samples)

    def _passes(self) -> int:
        """Guidance passes in forwards of their own, equally many in every step."""
        steps = self.wanted.steps
        numbers = set()
        for sample in self._samples:
            counts = [0] * (1 + max((step for step, _ in sample), default=-1))
            for step, _ in sample:
                counts[step] += 1
            if len(counts) != steps:
                problem = f"the pipeline took {len(counts)} denoising steps, and steps is {steps}"
                raise self._refusal(problem, "state the steps that it takes")
            numbers |= set(counts)
        if len(numbers) != 1:
            some = " and ".join(map(str, sorted(numbers)))
            problem = f"steps have {some} forwards of one time"
            cure = "let guidance act in all steps or in none, and let no two steps have one time"
            raise self._refusal(problem, cure)
        return numbers.pop()

    def _refusal(self, problem: str, cure: str) -> InputError:
        return InputError(self._place, problem, cure)


def _with_passes(forwards: list[OneForward]) -> OneForward:
    """Passes of one step side by side: row r of pass p becomes row r * passes + p."""
    return OneForward(
        scores=_interleaved([forward.scores for forward in forwards]),
        reused=_interleaved([forward.reused for forward in forwards]),
        least=_interleaved([forward.least for forward in forwards]),
    )


def _interleaved(arrays: list[Any]) -> Any:
    """Arrays [L, b, ...] as one of [L, b * passes, ...], row by row."""
    stacked = np.stack(arrays, axis=2)
    layers, rows, passes = stacked.shape[:3]
    return stacked.reshape(layers, rows * passes, *stacked.shape[3:])


def _side_by_side(samples: list[OneForward]) -> OneForward:
    """Rows of all samples, one sample after the other."""
    return OneForward(
        scores=np.concatenate([sample.scores for sample in samples], axis=1),
        reused=np.concatenate([sample.reused for sample in samples], axis=1),
        least=np.concatenate([sample.least for sample in samples], axis=1),
    )


def watched_attention(see: Any) -> Any:
    """A context in which every call of PyTorch's attention is seen before it is made.

    Args:
        see: Called with queries and keys, [b, H, m, hd] each, where they are of equally many
            tokens.
    """
    torch = library("torch", "attention")
    overrides = library("torch.overrides", "attention")
    attention = torch.nn.functional.scaled_dot_product_attention

    class Watched(overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        """Passes every function on."""

        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if function is attention:
                queries = kwargs["query"] if "query" in kwargs else args[0]
                keys = kwargs["key"] if "key" in kwargs else args[1]
                if queries.shape == keys.shape:
                    see(queries, keys)
            return function(*args, **kwargs)

    return Watched()
