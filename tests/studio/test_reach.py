"""The studio reads shipped files, those of its folder, those it was given, and nothing else."""

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from explore_study import make_study
from tiny import write_inputs

pytest.importorskip("dash")

from carsim.base.errors import InputError
from carsim.explore.sweep import sweep
from carsim.studio.answers import Answers
from carsim.studio.reach import Reach
from carsim.studio.state import TabState

SECRET, START = "hunter2", TabState("toy.yaml", trace="toy.npz")
TEXTS = {
    "notes.txt": f"root:{SECRET}:0\n",
    "keys.yaml": f"board: {SECRET}\npassword: {SECRET}\n",
    "text.json": json.dumps(SECRET),
}


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """Answers of a studio started in ``here``, beside which something secret lies."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        write_inputs(folder)
        for name, text in TEXTS.items():
            (folder / name).write_text(text)
        with zipfile.ZipFile(folder / "archive.npz", "w") as archive:
            archive.writestr(f"{SECRET}.npy", SECRET)
    (there / "store.txt").write_bytes(b"")
    for link, target in (
        ("link.yaml", there / "toy.yaml"),
        ("link.npz", there / "toy.npz"),
        ("loop.yaml", here / "loop.yaml"),
        ("outside", there),
        ("traces/named.npz", there / "toy.npz"),
        ("out/store.txt", there / "store.txt"),
    ):
        (here / link).parent.mkdir(exist_ok=True)
        (here / link).symlink_to(target)
    os.mkfifo(here / "pipe.yaml")
    os.mkfifo(here / "pipe.npz")
    monkeypatch.chdir(here)
    return Answers(START, Reach.of(START), lambda state: state.query)


def asking(state, field, name):
    """A state with a field of the design or an option."""
    if "." in field:
        return state.with_change(field, json.dumps(name))
    return state.with_option(field, name)


def told(answers, state):
    """All that the page is told of a state."""
    try:
        return str(answers.change("url", state.query, {}, None, None, None))
    except InputError as error:
        return str(error)


OUTSIDE = "is outside of the folder in which the studio was started; start it there"


@pytest.mark.parametrize(
    ("field", "name"),
    [
        *(("design", name) for name in ("/etc/shadow", "/dev/zero")),
        *(("design", f"../there/{name}") for name in ("toy.yaml", "notes.txt", "nothing.yaml")),
        *(("design", name) for name in ("link.yaml", "outside/toy.yaml", "loop.yaml", "x\0.yaml")),
        *(("trace", name) for name in ("../there/toy.npz", "link.npz", "named", "/etc/nothing")),
        *(("model.from", name) for name in ("/etc/passwd", "../there/text.json", "outside")),
    ],
)
def test_what_lies_elsewhere_is_refused_unread_and_not_even_looked_for(answers, field, name):
    asked = asking(START, field, name)
    assert OUTSIDE in told(answers, asked)
    assert OUTSIDE in told(answers, replace(START, pins=(asked.query,)))


@pytest.mark.parametrize("name", ["/etc", "../there", "outside", "out"])
def test_a_store_elsewhere_is_refused(answers, name):
    shown = replace(START, store=name).query
    assert OUTSIDE in answers.front(shown, None, None)["store-error.children"]


def test_a_stored_front_is_read_again_only_if_its_store_has_changed(answers):
    sweep(make_study(Path()), "swept", workers=0)
    shown = replace(START, store="swept").query
    edition = answers.front(shown, None, None)["fronted.data"]
    assert answers.front(shown, edition, None) == {}
    os.utime("swept/store.txt")
    assert answers.front(shown, edition, None)["fronted.data"] != edition


@pytest.mark.parametrize(
    ("field", "name", "said"),
    [
        ("design", "notes.txt", "notes.txt: cannot be read as a design"),
        ("design", "keys.yaml", "keys.yaml: cannot be read as a design"),
        ("design", "pipe.yaml", "pipe.yaml: is no regular file"),
        ("trace", "archive.npz", "archive.npz: is no trace"),
        ("trace", "pipe.npz", "pipe.npz: is no regular file"),
        ("model.from", "text.json", "text.json: should hold keys"),
        ("model.from", "notes.txt", "notes.txt: is no JSON"),
    ],
)
def test_nothing_is_quoted_of_a_file_that_is_something_else(answers, field, name, said):
    state = START
    if field == "model.from":
        text = Path("toy.yaml").read_text().replace("preset: tiny", "from: config.json")
        Path("mine.yaml").write_text(text)
        state = replace(START, design="mine.yaml")
    found = told(answers, asking(state, field, name))
    assert said in found
    assert SECRET not in found


def test_a_command_line_opens_what_it_names_and_nothing_beside_it(answers, tmp_path):
    there = tmp_path / "there"
    start = TabState(str(there / "toy.yaml"), trace=str(there / "toy.npz"), store=str(there))
    reach = Reach.of(start)
    assert reach.files(start) == (there / "toy.yaml", there / "toy.npz")
    assert reach.files(TabState("link.yaml"))[0].samefile(there / "toy.yaml")
    assert reach.store(start.store) == there
    design, trace = reach.files(TabState("kv260", trace="vilau_8f"))
    assert (design.stem, trace.stem) == ("kv260", "vilau_8f")
    no_store = Reach.of(TabState(start.design, trace=start.trace))
    with pytest.raises(InputError, match="is outside"):
        no_store.files(TabState(str(there / "keys.yaml")))


def test_a_design_opens_its_own_models_file_only_if_it_was_given(answers, tmp_path):
    text = (tmp_path / "there" / "toy.yaml").read_text()
    model = tmp_path / "there" / "config.json"
    model.write_text("{}")
    given = tmp_path / "there" / "mine.yaml"
    given.write_text(text.replace("preset: tiny", "from: config.json"))
    (tmp_path / "here" / "mine.yaml").write_text(text.replace("preset: tiny", f"from: {model}"))
    assert Reach.of(TabState(str(given))).files(TabState(str(given)))[:2] == (given, model)
    with pytest.raises(InputError, match=r"config\.json: is outside"):
        answers.reach.files(TabState("mine.yaml"))
