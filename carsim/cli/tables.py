"""The tables of ``carsim run``: what was simulated, and how the policies compare."""

import textwrap
from collections.abc import Callable, Iterator, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from carsim.cli.findings import findings
from carsim.machine import Report, RowResult
from carsim.report.files import misfit_mark
from carsim.report.words import (
    board_text,
    machine_text,
    memory_text,
    model_text,
    policy_text,
    run_text,
    video_text,
)
from carsim.text import number, percent
from carsim.trace import Trace

Cell = Callable[[RowResult], str]

LABEL_WIDTH, COLUMN_WIDTH = 32, 11
"""Of the comparison, padding included: six policies fit into 100 columns of text."""


def report_parts(
    console: Console, report: Report, traces: Sequence[Trace]
) -> Iterator[RenderableType]:
    """Everything that a run found, most important first."""
    if not report.fit.fits:
        yield Text(misfit_mark(report), style="bold red")
    yield header(report, traces)
    yield ""
    yield from comparison(console, report)
    yield from findings(console, report)


def header(report: Report, traces: Sequence[Trace]) -> Table:
    """What was simulated: design, board, machine, model, policy, video, traces."""
    design, chosen = report.design, report.chosen
    plan = chosen.simulation.plan
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    described = f": {design.description}" if design.description else ""
    grid.add_row("design", f"{design.name}{described}")
    grid.add_row("board", board_text(design))
    for path in plan.hw.paths:
        if chosen.dram_bytes[path.name]:
            described = memory_text(
                design.board.memories[path.name].standard,
                path.sustained_gbps,
                path.peak_gbps,
                path.limited_by,
                path.latency_cycles,
            )
            grid.add_row("memory", f"{path.name}, {described}")
    grid.add_row("machine", machine_text(design))
    grid.add_row("model", model_text(design))
    grid.add_row("policy", policy_text(design))
    video = plan.video
    grid.add_row(
        "video",
        video_text(video.n_frames, video.tokens_per_frame, video.n_steps, video.prompt_tokens),
    )
    for trace in traces:
        grid.add_row("trace", _trace(trace))
    batches = chosen.batches
    grid.add_row(
        "run",
        run_text(
            chosen.n_batches,
            design.policy.batch,
            batches.videos_per_batch,
            batches.left_out_rows,
            plan.hw.fidelity,
        ),
    )
    return grid


def comparison(console: Console, report: Report) -> Iterator[RenderableType]:
    """One column per policy, and the decisions that each consumed."""
    yield Text(f"Policies on {report.design.name}{_mark(report)}", style="bold")
    labels = list(dict.fromkeys(row.batches.label for row in report.rows))
    side_by_side = (console.width - LABEL_WIDTH) // COLUMN_WIDTH
    for first in range(0, len(report.rows), side_by_side):
        yield _columns(report, report.rows[first : first + side_by_side], labels)
    yield (
        "* the design's own policy. Replay ratio: decisions that replay over all decisions; "
        "'eligible' leaves out the first frame, which never replays. Energy is the board's."
    )
    for index, label in enumerate(labels):
        yield f"[{index + 1}] {label}"


def _columns(report: Report, rows: Sequence[RowResult], labels: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("mean over batches", no_wrap=True)
    for row in rows:
        is_chosen = row is report.chosen
        name = row.variant.name + (" *" if is_chosen else "")
        table.add_column(
            textwrap.fill(name, COLUMN_WIDTH - 2, break_long_words=False),
            justify="right",
            style="bold" if is_chosen else None,
            no_wrap=True,
        )
    for label, cell in _lines(report):
        table.add_row(label, *map(cell, rows))
    table.add_row("decisions", *[f"[{labels.index(row.batches.label) + 1}]" for row in rows])
    return table


def _lines(report: Report) -> Iterator[tuple[str, Cell]]:
    dense = report.rows[0]
    yield "latency of a batch [s]", lambda row: number(row.latency_s)
    yield "  per finished video [s]", lambda row: number(row.seconds_per_video)
    yield "  per token step [ms]", lambda row: number(row.ms_per_token)
    if report.design.machine.include_head:
        yield "  without the head [s]", lambda row: number(row.body_latency_s)
    yield "speed-up over dense", lambda row: f"{dense.latency_s / row.latency_s:.3f}"
    yield "replay ratio, eligible", lambda row: percent(row.replay_eligible)
    yield "replay ratio, all steps", lambda row: percent(row.replay_all)
    yield "cores busy", lambda row: percent(row.busy)
    yield "MACs done / possible", lambda row: percent(row.mac_utilisation)
    for name in dense.ddr_utilisation:
        yield f"{name} of its peak", _memory_cell(name)
    yield "energy per video [J]", lambda row: number(row.energy_per_video.value_j)
    yield "  at least [J]", lambda row: number(row.energy_per_video.low_j)
    yield "  at most [J]", lambda row: number(row.energy_per_video.high_j)
    yield "  above idle [J]", lambda row: number(row.energy.above_idle.value_j / row.videos)
    yield "average power [W]", lambda row: number(row.average_power_w)
    yield "memory traffic per video [GB]", lambda row: number(row.dram_gb_per_video)
    if any(row.wasted_bytes for row in report.rows):
        yield (
            "  fetched in vain [%]",
            lambda row: percent(row.wasted_bytes / sum(row.dram_bytes.values())),
        )


def _memory_cell(name: str) -> Cell:
    return lambda row: percent(row.ddr_utilisation.get(name, 0.0))


def _mark(report: Report) -> str:
    return "" if report.fit.fits else " - MISFIT, this design does not fit its board"


def _trace(trace: Trace) -> str:
    meta = trace.meta
    pairs = f" in {len(meta.guidance_pairs)} guidance pairs" if meta.guidance_pairs else ""
    eligible = trace.replay[trace.tokens_per_frame :]
    ratio = percent(float(eligible.mean())) if eligible.size else "none"
    return (
        f"{trace.name} (sha256 {trace.sha256[:12]}): {trace.n_rows} rows{pairs}, "
        f"{meta.attention.kind} attention, {meta.tau_text}, eligible replay ratio {ratio}"
        f"{meta.quality_text}"
    )
