"""Show which simulated figures differ from the recorded ones.

    .venv/bin/python .ci/snapshot.py             the largest change of each figure of each design
    .venv/bin/python .ci/snapshot.py --all       every change
    .venv/bin/python .ci/snapshot.py --short     one trace per design, no tile runs: 10 s
    .venv/bin/python .ci/snapshot.py --update    record today's figures

Every design of configs/ runs on every trace of traces/, every design of configs/published on the
texts that were timed on it, and every design of configs/boards, configs/predicted and
configs/later on a short text. All run fluid; the timed texts, and one trace of each design, tile
as well. A refusal is recorded as one. Such a run is repeated where that helps, as ``fluid!``:
misfits are allowed, rows that are missing are drawn with seed 0, the decision scope is the trace's.

Exit status 1 if anything differs. Numbers closer than 1e-12 are equal, as libraries may round sums
differently.
"""

import argparse
import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from carsim import InputError, Trace, Workload, load_design, load_trace, run
from carsim.decisions.trace.shipped import traces_in
from carsim.design import Design, override
from carsim.runs.report import RowResult
from carsim.validate.published import published_rows

ROOT = Path(__file__).resolve().parents[1]
SNAPSHOT = Path(__file__).with_suffix(".csv")
UNPUBLISHED_CONTEXTS = (1, 128)
"""First and last context of the text of designs without a timed text."""
TILED = "vilau_8f"
TOLERANCE = 1e-12
COUNTS = ("cycles", "macs", "vector_ops", "sram_bytes", "dram_bytes")
FIGURES = (*COUNTS, "latency_s", "energy_j", "energy_low_j", "energy_high_j", "refusal")


class Place(NamedTuple):
    """A row of a run; ``-`` for a run that is refused."""

    design: str
    trace: str
    run: str
    row: str


class Change(NamedTuple):
    """A figure that differs; an empty text is a figure that is not there."""

    place: Place
    figure: str
    old: str
    new: str

    @property
    def share(self) -> float:
        """Relative change; infinite where there is none, as between texts."""
        try:
            old, new = float(self.old), float(self.new)
        except ValueError:
            return float("inf")
        return (new - old) / old if old else float("inf")

    @property
    def is_real(self) -> bool:
        """More than rounding."""
        exact = self.figure in COUNTS
        return self.old != self.new and (exact or abs(self.share) >= TOLERANCE)


Records = dict[Place, dict[str, str]]


def measured(*, short: bool = False) -> Records:
    """Figures of today's code."""
    records: Records = {}
    for design, trace, work, fidelity in _runs(short):
        sys.stderr.write(f"\r{design.name} on {trace}, {fidelity}".ljust(79)[:79])
        place = Place(design.name, trace, fidelity, "-")
        try:
            records |= figures(place, design, work, fidelity)
        except InputError as refused:
            records[place] = {"refusal": f"{type(refused).__name__}: {refused.problem}"}
            if isinstance(work, Trace):
                design = override(design, {"policy.decision_scope": work.meta.decision_scope})
            try:
                records |= figures(place._replace(run=f"{fidelity}!"), design, work, fidelity, 0)
            except InputError:
                continue
    sys.stderr.write(f"\r{'':79}\r")
    return records


def _runs(short: bool) -> Iterator[tuple[Design, str, Trace | Workload, str]]:
    """Design, the name of its work, the work, and the fidelity."""
    fidelities = ("fluid",) if short else ("fluid", "tile")
    files = [path for path in traces_in(ROOT / "traces") if not short or path.stem == TILED]
    traces = {path.stem: load_trace(path) for path in files}
    for path in sorted((ROOT / "configs").glob("*.yaml")):
        for name, trace in traces.items():
            for fidelity in fidelities if name == TILED else ("fluid",):
                yield load_design(str(path)), name, trace, fidelity
    # GPUs under llama.cpp differ in their sizes alone, and take minutes by tiles.
    rows = [row for row in published_rows() if not row.config.startswith(("llamacpp_", "gpu_"))]
    texts = sorted({(row.config, row.first_context, row.last_context) for row in rows})
    for config, *context in texts:
        design = load_design(str(ROOT / "configs" / "published" / f"{config}.yaml"))
        for fidelity in fidelities:
            first, last = context
            yield design, f"{first}:{last}", Workload.at_contexts(first, last), fidelity
    # No row was published for the contexts of these designs.
    first, last = UNPUBLISHED_CONTEXTS
    for folder in ("boards", "predicted", "later"):
        for path in sorted((ROOT / "configs" / folder).glob("*.yaml")):
            work = Workload.at_contexts(first, last)
            yield load_design(str(path)), f"{first}:{last}", work, "fluid"


def figures(
    place: Place, design: Design, work: Trace | Workload, fidelity: str, seed: int | None = None
) -> Records:
    """Figures of all rows of a run; with a seed, misfits and missing rows are no obstacle."""
    report = run(
        design,
        [work] if isinstance(work, Trace) else [],
        workload=None if isinstance(work, Trace) else work,
        allow_misfit=seed is not None,
        resample_seed=seed,
        fidelity=fidelity,
        what_if=False,
    )
    return {place._replace(row=row.variant.key): _of_row(row) for row in report.rows}


def _of_row(row: RowResult) -> dict[str, str]:
    """Integers over all batches, times of a batch, joules of a video."""
    work, joules = row.simulation.activity, row.energy_per_video
    found = {
        "cycles": row.cycles,
        "macs": work.macs,
        "vector_ops": work.vector_ops,
        "sram_bytes": work.sram_bytes,
        "dram_bytes": sum(row.dram_bytes.values()),
        "latency_s": row.latency_s,
        "energy_j": joules.value_j,
        "energy_low_j": joules.low_j,
        "energy_high_j": joules.high_j,
    }
    return {name: repr(figure) for name, figure in found.items()}


def is_short(place: Place) -> bool:
    """The row is of a run that ``--short`` makes, too."""
    return place.run != "tile" and (place.trace == TILED or ":" in place.trace)


def read(file: Path) -> Records:
    """Recorded figures."""
    with file.open(newline="", encoding="utf-8") as lines:
        return {
            Place(*(row.pop(field) for field in Place._fields)): {
                figure: text for figure, text in row.items() if text
            }
            for row in csv.DictReader(lines)
        }


def write(file: Path, records: Records) -> None:
    """Record figures."""
    with file.open("w", newline="", encoding="utf-8") as lines:
        table = csv.DictWriter(lines, [*Place._fields, *FIGURES], lineterminator="\n")
        table.writeheader()
        table.writerows(place._asdict() | texts for place, texts in records.items())


def changes(old: Records, new: Records) -> list[Change]:
    """Figures that differ, in the order of the runs."""
    found = (
        Change(
            place, figure, old.get(place, {}).get(figure, ""), new.get(place, {}).get(figure, "")
        )
        for place in dict.fromkeys([*old, *new])
        for figure in FIGURES
    )
    return [change for change in found if change.is_real]


def largest(found: Iterable[Change]) -> list[Change]:
    """The largest change of each figure of each design and fidelity."""
    kept: dict[tuple[str, ...], Change] = {}
    for change in found:
        key = change.place.design, change.place.run, change.figure
        if key not in kept or abs(change.share) > abs(kept[key].share):
            kept[key] = change
    return list(kept.values())


def table(found: Iterable[Change]) -> Iterator[str]:
    """Lines of at most 80 columns: a heading for each design and row, then a line per figure."""
    heading = ""
    columns = "  {:18.18} {:6.6} {:13.13} {:>14} {:>14} {:>8}".format
    yield columns("trace", "run", "figure", "old", "new", "change %")
    for change in sorted(found, key=lambda change: (change.place.design, change.place.row)):
        place = change.place
        if heading != (heading := f"{place.design}, {place.row}"):
            yield heading[:80]
        share = f"{100 * change.share:+.2g}" if abs(change.share) < float("inf") else ""
        if change.figure == "refusal":
            yield f"  {place.trace:18.18} {place.run:6.6} refusal"
            yield from (f"    {text or 'none'}"[:80] for text in change[2:])
            continue
        old, new = (f"{float(text):.9g}" if text else "none" for text in change[2:])
        yield columns(place.trace, place.run, change.figure, old, new, share)


def main() -> int:
    """Compare or record."""
    parser = argparse.ArgumentParser(description="Compare simulated figures with recorded ones.")
    parser.add_argument("--short", action="store_true", help="one trace per design, fluid only")
    parser.add_argument("--all", action="store_true", help="show each change, not the largest")
    parser.add_argument("--update", action="store_true", help="record the figures of today")
    parser.add_argument("--file", type=Path, default=SNAPSHOT, help="another file of figures")
    options = parser.parse_args()
    if options.short and options.update:
        parser.error("--update records all runs; leave out --short")
    new = measured(short=options.short)
    old = read(options.file) if options.file.exists() else {}
    if options.short:
        old = {place: old[place] for place in old if is_short(place)}
    found = changes(old, new)
    for line in table(found if options.all else largest(found)) if found else ():
        print(line)
    print(f"{len(found)} figures of {len(new)} rows differ")
    if options.update:
        write(options.file, new)
    return int(bool(found)) and not options.update


if __name__ == "__main__":
    sys.exit(main())
