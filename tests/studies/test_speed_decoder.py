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


@pytest.mark.parametrize("name", ["products", "kernels", "roofline"])
def test_a_part_of_a_step_is_never_longer_than_the_step(study, name):
    shares = {f"{each}_share": 1.0 for each in study["SHARES"]}
    assert study["possible"]({"step": 255} | shares)["roofline_share"] == 1.0
    with pytest.raises(SystemExit, match=rf"step 255: {name} is 1\.13 of a step.*idle machine"):
        study["possible"]({"step": 255} | shares | {f"{name}_share": 1.13})


def test_what_is_measured_is_checked(study, monkeypatch):
    step_s, products_s, least_s = 1.0, 0.5, 1.55

    class Stub:
        def go_to(self, step):
            self.at = step

        def work(self):
            return (), 0

        def step(self):
            pass

    class Rates:
        exponentials = 1.0

        def least_s(self, products, exponentials):
            return least_s

    class Machine:
        def rates(self):
            return Rates()

    times = iter([step_s, products_s])
    monkeypatch.setitem(study["shares"].__globals__, "seconds", lambda work: next(times))
    with pytest.raises(SystemExit, match=r"step 7: roofline is 1\.55 of a step"):
        study["shares"](Stub(), Machine(), 7, 1)
