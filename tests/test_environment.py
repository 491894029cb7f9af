"""Libraries that may be absent: the command that installs each, and refusals before any work."""

import ast
import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

from carsim.base import environment
from carsim.base.environment import LIBRARIES, install_command, library
from carsim.base.errors import InputError

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]


@pytest.mark.parametrize(("module", "named"), LIBRARIES.items())
def test_the_extra_of_a_library_brings_it(module: str, named: tuple[str, str]) -> None:
    package_of = {
        "Accelerate": "accelerate",
        "Amaranth": "amaranth",
        "Dash": "dash",
        "Dask": "distributed",
        "Optuna": "optuna",
    }
    name, extra = named
    package = package_of.get(name, name)
    assert any(needed.startswith(f"{package}>=") for needed in EXTRAS[extra]), module


def test_what_was_tested_is_locked_and_has_a_licence() -> None:
    pinned = dict(
        line.split("==") for line in (ROOT / ".ci/lock.txt").read_text("utf-8").splitlines()[1:]
    )
    table = (ROOT / "LICENCES.md").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for requirement in project["dependencies"]:
        name, lowest, beyond = re.split(">=|,<", requirement)
        version = tuple(map(int, pinned[name.lower()].split(".")[:2]))
        assert tuple(map(int, lowest.split(".")[:2])) <= version < (int(beyond),)
        assert f"| {name.lower()} | {pinned[name.lower()]} | " in table


def test_every_extra_of_a_user_can_be_asked_for() -> None:
    assert {extra for _, extra in LIBRARIES.values()} | {
        *("dev", "docs", "mutation", "notebook", "test", "train")
    } == set(EXTRAS)


def test_libraries_are_named_as_the_package_states_them(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = ["numpy<3,>=1.26", "optuna<6,>=5; extra == 'search'", 'dash<5; extra == "studio"']
    stated += ["flask<4,>=3; extra == 'studio'"]
    monkeypatch.setattr("importlib.metadata.requires", {"carsim": stated}.__getitem__)
    monkeypatch.setattr(sys, "executable", "/opt/its own/python")
    start = "'/opt/its own/python' -m pip install"
    assert install_command("search") == f"{start} 'optuna<6,>=5'"
    assert install_command("studio") == f"{start} 'dash<5' 'flask<4,>=3'"


def test_one_that_is_broken_is_not_called_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "optuna.py").write_text("import no_such_module", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "optuna", raising=False)
    with pytest.raises(
        InputError, match=r"Optuna, which cannot be imported \(No module named 'no_"
    ):
        library("optuna", "here")


def test_the_fast_subset_names_tests_that_exist() -> None:
    for name in runpy.run_path(str(ROOT / "tests/__main__.py"))["FAST"]:
        assert (ROOT / "tests" / name).exists(), name


MAY_RUN = {
    "base/plugins.py": {"exec"},  # of files that the user names on the command line
    "decoder/content/videos.py": {"subprocess"},  # FFmpeg, on files that the user names
    "explore/expression.py": {"eval"},  # of an expression whose nodes a table allows
    "explore/parcel.py": {"pickle"},  # between own processes
    "hardware/rtl/synthesise.py": {"subprocess"},  # Yosys, on gates of carsim's own
    "studio/serve.py": {"socket"},  # on this machine
    "testing/promise.py": {"pickle"},  # there and back
}
RUNS = {"eval", "exec", "marshal", "pickle", "requests", "shelve", "socket", "subprocess"}
REACHES = {"allow_pickle": True, "trust_remote_code": True, "local_files_only": False}


def test_files_that_are_read_never_run_or_reach_out() -> None:
    package = Path(environment.__file__).parents[1]
    for path in package.rglob("*.py"):
        used = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and node.id in ("eval", "exec"):
                used.add(node.id)
            elif isinstance(node, ast.Import):
                used |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                used.add((node.module or "").partition(".")[0])
            elif isinstance(node, ast.keyword) and node.arg in REACHES:
                assert ast.unparse(node.value) != str(REACHES[node.arg]), path
        name = str(path.relative_to(package))
        assert used & RUNS <= MAY_RUN.get(name, set()), name
