"""``carsim config dram``: bandwidth of a DRAM under an access pattern, and the standards."""

import json
from typing import TYPE_CHECKING, Any

import click

from carsim.base.text import Table
from carsim.cli.options import JSON

if TYPE_CHECKING:
    from carsim.hardware.memory import AccessPattern, MemoryStandard, Striping

MAPPING_TEXTS = {
    "rcb": "row, column, bank, bank group",
    "bgi": "row, bank, column, bank group",
}

MOST_STREAMS = 65_536
"""More take minutes to simulate, and no machine has as many."""


@click.command()
@click.option("--standard", "name", help="Name of the standard, such as DDR4-2133; see --list.")
@click.option(
    "--channels",
    default=1,
    type=click.IntRange(1, 4096),
    show_default=True,
    help="Channels, alike and independent.",
)
@click.option(
    "--interleave-bytes",
    default=4096,
    show_default=True,
    help="Contiguous bytes on one channel before the next one.",
)
@click.option(
    "--requesters",
    default=1,
    show_default=True,
    help="Requesters that take the chunks in turn, each its own in order.",
)
@click.option(
    "--channel-bits", type=int, help="Data bits of one channel [default: the standard's]."
)
@click.option("--density", type=int, help="Gbit of one device [default: the standard's].")
@click.option(
    "--pattern",
    type=click.Choice(["sequential", "streams", "random"]),
    default="sequential",
    show_default=True,
    help="Where the next chunk lies: after the last, after the last of its stream, anywhere.",
)
@click.option("--chunk-bytes", default=4096, show_default=True, help="Contiguous bytes of a chunk.")
@click.option(
    "--streams",
    type=click.IntRange(1, MOST_STREAMS),
    default=1,
    show_default=True,
    help="Streams that take turns.",
)
@click.option("--aligned", is_flag=True, help="All streams begin at the same bank and column.")
@click.option("--read-fraction", default=1.0, show_default=True, help="Share of reads, 0 to 1.")
@click.option(
    "--outstanding",
    type=int,
    help="Requests in flight, of 64 B (HBM, GDDR6: 32 B) [default: 32, as the queue holds].",
)
@click.option(
    "--mapping",
    type=click.Choice(list(MAPPING_TEXTS)),
    help="Address mapping: row, column, bank or bank groups interleaved [default: the standard's].",
)
@click.option(
    "--load", type=float, help="Also show the latency of sequential reads at this share of peak."
)
@click.option("--list", "listing", is_flag=True, help="Show the standards, their timings, sources.")
@JSON
def dram(
    name: str | None,
    channels: int,
    interleave_bytes: int,
    requesters: int,
    channel_bits: int | None,
    density: int | None,
    pattern: str,
    load: float | None,
    listing: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Show what a DRAM sustains for an access pattern, and what limits it.

    Follows from the timings of the standard. Latencies are the controller's and the device's,
    without interconnect.
    """
    from carsim.cli.console import in_order, output_console, show, show_json
    from carsim.hardware.memory import AccessPattern, Striping, standard

    if listing:
        if as_json:
            click.echo(json.dumps(_rows(), indent=2))
        else:
            tables = (_timing_table(), _source_table())
            show(output_console(), in_order((table.title, [table]) for table in tables))
        return
    if name is None:
        raise click.UsageError(
            "--standard is missing; carsim config dram --list shows what there is."
        )
    access = AccessPattern(**given, random=pattern == "random")
    striping = Striping(channels, interleave_bytes, requesters)
    report = {"pattern": pattern} | _report(
        standard(name, density), access, striping, channel_bits, load
    )
    if as_json:
        show_json(report)
    else:
        show(output_console(), [_report_table(report)])


def _report(
    timings: "MemoryStandard",
    access: "AccessPattern",
    striping: "Striping",
    channel_bits: int | None,
    load: float | None,
) -> dict[str, Any]:
    """Everything that is known of one use of one memory, by name."""
    from carsim.hardware import memory
    from carsim.hardware.memory import ROWS

    result = memory.sustained(timings, access, striping, channel_bits)
    report: dict[str, Any] = {
        "standard": timings.name,
        "density_gbit": timings.density_gbit,
        "channels": striping.channels,
        "interleave_bytes": striping.interleave_bytes,
        "requesters": striping.requesters,
        "channel_bits": channel_bits or timings.channel_bits,
        "mapping": MAPPING_TEXTS[access.mapping or timings.mapping],
        "chunk_bytes": access.chunk_bytes,
        "streams": access.streams,
        "aligned": access.aligned,
        "read_fraction": access.read_fraction,
        "outstanding": access.requests(timings),
        "request_bytes": timings.request_bytes,
        "peak_gbps": result.peak_gbps,
        "sustained_gbps": result.sustained_gbps,
        "efficiency": result.efficiency,
        "limit": result.limit,
        "idle_latency_ns": {row: memory.idle_latency_ns(timings, row) for row in ROWS},
        "idle_latency_between_refreshes_ns": {
            row: memory.idle_latency_ns(timings, row, refresh=False) for row in ROWS
        },
        "saturated_latency_ns": (
            memory.saturated_latency_ns(timings, access, striping, channel_bits)
            if access.read_fraction
            else None
        ),
    }
    if load is not None:
        report["load"] = load
        report["loaded_latency_ns"] = memory.loaded_latency_ns(
            timings, load, striping, channel_bits
        )
    return report


def _report_table(report: dict[str, Any]) -> Table:
    """The report as lines of name and value."""
    lines = []
    for name, value in report.items():
        if isinstance(value, dict):
            text = ", ".join(f"{key} {number:.1f}" for key, number in value.items())
        elif isinstance(value, float):
            text = f"{value:.3f}" if name in ("efficiency", "load") else f"{value:.2f}"
        else:
            text = "-" if value is None else str(value)
        lines.append((name, text))
    return Table(("", ""), tuple(lines), text_columns=2)


def _rows() -> list[dict[str, Any]]:
    """The table of standards as plain data."""
    from dataclasses import asdict

    from carsim.hardware.memory import STANDARDS

    return [
        {"family": row.family, **asdict(row), "trfc_ns_by_gbit": dict(row.trfc_ns_by_gbit)}
        for row in STANDARDS.values()
    ]


def _timing_table() -> Table:
    """Organisation and timings, one line per standard."""
    from carsim.hardware.memory import STANDARDS

    headings = (
        "standard", "bits", "BL", "banks", "tCK ps", "CL-RCD-RP-RAS", "CWL", "CCD", "RRD", "FAW",
        "WTR", "WR", "RTP", "RFC ns", "REFI ns",
    )  # fmt: skip
    rows = []
    for t in STANDARDS.values():
        cells = (
            t.name, t.channel_bits, t.burst_length, f"{t.bank_groups}x{t.banks_per_group}",
            t.tck_ps, f"{t.cl_nck}-{t.trcd_nck}-{t.trp_nck}-{t.tras_nck}", t.cwl_nck,
            f"{t.tccd_s_nck}/{t.tccd_l_nck}", f"{t.trrd_s_nck}/{t.trrd_l_nck}", t.tfaw_nck,
            f"{t.twtr_s_nck}/{t.twtr_l_nck}", t.twr_nck, t.trtp_nck, t.trfc_ns, t.trefi_ns,
        )  # fmt: skip
        rows.append(tuple(map(str, cells)))
    title = "timings in clocks (nCK) unless given in ps or ns; S/L: other / same bank group"
    return Table(headings, tuple(rows), title=title)


def _source_table() -> Table:
    """Source of each row, and the tRFC of its densities."""
    from carsim.hardware.memory import STANDARDS

    rows = []
    for t in STANDARDS.values():
        densities = ", ".join(
            f"{'*' if gbit == t.density_gbit else ''}{gbit}: {ns}" for gbit, ns in t.trfc_ns_by_gbit
        )
        rows.append((t.name, densities, t.source))
    headings = ("standard", "Gbit: tRFC ns", "source")
    return Table(headings, tuple(rows), text_columns=3, title="where they are from")
