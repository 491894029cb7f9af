"""Replay decisions as the simulator consumes them, each with the name of where it came from.

Only ``captured`` decisions are what a decoder really did. All others are approximations of it, and
their label says which.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt, prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.text import count
from carsim.base.units import GB
from carsim.decisions.attention import KvReads
from carsim.decisions.attention.base import Ints, truth_values
from carsim.decisions.replay import FASTCAR, Pairs, ReplayRule, Scope, decision_units, unanimous
from carsim.decisions.trace.file import Trace, as_own
from carsim.decisions.trace.meta import STATED, Origin
from carsim.decisions.trace.npz import MAX_BYTES

Source = Literal[
    Origin,
    "re-thresholded (open loop)",
    "re-scoped (open loop)",
    "resampled",
    "mapped by depth",
    "independent",
    "dense",
]

MOST_BYTES = MAX_BYTES
"""Memory that anything may take, by estimate: as much as a file of decisions may unpack to."""

DECISION_BYTES = 20
"""Of a decision in a run: 11 in batches of 8, 20 in batches of 32, measured."""

_COARSENESS: dict[Scope, int] = {"row": 0, "pair": 1, "batch": 2}


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
        quality_text: Measured quality of exactly these decisions, as an ending for labels; empty if
            unknown.
        rule: Rule by which they were made, which a machine has to work out; None where nothing is
            decided.
        method: Name of decoding with them, in tables.
    """

    replay: NDArray[np.bool_]
    source: Source
    label: str
    pairs: Pairs = ()
    scope: Scope = "row"
    reads: KvReads | None = None
    held: Ints | None = None
    quality_text: str = ""
    rule: ReplayRule | None = FASTCAR
    method: str = FASTCAR.method

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

    def _taken(self, label: str, steps: Any, frames: Any, rows: Any, **more: Any) -> "Decisions":
        """The decisions of some steps (or frames, for ``held``) and rows, of unknown quality."""
        reads, held = self.reads, self.held
        if reads is not None:
            reads = KvReads(reads.tokens[steps][..., rows], reads.runs[steps][..., rows])
        return replace(
            self,
            replay=self.replay[steps][..., rows],
            label=f"{self.label}, {label}",
            reads=reads,
            held=None if held is None else held[frames][..., rows],
            quality_text="",
            **more,
        )

    def _refuse_recorded(self, place: str) -> None:
        if self.reads is not None:
            raise InputError(
                place,
                "what attention reads was recorded, and cannot be drawn for other contexts",
                "capture a trace of the video that you want",
            )


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
        problem = (
            f"{what} take some {nbytes / GB:.1f} GB of memory, the limit is {MOST_BYTES / GB:.1f}"
        )
        raise InputError(place, problem, cure)


def check_decisions(place: str, shape: tuple[int, int, int], *, drawn: bool = True) -> None:
    """The same of decisions, :data:`DECISION_BYTES` each; dense ones take 3.

    Args:
        place: Option or field that asks for them.
        shape: (S, L, B).
        drawn: Some replay.

    Raises:
        InputError: They take too much.
    """
    steps, layers, rows = shape
    what = f"decisions of {steps:,} steps, {layers:,} layers and {rows:,} rows"
    nbytes = prod(shape) * (DECISION_BYTES if drawn else 3)
    check_memory(place, what, nbytes, "ask for fewer steps, or a smaller batch")


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
        quality_text=trace.meta.quality_text,
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
    if trace.meta.origin == STATED:
        problem = "nobody stated scores that a tau could be held against"
        raise InputError("policy.tau", problem, "take 'captured', or give `traces` with scores")
    if trace.meta.made_up:
        raise InputError(
            trace.name,
            f"its decisions ({trace.meta.made_up}) hold no scores that a tau could be held against",
            "take tau 'captured', or a captured trace",
        )
    own = trace.meta.tau_per_layer
    if isinstance(tau, Sequence):
        taus: tuple[float | None, ...] = tuple(map(float, tau))
    else:
        exempt = [each == np.inf for each in own]
        keep = not np.isnan(tau) and not all(exempt)
        taus = tuple(np.inf if keep and never else float(tau) for never in exempt)
    if len(taus) != trace.n_layers or any(np.isnan(np.array(taus, float))):
        raise InputError(
            "tau",
            f"expected one number, or {trace.n_layers} (one per layer), got {tau!r}",
            "pass as many as the trace has layers",
        )
    made = captured(trace)
    if taus == own:
        return made
    if None in own:
        raise InputError(
            trace.name,
            "some of its layers hold no scores: they were decoded without tau",
            "capture a trace with a tau in every layer",
        )
    changed = replace(trace.meta.replay, tau=taus)
    return replace(
        made,
        replay=changed.decide(trace.scores),
        source="re-thresholded (open loop)",
        label=f"scores of {trace.name} (captured at {trace.meta.tau_text}) "
        f"re-thresholded at {changed.tau_text} (open loop)",
        quality_text="",
    )


def rescope(
    decisions: Decisions,
    pairs: Sequence[tuple[int, int]],
    scope: Scope,
    batch: int | None = None,
) -> Decisions:
    """Let rows decide together: a unit replays only if all its rows would.

    Open loop, as the scores were made under the finer scope.

    Args:
        decisions: Decisions of the same or a finer scope.
        pairs: Guidance pairs.
        scope: The coarser scope; the scope they have already returns them as they are.
        batch: Rows that run as one batch, for scope ``batch``; all rows when left out.

    Raises:
        InputError: The decisions were made under a coarser scope, which cannot be undone.
    """
    if _COARSENESS[scope] < _COARSENESS[decisions.scope]:
        raise InputError(
            "decision scope",
            f"{scope!r} is finer than {decisions.scope!r}, under which the decisions were made",
            "capture a trace with the finer scope",
        )
    if scope == decisions.scope:
        return decisions
    return replace(
        decisions,
        replay=unanimous(decisions.replay, decision_units(scope, pairs, decisions.n_rows, batch)),
        source="re-scoped (open loop)",
        label=f"{decisions.label}, re-scoped to {scope} (open loop)",
        pairs=tuple(pairs),
        scope=scope,
        quality_text="",
    )


def resample(
    decisions: Decisions,
    rng: np.random.Generator,
    *,
    tokens_per_frame: int,
    n_rows: int | None = None,
    n_frames: int | None = None,
) -> Decisions:
    """Extend decisions to a larger batch or a longer video than was captured.

    Extra rows are copies of existing rows, drawn with replacement and whole guidance pairs at a
    time. Extra frames are copies of existing frames other than the first (which always computes),
    drawn with replacement and the same for all rows and layers. Copies are as correlated with
    their originals as can be, which real extra content would not be.

    Args:
        decisions: Decisions to extend.
        rng: Source of randomness.
        tokens_per_frame: N.
        n_rows: Rows wanted, at least the rows there are.
        n_frames: Frames wanted, at least the frames there are.

    Raises:
        InputError: Fewer rows or frames than there are, rows that are no whole number of pairs,
            more frames from a single one, or more frames where reads were recorded.
    """
    have_frames = decisions.n_steps // tokens_per_frame
    n_rows = decisions.n_rows if n_rows is None else n_rows
    n_frames = have_frames if n_frames is None else n_frames
    if n_rows < decisions.n_rows or n_frames < have_frames:
        raise InputError(
            "resampling",
            f"{size(n_rows, n_frames)} are fewer than the {size(decisions.n_rows, have_frames)} "
            "there are",
            "leave out resampling to use a part of the trace",
        )
    if (n_rows, n_frames) == (decisions.n_rows, have_frames):
        return decisions
    if n_frames > have_frames:
        decisions._refuse_recorded("resampling")
        if have_frames == 1:
            raise InputError("resampling", "the only frame is the first, which never replays")
    rows, pairs = _drawn_rows(decisions, n_rows, rng)
    extra = rng.integers(1, max(have_frames, 2), n_frames - have_frames)
    frames = np.concatenate([np.arange(have_frames), extra])
    steps = (frames[:, None] * tokens_per_frame + np.arange(tokens_per_frame)).ravel()
    label = f"resampled from {size(decisions.n_rows, have_frames)} to {size(n_rows, n_frames)}"
    return decisions._taken(label, steps, frames, rows, source="resampled", pairs=pairs)


def size(n_rows: int, n_frames: int) -> str:
    """Rows and frames, as labels have them."""
    return f"{count(n_rows, 'row')} of {count(n_frames, 'frame')}"


def _drawn_rows(
    decisions: Decisions, n_rows: int, rng: np.random.Generator
) -> tuple[list[int], Pairs]:
    """Indices of the original rows, those there are first, and the pairs among the result."""
    rows = list(range(decisions.n_rows))
    pairs = list(decisions.pairs)
    extra = n_rows - decisions.n_rows
    if not pairs:
        return rows + rng.integers(0, decisions.n_rows, extra).tolist(), ()
    if extra % 2:
        raise InputError(
            "resampling",
            f"{extra} extra rows are no whole number of guidance pairs",
            "ask for an even number of rows",
        )
    for drawn in rng.integers(0, len(pairs), extra // 2):
        pairs.append((len(rows), len(rows) + 1))
        rows.extend(decisions.pairs[drawn])
    return rows, tuple(pairs)


def crop(decisions: Decisions, n_frames: int, tokens_per_frame: int) -> Decisions:
    """The first frames alone: exactly what a shorter video decides.

    Args:
        decisions: Decisions of at least as many frames.
        n_frames: Frames wanted.
        tokens_per_frame: N.

    Raises:
        InputError: No frame, or more than there are.
    """
    have_frames = decisions.n_steps // tokens_per_frame
    if not 1 <= n_frames <= have_frames:
        raise InputError(
            "frames",
            f"expected 1 to the {have_frames} that there are, got {n_frames}",
            "resample decisions for a longer video",
        )
    if n_frames == have_frames:
        return decisions
    steps, label = (
        n_frames * tokens_per_frame,
        f"the first {n_frames} of {count(have_frames, 'frame')}",
    )
    return decisions._taken(label, slice(steps), slice(n_frames), slice(None))


def enlarge(decisions: Decisions, tokens_per_frame: int, wanted_per_frame: int) -> Decisions:
    """Extend decisions to larger frames than were captured.

    Frames are taken as squares of tokens, row by row, and each token of the larger frame decides as
    the one at its place in the smaller. Neighbours are then as correlated as can be, which those of
    really decoded larger frames would not be.

    Args:
        decisions: Decisions to extend.
        tokens_per_frame: N.
        wanted_per_frame: N wanted; the N there is returns the decisions as they are.

    Raises:
        InputError: Frames that are no squares, smaller ones than there are, or recorded reads.
    """
    if wanted_per_frame == tokens_per_frame:
        return decisions
    side, wanted_side = isqrt(tokens_per_frame), isqrt(max(0, wanted_per_frame))
    are_squares = side**2 == tokens_per_frame and wanted_side**2 == wanted_per_frame
    if not are_squares or wanted_side < side:
        raise InputError(
            "tokens per frame",
            f"frames of {tokens_per_frame} tokens cannot be enlarged to {wanted_per_frame}",
            "take the square of a larger number, of square frames",
        )
    decisions._refuse_recorded("tokens per frame")
    nearest = np.arange(wanted_side) * side // wanted_side
    within = (nearest[:, None] * side + nearest).ravel()
    starts = np.arange(0, decisions.n_steps, tokens_per_frame)
    steps = (starts[:, None] + within).ravel()
    label = f"resampled from {tokens_per_frame} to {wanted_per_frame} tokens per frame"
    return decisions._taken(label, steps, slice(None), slice(None), source="resampled")


def independent(
    shape: tuple[int, int, int],
    ratio: float,
    rng: np.random.Generator,
    *,
    tokens_per_frame: int,
    pairs: Pairs = (),
) -> Decisions:
    """Decisions drawn independently, for studies only: real ones are correlated.

    Args:
        shape: (S, L, B).
        ratio: Probability of a replay at each eligible step (the first frame never replays).
        rng: Source of randomness.
        tokens_per_frame: N.
        pairs: Guidance pairs.

    Raises:
        InputError: The ratio is outside of 0 to 1.
    """
    if not 0 <= ratio <= 1:
        raise InputError("replay ratio", f"expected 0 to 1, got {ratio!r}")
    replay = rng.random(shape) < ratio
    replay[:tokens_per_frame] = False
    return Decisions(
        replay, "independent", f"independent draws at eligible ratio {ratio:.4g}", pairs
    )


def dense(n_steps: int, n_layers: int, n_rows: int, pairs: Pairs = ()) -> Decisions:
    """No replay at all, bool[S, L, B] of False."""
    replay = np.zeros((n_steps, n_layers, n_rows), bool)
    return Decisions(replay, "dense", "dense: no replay", pairs, rule=None)


def layers_at_depth(have: int, n_layers: int) -> Ints:
    """The layer of ``have`` that stands at the relative depth of each of ``n_layers``, int[n].

    A layer's depth is its middle over all layers, so that first and last ones meet.

    >>> layers_at_depth(2, 5), layers_at_depth(4, 2)
    (array([0, 0, 1, 1, 1]), array([1, 3]))
    """
    return (2 * np.arange(n_layers) + 1) * have // (2 * n_layers)


def map_layers(decisions: Decisions, n_layers: int) -> Decisions:
    """Decisions for a model of another depth: each layer decides as that at its relative depth.

    Layers that stand for the same one decide alike, which those of a really decoded deeper model
    would not.

    Args:
        decisions: Decisions to map.
        n_layers: Layers wanted; the number there is returns the decisions as they are.
    """
    have = decisions.n_layers
    if n_layers == have:
        return decisions
    taken = layers_at_depth(have, n_layers)
    reads, held = decisions.reads, decisions.held
    return replace(
        decisions,
        replay=decisions.replay[:, taken],
        source="mapped by depth",
        label=f"{decisions.label}, decisions of {count(have, 'layer')} mapped to {n_layers} by "
        "relative depth",
        reads=None if reads is None else KvReads(reads.tokens[:, taken], reads.runs[:, taken]),
        held=None if held is None else held[:, taken],
        quality_text="",
    )


def map_heads(reads: KvReads, n_kv_heads: int) -> KvReads:
    """Reads of a machine with another number of key heads: head h takes h * KV // n_kv_heads.

    Args:
        reads: Of the decoded model, [S, L, KV, B] each.
        n_kv_heads: Key heads of the machine.
    """
    taken = np.arange(n_kv_heads) * reads.tokens.shape[-2] // n_kv_heads
    return KvReads(reads.tokens[..., taken, :], reads.runs[..., taken, :])


def replay_ratio(replay: NDArray[np.bool_], tokens_per_frame: int) -> tuple[float, float]:
    """Replay ratio over all steps, and over eligible steps (the first frame left out; 0 if none).

    Args:
        replay: Decisions, bool[..., S, L, B].
        tokens_per_frame: N.

    >>> replay_ratio(np.array([False, True, True, True]).reshape(4, 1, 1), 1)
    (0.75, 1.0)
    """
    decided = truth_values(replay, "replay ratio")
    over_all, over_eligible = (
        float(np.count_nonzero(part) / max(1, part.size))
        for part in (decided, decided[..., tokens_per_frame:, :, :])
    )
    return over_all, over_eligible
