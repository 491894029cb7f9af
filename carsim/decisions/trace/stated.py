"""Decoding that is stated, where a trace would be captured: dense, or replays at a given ratio.

A statement becomes a :class:`~carsim.decisions.trace.file.Trace`, so that all that takes traces
takes it. Its name says in every output that it is "assumed, not captured".

Dense decoding decides nothing, and leaves nothing to assume. Replays are drawn, by the simplest
model with the two numbers that determine cost: the *ratio* of eligible steps (those after the first
frame) that replay, and the *agreement* of the two rows of a guidance pair, the share of eligible
decisions that are the same in both. Weights that are fetched once for a pair are saved
only where both replay, which is a share of ``ratio - (1 - agreement) / 2``. The machine computes
the scores of FastCar's rule, or of the rule that the workload names.

Simplifications: all layers have the same ratio, and pairs decide independently
(:mod:`carsim.decisions.trace.drawn`). The rows of a video come in guidance pairs unless the
workload says otherwise, and a pair makes one video. A text is one frame, so that nothing in it can
replay; it has no guidance, so that each row is a stream of its own. The step after the prompt emits
the first token.
"""

import hashlib
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
from pydantic import JsonValue

from carsim.base.errors import InputError
from carsim.base.text import count
from carsim.decisions.attention import Dense
from carsim.decisions.replay import FASTCAR, RULES, ReplayRule
from carsim.decisions.trace.decisions import DecisionShape, check_decisions
from carsim.decisions.trace.drawn import MEASURED, Assumptions, agreement_of, correlation_of, draw
from carsim.decisions.trace.file import Scored, Trace, filed, unscored
from carsim.decisions.trace.meta import (
    WIDER_VERSION,
    DecisionMeta,
    Geometry,
    RangesMeta,
    TraceMeta,
)
from carsim.decisions.trace.token_ranges import (
    IN_WORDS,
    RULES_OF_SOURCES,
    check_forwards_recur,
    drawn_ranges,
    reused_forwards,
    wholly_reused,
)
from carsim.workload.geometry import Video
from carsim.workload.workload import Workload

if TYPE_CHECKING:  # the decoder, which knows traces, knows nothing of a machine's work
    from carsim.workload.model import Model
    from carsim.workload.sample import Sample

TEXT_PROMPT = 128
"""Tokens of the prompt of a text for which no others are asked."""

TEXT_TOKENS = 128
"""Generated tokens of a text for which no others are asked."""

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
    if model.sample is not None:
        return _sample_trace(workload, model, batch)
    if workload.kind not in ("text", "video"):
        problem = f"{model.name} is a decoder, which makes texts and videos token by token"
        cure = "name a diffusion transformer, as in diffusion:wan2.1_1.3b,480x832"
        raise InputError("`workload`", problem, cure)
    if workload.kind == "text":
        prompt, tokens = text_of(workload, model)
        size_field = "tokens"
        video = Video(1, tokens, prompt, "text")
        label = f"{count(tokens, 'token')} after a prompt of {prompt}"
    else:
        usual = model.video
        frames = usual.frames if workload.frames is None else workload.frames
        prompt = usual.prompt_tokens if workload.prompt is None else workload.prompt
        size_field = "frames"
        video = Video(frames, _tokens_per_frame(model), prompt)
        label = f"{count(frames, 'frame')} of {count(video.tokens_per_frame, 'token')}"
        if workload.guidance is False:
            label += " without guidance"
        elif batch % 2:
            problem = f"a batch of {batch} is no whole number of guidance pairs"
            cure = "take an even batch, or say guidance=false, as in video:8,guidance=false"
            raise InputError("policy.batch", problem, cure)
    if video.n_steps > MOST_STEPS:
        problem = f"{size_field}: {video.n_steps:,} steps are more than the limit of {MOST_STEPS:,}"
        raise InputError("`workload`", problem, "ask for less")
    shape = DecisionShape(video.n_steps, model.body.n_layers, batch)
    check_decisions("`workload`", shape, drawn=workload.replay is not None)
    if workload.replay is not None:
        return _replays(workload, model, batch, video, assumed)
    meta = _meta(workload, model, batch, video, f"dense decoding of {label}")
    nothing = np.broadcast_to(np.bool_(False), shape)  # takes no memory, nor do its scores
    return _hashed(Trace(nothing, np.broadcast_to(np.float16(np.nan), shape), meta))


def _tokens_per_frame(model: "Model") -> int:
    """Tokens of a frame of a video.

    Raises:
        InputError: The model makes texts, and the design does not say how many a frame has.
    """
    if model.tokens_per_frame is None:
        problem = f"{model.name} makes texts, and nothing says how many tokens a frame has"
        raise InputError(
            "`workload` video", problem, "set model.video.tokens_per_frame, say to 256"
        )
    return model.tokens_per_frame


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
    workload: Workload, model: "Model", batch: int, video: Video, assumed: Assumptions | None
) -> Trace:
    """A video of which a stated share of the eligible steps replays."""
    ratio = workload.replay
    seed = workload.seed or 0
    assert ratio is not None
    rule = FASTCAR if workload.rule is None else _rule_of(workload.rule)
    if video.n_frames <= rule.first_frame:
        problem = "the first frame never replays"
        if rule.first_frame > 1:
            problem = f"{rule.kind} scores from frame {rule.first_frame} on, counted from 0"
        raise InputError("`workload`", problem, f"take {rule.first_frame + 1} or more frames")
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
    if workload.rule is not None:
        label += f"; scores of {rule.text} are charged"
    if assumed is None:
        assumed = Assumptions(within_pair=correlation)
    meta = _meta(workload, model, batch, video, label)
    meta = meta.model_copy(update={"rule": rule})
    content: dict[str, JsonValue] = {**meta.content, "model": {"ratio": ratio, **asdict(assumed)}}
    meta = meta.model_copy(update={"content": content})
    shape = DecisionShape(meta.n_steps, model.body.n_layers, batch)
    replay = draw(ratio, assumed, video.n_frames, shape, seed)
    replay[: rule.first_frame * video.tokens_per_frame] = False
    return _hashed(unscored(replay, meta, meta.assumed))


def _rule_of(name: str) -> ReplayRule:
    """The rule of a kind, with its default fields.

    Raises:
        InputError: There is no such kind, or it has fields without a default.
    """
    location = "`workload` rule"
    kind = RULES.find(name, location)
    lacking = [field for field, info in kind.model_fields.items() if info.is_required()]
    if lacking:
        problem = f"{name} has no default of {', '.join(lacking)}"
        raise InputError(location, problem, "capture a trace under the rule")
    return kind.model_validate({})


def _sample_trace(workload: Workload, model: "Model", batch: int) -> Trace:
    """The forwards of a sample as steps, each a frame of one token: what it reuses, by calendar."""
    sample = model.sample
    assert sample is not None
    if workload.kind in ("text", "video"):
        problem = f"{model.name} makes {sample.in_words}, not a {workload.kind} token by token"
        raise InputError("`workload`", problem, "leave it out, or say diffusion, chunks or image")
    if batch % sample.passes:
        problem = f"a batch of {batch} is no multiple of the {sample.passes} passes of a forward"
        raise InputError("policy.batch", problem, f"take {sample.passes} or a multiple of it")
    if sample.irregular and (workload.every is not None or workload.replay is not None):
        reuse = "every" if workload.replay is None else "replay"
        problem = f"{reuse} is of chunks that pass one at a time, over a cache of one prompt"
        raise InputError("`workload`", problem, f"leave out {reuse}, or {sample.irregular}")
    video = Video(sample.forwards, 1, 0)
    shape = DecisionShape(video.n_steps, model.body.n_layers, batch)
    check_decisions("`workload`", shape, drawn=workload.every is not None)
    label = f"{model.name}: {sample.in_words}"
    meta = _meta(workload, model, batch, video, f"dense forwards of {label}")
    if workload.replay is not None:
        return _hashed(_range_trace(workload, model, meta, label))
    if workload.every is None:
        nothing = np.broadcast_to(np.bool_(False), shape)
        return _hashed(Trace(nothing, np.broadcast_to(np.float16(np.nan), shape), meta))
    check_forwards_recur(model, "every")
    reuses = reused_forwards(sample, workload.every, workload.dense or 0)
    computes = f"one of {workload.every} forwards computes, the others reuse it; {label}"
    meta = meta.model_copy(update={"content": {**meta.content, "stated": computes}})
    replay = np.broadcast_to(reuses[:, None, None], shape)
    trace = unscored(replay, meta, meta.assumed)
    return _hashed(_with_modules(trace, workload, sample))


def _range_trace(workload: Workload, model: "Model", meta: TraceMeta, of_sample: str) -> Trace:
    """Forwards whose tokens reuse outputs with a stated probability.

    Args:
        workload: The workload.
        model: A diffusion transformer and its sample.
        meta: Metadata of dense forwards.
        of_sample: The sample as a phrase.
    """
    ranges = drawn_ranges(workload, model, meta.n_rows)
    assert workload.replay is not None
    seed = workload.seed or 0
    drawn = f"{100 * workload.replay:.4g} % of the tokens that may reuse outputs do, those"
    label = f"{drawn} {IN_WORDS[ranges.source]}, drawn with seed {seed}; {of_sample}"
    whole_forwards: tuple[int, ...] = ()
    if ranges.whole_forwards is not None:
        whole_forwards = tuple(np.flatnonzero(ranges.whole_forwards).tolist())
        label = f"one of {workload.every} forwards computes, the others reuse it; of it {label}"
    changes: dict[str, object] = {
        "content": {**meta.content, "stated": label},
        "rule": RULES_OF_SOURCES[ranges.source],
        "ranges": RangesMeta(
            count=ranges.reused.shape[3],
            tokens=ranges.tokens,
            source=ranges.source,
            whole_forwards=whole_forwards,
        ),
        "schema_version": WIDER_VERSION,
    }
    meta = meta.model_copy(update=changes)
    return unscored(wholly_reused(ranges), meta, meta.assumed, reused=ranges.reused)


def _with_modules(trace: Trace, workload: Workload, sample: "Sample") -> Trace:
    """The trace with decisions of cross-attention and MLP, where they have intervals of their own.

    Their metadata say which block each skips, and that its output is held.
    """
    intervals = {"cross": workload.cross_every, "mlp": workload.mlp_every}
    stated = {name: interval for name, interval in intervals.items() if interval is not None}
    if not stated:
        return trace
    further = {}
    for name, interval in stated.items():
        reuses = reused_forwards(sample, interval, workload.dense or 0)
        replay = np.broadcast_to(reuses[:, None, None], trace.replay.shape)
        further[name] = Scored(replay, tas=replay.astype(np.float16))
    attention = ("qkv", "attention", "output")
    decisions = {"token": DecisionMeta(blocks=attention, holds=("output",))}
    for name in stated:
        decisions[name] = DecisionMeta(blocks=(name,), holds=(name,), rule=trace.meta.rule, tau=0.5)
    changes = {"decisions": decisions, "schema_version": WIDER_VERSION}
    return replace(trace, meta=trace.meta.model_copy(update=changes), further=further)


def _meta(workload: Workload, model: "Model", batch: int, video: Video, label: str) -> TraceMeta:
    """Metadata of decoding in which nothing replays; a text has no guidance pairs."""
    body = model.body
    geometry = Geometry(
        name=model.name,
        n_layers=body.n_layers,
        hidden_size=body.hidden_size,
        n_heads=body.n_heads,
        n_kv_heads=body.n_kv_heads,
        head_dim=body.head_dim,
        ffn_size=body.ffn_size,
    )
    is_paired = video.kind == "video" and workload.guidance is not False
    is_paired &= model.sample is None  # its passes need not be two
    content: dict[str, JsonValue] = {"stated": label}
    if video.kind == "text":
        content["of"] = "text"
    return TraceMeta(
        producer="carsim",
        producer_version=version("carsim"),
        decoded=geometry,
        simulated=geometry,
        n_frames=video.n_frames,
        tokens_per_frame=video.tokens_per_frame,
        prompt_tokens=video.prompt_tokens,
        prompt_lengths=(video.prompt_tokens,) * batch,
        tau=None,
        attention=Dense(),
        seed=workload.seed or 0,
        guidance_pairs=tuple((row, row + 1) for row in range(0, batch * is_paired, 2)),
        mode="none",
        weights="none",
        content=content,
        command=f"carsim run DESIGN --workload {workload.text}",
    )


def _hashed(trace: Trace) -> Trace:
    """The trace with the hash of what is stated, from which all decisions follow."""
    return filed(trace, hashlib.sha256(trace.meta.model_dump_json().encode()).hexdigest())
