"""The loss of an idea on held-out scenes, with its baselines.

Each scene is decoded with its true tokens fed, replays really applied, in the small model. The loss
is that of the conditional row in nats per token, over dense decoding, in all frames but the first.

Baselines of a rule, at as many replays:

* *permuted*: its own decisions at permuted places of each layer, so at equal ages;
* *random*: as many places of each layer and frame, drawn;
* *nothing*: its own decisions, and nothing is added in place of the cached output.

Where several decisions are made, each has these baselines; places are permuted or drawn alike for
all of them.

The baseline of an attention policy is a window of the newest tokens that reads as many keys.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from carsim.base.statistics import Interval, bootstrap_mean
from carsim.decisions.attention import Streaming
from carsim.decisions.attention.base import Array, Bools
from carsim.decisions.replay import DecoderShape, Replay, ReplayRule, Seen
from carsim.decoder.capture import prepare
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.group import Decoded, RowGroup, decode_group
from carsim.decoder.recipe import Recipe
from carsim.decoder.structures import DecoderPolicy
from carsim.decoder.workers import Advance, Progress, run_in_workers


class Given(ReplayRule):
    """Decisions that were made before.

    Attributes:
        packed: Bits of bool[S, L, B].
        shape: S, L and B.
    """

    label: ClassVar[str] = "given decisions"
    known_at: ClassVar[Literal["q"]] = "q"

    kind: Literal["given"] = "given"
    packed: bytes
    shape: tuple[int, int, int]

    @classmethod
    def of(cls, replay: Bools, gain: float = 1.0) -> "Given":
        """Decisions bool[S, L, B], and what is left of an output at each replay."""
        steps, layers, rows = replay.shape
        packed = np.packbits(replay).tobytes()
        return cls(packed=packed, shape=(steps, layers, rows), gain=gain)

    @property
    def replay(self) -> Bools:
        """bool[S, L, B]."""
        size = self.shape[0] * self.shape[1] * self.shape[2]
        bits = np.unpackbits(np.frombuffer(self.packed, np.uint8), count=size)
        return bits.astype(np.bool_).reshape(self.shape)

    def begin(self, shape: DecoderShape) -> Array:
        """The decisions, [S, L, B]."""
        return self.replay.astype(np.float64)

    def score(self, state: Array, layer: int, place: int, seen: Seen) -> Array:
        """1 where a row replays, [B]."""
        scores: Array = state[seen.frame * seen.tokens_per_frame + place, layer]
        return scores


@dataclass(frozen=True)
class Loss:
    """Losses over dense decoding.

    Attributes:
        scenes: Number of scenes.
        ratio: Replayed share of eligible steps, all layers; 0 for attention policies.
        by_layer: Replayed share of each layer.
        further: Decision beside ``token`` -> replayed share of eligible steps, all layers.
        density: Keys read over the context, in frames after the first; 1 for rules.
        excess: Name of a way -> loss over dense decoding, with its interval over scenes.
        gains: Baseline -> its loss less that of the idea; positive where the idea is better.
        dense_nats: Loss of dense decoding.
    """

    scenes: int
    ratio: float
    by_layer: tuple[float, ...]
    density: float
    excess: Mapping[str, Interval]
    gains: Mapping[str, Interval]
    dense_nats: float
    further: Mapping[str, float] = field(default_factory=dict)


def measure_rule(
    recipe: Recipe, *, workers: int, progress: Progress | None
) -> tuple[Loss, NDArray[np.bool_]]:
    """Loss of the rule of a recipe, and its decisions, bool[S, L, B]."""
    groups = groups_of_scenes(recipe)
    dense = DecoderPolicy((None,) * recipe.decoded.n_layers)
    dense_groups = [replace(group, policy=dense) for group in groups]
    decoded = _decoded({"idea": groups, "dense": dense_groups}, workers, progress)
    with_idea = decoded["idea"]
    rng = np.random.default_rng(0)
    decisions_of: dict[str, Callable[[Bools], Given]] = {
        "permuted": lambda replay: Given.of(permuted(replay, rng)),
        "random": lambda replay: Given.of(redrawn(replay, rng)),
        "nothing": lambda replay: Given.of(replay, gain=0.0),
    }
    baselines: dict[str, list[RowGroup]] = {}
    for baseline, decide in decisions_of.items():
        groups_of_baseline = []
        for group, scene in zip(groups, with_idea, strict=True):
            policy = _given(group, scene, decide, rng)
            groups_of_baseline.append(replace(group, policy=policy))
        baselines[baseline] = groups_of_baseline
    decoded |= _decoded(baselines, workers, progress)
    losses = {way: _nats(scenes) for way, scenes in decoded.items()}
    replay = np.concatenate([scene.replay for scene in with_idea], axis=2)
    further = {
        name: float(np.mean([scene.scored(name).replay[TOKENS_PER_FRAME:] for scene in with_idea]))
        for name, _ in groups[0].policy.further
    }
    return replace(_loss(losses, replay, density=1.0), further=further), replay


def measure_policy(recipe: Recipe, *, workers: int, progress: Progress | None) -> Loss:
    """Loss of the attention policy of a recipe."""
    groups = groups_of_scenes(recipe)
    dense = DecoderPolicy((None,) * recipe.decoded.n_layers)
    dense_groups = [replace(group, policy=dense) for group in groups]
    decoded = _decoded({"idea": groups, "dense": dense_groups}, workers, progress)
    density = _density(recipe, decoded["idea"])
    # A window of as many tokens as the idea reads in a context of mean length.
    longest = recipe.n_steps + recipe.prompt_tokens
    window = max(1, round(density * (longest + TOKENS_PER_FRAME) / 2))
    newest = replace(dense, attention=Streaming(sinks=4, window=window))
    window_groups = [replace(group, policy=newest) for group in groups]
    decoded |= _decoded({f"newest {window} tokens": window_groups}, workers, progress)
    losses = {way: _nats(scenes) for way, scenes in decoded.items()}
    replay = np.zeros((recipe.n_steps, recipe.decoded.n_layers, 1), np.bool_)
    return _loss(losses, replay, density)


def permuted(replay: Bools, rng: np.random.Generator) -> Bools:
    """Decisions with the places of each layer permuted, alike in all frames: equal ages.

    Args:
        replay: bool[S, L, B].
        rng: Draws the permutations.
    """
    frames = replay.reshape(-1, TOKENS_PER_FRAME, *replay.shape[1:])  # [T, N, L, B]
    permuted_frames = np.empty_like(frames)
    for layer in range(replay.shape[1]):
        permuted_frames[:, :, layer] = frames[:, rng.permutation(TOKENS_PER_FRAME), layer]
    return permuted_frames.reshape(replay.shape)


def redrawn(replay: Bools, rng: np.random.Generator) -> Bools:
    """Decisions with as many replays in each frame, layer and row, at places drawn anew."""
    frames = replay.reshape(-1, TOKENS_PER_FRAME, *replay.shape[1:])  # [T, N, L, B]
    return rng.permuted(frames, axis=1).reshape(replay.shape)


def groups_of_scenes(recipe: Recipe) -> list[RowGroup]:
    """A group for each scene, so that scenes are decoded side by side."""
    groups = []
    for clip in recipe.clips:
        of_scene = recipe.model_copy(update={"clips": (clip,)})
        groups.append(prepare(of_scene, Path())[0])
    return groups


def _given(
    group: RowGroup, scene: Decoded, decide: Callable[[Bools], Given], rng: np.random.Generator
) -> DecoderPolicy:
    """The policy of a baseline; blocks are skipped as usual.

    Args:
        group: The group of the idea.
        scene: What was decided in it.
        decide: Gives the decisions of the baseline, from those of the idea.
        rng: Used by ``decide``, and set back for each further decision.
    """
    taus = (0.5,) * group.config.geometry.n_layers
    begun = rng.bit_generator.state
    rule = decide(scene.replay)
    further = []
    for name, _ in group.policy.further:
        rng.bit_generator.state = begun
        further.append((name, Replay(taus, decide(scene.scored(name).replay))))
    return DecoderPolicy(taus, rule, skip=group.policy.skip, further=tuple(further))


def decode_piece(group: RowGroup, advance: Advance) -> Decoded:
    """Decode a group, as a piece of work for a process."""
    return decode_group(group, advance)


def _decoded(
    groups_of: Mapping[str, list[RowGroup]], workers: int, progress: Progress | None
) -> dict[str, list[Decoded]]:
    """Decode the scenes of several ways side by side.

    Args:
        groups_of: Way of decoding -> a group for each scene.
        workers: Processes.
        progress: Told row-steps done and in all.
    """
    groups = [group for of_way in groups_of.values() for group in of_way]
    pieces = [partial(decode_piece, group) for group in groups]
    total = sum(group.work for group in groups)
    decoded = iter(run_in_workers(pieces, total=total, workers=workers, progress=progress))
    return {way: [next(decoded) for _ in of_way] for way, of_way in groups_of.items()}


def _nats(decoded: list[Decoded]) -> NDArray[np.float64]:
    """Mean loss of each scene after the first frame, in nats a token."""
    return np.array([scene.nats[TOKENS_PER_FRAME:].mean() for scene in decoded])


def _density(recipe: Recipe, decoded: list[Decoded]) -> float:
    """Keys that were read over the context, in frames after the first."""
    context = np.arange(recipe.n_steps) + recipe.prompt_tokens + 1  # [S]
    if decoded[0].kv:
        of_scenes = [scene.kv["kv_tokens"].mean(axis=(1, 2, 3)) for scene in decoded]
        read = np.mean(of_scenes, axis=0)
    else:
        read = recipe.attention.reads(context).tokens
    return float((read / context)[TOKENS_PER_FRAME:].mean())


def _loss(losses: Mapping[str, NDArray[np.float64]], replay: Bools, density: float) -> Loss:
    """The losses of all ways over dense decoding, and the idea's gains over its baselines.

    Args:
        losses: Way -> loss of each scene.
        replay: Decisions of the idea, bool[S, L, B].
        density: Keys read over the context.
    """
    eligible = replay[TOKENS_PER_FRAME:]
    dense = losses["dense"]
    idea = losses["idea"]
    baselines = [way for way in losses if way not in ("dense", "idea")]
    return Loss(
        scenes=len(idea),
        ratio=float(eligible.mean()),
        by_layer=tuple(eligible.mean(axis=(0, 2)).round(4).tolist()),
        density=density,
        excess={
            way: bootstrap_mean((losses[way] - dense).tolist()) for way in ("idea", *baselines)
        },
        gains={way: bootstrap_mean((losses[way] - idea).tolist()) for way in baselines},
        dense_nats=float(dense.mean()),
    )
