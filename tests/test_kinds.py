"""A kind is named in its own folder and nowhere else in the package: all else asks a registry."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from walk import readers_of, walk_of

import carsim
from carsim.decisions.attention import ATTENTION
from carsim.decisions.replay import RULES
from carsim.decisions.replay.decide import Scope
from carsim.decisions.trace import Trace
from carsim.design import load_design
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.memory import STANDARDS
from carsim.hardware.schedule import SCHEDULES
from carsim.hardware.technology import TECHNOLOGIES
from carsim.measure.settings import Schedule as MeasuredSchedule
from carsim.program.layers import plain_layers
from carsim.program.skips import SKIPS
from carsim.workload.body import Body
from carsim.workload.workload import Workload

PACKAGE = Path(carsim.__file__).parent
REGISTRIES = {
    "hardware/schedule": SCHEDULES,
    "hardware/mapping": MAPPINGS,
    "decisions/attention": ATTENTION,
    "decisions/replay": RULES,
    "program/skips": SKIPS,
    "hardware/technology": TECHNOLOGIES,
    "hardware/memory": STANDARDS,
}
FIELDS = {
    "hardware/schedule": "schedule",
    "hardware/mapping": "mapping",
    "decisions/attention": "attention",
    "decisions/replay": "rule",
    "program/skips": "skip",
    "hardware/technology": "technology",
    "hardware/memory": "standard",
}
"""The field of a design, a trace or a recipe that holds a kind."""

# Modules that name a kind because something outside the package has it. Others measured memories of
# certain standards and systems of certain technologies. A measured replay ran on a schedule; the
# measured CPU is described as a chip; files of weights call one of their forms "tensor".
ALSO_NAMED_IN = {
    "hardware/mapping": ("workload/hf_config/quantisation/compressed_tensors.py",),
    "hardware/memory": ("validate/", "measure/host.py"),
    "hardware/schedule": ("validate/replay.py",),
    "hardware/technology": ("validate/", "measure/host.py"),
}


@cache
def other_meanings() -> frozenset[str]:
    """Names of other things, which may be names of kinds, too: everybody may say these."""
    (layer, *_) = plain_layers(load_design("zcu102").model)
    blocks = {block.name for block in layer}
    recorded = {field.name for field in fields(Trace)}
    asked = {field.name for field in fields(Workload)}
    spans = get_args(Body.model_fields["qk_norm_span"].annotation)
    return frozenset(
        {*blocks, *recorded, *asked, *get_args(Scope), *spans, *get_args(MeasuredSchedule)}
    )


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def texts(tree: ast.AST) -> set[str]:
    """All strings of a module that are neither docstrings nor descriptions of fields."""
    documentation: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            documentation.add(id(node.value))
        if isinstance(node, ast.keyword) and node.arg == "description":
            documentation.add(id(node.value))
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documentation
    }


def values_of(tree: ast.AST, field: str) -> set[str]:
    """Strings that a module gives to a field, or compares with it."""
    values: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == field:
                    values |= texts(value)
        elif isinstance(node, ast.keyword) and node.arg == field:
            values |= texts(node.value)
        elif isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            if any(_is_field(side, field) for side in sides):
                values |= {text for side in sides for text in texts(side)}
    return values


def _is_field(node: ast.expr, field: str) -> bool:
    """``schedule``, ``policy.schedule`` or ``policy.schedule.kind``."""
    if isinstance(node, ast.Attribute) and node.attr == "kind":
        node = node.value
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == field


def kinds_named_by(tree: ast.Module, folder: str) -> set[str]:
    """Kinds that a module outside of their folder names."""
    kinds = set(REGISTRIES[folder])
    unmistakable = texts(tree) & (kinds - other_meanings())
    return unmistakable | (values_of(tree, FIELDS[folder]) & kinds)


def modules_outside(folder: str) -> Iterator[Path]:
    own = (f"{folder}/", *ALSO_NAMED_IN.get(folder, ()))
    for path in PACKAGE.rglob("*.py"):
        if not str(path.relative_to(PACKAGE)).startswith(own):
            yield path


@pytest.mark.parametrize("folder", REGISTRIES)
def test_no_code_outside_its_folder_names_a_kind(folder: str) -> None:
    named = {
        (str(path.relative_to(PACKAGE)), kind)
        for path in modules_outside(folder)
        for kind in kinds_named_by(parsed(path), folder)
    }
    assert not named


@pytest.mark.parametrize(
    ("code", "folder", "kind"),
    [
        ('schedule = choose("drs")', "hardware/schedule", "drs"),
        ('if policy.schedule == "static": ...', "hardware/schedule", "static"),
        ('if policy.attention.kind in ("dense",): ...', "decisions/attention", "dense"),
        ('run(attention={"kind": "dense"})', "decisions/attention", "dense"),
        ('recipe = {"skip": {"kind": "mlp"}}', "program/skips", "mlp"),
    ],
)
def test_the_check_sees_a_kind_even_if_its_name_is_also_a_block_or_a_field(
    code: str, folder: str, kind: str
) -> None:
    assert kinds_named_by(ast.parse(code), folder) == {kind}


def test_the_check_lets_code_name_a_block_a_field_and_an_array() -> None:
    code = 'times["mlp"], trace_arrays["tas"], Workload("image", dense=2), scope == "batch"'
    assert not any(kinds_named_by(ast.parse(code), folder) for folder in REGISTRIES)


def test_a_design_is_handed_downwards_and_seldom_back() -> None:
    """``python tests/walk.py`` names stops, and files with ``.cores``: 12 are the goal.

    Explained formulas, timelines by core and times of kernels by cores at work read it as well.
    """
    walk = walk_of(load_design("zcu102"))
    assert not walk.upward
    assert walk.returns <= 6
    assert len(readers_of("cores")) <= 16
