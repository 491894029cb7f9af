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

NULL_EFFICIENCY = 0.9
"""Share of the peak bandwidth that the naive rival takes for granted."""

SHARE = "of the peak"
"""Unit of an efficiency."""

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
    rows_by_title: dict[str, list[Comparison]] = {}
    for row in data_rows("dram_reference.csv"):
        standard_name = row["standard"].removesuffix("-64bPC")
        group_title = f"{row['figure']}: {standard_name}, {row['kind']}"
        rows_by_title.setdefault(group_title, []).append(one_channel(row))
    groups = [_group(group_title, rows) for group_title, rows in sorted(rows_by_title.items())]
    groups += striped_channels()
    groups.append(published_devices())
    title = "DRAM against two cycle-accurate simulators, and against devices"
    return Part("dram", title, tuple(groups), NOTES)


def published_devices() -> Group:
    """Bandwidths that others measured on devices, in GB/s, as ``data/dram_published.csv`` has them.

    Efficiency is carsim's, the peak is the device's; the rival takes 0.9 of that peak.
    """
    rows = []
    for row in data_rows("dram_published.csv"):
        peak_gbps = float(row["peak_gbps"])
        access = AccessPattern(int(row["streams"]), read_fraction=float(row["read_fraction"]))
        rows.append(
            Comparison(
                row["device"],
                float(row["measured_gbps"]),
                ours=peak_gbps * sustained(standard(row["standard"]), access).efficiency,
                rival=NULL_EFFICIENCY * peak_gbps,
                bound=None,
                source=row["source"],
                unit="GB/s",
                note=row["note"],
            )
        )
    return Group("bandwidth of devices, as published", tuple(rows), "the baseline")


MEAN_BOUNDS = {"efficiency": 0.10, "latency under load": 0.12}
"""Mean errors at most over rows of several channels; single rows may be 35 % off."""


def striped_channels() -> Iterator[Group]:
    """Efficiency and loaded latency on one to 32 channels (``data/dram_channels.csv``)."""
    rows_by_group = grouped(_striped(row) for row in data_rows("dram_channels.csv"))
    for (figure, channels), rows in rows_by_group.items():
        yield _group(f"{figure}: {channels}", rows, {"mean": MEAN_BOUNDS[figure]})


def _striped(row: Mapping[str, str]) -> tuple[tuple[str, str], Comparison]:
    """Figure and channels of a row, and its comparison."""
    channels = int(row["channels"])
    stripe_bytes = int(row["interleave_bytes"])
    requesters = int(row["requesters"])
    streams = int(row["streams"])
    chunk_bytes = int(row["chunk_bytes"])
    striping = Striping(channels, stripe_bytes, requesters)
    timings = standard(row["standard"])
    plural = "s" if channels > 1 else ""
    group = f"{channels} channel{plural} of {row['standard']}"
    title = (
        f"{group}, {row['pattern']}, {streams} x {chunk_bytes} B, stripe {stripe_bytes} B, "
        f"{requesters} ask"
    )
    load = float(row["offered_load"])
    if load:
        latency = Comparison(
            title,
            float(row["mean_latency_ns"]),
            ours=loaded_latency_ns(timings, load, striping),
            rival=None,
            bound=None,
            source=row["simulator"],
            unit="ns",
        )
        return ("latency under load", group), latency
    access = AccessPattern(
        streams,
        chunk_bytes,
        random="random" in row["pattern"],
        read_fraction=float(row["read_fraction"]),
        outstanding=int(row["window"]),
    )
    efficiency = Comparison(
        title,
        float(row["efficiency"]),
        ours=sustained(timings, access, striping).efficiency,
        rival=NULL_EFFICIENCY,
        bound=None,
        source=row["simulator"],
        unit=SHARE,
    )
    return ("efficiency", group), efficiency


def _group(title: str, rows: list[Comparison], bounds: Mapping[str, float] | None = None) -> Group:
    """Comparisons of one kind; where they have a rival, it must not be nearer."""
    rival = "" if rows[0].rival is None else "the baseline"
    return Group(title, tuple(rows), rival, bounds or {}, must_win=bool(rival), shown=False)


def one_channel(row: Mapping[str, str]) -> Comparison:
    """A figure of one channel: carsim beside the simulator nearer to it, as is its rival.

    Args:
        row: One of ``data/dram_reference.csv``.
    """
    figure = row["figure"]
    kind = row["kind"]
    pattern = row["pattern"]
    timings = standard(STANDARDS[row["standard"]])
    streams = int(row["streams"])
    chunk_bytes = int(row["chunk_bytes"])
    window = int(row["window"])
    read_fraction = float(row["read_fraction"])
    access = AccessPattern(
        streams,
        chunk_bytes,
        random="random" in pattern,
        read_fraction=read_fraction,
        outstanding=window or NO_WINDOW,
        aligned="aligned" in pattern,
    )
    rival: float | None = None
    if kind == "idle":
        ours = idle_latency_ns(timings, IDLE_ROWS[pattern])
    elif kind == "under an offered load":
        ours = loaded_latency_ns(timings, float(row["load"]))
    elif figure == "efficiency":
        ours = sustained(timings, access).efficiency
        rival = NULL_EFFICIENCY
    else:
        ours = saturated_latency_ns(timings, access)
        peak_gbps = timings.peak_gbps(timings.channel_bits)
        rival = window * timings.family.request_bytes / (NULL_EFFICIENCY * peak_gbps)
    simulated = {name: float(row[name]) for name in SIMULATORS if row[name]}

    def nearer(value: float) -> float:
        """The figure of the simulator that a value is nearer to."""
        return min(simulated.values(), key=lambda figure: abs(value / figure - 1))

    reference = nearer(ours)
    if rival is not None:  # as far from carsim's reference as the rival is from its own
        rival *= reference / nearer(rival)
    stream_text = f", {streams} streams" if streams > 1 else ""
    read_text = f", {read_fraction:.0%} reads" if read_fraction < 1 else ""
    return Comparison(
        f"{row['standard']} {pattern}, {chunk_bytes} B{stream_text}{read_text}",
        reference,
        ours=ours,
        rival=rival,
        bound=BOUNDS[figure, kind][timings.family.name],
        source=", ".join(f"{name} {value:.4g}" for name, value in simulated.items()),
        unit="ns" if figure == "latency" else SHARE,
    )
