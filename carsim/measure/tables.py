"""Results of a measurement: dense speeds, times of blocks, measured speed-ups, noise.

The time of a setting is the sum over its steps of the median over rounds. A speed-up is the mean
time of the two dense settings of the batch over the time of the replay. Its ends are those of 90 %
of 400 resamples of the rounds. The noise of a batch is what its two dense settings differ by.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.measure.samples import Times
from carsim.measure.settings import Kind, Setting, agreement_of

RESAMPLES = 400
"""Draws of rounds for the interval of a speed-up."""

LEVEL = 0.90
"""Share of the draws that the interval holds."""

LEAST_ROUNDS = 3
"""Rounds of which a median means something."""

Row = dict[str, str | int | float]

TIMED_IN: Mapping[Kind, tuple[tuple[int, str], ...]] = {
    "dense": ((0, "attention"), (1, "mlp")),
    "gathered": ((1, "gather"),),
    "added": ((1, "replay"),),
}
"""Blocks that a kind of setting times: the column of the samples, and the name."""


@dataclass(frozen=True, eq=False)
class Measured:
    """All rounds of some workers.

    Attributes:
        workers: Worker processes.
        settings: What was timed.
        times: Microseconds, [R, settings, S, 2].
        n_layers: Layers of the decoder.
    """

    workers: int
    settings: tuple[Setting, ...]
    times: Times
    n_layers: int

    @property
    def rounds(self) -> int:
        """Rounds, R."""
        return len(self.times)

    def step_us(self, setting: Setting, rounds: Any = slice(None)) -> NDArray[np.float64]:
        """Median microseconds of each step, [S].

        Args:
            setting: One of the settings.
            rounds: Indices of the rounds that count.
        """
        index = self.settings.index(setting)
        step_us = self.times[rounds, index].sum(axis=-1)  # [R, S]: attention and MLPs together
        return np.median(step_us, axis=0)

    def total_us(self, setting: Setting, rounds: Any = slice(None)) -> float:
        """Microseconds of all steps."""
        return float(self.step_us(setting, rounds).sum())

    def dense(self, batch: int) -> tuple[Setting, Setting]:
        """Both dense settings of a batch."""
        return Setting("dense", batch, self.workers), Setting("again", batch, self.workers)

    def noise(self, batch: int) -> float:
        """Relative difference of both dense settings of a batch."""
        dense, again = self.dense(batch)
        return abs(self.total_us(dense) / self.total_us(again) - 1)

    def speedup(self, setting: Setting, rounds: Any = slice(None)) -> float:
        """Dense time of a setting's batch over its own time."""
        both = [self.total_us(dense, rounds) for dense in self.dense(setting.batch)]
        return float(np.mean(both)) / self.total_us(setting, rounds)

    def ends(self, setting: Setting) -> tuple[float, float]:
        """Ends of the speed-up over resampled rounds."""
        generator = np.random.default_rng(0)
        draws = generator.integers(self.rounds, size=(RESAMPLES, self.rounds))
        speedups = [self.speedup(setting, rounds) for rounds in draws]
        low, high = np.quantile(speedups, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(low), float(high)


def dense_rows(measured: Measured, workload: str, changes: str) -> Iterator[Row]:
    """Dense decoding speeds, as ``carsim calibrate`` reads them.

    Args:
        measured: The rounds.
        workload: What was decoded, such as ``text:32+13``.
        changes: Changes of the design for this number of workers.
    """
    for setting in measured.settings:
        if setting.kind == "dense":
            steps = measured.times.shape[2]
            tokens_per_s = 1e6 * setting.batch * steps / measured.total_us(setting)
            changed = " ".join(filter(None, [f"policy.batch={setting.batch}", changes]))
            yield {
                "tokens_per_s": round(tokens_per_s, 2),
                "workload": workload,
                "set": changed,
            }


def block_rows(measured: Measured) -> Iterator[Row]:
    """Microseconds of a block in one layer, by rows of each worker, from steps without replay.

    ``gather`` and ``replay`` are what replay needs besides, timed in steps in which all compute.
    """
    for index, setting in enumerate(measured.settings):
        for column, name in TIMED_IN.get(setting.kind, ()):
            of_rounds = measured.times[:, index, :, column] / measured.n_layers  # [R, S]
            low, high = _ends(of_rounds)
            yield {
                "block": name,
                "workers": measured.workers,
                "rows": setting.batch // measured.workers,
                "us": round(float(np.median(of_rounds, axis=0).mean()), 3),
                "low": round(low, 3),
                "high": round(high, 3),
            }


def _ends(of_rounds: NDArray[np.float64]) -> tuple[float, float]:
    """Ends of the mean over steps of the median over resampled rounds, of times [R, S]."""
    draws = np.random.default_rng(0).integers(len(of_rounds), size=(RESAMPLES, len(of_rounds)))
    means = np.median(of_rounds[draws], axis=1).mean(axis=-1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def replay_rows(measured: Measured, decisions: Mapping[str, NDArray[np.bool_]]) -> Iterator[Row]:
    """Measured speed-ups by replay, with ends and noise.

    Args:
        measured: The rounds.
        decisions: bool[S, L, B] by name.
    """
    for setting in measured.settings:
        if setting.decided is None:
            continue
        drawn = decisions[setting.decided.name]
        low, high = measured.ends(setting)
        yield {
            "trace": f"traces/{setting.decided.name}.npz",
            "workers": setting.workers,
            "schedule": setting.schedule,
            "batch": setting.batch,
            "ratio": round(float(drawn[1:].mean()), 4),
            "agreement": round(agreement_of(drawn), 4),
            "speedup": round(measured.speedup(setting), 4),
            "low": round(low, 4),
            "high": round(high, 4),
            "noise": round(measured.noise(setting.batch), 4),
        }


def noise_rows(measured: Measured) -> Iterator[Row]:
    """Dense against dense, and the path of replay without a replay against dense."""
    for setting in measured.settings:
        if setting.kind == "unskipped":
            dense, again = measured.dense(setting.batch)
            yield {
                "workers": setting.workers,
                "batch": setting.batch,
                "dense_us": round(measured.total_us(dense), 2),
                "again_us": round(measured.total_us(again), 2),
                "unskipped_us": round(measured.total_us(setting), 2),
                "noise": round(measured.noise(setting.batch), 4),
                "rounds": measured.rounds,
            }


def as_csv(rows: Sequence[Row]) -> str:
    """Rows of equal columns as CSV."""
    lines = [",".join(rows[0])]
    lines += [",".join(str(value) for value in row.values()) for row in rows]
    return "\n".join(lines) + "\n"
