"""Formulas of the first screen: their results are the figures that the run stores."""

import re

import pytest
from tiny import MISFIT, tiny_report

from carsim.report.explain import Equation, document, explained, explanation
from carsim.report.screen import effects, facts
from carsim.report.stored import StoredRun, stored
from carsim.runs.pipeline import run

RUNS = {
    "toy": lambda: tiny_report(),
    "toy that does not fit": lambda: tiny_report(MISFIT),
    "video without head": lambda: run("zcu102", ["vilau_8f_r60"]),
    "video on a chip": lambda: run("asic_7nm_hbm3", workload="video:2,replay=0.5"),
    "two memories": lambda: run("u280_fastcar", workload="video:2,replay=0.5"),
    "text": lambda: run("kv260", workload="text:32+8"),
    "texts with overheads": lambda: run("dfx_u280", workload="text:32+8"),
    "calibrated": lambda: run("h100sxm", workload="text:32+8"),
}


@pytest.fixture(scope="module", params=RUNS)
def a_run(request: pytest.FixtureRequest) -> StoredRun:
    return stored(RUNS[request.param]())


def equations(of: StoredRun) -> list[Equation]:
    return [each for line in explained(of) for each in line.equations]


def test_results_are_the_figures_of_the_run(a_run: StoredRun) -> None:
    checked = [each for each in equations(a_run) if each.printed is not None]
    assert len(checked) > 30
    for each in checked:
        assert each.value == pytest.approx(each.printed, rel=1e-9, abs=1e-12), each


def arithmetic(numbers: str) -> str:
    """Numbers of an equation as a Python expression; empty if it has words, or another unit."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", numbers)
    text = text.replace(" x ", " * ")
    text = re.sub(r"([+-]?[\d.]+) %", r"(\1 / 100)", text)
    text = re.sub(r"(?<=\d) (?:GB|GMAC|B|LUT|DSP)(?:/s)?\b", "", text)
    return text if re.fullmatch(r"(?:[\d. ,*/+()-]|max|min)+", text) else ""


def test_numbers_give_the_result(a_run: StoredRun) -> None:
    """Worked out with the digits that are printed."""
    worked_out = 0
    for each in equations(a_run):
        if each.value is not None and (expression := arithmetic(each.numbers)):
            worked_out += 1
            assert eval(expression) == pytest.approx(each.value, rel=0.02, abs=1e-3), each
    assert worked_out > 30


def test_every_line_of_the_screen_is_explained(a_run: StoredRun) -> None:
    labels = [line.label for line in explained(a_run)]
    assert labels[: len([*facts(a_run)])] == [fact.label for fact in facts(a_run)]
    for line in explained(a_run):
        assert line.equations or line.label in ("policy", "assumed"), line.label
    assert "trust" in labels
    assert [line["label"] for line in document(a_run)["lines"]] == labels
    printed = "\n".join(fact.text for fact in explanation(a_run))
    assert printed.count("cores x rows x columns") == 1
    assert "time of a step's bytes at the sustained rate" in printed


def test_effects_of_ten_percent_are_named_as_on_the_screen(a_run: StoredRun) -> None:
    (line,) = (line for line in explained(a_run) if line.label == "10 % more")
    named = [equation.figure for equation in line.equations]
    for fact in effects(a_run):
        assert fact.text in line.text
        beginning = "prompt: " if "prompt" in fact.label else ""
        changes = fact.text.removeprefix("new tokens: ").partition(";")[0].split(", ")
        for change in changes:
            if re.search(r"[+-][\d.]+ %$", change):  # others change nothing
                assert f"{beginning}{change}, scaled to 10 %" in named
