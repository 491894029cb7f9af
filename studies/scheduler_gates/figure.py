"""What DRS costs in gates, cycles and energy, and what it brings, beside more columns."""

from pathlib import Path

import pandas as pd

from carsim.design import Design, load_design, override
from carsim.hardware.technology.gates import dispatcher
from carsim.report.figures import style as plots
from carsim.report.figures.policy_looks import policy_look
from studies.drawing import drawing

METRICS = ("latency_s", "energy_per_video_j", "lut", "dsp", "limit_mlp", "replay_eligible")

DESIGN = "u280_compute_bound"
WAYS = ("static", "drs", "one column more")
LABELS = {"drs": "DRS", "one column more": "one column more"}
PLACE = ["machine.cores", "policy.batch"]


def design_of(way: str, cores: int = 4) -> Design:
    """The design of a point."""
    columns = 33 if way == "one column more" else 32
    schedule = "drs" if way == "drs" else "static"
    return override(
        load_design(DESIGN),
        {"machine.cores": int(cores), "policy.schedule": schedule, "machine.array.cols": columns},
    )


def luts(way: str, cores: int = 4) -> dict[str, float]:
    """LUTs by component."""
    design = design_of(way, cores)
    found = design.board.technology.resources(design).by_component
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
    answer = f"""\
DRS takes almost no gates: {dispatch:,.0f} LUTs for four cores and 32 sequences. `static` takes
{static["dispatch"]:,.0f}, `tuned` {dispatcher("tuned", 32, 4).lut:,.0f}, and one more column in
each array {column_lut():,.0f} (and {slices:.0f} DSP slices). DRS also needs a network between
the cores. If the network exists anyway, DRS is the better use of LUTs. A network built only for
DRS may be narrow, because only sequences that change cores cross it: {network / 16:,.0f} LUTs
for 4 bytes a cycle gain {least:.1f} %, {network / 4:,.0f} for 16 bytes {narrow:.1f} %. With more
LUTs, columns are the better use: 64 bytes take {network:,.0f} LUTs and gain {wide:.1f} %, and
{columns} columns for these LUTs gain {same:.1f} % under `static`. A column gains more than DRS
on {more} of {len(gain)} machines. The assumed cycles of the dispatcher hardly matter: a
dispatcher that takes no time would gain {hidden:.3f} %, or {exposed:.2f} % where decisions are
known only at the residual."""
    return {"answer": answer}


def _of(frame: pd.DataFrame, study: str) -> pd.DataFrame:
    return frame[frame["study"] == study]


def _timing(frame: pd.DataFrame) -> pd.DataFrame:
    """Seconds by decision_at, a column per dispatcher."""
    part = _of(frame, "study_timing")
    return part.pivot_table(index="machine.decision_at", columns="dispatch", values="latency_s")


def draw(frame: pd.DataFrame, path: Path) -> None:
    """What each way gains over cores and batch, and the LUTs that it adds."""
    gain = gains(main(frame))
    with drawing(path, 9.5, 3.9, "DRS beside one more column") as figure:
        left, right = figure.subplots(1, 2)
        places = range(len(gain))
        of_drs = policy_look("FastCar + DRS").colour
        for shift, way, colour in ((-0.2, "drs", of_drs), (0.2, WAYS[2], plots.VERMILION)):
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
            "DRS": [luts("drs", each)["dispatch"] for each in cores],
        }
        colours = (plots.VERMILION, plots.BLACK, of_drs)
        for (name, values), colour in zip(lines.items(), colours, strict=True):
            right.plot(cores, values, marker="o", color=colour, label=name)
        right.set(yscale="log", xlabel="cores", ylabel="LUTs", xticks=cores, ylim=(15, 30_000))
        right.yaxis.set_major_formatter("{x:,.0f}")
        right.legend(ncols=2, loc="lower center")
