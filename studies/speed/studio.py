"""How long the studio takes: from the command to figure and page, and from a move to its chart.

    python studies/speed/studio.py [--out studies/speed/studio.json]

Needs Chromium and the extra ``test``. Each design is opened in a browser with an empty cache; the
slider of the cores is moved twenty times. A move ends when the chart has been drawn again: the
page says so by an event of Plotly's. Seconds by the clock: run it on an idle machine.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, sync_playwright

DESIGNS = ("u280_compute_bound", "zcu102_16gb", "kv260")
MOVES = 20
BARS = "#breakdown .bars path"
ARM = """() => {
  const once = {once: true, capture: true};
  window.movedS = null;
  addEventListener("keydown", () => { window.begunAt = performance.now(); }, once);
  document.querySelector("#breakdown .js-plotly-plot").once("plotly_afterplot", () => {
    window.movedS = (performance.now() - window.begunAt) / 1000;
  });
}"""


def measured(browser: Browser, design: str) -> dict[str, Any]:
    """Figures of one design."""
    command = [sys.executable, "-m", "carsim", "studio", design, "--port", "0", "--no-browser"]
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.goto(found[0], wait_until="commit")
        page.wait_for_selector(f"#first .stacks i, {BARS}")
        first_s = time.monotonic() - begun
        page.wait_for_selector(BARS)
        all_s = time.monotonic() - begun
        page.wait_for_selector("#timeline .bars path")
        page.locator("#cores-slider").focus()
        moves = []
        for move in range(MOVES):
            page.wait_for_timeout(500)
            page.evaluate(ARM)
            page.keyboard.press(("ArrowRight", "ArrowLeft")[move % 2])
            while (moved := page.evaluate("window.movedS")) is None:
                page.wait_for_timeout(20)
            moves.append(moved)
        context.close()
        server.terminate()
    median_s, p95_s, most_s = np.percentile(moves, (50, 95, 100))
    of_moves = {"median_s": median_s, "p95_s": p95_s, "most_s": most_s}
    found_s = {"first_figure_s": first_s, "page_s": all_s, **of_moves}
    return {"design": design} | {key: round(float(each), 3) for key, each in found_s.items()}


def main() -> None:
    """Measure, print, and write where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    load = round(os.getloadavg()[0], 1)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        designs = [measured(browser, design) for design in DESIGNS]
        browser.close()
    text = json.dumps({"cores": os.cpu_count(), "load": load, "designs": designs}, indent=2)
    print(text)
    if out is not None:
        out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
