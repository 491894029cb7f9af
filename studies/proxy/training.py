"""Training of a proxy model: the plan, and the run in progress.

Needs the extra ``carsim[train]``. ``python -m studies.proxy.train`` trains.
"""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from carsim.decoder.content import Codebook
from studies.proxy.data import Batch, Stage, draw_batch
from studies.proxy.network import Shape, Twin, initialise
from studies.proxy.optimiser import Muon

CURRICULUM = (
    Stage(0.25, 2, 8),  # learn to look one frame back
    Stage(0.85, 4, 4),  # the third frame on shows which way things move
    Stage(1.00, 8, 2),
)


@dataclass(frozen=True)
class Plan:
    """What a training run is.

    Attributes:
        n_steps: Steps in all. May be changed on resuming.
        seed: Of weights and data.
        lr: Peak learning rate, constant between warm-up and decay.
        warm_up: Steps of linear warm-up.
        decay_share: Share of the steps, at the end, in which the rate falls linearly to zero.
        weight_decay: Decoupled, for matrices.
        clip_norm: Largest norm of the gradient.
        shape: Sizes of the network.
        curriculum: Stages.
        plain: Whether it starts at random, with nothing put in by hand.
    """

    n_steps: int
    seed: int = 0
    lr: float = 4e-3
    warm_up: int = 50
    decay_share: float = 0.17
    weight_decay: float = 0.05
    clip_norm: float = 1.0
    shape: Shape = field(default_factory=Shape)
    curriculum: tuple[Stage, ...] = CURRICULUM
    plain: bool = False

    def stage(self, step: int) -> Stage:
        """The stage that a step is in."""
        return next(s for s in self.curriculum if step < s.until * self.n_steps)

    def rate(self, step: int) -> float:
        """Learning rate of a step."""
        left = (self.n_steps - step) / (self.decay_share * self.n_steps)
        return self.lr * min(1.0, (step + 1) / self.warm_up, left)


class Training:
    """A run in progress: network, optimisers and the next step.

    Args:
        plan: What it is.
        walks: Codes of the walks, int16[T, 256] each.
        codebook: Of the codes.
        products: Type in which matrices are multiplied. ``bfloat16`` is twice as fast on processors
            that have it, and much slower on others.
        device: Where.
    """

    def __init__(
        self,
        plan: Plan,
        walks: list[NDArray[np.int16]],
        codebook: Codebook,
        products: torch.dtype = torch.float32,
        device: str = "cpu",
    ) -> None:
        self.plan, self.step = plan, 0
        self._walks, self._codebook, self._device = walks, codebook, device
        self.twin = Twin(plan.shape, products)
        initialise(self.twin, codebook, plan.seed, plain=plan.plain)
        self.twin.to(device)
        stacks = [p for p in self.twin.parameters() if p.ndim == 3]
        tables = [p for p in self.twin.parameters() if p.ndim < 3 and p.ndim > 0]
        self._optimisers: list[torch.optim.Optimizer] = [
            Muon(stacks, plan.lr, weight_decay=plan.weight_decay),
            torch.optim.AdamW(tables, plan.lr, betas=(0.9, 0.98), weight_decay=0.0),
        ]

    def advance(self) -> dict[str, float]:
        """One step; returns its losses: of frames that have a predecessor, and of first ones."""
        plan = self.plan
        stage = plan.stage(self.step)
        batch = draw_batch(stage, self._walks, self._codebook, plan.seed, self.step)
        batch = Batch(*(getattr(batch, each.name).to(self._device) for each in fields(batch)))
        losses = token_losses(self.twin, batch)
        (losses * batch.weights).sum().div(batch.weights.sum()).backward()
        torch.nn.utils.clip_grad_norm_(self.twin.parameters(), plan.clip_norm)
        for optimiser in self._optimisers:
            for group in optimiser.param_groups:
                group["lr"] = plan.rate(self.step)
            optimiser.step()
            optimiser.zero_grad()
        self.step += 1
        first, later = (batch.weights > 0) & (batch.weights < 1), batch.weights == 1
        return {
            "loss": float(losses[later].detach().mean()),
            "loss_first_frame": float(losses[first].detach().mean()),
        }

    def save(self, path: Path) -> None:
        """Write a checkpoint, whole or not at all."""
        partial = path.with_suffix(".partial")
        torch.save(
            {
                "step": self.step,
                "plan": asdict(self.plan),
                "twin": self.twin.state_dict(),
                "optimisers": [optimiser.state_dict() for optimiser in self._optimisers],
            },
            partial,
        )
        partial.replace(path)

    def load(self, path: Path) -> None:
        """Go on from a checkpoint."""
        saved = torch.load(path, weights_only=True, map_location=self._device)
        self.step = saved["step"]
        self.twin.load_state_dict(saved["twin"])
        for optimiser, state in zip(self._optimisers, saved["optimisers"], strict=True):
            optimiser.load_state_dict(state)


def token_losses(forward: Any, batch: Batch) -> Tensor:
    """Cross-entropy of each place in nats, [B, S]."""
    logits = forward(batch.tokens, batch.positions)
    return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), reduction="none").view(
        batch.targets.shape
    )
