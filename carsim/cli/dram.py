"""``carsim config dram``: what a DRAM sustains for an access pattern, and the standards."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from carsim.base.text import Table
from carsim.cli.console import print_results
from carsim.cli.options import JSON

if TYPE_CHECKING:
    from carsim.hardware.memory import MemoryStandard

COUNT = click.IntRange(1, 65_536)
"""More streams take minutes to simulate, and no machine has as many."""


@click.command()
@click.option("--standard", "name", help="Such as DDR4-2133; if left out, show all standards.")
@click.option(
    "--channels", type=click.IntRange(1, 4096), default=1, show_default=True, help="All alike."
)
@click.option(
    "--chunk-bytes", type=click.IntRange(1, 1 << 30), default=4096, show_default=True,
    help="Contiguous bytes that are read in one go.",
)  # fmt: skip
@click.option(
    "--streams", type=COUNT, default=1, show_default=True, help="Streams that take turns."
)
@click.option("--random", is_flag=True, help="Chunks lie anywhere instead of one after the other.")
@JSON
def dram(
    name: str | None, channels: int, chunk_bytes: int, streams: int, random: bool, as_json: bool
) -> None:
    """Show what a DRAM sustains for an access pattern, and what limits it; or all standards.

    Follows from the timings of the standard. Latencies are the controller's and the device's,
    without interconnect. Channels are striped in 4 KiB.
    """
    from carsim.hardware import memory

    if name is None:
        rows = list(memory.STANDARDS.values())
        print_results(as_json, {row.name: asdict(row) for row in rows}, [_standards(rows)])
        return
    timings, striping = memory.standard(name), memory.Striping(channels)
    access = memory.AccessPattern(streams, chunk_bytes, random)
    report = {"standard": name, "channels": channels, "channel_bits": timings.channel_bits}
    report |= {"chunk_bytes": chunk_bytes, "streams": streams, "random": random}
    report |= asdict(memory.sustained(timings, access, striping))
    idle_ns = {row: memory.idle_latency_ns(timings, row) for row in memory.ROWS}
    full_ns = memory.saturated_latency_ns(timings, access, striping)
    report |= {"idle_latency_ns": idle_ns, "saturated_latency_ns": full_ns}
    lines = tuple((name, _text(value)) for name, value in report.items())
    print_results(as_json, report, [Table(("", ""), lines, text_columns=2)])


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(each)}" for key, each in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _standards(rows: "list[MemoryStandard]") -> Table:
    """A line a standard; JSON has all timings."""
    lines = tuple(
        (row.name, str(row.channel_bits), f"{row.peak_gbps(row.channel_bits):.1f}", row.source)
        for row in rows
    )
    return Table(("standard", "bits", "peak GB/s", "source"), lines, title="a channel")
