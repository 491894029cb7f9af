"""The contract of a mapping, of every registered kind and of one from outside."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plainly import simulate_plainly
from strategies import draw_replay, small_design, videos

from carsim.account.simulation import simulate_policy
from carsim.base.errors import InputError
from carsim.decisions.attention import PLAIN
from carsim.decisions.replay import FASTCAR
from carsim.hardware.mapping import MAPPINGS, Mapping
from carsim.hardware.schedule import DEFAULT
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.testing import CONTRACTS

KINDS = pytest.mark.parametrize("kind", [*MAPPINGS, "outside"])
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


@KINDS
@pytest.mark.parametrize("check", CONTRACTS["mapping"], ids=lambda check: check.__name__)
def test_every_mapping_keeps_the_contract(kind: str, check: Any) -> None:
    check(MAPPINGS[kind])


@KINDS
@pytest.mark.parametrize("sharing", ["private", "private_per_sequence"])
def test_private_weights_are_refused_where_cores_share_a_matrix(kind: str, sharing: str) -> None:
    if kind == "batch":
        assert small_design(mapping=kind, weight_sharing=sharing).machine.weight_sharing == sharing
        return
    with pytest.raises(InputError, match=rf"machine\.weight_sharing: .*{kind}"):
        small_design(mapping=kind, weight_sharing=sharing)


@KINDS
@given(data=st.data(), cores=st.integers(1, 4))
@FIXTURE
def test_a_run_equals_the_slow_way(kind: str, data: st.DataObject, cores: int) -> None:
    phases, video = phases_of(kind, 3, cores, 4), data.draw(videos())
    batches = Batches(draw_replay(data.draw, 2, video, phases.hw.design), 1, 0, "captured", "drawn")
    plan = Plan(phases, video, PLAIN, DEFAULT.kind, FASTCAR, range(video.n_steps))
    fast, plain = simulate_policy(plan, batches), simulate_plainly(plan, batches)
    assert fast.totals == plain.totals
    assert (fast.batch_cycles == plain.batch_cycles).all()
