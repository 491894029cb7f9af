"""Cores against tau on the ZCU102: latency, energy and quality."""

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from carsim.explore.pareto import pareto
from carsim.report.figures import style as plots
from studies.drawing import drawing
from studies.measured import wider, with_quality
from studies.table import markdown

METRICS = (
    "seconds_per_video",
    "energy_per_video_j",
    "speedup",
    "replay_eligible",
    "busy",
    "limit",
    "dsp",
)

DENSE = 100.0
"""A threshold that no score reaches: what is decoded is exact."""

HALF = 2.7
"""The threshold of the trace, at which half of the eligible steps replay."""

BOARDS = {
    "study": "stock ZCU102, one video at a time",
    "study_16gb": "ZCU102 with 16 GB, four videos at a time",
}
OBJECTIVES = {"seconds_per_video": "min", "energy_per_video_j": "min", "quality_loss": "min"}
MARKERS = {1: "o", 2: "s", 3: "^", 4: "D", 5: "v", 6: "P"}


def complete(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with measured quality; dense decoding loses nothing by definition."""
    frame = with_quality(frame)
    is_dense = frame["policy.tau"] == DENSE
    return frame.assign(quality_loss=frame["quality_loss"].where(~is_dense, 0.0))


def front(frame: pd.DataFrame, study: str) -> pd.DataFrame:
    """The Pareto front of a board."""
    return pareto(frame[frame["study"] == study], OBJECTIVES)


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    frame = complete(frame)
    stock = frame[(frame["study"] == "study") & (frame["status"] == "ok")]
    large = frame[(frame["study"] == "study_16gb") & (frame["status"] == "ok")]
    dense = stock[stock["policy.tau"] == DENSE]
    one = dense[dense["cores"] == 1].iloc[0]
    most = dense.sort_values("seconds_per_video").iloc[0]
    half = stock[(stock["cores"] == 1) & (stock["policy.tau"] == HALF)].iloc[0]
    seconds, joules = "seconds_per_video", "energy_per_video_j"
    least = large.groupby("policy.tau")[joules].idxmin()
    cheapest_cores = sorted(large.loc[least, "cores"].unique())
    answer = f"""\
On a stock ZCU102, tau has a large effect and the number of cores a small one. Tau
{half["policy.tau"]:g} (eligible replay {100 * half["replay_eligible"]:.0f} %) saves
{_less(one, half, seconds):.0f} % of the time and {_less(one, half, joules):.0f} % of the energy,
and loses {half["quality_loss"]:.3f} nats per token on eight clips. {most["cores"]:.0f} cores
instead of one save {_less(one, most, seconds):.1f} % of the time ({one[seconds]:.0f} to
{most[seconds]:.0f} s a video) and cost {-_less(one, most, joules):.0f} % more energy. With 16 GB
and four videos at a time, {_either(cheapest_cores)} cores of 256 MACs per cycle take the least
energy at every tau; other numbers of cores save at most {_behind(large, cheapest_cores):.1f} %
of the time. {wider()}"""
    return {"answer": answer, **{f"front of {study}": _table(frame, study) for study in BOARDS}}


def _less(before: "pd.Series[Any]", after: "pd.Series[Any]", column: str) -> float:
    """Saved, in %."""
    return float(100 * (1 - after[column] / before[column]))


def _either(cores: list[float]) -> str:
    return " or ".join(f"{number:.0f}" for number in cores)


def _behind(large: pd.DataFrame, cores: list[float]) -> float:
    """Most, over thresholds, that some cores take longer than the fastest, in %."""
    fastest = large.groupby("policy.tau")["seconds_per_video"].min()
    own = large[large["cores"].isin(cores)].groupby("policy.tau")["seconds_per_video"].min()
    return float(100 * (own / fastest - 1).max())


def _table(frame: pd.DataFrame, study: str) -> str:
    """A row per threshold, a column per number of cores with the cheaper mapping of it."""
    shown = cheapest(frame, study)
    on_front = {_key(row) for _, row in front(frame, study).iterrows()}
    rows = []
    for tau, part in sorted(shown.groupby("policy.tau"), reverse=True):
        first = part.iloc[0]
        cells = [
            f"{'**' if _key(row) in on_front else ''}{row['seconds_per_video']:.1f} s, "
            f"{row['energy_per_video_j']:.0f} J{'**' if _key(row) in on_front else ''}"
            for _, row in part.iterrows()
        ]
        quality = f"{first['quality_loss']:.3f}"
        name = "dense" if tau == DENSE else f"{tau:g}"
        rows.append([name, f"{100 * first['replay_eligible']:.1f}", quality, *cells])
    cores = [_cores(number) for number in sorted(shown["cores"].unique())]
    return markdown(["tau", "replay %", "nats lost", *cores], rows, texts=0)


def cheapest(frame: pd.DataFrame, study: str) -> pd.DataFrame:
    """The points of a board that have a quality, the cheaper mapping of each."""
    shown = frame[(frame["study"] == study) & (frame["status"] == "ok")]
    shown = shown[shown["quality_loss"].notna()]
    best = shown.groupby(["policy.tau", "cores"])["energy_per_video_j"].idxmin()
    return shown.loc[best].sort_values(["policy.tau", "cores"])


def _key(row: "pd.Series[Any]") -> tuple[float, float, str]:
    return row["cores"], row["policy.tau"], row["machine.mapping"]


def _cores(number: float) -> str:
    return f"{number:.0f} core{'s' if number > 1 else ''}"


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Energy over latency of both boards, a colour for what quality loses."""
    frame = complete(frame)
    colours = ScalarMappable(Normalize(0, frame["quality_loss"].max()), "viridis_r")
    title = "Cores x tau on the ZCU102: filled: on the Pareto front of time, energy and quality"
    with drawing(path, 9.5, 4.6, title) as figure:
        for axes, (study, name) in zip(figure.subplots(1, 2), BOARDS.items(), strict=True):
            _draw_board(axes, frame, study, colours)
            axes.set_title(name)
        figure.colorbar(colours, ax=figure.axes, label="quality lost (nats per token)")


def _draw_board(axes: Axes, frame: pd.DataFrame, study: str, colours: ScalarMappable) -> None:
    shown = cheapest(frame, study)
    on_front = {_key(row) for _, row in front(frame, study).iterrows()}
    for tau, best in shown.groupby("policy.tau"):
        colour = colours.to_rgba(best["quality_loss"].iloc[0])
        x, y = best["seconds_per_video"], best["energy_per_video_j"]
        axes.plot(x, y, color=colour, linewidth=1)
        for _, row in best.iterrows():
            fill = colour if _key(row) in on_front else "white"
            place_of = row["seconds_per_video"], row["energy_per_video_j"]
            look = {"color": colour, "markerfacecolor": fill, "markersize": 5}
            axes.plot(*place_of, MARKERS[int(row["cores"])], **look)
        label = "dense" if tau == DENSE else f"tau {tau:g}"
        place = {"textcoords": "offset points", "va": "center", "fontsize": 7.5}
        axes.annotate(label, (x.iloc[0], y.iloc[0]), (9, 0), **place)
    for cores in sorted(shown["cores"].unique()):
        axes.plot([], [], MARKERS[int(cores)], color=plots.GREY, label=_cores(cores))
    axes.set(xlabel="seconds per video", ylabel="joules per video")
    axes.set(xscale="log", yscale="log", xlim=(None, shown["seconds_per_video"].max() * 1.17))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(
            lambda value, _: f"{value:,.0f}" if str(value)[0] in "1235" else ""
        )
        axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(True, which="both")
    axes.legend(loc="upper left", fontsize=8)
