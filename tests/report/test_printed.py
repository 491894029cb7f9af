"""Reports and comparisons as ``print`` shows them."""

from tiny import tiny_design, tiny_report, tiny_trace

from carsim import compare, run
from carsim.base.text import Table


def test_a_report_prints_its_rows_and_marks_its_own() -> None:
    report = tiny_report()
    title, headings, *lines = str(report).splitlines()
    assert title == "toy on ZCU102, batch of 4"
    assert headings.split()[:2] == ["policy", "seconds"]
    (own,) = [line for line in lines if " *" in line]
    assert own.startswith(report.chosen.variant.name)
    assert f"{report.to_frame().loc[report.chosen.variant.name, 'speedup']:.3f}" in own
    assert max(map(len, str(report).splitlines())) <= 80


def test_a_misfit_comes_first() -> None:
    lines = str(tiny_report("board.dsp=1")).splitlines()
    assert lines[1].startswith("MISFIT: ")


def test_a_comparison_prints_what_differs_and_what_that_did() -> None:
    other = run(tiny_design("machine.cores=1"), [tiny_trace()], allow_misfit=True)
    text = str(compare(tiny_report(), other))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    at = lines.index("What differs")
    assert lines[at + 3].split() == ["machine.cores", "2", "1"]
    assert "In B, a video takes" in text
    same = str(compare(other, other))
    assert "Nothing differs in design, traces or options." in same


def test_numbers_are_never_cut() -> None:
    table = Table(("a heading of many words", "b"), (("text of words", "1,234,567,890"),))
    lines = table.lines(10)
    assert "-" * 12 + "  " + "-" * 13 in lines
    assert "1,234,567,890" in lines[-2]
    assert lines[-1].strip() == "words"
