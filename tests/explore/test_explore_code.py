"""What a store is recognised by, of the code that fills it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from carsim.explore.code import PACKAGE, WITHOUT_A_SAY, code_sha256


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(PACKAGE, tmp_path / "carsim", ignore=ignored))


def test_a_copy_is_the_same_code(copy: Path) -> None:
    assert code_sha256(copy) == code_sha256()


@pytest.mark.parametrize(
    "name", ["machine/array.py", "machine/memo.py", "spec/presets/board/zcu102.yaml", "errors.py"]
)
def test_a_changed_file_is_other_code(copy: Path, name: str) -> None:
    with (copy / name).open("a") as file:
        file.write("# changed\n")
    assert code_sha256(copy) != code_sha256()


def test_a_new_file_is_other_code(copy: Path) -> None:
    (copy / "hw" / "new.py").write_text("")
    assert code_sha256(copy) != code_sha256()


def test_a_changed_command_or_what_an_editor_leaves_is_not(copy: Path) -> None:
    (copy / "cli" / "sweep.py").write_text("")
    (copy / "hw" / ".core.py.swp").write_text("")
    (copy / "hw" / "__pycache__").mkdir()
    (copy / "hw" / "__pycache__" / "core.pyc").write_bytes(b"")
    assert code_sha256(copy) == code_sha256()


def test_evaluation_imports_nothing_that_is_left_out() -> None:
    lines = ["import sys", "import carsim.explore.evaluate", "print(*sys.modules)"]
    loaded = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    ).stdout.split()
    packages = {name.split(".")[1] for name in loaded if name.startswith("carsim.")}
    assert {"hw", "machine", "spec", "trace", "cost"} <= packages
    assert packages.isdisjoint(WITHOUT_A_SAY)
