"""Where on-chip buffers stop paying, and what the replay cache costs."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim.decisions.trace import load_trace, save_trace
from carsim.report.figures import style as plots
from studies.drawing import drawing, with_misfits
from studies.table import markdown

METRICS = ("latency_s", "ms_per_token", "busy", "bram36", "uram", "memory_used_gb", "reason")
SOURCE = Path(__file__).parents[2] / "traces" / "vilau_8f.npz"
LAYERS, ROWS = 1, 16


def prepare(folder: Path) -> None:
    """Write a corner of the measured trace: simulating every tile of a whole video takes hours.

    It has the first token in one layer of 16 rows, after a prompt of one token.
    """
    trace = load_trace(SOURCE)
    middle = trace.n_layers // 2 + np.arange(LAYERS)
    decoded = trace.meta.decoded.model_copy(update={"n_layers": LAYERS})
    meta = trace.meta.model_copy(
        update={
            "producer": f"a corner of {trace.name}",
            "decoded": decoded,
            "simulated": trace.meta.simulated.model_copy(update={"n_layers": LAYERS}),
            "n_frames": 1,
            "tokens_per_frame": 1,
            "prompt_tokens": 1,
            "prompt_lengths": (1,) * ROWS,
            "tau": tuple(trace.meta.tau_per_layer[layer] for layer in middle),
            "guidance_pairs": tuple(p for p in trace.meta.guidance_pairs if max(p) < ROWS),
            "quality": None,
            "command": "python -m studies.run buffers",
        }
    )
    replay, tas = (array[:1, middle, :ROWS] for array in (trace.replay, trace.tas))
    corner = replace(trace, replay=replay, tas=tas, meta=meta)
    save_trace(folder / "corner.npz", corner, overwrite=True)


WEIGHT, KV = "machine.weight_buffer_kib", "machine.kv_buffer_kib"
NAMES = {"zcu102_16gb": "ZCU102, 16 GB", "u280": "U280, 10,240 MACs"}
COLOURS = dict(zip(NAMES, (plots.BLUE, plots.VERMILION), strict=True))
NEAR = 0.01
"""A buffer is large enough if it takes at most this share longer than the best."""

REPLAY = {4: plots.GREEN, 8: plots.BLUE, 16: plots.VERMILION}


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    knees = {design: knee(frame, design) for design in NAMES}
    large, kv, cache = (
        frame[frame["study"] == f"study_{name}"] for name in ("large", "kv", "replay")
    )
    gain = _most_saved(large[large["machine.weight_sharing"] == "broadcast"], "design", WEIGHT)
    kv_gain = _most_saved(kv, "design", KV)
    held = {
        bits: int(part[part["status"] == "ok"]["policy.batch"].max())
        for bits, part in cache.groupby("model.replay.bits")
    }
    gbs = cache.set_index(["model.replay.bits", "policy.batch"])
    slower = gbs.loc[16, "latency_s"] / gbs.loc[4, "latency_s"] - 1
    answer = f"""\
A weight buffer of {knees["zcu102_16gb"]} KiB a core is large enough on the ZCU102, and one of
{knees["u280"]} KiB on the U280: two tiles, and what memory delivers while a request is under
way. With smaller buffers the time grows up to {worst(frame):.1f}-fold. Larger buffers, up to 8
MiB a core, save {100 * gain:.1f} % at most, because a layer's weights take 105 MB. KV buffers
beyond their smallest size save {100 * kv_gain:.1f} % at most. The replay cache needs memory but
no on-chip buffer. 16 bits instead of 4 cost {100 * slower.max():.2f} % of the time, and 16 GB
hold a batch of {held[16]} with 16 bits, {held[8]} with 8 and {held[4]} with 4."""
    return {"answer": answer, "tiles": _tiles(frame)}


def slowdowns(frame: pd.DataFrame, design: str) -> pd.DataFrame:
    """Time of a step over the least, by tile (rows) and weight buffer (columns)."""
    own = frame[(frame["study"] == "study") & (frame["design"] == design)]
    table = own.pivot_table(index="machine.tile_kib", columns=WEIGHT, values="ms_per_token")
    return table / table.min().min()


def knee(frame: pd.DataFrame, design: str) -> int:
    """The smallest weight buffer that some tile makes large enough, in KiB."""
    best = slowdowns(frame, design).min()
    return int(best[best <= 1 + NEAR].index.min())


def worst(frame: pd.DataFrame) -> float:
    """The largest slow-down of all."""
    return max(float(slowdowns(frame, design).max().max()) for design in NAMES)


def _most_saved(part: pd.DataFrame, by: str, size: str) -> float:
    """Most, over designs, that any size saves over the smallest."""
    smallest = part[part[size] == part[size].min()].groupby(by)["latency_s"].min()
    return float((1 - part.groupby(by)["latency_s"].min() / smallest).max())


def _tiles(frame: pd.DataFrame) -> str:
    rows = []
    for design in NAMES:
        table = slowdowns(frame, design)
        for tile, row in table.iterrows():
            cells = ["" if value != value else f"{value:.3f}" for value in row]
            rows.append([NAMES[design], f"{tile:.0f}", *cells])
    sizes = [f"{size:.0f} KiB" for size in table.columns]
    return markdown(["design", "tile KiB", *sizes], rows, texts=1)


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Tiles above, large weight buffers, KV buffers and the replay cache below."""
    title = "On-chip buffers stop paying at a few tiles; the replay cache needs room, not speed"
    with drawing(path, 9.5, 6.4, title) as figure:
        top, bottom = figure.subplots(2, 3)
        for axes, design in zip(top[:2], NAMES, strict=True):
            _draw_tiles(axes, slowdowns(frame, design), NAMES[design])
        top[0].set_ylabel("time of a step over the least")
        top[0].legend(title="tile")
        large, kv = (frame[frame["study"] == f"study_{name}"] for name in ("large", "kv"))
        for axes, sharing in ((bottom[0], "broadcast"), (top[2], "private")):
            part = large[large["machine.weight_sharing"] == sharing]
            _draw_saved(axes, part, WEIGHT, f"large weight buffers, {sharing}")
        _draw_saved(bottom[1], kv, KV, "KV buffers")
        for axes in (top[2], bottom[0]):
            axes.set_ylabel("time saved over the smallest (%)")
        _draw_replay(bottom[2], frame[frame["study"] == "study_replay"])


def _draw_tiles(axes: Axes, table: pd.DataFrame, name: str) -> None:
    colours = (plots.VERMILION, plots.ORANGE, plots.GREEN, plots.SKY, plots.BLUE)
    for (tile, row), colour in zip(table.iterrows(), colours, strict=True):
        row = row.dropna()
        axes.plot(row.index, row, marker="o", color=colour, label=f"{tile:.0f} KiB")
    _sizes(axes, table.columns)
    axes.set(title=name, xlabel="weight buffer of a core (KiB)", ylim=(0.9, 2.35))


def _draw_saved(axes: Axes, part: pd.DataFrame, size: str, title: str) -> None:
    for design, own in part.groupby("design", sort=False):
        own = own.sort_values(size)
        own = own.assign(saved=100 * (1 - own["latency_s"] / own["latency_s"].iloc[0]))
        axes.plot(own[size], own["saved"], color=COLOURS[design], label=NAMES[design])
        with_misfits(axes, own, size, "saved", "o", COLOURS[design])
    _sizes(axes, sorted(part[size].unique()))
    axes.set(title=title, xlabel="buffer of a core (KiB); hollow: does not fit")
    low, high = axes.get_ylim()
    axes.set_ylim(min(-0.1, low), max(1.0, high))
    axes.legend()


def _draw_replay(axes: Axes, cache: pd.DataFrame) -> None:
    for bits, own in cache.groupby("model.replay.bits"):
        own = own.sort_values("policy.batch")
        colour = REPLAY[int(bits)]
        axes.plot(own["policy.batch"], own["memory_used_gb"], color=colour, label=f"{bits:.0f} bit")
        with_misfits(axes, own, "policy.batch", "memory_used_gb", "o", colour)
    axes.set(title="replay cache on the ZCU102, 16 GB", xlabel="batch; hollow: does not fit")
    axes.set_ylabel("memory in use (GB)")
    axes.grid(True)
    axes.legend()


def _sizes(axes: Axes, sizes: Iterable[float]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(sizes), [f"{size:,.0f}" for size in sizes])
    axes.grid(True)
