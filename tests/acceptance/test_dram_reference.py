"""The DRAM model against two cycle-accurate simulators, row by row, and against measured boards.

``tests/data/dram_reference.csv``: DDR4-2400, one 64-bit channel of 8 Gb x8 devices, DRAMsim3 and
Ramulator 2.1 (FR-FCFS), at least 200,000 requests a row, refresh on, 32 requests in flight unless
the row says otherwise. The simulators differ between themselves; a prediction between the two is as
good as either, one outside is judged by the nearer. Bounds are what the model meets, rounded up.
"""

import csv
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from carsim.hw.dram import (
    Access,
    idle_latency_ns,
    loaded_latency_ns,
    saturated_latency_ns,
    standard,
    sustained,
)

REFERENCE = Path(__file__).parents[1] / "data" / "dram_reference.csv"
DDR4 = standard("DDR4-2400")
PATTERNS = {"seq": "sequential", "streams_rr": "streams", "mix_seq": "sequential"} | {
    "mix_random": "random",
    "random": "random",
}

Key = tuple[str, int, int, float]
"""Pattern as the file names it, streams, chunk bytes, read fraction."""


def references(column: str) -> dict[Key, list[float]]:
    """What the simulators give for each situation; one value or two."""
    found: dict[Key, list[float]] = defaultdict(list)
    with REFERENCE.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row[column]:
                key = (
                    row["pattern"],
                    int(row["streams"]),
                    int(row["chunk_bytes"]),
                    float(row["read_fraction"]),
                )
                found[key].append(float(row[column]))
    return found


EFFICIENCY = references("efficiency")
LATENCY = references("mean_latency_ns")


def access_of(key: Key) -> Access:
    """The access that a row of the file describes; a window is part of its pattern's name."""
    name, streams, chunk_bytes, read_fraction = key
    pattern, _, window = name.partition("@w")
    return Access(
        PATTERNS[pattern], chunk_bytes, streams, read_fraction, int(window) if window else 32
    )


def error(value: float, reference: list[float]) -> float:
    """0 between the references, else the relative distance to the nearer."""
    if min(reference) <= value <= max(reference):
        return 0.0
    return min((value / other - 1 for other in reference), key=abs)


def table(
    situations: dict[Key, list[float]], predict: Callable[[Key], float]
) -> tuple[str, dict[Key, float]]:
    """One line per situation and the errors."""
    lines, errors = [], {}
    for key, reference in situations.items():
        value = predict(key)
        errors[key] = error(value, reference)
        shown = " ".join(f"{other:9.4f}" for other in reference)
        lines.append(f"{key!s:42} model {value:9.4f}  {errors[key]:+7.2%}  references {shown}")
    return "\n".join(lines), errors


def is_large(key: Key) -> bool:
    return key[0] in ("random", "streams_rr") and key[2] >= 4096


def is_small(key: Key) -> bool:
    return key[0] in ("random", "streams_rr") and key[2] < 4096


KINDS: dict[str, tuple[Callable[[Key], bool], int, float]] = {
    "sequential": (lambda key: key[0] == "seq", 1, 0.005),
    "chunks of 4 KiB and more": (is_large, 15, 0.025),
    "smaller chunks": (is_small, 15, 0.02),
    "reads and writes": (lambda key: key[0].startswith("mix"), 4, 0.02),
    "limited window": (lambda key: "@w" in key[0], 11, 0.025),
}


@pytest.mark.parametrize("kind", KINDS)
def test_efficiency_is_between_the_simulators_or_near_the_nearer(kind: str) -> None:
    belongs, count, bound = KINDS[kind]
    situations = {key: values for key, values in EFFICIENCY.items() if belongs(key)}
    lines, errors = table(situations, lambda key: sustained(DDR4, access_of(key)).efficiency)
    print(lines)
    assert len(errors) == count
    assert max(map(abs, errors.values())) <= bound, lines


def test_every_row_of_bandwidth_is_judged() -> None:
    loaded = {key for key in EFFICIENCY if "@load" in key[0]}  # efficiency is given, not found
    judged = {key for key in EFFICIENCY if any(belongs(key) for belongs, _, _ in KINDS.values())}
    assert judged | loaded == set(EFFICIENCY)
    assert len(judged) == sum(count for _, count, _ in KINDS.values())


def test_idle_latency_is_within_1_percent_of_the_nearer() -> None:
    rows = {"idle_rowhit": "hit", "idle_rowclosed": "closed", "idle_rowconflict": "conflict"}
    rows["idle_random"] = "random"
    situations = {key: values for key, values in LATENCY.items() if key[0] in rows}
    lines, errors = table(situations, lambda key: idle_latency_ns(DDR4, rows[key[0]]))
    print(lines)
    assert len(errors) == 4
    assert max(map(abs, errors.values())) <= 0.01, lines


def test_latency_with_all_requests_in_flight_is_within_2_5_percent_of_the_nearer() -> None:
    """Of the reads; writes are posted."""
    situations = {key: LATENCY[key] for key in EFFICIENCY if "@load" not in key[0]}
    lines, errors = table(situations, lambda key: saturated_latency_ns(DDR4, access_of(key)))
    print(lines)
    assert len(errors) == 46
    assert max(map(abs, errors.values())) <= 0.025, lines


def test_latency_under_an_offered_load_is_within_4_percent_of_the_nearer() -> None:
    """At half and nine tenths of what is sustained, evenly spaced and Poisson arrivals."""
    situations = {key: values for key, values in LATENCY.items() if "@load" in key[0]}

    def predict(key: Key) -> float:
        arrivals = key[0].rpartition("_")[2]
        return loaded_latency_ns(DDR4, EFFICIENCY[key][0], arrivals)

    lines, errors = table(situations, predict)
    print(lines)
    assert len(errors) == 4
    assert max(map(abs, errors.values())) <= 0.04, lines


@pytest.mark.parametrize(
    ("name", "channels", "measured_gbps"),
    [
        # Shuhai (Wang et al., FCCM 2020, arXiv 2005.04324), Alveo U280, sequential reads.
        ("HBM2-1800", 1, 13.27),
        ("DDR4-2400", 2, 36.0),
    ],
)
def test_measured_boards_are_met_within_2_percent(
    name: str, channels: int, measured_gbps: float
) -> None:
    """13.32 GB/s for one HBM pseudo-channel, 36.5 for two DDR4 channels."""
    found = sustained(standard(name), Access(), channels).sustained_gbps
    assert found == pytest.approx(measured_gbps, rel=0.02)


@pytest.mark.parametrize(
    ("name", "hit_ns", "conflict_ns", "beat_ns"),
    [
        # Shuhai, as above: idle latencies on the fabric's side, in beats of 450 and 300 MHz.
        ("HBM2-1800", 107.0, 138.0, 1000 / 450),
        ("DDR4-2400", 73.0, 107.0, 1000 / 300),
    ],
)
def test_a_measured_row_conflict_is_met_within_two_beats_of_the_fabric(
    name: str, hit_ns: float, conflict_ns: float, beat_ns: float
) -> None:
    """What a conflict adds to a hit; the interconnect, the same for both, drops out."""
    hit, conflict = (
        idle_latency_ns(standard(name), row, refresh=False) for row in ("hit", "conflict")
    )
    assert conflict - hit == pytest.approx(conflict_ns - hit_ns, abs=2 * beat_ns)
