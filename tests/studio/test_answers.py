"""An answer to a change leaves out what the page shows already, and nothing else."""

import pytest
from tiny import write_inputs

pytest.importorskip("dash")

from carsim.studio.answers import Answers, Parts
from carsim.studio.fields import FIELDS
from carsim.studio.reach import Reach
from carsim.studio.state import TabState


@pytest.fixture
def start(tmp_path) -> TabState:
    design, trace = write_inputs(tmp_path)
    return TabState(design, trace=trace)


@pytest.fixture
def answers(start: TabState) -> Answers:
    return Answers(start, Reach.of(start), lambda state: state.query)


def page_of(answers: Answers, query: str) -> Parts:
    """All properties of a page that is opened at an address."""
    return answers.change(None, query, {}, None, None, None)


def texts_of(page: Parts) -> dict[str, str]:
    """Texts that the controls of a page show."""
    return {key: page[f"{key}.value"] for key in FIELDS}


def stop_of(key: str, text: str) -> int:
    """Stop of a slider."""
    return FIELDS[key].options.index(text)


def test_a_moved_slider_is_answered_for_its_own_field_alone(answers, start):
    page = page_of(answers, start.query)
    slid = {"key": "cores", "value": stop_of("cores", "4")}
    answer = answers.change("slid", start.query, texts_of(page), slid, start.query, "breakdown")
    assert {key for key in FIELDS if f"{key}.value" in answer} == {"cores"}
    assert answer["cores.value"] == "4"
    assert answer["cores-slider.value"] == slid["value"]
    whole = page_of(answers, answer["url.search"])
    of_fields = [name for name in whole if name.partition(".")[0].removesuffix("-slider") in FIELDS]
    shown = page | answer
    assert {name: shown[name] for name in of_fields} == {name: whole[name] for name in of_fields}


def test_a_typed_text_moves_its_slider(answers, start):
    texts = texts_of(page_of(answers, start.query)) | {"cores": "8"}
    answer = answers.change("cores", start.query, texts, None, start.query, "breakdown")
    assert answer["cores-slider.value"] == stop_of("cores", "8")


def test_a_refused_text_is_set_back_by_the_next_change(answers, start):
    texts = texts_of(page_of(answers, start.query))
    before = texts["cores"]
    texts["cores"] = "0"
    refusal = answers.change("cores", start.query, texts, None, start.query, "breakdown")
    assert "greater than 0" in refusal["cores-error.children"]
    slid = {"key": "rows", "value": stop_of("rows", "16")}
    answer = answers.change("slid", start.query, texts, slid, start.query, "breakdown")
    assert answer["cores.value"] == before
    assert answer["cores-slider.value"] == stop_of("cores", before)
    assert answer["cores-error.children"] == ""


def test_going_back_restores_the_fields_that_differ(answers, start):
    later = start.with_change("machine.cores", "4").with_change("machine.array.rows", "16")
    texts = texts_of(page_of(answers, later.query))
    answer = answers.change("url", start.query, texts, None, later.query, "breakdown")
    assert {key for key in FIELDS if f"{key}.value" in answer} == {"cores", "rows"}
    assert texts | {key: answer[f"{key}.value"] for key in ("cores", "rows")} == texts_of(
        page_of(answers, start.query)
    )
