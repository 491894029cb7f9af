"""The decoder that is measured computes what it should, and really skips."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from carsim.decisions.trace.meta import Geometry
from carsim.measure.backend import NumpyBackend
from carsim.measure.decoder import EPS, Decoder, Layer, Probe, Rows, probe_rows, rows_of
from carsim.measure.settings import Schedule, computing_rows

SHAPE = Geometry(
    name="test", n_layers=2, hidden_size=24, n_heads=4, n_kv_heads=2, head_dim=6, ffn_size=40
)
PROMPT, STEPS, ROWS = 5, 4, 4

Array = NDArray[np.float64]


def made(worker: int = 0, workers: int = 1, shared: Sequence[Array] | None = None) -> Decoder:
    residual = np.zeros((ROWS, 24), np.float32)
    held = np.zeros((2, ROWS, 24), np.float32)
    stream, outputs = (residual, held) if shared is None else shared
    return Decoder(
        NumpyBackend(),
        SHAPE,
        prompt=PROMPT,
        n_steps=STEPS,
        rows=ROWS,
        worker=worker,
        workers=workers,
        residual=stream,
        held=outputs,
        seed=3,
    )


def plan_of(
    decisions: NDArray[np.bool_], worker: int, workers: int, schedule: Schedule
) -> list[list[Rows]]:
    plan = computing_rows(decisions, workers, schedule)
    return [
        [rows_of(NumpyBackend(), layer, ROWS, worker, holds=True) for layer in step]
        for step in plan
    ]


def normed(x: Array) -> Array:
    return x / np.sqrt((x**2).mean() + EPS)


def plain_layer(layer: Layer, x: Array, row: int, slot: int, keys: Array, values: Array) -> Array:
    """Attention of one row, written out head by head in double precision."""
    cat = (normed(x) @ layer.w_qkv.astype(float)).reshape(-1, 6)
    angles = slot * 10000.0 ** -(np.arange(0, 6, 2) / 6)

    def rotated(head: Array) -> Array:
        first, second = head[:3], head[3:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin])

    out = []
    for head in range(4):
        group = head // 2
        keys[row, group, slot] = rotated(cat[4 + group])
        values[row, group, slot] = cat[6 + group]
        scores = keys[row, group, : slot + 1] @ rotated(cat[head]) / np.sqrt(6)
        weights = np.exp(scores - scores.max())
        out.append(weights / weights.sum() @ values[row, group, : slot + 1])
    return x + np.concatenate(out) @ layer.w_out.astype(float)


def void(_: object) -> None:
    """Drop a value."""


def plain_mlp(layer: Layer, x: Array) -> Array:
    both = normed(x) @ layer.w_gate_up.astype(float)
    gate, up = both[:40], both[40:]
    return gate / (1 + np.exp(-gate)) * up @ layer.w_down.astype(float)


def test_steps_equal_a_decoder_written_row_by_row() -> None:
    decoder = made()
    caches = [(each.keys.astype(float), each.values.astype(float)) for each in decoder.layers]
    decisions = np.random.default_rng(1).random((STEPS, 2, ROWS)) < 0.5
    decisions[0] = False
    plan = plan_of(decisions, 0, 1, "none")
    held = np.zeros((2, ROWS, 24))
    for step in range(STEPS):
        times = decoder.step(step, ROWS, plan[step], lambda: None)
        assert len(times) == 4
        assert min(times) >= 0
        for row in range(ROWS):
            x = decoder.inputs[row].astype(float)
            for number, layer in enumerate(decoder.layers):
                x = plain_layer(layer, x, row, PROMPT + step, *caches[number])
                if not decisions[step, number, row]:
                    held[number, row] = plain_mlp(layer, x)
                x = x + held[number, row]
            assert decoder.residual[row] == pytest.approx(x, rel=1e-3, abs=1e-4)


def test_rows_that_all_replay_call_no_mlp(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = made()
    calls: list[int] = []
    whole = Decoder._mlp

    def counted(self: Decoder, layer: Layer, x: Array) -> Array:
        calls.append(len(x))
        return whole(self, layer, x)

    monkeypatch.setattr(Decoder, "_mlp", counted)
    decisions = np.zeros((STEPS, 2, ROWS), bool)
    decisions[1, 0] = True
    decisions[1, 1, 0] = True
    plan = plan_of(decisions, 0, 1, "none")
    decoder.step(0, ROWS, plan[0], lambda: None)
    assert calls == [ROWS, ROWS]
    decoder.step(1, ROWS, plan[1], lambda: None)
    assert calls[2:] == [ROWS - 1]


def test_dynamic_workers_compute_what_static_ones_do() -> None:
    decisions = np.zeros((2, 2, ROWS), bool)
    decisions[1, :, :2] = True  # all rows of the first worker replay
    schedules: tuple[Schedule, ...] = ("static", "dynamic")
    streams = []
    for schedule in schedules:
        shared = (np.zeros((ROWS, 24), np.float32), np.zeros((2, ROWS, 24), np.float32))
        barrier = threading.Barrier(2, timeout=20)

        def work(
            worker: int,
            schedule: Schedule = schedule,
            shared: tuple[Any, Any] = shared,
            barrier: threading.Barrier = barrier,
        ) -> None:
            decoder = made(worker, 2, shared)
            plan = plan_of(decisions, worker, 2, schedule)
            for step in range(2):
                decoder.step(step, ROWS, plan[step], lambda: void(barrier.wait()))

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        streams.append(shared[0])
    assert np.abs(streams[0]).min() > 0
    assert streams[1] == pytest.approx(streams[0], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("probe", ["gather", "replay"])
def test_a_probe_times_a_part_of_steps_that_compute_every_mlp(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that only the MLP moves: gathering and adding take none of its time."""
    decoder = made()
    clock = [0]
    whole = Decoder._mlp

    def slow(self: Decoder, layer: Layer, x: Array) -> Array:
        clock[0] += 1_000_000
        return whole(self, layer, x)

    monkeypatch.setattr(Decoder, "_mlp", slow)
    monkeypatch.setattr(decoder.backend, "mark", lambda: clock[0])
    dense = plan_of(np.zeros((1, 2, ROWS), bool), 0, 1, "none")[0]
    assert decoder.step(0, ROWS, dense, lambda: None) == [0.0, 1000.0, 0.0, 1000.0]
    expected = decoder.residual.copy()
    rows = probe_rows(decoder.backend, ROWS, 0, 1, probe)
    decoder.held[:] = 0
    assert decoder.step(0, ROWS, [rows] * 2, lambda: None) == [0.0] * 4
    assert clock[0] == 4_000_000
    assert decoder.residual == pytest.approx(expected, rel=1e-5)
