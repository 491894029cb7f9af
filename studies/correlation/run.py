"""How strongly do decisions go together, and what does that leave of what broadcast weights save?

    python -m studies.correlation.run

Sixteen guidance pairs of 8 frames are decoded closed-loop at two thresholds. With broadcast weights
a layer fetches its MLP unless every sequence of the batch replays. Writes ``phi.csv``,
``saved.csv`` and ``correlation.png``.
"""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from carsim import load_design, override
from carsim.cost.fit import check_fit
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.structures import Policy
from carsim.hw.hardware import Hardware
from carsim.machine.compare import own_variant, run_variant
from carsim.machine.memo import PhaseMemo
from carsim.plots import style as plots
from carsim.trace import Decisions, dense, independent, phi
from carsim.workload.geometry import Video
from studies.decisions.content import CALIBRATING, FIRST_LAYER, N_FRAMES, ROOT, TRIED, rows_of
from studies.decisions.record import Archive
from studies.tau.run import calibrating
from studies.tau.thresholds import one_tau

HERE = Path(__file__).parent
LEVELS = (0.5, 0.9)
BATCHES = (2, 8, 32)
DESIGN = ROOT / "configs/zcu102.yaml"
"""Broadcast weights; batches larger than its own do not fit its memory, and run all the same."""

_DRAWS = 200
PROMPT_TOKENS = 62

Bools = NDArray[np.bool_]


def phis(replay: Bools) -> pd.DataFrame:
    """Phi within guidance pairs and across clips, of all decisions and within single layers.

    Across clips: between prompted rows of different clips. Within layers, the layers' own ratios
    are taken out; within layer and step, what all rows do alike at a step is taken out, too (see
    :func:`residual_correlation`).

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
                "phi_low": np.nanmin(every),
                "phi_high": np.nanmax(every),
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


def simulated_gb(replay: Bools, batch: int, *, source: str) -> float:
    """GB that the design moves per video with these decisions.

    Args:
        replay: bool[S, L, R], all layers and steps.
        batch: B.
        source: ``captured``, ``independent`` at the same ratio, or ``dense``.
    """
    design = override(load_design(DESIGN), {"policy.batch": batch})
    n_rows = replay.shape[2]
    pairs = tuple((row, row + 1) for row in range(0, n_rows, 2))
    if source == "dense":
        decisions = dense(*replay.shape, pairs)
    elif source == "independent":
        ratio = float(replay[TOKENS_PER_FRAME:].mean())
        rng = np.random.default_rng(0)
        decisions = independent(
            replay.shape, ratio, rng, tokens_per_frame=TOKENS_PER_FRAME, pairs=pairs
        )
    else:
        decisions = Decisions(replay, "captured", "captured from the twin", pairs)
    video = Video(N_FRAMES, TOKENS_PER_FRAME, PROMPT_TOKENS)
    memo = PhaseMemo(Hardware(design, "fluid"))
    fit = check_fit(design, video)
    row = run_variant(design, own_variant(design), decisions, video, fit, memo)
    return row.dram_gb_per_video


def draw_phi(axes: Axes, by_layer: pd.DataFrame) -> None:
    """Phi by layer at the first level."""
    for column, colour, label in (
        ("pair", plots.BLUE, "within a guidance pair"),
        ("clips", plots.VERMILION, "between clips"),
    ):
        axes.plot(by_layer.index, by_layer[column], "o-", ms=3, color=colour, label=label)
    axes.axhline(0, color=plots.GREY, linewidth=0.8, linestyle=":")
    axes.set(xlabel="layer", ylabel="phi", title=f"decisions of one layer, level {LEVELS[0]:.0%}")
    axes.legend(loc="best")


def draw_saved(axes: Axes, table: pd.DataFrame) -> None:
    """Share saved by batch."""
    for level, style in zip(LEVELS, ("-", "--"), strict=True):
        part = table[table["level"] == level]
        for column, colour in (("measured", plots.BLUE), ("independent", plots.GREY)):
            label = f"{column}, level {level:.0%}"
            axes.plot(part["batch"], part[column], f"o{style}", ms=3, color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
    axes.set(xlabel="batch (rows)", ylabel="MLP weights not fetched", title="broadcast weights")
    axes.legend(loc="upper right")


def main() -> None:
    """Write tables and figure."""
    archive = Archive()
    seen = calibrating(archive)
    rows = rows_of((*TRIED, *CALIBRATING), blank=True)
    all_phi, all_saved = [], []
    for level in LEVELS:
        closed = archive.closed(Policy(one_tau(seen.paper, level), "paper"), rows)
        eligible = closed.replay[TOKENS_PER_FRAME:]
        own = eligible[:, FIRST_LAYER:]
        all_phi.append(phis(own).assign(level=level))
        table = saved(eligible).assign(level=level)
        for batch in BATCHES:
            moved = {
                source: simulated_gb(closed.replay, batch, source=source)
                for source in ("dense", "captured", "independent")
            }
            for source, gb in moved.items():
                table.loc[table["batch"] == batch, f"gb_per_video_{source}"] = gb
        all_saved.append(table)
        if level == LEVELS[0]:
            by_layer = pd.DataFrame(
                {
                    kind: [
                        phis(own[:, [layer]])["phi"].iloc[number] for layer in range(own.shape[1])
                    ]
                    for number, kind in enumerate(("pair", "clips"))
                },
                index=range(FIRST_LAYER, archive.n_layers),
            )
            by_layer.rename_axis("layer").round(4).to_csv(HERE / "phi_by_layer.csv")
    phi_table, saved_table = pd.concat(all_phi), pd.concat(all_saved)
    phi_table.round(4).to_csv(HERE / "phi.csv", index=False)
    saved_table.round(6).to_csv(HERE / "saved.csv", index=False)
    with plots.style():
        figure = plots.new_figure(9, 3.6, "Do sequences decide alike?", misfit=False)
        left, right = figure.subplots(1, 2)
        draw_phi(left, by_layer)
        draw_saved(right, saved_table)
        figure.savefig(HERE / "correlation.png", metadata={"Software": None})
    print(phi_table.round(3).to_string(), end="\n\n")
    print(saved_table.round(4).to_string())
    print(f"{archive.seconds:.0f} s of decoding")


if __name__ == "__main__":
    main()
