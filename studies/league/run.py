"""The league: every policy that saves work, alone and with replay, on one bench.

    python -m studies.league.run [--workers 2] [--scenes N]
    python -m studies.league.run --redraw

Ten held-out scenes of 8 frames, true codes fed. The proxy model decodes them under every attention
policy at three strengths, in W4A16, W4A8 and W4A4, and under the best of both, each with and
without FastCar's replay: loss, recall, density, and what chance reaches with as many keys or
replays. The decisions and reads of the first scenes, as guidance pairs, then run on four machines,
and continued by a rule on videos of 32 and 64 frames; two scenes are decoded at 32 frames to hold
the rule against them.

Writes ``cells.csv`` (a row for each contestant and scene), ``quality.csv`` (means with intervals),
``machines.csv`` (a row for each machine, length, layout of the cache and contestant),
``longer.csv`` (the rule held against 32 frames), ``league.png``, and the blocks of ``README.md``.
It may be stopped at any time: what was decoded lies in ``out/studies``, and rows of
``machines.csv`` that are there are not made again (delete the file to make them anew). All of it
takes about an hour of one core; ``--scenes 4 --out FOLDER`` half of that, without ``u280``.
"""

import argparse
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from carsim import load_trace
from studies.content import ROOT, Row, rows_of
from studies.league import cells, longer, machines, tables
from studies.league.cells import Bench, Contestant
from studies.league.measured import quality
from studies.record import in_processes

HERE = Path(__file__).parent
CHECKED_CLIPS, CHECKED_FRAMES = ("slow_0", "lively_0"), 32
CHECKED = (
    "dense",
    "window 512",
    "draft 0.25",
    "LSH 4 bit",
    "TempCache 0.8",
    "TempCache 0.5",
    "replay",
)
LAYOUTS = ("draft 0.25", "LSH 3 bit", "LSH 4 bit", "LSH 6 bit", "quantised 0.25")
"""Contestants that gather, which also run with an interleaved cache."""


def named(names: Iterable[str]) -> tuple[Contestant, ...]:
    """Contestants by name."""
    known = {each.name: each for each in cells.contestants()}
    return tuple(known[name] for name in names)


def decode_all(bench: Bench, who: Sequence[Contestant], rows: Sequence[Row], workers: int) -> None:
    """Decode what has not been decoded."""
    in_processes([partial(_decode, bench, each, rows) for each in who], workers)


def _decode(bench: Bench, who: Contestant, rows: Sequence[Row]) -> None:
    for row in rows:
        bench.cell(who, row)
    print(f"{who.name}: decoded", flush=True)


def simulate_all(bench: Bench, pairs: Sequence[Row], path: Path) -> pd.DataFrame:
    """All machines; rows are added to the file as they are made."""
    like = load_trace(ROOT / "traces/vilau_8f.npz")
    table = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=machines.KEYS)
    done = set(table[machines.KEYS].itertuples(index=False, name=None))
    everyone, gathering = cells.contestants(), named(LAYOUTS)
    for who, layout, frames in (
        (everyone, machines.SEPARATE, machines.FRAMES[:1]),
        (gathering, machines.INTERLEAVED, machines.FRAMES[:1]),
        (everyone, machines.SEPARATE, machines.FRAMES[:0:-1]),
    ):
        for row in machines.measure(
            bench, who, pairs, like, frames=frames, layout=layout, done=done
        ):
            new = pd.DataFrame([row])
            new.to_csv(path, mode="a", header=not path.exists(), index=False, float_format="%.6g")
            print(*(row[key] for key in machines.KEYS), f"{row['seconds']:.1f} s", flush=True)
    order = {who.name: number for number, who in enumerate(everyone)}
    ranks = {"contestant": order, "machine": {name: i for i, name in enumerate(machines.DESIGNS)}}
    table = pd.read_csv(path).sort_values(
        ["frames", "layout", "contestant", "machine"],
        key=lambda column: column.map(ranks[column.name]) if column.name in ranks else column,
        ascending=[True, False, True, True],
    )
    table.to_csv(path, index=False)
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scenes", type=int, default=len(cells.CLIPS))
    parser.add_argument("--out", type=Path, default=HERE, help="write here, not into the study")
    parser.add_argument("--redraw", action="store_true", help="draw and quote what the CSVs have")
    options = parser.parse_args(arguments)
    if not options.redraw:
        bench = cells.bench()
        rows, pairs = cells.scenes(options.scenes)
        everyone = cells.contestants()
        decode_all(bench, everyone, (*rows, *pairs), options.workers)
        decode_all(bench, cells.floors(), rows, options.workers)
        measured = cells.table(bench, (*everyone, *cells.floors()), rows)
        measured.to_csv(options.out / "cells.csv", index=False, float_format="%.5g")
        quality(measured).to_csv(options.out / "quality.csv", index=False, float_format="%.5g")
        simulate_all(bench, pairs, options.out / "machines.csv")
        long_rows = rows_of(CHECKED_CLIPS, n_frames=CHECKED_FRAMES)
        long_bench, who = cells.bench(CHECKED_FRAMES), named(CHECKED)
        decode_all(long_bench, who, long_rows, options.workers)
        checked = longer.checked(bench, long_bench, who, long_rows)
        checked.to_csv(options.out / "longer.csv", index=False, float_format="%.4g")
    tables.write(options.out)


if __name__ == "__main__":
    main()
