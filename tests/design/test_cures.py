"""Advice that is tried: each refusal of a model goes away when its cure is applied as it stands.

A cure is applied where a user can apply it: to the section ``model`` of a design, to the text of
its file, and by an override on the command line.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from strategies import raw_design

from carsim import run
from carsim.base.errors import InputError
from carsim.design import Design, load_design
from carsim.design.load import design_path

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 1024,
    "max_position_embeddings": 512,
    "torch_dtype": "bfloat16",
}
WHOLE: dict[str, Any] = {
    "name": "described",
    "body": {"n_layers": 2, "hidden_size": 256, "n_heads": 4, "n_kv_heads": 4, "ffn_size": 512},
    "head": {"kind": "linear", "vocabulary": 1024, "embedding": "tied"},
    **{key: {"bits": 16} for key in ("weights", "kv", "activations", "replay")},
}
"""A model that the section describes itself."""


class Cure(NamedTuple):
    """A refusal and its cure.

    Attributes:
        config: The model's file.
        model: Section of the design beside ``from``.
        words: Words of the cure, which are in the message.
        changes: What the words say, as paths of the design.
        workload: What is decoded where the refusal comes with the work; None: it comes before.
    """

    config: dict[str, Any]
    model: dict[str, Any]
    words: str
    changes: dict[str, Any]
    workload: str | None = None


SET_WEIGHTS = r"set model\.weights in the design, such as \{bits: 4, group: 128, scale_bits: 16\}"
WEIGHTS = {"model.weights": {"bits": 4, "group": 128, "scale_bits": 16}}

BY_PATH = {
    "a format that is not read": Cure(
        {**LLAMA, "quantization_config": {"quant_method": "spqr"}},
        model={},
        words=SET_WEIGHTS,
        changes=WEIGHTS,
    ),
    "a format without a name": Cure(
        {**LLAMA, "quantization_config": {"x": 1}}, model={}, words=SET_WEIGHTS, changes=WEIGHTS
    ),
    "an algorithm of ModelOpt": Cure(
        {**LLAMA, "quantization_config": {"quant_method": "modelopt", "quant_algo": "W3"}},
        model={},
        words=SET_WEIGHTS,
        changes=WEIGHTS,
    ),
    "a text beyond the context": Cure(
        LLAMA,
        model={},
        words=r"change model\.context",
        changes={"model.context": 4096},
        workload="text:600+8",
    ),
    "a video of a text model": Cure(
        LLAMA,
        model={},
        words=r"set model\.video\.tokens_per_frame, say to 256",
        changes={"model.video.tokens_per_frame": 256},
        workload="video:2",
    ),
    "a type of GGUF with a slip": Cure(
        LLAMA,
        model={"weights": "q8-0"},
        words=r"did you mean 'q8_0'\?",
        changes={"model.weights": "q8_0"},
    ),
    "a type of GGUF that is none": Cure(
        LLAMA,
        model={"weights": "w4a16"},
        words=r"or give bits: \{bits: 4\}",
        changes={"model.weights": {"bits": 4}},
    ),
    "a group without bits of its scale": Cure(
        LLAMA,
        model={"weights": {"bits": 4, "group": 128}},
        words="add 'scale_bits', usually 16",
        changes={"model.weights.scale_bits": 16},
    ),
}


def in_section(model: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """The section with a field set by its path."""
    keys = path.split(".")[1:]
    changed = dict(model)
    inner = changed
    for key in keys[:-1]:
        inner[key] = dict(inner.get(key, {}))
        inner = inner[key]
    inner[keys[-1]] = value
    return changed


def write(folder: Path, cure: Cure, model: dict[str, Any]) -> str:
    """The design's file, whose model is read from a file beside it."""
    (folder / "config.json").write_text(json.dumps(cure.config), encoding="utf-8")
    raw = raw_design() | {"model": {"from": "config.json", **model}}
    raw["policy"] = {**raw["policy"], "batch": 2}
    (folder / "d.yaml").write_text(json.dumps(raw), encoding="utf-8")
    return str(folder / "d.yaml")


def tried(load: Callable[[], Design], cure: Cure) -> None:
    """Load a design, and state its work where the refusal comes with the work."""
    design = load()
    if cure.workload is not None:
        run(design, workload=cure.workload, allow_misfit=True)


@pytest.mark.parametrize("name", BY_PATH)
@pytest.mark.parametrize("where", ["design", "file", "--set"])
def test_the_cure_of_a_field_works(name: str, where: str, tmp_path: Path) -> None:
    cure = BY_PATH[name]
    file = write(tmp_path, cure, cure.model)
    with pytest.raises(InputError) as refused:
        tried(lambda: load_design(file), cure)
    assert re.search(cure.words, str(refused.value))
    ((path, value),) = cure.changes.items()
    overrides: list[str] = []
    if where == "--set":
        flow = yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()
        overrides = [f"{path}={flow}"]
    elif where == "design":
        file = write(tmp_path, cure, in_section(cure.model, path, value))
    else:  # the words themselves, as YAML
        text = Path(file).read_text(encoding="utf-8")
        document = yaml.safe_load(text)
        document["model"] = in_section(document["model"], path, value)
        Path(file).write_text(json.dumps(document), encoding="utf-8")
    tried(lambda: load_design(file, overrides), cure)


DESCRIBED = {
    "a type that is not read": {"model_type": "rwkv"},
    "an unknown type": {"model_type": "brand_new"},
    "a key that cannot be simulated": {**LLAMA, "use_bidirectional_attention": True},
    "layers without experts in between": {**LLAMA, "mlp_only_layers": [1]},
    "a nested type": {"model_type": "x", "text_config": {"model_type": "mamba2"}},
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_model_that_cannot_be_read_can_be_described(name: str, tmp_path: Path) -> None:
    cure = Cure(DESCRIBED[name], model={}, words="", changes={})
    file = write(tmp_path, cure, {})
    with pytest.raises(InputError, match="describe this one in the section model, without 'from'"):
        load_design(file)
    raw = raw_design() | {"model": WHOLE}
    Path(file).write_text(json.dumps(raw), encoding="utf-8")
    assert load_design(file).model.name == "described"
    # And from the command line, another model.
    file = write(tmp_path, cure, {})
    assert load_design(file, ["model.preset=tiny"]).model.name == "tiny"


@pytest.mark.parametrize(
    ("config", "words", "key", "value"),
    [
        ({**LLAMA, "num_attention_heads": 3}, "published value", "num_attention_heads", 4),
        ({**LLAMA, "tie_word_embeddings": "no"}, "true or false", "tie_word_embeddings", False),
        ({**LLAMA, "hidden_size": 0}, "within that limit", "hidden_size", 256),
        ({**LLAMA, "hidden_act": "gelo"}, "did you mean 'gelu'", "hidden_act", "gelu"),
        (
            {key: value for key, value in LLAMA.items() if key != "vocab_size"},
            "is missing; add it",
            "vocab_size",
            1024,
        ),
        ({**LLAMA, "model_type": "lama"}, "did you mean 'llama'", "model_type", "llama"),
        (
            {**LLAMA, "quantization_config": {"quant_method": "gptq"}},
            "bits: is missing; take the published value",
            "quantization_config",
            {"quant_method": "gptq", "bits": 4},
        ),
    ],
)
def test_the_cure_of_a_key_of_the_file_works(config, words, key, value, tmp_path):
    cure = Cure(config, model={}, words=words, changes={})
    file = write(tmp_path, cure, {})
    with pytest.raises(InputError) as refused:
        load_design(file)
    assert words in str(refused.value)
    write(tmp_path, cure._replace(config={**config, key: value}), {})
    load_design(file)


def test_one_of_two_bases_is_left_out(tmp_path: Path) -> None:
    file = write(tmp_path, Cure(LLAMA, {}, words="", changes={}), {"preset": "tiny"})
    with pytest.raises(InputError, match=r"goes against model\.\w+; give one of them"):
        load_design(file)
    write(tmp_path, Cure(LLAMA, {}, words="", changes={}), {})
    load_design(file)


def test_keys_of_a_model_in_full_are_overridden_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(json.dumps(raw_design() | {"model": WHOLE}), encoding="utf-8")
    with pytest.raises(InputError, match="override its keys one by one"):
        load_design(str(file), ["model.preset=tiny"])
    design = load_design(str(file), ["model.weights.bits=8", "model.body.n_layers=3"])
    assert (design.model.weights.bits, design.model.body.n_layers) == (8, 3)


class Slip(NamedTuple):
    """A mistake in a design that is refused, and what its cure says.

    Attributes:
        wrong: Fields of the design with the mistake, by path.
        words: Words of the cure, a regular expression.
        right: The fields as the cure says; None: the field is left out.
    """

    wrong: dict[str, Any]
    words: str
    right: dict[str, Any]


SLIPS = [
    Slip({"machine.core": 4}, "did you mean 'cores'", {"machine.core": None, "machine.cores": 4}),
    Slip({"machine.cores": 0}, "greater than 0.* write a number within", {"machine.cores": 1}),
    Slip({"machine.cores": 2000}, "equal to 1024.* within that limit", {"machine.cores": 1024}),
    Slip({"machine.cores": "four"}, "write a plain number, without", {"machine.cores": 4}),
    Slip({"machine.cores": 4.0}, "write it without point or exponent", {"machine.cores": 4}),
    Slip({"machine.cores": True}, "write a plain number", {"machine.cores": 4}),
    Slip({"machine.cores": [4]}, "write a plain number", {"machine.cores": 4}),
    Slip({"machine.cores": None}, "write a value, or leave", {"machine.cores": 4}),
    Slip({"machine.mapping": "batches"}, "did you mean 'batch'", {"machine.mapping": "batch"}),
    Slip({"machine.mapping": ["batch"]}, "write a text", {"machine.mapping": "batch"}),
    Slip({"machine.kernel_fusion": "yes"}, "write true", {"machine.kernel_fusion": True}),
    Slip(
        {"machine.array.arithmetic": "int9"},
        "did you mean 'int8'",
        {"machine.array.arithmetic": "int8"},
    ),
    Slip(
        {"machine.attention_unit": {"rows": 99, "cols": 2}},
        "give at most 16",
        {"machine.attention_unit": {"rows": 16, "cols": 2}},
    ),
    Slip(
        {"machine.weight_buffer_kib": 16},
        r"enlarge it or shrink machine\.tile_kib",
        {"machine.weight_buffer_kib": 128},
    ),
    Slip(
        {"machine.weight_buffer_kib": 16},
        r"enlarge it or shrink machine\.tile_kib",
        {"machine.tile_kib": 8},
    ),
    Slip(
        {"machine.placement.kv": "hbm"}, "the board has pl_ddr", {"machine.placement.kv": "pl_ddr"}
    ),
    Slip(
        {"machine.weight_sharing": "private", "machine.mapping": "tensor"},
        "use 'broadcast'",
        {"machine.weight_sharing": "broadcast"},
    ),
    Slip(
        {"machine.overheads.bandwidth_share": 2.0},
        "give at most 1.09",
        {"machine.overheads.bandwidth_share": 1.09},
    ),
    Slip(
        {"model.weights": {"bits": 4, "scale_bits": 16, "group": None}},
        "add 'group', say 128",
        {"model.weights": {"bits": 4, "scale_bits": 16, "group": 128}},
    ),
    Slip({"model.body.n_heads": 30}, "change one of them", {"model.body.n_heads": 32}),
    Slip({"model.body.n_kv_heads": 5}, "change one of them", {"model.body.n_kv_heads": 4}),
    Slip({"model.body.global_layers": [1]}, "give 'window'", {"model.body.window": 64}),
    Slip({"model.body.biases": ["qkvx"]}, "did you mean 'qkv'", {"model.body.biases": ["qkv"]}),
    Slip(
        {"model.weights_by_role.router": {"bits": 4}},
        "leave it out",
        {"model.weights_by_role.router": None},
    ),
    Slip(
        {"model.weights_by_layer": [{"layers": [99], "mlp": {"bits": 4}}]},
        "list some of 0 to 31",
        {"model.weights_by_layer": [{"layers": [31], "mlp": {"bits": 4}}]},
    ),
    Slip({"policy.schedule": "dynamic"}, "known are static, drs", {"policy.schedule": "drs"}),
    Slip({"policy.tau": "high"}, "write a number, a list", {"policy.tau": 0.5}),
    Slip({"policy.tau": [0.1, 0.2]}, "give one number or one per", {"policy.tau": [0.1] * 32}),
    Slip({"policy.decision_scope": "rows"}, "did you mean 'row'", {"policy.decision_scope": "row"}),
    Slip(
        {"policy.attention": {"kind": "stream"}},
        "did you mean 'streaming'",
        {"policy.attention": {"kind": "streaming", "sinks": 4, "window": 64}},
    ),
    Slip({"board.preset": "zcu10"}, "did you mean 'zcu104'", {"board.preset": "zcu102"}),
    Slip({"energy.preset": "fpga"}, "choose from .*fpga_16nm", {"energy.preset": "fpga_16nm"}),
]


def flow(value: Any) -> str:
    """A value in one line of YAML."""
    return json.dumps(value)


def applied(fields: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """A design's file with fields set by their paths; those without a value are left out."""
    raw: dict[str, Any] = json.loads(json.dumps(document))
    for path, value in fields.items():
        *keys, last = path.split(".")
        section = raw
        for key in keys:
            section = section.setdefault(key, {})
        section[last] = value
    return raw


def merged(slip: Slip) -> dict[str, Any]:
    """Fields as the cure says; those that it leaves out are absent."""
    fields = {**slip.wrong, **slip.right}
    return {path: value for path, value in fields.items() if value is not None}


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: flow(slip.wrong))
def test_the_cure_of_a_slip_in_a_design_works(slip: Slip, tmp_path: Path) -> None:
    document = yaml.safe_load(design_path("zcu102").read_text(encoding="utf-8"))
    file = tmp_path / "d.yaml"

    def write_with(fields: dict[str, Any]) -> str:
        file.write_text(yaml.safe_dump(applied(fields, document)), encoding="utf-8")
        return str(file)

    with pytest.raises(InputError) as in_file:
        load_design(write_with(slip.wrong))
    assert re.search(slip.words, str(in_file.value), re.DOTALL)
    load_design(write_with(merged(slip)))
    # And from the command line.
    plain = write_with({})
    with pytest.raises(InputError) as with_set:
        load_design(plain, [f"{path}={flow(value)}" for path, value in slip.wrong.items()])
    assert re.search(slip.words, str(with_set.value), re.DOTALL)
    load_design(plain, [f"{path}={flow(value)}" for path, value in merged(slip).items()])


@pytest.mark.parametrize(
    ("texts", "words", "cured"),
    [
        (["machine.cores"], r"say machine\.cores=8", ["machine.cores=8"]),
        (["machine.cores=2", "machine.cores=4"], "set it once", ["machine.cores=4"]),
        (
            ["machine.array={rows: 8, cols: 8}", "machine.array.rows=4"],
            "set it in one place",
            ["machine.array={rows: 4, cols: 8}"],
        ),
        (["machine.cores.number=4"], "shorten the path", ["machine.cores=4"]),
        (["machine.array={rows: 16}"], "cols: is missing; add it", ["machine.array.rows=16"]),
    ],
)
def test_the_cure_of_a_wrong_override_works(texts, words, cured) -> None:
    with pytest.raises(InputError, match=words):
        load_design("zcu102", texts)
    load_design("zcu102", cured)


TEXTS = {
    "a tab": ("name: x\n\tboard: 1\n", "indent with spaces"),
    "a key twice": ("name: x\nname: y\n", "twice|keep one"),
    "no mapping": ("- a\n- b\n", "key: value|mapping|keys"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_cure_of_yaml_that_is_none_says_what_to_write(name: str, tmp_path: Path) -> None:
    text, words = TEXTS[name]
    file = tmp_path / "d.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_design(str(file))
    assert re.search(words, str(refused.value)), str(refused.value)
