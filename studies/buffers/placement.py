"""Which memory should hold weights, KV cache, replay cache and head."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from carsim.report.figures import style as plots
from studies.drawing import drawing

METRICS = [
    "latency_s",
    "seconds_per_video",
    "ms_per_token",
    "energy_per_video_j",
    "qkv_s",
    "attention_s",
    "mlp_s",
    "head_s",
    "limit_mlp",
    "reason",
]
CONTENTS = {"weights": "weights", "kv": "KV", "replay": "replay cache", "head": "head"}
FIRST = {"U280": "hbm", "ZCU102": "ps_ddr", "ZCU104": "ps_ddr", "U55C": "hbm"}
COLOURS = {
    "U280, 4.25-bit KV": plots.BLUE,
    "U280, 8-bit KV": plots.ORANGE,
    "U55C, 4.25-bit KV": plots.SKY,
    "U55C, 8-bit KV": plots.YELLOW,
}


def placements(frame: pd.DataFrame) -> pd.DataFrame:
    """The points of all study files with columns ``case`` (board and options) and ``moved``.

    ``moved`` names what does not lie in the board's first memory: HBM, or that of the PS.
    """
    table = frame.copy()
    table["board_name"] = [_board(row) for _, row in table.iterrows()]
    table["case"] = [_case(row) for _, row in table.iterrows()]
    table["moved"] = [_moved(row) for _, row in table.iterrows()]
    return table


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    table = placements(frame)
    hbm = _by_moved(table, "U280, 4.25-bit KV")
    base = hbm["replay cache"]

    def slower(what: str) -> str:
        return f"{hbm[what] / base:.2f}x"

    deep = _by_moved(table, "U280, 8-bit KV")
    u55c = _by_moved(table, "U55C, 8-bit KV")["nothing"]
    without, with_head = (_by_moved(table, f"ZCU102, {end}") for end in ("no head", "head"))
    zcu104 = _by_moved(table, "ZCU104, head").values()
    best = min(deep, key=lambda moved: deep[moved])
    answer = f"""\
Put data that is read at every step into the fast memory, the largest first; the replay cache may
lie in any memory. On a U280 the replay cache in DDR4 costs nothing. With the KV cache in DDR4 a
video takes {slower("KV, replay cache")} as long, with the head {slower("replay cache, head")},
with the weights {slower("weights, replay cache")}. An 8-bit KV cache does not fit HBM next to
the weights. Then it is best to move {best.replace(", ", " and ")} to DDR4: a video takes
{deep[best]:.1f} s, and {u55c:.1f} s on a U55C, whose HBM holds everything. On a stock ZCU102 the
head fits only the PL memory, and a video takes {min(with_head.values()):.0f} s instead of
{min(without.values()):.0f} s without a head. On a ZCU104 with its socket filled, weights fit
only the PL memory. Both memories are about as fast, so the place of the rest changes
{min(zcu104):.0f} s by {max(zcu104) - min(zcu104):.2f} s. Two memories do not add up, because
phases run one after another."""
    return {"answer": answer}


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Seconds of a video by what lies in the second memory; of Zynq boards best and worst."""
    table = placements(frame)
    cards = [
        (f"{case}: {row['moved']}", row["seconds_per_video"], COLOURS[case])
        for case in _cases(table)
        if case in COLOURS
        for _, row in _fitting(table, case).iterrows()
        if "replay" in row["moved"] or row["moved"] in ("nothing", "everything")
    ]
    zynq = [
        (f"{case}: {row['moved']}", row["seconds_per_video"], colour)
        for case, colour in zip(
            (case for case in _cases(table) if case not in COLOURS),
            (plots.GREEN, plots.PURPLE, plots.GREEN, plots.PURPLE),
            strict=True,
        )
        for _, row in _fitting(table, case).iloc[[0, -1]].iterrows()
    ]
    title = "What lies in the second memory, and what that costs: the replay cache alone is free"
    with drawing(path, 11.5, 4.2, title) as figure:
        left, right = figure.subplots(1, 2)
        _draw_bars(left, cards, "Alveo cards: what lies in DDR4 instead of HBM")
        _draw_bars(right, zynq, "Zynq boards: what lies in PL memory")


# -------------------------------------------------------------------- private


def _board(row: "pd.Series[str]") -> str:
    if row["study"] == "placement":
        return str(row["board"]).upper()
    return {"placement_u280": "U280", "placement_u55c": "U55C"}[row["study"]]


def _case(row: "pd.Series[str]") -> str:
    if row["study"] == "placement":
        head = "head" if str(row["machine.include_head"]) == "True" else "no head"
        return f"{row['board_name']}, {head}"
    return f"{row['board_name']}, {str(row['kv']).replace(' bit', '-bit')} KV"


def _moved(row: "pd.Series[str]") -> str:
    first = FIRST[row["board_name"]]
    kept = ("weights", "kv", "replay") if row["case"].endswith("no head") else tuple(CONTENTS)
    moved = [CONTENTS[what] for what in kept if row[f"machine.placement.{what}"] != first]
    if row["board_name"] == "U55C" or not moved:
        return "nothing"
    return "everything" if len(moved) == len(kept) else ", ".join(moved)


def _cases(table: pd.DataFrame) -> list[str]:
    order = list(dict.fromkeys(table["case"]))
    return sorted(order, key=lambda case: (not case.startswith("U"), order.index(case)))


def _fitting(table: pd.DataFrame, case: str) -> pd.DataFrame:
    own = table[(table["case"] == case) & (table["status"] == "ok")]
    return own.sort_values("seconds_per_video")


def _by_moved(table: pd.DataFrame, case: str) -> dict[str, float]:
    own = _fitting(table, case)
    return dict(zip(own["moved"], own["seconds_per_video"].astype(float), strict=True))


def _draw_bars(axes: Axes, bars: list[tuple[str, float, str]], title: str) -> None:
    labels, seconds, colours = zip(*bars, strict=True)
    places = range(len(bars))
    axes.barh(places, seconds, color=colours)
    for place, value in zip(places, seconds, strict=True):
        axes.text(value, place, f" {value:.1f}", va="center")
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.set(title=title, xlabel="seconds per video", xlim=(0, 1.12 * max(seconds)))
