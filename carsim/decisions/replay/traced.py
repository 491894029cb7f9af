"""What a rule of replay does, found by letting it score arrays that note what is done with them.

A rule is handed one row of a small decoding, frame by frame: computed() as the decoder calls it,
then score(). Of three layers and two frames that are scored, the most of each figure counts.

* **Where a decision is known**: the latest of the values that the score depends on.
* **Operations**: those of a score, and those of computed(), which a row that computes pays too.
* **Keys**: the elements of earlier keys that are read.
* **Held bytes**: everything that the arrays of its state hold for one place, at the precision of an
  activation (numbers), one bit (truth values) or their own width (whole numbers).
* **Read bytes**: elements of the MLP output that is held for the place in any case.

Simplifications: the operations of a rule are split evenly over cores that share heads and columns;
what attention, norm and projections compute is there for nothing; counters of ages, positions and
codes cost nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.decisions.replay.seen import KNOWN_FROM, STAGES, Later, Seen, Stage, too_far
from carsim.decisions.replay.shapes import DecoderShape, MachineShape, Point, RuleWork
from carsim.decisions.replay.tracked import Ledger, TrackedState, use

SMALL = MachineShape(
    n_heads=4, n_kv_heads=2, head_dim=8, hidden_size=32, activation_bits=Fraction(16)
)
TOKENS_PER_FRAME = 9
"""Of the frames that a rule scores here: a square, for rules that look at neighbours."""

PROMPT_TOKENS = (3, 8)
"""Prompts of two lengths: work that differs between them grows with the context."""

LAYERS = 3
HELD = "held"
FREE = frozenset({"age", "codes", "position", "prompt_length"})
"""Values whose elements cost nothing to read."""


class Rule(Protocol):
    """The part of a rule that is traced; see :class:`carsim.decisions.replay.base.ReplayRule`."""

    frames_back: ClassVar[int]

    @property
    def kind(self) -> str:
        """Name of the rule."""
        ...

    @property
    def first_frame(self) -> int:
        """First frame that is scored."""
        ...

    @property
    def listed_layers(self) -> int | None:
        """Layers for which its fields have a number each; None: any number."""
        ...

    def __hash__(self) -> int:
        """Equal rules have one trace."""
        ...

    @property
    def damps(self) -> bool:
        """Some layer scales what it replays."""
        ...

    def begin(self, shape: DecoderShape) -> Any:
        """State of one decoding."""
        ...

    def score(self, state: Any, layer: int, place: int, seen: Seen) -> Any:
        """Score of each row."""
        ...

    def computed(self, state: Any, layer: int, place: int, rows: Any, seen: Seen) -> None:
        """Learn which rows compute."""
        ...


@dataclass(frozen=True)
class Traced:
    """Work and inputs of a rule for one row in one layer of one step.

    Attributes:
        stage: Where its decision is known.
        used: Elements of each value that the score depends on.
        score_operations: Operations of a score.
        computed_operations: Operations of computed(), where the row computes.
        key_distances: Distances in tokens of the keys that are read, ascending.
        key_elements: Elements of those keys.
        held_elements: Elements of its state that a score reads.
        held_bits: Bits of its state for one place.
        output_elements: Elements that a score reads of the output held for the place.
        second_output: The score reads the last computed output where gains make it differ from the
            one that is held, so that it must be held as well.
        grows: Its operations or reads grow with the context.
    """

    stage: Stage
    used: Mapping[str, int]
    score_operations: int
    computed_operations: int
    key_distances: tuple[int, ...]
    key_elements: int
    held_elements: int
    held_bits: Fraction
    output_elements: int
    second_output: bool
    grows: bool

    @property
    def point(self) -> Point:
        """The point of a machine at which the decision is known."""
        return "q" if self.stage == "before" else self.stage

    def work(self, shape: MachineShape) -> RuleWork:
        """Work of one core.

        Raises:
            InputError: The work grows with the context, which a machine is not told.
        """
        if self.grows:
            problem = "its work grows with the context"
            cure = "look at a fixed number of weights or keys, or state work() at the usual context"
            raise InputError("rule", problem, cure)
        state_bytes = -(-self.held_bits // (8 * shape.of))
        output_bytes = ceil(Fraction(self.output_elements * shape.replay_bits, 8 * shape.of))
        return RuleWork(
            vector_ops=shape.columns(self.score_operations + self.computed_operations),
            key_elements=shape.columns(self.key_elements),
            held_bytes=state_bytes + output_bytes * self.second_output,
            read_bytes=output_bytes * (not self.second_output),
        )


def trace_rule(rule: Rule, shape: MachineShape | None = None) -> Traced:
    """Trace a rule.

    Args:
        rule: The rule.
        shape: Sizes of the model; small ones if left out.

    Raises:
        InputError: The rule takes numbers out of the arrays that it is shown, keeps state in
            something else than arrays, or looks further back than it declares.
    """
    return _traced(rule, replace(shape or SMALL, of=1), TOKENS_PER_FRAME)


def traced_key_distance(rule: Rule, tokens_per_frame: int) -> int:
    """Tokens between the newest one and the oldest key that is read; 0: none is."""
    return max(traced_key_distances(rule, tokens_per_frame), default=0)


def traced_key_distances(rule: Rule, tokens_per_frame: int) -> tuple[int, ...]:
    """Distances in tokens of all keys that are read, ascending."""
    return _traced(rule, SMALL, tokens_per_frame).key_distances


@lru_cache(maxsize=256)
def _traced(rule: Rule, shape: MachineShape, tokens_per_frame: int) -> Traced:
    """The trace at the first of two lengths of the prompt, which says whether both agree."""
    short_prompt, long_prompt = PROMPT_TOKENS
    short = _Run(rule, shape, tokens_per_frame, short_prompt).traced()
    long = _Run(rule, shape, tokens_per_frame, long_prompt).traced()
    figures = ("score_operations", "computed_operations", "key_elements", "used")
    grows = any(getattr(short, name) != getattr(long, name) for name in figures)
    return replace(short, grows=grows)


@dataclass
class _Run:
    """One row, decoded by nobody: values are drawn."""

    rule: Rule
    shape: MachineShape
    tokens_per_frame: int
    prompt: int
    distances: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def traced(self) -> Traced:
        """Score two frames, after as many as come before the first of them."""
        rule = self.rule
        state = arrays_of_state(rule.begin(self._decoder_shape()), rule.kind)
        state_bits = sum((self._bits(array) for array in state.arrays), Fraction(0))
        held_bits = state_bits / (LAYERS * self.tokens_per_frame)  # of one place in one layer
        scored: list[Ledger] = []
        learned: list[Ledger] = []
        place = 1
        layers = min(LAYERS, rule.listed_layers or LAYERS)
        for frame in range(rule.first_frame + 2):
            for layer in range(layers):
                if frame >= rule.first_frame:
                    ledger = Ledger()
                    score = rule.score(
                        state.tracked(ledger, may_write=False),
                        layer,
                        place,
                        self._seen(ledger, frame, layer, place),
                    )
                    use(score)
                    scored.append(ledger)
                ledger = Ledger()
                rows = np.ones(1, np.bool_)
                learning = state.tracked(ledger, may_write=True)
                seen = self._seen(ledger, frame, layer, place)
                rule.computed(learning, layer, place, rows, seen)
                learned.append(ledger)
        return self._summed(scored, learned, held_bits)

    def _summed(self, scored: list[Ledger], learned: list[Ledger], held_bits: Fraction) -> Traced:
        """Most that the rule used and computed in any step, from the ledgers of several steps."""
        names = sorted({name for ledger in scored for name in ledger.used})
        most = {name: max(ledger.elements(name) for ledger in scored) for name in names}
        used = {name: count for name, count in most.items() if count}
        keys = {name: count for name, count in used.items() if name.startswith("key ")}
        state_elements = sum(count for name, count in used.items() if name.startswith(HELD))
        stages = [KNOWN_FROM[name.split(" ")[0]] for name in used if not name.startswith(HELD)]
        last_computed = used.get("last_computed", 0)
        return Traced(
            stage=max(stages, key=STAGES.index, default="before"),
            used=used,
            score_operations=max((ledger.operations for ledger in scored), default=0),
            computed_operations=max((ledger.operations for ledger in learned), default=0),
            key_distances=tuple(sorted(int(name.split(" ")[1]) for name in keys)),
            key_elements=sum(keys.values()),
            held_elements=state_elements,
            held_bits=held_bits,
            output_elements=max(last_computed, used.get("last_used", 0)),
            second_output=self.rule.damps and last_computed > 0,
            grows=False,
        )

    def _decoder_shape(self) -> DecoderShape:
        """The shape of a decoder of one row for which the rule makes its state."""
        shape = self.shape
        return DecoderShape(
            n_layers=LAYERS,
            n_rows=1,
            tokens_per_frame=self.tokens_per_frame,
            hidden_size=shape.hidden_size,
            n_heads=shape.n_heads,
            head_dim=shape.head_dim,
            dtype=np.dtype(np.float64),
        )

    def _bits(self, array: NDArray[Any]) -> Fraction:
        """Stored bits of all elements of an array of state."""
        if array.dtype == np.bool_:
            return Fraction(array.size)
        if array.dtype.kind in "iu":
            return Fraction(array.nbytes * 8)
        return array.size * self.shape.activation_bits

    def _seen(self, ledger: Ledger, frame: int, layer: int, place: int) -> Seen:
        """One layer in one step, with random numbers that are tracked in a ledger."""
        shape = self.shape
        step = frame * self.tokens_per_frame + place
        context = self.prompt + step + 1
        heads = shape.n_heads
        kv_heads = shape.n_kv_heads
        head_dim = shape.head_dim

        # Tracked arrays stand for the decoder's, whose type they do not have.
        def drawn(name: str, *size: int) -> Any:
            return ledger.array(name, self.rng.normal(size=(1, *size)))

        def whole(name: str, value: int) -> Any:
            return ledger.array(name, np.array([value]))

        def allowed(ago: int) -> None:
            if ago > self.rule.frames_back * self.tokens_per_frame:
                raise too_far(ago, self.tokens_per_frame, self.rule.frames_back)

        def key(ago: int) -> Any:
            allowed(ago)
            return drawn("k_rotated" if ago == 0 else f"key {ago}", kv_heads, head_dim)

        def codes(ago: int) -> Any:
            allowed(ago)
            return whole("codes", int(self.rng.integers(0, 512)))

        weights: Any = Later(lambda: drawn("attention_weights", heads, context))
        hidden = shape.hidden_size
        return Seen(
            q=drawn("q", heads, head_dim),
            q_rotated=drawn("q_rotated", heads, head_dim),
            key=key,
            mlp_input=drawn("mlp_input", hidden),
            tokens_per_frame=self.tokens_per_frame,
            frame=frame,
            layer=layer,
            place=place,
            position=whole("position", context - 1),
            prompt_length=whole("prompt_length", self.prompt),
            codes=codes,
            residual_in=drawn("residual_in", hidden),
            attention_input=drawn("attention_input", hidden),
            k=drawn("k", kv_heads, head_dim),
            k_rotated=drawn("k_rotated", kv_heads, head_dim),
            v=drawn("v", kv_heads, head_dim),
            attention_weights=weights,
            attention_output=drawn("attention_output", hidden),
            residual=drawn("residual", hidden),
            last_computed=drawn("last_computed", hidden),
            last_used=drawn("last_used", hidden),
            age=whole("age", 1),
            rows=1,
        )


@dataclass(frozen=True, eq=False)
class RuleState:
    """The state of a rule: arrays, by themselves or in a dictionary, list or tuple.

    Attributes:
        form: What begin() returned.
        arrays: The arrays in it, in order.
    """

    form: Any
    arrays: tuple[NDArray[Any], ...]

    def tracked(self, ledger: Ledger, *, may_write: bool) -> Any:
        """The state with tracked arrays in place of its own.

        Args:
            ledger: Where their use is noted.
            may_write: The rule may store values.
        """
        wrapped = []
        for number, array in enumerate(self.arrays):
            tracked = TrackedState(f"{HELD} {number}", array, ledger)
            tracked.may_write = may_write
            wrapped.append(tracked)
        return self.with_arrays(wrapped)

    def with_arrays(self, arrays: list[Any]) -> Any:
        """The state with other arrays in the same form."""
        if self.form is None:
            return None
        if isinstance(self.form, dict):
            return dict(zip(self.form, arrays, strict=True))
        if isinstance(self.form, list | tuple):
            return type(self.form)(arrays)
        return arrays[0]

    def copy(self) -> Any:
        """The state with copies of its arrays."""
        return self.with_arrays([array.copy() for array in self.arrays])


def arrays_of_state(state: Any, kind: str) -> RuleState:
    """The arrays of the state of a rule.

    Args:
        state: Result of begin().
        kind: Name of the rule, for messages.

    Raises:
        InputError: Something in it is no array.
    """
    if state is None:
        return RuleState(None, ())
    items = state
    if isinstance(state, dict):
        items = list(state.values())
    elif not isinstance(state, list | tuple):
        items = [state]
    for item in items:
        if not isinstance(item, np.ndarray):
            problem = f"begin() gives {type(item).__name__} as state, whose bytes cannot be counted"
            cure = "give NumPy arrays, by themselves or in a dictionary, list or tuple"
            raise InputError(f"rule {kind}", problem, cure)
    return RuleState(state, tuple(items))
