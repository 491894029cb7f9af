"""Remake ``carsim/validate/data/scalesim.csv``: what SCALE-Sim 3 counts for small matrix products.

    python3.11 -m venv /tmp/scalesim
    /tmp/scalesim/bin/pip install -r studies/array/requirements.txt
    /tmp/scalesim/bin/python studies/array/scalesim_cycles.py carsim/validate/data/scalesim.csv

SCALE-Sim 3.0.0 gets an environment of its own because it does not run on the newest NumPy (it
turns one-element arrays into integers, which NumPy 2.4 refuses); ``requirements.txt`` pins what it
was run with. It takes about a minute and a half on one core.

``total_cycles`` is the column "Total Cycles" of its compute report: the number, counted from 0, of
the cycle in which the last result leaves the array, so one less than the cycles taken. Interface
bandwidth is CALC: memory never stalls the array, which ``stall_cycles`` shows.
"""

import csv
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

CONFIG = """\
[general]
run_name = carsim

[architecture_presets]
ArrayHeight: {rows}
ArrayWidth: {cols}
IfmapSramSzkB: 64
FilterSramSzkB: 64
OfmapSramSzkB: 64
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth: 10
Dataflow: {dataflow}
ReadRequestBuffer: 32
WriteRequestBuffer: 32

[layout]
IfmapCustomLayout: False
FilterCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2

[sparsity]
SparsitySupport: false
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 8
RandomNumberGeneratorSeed: 40

[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""

DATAFLOWS = {"ws": "weight_stationary", "os": "output_stationary", "is": "input_stationary"}

ARRAYS = ((4, 4), (8, 8), (16, 16), (32, 32), (4, 16), (16, 4), (5, 7))

SHAPES = (
    # A single tile, remainders on every side, vectors, and blocks of tens of rows.
    (1, 4, 4),
    (1, 64, 64),
    (1, 256, 192),
    (1, 100, 70),
    (3, 33, 65),
    (8, 64, 96),
    (17, 31, 29),
    (40, 130, 50),
    (64, 16, 128),
    (100, 48, 20),
)
"""(m, k, n) of every product."""

FIELDS = ("dataflow", "rows", "cols", "m", "k", "n", "total_cycles", "stall_cycles")

ARGUMENTS = ["-i", "gemm", "-c", "run.cfg", "-t", "shapes.csv", "-l", "layout.csv", "-p", "out"]


def cycles(dataflow: str, rows: int, cols: int) -> Iterator[tuple[int, int]]:
    """(Total, stall cycles) of every shape on one array."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = CONFIG.format(rows=rows, cols=cols, dataflow=dataflow)
        (folder / "run.cfg").write_text(config, encoding="utf-8")
        # SCALE-Sim's header says M, N, K; the second column is the operand's columns.
        lines = [f"s{index},{m},{n},{k}," for index, (m, k, n) in enumerate(SHAPES)]
        (folder / "shapes.csv").write_text("\n".join(["Layer,M,N,K,", *lines, ""]))
        (folder / "layout.csv").write_text("\n".join(["Layer,", *["s,"] * len(SHAPES), ""]))
        subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "scalesim.scale", *ARGUMENTS],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with (folder / "out" / "carsim" / "COMPUTE_REPORT.csv").open(encoding="utf-8") as report:
            for row in csv.reader(list(report)[1:]):
                yield int(row[2]), int(row[3])


def main() -> None:
    """Write the table."""
    target = Path(sys.argv[1])
    with target.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(FIELDS)
        for dataflow, name in DATAFLOWS.items():
            for rows, cols in ARRAYS:
                for shape, counted in zip(SHAPES, cycles(dataflow, rows, cols), strict=True):
                    writer.writerow((name, rows, cols, *shape, *counted))
                print(f"{name} {rows}x{cols}")


if __name__ == "__main__":
    main()
