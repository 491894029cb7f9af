"""What a store is recognised by, of the code that fills it."""

import shutil
from pathlib import Path

import pytest

from carsim.explore.code import DECIDING, PACKAGE, code_sha256


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(PACKAGE, tmp_path / "carsim", ignore=ignored))


def test_a_copy_is_the_same_code(copy: Path) -> None:
    assert code_sha256(copy) == code_sha256()


@pytest.mark.parametrize(
    "name",
    [
        "hw/core.py",
        "machine/memo.py",
        "spec/machine.py",
        "explore/evaluate.py",
        "hw/dram_standards.csv",
    ],
)
def test_a_changed_model_is_other_code(copy: Path, name: str) -> None:
    with (copy / name).open("a") as file:
        file.write("# changed\n")
    assert code_sha256(copy) != code_sha256()


def test_a_new_model_is_other_code_and_a_changed_command_is_not(copy: Path) -> None:
    (copy / "cli" / "sweep.py").write_text("")
    (copy / "hw" / "__pycache__").mkdir()
    (copy / "hw" / "__pycache__" / "core.pyc").write_bytes(b"")
    assert code_sha256(copy) == code_sha256()
    (copy / "hw" / "new.py").write_text("")
    code_sha256.cache_clear()
    assert code_sha256(copy) != code_sha256()


def test_every_pattern_finds_files() -> None:
    assert [pattern for pattern in DECIDING if not any(PACKAGE.glob(pattern))] == []
