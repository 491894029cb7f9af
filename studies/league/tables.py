"""What the league's README says of its results, and the figures."""

from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim.report.figures import style as plots
from carsim.report.figures.policy_looks import policy_look
from studies.drawing import drawing, legend_below
from studies.league.cells import CLIPS
from studies.league.machines import DESIGNS, FRAMES, SEPARATE
from studies.league.measured import DENSE, REPLAY, front, interval
from studies.run import quote
from studies.table import markdown, percent

COLOURS = {
    DENSE: policy_look("dense, static").colour,
    REPLAY: policy_look("FastCar + DRS").colour,
    "window": policy_look("sparse attention, static").colour,
    "draft": plots.VIOLET,
    "LSH": plots.VERMILION,
    "quantised": plots.BROWN,
    "TempCache": plots.OLIVE,
    "AnnCA": plots.MINT,
    "W4": plots.BLACK,
}
AFFORDED = (0.02, 0.2)
"""Losses over dense decoding that a user may afford, nats per token."""


TICKS = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2)
"""Of the losses."""

BIT_ASIC = "asic_28nm"
"""Its arrays multiply 4 bits: dense decoding is W4A4 there, and losses are those over it."""


def joined(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Quality, and machines with the quality and gains of each row."""
    quality = pd.read_csv(folder / "quality.csv", keep_default_na=False, na_values=[""])
    table = pd.read_csv(folder / "machines.csv")
    plain = table[table["contestant"] == DENSE].set_index(["machine", "frames"])
    base = plain[plain["layout"] == SEPARATE].loc[
        list(zip(table["machine"], table["frames"], strict=True))
    ]
    table["gain"] = base["seconds"].to_numpy() / table["seconds"]
    table["joules_gain"] = base["joules"].to_numpy() / table["joules"]
    table["attention_gain"] = base["attention_s"].to_numpy() / table["attention_s"]
    table["holds"] = table["memory_fits"].astype(bool) & _builds(table)
    columns = ["contestant", "family", "strength", "replays", "excess", "density", "run_tokens"]
    table = table.merge(quality[columns], on="contestant", how="left")
    same = (table["machine"] == BIT_ASIC) & table["family"].str.startswith("W4")
    return quality, table[~same]


def _builds(table: pd.DataFrame) -> "pd.Series[bool]":
    """Whether a chip has room for a contestant: at the shortest length, nothing but memory lacks.

    Longer videos need larger buffers of activations, in all rows alike.
    """
    short = table[table["frames"] == table["frames"].min()]
    lacks = short["misfit"].fillna("").str.split("; ")
    only_memory = lacks.map(lambda lines: all(not x or x.startswith("memory ") for x in lines))
    off = short[~only_memory][["machine", "contestant"]].itertuples(index=False, name=None)
    unbuilt = set(off)
    keys = zip(table["machine"], table["contestant"], strict=True)
    return pd.Series([key not in unbuilt for key in keys], index=table.index)


def write(folder: Path) -> None:
    """Draw the figures, and quote the numbers in the README."""
    quality, table = joined(folder)
    draw(folder / "league.png", table)
    readme = folder / "README.md"
    if readme.exists():
        quote(readme, numbers(quality, table))


def numbers(quality: pd.DataFrame, table: pd.DataFrame) -> dict[str, str]:
    """Text by name, as :func:`studies.run.quoted` takes it."""
    return {"answer": answer(quality, table), "pays": who_pays(table)}


# ------------------------------------------------------------------- tables


def most_frames(table: pd.DataFrame, name: str, who: str) -> float:
    """Frames at which the memory of a machine is full, by the bytes at 32 and 64 frames.

    Bytes grow with the frames by the same amount each; infinite where they do not grow.
    """
    rows = _separate(table, name)
    rows = rows[rows["contestant"] == who].set_index("frames")
    used = rows["used_gb"]
    first, last = sorted(used.index)[-2:]
    growth = (used[last] - used[first]) / (last - first)
    if growth < 1e-6:
        return float("inf") if used[last] <= rows["usable_gb"].iloc[0] else 0.0
    return float(max(0.0, last + (rows["usable_gb"].iloc[0] - used[last]) / growth))


def _frames_text(frames: float) -> str:
    """Whole frames; nothing is said of videos longer than any that ran."""
    return f"over {FRAMES[-1]}" if frames > FRAMES[-1] else f"{np.floor(frames):.0f}"


def best(table: pd.DataFrame, name: str, afforded: float) -> "pd.Series[float]":
    """The fastest contestant on a machine that fits and loses no more than is afforded."""
    part = measured_rows(table, name)
    return part[part["holds"] & (part["excess"] <= afforded)].sort_values("seconds").iloc[0]


def measured_rows(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of a machine at the length at which losses were measured."""
    own = _separate(table, name)
    return own[own["frames"] == FRAMES[0]]


def _separate(table: pd.DataFrame, name: str) -> pd.DataFrame:
    return table[(table["machine"] == name) & (table["layout"] == SEPARATE)]


def who_pays(table: pd.DataFrame) -> str:
    """The fastest within a loss, by machine, beside attention's share of the time."""
    rows = []
    for name in DESIGNS:
        dense = _of(table, DENSE, name, FRAMES[0])
        row = [name, percent(dense["attention_s"] / dense["seconds"])]
        for afforded in AFFORDED:
            found = best(table, name, afforded)
            loss = round(found["excess"], 3) + 0.0  # no minus before zero
            row.append(f"{found['contestant']}: {found['gain']:.2f} ({loss:+.3f})")
        rows.append(row)
    return markdown(["machine", "attention", *(f"within {x:g} nats" for x in AFFORDED)], rows)


def _of(table: pd.DataFrame, who: str, name: str, frames: int) -> "pd.Series[float]":
    """One contestant on one machine."""
    own = _separate(table, name)
    return own[(own["frames"] == frames) & (own["contestant"] == who)].iloc[0]


WINDOW, FEW, THREE, SEARCH, MERGED = (
    "window 512",
    "draft 0.1",
    "W4A4 + draft 0.25 + replay",
    "quantised 0.25",
    "TempCache 0.5",
)
"""What the first paragraph names."""


def answer(quality: pd.DataFrame, table: pd.DataFrame) -> str:
    """The first paragraph."""
    losses = quality.set_index("contestant")
    replay = interval(losses.loc[REPLAY], "excess").text(" nats")
    skips = losses.loc[f"{REPLAY}, random skips", "excess"]
    stock, *others = DESIGNS

    def gain(who: str, name: str, frames: int) -> str:
        return f"{_of(table, who, name, frames)['gain']:.2f}"

    def gains(frames: int) -> str:
        *first, last = (gain(FEW, name, frames) for name in others)
        return f"{', '.join(first)} and {last}"

    def share(name: str) -> str:
        dense = _of(table, DENSE, name, FRAMES[0])
        return f"{percent(dense['attention_s'] / dense['seconds'])} on `{name}`"

    def room(who: str, at: int) -> str:
        return _frames_text(sorted(most_frames(table, name, who) for name in DESIGNS)[at])

    alone = table[~table["replays"].astype(bool) & ~table["family"].str.startswith("W4")]
    at_stock = alone[(alone["machine"] == stock) & (alone["frames"] == FRAMES[0])]
    slow = [f"`{n}`" for n in DESIGNS if _of(table, SEARCH, n, FRAMES[0])["gain"] < 1]
    return f"""\
An attention policy pays in proportion to attention's share of the time. At 8 frames this share
is {", ".join(share(name) for name in DESIGNS)}. On `{stock}` no attention policy gains more than
{percent(at_stock["gain"].max() - 1)}; FastCar's replay gains {gain(REPLAY, stock, 8)} times, at
a loss of {replay}. The same number of random skips, whose outputs are younger, loses
{skips:.3f}. This proxy model hardly needs its MLPs: both losses measure stale outputs, not the
value of replay ([proxy](../proxy/README.md)). On the other three machines, DraftAttention reads
{percent(losses.loc[FEW, "density"])} of the keys and gains {gains(8)} times for
{losses.loc[FEW, "excess"]:.3f} nats. Extrapolated to 64 frames it gains {gains(64)} times, but
no machine has room for its cache. TempCache at theta 0.5 shows no loss on ten scenes of 8
frames, where a window of two frames, its simplest alternative, loses
{losses.loc[WINDOW, "excess"]:.3f}. Only TempCache makes room without a window: the machines then
hold {room(MERGED, 0)} frames or more, and with a dense cache {room(DENSE, 0)} to
{room(DENSE, -1)}. A search through keys of 4 bits chooses best, but the search makes it slower
than dense decoding on {" and ".join(slow)}. The best combination of three, DraftAttention,
replay and W4A4, gains {gain(THREE, "zcu102_16gb", 8)} times on `zcu102_16gb` and loses
{losses.loc[THREE, "excess"]:.3f} nats. All losses were measured at 8 frames."""


# ------------------------------------------------------------------ figures


def draw(path: Path, table: pd.DataFrame) -> None:
    """Loss against seconds of a video of 8 frames, a panel for each machine."""
    title = f"The league: loss against time, 8 frames, {len(CLIPS)} scenes"
    with drawing(path, 13, 8.5, title) as figure:
        for axes, name in zip(figure.subplots(2, 2).flat, DESIGNS, strict=True):
            _draw_machine(axes, measured_rows(table, name))
            axes.set(title=name + (", over its own W4A4" if name == BIT_ASIC else ""))
        title = "crosses: does not fit; wide grey line: front of all"
        legend_below(figure, figure.axes[0], 6, fontsize=7.5, title=title)


def _draw_machine(axes: Axes, part: pd.DataFrame) -> None:
    markers = dict(zip(part["family"].unique(), cycle("os^dvPX*<>"), strict=False))
    for (family, replays), line in part.groupby(["family", "replays"], sort=False):
        colour = next((c for key, c in COLOURS.items() if str(family).startswith(key)), plots.BLACK)
        fill = "none" if replays else colour
        style = ":" if replays else "-"
        ordered = line.sort_values("excess")
        axes.plot(
            ordered["seconds"], ordered["excess"], style, color=colour, linewidth=0.8,
            marker=markers[family], markersize=4, markerfacecolor=fill,
            label=f"{family}{' with replay' * bool(replays and family != REPLAY)}",
        )  # fmt: skip
        misfits = ordered[~ordered["holds"]]
        axes.plot(misfits["seconds"], misfits["excess"], "x", color=colour, markersize=6)
    best_of = front(part[part["holds"]], "seconds", "excess")
    axes.step(
        best_of["seconds"], best_of["excess"], where="post", color=plots.LIGHT_GREY, linewidth=3,
        zorder=0,
    )  # fmt: skip
    axes.set_yscale("symlog", linthresh=0.02, linscale=0.6)
    axes.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axes.set_yticks([], minor=True)
    axes.grid(axis="y")
    axes.set(xlabel="seconds a video", ylabel="loss over dense, nats per token")
