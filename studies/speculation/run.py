"""Speculation from the previous frame: how many tokens does a pass yield, and where does that pay?

    python -m studies.speculation.run

The proposal for a place is the token at the same place one frame before
(:mod:`studies.speculation.decoding`). Forty held-out scenes of 8 frames as guidance pairs, tokens
drawn among the ten likeliest (guidance 1.5) or greedily, in three ways:

* ``true tokens``: the scene's own codes are fed, and a proposal is accepted with its chance. A
  frame's expected passes follow from the chances of its places. Approximation: a place is judged
  behind the scene's codes, where a real pass has accepted proposals before it.
* ``own tokens``: two frames are given and the proxy model goes on by itself. Passes follow from the
  tokens, as speculation yields those of plain decoding. No approximation.
* ``neighbour``: as the first, but the proposal is the token before, in place of the frame before.

Then five machines with passes of m rows, decisions of ``traces/vilau_8f.npz`` and dense: how many
tokens a pass must yield, the acceptance that this takes, and the gain at what was measured. Their
buffers are enlarged until they hold m rows; whether the board then has the room is in the table.

Writes ``cells.csv`` (a row for each scene, way, sampling and m), ``passes.csv`` (means by pace with
intervals), ``machines.csv`` and ``speculation.png``. What was decoded lies in ``out/studies``.
"""

import argparse
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from carsim import Trace, load_design, load_trace, override
from carsim.base.statistics import bootstrap_mean
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.decoding import TokenSampling
from carsim.decoder.group import RowGroup, decode_group
from carsim.decoder.sampling import log_chances, mix_guidance
from carsim.decoder.structures import DecoderPolicy
from carsim.report.figures import style as plots
from studies.content import CLIPS, PACES, ROOT, Row, pace_of, rows_of
from studies.record import Archive, digest_of
from studies.simulated import with_room
from studies.speculation.machine import speculate
from studies.speculation.passes import expected_passes

HERE = Path(__file__).parent
MOST = (2, 4, 8, 16)
"""Rows of a pass, m."""
DRAWN = TokenSampling(method="top_k", k=10, temperature=1.0, guidance_scale=1.5)
GREEDY = TokenSampling(method="greedy", guidance_scale=1.5)
TRUE, OWN, NEIGHBOUR = "true tokens", "own tokens", "neighbour"
GIVEN_FRAMES, SEED, GROUP_PAIRS = 2, 2025, 4
DESIGNS: dict[str, tuple[str, dict[str, int]]] = {
    "zcu102_head": ("zcu102_head", {}),
    "zcu102_head, 32 x 32": ("zcu102_head", {"machine.array.rows": 32, "machine.array.cols": 32}),
    "zcu102_16gb": ("zcu102_16gb", {}),
    "u280": ("u280", {}),
    "asic_28nm": ("asic_28nm", {}),
}
"""Shipped designs and changes: arrays of the second are four times as large."""
COLOURS = (plots.BLACK, plots.BLUE, plots.GREEN, plots.ORANGE, plots.VERMILION)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def chances(logits: Floats, tokens: Ints, sampling: TokenSampling) -> Floats:
    """Chance of one token of each row of logits under a sampling, [n]."""
    at = np.arange(len(tokens))
    if sampling.method == "greedy":
        return (logits.argmax(axis=1) == tokens).astype(float)
    best = np.argsort(-logits, axis=1, kind="stable")[:, : sampling.k]
    among = np.full(logits.shape, -np.inf)
    np.put_along_axis(among, best, np.take_along_axis(logits, best, axis=1), axis=1)
    found: Floats = np.exp(log_chances(among / sampling.temperature)[at, tokens])
    return found


def judged(archive: Archive, pair: tuple[Row, Row]) -> dict[str, Floats]:
    """Chances of two proposals where the scene's codes are fed, for each sampling.

    Returns:
        By name of the sampling, [2, S - N], frame 0 left out: of the token one frame before, then
        of the token before.
    """
    head = archive.model.arrays["head"].astype(float).T
    hidden = [archive.decoder.decode(None, row.prompt, row.codes).hidden for row in pair]
    logits = np.stack([each[TOKENS_PER_FRAME:].astype(float) @ head for each in hidden], axis=1)
    mixed = mix_guidance(logits.reshape(-1, head.shape[1]), DRAWN.guidance_scale)
    codes = pair[0].codes
    proposals = codes[:-TOKENS_PER_FRAME], codes[TOKENS_PER_FRAME - 1 : -1]
    return {
        sampling.method: np.stack([chances(mixed, each, sampling) for each in proposals])
        for sampling in (DRAWN, GREEDY)
    }


def tokens_of(
    archive: Archive, pairs: list[tuple[Row, Row]], sampling: TokenSampling
) -> dict[str, Ints]:
    """``tokens`` where the proxy model goes on by itself after the given frames, [S, pairs]."""
    prompts = tuple(row.prompt for pair in pairs for row in pair)
    group = RowGroup(
        config=archive.config,
        policy=DecoderPolicy((None,) * archive.n_layers),
        model=archive.model,
        prompts=prompts,
        prompt_tokens=max(map(len, prompts)),
        tokens=np.stack([conditional.codes for conditional, _ in pairs], axis=1),
        given_steps=GIVEN_FRAMES * TOKENS_PER_FRAME,
        sampling=sampling,
        seeds=tuple((SEED, 1 + number) for number in range(len(pairs))),
    )
    return {"tokens": decode_group(group, lambda done: None).tokens}


def cells(archive: Archive, clips: tuple[str, ...], own_clips: tuple[str, ...]) -> pd.DataFrame:
    """A row for each scene, way, sampling and m: acceptance and tokens a pass."""
    table: list[dict[str, object]] = []

    def note(clip: str, way: str, sampling: TokenSampling, accepted: Floats) -> None:
        """``accepted``: chance, or whether, of every place of whole frames."""
        frames = accepted.reshape(-1, TOKENS_PER_FRAME)
        for most in MOST:
            passes = sum(expected_passes(frame, most) for frame in frames)
            table.append(
                {
                    "clip": clip,
                    "pace": pace_of(clip),
                    "way": way,
                    "sampling": sampling.method,
                    "m": most,
                    "acceptance": accepted.mean(),
                    "tokens": accepted.size / passes,
                }
            )

    def pairs_of(names: tuple[str, ...]) -> list[tuple[Row, Row]]:
        rows = rows_of(names, blank=True, n_frames=archive.config.n_frames)
        return list(zip(rows[::2], rows[1::2], strict=True))

    for pair in pairs_of(clips):
        row = pair[0]
        what = ("judged", row.prompt, digest_of(row.codes), DRAWN, GREEDY)
        both = archive.once(what, partial(judged, archive, pair))
        for sampling in (DRAWN, GREEDY):
            for way, accepted in zip((TRUE, NEIGHBOUR), both[sampling.method], strict=True):
                note(row.clip, way, sampling, accepted)
        print(f"{row.clip}: judged", flush=True)
    pairs = pairs_of(own_clips)
    for first in range(0, len(pairs), GROUP_PAIRS):
        some = pairs[first : first + GROUP_PAIRS]
        clips_of = [(row.clip, row.prompt, digest_of(row.codes)) for row, _ in some]
        for sampling in (DRAWN, GREEDY):
            what = ("own tokens", clips_of, sampling, SEED)
            make = partial(tokens_of, archive, some, sampling)
            tokens = archive.once(what, make)["tokens"]
            for (row, _), codes in zip(some, tokens.T, strict=True):
                same = codes[TOKENS_PER_FRAME:] == codes[:-TOKENS_PER_FRAME]
                generated = same[(GIVEN_FRAMES - 1) * TOKENS_PER_FRAME :]
                note(row.clip, OWN, sampling, generated.astype(float))
        print(f"{', '.join(row.clip for row, _ in some)}: decoded", flush=True)
    return pd.DataFrame(table)


def by_pace(table: pd.DataFrame) -> pd.DataFrame:
    """Means over the scenes of each pace, and of all, with 95 % intervals."""
    rows = []
    everything = table.assign(pace="all")
    for key, part in pd.concat([table, everything]).groupby(
        ["way", "sampling", "m", "pace"], sort=False
    ):
        tokens = bootstrap_mean(part["tokens"].to_numpy())
        accepted = bootstrap_mean(part["acceptance"].to_numpy())
        rows.append(
            dict(zip(("way", "sampling", "m", "pace"), key, strict=True))
            | {
                "scenes": len(part),
                "acceptance": accepted.mean,
                "acceptance_low": accepted.low,
                "acceptance_high": accepted.high,
                "tokens": tokens.mean,
                "tokens_low": tokens.low,
                "tokens_high": tokens.high,
                "passes": (1 / part["tokens"]).mean(),
            }
        )
    return pd.DataFrame(rows)


def machines(names: Iterable[str], trace: Trace, measured: pd.DataFrame) -> pd.DataFrame:
    """A row for each machine, m, and with or without replay.

    Args:
        names: Keys of :data:`DESIGNS`.
        trace: Decisions.
        measured: Of :func:`by_pace`; gains are those at the mean passes of ``true tokens``, drawn.
    """
    wanted = (measured["way"] == TRUE) & (measured["sampling"] == DRAWN.method)
    passes = measured[wanted].set_index(["m", "pace"])["passes"]  # of a token
    rows = []
    for name in names:
        config, changes = DESIGNS[name]
        design = override(load_design(ROOT / f"configs/{config}.yaml"), changes)
        for most in MOST:
            roomy = with_room(design, trace, most)
            for replays in (False, True):
                found = speculate(roomy, [trace], most, replays=replays)
                later = found.video.n_steps - found.video.tokens_per_frame
                rows.append(
                    {
                        "machine": name,
                        "replays": replays,
                        "m": most,
                        "plain_s": found.plain.seconds_per_video,
                        "fits": found.fit.fits,
                        "misfit": "; ".join(found.fit.misfits),
                        "tokens_to_break_even": found.tokens_to_break_even,
                        "acceptance_to_break_even": found.acceptance_to_break_even,
                        "gain_all_accepted": found.speedup(later / most),
                    }
                    | {
                        f"gain_{pace}": found.speedup(later * passes[most, pace])
                        for pace in (*PACES, "all")
                        if (most, pace) in passes.index
                    }
                )
        print(f"{name}: simulated", flush=True)
    return pd.DataFrame(rows)


def draw_tokens(axes: Axes, table: pd.DataFrame) -> None:
    """Tokens a pass by m, for each pace."""
    for colour, pace in zip(COLOURS, PACES, strict=True):
        for way, style in ((TRUE, "o-"), (OWN, "^:")):
            wanted = (table["pace"] == pace) & (table["way"] == way)
            part = table[wanted & (table["sampling"] == DRAWN.method)]
            label = pace if way == TRUE else None
            axes.plot(part["m"], part["tokens"], style, color=colour, label=label)
    floor = table[(table["way"] == NEIGHBOUR) & (table["pace"] == "all")]
    floor = floor[floor["sampling"] == DRAWN.method]
    axes.plot(floor["m"], floor["tokens"], "--", color=plots.GREY, label="token before")
    axes.set_xscale("log", base=2)
    axes.set_xticks(MOST, [str(most) for most in MOST])
    axes.set(xlabel="rows of a pass", ylabel="tokens a pass", title="triangles: own tokens")
    axes.legend()


def draw_needed(axes: Axes, table: pd.DataFrame, measured: pd.DataFrame) -> None:
    """Tokens that a pass must yield on each machine, below what it yields at best."""
    dense = table[~table["replays"]]
    for colour, (name, part) in zip(COLOURS, dense.groupby("machine", sort=False), strict=False):
        axes.plot(part["m"], part["tokens_to_break_even"], "o-", color=colour, label=str(name))
    wanted = (measured["way"] == TRUE) & (measured["sampling"] == DRAWN.method)
    part = measured[wanted & (measured["pace"] == "all")]
    axes.plot(part["m"], part["tokens"], "k--", label="yielded, all scenes")
    axes.plot(MOST, MOST, ":", color=plots.GREY, label="all accepted")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_yticks((1, *MOST), [str(most) for most in (1, *MOST)])
    axes.set_xticks(MOST, [str(most) for most in MOST])
    axes.set(xlabel="rows of a pass", ylabel="tokens a pass must yield", title="dense decoding")
    axes.legend()


def main() -> None:
    """Measure, write, draw and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=len(CLIPS), help="scenes with true tokens")
    parser.add_argument("--own", type=int, default=10, help="scenes with own tokens")
    options = parser.parse_args()
    clips, own = (CLIPS[:: len(CLIPS) // n] for n in (options.clips, options.own))
    table = cells(Archive(workers=1), clips, own)
    table.round(5).to_csv(HERE / "cells.csv", index=False)
    measured = by_pace(table)
    measured.round(4).to_csv(HERE / "passes.csv", index=False)
    columns = ["way", "sampling", "m", "pace", "acceptance", "tokens", "tokens_low", "tokens_high"]
    print(measured[columns].round(3).to_string(index=False))
    found = machines(DESIGNS, load_trace(ROOT / "traces/vilau_8f.npz"), measured)
    found.round(4).to_csv(HERE / "machines.csv", index=False)
    print(found.drop(columns="misfit").round(3).to_string(index=False))
    with plots.style():
        title = "Speculation from the previous frame"
        figure = plots.new_figure(10, 4.0, title, misfit=False)
        left, right = figure.subplots(1, 2)
        draw_tokens(left, measured)
        draw_needed(right, found, measured)
        figure.savefig(HERE / "speculation.png", metadata={"Software": None})


if __name__ == "__main__":
    main()
