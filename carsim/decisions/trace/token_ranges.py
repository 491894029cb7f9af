"""Decisions of forwards by ranges of tokens: how many tokens of each reuse an earlier output.

The image tokens of a row stand frame by frame, and are cut into R ranges of equally many tokens.
A captured trace has a range for each token; a drawn one has a range for each latent frame, and says
how many tokens of it reuse. A machine needs no more: it deals the tokens that compute.

Which output a token reuses is :data:`~carsim.workload.workload.ReuseSource`. Tokens that may not
reuse any compute: those of a first latent frame (``frame``), of the first frame of a video
(``chunk``), of the first and last denoising step (``step``), of the clean forward of a chunk, and
of as many first steps as the workload says.

Where tokens reuse outputs of an earlier frame, a forward may also reuse the last one that computed
as a whole. Then none of its tokens decides. As every chunk has one calendar of such forwards, the
outputs that tokens of a later chunk reuse at the same step were computed.

Simplification of draws: every range decides by itself, with one probability in all layers.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.decisions.attention.base import Bools, Ints
from carsim.decisions.replay import FASTCAR, InputChange, ReplayRule
from carsim.workload.workload import ReuseSource, Workload

if TYPE_CHECKING:  # the decoder, which knows traces, knows nothing of a machine's work
    from carsim.workload.model import Model
    from carsim.workload.sample import Sample

IN_WORDS: dict[ReuseSource, str] = {
    "frame": "of the previous frame of the same forward",
    "chunk": "of the previous frame at the same step, across chunks",
    "step": "of the last step that computed them",
}
"""The source of what is reused, as a phrase."""

METHODS: dict[ReuseSource, str] = {
    "frame": "replay across frames",
    "chunk": "replay across frames and chunks",
    "step": "reuse of tokens across steps",
}
"""Name of decoding with such decisions, in tables."""

RULES_OF_SOURCES: dict[ReuseSource, ReplayRule] = {
    "frame": FASTCAR,
    "chunk": FASTCAR,
    "step": InputChange(),
}
"""Rules whose work drawn decisions stand for: FastCar's score where there is a frame to look back
at, and the change of the input since it was computed across steps."""


@dataclass(frozen=True, eq=False)
class RangeDecisions:
    """Decisions by range. S forwards, L layers, B rows, R ranges of a row.

    Attributes:
        reused: Tokens of each range that reuse an earlier output, int[S, L, B, R].
        tokens: Image tokens of a row, R ranges of equally many.
        source: Which output they reuse.
        whole_forwards: Forwards that reuse the last one that computed as a whole, bool[S]; all
            their tokens reuse. None: no forward does.
    """

    reused: Ints
    tokens: int
    source: ReuseSource
    whole_forwards: Bools | None = None

    @property
    def per_range(self) -> int:
        """Tokens of a range."""
        return int(self.tokens // self.reused.shape[3])

    def of_layers(self, layers: Ints) -> "RangeDecisions":
        """The decisions of some layers."""
        return replace(self, reused=self.reused[:, layers])

    def with_tokens(self, tokens: int) -> "RangeDecisions":
        """Decisions for rows of another number of tokens: each range reuses the same share.

        Args:
            tokens: Image tokens of a row.

        Raises:
            InputError: They cannot be cut into as many ranges.
        """
        if tokens == self.tokens:
            return self
        ranges = self.reused.shape[3]
        if tokens % ranges:
            problem = f"{ranges} ranges of the trace do not divide the {tokens:,} tokens of a row"
            raise InputError("`trace`", problem, "take a size whose tokens they divide")
        wider = self.reused.astype(np.int64) * (tokens // ranges) // self.per_range
        return replace(self, reused=wider, tokens=tokens)


def check_forwards_recur(model: "Model", field: str) -> None:
    """Refuse reuse in a network that makes its output in one forward.

    Args:
        model: A network.
        field: Field of the workload that states the reuse.

    Raises:
        InputError: The network is not a diffusion transformer.
    """
    if model.network is None or model.network.kind != "diffusion":
        problem = f"{model.name} takes one forward, which has no earlier one to reuse"
        raise InputError(f"`workload` {field}", problem, "leave it out")


def drawn_ranges(workload: Workload, model: "Model", batch: int) -> RangeDecisions:
    """Ranges that reuse with a stated probability, each by itself; one range for each frame.

    Args:
        workload: A sample; ``replay`` is the probability.
        model: A diffusion transformer and its sample.
        batch: Rows.

    Raises:
        InputError: The sample has nothing to reuse, or ranges do not divide a frame.
    """
    network = model.network
    sample = model.sample
    assert sample is not None
    assert workload.replay is not None
    check_forwards_recur(model, "replay")
    assert network is not None
    assert network.kind == "diffusion"
    source = workload.source or usual_source(sample)
    tokens = network.tokens(sample)
    of_frame = network.tokens_per_frame(sample)
    per_range = workload.range_tokens or 1
    if of_frame % per_range:
        problem = f"{per_range} tokens do not divide the {of_frame:,} of a latent frame"
        raise InputError("`workload` range_tokens", problem, "give a divisor")
    eligible = eligible_frames(workload, sample, tokens // of_frame)
    shape = (sample.forwards, model.body.n_layers, batch, tokens // of_frame)
    rng = np.random.default_rng(workload.seed or 0)
    ranges = rng.binomial(of_frame // per_range, workload.replay, size=shape)
    reused = per_range * ranges * eligible[:, None, None, :]
    whole_forwards = whole_forwards_of(workload, sample)
    if whole_forwards is not None:
        reused[whole_forwards] = of_frame
    return RangeDecisions(reused.astype(np.int32), tokens, source, whole_forwards)


def wholly_reused(made: RangeDecisions) -> Bools:
    """Rows of which every token reuses an output, bool[S, L, B]."""
    everything: Bools = np.all(made.reused == made.per_range, axis=3)
    return everything


def whole_forwards_of(workload: Workload, sample: "Sample") -> Bools | None:
    """Forwards that reuse the last one as a whole, bool[S]; None where no forward does.

    Where tokens reuse outputs of earlier steps, ``every`` says which forwards compute all tokens.

    Args:
        workload: Says which forwards compute, and what tokens of them reuse.
        sample: The sample.
    """
    source = workload.source or usual_source(sample)
    if workload.every is None or source == "step":
        return None
    return reused_forwards(sample, workload.every, workload.dense or 0)


def usual_source(sample: "Sample") -> ReuseSource:
    """The source where a workload says none."""
    return "step" if sample.chunk_frames is None else "chunk"


def eligible_frames(workload: Workload, sample: "Sample", frames: int) -> Bools:
    """Latent frames of each forward whose tokens may reuse an output, bool[S, frames].

    Args:
        workload: Says the source, and steps that compute in any case.
        sample: The sample.
        frames: Latent frames of a forward, counted in tokens that span ``patch[0]`` of them.

    Raises:
        InputError: No token may reuse anything.
    """
    source = workload.source or usual_source(sample)
    if source == "chunk" and sample.chunk_frames is None:
        problem = "source=chunk is of videos in chunks, and this sample is made at once"
        raise InputError("`workload`", problem, "say source=frame or source=step")
    chunk, step = np.divmod(np.arange(sample.forwards), sample.forwards_per_chunk)
    denoises = (step >= (workload.dense or 0)) & (step < sample.steps)
    eligible = np.zeros((sample.forwards, frames), np.bool_)
    if source == "step":
        # Without an interval, one that is longer than all steps: only the ends compute.
        interval = workload.every or sample.steps + 2
        eligible[:] = reused_forwards(sample, interval, workload.dense or 0)[:, None]
    else:
        whole_forwards = whole_forwards_of(workload, sample)
        if whole_forwards is not None:
            denoises &= ~whole_forwards
        eligible[:, 1:] = denoises[:, None]
        eligible[:, 0] = denoises & (chunk > 0) & (source == "chunk")
    if not eligible.any():
        problem = f"replay: no token has an output {IN_WORDS[source]}"
        raise InputError("`workload`", problem, "take more frames, chunks or steps, or fewer dense")
    return eligible


def reused_forwards(sample: "Sample", every: int, dense: int) -> NDArray[np.bool_]:
    """Forwards that reuse the last one that computed, bool[S].

    The first ``dense`` denoising steps of a chunk or sample compute, and the last step does; then
    one of ``every`` does. Clean forwards compute, as what they write is kept.

    Args:
        sample: The sample.
        every: Forwards of which one computes.
        dense: Steps at the beginning that compute.
    """
    chunk = forwards_of_calendar(sample.steps, sample.forwards_per_chunk, every, dense=dense)
    return np.tile(chunk, sample.chunks)


def forwards_of_calendar(steps: int, forwards: int, every: int, *, dense: int) -> Bools:
    """Forwards of one chunk that reuse the last one that computed, bool[forwards].

    Args:
        steps: Denoising steps.
        forwards: These, and the clean forward where there is one.
        every: Steps of which one computes.
        dense: First steps, which compute.
    """
    step = np.arange(forwards)
    first = max(1, dense)
    reuses = (step >= first) & ((step - first + 1) % every > 0)
    return np.asarray(reuses & (step < steps - 1))
