"""What a store is recognised by, of the code that fills it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from carsim.explore.code import PACKAGE, WITHOUT_A_SAY, code_sha256, package_sha256


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(PACKAGE, tmp_path / "carsim", ignore=ignored))


@pytest.mark.parametrize(
    "name", ["base/errors.py", "hardware/memory/new.py", "design/presets/new.yaml"]
)
def test_a_changed_or_new_file_is_other_code(copy: Path, name: str) -> None:
    assert code_sha256(copy) == code_sha256()
    package_sha256.cache_clear()
    with (copy / name).open("a") as file:
        file.write("# changed\n")
    assert code_sha256(copy) != code_sha256()


def test_a_changed_command_or_what_an_editor_leaves_is_not(copy: Path) -> None:
    (copy / "cli" / "sweep.py").write_text("")
    (copy / "hardware" / "memory" / ".dram.py.swp").write_text("")
    (copy / "hardware" / "memory" / "left.pyc").write_bytes(b"")
    assert code_sha256(copy) == code_sha256()


def test_evaluation_imports_nothing_that_is_left_out_and_nothing_slow() -> None:
    lines = ["import sys", "import carsim.explore.sweep", "print(*sys.modules)"]
    loaded = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    ).stdout.split()
    packages = {name.split(".")[1] for name in loaded if name.startswith("carsim.")}
    assert {"cost", "decisions", "hardware", "machine", "runs"} <= packages
    assert packages.isdisjoint(WITHOUT_A_SAY)
    assert {"pandas", "optuna", "distributed", "pyarrow"}.isdisjoint(loaded)
