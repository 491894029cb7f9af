"""How far may one captured trace be re-thresholded?

    python -m studies.open_loop.run

Four guidance pairs of 8 frames are decoded closed-loop at five thresholds, and densely. Scores of
each are re-thresholded at the others' thresholds (open loop) and held against what was captured
there: replay ratio, single decisions, and simulated latency on two designs. Then scores of two
neighbours are blended for the threshold between them. Writes ``errors.csv``, ``summary.csv`` and
``open_loop.png``.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from carsim import Design, load_design, override
from carsim.cost.fit import FitReport, check_fit
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.structures import Policy
from carsim.hw.hardware import Hardware
from carsim.machine.compare import own_variant, run_variant
from carsim.machine.memo import PhaseMemo
from carsim.plots import style as plots
from carsim.trace import Decisions
from carsim.workload.geometry import Video
from studies.decisions.content import N_FRAMES, ROOT, rows_of
from studies.decisions.record import Archive, Array, Closed
from studies.tau.run import CAPTURED, calibrating
from studies.tau.thresholds import Taus, one_tau

HERE = Path(__file__).parent
DESIGNS = {"zcu102": 2, "u280_compute_bound": 8}
"""Designs, and rows of a batch: the second has 16 of its own, more than are captured here."""

TRUST = 0.01
"""A re-thresholded trace may be trusted where ratio (absolute) and both latencies (relative) are
off by no more than this."""

DENSE = "dense"
PAIRS = (1, 2, 4, 5)
"""Clips of 0.5, 1, 4 and 8 pixels a frame."""

_PROMPT_TOKENS = 62

Bools = NDArray[np.bool_]


class Machine:
    """One design, and the latency that decisions give on it."""

    def __init__(self, name: str, batch: int, n_frames: int = N_FRAMES) -> None:
        design = load_design(ROOT / f"configs/{name}.yaml")
        self.design: Design = override(design, {"policy.batch": batch})
        self._video = Video(n_frames, TOKENS_PER_FRAME, _PROMPT_TOKENS)
        self._fit: FitReport = check_fit(self.design, self._video)
        self._memo = PhaseMemo(Hardware(self.design, "fluid"))

    def latency_s(self, replay: Bools) -> float:
        """Seconds a batch, the design's own policy; replay is bool[S, L, R], rows in pairs."""
        pairs = tuple((row, row + 1) for row in range(0, replay.shape[2], 2))
        decisions = Decisions(replay, "captured", "of this study", pairs)
        variant = own_variant(self.design)
        row = run_variant(self.design, variant, decisions, self._video, self._fit, self._memo)
        return row.latency_s


def decide(tas: Array, taus: Taus) -> Bools:
    """bool[S, L, R]: scores above the threshold of their layer; NaN never is."""
    above: Bools = tas.astype(np.float64) > np.array(taus)[:, None]
    return above


def blend(low: Closed, high: Closed, taus: tuple[float, float], tau: float) -> Array:
    """Scores for a threshold between two captured ones, each weighted by how near it is.

    Args:
        low: Captured at the first of ``taus``.
        high: Captured at the second.
        taus: Two thresholds.
        tau: One between them.
    """
    weight = (tau - taus[0]) / (taus[1] - taus[0])
    blended: Array = (1 - weight) * low.tas + weight * high.tas
    return blended


def errors(
    guessed: Bools, captured: Bools, machines: Mapping[str, Machine], latency_s: Mapping[str, float]
) -> dict[str, float]:
    """How far guessed decisions are off the captured ones.

    Args:
        guessed: bool[S, L, R].
        captured: The same.
        machines: Designs by name.
        latency_s: Of the captured decisions on each.
    """
    eligible = slice(TOKENS_PER_FRAME, None)
    off = {
        "ratio_error": float(guessed[eligible].mean() - captured[eligible].mean()),
        "flipped": float((guessed != captured)[eligible].mean()),
    }
    for name, machine in machines.items():
        off[f"{name}_error"] = machine.latency_s(guessed) / latency_s[name] - 1
    return off


def study(archive: Archive, machines: Mapping[str, Machine]) -> pd.DataFrame:
    """All bases against all targets, and blends."""
    seen = calibrating(archive)
    rows = rows_of(PAIRS, blank=True)
    taus = {f"{level:.0%}": one_tau(seen.paper, level) for level in CAPTURED}
    closed = {name: archive.closed(Policy(each, "paper"), rows) for name, each in taus.items()}
    finite = {name: each[-1] for name, each in taus.items()}
    dense = archive.closed(archive.dense, rows)
    latency = {
        name: {key: machine.latency_s(each.replay) for key, machine in machines.items()}
        for name, each in closed.items()
    }
    latency[DENSE] = {key: machine.latency_s(dense.replay) for key, machine in machines.items()}
    table: list[dict[str, Any]] = []

    def note(target: str, base: str, kind: str, guessed: Bools) -> None:
        truth = closed[target]
        table.append(
            {"target": target, "tau": finite[target], "ratio": truth.ratio, "base": base}
            | {"base_tau": finite.get(base, np.inf), "kind": kind}
            | {f"{name}_s": value for name, value in latency[target].items()}
            | {f"{name}_dense_s": value for name, value in latency[DENSE].items()}
            | errors(guessed, truth.replay, machines, latency[target])
        )

    names = list(closed)
    for target in names:
        for base, trace in ({DENSE: dense} | closed).items():
            if base != target:
                note(target, base, "open loop", decide(trace.tas, taus[target]))
    for before, target, after in zip(names, names[1:], names[2:], strict=False):
        ends = finite[before], finite[after]
        scores = blend(closed[before], closed[after], ends, finite[target])
        note(target, f"{before} and {after}", "blended scores", decide(scores, taus[target]))
    result = pd.DataFrame(table)
    return pd.concat([result, mixed_results(result, names)], ignore_index=True)


def mixed_results(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Errors of the two neighbours' results, each weighted by how near its threshold is.

    Errors are linear in the result, so that the error of the mixture is the mixture of errors.
    """
    rows = []
    error_columns = [name for name in table.columns if name.endswith("_error")]
    for before, target, after in zip(names, names[1:], names[2:], strict=False):
        part = table[(table["target"] == target) & (table["kind"] == "open loop")]
        low, high = (part[part["base"] == base].iloc[0] for base in (before, after))
        weight = (low["tau"] - low["base_tau"]) / (high["base_tau"] - low["base_tau"])
        row = low.to_dict() | {"base": f"{before} and {after}", "kind": "mixed results"}
        row |= {"flipped": np.nan, "base_tau": np.nan}
        row |= {name: (1 - weight) * low[name] + weight * high[name] for name in error_columns}
        rows.append(row)
    return pd.DataFrame(rows)


def worst_error(table: pd.DataFrame) -> pd.Series:
    """Largest of the errors of ratio and latencies, absolute."""
    columns = [name for name in table.columns if name.endswith("_error")]
    return table[columns].abs().max(axis=1)


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """For each base and kind, errors over targets, and the targets that it may serve."""
    table = table.assign(worst=worst_error(table), trusted=worst_error(table) <= TRUST)
    rows = []
    for (kind, base), part in table.groupby(["kind", "base"], sort=False):
        good = part[part["trusted"]]
        rows.append(
            {"kind": kind, "base": base, "targets": len(part)}
            | {"worst_error": part["worst"].max(), "mean_error": part["worst"].mean()}
            | {"flipped": part["flipped"].mean(), "trusted": " ".join(good["target"])}
        )
    return pd.DataFrame(rows)


def neighbours_alone(table: pd.DataFrame) -> pd.DataFrame:
    """For targets between two captures, the worst error by way of guessing."""
    between = table[table["kind"] == "blended scores"]["target"].unique()
    part = table[table["target"].isin(between)].assign(worst=worst_error(table))
    named = part.assign(
        way=np.where(part["kind"] == "open loop", "from " + part["base"], part["kind"])
    )
    return named.pivot(index="way", columns="target", values="worst")


def draw_errors(axes: Axes, table: pd.DataFrame, column: str, title: str) -> None:
    """Error over the ratio captured, a line for each base."""
    colours = dict(
        zip(
            table["base"][table["kind"] == "open loop"].unique(),
            (plots.GREY, plots.BLUE, plots.GREEN, plots.ORANGE, plots.VERMILION, plots.PURPLE),
            strict=False,
        )
    )
    axes.axhspan(-TRUST, TRUST, color=plots.LIGHT_GREY, alpha=0.7)
    for base, colour in colours.items():
        part = table[(table["base"] == base) & (table["kind"] == "open loop")]
        part = part.sort_values("ratio")
        axes.plot(part["ratio"], part[column], "o-", ms=3, color=colour, label=f"from {base}")
    blended = table[table["kind"] == "blended scores"]
    axes.plot(blended["ratio"], blended[column], "k*", label="blended neighbours")
    axes.set(xlabel="replay ratio captured", title=title)


def main() -> None:
    """Write tables and figure."""
    archive = Archive()
    began = time.process_time()
    machines = {name: Machine(name, batch) for name, batch in DESIGNS.items()}
    table = study(archive, machines)
    table.round(5).to_csv(HERE / "errors.csv", index=False)
    summary = summarise(table)
    summary.round(5).to_csv(HERE / "summary.csv", index=False)
    with plots.style():
        figure = plots.new_figure(12, 3.6, "Open loop against closed loop", misfit=False)
        panels = figure.subplots(1, 3)
        titles = ["error of the replay ratio", *(f"error of latency, {name}" for name in DESIGNS)]
        columns = ["ratio_error", *(f"{name}_error" for name in DESIGNS)]
        for axes, column, title in zip(panels, columns, titles, strict=True):
            draw_errors(axes, table, column, title)
        panels[0].set_ylabel(f"grey: trusted, within {TRUST:.0%}")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")
        figure.savefig(HERE / "open_loop.png", metadata={"Software": None})
    print(table.drop(columns=["base_tau"]).round(4).to_string(), end="\n\n")
    print(summary.round(4).to_string(), end="\n\n")
    print(neighbours_alone(table).round(4).to_string())
    print(f"{archive.seconds:.0f} s of decoding, {time.process_time() - began:.0f} s in all")


if __name__ == "__main__":
    main()
