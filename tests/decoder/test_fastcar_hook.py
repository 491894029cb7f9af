"""The hook for the FastCar authors' code writes traces that carsim opens."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from carsim.decisions.trace import load_trace

torch = pytest.importorskip("torch")

HOOK = Path(__file__).parents[2] / "docs" / "hooks" / "fastcar_trace.py"
PER_FRAME, ROWS, HEADS, SIZE = 4, 4, 2, 3


@pytest.fixture(scope="module")
def hook() -> Any:
    spec = importlib.util.spec_from_file_location("fastcar_trace", HOOK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Layer(torch.nn.Module):  # type: ignore[misc]
    """Keeps what the authors' layers keep: queries, cached outputs, and which rows skip."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn = SimpleNamespace(query_cache=[])
        self.cache_mlp: list[Any] = []
        self.cache_if_skip_mlp: list[Any] = []
        self.keys: Any = torch.zeros(ROWS, HEADS, 0, SIZE)

    def forward(self, x: Any, tau: float | None) -> Any:
        q, k = (
            torch.randn(ROWS, HEADS, x.shape[1], SIZE).to(torch.bfloat16).to(x.dtype) for _ in "qk"
        )
        self.keys = torch.cat([self.keys.to(x.dtype), k], dim=2)
        if x.shape[1] == 1:
            skip = torch.zeros(ROWS, 1, dtype=torch.bool)
            self.self_attn.query_cache.append(q)
            if tau is not None and len(self.cache_mlp) >= PER_FRAME:
                key = self.keys[:, :, -1 - PER_FRAME].unsqueeze(2)
                skip = ((q * key).sum(dim=-1) / SIZE**0.5).mean(dim=1) > tau
            self.cache_if_skip_mlp.append(skip)
            self.cache_mlp.append(x)
        return x, (self.keys, self.keys)


class Body(torch.nn.Module):  # type: ignore[misc]
    """Layers, and a parameter that has the arithmetic."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1, dtype=dtype))
        self.layers = torch.nn.ModuleList([Layer(), Layer()])
        self.config = SimpleNamespace(
            num_hidden_layers=2,
            hidden_size=HEADS * SIZE,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS,
            intermediate_size=8,
        )

    def forward(self, x: Any, taus: Any, attention_mask: Any = None) -> None:
        for layer, tau in zip(self.layers, taus, strict=True):
            layer(x, tau)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_hook_records_what_the_layers_decide(hook: Any, dtype: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    body, taus = Body(getattr(torch, dtype)), (0.1, None)
    recorder = hook.Recorder(body, taus, tokens_per_frame=PER_FRAME)
    prompt = torch.zeros(ROWS, 3, 1, dtype=body.weight.dtype)
    mask = torch.tensor([[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1]], dtype=torch.bool)
    body(prompt, taus, attention_mask=mask)
    for _ in range(3 * PER_FRAME - 1):
        body(prompt[:, :1], taus)
    recorder.save(tmp_path / "a.npz", n_frames=3)
    trace = load_trace(tmp_path / "a.npz")  # which holds scores to decisions
    skipped = torch.stack(body.layers[0].cache_if_skip_mlp)[..., 0].numpy()
    np.testing.assert_array_equal(trace.replay[:-1, 0], skipped)
    np.testing.assert_array_equal(trace.replay[-1], trace.replay[-2])
    assert 0 < trace.replay[PER_FRAME:, 0].mean() < 1
    assert not trace.replay[:, 1].any()
    assert np.isnan(trace.tas[:, 1]).all()
    assert trace.meta.prompt_lengths == (3, 2, 1, 1)
    assert trace.meta.guidance_pairs == ((0, 2), (1, 3))
    assert trace.meta.dtype == dtype
    with pytest.raises(ValueError, match="clear them"):
        hook.Recorder(body, taus)
