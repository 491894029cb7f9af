"""The studio in a real browser: what a user does with it, at both widths. Needs Chromium.

No test may leave a message on the console.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from explore_study import make_study

from carsim.design import load_design
from carsim.explore.store import STORE_FILE
from carsim.explore.sweep import sweep
from carsim.studio.fields import FIELDS, SLIDERS

pytest.importorskip("dash")
axe = pytest.importorskip("axe_core_python.sync_playwright")

SETTLED = "document.getAnimations().every(each => each.playState == 'finished')"
SOON_MS = 180_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studio")
    study = make_study(folder, objectives=["seconds_per_video", "energy_per_video_j"])
    sweep(study, folder / "out", workers=0)
    return folder


@contextmanager
def served(folder: Path, *arguments: str, **environment: str) -> Iterator[Any]:
    """A studio of the toy, served by the command itself."""
    command = [sys.executable, "-m", "carsim", "studio", str(folder / "toy.yaml")]
    command += ["--trace", str(folder / "toy.npz"), "--port", "0", *arguments]
    paths = filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment
    ) as server:
        yield server
        server.terminate()


def address_of(server: Any) -> str:
    told = server.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+/\S*", told)
    assert found, told
    return found[0]


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The address that lets in."""
    with served(folder, "--no-browser") as server:
        found = address_of(server)
        assert "It lets in whoever has this address" in server.stdout.readline()
        yield found


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    """A browser that has loaded scripts before, which saves most of the time of opening a tab."""
    with closing(browser.new_context(viewport={"width": 1280, "height": 900})) as context:
        yield context


@pytest.fixture
def tab(context: Any, address: str) -> Iterator[Any]:
    """An open studio, whose console stays silent."""
    said: list[str] = []
    with closing(opened(context, address, said)) as page:
        yield page
    assert said == []


def opened(context: Any, address: str, said: list[str]) -> Any:
    page = context.new_page()
    page.set_default_timeout(SOON_MS)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    page.wait_for_selector("#breakdown .bars path")
    page.wait_for_selector("#timeline .bars path")
    return page


def text_of(page: Any, part: str) -> str:
    return page.locator(part).first.inner_text()


def shows(page: Any, text: str) -> None:
    """Wait until the command has a text."""
    page.wait_for_selector(f'#command:has-text("{text}")')


def typed(page: Any, key: str, text: str) -> None:
    page.locator(f"#{key}").fill(text)
    page.keyboard.press("Enter")


def seconds(page: Any) -> str:
    return text_of(page, "#tiles .tile b")


def test_a_slider_answers_and_going_back_undoes(tab: Any) -> None:
    before = seconds(tab)
    tab.locator("#cores-slider").focus()
    tab.keyboard.press("ArrowRight")
    shows(tab, "machine.cores=3")
    assert seconds(tab) != before
    assert tab.locator("#cores").input_value() == "3"
    tab.go_back()
    tab.wait_for_selector('#command:not(:has-text("machine.cores"))')
    assert seconds(tab) == before
    assert tab.locator("#cores").input_value() == "2"
    tab.go_forward()
    shows(tab, "machine.cores=3")


def test_a_reload_brings_the_state_back_and_so_does_the_link_in_another_tab(tab: Any) -> None:
    typed(tab, "rows", "8")
    shows(tab, "machine.array.rows=8")
    found = seconds(tab)
    tab.reload()
    shows(tab, "machine.array.rows=8")
    assert seconds(tab) == found
    other = opened(tab.context, tab.url, [])
    shows(other, "machine.array.rows=8")
    typed(other, "rows", "2")
    shows(other, "machine.array.rows=2")
    assert "machine.array.rows=8" in text_of(tab, "#command")
    assert seconds(tab) == found


def test_a_bad_value_is_refused_in_place_and_changes_nothing(tab: Any) -> None:
    before, address = seconds(tab), tab.url
    typed(tab, "cores", "0")
    tab.wait_for_selector('#cores-error:has-text("should be greater than 0, got 0")')
    assert (seconds(tab), tab.url) == (before, address)
    typed(tab, "cores", "4")
    shows(tab, "machine.cores=4")
    assert text_of(tab, "#cores-error") == ""


def test_a_pinned_design_is_compared(tab: Any) -> None:
    tab.locator("#pin").click()
    tab.wait_for_selector('#comparison p:has-text("as in A")')
    typed(tab, "cores", "1")
    tab.wait_for_selector('#comparison td:has-text("machine.cores")', state="attached")
    assert not tab.locator("#comparison td").first.is_visible()  # folded
    assert "pinned" in tab.locator("#breakdown .ytick").last.text_content()
    change = text_of(tab, "#tiles .tile >> nth=0 >> .change")
    assert re.fullmatch(r"[+][0-9.]+\s% from pinned, worse", change)
    tab.locator("#unpin").click()
    tab.wait_for_selector("#comparison p", state="detached")
    assert tab.locator("#tiles .change").count() == 0


def test_tab_reaches_every_control_in_order_and_shows_where_it_is(tab: Any) -> None:
    focused = """() => {
      const outline = getComputedStyle(document.activeElement).outlineStyle;
      return [document.activeElement.id, outline !== "none"];
    }"""
    wanted = [
        name
        for key, field in FIELDS.items()
        if field.made != "text"
        for name in ([key, f"{key}-slider"] if key in SLIDERS else [key])
    ]
    tab.locator("#copy-command").focus()
    for key, back in (("Tab", 1), ("Shift+Tab", -1)):
        found: list[tuple[str, bool]] = []
        while len(found) < len(wanted):
            tab.keyboard.press(key)
            name, is_seen = tab.evaluate(focused)
            if name or found:  # before the form stand folded notes, which have no name
                found.append((name, is_seen))
        assert [name for name, _ in found][::back] == wanted
        menus = [name for name, is_seen in found if is_seen and name in FIELDS]
        assert {key for key, field in FIELDS.items() if field.is_menu} <= set(menus)
        tab.keyboard.press(key)  # beyond the last one
    assert tab.evaluate("document.querySelector('form').scrollLeft") == 0


def test_what_is_copied_means_the_same(tab: Any, tmp_path: Path) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    typed(tab, "rows", "8")
    shows(tab, "machine.array.rows=8")
    tab.wait_for_selector('#yaml:has-text("rows: 8")', state="attached")

    def copied(what: str) -> str:
        tab.evaluate(f"document.querySelector('#copy-{what}').click()")
        tab.wait_for_selector('#done:has-text("copied")')
        return tab.evaluate("navigator.clipboard.readText()")

    assert copied("link") == tab.url
    assert copied("command") == text_of(tab, "#command")
    path = tmp_path / "copied.yaml"
    path.write_text(copied("yaml"), encoding="utf-8")
    assert load_design(str(path)).machine.array.rows == 8


def test_a_click_on_the_front_opens_its_point(tab: Any, folder: Path) -> None:
    typed(tab, "store", str(folder / "out"))
    tab.wait_for_selector("#explorer .explorer-status")
    scatter = tab.locator("#explorer .explorer-canvas").nth(1)
    scatter.scroll_into_view_if_needed()
    place = """() => {
      const { knee, px, py } = document.querySelector("#explorer").explorer;
      return { x: px[knee], y: py[knee] };
    }"""
    scatter.click(position=tab.evaluate(place))
    tab.wait_for_selector('#explorer h3:has-text("the knee of the front")')
    tab.locator("#explorer .explorer-card button").click()
    shows(tab, "policy.schedule=")
    assert "machine.cores=" in tab.url
    assert "policy.tau=" in tab.url


def test_limits_and_the_open_card_stay_while_a_sweep_adds_points(tab: Any, folder: Path) -> None:
    """A sweep that goes on: its store has some of the points, then all."""
    whole = (folder / "out" / STORE_FILE).read_bytes()
    growing = folder / "growing"
    growing.mkdir()
    header, *lines = whole.splitlines(keepends=True)
    (growing / STORE_FILE).write_bytes(header + b"".join(lines[:8]))
    typed(tab, "store", str(growing))
    tab.wait_for_selector('#explorer .explorer-status:has-text("so far")')
    tab.evaluate("""() => {
      const { explorer } = document.querySelector("#explorer");
      explorer.view.brushes["machine.cores"] = [0, 0.9];
      explorer.pick(explorer.front[0]);
    }""")
    opened = text_of(tab, "#explorer h3")
    (growing / STORE_FILE).write_bytes(whole)
    tab.wait_for_selector('#explorer .explorer-status:has-text(" of 18 points")')
    assert text_of(tab, "#explorer h3").split(",")[0] == opened.split(",")[0]
    assert "12 of 18 points" in text_of(tab, "#explorer .explorer-status")


def test_a_click_on_a_slice_explains_it(tab: Any) -> None:
    assert text_of(tab, "#timeline-told") == "A click on a slice explains it."
    graph = tab.locator("#timeline .js-plotly-plot")
    graph.scroll_into_view_if_needed()
    slices = tab.locator("#timeline .bars path")
    box = max((each.bounding_box() for each in slices.all()), key=lambda box: box["width"])
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tab.wait_for_function("/ cycles/.test(document.querySelector('#timeline-told').textContent)")
    assert tab.locator("#waits td").first.text_content()


def violations(page: Any) -> list[Any]:
    """Rules of accessibility that the page breaks.

    Left out is the input before each menu, hidden from readers of screens: it hands the focus on
    to the menu at once, which ``test_tab_reaches_every_control`` sees and axe does not.
    """
    return axe.Axe().run(page, context={"exclude": [[".dash-dropdown-focus-target"]]})["violations"]


@pytest.mark.parametrize(("width", "height", "theme"), [(1280, 900, "light"), (390, 844, "dark")])
def test_nothing_is_out_of_reach_or_out_of_sight(browser, address, width, height, theme):
    said, asked = list[str](), list[str]()
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    context.on("request", lambda request: asked.append(request.url))
    page = opened(context, address, said)
    page.wait_for_function(SETTLED)
    assert [(v["id"], v["nodes"][0]["html"]) for v in violations(page)] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    tops = [page.locator(part).bounding_box()["y"] for part in ("#tiles", "#design", "#breakdown")]
    assert width > 400 or tops == sorted(tops), "on a phone the answer comes before the controls"
    assert tops[0] < 400
    context.close()
    assert said == []
    # The page asks nobody else.
    assert {url.split("/")[2] for url in asked if url.startswith("http")} == {address.split("/")[2]}


def test_a_link_holds_no_token_and_lets_nobody_else_in(browser, context, address, tmp_path):
    token = address.split("/open/")[1].split("?")[0]
    page = opened(context, address, [])
    assert token not in page.url
    assert token not in page.content()
    plain = context.new_page()
    plain.goto(page.url)
    plain.wait_for_selector("#breakdown .bars path")
    # The page that held the token is no step of the history.
    assert page.evaluate("history.length") == plain.evaluate("history.length")
    plain.close()
    stranger = browser.new_context()
    tab = stranger.new_page()
    assert tab.goto(page.url).status == 403
    assert "belongs to the user who started it" in tab.inner_text("h1")
    stranger.close()
    # A link on another site comes without the cookie; the link that is shown instead brings it.
    link = tmp_path / "elsewhere.html"
    link.write_text(f'<a href="{page.url}">a design</a>')
    page.goto(link.as_uri())
    page.locator("a").click()
    page.locator("a", has_text="follow this link once more").click()
    page.wait_for_selector("#breakdown .bars path")
    page.close()


def test_the_browser_is_opened_through_a_file_of_its_owner(browser, folder, tmp_path):
    script = tmp_path / "browser.sh"
    script.write_text(
        """#!/bin/sh
        cd "$(dirname "$0")" && file="${1#file://}"
        echo "$@" > arguments && stat -c %a "$file" > mode && cp -p "$file" page.html
        mv page.html opened.html
        """
    )
    with served(folder, BROWSER=f"/bin/sh {script} %s &") as server:
        shared = address_of(server)
        assert "the browser that opens now" in server.stdout.readline()
        until = time.monotonic() + SOON_MS / 1000
        while not (tmp_path / "opened.html").exists() and time.monotonic() < until:
            time.sleep(0.05)
        token = re.search("/open/([^?]*)", (tmp_path / "opened.html").read_text())[1]
        arguments = (tmp_path / "arguments").read_text().strip()
        assert (tmp_path / "mode").read_text().strip() == "600"
        assert Path(arguments.removeprefix("file://")).exists()
        assert token not in arguments + shared
        context = browser.new_context()
        assert opened(context, (tmp_path / "opened.html").as_uri(), []).url == shared
        assert not Path(arguments.removeprefix("file://")).exists()
        context.close()
