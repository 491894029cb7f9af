"""Installs that stay working: the environment of a checkout, the bounds, the wheel."""

import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.build import build_sdist, build_wheel

ROOT = Path(__file__).parents[2]
TOML = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = TOML["project"]

PYTHON_HERE = sys.executable

PYTHON = """#!/bin/sh
# Stands for a Python: notes what it is asked, and makes environments that hold itself.
echo "$*" >> "{log}"
case "$1 $2" in
    "-c "*) exit {refuses} ;;
    "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; exit {has_no_venv} ;;
esac
"""


class Checkout:
    """A copy of what ``.ci/venv.py`` needs, with a Python that only notes what it is asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = folder / "checkout"
        self.log = folder / "log"
        self.log.touch()
        self.folder = folder
        self.monkeypatch = monkeypatch
        for name in (".ci/venv.py", "pyproject.toml", "carsim/__main__.py"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        monkeypatch.setattr(sys, "executable", "a Python of an environment, which may go")
        monkeypatch.setattr(sys, "_base_executable", self.python("python"))
        monkeypatch.setattr(sys, "version_info", (3, 11, 7))
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def python(self, name: str, *, runs: bool = True, has_venv: bool = True) -> str:
        """A further Python, on PATH."""
        file = self.folder / name
        text = PYTHON.format(log=self.log, refuses=int(not runs), has_no_venv=int(not has_venv))
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)
        return str(file)

    def ready(self, extra: str = "") -> list[str]:
        """Call ``ready`` of ``.ci/venv.py``; what was installed by it."""
        self.log.write_text("", encoding="utf-8")
        runpy.run_path(str(self.root / ".ci/venv.py"))["ready"](extra)
        return [line.split()[-1] for line in self.asked() if line.startswith("-m pip install")]

    def asked(self) -> list[str]:
        """What its Pythons were asked."""
        return self.log.read_text(encoding="utf-8").splitlines()

    def edit(self, old: str, new: str) -> None:
        """Change pyproject.toml."""
        file = self.root / "pyproject.toml"
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    return Checkout(tmp_path, monkeypatch)


def test_an_environment_is_made_once_and_an_extra_added_to_it(checkout, capsys) -> None:
    assert checkout.ready() == ["."]
    assert "Installing carsim and what it needs" in capsys.readouterr().err
    assert checkout.ready() == []
    assert capsys.readouterr() == ("", "")
    assert checkout.ready("dev") == [".[dev]"]
    assert not any(line.startswith("-m venv") for line in checkout.asked())
    assert checkout.ready() == []
    assert checkout.ready("dev") == []


def test_a_changed_dependency_or_a_moved_checkout_makes_it_anew(checkout: Checkout, tmp_path: Path):
    checkout.ready("dev")
    checkout.edit("line-length = 100", "line-length = 99")
    assert checkout.ready("dev") == [], "settings of tools are not installed"
    checkout.edit("simpy>=4.1,<5", "simpy>=4.1.1,<5")
    assert checkout.ready("dev") == [".[dev]"]
    assert any(line.startswith("-m venv") for line in checkout.asked())
    checkout.root = checkout.root.rename(tmp_path / "moved")
    assert checkout.ready("dev") == [".[dev]"]


def test_an_unsupported_python_makes_it_with_a_supported_one_that_runs(checkout, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    monkeypatch.setattr(sys, "version", "3.9.18 (main)")
    for minor in (11, 12, 13):
        checkout.python(f"python3.{minor}", runs=False)
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 to 3\.13; this is 3\.9\.18\."):
        checkout.ready()
    assert not (checkout.root / ".venv").exists()
    checkout.python("python3.12")
    assert checkout.ready() == ["."]


def test_a_python_without_venv_leaves_nothing_behind(checkout: Checkout) -> None:
    checkout.python("python", has_venv=False)
    with pytest.raises(SystemExit, match="venv package"):
        checkout.ready()
    assert not (checkout.root / ".venv").exists()


def test_the_package_folder_of_a_checkout_is_a_command(checkout: Checkout) -> None:
    checkout.ready()
    subprocess.run([PYTHON_HERE, checkout.root / "carsim", "run", "zcu102"], check=True)
    assert checkout.asked()[-1] == "-m carsim run zcu102"


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
    files = {name: path for name, path in included.items() if name != "configs"}
    ideas = {path for path in files.values() if path.startswith("carsim/idea/data/")}
    decoded = {"small.safetensors", "codebook_512.npz", "scenes.npz"}
    assert {Path(path).name for path in ideas} == decoded
    traces = {*files.values()} - ideas
    assert {f"carsim/{name}" for name, path in files.items() if path not in ideas} == traces
    assert len(traces | ideas) == len(files)  # nothing lies twice
    assert {"carsim/traces/vilau_8f.npz", "carsim/traces/published_80_correlated.npz"} <= traces
    assert {"carsim/py.typed", "carsim/hardware/memory/standards.csv"} <= package
    assert "carsim/design/presets/board/zcu102.yaml" in package
    assert "carsim/configs/zcu102.yaml" in designs
    held = {name for name in names if ".dist-info/" not in name}
    assert held == package | designs | traces | ideas
    assert wheel.stat().st_size < 22e6


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
    assert "policy     FastCar + DRS; " in call("run", "zcu102", "--trace", "vilau_8f")
    assert not list(empty.iterdir())


RECIPE = """\
name: mine
output: mine.npz
decoded: {name: small-128, n_layers: 4, hidden_size: 128, n_heads: 1, n_kv_heads: 1, head_dim: 8,
  ffn_size: 1024}
weights: small.safetensors
codebook: codebook_512.npz
scenes: SCENES
n_frames: 2
prompt_tokens: 62
tau: -0.05
rule: {kind: residual_norm}
attention: {kind: dense}
seed: 1
clips: [{scene: still_0, caption: a walk}]
"""


class Unpacked:
    """An unpacked wheel, and an empty folder in which its command runs.

    Args:
        wheel: The wheel.
        folder: Where both are made.
    """

    def __init__(self, wheel: Path, folder: Path) -> None:
        self.package = folder / "package"
        self.empty = folder / "empty"
        self.empty.mkdir()
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.package)

    def call(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run ``carsim ARGUMENTS`` in the empty folder."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "carsim", *arguments],
            cwd=self.empty,
            env=os.environ | {"PYTHONPATH": str(self.package)},
            capture_output=True,
            text=True,
            check=False,
        )


def test_an_unpacked_wheel_captures_with_its_small_model(wheel: Path, tmp_path: Path) -> None:
    """A recipe names shipped files without a path, and others with --also-from."""
    unpacked = Unpacked(wheel, tmp_path)
    idea = unpacked.empty / "idea.py"
    idea.write_bytes((ROOT / "docs/ideas/residual_norm.py").read_bytes())
    recipe = unpacked.empty / "mine.yaml"
    recipe.write_text(RECIPE.replace("SCENES", "scenes.npz"))
    command = ("capture", "mine.yaml", "--plugin", "idea.py", "--workers", "1")
    done = unpacked.call(*command)
    assert done.returncode == 0, done.stderr
    assert "512 steps, 4 layers, 2 rows" in done.stdout

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    scenes = elsewhere / "own.npz"
    scenes.write_bytes((unpacked.package / "carsim/idea/data/scenes.npz").read_bytes())
    recipe.write_text(RECIPE.replace("SCENES", "../elsewhere/own.npz"))
    refused = unpacked.call(*command, "--overwrite")
    assert refused.returncode == 2
    assert "lies outside of the recipe's folder" in refused.stderr
    allowed = unpacked.call(*command, "--overwrite", "--also-from", str(elsewhere))
    assert allowed.returncode == 0, allowed.stderr
    assert allowed.stdout.splitlines()[-1] == done.stdout.splitlines()[-1]  # an equal trace


@pytest.mark.skipif("CARSIM_LONG" not in os.environ, reason="two minutes; set CARSIM_LONG")
def test_an_unpacked_wheel_takes_an_idea_to_its_page(wheel: Path, tmp_path: Path) -> None:
    """The short form, in an empty folder, with nothing of the checkout but its libraries."""
    unpacked = Unpacked(wheel, tmp_path)
    idea = unpacked.empty / "my.py"
    idea.write_bytes((ROOT / "docs/ideas/residual_norm.py").read_bytes())
    done = unpacked.call("idea", "my.py")
    assert done.returncode == 0, done.stderr
    page = (unpacked.empty / "my/idea.html").read_text(encoding="utf-8")
    assert "Few scenes: 5" in page
    assert (unpacked.empty / "my/idea.pdf").read_bytes().startswith(b"%PDF")


def test_the_source_archive_builds_the_same_wheel(wheel, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    archive = tmp_path / build_sdist(str(tmp_path))
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
        packed.extractall(tmp_path, filter="data")
    assert not any(name.startswith(("tests/", ".ci/")) for name in names)
    assert all(name.endswith(".npz") for name in names if name.startswith("traces/"))
    monkeypatch.chdir(tmp_path / archive.name.removesuffix(".tar.gz"))
    assert (tmp_path / build_wheel(str(tmp_path))).read_bytes() == wheel.read_bytes()
