"""Do the decisions beat chance, and what does? Rules of replay at equal ratios, with intervals.

    python -m studies.chance.run

Forty held-out scenes of 8 frames, true codes fed, replays really applied. FastCar's rule (TAS in
the paper's form, one tau for all layers that may replay) is run at thresholds that were found on
other scenes. Every other rule then replays exactly as many places in the same layer of the same
frame of the same scene, and chooses them by its own measure. Chance (three seeds) draws new places
in each frame, so its cached outputs are younger than TAS's: a difference is of choice and of age.
``studies.proxy.shipped`` compares at equal ages. Rules that stand on their own thresholds
(``own``) are compared over
the whole curve.

Writes ``cells.csv`` (a row for each scene, ratio and rule), ``chance.csv`` (differences with
intervals) and ``chance.png``. What is decoded once is kept; the run may be stopped at any time.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from carsim.base.statistics import bootstrap_mean
from carsim.decisions.replay import InputChange, Tas
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.report.figures import style as plots
from studies.content import CLIPS, EXEMPT, Row, pace_of, rows_of
from studies.record import Archive, Ask, Kept
from studies.rules import (
    Chance,
    ChangeScore,
    Counted,
    Measure,
    OutputChange,
    SameCode,
    TasScore,
    counts_of,
)
from studies.thresholds import equal_shares, one_tau

HERE = Path(__file__).parent
SHARES = (0.3, 0.5, 0.8)
"""Replay ratios of eligible steps that are aimed at."""

ALONE = "TAS"
SEEDS = 3
CHANCE = "chance"
MEASURES: dict[str, Measure] = {
    **{f"{CHANCE} {seed}": Chance(seed) for seed in range(SEEDS)},
    "TAS, released": TasScore(Tas()),
    "input change": ChangeScore(),
    "oracle": OutputChange(),
}
ALSO: dict[str, Measure] = {
    "same code": SameCode(),
    "input change, 1/8 of it in 4 bit": ChangeScore(InputChange(elements=16, bits=4)),
    **{f"TAS, head {head}": TasScore(Tas(form="paper", head=head)) for head in range(4)},
}
ALSO_AT = 0.5
"""Measures, and rules of their own, that are tried at one ratio only."""

STYLES = {
    CHANCE: (plots.GREY, ":"),
    ALONE: (plots.BLUE, "-"),
    "TAS, released": (plots.ORANGE, "--"),
    "input change": (plots.GREEN, "-"),
    "oracle": (plots.BLACK, "--"),
}


def cells(archive: Archive, clips: tuple[str, ...], shares: tuple[float, ...]) -> pd.DataFrame:
    """A row for each scene, ratio aimed at, and rule."""
    rows = rows_of(clips, n_frames=archive.config.n_frames)
    dense = archive.decode([Ask(None, row) for row in rows], "dense")
    table: list[dict[str, Any]] = []

    def book(share: float, rule: str, kind: str, kept: list[Kept], tau: float = np.nan) -> None:
        for row, each, plain in zip(rows, kept, dense, strict=True):
            table.append(
                {
                    "clip": row.clip,
                    "share": share,
                    "rule": rule,
                    "kind": kind,
                    "tau": tau,
                    "ratio": each.ratio,
                    "nats": each.loss,
                    "excess": each.loss - plain.loss,
                    "agreement": each.agreement(plain),
                }
            )

    for share in shares:
        fastcar = one_tau(archive, TasScore(), share, EXEMPT)
        kept = archive.decode([Ask(fastcar, row) for row in rows], f"TAS at {share:.0%}")
        book(share, ALONE, "own", kept, fastcar.lowest)
        book(share, ALONE, "counted", kept, fastcar.lowest)
        counts = [counts_of(each.replay, TOKENS_PER_FRAME) for each in kept]
        wanted = MEASURES | (ALSO if share == ALSO_AT else {})
        for name, measure in wanted.items():
            book(share, name, "counted", _counted(archive, rows, measure, counts, name))
        rules = {"input change": one_tau(archive, ChangeScore(), share, EXEMPT)}
        if share == ALSO_AT:
            rules["TAS, a tau per layer"] = equal_shares(archive, TasScore(), share, EXEMPT)
        for name, rule in rules.items():
            book(share, name, "own", archive.decode([Ask(rule, row) for row in rows], name))
    return pd.DataFrame(table)


def _counted(
    archive: Archive, rows: tuple[Row, ...], measure: Measure, counts: list[Any], name: str
) -> list[Kept]:
    asked = [Ask(Counted(measure, each), row) for row, each in zip(rows, counts, strict=True)]
    return archive.decode(asked, name)


def over_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """Chance averaged over its seeds, so that a scene counts once."""
    named = table["rule"].where(~table["rule"].str.startswith(CHANCE), CHANCE)
    keys = ["kind", "share", "rule", "clip"]
    return table.assign(rule=named).groupby(keys, sort=False).mean(numeric_only=True).reset_index()


def against_tas(table: pd.DataFrame) -> pd.DataFrame:
    """Excess of each counted rule, and what TAS loses more than it, with 95 % intervals."""
    counted = table[table["kind"] == "counted"]
    rows = []
    for (share, rule), part in counted.groupby(["share", "rule"], sort=False):
        own = part.set_index("clip")["excess"]
        tas = counted[(counted["share"] == share) & (counted["rule"] == ALONE)]
        difference = (tas.set_index("clip")["excess"] - own).loc[own.index]
        rows.append(
            {
                "share": share,
                "rule": rule,
                "ratio": part["ratio"].mean(),
                **_named("excess", own),
                **_named("tas_less_it", difference),
                "tas_better_on": int((difference < 0).sum()),
                "clips": len(own),
            }
        )
    return pd.DataFrame(rows)


def _named(name: str, values: pd.Series) -> dict[str, float]:
    found = bootstrap_mean(values.to_numpy())
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}


def draw_curves(axes: Axes, table: pd.DataFrame) -> None:
    """Loss over dense against the replay ratio, counted rules."""
    for rule, (colour, style) in STYLES.items():
        part = table[(table["kind"] == "counted") & (table["rule"] == rule)].groupby("share")
        spread = part["excess"].apply(lambda values: bootstrap_mean(values.to_numpy()))
        ratio, mean = part["ratio"].mean(), part["excess"].mean()
        axes.plot([0, *ratio], [0, *mean], style, color=colour, label=rule)
        if rule in (CHANCE, ALONE):
            low, high = ([getattr(each, end) for each in spread] for end in ("low", "high"))
            axes.fill_between(ratio, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel="replay ratio of eligible steps", ylabel="loss over dense, nats per token")
    axes.legend(loc="upper left")


def draw_differences(axes: Axes, found: pd.DataFrame) -> None:
    """What TAS loses less than chance, by ratio, with its interval."""
    for rule, (colour, _) in STYLES.items():
        if rule == ALONE:
            continue
        part = found[found["rule"] == rule]
        low = part["tas_less_it"] - part["tas_less_it_low"]
        high = part["tas_less_it_high"] - part["tas_less_it"]
        axes.errorbar(
            part["ratio"], part["tas_less_it"], [low, high], color=colour, marker="o", label=rule,
            capsize=2, markersize=4,
        )  # fmt: skip
    axes.axhline(0, color=plots.GREY, linewidth=0.8)
    axes.set(
        xlabel="replay ratio of eligible steps",
        ylabel="TAS less the other rule, nats per token",
        title="below zero: TAS chooses better",
    )


def main() -> None:
    """Measure, write, draw, and print what the README says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=len(CLIPS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    options = parser.parse_args()
    archive = Archive(workers=options.workers)
    raw = cells(archive, CLIPS[:: len(CLIPS) // options.clips], options.shares)
    raw.round(5).to_csv(HERE / "cells.csv", index=False)
    table = over_seeds(raw)
    found = against_tas(table)
    found.round(4).to_csv(HERE / "chance.csv", index=False)
    print(found.round(4).to_string(index=False))
    own = table[table["kind"] == "own"].groupby(["share", "rule"], sort=False)
    print(own[["tau", "ratio", "excess", "agreement"]].mean().round(4).to_string())
    chance = table[table["rule"].isin([CHANCE, ALONE]) & (table["kind"] == "counted")]
    by_pace = chance.assign(pace=chance["clip"].map(pace_of))
    print(by_pace.groupby(["share", "pace", "rule"])[["ratio", "excess"]].mean().round(4).unstack())
    with plots.style():
        figure = plots.new_figure(10, 4.0, "Choosing what to replay", misfit=False)
        left, right = figure.subplots(1, 2)
        draw_curves(left, table)
        draw_differences(right, found)
        figure.savefig(HERE / "chance.png", metadata={"Software": None})


if __name__ == "__main__":
    main()
