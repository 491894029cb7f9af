"""carsim beside ZigZag, AccelForge and GenZ, each as a user would ask it, in one run.

    python studies/speed/peers.py [--rounds 3] [--only GenZ] [--venvs ~/.cache/carsim-peers]
                                  [--python312 PATH]

Every peer gets an environment of its own from PyPI, outside of the checkout. In each round, carsim
and the peers take their turns, each in a new process that warms up first (``peer_runs``); kept is
the median over rounds of processor seconds, so that neither start-up nor waiting for a busy machine
counts. Four questions are asked: one layer, one step of 32 layers, a whole video, a sweep of 100
designs. Tools cover different things, which the column ``covers`` says. A ratio is that of the time
of a row over the time of another, and ``ratio_says`` names both and what of them differs.

Writes ``peers.csv``. ``--only`` measures carsim and these peers; rows of other peers stay as they
are, with their dates. So do those of a peer that cannot be installed or run, with a note that says
why.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COLUMNS = (
    "label",
    "question",
    "tool",
    "version",
    "date",
    "done",
    "covers",
    "cpu_s",
    "least_cpu_s",
    "most_cpu_s",
    "cycles",
    "ratio",
    "ratio_says",
    "note",
)
LAYER = "a layer of LLaMA-2-7B, one token: 4 products 4096 x 4096, 3 of 4096 x 11008"
STEP = "a step: 32 layers, one token of each of 8 sequences, context 1024"
VIDEO = "a video: 2,048 steps of 32 layers, 8 sequences"
SWEEP = "100 designs: ten arrays times ten bandwidths"
MAPPED = "cycles and energy of matrix products in every memory level; no attention, no replay"
ROOFLINE = "bytes and operations over rates, attention included; no mapping, schedule or replay"
WHOLE = (
    "attention, replay decisions, schedule on 4 cores, contention for memory, prefill and head; "
    "mapping given"
)


@dataclass(frozen=True)
class Tool:
    """A program that is measured.

    Attributes:
        name: Its name.
        requirements: What pip installs; nothing for carsim, which runs in this environment.
        script: Prints one JSON line: version, import_s, and seconds and cycles of each of its runs.
        needs_312: Python 3.11 is too old for it.
    """

    name: str
    script: str
    requirements: tuple[str, ...] = ()
    needs_312: bool = False


TOOLS = (
    Tool("carsim", "time_carsim.py"),
    Tool("ZigZag", "time_zigzag.py", ("zigzag-dse==3.9.1", "six")),
    Tool("AccelForge", "time_accelforge.py", ("accelforge==1.0.467",), needs_312=True),
    Tool("GenZ", "time_genz.py", ("genz-llm==0.0.16",)),
)


@dataclass(frozen=True)
class Asked:
    """A row: something that one tool is asked.

    Attributes:
        label: Question, tool and what was done, in short.
        question: Rows of one question are beside each other.
        tool: Which.
        done: What was done, in words.
        covers: What the answer has in it.
        over: The run whose time divides that of this one; empty: no ratio.
        says: What the ratio divides by what.
    """

    label: str
    question: str
    tool: str
    done: str
    covers: str
    over: str = ""
    says: str = ""


ASKED = {
    "zigzag_search": Asked(
        "a layer: ZigZag, seven searches",
        LAYER,
        "ZigZag",
        "searches a mapping for each of the seven products anew, lpf_limit 6 (its default); one "
        "call of its API, which reads and writes files",
        MAPPED,
        "zigzag_distinct",
        "ZigZag searching seven products over ZigZag searching two with lpf_limit 2",
    ),
    "zigzag_distinct": Asked(
        "a layer: ZigZag, two short searches",
        LAYER,
        "ZigZag",
        "searches a mapping for the two distinct shapes once, lpf_limit 2; one call of its API",
        MAPPED,
        "carsim_layer_1",
        "units differ: a search of mappings over carsim's layer-step, whose mapping is given",
    ),
    "zigzag_evaluation": Asked(
        "a layer: ZigZag, two evaluations",
        LAYER,
        "ZigZag",
        "evaluates a given mapping of each of the two shapes: its cost model alone, no search",
        MAPPED,
        "carsim_products",
        "ZigZag's evaluation over carsim's closed form of the same two products, mappings given; "
        "ZigZag's has energy and all memory levels",
    ),
    "accelforge_search": Asked(
        "a layer: AccelForge, seven searches",
        LAYER,
        "AccelForge",
        "searches a mapping for each of the seven products: two searches, counted 4 and 3 times",
        MAPPED,
        "accelforge_distinct",
        "AccelForge searching seven products over AccelForge searching two",
    ),
    "accelforge_distinct": Asked(
        "a layer: AccelForge, two searches",
        LAYER,
        "AccelForge",
        "searches a mapping for the two distinct shapes once",
        MAPPED,
        "carsim_layer_1",
        "units differ: a search of mappings over carsim's layer-step, whose mapping is given",
    ),
    "carsim_products": Asked(
        "a layer: carsim, two products",
        LAYER,
        "carsim",
        "solves the two distinct products by closed form, as carsim config array --peer zigzag "
        "does",
        "cycles of matrix products, one memory; no attention, no energy",
    ),
    "carsim_layer_1": Asked(
        "a layer: carsim, all of it, one sequence",
        LAYER,
        "carsim",
        "a layer-step of one sequence, each of its four phases solved anew: a 32nd of a step",
        WHOLE,
    ),
    "carsim_layer_8": Asked(
        "a layer: carsim, all of it, eight",
        LAYER,
        "carsim",
        "the same of eight sequences in lockstep",
        WHOLE,
    ),
    "genz_step": Asked(
        "a step: GenZ",
        STEP,
        "GenZ",
        "one call of decode_moddeling",
        ROOFLINE,
        "carsim_step",
        "GenZ's step over carsim's step, equal phases once",
    ),
    "carsim_step": Asked(
        "a step: carsim",
        STEP,
        "carsim",
        "one step as a user asks for it: hardware made from the design, equal phases solved once",
        WHOLE,
    ),
    "carsim_step_plainly": Asked(
        "a step: carsim, phases one by one",
        STEP,
        "carsim",
        "the same, each phase of each layer solved anew",
        WHOLE,
        "genz_step",
        "carsim's step, all phases anew, over GenZ's step",
    ),
    "genz_video": Asked(
        "a video: GenZ, 2,048 steps",
        VIDEO,
        "GenZ",
        "asked once per context: every 64th of 2,048 calls was made, times 64",
        ROOFLINE,
        "carsim_video",
        "GenZ's 2,048 steps over carsim's video",
    ),
    "carsim_video": Asked(
        "a video: carsim",
        VIDEO,
        "carsim",
        "one design point, hardware made from the design, the DRAM's schedule found before",
        WHOLE,
    ),
    "genz_sweep": Asked(
        "100 designs: GenZ, a step each",
        SWEEP,
        "GenZ",
        "100 systems, one step each",
        ROOFLINE,
        "carsim_sweep_steps",
        "GenZ's 100 steps over carsim's 100 steps",
    ),
    "carsim_sweep_steps": Asked(
        "100 designs: carsim, a step each",
        SWEEP,
        "carsim",
        "100 designs with hardware of their own, one step each",
        WHOLE,
    ),
    "carsim_sweep_videos": Asked(
        "100 designs: carsim, a video each",
        SWEEP,
        "carsim",
        "100 designs with hardware of their own, a whole video each",
        WHOLE,
        "genz_sweep",
        "units differ: carsim's 100 videos of 2,048 steps over GenZ's 100 single steps",
    ),
}
"""Rows of the table by the name that a run has in the scripts."""

Row = dict[str, Any]


def environment(tool: Tool, folder: Path, python: str) -> str:
    """The Python of a tool's environment, made if it is not there.

    Raises:
        subprocess.CalledProcessError: It cannot be made, or pip fails.
    """
    if not tool.requirements:
        return sys.executable
    executable = folder / tool.name.lower() / "bin" / "python"
    if not executable.exists():
        run([python, "-m", "venv", str(executable.parents[1])])
    run([str(executable), "-m", "pip", "install", "--quiet", *tool.requirements])
    return str(executable)


def run(arguments: list[str]) -> str:
    """Output of a command.

    Raises:
        subprocess.CalledProcessError: It failed; ``stderr`` says why.
    """
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


def measure(rounds: int, pythons: dict[str, str]) -> tuple[dict[str, list[Row]], dict[str, str]]:
    """All runs of the tools, turn about, by name; and the versions or the troubles of tools.

    Args:
        rounds: How often each tool has its turn.
        pythons: The Python of each tool; one that fails is taken out.
    """
    found: dict[str, list[Row]] = {}
    told: dict[str, str] = {}
    for number in range(rounds):
        for tool in TOOLS:
            if tool.name not in pythons:
                continue
            print(f"round {number + 1}: {tool.name}", file=sys.stderr, flush=True)
            try:
                output = run([pythons[tool.name], str(HERE / "peer_runs" / tool.script)])
            except (subprocess.CalledProcessError, OSError) as error:
                told[tool.name] = trouble(error)
                del pythons[tool.name]
                continue
            line = json.loads(output.strip().splitlines()[-1])
            told[tool.name] = line["version"]
            for name, figures in line["runs"].items():
                found.setdefault(name, []).append(figures)
    return found, told


def trouble(error: Exception) -> str:
    """The last line of what a command said."""
    said: str = getattr(error, "stderr", "") or str(error)
    return said.strip().splitlines()[-1][:200]


def rows_of(found: dict[str, list[Row]], versions: dict[str, str]) -> dict[str, Row]:
    """A row for each run that was measured, with ratios of their medians."""
    seconds = {name: [each["cpu_s"] for each in runs] for name, runs in found.items()}
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    rows: dict[str, Row] = {}
    for name, asked in ASKED.items():
        if name not in found:
            continue
        rows[name] = {
            "label": asked.label,
            "question": asked.question,
            "tool": asked.tool,
            "version": versions[asked.tool],
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "done": asked.done,
            "covers": asked.covers,
            "cpu_s": medians[name],
            "least_cpu_s": min(seconds[name]),
            "most_cpu_s": max(seconds[name]),
            "cycles": found[name][0].get("cycles", ""),
        }
        if asked.over in medians:
            rows[name] |= {
                "ratio": medians[name] / medians[asked.over],
                "ratio_says": asked.says,
            }
    return rows


def main() -> None:
    """Measure all, print and write the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--venvs", type=Path, default=Path("~/.cache/carsim-peers").expanduser())
    parser.add_argument("--python312", default="python3.12", help="for AccelForge")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="measure these peers, comma-separated; keep the others")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    table = HERE / "peers.csv"
    with table.open(encoding="utf-8") as file:
        kept = {row["label"]: row for row in csv.DictReader(file)}
    names = [tool.name for tool in TOOLS]
    wanted = ["carsim", *options.only.split(",")] if options.only else names
    pythons: dict[str, str] = {}
    troubles: dict[str, str] = {}
    for tool in TOOLS:
        if tool.name in wanted:
            python = options.python312 if tool.needs_312 else sys.executable
            try:
                pythons[tool.name] = environment(tool, options.venvs, python)
            except (subprocess.CalledProcessError, OSError) as error:
                troubles[tool.name] = trouble(error)
    found, told = measure(options.rounds, pythons)
    troubles |= {name: said for name, said in told.items() if name not in pythons}
    rows = rows_of(found, told)
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        for name, asked in ASKED.items():
            row = rows.get(name) or kept.get(asked.label) or {"label": asked.label}
            if name not in rows and asked.tool in troubles:
                row["note"] = f"not measured again: {troubles[asked.tool]}"
            rounded = {k: float(f"{x:.4g}") if isinstance(x, float) else x for k, x in row.items()}
            writer.writerow(rounded)
            print(rounded)


if __name__ == "__main__":
    main()
