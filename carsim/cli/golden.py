"""``carsim validate golden``: run the reference decoder against golden vectors."""

from collections.abc import Sequence


def check_files(files: Sequence[str]) -> bool:
    """Decode the inputs of golden files, and show how far they are from what the files hold.

    Returns:
        Nothing differs.
    """
    from carsim.base.text import Table, count
    from carsim.cli.console import in_order, output_console, show
    from carsim.decoder.golden import check_golden

    reports = [check_golden(file) for file in files]
    sections: list[tuple[str, list[str | Table]]] = []
    for report in reports:
        lines = []
        for item in report.checks:
            error = f"{item.max_abs_error:.2e}"
            if item.name == "skip":
                error = f"{item.max_abs_error:.0f} differ"
            tolerance = f"{item.tolerance:.0e}" if item.tolerance else "identical"
            lines.append((item.name, error, tolerance, "OK" if item.ok else "FAIL"))
        failed = frozenset(place for place, item in enumerate(report.checks) if not item.ok)
        table = Table(("array", "max abs error", "tolerance", ""), tuple(lines), marked=failed)
        notes: list[str | Table] = [report.note] if report.note else []
        if report.missing:
            arrays = count(len(report.checks), "array")
            names = ", ".join(report.missing)
            notes.append(f"{arrays} checked; not in the file, so not checked: {names}")
        title = f"{report.path.name}: {report.dtype}, TAS {report.tas_form}"
        sections.append((title, [table, *notes]))
    partly = sum(report.ok and not report.reproduced for report in reports)
    reproduced = sum(report.reproduced for report in reports)
    verdict = f"{reproduced} of {count(len(files), 'file')} reproduced"
    if partly:
        verdict += f", {partly} more only as far as their arrays go"
    show(output_console(), in_order([*sections, ("", [verdict])]))
    return all(report.ok for report in reports)
