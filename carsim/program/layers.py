"""The program of a decoder: its layers, the rule that decides, and what a policy skips."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from carsim.base.errors import InputError
from carsim.decisions.attention import PLAIN, AttentionPolicy
from carsim.decisions.replay import Point, ReplayRule, later
from carsim.program.block import Block, work_of
from carsim.program.decoder import Attend, Mlp, Output, Qkv
from carsim.program.program import TOKEN, Layer, Program
from carsim.program.prompt import PromptCache
from carsim.program.sample import sample_program
from carsim.program.skips import Skip, SkipMlp
from carsim.workload.body import in_window
from carsim.workload.geometry import Video
from carsim.workload.model import Model

KEPT_PROGRAMS = 256
"""Programs that are kept: points of a sweep ask for few different ones, and each for several."""

FurtherRules = tuple[tuple[str, ReplayRule], ...]
"""Rules of decisions beside the one of the trace, by name."""

AFTER: dict[Point, str] = {"q": "qkv", "attention": "attention", "residual": "output"}
"""The block of a decoder behind which a point lies."""


@lru_cache(maxsize=KEPT_PROGRAMS)
def decoder_program(  # noqa: PLR0913 - all that a program depends on, by name
    model: Model,
    skip: Skip,
    rule: ReplayRule | None,
    *,
    decision_at: Point = "attention",
    tokens: int = 1,
    decided: bool = True,
    policy: AttentionPolicy = PLAIN,
    further_rules: FurtherRules = (),
) -> Program:
    """The layers of a decoder in steps of some tokens.

    A score is computed as early as ``decision_at`` says, if the rule can be known by then. A score
    that is not needed before attention is over is computed beside it.

    Args:
        model: The model.
        skip: What rows skip where they replay.
        rule: Rule of replay; None where nothing ever replays.
        decision_at: Earliest point at which the machine knows a decision.
        tokens: Tokens of each sequence in a step.
        decided: Decisions are taken in these steps.
        policy: Attention policy, in which layers or heads may share keys and values.
        further_rules: Rules of further decisions, by name.

    Raises:
        InputError: The policy does not suit the model, or a block is skipped by a decision that is
            known behind it.
    """
    known_at = decision_at if rule is None else later(decision_at, rule.point)
    layers = []
    for number, plain_layer in enumerate(plain_layers(model, tokens, policy)):
        layer = skip.mark(plain_layer, number)
        if rule is None:  # nothing is held where nothing ever replays
            layer = tuple(replace(block, holds=False) for block in layer)
        elif any(block.follows == TOKEN for block in layer):
            of_decision = _Decision(skip, rule, known_at=known_at, decided=decided)
            layer = of_decision.with_work(layer, model)
        if rule is not None:
            for name, further_rule in further_rules:
                known = later(decision_at, further_rule.point)
                layer = _with_further(layer, name, further_rule, known_at=known, decided=decided)
        layers.append(layer)
    _check_sets(layers, tokens)
    followed = {block.follows for layer in layers for block in layer}
    known_after: dict[str, str | None] = {
        name: AFTER[decision_at] for name in followed if name is not None
    }
    known_after[TOKEN] = None if skip.decides_before else AFTER[known_at]
    for name, further_rule in further_rules:
        known_after[name] = AFTER[later(decision_at, further_rule.point)]
    return Program(layers=tuple(layers), known_after=known_after, decided=decided)


def _with_further(
    layer: Layer, name: str, rule: ReplayRule, *, known_at: Point, decided: bool
) -> Layer:
    """A layer in which a further decision is scored and its replays are damped.

    Args:
        layer: The layer, with the work of the decision of the trace.
        name: Name of the further decision.
        rule: Its rule.
        known_at: Point of the layer at which it is known.
        decided: Decisions are taken in these steps.
    """
    if all(block.follows != name for block in layer):
        return layer
    blocks = []
    for block in layer:
        if block.follows == name:
            block = replace(block, rule=rule if rule.damps else None)
        is_scored_here = decided and block.name == _scoring_block(rule, known_at)
        if is_scored_here and block.scores is None:
            block = replace(block, scores=rule)
        elif is_scored_here and rule not in (block.scores, *block.also_scores):
            block = replace(block, also_scores=(*block.also_scores, rule))
        if isinstance(block, Mlp) and decided and rule.point == "residual":
            block = replace(block, normed=True)
        blocks.append(block)
    return tuple(blocks)


def plain_layers(model: Model, tokens: int = 1, policy: AttentionPolicy = PLAIN) -> list[Layer]:
    """The blocks of all layers, before any is skipped.

    Args:
        model: The model.
        tokens: Tokens of each sequence in a step.
        policy: Attention policy, in which layers or heads may share keys and values.

    Raises:
        InputError: The policy does not suit the model.
    """
    body = model.body
    has_experts = body.experts is not None
    key_heads = shared_key_heads(model, policy)
    sharing = sharing_layers(model, policy)
    return [
        (
            Qkv(group=model.group_of[number], key_heads=key_heads, shares=number in sharing),
            Attend(tokens=tokens, window=body.window_of(number), shares=number in sharing),
            Output(group=model.group_of[number]),
            Mlp(dense=body.is_dense(number) and has_experts, group=model.group_of[number]),
        )
        for number in range(body.n_layers)
    ]


def shared_key_heads(model: Model, policy: AttentionPolicy) -> int | None:
    """Key heads that are cached where heads share keys; None where they do not."""
    heads = policy.kept_key_heads(model.body.n_kv_heads)
    return None if heads == model.body.n_kv_heads else heads


def sharing_layers(model: Model, policy: AttentionPolicy) -> frozenset[int]:
    """Layers that read the keys and values of others.

    Args:
        model: The model.
        policy: Attention policy.

    Raises:
        InputError: A layer would read the keys of one that holds other tokens, or of latents.
    """
    body = model.body
    if not policy.shares_layers:
        return frozenset()
    layers = []
    for layer in range(body.n_layers):
        source = policy.source_layer(layer)
        if source == layer:
            continue
        problem = ""
        if body.latent is not None:
            problem = f"shares keys between layers, and {model.name} caches latents"
        elif body.window_of(layer) != body.window_of(source):
            problem = f"lets layer {layer} read layer {source}, whose window is another"
        elif policy.source_layer(source) != source:
            problem = f"lets layer {layer} read layer {source}, which has no keys of its own"
        if problem:
            cure = "share layers of one window that have keys, or take another policy"
            raise InputError("policy.attention", f"{policy.text} {problem}", cure)
        layers.append(layer)
    return frozenset(layers)


def prompt_caches(model: Model, policy: AttentionPolicy, video: Video) -> list[PromptCache]:
    """How each layer keeps the keys and values of the prompt.

    Args:
        model: The model.
        policy: Attention policy.
        video: Gives the tokens of the prompt and of a frame.

    Raises:
        InputError: The policy does not suit the model.
    """
    key_heads = shared_key_heads(model, policy)
    sharing = sharing_layers(model, policy)
    caches = []
    for layer in range(model.body.n_layers):
        cache = PromptCache(key_heads=key_heads, shares=layer in sharing)
        if policy.uses_far_memory and video.prompt_tokens:
            context = in_window(np.array([video.prompt_tokens]), model.body.window_of(layer))
            held = policy.held(context)
            far = int(policy.far_tokens(held, video.tokens_per_frame)[0])
            cache = cache._replace(far=far, near=int(held[0]) - far if far else 0)
        caches.append(cache)
    return caches


@lru_cache(maxsize=KEPT_PROGRAMS)
def skips_mlp_alone(model: Model, skip: Skip) -> bool:
    """A skip marks the MLP of every layer, and nothing else.

    Answers are kept, as points of a sweep ask the same: comparing all layers takes 1 ms.
    """
    mlp_alone = SkipMlp()
    if skip == mlp_alone:
        return True
    return not skip.decides_before and all(
        skip.mark(layer, number) == mlp_alone.mark(layer, number)
        for number, layer in enumerate(plain_layers(model))
    )


@lru_cache(maxsize=KEPT_PROGRAMS)
def skipped_by_decision(model: Model, skip: Skip) -> Mapping[str, tuple[str, ...]]:
    """Decision -> names of the blocks that follow it, where a decoder follows several; else none.

    Answers are kept, as points of a sweep ask the same: marking all layers takes 2 ms.

    Args:
        model: The model.
        skip: What rows skip.
    """
    if model.network is not None:
        return {}
    blocks_of: dict[str, dict[str, None]] = {}
    for number, layer in enumerate(plain_layers(model)):
        for block in skip.mark(layer, number):
            if block.follows is not None:
                blocks_of.setdefault(block.follows, {})[block.name] = None
    if not blocks_of.keys() - {TOKEN}:
        return {}
    return {name: tuple(blocks) for name, blocks in blocks_of.items()}


@lru_cache(maxsize=KEPT_PROGRAMS)
def replaying_blocks(model: Model, skip: Skip) -> frozenset[str]:
    """Names of the blocks in whose phases rows that replay add what is held.

    Args:
        model: The model.
        skip: What rows skip.
    """
    if model.network is None:
        layers = [skip.mark(layer, number) for number, layer in enumerate(plain_layers(model))]
    else:
        layers = list(sample_program(model, skip, decided=False).layers)
    return frozenset(block.name for layer in layers for block in layer if block.holds)


class _Decision(NamedTuple):
    """How rows decide in the layers in which they skip blocks.

    Attributes:
        skip: What rows skip.
        rule: When they do.
        known_at: Point of the layer at which the decision is known.
        decided: Decisions are taken in these steps.
    """

    skip: Skip
    rule: ReplayRule
    known_at: Point
    decided: bool

    def with_work(self, layer: Layer, model: Model) -> Layer:
        """A layer whose blocks do the work of the rule: scores, held data, and its gain."""
        return tuple(self._block_with_work(block, model) for block in layer)

    def _block_with_work(self, block: Block, model: Model) -> Block:
        rule = self.rule
        is_scored_here = not self.skip.decides_before
        is_at_residual = rule.point == "residual"
        if self.decided and is_scored_here and block.name == _scoring_block(rule, self.known_at):
            block = replace(block, scores=rule)
        damps = rule.damps
        if isinstance(block, Output) and damps:
            return replace(block, rule=rule)
        if isinstance(block, Mlp):
            # The norm of such a score comes before the MLP, or the MLP writes what the rule holds.
            is_at_mlp = is_at_residual or work_of(rule, model).held_bytes > 0
            return replace(
                block,
                normed=self.decided and is_at_residual and is_scored_here,
                rule=rule if damps or (is_scored_here and is_at_mlp) else None,
            )
        return block


def _check_sets(layers: Iterable[Layer], tokens: int) -> None:
    """Refuse sets of tokens, each of which decides, where whole sequences skip a block."""
    blocks = [block for layer in layers for block in layer]
    for block in blocks:
        if tokens > 1 and block.follows is not None and block.deals == "sequences":
            problem = f"{tokens} tokens of a sequence cannot skip {block.label} one by one"
            cure = "decode 1 token a step, or skip the MLP alone (policy.skip: {kind: mlp})"
            raise InputError("policy.tokens_per_step", problem, cure)


def _scoring_block(rule: ReplayRule, known_at: Point) -> str:
    """Name of the block in which rows are scored."""
    if rule.point == "residual":
        return "output"
    return "qkv" if known_at == "q" else "attention"
