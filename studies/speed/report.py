"""The benchmark's figures as a table, a CSV and a figure."""

import csv
from pathlib import Path
from statistics import median
from typing import Any

from decoder import SHARES, clip_share
from rich.console import Console
from rich.table import Table

Figures = dict[str, Any]

LABELS = {
    "help": "carsim --help",
    "run": "carsim run, six rows",
    "point": "one design point",
    "point_plainly": "the same, one phase after the other (a sample of its steps)",
    "tile_point": "one design point, tile",
    "large": "64 frames x 32 sequences",
    "capture": "carsim capture, 3 frames of 2 rows",
}
COLUMNS = ("wall_s", "cpu_s", "peak_mb", "layer_steps", "phases_taken", "layer_steps_per_s")
GROWTH_COLUMNS = (
    "axis",
    "size",
    "layer_steps",
    "unique_phases",
    "wall_s",
    "cpu_s",
    "peak_mb",
)


def ratios(found: Figures) -> dict[str, float]:
    """What does not depend on how fast or busy the machine was."""
    rate = {name: found[name]["layer_steps_per_s"] for name in ("point", "point_plainly")}
    decoder = found["decoder"]
    named = {
        "equal phases once over all one by one, layer-steps per second": rate["point"]
        / rate["point_plainly"],
        "total over unique: layer-steps per phase taken": found["point"]["layer_steps"]
        / found["point"]["phases_taken"],
        "six rows with start-up over one design point": found["run"]["cpu_s"]
        / found["point"]["first_cpu_s"],
    }
    named |= {f"decoder: {of} over all of its time": clip_share(decoder, of) for of in SHARES}
    rows = [row for row in found["growth"] if row["axis"] == "frames"]
    first, last = rows[0], rows[-1]
    named[f"frames {first['size']} to {last['size']}: time over steps"] = (
        last["cpu_s"] / first["cpu_s"] / (last["size"] / first["size"])
    )
    return named


def print_report(found: Figures) -> None:
    """Tables in the terminal."""
    console = Console(width=110)
    table = Table(*("", *COLUMNS), title="What it takes")
    for name, label in LABELS.items():
        if name in found:
            cells = [f"{found[name][key]:,.4g}" if key in found[name] else "" for key in COLUMNS]
            table.add_row(label, *cells)
    console.print(table)
    if "sweep" in found:
        columns = ("sweep", "points", "wall_s", "points a minute", "points a processor minute")
        table = Table(*columns, title="Sweeps")
        alone = found["sweep"]["in one process"]
        for name, run in found["sweep"]["on all cores"].items():
            rates = run["points_per_minute"], alone[name]["points_per_cpu_minute"]
            cells = (f"{run['wall_s']:.1f}", *(f"{rate:.0f}" for rate in rates))
            table.add_row(name, str(run["points"]), *cells)
        console.print(table)
    if "cluster" in found:
        table = Table("workers", "points a minute", title="On Dask")
        for run in found["cluster"]:
            table.add_row(str(run["workers"]), f"{run['points_per_minute']:.0f}")
        console.print(table)
    if "drawn" in found:
        table = Table(*found["drawn"], title="Drawn designs")
        table.add_row(*(f"{figure:,.4g}" for figure in found["drawn"].values()))
        console.print(table)
    if "decoder_rows" in found:
        table = Table("rows", *SHARES, title="Decoder, of a whole clip (its first, its last step)")
        for rows, steps in found["decoder_rows"].items():
            cells = (
                f"{clip_share(steps, of):.1%} ({steps[0][key]:.0%}, {steps[-1][key]:.0%})"
                for of, key in ((of, f"{of}_share") for of in SHARES)
            )
            table.add_row(str(rows), *cells)
        console.print(table)
    table = Table("axis", "slope of log time", "95 % interval", title="Growth")
    for axis, fit in found.get("slopes", {}).items():
        table.add_row(axis, f"{fit['slope']:.2f}", f"{fit['low']:.2f} to {fit['high']:.2f}")
    if table.row_count:
        console.print(table)
    table = Table("ratio", "", title="Ratios of this run")
    for label, value in ratios(found).items():
        table.add_row(label, f"{value:,.3g}")
    console.print(table)


def write_growth(rows: list[Figures], path: Path) -> None:
    """A row per size of an axis."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, GROWTH_COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {key: round(x, 4) if isinstance(x, float) else x for key, x in row.items()}
            )


def draw(found: Figures, peers: Path, path: Path) -> None:
    """Growth by axis, and what peers take for the same questions."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (growth, rates) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for axis, fit in found["slopes"].items():
        rows = [row for row in found["growth"] if row["axis"] == axis]
        sizes = sorted({row["size"] for row in rows})
        taken = [[row["cpu_s"] for row in rows if row["size"] == size] for size in sizes]
        label = f"{axis}: slope {fit['slope']:.2f} ({fit['low']:.2f} to {fit['high']:.2f})"
        growth.plot(sizes, list(map(median, taken)), "o-", label=label)
    growth.set(
        xscale="log",
        yscale="log",
        xlabel="frames, sequences, layers, cores, key heads, points",
        ylabel="processor seconds",
        title="Growth",
    )
    growth.set_ylim(top=500 * max(row["cpu_s"] for row in found["growth"]))  # room for the legend
    growth.legend(fontsize=8)
    with peers.open(encoding="utf-8") as file:
        bars = {row["label"]: float(row["cpu_s"]) for row in csv.DictReader(file) if row["cpu_s"]}
    colours = ["C0" if "carsim" in label else "C1" for label in bars]
    rates.barh(list(bars), list(bars.values()), color=colours)
    for label, cpu_s in bars.items():
        text = f"{cpu_s:.2g}" if cpu_s < 100 else f"{cpu_s:,.0f}"
        rates.annotate(f" {text}", (cpu_s, label), va="center", fontsize=8)
    rates.invert_yaxis()
    rates.tick_params(axis="y", labelsize=8)
    rates.set(xscale="log", xlabel="processor seconds, start-up excluded", title="Beside peers")
    rates.set_xlim(right=20 * max(bars.values()))  # room for the figures
    figure.savefig(path, dpi=120)
