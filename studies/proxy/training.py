"""Train the proxy model: ``python -m studies.proxy.training --folder runs/first``, again to go on.

Needs the extra ``carsim[train]``, and the walks of :mod:`studies.proxy.scenes`. Stop it at any
time; the same command resumes from the last checkpoint, to the same bits on the same machine.
"""

import argparse
import csv
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from carsim.decoder.content import Codebook, load_codebook
from studies.proxy.data import PHOTO_SHARE, Batch, Stage, draw_batch
from studies.proxy.network import Shape, Twin, initialise
from studies.proxy.optimiser import Muon
from studies.proxy.scenes import TRAINING, load_walks

CODEBOOK = Path(__file__).parents[2] / "traces" / "codebook_512.npz"

CURRICULUM = (
    Stage(0.25, 2, 8),  # learn to look one frame back
    Stage(0.85, 4, 4),  # the third frame on shows which way things move
    Stage(1.00, 8, 2),
)

LOG_COLUMNS = ("step", "lr", "loss_first_frame", "loss", "gradient_norm", "tokens_per_s", "hour")
_LOG_STEPS = 10


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
        photo_share: Of clips that are photographs in motion; drawing them takes most of a batch's
            time.
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
    photo_share: float = PHOTO_SHARE

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

    def batch(self, step: int) -> Batch:
        """The batch of a step; it depends on nothing else."""
        plan, walks = self.plan, self._walks
        return draw_batch(
            plan.stage(step), walks, self._codebook, plan.seed, step, plan.photo_share
        )

    def advance(self, batch: Batch | None = None) -> dict[str, float]:
        """One step; returns what is logged of it.

        Args:
            batch: Of the step, if it was drawn before.
        """
        plan = self.plan
        batch = batch or self.batch(self.step)
        batch = Batch(*(getattr(batch, each.name).to(self._device) for each in fields(batch)))
        losses = token_losses(self.twin, batch)
        (losses * batch.weights).sum().div(batch.weights.sum()).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.twin.parameters(), plan.clip_norm)
        for optimiser in self._optimisers:
            for group in optimiser.param_groups:
                group["lr"] = plan.rate(self.step)
            optimiser.step()
            optimiser.zero_grad()
        self.step += 1
        first, later = (batch.weights > 0) & (batch.weights < 1), batch.weights == 1
        return {
            "step": self.step,
            "lr": plan.rate(self.step - 1),
            "loss_first_frame": float(losses[first].detach().mean()),
            "loss": float(losses[later].detach().mean()),
            "gradient_norm": float(norm),
            "tokens": int((batch.weights > 0).sum()),
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


def log_row(steps: list[dict[str, float]], seconds: float) -> list[str]:
    """Means over some steps, as in :data:`LOG_COLUMNS`; the hour is UTC."""
    means = {key: sum(step[key] for step in steps) / len(steps) for key in steps[0]}
    numbers = [means[key] for key in LOG_COLUMNS[1:5]]
    return [
        f"{steps[-1]['step']}",
        *(f"{number:.5g}" for number in numbers),
        f"{means['tokens'] * len(steps) / seconds:.0f}",
        time.strftime("%H:%M:%S", time.gmtime()),
    ]


def cut_log(path: Path, step: int) -> None:
    """Drop what was logged after the checkpoint that training goes on from."""
    if path.exists():
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if int(line.split(",")[0]) <= step))


def main() -> None:
    """Train until the last step, logging as it goes and saving every few minutes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for checkpoint and log")
    parser.add_argument("--scenes", type=Path, required=True, help="folder of studies.proxy.scenes")
    parser.add_argument("--codebook", type=Path, default=CODEBOOK)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--products", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save-minutes", type=float, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    checkpoint = options.folder / "checkpoint.pt"
    codebook = load_codebook(options.codebook)
    walks = load_walks(options.scenes, TRAINING, codebook)
    plan, products = Plan(options.steps, options.seed, options.lr), getattr(torch, options.products)
    training = Training(plan, walks, codebook, products, options.device)
    if checkpoint.exists():
        training.load(checkpoint)
    saved = logged = time.monotonic()
    recent: list[dict[str, float]] = []
    log_file = options.folder / "log.csv"
    cut_log(log_file, training.step)
    with log_file.open("a", buffering=1) as file:
        log = csv.writer(file)
        while training.step < plan.n_steps:
            recent.append(training.advance())
            now = time.monotonic()
            if training.step % _LOG_STEPS == 0:
                log.writerow(log_row(recent, now - logged))
                recent, logged = [], now
            if now - saved > 60 * options.save_minutes or training.step == plan.n_steps:
                training.save(checkpoint)
                saved = now


if __name__ == "__main__":
    main()
