"""What one layer in one decode step shows to its rule of replay.

A rule may look at values that are known where it decides, and back as far as it declares. Anything
else is refused in one line.
"""

from typing import Any

from carsim.base.errors import InputError
from carsim.decisions.attention import Query, Selection
from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import Seen
from carsim.decisions.replay.seen import KNOWN_FROM, Later, Stage, refused, too_far
from carsim.decoder.layers import rms_norm, softmax_weights
from carsim.decoder.structures import Array, State

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
        self._made: dict[Stage, Seen] = {}
        self.values: dict[str, Array] = {"residual_in": x}
        self.query: Query | None = None
        self.chosen = Selection()

    def at(self, stage: Stage) -> Seen:
        """The layer as a rule may look at it at a stage; made once a stage."""
        if stage not in self._made:
            self._made[stage] = self._at(stage)
        return self._made[stage]

    def _at(self, stage: Stage) -> Seen:
        state = self._state
        layer = self._layer
        frame, place = divmod(state.step, state.config.tokens_per_frame)
        return Seen(
            key=self._key_before,
            codes=self._codes_before,
            tokens_per_frame=state.config.tokens_per_frame,
            frame=frame,
            layer=layer,
            place=place,
            position=state.positions,
            prompt_length=state.prompt_lengths,
            age=state.age[layer, :, place] + 1,
            last_used=self._output_of_mlp(state.held.get("mlp", state.computed)),
            last_computed=self._output_of_mlp(state.computed),
            rows=len(self._x),
            **self._values_at(stage),
        )

    def _values_at(self, stage: Stage) -> dict[str, Any]:
        """Arrays of the layer by name; those that cost work are worked out when they are used."""
        values: dict[str, Any] = dict(self.values)
        if stage == "before":
            values["attention_input"] = Later(self._attention_input)
        if stage in ("attention", "residual"):
            values["attention_weights"] = Later(self._attention_weights)
        if stage != "residual":
            for name in _NOT_AT_FIRST:
                values.setdefault(name, self._refused(name))
        return values

    def _refused(self, name: str) -> Later:
        policy = self._state.policy
        problem = (
            f"is known at {KNOWN_FROM[name]!r}, and skip {policy.skip.kind!r} decides at "
            f"{policy.skipped.stage!r}"
        )
        return refused(name, problem, "look at earlier values, or skip the MLP alone")

    def _output_of_mlp(self, outputs: Array) -> Any:  # noqa: ANN401 - or what refuses it
        """Outputs of this place among [L, B, N, d], where they are held."""
        state = self._state
        if "mlp" in state.policy.skipped.holds:
            return outputs[self._layer, :, state.step % state.config.tokens_per_frame]
        problem = f"is not held under skip {state.policy.skip.kind!r}"
        return refused("last_used", problem, "skip the MLP, too, or look at other values")

    def _attention_input(self) -> Array:
        state = self._state
        return rms_norm(self._x, state.weights.ln_attn[self._layer], state.config.rms_eps)

    def _attention_weights(self) -> Array:
        assert self.query is not None
        return softmax_weights(self.query, self.chosen)

    def _key_before(self, tokens: int) -> Array:
        """The key that was cached so many tokens ago, [B, KV, hd]."""
        self._check_distance(tokens)
        if self.query is None:
            self._refused("key").get()
        assert self.query is not None
        return self.query.keys[:, :, -1 - tokens]

    def _codes_before(self, steps: int) -> Ints:
        """The codes that were fed so many steps ago, int[B]."""
        self._check_distance(steps)
        codes: Ints = self._state.codes[self._state.step - steps]
        return codes

    def _check_distance(self, tokens: int) -> None:
        """Refuse to look back further than the rule declares, or beyond the first token."""
        state = self._state
        rule = state.policy.rule
        per_frame = state.config.tokens_per_frame
        if tokens > rule.frames_back * per_frame:
            raise too_far(tokens, per_frame, rule.frames_back)
        if tokens > state.step:
            problem = f"looks {tokens} tokens back in step {state.step}, where there are fewer"
            cure = "look back in score(), from frame first_frame on"
            raise InputError("rule", problem, cure)
