"""Which form of the score foretells alike MLP outputs, and does FastCar's bound order them?

    python -m studies.score.run

Eight clips of 8 frames are decoded densely with their true codes. Writes ``forms.csv`` and
``bound.csv`` (a row for each layer, and one for all that may replay), and ``score.png``.

The bound tested is that of FastCar's theorem 4.7. The paper's own text was not at hand, and those
who report the theorem print it in two forms. For a token j and its predecessor j- one frame before:

    outside:  |MLP_j - MLP_j-|  <=  C (|X_j - X_j-| + sqrt(1 - s) + gamma M)
    inside:   |MLP_j - MLP_j-|  <=  C (|X_j - X_j-| + sqrt(1 - s + gamma M))

with X the input of the layer and s the score of query and key of length one, here the mean over
heads of their cosine with both rotated. gamma M is one constant for all places, and not known.
Outside the root it orders nothing; inside it does, so that form is tried with each constant of
``INSIDE``. The first step of the proof says the same of the outputs of attention, without X.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.optimize import nnls

from carsim.report.figures import style as plots
from studies.decisions.content import CALIBRATING, FIRST_LAYER, rows_of
from studies.decisions.ranks import auc, spearman
from studies.decisions.record import Archive, Array, Observed

HERE = Path(__file__).parent
INSIDE = (0.01, 0.1, 1.0, 10.0)
"""Constants tried for gamma M inside the root. 1 - s lies between 0 and 2."""

ALL = -1
"""Stands for all layers that may replay, ranked together as one threshold does."""


def layers_of(seen: Observed) -> dict[int, slice]:
    """Each layer, and those that may replay together."""
    n_layers = seen.paper.shape[1]
    single = {layer: slice(layer, layer + 1) for layer in range(n_layers)}
    return single | {ALL: slice(FIRST_LAYER, None)}


def compare_forms(seen: Observed) -> pd.DataFrame:
    """How well both forms of the score order places by the cosine of their MLP outputs.

    The AUC is the chance that a place whose cosine is above the median scores above one below.
    """
    rows = []
    for layer, part in layers_of(seen).items():
        likeness = seen.mlp_cosine[:, part]
        alike = likeness > np.median(likeness)
        row: dict[str, Any] = {"layer": layer}
        for form in ("released", "paper"):
            scores = getattr(seen, form)[:, part]
            row[f"rank_corr_{form}"] = spearman(scores, likeness)
            row[f"auc_{form}"] = auc(scores, alike)
            row[f"mean_{form}"] = scores.mean()
            row[f"std_{form}"] = scores.std()
        rows.append(row)
    return pd.DataFrame(rows).set_index("layer")


def score_term(seen: Observed, inside: float = 0.0) -> Array:
    """sqrt(1 - s + gamma M), float32[R, L, E].

    Args:
        seen: What was decoded.
        inside: gamma M.
    """
    term: Array = np.sqrt(np.maximum(0, 1 - seen.cosine_paper) + np.float32(inside))
    return term


def check_bound(seen: Observed, fitted: slice, tried: slice) -> pd.DataFrame:
    """How well the bound and its parts order the change of the MLP output.

    ``gain`` is what the term of the score adds to the rank correlation when both terms are weighted
    by least squares (weights of at least 0, and a constant for gamma M) on rows ``fitted`` and
    tried on rows ``tried``; ``gain_inside`` the most that it adds in the form with gamma M inside
    the root; ``weight`` is what a standard deviation of the term of the score moves
    the fit, over what one of the input's does. ``least_c`` is the smallest C that holds everywhere,
    ``slack`` the median of bound over change with it.
    """
    term = score_term(seen)
    rows = []
    for layer, part in layers_of(seen).items():
        change, entered, scored = (
            array[:, part] for array in (seen.mlp_change, seen.input_change, term)
        )
        bound = entered + scored
        least_c = float((change / np.maximum(bound, 1e-9)).max())
        both = _fit(change, (entered, scored), fitted)
        alone = _fit(change, (entered,), fitted)
        spreads = entered[fitted].std(), scored[fitted].std()
        predicted = both[0] * entered[tried] + both[1] * scored[tried]
        with_score = spearman(predicted, change[tried])
        without = spearman(alone[0] * entered[tried], change[tried])
        inside = {constant: score_term(seen, constant)[:, part] for constant in INSIDE}
        gains = []
        for root in inside.values():
            fit = _fit(change, (entered, root), fitted)
            weighted = fit[0] * entered[tried] + fit[1] * root[tried]
            gains.append(spearman(weighted, change[tried]) - without)
        rows.append(
            {
                "layer": layer,
                "rank_corr_bound": spearman(bound, change),
                **{
                    f"rank_corr_inside_{constant:g}": spearman(entered + term, change)
                    for constant, term in inside.items()
                },
                "rank_corr_input": spearman(entered, change),
                "rank_corr_score_term": spearman(scored, change),
                "rank_corr_tas": spearman(-seen.paper[:, part], change),
                "rank_corr_mlp_input": spearman(seen.normed_change[:, part], change),
                "rank_corr_attention_step": spearman(scored, seen.attention_change[:, part]),
                "gain": with_score - without,
                "gain_inside": max(gains),
                "weight": both[1] * spreads[1] / max(both[0] * spreads[0], 1e-12),
                "least_c": least_c,
                "slack": float(np.median(least_c * bound / np.maximum(change, 1e-9))),
            }
        )
    return pd.DataFrame(rows).set_index("layer")


def _fit(change: Array, terms: tuple[Array, ...], rows: slice) -> Array:
    columns = [term[rows].ravel().astype(float) for term in terms]
    matrix = np.stack([*columns, np.ones_like(columns[0])], axis=1)
    weights: Array = nnls(matrix, change[rows].ravel().astype(float))[0]
    return weights


def draw_forms(axes: Axes, forms: pd.DataFrame) -> None:
    """AUC of both forms by layer."""
    layers = forms.drop(index=ALL)
    for form, colour in (("released", plots.ORANGE), ("paper", plots.BLUE)):
        label = f"{form} (together {forms.loc[ALL, f'auc_{form}']:.2f})"
        axes.plot(layers[f"auc_{form}"], color=colour, label=label)
    axes.axhline(0.5, color=plots.GREY, linewidth=0.8, linestyle=":")
    axes.axvspan(-0.5, FIRST_LAYER - 0.5, color=plots.LIGHT_GREY, alpha=0.5)
    axes.set(
        xlabel="layer (grey: never replays)",
        ylabel="AUC, alike against unalike MLP outputs",
        ylim=(0, 1),
        title="which form of the score",
    )
    axes.legend(loc="lower right")


def draw_bound(axes: Axes, bound: pd.DataFrame) -> None:
    """Rank correlation of the bound and its parts by layer."""
    layers = bound.drop(index=ALL)
    for column, colour, style, label in (
        ("rank_corr_mlp_input", plots.GREEN, "-", "change of the MLP's input"),
        ("rank_corr_input", plots.SKY, "-", "the bound's change of the layer's input"),
        ("rank_corr_bound", plots.BLACK, ":", "the bound"),
        ("rank_corr_score_term", plots.VERMILION, "-", "the bound's term of the score"),
    ):
        axes.plot(layers[column], style, color=colour, label=label)
    axes.axhline(0, color=plots.GREY, linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="layer",
        ylabel="rank correlation",
        ylim=(-1, 1),
        title="with the change of the MLP's output",
    )
    axes.legend(loc="lower right")


def main() -> None:
    """Write tables and figure."""
    rows = rows_of(CALIBRATING, blank=False)
    seen = Archive().observed(rows)
    forms = compare_forms(seen)
    bound = check_bound(seen, slice(4, None), slice(4))
    forms.round(4).to_csv(HERE / "forms.csv")
    bound.round(4).to_csv(HERE / "bound.csv")
    with plots.style():
        figure = plots.new_figure(
            10, 3.8, "What the temporal attention score foretells", misfit=False
        )
        left, right = figure.subplots(1, 2)
        draw_forms(left, forms)
        draw_bound(right, bound)
        figure.savefig(HERE / "score.png", metadata={"Software": None})
    for name, table in (("forms", forms), ("bound", bound)):
        print(f"{name}, all layers that may replay together:")
        print(table.loc[ALL].round(3).to_string())
        replaying = table.drop(index=ALL).loc[FIRST_LAYER:]
        print(f"{name}, by layer from {FIRST_LAYER} on:")
        print(replaying.agg(["mean", "min", "max"]).T.round(3).to_string(), end="\n\n")


if __name__ == "__main__":
    main()
