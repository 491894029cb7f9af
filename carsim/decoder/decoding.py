"""Fields that all recipes of traces share."""

from importlib.metadata import version
from typing import Annotated, Literal, Self

from pydantic import (
    FiniteFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    model_validator,
)

from carsim.base.section import Section
from carsim.decisions.attention import Attention
from carsim.decisions.replay import FASTCAR, Pairs, Replay, ReplayRule, Rule, Scope
from carsim.decisions.trace.meta import Geometry, Tau, TraceMeta
from carsim.decoder.structures import DecoderPolicy

Method = Literal["greedy", "top_k"]
Taus = Tau | tuple[Tau | None, ...] | None
NAME = r"^[A-Za-z0-9_.\-]+$"
"""Of a recipe or its output: no folder."""
FilePath = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$")]


class TokenSampling(Section):
    """Sampling of tokens that are not given, one per guidance pair.

    Attributes:
        method: ``greedy``: the likeliest; ``top_k``: drawn among the k likeliest.
        k: For ``top_k``; left out, all tokens may be drawn.
        temperature: Divides the logits, for ``top_k``.
        guidance_scale: s in blank + s * (conditional - blank) (arXiv 2207.12598); 1 is no guidance.
    """

    method: Method
    k: PositiveInt | None = None
    temperature: PositiveFloat = 1.0
    guidance_scale: FiniteFloat = 3.0

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        if self.method == "greedy" and (self.k is not None or self.temperature != 1):
            raise ValueError("k and temperature do nothing under greedy; leave them out")
        return self


class BaseRecipe(Section):
    """Fields that every recipe has."""

    name: Annotated[str, StringConstraints(pattern=NAME)]
    output: Annotated[str, StringConstraints(pattern=NAME)]
    n_frames: PositiveInt
    tau: Taus
    rule: Rule = FASTCAR
    attention: Attention
    decision_scope: Scope = "row"
    seed: NonNegativeInt

    @property
    def thresholds(self) -> float | tuple[float | None, ...] | None:
        """Taus as a trace stores them."""
        return self.tau

    def policy_of(self, body: Geometry, pairs: Pairs) -> DecoderPolicy:
        """The decoder's policy.

        Args:
            body: Shape of the body.
            pairs: (conditional, blank) rows of each video.

        Raises:
            ValueError: Tau or rule do not fit the body.
        """
        made = made_by(self.thresholds, self.rule, scope=self.decision_scope, body=body)
        return DecoderPolicy(made.tau, made.rule, made.scope, pairs, self.attention)

    def metadata(self, **more: object) -> TraceMeta:
        """Metadata of a trace: the recipe's fields of equal names, and further fields.

        Args:
            more: Further fields, which replace those of the recipe.
        """
        values = {name: value for name, value in self if name in TraceMeta.model_fields}
        values["producer"] = "carsim capture"
        values["producer_version"] = version("carsim")
        values["command"] = f"carsim capture {self.name}.yaml"
        values["tau"] = self.thresholds
        return TraceMeta.model_validate(values | more)


def made_by(tau: Taus, rule: ReplayRule, *, scope: Scope, body: Geometry) -> Replay:
    """How a decision is made.

    Args:
        tau: Threshold: one, one per layer, or None.
        rule: Rule of the score.
        scope: Rows that decide together.
        body: Shape of the body.

    Raises:
        ValueError: Tau or rule do not fit the body.
    """
    if isinstance(tau, tuple) and len(tau) != body.n_layers:
        raise ValueError(f"{len(tau)} taus for {body.n_layers} layers")
    rule.check(body.n_heads, body.hidden_size)
    rule.check_layers(body.n_layers)
    taus = tau if isinstance(tau, tuple) else (tau,) * body.n_layers
    return Replay(taus, rule, scope)
