"""A kind is named in its own folder and nowhere else in the package: all else asks a registry."""

import ast
from functools import cache
from pathlib import Path

import pytest
from walk import readers_of, walk_of

import carsim
from carsim.decisions.attention import ATTENTION
from carsim.decisions.replay import RULES
from carsim.design import load_design
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.memory import STANDARDS
from carsim.hardware.schedule import SCHEDULES
from carsim.hardware.technology import TECHNOLOGIES

PACKAGE = Path(carsim.__file__).parent
REGISTRIES = {
    "hardware/schedule": SCHEDULES,
    "hardware/mapping": MAPPINGS,
    "decisions/attention": ATTENTION,
    "decisions/replay": RULES,
    "hardware/technology": TECHNOLOGIES,
    "hardware/memory": STANDARDS,
}
# Words of the language that happen to be names of kinds, where no kind is meant.
OTHER_MEANINGS = {"dense", "batch", "heads", "static"}
# The array of a trace that holds the scores of any rule, and the record of them.
OTHER_MEANINGS |= {"tas"}


# What others measured was measured on memories of certain standards.
ALSO_NAMED_IN = {"hardware/memory": ("validate/",)}


@cache
def texts(path: Path) -> set[str]:
    """All strings of a module that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documentation
    }


@pytest.mark.parametrize("folder", REGISTRIES)
def test_no_code_outside_its_folder_names_a_kind(folder: str) -> None:
    kinds = set(REGISTRIES[folder]) - OTHER_MEANINGS
    own = (f"{folder}/", *ALSO_NAMED_IN.get(folder, ()))
    named = {
        (str(path.relative_to(PACKAGE)), text)
        for path in PACKAGE.rglob("*.py")
        if not str(path.relative_to(PACKAGE)).startswith(own)
        for text in texts(path) & kinds
    }
    assert not named


def test_a_design_is_handed_downwards_and_seldom_back() -> None:
    """``python tests/walk.py`` names stops, and files with ``.cores``: 12 are the goal."""
    walk = walk_of(load_design("zcu102"))
    assert not walk.upward
    assert walk.returns <= 6
    assert len(readers_of("cores")) <= 12
