"""The contract of a mapping, of every registered kind and of one from outside."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ideal import attend
from strategies import draw_replay, small_design, videos

from carsim.base.errors import InputError
from carsim.decisions.attention import PLAIN
from carsim.decisions.replay import FASTCAR
from carsim.hardware.mapping import MAPPINGS, Mapping
from carsim.hardware.schedule import BASELINE, DEFAULT
from carsim.machine.batches import Batches
from carsim.machine.cases import MlpCases
from carsim.machine.hardware import Hardware
from carsim.machine.phase import Outcome
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.machine.simulate import simulate, simulate_plainly

KINDS = pytest.mark.parametrize("kind", [*MAPPINGS, "outside"])
MACHINES = {"batch": st.integers(1, 9), "cores": st.integers(1, 4), "rows": st.integers(1, 9)}
FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)


class MlpColumns(Mapping):
    """MLPs split by columns, attention a sequence per core: no shipped kind does that."""

    kind = "outside"
    splits_attention = False
    splits_mlp = True


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAPPINGS, "outside", MlpColumns())


def phases_of(kind: str, batch: int, cores: int, rows: int) -> Phases:
    """Phases of a machine whose arrays are ``rows`` high."""
    array = {"rows": rows, "cols": 4, "pipeline_cycles": 0}
    return Phases(Hardware(small_design(batch=batch, cores=cores, array=array, mapping=kind)))


def layer_phases(phases: Phases) -> dict[str, Outcome]:
    """One phase of each kind; in the MLP, some sequences compute, all but the first."""
    computing = np.ones((1, phases.hw.batch), np.bool_)
    computing[0, 0] = phases.hw.batch == 1
    return {
        "qkv": phases.qkv(None),
        "attention": attend(phases, 20),
        "output": phases.output(),
        "mlp": phases.mlp(BASELINE, MlpCases(computing, None)),
        "head": phases.head(),
        "prefill": phases.prefill_layer(3),
    }


@KINDS
@given(**MACHINES)
@FIXTURE
def test_all_kinds_do_the_same_work(kind: str, batch: int, cores: int, rows: int) -> None:
    """Equal MACs and, where one stream of weights serves all cores, equal bytes."""
    own, usual = (layer_phases(phases_of(k, batch, cores, rows)) for k in (kind, "batch"))
    for name, outcome in own.items():
        assert outcome.macs == usual[name].macs, name
        assert (outcome.dram_bytes == usual[name].dram_bytes).all(), name


@KINDS
@pytest.mark.parametrize("sharing", ["private", "private_per_sequence"])
def test_private_weights_are_refused_where_cores_share_a_matrix(kind: str, sharing: str) -> None:
    if kind == "batch":
        assert small_design(mapping=kind, weight_sharing=sharing).machine.weight_sharing == sharing
        return
    with pytest.raises(InputError, match=rf"machine\.weight_sharing: .*{kind}"):
        small_design(mapping=kind, weight_sharing=sharing)


@KINDS
@given(**MACHINES)
@FIXTURE
def test_no_kind_beats_the_arrays(kind: str, batch: int, cores: int, rows: int) -> None:
    phases = phases_of(kind, batch, cores, rows)
    machine = phases.hw.design.machine
    for name, outcome in layer_phases(phases).items():
        assert outcome.cycles * machine.macs_per_cycle >= outcome.macs, name
        assert outcome.cycles >= outcome.bound_cycles, name
        assert outcome.busy_cycles <= cores * outcome.cycles, name


@KINDS
def test_on_a_single_core_all_kinds_are_one(kind: str) -> None:
    own, usual = (layer_phases(phases_of(k, 3, 1, 4)) for k in (kind, "batch"))
    for name, outcome in own.items():
        assert outcome.cycles == usual[name].cycles, name


@KINDS
@given(data=st.data(), cores=st.integers(1, 4))
@FIXTURE
def test_a_run_equals_the_slow_way(kind: str, data: st.DataObject, cores: int) -> None:
    phases, video = phases_of(kind, 3, cores, 4), data.draw(videos())
    layers = phases.hw.design.model.body.n_layers
    batches = Batches(draw_replay(data.draw, 2, video, layers, 3), 1, 0, "captured", "drawn")
    plan = Plan(phases, video, PLAIN, DEFAULT.kind, FASTCAR, range(video.n_steps))
    fast, plain = simulate(plan, batches), simulate_plainly(plan, batches)
    assert fast.totals == plain.totals
    assert (fast.batch_cycles == plain.batch_cycles).all()
