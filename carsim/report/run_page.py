"""A stored run as a page: the answer, the comparison, what was asked, and everything behind it."""

import io
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from carsim.design.document import design_yaml
from carsim.report.document import Table
from carsim.report.html import Alert, Chart, Fold, Links, PageSection, Part, Terms, Tiles, links_to
from carsim.report.metrics import BY_KEY, METRICS
from carsim.report.run_words import answer, asked
from carsim.report.stored import StoredLimit, StoredRun
from carsim.report.stored_numbers import breakdown_of, comparison_of, utilisation_of
from carsim.report.words import PHASE_LABELS, amount, signed_percent
from carsim.text import Figure, number, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

HEADLINE = (
    "s_per_video",
    "speedup_over_dense",
    "energy_per_video_j",
    "replay_ratio_eligible_steps",
    "cores_busy",
    "memory_utilisation_of_peak",
)
"""What the first table shows of each policy."""

BESIDE = {
    "timeline.json": "timeline of a window of steps; open it in Perfetto (ui.perfetto.dev)",
    "design.yaml": "the resolved design",
    "summary.json": "all figures of this page",
    "comparison.csv": "the comparison of policies",
    "utilisation.csv": "utilisation over the first batch",
    "steps.parquet": "cycles of every layer-step of the design's own policy",
    "steps.csv": "the same as text",
    "steps.csv.gz": "the same as compressed text",
}
"""Files of a run's folder that a page links to."""


def run_page(
    run: StoredRun, folder: Path, address: str
) -> tuple[str, list[PageSection], dict[str, bytes]]:
    """Title, sections and pictures of the page of a run.

    Args:
        run: The run.
        folder: Where it is stored.
        address: Of that folder as the page links to it; empty if they are in the same place.

    Raises:
        InputError: The folder holds a broken file.
    """
    design = run.spec()
    charts, pictures = _charts(run, folder)
    top: list[Part] = []
    if not run.fits:
        problem = f"MISFIT: {run.design} does not fit {design.board.name}; it was simulated anyway."
        top.append(Alert((problem, *run.misfits)))
    if design.description:
        top.append(design.description)
    top += [_tiles(run), *answer(run), _headline(run)]
    sections = [
        PageSection("", tuple(top)),
        PageSection("What was asked", (Terms(asked(run, design)),)),
        PageSection(
            "How the policies compare", (charts["comparison"], _metrics(run), *_labels(run))
        ),
        PageSection("Where the time goes", (charts["breakdown"], _breakdown(run))),
        *(
            [PageSection("Over the first batch", (charts["utilisation"],))]
            if "utilisation" in charts
            else []
        ),
        PageSection("What limits each phase", _limits(run)),
        PageSection(
            "What 10 % more of a resource would bring",
            (
                Table(
                    ("resource", "latency", "simulated"),
                    tuple(
                        (
                            each.resource,
                            Figure(
                                signed_percent(each.latency_change_per_10_percent),
                                each.latency_change_per_10_percent,
                            ),
                            each.simulated,
                        )
                        for each in run.elasticities
                    ),
                ),
            ),
        ),
        PageSection(f"Does it fit the {design.board.name}", _fit(run)),
        PageSection("Where the energy goes", (_energy(run),)),
        PageSection("Notes", (*run.warnings, *run.notes)),
        PageSection(
            "Files",
            (
                Links(links_to(BESIDE, folder, address)),
                Fold("The resolved design", design_yaml(design)),
            ),
        ),
    ]
    kept = [section for section in sections if section.parts]
    return f"{run.design} on {design.board.name}", kept, pictures


def _tiles(run: StoredRun) -> Tiles:
    own, joules = run.own, run.own.energy_per_video_j
    return Tiles(
        (
            ("time per video", f"{number(own.s_per_video)} s", own.policy),
            (
                "speed-up over dense",
                f"{own.speedup_over_dense:.2f} x",
                f"dense: {number(run.dense.s_per_video)} s",
            ),
            (
                "energy per video",
                f"{number(joules.value)} J",
                f"{number(joules.low)} to {number(joules.high)} J",
            ),
            ("fits the board", "yes" if run.fits else "NO", _fullest(run)),
        )
    )


def _fullest(run: StoredRun) -> str:
    """What of board and memories is taken most; buffers, which may well be full, left out."""
    shares = [
        (row.needed / row.available, row.what)
        for row in run.fit
        if row.available and (row.unit != "B" or row.what.startswith("memory "))
    ]
    if not run.fits:
        return f"{len(run.misfits)} of {len(run.fit)} rows are not satisfied"
    share, what = max(shares, default=(0.0, "nothing"))
    return f"fullest: {what}, {percent(share)}"


def _headline(run: StoredRun) -> Table:
    return _policies(run, HEADLINE)


def _metrics(run: StoredRun) -> Table:
    return _policies(run, [metric.key for metric in METRICS if metric.key not in HEADLINE])


def _policies(run: StoredRun, keys: Iterable[str]) -> Table:
    metrics = [BY_KEY[key] for key in keys]
    return Table(
        ("policy", *(metric.label for metric in metrics)),
        tuple(
            (policy.policy, *(Figure(each.text(policy), each.of(policy)) for each in metrics))
            for policy in run.policies
        ),
        strong=frozenset(i for i, policy in enumerate(run.policies) if policy.is_chosen),
    )


def _labels(run: StoredRun) -> list[str]:
    """Where the decisions come from, policies with the same ones together."""
    names: dict[str, list[str]] = {}
    for policy in run.policies:
        names.setdefault(policy.decisions, []).append(policy.policy)
    return [f"Decisions of {'; '.join(of)}: {label}." for label, of in names.items()]


def _breakdown(run: StoredRun) -> Table:
    simulated = [policy for policy in run.policies if policy.breakdown_s]
    categories = list(dict.fromkeys(label for each in simulated for label in each.breakdown_s))
    return Table(
        ("seconds of a batch", *(policy.policy for policy in simulated)),
        tuple(
            (
                category,
                *(
                    Figure(
                        number(policy.breakdown_s.get(category, 0.0)),
                        policy.breakdown_s.get(category, 0.0),
                        policy.breakdown_s.get(category, 0.0) / policy.latency_s,
                    )
                    for policy in simulated
                ),
            )
            for category in categories
        ),
    )


def _limits(run: StoredRun) -> tuple[Part, ...]:
    shares: tuple[Callable[[StoredLimit], float], ...] = (
        lambda limit: limit.compute_share,
        lambda limit: limit.memory_share,
        lambda limit: limit.port_share,
        lambda limit: limit.dependency_share,
    )
    table = Table(
        (
            *("phase", "limited by", "of all time"),
            *("compute", "memory", "port", "dependency"),
            *("flips at GB/s", "flips at MACs/cycle"),
        ),
        tuple(
            (
                PHASE_LABELS.get(limit.phase, limit.phase),
                limit.limited_by,
                Figure(percent(limit.share_of_time), limit.share_of_time, limit.share_of_time),
                *(Figure(percent(of(limit)), of(limit), of(limit)) for of in shares),
                *(
                    Figure("-" if flip is None else number(flip, 3), flip)
                    for flip in (limit.flip_gbps, limit.flip_macs_per_cycle)
                ),
            )
            for limit in run.limits
        ),
        text_columns=2,
    )
    rates = "; ".join(
        f"{each.name} sustains {number(each.sustained_gbps)} GB/s"
        for each in run.memories
        if run.own.memory_gb_per_video.get(each.name)
    )
    return (
        table,
        "Shares are of the phase's own time; the largest is the limit. At the bandwidth or the "
        f"array given last, compute and bytes would take the same time. Now: {rates}.",
    )


def _fit(run: StoredRun) -> tuple[Part, ...]:
    rows = [row for row in run.fit if row.needed or row.available]
    table = Table(
        ("what", "of which", "needed", "available", "share"),
        tuple(
            (
                row.what,
                row.detail,
                Figure(amount(row.needed, row.unit), row.needed),
                Figure(amount(row.available, row.unit), row.available),
                Figure(
                    percent(row.needed / row.available) if row.available else "-",
                    row.needed / row.available if row.available else None,
                    row.needed / row.available if row.available else None,
                ),
            )
            for row in rows
        ),
        text_columns=2,
        marked=frozenset(i for i, row in enumerate(rows) if not row.ok),
    )
    return (table,)


def _energy(run: StoredRun) -> Table:
    own = run.own
    total = own.energy_per_video_j.value
    return Table(
        ("component", "kind", "J per video", "share", "at least", "at most"),
        tuple(
            (
                name,
                "by being there" if part.idle else "by what is done",
                Figure(number(part.value), part.value),
                Figure(percent(part.value / total), part.value, part.value / total),
                Figure(number(part.low), part.low),
                Figure(number(part.high), part.high),
            )
            for name, part in own.energy_parts_per_video_j.items()
        ),
        text_columns=2,
    )


def _charts(run: StoredRun, folder: Path) -> tuple[dict[str, Chart], dict[str, bytes]]:
    from carsim.report.figures.breakdown import draw_breakdown
    from carsim.report.figures.comparison import draw_comparison
    from carsim.report.figures.interactive import (
        breakdown_figure,
        comparison_figure,
        utilisation_figure,
    )
    from carsim.report.figures.utilisation import draw_utilisation

    comparison, breakdown = comparison_of(run), breakdown_of(run)
    charts = {
        "comparison": Chart(
            "comparison",
            comparison_figure(comparison),
            "Time, energy and utilisation of every policy",
            "Deep blue: the design's own policy; grey: the bound. Lines around energies: were all "
            "constants off in the same direction.",
        ),
        "breakdown": Chart(
            "breakdown", breakdown_figure(breakdown), "Seconds of a batch by what they are spent on"
        ),
    }
    drawings: dict[str, Drawing] = {
        "comparison": draw_comparison(comparison),
        "breakdown": draw_breakdown(breakdown),
    }
    utilisation = utilisation_of(run, folder)
    if utilisation is not None:
        charts["utilisation"] = Chart(
            "utilisation", utilisation_figure(utilisation), "Utilisation and replay over time"
        )
        drawings["utilisation"] = draw_utilisation(utilisation)
    return charts, as_pictures(drawings)


def as_pictures(drawings: Mapping[str, "Drawing"]) -> dict[str, bytes]:
    """Figures as PNG, by name."""
    from carsim.report.figures.style import style

    pictures = {}
    with style():
        for name, drawing in drawings.items():
            png = io.BytesIO()
            drawing.savefig(png, format="png")
            pictures[name] = png.getvalue()
    return pictures
