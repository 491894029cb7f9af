"""The recipe of a trace: one strict YAML file with everything that capturing needs."""

import os
from collections.abc import Iterable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Discriminator,
    Field,
    NonNegativeInt,
    PositiveInt,
    RootModel,
    StringConstraints,
    Tag,
    ValidationError,
    model_validator,
)

from carsim.base.errors import InputError
from carsim.base.section import Section, explained, file_schema, tuples
from carsim.decisions.replay import Pairs, Replay, Rule, Scope
from carsim.decisions.trace.meta import TOKEN, DecisionName, Geometry
from carsim.decisions.trace.precision import DecoderPrecision
from carsim.decoder.chunked.recipe import ChunkRecipe
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.decoding import BaseRecipe, FilePath, Taus, TokenSampling, made_by
from carsim.decoder.hf_recipe import CheckpointRecipe
from carsim.decoder.pipeline_recipe import PipelineRecipe
from carsim.decoder.structures import MLP_ALONE, DecoderPolicy
from carsim.program.skips import AnySkip

PROMPT = "Generate a video:"
"""Every prompt begins with it; a blank prompt is nothing else."""

_NAME = r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]*"
_PACKAGE = Path(__file__).parents[1]
_SHIPPED = (_PACKAGE, _PACKAGE.parent / "traces", _PACKAGE.parent / "studies" / "twin")


class SceneRecipe(Section):
    """One clip from the recipe's file of scenes; see :mod:`carsim.decoder.content.scenes`.

    Attributes:
        scene: Name in the file.
        caption: What the prompt says of it.
    """

    scene: Annotated[str, StringConstraints(pattern=_NAME)]
    caption: str


class VideoRecipe(Section):
    """One clip from a video or a folder of pictures; see :mod:`carsim.decoder.content.videos`.

    Attributes:
        video: File or folder, in the working directory or a folder that the command line names.
        caption: What the prompt says of it.
        every: Each frame that is a multiple of this is taken.
    """

    video: FilePath
    caption: str
    every: PositiveInt = 1


def _has_video(clip: Any) -> bool:
    return isinstance(clip, VideoRecipe) or (isinstance(clip, dict) and "video" in clip)


_AnyClip = Annotated[
    Annotated[SceneRecipe, Tag("of a scene")] | Annotated[VideoRecipe, Tag("of a video")],
    Discriminator(lambda clip: "of a video" if _has_video(clip) else "of a scene"),
]


class QualityRecipe(Section):
    """A measurement of quality against decoding without replay and with dense attention.

    Attributes:
        clips: Number of clips that are measured, from the first on.
    """

    clips: PositiveInt


class DecisionRecipe(Section):
    """A decision beside that of the recipe.

    Attributes:
        tau: Threshold: one, or one per layer, where null neither scores nor replays.
        rule: Rule of replay; the recipe's, if left out.
        decision_scope: Rows that decide together; the recipe's, if left out.
    """

    tau: Taus
    rule: Rule | None = None
    decision_scope: Scope | None = None


class Recipe(BaseRecipe):
    """A decoding of given content by the reference decoder.

    Paths are relative to the recipe's folder, or absolute.

    Attributes:
        name: Name of the trace.
        output: File to write.
        decoded: Geometry of the decoder.
        weights: A ``.safetensors`` checkpoint.
        codebook: File of the visual tokens.
        scenes: File of the scenes, where clips name some.
        clips: Videos; clip i becomes rows 2i (its caption as prompt) and 2i + 1 (blank).
        n_frames: T.
        prompt_tokens: P, to which every prompt is left-padded.
        tau: Replay threshold: one, one per layer, or null for dense decoding.
        exempt_layers: Layers that are scored and never replay, whatever the one tau is.
        rule: Rule of replay: the score that tau is compared with.
        attention: Attention policy.
        decision_scope: Rows that decide together.
        skip: Blocks that a row skips where it replays: the MLP, unless stated otherwise.
        decisions: Further decisions by name, where blocks of ``skip`` follow several, such as
            ``attention`` under ``by_decision``; the recipe's own tau, rule and scope make the
            decision ``token``.
        precision: Bits of weights, activations and caches; absent, nothing is rounded beyond
            ``dtype``.
        given_frames: First frames that are fed from the clip, where the rest is sampled.
        sampling: Present: frames after the given ones are sampled; absent: all are the clip's.
        quality: Measurement of quality, if wanted.
        tas_step: Present: the trace keeps scores to multiples of it, which saves space; those that
            would change their side of tau are kept as they are.
        dtype: Arithmetic.
        seed: Of sampling.
    """

    decoded: Geometry
    weights: FilePath
    codebook: FilePath
    scenes: FilePath | None = None
    clips: Annotated[tuple[_AnyClip, ...], Field(min_length=1)]
    prompt_tokens: PositiveInt
    exempt_layers: tuple[NonNegativeInt, ...] = ()
    skip: AnySkip = MLP_ALONE
    decisions: dict[DecisionName, DecisionRecipe] = Field(default_factory=dict)
    precision: DecoderPrecision | None = None
    given_frames: NonNegativeInt | None = None
    sampling: TokenSampling | None = None
    quality: QualityRecipe | None = None
    tas_step: Annotated[float, Field(gt=0, le=1)] | None = None
    dtype: Literal["float32", "float64"] = "float32"

    @property
    def n_rows(self) -> int:
        """B: two rows per clip."""
        return 2 * len(self.clips)

    @property
    def n_steps(self) -> int:
        """S."""
        return self.n_frames * TOKENS_PER_FRAME

    @property
    def pairs(self) -> Pairs:
        """(conditional, blank) rows of each clip."""
        return tuple((row, row + 1) for row in range(0, self.n_rows, 2))

    @property
    def prompts(self) -> tuple[bytes, ...]:
        """Prompt of each row."""
        return tuple(
            text.encode() for clip in self.clips for text in (f"{PROMPT} {clip.caption}", PROMPT)
        )

    @property
    def judged_from(self) -> int:
        """First frame whose losses count: the first sampled one, or the first that may replay."""
        return 1 if self.given_frames is None else self.given_frames

    @property
    def thresholds(self) -> float | tuple[float | None, ...] | None:
        """Taus as a trace stores them: infinite in exempt layers, one number if none is exempt."""
        return self.with_exempt_layers(self.tau)

    def with_exempt_layers(self, tau: Taus) -> Taus:
        """A threshold for all layers but exempt ones, in which it is infinite.

        Args:
            tau: Of one of the decisions; one per layer, or None, stays as it is.
        """
        if not self.exempt_layers or tau is None or isinstance(tau, tuple):
            return tau
        exempt = set(self.exempt_layers)
        return tuple(inf if i in exempt else tau for i in range(self.decoded.n_layers))

    @property
    def policy(self) -> DecoderPolicy:
        """The decoder's policy."""
        policy = self.policy_of(self.decoded, self.pairs)
        further = tuple((name, self._made(decision)) for name, decision in self.decisions.items())
        return replace(policy, skip=self.skip, further=further)

    def tau_of(self, decision: str) -> Taus:
        """Threshold of a decision, without exempt layers.

        Args:
            decision: ``token``, or one of ``decisions``.
        """
        return self.tau if decision == TOKEN else self.decisions[decision].tau

    def with_tau(self, tau: Taus, decision: str = TOKEN) -> "Recipe":
        """The recipe with another threshold of a decision.

        Args:
            tau: The threshold.
            decision: ``token``, or one of ``decisions``.
        """
        if decision == TOKEN:
            return self.model_copy(update={"tau": tau})
        changed = self.decisions[decision].model_copy(update={"tau": tau})
        return self.model_copy(update={"decisions": {**self.decisions, decision: changed}})

    def _made(self, decision: DecisionRecipe) -> Replay:
        """How a further decision is made.

        Raises:
            ValueError: Tau or rule do not fit the body.
        """
        return made_by(
            self.with_exempt_layers(decision.tau),
            decision.rule or self.rule,
            scope=decision.decision_scope or self.decision_scope,
            body=self.decoded,
        )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.precision is not None:
            self.precision.check(self.decoded.input_widths, self.decoded.head_dim)
        if self.exempt_layers:
            self._check_exempt_layers()
        self._check_decisions()
        _ = self.policy.skipped  # tau and rule fit the body, and the decoder can skip that
        if (self.sampling is None) != (self.given_frames is None):
            raise ValueError("sampling and given_frames go together: give both or neither")
        if self.given_frames is not None and self.given_frames >= self.n_frames:
            raise ValueError(f"{self.given_frames} given_frames leave none of {self.n_frames}")
        if self.quality is not None:
            self._check_quality(self.quality)
        if self.scenes is None and any(isinstance(clip, SceneRecipe) for clip in self.clips):
            raise ValueError("clips name a scene, and no file of scenes is named")
        longest = max(self.prompts, key=len)
        if len(longest) > self.prompt_tokens:
            prompt = f"prompt {longest.decode()!r} has {len(longest)} bytes"
            raise ValueError(f"{prompt}, prompt_tokens allows {self.prompt_tokens}")
        if self.decoded.head_dim % 2:
            raise ValueError(f"head_dim {self.decoded.head_dim} is odd, rotary needs pairs")
        return self

    def _check_decisions(self) -> None:
        if TOKEN in self.decisions:
            problem = f"decisions: {TOKEN!r} is made by tau, rule and decision_scope of the recipe"
            raise ValueError(problem)
        for name, decision in self.decisions.items():
            if self.exempt_layers and isinstance(decision.tau, tuple):
                raise ValueError(f"exempt_layers go with one tau for the decision {name!r}")

    def _check_exempt_layers(self) -> None:
        if self.tau is None or isinstance(self.tau, tuple):
            raise ValueError("exempt_layers go with one tau for all other layers")
        layers = self.decoded.n_layers
        if max(self.exempt_layers) >= layers or len(set(self.exempt_layers)) == layers:
            raise ValueError(f"exempt_layers must be some, not all, of 0 to {layers - 1}")

    def _check_quality(self, wanted: QualityRecipe) -> None:
        if self.judged_from >= self.n_frames:
            raise ValueError("quality needs a frame after the first, which never replays")
        never_replays = self.tau is None and not self.decisions
        if never_replays and self.attention.exact and self.precision is None:
            raise ValueError("quality of dense decoding: it is its own reference")
        if wanted.clips > len(self.clips):
            raise ValueError(f"quality of {wanted.clips} clips, there are {len(self.clips)}")
        scopes = {made.scope for made in self.policy.decisions.values()}
        if "batch" in scopes and wanted.clips < len(self.clips):
            raise ValueError("quality under scope batch needs all clips, as they decide together")


AnyRecipe = Recipe | CheckpointRecipe | ChunkRecipe | PipelineRecipe


def recipe_schema() -> dict[str, Any]:
    """JSON schema of a recipe."""
    return file_schema(RootModel[AnyRecipe], "carsim recipe")


def parse_recipe(
    loaded: dict[str, Any], path: Path, *, also_from: Iterable[Path] = ()
) -> AnyRecipe:
    """Validate a recipe.

    Args:
        loaded: The mapping in the file.
        path: The file, for messages; paths in the recipe are relative to its folder.
        also_from: Folders whose files the recipe may name, besides its own folder, the working
            directory and what carsim ships.

    Raises:
        InputError: A field is missing, unknown or wrong; the message names the first one.
    """
    kind: type[AnyRecipe] = Recipe
    if "chunks" in loaded or "network" in loaded:
        kind = ChunkRecipe
    elif isinstance(loaded.get("weights"), dict):
        kind = PipelineRecipe if "diffusers" in loaded["weights"] else CheckpointRecipe
    try:
        recipe = kind.model_validate(tuples(loaded))
    except ValidationError as error:
        raise explained(error, str(path), loaded) from error
    _check_folders(recipe, path, tuple(also_from))
    return recipe


def _check_folders(recipe: AnyRecipe, path: Path, also_from: tuple[Path, ...]) -> None:
    """Refuse a recipe that names files outside of the folders where it may look.

    Args:
        recipe: The recipe.
        path: Its file.
        also_from: Folders that the user allows.
    """
    files: dict[str, str | None] = {}
    videos: dict[str, str] = {}
    if isinstance(recipe, Recipe):
        files["$.codebook"] = recipe.codebook
        files["$.scenes"] = recipe.scenes
        files["$.weights"] = recipe.weights
        for number, clip in enumerate(recipe.clips):
            if isinstance(clip, VideoRecipe):
                videos[f"$.clips[{number}].video"] = clip.video
    elif isinstance(recipe, CheckpointRecipe):
        files["$.weights"] = recipe.weights.hf
    elif isinstance(recipe, PipelineRecipe):
        files["$.weights"] = recipe.weights.diffusers
    cure = "move it there, or name its folder in `also_from`"
    for field, name in files.items():
        roots = (path.parent, Path(), *_SHIPPED, *also_from)
        if name is not None and not _lies_in(path.parent / name, roots):
            problem = f"{name!r} lies outside of the recipe's folder and of the working directory"
            raise InputError(f"{path}: {field}", problem, cure)
    for field, name in videos.items():
        if not _lies_in(path.parent / name, (Path(), *also_from)):
            problem = f"{name!r} lies outside of the working directory"
            raise InputError(f"{path}: {field}", problem, cure)


def _lies_in(path: Path, roots: Iterable[Path]) -> bool:
    """A path, links followed, lies in one of these folders."""
    target = Path(os.path.realpath(path))  # unlike resolve(), at peace with links in a circle
    return any(target.is_relative_to(root.resolve()) for root in roots)
