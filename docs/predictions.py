"""Predictions on the record: speeds of systems that were not looked up before.

    python docs/predictions.py --date 2026-11-29

adds a record of every system of ``SYSTEMS`` with the installed carsim to ``predictions.csv``, and
makes the page ``predictions.md`` from all records. Records of earlier versions stay as they are.
Without a date, the page alone is made again.
"""

import csv
import sys
from collections.abc import Sequence
from datetime import date
from hashlib import sha256
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from forward_predictions import section  # noqa: E402

from carsim.base.text import number  # noqa: E402
from carsim.base.units import GB  # noqa: E402
from carsim.design import load_design  # noqa: E402
from carsim.explore.code import code_sha256  # noqa: E402
from carsim.runs.decode import Decode, decode  # noqa: E402

RECORDS = ROOT / "docs" / "predictions.csv"
PAGE = ROOT / "docs" / "predictions.md"

USUAL = 0.9
"""Share of the peak bandwidth that the rival takes for granted."""


class System(NamedTuple):
    """A system whose speed was not looked up.

    Attributes:
        name: System, model and board.
        design: Path of its design from the root.
        contexts: Tokens that the first and the last timed step attend to.
        source: Publication that has the speed.
    """

    name: str
    design: str
    contexts: tuple[int, int]
    source: str


SYSTEMS = (
    System(
        "EdgeLLM, ChatGLM2-6B, VCU128",
        "configs/predicted/edgellm_vcu128.yaml",
        (129, 512),
        "arXiv 2407.21325",
    ),
    System(
        "LoopLynx, one node, GPT-2 345M, Alveo U50",
        "configs/predicted/looplynx_u50.yaml",
        (2, 512),
        "arXiv 2504.09561",
    ),
    System(
        "HLSTransform, stories110M, AWS F1 (VU9P)",
        "configs/predicted/hlstransform_vu9p.yaml",
        (2, 256),
        "arXiv 2405.00738",
    ),
    System(
        "llama.cpp, LLaMA-3-8B Q4_K_M, GeForce RTX 5090",
        "configs/boards/rtx5090.yaml",
        (1, 128),
        "any llama-bench tg128",
    ),
    System(
        "llama.cpp, LLaMA-3-8B Q4_K_M, M4 Max, 40-core GPU",
        "configs/boards/m4max.yaml",
        (1, 128),
        "any llama-bench tg128",
    ),
    System(
        "llama.cpp, LLaMA-3.2-1B in 4.6 bit, Snapdragon 8 Gen 3 (GPU)",
        "configs/boards/snapdragon_8gen3.yaml",
        (1, 128),
        "any llama-bench tg128",
    ),
)


class Record(NamedTuple):
    """One prediction of one version; speeds in tokens per second.

    Attributes:
        date: Day of the prediction.
        version: Version of carsim.
        code: First digits of the SHA-256 of the code on which figures depend.
        system: Name of the system.
        design: Path of its design.
        design_digest: First digits of the SHA-256 of the design's file.
        contexts: First and last context, as ``129-512``.
        simulated: Speed without runtime overhead.
        expected: Expected speed on a board.
        low: Low end of its 90 % interval.
        high: High end.
        rival: Speed at 0.9 of the peak bandwidth of memory and ports.
    """

    date: str
    version: str
    code: str
    system: str
    design: str
    design_digest: str
    contexts: str
    simulated: float
    expected: float
    low: float
    high: float
    rival: float


def predict(system: System, day: str) -> Record:
    """Predict one system with the installed carsim.

    Args:
        system: The system.
        day: Date of the prediction.
    """
    path = ROOT / system.design
    design = load_design(str(path))
    first, last = system.contexts
    found = decode(design, first, last)
    at_peak = found.peak_seconds_per_step / found.seconds_per_step
    expected = design.expected.not_below(at_peak)
    speed = found.tokens_per_s
    return Record(
        date=day,
        version=version("carsim"),
        code=code_sha256()[:12],
        system=system.name,
        design=system.design,
        design_digest=sha256(path.read_bytes()).hexdigest()[:12],
        contexts=f"{first}-{last}",
        simulated=_rounded(speed),
        expected=_rounded(speed / expected.factor),
        low=_rounded(speed / expected.high),
        high=_rounded(speed / expected.low),
        rival=_rounded(_rival(found)),
    )


def read_records() -> list[Record]:
    """Records of all versions, in the order of the file."""
    if not RECORDS.exists():
        return []
    rows = csv.DictReader(StringIO(RECORDS.read_text(encoding="utf-8")))
    return [
        Record(*(Record.__annotations__[name](value) for name, value in row.items()))
        for row in rows
    ]


def records_text(records: Sequence[Record]) -> str:
    """Contents of the file of records."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Record._fields)
    writer.writerows(records)
    return out.getvalue()


def page_text(records: Sequence[Record]) -> str:
    """The page: one table for each day and version, the newest first."""
    sources = {system.name: system.source for system in SYSTEMS}
    lines = [
        "# Predictions on the record",
        "",
        "carsim made each prediction before the speed of the system was looked up. Later versions "
        "of carsim compare it with the speed,",
        "and add rows. No row is ever changed. A design states what is published about its system, "
        "except the speed, and says what is not",
        "published. After a design stand the first digits of the SHA-256 of its file.",
        "",
        "`python docs/predictions.py --date DAY` adds the rows of the installed version.",
        "",
        "- **Simulated**: tokens per second without runtime overhead.",
        "- **Expected**: tokens per second on a board, with the 90 % interval of published systems "
        "of its kind.",
        "- **0.9 of peak**: tokens per second if the bytes of a step move at 0.9 of the peak "
        "bandwidth of the memory or of the ports in use.",
    ]
    heads = sorted({(record.date, record.version, record.code) for record in records})
    for day, of_version, code in reversed(heads):
        lines += ["", f"## {day}: carsim {of_version}, code {code}", ""]
        lines += ["| system | contexts | simulated | expected | 0.9 of peak | design | speed in |"]
        lines += ["|---|---|---:|---:|---:|---|---|"]
        lines += [
            f"| {record.system} | {record.contexts} | {number(record.simulated)} "
            f"| {number(record.expected)} ({number(record.low)} to {number(record.high)}) "
            f"| {number(record.rival)} "
            f"| [{Path(record.design).stem}](../{record.design}) {record.design_digest} "
            f"| {sources.get(record.system, '')} |"
            for record in records
            if (record.date, record.version, record.code) == (day, of_version, code)
        ]
    return "\n".join([*lines, "", section()])


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _rival(found: Decode) -> float:
    """Tokens per second where bytes come at 0.9 of the peak of memories, or of their ports."""
    work = found.simulation.decode_activity
    memories = found.design.board.memories
    seconds = 0.0
    for name, nbytes in work.dram_bytes.items():
        memory = memories[name]
        ports = memory.ports
        clock_mhz = ports.clock_mhz or found.design.board.fabric_clock_mhz
        port_gbps = ports.count * ports.bits / 8 * clock_mhz / 1e3
        peak_gbps = min(memory.peak_gbps, port_gbps)
        seconds = max(seconds, nbytes / (USUAL * peak_gbps * GB))
    return found.design.policy.batch * len(found.contexts) / seconds


@click.command()
@click.option("--date", "day", type=click.DateTime(["%Y-%m-%d"]), help="Day of new records.")
def main(day: date | None) -> None:
    """Add records of today's version, and make the page."""
    records = read_records()
    if day is not None:
        text = f"{day:%Y-%m-%d}"
        records += [predict(system, text) for system in SYSTEMS]
        RECORDS.write_text(records_text(records), encoding="utf-8")
    PAGE.write_text(page_text(records), encoding="utf-8")


if __name__ == "__main__":
    main()
