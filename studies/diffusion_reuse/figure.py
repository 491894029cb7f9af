"""What FastCar across frames, TeaCache across steps, and both gain, by model, window and board."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from carsim.report.figures import style as plots
from carsim.report.figures.policy_looks import policy_look
from studies.drawing import drawing
from studies.table import markdown, percent

METRICS = ("latency_s", "mlp_s", "replay_all", "memory_used_gb", "limit_mlp", "reason")

MODELS = {
    "study_wan": "Wan2.1 1.3B",
    "study_wan_14b": "Wan2.1 14B",
    "study_window_21": "Self-Forcing, window of 21",
    "study": "LongLive, window of 12",
    "study_window_6": "Self-Forcing, window of 6",
    "study_window_3": "Self-Forcing, window of 3",
    "study_image": "DiT-XL/2, one image",
}
VIDEOS = [study for study in MODELS if study != "study_image"]
WINDOWS = ["study_window_21", "study", "study_window_6", "study_window_3"]
BOARDS = {"zcu102_32x32.yaml": "ZCU102", "v80.yaml": "V80", "asic_7nm_hbm3": "7 nm chip"}

STATIC = "FastCar, neighbouring tokens"
INTERLEAVED = "FastCar, interleaved tokens"
DEALT = "FastCar, DRS"
EQUAL = "FastCar at TeaCache's share, DRS"
ACROSS = "FastCar across chunks, DRS"
FORWARDS = "TeaCache"
BOTH = "both, DRS"
BOTH_INTERLEAVED = "both, interleaved tokens"
BOTH_ACROSS = "both across chunks, DRS"
IMAGE_DEALT = "tokens across steps, DRS"
IMAGE_INTERLEAVED = "tokens across steps, interleaved tokens"

BARS = {
    INTERLEAVED: ("FastCar, interleaved tokens", policy_look("FastCar, static").colour),
    DEALT: ("FastCar, DRS", policy_look("FastCar + DRS").colour),
    FORWARDS: ("TeaCache", plots.VERMILION),
    BOTH: ("both, DRS", plots.VIOLET),
}
"""Kinds of reuse in the figure: label and colour."""

OF_IMAGE = {INTERLEAVED: IMAGE_INTERLEAVED, DEALT: IMAGE_DEALT}
"""An image has no previous frame: tokens reuse outputs of earlier steps instead."""


class Gains:
    """Speed-ups of a model on a board.

    Args:
        frame: All points.
        study: Study file of the model.
        board: Design of the board.
    """

    def __init__(self, frame: pd.DataFrame, study: str, board: str) -> None:
        here = frame[(frame["study"] == study) & (frame["design"] == board)]
        self._points = here.set_index("reuse")

    @property
    def fits(self) -> bool:
        """The model fits the board, with all that is kept."""
        return bool((self._points["status"] == "ok").all())

    @property
    def mlp_share(self) -> float:
        """Share of the time of dense forwards that MLPs take."""
        dense = self._points.loc["dense"]
        return float(dense["mlp_s"] / dense["latency_s"])

    def has(self, reuse: str) -> bool:
        """The kind of reuse was tried."""
        return reuse in self._points.index

    def gain(self, reuse: str) -> float:
        """Speed-up over dense forwards."""
        latency_s = self._points["latency_s"]
        return float(latency_s["dense"] / latency_s[reuse])

    def share(self, reuse: str) -> float:
        """Share of all tokens of all forwards that reuse an output, in a layer or as a whole."""
        return float(self._points.loc[reuse, "replay_all"])

    def kept_gb(self, reuse: str) -> float:
        """Memory that the kind of reuse takes beyond dense forwards."""
        used_gb = self._points["memory_used_gb"]
        return float(used_gb[reuse] - used_gb["dense"])

    def limit(self, reuse: str) -> float:
        """Speed-up at best by Amdahl: what reuses takes no time, and nothing else changes.

        A forward that reuses as a whole saves all its time, a token that does saves its MLPs.
        """
        forwards = self.share(FORWARDS) if reuse in (FORWARDS, BOTH) else 0.0
        tokens = self.share(reuse) - forwards
        return 1 / (1 - forwards - self.mlp_share * tokens)


def all_gains(frame: pd.DataFrame) -> dict[tuple[str, str], Gains]:
    """Gains by study file and board, of what fits."""
    pairs = [(study, board) for study in MODELS for board in BOARDS]
    gains = {pair: Gains(frame, *pair) for pair in pairs}
    return {pair: each for pair, each in gains.items() if each.fits}


def span(values: list[float], digits: int = 2) -> str:
    """The least and the largest of some values."""
    least = f"{min(values):.{digits}f}"
    most = f"{max(values):.{digits}f}"
    return least if least == most else f"{least} to {most}"


def numbers(frame: pd.DataFrame) -> dict[str, str]:
    """What the README quotes."""
    gains = all_gains(frame)
    windows = [each for (study, _), each in gains.items() if study in WINDOWS]
    whole = [each for (study, _), each in gains.items() if study.startswith("study_wan")]
    videos = windows + whole
    image = [each for (study, _), each in gains.items() if study == "study_image"]
    over_interleaved = [each.gain(DEALT) / each.gain(INTERLEAVED) - 1 for each in videos]
    of_image = [each.gain(IMAGE_DEALT) / each.gain(IMAGE_INTERLEAVED) - 1 for each in image]
    equal = [(1 - 1 / each.gain(FORWARDS)) / (1 - 1 / each.gain(EQUAL)) for each in videos]
    answer = (
        "TeaCache gains more than FastCar on every model and board that was tried, and both "
        "together gain most on videos. In chunks of 5 forwards, the speed-up of FastCar is "
        f"{span([each.gain(DEALT) for each in windows])} (most with the smallest window), that of "
        f"TeaCache {span([each.gain(FORWARDS) for each in windows])}, and that of both "
        f"{span([each.gain(BOTH) for each in windows])}. In 50 steps over a whole video, FastCar "
        f"gains {span([each.gain(DEALT) for each in whole])}, TeaCache "
        f"{span([each.gain(FORWARDS) for each in whole])}, and both "
        f"{span([each.gain(BOTH) for each in whole])}. If equally many tokens reuse outputs, "
        f"TeaCache saves {span(equal, 1)} times as much time as FastCar. The board changes no "
        f"speed-up by more than {percent(most_by_board(gains), 1)}, but decides what fits. Over a "
        "static schedule with interleaved tokens, DRS gains at most "
        f"{percent(max(over_interleaved), 1)} on videos and {percent(max(of_image), 1)} on an "
        "image."
    )
    return {"answer": answer, "gains": _gains_table(frame), "details": _details_table(frame)}


def most_by_board(gains: dict[tuple[str, str], Gains]) -> float:
    """The largest relative difference between gains of one model on two boards, of the figure."""
    differences = [0.0]
    for study in VIDEOS:
        of_model = [each for (model, _), each in gains.items() if model == study]
        for reuse in BARS:
            found = [each.gain(reuse) for each in of_model]
            differences.append(max(found) / min(found) - 1)
    return max(differences)


def _gains_table(frame: pd.DataFrame) -> str:
    """Speed-ups and limits of each model on the first board that it fits."""
    header = ["model", "board", "MLP", "FastCar", "limit", "TeaCache", "limit", "both", "limit"]
    rows = []
    for study, model in MODELS.items():
        fitting = [board for board in ("v80.yaml", *BOARDS) if Gains(frame, study, board).fits]
        each = Gains(frame, study, fitting[0])
        row = [model, BOARDS[fitting[0]], percent(each.mlp_share)]
        for reuse in (DEALT, FORWARDS, BOTH):
            name = OF_IMAGE.get(reuse, reuse) if study == "study_image" else reuse
            known = each.has(name)
            row += [f"{each.gain(name):.2f}", f"{each.limit(name):.2f}"] if known else ["-", "-"]
        rows.append(row)
    return markdown(header, rows, texts=2)


def _details_table(frame: pd.DataFrame) -> str:
    """Schedules, sources and memory of each model and board."""
    header = ["model", "board", "neighbouring", "interleaved", "DRS", "across chunks"]
    header += ["equal share", "both, interleaved", "both across chunks", "kept [GB]"]
    rows = []
    for study in VIDEOS:
        for board, name in BOARDS.items():
            each = Gains(frame, study, board)
            if not each.fits:
                rows.append([MODELS[study], name, "does not fit", *["-"] * 7])
                continue
            row = [MODELS[study], name]
            kinds = (STATIC, INTERLEAVED, DEALT, ACROSS, EQUAL, BOTH_INTERLEAVED, BOTH_ACROSS)
            row += [f"{each.gain(kind):.3f}" if each.has(kind) else "-" for kind in kinds]
            kept = BOTH_ACROSS if each.has(BOTH_ACROSS) else BOTH
            rows.append([*row, f"{each.kept_gb(kept):.3f}"])
    return markdown(header, rows, texts=2)


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Speed-ups by model, a panel for each board, with Amdahl's limit of each."""
    title = "Speed-up over dense forwards, if half of the tokens or forwards that may reuse do so"
    with drawing(path, 10.5, 5.2, title) as figure:
        axes = figure.subplots(1, len(BOARDS), sharey=True, sharex=True)
        for panel, (board, name) in zip(axes, BOARDS.items(), strict=True):
            _draw_board(panel, frame, board)
            panel.set_title(name)
            panel.set_xlabel("speed-up")
        axes[0].set_yticks(range(len(MODELS)), MODELS.values())
        axes[0].invert_yaxis()
        handles: list[Patch | Line2D] = [
            Patch(color=colour, label=label) for label, colour in BARS.values()
        ]
        limit = Line2D([], [], color=plots.BLACK, marker="|", linestyle="", label="Amdahl's limit")
        figure.legend(handles=[*handles, limit], loc="outside lower center", ncols=5)


def _draw_board(axes: Axes, frame: pd.DataFrame, board: str) -> None:
    """Bars of all models on a board."""
    height = 0.8 / len(BARS)
    for row, study in enumerate(MODELS):
        each = Gains(frame, study, board)
        if not each.fits:
            axes.text(1.02, row, "does not fit", va="center", fontsize=8)
            continue
        for number, (reuse, (_, colour)) in enumerate(BARS.items()):
            name = OF_IMAGE.get(reuse, reuse) if study == "study_image" else reuse
            if not each.has(name):
                continue
            y = row + (number - (len(BARS) - 1) / 2) * height
            axes.barh(y, each.gain(name) - 1, height, left=1, color=colour)
            axes.plot(each.limit(name), y, color=plots.BLACK, marker="|", markersize=6)
    axes.set_xlim(1, 2.3)
