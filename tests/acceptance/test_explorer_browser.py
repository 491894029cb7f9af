"""The explorer of a study in a real browser: brushes, cards, keyboard, speed. Needs Chromium."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from explore_study import make_study
from pages import EVIL

from carsim.explore.sweep import sweep
from carsim.report.figures.policy_looks import policy_look
from carsim.report.report import write_page
from carsim.report.stored_study import StoredStudy, read_study
from carsim.report.study_page import study_page

axe = pytest.importorskip("axe_core_python.sync_playwright")

OBJECTIVES = ["seconds_per_video", "energy_per_video_j", "lut"]
MOST_MS = 300.0
"""Milliseconds that an interaction over 20,000 points may take, median of 20."""

MOST_BYTES = 3_000_000
"""Bytes of a page of 20,000 points."""

OF_PAGE = "document.querySelector('#front .canvas').explorer"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explored")
    axes = {"machine.cores": [1, 2, 4], "policy.tau": [-0.5, 0.5], "machine.array.rows": [4, 8]}
    sweep(make_study(folder, axes=axes, objectives=OBJECTIVES), folder / "out", workers=0)
    return folder / "out"


@pytest.fixture
def page(browser: Any, study: Path) -> Iterator[Any]:
    """The page of the study; nothing may be said on its console."""
    said: list[str] = []
    with closing(browser.new_page(viewport={"width": 1280, "height": 1000})) as page:
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(write_page(study).as_uri())
        page.wait_for_selector(".explorer-status")
        yield page
    assert said == []


def status(page: Any) -> str:
    return page.locator(".explorer-status").inner_text()


def test_a_drag_along_an_axis_limits_the_points_and_a_click_frees_it(page: Any) -> None:
    assert status(page).startswith("12 of 12 points within the limits; ")
    lines = page.locator(".explorer-canvas").first
    lines.scroll_into_view_if_needed()
    box = lines.bounding_box()
    x = box["x"] + page.evaluate(f"{OF_PAGE}.across(0)")
    # The axis of cores is logarithmic: 1, 2 and 4 stand at its foot, middle and top.
    page.mouse.move(x, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(x, box["y"] + 60)
    page.mouse.move(x, box["y"] + 20)
    page.mouse.up()
    page.wait_for_function(
        "/^4 of 12 /.test(document.querySelector('.explorer-status').textContent)"
    )
    assert page.locator(".explorer-parts tbody tr").count() == 4
    cores = page.locator(".explorer-parts tbody tr td:nth-child(2)").all_inner_texts()
    assert set(cores) == {"4"}
    page.mouse.click(x, box["y"] + 100)
    page.wait_for_function(
        "/^12 of 12 /.test(document.querySelector('.explorer-status').textContent)"
    )


def test_limits_can_be_typed_and_points_walked_by_keyboard(page: Any) -> None:
    page.locator(".explorer-fold summary").focus()
    page.keyboard.press("Enter")
    page.locator("select[aria-label='cores to']").select_option(label="2")
    assert status(page).startswith("8 of 12 points")
    page.locator("input[aria-label='time per video [s] from']").fill("1e9")
    page.keyboard.press("Enter")
    assert status(page).startswith("0 of 12 points")
    page.locator("button", has_text="Show all points again").click()
    assert status(page).startswith("12 of 12 points")
    page.locator(".explorer-canvas").nth(1).focus()
    page.keyboard.press("ArrowRight")
    first = page.locator(".explorer-card h3").inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    assert "on the front" in first or "knee" in first


def test_a_point_opens_a_card_with_differences_times_limit_and_command(
    page: Any, study: Path
) -> None:
    knee = int(read_study(study).knee["point"].item())
    page.locator(f"button[aria-label='open point {knee}']").click()
    assert page.locator(".explorer-card h3").inner_text() == f"Point {knee}, the knee of the front"
    row = read_study(study).frame.set_index("point")
    other = next(
        point for point in row.index if row["machine.cores"][point] != row["machine.cores"][knee]
    )
    page.locator(f"button[aria-label='open point {other}']").click()
    card = page.locator(".explorer-card").inner_text()
    assert f"{row['machine.cores'][other]} (knee: {row['machine.cores'][knee]})" in card
    change = 100 * (row["lut"][other] / row["lut"][knee] - 1)
    assert f"({change:+.1f} % from the knee)" in card
    assert f"limited by\n{row['limit'][other]}" in card
    assert f"--set machine.cores={row['machine.cores'][other]}" in card
    for title in ("QKV projection", "MLP and replay"):
        assert title in card


def test_axes_of_the_scatter_can_be_chosen(page: Any) -> None:
    page.locator("select[data-axis=x]").select_option("machine.cores")
    places = page.evaluate(f"[...new Set([...{OF_PAGE}.px])].length")
    assert places == 3


def test_policies_of_the_front_have_a_legend_in_the_colours_of_all_figures(
    browser: Any, tmp_path: Path
) -> None:
    axes = {"policy.schedule": ["static", "drs"], "machine.cores": [2, 5], "policy.tau": [-0.5]}
    sweep(make_study(tmp_path, axes=axes, objectives=OBJECTIVES), tmp_path / "out", workers=0)
    study = read_study(tmp_path / "out")
    of_front = sorted(study.front["policy_name"].unique())
    with closing(browser.new_page()) as page:
        page.goto(write_page(tmp_path / "out").as_uri())
        page.wait_for_selector(".explorer-status")
        assert sorted(page.locator(".explorer-legend li").all_inner_texts()) == of_front
        drawn = page.evaluate(f"[...{OF_PAGE}.frontByColour()]")
        number_of = study.counted["point"].tolist()
        for colour, places in drawn:
            rows = study.front[study.front["point"].isin([number_of[at] for at in places])]
            assert {policy_look(name).colour for name in rows["policy_name"]} == {colour}
        page.locator(".explorer-open").first.click()
        card = page.locator(".explorer-card").inner_text()
        assert any(f"policy\n{name}" in card for name in study.policies)


def test_no_rule_of_accessibility_is_broken(page: Any) -> None:
    found = axe.Axe().run(page)["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


EVIL_AXES = {EVIL: {"choice": {EVIL: {"machine.cores": 1}, "plain": {"machine.cores": 2}}}}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"axes": {"machine.cores": [2]}},
            "1 of 1 point within the limits; 1 of them on the front",
        ),
        ({"axes": EVIL_AXES, "name": EVIL}, "2 of 2 points within the limits"),
        ({"axes": {"board.dsp": [1, 2]}}, None),
    ],
    ids=["one point", "markup in names", "nothing fits"],
)
def test_odd_studies_are_shown_too(browser: Any, tmp_path: Path, changes: Any, text: str) -> None:
    sweep(make_study(tmp_path, objectives=OBJECTIVES, **changes), tmp_path / "out", workers=0)
    said: list[str] = []
    with closing(browser.new_page()) as page:
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(write_page(tmp_path / "out").as_uri())
        assert page.locator("img[src=x]").count() == 0
        if text is None:
            assert "None of them fits" in page.inner_text("main")
            assert page.locator("canvas").count() == 0
            return
        assert status(page).startswith(text)
        page.locator(".explorer-open").first.click()
        assert page.locator(".explorer-card h3").inner_text().startswith("Point ")
        assert page.locator("img[src=x]").count() == 0
    assert said == []


def many(study: StoredStudy, points: int) -> StoredStudy:
    """The study with its points drawn again and again, figures spread at random."""
    draw = np.random.default_rng(0)
    frame = study.fitting.sample(points, replace=True, random_state=0).reset_index(drop=True)
    frame["point"] = range(points)
    for name in (*OBJECTIVES, "qkv_s", "mlp_s"):
        frame[name] *= draw.lognormal(0, 0.3, points)
    return replace(study, frame=frame)


def test_20_000_points_stay_quick_and_small(browser: Any, study: Path, tmp_path: Path) -> None:
    html = study_page(many(read_study(study), 20_000), [])
    assert len(html.encode()) < MOST_BYTES
    (tmp_path / "big.html").write_text(html, encoding="utf-8")
    timed = """async (number, act) => {
      const begun = performance.now();
      act(number);
      await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 0)));
      return performance.now() - begun;
    }"""
    brush = f"""(k) => {{
      const explorer = {OF_PAGE};
      const column = explorer.columns[k % explorer.columns.length];
      explorer.view.brushes = {{ [column.name]: [0.01 * k, 0.7] }};
      explorer.choose();
    }}"""
    with closing(browser.new_page(viewport={"width": 1280, "height": 1000})) as page:
        page.goto((tmp_path / "big.html").as_uri())
        page.wait_for_selector(".explorer-status")
        for act in (brush, f"(k) => {OF_PAGE}.pick(97 * k)"):
            taken = [page.evaluate(f"(k) => ({timed})(k, {act})", number) for number in range(20)]
            assert median(taken) < MOST_MS
