"""The contract of a technology, of every kind and of one that is added from outside."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal

import pytest
from strategies import CONSTANT, ENERGY, raw_design
from tiny import resources

from carsim.base.constant import Constant
from carsim.base.errors import InputError
from carsim.cost.energy import energy
from carsim.cost.fit import check_fit
from carsim.design import Design, load_design
from carsim.hardware.board import Board
from carsim.hardware.energy import Energy
from carsim.hardware.technology import TECHNOLOGIES, IdlePower, Resource, Resources, Technology
from carsim.metrics import METRICS, Setting
from carsim.metrics.table import RESOURCES
from carsim.testing.contracts import is_a_technology
from carsim.workload.activity import Activity
from carsim.workload.geometry import Video

VIDEO = Video(n_frames=2, tokens_per_frame=16, prompt_tokens=5)


SHIPPED = {"fpga": "u280", "versal": "vck190", "asic": "asic_28nm"}


class Toy(Technology):
    """Square millimetres that leak: all that another kind has to say, in one class."""

    kind: Literal["toy"] = "toy"
    area_mm2: float
    leakage_w_per_mm2: Constant = Constant.model_validate(CONSTANT)

    resource_kinds: ClassVar[Mapping[str, Resource]] = {
        "silicon": Resource("silicon", "mm2", "shrink machine.array")
    }

    def available(self, board: Board) -> Mapping[str, float]:
        return {"silicon": self.area_mm2}

    def resources(self, design: Design) -> Resources:
        macs, lanes = design.machine.macs_per_cycle, design.machine.vector.lanes
        return Resources({"arrays": {"silicon": 0.01 * macs}, "vector": {"silicon": 0.1 * lanes}})

    def idle_power(self, design: Design, used: Resources) -> Iterable[IdlePower]:
        yield IdlePower("leakage", "leakage", self.leakage_w_per_mm2, used.totals["silicon"])


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The toy in the registry, and its resource among the metrics."""
    TECHNOLOGIES.register(Toy)
    yield
    del TECHNOLOGIES["toy"], METRICS["silicon"], RESOURCES["silicon"]


def toy(area_mm2: float) -> Design:
    """The small design of the strategies, built in the toy: no count of an FPGA in sight."""
    design = Design.model_validate(raw_design())
    board = design.board.model_dump(exclude={"lut", "dsp", "bram36", "uram", "technology"})
    board["technology"] = {"kind": "toy", "area_mm2": area_mm2}
    constants = {name: value for name, value in ENERGY.items() if "clock_uw" not in name}
    return design.model_copy(
        update={"board": Board.model_validate(board), "energy": Energy.model_validate(constants)}
    )


def test_a_toy_from_outside_runs_through_fit_and_energy() -> None:
    design = toy(area_mm2=100.0)
    used = resources(design)
    report = check_fit(design, VIDEO)
    assert report.counts == {"silicon": (used.totals["silicon"], 100.0)}
    assert METRICS["silicon"].of(None, Setting(design, report)) == used.totals["silicon"]
    assert report.rows[0].ok
    second = Activity(round(design.board.fabric_clock_mhz * 1e6), 0, 0, 0, {})
    (leakage,) = [p for p in energy(design, second, used).components if p.component == "leakage"]
    assert leakage.value_j == pytest.approx(used.totals["silicon"])
    assert leakage.idle
    small = check_fit(toy(area_mm2=0.5), VIDEO)
    assert "mm2 needed (vector " in small.misfits[0]
    assert "0.5 mm2 available" in small.misfits[0]
    assert small.cures[0] == "shrink machine.array"


@pytest.mark.parametrize("kind", [*SHIPPED, "toy"])
def test_every_kind_keeps_the_contract(kind: str) -> None:
    design = toy(100.0) if kind == "toy" else load_design(SHIPPED[kind])
    technology = design.board.technology
    assert technology.kind == kind
    assert isinstance(technology, TECHNOLOGIES[kind])
    is_a_technology(technology, design)


def test_boards_of_before_say_nothing_of_a_technology() -> None:
    raw = raw_design()
    assert "technology" not in raw["board"]
    assert Design.model_validate(raw).board.technology.kind == "fpga"
    said = {**raw["board"], "technology": {"kind": "fpga"}}
    assert Board.model_validate(said) == Board.model_validate(raw["board"])


def test_an_fpga_needs_the_constants_of_its_clock() -> None:
    design = load_design("zcu102", ["energy.clock_uw_per_mhz_klut=null"])
    with pytest.raises(InputError, match="clock_uw_per_mhz_klut: is missing; add it"):
        energy(design, Activity(1, 0, 0, 0, {}), resources(design))
