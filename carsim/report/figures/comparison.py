"""Comparison of policies: time and energy per video, and how busy cores and memory are."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from carsim.report.figures import style
from carsim.text import number

if TYPE_CHECKING:
    from carsim.machine import Report


@dataclass(frozen=True)
class ComparisonNumbers:
    """A value per policy; the first policy is dense, the last the bound.

    Attributes:
        title: What is compared.
        policies: Their names.
        seconds_per_video: Latency of a batch over the videos it finishes.
        speedups: Over the first policy.
        energy_j: Of the board per video: (value, low, high).
        core_busy: Share of core cycles in which cores compute.
        memory_utilisation: Of the fullest memory, bytes over bytes at the peak rate.
        chosen: Index of the design's own policy.
        misfit: The design does not fit its board.
    """

    title: str
    policies: tuple[str, ...]
    seconds_per_video: tuple[float, ...]
    speedups: tuple[float, ...]
    energy_j: tuple[tuple[float, float, float], ...]
    core_busy: tuple[float, ...]
    memory_utilisation: tuple[float, ...]
    chosen: int
    misfit: bool


def comparison_numbers(report: "Report") -> ComparisonNumbers:
    """The numbers of the figure."""
    rows, dense_s = report.rows, report.rows[0].latency_s
    energies = [row.energy_per_video for row in rows]
    return ComparisonNumbers(
        title=f"{report.design.name} on {report.design.board.name}, "
        f"{report.design.model.name}, {report.design.policy.batch} sequences in lockstep",
        policies=tuple(row.variant.name for row in rows),
        seconds_per_video=tuple(row.seconds_per_video for row in rows),
        speedups=tuple(dense_s / row.latency_s for row in rows),
        energy_j=tuple((energy.value_j, energy.low_j, energy.high_j) for energy in energies),
        core_busy=tuple(row.busy for row in rows),
        memory_utilisation=tuple(max(row.ddr_utilisation.values()) for row in rows),
        chosen=rows.index(report.chosen),
        misfit=not report.fit.fits,
    )


def draw_comparison(numbers: ComparisonNumbers) -> Figure:
    """Three panels side by side, a policy per line."""
    with style.style():
        count = len(numbers.policies)
        figure = style.new_figure(11, 1.5 + 0.42 * count, numbers.title, misfit=numbers.misfit)
        time, energy, busy = figure.subplots(1, 3, sharey=True, width_ratios=[1.25, 1, 1])
        lines = range(count)
        colours = [style.BLUE if line == numbers.chosen else style.SKY for line in lines]
        colours[-1] = style.LIGHT_GREY

        bars = time.barh(lines, numbers.seconds_per_video, color=colours, height=0.65)
        time.bar_label(
            bars,
            [
                f"{number(seconds)} s  ({speedup:.2f}x)"
                for seconds, speedup in zip(
                    numbers.seconds_per_video, numbers.speedups, strict=True
                )
            ],
            padding=3,
            fontsize=8,
        )
        time.set_xlim(0, 1.42 * max(numbers.seconds_per_video))
        time.set_title("time per video (speed-up over dense)")
        time.set_xlabel("s")
        style.label_policies(time, numbers.policies, numbers.chosen)

        values = [value for value, _, _ in numbers.energy_j]
        energy.errorbar(
            values,
            lines,
            xerr=[
                [value - low for value, low, _ in numbers.energy_j],
                [high - value for value, _, high in numbers.energy_j],
            ],
            fmt="o",
            markersize=5,
            color=style.BLUE,
            ecolor=style.GREY,
            capsize=3,
        )
        energy.set_xlim(left=0)
        energy.set_title("board energy per video, with its interval")
        energy.set_xlabel("J")

        busy.barh(
            [line - 0.17 for line in lines],
            [100 * share for share in numbers.core_busy],
            height=0.32,
            color=style.ORANGE,
            label="cores busy",
        )
        busy.barh(
            [line + 0.17 for line in lines],
            [100 * share for share in numbers.memory_utilisation],
            height=0.32,
            color=style.GREEN,
            label="fullest memory, of its peak",
        )
        busy.set_xlim(0, 100)
        busy.set_title("utilisation")
        busy.set_xlabel("%")
        figure.legend(*busy.get_legend_handles_labels(), loc="outside lower right", ncols=2)
        for axes in (time, energy, busy):
            axes.grid(axis="x")
            axes.tick_params(axis="y", length=0)
    return figure
