"""What costs that products do not show add to a video, and what they leave of replay."""

from pathlib import Path

import pandas as pd

from carsim.report.figures import style as plots
from studies.table import markdown

METRICS = ("seconds_per_video", "energy_per_video_j", "limit_mlp")

STUDIES = {"study": "ZCU102 16 GB", "study_u280": "U280"}
NONE = "none of them"


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """Answer and tables."""
    small, large = (_added(frame, study) for study in STUDIES)
    host = "host 25 ms a step"
    answer = (
        f"**Finding.** Time of the host is the cost that matters: {host[5:]} adds "
        f"{small.loc[host, 'added']:.1f} % to a video on the ZCU102 with 16 GB and "
        f"{large.loc[host, 'added']:.0f} % on the U280, where a step is shorter, and replay is "
        f"then worth {large.loc[host, 'speedup']:.3f} instead of "
        f"{large.loc[NONE, 'speedup']:.3f} times there. A launch of 10,000 cycles a product adds "
        f"{small.loc['kernel of 10,000 cycles', 'added']:.1f} and "
        f"{large.loc['kernel of 10,000 cycles', 'added']:.1f} %, attention on an eighth of the "
        f"array {small.loc['attention on an eighth of the array', 'added']:.0f} and "
        f"{large.loc['attention on an eighth of the array', 'added']:.0f} %, and a broadcast over "
        f"100 registers at most {_most(frame, 'broadcast over 100 registers'):.2f} %."
    )
    tables = {f"table of {study}": _table(frame, study) for study in STUDIES}
    return {"answer": answer} | tables


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Bars of the time that each cost adds."""
    with plots.style():
        title = "Time that a cost adds to a video, with replay"
        figure = plots.new_figure(9.5, 3.8, title, misfit=False)
        for axes, (study, name) in zip(figure.subplots(1, 2), STUDIES.items(), strict=True):
            added = _added(frame, study)["added"].drop(NONE)[::-1]
            axes.barh(added.index, added, color=plots.BLUE)
            for place, percent in enumerate(added):
                axes.annotate(f" {percent:.1f}", (max(percent, 0), place), va="center")
            axes.set(xlabel="added [%]", title=name)
            axes.set_xlim(0, 1.2 * added.max())
        figure.savefig(path, dpi=110, metadata={"Software": None})


# -------------------------------------------------------------------- private


def _added(frame: pd.DataFrame, study: str) -> pd.DataFrame:
    """By cost: seconds with replay, what the cost added in %, speed-up by replay."""
    part = frame[frame["study"] == study]
    times = part.pivot_table(index="cost", columns="replay", values="seconds_per_video", sort=False)
    return pd.DataFrame(
        {
            "seconds": times[True],
            "added": 100 * (times[True] / times.loc[NONE, True] - 1),
            "speedup": times[False] / times[True],
        }
    )


def _most(frame: pd.DataFrame, cost: str) -> float:
    return max(float(_added(frame, study).loc[cost, "added"]) for study in STUDIES)


def _table(frame: pd.DataFrame, study: str) -> str:
    rows = [
        [str(cost), f"{row.seconds:.2f}", f"{row.added:+.2f}", f"{row.speedup:.3f}"]
        for cost, row in _added(frame, study).iterrows()
    ]
    return markdown(["cost", "s a video", "added %", "speed-up by replay"], rows)
