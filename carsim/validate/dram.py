"""The DRAM model against two cycle-accurate simulators, row by row: ``carsim validate dram``.

``data/dram_reference.csv``: DDR4-2400, one 64-bit channel of 8 Gb x8 devices, DRAMsim3 and
Ramulator 2.1 (FR-FCFS), at least 200,000 requests a row, refresh on, 32 requests in flight unless
the row says otherwise. The simulators differ between themselves; a prediction between the two is as
good as either, one outside is judged by the nearer.

The naive rival takes 0.9 of the peak bandwidth for granted; with all requests in flight, the bytes
in flight over that bandwidth are its latency (Little's law). It says nothing of an idle memory, nor
of one under a given load.
"""

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files

from carsim.memory.sustained import (
    Access,
    DramTimings,
    idle_latency_ns,
    loaded_latency_ns,
    saturated_latency_ns,
    standard,
    sustained,
)

STANDARD = "DDR4-2400"
PEAK_GBPS = 19.2
REQUEST_BYTES = 64
"""What the rows of the file have in common."""

NULL_EFFICIENCY = 0.9
"""Share of the peak bandwidth that the naive rival takes for granted."""

PATTERNS = {
    "seq": "sequential",
    "streams_rr": "streams",
    "mix_seq": "sequential",
    "mix_random": "random",
    "random": "random",
}
"""Pattern in the file -> its name in carsim."""

IDLE_ROWS = {
    "idle_rowhit": "hit",
    "idle_rowclosed": "closed",
    "idle_rowconflict": "conflict",
    "idle_random": "random",
}
"""Pattern in the file of a single request -> the state of the row that it finds."""

DEFAULT_WINDOW = 32
LARGE_CHUNK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Situation:
    """What a row of the file asks of the memory.

    Attributes:
        name: Pattern as the file names it, with window or load if not the usual ones.
        streams: Streams that take turns.
        chunk_bytes: Bytes read in one go.
        read_fraction: Share of requests that read.
    """

    name: str
    streams: int
    chunk_bytes: int
    read_fraction: float

    @property
    def pattern(self) -> str:
        """The name without window or load."""
        return self.name.partition("@")[0]

    @property
    def window(self) -> int:
        """Requests in flight."""
        _, _, window = self.name.partition("@w")
        return int(window) if window else DEFAULT_WINDOW

    @property
    def is_loaded(self) -> bool:
        """The efficiency is given, not found."""
        return "@load" in self.name

    @property
    def access(self) -> Access:
        """The same as carsim's DRAM model takes it."""
        return Access(
            PATTERNS[self.pattern], self.chunk_bytes, self.streams, self.read_fraction, self.window
        )

    def __str__(self) -> str:
        streams = f", {self.streams} streams" if self.streams > 1 else ""
        reads = f", {self.read_fraction:.0%} reads" if self.read_fraction < 1 else ""
        return f"{self.name}, {self.chunk_bytes} B{streams}{reads}"


@dataclass(frozen=True, slots=True)
class DramCheck:
    """One prediction beside the simulators: an efficiency, or a latency in ns.

    Attributes:
        situation: What is asked of the memory.
        value: What carsim derives.
        references: Simulator -> what it counts; one or two.
        null: What the naive rival says; None where it says nothing.
    """

    situation: Situation
    value: float
    references: Mapping[str, float]
    null: float | None

    @property
    def error(self) -> float:
        """Of carsim: 0 between the references, else the relative distance to the nearer."""
        return distance(self.value, self.references)

    @property
    def null_error(self) -> float | None:
        """The same of the naive rival."""
        return None if self.null is None else distance(self.null, self.references)


@dataclass(frozen=True)
class DramKind:
    """Rows that share a bound.

    Attributes:
        name: What they have in common.
        bound: Largest absolute error that is allowed.
        checks: The rows, in the order of the file.
    """

    name: str
    bound: float
    checks: tuple[DramCheck, ...]

    @property
    def worst(self) -> float:
        """Largest absolute error."""
        return max(abs(check.error) for check in self.checks)

    @property
    def mean(self) -> float:
        """Mean absolute error."""
        return sum(abs(check.error) for check in self.checks) / len(self.checks)

    @property
    def null_errors(self) -> tuple[float, ...]:
        """Absolute errors of the naive rival; empty where it says nothing."""
        errors = [check.null_error for check in self.checks]
        return tuple(abs(error) for error in errors if error is not None)

    @property
    def null_worst(self) -> float | None:
        """The largest of them."""
        return max(self.null_errors, default=None)

    @property
    def null_mean(self) -> float | None:
        """Their mean."""
        errors = self.null_errors
        return sum(errors) / len(errors) if errors else None

    @property
    def passes(self) -> bool:
        """Every row is within the bound."""
        return self.worst <= self.bound


@dataclass(frozen=True)
class DramReport:
    """All rows of the file, by kind: efficiencies, then latencies."""

    kinds: tuple[DramKind, ...]

    @property
    def passes(self) -> bool:
        """Every kind is within its bound."""
        return all(kind.passes for kind in self.kinds)


EFFICIENCIES: Mapping[str, tuple[float, Callable[[Situation], bool]]] = {
    "sequential": (0.02, lambda asked: asked.name == "seq"),
    "chunks of 4 KiB and more": (
        0.03,
        lambda asked: _is_chunked(asked) and asked.chunk_bytes >= LARGE_CHUNK_BYTES,
    ),
    "smaller chunks": (
        0.12,
        lambda asked: _is_chunked(asked) and asked.chunk_bytes < LARGE_CHUNK_BYTES,
    ),
    "reads and writes": (0.06, lambda asked: asked.name.startswith("mix")),
    "limited window": (0.03, lambda asked: "@w" in asked.name),
}
"""Kind of a row of bandwidth -> its bound, and whether a situation belongs to it."""

IDLE_BOUND, FULL_BOUND, LOADED_BOUND = 0.10, 0.10, 0.10
"""Bounds of latencies: of a single request, of all in flight, and under an offered load."""


def validate_dram() -> DramReport:
    """Compare the DRAM model with every row of the file."""
    dram = standard(STANDARD)
    efficiency, latency = references("efficiency"), references("mean_latency_ns")
    kinds = [
        DramKind(
            f"efficiency: {name}",
            bound,
            tuple(
                DramCheck(asked, sustained(dram, asked.access).efficiency, counted, NULL_EFFICIENCY)
                for asked, counted in efficiency.items()
                if belongs(asked)
            ),
        )
        for name, (bound, belongs) in EFFICIENCIES.items()
    ]
    idle = tuple(
        DramCheck(asked, idle_latency_ns(dram, IDLE_ROWS[asked.name]), counted, None)
        for asked, counted in latency.items()
        if asked.name in IDLE_ROWS
    )
    # Of the reads; writes are posted.
    full = tuple(
        DramCheck(
            asked, saturated_latency_ns(dram, asked.access), latency[asked], _null_latency_ns(asked)
        )
        for asked in efficiency
        if not asked.is_loaded
    )
    loaded = tuple(
        DramCheck(asked, _loaded_ns(dram, asked, efficiency[asked]), counted, None)
        for asked, counted in latency.items()
        if asked.is_loaded
    )
    return DramReport(
        (
            *kinds,
            DramKind("latency: idle", IDLE_BOUND, idle),
            DramKind("latency: all requests in flight", FULL_BOUND, full),
            DramKind("latency: under an offered load", LOADED_BOUND, loaded),
        )
    )


def references(column: str) -> dict[Situation, dict[str, float]]:
    """What the simulators give for each situation, by simulator.

    Args:
        column: Column of the file; rows without a value in it are left out.
    """
    text = (files("carsim.validate") / "data" / "dram_reference.csv").read_text(encoding="utf-8")
    found: dict[Situation, dict[str, float]] = defaultdict(dict)
    for row in csv.DictReader(text.splitlines()):
        if row[column]:
            asked = Situation(
                row["pattern"],
                int(row["streams"]),
                int(row["chunk_bytes"]),
                float(row["read_fraction"]),
            )
            found[asked][row["simulator"]] = float(row[column])
    return dict(found)


def distance(value: float, references: Mapping[str, float]) -> float:
    """0 between the references, else the relative distance to the nearer.

    >>> distance(0.8, {"a": 0.75, "b": 0.85}), round(distance(0.9, {"a": 0.75, "b": 0.8}), 3)
    (0.0, 0.125)
    """
    counted = references.values()
    if min(counted) <= value <= max(counted):
        return 0.0
    return min((value / other - 1 for other in counted), key=abs)


def _is_chunked(asked: Situation) -> bool:
    return asked.name in ("random", "streams_rr")


def _loaded_ns(dram: DramTimings, asked: Situation, offered: Mapping[str, float]) -> float:
    """The load is a share of the peak; where it is one of what is sustained, the first's."""
    arrivals = asked.name.rpartition("_")[2]
    return loaded_latency_ns(dram, next(iter(offered.values())), arrivals)


def _null_latency_ns(asked: Situation) -> float:
    return asked.window * REQUEST_BYTES / (NULL_EFFICIENCY * PEAK_GBPS)
