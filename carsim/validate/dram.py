"""The DRAM model against two cycle-accurate simulators, row by row: ``carsim validate dram``.

``data/dram_reference.csv``: DDR4-2400, DDR4-2133 (one 64-bit channel of 8 Gb x8 devices) and an
HBM2 pseudo-channel on DRAMsim3 and Ramulator 2.1 (FR-FCFS), at least 200,000 requests a row,
refresh on, 32 requests in flight unless the row says otherwise. A window of 0 is no limit; a load
is a share of the peak. Rows of random arrivals, which carsim does not model, are left out. The
simulators differ between themselves by up to 37 %: every row keeps its signed error against each,
and is judged by the nearer.

The file's DDR4-2133 is the bin 2133R, 16-16-16, not the ZCU102's 2133P, 15-15-15: in both
simulators a closed row costs 16 clocks more than an open one, another open row 16 more again.

``data/dram_channels.csv``: stripes over 2 to 32 channels on DRAMsim3, over 20 to 40 refreshes: DDR4
as above, and HBM2 in legacy mode by DRAMsim3's own file. One requester, or one for each channel,
asks in order for the chunks that it is dealt; 32 requests for each channel are in flight.

The naive rival takes 0.9 of the peak bandwidth for granted; with all requests in flight, the bytes
in flight over that bandwidth are its latency (Little's law). It says nothing of an idle memory, nor
of one under a given load.
"""

from collections.abc import Callable, Iterator, Mapping

from carsim.base.groups import grouped
from carsim.hardware.memory import AccessPattern, standard
from carsim.hardware.memory.striping import Striping
from carsim.hardware.memory.sustained import (
    idle_latency_ns,
    loaded_latency_ns,
    saturated_latency_ns,
    sustained,
)
from carsim.metrics.comparison import Comparison
from carsim.validate.part import Group, Part
from carsim.validate.peers import data_rows

STANDARDS = {"DDR4-2133": "DDR4-2133R", "DDR4-2400": "DDR4-2400", "HBM2-2000-64bPC": "HBM2-2000"}
"""Standard in the file -> its row in carsim's table."""

SIMULATORS = ("DRAMsim3", "Ramulator2.1-FRFCFS")

NULL_EFFICIENCY, SHARE = 0.9, "of the peak"
"""Share of the peak bandwidth that the naive rival takes for granted."""

IDLE_ROWS = {f"idle_row{row}": row for row in ("hit", "closed", "conflict")}
IDLE_ROWS["idle_random"] = "random"
"""Pattern in the file of a single request -> the state of the row that it finds."""

NO_WINDOW = 1 << 12

BOUNDS: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("efficiency", "sequential"): {"DDR4": 0.02, "HBM2": 0.05},
    ("efficiency", "chunks of 4 KiB and more"): {"DDR4": 0.02, "HBM2": 0.05},
    ("efficiency", "smaller chunks"): {"DDR4": 0.04, "HBM2": 0.10},
    ("efficiency", "streams under 1 KiB"): {"DDR4": 0.04, "HBM2": 0.40},
    ("efficiency", "reads and writes"): {"DDR4": 0.04, "HBM2": 0.05},
    ("efficiency", "other windows"): {"DDR4": 0.04},
    ("latency", "idle"): {"DDR4": 0.05},
    ("latency", "all requests in flight"): {"DDR4": 0.05, "HBM2": 0.40},
    ("latency", "under an offered load"): {"DDR4": 0.06},
}
"""Figure and kind of a row -> family -> bound: the errors aimed at, but for three, of which
:data:`NOTES` says why they cannot be had."""

NOTES = (
    "One channel: errors and bounds are against the nearer simulator. Baseline: 0.9 of the peak "
    "bandwidth, whatever is asked; it says nothing of an idle memory or of a given load.",
    "Several channels: stripes of 256 to 4096 B on DRAMsim3, one requester or one for each "
    "channel, in order. The baseline takes all channels for busy.",
    "Wide bounds of HBM2, streams under 1 KiB and all requests in flight: with bank groups "
    "interleaved, a stream stays in one bank of each group for 4 KiB, so what few streams of small "
    "chunks get depends on where they begin, which the file does not say: over 16 draws, 8 streams "
    "of 256 B get 0.58 to 0.86 of the peak (simulator: 0.61).",
    "Wide bound of DDR4 under an offered load: refreshes keep a sequential stream 3 % shorter here "
    "than in the simulators, and the wait grows with the square of that time.",
    "Devices are read or copied by cores that may be the limit themselves, with a NoC or caches in "
    "between: carsim's figure is that of the DRAM alone. No device was found whose published "
    "bandwidth is that of LPDDR4, LPDDR4X, LPDDR5 or HBM2E and not of its processor.",
)


def validate_dram(progress: Callable[[str], None] = lambda _: None) -> Part:
    """Compare the DRAM model with every row of the files."""
    progress("rows of two cycle-accurate simulators")
    rows = (
        (
            f"{row['figure']}: {row['standard'].removesuffix('-64bPC')}, {row['kind']}",
            one_channel(row),
        )
        for row in data_rows("dram_reference.csv")
    )
    of_one = (_group(*group) for group in sorted(grouped(rows).items()))
    title = "DRAM against two cycle-accurate simulators, and against devices"
    return Part("dram", title, (*of_one, *striped_channels(), published_devices()), NOTES)


def published_devices() -> Group:
    """Bandwidths that others measured on devices, in GB/s, as ``data/dram_published.csv`` has them.

    Efficiency is carsim's, the peak is the device's; the rival takes 0.9 of that peak.
    """
    rows = []
    for row in data_rows("dram_published.csv"):
        peak, reads = float(row["peak_gbps"]), float(row["read_fraction"])
        access = AccessPattern(int(row["streams"]), read_fraction=reads)
        ours = peak * sustained(standard(row["standard"]), access).efficiency
        measured, null = float(row["measured_gbps"]), NULL_EFFICIENCY * peak
        source, note = row["source"], row["note"]
        rows.append(Comparison(row["device"], measured, ours, null, None, source, "GB/s", note))
    return Group("bandwidth of devices, as published", tuple(rows), "the baseline")


MEAN_BOUNDS = {"efficiency": 0.10, "latency under load": 0.12}
"""Mean errors at most over rows of several channels; single rows may be 35 % off."""


def striped_channels() -> Iterator[Group]:
    """Efficiency and loaded latency on one to 32 channels (``data/dram_channels.csv``)."""
    for (figure, where), found in grouped(map(_striped, data_rows("dram_channels.csv"))).items():
        yield _group(f"{figure}: {where}", found, {"mean": MEAN_BOUNDS[figure]})


def _striped(row: Mapping[str, str]) -> tuple[tuple[str, str], Comparison]:
    """Figure and channels of a row, and its comparison."""
    channels, stripe, asking, streams, chunk, window = (
        int(row[name])
        for name in (
            "channels", "interleave_bytes", "requesters", "streams", "chunk_bytes", "window",
        )
    )  # fmt: skip
    striping, timings = Striping(channels, stripe, asking), standard(row["standard"])
    where = f"{channels} channel{'s' * (channels > 1)} of {row['standard']}"
    what = f"{where}, {row['pattern']}, {streams} x {chunk} B, stripe {stripe} B, {asking} ask"
    if load := float(row["offered_load"]):
        latency_ns = loaded_latency_ns(timings, load, striping)
        figures = float(row["mean_latency_ns"]), latency_ns, None, None
        return ("latency under load", where), Comparison(what, *figures, row["simulator"], "ns")
    is_random, reads = "random" in row["pattern"], float(row["read_fraction"])
    access = AccessPattern(streams, chunk, is_random, reads, window)
    own = sustained(timings, access, striping).efficiency
    compared = float(row["efficiency"]), own, NULL_EFFICIENCY, None
    return ("efficiency", where), Comparison(what, *compared, row["simulator"], SHARE)


def _group(title: str, rows: list[Comparison], bounds: Mapping[str, float] | None = None) -> Group:
    rival = "" if rows[0].rival is None else "the baseline"
    return Group(title, tuple(rows), rival, bounds or {}, must_win=bool(rival), shown=False)


def one_channel(row: Mapping[str, str]) -> Comparison:
    """A figure of one channel: carsim beside the simulator nearer to it, as is its rival.

    Args:
        row: One of ``data/dram_reference.csv``.
    """
    figure, kind, timings = row["figure"], row["kind"], standard(STANDARDS[row["standard"]])
    streams, chunk, window = (int(row[name]) for name in ("streams", "chunk_bytes", "window"))
    reads, pattern = float(row["read_fraction"]), row["pattern"]
    is_random, is_aligned = "random" in pattern, "aligned" in pattern
    access = AccessPattern(streams, chunk, is_random, reads, window or NO_WINDOW, is_aligned)
    rival: float | None = None
    if kind == "idle":
        own = idle_latency_ns(timings, IDLE_ROWS[pattern])
    elif kind == "under an offered load":
        own = loaded_latency_ns(timings, float(row["load"]))
    elif figure == "efficiency":
        own, rival = sustained(timings, access).efficiency, NULL_EFFICIENCY
    else:
        own = saturated_latency_ns(timings, access)
        peak_gbps = timings.peak_gbps(timings.channel_bits)
        rival = window * timings.family.request_bytes / (NULL_EFFICIENCY * peak_gbps)
    counted = {name: float(row[name]) for name in SIMULATORS if row[name]}

    def nearer(value: float) -> float:
        return min(counted.values(), key=lambda each: abs(value / each - 1))

    reference = nearer(own)
    if rival is not None:  # as far from carsim's reference as the rival is from its own
        rival *= reference / nearer(rival)
    several = f", {streams} streams" if streams > 1 else ""
    mixed = f", {reads:.0%} reads" if reads < 1 else ""
    what = f"{row['standard']} {pattern}, {chunk} B{several}{mixed}"
    source = ", ".join(f"{name} {value:.4g}" for name, value in counted.items())
    bound, unit = BOUNDS[figure, kind][timings.family.name], "ns" if figure == "latency" else SHARE
    return Comparison(what, reference, own, rival, bound, source, unit)
