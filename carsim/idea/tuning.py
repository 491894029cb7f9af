"""A threshold at which a rule replays a wanted share, closed loop, on scenes kept for it."""

from functools import partial

import numpy as np

from carsim.base.errors import InputError
from carsim.decisions.replay import ReplayRule
from carsim.decoder.recipe import Recipe
from carsim.decoder.workers import Progress, run_in_workers
from carsim.idea.content import EXEMPT_LAYERS, N_LAYERS, TUNING_SCENES, Content
from carsim.idea.loss import decode_piece, groups_of_scenes

CLOSE = 0.02
MOST_TRIES = 4


def tuned(  # noqa: PLR0913 - a search, by name
    content: Content,
    rule: ReplayRule,
    share: float,
    n_frames: int,
    *,
    workers: int,
    progress: Progress | None,
) -> float:
    """The threshold of a rule.

    Args:
        content: The small model.
        rule: The rule.
        share: Wanted share of eligible steps of layers that are not exempt.
        n_frames: Frames of each scene.
        workers: Processes.
        progress: Told about units done.

    Raises:
        InputError: The rule scores all places alike.
    """
    frames = max(n_frames, rule.first_frame + 2)
    scores = _scores(content, rule, np.inf, n_frames=frames, workers=workers, progress=progress)
    values = np.unique(scores[np.isfinite(scores)])
    if len(values) < 2:
        problem = f"scores every place {values[0] if len(values) else 'nan'}"
        raise InputError(f"rule {rule.kind}", problem, "let the score depend on what is seen")
    if len(values) == 2:
        return float(values.mean())  # a rule that decides by itself
    aim = share
    for _ in range(MOST_TRIES):
        tau = float(np.quantile(values_of(scores), 1 - aim))
        closed_loop = _scores(
            content, rule, tau, n_frames=frames, workers=workers, progress=progress
        )
        replayed = float((values_of(closed_loop) > tau).mean())
        if abs(replayed - share) < CLOSE:
            break
        # Replays beget replays, or not: aim beside the target by half of what was missed.
        aim = float(np.clip(aim + (share - replayed) / 2, 0.01, 0.99))
    return float(f"{tau:.5g}")


def values_of(scores: np.ndarray) -> np.ndarray:
    """Scores that were evaluated, in layers that are not exempt."""
    free = [layer for layer in range(scores.shape[1]) if layer not in EXEMPT_LAYERS]
    may_replay = scores[:, free]
    return np.asarray(may_replay[np.isfinite(may_replay)])


def _scores(  # noqa: PLR0913 - a decoding, by name
    content: Content,
    rule: ReplayRule,
    tau: float,
    *,
    n_frames: int,
    workers: int,
    progress: Progress | None,
) -> np.ndarray:
    """Scores of all scenes for tuning, decoded at one threshold, [S, L, B]."""
    recipe = rule_recipe(content, TUNING_SCENES, n_frames, rule, tau)
    groups = groups_of_scenes(recipe)
    pieces = [partial(decode_piece, group) for group in groups]
    total = sum(group.work for group in groups)
    decoded = run_in_workers(pieces, total=total, workers=workers, progress=progress)
    return np.concatenate([scene.tas for scene in decoded], axis=2)


def rule_recipe(
    content: Content, scenes: tuple[str, ...], n_frames: int, rule: ReplayRule, tau: float
) -> Recipe:
    """A recipe under a rule; the first layer is exempt."""
    taus = tuple(np.inf if layer in EXEMPT_LAYERS else tau for layer in range(N_LAYERS))
    return content.recipe(scenes, n_frames, rule=rule, tau=taus)
