"""Replay of MLP outputs (FastCar, arXiv 2505.14709): decisions, and the chain of outputs.

From the second frame on, a rule scores each token in each layer. Where ``score > tau``, strictly,
the MLP is skipped: the output that is cached for the place is added to the residual, and stays
cached, so that replays chain, for at most ``max_age`` frames if the rule has it. Otherwise the MLP
runs and its output is cached.

Letters in shapes as in :mod:`carsim.decisions.attention.base`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention.base import Array, Bools, Ints
from carsim.decisions.replay.base import ReplayRule
from carsim.decisions.replay.tas import Tas

FASTCAR = Tas()
"""The rule of FastCar in its released form."""

Scope = Literal["row", "pair", "batch"]
"""``row``: each row decides alone (the FastCar authors'); ``pair``: both rows of a guidance pair
together; ``batch``: all rows of a batch together."""

Pairs = tuple[tuple[int, int], ...]
"""Guidance pairs: indices of the conditional row and of its blank-prompt row."""

Units = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Replay:
    """Decisions of one decoding.

    Attributes:
        tau: One threshold per layer; a layer with None neither scores nor replays, and one with
            infinity scores and never replays.
        rule: Rule of the score.
        scope: Rows that decide together.
        pairs: Guidance pairs, for scope ``pair``.
    """

    tau: tuple[float | None, ...]
    rule: ReplayRule = FASTCAR
    scope: Scope = "row"
    pairs: Pairs = ()

    def scores(self, layer: int, step: int, tokens_per_frame: int) -> bool:
        """True where a layer is scored at a decode step."""
        begins = self.rule.first_frame * tokens_per_frame
        return self.tau[layer] is not None and step >= begins

    def scored(self, n_steps: int, tokens_per_frame: int) -> Bools:
        """bool[S, L]: where scores are evaluated."""
        return self.scored_at(np.arange(n_steps) // tokens_per_frame)

    def scored_at(self, turns: Ints) -> Bools:
        """bool[S, L]: where scores are evaluated.

        Args:
            turns: int[S], how many steps of the same place came before each step; -1 where nothing
                is decided.
        """
        has_tau = np.array([tau is not None for tau in self.tau])
        return (turns >= self.rule.first_frame)[:, None] & has_tau

    def exceeds(self, tas: Array, layer: int | slice = slice(None)) -> Bools:
        """``tas > tau``, strictly and in double precision; False where the score is NaN.

        Args:
            tas: Scores of any rule, [..., L, B], or [..., B] of one layer.
            layer: That layer.
        """
        return tas > self._thresholds[layer]

    @cached_property
    def _thresholds(self) -> NDArray[np.float64]:
        """[L, 1]; NaN where a layer has none."""
        return np.array([np.nan if tau is None else tau for tau in self.tau])[:, None]

    def decide(
        self, tas: Array, layer: int | slice = slice(None), worn: Bools | None = None
    ) -> Bools:
        """True for rows that replay: their whole unit exceeds tau, and no output of it is worn.

        Args:
            tas: Scores of one step or of several, as above.
            layer: Layer.
            worn: Places that have replayed ``max_age`` frames in a row, of the shape of the scores.
        """
        would = self.exceeds(tas, layer)
        if worn is not None:
            would &= ~worn
        if self.scope == "row":
            return would
        return unanimous(would, decision_units(self.scope, self.pairs, tas.shape[-1]))

    def decide_all(self, tas: Array, tokens_per_frame: int) -> Bools:
        """The decisions of whole videos, bool[S, L, B], from their scores."""
        if self.rule.max_age is None:
            return self.decide(tas)
        frames = tas.reshape(-1, tokens_per_frame, *tas.shape[1:])  # [T, N, L, B]
        replay = np.zeros(frames.shape, bool)
        for frame, scores in enumerate(frames):
            replay[frame] = self.decide(scores, worn=self.worn(replay[:frame]))
        return replay.reshape(tas.shape)

    def decide_in_turn(self, tas: Array, places: Ints) -> Bools:
        """The decisions of steps whose places are given, bool[S, L, B], from their scores.

        Args:
            tas: [S, L, B].
            places: int[S]; ages count from one step of a place to the next.
        """
        replay: Bools = np.zeros(tas.shape, np.bool_)
        age = np.zeros((int(places.max(initial=0)) + 1, *tas.shape[1:]), np.int64)
        for step, place in enumerate(places):
            max_age = self.rule.max_age
            worn = None if max_age is None else age[place] >= max_age
            replay[step] = self.decide(tas[step], worn=worn)
            age[place] = (age[place] + 1) * replay[step]
        return replay

    def worn(self, before: Bools) -> Bools | None:
        """Places that have replayed ``max_age`` frames in a row; None where none can have.

        Args:
            before: bool[T, ...], decisions of the frames before.
        """
        age = self.rule.max_age
        if age is None or len(before) < age:
            return None
        return np.all(before[len(before) - age :], axis=0)

    @property
    def exempt_layers(self) -> list[int]:
        """Layers that never replay."""
        return [layer for layer, tau in enumerate(self.tau) if not _acts(tau)]

    @property
    def tau_span(self) -> str:
        """The threshold, or the least and the highest of the layers; empty if none replays."""
        acting = sorted({tau for tau in self.tau if _acts(tau)})
        return " to ".join(f"{tau:.6g}" for tau in dict.fromkeys(acting[:1] + acting[-1:]))

    @property
    def tau_text(self) -> str:
        """The threshold as a phrase for labels; it names a rule that is not FastCar's."""
        exempt = self.exempt_layers
        span = self.tau_span
        if not span:
            return "no replay"
        if not self.rule.is_fastcar:
            span += f" on {self.rule.text}"
        if not exempt:
            return f"tau {span}"
        never = "layer {} never replays" if len(exempt) == 1 else "layers {} never replay"
        return f"tau {span} ({never.format(', '.join(map(str, exempt)))})"


def decision_units(
    scope: Scope, pairs: Sequence[tuple[int, int]], n_rows: int, batch: int | None = None
) -> Units:
    """Rows that decide together.

    Args:
        scope: The decision scope.
        pairs: Guidance pairs; a row outside of every pair is a unit of its own.
        n_rows: B.
        batch: Rows that run as one batch, for scope ``batch``: consecutive groups of this many
            rows (the last may be smaller). All rows when left out.

    Returns:
        A partition of ``range(n_rows)``, ordered by first row.

    >>> decision_units("pair", [(0, 1)], 3)
    ((0, 1), (2,))
    >>> decision_units("batch", [], 3, batch=2)
    ((0, 1), (2,))
    """
    if scope == "row":
        return tuple((row,) for row in range(n_rows))
    if scope == "batch":
        size = n_rows if batch is None else batch
        return tuple(tuple(range(n_rows)[n : n + size]) for n in range(0, n_rows, size))
    paired = {row for pair in pairs for row in pair}
    single = [(row,) for row in range(n_rows) if row not in paired]
    return tuple(sorted([*single, *(tuple(sorted(pair)) for pair in pairs)]))


def unanimous(would: NDArray[np.bool_], units: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
    """Decisions by unit: a unit replays iff every row of it would.

    Args:
        would: bool[..., B], what each row would decide alone.
        units: A partition of the rows.

    Returns:
        bool[..., B], equal within each unit; ``would`` itself where every unit is one row.
    """
    sizes = {len(unit) for unit in units}
    if sizes <= {1}:
        return would
    decided = np.empty_like(would)
    for size in sizes:
        rows = np.array([unit for unit in units if len(unit) == size])  # [units, size]
        decided[..., rows] = would[..., rows].all(axis=-1, keepdims=True)
    return decided


def _acts(tau: float | None) -> TypeGuard[float]:
    """Some score may exceed the threshold of a layer."""
    return tau is not None and tau < math.inf
