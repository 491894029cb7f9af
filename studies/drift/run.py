"""Sparse attention, replay, and both: does replay alleviate the drift?

    python -m studies.drift.run

Two measures on four clips of 4 frames. Teacher-forced: the loss of the true codes, by frame.
Free-running: the first is given, three are generated greedily, and held against what
dense decoding generates from the same frame (PSNR, and share of equal codes, by frame). Thresholds
are those of the study of tau, the same for every window. Writes ``forced.csv``, ``free.csv``,
``summary.csv`` and ``drift.png``.
"""

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from carsim.decoder.content import TOKENS_PER_FRAME, load_codebook
from carsim.decoder.structures import Policy
from carsim.policy import Dense, Streaming
from carsim.replay import Tas
from carsim.report.figures import style as plots
from studies.decisions.content import CLOSED_FRAMES, CODEBOOK, TRIED, Row, rows_of
from studies.decisions.ranks import over_clips
from studies.decisions.record import Archive
from studies.per_layer.run import calibrating
from studies.tau.thresholds import Taus, one_tau
from studies.twin.decoding import decode_rows

HERE = Path(__file__).parent
WINDOWS = (None, 256, 16)
FORCED_LEVELS = (0.0, 0.5, 0.9)
FREE_LEVELS = (0.0, 0.5)
GIVEN, FREE_FRAMES = 1, 4
"""Frames given, and frames in all, where the decoder runs freely."""

_STYLES = {0.0: "-", 0.5: "--", 0.9: ":"}
_COLOURS = {None: plots.BLACK, 256: plots.BLUE, 16: plots.VERMILION}


def policy(window: int | None, taus: Taus) -> Policy:
    """Thresholds under full attention or StreamingLLM with four sinks."""
    attention = Dense() if window is None else Streaming(window=window)
    return Policy(taus, Tas(form="paper"), attention)


def name_of(window: int | None) -> str:
    """The window in words."""
    return "full attention" if window is None else f"window {window}"


def forced(archive: Archive, taus: dict[float, Taus], rows: Sequence[Row]) -> pd.DataFrame:
    """Teacher-forced loss, a row for each window, level, clip and frame after the first."""
    tables = []
    reference = archive.closed(policy(None, taus[0.0]), rows)
    for window in WINDOWS:
        for level, each in taus.items():
            closed = archive.closed(policy(window, each), rows)
            frames = (archive.config.n_frames, TOKENS_PER_FRAME, len(rows))
            nats = closed.nats.reshape(frames).mean(axis=1)[1:]  # [T - 1, R]
            agree = (closed.best == reference.best).reshape(frames).mean(axis=1)[1:]
            ratio = closed.replay.reshape(*frames[:2], -1, len(rows)).mean(axis=(1, 2))[1:]
            for index, row in enumerate(rows):
                tables.append(
                    pd.DataFrame(
                        {
                            "window": window or 0,
                            "level": level,
                            "clip": row.clip,
                            "frame": np.arange(1, archive.config.n_frames),
                            "replay_eligible": ratio[:, index],
                            "nats": nats[:, index],
                            "agreement": agree[:, index],
                        }
                    )
                )
    return pd.concat(tables, ignore_index=True)


def generate(archive: Archive, chosen: Policy, rows: Sequence[Row]) -> NDArray[np.int64]:
    """Codes int64[R, T, 256] of rows that run freely after the given frames, kept like others."""
    asked = repr((chosen, GIVEN, FREE_FRAMES, [row.prompt for row in rows]))
    codes = np.stack([row.codes for row in rows]).reshape(len(rows), -1, TOKENS_PER_FRAME)
    given = codes[:, :GIVEN]
    digest = hashlib.sha256((archive.weights + asked).encode() + given.tobytes())
    path = archive.folder / f"free-{digest.hexdigest()[:20]}.npy"
    if not path.exists():
        began = time.process_time()
        prompts = [row.prompt.decode() for row in rows]
        made = decode_rows(archive.model, chosen, prompts, given, FREE_FRAMES)
        archive.seconds += time.process_time() - began
        archive.folder.mkdir(parents=True, exist_ok=True)
        np.save(path, made)
    loaded: NDArray[np.int64] = np.load(path)
    return loaded


def free(archive: Archive, taus: dict[float, Taus], rows: Sequence[Row]) -> pd.DataFrame:
    """Distance of generated frames from those of dense decoding, by window, level, clip, frame."""
    codebook = load_codebook(CODEBOOK)
    wanted = generate(archive, policy(None, taus[0.0]), rows)
    pictures = np.stack([codebook.decode(clip) for clip in wanted])
    table: list[dict[str, Any]] = []
    for window in WINDOWS:
        for level, each in taus.items():
            made = generate(archive, policy(window, each), rows)
            for index, row in enumerate(rows):
                frames = codebook.decode(made[index])
                for frame in range(GIVEN, FREE_FRAMES):
                    off = frames[frame].astype(float) - pictures[index, frame]
                    table.append(
                        {
                            "window": window or 0,
                            "level": level,
                            "clip": row.clip,
                            "frame": frame,
                            "mse": (off**2).mean(),
                            "agreement": (made[index, frame] == wanted[index, frame]).mean(),
                        }
                    )
    return pd.DataFrame(table)


def psnr_db(mse: pd.Series) -> float:
    """PSNR of a mean of squared errors over clips; infinite if nothing differs."""
    mean = float(mse.mean())
    return float(10 * np.log10(255**2 / mean)) if mean else float("inf")


def relief(forced_table: pd.DataFrame) -> pd.DataFrame:
    """What replay adds to the loss of each window, in all and in its slope over frames.

    ``slope`` is the growth of the loss over that of dense decoding, nats a token and frame;
    differences are paired by clip, ``half_width`` is half of their 95 % interval.
    """
    rows = []
    dense = forced_table[(forced_table["window"] == 0) & (forced_table["level"] == 0)]
    base = dense.set_index(["clip", "frame"])["nats"]
    for window in forced_table["window"].unique():
        part = forced_table[forced_table["window"] == window]
        alone = None
        for level, at in part.groupby("level"):
            excess = (at.set_index(["clip", "frame"])["nats"] - base).unstack()  # [clip, frame]
            frames = excess.columns.to_numpy(float)
            slopes = [np.polyfit(frames, line, 1)[0] for line in excess.to_numpy()]
            alone = excess if alone is None else alone
            mean, half = over_clips((excess - alone).mean(axis=1))
            rows.append(
                {
                    "window": window,
                    "level": level,
                    "replay_eligible": at["replay_eligible"].mean(),
                    "excess": float(excess.to_numpy().mean()),
                    "slope": float(np.mean(slopes)),
                    "over_window_alone": mean,
                    "half_width": half,
                }
            )
    return pd.DataFrame(rows)


def draw(axes: Axes, table: pd.DataFrame, measure: str, label: str) -> None:
    """A line by frame for each window and level."""
    for window in WINDOWS:
        for level in table["level"].unique():
            part = table[(table["window"] == (window or 0)) & (table["level"] == level)]
            if measure == "psnr_db":
                if window is None and level == 0:
                    continue
                line = part.groupby("frame")["mse"].apply(psnr_db)
            else:
                line = part.groupby("frame")[measure].mean()
            axes.plot(
                line,
                _STYLES[level],
                color=_COLOURS[window],
                label=f"{name_of(window)}, {f'replay {level:.0%}' if level else 'no replay'}",
            )
    axes.set(xlabel="frame", ylabel=label, xticks=sorted(table["frame"].unique()))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)


def main() -> None:
    """Write tables and figure."""
    archive = Archive(n_frames=CLOSED_FRAMES)
    seen = calibrating()
    rows = rows_of(TRIED, blank=False, n_frames=CLOSED_FRAMES)
    taus = {
        level: one_tau(seen.paper, level) if level else archive.dense.tau
        for level in sorted({*FORCED_LEVELS, *FREE_LEVELS})
    }
    table = forced(archive, {level: taus[level] for level in FORCED_LEVELS}, rows)
    table.round(4).to_csv(HERE / "forced.csv", index=False)
    running = free(archive, {level: taus[level] for level in FREE_LEVELS}, rows)
    running.round(4).to_csv(HERE / "free.csv", index=False)
    with plots.style():
        figure = plots.new_figure(
            14, 4.0, "Sparse attention, replay, and both, over frames", misfit=False
        )
        left, right = figure.subplots(1, 2)
        draw(left, table, "nats", "teacher-forced loss, nats a token")
        draw(right, running, "psnr_db", "free-running: PSNR against dense, dB")
        figure.savefig(HERE / "drift.png", metadata={"Software": None})
    summary = relief(table)
    summary.round(4).to_csv(HERE / "summary.csv", index=False)
    print(summary.round(4).to_string(), end="\n\n")
    cells = running.groupby(["window", "level"])
    print(cells["agreement"].mean().unstack().round(3).to_string(), end="\n\n")
    print(cells["mse"].apply(psnr_db).unstack().round(2).to_string(), end="\n\n")
    by_frame = running.groupby(["window", "level", "frame"])["mse"].apply(psnr_db)
    print(by_frame.unstack().round(2).to_string())
    print(f"{archive.seconds:.0f} s of decoding")


if __name__ == "__main__":
    main()
