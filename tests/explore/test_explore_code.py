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
    ("name", "is_other"),
    [
        *(("base/errors.py", True), ("hardware/memory/new.py", True), ("cli/sweep.py", False)),
        *(("design/presets/new.yaml", True), ("hardware/memory/.dram.py.swp", False)),
    ],
)
def test_a_changed_or_new_file_is_other_code_but_for_commands(copy: Path, name, is_other) -> None:
    assert code_sha256(copy) == code_sha256()
    package_sha256.cache_clear()
    with (copy / name).open("a") as file:
        file.write("# changed\n")
    assert (code_sha256(copy) != code_sha256()) == is_other


def test_evaluation_imports_nothing_that_is_left_out_and_nothing_slow() -> None:
    lines = ["import sys", "import carsim.explore.sweep", "print(*sys.modules)"]
    loaded = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    ).stdout.split()
    packages = {name.split(".")[1] for name in loaded if name.startswith("carsim.")}
    assert {"cost", "decisions", "hardware", "machine", "runs"} <= packages
    assert packages.isdisjoint(WITHOUT_A_SAY)
    assert {"pandas", "optuna", "distributed", "pyarrow"}.isdisjoint(loaded)
