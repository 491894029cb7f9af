"""What the league's README says of its results, and the figures."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim.report.figures import style as plots
from studies.league.cells import CLIPS
from studies.league.machines import DESIGNS, FRAMES, INTERLEAVED, SEPARATE
from studies.league.measured import DENSE, REPLAY, front, interval
from studies.run import quoted
from studies.table import markdown

COLOURS = {
    DENSE: plots.BLACK,
    REPLAY: plots.BLACK,
    "window": plots.GREY,
    "draft": plots.BLUE,
    "LSH": plots.VERMILION,
    "quantised": plots.ORANGE,
    "TempCache": plots.GREEN,
    "AnnCA": plots.SKY,
    "W4": plots.PURPLE,
}
AFFORDED = (0.02, 0.2)
"""Losses over dense decoding that a user may afford, nats a token."""

BIT_ASIC = "asic_28nm"
"""Its arrays multiply 4 bits: what is not W4A4 does not exist there."""


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
    columns = ["contestant", "family", "strength", "replays", "excess", "density", "run_tokens"]
    table = table.merge(quality[columns], on="contestant", how="left")
    off = (table["machine"] == BIT_ASIC) & table["family"].isin(["W4A16", "W4A8"])
    return quality, table[~off]


def write(folder: Path) -> None:
    """Draw the figures, and quote the numbers in the README."""
    quality, table = joined(folder)
    checked = pd.read_csv(folder / "longer.csv")
    with plots.style():
        for name in DESIGNS:
            draw(folder / f"{name}.png", name, table)
    readme = folder / "README.md"
    if not readme.exists():
        return
    text = readme.read_text(encoding="utf-8")
    readme.write_text(quoted(text, numbers(quality, table, checked)), encoding="utf-8")


def numbers(quality: pd.DataFrame, table: pd.DataFrame, checked: pd.DataFrame) -> dict[str, str]:
    """Text by name, as :func:`studies.run.quoted` takes it."""
    return {
        "answer": answer(quality, table),
        "pays": who_pays(table),
        "quality": of_quality(quality),
        "gains": of_gains(table, replays=False),
        "gains_replay": of_gains(table, replays=True),
        "joules": of_joules(table),
        "capacity": of_capacity(table),
        "gathers": of_gathers(table),
        "longer": of_longer(checked),
    }


# ------------------------------------------------------------------- tables


def _plain(quality: pd.DataFrame) -> pd.DataFrame:
    return quality[~quality["replays"] & (quality["floor"].fillna("") == "")]


def of_quality(quality: pd.DataFrame) -> str:
    """Loss, recall and density of every policy alone, its floor, and what replay adds."""
    by_name = quality.set_index("contestant")
    rows = []
    for name, row in _plain(quality).set_index("contestant").iterrows():
        floor = f"{name}, random keys"
        with_replay = by_name.loc[REPLAY if name == DENSE else f"{name} + replay"]
        added = interval(with_replay, "added")
        rows.append(
            [
                str(name),
                f"{row['density']:.0%}".replace("%", " %"),
                f"{row['recall']:.0%}".replace("%", " %"),
                "" if name == DENSE else _interval(row, "excess"),
                f"{by_name.loc[floor, 'excess']:+.3f}" if floor in by_name.index else "",
                f"{with_replay['ratio']:.0%}".replace("%", " %"),
                f"{added.mean:+.3f} [{added.low:.3f}, {added.high:.3f}]",
            ]
        )
    header = [
        "policy", "keys read", "recall", "loss over dense", "by chance", "replayed",
        "replay adds",
    ]  # fmt: skip
    return markdown(header, rows)


def _interval(row: "pd.Series[float]", what: str) -> str:
    found = interval(row, what)
    return f"{found.mean:+.3f} [{found.low:.3f}, {found.high:.3f}]"


def _ordered(table: pd.DataFrame, *, replays: bool) -> list[str]:
    chosen = table[(table["replays"] == replays) & (table["contestant"] != DENSE)]
    return list(dict.fromkeys(chosen["contestant"]))


def _cell(table: pd.DataFrame, key: Sequence[object], column: str, text: str) -> str:
    found = table[
        (table["machine"] == key[0]) & (table["frames"] == key[1])
        & (table["contestant"] == key[2]) & (table["layout"] == SEPARATE)
    ]  # fmt: skip
    return text.format(found[column].iloc[0]) if len(found) else ""


def of_gains(table: pd.DataFrame, *, replays: bool) -> str:
    """Gain in time over dense decoding on each machine and length."""
    header = ["policy", *(f"{name}, {n}" for name in DESIGNS for n in FRAMES)]
    rows = [
        [who, *(_cell(table, (name, n, who), "gain", "{:.2f}") for name in DESIGNS for n in FRAMES)]
        for who in _ordered(table, replays=replays)
    ]
    dense = [_cell(table, (m, n, DENSE), "seconds", "{:.4g} s") for m in DESIGNS for n in FRAMES]
    return markdown(header, [["dense", *dense], *rows])


def of_joules(table: pd.DataFrame) -> str:
    """Joules a video, and the gain of the middle strengths."""
    wanted = [
        DENSE, "window 256", "draft 0.25", "LSH 4 bit", "quantised 0.25", "TempCache 0.8", "W4A4",
        REPLAY, "draft 0.25 + replay", "W4A4 + draft 0.25 + replay",
    ]  # fmt: skip
    header = ["policy", *(f"{name}, {n}" for name in DESIGNS for n in (8, 64))]
    rows = [
        [who, *(_cell(table, (m, n, who), "joules", "{:,.0f}") for m in DESIGNS for n in (8, 64))]
        for who in wanted
    ]
    return markdown(header, rows)


def most_frames(table: pd.DataFrame, name: str, who: str) -> float:
    """Frames at which the memory of a machine is full, by the bytes at 32 and 64 frames.

    Bytes grow with the frames by the same amount each; infinite where they do not grow.
    """
    rows = table[
        (table["machine"] == name) & (table["contestant"] == who) & (table["layout"] == SEPARATE)
    ].set_index("frames")
    used = rows["used_gb"]
    first, last = sorted(used.index)[-2:]
    growth = (used[last] - used[first]) / (last - first)
    if growth < 1e-6:
        return float("inf") if used[last] <= rows["usable_gb"].iloc[0] else 0.0
    return float(max(0.0, last + (rows["usable_gb"].iloc[0] - used[last]) / growth))


def of_capacity(table: pd.DataFrame) -> str:
    """What is held, and how long a video fits, for policies that give something up."""
    rows = []
    for who in [
        DENSE, "window 256", "draft 0.25", "LSH 4 bit", "quantised 0.25", "TempCache 0.95",
        "TempCache 0.8", "TempCache 0.5", "AnnCA 8 bit", "W4A4", "W4A4 + TempCache 0.8",
    ]:  # fmt: skip
        held = [_cell(table, ("zcu102_16gb", n, who), "held", "{:.0%}") for n in FRAMES]
        frames = [_frames_text(most_frames(table, name, who)) for name in DESIGNS]
        rows.append([who, *(each.replace("%", " %") for each in held), *frames])
    return markdown(["policy", *(f"held, {n}" for n in FRAMES), *DESIGNS], rows)


def _frames_text(frames: float) -> str:
    return "any" if frames == float("inf") else f"{np.floor(frames):.0f}"


def of_gathers(table: pd.DataFrame) -> str:
    """Time of attention beside the share of keys that is read, where keys are gathered."""
    rows = []
    part = table[(table["frames"] == 8) & ~table["replays"].astype(bool)]
    for who in _ordered(part[part["layout"] == INTERLEAVED], replays=False):
        some = part[part["contestant"] == who]
        first = some.iloc[0]
        row = [who, f"{first['density']:.0%}".replace("%", " %"), f"{first['run_tokens']:.1f}"]
        for name in DESIGNS:
            of_machine = some[some["machine"] == name].set_index("layout")
            shares = (1 / of_machine["attention_gain"]).reindex([SEPARATE, INTERLEAVED])
            row.append(" / ".join(f"{share:.0%}".replace("%", "") for share in shares) + " %")
        rows.append(row)
    return markdown(["policy", "keys read", "keys a run", *DESIGNS], rows)


def of_longer(checked: pd.DataFrame) -> str:
    """The rule held against real decoding of 32 frames."""
    means = checked.groupby("contestant", sort=False).mean(numeric_only=True)

    def pair(row: "pd.Series[float]", what: str, text: str) -> str:
        shown = f"{text.format(row[what])} ({text.format(row[f'{what}_by_rule'])})"
        return shown.replace("%", " %")

    rows = [
        [
            str(name),
            pair(row, "density", "{:.0%}"),
            pair(row, "run_tokens", "{:.1f}") if row["run_tokens"] < 1000 else "",
            pair(row, "held_most", "{:.0%}"),
            pair(row, "ratio", "{:.0%}") if row["ratio"] else "",
            f"{row['recall']:.0%}".replace("%", " %"),
            f"{row['excess']:+.3f}" if row["excess"] else "",
        ]
        for name, row in means.iterrows()
    ]
    header = [
        "policy", "keys read (rule)", "keys a run (rule)", "held (rule)", "replayed (rule)",
        "recall", "loss over dense",
    ]  # fmt: skip
    return markdown(header, rows)


def best(table: pd.DataFrame, name: str, frames: int, afforded: float) -> "pd.Series[float]":
    """The fastest contestant on a machine whose mean loss over dense is within what is afforded."""
    part = table[
        (table["machine"] == name) & (table["frames"] == frames)
        & (table["layout"] == SEPARATE) & (table["excess"] <= afforded)
    ]  # fmt: skip
    return part.loc[part["seconds"].idxmin()]


def who_pays(table: pd.DataFrame) -> str:
    """The fastest within a loss, by machine and length, beside attention's share of the time."""
    rows = []
    for name in DESIGNS:
        for frames in FRAMES:
            dense = table[
                (table["machine"] == name) & (table["frames"] == frames)
                & (table["contestant"] == DENSE)
            ].iloc[0]  # fmt: skip
            row = [
                name if frames == FRAMES[0] else "",
                str(frames),
                f"{dense['attention_s'] / dense['seconds']:.0%}".replace("%", " %"),
                "yes" if dense["memory_fits"] else "no",
            ]
            for afforded in AFFORDED:
                found = best(table, name, frames, afforded)
                fits = "" if found["memory_fits"] else ", does not fit"
                row.append(
                    f"{found['contestant']}: {found['gain']:.2f} ({found['excess']:+.3f}{fits})"
                )
            rows.append(row)
    header = [
        "machine",
        "frames",
        "attention",
        "dense fits",
        *(f"within {x:g} nats" for x in AFFORDED),
    ]
    return markdown(header, rows)


def answer(quality: pd.DataFrame, table: pd.DataFrame) -> str:
    """The first paragraph."""
    return "ANSWER"


# ------------------------------------------------------------------ figures


def draw(path: Path, name: str, table: pd.DataFrame) -> None:
    """Loss against seconds of a video on one machine, a panel for each length."""
    own = table[(table["machine"] == name) & (table["layout"] == SEPARATE)]
    lengths = sorted(own["frames"].unique())
    title = f"The league on {name}: loss (8 frames, {len(CLIPS)} scenes) against time"
    figure = plots.new_figure(4.2 * len(lengths), 4.6, title, misfit=False)
    for axes, frames in zip(
        figure.subplots(1, len(lengths), squeeze=False)[0], lengths, strict=True
    ):
        _draw_length(axes, own[own["frames"] == frames])
        axes.set(title=f"{frames} frames" + ("" if frames == FRAMES[0] else ", by rule"))
    figure.savefig(path, metadata={"Software": None})


def _draw_length(axes: Axes, part: pd.DataFrame) -> None:
    for (family, replays), line in part.groupby(["family", "replays"], sort=False):
        colour = next((c for key, c in COLOURS.items() if str(family).startswith(key)), plots.BLACK)
        fill = "none" if replays else colour
        style = ":" if replays else "-"
        ordered = line.sort_values("excess")
        axes.plot(
            ordered["seconds"], ordered["excess"], style, color=colour, linewidth=0.8,
            marker="o", markersize=4, markerfacecolor=fill,
        )  # fmt: skip
        misfits = ordered[~ordered["memory_fits"].astype(bool)]
        axes.plot(misfits["seconds"], misfits["excess"], "x", color=colour, markersize=6)
        if not replays or family == REPLAY:
            last = ordered.iloc[-1]
            axes.annotate(
                str(family), (last["seconds"], last["excess"]), color=colour, fontsize=6.5,
                textcoords="offset points", xytext=(4, 3),
            )  # fmt: skip
    best_of = front(part, "seconds", "excess")
    axes.step(
        best_of["seconds"], best_of["excess"], where="post", color=plots.LIGHT_GREY, linewidth=3,
        zorder=0,
    )  # fmt: skip
    axes.set_yscale("symlog", linthresh=0.02)
    axes.set(xlabel="seconds a video", ylabel="loss over dense, nats a token")


def names_of(rows: Iterable[str]) -> str:
    """Names in a sentence."""
    return ", ".join(rows)
