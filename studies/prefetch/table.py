"""What fetching ahead across phases is worth, by class of design.

    python -m studies.prefetch.table

Prints the tables of the README from ``designs.csv``, which ``measure.py`` wrote.
"""

from pathlib import Path

import pandas as pd

from studies.table import markdown

DESIGNS = Path(__file__).parent / "designs.csv"
CREDITS = {"none": None, "idle": "credit_idle", "operand": "credit_operand", "tail": "credit_tail"}


def read() -> pd.DataFrame:
    """The designs, with how much longer they take without fetching ahead, in %, and classes."""
    table = pd.read_csv(DESIGNS)
    mapping = table["weight_sharing"].where(table["mapping"] == "batch", table["mapping"])
    bound = pd.cut(
        table["compute_over_bytes"], [0, 0.5, 2, float("inf")], labels=["memory", "both", "compute"]
    )
    longer = 100 * (table["without_cycles"] / table["with_cycles"] - 1)
    return table.assign(longer=longer, kind=mapping, bound=bound)


def classes(table: pd.DataFrame) -> str:
    """How much longer a design takes without, in %, by class; shares above 1 and below -1 %."""
    rows = []
    for by in ("model", "fits", "bound", "kind", "weight_buffer_kib"):
        for (model, value), own in table.groupby(["model", by], observed=True):
            if by != "model" and model == "tiny":
                continue
            label = {"model": "all", "fits": "fits its board" if value else "does not fit"}.get(
                by, f"{by.replace('_', ' ')}: {value}"
            )
            longer = own["longer"]
            spread = [longer.min(), longer.median(), longer.quantile(0.95), longer.max()]
            shares = [100 * (longer > 1).mean(), 100 * (longer < -1).mean()]
            rows.append(
                [
                    str(model),
                    label,
                    str(len(own)),
                    *(f"{each:.2f}" for each in spread),
                    *(f"{each:.0f}" for each in shares),
                ]
            )
    header = ["model", "class", "n", "least", "median", "95 %", "most", "> 1 %", "< -1 %"]
    return markdown(header, rows, texts=2)


def credits(table: pd.DataFrame) -> str:
    """Mean and worst absolute error of a credit against the machine that fetched ahead, in %."""
    rows = []
    for model, own in table.groupby("model"):
        cells = []
        for column in CREDITS.values():
            credit = 0 if column is None else own[column]
            error = 100 * ((own["without_cycles"] - credit) / own["with_cycles"] - 1)
            cells.append(f"{error.abs().mean():.2f} ({error.abs().max():.1f})")
        rows.append([str(model), *cells])
    return markdown(["model", *CREDITS], rows)


if __name__ == "__main__":
    designs = read()
    print(classes(designs), credits(designs), sep="\n\n")
