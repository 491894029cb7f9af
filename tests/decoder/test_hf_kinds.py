"""Every supported type of checkpoint: scores are those of the model's own attention."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_llama import VOCABULARY, plan, torch, transformers

from carsim.decisions.replay import Tas
from carsim.decoder.hf import capture_hf, load_checkpoint
from carsim.decoder.hf.checkpoint import KINDS

N = plan().tokens_per_frame
SIZES = {
    **{"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 40, "head_dim": 12},
    **{"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2},
}


def save(folder: Path, kind: str) -> None:
    """A random checkpoint of a type, norms and biases away from their neutral values."""
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(kind, **SIZES)
    config.sliding_window = None
    network = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            wide = 0.3 if "norm" in name or "bias" in name else weight.shape[-1] ** -0.5
            weight.copy_(torch.randn(weight.shape) * wide + ("norm" in name))
    network.save_pretrained(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_the_paper_are_the_logits_of_attention(kind, tmp_path, monkeypatch):
    save(tmp_path / kind, kind)
    model = load_checkpoint(tmp_path / kind, dtype="float64")
    module = sys.modules[type(model.body).__module__]
    logits: list[Any] = []
    attend = module.eager_attention_forward

    def watched(self: Any, query: Any, key: Any, *rest: Any, **named: Any) -> Any:
        if query.shape[2] == 1 and key.shape[2] > N:
            aligned = key[:, :, -1 - N].repeat_interleave(2, dim=1)
            scores = (query[:, :, 0] * aligned).sum(dim=-1) / 12**0.5
            logits.append(scores.mean(dim=1).numpy().copy())
        return attend(self, query, key, *rest, **named)

    monkeypatch.setattr(module, "eager_attention_forward", watched)
    trace = capture_hf(model, plan(tau=0.02, rule=Tas(form="paper")))
    steps = trace.replay.shape[0] - N
    watched_scores = np.array(logits[-3 * steps :]).reshape(steps, 3, -1)
    np.testing.assert_allclose(trace.tas[N:], watched_scores, atol=1e-5)
    assert 0 < trace.replay[N:].mean() < 1
    assert trace.meta.decoded.head_dim == 12
