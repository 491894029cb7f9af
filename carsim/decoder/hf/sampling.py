"""From hidden states to what the next step is fed: the model's own tokens, or the owner's code."""

from typing import TYPE_CHECKING, Protocol

import numpy as np

from carsim.base.errors import InputError
from carsim.decoder.hf.checkpoint import HfModel
from carsim.decoder.hf_recipe import CheckpointRecipe
from carsim.decoder.sampling import chooser, mix_guidance

if TYPE_CHECKING:
    from torch import Tensor


class StepModel(Protocol):
    """Samples one visual token per video and embeds it.

    A plain checkpoint needs none: :class:`TokenSampler` takes its logits and its embeddings.
    VILA-U's LLaMA body has no logits of visual tokens: its depth transformer turns a hidden state
    into four codes, and its projector turns their features into the next embedding. Its owner
    passes a function that does both. VILA-U expects all conditional rows first, then all blank
    ones, where a guidance pair here is two rows next to each other::

        def step_model(hidden):
            rows = torch.cat([hidden[0::2], hidden[1::2]])[:, None].float()
            features, codes = rqtransformer.generate(rows, rqvaesiglip, cfg)
            embedded = mm_projector(features)[:, 0].to(hidden.dtype)
            return torch.stack(embedded.chunk(2), dim=1).flatten(0, 1)
    """

    def __call__(self, hidden: "Tensor") -> "Tensor":
        """Sample and embed.

        Args:
            hidden: Hidden states of each row's newest token after the final norm, [B, d].

        Returns:
            Embeddings that the next step is fed, [B, d]; both rows of a guidance pair get the same.
        """


class TokenSampler:
    """A :class:`StepModel` made of a checkpoint's output head and token embeddings.

    Args:
        model: Checkpoint.
        recipe: Its sampling; its seed with the video's number seeds a generator of its own.

    Raises:
        InputError: The checkpoint has no output head, or the range of tokens is not within its
            vocabulary.
    """

    def __init__(self, model: HfModel, recipe: CheckpointRecipe) -> None:
        if model.head is None:
            problem = "has no lm_head.weight, so that no token can be sampled from its logits"
            cure = "pass a step_model to carsim.decoder.hf.capture_hf"
            raise InputError(model.geometry.name, problem, cure)
        self._head = model.head
        self._embed = model.body.embed_tokens
        self._scale = recipe.sampling.guidance_scale if recipe.guidance else None
        seeds = tuple((recipe.seed, 1 + video) for video in range(len(recipe.prompts)))
        self._choose = chooser(recipe.sampling, seeds)
        end = model.head.weight.shape[0] - 1
        first, last = recipe.sampling.visual_tokens or (0, end)
        if not first <= last <= end:
            problem = f"{first} to {last} is not within the vocabulary"
            cure = f"give the first and the last token, within 0 to {end}"
            raise InputError(f"recipe {recipe.name}: $.sampling.visual_tokens", problem, cure)
        self._range = slice(first, last + 1)

    def __call__(self, hidden: "Tensor") -> "Tensor":
        """Sample a token of every video, and embed it for each of its rows, [B, d]."""
        logits = self._head(hidden)[:, self._range].double().cpu().numpy()  # [B, K]
        if self._scale is not None:
            with np.errstate(all="ignore"):  # refused below, in one line
                logits = mix_guidance(logits, self._scale)
        if not np.isfinite(logits).all():
            problem = f"NaN or infinite logits under guidance scale {self._scale}"
            cure = "lower it, check the weights, or give dtype: float32"
            raise InputError("sampling", problem, cure)
        tokens = self._range.start + self._choose(logits)  # [videos]
        return self._embed.weight[np.repeat(tokens, 1 if self._scale is None else 2)]
