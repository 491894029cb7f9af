"""Designs: presets, overrides, what a load keeps, what a document gives back."""

import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st
from strategies import designs, raw_design, small_design

from carsim.base.yaml_file import parse_yaml
from carsim.decisions.attention import Streaming
from carsim.design import build_design, load_design, override
from carsim.design.document import design_yaml
from carsim.workload.model import DepthTransformer, LinearHead, Model
from carsim.workload.precision import Precision


def written(folder: Path, text: str, name: str = "d.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def as_yaml(raw: dict[str, Any]) -> str:
    return yaml.safe_dump(json.loads(json.dumps(raw)))  # without aliases for what it holds twice


@given(designs())
def test_any_design_written_out_loads_as_itself(tmp_path_factory, design):
    path = written(tmp_path_factory.getbasetemp(), design_yaml(design), "drawn.yaml")
    assert load_design(path) == design


ODD = ["no", "1e9", "010", "~", "", "a: b", "# a", "a\nb", "'", '"', " a ", "8 µs", "1:30"]
ODD += ["null", "true", " a", "*a"]


@given(
    st.sampled_from(ODD) | st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]))
)
def test_any_text_survives_being_written_out(tmp_path_factory, text: str) -> None:
    design = override(load_design("zcu102"), {"description": text, "board.name": text})
    again = load_design(written(tmp_path_factory.getbasetemp(), design_yaml(design)))
    assert (again.description, again.board.name) == (text, text)


def test_a_design_without_a_name_is_called_like_its_file(tmp_path: Path) -> None:
    raw = raw_design()
    del raw["name"]
    assert load_design(written(tmp_path, as_yaml(raw), "mine.yaml")).name == "mine"


def test_whole_numbers_serve_as_numbers_but_not_the_other_way_round(tmp_path: Path) -> None:
    raw = raw_design()
    raw["board"]["fabric_clock_mhz"] = 200
    assert load_design(written(tmp_path, as_yaml(raw))).board.fabric_clock_mhz == 200.0


def test_a_preset_gives_what_the_file_leaves_out(tmp_path: Path) -> None:
    def given(**model: object) -> Model:
        return load_design(written(tmp_path, as_yaml(raw_design() | {"model": model}))).model

    model = given(preset="tiny", kv={"bits": 4}, body={"ffn_size": 99})
    preset = load_design("zcu102", ["model.preset=tiny"]).model.body
    assert (model.name, model.kv) == ("tiny", Precision(bits=4))
    assert model.body == preset.model_copy(update={"ffn_size": 99}) != preset
    # A head of another kind replaces that of the preset, one of the same kind changes it.
    other = {"kind": "linear", "vocabulary": 7}
    assert given(preset="vila_u_7b", head=other).head == LinearHead(vocabulary=7)
    head = given(preset="vila_u_7b", head={"n_codes": 8}).head
    assert isinstance(head, DepthTransformer)
    assert (head.n_codes, head.hidden_size) == (8, 2560)


def test_an_override_reaches_every_depth_and_leaves_the_rest() -> None:
    plain = load_design("zcu102")
    changed = load_design(
        "zcu102",
        [
            "machine.cores=4",
            "machine.array.rows = 8",
            "board.memories.ps_ddr.ports.count=2",
            "policy.attention={kind: streaming, window: 64}",
            "policy.tau=4.5",
            "machine.drs.latch_cycles=3",  # a section that the file does not mention
        ],
    )
    assert changed.machine.cores == 4
    assert changed.machine.array.rows == 8
    assert changed.machine.array.cols == plain.machine.array.cols
    assert changed.board.memories["ps_ddr"].ports.count == 2
    assert changed.board.memories["pl_ddr"] == plain.board.memories["pl_ddr"]
    assert changed.policy.attention == Streaming(sinks=4, window=64)
    assert changed.policy.tau == 4.5
    assert changed.machine.drs.latch_cycles == 3
    assert changed.machine.drs.index_register_bits == plain.machine.drs.index_register_bits
    assert load_design("zcu102") == plain  # nothing is remembered


def test_an_overridden_preset_stands_under_what_the_file_overrides() -> None:
    design = load_design("zcu102", ["model.preset=tinyllama_1b"])
    assert design.model.body.hidden_size == 2048
    assert design.model.kv == load_design("zcu102").model.kv  # the file names its own


def test_any_change_changes_the_hash() -> None:
    design = small_design()
    assert design.sha256 == small_design().sha256
    for path, value in {
        "machine.cores": 3,
        "policy.tau": 1.0,
        "energy.vector_op_pj.value": 1.1,
        "description": "another",
    }.items():
        assert override(design, {path: value}).sha256 != design.sha256


def test_a_design_that_says_nothing_of_later_fields_keeps_its_document_and_hash() -> None:
    """The hash of zcu102, whose file says none of them but the bandwidths of other boards."""
    design = load_design("zcu102")
    assert design.sha256.startswith("6d1862f1f368da38")
    written = design_yaml(design)
    assert "kernel_fusion" not in written
    assert "polished" not in written
    changed = override(design, {"machine.kernel_fusion": False, "model.polished": ("down",)})
    assert "kernel_fusion: false" in design_yaml(changed)
    assert build_design(parse_yaml(design_yaml(changed), "text"), "text") == changed
    assert override(changed, {"machine.kernel_fusion": True, "model.polished": ()}) == design
