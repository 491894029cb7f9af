"""Any design file, however mangled, loads or is refused in one line that names a place."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import event, given
from hypothesis import strategies as st
from strategies import raw_design

from carsim.base.errors import InputError
from carsim.cost.fit import check_fit
from carsim.design import configs_folder, load_design
from carsim.machine.hardware import Hardware
from carsim.workload.geometry import Video

SHIPPED = (configs_folder() / "zcu102.yaml").read_text(encoding="utf-8")
FULL: dict[str, Any] = json.loads(json.dumps(raw_design()))
FULL["policy"] |= {"tau": [1.0, 2.0], "attention": {"kind": "streaming", "sinks": 1, "window": 8}}
FULL["model"]["weights"] = {"bits": 4, "group": 128, "scale_bits": 16}

odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from([10**6, 2**31, 10**12, 10**13, -(10**30), 10**60]),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["1e9", "no", "010", ".inf", "dense", "linear", "captured", "ddr", "*a", "&a"]),
    st.lists(st.integers(-1, 3), max_size=3),
    st.dictionaries(
        st.sampled_from(["kind", "a", "\n"]), st.sampled_from(["linear", 1]), max_size=2
    ),
)


def paths_of(value: Any, here: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(value, dict):
        return [here]
    return [here] * bool(here) + [
        path for key, inner in value.items() for path in paths_of(inner, (*here, key))
    ]


@st.composite
def mangled_designs(draw: st.DrawFn) -> str:
    raw = json.loads(json.dumps(FULL))
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(paths_of(raw)))
        section = raw
        for key in path[:-1]:
            section = section[key]
        match draw(st.sampled_from(["replace", "delete", "rename", "add"])):
            case "replace":
                section[path[-1]] = draw(odd_values)
            case "delete":
                del section[path[-1]]
            case "rename":
                section[path[-1] + draw(st.text(max_size=2))] = section.pop(path[-1])
            case "add":
                section[draw(st.text(max_size=6))] = draw(odd_values)
    return yaml.safe_dump(raw, allow_unicode=draw(st.booleans()))


@st.composite
def mangled_texts(draw: st.DrawFn) -> str:
    text = SHIPPED
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        until = at + draw(st.integers(0, 3))
        text = (
            text[:at]
            + draw(st.text("\t\n &*!{}[]:,-#'\"|>%@<0.eE~?\0\u2028x", max_size=3))
            + text[until:]
        )
    return text


def check(path: Path, overrides: tuple[str, ...] = ()) -> None:
    refused: InputError | None = None
    try:
        design = load_design(str(path), overrides)
        # What is accepted must also be of use, as far as that does not depend on a trace.
        assert all(way.rate > 0 for way in Hardware(design).paths)
        check_fit(design, Video(2, 16, 5))
    except InputError as error:
        refused = error
    event("refused" if refused else "accepted")
    if refused is not None:
        message = str(refused)
        assert len(message.splitlines()) == 1
        assert message.isprintable()
        assert message.startswith(
            (f"{path}:", f"{path} with `overrides`", "`overrides`", "$.board.memories")
        )
        assert refused.problem
        assert refused.cure


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "d.yaml"


def test_what_is_mangled_loads_as_it_is(file: Path) -> None:
    file.write_text(yaml.safe_dump(FULL), encoding="utf-8")
    assert load_design(str(file)).policy.tau == (1.0, 2.0)


@given(text=mangled_designs())
def test_a_mangled_design(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    check(file)


@given(text=mangled_texts())
def test_a_mangled_text(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    check(file)


@given(
    path=st.one_of(
        st.sampled_from([".".join(path) for path in paths_of(FULL)]),
        st.lists(st.text(max_size=4), max_size=3).map(".".join),
    ),
    value=st.one_of(odd_values.map(str), st.text(max_size=8)),
    equals=st.sampled_from(["=", "=", "=", "", " = "]),
)
def test_a_mangled_override(file: Path, path: str, value: str, equals: str) -> None:
    file.write_text(yaml.safe_dump(FULL), encoding="utf-8")
    check(file, (f"{path}{equals}{value}",))
