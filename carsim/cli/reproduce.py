"""``carsim reproduce``: a paper's table and figure beside carsim's."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from carsim.base.text import Table
from carsim.cli.console import Part, progress, say, show_json
from carsim.cli.options import JSON, width_option
from carsim.validate import PAPER_NAMES

if TYPE_CHECKING:
    import pandas as pd

    from carsim.report.figures.plot import Plot
    from carsim.validate.reproduce import ReproducedRow, Reproduction

TABLE = "table.csv"
FIGURES = ("figure.pdf", "figure.png")
NUMBERS = "figure.csv"
CAPTION = "caption.txt"
FILES = (TABLE, *FIGURES, NUMBERS, CAPTION)
"""Files of ``--out``."""

HELP = """Draw a PAPER's table and figure beside carsim's, with the error of each row.

\b
{papers}

Next to carsim stand two rivals that know no machine. The end of the output says what the paper
leaves open, and which of its results are not reproduced.
""".format(papers="\n".join(f"{name:10}{title}" for name, title in PAPER_NAMES.items()))


@click.command(help=HELP)
@click.argument("paper", metavar="PAPER", type=click.Choice([*PAPER_NAMES]))
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help=f"Folder for {', '.join(FILES)}.",
)
@click.option("--overwrite", is_flag=True, help="Replace the folder of an earlier call.")
@width_option("--out", default=7.16)
@JSON
def reproduce(paper: str, out: Path | None, overwrite: bool, width: float, as_json: bool) -> None:
    """Simulate the rows of a paper, print them, and draw them where that is asked for."""
    from carsim.report.folder import check_folder
    from carsim.validate.reproduce import PAPERS

    if out is None and overwrite:
        raise click.UsageError("--overwrite goes with --out")
    if out is not None:
        check_folder(out, overwrite=overwrite, ours=FILES)
    with progress("reproducing") as tell:
        reproduction = PAPERS[paper](tell)
        if out is not None:
            tell("drawing")
            _write(reproduction, out, width_in=width, overwrite=overwrite)
    if as_json:
        document = _document(reproduction)
        document["files"] = [] if out is None else list(FILES)
        show_json(document)
        return
    say(*_output(reproduction))
    if out is not None:
        say(f"Written to {out}: {', '.join(FILES)}")


def _output(found: "Reproduction") -> Iterator[Part]:
    """Both tables, the errors, and what has to be known of them."""
    from carsim.validate.reproduce import ABSENT, UNSAID

    yield Text(found.title, style="bold")
    yield _latencies(found.rows)
    yield _gains(found.rows)
    texts = []
    for name, errors in found.errors.items():
        texts.append(f"{name} {100 * errors.mean:.1f} % ({100 * errors.worst:.1f} %)")
    yield f"Mean error of the latency (worst): {', '.join(texts)}."
    yield from found.notes
    yield Text("The paper does not say:", style="bold")
    yield from (f"- {line}" for line in UNSAID)
    yield Text("Not reproduced:", style="bold")
    yield from (f"- {line}" for line in ABSENT)


def _percent(error: float) -> str:
    return f"{100 * error:+.1f} %"


def _latencies(rows: "tuple[ReproducedRow, ...]") -> Table:
    headings = ("latency of a video", "paper s", "carsim s", "error", "linear skipping", "line")
    cells = (
        (
            row.label,
            f"{row.row.latency_s:.1f}",
            f"{row.latency_s:.1f}",
            _percent(row.error),
            _percent(row.skipping_error),
            _percent(row.line_error),
        )
        for row in rows
    )
    return Table(headings, tuple(cells))


def _gains(rows: "tuple[ReproducedRow, ...]") -> Table:
    """Speed-up and energy over dense decoding."""
    dense = rows[0]
    headings = (
        "speed-up and energy over dense",
        "paper",
        "carsim",
        "error",
        "linear skipping",
        "energy, paper",
        "energy, carsim",
    )
    cells = []
    for row in rows[1:]:
        published = dense.row.latency_s / row.row.latency_s
        ours = dense.latency_s / row.latency_s
        cells.append(
            (
                row.label,
                f"{published:.2f}x",
                f"{ours:.2f}x",
                _percent(ours / published - 1),
                f"{dense.skipping_s / row.skipping_s:.2f}x",
                f"{dense.row.efficiency / row.row.efficiency:.2f}x",
                f"{row.joules / dense.joules:.2f}x",
            )
        )
    return Table(headings, tuple(cells))


def _table(found: "Reproduction") -> "pd.DataFrame":
    """The table as a file: a row per published row."""
    import pandas as pd

    dense = found.rows[0]
    return pd.DataFrame(
        {
            "row": row.row.name,
            "label": row.label,
            "replay_ratio": row.row.replay_ratio,
            "attention": str(row.row.attention.model_dump()),
            "published_s": row.row.latency_s,
            "carsim_s": row.latency_s,
            "carsim_error": row.error,
            "linear_skipping_s": row.skipping_s,
            "linear_skipping_error": row.skipping_error,
            "fitted_line_s": row.line_s,
            "fitted_line_error": row.line_error,
            "published_speedup": dense.row.latency_s / row.row.latency_s,
            "carsim_speedup": dense.latency_s / row.latency_s,
            "published_energy": dense.row.efficiency / row.row.efficiency,
            "carsim_energy": row.joules / dense.joules,
            "source": row.row.source,
        }
        for row in found.rows
    )


def reproduction_plot(found: "Reproduction") -> "Plot":
    """The figure of a reproduction."""
    from carsim.report.figures.reproduced import Line, Published, reproduced_plot
    from carsim.validate.paper import LINE, SKIPPING

    published = []
    for row in found.rows:
        window = getattr(row.row.attention, "window", None)
        published.append(
            Published(
                label=row.label,
                group="full attention" if window is None else f"window {window}",
                ratio=row.row.replay_ratio,
                latency_s=row.row.latency_s,
                ours_s=row.latency_s,
                errors={
                    "carsim": row.error,
                    SKIPPING: row.skipping_error,
                    LINE: row.line_error,
                },
            )
        )
    lines = [Line(curve.name, curve.ratios, curve.latencies_s) for curve in found.curves]
    return reproduced_plot(found.title, published, lines)


def _write(found: "Reproduction", out: Path, width_in: float, overwrite: bool) -> None:
    """Write table, figure, its numbers and its caption.

    Args:
        found: The reproduction.
        out: The folder.
        width_in: Width of the figure, inches.
        overwrite: Replace the folder of an earlier call.
    """
    from carsim.metrics.columns import csv_text
    from carsim.report.figures.draw import on_paper, save
    from carsim.report.folder import whole_folder
    from carsim.report.plots import numbers

    plot = on_paper(reproduction_plot(found), width_in, "paper")
    with whole_folder(out, overwrite=overwrite, ours=FILES) as folder:
        (folder / TABLE).write_text(csv_text(_table(found)), encoding="utf-8")
        for name in FIGURES:
            save(plot, folder / name)
        (folder / NUMBERS).write_text(csv_text(numbers(plot)), encoding="utf-8")
        (folder / CAPTION).write_text(_caption(found, plot), encoding="utf-8")


def _caption(found: "Reproduction", plot: "Plot") -> str:
    """What the figure shows, and where its numbers come from."""
    errors = found.errors["carsim"]
    return "\n".join(
        (
            f"{found.title}. {plot.alt}. {plot.caption}",
            f"Mean error of carsim {100 * errors.mean:.1f} %, worst {100 * errors.worst:.1f} %. "
            f"{found.notes[0]}",
            f"Design {found.design.name}; decisions drawn independently at the published ratios "
            f"of eligible steps, seed 0; carsim {version('carsim')}.",
            "",
        )
    )


def _document(found: "Reproduction") -> dict[str, Any]:
    """All of it as plain data."""
    from carsim.validate.reproduce import ABSENT, UNSAID

    errors = {}
    for name, of_name in found.errors.items():
        errors[name] = {"mean": of_name.mean, "worst": of_name.worst, "bias": of_name.bias}
    return {
        "paper": found.title,
        "design": found.design.name,
        "rows": _table(found).to_dict("records"),
        "errors": errors,
        "notes": list(found.notes),
        "unsaid": list(UNSAID),
        "not_reproduced": list(ABSENT),
    }
