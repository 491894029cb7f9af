"""When replay pays: speed-up over dense decoding, and what stands in its way."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim.decisions.trace import Trace, load_trace, save_trace
from carsim.report.figures import style as plots
from studies.drawing import drawing, legend_below
from studies.measured import wider
from studies.table import markdown

METRICS = ("latency_s", "dense_latency_s", "speedup", "replay_all", "replay_eligible", "limit")
SOURCE = Path(__file__).parents[2] / "traces" / "vilau_8f.npz"
SEED = 0

BANDWIDTHS = {"1 channel": "14 GB/s", "32 channels": "460 GB/s"}
DECIDING = {
    "row": ("each row alone, as measured", plots.BLUE, "o"),
    "pair": ("both rows of a pair together", plots.SKY, "s"),
    "batch": ("all rows together", plots.GREEN, "^"),
    "shuffled": ("measured, at other steps", plots.ORANGE, "v"),
    "independent": ("independent draws", plots.VERMILION, "D"),
}
TAU = 2.7
"""Threshold of the answer, at which about half of the eligible steps replay."""


MLP_BYTES = 4.329e9 * 4.15625 / 8
WEIGHT_BYTES = 6.476e9 * 4.15625 / 8
KV_BYTES = 0.284e9 * 4.25 / 8
"""By hand, of a step: weights of 4 bit with scales and zeros in groups of 128, keys and values of
4.25 bit of each row at the mean context."""


def prepare(folder: Path) -> None:
    """Write the measured scores in another order, twice; see :func:`permuted`."""
    trace = load_trace(SOURCE)
    for name, across in (("shuffled", False), ("independent", True)):
        save_trace(folder / f"{name}.npz", permuted(trace, across=across), overwrite=True)


def permuted(trace: Trace, *, across: bool) -> Trace:
    """A trace whose decisions no longer know of each other, with the same scores.

    So the share of replays is the same at every threshold.

    Args:
        trace: What was measured; decisions by row, one threshold in all layers that may replay.
        across: Scores change places with those of all steps, layers and rows; else only with
            those of other steps of the same layer and row, which then keeps its own share.
    """
    rng = np.random.default_rng(SEED)
    taus = np.array([np.nan if tau is None else tau for tau in trace.meta.tau_per_layer])
    first = trace.tokens_per_frame
    acting = np.flatnonzero(np.isfinite(taus))
    scores = trace.tas[first:, acting]  # [eligible steps, acting layers, B]
    scores = rng.permuted(scores, axis=None if across else 0)
    tas = trace.tas.copy()
    tas[first:, acting] = scores
    replay = trace.replay.copy()
    replay[first:, acting] = scores.astype(np.float64) > taus[acting][:, None]
    how = "over all steps, layers and rows" if across else "over steps, in each layer and row"
    meta = trace.meta.model_copy(
        update={
            "producer": f"scores of {trace.name}, permuted {how}",
            "quality": None,
            "command": "python -m studies.run when_replay_pays",
        }
    )
    return replace(trace, replay=replay, tas=tas, meta=meta)


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    at = frame.set_index(
        ["machine.weight_sharing", "bandwidth", "deciding", "policy.tau", "policy.batch"]
    ).sort_index()

    def gain(sharing: str, bandwidth: str, deciding: str, batch: int) -> float:
        return float(100 * (at.loc[(sharing, bandwidth, deciding, TAU, batch), "speedup"] - 1))

    slow, fast = "1 channel", "32 channels"
    ratio = at.loc[("broadcast", slow, "row", TAU, 2), "replay_eligible"]
    batches = sorted(frame["policy.batch"].unique())
    by_hand = hand(at, slow)
    last = batches[-1]
    measured, independent = (
        [f"{gain('broadcast', slow, deciding, batch):.1f}" for batch in (2, 8, 16)]
        for deciding in ("row", "independent")
    )
    answer = f"""\
Replay pays less as the batch grows, if one fetch of the weights serves all cores and memory is
the limit: only weights that all rows skip are not fetched. At {100 * ratio:.0f} % eligible
replay it gains {measured[0]} % for one video at a time, {measured[1]} % for four and
{measured[2]} % for eight (by hand {by_hand[2]:.1f}, {by_hand[8]:.1f} and {by_hand[16]:.1f} %).
Independent decisions would gain {independent[0]}, {independent[1]} and {independent[2]} %. For
four videos, deciding for all rows at once takes the same time. Where cores are the limit, replay
by row pays at every batch: {gain("broadcast", fast, "row", 2):.0f} % for one video,
{gain("broadcast", fast, "row", last):.0f} % for {last // 2}. {wider()}"""
    return {"answer": answer, "speed-up": _speedups(at, batches)}


def hand(at: pd.DataFrame, bandwidth: str) -> dict[int, float]:
    """Gain in % by bytes over bandwidth: the MLP's weights are fetched unless all rows replay."""
    all_skip = at.loc[("broadcast", bandwidth, "batch", TAU), "replay_all"]
    return {
        int(batch): 100 / (1 - share * MLP_BYTES / (WEIGHT_BYTES + batch * KV_BYTES)) - 100
        for batch, share in all_skip.items()
    }


def _speedups(at: pd.DataFrame, batches: list[int]) -> str:
    rows = []
    for sharing in ("broadcast", "private"):
        for bandwidth, name in BANDWIDTHS.items():
            for deciding in DECIDING:
                if (sharing, bandwidth, deciding, TAU) in at.index:
                    own = at.loc[(sharing, bandwidth, deciding, TAU)]
                    cells = [f"{own.loc[batch, 'speedup']:.3f}" for batch in batches]
                    rows.append([sharing, name, deciding, *cells])
    return markdown(["weights", "memory", "decisions", *map(str, batches)], rows, texts=3)


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Speed-up over the batch, and over the ratio by scope."""
    broadcast, private = (
        frame[frame["machine.weight_sharing"] == sharing] for sharing in ("broadcast", "private")
    )
    title = f"What replay brings at tau {TAU:g}, and what coarser decisions cost"
    with drawing(path, 9.5, 6.6, title) as figure:
        grid = figure.add_gridspec(2, 6)
        top = [figure.add_subplot(grid[0, 2 * i : 2 * i + 2]) for i in range(3)]
        bottom = [figure.add_subplot(grid[1, 3 * i : 3 * i + 3]) for i in range(2)]
        for axes, part, bandwidth, name in (
            (top[0], broadcast, "1 channel", "broadcast, 14 GB/s: memory-bound"),
            (top[1], broadcast, "32 channels", "broadcast, 460 GB/s: compute-bound"),
            (top[2], private, "1 channel", "private, 14 GB/s: memory-bound"),
        ):
            _draw_batches(axes, part[part["bandwidth"] == bandwidth], name)
        top[0].set_ylabel("speed-up over dense")
        eight = broadcast[broadcast["policy.batch"] == 8]
        for axes, (bandwidth, name) in zip(bottom, BANDWIDTHS.items(), strict=True):
            _draw_scopes(axes, eight[eight["bandwidth"] == bandwidth], name)
        bottom[0].set_ylabel("speed-up over dense")
        legend_below(figure, top[0], 3)


def _draw_batches(axes: Axes, part: pd.DataFrame, name: str) -> None:
    for deciding, (label, colour, marker) in DECIDING.items():
        own = part[(part["deciding"] == deciding) & (part["policy.tau"] == TAU)]
        own = own.sort_values("policy.batch")
        if len(own):
            # Where curves coincide, the one drawn first shows around the later ones.
            size = {"row": 9, "pair": 6}.get(deciding, 4)
            look = {"marker": marker, "markersize": size, "color": colour, "label": label}
            axes.plot(own["policy.batch"], own["speedup"], **look)
    batches = sorted(part["policy.batch"].unique())
    axes.set_xscale("log", base=2)
    axes.set(xlabel="batch (two rows a video)", title=name, xticks=batches, xticklabels=batches)
    axes.axhline(1.0, color=plots.BLACK, linewidth=0.8)
    axes.grid(True)


def _draw_scopes(axes: Axes, part: pd.DataFrame, name: str) -> None:
    for deciding in ("row", "pair", "batch"):
        _, colour, marker = DECIDING[deciding]
        own = part[part["deciding"] == deciding].sort_values("replay_eligible")
        ratio = 100 * own["replay_eligible"]
        axes.plot([0, *ratio], [1, *own["speedup"]], marker=marker, color=colour)
    axes.set(xlabel="replayed, % of eligible steps", title=f"batch of 8, broadcast, {name}")
    axes.grid(True)
