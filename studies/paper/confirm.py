"""Simulate the set with drawn decisions, and ask what else the rows say.

    python -m studies.paper.confirm

Reads ``carsim/validate/data/fastcar_set.csv`` and writes ``confirmed.csv`` (each member simulated
row by row with drawn decisions), ``variations.csv`` (the fitted machine with one thing changed),
``needed.csv`` (the replay ratio, or the correlation, with which the fitted machine would meet each
replay row exactly) and ``without_prompt.csv`` (the set, were the prompt not part of the latencies).
"""

import csv
import sys
from collections.abc import Callable
from dataclasses import astuple, fields, replace
from pathlib import Path

from carsim.design import Design, load_design, override
from carsim.validate.candidates import Candidate, own_candidate, searched
from carsim.validate.paper import DESIGN, PaperRow, paper_rows, simulate_rows
from studies.paper.expected import SET_POINTS, Explanation, PhaseCycles, explain

HERE = Path(__file__).parent


def write(name: str, header: list[str], lines: list[list[object]]) -> None:
    """A CSV beside this file."""
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(header)
        out.writerows(lines)


def errors_of(
    base: Design, candidate: Candidate, clock_mhz: float, rows: tuple[PaperRow, ...], **how: str
) -> list[float]:
    """Error of each row, simulated with drawn decisions."""
    found = simulate_rows(base, candidate, clock_mhz, rows, **how)  # type: ignore[arg-type]
    return [each.latency_s / row.latency_s - 1 for each, row in zip(found, rows, strict=True)]


def line(errors: list[float] | tuple[float, ...]) -> list[object]:
    """Mean and worst error, then all of them."""
    sizes = [abs(error) for error in errors]
    return [f"{e:.5f}" for e in (sum(sizes) / len(sizes), max(sizes), *errors)]


def confirmed(base: Design, rows: tuple[PaperRow, ...]) -> None:
    """Every member with drawn decisions."""
    members = [candidate for group, candidate in searched() if group == "set"]
    lines = []
    furthest = 0.0
    for member in explain(base, members, rows):
        c = member.candidate
        drawn = errors_of(base, c, member.clock_mhz, rows)
        furthest = max(furthest, *(abs(d - e) for d, e in zip(drawn, member.errors, strict=True)))
        lines.append([*astuple(c), f"{member.clock_mhz:.1f}", *line(drawn)])
    names = [f"error_{row.name}" for row in rows]
    machine = [field.name for field in fields(Candidate)]
    write("confirmed.csv", [*machine, "clock_mhz", "mean_error", "worst_error", *names], lines)
    print(f"expectation and simulation differ by at most {furthest:.2%} of a latency")


def variations(base: Design, rows: tuple[PaperRow, ...]) -> None:
    """The fitted machine with one thing changed; the clock fitted anew unless it says otherwise."""
    fitted = own_candidate(base)
    own = explain(base, [fitted], rows)[0]
    lines: list[list[object]] = [
        ["as fitted", *line(errors_of(base, fitted, own.clock_mhz, rows))],
        ["static schedule", *line(errors_of(base, fitted, own.clock_mhz, rows, schedule="static"))],
    ]

    def changed(what: str, found: list[Explanation]) -> None:
        lines.extend([what, *line(each.errors)] for each in found)

    changed("attention by sequences", explain(base, [replace(fitted, mapping="batch")], rows))
    changed("ratio of all steps", explain(base, [replace(fitted, ratio_of="all")], rows))
    changed("without the prompt", explain(base, [fitted], rows, prefill=False))
    changed(
        "8 bit weights in DDR4", explain(base, [replace(fitted, weights="8 bit in DDR4")], rows)
    )
    slow = {"machine.drs.instructions_per_sequence": 1024, "machine.decision_at": "residual"}
    changed(
        "DRS of 16,396 cycles after the residual", explain(override(base, slow), [fitted], rows)
    )
    narrow = {"machine.exchange_bytes_per_cycle": 8}
    changed("exchange of 8 bytes per cycle", explain(override(base, narrow), [fitted], rows))
    for batch in (3, 5, 6):
        changed(f"batch {batch}", explain(base, [replace(fitted, batch=batch)], rows))
    for correlation in (0.05, 0.1, 0.2, 0.5):
        found = explain(base, [replace(fitted, correlation=correlation)], rows)
        changed(f"correlation {correlation:g}", found)
    names = [f"error_{row.name}" for row in rows]
    write("variations.csv", ["variation", "mean_error", "worst_error", *names], lines)


def needed(base: Design, rows: tuple[PaperRow, ...]) -> None:
    """Ratio or correlation with which each replay row would be met exactly."""
    fitted = own_candidate(base)
    clock_mhz = explain(base, [fitted], rows)[0].clock_mhz
    phases = PhaseCycles(base, fitted, clock_mhz)
    lines: list[list[object]] = []
    for row in rows:
        if not row.replay_ratio:
            continue

        def at_ratio(ratio: float, row: PaperRow = row) -> float:
            return phases.seconds(replace(row, replay_ratio=ratio), fitted) - row.latency_s

        def at_correlation(rho: float, row: PaperRow = row) -> float:
            return phases.seconds(row, replace(fitted, correlation=rho)) - row.latency_s

        lines.append(
            [row.name, row.replay_ratio, *map(shown, (root(at_ratio), root(at_correlation)))]
        )
    write("needed.csv", ["row", "published_ratio", "needed_ratio", "needed_correlation"], lines)


def without_prompt(base: Design, rows: tuple[PaperRow, ...]) -> None:
    """The set if the published latencies leave the prompt out."""
    correlations = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
    candidates = [
        Candidate(cores, batch, "heads", correlation)
        for cores in range(1, 17)
        for batch in range(cores, min(3 * cores + 2, 33))
        for correlation in correlations
    ]
    found = explain(base, candidates, rows, prefill=False)
    found.sort(key=lambda each: (each.mean_error, each.candidate))
    lines: list[list[object]] = [
        [
            each.candidate.cores,
            each.candidate.batch,
            each.candidate.correlation,
            f"{each.clock_mhz:.1f}",
            *line(each.errors),
        ]
        for each in found
        if each.mean_error <= found[0].mean_error + SET_POINTS
    ]
    names = [f"error_{row.name}" for row in rows]
    machine = ["cores", "batch", "correlation", "clock_mhz"]
    write("without_prompt.csv", [*machine, "mean_error", "worst_error", *names], lines)


def root(function: Callable[[float], float]) -> float | None:
    """Where a function crosses zero between 0.0001 and 0.9999, by bisection; None if nowhere."""
    low, high = 1e-4, 1 - 1e-4
    if function(low) * function(high) > 0:
        return None
    rising = function(high) > 0
    for _ in range(40):
        middle = (low + high) / 2
        if (function(middle) > 0) == rising:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def shown(number: float | None) -> str:
    """Three digits, or that there is none."""
    return "none" if number is None else f"{number:.3f}"


def main() -> None:
    """All tables."""
    base, rows = load_design(DESIGN), paper_rows()
    variations(base, rows)
    needed(base, rows)
    without_prompt(base, rows)
    confirmed(base, rows)


if __name__ == "__main__":
    sys.exit(main())
