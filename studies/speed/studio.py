"""How fast the studio answers: start to first figure, and a slider to the figure drawn again.

    python studies/speed/studio.py [--moves 40] [DESIGN ...]

Needs Chromium and the extra ``test``. Starts ``carsim studio`` for each design, opens it in a fresh
browser, moves the slider of the cores to a place where it was not before, waits until all that
follows is there, and moves it again. Times are of the wall and hold for a machine that does nothing
else; the browser runs on the same cores. Writes ``studio.json``.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

OUT = Path(__file__).with_name("studio.json")
DESIGNS = ("u280_compute_bound", "zcu102_16gb", "kv260")
LATER_MS = 1500
"""For what follows an answer: the curve over tau, the timeline."""

MOVE = """value => new Promise(done => {
  const chart = document.querySelector("#breakdown .js-plotly-plot");
  const slider = document.querySelector("#cores-slider");
  const began = performance.now();
  chart.once("plotly_afterplot", () => done(performance.now() - began));
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(slider, value);
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})"""
"""Moves the slider as a hand does, and says after how many milliseconds the chart is new."""


def measure(design: str, moves: int) -> dict[str, Any]:
    """Seconds to the first figure and of every move."""
    command = [sys.executable, "-m", "carsim", "studio", design, "--port", "0", "--no-browser"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        began = perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            told = server.stdout.readline()
            page.goto(re.search(r"http://\S*", told)[0])
            page.wait_for_selector("#breakdown .bars path")
            first = perf_counter() - began
            page.wait_for_timeout(2 * LATER_MS)
            took = []
            for move in range(moves):
                took.append(page.evaluate(MOVE, _stop(move)) / 1000)
                page.wait_for_timeout(LATER_MS)
            server.terminate()
        browser.close()
    return {
        "design": design,
        "first_figure_s": round(first, 2),
        "moves": moves,
        "median_s": round(float(np.median(took)), 3),
        "p95_s": round(float(np.quantile(took, 0.95)), 3),
        "most_s": round(max(took), 3),
    }


def _stop(move: int) -> str:
    """Stops of the slider: no two are the same, and none is where it was at first."""
    return str((5 + 7 * move) % 31 + (1 if (5 + 7 * move) % 31 > 2 else 0))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("designs", nargs="*", default=DESIGNS)
    parser.add_argument("--moves", type=int, default=30)
    arguments = parser.parse_args()
    rows = [measure(design, arguments.moves) for design in arguments.designs]
    found = {"cores": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[0], 1)}
    OUT.write_text(json.dumps({**found, "designs": rows}, indent=2) + "\n", encoding="utf-8")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
