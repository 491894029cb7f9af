"""``carsim config``: what is shown loads again as the same design."""

import json
from math import inf
from pathlib import Path

import pytest

from carsim.base.yaml_file import parse_yaml
from carsim.design import load_design, shipped_designs
from carsim.hardware.machine import Machine


@pytest.mark.parametrize("name", shipped_designs())
def test_a_shown_design_loads_as_the_same_design(prints, name, tmp_path):
    path = tmp_path / "shown.yaml"
    path.write_text(prints("config", "show", name), encoding="utf-8")
    assert load_design(str(path)) == load_design(name)
    assert load_design(str(path)).sha256 == load_design(name).sha256


def test_changes_are_shown(call, toy):
    design, _ = toy
    out = call(
        "config", "show", design, "--set", "machine.cores=3", "--set", "policy.tau=[0.1,1e-7,3,inf]"
    )[1]
    shown = parse_yaml(out, "shown")
    assert shown["machine"]["cores"] == 3
    assert shown["policy"]["tau"] == [0.1, 1e-7, 3.0, "inf"]
    again = Path(design).with_name("shown.yaml")
    again.write_text(out, encoding="utf-8")
    assert load_design(str(again)).policy.tau == (0.1, 1e-7, 3.0, inf)
    assert shown["machine"]["drs"]["index_register_bits"] == 32  # a default, written out
    assert json.loads(call("config", "show", again, "--json")[1]) == shown


@pytest.mark.filterwarnings("default")
def test_an_obsolete_key_is_one_line_beside_the_design(call, monkeypatch):
    monkeypatch.setattr(Machine, "obsolete", {"old": "it is gone"})
    status, out, err = call("config", "show", "zcu102", "--set", "machine.old=3")
    cores = call("config", "show", "zcu102", "--set", "machine.cores=2")  # as it has anyway
    assert (status, out) == (0, cores[1])
    assert err == "carsim: note: machine.old has no effect: it is gone\n"


def test_shipped_designs_are_listed_with_what_they_are_for(prints):
    wanted = {name: load_design(name).description for name in shipped_designs()}
    lines = prints("config", "list").splitlines()
    assert [line.split()[0] for line in lines] == [*wanted]
    assert all(line.endswith(words) for line, words in zip(lines, wanted.values(), strict=True))
    assert json.loads(prints("config", "list", "--json")) == wanted


def test_a_new_design_is_printed_or_written_once_and_loads(prints, refuses, tmp_path):
    path = tmp_path / "first.yaml"
    wish = ("config", "new", "--board", "kv260", "--model", "tinyllama_1b")
    wish += ("--workload", "text:63+1")
    text = prints(*wish)
    precision, quality, written = prints(*wish, "--out", path).splitlines()
    assert precision == "carsim chose the precision W4.125 A8 KV8."
    assert quality.startswith("The model itself has W8.125 A8 KV8; ")
    assert written.startswith(f"Written to {path}: ")
    assert path.read_text(encoding="utf-8") == text
    assert load_design(str(path)).board.name == "KV260"
    line = f"carsim: {path}: is there already; name another file or remove it\n"
    assert refuses(*wish, "--out", path) == line


def test_presets_are_listed_with_what_they_are(prints):
    names = {line.split()[0] for line in prints("config", "list", "--presets").splitlines() if line}
    assert {"board.preset", "kv260", "model.preset", "tiny", "energy.preset", "fpga_16nm"} <= names
    document = json.loads(prints("config", "list", "--presets", "--json"))
    assert document["board"]["kv260"] == "Kria KV260 vision kit (K26 module, a ZU5EV)"
    assert all(words for section in document.values() for words in section.values())


ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schema"
SHIPPED = {
    "design": sorted((ROOT / "configs").rglob("*.yaml")),
    "study": sorted((ROOT / "studies").rglob("study*.yaml")),
    "recipe": sorted((ROOT / "traces").glob("*.yaml")),
}


@pytest.mark.parametrize("kind", SHIPPED)
def test_a_schema_is_printed_as_it_ships_and_editors_find_it(prints, kind):
    """Those that ship are compared with the code in tests/acceptance/test_docs.py."""
    out = prints("config", "schema", kind)
    assert json.loads(out)["title"] == f"carsim {kind}"
    assert (SCHEMAS / f"{kind}.json").read_text(encoding="utf-8") == out
    assert SHIPPED[kind]
    for path in SHIPPED[kind]:
        first = path.read_text(encoding="utf-8").partition("\n")[0]
        place = first.removeprefix("# yaml-language-server: $schema=")
        assert (path.parent / place).resolve() == SCHEMAS / f"{kind}.json", path
