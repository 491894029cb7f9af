"""A release: one version everywhere, a short changelog, archives that an index accepts."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from hatchling.build import build_sdist, build_wheel

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = ROOT / ".github" / "workflows"
MAX_WORDS = 900


def workflow(name: str) -> dict:
    """A workflow; YAML 1.1 reads its key ``on`` as true."""
    return yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))


def section(version: str) -> str:
    """The changelog of a version."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^## \[{re.escape(version)}\].*?(?=^## \[|\Z)", text, re.M | re.S)
    return found


def test_the_changelog_of_the_version_can_be_read_in_five_minutes() -> None:
    text = section(PROJECT["version"])
    assert len(text.split()) <= MAX_WORDS
    for heading in ("Model changes", "Added", "Changed", "Fixed"):
        assert f"### {heading}\n" in text
    assert "(docs/upgrade.md)" in text


def test_the_documented_tag_is_that_of_the_version() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    version = PROJECT["version"]
    command = f'git tag -a v{version} -m "carsim {version}" && git push origin v{version}'
    assert command in contributing
    assert workflow("publish.yml")[True]["push"]["tags"] == ["v*"]


def test_the_versions_of_python_are_those_that_ci_runs() -> None:
    classified = [
        each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)
    ]
    matrix = workflow("ci.yml")["jobs"]["check"]["strategy"]["matrix"]["python"]
    assert classified == matrix
    oldest, newest = matrix[0], matrix[-1]
    beyond = f"3.{int(newest.partition('.')[2]) + 1}"
    assert PROJECT["requires-python"] == f">={oldest},<{beyond}"


def test_twine_accepts_the_wheel_and_the_source_archive(tmp_path, monkeypatch) -> None:
    pytest.importorskip("twine", reason="needs the extra carsim[dev]")
    monkeypatch.chdir(ROOT)
    archives = [tmp_path / build(str(tmp_path)) for build in (build_wheel, build_sdist)]
    assert all(f"carsim-{PROJECT['version']}" in path.name for path in archives)
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, archives)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == len(archives)
