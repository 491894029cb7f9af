"""How strongly do decisions go together, and what does that leave of what broadcast weights save?

    python -m studies.correlation.run

Reads the decisions of the shipped trace of 16 guidance pairs, as captured and re-thresholded (open
loop) to a higher ratio. With broadcast weights a layer fetches its MLP unless every sequence of the
batch replays. Writes ``phi.csv``, ``phi_by_layer.csv``, ``saved.csv`` and ``correlation.png``.
"""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from carsim import load_design, override
from carsim.decisions.trace import Trace, load_trace, phi
from carsim.report.figures import style as plots
from studies.decisions.content import ROOT
from studies.decisions.simulated import simulated

HERE = Path(__file__).parent
TRACE = ROOT / "traces/vilau_8f.npz"
LEVELS = {"captured": None, "re-thresholded": 0.95}
"""Names, and shares of the decisions of layers that may replay."""

BATCHES = (2, 8, 32)
DESIGN = ROOT / "configs/zcu102.yaml"
"""Broadcast weights; batches larger than its own do not fit its memory, and run all the same."""

_DRAWS = 200

Bools = NDArray[np.bool_]


def phis(replay: Bools) -> pd.DataFrame:
    """Phi within guidance pairs and across clips, of all decisions and within single layers.

    Across clips: between prompted rows of different clips. Within layers, the layers' own ratios
    are taken out.

    Args:
        replay: bool[E, L, R], eligible steps of layers that may replay; rows 2i and 2i + 1 are a
            pair.
    """
    n_rows = replay.shape[2]
    kinds = {
        "pair": [(row, row + 1) for row in range(0, n_rows, 2)],
        "clips": list(combinations(range(0, n_rows, 2), 2)),
    }
    rows = []
    for kind, together in kinds.items():
        every = [phi(replay[..., a], replay[..., b]) for a, b in together]
        by_layer = np.array(
            [
                [phi(replay[:, layer, a], replay[:, layer, b]) for a, b in together]
                for layer in range(replay.shape[1])
            ]
        )
        rows.append(
            {
                "between": kind,
                "phi": np.nanmean(every),
                "phi_low": min(every),
                "phi_high": max(every),
                "phi_within_layers": np.nanmean(by_layer),
                "agree": np.mean([(replay[..., a] == replay[..., b]).mean() for a, b in together]),
            }
        )
    return pd.DataFrame(rows)


def batches_of(n_rows: int, batch: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """Batches of whole pairs: all of them, or as many as :data:`_DRAWS` drawn at random."""
    pairs = n_rows // 2
    if batch == 2:
        yield from ([2 * pair, 2 * pair + 1] for pair in range(pairs))
    elif batch == n_rows:
        yield list(range(n_rows))
    else:
        for _ in range(_DRAWS):
            drawn = rng.choice(pairs, batch // 2, replace=False)
            yield [row for pair in drawn for row in (2 * pair, 2 * pair + 1)]


def unfetched(replay: Bools, batch: int) -> float:
    """Share of layer-steps in which all rows of a batch replay, mean over batches.

    Args:
        replay: bool[E, L, R].
        batch: B.
    """
    rng = np.random.default_rng(0)
    groups = list(batches_of(replay.shape[2], batch, rng))
    return float(np.mean([replay[..., rows].all(axis=-1).mean() for rows in groups]))


def saved(replay: Bools) -> pd.DataFrame:
    """Share of MLP weight bytes that broadcast saves, as decided and if rows decided independently.

    ``independent``: each row draws at the overall ratio; ``independent_by_layer``: at its layer's
    ratio; ``by_row``: at its own ratio in that layer; ``pairs_as_one``: pairs decide alike, clips
    independently by layer.

    Args:
        replay: bool[E, L, R], eligible steps.
    """
    ratio, by_layer = replay.mean(), replay.mean(axis=(0, 2))
    by_row = replay.mean(axis=0)  # [L, R]
    pairs = replay.reshape(*replay.shape[:2], -1, 2).all(axis=-1)  # [E, L, pairs]
    rows = []
    for batch in BATCHES:
        groups = list(batches_of(replay.shape[2], batch, np.random.default_rng(0)))
        rows.append(
            {
                "batch": batch,
                "ratio": ratio,
                "measured": unfetched(replay, batch),
                "independent": ratio**batch,
                "independent_by_layer": (by_layer**batch).mean(),
                "by_row": np.mean([by_row[:, group].prod(axis=1).mean() for group in groups]),
                "pairs_as_one": (pairs.mean(axis=(0, 2)) ** (batch // 2)).mean(),
            }
        )
    return pd.DataFrame(rows)


def simulated_gb(trace: Trace, replay: Bools, batch: int) -> dict[str, float]:
    """GB that the design moves per video: dense, as decided, and if rows decided independently.

    Args:
        trace: What was decoded.
        replay: bool[S, L, R], all layers and steps.
        batch: B.
    """
    design = override(load_design(DESIGN), {"policy.batch": batch})
    shuffled = replay.copy()  # each row and layer decides as often, at other steps
    eligible = shuffled[trace.tokens_per_frame :]
    np.random.default_rng(0).permuted(eligible, axis=0, out=eligible)
    captured, independent = (simulated(design, trace, each) for each in (replay, shuffled))
    return {
        "gb_per_video_dense": captured.baseline.dram_gb_per_video,
        "gb_per_video_captured": captured.chosen.dram_gb_per_video,
        "gb_per_video_independent": independent.chosen.dram_gb_per_video,
    }


def draw_phi(axes: Axes, by_layer: pd.DataFrame) -> None:
    """Phi by layer at the first level."""
    for column, colour, label in (
        ("pair", plots.BLUE, "within a guidance pair"),
        ("clips", plots.VERMILION, "between clips"),
    ):
        axes.plot(by_layer.index, by_layer[column], "o-", ms=3, color=colour, label=label)
    axes.axhline(0, color=plots.GREY, linewidth=0.8, linestyle=":")
    axes.set(xlabel="layer", ylabel="phi", title="decisions of one layer, as captured")
    axes.legend(loc="best")


def draw_saved(axes: Axes, table: pd.DataFrame) -> None:
    """Share saved by batch."""
    for name, style in zip(LEVELS, ("-", "--"), strict=True):
        part = table[table["decisions"] == name]
        ratio = part["ratio"].mean()
        for column, colour in (("measured", plots.BLUE), ("independent", plots.GREY)):
            label = f"{column}, {ratio:.0%} replay"
            axes.plot(part["batch"], part[column], f"o{style}", ms=3, color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
    axes.set(xlabel="batch (rows)", ylabel="MLP weights not fetched", title="broadcast weights")
    axes.legend(loc="upper right")


def would_replay(trace: Trace, share: float | None) -> Bools:
    """Decisions as captured, or of the trace's scores at the threshold that gives a share.

    Args:
        trace: With scores.
        share: Of the scored decisions; None takes the captured ones.
    """
    if share is None:
        return np.array(trace.replay)
    scores = trace.tas.astype(np.float64)
    scores[:, ~may_replay(trace)] = np.nan
    above: Bools = scores > np.nanquantile(scores, 1 - share)
    return above


def may_replay(trace: Trace) -> Bools:
    """bool[L]: layers whose threshold can be passed."""
    return np.array([tau is not None and tau < np.inf for tau in trace.meta.tau_per_layer])


def main() -> None:
    """Write tables and figure."""
    trace = load_trace(TRACE)
    all_phi, all_saved = [], []
    for name, share in LEVELS.items():
        replay = would_replay(trace, share)
        eligible = replay[trace.tokens_per_frame :]
        own = eligible[:, may_replay(trace)]
        all_phi.append(phis(own).assign(decisions=name))
        table = saved(eligible).assign(decisions=name)
        for batch in BATCHES:
            for column, gb in simulated_gb(trace, replay, batch).items():
                table.loc[table["batch"] == batch, column] = gb
        all_saved.append(table)
        if share is None:
            each = [
                phis(own[:, [number]]).set_index("between")["phi"] for number in range(own.shape[1])
            ]
            by_layer = pd.DataFrame(each, index=np.flatnonzero(may_replay(trace))).rename_axis(
                "layer"
            )
            by_layer["ratio"] = own.mean(axis=(0, 2))
            by_layer.round(4).to_csv(HERE / "phi_by_layer.csv")
    phi_table, saved_table = pd.concat(all_phi), pd.concat(all_saved)
    phi_table.round(4).to_csv(HERE / "phi.csv", index=False)
    saved_table.round(6).to_csv(HERE / "saved.csv", index=False)
    with plots.style():
        figure = plots.new_figure(9, 3.6, "Do sequences decide alike?", misfit=False)
        left, right = figure.subplots(1, 2)
        draw_phi(left, by_layer)
        draw_saved(right, saved_table)
        figure.savefig(HERE / "correlation.png", metadata={"Software": None})
    with pd.option_context("display.width", 250, "display.max_columns", None):
        print(phi_table.round(3), by_layer.round(2), saved_table.round(4), sep="\n\n")
        acting = would_replay(trace, None)[trace.tokens_per_frame :, may_replay(trace)]
        pairs = [phi(acting[..., row], acting[..., row + 1]) for row in range(0, trace.n_rows, 2)]
        print(
            "phi of each pair",
            np.round(pairs, 2),
            "by scene",
            [clip["scene"] for clip in trace.meta.content["clips"]],
        )


if __name__ == "__main__":
    main()
