"""The page of a stored run: what it says, that it needs nothing else, and what it refuses."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from pages import EVIL, Page
from tiny import MISFIT, tiny_report

from carsim.base.digests import write_digests
from carsim.base.errors import InputError
from carsim.metrics import METRICS, headline
from carsim.report import save_report
from carsim.report.files import REPORT
from carsim.report.notes import notes_of
from carsim.report.report import write_page
from carsim.report.run_page import TileChange, tile_changes, tiles
from carsim.report.stored import read_run, sealed, stored
from carsim.report.words import WORDS, spelled_out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "out"
    save_report(tiny_report(), folder, timeline=(15, 18))
    return folder


@pytest.fixture(scope="module")
def page(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page(write_page(folder, tmp_path_factory.mktemp("page") / "page.html"))


def copied(folder: Path, into: Path, change: Any = lambda document: None) -> Path:
    """A copy of a run's folder without layer-steps, its summary changed."""
    into.mkdir()
    for name in ("utilisation.csv", "design.yaml"):
        (into / name).write_bytes((folder / name).read_bytes())
    document = json.loads((folder / "summary.json").read_text())
    del document["checksum"]
    change(document)
    (into / "summary.json").write_text(json.dumps(sealed(document)))
    return into


def test_the_page_says_what_was_asked_and_what_came_out(page: Page) -> None:
    report = tiny_report()
    for row in report.rows:
        assert row.variant.name in page.text
    for text in (
        "a toy on a large board",
        "3 frames x 16 tokens = 48 steps after a prompt of 5",
        " frames/s, on a board (",
        " s per video, time without runtime overhead",
        "What the ZCU102 holds",
        "What 10 % more of a resource would bring",
        f"sha256 {report.design.sha256[:12]}",
    ):
        assert text in page.text
    for note in notes_of(report):
        assert note in page.text


def test_the_page_spells_out_the_words_that_it_uses_once(page: Page) -> None:
    for meaning in WORDS.values():
        assert page.text.count(meaning) == 1
    assert spelled_out("<p>an axis</p><script>DRS, tau</script><p title='replay'>") == []


def test_the_page_needs_no_other_file_and_no_network(page: Page) -> None:
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        if tag == "script":
            assert "src" not in attributes
        if "src" in attributes:
            assert str(attributes["src"]).startswith("data:image/png;base64,")
        assert not any(name.startswith("on") for name in attributes)
    assert page.policy["default-src"] == "'none'"
    assert "connect-src" not in page.policy
    digests = (hashlib.sha256(script.encode()).digest() for script in page.scripts)
    hashes = {f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests}
    assert len(page.scripts) == 2
    assert set(page.policy["script-src"].split()) == hashes


def test_a_page_in_its_folder_links_to_its_files(folder: Path, page: Page, tmp_path: Path) -> None:
    assert page.links == []
    assert "timeline.json" in Page(write_page(folder)).links
    (folder / REPORT).unlink()
    without = copied(folder, tmp_path / "out")
    (without / "utilisation.csv").unlink()
    beside = Page(write_page(without))
    assert len(beside.data) == 2
    assert beside.links == ["summary.json", "design.yaml"]


KEPT = ("resolved_design", "manifest", "memories", "kind", "stages")
"""Texts of a summary that are checked, and others that no page shows."""


def test_hostile_names_are_shown_and_do_nothing(folder: Path, page: Page, tmp_path: Path) -> None:
    def spoil(document: dict[str, Any]) -> None:
        board = document["resolved_design"]["board"]
        document["resolved_design"] |= {"description": EVIL, "name": EVIL}
        document["resolved_design"]["board"] = board | {"name": EVIL}
        document |= {key: evil(value) for key, value in document.items() if key not in KEPT}

    def evil(value: Any) -> Any:
        """All texts spoilt, and names of what the energy goes to."""
        if isinstance(value, dict):
            parts = ((key + EVIL * (" " in key), part) for key, part in value.items())
            return {key: part if key in KEPT else evil(part) for key, part in parts}
        if isinstance(value, list):
            return list(map(evil, value))
        return value + EVIL if isinstance(value, str) else value

    spoilt = copied(folder, tmp_path / "out", spoil)
    csv = spoilt / "utilisation.csv"
    quoted = EVIL.replace('"', '""')
    csv.write_text(csv.read_text().replace("ps_ddr_of_peak", f'"{quoted}_of_peak"'))
    found = Page(write_page(spoilt, tmp_path / "page.html"))
    plain = Page(write_page(copied(folder, tmp_path / "plain"), tmp_path / "plain.html"))
    assert found.shape == plain.shape
    assert found.scripts == plain.scripts
    assert found.text.count(EVIL) > 60
    for figure in found.data:
        assert "<img" not in json.dumps(figure)
        assert "<a " not in json.dumps(figure)
    assert any("&lt;img" in json.dumps(figure) for figure in found.data)


def test_a_misfit_is_the_first_thing_that_a_page_says(tmp_path: Path) -> None:
    save_report(tiny_report(MISFIT), tmp_path / "out")
    page = Page(write_page(tmp_path / "out"))
    assert page.text.index("MISFIT: toy does not fit ZCU102") < page.text.index(" per video")
    assert "1 DSP available" in page.text
    assert '<tr class="marked">' in page.html
    headings = [text for text in page.texts if text.startswith("MISFIT, this design")]
    assert len(headings) == len(page.data)


BROKEN = {
    "a key is missing": (
        lambda document: document.pop("policies"),
        r"\$.policies: is missing; add it, or run again",
    ),
    "a number is text": (
        lambda document: document["policies"][1].update(latency_s="fast"),
        r"\$.policies.1.latency_s: should be a valid number, got 'fast'",
    ),
    "another version": (lambda document: document.update(schema_version=7), "is of version 7; "),
    "no version": (lambda document: document.pop("schema_version"), "is of version None; this"),
    "no design": (lambda document: document.update(resolved_design={}), "resolved_design"),
}


@pytest.mark.parametrize(("change", "problem"), BROKEN.values(), ids=BROKEN)
def test_a_broken_summary_is_one_line(folder: Path, tmp_path: Path, change: Any, problem: str):
    broken = copied(folder, tmp_path / "out", change)
    with pytest.raises(InputError, match=problem) as error:
        write_page(broken)
    assert "\n" not in str(error.value)
    assert not (broken / REPORT).exists()


def test_a_summary_with_another_digit_is_one_line(folder: Path, tmp_path: Path) -> None:
    text = (folder / "summary.json").read_text()
    number = json.dumps(json.loads(text)["policies"][0]["latency_s"])
    other = number.replace(number[-1], "7" if number[-1] != "7" else "8")
    assert text.count(number)
    (tmp_path / "summary.json").write_text(text.replace(number, other))
    with pytest.raises(InputError, match="is damaged: it does not match its checksum; run again"):
        read_run(tmp_path)


@pytest.mark.parametrize("lost", [1, 0.9])
def test_truncated_utilisation_is_one_line(folder: Path, tmp_path: Path, lost: float) -> None:
    broken = copied(folder, tmp_path / "out")
    path = broken / "utilisation.csv"
    write_digests(broken, [path.name])
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1][: int((1 - lost) * len(lines[-1]))])
    with pytest.raises(InputError, match=r"utilisation.csv: is truncated or broken"):
        write_page(broken)


def test_only_the_page_in_the_folder_is_replaced_unasked(folder: Path, tmp_path: Path) -> None:
    assert write_page(folder) == write_page(folder) == folder / REPORT
    page = tmp_path / "page.html"
    page.write_text("<p>my thesis</p>")
    with pytest.raises(InputError, match="exists already; name another, or set `overwrite`"):
        write_page(folder, page)
    assert page.read_text() == "<p>my thesis</p>"
    write_page(folder, page, overwrite=True)
    assert "my thesis" not in page.read_text()
    with pytest.raises(InputError, match="exists already"):
        write_page(folder, tmp_path, overwrite=True)
    with pytest.raises(InputError, match="cannot be written"):
        write_page(folder, tmp_path / "no" / "page.html")


def test_tiles_tell_their_change_from_another_run_and_which_way_is_better() -> None:
    slow, fast = stored(tiny_report("machine.cores=1")), stored(tiny_report())
    changes = tile_changes(fast, slow)
    assert len(changes) == len(tiles(fast))
    names = [metric.name for metric in headline("video") if metric.headline_of]
    for name, change in zip(["expected_seconds_per_video", *names], changes, strict=False):
        now, before = fast.own[name], slow.own[name]
        way = METRICS[name].better
        if METRICS[name].unit != "share":
            assert change.text == f"{100 * (now / before - 1):+.1f} % from pinned"
        assert change.verdict == ("better" if (now > before) == (way == "higher") else "worse")
    assert changes[-1] == TileChange("as pinned", "")
    assert {change.text for change in tile_changes(fast, fast)} == {"as pinned"}
    misfit = stored(tiny_report(MISFIT))
    assert tile_changes(misfit, fast)[-1] == TileChange("pinned: yes", "worse")
    assert tile_changes(fast, misfit)[-1] == TileChange("pinned: no", "better")
