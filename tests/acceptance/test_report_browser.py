"""Pages in a real browser: nothing goes wrong, charts are drawn, tables sort. Needs Chromium."""

from contextlib import closing
from pathlib import Path

import pytest
from explore_study import make_study
from tiny import tiny_report

from carsim.explore.sweep import sweep
from carsim.report import save_report
from carsim.report.report import write_page

COLUMN = """() => {
  const isNumeric = (row) => row.cells[1].dataset.value !== undefined;
  window.table ??= [...document.querySelectorAll("table")].reverse().find(
    ({ tBodies: [{ rows }] }) => rows.length > 1 && [...rows].every(isNumeric));
  window.table.tHead.rows[0].cells[1].focus();
  return [...window.table.tBodies[0].rows].map((row) => Number(row.cells[1].dataset.value));
}"""
"""The last table of numbers: its heading takes the focus, its second column is told."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    save_report(tiny_report(), folder / "run", timeline=(16, 18))
    sweep(make_study(folder, objectives=["seconds_per_video", "dsp"]), folder / "out", workers=0)
    return {name: write_page(folder / name) for name in ("run", "out")}


@pytest.mark.parametrize(("name", "charts"), [("run", 4), ("out", 1)])
def test_a_page_works_and_says_nothing_on_the_console(browser, pages, name, charts):
    # A script, a style or a picture that the policy forbids would be told, too.
    said = []
    with closing(browser.new_page()) as page:
        page.on("console", lambda message: said.append(message.text))
        page.goto(pages[name].as_uri())
        page.wait_for_selector(f".live >> nth={charts - 1}")
        page.wait_for_selector(".points path, .lines path, canvas", state="attached")
        assert page.locator(".live").count() == charts
        numbers = page.evaluate(COLUMN)
        assert len(set(numbers)) > 1
        for reverse in (False, True):
            page.keyboard.press("Enter")
            assert page.evaluate(COLUMN) == sorted(numbers, reverse=reverse)
    assert said == []


def test_a_click_on_a_slice_of_the_timeline_explains_it_and_arrows_are_drawn(browser, pages):
    with closing(browser.new_page()) as page:
        page.goto(pages["run"].as_uri())
        page.wait_for_selector("#timeline .bars path")
        assert page.locator("#timeline .scatterlayer .lines path").count() > 0
        told = page.locator("#timeline .told")
        assert told.inner_text() == "A click on a slice explains it."
        page.locator("#timeline").scroll_into_view_if_needed()
        slices = [each.bounding_box() for each in page.locator("#timeline .bars path").all()]
        box = max(slices, key=lambda box: box["width"])
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_function(
            "/ cycles/.test(document.querySelector('#timeline .told').textContent)"
        )
        assert "layer" in told.inner_text() or "waits" in told.inner_text()


LABELS = """() => [...document.querySelectorAll("#comparison [class$='title']")]
  .filter((label) => label.tagName === "text" && label.getAttribute("class")[0] === "x")
  .map((label) => Math.round(label.getBoundingClientRect().y))"""
"""Heights of the labels of the horizontal axes of the policies' chart, in pixels."""

INKS = """() => [...document.querySelectorAll("#comparison [class$='tick'] text")]
  .map((text) => getComputedStyle(text).fill)"""
"""Colours of the numbers and names of that chart."""

SIDEWAYS = """() => [...document.querySelectorAll(".canvas")]
  .filter((canvas) => canvas.scrollWidth > canvas.clientWidth)
  .map((canvas) => canvas.closest("figure").id)"""
"""Charts that scroll sideways."""


@pytest.mark.parametrize(("width", "is_stacked"), [(390, True), (768, True), (1280, False)])
def test_panels_stand_below_each_other_where_there_is_no_room_beside(
    browser, pages, width, is_stacked
):
    with closing(browser.new_page(viewport={"width": 1280, "height": 900})) as page:
        page.goto(pages["run"].as_uri())
        page.wait_for_selector("#comparison .bars path")
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"innerWidth === {width}")
        page.wait_for_timeout(500)
        assert page.evaluate(SIDEWAYS) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        heights = page.evaluate(LABELS)
        assert len(heights) == 5
        assert len(set(heights)) == (5 if is_stacked else 1)
        # Each panel below another one repeats the names.
        names = page.locator("#comparison [class$='tick'] >> text='dense, static'").count()
        assert names == (5 if is_stacked else 1)


def test_numbers_of_all_axes_have_the_ink_of_a_dark_page(browser, pages):
    context = browser.new_context(color_scheme="dark")
    with closing(context), closing(context.new_page()) as page:
        page.goto(pages["run"].as_uri())
        page.wait_for_selector("#comparison .x5tick")
        inks = page.evaluate(INKS)
        ink = page.evaluate("getComputedStyle(document.body).color")
        assert set(inks) == {ink}
