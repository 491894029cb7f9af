"""The decoder gives equal results on PyTorch, where that is installed."""

import numpy as np
import pytest
from numpy.typing import NDArray

from carsim.decisions.trace.meta import Geometry
from carsim.measure.backend import Backend, NumpyBackend, TorchBackend
from carsim.measure.decoder import Decoder, rows_of
from carsim.measure.settings import computing_rows

SHAPE = Geometry(
    name="test", n_layers=2, hidden_size=24, n_heads=4, n_kv_heads=2, head_dim=6, ffn_size=40
)


def decoded(backend: Backend) -> NDArray[np.float32]:
    """Residual stream after three steps of three rows, of which some replay."""
    decoder = Decoder(
        backend,
        SHAPE,
        prompt=4,
        n_steps=3,
        rows=3,
        worker=0,
        workers=1,
        residual=backend.array(np.zeros((3, 24), np.float32)),
        held=backend.array(np.zeros((2, 3, 24), np.float32)),
        seed=1,
    )
    decisions = np.zeros((3, 2, 3), bool)
    decisions[1, :, 1:] = True
    decisions[2] = True
    for step, layers in enumerate(computing_rows(decisions, 1, "none")):
        rows = [rows_of(backend, layer, 3, 0, holds=True) for layer in layers]
        times = decoder.step(step, 3, rows, lambda: None)
        assert len(times) == 4
        assert min(times) >= 0
    stream = decoder.residual
    return np.array(stream.cpu() if hasattr(stream, "cpu") else stream)


def test_pytorch_decodes_what_numpy_does() -> None:
    pytest.importorskip("torch")
    expected = decoded(NumpyBackend())
    assert decoded(TorchBackend()) == pytest.approx(expected, rel=1e-3, abs=1e-4)
