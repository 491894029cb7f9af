"""A rule of replay, as the YAML, the trace, the decoder and the machine see it: one class.

A rule gives each row a score in each layer and step after the first frame. The row replays where
``score > tau``, strictly (:mod:`carsim.decisions.replay.decide`), so that a rule of distances
scores their negative.

Letters in shapes as in :mod:`carsim.decisions.attention.base`, and d the hidden size. The *place*
of a step is its number within the frame. What is *held* for a place was stored when the row last
computed there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, get_args

from pydantic import Field

from carsim.base.section import GrownSection
from carsim.base.sizes import MOST
from carsim.decisions.attention.base import Array, Bools, named

Point = Literal["q", "attention", "residual"]
"""Points of a layer at which a decision can be known, in order: queries are there; attention is
done; the residual stream is complete, and with it the input of the MLP."""

Number = TypeVar("Number", int, float)
Gain = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, eq=False)
class DecoderShape:
    """A decoding that begins, for rules that keep a state of their own.

    Attributes:
        n_layers: L.
        n_rows: B.
        tokens_per_frame: N.
        hidden_size: d.
        n_heads: H.
        head_dim: hd.
        dtype: Arithmetic.
    """

    n_layers: int
    n_rows: int
    tokens_per_frame: int
    hidden_size: int
    n_heads: int
    head_dim: int
    dtype: Any


@dataclass(frozen=True, eq=False)
class Seen:
    """One layer in one step, as a rule may look at it. Arrays are the decoder's own: do not write.

    Attributes:
        q: Query before the rotary embedding, [B, H, hd]; head h is served by key head h * KV // H.
        q_rotated: Query after it.
        key: The cached rotated key, [B, KV, hd], of so many tokens ago; 0 is the newest.
        mlp_input: Input of the MLP, the normed residual stream after attention, [B, d].
        tokens_per_frame: N.
        frame: Number of the frame that is decoded.
    """

    q: Array
    q_rotated: Array
    key: Callable[[int], Array]
    mlp_input: Array
    tokens_per_frame: int
    frame: int = 0


@dataclass(frozen=True)
class MachineShape:
    """The model that a machine runs, and the share of it that one core has.

    Attributes:
        n_heads: H.
        n_kv_heads: KV.
        head_dim: hd.
        hidden_size: d.
        activation_bits: Stored bits of an activation.
        of: Cores that share heads and columns; 1 where a core has all of them.
    """

    n_heads: int
    n_kv_heads: int
    head_dim: int
    hidden_size: int
    activation_bits: Fraction
    of: int = 1

    def columns(self, n: int) -> int:
        """Of n heads or columns, those of the core with the largest share."""
        return -(-n // self.of)


class RuleWork(NamedTuple):
    """Work of a rule for one row in one layer of one step that is scored.

    Attributes:
        vector_ops: Operations of the vector unit.
        key_elements: Elements of the cached key that is read; attention may read it in any case.
        held_bytes: Bytes held for one place: read where it is scored, written where the row
            computes, and kept for every place of the frame.
    """

    vector_ops: int = 0
    key_elements: int = 0
    held_bytes: int = 0


NO_WORK = RuleWork()


class ReplayRule(GrownSection):
    """A rule by which rows replay: fields of the YAML and of a trace, scores, work.

    To add a kind: one file in this folder with a subclass, and one line in
    :data:`carsim.decisions.replay.RULES`. The subclass declares ``kind: Literal["name"] = "name"``,
    its fields with limits, ``label``, ``known_at``, ``score`` and ``work``; the rest where it
    differs.

    Every kind may damp: ``gain`` scales a cached output each time it is replayed, so that older
    outputs add less. Every kind may cap the age of outputs: a place that has replayed ``max_age``
    frames in a row computes in the next. The decoder sees to both and the machine to the gain; a
    kind's score does not change. Simplification: the machine's counters of ages, a few bits for
    each place of a layer, cost nothing.

    Contract, which ``tests/decisions/replay/test_contract.py`` holds over all kinds:

    * With an infinite tau, decoding equals dense decoding to the bit: a rule only looks.
    * A row decides by itself: its score does not depend on its batch-mates.
    * Nothing drawn: equal inputs give equal scores.
    * Scores are finite.
    * No place replays more than ``max_age`` frames in a row.
    * ``score`` looks at nothing that comes after ``known_at``.

    Class attributes:
        label: English name in comparisons.
        paper: Its source.
        known_at: The earliest point at which its score can be known. A rule that is known at
            ``residual`` looks at the input of the MLP, which is then normed for all rows.
    """

    label: ClassVar[str]
    paper: ClassVar[str] = ""
    known_at: ClassVar[Point]

    later: ClassVar[frozenset[str]] = frozenset({"gain", "max_age"})

    kind: str
    gain: Gain | Annotated[tuple[Gain, ...], Field(min_length=1, strict=False)] = Field(
        1.0, description="factor on a cached output per replay, 0 adds nothing; or one per layer"
    )
    max_age: Annotated[int, Field(gt=0, le=MOST)] | None = Field(
        None, description="frames in a row that a place may replay; no limit if absent"
    )

    @property
    def text(self) -> str:
        """The rule with its fields, as a phrase."""
        return named(self.label, self.model_dump())

    @property
    def damps(self) -> bool:
        """Some layer scales what it replays."""
        gains = self.gain if isinstance(self.gain, tuple) else (self.gain,)
        return any(gain != 1 for gain in gains)

    def gain_of(self, layer: int) -> float:
        """The gain of a layer."""
        return of_layer(self.gain, layer)

    @property
    def is_fastcar(self) -> bool:
        """The published rule, which labels need not name."""
        return False

    @property
    def method(self) -> str:
        """Name of decoding with this rule, in tables; fields that have their default go unsaid."""
        own = named(self.label, self.model_dump(exclude_defaults=True))
        return "FastCar" if self.is_fastcar else f"replay by {own}"

    def check_layers(self, n_layers: int) -> None:
        """Refuse lists of other than a number for each layer, with a ValueError."""
        for name, value in self:
            if isinstance(value, tuple) and len(value) != n_layers:
                given = f"{len(value)} {name.removesuffix('s')}s for {n_layers} layers"
                raise ValueError(f"rule: {given}, give one number or {n_layers}")

    def check(self, n_heads: int, hidden_size: int) -> None:
        """Refuse a decoder that lacks what the rule looks at.

        Args:
            n_heads: H.
            hidden_size: d.

        Raises:
            ValueError: It does; the message says what and the cure.
        """

    # What the decoder asks.

    def begin(self, shape: DecoderShape) -> Any:
        """State of one decoding, handed to the methods below; None where there is none."""
        return None

    def score(self, state: Any, layer: int, place: int, seen: Seen) -> Array:
        """Score of each row, [B].

        Args:
            state: Result of :meth:`begin`.
            layer: Layer.
            place: Place in the frame.
            seen: What there is to look at.
        """
        raise NotImplementedError

    def computed(self, state: Any, layer: int, place: int, rows: Bools, seen: Seen) -> None:
        """Learn which rows compute, bool[B]; in every step of every layer that has a tau."""

    # What the machine asks.

    def at_width(self, decoded: int, simulated: int) -> "ReplayRule":
        """The rule in a model of another hidden size than that in which it decided.

        Args:
            decoded: d of the decoder.
            simulated: d of the machine's model.
        """
        return self

    def key_distance(self, tokens_per_frame: int) -> int:
        """Tokens between the newest one and the cached key that is read; 0: none is."""
        return 0

    def work(self, shape: MachineShape) -> RuleWork:
        """Work of one core for one row in one layer."""
        raise NotImplementedError


def of_layer(value: "Number | tuple[Number, ...]", layer: int) -> "Number":
    """The number of a layer, where there is one for all or one per layer."""
    return value[layer] if isinstance(value, tuple) else value


def later(first: Point, second: Point) -> Point:
    """The later of two points of a layer.

    >>> later("residual", "q")
    'residual'
    """
    return max(first, second, key=get_args(Point).index)
