"""carsim beside ZigZag, AccelForge and GenZ: layer-steps per second, ratios from one run.

    python studies/speed/peers.py [--only GenZ] [--venvs ~/.cache/carsim-peers] [--python312 PATH]

Every peer gets an environment of its own from PyPI, outside of the checkout. ZigZag and AccelForge
map and estimate the two products of a decode step of LLaMA-2-7B, one token times 4096 x 4096 and
times 4096 x 11008; a layer is four of the first and three of the second. GenZ estimates a step of
32 layers. carsim simulates its design point (``points.py``), equal phases once and all one by one,
before and after every peer. Start-up is left out of all, and processor seconds count, so that
waiting for a busy machine does not. What GenZ leaves out (replay, batches, schedules, contention)
is in carsim's layer-step. ZigZag and AccelForge search for a mapping, which carsim takes as given,
so that no ratio is written for them.

Writes ``peers.csv``; ``--only`` keeps the rows of the other peers. A peer that cannot be installed
or run is a row that says why.
"""

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COLUMNS = (
    "tool",
    "version",
    "date",
    "work",
    "import_s",
    "wall_s",
    "cpu_s",
    "cycles",
    "layer_steps_per_s",
    "carsim_once_over",
    "carsim_one_by_one_over",
    "note",
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Peer:
    """A tool to compare with.

    Attributes:
        name: Its name.
        requirements: What pip installs.
        script: Runs in its environment and prints one JSON line.
        arguments: Of the script; the first piece of work is done twice and counted once.
        matrices: How often a layer has each piece of work; empty: one piece is a step of
            ``layers`` layers.
        layers: See there.
        needs_312: Python 3.11 is too old for it.
    """

    name: str
    requirements: tuple[str, ...]
    script: str
    arguments: tuple[int, ...]
    matrices: tuple[int, ...] = ()
    layers: int = 1
    needs_312: bool = False


PEERS = (
    Peer("ZigZag", ("zigzag-dse==3.9.1", "six"), "time_zigzag.py", (4096, 4096, 11008), (4, 3)),
    Peer(
        "AccelForge",
        ("accelforge==1.0.467",),
        "time_accelforge.py",
        (4096, 4096, 11008),
        (4, 3),
        needs_312=True,
    ),
    Peer("GenZ", ("genz-llm==0.0.16",), "time_genz.py", (32, 32), layers=32),
)


def environment(peer: Peer, folder: Path, python: str) -> Path:
    """The Python of a peer's environment, made if it is not there.

    Raises:
        subprocess.CalledProcessError: It cannot be made, or pip fails.
    """
    executable = folder / peer.name.lower() / "bin" / "python"
    if not executable.exists():
        run([python, "-m", "venv", str(executable.parents[1])])
    run([str(executable), "-m", "pip", "install", "--quiet", *peer.requirements])
    return executable


def run(arguments: list[str]) -> str:
    """Output of a command.

    Raises:
        subprocess.CalledProcessError: It failed; ``stderr`` says why.
    """
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


def carsim(*arguments: str) -> float:
    """Layer-steps per processor second of the design point."""
    found = json.loads(run([sys.executable, str(HERE / "points.py"), *arguments]))
    return float(found["layer_steps"] / found["cpu_s"])


def measure(peer: Peer, python: Path) -> Row:
    """What a peer takes for one layer, or for its step of several."""
    found = json.loads(
        run([str(python), str(HERE / "peer_runs" / peer.script), *map(str, peer.arguments)])
        .strip()
        .splitlines()[-1]
    )
    runs = found["runs"][1:]  # the first warms up
    counts = peer.matrices or (1,)
    wall_s, cpu_s, cycles = (
        sum(count * each[key] for count, each in zip(counts, runs, strict=True))
        for key in ("wall_s", "cpu_s", "cycles")
    )
    shapes = "4 of 4096 x 4096 and 3 of 4096 x 11008, one token"
    return {
        "version": found["version"],
        "work": shapes if peer.matrices else f"a step of {peer.layers} layers, context 1024",
        "import_s": found["import_s"],
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "cycles": cycles,
        "layer_steps_per_s": peer.layers / cpu_s,
    }


def main() -> None:
    """Measure all, print and write the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--venvs", type=Path, default=Path("~/.cache/carsim-peers").expanduser())
    parser.add_argument("--python312", default="python3.12", help="for AccelForge")
    parser.add_argument("--only", help="measure these peers, comma-separated; keep the others")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else [peer.name for peer in PEERS]
    with (HERE / "peers.csv").open(encoding="utf-8") as file:
        kept = {row["tool"]: row for row in csv.DictReader(file)}
    rates: dict[str, list[float]] = {"once": [], "one_by_one": []}
    rows: list[Row] = []

    def ours() -> None:
        rates["once"].append(carsim("--repeat", "2"))
        rates["one_by_one"].append(carsim("--plainly", "--steps", "4"))

    ours()
    for peer in PEERS:
        if peer.name not in wanted:
            rows.append(kept[peer.name])
            continue
        python = options.python312 if peer.needs_312 else sys.executable
        try:
            row = measure(peer, environment(peer, options.venvs, python))
        except (subprocess.CalledProcessError, OSError) as error:
            why = getattr(error, "stderr", "") or str(error)
            row = {"note": why.strip().splitlines()[-1][:200]}
        rows.append({"tool": peer.name} | row)
        ours()
    medians = {kind: statistics.median(found) for kind, found in rates.items()}
    for row, peer in zip(rows, PEERS, strict=True):
        if peer.name in wanted and not peer.matrices and "layer_steps_per_s" in row:
            for kind, rate in medians.items():
                row[f"carsim_{kind}_over"] = rate / row["layer_steps_per_s"]
    work = "a layer-step of 8 sequences with attention, decision and replay"
    names = {"once": "carsim, equal phases once", "one_by_one": "carsim, one by one"}
    rows += [
        {"tool": names[kind], "work": work, "layer_steps_per_s": rate}
        for kind, rate in medians.items()
    ]
    date = time.strftime("%Y-%m-%d", time.gmtime())
    with (HERE / "peers.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(
            file, COLUMNS, restval="", extrasaction="ignore", lineterminator="\n"
        )
        writer.writeheader()
        for row in rows:
            row.setdefault("date", date)
            rounded = {k: float(f"{x:.4g}") if isinstance(x, float) else x for k, x in row.items()}
            writer.writerow(rounded)
            print(rounded)


if __name__ == "__main__":
    main()
