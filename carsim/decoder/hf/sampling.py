"""From hidden states to what the next step is fed: the model's own tokens, or the owner's code."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from carsim.base.errors import InputError
from carsim.decoder.hf.checkpoint import HfModel
from carsim.decoder.sampling import mix_guidance, top_k

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


@dataclass(frozen=True)
class TokenSampling:
    """Sampling of tokens from the model's own logits.

    Attributes:
        top_k: Likeliest tokens that are drawn from; 1 is greedy (the lower token on ties).
        temperature: Divides the logits.
        guidance_scale: s in blank + s * (conditional - blank) (arXiv 2207.12598); 1 is no guidance.
        first_token: First of the vocabulary that may be drawn, where visual tokens are a range.
        last_token: Last of them; None is the last of the vocabulary.
    """

    top_k: int = 1
    temperature: float = 1.0
    guidance_scale: float = 3.0
    first_token: int = 0
    last_token: int | None = None


class TokenSampler:
    """A :class:`StepModel` made of a checkpoint's output head and token embeddings.

    Args:
        model: Checkpoint.
        sampling: Sampling.
        guided: Rows 2i and 2i + 1 are a guidance pair, whose mixed logits give one token.
        n_videos: Tokens a step.
        seed: With the video's number it seeds a generator of its own.

    Raises:
        InputError: The checkpoint has no output head, or the range of tokens is not within its
            vocabulary.
    """

    def __init__(
        self, model: HfModel, sampling: TokenSampling, *, guided: bool, n_videos: int, seed: int
    ) -> None:
        if model.head is None:
            raise InputError(
                model.geometry.name,
                "has no lm_head.weight, so that no token can be sampled from its logits",
                "pass a step_model to carsim.decoder.hf.capture_hf",
            )
        self._head, self._embed = model.head, model.body.embed_tokens
        self._sampling, self._guided = sampling, guided
        generators = [np.random.default_rng((seed, 1 + video)) for video in range(n_videos)]
        self._choose = top_k(sampling.top_k, sampling.temperature, generators)
        vocabulary = model.head.weight.shape[0]
        last = vocabulary - 1 if sampling.last_token is None else sampling.last_token
        if not 0 <= sampling.first_token <= last < vocabulary:
            raise InputError(
                "--visual-tokens",
                f"range {sampling.first_token}:{last} is not within the vocabulary",
                f"give FIRST:LAST within 0:{vocabulary - 1}",
            )
        self._range = slice(sampling.first_token, last + 1)

    def __call__(self, hidden: "Tensor") -> "Tensor":
        """As :class:`StepModel` has it."""
        logits = self._head(hidden)[:, self._range].double().cpu().numpy()  # [B, K]
        if self._guided:
            with np.errstate(all="ignore"):  # refused below, in one line
                logits = mix_guidance(logits, self._sampling.guidance_scale)
        if not np.isfinite(logits).all():
            raise InputError(
                "sampling",
                f"guidance scale {self._sampling.guidance_scale:g} makes NaN or infinite logits",
                "lower it, check the weights, or use --dtype float32",
            )
        tokens = self._range.start + self._choose(logits)  # [videos]
        rows = np.repeat(tokens, 2 if self._guided else 1)
        embedded: Tensor = self._embed.weight[rows]
        return embedded
