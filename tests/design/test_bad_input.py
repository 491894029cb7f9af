"""Bad input: one line with the place, the value and the cure, whatever is wrong."""

from pathlib import Path

import pytest

from carsim.base.errors import InputError
from carsim.design import configs_folder, load_design, shipped_designs
from carsim.design.document import design_yaml
from carsim.machine.hardware import Hardware

DESIGN = (configs_folder() / "zcu102.yaml").read_text(encoding="utf-8")
TAU = "a number, a list of one number per layer, or captured"


def message(text: str | bytes, folder: Path, *overrides: str) -> str:
    """What is said of a design file, which is called ``d.yaml``."""
    path = folder / "d.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        _ = Hardware(load_design(str(path), overrides)).paths
    assert caught.value.exit_status == 2
    assert caught.value.cure
    said = str(caught.value)
    assert said.isprintable()
    return said.replace(str(path), "d.yaml")


def edited(old: str, new: str) -> str:
    assert DESIGN.count(old) == 1
    return DESIGN.replace(old, new)


NO_WHOLE_NUMBERS = """4.7 2.0 1e9 true [2] '1e9' two "a\\nb" 0 -1 1000000"""
READ_AS_NUMBERS_BY_YAML_1_1 = "010 0x10 1_000 1:30 2001-01-01"


@pytest.mark.parametrize(
    "value", ["", *NO_WHOLE_NUMBERS.split(), *READ_AS_NUMBERS_BY_YAML_1_1.split()]
)
def test_a_whole_number_is_written_as_one(value: str, tmp_path: Path) -> None:
    said = message(edited("cores: 2", f"cores: {value}"), tmp_path)
    assert said.startswith("d.yaml: $.machine.cores: should be ")
    got = {"1e9": "1000000000.0", "": "nothing"}.get(value, value.strip("'\""))
    assert f"got {got};" in said or f"got '{got}';" in said
    assert ("without quotes" in said) == ("'" in said)


@pytest.mark.parametrize(
    "value", ["'1e9'", "250 MHz", ".nan", ".inf", "nan", "1e999", "-3", "1e-9", "1e300"]
)
def test_a_number_is_finite_and_plain(value: str, tmp_path: Path) -> None:
    text = edited("fabric_clock_mhz: 250.0", f"fabric_clock_mhz: {value}")
    assert message(text, tmp_path).startswith("d.yaml: $.board.fabric_clock_mhz: should be ")


def test_what_is_named_as_the_most_is_taken() -> None:
    for most in ("weight_buffer_kib=4194304", "attention_unit={rows: 16, cols: 16}"):
        load_design("zcu102", [f"machine.{most}"])


@pytest.mark.parametrize("value", ["'false'", "no", "yes", "off", "False", "0"])
def test_a_truth_value_is_true_or_false(value: str, tmp_path: Path) -> None:
    said = message(edited("include_head: false", f"include_head: {value}"), tmp_path)
    assert said.startswith("d.yaml: $.machine.include_head: should be a valid boolean, got ")
    assert said.endswith("; write true or false, without quotes")


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("cores: 2", "coers: 2", "machine.coers", "unknown key 'coers'; did you mean 'cores'? "),
        ("cores: 2", 'cores: 2\n  "a\\nb": 2', "machine.'a\\nb'", "unknown key 'a\\nb'"),
        ("policy: {batch: 2}", "policy:", "policy", "should be a section, got nothing"),
        ("preset: zcu102", "preset: zcu103", "board.preset", "'zcu103'; did you mean 'zcu104'?"),
        ("kv_buffer_kib: 128", "kv_buffer_kib: 127", "machine.kv_buffer_kib", "two tiles of 64"),
        ("{batch: 2}", "{batch: 2, tau: [1, 2]}", "policy.tau", "2 values for 32 layers"),
    ],
)
def test_what_does_not_belong_is_named_with_what_does(old, new, place, words, tmp_path):
    said = message(edited(old, new), tmp_path)
    assert said.startswith(f"d.yaml: $.{place}: ")
    assert words in said


@pytest.mark.parametrize(
    ("override", "place", "words"),
    [
        ("machine.cores", "", "'machine.cores' is not of the form path=value"),
        ("a\nb", "", "'a\\nb' is not of the form path=value"),
        ("name=\ud800", " name", "not valid YAML: 'utf-8' codec"),
        ("machine.cores.x=8", " machine.cores.x", "'cores' is a value and has no fields"),
        ("machine.cores=-2", " machine.cores", "should be greater than 0, got -2; write"),
        ("policy.batch=10000000000", " policy.batch", "equal to 4096, got 10000000000"),
        ("policy.compare=3", " policy.compare", "write a list: [a, b]"),
        ("x.y=1", " x.y: $.x", "unknown key 'x'; known here: board, "),
        ("board.memories={}", " board.memories", "at least 1 item"),
        ("policy.tau=capturd", " policy.tau", TAU),
        ("policy.tau=[1, x]", " policy.tau: $.policy.tau.1", "got 'x'"),
        ("model.head={kind: linear}", " model.head: $.model.head.vocabulary", "is missing"),
        ("model.head.vocabulary=5", " model.head.vocabulary", "known here: codebook_size, "),
        ("energy.mac_pj.int8.value=5", " energy.mac_pj.int8.value", "interval, 0.3 to 3.7"),
        ("model.kv={bits: 4, scale_bits: 16}", " model.kv", "need a group"),
    ],
)
def test_an_override_is_named_as_it_was_given(override, place, words, tmp_path):
    said = message(DESIGN, tmp_path, override)
    assert said.startswith(f"`overrides`{place}: ")
    assert words in said
    assert not said.endswith("change it"), "a cure says how"


@pytest.mark.parametrize(
    ("override", "place"),
    [
        ("machine.mapping=tensor", "machine.weight_sharing"),  # private makes no sense any more
        ("board.memories.foo.channels=1", "board.memories.foo.standard"),
        ("model.head.n_heads=3", "model.head.hidden_size"),
    ],
)
def test_what_an_override_breaks_elsewhere_is_named(override: str, place: str, tmp_path: Path):
    private = edited("weight_sharing: broadcast", "weight_sharing: private")
    path = override.partition("=")[0]
    assert message(private, tmp_path, override).startswith(
        f"d.yaml with `overrides` {path}: $.{place}: "
    )


DDR, WINDOW, AXI = "board.memories.ps_ddr", "model.body.window=5", "board.memories.ps_ddr.ports"
FAST = f"{DDR}.standard=DDR4-2400"
EXPERTS = "model.body.experts={count: 4, active: 2}"
LATENT = "model.body.latent={rank: 8, rotary_size: 4, value_size: 8}"
UNRECORDED = "kind: what 'draft' reads is recorded without the"
DRAFT = "policy.attention={kind: draft}"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ("machine.weight_buffer_kib=4194368", "holds 65,537 tiles of 64 KiB, 65,536 at most; en"),
        (
            "machine.array.cols=8; machine.array={rows: 16, cols: 16}",
            "`overrides` machine.array: holds machine.array.cols, which is set by itself, too; set",
        ),
        (
            "model.weights={bits: 4}; model.weights.bits=8",
            "model.weights: holds model.weights.bits",
        ),
        ("machine.cores=1; machine.cores=2", "`overrides` machine.cores: is set twice; set it"),
        ("machine.placement.weights=ps_dr", "placement.weights: no memory 'ps_dr'"),
        ("policy.attention={kind: sparse}", "no attention policy 'sparse'; known are dense, "),
        ("board.technology.kind=cmos", "kind: no technology 'cmos'; known are fpga, versal, asic"),
        ("board.technology.area=1", "kind: is missing; 'carsim config schema' lists the kinds"),
        ("board.technology={kind: fpga, area: 1}", "unknown key 'area'"),
        ("board.dsp=null", "is missing; add it; for a chip that is no FPGA write"),
        (
            "board.dsp=null; board.lut=null; board.device=null",
            "board.dsp: is missing; add it; lut, device are missing, too; for a chip",
        ),
        (
            f"{DDR}.standard=DDR4",
            "no DRAM standard 'DDR4'; did you mean 'DDR4-1600', 'DDR4-1866', 'DDR4-2133' or",
        ),
        ("board.lut=0", "should be greater than 0, got 0"),
        (f"{AXI}.bits=100", "bits: 100 is no width of AXI; choose one of 8, 16"),
        (f"{AXI}.max_burst_bytes=8", "max_burst_bytes: 8 bytes are no axi4 burst of 128 bits"),
        (f"{AXI}.max_burst_bytes=8192", "8192 bytes are no axi4 burst of 128 bits; give 16 to"),
        (f"{AXI}.protocol=axi3; {AXI}.max_burst_bytes=512", "512 bytes are no axi3 burst"),
        (
            f"{DDR}.published_efficiency_high=null",
            "0.75 to None is no interval; give both",
        ),
        (f"{DDR}.published_efficiency_low=0.95", "0.95 to 0.92 is no interval; give both"),
        (
            f"{DDR}.efficiency_low=0.95; {DDR}.efficiency_high=0.9",
            "0.95 to 0.9 is no interval; give the lower end first, or one end alone",
        ),
        (f"{FAST}; {DDR}.timings.tccd_s_nck=3", "tccd_s_nck: 3 is less than 4; a burst takes 4"),
        (f"{FAST}; {DDR}.timings.tck_ps=1000", "2400 MT/s in clocks of 1000 ps are 2.40 transfers"),
        (f"{FAST}; {DDR}.timings.trefi_ns=500", "500 is less than 520; give at least"),
        (f"{FAST}; {DDR}.timings.tras_nck=5", "tras_nck: 5 is less than 17"),
        (f"{FAST}; {DDR}.timings.trcd=5", "unknown key 'trcd'; did you mean 'trcd_nck'"),
        (
            f"{DDR}.density_gbit=5",
            "ps_ddr.density_gbit: DDR4-2133 has no devices of 5 Gbit; choose",
        ),
        (f"{DDR}.channel_bits=7", "ps_ddr.channel_bits: a channel of DDR4-2133 cannot have 7 bits"),
        (
            f"{AXI}={{count: 1, bits: 8, clock_mhz: 1, burst_overhead_beats: 1000000000}}",
            "sustains 2.56e-10 GB/s (limit: ports), less than a byte in 8,192 cycles; raise its ",
        ),
        ("model.weights.bits='4'", "bits: should be a valid number, got '4'"),
        ("model.weights.scale_bits=0", "a group of 128 has a scale, of which no bits are counted"),
        ("model.kv.density=0.5", "unknown key 'density'"),
        ("model.body.mlp=swiglu", "mlp: should be 'gated' or 'plain', got 'swiglu'"),
        ("model.body.n_heads=5; model.body.n_kv_heads=5", "4096 is no multiple of n_heads 5"),
        ("model.body.experts={count: 4, active: 5}", "active: 5 of 4 experts cannot be"),
        ("model.body.experts={count: 4}", "experts.active: is missing"),
        (f"{EXPERTS}; model.body.biases=[down]", "biases of down are not simulated with"),
        (f"{EXPERTS}; model.polished=[down]", "polished of down are not simulated with experts"),
        ("model.body.global_layers=[1]", "global_layers: means nothing without a window"),
        (f"{WINDOW}; model.body.global_layers=[1, 32]", "global_layers: [1, 32] are no layers"),
        (f"{WINDOW}; model.body.global_layers=[2, 1]", "[2, 1] are no layers of 32 in ascending"),
        ("model.body.window=0", "window: should be greater than 0, got 0"),
        ("model.body.biases=[q]", "biases.0: should be 'qkv', 'out', 'gate_up' or 'down', got 'q'"),
        (f"{WINDOW}; {DRAFT}", f"policy.attention.{UNRECORDED} window of 5 tokens"),
        (
            f"{WINDOW}; policy.compare=[{{schedule: drs}}, {{attention: {{kind: draft}}}}]",
            f"policy.compare.1.attention.{UNRECORDED} window of 5 tokens",
        ),
        (f"model.body.n_kv_heads=1; {LATENT}; {DRAFT}", f"{UNRECORDED} latent attention"),
    ],
)
def test_a_design_that_cannot_be_is_refused(overrides: str, words: str, tmp_path: Path) -> None:
    assert words in message(DESIGN, tmp_path, *overrides.split("; "))


def test_further_problems_are_counted(tmp_path: Path) -> None:
    text = edited("cores: 2", "cores: 0").replace("batch: 2", "batch: 0")
    assert message(text, tmp_path).endswith("; 1 more problem to mend after it")


def test_missing_fields_of_a_section_are_named_at_once(tmp_path: Path) -> None:
    board = "board: {name: b, fabric_clock_mhz: 250.0, memories: {ddr: {standard: DDR4-2400}}}"
    said = message(f"{board}\nmodel: {{preset: tinyllama_1b}}\n", tmp_path)
    assert said.startswith("d.yaml: $.board.static_w: is missing; add it; board.host_w, ")
    assert "board.memories.ddr.interconnect_ns and board.memories.ddr.ports are missing" in said


def test_a_memory_may_be_called_like_a_kind_of_section(tmp_path: Path) -> None:
    text = edited("preset: zcu102", "preset: zcu102\n  memories: {linear: {channels: 0}}")
    assert message(text, tmp_path).startswith("d.yaml: $.board.memories.linear.")


def test_a_section_in_full_has_no_preset_to_override(tmp_path: Path) -> None:
    said = message(design_yaml(load_design("zcu102")), tmp_path, "model.preset=tiny")
    assert said.startswith(
        "`overrides` model.preset: d.yaml gives the model in full, from no preset"
    )


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("cores: 2\ncores: 3\n", ":2", "key 'cores' appears twice"),
        ("a: 1\n1: 2\n", ":2", "key 1 is not text"),
        ("a: &x 1\nb: *x\n", ":2", "aliases are not allowed"),
        ("a: 1\n<<: {b: 1}\n", ":2", "merge keys are not allowed"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", ":2", "os.system is not allowed"),
        ("a: 1\n---\nb: 2\n", ":2", "holds several documents"),
        ("a: 1\nb: [1,\n", ":3", "not valid YAML"),
        ("[" * 50 + "]" * 50, "", "nested more than 32 deep"),
        ("[" * 50_000, "", "nest"),  # by libyaml, or by carsim where that is older
        ("a: 1\nb: " + "9" * 5000, ":2", "a number of 5000 digits is too long"),
        (b"PK\x03\x04\xff\xfe", "", "is not UTF-8 text"),
        (b"#" * 1_000_001, "", "is too large: more than 1,000,000 bytes"),
        ("", "", "lines at the top level, got nothing"),
    ],
)
def test_what_is_not_a_page_of_plain_yaml_is_refused(text, place, words, tmp_path):
    said = message(text, tmp_path)
    assert said.startswith(f"d.yaml{place}: ")
    assert words in said


def test_a_design_without_machine_or_model_is_told_where_to_take_one(tmp_path: Path) -> None:
    file = tmp_path / "bare.yaml"
    file.write_text("board: {preset: kv260}\nmodel: {preset: tiny}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"\$.machine: is missing; add it: 'carsim config show"):
        load_design(str(file))
    file.write_text("board: {preset: kv260}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"\$.model: is missing; name one, say model: {preset:"):
        load_design(str(file))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    names = f"shipped are {shipped_designs()[0]}, "
    neither = f"neither a YAML file nor a shipped design; {names}"
    message = "configs/zcu102.yaml: there is no such file; name the shipped design without folder"
    with pytest.raises(InputError, match=message):
        load_design("elsewhere/configs/zcu102.yaml")
    near = f"neither a YAML file nor a shipped design; did you mean 'zcu102'? {names}"
    for name, said in {
        f"{tmp_path}/none.yaml": "cannot be read: No such file or directory",
        f"{tmp_path}/folder.yaml": "cannot be read: Is a directory",
        **dict.fromkeys([f"{tmp_path}", "", "a\nb"], neither),
        "zcu103": near,
    }.items():
        with pytest.raises(InputError) as caught:
            load_design(name)
        assert caught.value.place == (name if name.isprintable() and name else repr(name))
        assert said in str(caught.value)
