"""Draw how the worth of MLPs and of their replay changes with training, and quote the table.

python -m studies.proxy.figure
"""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from carsim.report.figures import style as plots
from studies.table import markdown

HERE = Path(__file__).parent
COLOURS = (plots.BLUE, plots.ORANGE, plots.GREEN, plots.VERMILION, plots.PURPLE, plots.BLACK)
LINES = (("zero", "-", "nothing"), ("half", "--", "half"), ("replay", ":", "cached output"))


def draw(left: Axes, right: Axes, table: pd.DataFrame) -> None:
    """Worth, and three ways to replace half of the outputs, over training steps."""
    for colour, (name, part) in zip(COLOURS, table.groupby("recipe", sort=False), strict=False):
        left.plot(part["step"], part["worth"], "o-", color=colour, label=name, markersize=3)
        for column, style, label in LINES:
            right.plot(part["step"], part[f"random_{column}"], style, color=colour, label=label)
    left.axhline(0.5, color=plots.GREY, linewidth=0.8, linestyle=":")
    left.set(title="MLPs of all layers but the first", ylabel="worth, nats per token")
    right.set(title="half of the places, drawn at random", ylabel="loss over dense, nats per token")
    for axes in (left, right):
        axes.axhline(0, color=plots.GREY, linewidth=0.8)
        axes.set(xlabel="training step")
    left.legend(loc="lower right")
    handles, labels = right.get_legend_handles_labels()
    right.legend(handles[: len(LINES)], [f"{each} added" for each in labels[: len(LINES)]])


def curve(table: pd.DataFrame) -> str:
    """The table of the README: a row for each checkpoint."""
    header = [
        "recipe", "step", "loss", "MLPs' worth", "nothing", "half", "cached",
        "TAS: nothing", "TAS: cached", "equal shares: nothing", "equal shares: cached",
        "nothing less cached", "permuted less TAS", "cosine, least", "change at age 1",
    ]  # fmt: skip
    rows = []
    for _, row in table.iterrows():
        least = min(map(float, str(row["cosines"]).split()))
        numbers = [
            *(row[name] for name in ("dense", "worth", "random_zero", "random_half")),
            *(row[name] for name in ("random_replay", "tas_zero", "tas_replay")),
            *(row[name] for name in ("even_zero", "even_replay")),
        ]
        spans = [
            f"{row[name]:+.3f} [{row[f'{name}_low']:+.3f}, {row[f'{name}_high']:+.3f}]"
            for name in ("zero_less_replay", "permuted_less_tas")
        ]
        shown = ["" if pd.isna(number) else f"{number:.3f}" for number in numbers]
        ends = [f"{least:.2f}", f"{row['error_age_1']:.2f}"]
        rows.append([row["recipe"], f"{row['step']}", *shown, *spans, *ends])
    return markdown(header, rows)


def quote(readme: str, table: pd.DataFrame) -> str:
    """The README with its table replaced."""
    head, start, rest = readme.partition("<!-- curve -->\n")
    _, end, tail = rest.partition("<!-- /curve -->")
    return f"{head}{start}{curve(table)}\n{end}{tail}"


def main() -> None:
    """Draw ``checkpoints.csv`` and write it into the README."""
    table = pd.read_csv(HERE / "checkpoints.csv")
    readme = HERE / "README.md"
    readme.write_text(quote(readme.read_text(encoding="utf-8"), table), encoding="utf-8")
    with plots.style():
        figure = plots.new_figure(10, 3.8, "What training does to the worth of MLPs", misfit=False)
        draw(*figure.subplots(1, 2), table)
        figure.savefig(HERE / "premise.png", metadata={"Software": None})


if __name__ == "__main__":
    main()
