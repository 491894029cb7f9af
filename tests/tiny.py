"""A toy design and its traces, on which the whole tool runs in a fraction of a second."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from trace_maker import make_trace

from carsim.decisions.trace import Trace, save_trace
from carsim.decisions.trace.meta import Geometry
from carsim.design import Design, load_design
from carsim.hardware.technology import Resources
from carsim.runs.pipeline import run
from carsim.runs.report import Report

DESIGN_YAML = """\
name: toy
description: a toy on a large board
board: {preset: zcu102}
machine:
  cores: 2
  array: {rows: 4, cols: 4, arithmetic: int8}
  vector: {lanes: 4}
  weight_buffer_kib: 4
  kv_buffer_kib: 4
  activation_buffer_kib: 16
  tile_kib: 1
  placement: {weights: ps_ddr, kv: ps_ddr, replay: ps_ddr, head: ps_ddr}
model: {preset: tiny}
policy: {batch: 4}
energy: {preset: fpga_16nm}
"""

TINY = Geometry(
    name="tiny", n_layers=4, hidden_size=64, n_heads=4, n_kv_heads=4, head_dim=16, ffn_size=172
)


def tiny_trace(**changes: Any) -> Trace:
    """Three frames of 16 tokens, four layers, two guidance pairs; scores from a fixed seed."""
    fields = {"decoded": TINY, "simulated": TINY, "tokens_per_frame": 16, "tau": 0.0}
    return make_trace(**{**fields, **changes})


def write_inputs(folder: Path, **changes: Any) -> tuple[str, str]:
    """Write ``toy.yaml`` and ``toy.npz``; returns their paths as text."""
    design, trace = folder / "toy.yaml", folder / "toy.npz"
    design.write_text(DESIGN_YAML, encoding="utf-8")
    save_trace(trace, tiny_trace(**changes))
    return str(design), str(trace)


@cache
def tiny_design(*overrides: str) -> Design:
    """The toy, with ``path=value`` changes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "toy.yaml"
        path.write_text(DESIGN_YAML, encoding="utf-8")
        return load_design(str(path), overrides)


@cache
def tiny_report(*overrides: str) -> Report:
    """A run of the toy, misfits allowed."""
    return run(tiny_design(*overrides), [tiny_trace()], allow_misfit=True)


MISFIT = "board.dsp=1"
"""An override with which the toy does not fit its board."""


def resources(design: Design) -> Resources:
    """Resources that a design takes, whether or not its board has them."""
    return design.board.technology.resources(design)
