"""Assumptions behind figures, in one line: precision, bandwidth, overheads, decisions.

The line names the source of each precision: the model's own file, a preset, the design, an
override, or carsim's choice. In a study, axes may vary what is assumed; the line names them.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from carsim.base.paths import overlap
from carsim.base.text import count, number
from carsim.design import Design
from carsim.hardware.memory.path import Path
from carsim.machine.hardware import Hardware
from carsim.runs.report import Report
from carsim.workload.precision import Precision

EVERYWHERE = ("design",)
"""Paths of a study that change all of a design."""

BANDWIDTH_FIELDS = ("board.memories", "board.preset", "machine.placement", "machine.overheads")
"""Fields on which the share of peak bandwidth depends."""

MODEL_BASES = ("model.preset", "model.from")
"""Fields that change all precisions which nothing else gives."""


def assumed(report: Report) -> str:
    """The line of a run, such as ``Assumed: weights 4.125, ... bits (preset tiny); ...``."""
    return assumed_of(report.design, decisions=_decisions(report))


def assumed_of(
    design: Design, *, decisions: str = "", varied: Mapping[str, str] | None = None
) -> str:
    """The line of a design, or of a study that changes it.

    Args:
        design: The design.
        decisions: Origin of the decisions to replay; empty if that is said elsewhere.
        varied: Fields that a study varies, each with the name of its axis.
    """
    axes = varied or {}
    clauses = (_precision(design, axes), _bandwidth(design, axes), _overheads(design, axes))
    return f"Assumed: {'; '.join(filter(None, (*clauses, decisions)))}."


def _axis_of(axes: Mapping[str, str], *fields: str) -> str | None:
    """Name of the first axis that changes one of some fields."""
    for path, name in axes.items():
        if any(overlap(path, field) for field in (*EVERYWHERE, *fields)):
            return name
    return None


class _Stored(NamedTuple):
    """Stored bits of an operand, scales included, and their source."""

    operand: str
    bits: float
    source: str


def _stored(design: Design) -> Iterator[_Stored]:
    """Stored bits of weights, head (if it is decoded), activations and KV cache."""
    model = design.model
    body_bits = float(model.mean_layer_bits)
    yield _Stored("weights", body_bits, source=design.source_of("weights"))
    if design.machine.include_head:
        head_field = "weights" if model.weights_by_role.head is None else "weights_by_role"
        yield _of("head", model.precision_of("head"), source=design.source_of(head_field))
    yield _of("activations", model.activations, source=design.source_of("activations"))
    yield _of("KV cache", model.kv, source=design.source_of("kv"))


def _of(operand: str, precision: Precision, *, source: str) -> _Stored:
    return _Stored(operand, float(precision.bits_per_element), source=source)


_FIELDS = {
    "weights": ("model.weights", "model.weights_by_role", "model.weights_by_layer"),
    "head": ("model.weights", "model.weights_by_role"),
    "activations": ("model.activations",),
    "KV cache": ("model.kv",),
}
"""Operand -> fields of its precision."""


def _precision(design: Design, axes: Mapping[str, str]) -> str:
    """Bits of the operands, those of one source together."""
    texts = []
    of_design: list[_Stored] = []
    for stored in _stored(design):
        axis = _axis_of(axes, *_FIELDS[stored.operand], *MODEL_BASES)
        if axis is None:
            of_design.append(stored)
        else:
            texts.append(f"{stored.operand} by the axis {axis}")
    for source, group in groupby(of_design, key=lambda stored: stored.source):
        bits = ", ".join(f"{stored.operand} {number(stored.bits)}" for stored in group)
        texts.append(f"{bits} bits ({source})")
    return ", ".join(texts)


def _bandwidth(design: Design, axes: Mapping[str, str]) -> str:
    """Share of the peak that the memory of the weights sustains, and the source of this share."""
    axis = _axis_of(axes, *BANDWIDTH_FIELDS)
    if axis is not None:
        return f"share of peak bandwidth by the axis {axis}"
    name = design.machine.placement.weights
    (path,) = [path for path in Hardware(design).paths if path.name == name]
    sustained_gbps = float(path.rate) * design.board.fabric_clock_mhz * 1e-3
    source = _source_of_rate(design, path)
    return f"{name} at {sustained_gbps / path.peak_gbps:.0%} of peak ({source})"


def _source_of_rate(design: Design, path: Path) -> str:
    """Source of the sustained rate of a memory."""
    if design.machine.overheads.bandwidth_share < 1:
        return "calibrated" if design.machine.overheads.calibration is not None else "the design"
    if path.limited_by == "port":
        return "its ports"
    if design.board.memories[path.name].measured_efficiency is not None:
        return "measured on this board"
    return "DRAM model"


def _overheads(design: Design, axes: Mapping[str, str]) -> str:
    """Origin of the overheads of control."""
    axis = _axis_of(axes, "machine.overheads")
    if axis is not None:
        return f"overheads by the axis {axis}"
    overheads = design.machine.overheads
    if overheads.calibration is not None:
        return f"calibrated on {count(overheads.calibration.points, 'measured point')}"
    return "overheads of the design, not calibrated" if overheads.stated else "not calibrated"


def _decisions(report: Report) -> str:
    """Origin of the decisions to replay."""
    chosen = report.chosen
    if not chosen.variant.replays:
        return "nothing replays"
    return f"decisions {chosen.batches.source}"
