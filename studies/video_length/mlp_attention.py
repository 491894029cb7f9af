"""Time of the MLP over that of attention, as the context grows."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from carsim.report.figures import style as plots
from studies.table import markdown

METRICS = [
    "latency_s",
    "qkv_s",
    "attention_s",
    "output_s",
    "mlp_s",
    "limit_attention",
    "limit_mlp",
]
FRAMES = (8, 16, 32)
TOKENS_PER_FRAME = 256
PAPER = 5.0
"""FastCar, figure 1: MLP latency over attention latency, at 2k to 8k tokens."""

COLOURS = (
    plots.BLUE,
    plots.SKY,
    plots.PURPLE,
    plots.VERMILION,
    plots.ORANGE,
    plots.GREEN,
)
MARKERS = "os^D>*"


def ratios(frame: pd.DataFrame) -> pd.DataFrame:
    """By machine and frames: MLP over attention.

    Columns: ``last`` and ``last_block`` of the last frame of the video, over attention itself and
    over attention with its four projections; ``whole`` and ``whole_block`` of the whole video.
    """
    rows = []
    for machine, own in frame.groupby("machine", sort=False):
        by_frames = own.set_index("video.frames")
        for frames in FRAMES:
            whole = by_frames.loc[frames]
            last = {
                name: whole[name] - by_frames.loc[frames - 1, name]
                for name in ("qkv_s", "attention_s", "output_s", "mlp_s")
            }
            rows.append(
                {
                    "machine": machine,
                    "frames": frames,
                    "last": _over_attention(last),
                    "last_block": _over_block(last),
                    "whole": _over_attention(whole),
                    "whole_block": _over_block(whole),
                    "limits": f"{whole['limit_mlp']}, {whole['limit_attention']}",
                    "status": whole["status"],
                }
            )
    return pd.DataFrame(rows)


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    table = ratios(frame)
    at = table.set_index(["machine", "frames"])
    compute, memory = "u280_compute_bound, 16 rows", "zcu102, 2 rows"
    batch = "zcu102_16gb, 8 rows"

    def three(machine: str, column: str) -> str:
        values = [f"{at.loc[(machine, frames), column]:.1f}" for frames in FRAMES]
        return f"{values[0]}, {values[1]} and {values[2]}"

    answer = (
        "At 2k, 4k and 8k tokens the MLP takes "
        f"{three(compute, 'last')} times as long as attention where compute is the limit "
        f"({compute}), {three(memory, 'last')} times where memory is ({memory}) and "
        f"{three(batch, 'last')} times where eight rows share the weights ({batch}): FastCar's "
        "figure 1, about 5 at all three, is met near 3k tokens by machines bound by compute, but "
        "by none over the whole range; with its projections counted as attention, it is never "
        f"above {table['whole_block'].max():.2f}."
    )
    rows = [
        [
            str(row["machine"]),
            str(row["limits"]),
            f"{row['frames'] * TOKENS_PER_FRAME:,}",
            f"{row['last']:.2f}",
            f"{row['whole']:.2f}",
            f"{row['last_block']:.2f}",
            f"{row['whole_block']:.2f}",
            "yes" if row["status"] == "ok" else "no",
        ]
        for _, row in table.iterrows()
    ]
    header = [
        "machine",
        "limit of MLP, attention",
        "tokens",
        "last frame",
        "whole video",
        "last frame, with projections",
        "whole video, with projections",
        "fits",
    ]
    return {"answer": answer, "contexts": markdown(header, rows, texts=2)}


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Ratio over tokens, attention alone and with its projections."""
    table = ratios(frame)
    with plots.style():
        figure = plots.new_figure(
            9.5,
            4.3,
            "The MLP outlasts attention fivefold at one length at most, not from 2k to 8k tokens",
            misfit=False,
        )
        left, right = figure.subplots(1, 2, sharey=True)
        _draw(left, table, "last", "attention over the KV cache alone")
        _draw(right, table, "last_block", "attention with Q, K, V and output projections")
        left.set_ylabel("time of MLP / time of attention, in the last frame")
        figure.legend(*left.get_legend_handles_labels(), loc="outside right center")
        figure.savefig(path, dpi=110, metadata={"Software": None})


# -------------------------------------------------------------------- private


def _over_attention(seconds: "pd.Series[float] | dict[str, float]") -> float:
    return float(seconds["mlp_s"] / seconds["attention_s"])


def _over_block(seconds: "pd.Series[float] | dict[str, float]") -> float:
    block = seconds["qkv_s"] + seconds["attention_s"] + seconds["output_s"]
    return float(seconds["mlp_s"] / block)


def _draw(axes: Axes, table: pd.DataFrame, column: str, title: str) -> None:
    for (machine, own), colour, marker in zip(
        table.groupby("machine", sort=False), COLOURS, MARKERS, strict=True
    ):
        tokens = own["frames"] * TOKENS_PER_FRAME
        axes.plot(tokens, own[column], marker=marker, color=colour, label=str(machine))
    axes.plot(
        [2048, 8192],
        [PAPER, PAPER],
        color=plots.GREY,
        linestyle="--",
        linewidth=2,
        label="FastCar, figure 1: about 5",
    )
    axes.set(xscale="log", yscale="log", title=title, xlabel="visual tokens")
    axes.set_xticks([2048, 4096, 8192], ["2k", "4k", "8k"])
    axes.set_xticks([], minor=True)
    axes.set_yticks([0.1, 0.2, 0.5, 1, 2, 5, 10], ["0.1", "0.2", "0.5", "1", "2", "5", "10"])
    axes.set_yticks([], minor=True)
    axes.grid(True)
