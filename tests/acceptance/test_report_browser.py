"""Pages in a real browser: nothing goes wrong, charts are drawn, tables sort. Needs Chromium."""

import base64
import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from explore_study import make_study
from pages import BROWSER
from tiny import tiny_report

from carsim.explore.sweep import sweep
from carsim.report import save_report
from carsim.report.report import write_page

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium")

USE = """
addEventListener("load", () => setTimeout(() => {
  const isNumeric = (row) => row.cells[1].dataset.value !== undefined;
  const table = [...document.querySelectorAll("table")].reverse().find(
    ({ tBodies: [{ rows }] }) => rows.length > 1 && [...rows].every(isNumeric));
  const heading = table.tHead.rows[0].cells[1];
  const column = () => [...table.tBodies[0].rows].map((row) => row.cells[1].dataset.value);
  heading.click();
  const up = column();
  heading.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  setTimeout(() => {
    const found = { up, down: column(), charts: document.querySelectorAll(".live").length,
                    plots: document.querySelectorAll("svg.main-svg").length,
                    marks: document.querySelectorAll(".points path, .lines path").length };
    console.log("FOUND " + JSON.stringify(found));
  }, 700);
}, 1500));
"""
"""Sorts a table up and down, and tells what it sees."""


def browse(page: Path, folder: Path) -> list[str]:
    """What the console says while the page is open for some seconds of its own time."""
    done = subprocess.run(
        [
            str(BROWSER),
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--virtual-time-budget=5000", "--enable-logging=stderr", "--dump-dom"),
            f"--user-data-dir={folder / 'profile'}",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    return re.findall(r'CONSOLE[^"]*"(.*)", source', done.stderr)


def used(page: Path) -> Path:
    """A copy that is used like a reader would, by a script that its policy allows."""
    html = page.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(USE.encode()).digest()).decode()
    allowed = html.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    assert allowed != html
    copy = page.with_name("used.html")
    copy.write_text(allowed.replace("</body>", f"<script>{USE}</script></body>"), encoding="utf-8")
    return copy


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    save_report(tiny_report(), folder / "run")
    sweep(make_study(folder, objectives=["seconds_per_video", "dsp"]), folder / "out", workers=0)
    return {name: write_page(folder / name) for name in ("run", "out")}


@pytest.mark.parametrize(("name", "charts"), [("run", 3), ("out", 1)])
def test_a_page_works_and_says_nothing_on_the_console(pages, tmp_path, name, charts):
    # A script, a style or a picture that the policy forbids would be told, too.
    (line,) = browse(used(pages[name]), tmp_path)
    seen = json.loads(line.removeprefix("FOUND "))
    assert seen["charts"] == charts <= seen["plots"]
    assert seen["marks"] != 0
    numbers = list(map(float, seen["up"]))
    assert len(set(numbers)) > 1
    assert numbers == sorted(numbers)
    assert seen["down"] == sorted(seen["up"], key=float, reverse=True)
