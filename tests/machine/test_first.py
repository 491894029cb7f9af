"""A first design: it fits, it is what its comments say, and nothing that fits serves better."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import call

from carsim.base.errors import InputError, MisfitError
from carsim.cost.fit import buffer_rows, least_buffers_kib
from carsim.design import load_design, override
from carsim.design.load import shipped_presets
from carsim.runs import first
from carsim.runs.decode import decode
from carsim.runs.first import PRECISIONS, Tried, Wish, completed, design_text, first_design
from carsim.runs.opening import open_design
from carsim.workload.workload import Workload, workload_of

SHORT = Workload.at_contexts(64)
WISH = Wish.of("kv260", "tinyllama_1b", workload=Workload.at_contexts(256), bits=4)
Found = tuple[Tried, Sequence[Tried]]


@pytest.fixture(scope="module")
def found() -> Found:
    return first_design(WISH)


def written(wish: Wish, found: Found, folder: Path) -> Path:
    path = folder / f"{found[0].design.name}.yaml"
    path.write_text(design_text(wish, *found), encoding="utf-8")
    return path


def test_the_file_is_the_design_that_was_found(found: Found, tmp_path: Path) -> None:
    design = load_design(str(written(WISH, found, tmp_path)))
    assert design.model_copy(update={"description": ""}) == found[0].design
    assert decode(design, 256).tokens_per_s == pytest.approx(found[0].tokens_per_s)


def test_no_single_change_is_better(found: Found) -> None:
    best, tried = found
    for change in (change for field in first.FIELDS for change in field if "bits" not in change):
        least = best.choice._replace(activation_buffers=1)
        own, other = (
            next(each for each in tried if each.choice == choice)
            for choice in (least, least._replace(**change))
        )
        assert first._chosen([own, other]) is own


def test_of_the_fastest_the_one_with_the_least_energy_is_chosen(found: Found) -> None:
    """A hair slower for half of the energy counts as the fastest."""
    figures = [(10.0, 8.0), (9.95, 4.0), (6.0, 2.0), (3.0, 1.0)]
    tried = [found[0]._replace(tokens_per_s=s, joules_per_token=j) for s, j in figures]
    assert first._chosen(tried) is tried[1]


def test_a_precision_is_kept_and_a_board_of_another_technology_takes_its_constants() -> None:
    design = first_design(Wish.of("asic_7nm", "tinyllama_1b", bits=8, workload=SHORT))[0].design
    assert design.model.weights.bits == 8
    assert design.machine.array.arithmetic == PRECISIONS[8][0]
    assert design.energy == load_design("asic_28nm", ["energy.preset=asic_7nm"]).energy


@pytest.mark.parametrize("board", shipped_presets()["board"])
def test_every_board_has_a_design_or_says_what_is_missing(board, monkeypatch, tmp_path):
    """Some have none of a resource, which divides nothing; a model of each kind of layer."""
    monkeypatch.setattr(first, "FIELDS", ((), ({"lanes": 16},)))
    fitting, refusals = [], []
    for model in ("tinyllama_1b", "gemma3_1b", "qwen3_0.6b", "qwen3_30b_a3b", "vila_u_7b", "tiny"):
        wish = Wish.of(board, model, workload=SHORT)
        try:
            found = first_design(wish)
        except InputError as error:
            refusals.append(str(error))
        else:
            fitting.append(model)
            assert load_design(str(written(wish, found, tmp_path))).board == found[0].design.board
    assert {"tinyllama_1b", "tiny"} <= set(fitting)
    line = re.compile(r".*: none of 2 designs fits; the nearest lacks .+ missing; .+")
    assert all(line.fullmatch(refusal) for refusal in refusals)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish.of("kv269", "tinyllama_1b"), r"board.preset: no preset 'kv269'; did you"),
        (Wish.of(__file__, "tinyllama_1b"), r"is a file, and a preset .* carsim run /"),
        (Wish.of("kv260", "llama9"), r"model.preset: no preset 'llama9'; did you mean .*lists all"),
        (
            Wish.of("kv260", "llama2_7b", bits=16),
            r"llama2_7b on kv260: none of \d+ designs fits; the nearest lacks .*mem",
        ),
    ],
)
def test_what_cannot_be_had_is_one_line(wish: Wish, message: str) -> None:
    with pytest.raises(InputError, match=message):
        first_design(wish)


def test_the_cure_of_a_video_that_fits_no_board_works() -> None:
    """4 GB hold the weights, but neither the head nor keys and values of 8 bits beside them."""
    command = ["run", "--board", "zcu102", "--model", "vila_u_7b", "--workload", "video:8"]
    refused = call(*command, "--quiet")
    assert refused.status == 3
    cures = re.findall(r"--set ([\w.]+=\w+)", refused.err)
    assert cures == ["model.kv.bits=4", "machine.include_head=false"]
    kv, head = cures
    cured = call(*command, "--set", kv, "--set", head, "--quiet")
    assert cured.status == 0
    assert "frames/s, on a board" in cured.out


def test_a_board_and_a_model_are_a_design(tmp_path: Path) -> None:
    """The machine is chosen for the workload; what is given stays."""
    path = tmp_path / "short.yaml"
    path.write_text("board: {preset: kv260}\nmodel: {preset: tinyllama_1b, weights: {bits: 8}}\n")
    design = open_design(str(path), ["machine.cores=2", "policy.batch=3"], SHORT)
    assert (design.name, design.machine.cores, design.policy.batch) == ("short", 2, 3)
    assert design.model.weights.bits == 8
    assert "fastest that fits" in design.description
    with pytest.raises(InputError, match=r"machine: is missing"):
        load_design(str(path))


def config_file(folder: Path, **more: Any) -> Path:
    """A bf16 model of 1.9 billion weights, 1.2 billion of them in its layers."""
    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 20}
    heads = {"num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 128_000}
    stored = {"model_type": "llama", "torch_dtype": "bfloat16"}
    path = folder / "config.json"
    path.write_text(json.dumps(sizes | heads | stored | more))
    return path


def test_a_file_keeps_its_precision_and_gets_an_array_that_multiplies_it(tmp_path: Path) -> None:
    path = config_file(tmp_path)
    wish = Wish.of("v80", str(path), workload=SHORT)
    model = completed(wish).model
    assert [of.bits for of in (model.weights, model.kv, model.activations)] == [16, 16, 16]
    assert completed(wish).machine.array.arithmetic == "fp16"
    assert "W16 A16 KV16: as in the model file" in completed(wish).description
    # A precision that is asked for holds, and is multiplied without rounding.
    fewer = replace(wish, overrides=("model.weights.bits=8", "model.activations.bits=8"))
    assert completed(fewer).model.weights.bits == 8
    assert completed(fewer).machine.array.arithmetic == "int8"
    assert "as the design or --set says" in completed(fewer).description


def test_config_new_chooses_a_precision_and_says_so_first(tmp_path: Path) -> None:
    wish = Wish.of("v80", str(config_file(tmp_path)), workload=SHORT)
    first_line, second_line, *_ = design_text(wish, *first_design(wish)).splitlines()
    assert first_line == "# carsim chose the precision W4.125 A8 KV8."
    assert second_line.startswith("# The model itself has W16 A16 KV16; the cost in quality")


@pytest.mark.parametrize(
    ("layers", "cure"),
    [
        (40, r"store weights in 8 bits, the widest that fit: --set '(.+)' --set '(.+)'; .*"),
        (300, "take a larger board or a smaller model: weights of 4 bits do not fit either; .*"),
    ],
)
def test_a_file_that_does_not_fit_is_told_what_does(layers: int, cure: str, tmp_path: Path) -> None:
    path = config_file(tmp_path, num_hidden_layers=layers, tie_word_embeddings=True)
    wish = Wish.of("kv260", str(path), workload=SHORT)
    with pytest.raises(MisfitError, match=r"fits in W16 A16 KV16.* GB missing") as refused:
        completed(wish)
    told = re.fullmatch(cure, refused.value.cure)
    assert told is not None
    if told.groups():
        cured = completed(replace(wish, overrides=told.groups()))
        assert (cured.model.weights.bits, cured.model.kv.bits) == (8, 8)


def test_prefill_gets_activation_buffers_as_long_as_it_gains_and_they_fit(found: Found) -> None:
    best, tried = found
    times = best.choice.activation_buffers
    least, more = (
        next(t for t in tried if t.choice == best.choice._replace(activation_buffers=n))
        for n in (1, 2 * times)
    )
    assert best.design.machine.activation_buffer_kib > least.design.machine.activation_buffer_kib
    assert best.tokens_per_s == pytest.approx(least.tokens_per_s)
    cycles = [first._prompt_cycles(each.design, WISH) for each in (least, best, more)]
    assert cycles[1] < 0.6 * cycles[0]
    assert cycles[2] > 0.95 * cycles[1] or not more.fit.fits or more.fit.warnings


def test_a_buffer_holds_the_largest_of_what_it_must() -> None:
    """Activations and the best logits of 64 sequences share a buffer, and the logits come last."""
    design = override(WISH.smallest, {"policy.batch": 64})
    rows, least = buffer_rows(design, WISH.video), least_buffers_kib(design, WISH.video)
    shared = [row.needed for key, row in rows if key == "activation_buffer_kib"]
    assert max(shared) > 2 * shared[-1]
    assert all(row.needed <= least[key] * 1024 for key, row in rows)
    assert least["activation_buffer_kib"] * 1024 < 2 * max(shared)


def test_designs_that_are_too_slow_to_simulate_are_passed_over() -> None:
    """Two videos at once overflow on the smallest machines, but not on those that are chosen."""
    work = workload_of("diffusion:wan2.1_1.3b")
    wish = Wish.of("v80", "wan2.1_1.3b", workload=work, overrides=("policy.batch=4",))
    best, tried = first_design(wish)
    assert best.decode is not None
    assert best.design.policy.batch == 4
    refusals = [design.refusal for design in tried if design.refusal is not None]
    assert refusals
    assert "is too large" in str(refusals[0])


def test_a_work_that_no_design_simulates_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise InputError("model", "4 is too large", "simulate less of it")

    monkeypatch.setattr(first, "decode", refuse)
    with pytest.raises(InputError, match="4 is too large"):
        first_design(WISH)
