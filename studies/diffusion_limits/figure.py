"""What limits attention of a video diffusion transformer, over query tile and softmax rate."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from carsim.report.figures import style as plots
from studies.drawing import drawing
from studies.table import markdown

METRICS = ("latency_s", "attention_s", "mlp_s", "limit_attention", "limit_mlp", "reason")

TILE = "machine.query_tile"
RATE = "machine.vector.exponentials_per_cycle"
BOARDS = {
    "study": "ZCU102, 2 cores of 32 x 32 MACs",
    "study_u280": "U280, 6 cores of 32 x 32 MACs",
}
COLOURS = {
    "products": plots.GREEN,
    "exponentials": plots.SKY,
    "bytes": plots.ORANGE,
    "buffer": plots.ORANGE,
}
WORDS = {
    "products": "products",
    "exponentials": "exponentials",
    "bytes": "bytes of keys and values",
    "buffer": "bytes of keys and values",
}


def of_board(frame: pd.DataFrame, study: str) -> pd.DataFrame:
    """Points of a board."""
    return frame[frame["study"] == study]


def least_sizes(points: pd.DataFrame) -> tuple[int, int]:
    """The smallest query tile and softmax rate with which products limit attention."""
    limited = points[points["limit_attention"] == "products"]
    return int(limited[TILE].min()), int(limited[RATE].min())


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    sentences = []
    rows = []
    for study, title in BOARDS.items():
        points = of_board(frame, study)
        best = points["latency_s"].min()
        tile, rate = least_sizes(points)
        slowest = points[points[RATE] == points[RATE].max()]
        of_bytes = slowest["latency_s"].max() / best
        widest = points[points[TILE] == points[TILE].max()]
        of_scores = widest["latency_s"].max() / best
        board = title.partition(",")[0]
        memory = f"With 1 query on chip it takes {of_bytes:.1f} times as long."
        if not (points["limit_attention"].map(WORDS) == WORDS["bytes"]).any():
            memory = "Memory never limits attention there."
        queries = "any number of" if tile == 1 else f"{tile} or more"
        sentences.append(
            f"On the {board}, products limit attention with {queries} queries on chip and "
            f"{rate} or more exponentials per cycle and core. With 1 exponential per cycle, a "
            f"video takes {of_scores:.1f} times as long. {memory}"
        )
        counts = points["limit_attention"].map(WORDS).value_counts()
        share = points.loc[points["latency_s"].idxmin(), "attention_s"] / best
        limits = [str(counts.get(word, 0)) for word in dict.fromkeys(WORDS.values())]
        rows.append([title, f"{best:,.0f}", f"{100 * share:.0f} %", *limits])
    answer = "The softmax unit and the query tile limit the speed before weights do. " + " ".join(
        sentences
    )
    header = ["machine", "fastest [s]", "attention's share", *dict.fromkeys(WORDS.values())]
    return {"answer": answer, "limits": markdown(header, rows)}


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Maps of the limit of attention, with the time of a video over the fastest."""
    title = "What limits attention of Wan2.1 1.3B, and time over the fastest machine of the map"
    with drawing(path, 9.5, 4.4, title) as figure:
        axes = figure.subplots(1, 2, sharey=True)
        for panel, (study, name) in zip(axes, BOARDS.items(), strict=True):
            _draw_map(panel, of_board(frame, study))
            panel.set_title(name)
            panel.set_xlabel("exponentials per cycle and core")
        axes[0].set_ylabel("queries of a head on chip")
        handles = [
            Patch(color=COLOURS[limit], label=WORDS[limit])
            for limit in ("products", "exponentials", "bytes")
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))


def _draw_map(axes: Axes, points: pd.DataFrame) -> None:
    rates = sorted(points[RATE].unique())
    tiles = sorted(points[TILE].unique())
    best = points["latency_s"].min()
    for _, point in points.iterrows():
        x = rates.index(point[RATE])
        y = tiles.index(point[TILE])
        colour = COLOURS[point["limit_attention"]]
        axes.add_patch(Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, color=colour))
        axes.text(x, y, f"{point['latency_s'] / best:.2f}", ha="center", va="center", fontsize=8)
    axes.set(
        xlim=(-0.5, len(rates) - 0.5),
        ylim=(-0.5, len(tiles) - 0.5),
        xticks=range(len(rates)),
        xticklabels=[str(rate) for rate in rates],
        yticks=range(len(tiles)),
        yticklabels=[str(tile) for tile in tiles],
    )
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
