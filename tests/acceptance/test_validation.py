"""``carsim validate``: every figure within its bound, one report, an exit status for the rest."""

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from carsim.report.figures.boards import boards_numbers
from carsim.report.figures.fidelity import draw_fidelity, fidelity_numbers
from click.testing import CliRunner, Result

from carsim.cli.validate import validate
from carsim.errors import InputError
from carsim.report import validation as output
from carsim.report.figures.dram import dram_numbers
from carsim.report.validation import VALIDATION_FILES, save_validation
from carsim.validate import boards, overview
from carsim.validate.overview import SHORT_PER_REGIME, Figure, Validation, validate_all


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def short(told: list[str]) -> Validation:
    return validate_all(short=True, progress=told.append)


@pytest.fixture
def found(short: Validation, monkeypatch: pytest.MonkeyPatch) -> Validation:
    """The command line finds it without running it once more."""
    monkeypatch.setattr(overview, "validate_all", lambda short, progress: found_by(short))

    def found_by(is_short: bool) -> Validation:
        assert is_short
        return short

    return short


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(validate, arguments, standalone_mode=False)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_short_form_is_within_all_bounds(short: Validation, told: list[str]) -> None:
    assert short.passes, [figure for figure in short.figures if not figure.holds]
    parts = (short.boards, short.array, short.dram, short.paper, short.fidelity)
    assert all(part.passes for part in parts)
    assert len(short.fidelity.points) == 4 * SHORT_PER_REGIME
    assert {line.partition(":")[0] for line in told} == {figure.part for figure in short.figures}


def test_figures_are_those_of_the_reports(short: Validation) -> None:
    by_part: dict[str, list[Figure]] = {}
    for figure in short.figures:
        by_part.setdefault(figure.part, []).append(figure)
    assert list(by_part) == ["boards", "array", "dram", "paper", "fidelity"]
    (median,) = by_part["boards"]
    assert (median.value, median.null) == (
        short.boards.median_error,
        short.boards.null_median_error,
    )
    counted = sum(int(re.findall(r"worst of (\d+)", figure.what)[0]) for figure in by_part["array"])
    assert counted == len(short.array.checks)
    assert max(figure.value for figure in by_part["array"]) == max(
        abs(check.error) for check in short.array.checks
    )
    assert len(by_part["dram"]) == len(short.dram.kinds)
    assert by_part["paper"][1].value == abs(short.paper.worst.error)
    assert tuple(figure.value for figure in by_part["fidelity"]) == short.fidelity.differences()


def test_the_null_model_is_beaten_but_where_it_is_the_peers_own_rule(short: Validation) -> None:
    rivalled = [figure.what for figure in short.figures if figure.beats_null is False]
    assert rivalled == ["cycles, worst of 1: LLMCompass"]


def test_the_command_prints_a_line_per_figure(found: Validation) -> None:
    result = invoke("--short")
    assert result.return_value is None
    for figure in found.figures:
        assert figure.what in result.output
    count = len(found.figures)
    assert f"{count} of {count} figures within their bounds." in result.output
    document = json.loads(invoke("--short", "--json").output)
    assert [each["value"] for each in document["figures"]] == [each.value for each in found.figures]
    assert document["passes"] is True
    assert {"boards", "array", "dram", "paper", "fidelity"} < set(document)


def test_a_left_bound_is_an_exit_status_and_is_shown(
    short: Validation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (bad,) = (row for row in short.boards.rows if row.published.config == "t2riscv_qwen_2ports")
    broken = replace(short, boards=boards.BoardsReport((bad,)))
    assert not broken.passes
    monkeypatch.setattr(overview, "validate_all", lambda short, progress: broken)
    result = invoke("--out", str(tmp_path / "out"))
    assert result.return_value == 1
    assert "OUTSIDE" in result.output
    count = len(broken.figures)
    assert f"{count - 1} of {count} figures within their bounds." in result.output
    assert '<tr class="marked">' in (tmp_path / "out" / "report.html").read_text()
    assert json.loads(invoke("--json").output)["passes"] is False


def test_the_report_is_one_html_file_that_needs_no_other(found: Validation, tmp_path: Path) -> None:
    result = invoke("--short", "--out", str(tmp_path / "out"))
    assert "report.html" in result.output
    assert leftovers(tmp_path / "out") == sorted(VALIDATION_FILES)
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    markdown = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "://" not in html
    assert "url(" not in html
    assert not re.search(r"<(script [^>]*src|link|iframe)", html)
    sources = re.findall(r'src="([^"]*)"', html)
    names = re.findall(r"\]\(([^)]*)\)", markdown)
    assert sorted(names) == [name for name in sorted(VALIDATION_FILES) if name.endswith("png")]
    for source, name in zip(sources, names, strict=True):
        start, _, data = source.partition(",")
        assert start == "data:image/png;base64"
        assert base64.b64decode(data) == (tmp_path / "out" / name).read_bytes()
    assert html.count("<tr") == len(re.findall(r"^\| (?!---)", markdown, re.MULTILINE))
    for row in found.boards.rows:
        assert row.published.system in markdown


def test_plots_show_every_row_once(short: Validation) -> None:
    speeds = boards_numbers(short.boards)
    assert speeds.tokens_per_s == tuple(row.decode.tokens_per_s for row in short.boards.rows)
    for number, (published, value, low, high) in speeds.power.items():
        assert short.boards.rows[number - 1].published.power_w == published
        assert low < value < high
    efficiencies = [
        (counted, check.value)
        for kind in short.dram.kinds
        if kind.name.startswith("efficiency")
        for check in kind.checks
        for counted in check.references.values()
    ]
    panels = dram_numbers(short.dram).panels
    drawn = [pair for panel in panels for pairs in panel.pairs.values() for pair in pairs]
    assert sorted(drawn) == sorted(efficiencies)
    differences = fidelity_numbers(short.fidelity).differences
    assert sum(map(len, differences.values())) == len(short.fidelity.points)
    for line, found in zip(
        draw_fidelity(fidelity_numbers(short.fidelity)).axes[0].lines,
        differences.values(),
        strict=False,
    ):
        assert line.get_xdata()[-1] == pytest.approx(max(found))
        assert line.get_ydata()[-1] == 1


def test_equal_validations_give_equal_reports(short: Validation, tmp_path: Path) -> None:
    for name in ("one", "two"):
        save_validation(short, tmp_path / name)
    for name in VALIDATION_FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_folder_is_whole_or_not_at_all(
    short: Validation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output, "as_html", fail)
    with pytest.raises(InputError, match="No space left on device"):
        save_validation(short, tmp_path / "out")
    assert leftovers(tmp_path) == []


def test_a_folder_is_replaced_only_on_request(
    short: Validation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def too_early(**_: object) -> Validation:
        raise AssertionError("simulated before the folder was looked at")

    save_validation(short, tmp_path / "out")
    monkeypatch.setattr(overview, "validate_all", too_early)
    refused = invoke("--out", str(tmp_path / "out"))
    assert isinstance(refused.exception, InputError)
    assert "exists already" in str(refused.exception)
    save_validation(short, tmp_path / "out", overwrite=True)
    assert leftovers(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--overwrite"], "has nowhere to write"),
        (["--short", "boards"], "go without a command"),
        (["--out", "x", "array"], "go without a command"),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments: list[str], problem: str) -> None:
    assert problem in str(invoke(*arguments).exception)
