"""Decoding that is stated, where a trace would be captured: dense, or replays at a given ratio.

A statement becomes a :class:`~carsim.decisions.trace.file.Trace`, so that all that takes traces
takes it. Its name says in every output that it is "stated, not captured".

Dense decoding decides nothing, and leaves nothing to assume. Replays are drawn, by the simplest
model that has both numbers that a machine feels: the *ratio* of eligible steps (those after the
first frame) that replay, and the *agreement* of the two rows of a guidance pair, the share of
eligible decisions that are the same in both. Weights that are fetched once for a pair are saved
only where both replay, which is a share of ``ratio - (1 - agreement) / 2``.

Simplifications: all layers have the same ratio; places, frames, layers and pairs decide
independently. The model is that of :mod:`carsim.decisions.trace.synthetic` with all other
correlations at 0. A text is one frame, so that nothing in it can replay; it has no guidance, so
that each row is a stream of its own. The step after the prompt emits the first token.
"""

import hashlib
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from carsim.base.errors import InputError
from carsim.base.text import count
from carsim.decisions.attention import Dense
from carsim.decisions.trace.assumed import TWIN, Assumptions, check_range
from carsim.decisions.trace.copula import agreement_of, correlation_of_agreement
from carsim.decisions.trace.decisions import check_decisions
from carsim.decisions.trace.file import Trace, filed, unscored
from carsim.decisions.trace.meta import Geometry, TraceMeta
from carsim.decisions.trace.synthetic import SyntheticModel, draw

if TYPE_CHECKING:  # the decoder, which knows traces, knows nothing of a machine's work
    from carsim.workload.model import Model

TEXT_PROMPT, TEXT_TOKENS = 128, 128
"""Prompt and generated tokens of a text for which no others are asked."""

MOST_STEPS = 1 << 17
"""Steps at most; so many contexts take 600 MB and 3 s."""

Kind = Literal["video", "text"]


@dataclass(frozen=True)
class Stated:
    """What is decoded and what of it replays, where no trace says so.

    A video if ``frames`` or ``replay`` is given, a text if ``tokens`` or ``context`` is; else what
    the model makes: a text where its head is a classifier over a vocabulary, a video where not.

    Attributes:
        frames: Frames of the video; by default those of the model.
        prompt: Tokens of the prompt of either.
        tokens: Tokens that each row of the text generates.
        context: The same as first and last number of tokens that a generated token attends to,
            itself included: ``(513, 640)`` for 128 tokens after a prompt of 512.
        replay: Share of the eligible steps that replay, in expectation; None: nothing does.
        pairs: Share of the eligible decisions on which the rows of a guidance pair agree; by
            default that of the correlation that was measured on a captured trace.
        seed: Seed of the draws.

    Raises:
        InputError: Options that contradict each other, or a number that is out of range.
    """

    frames: int | None = None
    prompt: int | None = None
    tokens: int | None = None
    context: tuple[int, int] | None = None
    replay: float | None = None
    pairs: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("frames", 1), ("tokens", 1), ("prompt", 0), ("seed", 0)):
            value = getattr(self, name)
            if value is not None:
                _check_whole(f"`{name}`", value, least)
        for name in ("replay", "pairs"):
            if getattr(self, name) is not None:
                check_range(f"`{name}`", getattr(self, name), 0, 1)
        if self.context is not None:
            self._check_context(*self.context)
        text = "`tokens`" if self.tokens is not None else "`context`"
        if self._of_text and self.frames is not None:
            raise InputError(text, "is of a text, `frames` is of a video", "give one of them")
        if self._of_text and self.replay is not None:
            problem = "a text has no frame before, whose outputs could be replayed"
            raise InputError("`replay`", problem, f"leave out it or {text}")
        if self.replay is None and self.pairs is not None:
            problem = "says how often decisions to replay agree, and nothing replays"
            raise InputError("`pairs`", problem, "add `replay`")
        if self.replay is None and self.seed:
            raise InputError("`seed`", "nothing is drawn", "add `replay`")

    def _check_context(self, first: int, last: int) -> None:
        if self.tokens is not None or self.prompt is not None:
            problem = "says what `prompt` and `tokens` say as well"
            raise InputError("`context`", problem, "give it, or them")
        _check_whole("`context`", first, 1)
        _check_whole("`context`", last, 1)
        if last < first:
            raise InputError("`context`", f"{first}:{last} ends before it begins", "swap them")

    @property
    def _of_text(self) -> bool:
        return self.tokens is not None or self.context is not None

    def kind(self, model: "Model") -> Kind:
        """What a model decodes."""
        if self._of_text:
            return "text"
        if self.frames is not None or self.replay is not None:
            return "video"
        return model.makes

    def trace(self, model: "Model", batch: int) -> Trace:
        """The statement as a trace of one batch; equal statements give equal traces.

        Args:
            model: What is decoded.
            batch: Rows.

        Raises:
            InputError: The model or the batch cannot do what is stated.
        """
        if self.kind(model) == "text":
            return self._text(model, batch)
        frames = model.video.frames if self.frames is None else self.frames
        steps = frames * model.video.tokens_per_frame
        _check_size("`frames`", steps, model, batch, drawn=self.replay is not None)
        if self.replay is not None:
            return self._replays(model, batch, frames, self.replay)
        label = f"dense decoding of {count(frames, 'frame')} of "
        label += count(model.video.tokens_per_frame, "token")
        return _dense(self._meta(model, batch, frames, label))

    def _text(self, model: "Model", batch: int) -> Trace:
        prompt = TEXT_PROMPT if self.prompt is None else self.prompt
        tokens = TEXT_TOKENS if self.tokens is None else self.tokens
        if self.context is not None:
            prompt, tokens = self.context[0] - 1, self.context[1] - self.context[0] + 1
        most = model.context
        if most is not None and prompt + tokens > most:
            and_more = "" if prompt > most else f" and {tokens:,} more"
            raise InputError(
                "`tokens`" if and_more else "`prompt`",
                f"a prompt of {count(prompt, 'token')}{and_more} is longer than the context of "
                f"{model.name}, {most:,} tokens",
                "shorten the text, or change model.context",
            )
        _check_size("`tokens`", tokens, model, batch, drawn=False)
        label = f"dense decoding of {count(tokens, 'token')} after a prompt of {prompt}"
        meta = self._meta(model, batch, 1, label)
        changes = {
            "tokens_per_frame": tokens,
            "prompt_tokens": prompt,
            "prompt_lengths": (prompt,) * batch,
            "guidance_pairs": (),
            "content": {**meta.content, "of": "text"},
        }
        return _dense(meta.model_copy(update=changes))

    def _replays(self, model: "Model", batch: int, frames: int, ratio: float) -> Trace:
        if batch % 2:
            raise InputError(
                "policy.batch",
                f"a batch of {batch} is no whole number of guidance pairs",
                "take an even batch, or leave out `replay`",
            )
        if frames < 2:
            raise InputError(
                "`replay`", "the first frame never replays", "take `frames` of 2 or more"
            )
        correlation = TWIN.within_pair
        if self.pairs is not None:
            by_chance = agreement_of(0.0, ratio)
            if self.pairs < by_chance - 1e-9:
                raise InputError(
                    "`pairs`",
                    f"rows that replay in {ratio:.4g} of their steps agree in {by_chance:.4g} by "
                    f"chance alone, got {self.pairs:g}",
                    "take that or more",
                )
            correlation = correlation_of_agreement(self.pairs, ratio)
        drawn = SyntheticModel(
            ratio=ratio,
            assumed=Assumptions(0.0, correlation, 0.0, 0.0, 0.0, 0.0),
            frames=frames,
            tokens_per_frame=model.video.tokens_per_frame,
            pairs=batch // 2,
            layers=model.body.n_layers,
            seed=self.seed,
        )
        agree = agreement_of(correlation, ratio)
        assumed = "" if self.pairs is not None else " (assumed)"
        label = (
            f"{100 * ratio:.4g} % of eligible steps replay, rows of a pair agree in "
            f"{100 * agree:.4g} %{assumed}, drawn with seed {self.seed}"
        )
        meta = self._meta(model, batch, frames, label)
        meta = meta.model_copy(update={"content": {**meta.content, "model": asdict(drawn)}})
        return _hashed(unscored(draw(drawn), meta, meta.made_up))

    def _meta(self, model: "Model", batch: int, frames: int, label: str) -> TraceMeta:
        """Metadata of a video in which nothing replays."""
        body, video = model.body, model.video
        geometry = Geometry(
            name=model.name,
            n_layers=body.n_layers,
            hidden_size=body.hidden_size,
            n_heads=body.n_heads,
            n_kv_heads=body.n_kv_heads,
            head_dim=body.head_dim,
            ffn_size=body.ffn_size,
        )
        prompt = video.prompt_tokens if self.prompt is None else self.prompt
        pairs = tuple((row, row + 1) for row in range(0, batch, 2)) if batch % 2 == 0 else ()
        return TraceMeta(
            producer="carsim",
            producer_version=version("carsim"),
            decoded=geometry,
            simulated=geometry,
            n_frames=frames,
            tokens_per_frame=video.tokens_per_frame,
            prompt_tokens=prompt,
            prompt_lengths=(prompt,) * batch,
            tau=None,
            attention=Dense(),
            seed=self.seed,
            guidance_pairs=pairs,
            mode="none",
            weights="none",
            content={"stated": label},
            command=f"carsim run DESIGN{self.options}",
        )

    @property
    def options(self) -> str:
        """The options of ``carsim run`` that state it."""
        given: dict[str, Any] = {key: value for key, value in asdict(self).items() if value}
        if self.context is not None:
            given["context"] = "{}:{}".format(*self.context)
        return "".join(f" --{name} {value}" for name, value in given.items())


def _dense(meta: TraceMeta) -> Trace:
    """A trace in which nothing replays; its arrays take no memory."""
    shape = meta.n_steps, meta.decoded.n_layers, meta.n_rows
    nothing = np.broadcast_to(np.bool_(False), shape)
    return _hashed(Trace(nothing, np.broadcast_to(np.float16(np.nan), shape), meta))


def _hashed(trace: Trace) -> Trace:
    """The trace with the hash of what is stated, from which all decisions follow."""
    return filed(trace, hashlib.sha256(trace.meta.model_dump_json().encode()).hexdigest())


def _check_whole(place: str, value: int, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(place, f"expected a whole number of {least} or more, got {value!r}")


def _check_size(place: str, steps: int, model: "Model", batch: int, *, drawn: bool) -> None:
    if steps > MOST_STEPS:
        problem = f"{steps:,} steps are more than the limit of {MOST_STEPS:,}"
        raise InputError(place, problem, "ask for less")
    check_decisions(place, (steps, model.body.n_layers, batch), drawn=drawn)
