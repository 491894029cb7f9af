"""Muon (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon/) for stacks of matrices.

Model: the momentum of each matrix is replaced by the nearest semi-orthogonal one (five
Newton-Schulz steps), and scaled to the root mean square of an Adam step (arXiv 2502.16982,
section 2.2). Simplification: a stack [L, out, in] is treated at once, L matrices alike in shape.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # quintic of the publication
_ADAM_RMS = 0.2


class Muon(torch.optim.Optimizer):
    """Steps along orthogonalised momentum."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One step; a closure is not taken."""
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                momentum = self.state[parameter].setdefault("momentum", torch.zeros_like(gradient))
                momentum.lerp_(gradient, 1 - group["momentum"])
                update = _orthogonal(gradient.lerp(momentum, group["momentum"]))  # Nesterov
                scale = _ADAM_RMS * max(parameter.shape[-2:]) ** 0.5
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(update, alpha=-group["lr"] * scale)


def _orthogonal(stack: Tensor) -> Tensor:
    """Each matrix of a stack with its singular values moved to about 1."""
    a, b, c = _COEFFICIENTS
    tall = stack.shape[-2] > stack.shape[-1]
    x = stack.mT if tall else stack
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x
