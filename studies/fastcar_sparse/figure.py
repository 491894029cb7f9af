"""What replay, sparse attention and both bring, and what they cost in quality."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from carsim.report.figures.policy_looks import policy_look
from studies.drawing import drawing, with_intervals
from studies.measured import STALE

METRICS = [
    "latency_s",
    "seconds_per_video",
    "energy_per_video_j",
    "attention_s",
    "mlp_s",
    "memory_used_gb",
    "replay_eligible",
    "limit_attention",
    "limit_mlp",
    "decisions",
]
BATCHES = {"zcu102": "1 video", "zcu102_16gb": "4 videos", "u280": "8 videos"}
DESIGNS = tuple(BATCHES)
ATTENTIONS = ("dense", "window 256", "window 16")
RATIOS = ("0 %", "20 %", "50 %", "80 %")
BOTH = policy_look("FastCar + DRS + sparse attention").colour
COLOURS = {
    "dense": policy_look("FastCar + DRS").colour,
    "window 256": BOTH,
    "window 16": BOTH,
}
"""Attention -> colour of FastCar + DRS with it; two windows differ in line and marker."""

LINES = {"dense": "-", "window 256": "-", "window 16": "--"}
MARKERS = {"dense": "o", "window 256": "d", "window 16": "s"}
WINDOWS = {"dense": 0, "window 256": 256, "window 16": 16}
LOSS = Path(__file__).with_name("windows.csv")


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    at = _indexed(frame)

    def gain(design: str, attention: str, ratio: str) -> float:
        return float(
            at.loc[(design, "dense", "0 %"), "latency_s"]
            / at.loc[(design, attention, ratio), "latency_s"]
        )

    ways = (("dense", "50 %"), ("window 256", "0 %"), ("window 256", "50 %"))
    said = [
        "{:.2f}x, {:.2f}x and {:.2f}x".format(*(gain(design, *way) for way in ways))
        + f" on the {design} ({batch})"
        for design, batch in BATCHES.items()
    ]
    answer = f"""\
Both together are fastest. Replay skips MLPs and the window skips most of the KV cache, so the
seconds that they save add up. At about 50 % replay and a window of 256 tokens, replay, the
window and both gain {"; ".join(said)}. Which of the two alone gains more depends on the batch.
{_loss_sentence(pd.read_csv(LOSS))}"""
    return {"answer": answer}


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Latency over the replay ratio by attention, and the loss of the proxy model."""
    at = _indexed(frame)
    title = "Replay spares the MLP, a window spares the KV cache: the seconds saved add up"
    with drawing(path, 13, 3.6, title) as figure:
        *machines, last = figure.subplots(1, 4)
        for axes, design in zip(machines, DESIGNS, strict=True):
            _draw_latency(axes, at, design)
        _draw_loss(last, pd.read_csv(LOSS))


# -------------------------------------------------------------------- private


def _indexed(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.set_index(["design", "attention", "ratio"])


def _draw_latency(axes: Axes, at: pd.DataFrame, design: str) -> None:
    dense = at.loc[(design, "dense", "0 %"), "latency_s"]
    for attention in ATTENTIONS:
        own = at.loc[[(design, attention, ratio) for ratio in RATIOS]]
        label = f"{attention} attention" if attention == "dense" else attention
        axes.plot(
            100 * own["replay_eligible"],
            own["latency_s"],
            LINES[attention],
            marker=MARKERS[attention],
            color=COLOURS[attention],
            label=label,
        )
    last = at.loc[(design, "window 16", "80 %")]
    axes.annotate(
        f"{dense / last['latency_s']:.2f}x",
        (100 * last["replay_eligible"], last["latency_s"]),
        xytext=(-14, -16),
        textcoords="offset points",
        ha="center",
        color=COLOURS["window 16"],
    )
    axes.set(
        title=f"{design}, {BATCHES[design]}",
        xlabel="replayed, % of eligible steps",
        ylabel="latency of a batch (s)" if design == DESIGNS[0] else "",
        xlim=(-3, 100),
        ylim=(0, 1.08 * dense),
    )
    axes.grid(True)
    if design == DESIGNS[0]:
        axes.legend(loc="lower left")


def _draw_loss(axes: Axes, loss: pd.DataFrame) -> None:
    for attention, window in WINDOWS.items():
        own = loss[loss["window"] == window]
        with_intervals(
            axes,
            100 * own["ratio"],
            own,
            "over_dense",
            marker=MARKERS[attention],
            linestyle=LINES[attention],
            color=COLOURS[attention],
            label=attention,
        )
    axes.set(xlabel="replayed, % of eligible steps", ylabel="nats per token over dense")
    axes.set(title="loss of the proxy model", xlim=(-3, 100))
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_ylim(-0.02, 3)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(True)


def _loss_sentence(loss: pd.DataFrame) -> str:
    """What each costs, at the measurement nearest to 50 % replay."""
    said = []
    for attention, window in WINDOWS.items():
        own = loss[loss["window"] == window]
        row = own.iloc[(own["ratio"] - 0.5).abs().argmin()]
        said.append(
            f"{row['over_dense']:+.3f} with {attention}"
            f"{' attention' if attention == 'dense' else ''} ({100 * row['ratio']:.0f} % replayed)"
        )
    return f"""\
Losses of the proxy model in nats per token: {", ".join(said)}. The part that replay adds
measures stale outputs, {STALE} ([proxy](../proxy/README.md))."""
