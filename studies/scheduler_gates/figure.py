"""What DRS costs in gates, cycles and energy, and what it brings, beside more columns."""

from pathlib import Path

import pandas as pd

from carsim.cost.resources import resources
from carsim.design import Design, load_design, override
from carsim.hardware.technology.gates import comparator, rows
from carsim.report.figures import style as plots
from studies.table import markdown

METRICS = ("latency_s", "energy_per_video_j", "lut", "dsp", "limit_mlp", "replay_eligible")

DESIGN = "u280_compute_bound"
WAYS = ("static", "drs", "one column more")
LABELS = {"drs": "DRS", "one column more": "one column more"}
PLACE = ["machine.cores", "policy.batch"]
SHOWN = (
    ("static", "32", "4", "1", "checks of `static`, 4 cores"),
    ("drs", "32", "4", "1", "DRS as the paper has it, 4 cores"),
    ("drs", "32", "4", "0", "DRS without a scan, 4 cores"),
    ("pack", "32", "4", "1", "`pack`, 4 cores"),
    ("drs", "64", "16", "1", "DRS, 64 sequences, 16 cores"),
    ("program", "32", "0", "0", "instruction memory, 32 x 64 of 128 bits"),
    ("comparator", "0", "0", "0", "score > tau in FP32, a core"),
)


def design_of(way: str, cores: int = 4) -> Design:
    """The design of a point."""
    columns = 33 if way == "one column more" else 32
    schedule = "drs" if way == "drs" else "static"
    return override(
        load_design(DESIGN),
        {
            "machine.cores": int(cores),
            "policy.schedule": schedule,
            "machine.array.cols": columns,
        },
    )


def luts(way: str, cores: int = 4) -> dict[str, float]:
    """LUTs by component."""
    found = resources(design_of(way, cores)).by_component
    return {name: amounts.get("lut", 0) for name, amounts in found.items()}


def column_lut(cores: int = 4) -> float:
    """LUTs of one more column in each core, with its share of control."""
    one, none = (sum(luts(way, cores).values()) for way in ("one column more", "static"))
    return one - none


def main(frame: pd.DataFrame, metric: str = "latency_s") -> pd.DataFrame:
    """A metric by way, a row per cores and batch."""
    part = frame[frame["study"] == "study"]
    return part.pivot_table(index=PLACE, columns="way", values=metric)[list(WAYS)]


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """By how much each way is faster than static, in %."""
    return 100 * (table.rdiv(table["static"], axis=0) - 1)


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    gain = gains(main(frame))
    parts, static = luts("drs"), luts("static")
    network, dispatch = parts["core exchange"], parts["dispatch"]
    by_width = _of(frame, "study_network").set_index("machine.exchange_bytes_per_cycle")
    by_column = _of(frame, "study_columns").set_index("machine.array.cols")
    home = by_column["latency_s"][32]
    wide, narrow, least = (100 * (home / by_width["latency_s"][width] - 1) for width in (64, 16, 4))
    columns = int(network // column_lut())
    same = 100 * (home / by_column["latency_s"][32 + columns] - 1)
    slices = by_column["dsp"][33] - by_column["dsp"][32]
    timing = _timing(frame)
    hidden, exposed = (
        100 * (timing["assumed"][at] / timing["nothing"][at] - 1)
        for at in ("attention", "residual")
    )
    more = int((gain["one column more"] > gain["drs"]).sum())
    answer = (
        f"In gates DRS is next to nothing: {dispatch:,.0f} LUTs for four cores and "
        f"32 sequences, where the four checkers that `static` needs take "
        f"{static['dispatch']:,.0f} and one more column in each array {column_lut():,.0f} (and "
        f"{slices:.0f} DSP slices). So where a network between the cores stands anyway, DRS is the "
        f"better use of LUTs. A network built for DRS may be narrow, as only sequences that change "
        f"cores cross it: {network / 16:,.0f} LUTs for 4 bytes a cycle bring {least:.1f} %, "
        f"{network / 4:,.0f} for 16 bytes {narrow:.1f} %. Beyond, columns are the better use: the "
        f"{network:,.0f} LUTs of 64 bytes bring {wide:.1f} %, and buy {columns} columns, which "
        f"bring {same:.1f} % under `static`. A column "
        f"brings more than DRS on {more} of {len(gain)} machines. A dispatcher that takes no time "
        f"at all would gain {hidden:.3f} %, or {exposed:.2f} % where decisions come with the "
        f"residual: the cycles that carsim assumes hardly matter."
    )
    return {
        "answer": answer,
        "units": _units(),
        "map": _map(frame),
        "network": _network(frame),
        "timing": _timing_table(timing),
        "score": _score(frame),
    }


def _of(frame: pd.DataFrame, study: str) -> pd.DataFrame:
    return frame[frame["study"] == study]


def _units() -> str:
    found = {tuple(row[name] for name in KEY): row for row in rows() if row["used_for"] == "grid"}
    lines = [(found[key[:4]], key[4]) for key in SHOWN]
    for row in rows():
        if row["unit"] == "score":
            heads = "one head" if row["heads"] == "1" else f"{row['heads']} heads"
            lines.append((row, f"TAS unit of its own, {heads}, {row['lanes']} products a cycle"))
        elif row["unit"] in ("sorter", "heap"):
            lines.append((row, f"top-k by {row['unit']}, {row['entries']} keys"))
    return markdown(
        ["unit", "LUT", "FF", "BRAM", "DSP", "logic levels", "gate equivalents"],
        [
            [
                text,
                *(f"{int(row[name]):,}" for name in ("lut", "ff")),
                f"{float(row['bram36']):g}",
                row["dsp"],
                row["logic_levels"],
                f"{int(row['gate_equivalents']):,}" if row["gate_equivalents"] else "",
            ]
            for row, text in lines
        ],
    )


KEY = ("unit", "sequences", "cores", "scan_cycles")


def _map(frame: pd.DataFrame) -> str:
    latency, energy = main(frame), main(frame, "energy_per_video_j")
    gain, lines = gains(latency), []
    for cores, batch in latency.index:
        at, parts = (cores, batch), luts("drs", cores)
        lines.append(
            [
                f"{cores:.0f}",
                f"{batch:.0f}",
                f"{latency.loc[at, 'static']:.1f}",
                *(f"{gain.loc[at, way]:+.1f}" for way in WAYS[1:]),
                *(
                    f"{100 * (energy.loc[at, way] / energy.loc[at, 'static'] - 1):+.1f}"
                    for way in WAYS[1:]
                ),
                f"{luts('static', cores)['dispatch']:,.0f}",
                f"{parts['dispatch']:,.0f}",
                f"{parts['core exchange']:,.0f}",
                f"{column_lut(cores):,.0f}",
                f"{sum(parts.values()) / cores:,.0f}",
            ]
        )
    header = [
        *("cores", "batch", "static s", "DRS %", "column %", "DRS J %", "column J %"),
        *("static LUT", "DRS LUT", "network LUT", "column LUT", "LUT a core"),
    ]
    return markdown(header, lines, texts=0)


def _network(frame: pd.DataFrame) -> str:
    part = _of(frame, "study_network").sort_values("machine.exchange_bytes_per_cycle")
    by_column = _of(frame, "study_columns").set_index("machine.array.cols")["latency_s"]
    full = luts("drs")["core exchange"]
    lines = [
        [
            f"DRS, {row['machine.exchange_bytes_per_cycle']:.0f} B a cycle",
            f"{row['latency_s']:.1f}",
            f"{100 * (by_column[32] / row['latency_s'] - 1):+.2f}",
            f"{full * row['machine.exchange_bytes_per_cycle'] / 64:,.0f}",
        ]
        for _, row in part.iterrows()
    ]
    lines += [
        [
            f"static, 32 + {columns - 32:.0f} columns" if columns > 32 else "static",
            f"{seconds:.1f}",
            f"{100 * (by_column[32] / seconds - 1):+.2f}",
            f"{column_lut() * (columns - 32):,.0f}",
        ]
        for columns, seconds in by_column.items()
    ]
    return markdown(["way", "s", "faster than static %", "LUTs that it adds"], lines)


def _timing(frame: pd.DataFrame) -> pd.DataFrame:
    """Seconds by decision_at, a column per dispatcher."""
    part = _of(frame, "study_timing")
    return part.pivot_table(index="machine.decision_at", columns="dispatch", values="latency_s")


def _timing_table(timing: pd.DataFrame) -> str:
    names = {"assumed": "8 + 1 + 4", "gates": "1 + 0 + 1", "nothing": "0 + 0 + 0"}
    lines = [
        [
            f"`{decided}`",
            *(f"{timing.loc[decided, name]:.2f}" for name in names),
            *(
                f"{100 * (timing.loc[decided, 'assumed'] / timing.loc[decided, name] - 1):+.3f}"
                for name in ("gates", "nothing")
            ),
        ]
        for decided in timing.index
    ]
    header = ["`decision_at`", *(f"{each} s" for each in names.values()), "gates %", "nothing %"]
    return markdown(header, lines)


def _score(frame: pd.DataFrame) -> str:
    design = load_design(DESIGN)
    body, video, machine = design.model.body, design.model.video, design.machine
    cycles = body.hidden_size / machine.vector.lanes
    steps = video.tokens_per_frame * (video.frames - 1)
    rows_of_core = design.policy.batch / machine.cores
    seconds = cycles * rows_of_core * body.n_layers * steps
    seconds /= design.board.fabric_clock_mhz * 1e6
    whole = main(frame).loc[(4, 16), "drs"]
    return (
        f"A score takes {cycles:.0f} cycles of the {machine.vector.lanes} vector lanes of a core, "
        f"one head alone {cycles / body.n_heads:.0f}: {seconds:.2f} s of {whole:.1f} s a batch, "
        f"{100 * seconds / whole:.2f} % at most, or {100 * seconds / whole / body.n_heads:.4f} %. "
        f"What the vector unit lacks is a comparator of {comparator().lut:.0f} LUTs a core."
    )


def draw(frame: pd.DataFrame, path: Path) -> None:
    """What each way gains over cores and batch, and the LUTs that it adds."""
    gain = gains(main(frame))
    with plots.style():
        figure = plots.new_figure(9.5, 3.9, "DRS beside one more column", misfit=False)
        left, right = figure.subplots(1, 2)
        places = range(len(gain))
        for shift, way, colour in ((-0.2, "drs", plots.SKY), (0.2, WAYS[2], plots.ORANGE)):
            left.bar([x + shift for x in places], gain[way], 0.38, color=colour, label=LABELS[way])
        left.set_xticks(list(places), [f"{c:.0f}\n{b:.0f}" for c, b in gain.index])
        left.set_xlabel("cores, batch")
        left.set_ylabel("faster than static, %")
        left.set_ylim(top=3.6)
        left.legend(ncols=2, loc="upper center")
        cores = sorted({cores for cores, _ in gain.index})
        lines = {
            "one column more": [column_lut(each) for each in cores],
            "network, 64 B a cycle": [luts("drs", each)["core exchange"] for each in cores],
            "checks of static": [luts("static", each)["dispatch"] for each in cores],
            "DRS": [luts("drs", each)["dispatch"] for each in cores],
        }
        colours = (plots.ORANGE, plots.GREEN, plots.YELLOW, plots.SKY)
        for (name, values), colour in zip(lines.items(), colours, strict=True):
            right.plot(cores, values, marker="o", color=colour, label=name)
        right.set(yscale="log", xlabel="cores", ylabel="LUTs", xticks=cores, ylim=(15, 30_000))
        right.yaxis.set_major_formatter("{x:,.0f}")
        right.legend(ncols=2, loc="lower center")
        figure.savefig(path, dpi=110, metadata={"Software": None})
