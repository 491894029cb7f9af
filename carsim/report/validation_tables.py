"""What a validation says: its tables and sentences, from the numbers of its reports."""

from collections.abc import Sequence

from carsim.report.document import Picture, Section, Table
from carsim.technology.energy import Joules
from carsim.text import number, percent
from carsim.validate.boards import BoardRow
from carsim.validate.overview import Figure, Validation

NULL_MODELS = (
    "Null models: for boards and DRAM 0.9 of the peak bandwidth, for arrays all bytes once over "
    "the bandwidth of the memory, for the paper linear skipping. Between fidelities there is none."
)


def verdict(validation: Validation) -> str:
    """How many figures are within their bounds, and where the naive rival is as near."""
    figures = validation.figures
    within = sum(figure.holds for figure in figures)
    rivalled = [figure.what for figure in figures if figure.beats_null is False]
    text = f"{within} of {len(figures)} figures within their bounds."
    if rivalled:
        text += f" The null model is as near for: {'; '.join(rivalled)}."
    return text


def figures_table(validation: Validation) -> Table:
    """A line per figure: part, figure, bound, null model's figure, verdict."""
    figures = validation.figures
    return Table(
        ("part", "figure", "carsim", "bound", "null model", "verdict"),
        tuple(
            (
                figure.part,
                figure.what,
                _amount(figure, figure.value),
                _amount(figure, figure.bound),
                "" if figure.null is None else _amount(figure, figure.null),
                "within" if figure.holds else "OUTSIDE",
            )
            for figure in figures
        ),
        text_columns=2,
        marked=frozenset(place for place, figure in enumerate(figures) if not figure.holds),
    )


def sections(validation: Validation) -> tuple[Section, ...]:
    """The whole report."""
    return (
        Section("Summary", (verdict(validation), figures_table(validation), NULL_MODELS)),
        _boards(validation),
        _array(validation),
        _dram(validation),
        _paper(validation),
        _fidelity(validation),
    )


def _boards(validation: Validation) -> Section:
    report = validation.boards
    numbered = list(enumerate(report.rows, start=1))
    speed = Table(
        (
            *("#", "system", "board", "model"),
            *("tok/s", "published", "error", "null", "its error", "limit", "scope"),
        ),
        tuple(
            (
                str(place),
                row.published.system,
                row.published.board,
                row.published.model,
                number(row.decode.tokens_per_s),
                number(row.published.tokens_per_s),
                signed(row.error),
                number(row.published.null_tokens_per_s),
                signed(row.null_error),
                f"{row.limit[0]} {percent(row.limit[1])}",
                "in" if row.published.in_scope else "out",
            )
            for place, row in numbered
        ),
        text_columns=4,
    )
    power = Table(
        ("#", "system", "board", "W", "from", "to", "published", "J/token", "from", "to"),
        tuple(
            (
                str(place),
                row.published.system,
                row.published.board,
                *(f"{watts:.1f}" for watts in _interval(row.power_w)),
                "" if row.published.power_w is None else f"{row.published.power_w:g}",
                *(number(joules, 3) for joules in _interval(row.joules_per_token)),
            )
            for place, row in numbered
        ),
        text_columns=3,
    )
    reasons = Table(
        ("#", "system", "why its bottleneck is outside the model"),
        tuple(
            (str(place), row.published.system, row.published.scope_reason)
            for place, row in numbered
            if not row.published.in_scope
        ),
        text_columns=3,
    )
    return Section(
        "Published systems, from their configurations alone",
        (
            Picture("boards.png", "Predicted against published tokens per second, and power"),
            speed,
            "Limit: what bounds the phases in which most of the time is spent. The bound is on the "
            "median error of the systems in scope."
            + _rivals([place for place, row in numbered if _is_rivalled(row)]),
            reasons,
            power,
        ),
    )


def _array(validation: Validation) -> Section:
    report = validation.array
    return Section(
        "Compute array, in cycles of other simulators",
        (
            Table(
                ("simulator", "work", "carsim", "counted", "error", "bound", "null", "its error"),
                tuple(
                    (
                        check.peer,
                        check.work,
                        number(check.carsim_cycles),
                        number(check.reference_cycles),
                        signed(check.error, 3),
                        f"{100 * check.bound:g} %",
                        number(check.null_cycles),
                        signed(check.null_error, 2),
                    )
                    for check in report.peers
                ),
                text_columns=2,
                marked=frozenset(i for i, check in enumerate(report.peers) if not check.holds),
            ),
            f"Of {len(report.products)} small products of SCALE-Sim in three dataflows, "
            f"{sum(check.error == 0 for check in report.products)} are equal to the cycle.",
        ),
    )


def _dram(validation: Validation) -> Section:
    kinds = validation.dram.kinds
    return Section(
        "DRAM, against two cycle-accurate simulators",
        (
            Picture("dram.png", "Efficiency of DRAM by carsim, two simulators and the null model"),
            Table(
                ("kind", "rows", "mean", "worst", "bound", "null: mean", "null: worst"),
                tuple(
                    (
                        kind.name,
                        str(len(kind.checks)),
                        f"{100 * kind.mean:.2f} %",
                        f"{100 * kind.worst:.2f} %",
                        f"{100 * kind.bound:g} %",
                        "" if kind.null_mean is None else f"{100 * kind.null_mean:.2f} %",
                        "" if kind.null_worst is None else f"{100 * kind.null_worst:.2f} %",
                    )
                    for kind in kinds
                ),
                marked=frozenset(i for i, kind in enumerate(kinds) if not kind.passes),
            ),
            "Distance to the nearer of the two simulators, 0 between them.",
        ),
    )


def _paper(validation: Validation) -> Section:
    report = validation.paper
    candidate = report.candidate
    return Section(
        "FastCar's published latencies",
        (
            Picture("paper.png", "Errors of carsim and of the null model, row by row"),
            f"{candidate.batch} sequences on {candidate.cores} cores at {report.clock_mhz:g} MHz; "
            f"mean error of the rows that nothing was fitted to: "
            f"{percent(report.predicted_mean_error)}; {len(report.members)} machines explain the "
            "rows about equally (carsim validate paper lists them).",
            Table(
                (
                    *("row", "status", "published s", "simulated s", "error"),
                    *("ratio of all steps", "null s", "its error"),
                ),
                tuple(
                    (
                        each.row.name,
                        f"fitted: {each.fitted}" if each.fitted else "predicted",
                        f"{each.row.latency_s:.1f}",
                        f"{each.simulated_s:.1f}",
                        signed(each.error),
                        signed(each.other_error),
                        f"{each.null_s:.1f}",
                        signed(each.null_error),
                    )
                    for each in report.results
                ),
                text_columns=2,
            ),
            "Ratio of all steps: error of the same machine with the published ratio taken over all "
            "steps instead of eligible ones." + _rivals(report.null_is_nearer),
            *(f"Fit: {misfit}" for misfit in report.misfits),
        ),
    )


def _fidelity(validation: Validation) -> Section:
    report = validation.fidelity
    rows = []
    for regime in dict.fromkeys(point.regime for point in report.points):
        median, worst = report.differences(regime)
        count = sum(point.regime == regime for point in report.points)
        rows.append((regime, str(count), f"{100 * median:.3f} %", f"{100 * worst:.3f} %"))
    return Section(
        "Fluid against tile fidelity, over drawn designs",
        (
            Picture("fidelity.png", "Shares of designs that differ by no more than a difference"),
            Table(("limited by", "designs", "median", "worst"), tuple(sorted(rows))),
        ),
    )


def _is_rivalled(row: BoardRow) -> bool:
    return row.published.in_scope and not row.beats_null


def _rivals(rows: Sequence[int] | Sequence[str]) -> str:
    """Where the naive rival is nearer; empty if nowhere."""
    return f" The null model is nearer for: {', '.join(map(str, rows))}." if rows else ""


def signed(error: float, digits: int = 1) -> str:
    """A relative error in percent with its sign.

    >>> signed(-0.0312), signed(0.00017, 3)
    ('-3.1 %', '+0.017 %')
    """
    return f"{100 * error:+.{digits}f} %"


def _amount(figure: Figure, value: float) -> str:
    if figure.unit == "count":
        return number(value)
    return f"{100 * value:.2f} %" if value else "0 %"


def _interval(joules: Joules) -> tuple[float, float, float]:
    return joules.value_j, joules.low_j, joules.high_j
