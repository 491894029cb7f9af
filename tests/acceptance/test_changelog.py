"""Changes since the last release: one file each, which towncrier joins."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRAGMENTS = ROOT / "docs" / "changes"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
TYPES = {kind["directory"]: kind["name"] for kind in SETTINGS["type"]}


def problem(fragment: Path) -> str:
    """What is wrong with a fragment; empty if nothing is."""
    name = re.fullmatch(r"\d+\.[a-z0-9_-]+\.([a-z]+)\.md", fragment.name)
    text = fragment.read_text(encoding="utf-8").strip()
    if name is None:
        return f"{fragment.name}: the name is not <issue>.<topic>.<type>.md"
    if name[1] not in TYPES:
        return f"{fragment.name}: the type {name[1]} is none of {', '.join(TYPES)}"
    if not text:
        return f"{fragment.name}: the file is empty"
    if re.search(r"^#", text, re.MULTILINE):
        return f"{fragment.name}: the text has a heading, and becomes an item of a list"
    if "](" in text:
        return f"{fragment.name}: the text has a link, which would not work in CHANGELOG.md"
    return ""


def test_each_fragment_has_a_type_and_a_text() -> None:
    beside = {"README.md", Path(SETTINGS["template"]).name}
    fragments = sorted(path for path in FRAGMENTS.iterdir() if path.name not in beside)
    assert [problem(fragment) for fragment in fragments if problem(fragment)] == []


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("45.memory.md", "Text.", "is not <issue>.<topic>.<type>.md"),
        ("memory.fixed.md", "Text.", "is not <issue>.<topic>.<type>.md"),
        ("45.memory.improved.md", "Text.", "the type improved is none of model, added"),
        ("45.memory.fixed.md", "\n", "the file is empty"),
        ("45.memory.fixed.md", "# Memory\n\nText.", "has a heading"),
        ("45.memory.fixed.md", "See [models](../models.md).", "has a link"),
        ("45.memory.fixed.md", "A refresh takes its time.", ""),
    ],
)
def test_a_fragment_that_does_not_fit_is_told(tmp_path: Path, name: str, text: str, told: str):
    fragment = tmp_path / name
    fragment.write_text(text, encoding="utf-8")
    assert told in problem(fragment)
    assert bool(told) == bool(problem(fragment))


def test_the_types_are_those_of_the_guide() -> None:
    guide = (FRAGMENTS / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z]+)` \|", guide, re.MULTILINE) == list(TYPES)


def towncrier(folder: Path, *arguments: str) -> str:
    """The output of ``towncrier build`` in a folder."""
    command = [sys.executable, "-m", "towncrier", "build", "--version", "9.8.7", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_towncrier_joins_the_fragments_of_this_checkout() -> None:
    pytest.importorskip("towncrier", reason="needs the extra carsim[dev]")
    drafted = towncrier(ROOT, "--draft")
    assert "## [9.8.7]" in drafted
    for fragment in FRAGMENTS.glob("[0-9]*.md"):
        first_line = fragment.read_text(encoding="utf-8").strip().splitlines()[0]
        assert f"- {first_line}\n" in drafted, fragment.name


def test_a_release_stands_above_the_releases_before_it(tmp_path: Path) -> None:
    pytest.importorskip("towncrier", reason="needs the extra carsim[dev]")
    for name in ("pyproject.toml", "CHANGELOG.md", SETTINGS["template"]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    folder = tmp_path / SETTINGS["directory"]
    (folder / "45.memory.fixed.md").write_text("A refresh takes its time.\n", encoding="utf-8")
    (folder / "46.clock.model.md").write_text("A clock is faster.\nBy 1 %.\n", encoding="utf-8")
    before = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    towncrier(tmp_path, "--yes", "--date", "2026-12-01")
    after = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    section = (
        "## [9.8.7] - 2026-12-01\n\n"
        "### Model changes\n\n- A clock is faster.\n  By 1 %.\n\n"
        "### Fixed\n\n- A refresh takes its time.\n"
    )
    head, tail = before.split(SETTINGS["start_string"])
    assert head in after
    assert tail.strip() in after
    assert after.index(head) < after.index(section) < after.index(tail.strip())
    assert not list(folder.glob("[0-9]*.md"))
