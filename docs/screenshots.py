"""Take the pictures of the pages in the documents: the studio, its explorer, and the timeline.

    python docs/screenshots.py               # all of them, into docs/images
    python docs/screenshots.py FOLDER        # into another folder

Needs the extra ``studio``, Playwright, and a Chromium on the path. The studio is served by the
command itself, so that a picture shows what a reader of the page gets.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
sys.path[:0] = [str(ROOT)]

from carsim.report.plots import write_plot  # noqa: E402
from carsim.studio.state import TabState  # noqa: E402

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
DESIGN = TabState("u280_compute_bound", trace="vilau_8f")
SIX_CORES = DESIGN.with_change("machine.cores", "6")
COMPARED = TabState(
    DESIGN.design,
    SIX_CORES.changes,
    trace=DESIGN.trace,
    pins=(DESIGN.query,),
    over="cores",
    by="schedule",
)

STUDY = """\
design: u280_compute_bound
traces: [vilau_8f]
axes:
  policy.tau: [0.5, 1.9, 2.7, 4.25, 8]
  machine.cores: [2, 4, 8]
  machine.array.cols: [8, 16, 32]
  board.fabric_clock_mhz: [150, 200, 250, 300]
  policy.schedule: [static, drs]
  policy.batch: [4, 8, 16]
objectives: [seconds_per_video, energy_per_video_j]
"""

SETTLED_MS = 1500
"""Time that charts take to come to rest."""

MOST_MS = 300_000
"""Time that a part of a page may take to appear, on a busy computer."""

COLOURS = 128
"""Colours of a picture, which keep it small."""


def carsim(*arguments: str, folder: Path) -> None:
    """Call a command in a folder."""
    subprocess.run([sys.executable, "-m", "carsim", *arguments], cwd=folder, check=True)


@contextmanager
def studio(folder: Path) -> Iterator[str]:
    """A studio that is served; its address, which lets in."""
    command = [sys.executable, "-m", "carsim", "studio", DESIGN.design, "--trace", DESIGN.trace]
    command += ["--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as server:
        assert server.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+/\S*", server.stdout.readline())
        assert address is not None
        try:
            yield address[0]
        finally:
            server.terminate()


def save(shot: bytes, path: Path) -> None:
    """Write a picture with few colours."""
    raw = path.with_suffix(".raw.png")
    raw.write_bytes(shot)
    with Image.open(raw) as picture:
        picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)
    raw.unlink()


def shoot_studio(browser: Any, address: str, into: Path) -> None:
    """The studio at desk and phone width, light and dark."""
    for name, state, width, height, theme in (
        ("studio", DESIGN, 1280, 900, "light"),
        ("studio-dark", COMPARED, 1280, 1500, "dark"),
        ("studio-phone", DESIGN, 390, 844, "light"),
        ("studio-phone-dark", DESIGN, 390, 844, "dark"),
    ):
        view = {"width": width, "height": height}
        context = browser.new_context(viewport=view, color_scheme=theme)
        page = context.new_page()
        page.set_default_timeout(MOST_MS)
        opening = address.partition("?")[0]
        page.goto(opening + state.query)
        page.wait_for_selector("#timeline .bars path")
        if state.over:
            page.wait_for_selector("#sweep .scatterlayer, #sweep .bars path", state="attached")
        page.wait_for_timeout(SETTLED_MS)
        save(page.screenshot(), into / f"{name}.png")
        context.close()


def shoot_explorer(browser: Any, page_file: Path, into: Path) -> None:
    """The explorer of a study, with a limit on an axis and the card of the knee."""
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    page.goto(page_file.as_uri())
    page.wait_for_selector(".explorer-status")
    page.evaluate("""() => {
      const { explorer } = document.querySelector("#front .canvas");
      explorer.view.brushes["machine.cores"] = [0.4, 1];
      explorer.choose();
      explorer.pick(explorer.knee);
    }""")
    page.wait_for_timeout(SETTLED_MS)
    save(page.locator("#front .canvas").screenshot(), into / "explorer.png")
    page.close()


def main(into: Path) -> None:
    """Take all pictures."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, CHROMIUMS)))
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as driver:
        folder = Path(temporary)
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        (folder / "machines.yaml").write_text(STUDY, encoding="utf-8")
        carsim("sweep", "machines.yaml", "--out", "machines", "--workers", "0", folder=folder)
        carsim("report", "machines", folder=folder)
        shoot_explorer(browser, folder / "machines" / "report.html", into)
        run = ("run", DESIGN.design, "--trace", DESIGN.trace, "--out", "seen", "--quiet")
        carsim(*run, "--timeline", "600:601", folder=folder)
        write_plot([str(folder / "seen")], "timeline", folder / "timeline.png", 10.0)
        save((folder / "timeline.png").read_bytes(), into / "timeline.png")
        with studio(folder) as address:
            shoot_studio(browser, address, into)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else IMAGES)
