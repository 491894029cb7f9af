"""What a threshold buys and costs: replay by layer, loss against tau, one tau against many.

    python -m studies.tau.run

Eight clips of 8 frames are decoded closed-loop with their true codes; thresholds are chosen on
eight others, decoded densely. Writes ``points.csv`` (a row for each family of thresholds, level and
clip), ``layers.csv`` (replay ratio by layer), ``one_against_many.csv``, ``paper_taus.csv`` and
``tau.png``. Loss is that of the true codes; agreement is the share of steps in which dense decoding
finds the same code likeliest.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.structures import Policy, TasForm
from carsim.plots import style as plots
from studies.decisions.content import (
    CALIBRATING,
    CLIPS,
    FIRST_LAYER,
    N_FRAMES,
    ROOT,
    TRIED,
    rows_of,
)
from studies.decisions.ranks import over_clips, spearman
from studies.decisions.record import Archive, Closed, Observed
from studies.tau.thresholds import Taus, equal_shares, least_error, one_tau

HERE = Path(__file__).parent
QUALITY = ROOT / "studies/quality/quality.csv"
CAPTURED = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Shares of the decisions of layers that may replay; the study of open loops uses them, too."""

ONE = "one tau"
LEVELS = {
    ONE: (0.1, 0.3, 0.5, 0.7, 0.9, 1.0),
    "one tau, all layers": (0.5,),
    "equal shares": (0.3, 0.5, 0.7),
    "least error": (0.3, 0.5, 0.7),
    "one tau, released": (0.3, 0.5, 0.7),
}
"""Families of thresholds, and the shares wanted of each."""

PAPER_TAUS = (0.0, -0.5, -1.0, -2.0, -2.5, -4.0, -8.0)
COLOURS = dict(
    zip(
        LEVELS,
        (plots.BLACK, plots.GREY, plots.GREEN, plots.VERMILION, plots.ORANGE),
        strict=True,
    )
)


def thresholds(family: str, share: float, seen: Observed) -> tuple[Taus, TasForm]:
    """Thresholds per layer, and the form of the score that they are for.

    Args:
        family: One of :data:`LEVELS`.
        share: Of the decisions of layers that may replay.
        seen: Dense decoding of other clips.
    """
    if family == "one tau, all layers":
        # As many replays as of the others, spread over all layers.
        all_layers = share * (1 - FIRST_LAYER / seen.paper.shape[1])
        return one_tau(seen.paper, all_layers, first_layer=0), "paper"
    if family == "equal shares":
        return equal_shares(seen.paper, share), "paper"
    if family == "least error":
        return least_error(seen, share), "paper"
    if family == "one tau, released":
        return one_tau(seen.released, share), "released"
    return one_tau(seen.paper, share), "paper"


def calibrating(archive: Archive) -> Observed:
    """The clips that thresholds are chosen on."""
    return archive.observed(rows_of(CALIBRATING, blank=True)[::2])


def measure(archive: Archive, seen: Observed) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Decode all families at all levels.

    Returns:
        A row for each family, level and clip; and replay ratios of eligible steps by layer.
    """
    rows = rows_of(TRIED, blank=True, n_frames=archive.config.n_frames)[::2]
    dense = archive.closed(archive.dense, rows)
    points, layers = [], []
    for family, shares in LEVELS.items():
        for share in shares:
            taus, form = thresholds(family, share, seen)
            closed = archive.closed(Policy(taus, form), rows)
            points.append(_point(family, share, taus, closed, dense))
            by_layer = closed.replay[TOKENS_PER_FRAME:].mean(axis=(0, 2))
            layers += [
                {"family": family, "level": share, "layer": layer, "tau": tau, "ratio": ratio}
                for layer, (tau, ratio) in enumerate(zip(taus, by_layer, strict=True))
            ]
    return pd.concat(points, ignore_index=True), pd.DataFrame(layers)


def _point(family: str, share: float, taus: Taus, closed: Closed, dense: Closed) -> pd.DataFrame:
    eligible = closed.replay[TOKENS_PER_FRAME:]
    finite = sorted({tau for tau in taus if np.isfinite(tau)})
    return pd.DataFrame(
        {
            "family": family,
            "level": share,
            "tau": finite[0] if len(finite) == 1 else np.nan,
            "clip": TRIED,
            "speed": [CLIPS[clip].speed for clip in TRIED],
            "ratio_eligible": eligible.mean(axis=(0, 1)),
            "ratio_all": closed.replay.mean(axis=(0, 1)),
            "nats": closed.loss,
            "nats_dense": dense.loss,
            "agreement": closed.agreement(dense),
        }
    )


def curve(points: pd.DataFrame, family: str) -> pd.DataFrame:
    """Means over clips of a family by level, dense first; ``excess`` is loss over dense."""
    part = points[points["family"] == family]
    part = part.assign(excess=part["nats"] - part["nats_dense"])
    means = part.groupby("level")[["tau", "ratio_eligible", "ratio_all", "excess", "agreement"]]
    dense = pd.DataFrame(
        {"ratio_eligible": 0.0, "ratio_all": 0.0, "excess": 0.0, "agreement": 1.0, "tau": np.inf},
        index=[0.0],
    )
    return pd.concat([dense, means.mean()])


def knee(ratio: np.ndarray, excess: np.ndarray) -> int:
    """Index of the point that lies farthest below the chord from first to last point.

    >>> knee(np.array([0.0, 0.5, 0.8, 1.0]), np.array([0.0, 0.1, 0.3, 1.0]))
    2
    """
    chord = excess[0] + (excess[-1] - excess[0]) * (ratio - ratio[0]) / (ratio[-1] - ratio[0])
    return int(np.argmax(chord - excess))


def against_one(points: pd.DataFrame) -> pd.DataFrame:
    """Loss of other families less that of one tau at the same ratio, paired by clip.

    One tau's loss at a ratio between two of its levels is interpolated. Negative: better than one
    tau. ``half_width`` is half of the 95 % interval over clips.
    """
    by_level = points.assign(excess=points["nats"] - points["nats_dense"])
    own = by_level[by_level["family"] == ONE]
    ratios = np.concatenate([[0.0], own.groupby("level")["ratio_eligible"].mean()])
    order = np.argsort(ratios)
    excess = own.pivot(index="level", columns="clip", values="excess")  # [levels, clips]
    known = np.concatenate([np.zeros((1, excess.shape[1])), excess])[order]
    rows = []
    for (family, level), part in by_level[by_level["family"] != ONE].groupby(["family", "level"]):
        ratio = part["ratio_eligible"].mean()
        expected = [np.interp(ratio, ratios[order], column) for column in known.T]
        mean, half = over_clips(part.set_index("clip")["excess"][excess.columns] - expected)
        rows.append(
            {
                "family": family,
                "level": level,
                "ratio_eligible": ratio,
                "excess": part["excess"].mean(),
                "one_tau": float(np.mean(expected)),
                "difference": mean,
                "half_width": half,
                "within_levels": bool(ratio <= ratios.max()),
            }
        )
    return pd.DataFrame(rows)


def draw_loss(axes: Axes, points: pd.DataFrame) -> None:
    """Loss over dense against the replay ratio, every family."""
    for family, colour in COLOURS.items():
        line = curve(points, family).sort_values("ratio_eligible")
        axes.plot(line["ratio_eligible"], line["excess"], "o-", ms=3, color=colour, label=family)
    own = curve(points, ONE)
    bend = own.iloc[knee(own["ratio_eligible"].to_numpy(), own["excess"].to_numpy())]
    axes.annotate(
        f"knee: tau {bend['tau']:.2f}",
        (bend["ratio_eligible"], bend["excess"]),
        xytext=(-12, 34),
        textcoords="offset points",
        ha="right",
        arrowprops={"arrowstyle": "->", "color": plots.GREY},
    )
    axes.set(xlabel="replay ratio, eligible steps", ylabel="loss over dense, nats a token")
    axes.set_title("quality against ratio")
    axes.legend(loc="upper left")


def draw_tau(axes: Axes, points: pd.DataFrame) -> None:
    """Ratio and agreement against the threshold."""
    own = curve(points, ONE)
    own = own[np.isfinite(own["tau"])]
    axes.plot(own["tau"], own["ratio_eligible"], "o-", ms=3, color=plots.BLUE, label="replay ratio")
    axes.plot(
        own["tau"], own["agreement"], "s-", ms=3, color=plots.ORANGE, label="agrees with dense"
    )
    axes.invert_xaxis()
    axes.set(xlabel="tau (falling)", ylim=(0, 1), title="one tau")
    axes.legend(loc="center right")


def draw_layers(axes: Axes, layers: pd.DataFrame) -> None:
    """Replay ratio by layer."""
    for family, level, style in ((ONE, 0.3, ":"), (ONE, 0.5, "-"), (ONE, 0.7, "--")):
        part = layers[(layers["family"] == family) & (layers["level"] == level)]
        axes.plot(
            part["layer"], part["ratio"], style, color=COLOURS[family], label=f"level {level:.0%}"
        )
    everywhere = layers[(layers["family"] == "one tau, all layers") & (layers["level"] == 0.5)]
    axes.plot(everywhere["layer"], everywhere["ratio"], color=plots.GREY, label="50 %, all layers")
    axes.set(xlabel="layer", ylabel="replay ratio, eligible steps", title="by layer", ylim=(0, 1))
    axes.legend(loc="upper left")


def generated(table: pd.DataFrame) -> pd.DataFrame:
    """Of the measured quality of generated clips: each row alone, full attention, with replay."""
    chosen = (table["frames"] == N_FRAMES) & (table["scope"] == "row") & (table["window"] == 0)
    return table[chosen & np.isfinite(table["tau"])].sort_values("replay_eligible")


def draw_generated(axes: Axes, table: pd.DataFrame) -> None:
    """PSNR of generated clips against those of dense decoding."""
    for (sampling, part), colour in zip(
        generated(table).groupby("sampling"), (plots.BLUE, plots.ORANGE), strict=False
    ):
        axes.plot(
            part["replay_eligible"], part["psnr_db"], "o-", ms=3, color=colour, label=sampling
        )
    axes.set(xlabel="replay ratio, eligible steps", ylabel="PSNR against dense, dB")
    axes.set_title("generated clips (study of quality)")
    axes.legend(loc="upper right")


def main() -> None:
    """Write tables and figure."""
    archive = Archive()
    seen = calibrating(archive)
    points, layers = measure(archive, seen)
    points.round(4).to_csv(HERE / "points.csv", index=False)
    layers.round(4).to_csv(HERE / "layers.csv", index=False)
    compared = against_one(points)
    compared.round(4).to_csv(HERE / "one_against_many.csv", index=False)
    at_paper = pd.DataFrame(
        {
            "tau": PAPER_TAUS,
            "paper_form": [(seen.paper[:, FIRST_LAYER:] > tau).mean() for tau in PAPER_TAUS],
            "released_form": [(seen.released[:, FIRST_LAYER:] > tau).mean() for tau in PAPER_TAUS],
        }
    )
    at_paper.round(4).to_csv(HERE / "paper_taus.csv", index=False)
    quality = pd.read_csv(QUALITY) if QUALITY.exists() else None
    with plots.style():
        figure = plots.new_figure(10, 7.2, "Replay by threshold, closed loop", misfit=False)
        panels = figure.subplots(2, 2)
        draw_tau(panels[0, 0], points)
        draw_loss(panels[0, 1], points)
        draw_layers(panels[1, 0], layers)
        if quality is None:
            panels[1, 1].set_axis_off()
        else:
            draw_generated(panels[1, 1], quality)
        figure.savefig(HERE / "tau.png", metadata={"Software": None})
    print(curve(points, ONE).round(4).to_string(), end="\n\n")
    own = curve(points, ONE)
    print("knee at level", own.index[knee(own["ratio_eligible"].values, own["excess"].values)])
    print(compared.round(4).to_string(), end="\n\n")
    print(at_paper.round(3).to_string(), end="\n\n")
    part = layers[layers["layer"] >= FIRST_LAYER]
    thirds = pd.cut(part["layer"], [2, 11, 21, 31], labels=["3-11", "12-21", "22-31"])
    print(
        part.groupby(["family", "level", thirds], observed=True)["ratio"].mean().unstack().round(3)
    )
    for family in (ONE, "one tau, released"):
        mid = points[(points["family"] == family) & (points["level"] == 0.5)].set_index("clip")
        print(mid[["speed", "ratio_eligible", "nats", "nats_dense", "agreement"]])
        print("rank correlation of speed and ratio", spearman(mid["speed"], mid["ratio_eligible"]))
    if quality is not None:
        columns = ["sampling", "tau", "replay_eligible", "psnr_db", "ssim", "token_agreement"]
        losses = ["teacher_forced_nats", "teacher_forced_dense_nats"]
        print(generated(quality)[[*columns, *losses]].to_string(index=False))
    print(f"{archive.seconds:.0f} s of decoding")


if __name__ == "__main__":
    main()
