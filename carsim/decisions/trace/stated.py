"""Decoding that is stated, where a trace would be captured: dense, or replays at a given ratio.

A statement becomes a :class:`~carsim.decisions.trace.file.Trace`, so that all that takes traces
takes it. Its name says in every output that it is "stated, not captured".

Dense decoding decides nothing, and leaves nothing to assume. Replays are drawn, by the simplest
model with the two numbers that determine cost: the *ratio* of eligible steps (those after the first
frame) that replay, and the *agreement* of the two rows of a guidance pair, the share of eligible
decisions that are the same in both. Weights that are fetched once for a pair are saved
only where both replay, which is a share of ``ratio - (1 - agreement) / 2``.

Simplifications: all layers have the same ratio, and pairs decide independently
(:mod:`carsim.decisions.trace.drawn`). A text is one frame, so that nothing in it can replay; it has
no guidance, so that each row is a stream of its own. The step after the prompt emits the first
token.
"""

import hashlib
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
from pydantic import JsonValue

from carsim.base.errors import InputError
from carsim.base.text import count
from carsim.decisions.attention import Dense
from carsim.decisions.trace.decisions import DecisionShape, check_decisions
from carsim.decisions.trace.drawn import MEASURED, Assumptions, agreement_of, correlation_of, draw
from carsim.decisions.trace.file import Trace, filed, unscored
from carsim.decisions.trace.meta import Geometry, TraceMeta
from carsim.workload.geometry import Video
from carsim.workload.workload import Workload

if TYPE_CHECKING:  # the decoder, which knows traces, knows nothing of a machine's work
    from carsim.workload.model import Model

TEXT_PROMPT, TEXT_TOKENS = 128, 128
"""Prompt and generated tokens of a text for which no others are asked."""

MOST_STEPS = 1 << 17
"""Steps at most; so many contexts take 600 MB and 3 s."""


def stated_trace(
    workload: Workload, model: "Model", batch: int, assumed: Assumptions | None = None
) -> Trace:
    """A text or a video as a trace of one batch; equal workloads give equal traces.

    Args:
        workload: A text or a video; its fields that are None are those that the model usually has.
        model: What is decoded.
        batch: Rows.
        assumed: Correlations of replays; by default those within a pair alone.

    Raises:
        InputError: The model or the batch cannot do what is stated.
    """
    if workload.kind == "text":
        prompt, tokens = text_of(workload, model)
        what, video = "tokens", Video(1, tokens, prompt, "text")
        label = f"{count(tokens, 'token')} after a prompt of {prompt}"
    else:
        usual = model.video
        frames = usual.frames if workload.frames is None else workload.frames
        prompt = usual.prompt_tokens if workload.prompt is None else workload.prompt
        what, video = "frames", Video(frames, usual.tokens_per_frame, prompt)
        label = f"{count(frames, 'frame')} of {count(video.tokens_per_frame, 'token')}"
    if video.n_steps > MOST_STEPS:
        problem = f"{what}: {video.n_steps:,} steps are more than the limit of {MOST_STEPS:,}"
        raise InputError("`workload`", problem, "ask for less")
    shape = DecisionShape(video.n_steps, model.body.n_layers, batch)
    check_decisions("`workload`", shape, drawn=workload.replay is not None)
    if workload.replay is not None:
        return _replays(workload, model, batch, video, assumed)
    meta = _meta(workload, model, batch, video, f"dense decoding of {label}")
    nothing = np.broadcast_to(np.bool_(False), shape)  # takes no memory, nor do its scores
    return _hashed(Trace(nothing, np.broadcast_to(np.float16(np.nan), shape), meta))


def text_of(workload: Workload, model: "Model") -> tuple[int, int]:
    """Tokens of the prompt of a text, and new tokens.

    Raises:
        InputError: They are more than the model was made for.
    """
    prompt = TEXT_PROMPT if workload.prompt is None else workload.prompt
    tokens = TEXT_TOKENS if workload.tokens is None else workload.tokens
    most = model.context
    if most is not None and prompt + tokens > most:
        text = f"{prompt:,} tokens and {tokens:,} new ones"
        problem = f"{text} are more than the context of {model.name}, {most:,} tokens"
        raise InputError("`workload`", problem, "shorten the text, or change model.context")
    return prompt, tokens


def _replays(
    workload: Workload, model: "Model", batch: int, video: Video, given: Assumptions | None
) -> Trace:
    ratio, seed = workload.replay, workload.seed or 0
    assert ratio is not None
    if batch % 2:
        problem = f"a batch of {batch} is no whole number of guidance pairs"
        raise InputError("policy.batch", problem, "take an even batch, or leave out replay")
    if video.n_frames < 2:
        raise InputError("`workload`", "the first frame never replays", "take 2 or more frames")
    correlation = MEASURED.within_pair
    if workload.pairs is not None:
        by_chance = agreement_of(0.0, ratio)
        if workload.pairs < by_chance - 1e-9:
            chance = f"rows that replay in {ratio:.4g} of their steps agree in {by_chance:.4g}"
            problem = f"pairs: {chance} by chance alone, got {workload.pairs:g}"
            raise InputError("`workload`", problem, "take that or more")
        correlation = correlation_of(workload.pairs, ratio)
    noted = "" if workload.pairs is not None else " (assumed)"
    label = (
        f"{100 * ratio:.4g} % of eligible steps replay, rows of a pair agree in "
        f"{100 * agreement_of(correlation, ratio):.4g} %{noted}, drawn with seed {seed}"
    )
    assumed = given or Assumptions(within_pair=correlation)
    meta = _meta(workload, model, batch, video, label)
    content: dict[str, JsonValue] = {**meta.content, "model": {"ratio": ratio, **asdict(assumed)}}
    meta = meta.model_copy(update={"content": content})
    shape = DecisionShape(meta.n_steps, model.body.n_layers, batch)
    return _hashed(unscored(draw(ratio, assumed, video.n_frames, shape, seed), meta, meta.made_up))


def _meta(workload: Workload, model: "Model", batch: int, video: Video, label: str) -> TraceMeta:
    """Metadata of decoding in which nothing replays; a text has no guidance."""
    body, of = model.body, video.kind
    sizes = {name: getattr(body, name) for name in Geometry.model_fields if name != "name"}
    geometry = Geometry(name=model.name, **sizes)
    shape = asdict(video)
    is_paired = shape.pop("kind") == "video" and batch % 2 == 0
    return TraceMeta(
        producer="carsim",
        producer_version=version("carsim"),
        decoded=geometry,
        simulated=geometry,
        **shape,
        prompt_lengths=(video.prompt_tokens,) * batch,
        tau=None,
        attention=Dense(),
        seed=workload.seed or 0,
        guidance_pairs=tuple((row, row + 1) for row in range(0, batch * is_paired, 2)),
        mode="none",
        weights="none",
        content={"stated": label, **({"of": of} if of == "text" else {})},
        command=f"carsim run DESIGN --workload {workload.text}",
    )


def _hashed(trace: Trace) -> Trace:
    """The trace with the hash of what is stated, from which all decisions follow."""
    return filed(trace, hashlib.sha256(trace.meta.model_dump_json().encode()).hexdigest())
