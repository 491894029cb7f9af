"""A rule of replay, as the YAML, the trace, the decoder and the machine see it: one class.

A rule gives each row a score in each layer and step after the first frame. The row replays where
``score > tau``, strictly (:mod:`carsim.decisions.replay.decide`), so that a rule of distances
scores their negative.

Letters in shapes as in :mod:`carsim.decisions.attention.base`, and d the hidden size. The *place*
of a step is its number within the frame. What is *held* for a place was stored when the row last
computed there.
"""

from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args

from pydantic import Field, model_validator

from carsim.base.section import FieldError, GrownSection
from carsim.base.sizes import MOST
from carsim.decisions.attention.base import Array, Bools, named
from carsim.decisions.replay.seen import Seen
from carsim.decisions.replay.shapes import DecoderShape, MachineShape, Point, RuleWork
from carsim.decisions.replay.traced import Traced, trace_rule, traced_key_distance

Number = TypeVar("Number", int, float)
Gain = Annotated[float, Field(ge=0, le=1)]


class ReplayRule(GrownSection):
    """A rule by which rows replay: fields of the YAML and of a trace, scores, work.

    To add a kind: one file in this folder with a subclass, and one line in
    :data:`carsim.decisions.replay.RULES`. The subclass declares ``kind: Literal["name"] = "name"``,
    its fields with limits, ``label`` and ``score``; the rest where it differs.

    Where its decision is known, and what a machine has to do for it, follow from what ``score`` and
    ``computed`` do with the arrays that they are shown (:mod:`carsim.decisions.replay.traced`). A
    kind may state a cheaper form instead, such as sums in few bits: ``known_at``, ``work`` and
    ``key_distance``. The contract compares what is stated with what was traced.

    Every kind may damp: ``gain`` scales a cached output each time it is replayed, so that older
    outputs add less. Every kind may cap the age of outputs: a place that has replayed ``max_age``
    frames in a row computes in the next. The decoder sees to both and the machine to the gain; a
    kind's score does not change. Simplifications: the machine's counters of ages, a few bits for
    each place of a layer, cost nothing; where ``first_frame`` is above 1, frames between the first
    one and that pay for scores that are not taken.

    Contract, which ``tests/decisions/replay/test_contract.py`` holds over all kinds:

    * With an infinite tau, decoding equals dense decoding to the bit: a rule only looks.
    * A row decides by itself: its score does not depend on its batch-mates.
    * Nothing drawn: equal inputs give equal scores.
    * Scores are finite.
    * No place replays more than ``max_age`` frames in a row.
    * ``score`` looks at nothing that comes after ``known_at``, and no further back than
      ``frames_back``.
    * All state is in the arrays that ``begin`` returns; ``score`` does not change them.

    Class attributes:
        label: English name in comparisons.
        paper: Its source.
        known_at: The earliest point at which its score can be known; None: as traced. A rule that
            is known at ``residual`` looks at the residual stream or the input of the MLP, which is
            then normed for all rows.
        frames_back: Frames that it looks back at most, which is at most ``first_frame``.
        cheaper: Why a stated ``work`` takes less than half of the traced operations; empty where it
            does not.
    """

    label: ClassVar[str]
    paper: ClassVar[str] = ""
    known_at: ClassVar[Point | None] = None
    frames_back: ClassVar[int] = 1
    cheaper: ClassVar[str] = ""

    later: ClassVar[frozenset[str]] = frozenset({"gain", "max_age", "first_frame"})

    kind: str
    gain: Gain | Annotated[tuple[Gain, ...], Field(min_length=1, strict=False)] = Field(
        1.0, description="factor on a cached output per replay, 0 adds nothing; or one per layer"
    )
    max_age: Annotated[int, Field(gt=0, le=MOST)] | None = Field(
        None, description="frames in a row that a place may replay; no limit if absent"
    )
    first_frame: Annotated[int, Field(ge=1, le=MOST)] = Field(
        1, description="first frame that is scored; all before it compute"
    )

    @model_validator(mode="after")
    def _has_frames_to_look_at(self) -> Self:
        """Refuse a rule that scores before the frames are there at which it looks."""
        if self.first_frame < self.frames_back:
            problem = f"{self.first_frame}, while the rule looks {self.frames_back} frames back"
            raise FieldError("first_frame", problem, f"give at least {self.frames_back}")
        return self

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
        if self.is_fastcar:
            return "FastCar"
        return f"replay by {named(self.label, self.model_dump(exclude_defaults=True))}"

    @property
    def listed_layers(self) -> int | None:
        """Layers for which its fields have a number each; None: any number."""
        lengths = [len(value) for _, value in self if isinstance(value, tuple)]
        return min(lengths, default=None)

    def check_layers(self, n_layers: int) -> None:
        """Refuse lists of other than a number for each layer, with a ValueError."""
        for name, value in self:
            if isinstance(value, tuple) and len(value) != n_layers:
                problem = f"{len(value)} {name.removesuffix('s')}s for {n_layers} layers"
                raise ValueError(f"rule: {problem}, give one number or {n_layers}")

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

    @property
    def point(self) -> Point:
        """The earliest point at which its score can be known."""
        return self.known_at or self.traced().point

    def traced(self, shape: MachineShape | None = None) -> Traced:
        """What the rule does, found by handing it arrays that note what is done with them.

        Args:
            shape: Sizes; small ones if left out.
        """
        return trace_rule(self, shape)

    @property
    def states_work(self) -> bool:
        """The kind states its work instead of leaving it to the trace."""
        return type(self).work is not ReplayRule.work

    def key_distance(self, tokens_per_frame: int) -> int:
        """Tokens between the newest one and the oldest cached key that is read; 0: none is."""
        return 0 if self.states_work else traced_key_distance(self, tokens_per_frame)

    def work(self, shape: MachineShape) -> RuleWork:
        """Work of one core for one row in one layer; as traced, unless a kind states its own."""
        return self.traced(shape).work(shape)


def of_layer(value: "Number | tuple[Number, ...]", layer: int) -> "Number":
    """The number of a layer, where there is one for all or one per layer."""
    return value[layer] if isinstance(value, tuple) else value


def later(first: Point, second: Point) -> Point:
    """The later of two points of a layer.

    >>> later("residual", "q")
    'residual'
    """
    return max(first, second, key=get_args(Point).index)
