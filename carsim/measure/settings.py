"""Settings that are timed: batches, replay ratios, agreement of rows, workers, schedules.

Decisions are drawn once per batch, ratio and agreement, and forced. The simulator is given the same
ones. Of the steps after the first frame, every row replays the same number in total:
``round(ratio * eligible)``. Rows that agree draw one set of places for all rows; rows that do not
agree draw one set each, so that they agree by chance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Agreement = Literal["low", "high"]
Kind = Literal["dense", "again", "unskipped", "gathered", "added", "replay"]
"""``dense``: nothing replays. ``again``: dense once more, which gives the noise floor.
``unskipped``: the path that replay takes, with no replay in it. ``gathered``: every row computes,
by way of a list of rows; the time of the MLP is that of gathering and scattering alone. ``added``:
every row computes, and held outputs are added besides; the time of the MLP is that of adding alone.
``replay``: as decided. All but the last compute every MLP."""

Schedule = Literal["none", "static", "dynamic"]
"""``none``: one worker. ``static``: a worker computes the MLPs of its own rows. ``dynamic``: rows
that compute are dealt to all workers evenly."""


@dataclass(frozen=True)
class Decided:
    """Decisions of one batch at one ratio and one agreement.

    Attributes:
        batch: Rows.
        percent: Replay ratio of the steps after the first, in percent.
        agreement: Whether rows share their decisions.
    """

    batch: int
    percent: int
    agreement: Agreement

    @property
    def name(self) -> str:
        """Name of the trace's file, such as ``b4_r50_high``."""
        return f"b{self.batch}_r{self.percent}_{self.agreement}"

    def draw(self, n_steps: int, n_layers: int, seed: int) -> NDArray[np.bool_]:
        """Decisions, bool[S, L, B]; the first step never replays."""
        eligible = (n_steps - 1) * n_layers
        replays = round(self.percent / 100 * eligible)
        generator = np.random.default_rng(
            [seed, self.batch, self.percent, self.agreement == "high"]
        )
        decisions = np.zeros((n_steps, n_layers, self.batch), bool)
        in_order = np.arange(eligible) < replays
        for row in range(self.batch):
            if row == 0 or self.agreement == "low":
                chosen = generator.permutation(in_order)
            decisions[1:, :, row] = chosen.reshape(n_steps - 1, n_layers)
        return decisions


@dataclass(frozen=True)
class Setting:
    """One thing that is timed.

    Attributes:
        kind: What happens to the MLPs.
        batch: Rows.
        workers: Worker processes.
        decided: The decisions of a replay.
        schedule: Assignment of rows to workers.
    """

    kind: Kind
    batch: int
    workers: int
    decided: Decided | None = None
    schedule: Schedule = "none"

    @property
    def name(self) -> str:
        """Name in the samples, such as ``replay-b4_r50_high-static``."""
        decisions = f"b{self.batch}" if self.decided is None else self.decided.name
        words = [self.kind, decisions]
        if self.schedule != "none":
            words.append(self.schedule)
        return "-".join(words)


def decided_of(batches: Sequence[int], percents: Sequence[int]) -> Iterator[Decided]:
    """All decisions: of a single row there is no agreement to vary."""
    for batch in batches:
        for percent in percents:
            yield Decided(batch, percent, "high")
            if batch > 1:
                yield Decided(batch, percent, "low")


def settings_of(
    batches: Sequence[int], percents: Sequence[int], workers: int
) -> tuple[Setting, ...]:
    """Settings of some workers: dense by batch, dense again, costs of replay, and every replay.

    Dense batches are all numbers up to the largest batch for one worker, since a replay may leave
    any number of rows to compute. For several workers they are the multiples of the workers, so
    that every worker has the same number of rows.

    Args:
        batches: Batches that replay. Those that do not divide among the workers are left out.
        percents: Replay ratios in percent.
        workers: Worker processes.
    """
    replaying = [batch for batch in batches if batch % workers == 0]
    if not replaying:
        return ()
    schedules: tuple[Schedule, ...] = ("none",) if workers == 1 else ("static", "dynamic")
    dense_batches = range(workers, max(replaying) + 1, workers)
    settings = [Setting("dense", batch, workers) for batch in dense_batches]
    settings += [Setting("again", batch, workers) for batch in replaying]
    settings += [Setting("unskipped", batch, workers, schedule=schedules[0]) for batch in replaying]
    for kind in ("gathered", "added"):
        settings += [Setting(kind, batch, workers) for batch in dense_batches]
    settings += [
        Setting("replay", decided.batch, workers, decided, schedule)
        for decided in decided_of(replaying, percents)
        for schedule in schedules
    ]
    return tuple(settings)


def agreement_of(decisions: NDArray[np.bool_]) -> float:
    """Share of the decisions after the first step on which two rows agree, mean over pairs of rows.

    Args:
        decisions: bool[S, L, B].

    Returns:
        1 for a single row.
    """
    pairs = list(combinations(range(decisions.shape[2]), 2))
    if not pairs:
        return 1.0
    later = decisions[1:]
    shares = [float((later[..., a] == later[..., b]).mean()) for a, b in pairs]
    return float(np.mean(shares))


def computing_rows(
    decisions: NDArray[np.bool_], workers: int, schedule: Schedule
) -> list[list[list[list[int]]]]:
    """Rows that each worker computes the MLP of: [step][layer][worker], a list of rows.

    Args:
        decisions: bool[S, L, B].
        workers: Worker processes, among which the batch divides.
        schedule: Their assignment.
    """
    n_steps, n_layers, batch = decisions.shape
    share = batch // workers
    plan = []
    for step in range(n_steps):
        of_layers = []
        for layer in range(n_layers):
            rows = [row for row in range(batch) if not decisions[step, layer, row]]
            if schedule == "dynamic":
                # Consecutive rows go to one worker; the first workers take the remainder.
                cuts = np.linspace(0, len(rows), workers + 1).round().astype(int)
                dealt = [rows[cuts[w] : cuts[w + 1]] for w in range(workers)]
            else:
                dealt = [[row for row in rows if row // share == w] for w in range(workers)]
            of_layers.append(dealt)
        plan.append(of_layers)
    return plan
