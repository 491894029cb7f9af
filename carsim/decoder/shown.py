"""What one layer in one decode step shows to its rule of replay.

A rule may look at values that are known where it decides, and back as far as it declares. Anything
else is refused in one line.
"""

from functools import partial
from typing import Any

from carsim.base.errors import InputError
from carsim.decisions.attention import Query, Selection
from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import ReplayRule, Seen
from carsim.decisions.replay.seen import KNOWN_FROM, Later, Stage, refused, too_far
from carsim.decoder.layers import rms_norm, softmax_weights
from carsim.decoder.structures import Array, State
from carsim.program.program import TOKEN

_NOT_AT_FIRST = tuple(
    name for name, stage in KNOWN_FROM.items() if stage != "before" and name != "key"
)
"""Arrays of a layer that are not known from its beginning."""


class Shown:
    """Values of a layer, as they become known in a step.

    Args:
        state: The decoding.
        layer: Number of the layer.
        x: Residual stream before the layer, [B, d].

    Attributes:
        values: Arrays that are known by now, under the names of
            :class:`~carsim.decisions.replay.Seen`.
        query: The newest queries and the cached keys; None before they are known.
        chosen: The keys that attention reads.
    """

    def __init__(self, state: State, layer: int, x: Array) -> None:
        self._state = state
        self._layer = layer
        self._x = x
        self._made: dict[tuple[Stage, str], Seen] = {}
        self.values: dict[str, Array] = {"residual_in": x}
        self.query: Query | None = None
        self.chosen = Selection()

    def at(self, stage: Stage, decision: str) -> Seen:
        """The layer as the rule of a decision may look at it at a stage; made once for both.

        Args:
            stage: Values that are known later are refused.
            decision: Name of the decision.
        """
        key = (stage, decision)
        if key not in self._made:
            self._made[key] = self._at(stage, decision)
        return self._made[key]

    def _at(self, stage: Stage, decision: str) -> Seen:
        state = self._state
        layer = self._layer
        frame, place = divmod(state.step, state.config.tokens_per_frame)
        rule = state.policy.decisions[decision].rule
        return Seen(
            key=partial(self._key_before, rule, decision),
            codes=partial(self._codes_before, rule),
            tokens_per_frame=state.config.tokens_per_frame,
            frame=frame,
            layer=layer,
            place=place,
            position=state.positions,
            prompt_length=state.prompt_lengths,
            age=state.decisions[decision].age[layer, :, place] + 1,
            last_used=self._output_of_mlp(state.held.get("mlp", state.computed)),
            last_computed=self._output_of_mlp(state.computed),
            rows=len(self._x),
            **self._values_at(stage, decision),
        )

    def _values_at(self, stage: Stage, decision: str) -> dict[str, Any]:
        """Arrays of the layer by name; those that cost work are worked out when they are used."""
        values: dict[str, Any] = dict(self.values)
        if stage == "before":
            values["attention_input"] = Later(self._attention_input)
        if stage in ("attention", "residual"):
            values["attention_weights"] = Later(self._attention_weights)
        if stage != "residual":
            for name in _NOT_AT_FIRST:
                values.setdefault(name, self._refused(name, decision))
        return values

    def _refused(self, name: str, decision: str) -> Later:
        policy = self._state.policy
        which = "" if decision == TOKEN else f" {decision!r}"
        problem = (
            f"is known at {KNOWN_FROM[name]!r}, and skip {policy.skip.kind!r} decides{which} at "
            f"{policy.skipped[decision].stage!r}"
        )
        return refused(name, problem, "look at earlier values, or skip the MLP alone")

    def _output_of_mlp(self, outputs: Array) -> Any:  # noqa: ANN401 - or what refuses it
        """Outputs of this place among [L, B, N, d], where they are held."""
        state = self._state
        if "mlp" in state.held:
            return outputs[self._layer, :, state.step % state.config.tokens_per_frame]
        problem = f"is not held under skip {state.policy.skip.kind!r}"
        return refused("last_used", problem, "skip the MLP, too, or look at other values")

    def _attention_input(self) -> Array:
        state = self._state
        return rms_norm(self._x, state.weights.ln_attn[self._layer], state.config.rms_eps)

    def _attention_weights(self) -> Array:
        assert self.query is not None
        return softmax_weights(self.query, self.chosen)

    def _key_before(self, rule: ReplayRule, decision: str, tokens: int) -> Array:
        """The key that was cached so many tokens ago, [B, KV, hd]."""
        self._check_distance(rule, tokens)
        if self.query is None:
            self._refused("key", decision).get()
        assert self.query is not None
        return self.query.keys[:, :, -1 - tokens]

    def _codes_before(self, rule: ReplayRule, steps: int) -> Ints:
        """The codes that were fed so many steps ago, int[B]."""
        self._check_distance(rule, steps)
        codes: Ints = self._state.codes[self._state.step - steps]
        return codes

    def _check_distance(self, rule: ReplayRule, tokens: int) -> None:
        """Refuse to look back further than a rule declares, or beyond the first token."""
        state = self._state
        per_frame = state.config.tokens_per_frame
        if tokens > rule.frames_back * per_frame:
            raise too_far(tokens, per_frame, rule.frames_back)
        if tokens > state.step:
            problem = f"looks {tokens} tokens back in step {state.step}, where there are fewer"
            cure = "look back in score(), from frame first_frame on"
            raise InputError("rule", problem, cure)
