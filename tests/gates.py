"""Bugs on purpose in the modules of gates."""

import importlib
from pathlib import Path
from types import ModuleType


def mutant(module: str, old: str, new: str) -> ModuleType:
    """A module of carsim.hardware.rtl with a change in its source, which must occur once."""
    original = importlib.import_module(f"carsim.hardware.rtl.{module}")
    source = Path(str(original.__file__)).read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times in {module}"
    changed = ModuleType(original.__name__)
    exec(compile(source.replace(old, new), f"mutant of {module}", "exec"), changed.__dict__)
    return changed
