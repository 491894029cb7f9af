"""Frames per second and bytes of the cache over 3,000 frames of a rollout, by what is kept."""

from pathlib import Path

import pandas as pd

from carsim.report.figures import style as plots
from carsim.report.figures.policy_looks import policy_look
from studies.drawing import drawing
from studies.table import markdown

METRICS = (
    "latency_s",
    "first_frame_s",
    "last_chunk_s",
    "kv_cache_gb",
    "memory_used_gb",
    "limit_attention",
    "reason",
)

CACHE = "cache"
CHUNKS = "model.sample.chunks"

FRAMES_OF_CHUNK = 12
"""Pixel frames of a chunk of Self-Forcing: 3 latent frames, each of 4."""

COLOURS = {
    "unbounded": policy_look("dense, static").colour,
    "merged": plots.OLIVE,
    "window and sinks": policy_look("sparse attention, static").colour,
    "rolling": plots.BLACK,
}
"""Cache -> colour of its curve, in the order of the legend."""

STYLES = {"rolling": "--"}
"""Cache -> style of its line, where it lies on another one."""


def curve(frame: pd.DataFrame, cache: str) -> pd.DataFrame:
    """Points of a cache, by length of the video."""
    points = frame[frame[CACHE] == cache].sort_values(CHUNKS)
    frames = points[CHUNKS] * FRAMES_OF_CHUNK
    rate = FRAMES_OF_CHUNK / points["last_chunk_s"]
    return points.assign(frames=frames, rate=rate, mean_rate=frames / points["latency_s"])


def frames_that_fit(points: pd.DataFrame) -> int | None:
    """Frames of the longest video whose keys and values fit; None: the longest of all does."""
    if (points["status"] == "ok").all():
        return None
    fitting = points[points["status"] == "ok"]
    misfit = points[points["status"] == "misfit"]
    # The study has both lengths on either side of the end, so that nothing is interpolated.
    assert misfit[CHUNKS].min() == fitting[CHUNKS].max() + 1
    return int(fitting["frames"].max())


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    rows = []
    last = {}
    for cache in COLOURS:
        points = curve(frame, cache)
        first = points.iloc[0]
        end = points.iloc[-1]
        last[cache] = end
        fits = frames_that_fit(points)
        rows.append(
            [
                cache,
                f"{first['rate']:.3g}",
                f"{end['rate']:.3g}",
                f"{end['mean_rate']:.3g}",
                f"{end['first_frame_s']:.2f}",
                f"{end['kv_cache_gb']:.1f}",
                "all" if fits is None else f"{fits:,}",
            ]
        )
    unbounded = curve(frame, "unbounded")
    fits = frames_that_fit(unbounded)
    assert fits is not None
    slower = unbounded["rate"].iloc[0] / last["unbounded"]["rate"]
    merged = curve(frame, "merged")
    merged_slower = merged["rate"].iloc[0] / last["merged"]["rate"]
    first_frames = int(unbounded["frames"].iloc[0])
    less_memory = last["unbounded"]["kv_cache_gb"] / last["merged"]["kv_cache_gb"]
    answer = (
        f"Only a bounded cache keeps its speed. At frame {int(last['merged']['frames']):,}, a "
        f"window with sinks makes {last['window and sinks']['rate']:.1f} frames/s, and rolling "
        f"noise levels make {last['rolling']['rate']:.1f}. There, an unbounded cache is "
        f"{slower:.0f} times slower than at frame {first_frames}, and it fills 80 GiB after "
        f"{fits:,} frames. A cache merged to 16.8 % takes {less_memory:.1f} times less memory and "
        f"fits, but it is {merged_slower:.0f} times slower than at frame {first_frames}."
    )
    header = ["cache", "frames/s at frame 84", "at frame 3,000", "mean", "first frame [s]"]
    header += ["K and V at frame 3,000 [GB]", "frames that fit"]
    return {"answer": answer, "rollout": markdown(header, rows)}


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Frames per second and gigabytes of keys and values over the frames of a rollout."""
    title = "A rollout of Self-Forcing 1.3B: what is kept decides speed and memory"
    with drawing(path, 9.5, 4.0, title) as figure:
        speed, memory = figure.subplots(1, 2)
        for cache, colour in COLOURS.items():
            points = curve(frame, cache)
            fits = points["status"] == "ok"
            for axes, column in ((speed, "rate"), (memory, "kv_cache_gb")):
                inside = points[fits]
                style = STYLES.get(cache, "-")
                axes.plot(
                    inside["frames"], inside[column], color=colour, linestyle=style, label=cache
                )
                if not fits.all():
                    # The first point beyond the memory joins the end of the curve.
                    beyond = points[points["frames"] >= inside["frames"].max()]
                    axes.plot(beyond["frames"], beyond[column], color=colour, linestyle=":")
                    axes.plot(inside["frames"].iloc[-1], inside[column].iloc[-1], "x", color=colour)
        for axes in (speed, memory):
            axes.set_xlabel("frames of the video")
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
        speed.set_ylabel("frames per second")
        memory.set_ylabel("keys and values [GB]")
        handles, labels = speed.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
