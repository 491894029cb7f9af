"""The roofline of a decode step: counted from its shapes, and weighed over a clip."""

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
    products, exponentials = decoding.work()
    weights = layers * (4 * width**2 + 3 * width * inner)
    cache = layers * rows * 2 * slots * width
    assert sum(b.size for _, b in products) == weights + cache
    macs = sum(a.size * b.shape[-1] for a, b in products)
    assert macs == rows * weights + cache
    assert exponentials == layers * rows * (4 * slots + inner)


def test_a_product_takes_the_longer_of_its_operations_and_its_bytes(study):
    a, b = np.ones((3, 10), np.float32), np.ones((10, 20), np.float32)
    rates = study["Rates"](operations=1200.0, bytes_read=1600.0, exponentials=10.0)
    assert rates.least_s([(a, b)], 0) == pytest.approx(1.0)  # 1,200 operations, 800 bytes
    rates = study["Rates"](operations=1e9, bytes_read=1600.0, exponentials=10.0)
    assert rates.least_s([(a, b), (a, b)], 5) == pytest.approx(2 * 0.5 + 0.5)


def test_the_steps_of_a_clip_count_by_their_time(study):
    steps = [
        {"step": 0, "step_ms": 1.0, "roofline_share": 0.5},
        {"step": 2, "step_ms": 3.0, "roofline_share": 0.7},
    ]
    wanted = (1 * 0.5 + 2 * 0.6 + 3 * 0.7) / 6
    assert study["clip_share"](steps) == pytest.approx(wanted)
    assert study["clip_share"](steps[:1]) == 0.5
