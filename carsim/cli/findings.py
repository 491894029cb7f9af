"""What a run explains: where time goes, what limits it, what more would bring, whether it fits."""

from collections.abc import Iterator

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from carsim.machine import Report
from carsim.machine.elasticity import SAMPLED_STEPS
from carsim.report.summary import layer_steps
from carsim.report.words import PHASE_LABELS, amount, signed_percent
from carsim.text import number, percent

BAR_WIDTH = 20


def findings(console: Console, report: Report) -> Iterator[RenderableType]:
    """All sections after the comparison, each with its title."""
    chosen = report.chosen.variant.name
    yield from _section(f"Where the time of {chosen} goes", breakdown(console, report))
    yield from _section("What limits each phase, and where that flips", limits(report))
    yield (
        "Shares are of the phase's own time; the largest is the limit. At the bandwidth or the "
        f"array given last, compute and bytes would take the same time. Now {_bandwidths(report)}, "
        f"and the arrays make {number(report.design.machine.macs_per_cycle)} MACs per cycle."
    )
    yield from _section("What 10 % more of a resource would bring", elasticity(report))
    mark = "" if report.fit.fits else " - MISFIT"
    yield from _section(f"Does it fit the {report.design.board.name}{mark}", fit(console, report))
    for memory in report.fit.memories:
        if memory.contents:
            held = " + ".join(f"{c.content} {amount(c.nbytes, 'B')}" for c in memory.contents)
            yield f"{memory.memory}: {held}; {amount(memory.free_bytes, 'B')} free"
    for warning in report.fit.warnings:
        yield Text(f"warning: {warning}", style="yellow")
    yield ""
    yield Text("Notes", style="bold")
    for note in (*report.notes, *_trust(report)):
        yield Text(f"- {note}", style="bold red" if note.startswith("MISFIT") else "")


def breakdown(console: Console, report: Report) -> Table:
    """Seconds of a batch by category, with bars."""
    table = _table()
    table.add_column("category", no_wrap=True)
    table.add_column("s per batch", justify="right")
    table.add_column("share", justify="right")
    table.add_column("", no_wrap=True)
    latency_s = report.chosen.latency_s
    for label, seconds in report.chosen.seconds_by_category.items():
        share = seconds / latency_s
        table.add_row(label, number(seconds), percent(share), _bar(console, share))
    table.add_row("all", number(latency_s), percent(1.0), "")
    return table


def limits(report: Report) -> Table:
    """Shares of compute, memory, ports and dependencies by phase."""
    table = _table()
    table.add_column("phase", no_wrap=True)
    for name in (
        "of all\ntime",
        "limited\nby",
        "compute",
        "memory",
        "port",
        "depend-\nency",
        "flips at\nGB/s",
        "flips at\nMACs/cycle",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for limit in report.limits:
        table.add_row(
            PHASE_LABELS[limit.phase],
            percent(limit.cycles / report.chosen.cycles),
            limit.limit,
            *[
                percent(cycles / limit.cycles)
                for cycles in (
                    limit.compute_cycles,
                    limit.memory_cycles,
                    limit.port_cycles,
                    limit.dependency_cycles,
                )
            ],
            number(limit.flip_gbps, 3),
            number(limit.flip_macs_per_cycle, 3),
        )
    return table


def elasticity(report: Report) -> Table:
    """Change of latency per +10 % of each resource."""
    table = _table()
    table.add_column("resource", no_wrap=True)
    table.add_column("latency per +10 %", justify="right")
    table.add_column("simulated")
    for item in report.elasticities:
        table.add_row(item.resource, signed_percent(item.change), item.simulated)
    return table


def fit(console: Console, report: Report) -> Table:
    """What the design takes of the board."""
    table = _table()
    table.add_column("what")
    table.add_column("needed", justify="right", no_wrap=True)
    table.add_column("available", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in report.fit.rows:
        if not row.needed and not row.available:
            continue
        share = row.needed / row.available if row.available else float("inf")
        table.add_row(
            row.what,
            amount(row.needed, row.unit),
            amount(row.available, row.unit),
            percent(share) if row.available else "-",
            _bar(console, min(1.0, share)) if row.ok else "MISFIT",
            style="" if row.ok else "bold red",
        )
    return table


def _trust(report: Report) -> Iterator[str]:
    chosen, design = report.chosen, report.design
    name, body_s = chosen.variant.name, chosen.body_latency_s
    inside = "included in" if design.machine.include_head else "left out of"
    yield (
        f"Both headlines: a batch takes {number(body_s + report.head_seconds)} s with the head "
        f"and {number(body_s)} s without it. The head is {inside} the figures above; RQ-VAE pixel "
        "decoding is in neither."
    )
    bound = report.rows[-1]
    if bound.variant.attention == chosen.variant.attention:
        above = chosen.latency_s / bound.latency_s - 1
        yield (
            f"{name} takes {percent(above)} longer than the bound; no schedule can gain more on "
            "these decisions."
        )
    simulated = [row for row in report.rows if not row.is_bound]
    phases = sum(row.simulation.unique_phases for row in simulated)
    yield (
        f"Simulated were {number(phases)} different phases, which make up all "
        f"{number(sum(map(layer_steps, simulated)))} layer-steps: repetition is counted, not "
        f"sampled. Only the elasticities come from a sample, of {SAMPLED_STEPS} steps."
    )
    energy = chosen.energy_per_video
    memory = {
        "fluid": "memory is a fluid whose sustained rate transfers share evenly, within 1 % of "
        "tile fidelity in the median and 5 % at worst over 200 designs",
        "tile": "memory serves whole tiles at its sustained rate",
    }[chosen.simulation.plan.hw.fidelity]
    yield (
        f"How wrong this may be: {memory}; banks and queues are in that rate alone. Energy "
        "constants carry intervals: were all of them off in the same direction, a video would "
        f"cost {number(energy.low_j)} or {number(energy.high_j)} J instead of "
        f"{number(energy.value_j)}."
    )


def _bandwidths(report: Report) -> str:
    return ", ".join(
        f"{path.name} sustains {number(path.sustained_gbps)} GB/s"
        for path in report.chosen.simulation.plan.hw.paths
        if report.chosen.dram_bytes[path.name]
    )


def _section(title: str, table: Table) -> Iterator[RenderableType]:
    yield ""
    yield Text(title, style="bold")
    yield table


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))


def _bar(console: Console, share: float) -> str:
    full = "#" if console.options.ascii_only else "█"
    return full * round(share * BAR_WIDTH)
