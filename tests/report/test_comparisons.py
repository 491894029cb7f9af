"""Comparisons with others' figures: one list, rendered for every output."""

import json
from pathlib import Path

import pytest
from pages import EVIL, Page

from carsim.base.errors import InputError
from carsim.explore.code import MANIFEST
from carsim.metrics import Comparison
from carsim.report import validation
from carsim.report.comparisons import (
    FEW,
    comparison_plot,
)
from carsim.report.figures.draw import image
from carsim.report.validation import VALIDATION_FILES, save_validation
from carsim.validate.part import Group, Part

NEAR = Comparison("near", 20.0, 19.0, 10.0, 0.1, "a data sheet", "GB/s")
FAR = Comparison("far | away", 2.0, 3.0, 2.0, 0.1, "a paper", "s", "measured by hand")
FREE = Comparison("free", 4.0, 4.0, None, None, "", "s")
ROWS = (NEAR, FAR, FREE)


def parts(what: str = "near") -> tuple[Part, ...]:
    rows = (*ROWS, Comparison(what, 1.0, 1.0, None, None, what))
    many = tuple(Comparison(f"row {i}", 100.0, 100.0 + i, 90.0, 0.5, "") for i in range(FEW + 1))
    groups = (Group(f"few {what}", rows, "a rival"), Group("many", many, "a rival"))
    return (Part("boards", f"systems {what}", groups, (f"a note {what}",)),)


def test_the_figure_names_few_rows_and_has_a_line_for_many() -> None:
    groups = {group.title: group.rows for group in parts()[0].groups}
    plot = comparison_plot("systems", groups)
    few, many = plot.panels
    assert few.categories[0] == "near, 20 GB/s"
    assert list(few["carsim"].x) == pytest.approx([100 * row.error for row in (*ROWS, FREE)])
    assert list(few["rival"].x[:3]) == [-50.0, 0.0, None]
    assert few.band == (0, 0), "bounds differ"
    assert many.categories == (f"many ({FEW + 1})",)
    assert list(many["carsim"].x) == pytest.approx(list(range(FEW + 1)))
    assert many.band == (-50, 50)
    image(plot)


def test_the_report_is_one_html_file_that_needs_no_other(tmp_path: Path) -> None:
    written = save_validation(parts(EVIL), tmp_path / "out")
    assert set(written) == {path.name for path in (tmp_path / "out").iterdir()}
    assert set(written) <= set(VALIDATION_FILES)
    page = Page(tmp_path / "out" / "report.html")
    save_validation(parts("plain"), tmp_path / "plain")
    assert page.shape == Page(tmp_path / "plain" / "report.html").shape
    assert EVIL in page.text
    assert "://" not in page.html.replace("http://a.example", "")
    assert "OUTSIDE" in page.text
    assert "measured by hand" in page.text


def test_equal_validations_give_equal_reports(tmp_path: Path) -> None:
    names = save_validation(parts(), tmp_path / "one", "carsim validate")
    save_validation(parts(), tmp_path / "two", "carsim validate")
    assert json.loads((tmp_path / "one" / MANIFEST).read_text())["command"] == "carsim validate"
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_folder_is_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(validation, "verdict", fail)
    with pytest.raises(InputError, match="No space left on device"):
        save_validation(parts(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
