"""One layer of one step on the cores: nothing overlaps, and nothing is lost."""

from itertools import pairwise

import numpy as np
import pytest
from tiny import tiny_report

from carsim.base.errors import InputError
from carsim.report.figures.layer_step import layer_step, layer_step_plot, mixed_layer

KINDS = [
    (),
    ("machine.mapping=tensor",),
    ("machine.weight_sharing=private",),
    ("policy.schedule=static",),
]


def step_of(row):
    """A step after the first frame, with the layer whose sequences differ most."""
    return 20, mixed_layer(row, 20)


@pytest.mark.parametrize("overrides", KINDS)
def test_every_core_computes_or_waits_at_any_time(overrides):
    row = tiny_report(*overrides).chosen
    found = layer_step(row, *step_of(row))
    for line in (line for line in found.lines if line.startswith("core ")):
        own = sorted((p.start_cycle, p.end_cycle) for p in found.pieces if p.line == line)
        assert all(a[1] <= b[0] for a, b in pairwise(own))
        covered = sum(end - start for start, end in own)
        in_phases = sum(end - start for start, end in found.phases.values())
        assert covered == in_phases


@pytest.mark.parametrize("overrides", KINDS)
def test_every_sequence_that_computes_is_on_one_core_and_none_that_replays(overrides):
    row = tiny_report(*overrides).chosen
    step, layer = step_of(row)
    found = layer_step(row, step, layer)
    replaying = row.batches.replay[0, step, layer]
    assert found.replaying == tuple(np.flatnonzero(replaying))
    assert found.computing == tuple(np.flatnonzero(~replaying))
    if "machine.mapping=tensor" in overrides:
        return
    seen = {}
    for piece in found.pieces:
        if piece.kind == "computes" and piece.what.startswith("MLP of sequence"):
            seen.setdefault(int(piece.what.split()[-1]), set()).add(piece.line)
    assert set(seen) == set(found.computing)
    assert all(len(lines) == 1 for lines in seen.values())


def test_the_phases_of_a_layer_follow_each_other():
    row = tiny_report().chosen
    found = layer_step(row, 20)
    spans = list(found.phases.values())
    assert list(found.phases) == ["QKV projection", "attention", "output projection", "MLP"]
    assert [start for start, _ in spans[1:]] == [end for _, end in spans[:-1]]
    assert spans[-1][1] == found.cycles


def test_the_plot_has_the_cycles_in_microseconds():
    found = layer_step(tiny_report().chosen, 20, 1)
    (panel,) = layer_step_plot(found, 200.0).panels
    ends = [x for series in panel.series for x in series.x]
    assert max(ends) == pytest.approx(found.cycles / 200.0, rel=1e-12)
    assert panel.categories == found.lines


@pytest.mark.parametrize(("step", "layer"), [(20, 4), (20, -1), (48, 0), (48, None)])
def test_what_is_not_there_is_refused(step, layer):
    with pytest.raises(InputError):
        layer_step(tiny_report().chosen, step, layer)
