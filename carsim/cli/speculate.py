"""``carsim speculate``: what judging several proposed tokens in one pass gains on a design."""

from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError, MisfitError
from carsim.cli.options import DESIGNS, TRACES, overriding

if TYPE_CHECKING:
    from carsim.decisions.trace import Trace
    from carsim.machine import Speculation


@click.command()
@click.argument("design", shell_complete=DESIGNS)
@click.option(
    "--trace",
    "trace_file",
    metavar="FILE",
    shell_complete=TRACES,
    required=True,
    help="Trace of replay decisions; it gives the video, and how many tokens stay.",
)
@click.option(
    "--proposed",
    type=click.IntRange(1, 1024),
    metavar="M",
    multiple=True,
    default=(2,),
    show_default=True,
    help="Tokens that a pass judges, a divisor of a frame's; may be repeated.",
)
@click.option(
    "--acceptance",
    type=click.FloatRange(0, 1),
    metavar="X",
    help="Chance of each proposal  [default: the share of the trace's tokens that stay]",
)
@click.option("--dense", is_flag=True, help="Nothing replays.")
@overriding("Change the design, say machine.activation_buffer_kib=512")
@click.option("--allow-misfit", is_flag=True, help="Go on with a design that does not fit.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, and nothing else.")
def speculate(
    design: str,
    trace_file: str,
    proposed: tuple[int, ...],
    acceptance: float | None,
    dense: bool,
    overrides: tuple[str, ...],
    allow_misfit: bool,
    as_json: bool,
) -> None:
    """Decode on DESIGN with the tokens of the frame before as proposals, M of them a pass.

    Shows what a pass takes, how many tokens it must yield to pay, the acceptance at which it does,
    and the gain over the same policy without proposals. Exit status 2 for bad input, 3 for a
    design that has no room for M tokens of each sequence at a time.
    """
    from carsim.decisions.trace import load_trace
    from carsim.design import load_design
    from carsim.machine import speculate as simulate

    loaded, trace = load_design(design, overrides), load_trace(trace_file)
    chance, label = _acceptance(acceptance, trace)
    found = [simulate(loaded, [trace], most, replays=not dense) for most in proposed]
    for each in found:
        if not each.fit.fits and not allow_misfit:
            raise MisfitError(
                f"{loaded.name}, {each.proposed} tokens a pass",
                "does not fit: " + "; ".join(each.fit.misfits),
                "change the design, or pass --allow-misfit to simulate it all the same",
            )
    report = {
        "design": loaded.name,
        "trace": trace.title,
        "policy": found[0].plain.variant.name,
        "decisions": found[0].plain.batches.label,
        "acceptance": chance,
        "acceptance_from": label,
        "plain_s": found[0].plain.latency_s,
        "passes": [_row(each, chance) for each in found],
    }
    if as_json:
        from carsim.cli.console import show_json

        show_json(report)
        return
    _print(report)


def _acceptance(given: float | None, trace: "Trace") -> tuple[float, str]:
    """The chance of a proposal, and where it comes from."""
    from carsim.machine import tokens_kept

    if given is not None:
        return given, "stated"
    share = tokens_kept([trace])
    if share is None:
        raise InputError(
            "--acceptance",
            f"{trace.name} does not say how many of its tokens stay from frame to frame",
            "give a chance, such as 0.5",
        )
    return share, f"share of tokens that stay in {trace.name}, taken as independent"


def _row(found: "Speculation", acceptance: float) -> dict[str, Any]:
    passes = found.passes_at(acceptance)
    tokens = found.video.n_steps - found.video.tokens_per_frame
    return {
        "proposed": found.proposed,
        "fits": found.fit.fits,
        "pass_ms": 1e3 * found.pass_seconds,
        "tokens_per_pass": tokens / passes,
        "tokens_to_break_even": found.tokens_to_break_even,
        "acceptance_to_break_even": found.acceptance_to_break_even,
        "latency_s": found.seconds(passes),
        "speedup": found.speedup(passes),
        "speedup_all_accepted": found.speedup(found.passes_at(1.0)),
        "energy_j": found.energy(passes).board.value_j,
    }


def _print(report: dict[str, Any]) -> None:
    from carsim.base.text import Table
    from carsim.cli.console import output_console, show

    headings = (
        *("m", "pass [ms]", "tokens a pass", "to pay", "chance to pay"),
        *("batch [s]", "gain", "if all accepted", "board [J]", "fits"),
    )
    rows = []
    for row in report["passes"]:
        needed = row["acceptance_to_break_even"]
        rows.append(
            (
                str(row["proposed"]),
                f"{row['pass_ms']:.1f}",
                f"{row['tokens_per_pass']:.2f}",
                f"{row['tokens_to_break_even']:.2f}",
                "never" if needed is None else f"{needed:.2f}",
                f"{row['latency_s']:,.1f}",
                f"{row['speedup']:.3f}",
                f"{row['speedup_all_accepted']:.3f}",
                f"{row['energy_j']:,.0f}",
                "yes" if row["fits"] else "no",
            )
        )
    plain = f"{report['plain_s']:,.1f} s a batch without proposals"
    words = (
        f"{report['design']}: {report['policy']}, {plain}. A proposal is accepted with chance "
        f"{report['acceptance']:.3f} ({report['acceptance_from']}). Decisions: "
        f"{report['decisions']}.",
        "To pay: tokens that a pass of m rows must yield to take no longer than decoding a token a "
        "step, and the chance of a proposal at which it does.",
    )
    show(output_console(), [words[0], Table(headings, tuple(rows), text_columns=0), words[1]])
