"""Shipped designs and presets: they load, fit, and say what the hand calculation says."""

from importlib.resources import files
from pathlib import Path

import pytest

from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.base.yaml_file import read_mapping, yaml_text
from carsim.cost.fit import check_fit
from carsim.design import configs_folder, load_design, shipped_designs
from carsim.hardware.board import Board
from carsim.workload.geometry import Video

VILA_U = Video(n_frames=8, tokens_per_frame=256, prompt_tokens=62)
PRESETS = Path(str(files("carsim.design"))) / "presets"
BOARDS = sorted(path.stem for path in (PRESETS / "board").glob("*.yaml"))

# Peak of each memory in GB/s. ZCU102, ZCU104 and KV260: board store presets (64 bit at 2133 or 2400
# MT/s; 16 bit at 2400); U280: 2 x 19.2 (DDR4) and 460 (HBM2), U250: 77, both UG1393. VCK190: board
# store, 3200 and 3906 MT/s; V80: PG313, 819.2.
PEAK_GBPS = {
    "asic_16nm": {"lpddr": 34.14},
    "asic_28nm": {"ddr": 19.2},
    "asic_7nm": {"lpddr": 51.2},
    "asic_7nm_hbm3": {"hbm": 819.2},
    "asic_7nm_lpddr5x": {"lpddr": 273.06},
    "kv260": {"ps_ddr": 19.2},
    "u250": {"ddr": 76.8},
    "u280": {"ddr": 38.4, "hbm": 460.8},
    "u55c": {"hbm": 460.8},
    "v80": {"ddr": 25.6, "hbm": 819.2},
    "vck190": {"ddr": 25.6, "lpddr4": 62.5},
    "vck5000": {"ddr": 102.4},
    "zcu102": {"ps_ddr": 17.07, "pl_ddr": 4.8},
    "zcu102_16gb": {"ps_ddr": 17.07, "pl_ddr": 4.8},
    "zcu104": {"ps_ddr": 17.07, "pl_ddr": 17.07},
}


@pytest.mark.parametrize("name", shipped_designs())
def test_every_shipped_design_explains_itself_and_fits_without_a_warning(name: str) -> None:
    assert (configs_folder() / f"{name}.yaml").read_text(encoding="utf-8").startswith("# ")
    assert load_design(name).description
    report = check_fit(load_design(name), VILA_U)
    assert report.misfits == ()
    assert all("area: up to 40.1 mm2" in each for each in report.warnings)  # asic_28nm


@pytest.mark.parametrize("undone", ["model.kv.bits=4", "machine.placement.replay=ps_ddr"])
def test_a_stock_zcu102_holds_its_head_by_both_changes_and_by_no_single_one(undone: str) -> None:
    (misfit,) = check_fit(load_design("zcu102_head", [undone]), VILA_U).misfits
    assert misfit.startswith("memory ps_ddr: 4.")


def test_other_ways_to_hold_the_head_are_those_that_the_file_names() -> None:
    text = (configs_folder() / "zcu102_head.yaml").read_text(encoding="utf-8")
    for assignment in ("machine.placement.head=pl_ddr", "policy.attention.kind=streaming"):
        assert f"--set {assignment}" in text
        design = load_design("zcu102", ["machine.include_head=true", assignment])
        assert check_fit(design, VILA_U).misfits == ()


@pytest.mark.parametrize("name", BOARDS)
def test_peak_bandwidth_and_placement_of_every_board(name: str) -> None:
    made = Board.model_validate(read_mapping(PRESETS / "board" / f"{name}.yaml"))
    peaks = {
        label: memory.channels * memory.part.peak_gbps(memory.channel_bits)
        for label, memory in made.memories.items()
    }
    assert peaks == pytest.approx(PEAK_GBPS[name], rel=1e-3)
    assert set(made.placement.model_dump().values()) <= set(made.memories)


def test_a_design_that_names_only_a_board_goes_with_another() -> None:
    there = load_design("zcu102", ["board.preset=u280"])
    assert there.machine.placement.model_dump() == {
        "weights": "hbm", "kv": "hbm", "replay": "ddr", "head": "hbm",
    }  # fmt: skip
    assert there.board.placement is None


def test_a_board_in_full_has_the_usual_channels_and_says_where_roles_lie(tmp_path: Path) -> None:
    raw = read_mapping(PRESETS / "board" / "zcu102.yaml")
    del raw["placement"], raw["memories"]["ps_ddr"]["channel_bits"]
    raw["memories"]["ps_ddr"]["standard"] = "LPDDR4-4267"
    assert Board.model_validate(raw).memories["ps_ddr"].channel_bits == 16
    machine = load_design("zcu102").machine.model_dump(mode="json", exclude={"placement"})
    write_whole(tmp_path / "it.yaml", yaml_text({"board": raw, "machine": machine}))
    with pytest.raises(
        InputError, match=r"\$\.board\.placement: is missing, and the board has ps_"
    ):
        load_design(tmp_path / "it.yaml")


def test_a_role_that_is_placed_stays_and_the_others_are_those_of_the_board() -> None:
    placement = load_design("zcu102", ["machine.placement.replay=pl_ddr"]).machine.placement
    assert (placement.weights, placement.replay) == ("ps_ddr", "pl_ddr")
    with pytest.raises(InputError, match=r"placement.replay: no memory 'pl_ddr'; .*ddr, hbm; with"):
        load_design("zcu102_head", ["board.preset=u280"])


@pytest.mark.parametrize(
    ("overrides", "kept"),
    [
        ((), True),
        (("machine.cores=4",), False),
        (("board.preset=kv260",), False),
        (("model.kv.bits=8", "description=as I please"), True),
    ],
)
def test_a_description_is_left_out_where_it_may_no_longer_hold(overrides, kept):
    assert bool(load_design("zcu102", overrides).description) is kept
