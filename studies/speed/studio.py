"""How long the studio takes: from the command to figure and page, and from a move to its chart.

    python studies/speed/studio.py [--starts 20] [--out studies/speed/studio.json]

Needs Chromium, Linux and the extra ``test``. Each design is opened several times, in a browser with
an empty cache; after the last start the slider of the cores is moved twenty times, each time to a
design that was not simulated before. A move ends when the chart has been drawn again: the page says
so by an event of Plotly's. Seconds by the clock
depend on what else the machine does. So each figure has its processor time beside it, and the
number of other processes that wanted a processor.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

DESIGNS = ("u280_compute_bound", "zcu102_16gb", "kv260")
MOVES = 20
BARS = "#breakdown .bars path"
FIRST = f"#first .stacks i, {BARS}"
"""What is drawn of the first figure: bars of the page itself, or of its scripts."""

REST_MS = 500
"""Rest between two moves, in which the timeline follows."""

ARM = """() => {
  const once = {once: true, capture: true};
  window.movedS = null;
  addEventListener("keydown", () => { window.begunAt = performance.now(); }, once);
  document.querySelector("#breakdown .js-plotly-plot").once("plotly_afterplot", () => {
    window.movedS = (performance.now() - window.begunAt) / 1000;
  });
}"""

WATCH = """selector => {
  new MutationObserver((_, watcher) => {
    if (!document.querySelector(selector)) return;
    watcher.disconnect();
    // The browser calls this as it draws the frame that shows the figure first.
    requestAnimationFrame(() => { window.drawnAt = Date.now() / 1000; });
  }).observe(document, {childList: true, subtree: true});
}"""

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Samples:
    """Seconds of one event, once for each repetition.

    Attributes:
        clock_s: By the clock.
        server_s: Processor time of the studio's processes.
        browser_s: Processor time of the browser and of what drives it.
    """

    clock_s: list[float] = field(default_factory=list)
    server_s: list[float] = field(default_factory=list)
    browser_s: list[float] = field(default_factory=list)

    def add(self, clock_s: float, before: "ProcessorTime", after: "ProcessorTime") -> None:
        """One repetition."""
        self.clock_s.append(clock_s)
        self.server_s.append(after.server_s - before.server_s)
        self.browser_s.append(after.browser_s - before.browser_s)

    def figures(self) -> dict[str, float]:
        """Median and spread by the clock, and medians of processor time."""
        median_s, p95_s, most_s = np.percentile(self.clock_s, (50, 95, 100))
        figures_s = {
            "median_s": median_s,
            "p95_s": p95_s,
            "most_s": most_s,
            "server_cpu_s": np.median(self.server_s),
            "browser_cpu_s": np.median(self.browser_s),
        }
        return {name: round(float(seconds), 3) for name, seconds in figures_s.items()}


@dataclass(frozen=True)
class ProcessorTime:
    """Processor time so far, user and system.

    Attributes:
        server_s: Of the studio's processes.
        browser_s: Of all other processes that this script has started.
    """

    server_s: float
    browser_s: float

    @classmethod
    def now(cls, server_pid: int) -> "ProcessorTime":
        """Processor time of the children of this process, apart for those of the server."""
        parents: dict[int, int] = {}
        seconds: dict[int, float] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                # The name of the program, in brackets, may hold blanks.
                words = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            parents[int(folder.name)] = int(words[1])
            seconds[int(folder.name)] = (int(words[11]) + int(words[12])) / TICKS_PER_S
        server_s = 0.0
        browser_s = 0.0
        for pid, process_s in seconds.items():
            line = _ancestors(pid, parents)
            if server_pid in line:
                server_s += process_s
            elif os.getpid() in line[1:]:
                browser_s += process_s
        return cls(server_s, browser_s)


def _ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    """A process, its parent, and so on."""
    line = [pid]
    while line[-1] in parents:
        line.append(parents[line[-1]])
    return line


def other_processes() -> int:
    """Processes that run or wait for a processor at this moment, without this one."""
    text = Path("/proc/stat").read_text()
    running = re.search(r"^procs_running (\d+)", text, re.MULTILINE)
    assert running is not None
    return int(running[1]) - 1


@contextmanager
def studio(design: str) -> Iterator[tuple[int, str, float]]:
    """A studio: number of its process, the address that lets in, and when the command began."""
    command = [sys.executable, "-m", "carsim", "studio", design, "--port", "0", "--no-browser"]
    begun_s = time.time()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        try:
            yield server.pid, address[0], begun_s
        finally:
            server.terminate()


@contextmanager
def empty_browser(browser: Browser) -> Iterator[Page]:
    """A tab of a browser that has loaded nothing."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def measured(browser: Browser, design: str, starts: int) -> dict[str, Any]:
    """Figures of one design."""
    firsts = Samples()
    pages = Samples()
    moves = Samples()
    others = []
    for start in range(starts):
        others.append(other_processes())
        # Processes of the studio do not exist before it starts.
        before = ProcessorTime.now(server_pid=-1)
        with studio(design) as (pid, address, begun_s), empty_browser(browser) as page:
            page.add_init_script(f"({WATCH})({FIRST!r})")
            page.goto(address, wait_until="commit")
            page.wait_for_function("window.drawnAt")
            firsts.add(page.evaluate("drawnAt") - begun_s, before, ProcessorTime.now(pid))
            page.wait_for_selector(BARS)
            pages.add(time.time() - begun_s, before, ProcessorTime.now(pid))
            page.wait_for_selector("#timeline .bars path")
            if start == starts - 1:
                page.locator("#cores-slider").focus()
                others += [move(page, pid, moves) for _ in range(MOVES)]
    return {
        "design": design,
        "starts": starts,
        "moves": MOVES,
        "other_processes": round(float(np.mean(others)), 1),
        "first_figure": firsts.figures(),
        "whole_page": pages.figures(),
        "move": moves.figures(),
    }


def move(page: Page, server_pid: int, moves: Samples) -> int:
    """Move the slider by one stop, to a new design; the number of other processes at its start."""
    page.wait_for_timeout(REST_MS)
    page.evaluate(ARM)
    others = other_processes()
    before = ProcessorTime.now(server_pid)
    page.keyboard.press("ArrowRight")
    while (moved_s := page.evaluate("window.movedS")) is None:
        page.wait_for_timeout(20)
    moves.add(moved_s, before, ProcessorTime.now(server_pid))
    return others


def main() -> None:
    """Measure, print, and write where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--out", type=Path)
    parser.add_argument("designs", nargs="*", default=DESIGNS)
    options = parser.parse_args()
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        designs = [measured(browser, design, options.starts) for design in options.designs]
        browser.close()
    text = json.dumps({"cores": os.cpu_count(), "designs": designs}, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
