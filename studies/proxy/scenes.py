"""Scenes that move by themselves: walks through the levels of Freedoom, rendered by ViZDoom.

    python -m studies.proxy.scenes runs/scenes

Model: a player wanders through a level at random: stands, walks, turns, strafes, shoots now and
then, and turns away from what stops it. Monsters, doors, lifts and lights go their own way; a
status bar and the player's weapon stand still in every frame. A frame is 192 x 192 pixels of the
screen, averaged to 64 x 64, each three tics (3/35 s) after the one before. Simplifications: the
player is guided by nothing that it sees, and nothing hurts it. The same level and seed give the
same frames.

ViZDoom (its own code MIT, its engine's parts under the licences named at zdoom.org/wiki/license)
brings Freedoom's levels and pictures (BSD 3-clause). Neither is part of this repository.
"""

import argparse
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.content import FRAME_PIXELS, Codebook

if TYPE_CHECKING:
    import vizdoom  # of the extra ``train``; who only reads what was rendered does not need it

Frames = NDArray[np.uint8]

LEVELS = (
    *(("freedoom2.wad", f"MAP{number:02d}") for number in range(1, 33)),
    *(("freedoom1.wad", f"E{episode}M{n}") for episode in range(1, 5) for n in range(1, 10)),
)
HELD_OUT = tuple(level for level in LEVELS if level[1] >= "MAP27" or level[1].startswith("E4"))
"""Levels left out of training: the last six of one game, and the last episode of the other."""
TRAINING = tuple(level for level in LEVELS if level not in HELD_OUT)

TICS_PER_FRAME = 3
_POOL = 3  # screen pixels per pixel of a frame, each way


def walk(level: tuple[str, str], n_frames: int, seed: int) -> Frames:
    """A walk through a level.

    Args:
        level: Game file inside the ViZDoom package, and name of the level.
        n_frames: T.
        seed: Sets the way of the player, and what happens in the level.

    Returns:
        uint8[T, 64, 64, 3].
    """
    game = _game(level, seed)
    try:
        return _wander(game, n_frames, np.random.default_rng([seed, LEVELS.index(level)]))
    finally:
        game.close()


def _game(level: tuple[str, str], seed: int) -> "vizdoom.DoomGame":
    import vizdoom

    game = vizdoom.DoomGame()
    game.set_doom_game_path(str(Path(vizdoom.__file__).parent / level[0]))
    game.set_doom_map(level[1])
    game.set_screen_resolution(vizdoom.ScreenResolution.RES_256X192)
    game.set_screen_format(vizdoom.ScreenFormat.RGB24)
    game.set_render_hud(True)
    game.set_render_crosshair(False)
    game.set_window_visible(False)
    game.set_sound_enabled(False)
    game.set_mode(vizdoom.Mode.PLAYER)
    game.set_available_buttons(
        [
            vizdoom.Button.MOVE_FORWARD_BACKWARD_DELTA,
            vizdoom.Button.MOVE_LEFT_RIGHT_DELTA,
            vizdoom.Button.TURN_LEFT_RIGHT_DELTA,
            vizdoom.Button.ATTACK,
            vizdoom.Button.USE,
        ]
    )
    game.set_available_game_variables(
        [vizdoom.GameVariable.POSITION_X, vizdoom.GameVariable.POSITION_Y]
    )
    game.add_game_args("+sv_cheats 1")
    game.set_episode_timeout(10**6)
    game.set_seed(seed)
    game.init()
    return game


def _wander(game: "vizdoom.DoomGame", n_frames: int, rng: np.random.Generator) -> Frames:
    frames = np.empty((n_frames, FRAME_PIXELS, FRAME_PIXELS, 3), np.uint8)
    last, until = np.zeros(2), 0
    forward = sideways = turn = 0.0
    game.send_game_command("iddqd")  # nothing hurts
    for number in range(n_frames):
        if game.is_episode_finished():
            game.new_episode()
            game.send_game_command("iddqd")
        state = game.get_state()
        frames[number] = _shrink(state.screen_buffer)
        place = np.array(state.game_variables)
        stopped = abs(place - last).sum() < 1 and forward > 5
        last = place
        if number >= until or (stopped and rng.random() < 0.5):
            forward, sideways, turn = _next_move(rng)
            if stopped:
                turn = rng.choice([-1, 1]) * rng.uniform(2, 6)
            until = number + rng.integers(5, 25)
        shoot, use = rng.random() < 0.04, rng.random() < 0.03
        game.make_action([forward, sideways, turn, float(shoot), float(use)], TICS_PER_FRAME)
    return frames


def _next_move(rng: np.random.Generator) -> tuple[float, float, float]:
    """Speeds forward and sideways, and degrees of turning, for each tic."""
    side = rng.choice([-1, 1])
    kind = rng.choice(["stand", "walk", "turn", "curve", "strafe"], p=[0.22, 0.38, 0.15, 0.15, 0.1])
    return {
        "stand": (0.0, 0.0, 0.0),
        "walk": (rng.uniform(3, 25), 0.0, rng.normal(0, 0.4)),
        "turn": (0.0, 0.0, side * rng.uniform(0.2, 3)),
        "curve": (rng.uniform(0, 20), rng.normal(0, 8), side * rng.uniform(0.3, 2)),
        "strafe": (0.0, side * rng.uniform(3, 15), 0.0),
    }[kind]


def _shrink(screen: Frames) -> Frames:
    """The middle of the screen, averaged to a frame and rounded to the nearest."""
    size = FRAME_PIXELS * _POOL
    left = (screen.shape[1] - size) // 2
    blocks = screen[:size, left : left + size].reshape(FRAME_PIXELS, _POOL, FRAME_PIXELS, _POOL, 3)
    sums = blocks.sum(axis=(1, 3), dtype=np.uint32)
    return ((sums + _POOL**2 // 2) // _POOL**2).astype(np.uint8)


def _render(level: tuple[str, str], n_frames: int, seeds: int, path: Path) -> None:
    if not path.exists():
        walks = np.stack([walk(level, n_frames, seed) for seed in range(seeds)])
        partial = path.with_suffix(".partial.npy")
        np.save(partial, walks)
        partial.replace(path)


def _own_folder() -> None:
    """The game leaves its settings where it runs."""
    os.chdir(tempfile.mkdtemp())


def file_of(folder: Path, level: tuple[str, str]) -> Path:
    """Where the walks of a level lie: uint8[walks, T, 64, 64, 3]."""
    return folder / f"{level[1]}.npy"


def load_walks(
    folder: Path, levels: tuple[tuple[str, str], ...], codebook: Codebook
) -> list[NDArray[np.int16]]:
    """Codes of all walks through some levels, int16[T, 256] each.

    Args:
        folder: Of :mod:`studies.proxy.scenes`.
        levels: Levels.
        codebook: Of the visual tokens.
    """
    return [
        codebook.encode(frames).astype(np.int16)
        for level in levels
        for frames in np.load(file_of(folder, level))
    ]


def main() -> None:
    """Render walks through every level; what is there already stays."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", type=int, default=500, help="of a walk")
    parser.add_argument("--walks", type=int, default=3, help="through each level")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.workers, initializer=_own_folder) as pool:
        jobs = [
            pool.submit(_render, each, options.frames, options.walks, file_of(folder, each))
            for each in LEVELS
        ]
        for job in jobs:
            job.result()


if __name__ == "__main__":
    main()
