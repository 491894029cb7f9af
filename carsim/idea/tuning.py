"""Thresholds at which rules replay a wanted share, closed loop, on scenes kept for it."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from carsim.base.errors import InputError
from carsim.base.registry import field_name
from carsim.decisions.replay import ReplayRule
from carsim.decoder.recipe import Recipe
from carsim.decoder.workers import Progress, run_in_workers
from carsim.idea.content import EXEMPT_LAYERS, N_LAYERS, TUNING_SCENES, Content
from carsim.idea.loss import decode_piece, groups_of_scenes
from carsim.program.program import TOKEN
from carsim.program.skips.by_decision import SkipByDecision

Rules = Mapping[str, ReplayRule]
"""Decision -> its rule."""

CLOSE = 0.02
MOST_TRIES = 4


def tuned(  # noqa: PLR0913 - a search, by name
    content: Content,
    rules: Rules,
    share: float,
    n_frames: int,
    *,
    workers: int,
    progress: Progress | None,
) -> dict[str, float]:
    """The thresholds of rules.

    They are searched one after the other: decisions that are searched before are made, and others
    replay nothing.

    Args:
        content: The small model.
        rules: Decision -> rule.
        share: Wanted share of eligible steps of layers that are not exempt, by each decision.
        n_frames: Frames of each scene.
        workers: Processes.
        progress: Told about units done.

    Returns:
        Decision -> threshold.

    Raises:
        InputError: A rule scores all places alike.
    """
    taus = dict.fromkeys(rules, np.inf)
    frames = frames_decoded(rules, n_frames)

    def scores_of(name: str, tau: float) -> np.ndarray:
        recipe = rules_recipe(content, TUNING_SCENES, frames, rules, {**taus, name: tau})
        return _scores(recipe, name, workers=workers, progress=progress)

    for name, rule in rules.items():
        taus[name] = _tuned(rule, share, partial(scores_of, name))
    return taus


def _tuned(rule: ReplayRule, share: float, scores_at: Callable[[float], np.ndarray]) -> float:
    """The threshold of a rule.

    Args:
        rule: The rule.
        share: Wanted share of eligible steps of layers that are not exempt.
        scores_at: Gives the scores, [S, L, B], of a decoding at a threshold.

    Raises:
        InputError: The rule scores all places alike.
    """
    scores = scores_at(np.inf)
    values = np.unique(scores[np.isfinite(scores)])
    if len(values) < 2:
        problem = f"scores every place {values[0] if len(values) else 'nan'}"
        raise InputError(f"rule {rule.kind}", problem, "let the score depend on what is seen")
    if len(values) == 2:
        return float(values.mean())  # a rule that decides by itself
    aim = share
    for _ in range(MOST_TRIES):
        tau = float(np.quantile(values_of(scores), 1 - aim))
        replayed = float((values_of(scores_at(tau)) > tau).mean())
        if abs(replayed - share) < CLOSE:
            break
        # Replays beget replays, or not: aim beside the target by half of what was missed.
        aim = float(np.clip(aim + (share - replayed) / 2, 0.01, 0.99))
    return float(f"{tau:.5g}")


def frames_decoded(rules: Rules, n_frames: int) -> int:
    """Frames that are decoded: as many as wanted, and two at least that every rule scores."""
    return max([n_frames, *(rule.first_frame + 2 for rule in rules.values())])


def values_of(scores: np.ndarray) -> np.ndarray:
    """Scores that were evaluated, in layers that are not exempt."""
    free = [layer for layer in range(scores.shape[1]) if layer not in EXEMPT_LAYERS]
    may_replay = scores[:, free]
    return np.asarray(may_replay[np.isfinite(may_replay)])


def _scores(recipe: Recipe, name: str, *, workers: int, progress: Progress | None) -> np.ndarray:
    """Scores of a decision in all scenes of a recipe, [S, L, B]."""
    groups = groups_of_scenes(recipe)
    pieces = [partial(decode_piece, group) for group in groups]
    total = sum(group.work for group in groups)
    decoded = run_in_workers(pieces, total=total, workers=workers, progress=progress)
    return np.concatenate([scene.scored(name).tas for scene in decoded], axis=2)


def rules_recipe(
    content: Content,
    scenes: tuple[str, ...],
    n_frames: int,
    rules: Rules,
    taus: Mapping[str, float],
) -> Recipe:
    """A recipe under a rule, or one for each of several decisions; the first layer is exempt.

    Args:
        content: The small model.
        scenes: Names of scenes.
        n_frames: Frames of each.
        rules: Decision -> rule; ``token`` decides about the MLP.
        taus: Decision -> threshold.
    """
    made = {name: {"rule": rule, "tau": _by_layer(taus[name])} for name, rule in rules.items()}
    fields: dict[str, object] = dict(made.pop(TOKEN))
    if made:
        fields["skip"] = {"kind": field_name(SkipByDecision)}
        fields["decisions"] = made
    return content.recipe(scenes, n_frames, **fields)


def _by_layer(tau: float) -> tuple[float, ...]:
    """A threshold for all layers that are not exempt."""
    return tuple(np.inf if layer in EXEMPT_LAYERS else tau for layer in range(N_LAYERS))
