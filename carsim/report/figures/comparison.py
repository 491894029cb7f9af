"""The policies of a run beside each other: time, energy, and how busy cores and memory are."""

from typing import TYPE_CHECKING, Any

from carsim.base.text import count, number
from carsim.metrics import METRICS
from carsim.report.figures import style
from carsim.report.figures.plot import Panel, Plot, Series

if TYPE_CHECKING:
    from carsim.report.stored import StoredRun


def comparison_plot(run: "StoredRun") -> Plot:
    """Three panels side by side, a line per simulated policy; each with the bound of its own."""
    policies = [policy for policy in run.policies if not policy.is_bound]
    lines = range(len(policies))
    own = policies.index(run.own)
    time = [
        Series(
            METRICS["seconds_per_video"].title,
            [policy.seconds_per_video for policy in policies],
            lines,
            "bar",
            tuple(style.BLUE if line == own else style.SKY for line in lines),
            text=[f"{number(p.seconds_per_video)} s ({p['speedup']:.2f}x)" for p in policies],
        )
    ]
    name, videos = "bound_latency_s", run.videos_per_batch
    # Runs of carsim 0.1 have no bounds.
    bounds = [policy[name] / videos if policy.get(name) else None for policy in policies]
    if any(bounds):
        look: dict[str, Any] = {"marker": "|", "size": 16}
        title = METRICS[name].title
        time.append(Series(title, bounds, lines, "points", style.VERMILION, **look))
    energy = Series(
        METRICS["energy_per_video_j"].title,
        [policy["energy_per_video_j"] for policy in policies],
        lines,
        "points",
        style.BLUE,
        low=[policy["energy_per_video_low_j"] for policy in policies],
        high=[policy["energy_per_video_high_j"] for policy in policies],
    )
    shares = [
        Series(
            METRICS[name].title,
            [100 * policy[name] for policy in policies],
            [line + offset for line in lines],
            "bar",
            colour,
            height=0.32,
            hatch=hatch,
        )
        for name, offset, colour, hatch in (
            ("busy", -0.17, style.ORANGE, ""),
            ("memory_utilisation", 0.17, style.GREEN, "/"),
        )
    ]
    names = tuple(policy.policy for policy in policies)
    return Plot(
        f"{run.design} on {run.spec().board.name}, {run.spec().model.name}, "
        f"{count(run.sequences_per_batch, 'sequence')} in lockstep",
        (
            Panel(
                run.named(METRICS["seconds_per_video"].heading),
                tuple(time),
                categories=names,
                share=1.25,
            ),
            Panel(
                run.named(METRICS["energy_per_video_j"].heading),
                (energy,),
                categories=names,
                x_range=(0.0, 1.05 * max(energy.high)),
            ),
            Panel("utilisation [%]", tuple(shares), categories=names, x_range=(0, 100)),
        ),
        alt="Time, energy and utilisation of every policy",
        caption="Deep blue: the design's own policy. Speed-ups are over dense decoding. Upright "
        "mark: the bound for schedules that give whole sequences to these cores. Lines around "
        "energies: bandwidth and all constants off in the same direction.",
        size_in=(11, 1.5 + 0.45 * len(policies)),
        shares="y",
        strong=own,
        misfit=not run.fits,
    )
