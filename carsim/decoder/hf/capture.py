"""Drive a checkpoint token by token, closed loop, and keep every decision.

Model: the semantics of :mod:`carsim.decoder.decode`, with visual tokens sampled from the model
itself. The prompt's last hidden state gives token 0; step s is fed token s and gives token s + 1.
Every token passes through the body, the last one too (its successor is not used), so that a video
takes T * N steps. Simplification: all rows are decoded together, in lockstep.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.environment import library
from carsim.base.errors import InputError
from carsim.decisions.attention import AttentionPolicy, Dense, Query
from carsim.decisions.replay import FASTCAR, Pairs, ReplayRule, Scope
from carsim.decisions.trace import Trace, TraceMeta
from carsim.decoder.hf.checkpoint import HfModel
from carsim.decoder.hf.replay import ReplayHooks
from carsim.decoder.hf.sampling import StepModel, TokenSampler, TokenSampling
from carsim.decoder.structures import Policy
from carsim.decoder.workers import Progress

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class HfPlan:
    """A decoding by a checkpoint.

    Attributes:
        prompts: Token numbers of each row's prompt; they are left-padded to the longest. Where
            guided, row 2i is the conditional and row 2i + 1 the blank prompt of video i.
        n_frames: T.
        tokens_per_frame: N.
        tau: Replay threshold: one, one per layer (None: the layer never scores), or None. Infinity
            scores everything and replays nothing.
        rule: Rule of replay.
        attention: Attention policy.
        decision_scope: Rows that decide together.
        guided: Rows come in guidance pairs.
        seed: Of sampling.
        sampling: Sampling of tokens, unless a step model samples them.
        labels: Names of the videos.
        command: For the metadata.
    """

    prompts: tuple[tuple[int, ...], ...]
    n_frames: int = 8
    tokens_per_frame: int = 256
    tau: float | tuple[float | None, ...] | None = float("inf")
    rule: ReplayRule = FASTCAR
    attention: AttentionPolicy = field(default_factory=Dense)
    decision_scope: Scope = "row"
    guided: bool = True
    seed: int = 0
    sampling: TokenSampling = field(default_factory=TokenSampling)
    labels: tuple[str, ...] = ()
    command: str = "carsim.decoder.hf.capture_hf"

    @property
    def n_rows(self) -> int:
        """B."""
        return len(self.prompts)

    @property
    def n_steps(self) -> int:
        """S."""
        return self.n_frames * self.tokens_per_frame

    @property
    def n_videos(self) -> int:
        """Videos: one per guidance pair, or one per row."""
        return self.n_rows // 2 if self.guided else self.n_rows

    @property
    def pairs(self) -> Pairs:
        """(conditional, blank) rows of each video."""
        return tuple((row, row + 1) for row in range(0, self.n_rows, 2)) if self.guided else ()


def capture_hf(
    model: HfModel,
    plan: HfPlan,
    step_model: StepModel | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Decode with a checkpoint, really replaying.

    Args:
        model: The checkpoint.
        plan: The decoding.
        step_model: Samples and embeds visual tokens in place of the model's own head.
        progress: Called after each step with row-steps done and in all.

    Raises:
        InputError: The plan does not fit the checkpoint, the checkpoint has no output head and
            there is no step model, the step model returns another shape, hidden states are not
            finite, or memory does not suffice.
    """
    torch = library("torch", "--hf")
    policy = _policy(plan, model)
    next_inputs = step_model or TokenSampler(
        model, plan.sampling, guided=plan.guided, n_videos=plan.n_videos, seed=plan.seed
    )
    hooks = ReplayHooks(
        model,
        policy,
        tokens_per_frame=plan.tokens_per_frame,
        n_steps=plan.n_steps,
        n_rows=plan.n_rows,
    )
    kept = _KeptTokens(plan)
    try:
        with torch.inference_mode(), hooks:
            passes = _decode(model, plan, policy, hooks, next_inputs)
            for step, fed in enumerate(passes, start=1):
                kept.see(fed)
                if progress:
                    progress(step * plan.n_rows, plan.n_steps * plan.n_rows)
    except torch.cuda.OutOfMemoryError as error:
        raise InputError(
            "decoding", "out of memory on the device", "decode fewer rows, or in --dtype float16"
        ) from error
    named = plan.labels or tuple(f"video {video}" for video in range(plan.n_videos))
    return Trace(
        replay=hooks.replay,
        tas=hooks.tas,
        meta=TraceMeta(
            producer="carsim capture --hf",
            producer_version=version("carsim"),
            decoded=model.geometry,
            simulated=model.geometry,
            n_frames=plan.n_frames,
            tokens_per_frame=plan.tokens_per_frame,
            prompt_tokens=max(len(prompt) for prompt in plan.prompts),
            prompt_lengths=tuple(len(prompt) for prompt in plan.prompts),
            tau=plan.tau,
            rule=plan.rule,
            attention=plan.attention,
            seed=plan.seed,
            guidance_pairs=plan.pairs,
            decision_scope=plan.decision_scope,
            dtype=model.dtype,
            mode="sampled",
            weights=model.source,
            sampling={"by": type(step_model).__name__} if step_model else asdict(plan.sampling),
            content={
                "software": model.software,
                "clips": [
                    {"prompt": name, "kept_tokens": share}
                    for name, share in zip(named, kept.shares(), strict=True)
                ],
            },
            command=plan.command,
        ),
    )


def _decode(
    model: HfModel, plan: HfPlan, policy: Policy, hooks: ReplayHooks, next_inputs: StepModel
) -> Iterator["Tensor"]:
    """Prefill, then every step; yields what each step was fed, [B, d]."""
    torch, cache = library("torch", "--hf"), library("transformers", "--hf").DynamicCache()
    ids, valid = _pad(plan.prompts)  # [B, P]
    body, padding = model.body, (~valid).sum(axis=1)
    device = body.embed_tokens.weight.device

    def forward(embedded: "Tensor", positions: NDArray[np.int64], seen: NDArray[np.bool_]) -> Any:
        """Hidden states of the last token of each row, [B, d]."""
        return body(
            inputs_embeds=embedded,
            attention_mask=_additive(seen, embedded),
            position_ids=torch.as_tensor(positions, device=device),
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state[:, -1]

    positions = np.where(valid, valid.cumsum(axis=1) - 1, 1)
    embedded = body.embed_tokens(torch.as_tensor(ids, device=device))
    hidden = forward(embedded, positions, policy.attention.prompt_mask(valid))
    for step in range(plan.n_steps):
        fed = next_inputs(_finite(hidden, step))
        if fed.shape != hidden.shape:
            raise InputError(
                f"step_model: step {step}",
                f"returned shape {tuple(fed.shape)}, expected {tuple(hidden.shape)}",
                "return one embedding per row",
            )
        slots = valid.shape[1] + step + 1
        hooks.begin_step(step, cache)
        seen = visible_in_step(padding, slots, policy.attention)[:, None]
        hidden = forward(fed[:, None], (slots - 1 - padding)[:, None], seen)
        yield fed
    _finite(hidden, plan.n_steps)


def visible_in_step(
    padding: NDArray[np.int64], slots: int, attention: AttentionPolicy
) -> NDArray[np.bool_]:
    """bool[B, slots]: which key slots the newest token, in the last slot, attends to.

    Args:
        padding: Padding slots of each row.
        slots: Slots in use.
        attention: A policy whose reads follow from the context alone.

    >>> from carsim.decisions.attention import Streaming
    >>> visible_in_step(np.array([1]), 6, Streaming(sinks=1, window=2))
    array([[False,  True, False, False,  True,  True]])
    """
    nothing = np.empty((len(padding), 1, slots, 0))
    chosen = attention.select(None, 0, Query(nothing[:, :, 0], nothing[:, :, 0], nothing, padding))
    seen: NDArray[np.bool_] = chosen.read(padding, slots, 1)[0]
    return seen


class _KeptTokens:
    """Counts, per video, tokens fed again at the same place one frame later."""

    def __init__(self, plan: HfPlan) -> None:
        self._per_frame, self._every = plan.tokens_per_frame, 2 if plan.guided else 1
        self._later = plan.n_steps - plan.tokens_per_frame
        self._frame: list[Tensor] = []
        self._kept: Any = np.zeros(plan.n_videos)

    def see(self, fed: "Tensor") -> None:
        videos = fed[:: self._every]
        if len(self._frame) == self._per_frame:
            self._kept += (videos == self._frame.pop(0)).all(dim=1).cpu().numpy()
        self._frame.append(videos)

    def shares(self) -> list[float]:
        return [round(float(count) / max(1, self._later), 4) for count in self._kept]


def _pad(prompts: tuple[tuple[int, ...], ...]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Token numbers, left-padded with 0, and which of them are valid, [B, P] each."""
    longest = max(len(prompt) for prompt in prompts)
    ids, valid = (
        np.zeros((len(prompts), longest), np.int64),
        np.zeros((len(prompts), longest), bool),
    )
    for row, prompt in enumerate(prompts):
        ids[row, -len(prompt) :], valid[row, -len(prompt) :] = prompt, True
    return ids, valid


def _additive(seen: NDArray[np.bool_], like: "Tensor") -> "Tensor":
    """Mask for transformers, [B, 1, queries, slots]: 0 where seen, else the lowest number.

    Of single precision at most, in which transformers takes every softmax.
    """
    torch = library("torch", "--hf")
    lowest = max(torch.finfo(like.dtype).min, torch.finfo(torch.float32).min)
    mask: Tensor = like.new_zeros(seen.shape).masked_fill(
        torch.as_tensor(~seen, device=like.device), lowest
    )
    return mask[:, None]


def _finite(hidden: "Tensor", step: int) -> "Tensor":
    """The hidden states before a step, unless they are not numbers."""
    if not hidden.isfinite().all():
        raise InputError(
            f"decoding: step {step}", "NaN or infinite numbers", "check the weights, or use float32"
        )
    return hidden


def _policy(plan: HfPlan, model: HfModel) -> Policy:
    """The plan's policy, checked against the checkpoint."""
    layers, vocabulary = model.geometry.n_layers, model.body.embed_tokens.weight.shape[0]
    if isinstance(plan.tau, tuple) and len(plan.tau) != layers:
        raise InputError("--tau", f"{len(plan.tau)} taus for {layers} layers", "give one, or all")
    if not plan.prompts or not all(plan.prompts):
        raise InputError("--prompt", "a prompt without tokens", "give every row a token or more")
    worst = max(max(prompt) for prompt in plan.prompts)
    if min(min(prompt) for prompt in plan.prompts) < 0 or worst >= vocabulary:
        raise InputError("--prompt-ids", f"token {worst}", f"give tokens of 0 to {vocabulary - 1}")
    if plan.guided and plan.n_rows % 2:
        raise InputError(
            "prompts", f"{plan.n_rows} rows are no pairs", "add a blank prompt to each"
        )
    if plan.attention.records:
        raise InputError(
            "attention",
            f"{plan.attention.kind!r} selects keys by what they hold, which the hooks cannot do",
            "use the reference decoder (a recipe), or dense or windowed attention",
        )
    if plan.decision_scope == "pair" and not plan.guided:
        raise InputError("--decision-scope", "'pair' needs guidance pairs", "use row or batch")
    try:
        plan.rule.check(model.geometry.n_heads, model.geometry.hidden_size)
        plan.rule.check_layers(model.geometry.n_layers)
    except ValueError as error:
        raise InputError("rule", str(error).removeprefix("rule: ")) from error
    tau = plan.tau if isinstance(plan.tau, tuple) else (plan.tau,) * layers
    return Policy(tau, plan.rule, plan.attention, plan.decision_scope, plan.pairs)
