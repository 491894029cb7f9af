"""Which schedule or mapping is fastest where."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from carsim.report.figures import style as plots
from carsim.report.figures.policy_looks import policy_look
from studies.drawing import drawing

METRICS = ("latency_s", "bound_latency_s", "busy", "limit", "limit_mlp", "replay_eligible")

SCHEDULES = ("static", "drs", "pack")
COLOURS = {
    "drs": policy_look("FastCar + DRS").colour,
    "pack": policy_look("FastCar, pack").colour,
    "static": policy_look("FastCar, static").colour,
    "tensor": plots.YELLOW,
    "no matter": plots.LIGHT_GREY,
}
MATTERS = 0.005
"""Faster by less than this share is no difference."""

SHARINGS = ("broadcast", "private")
BANDWIDTHS = {"1 channel": "14 GB/s", "4 channels": "58 GB/s", "16 channels": "230 GB/s"}
PLACE = ["machine.weight_sharing", "bandwidth", "policy.batch", "array"]


def latencies(frame: pd.DataFrame) -> pd.DataFrame:
    """Seconds by way to do the work, a row per machine and batch.

    Under tensor mapping each core streams its own columns, whatever the sharing is called.
    """
    main = frame[frame["study"] == "study"]
    way = main["policy.schedule"].where(main["machine.mapping"] == "batch", "tensor")
    table = main.assign(way=way).pivot_table(index=PLACE, columns="way", values="latency_s")
    table["tensor"] = table.groupby(level=PLACE[1:])["tensor"].transform("max")
    return table


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """By how much each way is faster than static."""
    return table.rdiv(table["static"], axis=0) - 1


def winners(table: pd.DataFrame, ways: tuple[str, ...]) -> pd.Series:
    """The fastest of some ways, where it matters: where it beats static, or static all others."""
    gain = gains(table)[list(ways)]
    others = gain.drop(columns="static")
    static = np.where(others.max(axis=1) < -MATTERS, "static", "no matter")
    return others.idxmax(axis=1).where(others.max(axis=1) > MATTERS, pd.Series(static, gain.index))


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    table = latencies(frame)
    gain, total = gains(table), len(table)
    by_schedule, overall = winners(table, SCHEDULES), winners(table, (*SCHEDULES, "tensor"))
    said = {way: f"{(by_schedule == way).sum()} of {total}" for way in ("drs", "pack", "static")}
    drs, pack = (gain[way][by_schedule == way] for way in ("drs", "pack"))
    tensor = gain["tensor"][overall == "tensor"]
    shared = tensor[tensor.index.get_level_values(0) == "broadcast"]
    private = tensor[tensor.index.get_level_values(0) == "private"]
    answer = f"""\
If each core computes whole sequences, `drs` is fastest where cores are the limit: on
{said["drs"]} machines, by {_span(drs)} over `static`. `pack` is fastest where each core streams
its own weights and memory is the limit: on {said["pack"]} machines, by {_span(pack)}. `static`
is fastest on {(by_schedule == "static").sum() or "none"}, and no schedule matters on the other
{(by_schedule == "no matter").sum()}. Tensor mapping, which splits every matrix over the cores,
is faster than all three schedules on {(overall == "tensor").sum()} of {total} machines: by
{_span(shared)} over `static` with broadcast weights, by {_span(private)} with private weights."""
    return {"answer": answer}


def _span(values: pd.Series) -> str:
    low, high = 100 * values.min(), 100 * values.max()
    return f"{low:.1f} to {high:.0f} %" if high >= 10 else f"{low:.1f} to {high:.1f} %"


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Maps of the fastest schedule, without tensor mapping and with it."""
    table = latencies(frame)
    named = ", ".join(SCHEDULES)
    questions = ((named, SCHEDULES), (f"{named}, tensor", (*SCHEDULES, "tensor")))
    title = "The fastest schedule or mapping, and its gain over static in %"
    with drawing(path, 9.5, 8.2, title) as figure:
        axes = figure.subplots(4, 3, sharex=True, sharey=True)
        for row, (question, ways, sharing) in enumerate(
            (question, ways, sharing) for question, ways in questions for sharing in SHARINGS
        ):
            for column, bandwidth in enumerate(BANDWIDTHS):
                part = table.loc[(sharing, bandwidth)]
                _draw_map(axes[row, column], part, winners(part, ways), ways)
                if row == 0:
                    axes[row, column].set_title(f"memory of {BANDWIDTHS[bandwidth]}")
            axes[row, 0].set_ylabel(f"fastest of\n{question}\n{sharing} weights\n\nbatch")
        for each in axes[-1]:
            each.set_xlabel("MACs per cycle, four cores")
        seen = {winner for _, ways in questions for winner in winners(table, ways)}
        handles = [Patch(color=COLOURS[way], label=way) for way in COLOURS if way in seen]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def _draw_map(axes: Axes, part: pd.DataFrame, best: pd.Series, ways: tuple[str, ...]) -> None:
    gain = gains(part)[list(ways)].max(axis=1)
    batches, arrays = (sorted(part.index.unique(name)) for name in ("policy.batch", "array"))
    for y, batch in enumerate(batches):
        for x, macs in enumerate(arrays):
            winner = best.loc[(batch, macs)]
            corner = (x - 0.48, y - 0.48)
            axes.add_patch(Rectangle(corner, 0.96, 0.96, color=COLOURS[winner]))
            if winner != "no matter":
                text = f"{winner}\n{100 * gain.loc[(batch, macs)]:+.1f}"
                ink = "white" if winner == "drs" else "black"
                axes.text(x, y, text, ha="center", va="center", fontsize=7.5, color=ink)
    axes.set(
        xlim=(-0.5, len(arrays) - 0.5),
        ylim=(-0.5, len(batches) - 0.5),
        xticks=range(len(arrays)),
        xticklabels=[f"{macs:,}" for macs in arrays],
        yticks=range(len(batches)),
        yticklabels=batches,
    )
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
