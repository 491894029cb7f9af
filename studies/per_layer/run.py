"""One threshold for all layers against one per layer, at the same replay ratio.

    python -m studies.per_layer.run

Four clips of 4 frames are decoded closed-loop with their true codes; thresholds are chosen on eight
others of 8 frames, decoded densely. Writes ``points.csv`` (a row for each family of thresholds,
level and clip), ``layers.csv`` (replay ratio by layer), ``compared.csv`` and ``per_layer.png``.
Loss is that of the true codes; agreement is the share of steps in which dense decoding finds the
same code likeliest.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.structures import Policy
from carsim.replay import Tas, TasForm
from carsim.report.figures import style as plots
from studies.decisions.content import (
    CALIBRATING,
    CLIPS,
    CLOSED_FRAMES,
    TRIED,
    rows_of,
)
from studies.decisions.ranks import over_clips
from studies.decisions.record import Archive, Closed, Observed
from studies.tau.thresholds import Taus, equal_shares, least_error, one_tau

HERE = Path(__file__).parent
ONE = "one tau"
LEVELS = {
    ONE: (0.4, 0.6),
    "equal shares": (0.5,),
    "least error": (0.5,),
}
"""Families of thresholds, and the shares wanted of each."""

COLOURS = dict(
    zip(
        LEVELS,
        (plots.BLACK, plots.GREEN, plots.VERMILION),
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
    if family == "equal shares":
        return equal_shares(seen.paper, share), "paper"
    if family == "least error":
        return least_error(seen, share), "paper"
    return one_tau(seen.paper, share), "paper"


def calibrating() -> Observed:
    """Dense decoding of the clips that thresholds are chosen on."""
    return Archive().observed(rows_of(CALIBRATING, blank=False))


def measure(archive: Archive, seen: Observed) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Decode all families at all levels.

    Returns:
        A row for each family, level and clip; and replay ratios of eligible steps by layer.
    """
    rows = rows_of(TRIED, blank=False, n_frames=archive.config.n_frames)
    dense = archive.closed(archive.dense, rows)
    points, layers = [], []
    for family, shares in LEVELS.items():
        for share in shares:
            taus, form = thresholds(family, share, seen)
            closed = archive.closed(Policy(taus, Tas(form=form)), rows)
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
    axes.set(xlabel="replay ratio, eligible steps", ylabel="loss over dense, nats a token")
    axes.set_title("quality against ratio")
    axes.legend(loc="upper left")


def main() -> None:
    """Write tables and figure."""
    archive = Archive(n_frames=CLOSED_FRAMES)
    points, layers = measure(archive, calibrating())
    points.round(4).to_csv(HERE / "points.csv", index=False)
    layers.round(4).to_csv(HERE / "layers.csv", index=False)
    compared = against_one(points)
    compared.round(4).to_csv(HERE / "compared.csv", index=False)
    with plots.style():
        figure = plots.new_figure(5.5, 3.8, "One threshold against many", misfit=False)
        draw_loss(figure.subplots(), points)
        figure.savefig(HERE / "per_layer.png", metadata={"Software": None})
    print(compared.round(4).to_string(), end="\n\n")
    for family in LEVELS:
        print(family, curve(points, family).round(4).to_string(), sep="\n", end="\n\n")
    print(f"{archive.seconds:.0f} s of decoding")


if __name__ == "__main__":
    main()
