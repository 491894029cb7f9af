"""Latency of the same multiply-accumulators under every mapping."""

from pathlib import Path
from typing import Any

import pandas as pd

from carsim.report.figures import style as plots
from studies.drawing import drawing
from studies.table import markdown

METRICS = ("latency_s", "bound_latency_s", "energy_per_video_j", "busy", "limit_mlp", "reason")

STUDIES = {"mapping": "U280, bound by compute", "mapping_zcu102": "ZCU102 16 GB, bound by memory"}
WHOLE = "4 cores, a sequence each"
ONE = "1 core of four times the size"
SPLIT = "4 cores, every matrix split (tensor)"
HYBRID = "4 cores, remainder split (hybrid)"
PRIVATE = "the same, private weights"
SCHEDULES = ("static", "drs")


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """Answer and tables."""
    bound = _row(frame, "mapping", WHOLE)["bound_latency_s"]
    taken = {name: _least(frame, "mapping", name) for name in (HYBRID, ONE, SPLIT)}
    memory = {
        name: _least(frame, "mapping_zcu102", name) for name in (WHOLE, PRIVATE, HYBRID, SPLIT)
    }
    fastest = min(memory[name] for name in (HYBRID, SPLIT))
    ten = {name: _least(frame, "mapping", name, 10) for name in (WHOLE, HYBRID)}
    answer = f"""\
Yes. The bound of `u280_compute_bound`, {bound:.1f} s a batch, holds only for whole sequences on
its four cores. The same 2,048 multiply-accumulators take {taken[HYBRID]:.1f} s if sequences left
over are split over all cores (hybrid mapping), {taken[ONE]:.1f} s as one core of 64 x 32, and
{taken[SPLIT]:.1f} s if every matrix is split (tensor mapping). These times are
{_less(bound, taken[HYBRID]):.1f}, {_less(bound, taken[ONE]):.1f} and
{_less(bound, taken[SPLIT]):.1f} % below the bound. With ten sequences, hybrid mapping takes
{_less(ten[WHOLE], ten[HYBRID]):.0f} % less time than whole sequences. Where broadcast weights
from DDR4 are the limit, mapping saves {_less(memory[WHOLE], fastest):.1f} %, and private weights
take {memory[PRIVATE] / memory[WHOLE]:.1f} times as long."""
    return {"answer": answer} | {f"table of {study}": _table(frame, study) for study in STUDIES}


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Bars of latency, replay under the better schedule, beside the bound of whole sequences."""
    title = "Mappings of the same machine, with replay; dashed: bound of whole sequences"
    with drawing(path, 9.5, 3.6, title) as figure:
        for axes, (study, name) in zip(figure.subplots(1, 2), STUDIES.items(), strict=True):
            part = _replaying(frame, study)
            least = part.groupby("laid out", sort=False)["latency_s"].min()[::-1]
            colours = [plots.ORANGE if "1 core" in each else plots.BLUE for each in least.index]
            axes.barh(least.index, least, color=colours)
            for place, seconds in enumerate(least):
                where = {"va": "center", "ha": "right", "color": "white"}
                axes.annotate(f"{seconds:,.0f} ", (seconds, place), **where)
            bound = _row(frame, study, WHOLE)["bound_latency_s"]
            axes.axvline(bound, color=plots.VERMILION, linestyle="--")
            axes.set(xlabel="seconds a batch", title=name)
            axes.set_xlim(0, 1.15 * least.max())


# -------------------------------------------------------------------- private


def _replaying(frame: pd.DataFrame, study: str, batch: int | None = None) -> pd.DataFrame:
    part = frame[(frame["study"] == study) & frame["replay"]]
    return part[part["policy.batch"] == (batch or part["policy.batch"].max())]


def _row(frame: pd.DataFrame, study: str, name: str) -> "pd.Series[Any]":
    part = _replaying(frame, study)
    return part[part["laid out"] == name].iloc[0]


def _least(frame: pd.DataFrame, study: str, name: str, batch: int | None = None) -> float:
    part = _replaying(frame, study, batch)
    return float(part.loc[part["laid out"] == name, "latency_s"].min())


def _less(before: float, after: float) -> float:
    """Saved, in %."""
    return 100 * (1 - after / before)


def _table(frame: pd.DataFrame, study: str) -> str:
    rows = []
    own = frame[frame["study"] == study]
    for batch in sorted(own["policy.batch"].unique(), reverse=True):
        bound = _replaying(own, study, batch)
        bound = bound.loc[bound["laid out"] == WHOLE, "bound_latency_s"].iloc[0]
        part = own[own["policy.batch"] == batch]
        for name, each in part.groupby("laid out", sort=False):
            times = each[each["replay"]].set_index("policy.schedule")["latency_s"]
            best = each[each["replay"]].sort_values("latency_s").iloc[0]
            misfit = " (misfit)" if best["status"] != "ok" else ""
            rows.append(
                [
                    f"{name}{misfit}",
                    f"{batch}",
                    f"{each.loc[~each['replay'], 'latency_s'].iloc[0]:.1f}",
                    *(f"{times[schedule]:.1f}" for schedule in SCHEDULES),
                    f"{100 * (times.min() / bound - 1):+.1f}",
                    f"{best['energy_per_video_j']:,.0f}",
                    f"{100 * best['busy']:.0f}",
                ]
            )
    header = ["mapping", "batch", "dense s", "replay, static s", "replay, drs s", "to the bound %"]
    return markdown([*header, "J a video", "cores busy %"], rows)
