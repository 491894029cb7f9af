"""One layer in one step, as a rule of replay may look at it.

Values become known one after the other. A value that is asked for before it is known, or that a
decoder does not have, is refused in one line.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

from carsim.base.errors import InputError
from carsim.decisions.attention.base import Array, Ints

Stage = Literal["before", "q", "attention", "residual"]
"""Stages of a layer at which values become known, in order: the layer begins; queries, keys and
values are there; attention weights are; the residual stream is complete."""

STAGES: tuple[Stage, ...] = ("before", "q", "attention", "residual")

KNOWN_FROM: dict[str, Stage] = {
    "residual_in": "before",
    "attention_input": "before",
    "codes": "before",
    "position": "before",
    "prompt_length": "before",
    "age": "before",
    "last_computed": "before",
    "last_used": "before",
    "q": "q",
    "q_rotated": "q",
    "k": "q",
    "k_rotated": "q",
    "v": "q",
    "key": "q",
    "attention_weights": "attention",
    "attention_output": "residual",
    "residual": "residual",
    "mlp_input": "residual",
}
"""Values of a layer, and the stage from which each is known."""


class Later:
    """A value that is worked out, or refused, when a rule asks for it.

    Args:
        get: Gives the value, or raises an :class:`InputError`.
    """

    def __init__(self, get: Callable[[], Any]) -> None:
        self._get: Callable[[], Any] | None = get
        self._value: Any = None

    def get(self) -> Any:
        """The value; it is worked out once."""
        if self._get is not None:
            self._value = self._get()
            self._get = None
        return self._value


def refused(name: str, problem: str, cure: str) -> Later:
    """A value that a rule cannot have.

    Args:
        name: Its name.
        problem: Why.
        cure: What to do about it.
    """

    def refuse() -> None:
        raise InputError(f"rule: seen.{name}", problem, cure)

    return Later(refuse)


UNSHOWN: Any = Later(lambda: None)
"""Stands for a value that a decoder does not show."""


@dataclass(frozen=True, eq=False)
class Seen:
    """One layer in one step, as a rule may look at it. Arrays are the decoder's own: do not write.

    B rows, H query heads, KV key heads, hd elements of a head, d elements of the residual stream.

    Attributes:
        q: Query before the rotary embedding, [B, H, hd]; head h is served by key head h * KV // H.
        q_rotated: Query after it, [B, H, hd].
        key: The cached rotated key, [B, KV, hd], of so many tokens ago; 0 is the newest. A rule
            looks back as many frames as its ``frames_back`` says.
        mlp_input: Input of the MLP, the normed residual stream after attention, [B, d].
        tokens_per_frame: N.
        frame: Number of the frame that is decoded.
        layer: Number of the layer.
        place: Place of the token in the frame, 0 to N - 1.
        position: int[B], tokens of the row before this one, prompt included.
        prompt_length: int[B], tokens of the prompt of each row.
        codes: The code, int[B], that was fed so many steps ago; 0 is that of this step, -1 stands
            for the begin symbol.
        residual_in: Residual stream before the layer, [B, d].
        attention_input: Normed residual stream before the layer, [B, d].
        k: Key of this token before the rotary embedding, [B, KV, hd].
        k_rotated: Key of this token as it is cached, [B, KV, hd].
        v: Value of this token as it is cached, [B, KV, hd].
        attention_weights: Softmax weights of this token, [B, H, context slots]; the last slot is
            this token, slot -1 - N that of its place in the previous frame. Slots that are not
            read, and padding, have weight 0.
        attention_output: Output of attention after its projection, [B, d].
        residual: Residual stream after attention, before the MLP, [B, d].
        last_computed: MLP output that was computed last at this place, [B, d].
        last_used: MLP output that was used last at this place, computed or replayed, [B, d].
        age: int[B], frames since the MLP output of this place was computed, at least 1.
        rows: B, where it is known without looking at an array.
    """

    q: Array
    q_rotated: Array
    key: Callable[[int], Array]
    mlp_input: Array
    tokens_per_frame: int
    frame: int = 0
    layer: int = UNSHOWN
    place: int = UNSHOWN
    position: Ints = UNSHOWN
    prompt_length: Ints = UNSHOWN
    codes: Callable[[int], Ints] = UNSHOWN
    residual_in: Array = UNSHOWN
    attention_input: Array = UNSHOWN
    k: Array = UNSHOWN
    k_rotated: Array = UNSHOWN
    v: Array = UNSHOWN
    attention_weights: Array = UNSHOWN
    attention_output: Array = UNSHOWN
    residual: Array = UNSHOWN
    last_computed: Array = UNSHOWN
    last_used: Array = UNSHOWN
    age: Ints = UNSHOWN
    rows: int | None = None

    def __getattribute__(self, name: str) -> Any:
        """A value, worked out if it was not asked for before."""
        value = object.__getattribute__(self, name)
        if value is UNSHOWN:
            cure = "take a recipe of carsim's own decoder, which shows all"
            raise InputError(f"rule: seen.{name}", "is not shown by this decoder", cure)
        return value.get() if isinstance(value, Later) else value

    def changed(self, **values: Any) -> "Seen":
        """The layer with other values in some attributes."""
        unchanged = {
            field.name: object.__getattribute__(self, field.name) for field in fields(self)
        }
        return Seen(**{**unchanged, **values})

    @property
    def n_rows(self) -> int:
        """B."""
        return len(self.mlp_input) if self.rows is None else self.rows


def too_far(asked: int, tokens_per_frame: int, frames_back: int) -> InputError:
    """The refusal of a key or a code that lies further back than a rule declares.

    Args:
        asked: Tokens ago.
        tokens_per_frame: N.
        frames_back: Frames that the rule declares.
    """
    needed = -(-asked // tokens_per_frame)
    problem = (
        f"looks {asked} tokens back, and declares frames_back = {frames_back} "
        f"({frames_back * tokens_per_frame} tokens)"
    )
    cure = f"declare frames_back = {needed} and first_frame = {needed} in the rule"
    return InputError("rule", problem, cure)
