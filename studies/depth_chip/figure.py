"""Which cause makes W4A4 gain twice on ViT-S and five times on ViT-L, on one 28 nm chip."""

from collections.abc import Mapping
from math import hypot, log
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes

from carsim.report.figures import style as plots
from carsim.validate.peers import data_rows
from studies.drawing import drawing
from studies.run import text_of
from studies.table import markdown

METRICS = (
    *("latency_s", "attention_s", "mlp_s", "convolution_s"),
    *("limit_convolution", "limit_mlp", "limit_attention", "energy_per_video_j", "area_mm2"),
)

SMALL, LARGE = "ViT-S 252", "ViT-L 1022"
"""Pictures whose gains are published, at 256 and 1024 pixels."""

OTHERS = ("ViT-S 1022", "ViT-L 252")
"""Pictures whose gains tell the causes apart."""

NEAR = 0.15
"""Relative distance to both published gains within which a cause explains them."""

ARRAY = "array"
"""Column of the array of the 4-bit machine in ``study.yaml``, made of its precision."""


CROWDED = ("study_spilled", "study_softmax", "study_elements")
"""Causes whose lines end where others do."""


class Cause(NamedTuple):
    """A cause that one study file varies.

    Attributes:
        title: Name of the cause.
        axis: Axis that varies it.
        unit: Unit of its values.
        colour: Colour of its line.
    """

    title: str
    axis: str
    unit: str
    colour: str


CAUSES = {
    "study": Cause("array alone", ARRAY, "multipliers", plots.GREY),
    "study_buffers": Cause("FP32 read again", "buffers", "", plots.BLUE),
    "study_spilled": Cause("activations in 32 bits", "buffers", "", plots.SKY),
    "study_softmax": Cause("elements and softmax", "machine.vector.lanes", "lanes", plots.ORANGE),
    "study_elements": Cause("elements", "machine.vector.lanes", "lanes", plots.GREEN),
    "study_kernels": Cause(
        "start of each product", "machine.overheads.kernel_cycles", "cycles", plots.PURPLE
    ),
}


def published(what: str) -> float:
    """A figure of QuartDepth."""
    for row in data_rows("diffusion_published.csv"):
        if (row["paper"], row["what"]) == ("QuartDepth", what):
            return float(row["value"])
    raise ValueError(f"QuartDepth states no {what}")


def published_gains() -> dict[str, float]:
    """Picture -> published gain of W4A4 over FP32."""
    small = published("W4A4 ViT-S 256") / published("FP32 ViT-S 256")
    return {SMALL: small, LARGE: published("W4A4 ViT-L 1024 speed-up")}


def of_array(precision: str) -> str:
    """Multipliers of an array that a precision of ``study.yaml`` names.

    >>> of_array("W4A4 24 x 24")
    '576'
    """
    _, rows, _, columns = precision.split()
    return str(int(rows) * int(columns))


def gains(frame: pd.DataFrame, study: str) -> pd.DataFrame:
    """Gains of W4A4 over FP32: a row for each value of the cause, in the order of the file.

    Columns are the pictures, and ``fp32_ms`` and ``w4a4_ms`` of ViT-S.
    """
    cause = CAUSES[study]
    points = frame[frame["study"] == study].copy()
    is_plain = points["precision"] == "FP32"
    if study == "study":
        own = points[points["precision"].str.startswith("W4A4 ")].copy()
        own[ARRAY] = own["precision"].map(of_array)
        quantised = own.pivot(index=ARRAY, columns="picture", values="latency_s")
        plain = points[is_plain].set_index("picture")["latency_s"]
        order = own[ARRAY].drop_duplicates()
    else:
        seconds = points.pivot(
            index=[cause.axis, "precision"], columns="picture", values="latency_s"
        )
        plain = seconds.xs("FP32", level="precision")
        quantised = seconds.xs("W4A4", level="precision")
        order = points[cause.axis].drop_duplicates()
    table = (plain / quantised).loc[order]
    small = plain[SMALL] if study == "study" else plain.loc[order, SMALL]
    table["fp32_ms"] = 1000 * small
    table["w4a4_ms"] = 1000 * quantised.loc[order, SMALL]
    return table


def distance(row: pd.Series) -> float:
    """Distance of both gains from the published ones, in logarithms."""
    stated = published_gains()
    return hypot(*(log(row[picture] / stated[picture]) for picture in (SMALL, LARGE)))


def nearest(frame: pd.DataFrame) -> dict[str, pd.Series]:
    """Study -> the row of its cause that is nearest to the published gains."""
    found = {}
    for study in CAUSES:
        table = gains(frame, study)
        found[study] = table.loc[table.apply(distance, axis=1).idxmin()]
    return found


def explains(row: pd.Series) -> bool:
    """Both gains are near the published ones."""
    stated = published_gains()
    return all(abs(row[picture] / stated[picture] - 1) <= NEAR for picture in (SMALL, LARGE))


def value_of(study: str, row: pd.Series) -> str:
    """Value of a cause in words.

    >>> value_of("study_elements", pd.Series({"a": 1}, name=12.0))
    '12 lanes'
    """
    cause = CAUSES[study]
    name = row.name if isinstance(row.name, str) else f"{row.name:,.0f}"
    return f"{name} {cause.unit}".strip()


def sentences(found: Mapping[str, pd.Series]) -> str:
    """The finding."""
    alone = found["study"]
    elements = found["study_elements"]
    others = [CAUSES[study].title for study, row in found.items() if explains(row)]
    text = (
        f"The size of the array is not the reason: both models gain alike from it, "
        f"{alone[SMALL]:.1f} and {alone[LARGE]:.1f} times in the nearest case. "
        f"Of the six causes below, {len(others)} come within {NEAR:.0%} of both gains: "
        f"{' and '.join(f'*{title}*' for title in others)}. With "
        f"{value_of('study_elements', elements)} for polishing, norms and activation functions, "
        f"ViT-S gains {elements[SMALL]:.1f} times and ViT-L {elements[LARGE]:.1f} times. Two "
        f"parameters were fitted to two gains, so this shows what is possible, not what the chip "
        f"does."
    )
    return text.replace("15%", "15 %")


def polishing_text(frame: pd.DataFrame) -> str:
    """How long polishing takes beside the array, on few and on many lanes."""
    points = frame[frame["study"] == "study_elements"]
    seconds = points.pivot(
        index=["machine.vector.lanes", "precision"], columns="picture", values="latency_s"
    )
    polished = seconds.xs("W4A4", level="precision")
    plain = seconds.xs("W4A4 unpolished", level="precision")
    longer = polished / plain
    lanes = nearest(frame)["study_elements"].name
    most = longer.index.max()
    return (
        f"With {lanes:.0f} lanes, ViT-S at 252 x 252 takes {longer.loc[lanes, SMALL]:.2f} times as "
        f"long with polishing as without, and ViT-L at 1022 x 1022 "
        f"{longer.loc[lanes, LARGE]:.2f} times. With {most:.0f} lanes, the array hides "
        f"polishing ({longer.loc[most, SMALL]:.2f} and {longer.loc[most, LARGE]:.2f} times), but "
        f"ViT-S gains {gains(frame, 'study_elements').loc[most, SMALL]:.1f}."
    )


def causes_table(found: Mapping[str, pd.Series]) -> str:
    """The nearest point of each cause."""
    rows = []
    for study, row in found.items():
        cells = [CAUSES[study].title, value_of(study, row)]
        cells += [f"{row[picture]:.2f}" for picture in (SMALL, LARGE)]
        cells += [f"{row['fp32_ms']:.1f}", f"{row['w4a4_ms']:.1f}"]
        cells += [f"{row[picture]:.2f}" for picture in OTHERS]
        rows.append(cells)
    stated = published_gains()
    small_ms = [1000 / published(f"{name} ViT-S 256") for name in ("FP32", "W4A4")]
    rows.append(
        [
            *("published", "", f"{stated[SMALL]:.2f}", f"{stated[LARGE]:.2f}"),
            *(f"{each:.1f}" for each in small_ms),
            *("not found", "not found"),
        ]
    )
    header = ["cause", "nearest value", SMALL, LARGE, "FP32 [ms]", "W4A4 [ms]", *OTHERS]
    return markdown(header, rows)


def area_table(frame: pd.DataFrame) -> str:
    """Areas of three machines with equal buffers and lanes."""
    points = frame[(frame["study"] == "study") & (frame["picture"] == SMALL)]
    areas = points.set_index("precision")["area_mm2"]
    joules = points.set_index("precision")["energy_per_video_j"]
    machines = {
        "FP32": ("FP32", "288, as FP16"),
        "W4A8": ("W4A8", "576"),
        "W4A4": ("W4A4 24 x 24", "576"),
        "W4A4, wide": ("W4A4 48 x 32", "1,536"),
    }
    rows = []
    for name, (precision, multipliers) in machines.items():
        stated = f"{published(f'{name} area'):.1f}" if "wide" not in name else ""
        cells = [name, multipliers, f"{areas[precision]:.1f}", stated]
        rows.append([*cells, f"{1000 * joules[precision]:.0f}"])
    header = ["machine", "multipliers", "mm2", "published [mm2]", "mJ an image of ViT-S"]
    return markdown(header, rows)


def fit_text(frame: pd.DataFrame) -> str:
    """How many machines fit the area of the published chip, as carsim counts area."""
    fits = int((frame["status"] == "ok").sum())
    return (
        f"As carsim counts area, {fits} of the {len(frame)} machines of this study fit the "
        "published chip of W4A4. Their simulated times do not depend on area, so all of them are "
        "compared."
    )


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the pages quote."""
    found = nearest(frame)
    return {
        "answer": sentences(found),
        "causes": causes_table(found),
        "areas": area_table(frame),
        "fit": text_of(fit_text(frame)),
        "polishing": text_of(polishing_text(frame)),
    }


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Gain on ViT-L over gain on ViT-S, a line for each cause, and the published point."""
    title = "Gain of W4A4 over FP32 on a 28 nm chip: six causes, and what was published"
    with drawing(path, 7.2, 5.2, title) as figure:
        axes = figure.subplots()
        for study, cause in CAUSES.items():
            _draw_cause(axes, gains(frame, study), study, cause)
        stated = published_gains()
        axes.plot(stated[SMALL], stated[LARGE], "*", color=plots.VERMILION, markersize=16)
        axes.annotate(
            "published",
            (stated[SMALL], stated[LARGE]),
            xytext=(-8, 10),
            textcoords="offset points",
            ha="right",
            color=plots.VERMILION,
        )
        ends = [1.0, 10.0]
        axes.plot(ends, ends, ":", color=plots.MIDDLE_GREY, label="equal gains")
        axes.set(xscale="log", yscale="log", xlim=(1, 10), ylim=(1.4, 12))
        ticks = [1, 2, 3, 5, 10]
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(ticks, [str(tick) for tick in ticks])
            axis.set_ticks([], minor=True)
        axes.set_xlabel("gain on ViT-S at 252 x 252")
        axes.set_ylabel("gain on ViT-L at 1022 x 1022")
        figure.legend(loc="outside lower center", ncols=4)


def _draw_cause(axes: Axes, table: pd.DataFrame, study: str, cause: Cause) -> None:
    """The line of a cause, with the values at its ends."""
    axes.plot(table[SMALL], table[LARGE], "o-", color=cause.colour, label=cause.title, markersize=4)
    # The weak ends of causes with equal arrays lie in one place.
    ends = [0] if study in CROWDED else [0, len(table) - 1]
    for number in ends:
        row = table.iloc[number]
        axes.annotate(
            value_of(study, row),
            (row[SMALL], row[LARGE]),
            xytext=(4, -9),
            textcoords="offset points",
            fontsize=7,
            color=cause.colour,
        )
