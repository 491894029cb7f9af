"""How fast carsim is: one command, one table, ratios from one run.

    python studies/speed/bench.py            # 8 to 512 frames, 8 to 32 rows of the decoder
    python studies/speed/bench.py --short    # under a minute

Whole commands are measured as processes, start-up included: wall seconds, processor seconds (user
and system, children included) and peak resident memory. What happens after loading is measured by
``points.py`` in a process of its own. Machines are shared and clocks vary: compare the ratios,
which come from the same run, and processor seconds rather than wall seconds where the machine was
busy. Nothing is written: ``results.json``, ``growth.csv``, ``peers.csv``, ``large.json`` and
``studio.json`` are the record that the README quotes.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from decoder import Decoding
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUN = ["-m", "carsim", "run", "configs/zcu102.yaml", "--trace", "traces/vilau_8f.npz"]
COLUMNS = (
    "wall_s",
    "cpu_s",
    "peak_mb",
    "layer_steps",
    "phases_taken",
    "layer_steps_per_s",
    "products",
)

Figures = dict[str, Any]


@dataclass(frozen=True)
class Process:
    """Figures of a process, and its output."""

    figures: Figures
    output: str


def process(arguments: list[str]) -> Process:
    """Run Python with arguments in the checkout.

    Raises:
        SystemExit: It failed.
    """
    begun = time.perf_counter()
    # Modules are compiled once, as where carsim is installed.
    keeps = {name: it for name, it in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, env=keeps, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{arguments} ended with {child.returncode}")
    wall_s, cpu_s = time.perf_counter() - begun, usage.ru_utime + usage.ru_stime
    return Process({"wall_s": wall_s, "cpu_s": cpu_s, "peak_mb": usage.ru_maxrss / 1024}, output)


def point(*arguments: object) -> Figures:
    """One design point, by ``points.py``, with its rate."""
    found: Figures = json.loads(process([str(HERE / "points.py"), *map(str, arguments)]).output)
    return found | {"layer_steps_per_s": found["layer_steps"] / found["cpu_s"]}


def decoder(rows: int) -> Figures:
    """Share of matrix products in a decode step in the middle of a video."""
    return {"products": Decoding(rows).share(1024)}


SHORT: dict[str, Callable[[], Figures]] = {
    "carsim --help": lambda: process(["-m", "carsim", "--help"]).figures,
    "carsim run, six rows": lambda: process(RUN).figures,
    "one design point": lambda: point("--repeat", 3),
    "the same, every phase taken (8 steps)": lambda: point("--plainly", "--steps", 8),
    "one design point, tile (16 steps)": lambda: point("--fidelity", "tile", "--steps", 16),
    "decoder, 8 rows": lambda: decoder(8),
}
LONG = SHORT | {
    **{f"{n} frames": lambda n=n: point("--frames", n) for n in (64, 128, 256, 512)},  # type: ignore[misc]
    "64 frames x 32 sequences": lambda: point("--frames", 64, "--batch", 32),
    "64 frames, tile": lambda: point("--frames", 64, "--fidelity", "tile"),
    **{f"decoder, {n} rows": lambda n=n: decoder(n) for n in (16, 32)},  # type: ignore[misc]
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="under a minute")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    table = Table("", *COLUMNS, title="Time, memory, and share of products")
    for label, measure in (SHORT if options.short else LONG).items():
        found = measure()
        cells = (f"{found[key]:,.4g}" if key in found else "" for key in COLUMNS)
        table.add_row(label, *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
