"""Longer videos and larger frames: latency, memory, and what replay and windows bring."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from carsim.base.yaml_file import read_mapping
from carsim.cost.capacity import capacity
from carsim.design import Design, load_design, override
from carsim.report.figures.policy_looks import policy_look
from carsim.workload.geometry import Video
from studies.drawing import drawing, legend_below, with_misfits
from studies.table import markdown

METRICS = [
    "latency_s",
    "seconds_per_video",
    "ms_per_token",
    "attention_s",
    "mlp_s",
    "memory_used_gb",
    "replay_eligible",
    "decisions",
]
STUDY = Path(__file__).with_name("study.yaml")
LENGTHS = (8, 16, 32, 64)
NAMES = {"dense": "dense", "FastCar": "replay", "sparse": "window 256", "both": "both"}
POLICIES = tuple(NAMES)
COLOURS = {
    "dense": policy_look("dense, static").colour,
    "FastCar": policy_look("FastCar + DRS").colour,
    "sparse": policy_look("sparse attention, static").colour,
    "both": policy_look("FastCar + DRS + sparse attention").colour,
}
"""Policy -> colour of its lines."""

MACHINES = {"zcu102_16gb, 1 video": ("-", "o"), "zcu102_16gb, 4 videos": ("--", "s")}
"""Machine -> dash of its lines, and marker."""
PROMPT = 62
MOST_FRAMES = 512


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    at = _longer(frame)
    one, four = MACHINES

    def gain(machine: str, policy: str, frames: int) -> float:
        dense = at.loc[(machine, "dense", frames), "latency_s"]
        return float(dense / at.loc[(machine, policy, frames), "latency_s"])

    def growth(machine: str) -> float:
        latency = at["latency_s"]
        return float(latency[(machine, "dense", 64)] / latency[(machine, "dense", 8)])

    def pair(machine: str, policy: str) -> str:
        return f"{gain(machine, policy, 8):.2f}x to {gain(machine, policy, 64):.2f}x"

    answer = f"""\
From 8 to 64 frames, dense decoding takes {growth(one):.0f} times as long with one video on a
ZCU102 with 16 GB, and {growth(four):.0f} times as long with four, because attention grows with
the square of the length. FastCar's gain goes from {pair(one, "FastCar")}. The gain of a window
of 256 tokens goes from {pair(one, "sparse")}, and that of both from {pair(one, "both")} (with
four videos from {pair(four, "both")}). The memory holds one dense video of {_most_frames(one)}
frames, or four of {_most_frames(four)}; with a window it holds any length."""
    rows = []
    for machine in MACHINES:
        for frames in LENGTHS:
            dense, both = (at.loc[(machine, policy, frames)] for policy in ("dense", "both"))
            seconds = [f"{dense[name]:.0f}" for name in ("seconds_per_video", "ms_per_token")]
            gains = [f"{gain(machine, policy, frames):.2f}" for policy in POLICIES[1:]]
            held = [f"{row['memory_used_gb']:.1f}{_mark(row)}" for row in (dense, both)]
            rows.append([machine, str(frames), *seconds, *gains, *held])
    header = ["machine", "frames", "dense s a video", "ms a token"]
    header += ["FastCar", "window 256", "both", "GB dense", "GB window 256"]
    return {"answer": answer, "frames": markdown(header, rows)}


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Time of a step, memory and gains over the number of frames."""
    at = _longer(frame)
    title = "Longer videos: replay's gain fades, a window's grows, and together they gain most"
    with drawing(path, 11, 4.2, title) as figure:
        time, memory, gains = figure.subplots(1, 3)
        _draw_time(time, at)
        _draw_memory(memory, at)
        _draw_gains(gains, at)
        legend_below(figure, gains, 4)


# -------------------------------------------------------------------- private


def _longer(frame: pd.DataFrame) -> pd.DataFrame:
    own = frame[frame["study"] == "study"]
    own = own.assign(frames=own["video.frames"].astype(int))
    return own.set_index(["machine", "policy", "frames"]).sort_index()


def _mark(row: "pd.Series[float]") -> str:
    return "" if row["status"] == "ok" else " (too much)"


def _design(machine: str) -> Design:
    """The machine as the study describes it."""
    raw = read_mapping(STUDY)
    fields = dict(raw["axes"]["machine"]["choice"][machine])
    return override(load_design(fields.pop("design", raw["design"])), fields)


def _most_frames(machine: str) -> int:
    """Frames of 256 tokens that the memories hold under dense attention."""
    design = _design(machine)

    def fits(frames: int) -> bool:
        return all(use.free_bytes >= 0 for use in capacity(design, Video(frames, 256, PROMPT)))

    return max(frames for frames in range(1, MOST_FRAMES) if fits(frames))


def _over_frames(at: pd.DataFrame, machine: str, policy: str) -> pd.DataFrame:
    return at.loc[machine].loc[policy].sort_index()


def _draw_time(axes: Axes, at: pd.DataFrame) -> None:
    for machine, (line, marker) in MACHINES.items():
        for policy in POLICIES:
            own = _over_frames(at, machine, policy)
            look = f"{line}{marker}"
            axes.plot(own.index, own["ms_per_token"], look, color=COLOURS[policy])
    _frames(axes)
    axes.set(yscale="log", title="time of a step of the batch (ms)")
    axes.set_yticks([200, 300, 500, 1000], ["200", "300", "500", "1,000"])
    axes.set_yticks([], minor=True)


def _draw_memory(axes: Axes, at: pd.DataFrame) -> None:
    colour = COLOURS["dense"]
    for machine, (line, marker) in MACHINES.items():
        own = _over_frames(at, machine, "dense")
        axes.plot(own.index, own["memory_used_gb"], line, color=colour, linewidth=1)
        with_misfits(axes, own.reset_index(), "frames", "memory_used_gb", marker, colour)
    _frames(axes)
    axes.set(yscale="log", title="memory needed, dense (GB); hollow: does not fit")
    axes.set_yticks([4, 8, 16, 32, 64], ["4", "8", "16", "32", "64"])
    axes.set_yticks([], minor=True)


def _draw_gains(axes: Axes, at: pd.DataFrame) -> None:
    for machine, (line, marker) in MACHINES.items():
        dense = _over_frames(at, machine, "dense")["latency_s"]
        for policy in POLICIES:
            own = dense / _over_frames(at, machine, policy)["latency_s"]
            label = f"{machine.removeprefix('zcu102_16gb, ')}: {NAMES[policy]}"
            axes.plot(own.index, own, f"{line}{marker}", color=COLOURS[policy], label=label)
    _frames(axes)
    axes.set(title="speed-up over dense decoding", ylim=(0.9, None))


def _frames(axes: Axes) -> None:
    axes.set(xscale="log", xlabel="frames")
    axes.set_xticks(LENGTHS, [str(frames) for frames in LENGTHS])
    axes.set_xticks([], minor=True)
    axes.grid(True)
