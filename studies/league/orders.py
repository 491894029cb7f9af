"""Sets of tokens: what is left of replay, scheduling and sparse attention?

    python -m studies.league.orders

Ten held-out scenes of 8 frames as guidance pairs, true codes, decoded token by token and in sets of
4 and 16 (:mod:`studies.league.sets` says how, and why the proxy model's loss in sets is no measure
of models made for them). Each without replay, with FastCar's rule at a threshold found on other
scenes, and with the same rule decided for whole sets by the mean score. Then these decisions on
four machines with as many tokens a step (``policy.tokens_per_step``), the buffers enlarged to hold
them.

Writes ``orders_cells.csv`` (a row for each scene, size and way), ``orders_decisions.csv`` (means
with intervals, and in how many layer-sets the whole pair replays, beside chance),
``orders_machines.csv`` and ``orders.png``. What was decoded lies in ``out/studies``.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from carsim import Trace, load_design, load_trace, override, run
from carsim.base.statistics import bootstrap_mean
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.sampling import log_chances
from carsim.report.figures import style as plots
from studies.content import EXEMPT, PACES, ROOT, Row, rows_of
from studies.league.sets import OfSets, SetDecoder
from studies.record import Archive, digest_of
from studies.rules import TasScore, Threshold
from studies.simulated import of_pairs, with_room
from studies.thresholds import one_tau
from studies.whole import Rule

HERE = Path(__file__).parent
CLIPS = tuple(f"{pace}_{number}" for number in range(2) for pace in PACES)
SIZES = (1, 4, 16)
SHARE = 0.5
"""Of the eligible steps of layers that may replay, in decoding token by token."""
DENSE, TOKENS, SETS = "dense", "by token", "by set"
DESIGNS = ("zcu102_head", "zcu102_16gb", "u280", "asic_28nm")
COLOURS = (plots.BLACK, plots.BLUE, plots.GREEN, plots.VERMILION)

Bools = NDArray[np.bool_]
Decisions = dict[tuple[int, str], Bools]
"""By size and way: bool[S, L, rows], the rows of a pair side by side."""


def ways(rule: Threshold, size: int) -> dict[str, Rule | None]:
    """What replays, by name."""
    found: dict[str, Rule | None] = {DENSE: None, TOKENS: rule}
    return found if size == 1 else found | {SETS: OfSets(rule, size)}


def decode(
    archive: Archive, decoder: SetDecoder, rule: Rule | None, row: Row, size: int
) -> dict[str, NDArray[Any]]:
    """``replay`` bool[S, L] and ``nats`` [S] of a row, decoded in sets."""
    if size == 1:  # the same, and faster
        decoded = decoder.decode(rule, row.prompt, row.codes)
    else:
        decoded = decoder.decode_in_sets(rule, row.prompt, row.codes, size)
    logits = decoded.hidden.astype(float) @ archive.model.arrays["head"].astype(float).T
    nats = -log_chances(logits)[np.arange(len(logits)), row.codes]
    return {"replay": decoded.replay, "nats": nats}


def decode_all(
    archive: Archive, rule: Threshold, clips: tuple[str, ...]
) -> tuple[pd.DataFrame, Decisions]:
    """A row for each scene, size and way: replay ratio and loss; and all decisions."""
    rows = rows_of(clips, blank=True, n_frames=archive.config.n_frames)
    decoder = SetDecoder(archive.model, archive.config)
    table, decisions = [], {}
    for size in SIZES:
        for way, replays in ways(rule, size).items():
            found = []
            for row in rows:
                what = ("sets", size, replays, row.prompt, digest_of(row.codes))
                made = partial(decode, archive, decoder, replays, row, size)
                found.append(archive.once(what, made))
            replay = np.stack([each["replay"] for each in found], axis=-1)
            decisions[size, way] = replay
            for number, clip in enumerate(clips):
                pair = replay[TOKENS_PER_FRAME:, :, 2 * number : 2 * number + 2]
                table.append(
                    {
                        "clip": clip,
                        "size": size,
                        "way": way,
                        "ratio": pair.mean(),
                        "nats": found[2 * number]["nats"][TOKENS_PER_FRAME:].mean(),
                    }
                )
            print(f"sets of {size}, {way}: decoded", flush=True)
    return pd.DataFrame(table), decisions


def unanimous(replay: Bools, size: int) -> tuple[float, float]:
    """Share of a pair's layer-sets in which all replays, and what chance would give.

    Chance: every token of a layer and scene replays by itself, as often as they do there.

    Args:
        replay: bool[S, L, rows], eligible steps.
        size: Tokens of a set.
    """
    pairs = replay.reshape(len(replay) // size, size, replay.shape[1], -1, 2)
    seen = pairs.all(axis=(1, 4)).mean()
    by_chance = (pairs.mean(axis=(0, 1, 4)) ** (2 * size)).mean()
    return float(seen), float(by_chance)


def compared(table: pd.DataFrame, decisions: Decisions) -> pd.DataFrame:
    """Means over scenes by size and way, with 95 % intervals of what replay and sets add."""
    nats = table.pivot(index="clip", columns=["size", "way"], values="nats")
    rows = []
    for (size, way), replay in decisions.items():
        part = table[(table["size"] == size) & (table["way"] == way)]
        added = bootstrap_mean((nats[size, way] - nats[size, DENSE]).to_numpy())
        all_of_pair, by_chance = unanimous(replay[TOKENS_PER_FRAME:], size)
        rows.append(
            {
                "size": size,
                "way": way,
                "ratio": part["ratio"].mean(),
                "nats": part["nats"].mean(),
                "over_tokens": (nats[size, way] - nats[1, DENSE]).mean(),
                "added": added.mean,
                "added_low": added.low,
                "added_high": added.high,
                "whole_sets": all_of_pair,
                "whole_sets_by_chance": by_chance,
            }
        )
    return pd.DataFrame(rows)


def machines(names: tuple[str, ...], like: Trace, decisions: Decisions) -> pd.DataFrame:
    """A row for each machine, size and way of deciding.

    ``replay``, ``drs`` and ``streaming`` are gains: of replay over dense decoding, of dynamic over
    static scheduling, of a window over full attention. ``attention`` is the gain if attention took
    no time: what any policy of attention can bring at most, also those that choose keys by the
    data, whose reads are recorded for one token at a time.
    """
    rows = []
    for name in names:
        plain = load_design(ROOT / f"configs/{name}.yaml")
        for (size, way), replay in decisions.items():
            if way == DENSE:
                continue
            trace = of_pairs(like, replay, f"sets of {size}, {way}")
            design = override(with_room(plain, like, size), {"policy.tokens_per_step": size})
            report = run(design, [trace], allow_misfit=True)
            found = {row.variant.key: row for row in report.rows}
            dense, static, drs = (found[k] for k in ("dense/static", "replay/static", "replay/drs"))
            totals = dense.simulation.totals
            share = totals["attention"].cycles / dense.simulation.cycles
            mlp = {each.phase: each.limit for each in dense.limits}["mlp"]
            rows.append(
                {
                    "machine": name,
                    "size": size,
                    "way": way,
                    "fits": report.fit.fits,
                    "dense_s": dense.seconds_per_video,
                    "mlp_waits_for": mlp,
                    "replay": dense.latency_s / static.latency_s,
                    "drs": static.latency_s / drs.latency_s,
                    "streaming": dense.latency_s / found["streaming/static"].latency_s,
                    "attention": 1 / (1 - share),
                }
            )
        print(f"{name}: simulated", flush=True)
    return pd.DataFrame(rows)


def draw_sets(axes: Axes, table: pd.DataFrame) -> None:
    """In how many layer-sets the weights of an MLP are not needed."""
    for way, colour in ((TOKENS, plots.BLUE), (SETS, plots.VERMILION)):
        part = table[(table["way"] == way) | ((table["size"] == 1) & (table["way"] == TOKENS))]
        axes.plot(part["size"], part["ratio"], ":", color=colour, label=f"{way}: tokens replay")
        whole = f"{way}: whole sets of a pair"
        axes.plot(part["size"], part["whole_sets"], "o-", color=colour, label=whole)
    part = table[table["way"] == TOKENS]
    axes.plot(part["size"], part["whole_sets_by_chance"], "--", color=plots.GREY, label="at random")
    axes.set_xscale("log", base=2)
    axes.set_xticks(SIZES, [str(size) for size in SIZES])
    axes.set(xlabel="tokens of a set", ylabel="share of eligible layer-steps", ylim=(0, 1))
    axes.legend()


def draw_gains(axes: Axes, table: pd.DataFrame) -> None:
    """What replay brings on each machine."""
    for colour, (name, part) in zip(COLOURS, table.groupby("machine", sort=False), strict=False):
        tokens = part[part["way"] == TOKENS]
        axes.plot(tokens["size"], tokens["replay"], "o-", color=colour, label=str(name))
        sets = part[(part["way"] == SETS) | (part["size"] == 1)]
        axes.plot(sets["size"], sets["replay"], "^:", color=colour)
    axes.set_xscale("log", base=2)
    axes.set_xticks(SIZES, [str(size) for size in SIZES])
    axes.set(xlabel="tokens of a set", ylabel="speed-up of replay", title="triangles: by set")
    axes.set_ylim(1.0, None)
    axes.legend()


def main() -> None:
    """Measure, write, draw and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=len(CLIPS))
    parser.add_argument("--tau", type=float, help="in place of the one that is found")
    options = parser.parse_args()
    archive = Archive(workers=1)
    if options.tau is None:
        rule = one_tau(archive, TasScore(), SHARE, EXEMPT)
    else:
        layers = range(archive.n_layers)
        taus = tuple(np.inf if layer in EXEMPT else options.tau for layer in layers)
        rule = Threshold(TasScore(), taus)
    table, decisions = decode_all(archive, rule, CLIPS[: options.clips])
    table.round(5).to_csv(HERE / "orders_cells.csv", index=False)
    found = compared(table, decisions)
    found.round(4).to_csv(HERE / "orders_decisions.csv", index=False)
    print(found.round(3).to_string(index=False))
    like = load_trace(ROOT / "traces/vilau_8f.npz")
    rows = 2 * options.clips
    names = tuple(
        name for name in DESIGNS if load_design(ROOT / f"configs/{name}.yaml").policy.batch <= rows
    )
    gains = machines(names, like, decisions)
    gains.round(4).to_csv(HERE / "orders_machines.csv", index=False)
    print(gains.round(3).to_string(index=False))
    with plots.style():
        figure = plots.new_figure(10, 4.0, "Sets of tokens", misfit=False)
        left, right = figure.subplots(1, 2)
        draw_sets(left, found)
        draw_gains(right, gains)
        figure.savefig(HERE / "orders.png", metadata={"Software": None})


if __name__ == "__main__":
    main()
