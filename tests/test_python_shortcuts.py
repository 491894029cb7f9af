"""Short ways from Python: a single trace, decisions of a model, and why a phase takes its time."""

import numpy as np
import pytest

from carsim import Trace, load_design, load_trace, run
from carsim.base.errors import InputError


def test_a_run_takes_one_trace_or_its_name() -> None:
    by_name = run("zcu102", "vilau_8f_fast", what_if=False)
    trace = load_trace("vilau_8f_fast")
    assert run("zcu102", trace, what_if=False).chosen.seconds_per_video == (
        by_name.chosen.seconds_per_video
    )


def test_decisions_need_no_base_trace() -> None:
    model = load_design("zcu102").model
    replay = np.zeros((512, 32, 2), bool)
    replay[256:, ::2] = True
    trace = Trace.from_decisions(replay, model=model, label="half of the layers")
    assert (trace.n_frames, trace.meta.guidance_pairs) == (2, ((0, 1),))
    again = Trace.from_decisions(replay, model=model, frames=2, label="half of the layers")
    assert again.meta == trace.meta
    for problem, arguments in (
        ("or the model", {}),
        ("or the model", {"like": trace, "model": model}),
        ("expected an array", {"model": model, "replay": replay[:300]}),
    ):
        array = arguments.pop("replay", replay)
        with pytest.raises(InputError, match=problem):
            Trace.from_decisions(array, **arguments)


def test_why_adds_up() -> None:
    report = run("zcu102", workload="video:2", what_if=False)
    seconds = report.phases()[report.chosen.variant.name]
    for phase in ("qkv", "attention", "output", "mlp"):
        found = report.why(phase)
        assert found.seconds == pytest.approx(seconds[phase])
        assert max(line.seconds for line in found.lines) + found.other_seconds == pytest.approx(
            found.seconds
        )
        for line in found.lines:
            assert line.amount / line.rate == pytest.approx(line.seconds)
    assert str(report.why("attention")).startswith("attention: ")
    with pytest.raises(InputError, match="no phase 'nothing'; known are"):
        report.why("nothing")
