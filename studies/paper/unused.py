"""Predictions of the machines that explain FastCar's rows, for rows that nobody published.

    python -m studies.paper.unused

Writes ``unused.csv``: for the best machine of each number of cores in the set of
``candidates.csv``, the latency of a video at other replay ratios, and DSP slices and board power of
the dense row. Expected latencies, clocks and correlations are those of the search; nothing is
fitted here.
"""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from carsim import load_design
from carsim.cost.fit import resource_fit
from carsim.design import Design
from carsim.runs.decode import decode
from carsim.validate.paper import DESIGN, PAPER_VIDEO, paper_rows
from studies.paper.candidates import KEPT, Candidate, candidate_design, searched
from studies.paper.expected import PhaseCycles

UNUSED = Path(__file__).with_suffix(".csv")
RATIOS = (0.05, 0.35, 0.65, 0.95)


def machines() -> list[tuple[Candidate, float]]:
    """The best machine of each number of cores in the set, with its clock in MHz."""
    clocks = pd.read_csv(KEPT)["clock_mhz"].tolist()
    best: dict[int, tuple[Candidate, float]] = {}
    for (group, candidate), clock_mhz in zip(searched(), clocks, strict=True):
        if group == "set":
            best.setdefault(candidate.cores, (candidate, clock_mhz))
    return list(best.values())


def watts(design: Design) -> tuple[float, float, float]:
    """Board power of dense decoding at the middle of the video, and its ends."""
    context = PAPER_VIDEO.max_context // 2
    found = decode(design, context, context)
    joules = found.energy_per_token(resource_fit(design).resources)
    power = joules.scaled(found.tokens_per_s).board
    return power.value_j, power.low_j, power.high_j


def predicted(candidate: Candidate, clock_mhz: float) -> dict[str, float | int]:
    """Predictions of one machine."""
    base = load_design(DESIGN)
    dense = paper_rows()[0]
    cycles = PhaseCycles(base, candidate, clock_mhz)
    row: dict[str, float | int] = {
        "cores": candidate.cores,
        "batch": candidate.batch,
        "correlation": candidate.correlation,
    }
    for ratio in RATIOS:
        unused = replace(dense, replay_ratio=ratio)
        row[f"replay{100 * ratio:.0f}_s"] = round(cycles.seconds(unused, candidate), 1)
    design = candidate_design(base, candidate, clock_mhz)
    row["dsp"] = round(resource_fit(design).resources.totals["dsp"])
    value, low, high = watts(design)
    row |= {"watts": round(value, 1), "watts_low": round(low, 1), "watts_high": round(high, 1)}
    return row


def table() -> pd.DataFrame:
    """A row for each machine."""
    return pd.DataFrame([predicted(*machine) for machine in machines()])


if __name__ == "__main__":
    found = table()
    found.to_csv(UNUSED, index=False)
    print(found.to_string(index=False))
