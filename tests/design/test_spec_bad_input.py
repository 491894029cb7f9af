"""Bad input: one line with the place, the value and the cure, whatever is wrong."""

from pathlib import Path

import pytest

from carsim.design import Machine, configs_folder, load_design, shipped_designs
from carsim.design.document import design_yaml
from carsim.errors import InputError
from carsim.machine.hardware import Hardware

DESIGN = (configs_folder() / "zcu102.yaml").read_text(encoding="utf-8")
PLAIN = "write a plain decimal number, without quotes, unit or leading zero"
WHOLE = "write it without point or exponent"
MACHINE_KEYS = ", ".join(sorted(Machine.model_fields))


def message(text: str | bytes, folder: Path, *overrides: str) -> str:
    """What is said of a design file, which is called ``d.yaml``."""
    path = folder / "d.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        load_design(str(path), overrides)
    assert caught.value.exit_status == 2
    return str(caught.value).replace(str(path), "d.yaml")


def edited(old: str, new: str) -> str:
    assert DESIGN.count(old) == 1
    return DESIGN.replace(old, new)


@pytest.mark.parametrize(
    ("value", "problem", "cure"),
    [
        ("4.7", "expected a whole number, got 4.7", WHOLE),
        ("2.0", "expected a whole number, got 2.0", WHOLE),
        ("1e9", "expected a whole number, got 1000000000.0", WHOLE),
        ("true", "expected a whole number, got true", WHOLE),
        ("", "expected a whole number, got nothing", WHOLE),
        ("[2]", "expected a whole number, got [2]", WHOLE),
        # YAML 1.1 would read these five as 8, 16, 1000, 90 and a date.
        ("010", "expected a whole number, got the text '010'", PLAIN),
        ("0x10", "expected a whole number, got the text '0x10'", PLAIN),
        ("1_000", "expected a whole number, got the text '1_000'", PLAIN),
        ("1:30", "expected a whole number, got the text '1:30'", PLAIN),
        ("2001-01-01", "expected a whole number, got the text '2001-01-01'", PLAIN),
        ("'1e9'", "expected a whole number, got the text '1e9'", PLAIN),
        ("two", "expected a whole number, got the text 'two'", PLAIN),
        ('"a\\nb"', "expected a whole number, got the text 'a\\nb'", PLAIN),
        ("0", "expected more than 0, got 0", "enlarge it"),
        ("-1", "expected more than 0, got -1", "enlarge it"),
        ("1000000", "expected at most 1024, got 1000000", "make it smaller"),
    ],
)
def test_a_whole_number_is_written_as_one(
    value: str, problem: str, cure: str, tmp_path: Path
) -> None:
    said = message(edited("cores: 2", f"cores: {value}"), tmp_path)
    assert said == f"d.yaml: $.machine.cores: {problem}; {cure}"


@pytest.mark.parametrize(
    ("value", "problem", "cure"),
    [
        ("'1e9'", "expected a number, got the text '1e9'", PLAIN),
        ("250 MHz", "expected a number, got the text '250 MHz'", PLAIN),
        (".nan", "expected a number, got the text '.nan'", PLAIN),
        (".inf", "expected a number, got the text '.inf'", PLAIN),
        ("nan", "expected a number, got the text 'nan'", PLAIN),
        ("1e999", "expected a finite number, got inf", "write one"),
        ("-3", "expected at least 1, got -3", "enlarge it"),
        ("1e-9", "expected at least 1, got 1e-09", "enlarge it"),
        ("1e300", "expected at most 10000, got 1e+300", "make it smaller"),
    ],
)
def test_a_number_is_finite_and_plain(value: str, problem: str, cure: str, tmp_path: Path) -> None:
    text = edited("fabric_clock_mhz: 250.0", f"fabric_clock_mhz: {value}")
    assert message(text, tmp_path) == f"d.yaml: $.board.fabric_clock_mhz: {problem}; {cure}"


@pytest.mark.parametrize("value", ["'false'", "no", "yes", "off", "False", "0"])
def test_a_truth_value_is_true_or_false(value: str, tmp_path: Path) -> None:
    got = value if value in ("0", "'false'") else repr(value)
    assert message(edited("include_head: false", f"include_head: {value}"), tmp_path) == (
        f"d.yaml: $.machine.include_head: expected true or false, got {got}; "
        "write it in small letters and without quotes"
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "cores: 2",
            "coers: 2",
            "$.machine.coers: unknown key 'coers'; did you mean 'cores'? known here: "
            f"{MACHINE_KEYS}; 1 more problem to mend after it",
        ),
        (
            "cores: 2",
            "cores: 2\n  zzz: 2",
            f"$.machine.zzz: unknown key 'zzz'; known here: {MACHINE_KEYS}",
        ),
        (
            "cores: 2",
            'cores: 2\n  "a\\nb": 2',
            f"$.machine.'a\\nb': unknown key 'a\\nb'; known here: {MACHINE_KEYS}",
        ),
        (
            "policy: {batch: 2}",
            "polcy: {batch: 2}",
            "$.polcy: unknown key 'polcy'; did you mean 'policy'? known here: board, description, "
            "energy, machine, model, name, policy; 1 more problem to mend after it",
        ),
        ("policy: {batch: 2}", "", "$.policy: is missing; add it"),
        (
            "policy: {batch: 2}",
            "policy:",
            "$.policy: expected a section, got nothing; write 'key: value' lines below it",
        ),
        (
            "policy: {batch: 2}",
            "policy: [batch]",
            "$.policy: expected a section, got [\"batch\"]; write 'key: value' lines below it",
        ),
        (
            "preset: zcu102",
            "preset: zcu103",
            "$.board.preset: no preset 'zcu103'; choose from kv260, u250, u280, u55c, zcu102, "
            "zcu102_16gb, zcu104",
        ),
        (
            "preset: zcu102",
            "preset: ../model/tiny",
            "$.board.preset: no preset '../model/tiny'; choose from kv260, u250, u280, u55c, "
            "zcu102, zcu102_16gb, zcu104",
        ),
        (
            "weights: ps_ddr",
            "weights: ps_dr",
            "$.machine.placement.weights: no memory 'ps_dr'; the board has pl_ddr, ps_ddr",
        ),
        (
            "weight_buffer_kib: 256",
            "weight_buffer_kib: 127",
            "$.machine.weight_buffer_kib: 127 KiB hold fewer than two tiles of 64 KiB; enlarge it "
            "or shrink machine.tile_kib",
        ),
        (
            "kv_buffer_kib: 128",
            "kv_buffer_kib: 127",
            "$.machine.kv_buffer_kib: 127 KiB hold fewer than two tiles of 64 KiB; enlarge it or "
            "shrink machine.tile_kib",
        ),
        (
            "mapping: batch\n",
            "mapping: tensr\n",
            "$.machine.mapping: expected 'batch', 'tensor' or 'heads', got 'tensr'; did you mean "
            "'tensor'? choose one",
        ),
        (
            "{batch: 2}",
            "{batch: 2, tau: [1, 2]}",
            "$.policy.tau: lists 2 values for 32 layers; give one number or one per layer",
        ),
    ],
)
def test_what_does_not_belong_is_named_with_what_does(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    assert message(edited(old, new), tmp_path) == f"d.yaml: {said}"


TAU_CURE = "write a number, a list of one number per layer, or captured"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "machine.cores",
            "--set: 'machine.cores' is not of the form path=value; say machine.cores=8",
        ),
        ("=8", "--set: '=8' is not of the form path=value; say machine.cores=8"),
        (".cores=8", "--set: '.cores=8' is not of the form path=value; say machine.cores=8"),
        ("a\nb", "--set: 'a\\nb' is not of the form path=value; say machine.cores=8"),
        (
            "machine.cores.x=8",
            "--set machine.cores.x: 'cores' is a value and has no fields; shorten the path",
        ),
        (
            "machine.cores=[1",
            "--set machine.cores: not valid YAML: expected ',' or ']', but got '<stream end>'; "
            "mend it",
        ),
        (
            "machine.cores=x",
            f"--set machine.cores: expected a whole number, got the text 'x'; {PLAIN}",
        ),
        (
            "machine=8",
            "--set machine: expected a section, got 8; write 'key: value' lines below it",
        ),
        (
            "machine.coers=8",
            f"--set machine.coers: unknown key 'coers'; did you mean 'cores'? known here: "
            f"{MACHINE_KEYS}",
        ),
        (
            "x.y=1",
            "--set x.y: $.x: unknown key 'x'; known here: board, description, energy, machine, "
            "model, name, policy",
        ),
        (
            "machine.mapping=tensor",  # what another key then says makes no sense any more
            "d.yaml with --set machine.mapping: $.machine.weight_sharing: 'private' has no meaning "
            "under machine.mapping 'tensor', where each core owns its columns; use 'broadcast'",
        ),
        (
            "board.memories.foo.channels=1",
            "d.yaml with --set board.memories.foo.channels: $.board.memories.foo.standard: is "
            "missing; add it; 3 more problems to mend after it",
        ),
        (
            "board.memories={}",
            "--set board.memories: expected at least one entry, got {}; add one",
        ),
        (
            "board.preset=zcu103",
            "--set board.preset: no preset 'zcu103'; choose from kv260, u250, u280, u55c, zcu102, "
            "zcu102_16gb, zcu104",
        ),
        (
            "board.memories.ps_ddr.ports.max_burst_bytes=8",
            "--set board.memories.ps_ddr.ports.max_burst_bytes: 8 bytes are less than one beat of "
            "128 bits; enlarge it",
        ),
        ("policy.tau=capturd", f"--set policy.tau: expected a number, got 'capturd'; {TAU_CURE}"),
        ("policy.tau=true", f"--set policy.tau: expected a number, got true; {TAU_CURE}"),
        ("policy.tau=.nan", f"--set policy.tau: expected a number, got '.nan'; {TAU_CURE}"),
        ("policy.tau=1e999", f"--set policy.tau: expected a number, got inf; {TAU_CURE}"),
        ("policy.tau=", f"--set policy.tau: expected a number, got nothing; {TAU_CURE}"),
        (
            "policy.tau=[1, x]",
            f"--set policy.tau: $.policy.tau.1: expected a number, got 'x'; {TAU_CURE}",
        ),
        (
            "policy.tau=[]",
            "--set policy.tau: lists 0 values for 32 layers; give one number or one per layer",
        ),
        (
            "policy.attention=streaming",
            "--set policy.attention: expected a section, got 'streaming'; write 'key: value' lines "
            "below it",
        ),
        (
            "policy.attention={kind: sparse}",
            "--set policy.attention: $.policy.attention.kind: expected 'dense' or 'streaming', got "
            "'sparse'; choose one",
        ),
        (
            "policy.attention={window: 8}",
            "--set policy.attention: $.policy.attention.kind: is missing; set it to 'dense' or "
            "'streaming'",
        ),
        (
            "policy.attention={kind: streaming, windw: 8}",
            "--set policy.attention: $.policy.attention.windw: unknown key 'windw'; did you mean "
            "'window'? known here: kind, sinks, window",
        ),
        (
            "model.head={kind: linear}",
            "--set model.head: $.model.head.vocabulary: is missing; add it",
        ),
        (
            "model.head={kind: classifier, vocabulary: 5}",
            "--set model.head: $.model.head.kind: expected 'depth_transformer' or 'linear', got "
            "'classifier'; choose one",
        ),
        (
            "model.head.vocabulary=5",
            "--set model.head.vocabulary: unknown key 'vocabulary'; known here: codebook_size, "
            "ffn_size, hidden_size, kind, n_codes, n_heads, n_layers",
        ),
        (
            "model.head.n_heads=3",
            "d.yaml with --set model.head.n_heads: $.model.head.hidden_size: 2560 is no multiple "
            "of n_heads 3; change one of them",
        ),
        (
            "energy.mac_pj.int8.value=5",
            "--set energy.mac_pj.int8.value: 5 lies outside of its interval, 0.3 to 3.7; change "
            "it, or low and high with it",
        ),
        (
            "machine.vector.lanes=10000000000",
            "--set machine.vector.lanes: expected at most 1000000000, got 10000000000; make it "
            "smaller",
        ),
        (
            "machine.drs.instructions_per_sequence=2000000",
            "--set machine.drs.instructions_per_sequence: expected at most 1000000, got 2000000; "
            "make it smaller",
        ),
        (
            "energy.mac_pj={}",
            "--set energy.mac_pj: expected at least one entry, got {}; add one",
        ),
        (
            "model.kv={bits: 4, scale_bits: 16}",
            "--set model.kv: scale_bits and zero_bits need a group; add 'group', say 128",
        ),
    ],
)
def test_an_override_is_named_as_it_was_given(override: str, said: str, tmp_path: Path) -> None:
    private = edited("weight_sharing: broadcast", "weight_sharing: private")
    assert message(private, tmp_path, override) == said


def test_a_memory_may_be_called_like_a_kind_of_section(tmp_path: Path) -> None:
    text = edited("preset: zcu102", "preset: zcu102\n  memories: {linear: {channels: 0}}")
    assert message(text, tmp_path).startswith("d.yaml: $.board.memories.linear.")


def test_a_section_in_full_has_no_preset_to_override(tmp_path: Path) -> None:
    text = design_yaml(load_design("zcu102"))
    assert message(text, tmp_path, "model.preset=tiny") == (
        "--set model.preset: d.yaml gives the model in full, from no preset; override its keys one "
        "by one"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cores: 2\ncores: 3\n", "d.yaml:2: key 'cores' appears twice; keep one"),
        ("a: {b: 1, b: 2}\n#\n", "d.yaml:1: key 'b' appears twice; keep one"),
        ("a: 1\n1: 2\n", "d.yaml:2: key 1 is not text; put it in quotes"),
        ("a: 1\n~: 2\n", "d.yaml:2: key nothing is not text; put it in quotes"),
        ("a: 1\n? [b, c]\n: 2\n", 'd.yaml:2: key ["b", "c"] is not text; put it in quotes'),
        ("a: &x 1\nb: *x\n", "d.yaml:2: aliases are not allowed; write the value out"),
        ("a: 1\n<<: {b: 1}\n", "d.yaml:2: merge keys are not allowed; write the keys out"),
        (
            "a: 1\nb: !!python/object/apply:os.system [ls]\n",
            "d.yaml:2: the tag !!python/object/apply:os.system is not allowed; leave it out",
        ),
        ("a: 1\nb: !!timestamp x\n", "d.yaml:2: the tag !!timestamp is not allowed; leave it out"),
        ("a: 1\nb: !!bool maybe\n", "d.yaml:2: the tag !!bool is not allowed; leave it out"),
        ("a: 1\n---\nb: 2\n", "d.yaml:2: holds several documents; keep one"),
        (
            "a: 1\nb: [1,\n",
            "d.yaml:3: not valid YAML: expected the node content, but found '<stream end>'; "
            "mend it",
        ),
        (
            "a:\n\tb: 1\n",
            "d.yaml:2: not valid YAML: found character '\\t' that cannot start any token; mend it",
        ),
        (
            "a:\n  b: 1\n c: 2\n",
            "d.yaml:3: not valid YAML: expected <block end>, but found '<block mapping start>'; "
            "mend it",
        ),
        (
            "[" * 50_000,
            "d.yaml: nested more than 32 deep; nothing here needs that; flatten it",
        ),
        (
            "a: 1\nb: " + "9" * 5000,
            "d.yaml:2: a number of 5000 digits is too long; write a smaller one",
        ),
        (
            "a: \0",
            "d.yaml: not valid YAML: unacceptable character #x0000: special characters are not "
            'allowed in "<unicode string>", position 3; mend it',
        ),
        (b"PK\x03\x04\xff\xfe", "d.yaml: is not UTF-8 text; name a YAML file"),
        (DESIGN.encode("utf-16"), "d.yaml: is not UTF-8 text; name a YAML file"),
        (b"#" * 1_000_001, "d.yaml: 1000001 bytes are more than a page of YAML; name a YAML file"),
        *(
            (
                text,
                f"d.yaml: expected 'key: value' lines at the top level, got {kind}; "
                "'carsim config show zcu102' prints a whole design",
            )
            for text, kind in (
                ("", "nothing"),
                ("# a remark\n", "nothing"),
                ("- a\n- b\n", "a list"),
                ("hello\n", "text"),
                ("3\n", "a value"),
            )
        ),
    ],
)
def test_what_is_not_a_page_of_plain_yaml_is_refused(
    text: str | bytes, said: str, tmp_path: Path
) -> None:
    assert message(text, tmp_path) == said


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    neither = (
        f"is neither a YAML file nor a shipped design; shipped are {', '.join(shipped_designs())}"
    )
    (tmp_path / "folder.yaml").mkdir()
    for name, said in {
        f"{tmp_path}/none.yaml": "cannot be read: No such file or directory; check the path",
        f"{tmp_path}/folder.yaml": "cannot be read: Is a directory; check the path",
        f"{tmp_path}": neither,
        "zcu103": neither,
        "": neither,
        "a\nb": neither,
    }.items():
        with pytest.raises(InputError) as caught:
            load_design(name)
        assert str(caught.value) == f"{name if name.isprintable() and name else repr(name)}: {said}"


def test_ports_that_carry_nothing_are_named() -> None:
    ports = "{count: 1, bits: 8, clock_mhz: 1, burst_overhead_beats: 1000000000}"
    design = load_design("zcu102", [f"board.memories.ps_ddr.ports={ports}"])
    with pytest.raises(InputError) as caught:
        _ = Hardware(design).paths
    assert str(caught.value) == (
        "$.board.memories.ps_ddr: carries 2.56e-10 GB/s through its ports, less than a kB/s; raise "
        "ports.bits, clock_mhz or outstanding, or lower interconnect_ns"
    )


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("standard=DDR9", "DRAM standard: unknown name 'DDR9'; choose one of DDR3-1066, "),
        ("density_gbit=5", "density of DDR4-2133: got 5 Gbit; choose one of 2, 4, 8, 16"),
        ("channel_bits=7", "width of a DDR4-2133 channel: got 7 bits; give a multiple of 8"),
    ],
)
def test_a_memory_that_the_table_of_standards_lacks_is_named(override: str, said: str) -> None:
    design = load_design("zcu102", [f"board.memories.ps_ddr.{override}"])
    with pytest.raises(InputError) as caught:
        _ = Hardware(design).paths
    assert str(caught.value).startswith(f"$.board.memories.ps_ddr: {said}")
