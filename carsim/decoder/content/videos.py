"""Clips of the user's own: a video file, or a folder of pictures, as frames of 64 x 64 pixels.

Model: the square in the middle of each picture, made smaller with antialiasing. Simplifications:
every N-th frame is taken whatever the video's rate; a grey picture has three equal colours;
transparency is ignored.

Decoders of media have had many faults, so that they see only files that the caller names, of
:data:`VIDEOS` by suffix and by content. Needs the extra ``content``; files other than GIF need
``video``.
"""

import subprocess
from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.environment import library
from carsim.base.errors import InputError, first_line
from carsim.decisions.trace.npz import npz_bytes, write_bytes
from carsim.decoder.content.tokens import FRAME_PIXELS, Codebook, Frames

PICTURES = (".png", ".jpg", ".jpeg", ".bmp")
VIDEOS = (".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".gif")
"""Suffixes that are read."""

VIDEO_CONTENT = "video content"
"""What needs libraries of the extra ``content``."""

MOST_FRAMES = 4096
"""Frames of a file at most: 50 MB."""

MOST_SECONDS = 120
"""Time that decoding a file may take."""

_ONLY_VIDEOS = ["-protocol_whitelist", "file", "-format_whitelist", "mov,mp4,matroska,webm,avi"]
"""Arguments of FFmpeg: a playlist, which could name other files, is refused."""


def need_videos(path: Path) -> None:
    """Refuse a video for which a library is missing, or that is not there.

    Raises:
        InputError: No such file or folder, another suffix, or a library is missing.
    """
    library("skimage.transform", VIDEO_CONTENT)
    library("imageio.v3", VIDEO_CONTENT)
    if path.is_dir():
        return
    if not path.is_file():
        raise InputError(str(path), "is no video and no folder of pictures", "check its name")
    if path.suffix.lower() not in VIDEOS:
        raise InputError(str(path), "is no video by its name", f"take one of {', '.join(VIDEOS)}")
    if path.suffix.lower() != ".gif":
        library("imageio_ffmpeg", f"a video {path.suffix}")


def read_video(path: Path, n_frames: int | None = None, every: int = 1) -> Frames:
    """Read frames of a video file, or the pictures of a folder in the order of their names.

    Args:
        path: File or folder.
        n_frames: T, the number of frames; all of them if not given.
        every: Take each frame that is a multiple of this.

    Returns:
        uint8[T, 64, 64, 3].

    Raises:
        InputError: It cannot be read, is too short, or has more than :data:`MOST_FRAMES`.
    """
    need_videos(path)
    most = MOST_FRAMES + 1 if n_frames is None else n_frames
    try:
        if path.is_dir() or path.suffix.lower() == ".gif":
            gif = library("imageio.v3", VIDEO_CONTENT).imiter
            opened = _pictures(path) if path.is_dir() else gif(path, plugin="pillow")
            with closing(opened) as pictures:
                chosen = islice(pictures, 0, most * every, every)
                frames = [_small(picture, path) for picture in chosen]
        else:
            frames = list(_decoded(path, most, every))
    except InputError:
        raise
    except Exception as error:  # decoders raise whatever they like
        problem = f"cannot be decoded ({first_line(error)})"
        raise InputError(str(path), problem, "check the file") from None
    if len(frames) < (n_frames or 1):
        problem = f"has {len(frames)} frames at every {every}, {n_frames or 1} are asked for"
        raise InputError(str(path), problem, "ask for fewer frames, or lower `every`")
    if n_frames is None and len(frames) > MOST_FRAMES:
        raise InputError(str(path), f"has more than {MOST_FRAMES} frames", "raise `every`")
    return np.stack(frames)


def save_codes(
    videos: Sequence[Path], codebook: Codebook, out: Path, *, overwrite: bool = False
) -> dict[str, int]:
    """Write videos as a file of scenes: an array of codes under the name of each.

    Args:
        videos: Files or folders, whose names without suffix are the names of the scenes.
        codebook: Codes of patches.
        out: The file, for ``scenes`` of a recipe.
        overwrite: Replace it.

    Returns:
        Frames of each scene.

    Raises:
        InputError: A video cannot be used, two have one name, or the file cannot be written.
    """
    scenes: dict[str, NDArray[Any]] = {}
    for path in videos:
        if path.stem in scenes:
            raise InputError(str(path), f"is a second scene {path.stem!r}", "rename one")
        scenes[path.stem] = codebook.encode(read_video(path)).astype(np.uint16)
    write_bytes(out, npz_bytes(scenes), overwrite=overwrite)
    return {name: len(codes) for name, codes in scenes.items()}


def _pictures(folder: Path) -> Generator[NDArray[Any], None, None]:
    io = library("imageio.v3", VIDEO_CONTENT)
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in PICTURES)
    if not files:
        kinds = ", ".join(PICTURES)
        raise InputError(str(folder), "holds no pictures", f"put files in it that end in {kinds}")
    for file in files:
        if file.is_symlink():
            raise InputError(str(file), "is a link", "copy the picture into the folder")
        yield io.imread(file, plugin="pillow")


def _decoded(path: Path, most: int, every: int) -> Frames:
    """At most so many frames of a video, cropped and made smaller by FFmpeg.

    Raises:
        InputError: FFmpeg refuses the file, or takes longer than :data:`MOST_SECONDS`.
    """
    program = library("imageio_ffmpeg", "a video").get_ffmpeg_exe()
    crop = "crop=min(iw\\,ih):min(iw\\,ih)"
    size = f"scale={FRAME_PIXELS}:{FRAME_PIXELS}:flags=area"
    command = [program, "-nostdin", "-loglevel", "error", *_ONLY_VIDEOS]
    command += ["-i", f"file:{path.resolve()}", "-frames:v", str(most), "-fps_mode", "passthrough"]
    command += ["-vf", f"select=not(mod(n\\,{every})),{crop},{size}"]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    try:
        finished = subprocess.run(command, capture_output=True, check=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        raise InputError(str(path), f"takes over {MOST_SECONDS} s", "cut the video") from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise InputError(str(path), f"cannot be decoded ({lines[-1]})", "check the file") from None
    return np.frombuffer(finished.stdout, np.uint8).reshape(-1, FRAME_PIXELS, FRAME_PIXELS, 3)


def _small(picture: NDArray[Any], path: Path) -> Frames:
    """A picture of any size as uint8[64, 64, 3]."""
    transform = library("skimage.transform", VIDEO_CONTENT)
    grey = picture if picture.ndim == 3 else picture[..., None]
    if grey.ndim != 3 or grey.dtype != np.uint8 or min(grey.shape[:2]) < FRAME_PIXELS:
        problem = f"has pictures of {picture.dtype} and shape {picture.shape}"
        cure = f"take pictures of 8 bits and at least {FRAME_PIXELS} x {FRAME_PIXELS} pixels"
        raise InputError(str(path), problem, cure)
    colour = grey[..., :3] if grey.shape[2] >= 3 else np.repeat(grey[..., :1], 3, axis=2)
    height, width = colour.shape[:2]
    side = min(height, width)
    first_row = (height - side) // 2
    first_column = (width - side) // 2
    square = colour[first_row : first_row + side, first_column : first_column + side]
    size = (FRAME_PIXELS, FRAME_PIXELS)
    small = transform.resize(square, size, anti_aliasing=True, preserve_range=True)
    return np.rint(small.clip(0, 255)).astype(np.uint8)
