"""Matrix products of a decode step: counted as its shapes say, and a share of its time."""

import runpy
from pathlib import Path

import numpy as np
import pytest

SPEED = Path(__file__).parents[2] / "studies" / "speed"


@pytest.fixture(scope="module")
def study():
    return runpy.run_path(str(SPEED / "decoder.py"))


def test_a_step_is_counted_as_its_shapes_say(study):
    rows, slots, layers, width, inner = 2, 62 + 10, 32, 128, 344
    decoding = study["Decoding"](rows, tau=float("inf"))
    decoding.go_to(9)
    products = decoding.products()
    weights = layers * (4 * width**2 + 3 * width * inner)
    cache = layers * rows * 2 * slots * width
    assert sum(b.size for _, b in products) == weights + cache
    assert sum(a.size * b.shape[-1] for a, b in products) == rows * weights + cache


def test_the_share_is_of_the_time_of_a_step(study, monkeypatch):
    decoding = study["Decoding"](2)
    times = iter([4.0, 1.0, 4.0, 2.0, 4.0, 3.0])
    monkeypatch.setitem(study["Decoding"].share.__globals__, "seconds", lambda work: next(times))
    assert decoding.share(9, repeat=3) == np.median([0.25, 0.5, 0.75])
