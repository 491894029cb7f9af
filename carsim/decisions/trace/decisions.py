"""Replay decisions as the simulator consumes them, each with the name of where it came from.

Only ``captured`` decisions are what a decoder really did. All others are approximations of it, and
their label says which.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.units import GB
from carsim.decisions.attention import KvReads
from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import FASTCAR, Pairs, ReplayRule, Scope, decision_units, unanimous
from carsim.decisions.trace.check import truth_values
from carsim.decisions.trace.file import Trace, as_own
from carsim.decisions.trace.meta import Origin
from carsim.decisions.trace.npz import MAX_BYTES
from carsim.decisions.trace.token_ranges import RangeDecisions

OpenLoop = Literal["re-thresholded (open loop)", "re-scoped (open loop)"]
Source = Literal[Origin, OpenLoop, "resampled", "mapped by depth", "independent", "dense"]

MOST_BYTES = MAX_BYTES
"""Memory that anything may take, by estimate: as much as a file of decisions may unpack to."""

DECISION_BYTES = 20
"""Of a decision in a run: 11 in batches of 8, 20 in batches of 32, measured."""

COARSENESS: dict[Scope, int] = {"row": 0, "pair": 1, "batch": 2}
"""Scopes from the finest to the coarsest."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions to replay. S steps, L layers, B rows, KV key heads, T frames.

    Attributes:
        replay: bool[S, L, B].
        source: Where the decisions came from: the last thing that was done to them.
        label: One phrase for people, naming everything that was done to them.
        pairs: Guidance pairs, (conditional, blank) row indices.
        scope: Rows that decided together.
        reads: Keys that attention read, [S, L, KV, B]; None where they follow from the context.
        held: int[T, L, B], tokens that the cache holds after each frame; None likewise.
        rule: Rule by which they were made, which a machine has to work out; None where nothing is
            decided.
        method: Name of decoding with them, in tables.
        rows_per_video: Rows that make one video together; None: a pair where there are pairs.
        further: Decisions beside these, by name: bool[S, L, B] each.
        further_rules: Rules by which those were made, by name.
        ranges: Decisions by range of tokens, of which ``replay`` has the rows that wholly reuse;
            None where whole rows decide.
    """

    replay: NDArray[np.bool_]
    source: Source
    label: str
    pairs: Pairs = ()
    scope: Scope = "row"
    reads: KvReads | None = None
    held: Ints | None = None
    rule: ReplayRule | None = FASTCAR
    method: str = FASTCAR.method
    rows_per_video: int | None = None
    further: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    further_rules: tuple[tuple[str, ReplayRule], ...] = ()
    ranges: RangeDecisions | None = None

    def __post_init__(self) -> None:
        """Hold decisions as bool."""
        object.__setattr__(self, "replay", truth_values(self.replay, self.label))

    @property
    def n_steps(self) -> int:
        """S."""
        return int(self.replay.shape[0])

    @property
    def n_layers(self) -> int:
        """L."""
        return int(self.replay.shape[1])

    @property
    def n_rows(self) -> int:
        """B."""
        return int(self.replay.shape[2])

    def taken(
        self,
        label: str,
        *,
        steps: Any = slice(None),
        frames: Any = slice(None),
        layers: Any = slice(None),
        rows: Any = slice(None),
    ) -> "Decisions":
        """The decisions of some steps (or frames, for ``held``), layers and rows.

        Args:
            label: Phrase for the label.
            steps: Index of steps.
            frames: Index of frames.
            layers: Index of layers.
            rows: Index of rows.
        """
        reads = self.reads
        if reads is not None:
            reads = KvReads(
                tokens=reads.tokens[steps][:, layers][..., rows],
                runs=reads.runs[steps][:, layers][..., rows],
            )
        return replace(
            self,
            replay=self.replay[steps][:, layers][..., rows],
            label=f"{self.label}, {label}",
            reads=reads,
            held=None if self.held is None else self.held[frames][:, layers][..., rows],
            further={
                name: replay[steps][:, layers][..., rows] for name, replay in self.further.items()
            },
        )

    def refuse_recorded(self, place: str) -> None:
        """Refuse decisions with recorded reads, which hold for their own contexts alone.

        Raises:
            InputError: What attention reads was recorded.
        """
        if self.reads is not None:
            problem = "what attention reads was recorded, and cannot be drawn for other contexts"
            raise InputError(place, problem, "capture a trace of the video that you want")


def check_memory(place: str, what: str, nbytes: int, cure: str) -> None:
    """Refuse what would take more than :data:`MOST_BYTES`, before it is allocated.

    Args:
        place: Field or option to blame.
        what: What there is too much of.
        nbytes: Estimate of the memory that it takes at most.
        cure: What to do about it.

    Raises:
        InputError: It is more.
    """
    if nbytes > MOST_BYTES:
        needed = f"{nbytes / GB:.1f} GB of memory"
        limit = f"{MOST_BYTES / GB:.1f}"
        raise InputError(place, f"{what} take some {needed}, the limit is {limit}", cure)


class DecisionShape(NamedTuple):
    """Shape of decisions: steps S, layers L and rows B."""

    steps: int
    layers: int
    rows: int


def check_decisions(place: str, shape: DecisionShape, *, drawn: bool = True) -> None:
    """Refuse decisions that would take too much memory.

    A decision takes :data:`DECISION_BYTES`; where nothing replays, it takes 3.

    Args:
        place: Option or field that asks for them.
        shape: Of all of them.
        drawn: Some replay.

    Raises:
        InputError: They take too much.
    """
    decisions = "decisions of {:,} steps, {:,} layers and {:,} rows".format(*shape)
    nbytes = prod(shape) * (DECISION_BYTES if drawn else 3)
    check_memory(place, decisions, nbytes, "ask for fewer steps, or a smaller batch")


def captured(trace: Trace) -> Decisions:
    """The decisions of a trace as they were made: exact for its own tau, attention and scope."""
    trace = as_own(trace)
    return Decisions(
        replay=trace.replay,
        source=trace.meta.origin,
        label=trace.meta.made_up or f"captured in {trace.name} at {trace.meta.tau_text}",
        pairs=trace.meta.guidance_pairs,
        scope=trace.meta.decision_scope,
        reads=trace.reads,
        held=trace.kv_held,
        rule=trace.meta.rule,
        method=trace.meta.method,
    )


def rethreshold(trace: Trace, tau: float | Sequence[float]) -> Decisions:
    """Apply another threshold to the stored scores.

    Open loop: a replay changes the residual stream and so the later scores, which stay as they were
    captured. The trace's own tau gives the captured decisions.

    Where some layers were captured with an infinite threshold and others with a finite one, the
    first were exempt from replay, and one threshold replaces only the finite ones. Where all are
    infinite (a trace captured to look at scores), it replaces all.

    Args:
        trace: A trace with scores.
        tau: One threshold, or one per layer, which then replace all.

    Raises:
        InputError: The number of thresholds is not the number of layers, a threshold is NaN, or
            the trace holds no scores.
    """
    trace = as_own(trace)
    if trace.meta.made_up:
        problem = f"decisions ({trace.meta.made_up}) hold no scores to compare a tau with"
        raise InputError("policy.tau", problem, "take 'captured', or a captured trace")
    captured_taus = trace.meta.tau_per_layer
    exempt = [threshold == np.inf for threshold in captured_taus]
    if isinstance(tau, Sequence):
        taus = tuple(map(float, tau))
    else:
        taus = tuple(np.inf if never and not all(exempt) else float(tau) for never in exempt)
    if len(taus) != trace.n_layers or np.isnan(taus).any():
        problem = f"expected one number, or {trace.n_layers} (one per layer), got {tau!r}"
        raise InputError("tau", problem, "pass as many as the trace has layers")
    decisions = captured(trace)
    if taus == captured_taus:
        return decisions
    if None in captured_taus:
        problem = "some of its layers hold no scores: they were decoded without tau"
        raise InputError(trace.name, problem, "capture a trace with a tau in every layer")
    changed = replace(trace.meta.replay, tau=taus)
    return replace(
        decisions,
        replay=changed.decide_all(trace.scores, trace.tokens_per_frame),
        source="re-thresholded (open loop)",
        label=f"scores of {trace.name} (captured at {trace.meta.tau_text}) "
        f"re-thresholded at {changed.tau_text} (open loop)",
    )


def rescope(decisions: Decisions, scope: Scope, batch: int | None = None) -> Decisions:
    """Let rows decide together: a unit replays only if all its rows would.

    Open loop, as the scores were made under the finer scope.

    Args:
        decisions: Decisions of the same or a finer scope.
        scope: The coarser scope; the scope they have already returns them as they are.
        batch: Rows that run as one batch, for scope ``batch``; all rows when left out.

    Raises:
        InputError: The decisions were made under a coarser scope, which cannot be undone.
    """
    if COARSENESS[scope] < COARSENESS[decisions.scope]:
        problem = f"{scope!r} is finer than {decisions.scope!r} of the decisions"
        raise InputError("decision scope", problem, "capture a trace with the finer scope")
    if scope == decisions.scope:
        return decisions
    units = decision_units(scope, decisions.pairs, decisions.n_rows, batch)
    label = f"re-scoped to {scope} (open loop)"
    further = {name: unanimous(replay, units) for name, replay in decisions.further.items()}
    return replace(
        decisions.taken(label),
        replay=unanimous(decisions.replay, units),
        further=further,
        scope=scope,
        source="re-scoped (open loop)",
    )


def dense(n_steps: int, n_layers: int, n_rows: int, pairs: Pairs = ()) -> Decisions:
    """No replay at all, bool[S, L, B] of False."""
    replay = np.zeros((n_steps, n_layers, n_rows), bool)
    return Decisions(replay, "dense", "dense: no replay", pairs, rule=None)


def replay_ratio(replay: NDArray[np.bool_], tokens_per_frame: int) -> tuple[float, float]:
    """Replay ratio over all steps, and over eligible steps (the first frame left out; 0 if none).

    Args:
        replay: Decisions, bool[..., S, L, B].
        tokens_per_frame: N.

    >>> replay_ratio(np.array([False, True, True, True]).reshape(4, 1, 1), 1)
    (0.75, 1.0)
    """
    decided = truth_values(replay, "replay ratio")

    def share(part: NDArray[np.bool_]) -> float:
        return float(np.count_nonzero(part) / max(1, part.size))

    return share(decided), share(decided[..., tokens_per_frame:, :, :])
