"""Whatever an address or a control names, the studio opens nothing outside of its reach."""

import ast
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from explore_study import make_study
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import write_inputs

pytest.importorskip("dash")

import carsim
from carsim.base.errors import InputError
from carsim.base.files import admit, gated
from carsim.design import Design
from carsim.design.load import FILE_PATHS
from carsim.explore.sweep import sweep
from carsim.studio.answers import CONTROLS, Answers
from carsim.studio.app import make_app
from carsim.studio.guard import protect
from carsim.studio.reach import Reach
from carsim.studio.state import KEYS, TabState
from carsim.studio.wellformed import PATH
from carsim.workload.workload import Workload

SECRET, START = "hunter2", TabState("toy.yaml", trace="toy.npz")
OVERHEADS = f"step_us: 1.0\n{SECRET}: 2.0\n"
HERE = "http://127.0.0.1:8050"

opened: list[str] | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and opened is not None and isinstance(arguments[0], str):
        opened.append(arguments[0])


sys.addaudithook(_watch)


@contextmanager
def watched() -> Iterator[list[str]]:
    """Paths of the files that this process opens meanwhile."""
    global opened
    opened = []
    try:
        yield opened
    finally:
        opened = None


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Answers of a studio started in ``here``, beside which something secret lies."""
    root = tmp_path_factory.mktemp("gate")
    here, there = root / "here", root / "there"
    for folder in (here, there):
        folder.mkdir()
        write_inputs(folder)
        (folder / "w.yaml").write_text(f"kind: video\n{SECRET}: 1\n")
        (folder / "o.yaml").write_text(OVERHEADS)
        (folder / "passwd").write_text(f"root:{SECRET}:0\n")
        (folder / "config.json").write_text(json.dumps({"model_type": SECRET}))
    sweep(make_study(there), there / "out", workers=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        yield Answers(START, Reach.of(START), lambda state: state.query)


def told(answers: Answers, query: str) -> str:
    """All that the page is told of an address, whoever computes it."""
    texts = []
    calls = [("change", ("url", query, {}, None, None, None)), ("first", (query,))]
    calls += [("front", (query, None, None)), ("open_point", (query, POINT))]
    calls += [("sweep", (query, None)), ("timeline", (query, None)), ("target", (query, "x > 1"))]
    calls += [(method, (query,)) for method in ("resolved", "comparison")]
    for method, arguments in calls:
        try:
            texts.append(str(getattr(answers, method)(*arguments)))
        except InputError as error:
            texts.append(str(error))
    return " ".join(texts)


def resolved(answers: Answers, query: str) -> str:
    """The design of an address in full, or why there is none."""
    try:
        return str(answers.resolved(query))
    except InputError as error:
        return str(error)


POINT = {"point": 0}


def properties(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Dotted paths of all fields of a schema, whatever they hold."""
    for key, field in schema.get("properties", {}).items():
        here = f"{path}.{key}" if path else key
        yield here
        inner = [field, field.get("additionalProperties"), *field.get("anyOf", ())]
        inner += field.get("oneOf", ())
        for each in inner:
            reference = each.get("$ref") if isinstance(each, dict) else None
            if reference and here.count(".") < 6:
                name = reference.rpartition("/")[2]
                entry = "" if each is not field.get("additionalProperties") else ".ps_ddr"
                yield from properties(Design.model_json_schema()["$defs"][name], here + entry)


ALL_FIELDS = {path for path in properties(Design.model_json_schema()) if "." in path}
SECTIONS = {path.rpartition(".")[0] for path in ALL_FIELDS}
FIELDS_OF_DESIGNS = sorted(
    {*ALL_FIELDS, *(f"{path}.{key}" for path in SECTIONS for key in ("from", "preset"))}
)
NAMES = ("../there/toy.yaml", "../there/passwd", "../there/toy.npz", "../there/o.yaml")
STATES = {
    **{f"{key} {name}": replace(START, **{key: name}) for key in KEYS for name in NAMES},
    **{f"store {name}": replace(START, store=name) for name in ("../there/out", "../there")},
    **{
        f"workload {word}": replace(START, trace="", workload=word)
        for word in (
            "../there/w.yaml",
            "trace:../there/toy.npz",
            "trace:toy,../there/toy.npz",
            *(f"video:2,{field.name}=../there/w.yaml" for field in fields(Workload)),
        )
    },
    **{
        f"{path} {name}": START.with_change(path, name)
        for path in FILE_PATHS
        for name in (*NAMES, "../there", "../there/config.json")
    },
}
"""States of which one text names a file elsewhere."""


def test_the_schema_is_walked_to_its_fields_that_name_files():
    assert {*FIELDS_OF_DESIGNS} >= {*FILE_PATHS, "board.memories.ps_ddr.ports.count"}
    assert len(FIELDS_OF_DESIGNS) > 300


def check_nothing_was_read(paths, text):
    there = str(Path("../there").resolve())
    assert not [path for path in paths if str(Path(path).resolve()).startswith(there)]
    assert SECRET not in text


@pytest.mark.parametrize("name", STATES)
def test_no_text_of_an_address_opens_a_file_elsewhere(answers, name):
    for query in (STATES[name].query, replace(START, pins=(STATES[name].query,)).query):
        with watched() as paths:
            text = told(answers, query)
        check_nothing_was_read(paths, text)


def test_no_field_of_a_design_opens_a_file_elsewhere(answers):
    for path in FIELDS_OF_DESIGNS:
        for value in ("../there/o.yaml", "{from: ../there/o.yaml}"):
            with watched() as paths:
                text = resolved(answers, START.with_change(path, value).query)
            check_nothing_was_read(paths, text)


@pytest.mark.parametrize("key", CONTROLS)
def test_no_control_opens_a_file_elsewhere(answers, key):
    shown = START.query
    for name in (*NAMES, "trace:../there/toy.npz", "../there/w.yaml"):
        text = f"machine.overheads.from={name}" if key == "set" else name
        with watched() as paths:
            said = str(answers.change(key, shown, {key: text}, None, shown, None))
        check_nothing_was_read(paths, said)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (START.with_change("machine.overheads.from", "o.yaml"), "o.yaml: cannot be read as"),
        (START.with_change("machine.overheads.from", "passwd"), "passwd: cannot be read as"),
        (replace(START, trace="", workload="w.yaml"), "w.yaml: cannot be read as a workload"),
        (replace(START, trace="", workload="trace:passwd"), "passwd: is no trace"),
    ],
)
def test_a_file_of_another_kind_within_reach_is_not_quoted(answers, state, said):
    text = told(answers, state.query)
    assert said in text
    assert SECRET not in text


def test_overheads_and_workloads_within_reach_are_read_and_read_again_when_changed(answers):
    Path("own.yaml").write_text("step_us: 1.0\n")
    Path("work.yaml").write_text("kind: video\nframes: 2\n")
    state = replace(START, trace="", workload="work.yaml")
    state = state.with_change("machine.overheads.from", "own.yaml")
    assert "step_us: 1.0" in answers.resolved(state.query)["yaml.children"]
    Path("own.yaml").write_text("step_us: 22.0\n")
    assert "step_us: 22.0" in answers.resolved(state.query)["yaml.children"]


def test_all_public_answers_are_given_inside_the_gate():
    names = [name for name in vars(Answers) if not name.startswith("_")]
    methods = [name for name in names if callable(getattr(Answers, name))]
    assert len(methods) >= 11
    assert all(hasattr(getattr(Answers, name), "__wrapped__") for name in methods)


def test_a_gate_is_closed_within_its_context_only(tmp_path):
    def gate(path: Path) -> None:
        raise InputError(str(path), "is outside")

    admit(tmp_path)
    with gated(gate), pytest.raises(InputError, match="is outside"):
        admit(tmp_path)
    admit(tmp_path)


OPENERS = {"open", "read_bytes", "ZipFile", "read_csv", "fromfile"}
UNGATED = {
    "base/pools.py": "the script that Python was started with",
    "base/digests.py": "files of a folder that passed the gate",
    "decisions/trace/npz.py": "members of an archive whose bytes passed the gate",
    "explore/store.py": "files that are written; reading them passes the gate",
    "explore/stored_copy.py": "files of a folder that passed the gate",
    "explore/code.py": "the package's own code",
    "explore/grid_bounds.py": "a file that is written; reading it passes the gate",
    "measure/samples.py": "a file that is continued; reading its rounds passes the gate",
    "report/rescue.py": "a copy that it has just made",
    "studio/serve.py": "the user's browser",
    "cli/__init__.py": "the null device",
}
"""Modules with a function that opens a file and does not ask the gate -> what it opens."""


def test_files_are_opened_behind_the_gate():
    package = Path(carsim.__file__).parent
    ungated = set()
    for path in package.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                calls = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
                names = {
                    each.func.attr if isinstance(each.func, ast.Attribute) else each.func.id
                    for each in calls
                    if isinstance(each.func, ast.Attribute | ast.Name)
                }
                if names & OPENERS and "admit" not in names:
                    ungated.add(str(path.relative_to(package)))
    assert ungated == {*UNGATED}


# ---------------------------------------------------------------- requests


@pytest.fixture(scope="module")
def owner(answers):
    def ask(method, *arguments):
        return getattr(answers, method)(*arguments)

    app = make_app(ask, ask)
    protect(app, "token")
    app.server.config["PROPAGATE_EXCEPTIONS"] = True  # what the server would log is raised here
    client = app.server.test_client()
    client.get("/open/token", base_url=HERE)
    return app, client


def calls(app):
    """Calls that the page itself makes, by the name of their output."""
    for output, registered in app.callback_map.items():
        if "callback" in registered:
            outputs = output.removeprefix("..").removesuffix("..").split("...")
            parts = [
                dict(zip(("id", "property"), each.rsplit(".", 1), strict=True)) for each in outputs
            ]
            roles = {
                role: [
                    {"id": part["id"], "property": part["property"]} for part in registered[role]
                ]
                for role in ("inputs", "state")
            }
            first = roles["inputs"][0]
            changed = [f"{first['id']}.{first['property']}"]
            yield {"output": output, "outputs": parts, "changedPropIds": changed, **roles}


def status(client, body):
    return client.post(PATH, base_url=HERE, json=body).status_code


def test_what_the_page_asks_is_answered(owner):
    app, client = owner
    bodies = list(calls(app))
    assert len(bodies) == 9
    for body in bodies:
        body["inputs"][0]["value"] = START.query if "front" not in body["output"] else None
        if body["inputs"][0]["property"] == "n_clicks" or body["inputs"][0]["id"] == "opened":
            body["inputs"][0]["value"] = None
        for part in body["state"]:
            if part["id"] == "shown":
                part["value"] = START.query
        assert status(client, body) in (200, 204), body["output"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"{}", b"\xff", b'{"output": "x"}'])
def test_a_body_of_another_form_gets_400(owner, data):
    _, client = owner
    answer = client.post(PATH, base_url=HERE, data=data, content_type="application/json")
    assert answer.status_code == 400
    assert client.post(PATH, base_url=HERE, data=data).status_code == 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
WORDS = st.sampled_from(
    [
        "\ud800",
        "?\0",
        "?machine.cores=\0",
        "?x=1",
        "?design=%ff",
        "?step=\u0663",
        "?over=cores",
        "?workload=video:1e9",
        "?trace=.",
        "?machine.cores=[[[",
        "?pin=?pin=?pin=%3F",
        "?store=toy.yaml",
    ]
)
SLID = st.fixed_dictionaries(
    {"key": st.sampled_from(["batch", "step", "design", "nothing"]), "value": st.integers()}
)
OPENED = st.just(POINT) | st.fixed_dictionaries({"point": JSON})


NO_TEXT = ("slid", "opened")
"""Stores that hold no text."""


@settings(max_examples=150, deadline=None, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_any_values_get_an_answer_or_400_and_no_traceback(owner, data):
    app, client = owner
    body = data.draw(st.sampled_from(list(calls(app))))
    for part in (*body["inputs"], *body["state"]):
        if data.draw(st.booleans()):
            part["value"] = data.draw(JSON | WORDS | SLID | OPENED)
        elif (
            part["property"] not in ("n_clicks", "n_intervals", "id") and part["id"] not in NO_TEXT
        ):
            part["value"] = START.query if part["id"] in ("url", "later", "shown") else None
    if data.draw(st.integers(0, 4)) == 0:
        key = data.draw(st.sampled_from(["output", "outputs", "inputs", "state", "changedPropIds"]))
        body[key] = data.draw(JSON)
    assert status(client, body) in (200, 204, 400)
