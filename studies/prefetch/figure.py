"""When fetching MLP weights before the decision pays."""

from pathlib import Path

import pandas as pd

from carsim.report.figures import style as plots
from studies.table import markdown

METRICS = [
    "latency_s",
    "seconds_per_video",
    "energy_per_video_j",
    "memory_gb_per_video",
    "wasted_gb_per_video",
    "memory_utilisation",
    "replay_eligible",
    "output_s",
    "mlp_s",
    "qkv_s",
    "limit_mlp",
]
ZCU, U280 = "study", "study_u280"
COLOURS = {"gated": plots.BLUE, "speculative": plots.ORANGE}
AXES = ["machine.weight_sharing", "machine.decision_at", "machine.weight_buffer_kib", "ratio"]


def gains(frame: pd.DataFrame) -> pd.DataFrame:
    """By study, sharing, place of the decision, buffer and ratio: gain over no prefetch.

    Columns: ``gated`` and ``speculative``, shares of the latency without prefetch that are saved;
    ``over_gated``, the same of speculation over gating; ``wasted``, the share of speculation's
    bytes that were fetched in vain; ``replay``.
    """
    table = frame.copy()
    # The second study keeps what the design says of these.
    table["machine.weight_sharing"] = table["machine.weight_sharing"].fillna("broadcast")
    table["machine.decision_at"] = table["machine.decision_at"].fillna("attention")
    rows = []
    for key, own in table.groupby(["study", *AXES], sort=False):
        by_prefetch = own.set_index("machine.prefetch")
        latency = by_prefetch["latency_s"]
        spent = by_prefetch.loc["speculative"]
        rows.append(
            {
                **dict(zip(["study", *AXES], key, strict=True)),
                "none_s": latency["none"],
                "gated": 1 - latency["gated"] / latency["none"],
                "speculative": 1 - latency["speculative"] / latency["none"],
                "over_gated": 1 - latency["speculative"] / latency["gated"],
                "wasted": spent["wasted_gb_per_video"] / spent["memory_gb_per_video"],
                "replay": spent["replay_eligible"],
            }
        )
    return pd.DataFrame(rows)


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    table = gains(frame)
    zcu = table[table["study"] == ZCU]
    card = table[table["study"] == U280]
    best, worst = (
        zcu.loc[zcu["over_gated"].idxmax()],
        zcu.loc[zcu["over_gated"].idxmin()],
    )
    loses = (
        f"loses up to {_percent(-worst['over_gated'])} ({_describe(worst)})"
        if worst["over_gated"] < -0.00005
        else "never loses"
    )
    answer = (
        "**Finding.** Hardly ever: of a video's latency on a ZCU102, bound by memory, prefetch of "
        f"MLP weights that waits for the decision (gated) saves {_span(zcu['gated'])}, and "
        f"speculation before it {_span(zcu['speculative'])}. Over gating, speculation gains at "
        f"most {_percent(best['over_gated'])} ({_describe(best)}) and {loses}; at most "
        f"{_percent(zcu['wasted'].max())} of all bytes are fetched in vain. On a U280 bound by "
        f"compute either saves at most {_percent(card[['gated', 'speculative']].max().max())}."
    )
    rows = [
        [
            "ZCU102" if row["study"] == ZCU else "U280",
            str(row["machine.weight_sharing"]),
            str(row["machine.decision_at"]),
            f"{row['machine.weight_buffer_kib']:.0f}",
            f"{100 * row['replay']:.0f}",
            f"{row['none_s']:.1f}",
            f"{100 * row['gated']:.2f}",
            f"{100 * row['speculative']:.2f}",
            f"{100 * row['over_gated']:+.2f}",
            f"{100 * row['wasted']:.2f}",
        ]
        for _, row in table.iterrows()
    ]
    header = [
        "board",
        "weights",
        "decision at",
        "buffer KiB",
        "replay %",
        "no prefetch s",
        "gated saves %",
        "speculative saves %",
        "speculative over gated %",
        "fetched in vain %",
    ]
    return {"answer": answer, "table": markdown(header, rows, texts=3)}


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Share of latency saved by gated and speculative prefetch, a pair of bars per case."""
    table = gains(frame)
    labels = [
        f"{'ZCU102' if row['study'] == ZCU else 'U280'}, {_describe(row)}"
        for _, row in table.iterrows()
    ]
    with plots.style():
        figure = plots.new_figure(
            9.5, 4.4, "What prefetching MLP weights saves of a video's latency", misfit=False
        )
        axes = figure.subplots()
        for offset, (prefetch, colour) in zip((-0.2, 0.2), COLOURS.items(), strict=True):
            shares = 100 * table[prefetch]
            places = [place + offset for place in range(len(table))]
            axes.barh(places, shares, 0.38, color=colour, label=prefetch)
            for place, share in zip(places, shares, strict=True):
                axes.annotate(
                    f"{share:.2f}",
                    (max(share, 0), place),
                    xytext=(3, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=7.5,
                )
        axes.set_yticks(range(len(table)), labels)
        axes.invert_yaxis()
        axes.axvline(0, color=plots.BLACK, linewidth=0.8)
        axes.set_xlabel("saved, % of the latency without prefetch")
        axes.margins(x=0.1)
        axes.legend(loc="lower right")
        figure.savefig(path, dpi=110, metadata={"Software": None})


# -------------------------------------------------------------------- private


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _span(shares: "pd.Series[float]") -> str:
    return f"{100 * shares.min():.2f} to {100 * shares.max():.2f} %"


def _describe(row: "pd.Series[str]") -> str:
    return (
        f"{row['machine.weight_sharing']} weights, decision at {row['machine.decision_at']}, "
        f"{float(row['machine.weight_buffer_kib']):.0f} KiB, {row['ratio']} replay"
    )
