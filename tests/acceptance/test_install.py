"""Installs that stay working: the environment of a checkout, the bounds, the wheel."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from hatchling.build import build_sdist, build_wheel

ROOT = Path(__file__).parents[2]
TOML = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = TOML["project"]

PYTHON = """#!/bin/sh
# Stands for a Python: notes what it is asked, and makes environments that hold itself.
echo "$*" >> "{log}"
case "$1 $2" in
    "--version ") echo "Python {version}" ;;
    "-c "*) exit {refuses} ;;
    "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; exit {has_no_venv} ;;
esac
"""


class Checkout:
    """A copy of what ``.ci/venv`` needs, with a Python that only notes what it is asked."""

    def __init__(
        self,
        folder: Path,
        version: str = "3.11.7",
        *,
        supported: bool = True,
        has_venv: bool = True,
    ) -> None:
        self.root = folder / "checkout"
        self.log = folder / "log"
        self.log.touch()
        (self.root / ".ci").mkdir(parents=True)
        for name in (".ci/venv", "pyproject.toml"):
            shutil.copy(ROOT / name, self.root / name)
        self.python = folder / "python"
        text = PYTHON.format(
            log=self.log,
            version=version,
            refuses=int(not supported),
            has_no_venv=int(not has_venv),
        )
        self.python.write_text(text, encoding="utf-8")
        self.python.chmod(0o755)

    def venv(self, *extra: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        """Run ``.ci/venv``; also return what was installed by it."""
        self.log.write_text("", encoding="utf-8")
        done = subprocess.run(
            [self.root / ".ci/venv", *extra],
            env=os.environ | {"PYTHON": str(self.python)},
            capture_output=True,
            text=True,
            check=False,
        )
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return done, [line.split()[-1] for line in lines if line.startswith("-m pip install")]

    def edit(self, old: str, new: str) -> None:
        """Change pyproject.toml."""
        file = self.root / "pyproject.toml"
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    assert checkout.venv()[1] == ["."]
    done, installed = checkout.venv()
    assert (done.returncode, installed, done.stdout, done.stderr) == (0, [], "", "")


def test_an_extra_is_added_to_what_is_there_and_covers_it(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.venv()
    assert checkout.venv("dev")[1] == [".[dev]"]
    assert "-m venv" not in checkout.log.read_text(encoding="utf-8")
    assert checkout.venv()[1] == []
    assert checkout.venv("dev")[1] == []


def test_a_changed_dependency_or_a_moved_checkout_makes_it_anew(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.venv("dev")
    checkout.edit("line-length = 100", "line-length = 99")
    assert checkout.venv("dev")[1] == [], "settings of tools are not installed"
    checkout.edit("simpy>=4.1,<5", "simpy>=4.1.1,<5")
    assert checkout.venv("dev")[1] == [".[dev]"]
    assert "-m venv" in checkout.log.read_text(encoding="utf-8")
    checkout.root = checkout.root.rename(tmp_path / "moved")
    assert checkout.venv("dev")[1] == [".[dev]"]


def test_an_unsupported_python_gets_one_clear_line(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, "3.9.18", supported=False)
    done, installed = checkout.venv()
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "needs Python 3.11 to 3.13" in done.stderr
    assert "is Python 3.9.18." in done.stderr
    assert not installed
    assert not (checkout.root / ".venv").exists()


def test_a_python_without_venv_leaves_nothing_behind(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, has_venv=False)
    done, installed = checkout.venv()
    assert done.returncode == 1
    assert "venv package" in done.stderr
    assert not installed
    assert not (checkout.root / ".venv").exists()


def test_supported_pythons_are_the_same_everywhere() -> None:
    script = (ROOT / ".ci/venv").read_text(encoding="utf-8")
    match = re.search(r"^oldest=(\d+) newest=(\d+)$", script, re.MULTILINE)
    assert match is not None
    oldest, newest = map(int, match.groups())
    assert PROJECT["requires-python"] == f">=3.{oldest},<3.{newest + 1}"
    declared = [line for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)]
    expected = [f"Programming Language :: Python :: 3.{v}" for v in range(oldest, newest + 1)]
    assert declared == expected


def test_every_dependency_has_bounds_on_both_sides() -> None:
    lowest = runpy.run_path(str(ROOT / ".ci/lowest.py"))["lowest"]
    required = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["content"]
    assert len(lowest(required)) == len(required)
    assert lowest(["simpy>=4.1,<5"]) == ["simpy==4.1"]
    for lax in ("simpy", "simpy>=4.1", "simpy<5", "simpy~=4.1"):
        with pytest.raises(SystemExit, match="is not of the form name>=X,<Y"):
            lowest([lax])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return folder / build_wheel(str(folder))


def files_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_package_and_its_data_only(wheel: Path) -> None:
    names = files_in(wheel)
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "carsim").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    designs = {
        f"carsim/{path.relative_to(ROOT).as_posix()}"
        for path in (ROOT / "configs").rglob("*")
        if path.is_file()
    }
    included = TOML["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    traces = {path for name, path in included.items() if name.startswith("traces/")}
    assert {f"carsim/{name}" for name in included if name.startswith("traces/")} == traces
    assert {"carsim/traces/vilau_8f.npz", "carsim/traces/published_80.npz"} <= traces
    assert {"carsim/py.typed", "carsim/memory/standards.csv"} <= package
    assert "carsim/design/presets/board/zcu102.yaml" in package
    assert "carsim/configs/zcu102.yaml" in designs
    assert {name for name in names if ".dist-info/" not in name} == package | designs | traces
    assert wheel.stat().st_size < 20e6


def test_an_unpacked_wheel_runs_on_a_trace_by_name(wheel: Path, tmp_path: Path) -> None:
    """In an empty folder, with nothing of the checkout but its libraries."""
    package, empty = tmp_path / "package", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(package)

    def call(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-P", "-m", "carsim", *arguments],
            cwd=empty,
            env=os.environ | {"PYTHONPATH": str(package)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert "vilau_8f_r80.npz" in call("trace", "list")
    assert "FastCar + DRS finishes a video" in call("run", "zcu102", "--trace", "vilau_8f")
    assert not list(empty.iterdir())


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    info = f"carsim-{PROJECT['version']}.dist-info"
    assert f"{info}/licenses/LICENSE" in files_in(wheel)
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
    assert metadata["Name"] == "carsim"
    assert metadata["Version"] == PROJECT["version"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == "<3.14,>=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "carsim = carsim.__main__:main" in entry_points


def test_the_source_archive_builds_the_same_wheel(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    archive = tmp_path / build_sdist(str(tmp_path))
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
        packed.extractall(tmp_path, filter="data")
    assert not any(name.startswith(("tests/", ".ci/")) for name in names)
    assert all(name.endswith(".npz") for name in names if name.startswith("traces/"))
    monkeypatch.chdir(tmp_path / archive.name.removesuffix(".tar.gz"))
    again = tmp_path / build_wheel(str(tmp_path))
    assert again.read_bytes() == wheel.read_bytes()
