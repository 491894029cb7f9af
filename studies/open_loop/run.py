"""How far may one captured trace be re-thresholded?

    python -m studies.open_loop.run

Reads the shipped traces of five thresholds: the same clips, seeds and sampling, each really
replaying at its own. Scores of each are re-thresholded at the others' thresholds (open loop) and
held against what was captured there: replay ratio, single decisions, and simulated latency on two
designs. Then scores, and results, of its two neighbours are blended for each between them. Writes
``errors.csv``, ``summary.csv`` and ``open_loop.png``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from carsim import Design, load_design, override
from carsim.decisions.trace import Trace, load_trace
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.structures import Array
from carsim.report.figures import style as plots
from studies.decisions.content import ROOT
from studies.decisions.simulated import simulated

HERE = Path(__file__).parent
DESIGNS = {"zcu102": 2, "u280_compute_bound": 8}
"""Designs, and rows of a batch: the second has 16 of its own, more than are captured here."""

TRUST = 0.01
"""A re-thresholded trace may be trusted where ratio (absolute) and both latencies (relative) are
off by no more than this."""

TRACES = ("vilau_8f_r20", "vilau_8f_r30", "vilau_8f", "vilau_8f_r60", "vilau_8f_r80")

Bools = NDArray[np.bool_]
Taus = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Capture:
    """Decisions captured closed-loop.

    Attributes:
        tas: [S, L, R], NaN where not evaluated.
        replay: bool[S, L, R].
        taus: A threshold per layer; infinite where a layer never replays.
    """

    tas: Array
    replay: Bools
    taus: Taus

    @property
    def tau(self) -> float:
        """The threshold of all layers that may replay."""
        return min(self.taus)

    @property
    def ratio(self) -> float:
        """Replay ratio over eligible steps, all layers."""
        return float(self.replay[TOKENS_PER_FRAME:].mean())


class Machine:
    """One design, and the latency that decisions give on it."""

    def __init__(self, name: str, batch: int, trace: Trace) -> None:
        design = load_design(ROOT / f"configs/{name}.yaml")
        self.design: Design = override(design, {"policy.batch": batch})
        self._trace = trace

    def latency_s(self, replay: Bools) -> float:
        """Seconds a batch, the design's own policy; replay is bool[S, L, R], rows in pairs."""
        return simulated(self.design, self._trace, replay).chosen.latency_s


def decide(tas: Array, taus: Taus) -> Bools:
    """bool[S, L, R]: scores above the threshold of their layer; NaN never is."""
    above: Bools = tas.astype(np.float64) > np.array(taus)[:, None]
    return above


def blend(low: Capture, high: Capture, taus: tuple[float, float], tau: float) -> Array:
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


def captures() -> dict[str, Capture]:
    """The shipped traces, by name, from few replays to many; only rows that all of them have."""
    loaded = {name: load_trace(ROOT / f"traces/{name}.npz") for name in TRACES}
    n_rows = min(trace.n_rows for trace in loaded.values())
    return {
        name: Capture(
            trace.tas[..., :n_rows],
            trace.replay[..., :n_rows],
            tuple(np.inf if tau is None else tau for tau in trace.meta.tau_per_layer),
        )
        for name, trace in loaded.items()
    }


def study(captured: Mapping[str, Capture], machines: Mapping[str, Machine]) -> pd.DataFrame:
    """All bases against all targets, and blends.

    Args:
        captured: By name, thresholds falling.
        machines: Designs by name.
    """
    latency = {
        name: {key: machine.latency_s(each.replay) for key, machine in machines.items()}
        for name, each in captured.items()
    }
    table: list[dict[str, Any]] = []

    def note(target: str, base: str, kind: str, guessed: Bools) -> None:
        truth = captured[target]
        base_tau = captured[base].tau if base in captured else np.nan
        table.append(
            {"target": target, "tau": truth.tau, "ratio": truth.ratio, "base": base}
            | {"base_tau": base_tau, "kind": kind}
            | {f"{name}_s": value for name, value in latency[target].items()}
            | errors(guessed, truth.replay, machines, latency[target])
        )

    names = list(captured)
    for target, base in permutations(names, 2):
        note(target, base, "open loop", decide(captured[base].tas, captured[target].taus))
    for before, target, after in zip(names, names[1:], names[2:], strict=False):
        low, middle, high = (captured[name] for name in (before, target, after))
        scores = blend(low, high, (low.tau, high.tau), middle.tau)
        note(target, f"{before} and {after}", "blended scores", decide(scores, middle.taus))
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
    vessel = load_trace(ROOT / f"traces/{TRACES[0]}.npz")  # of as many rows as all have
    machines = {name: Machine(name, batch, vessel) for name, batch in DESIGNS.items()}
    table = study(captures(), machines)
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


if __name__ == "__main__":
    main()
