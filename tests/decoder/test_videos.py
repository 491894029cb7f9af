"""Videos of the user's own: the frames that are in them, and one clear line where they are not."""

import numpy as np
import pytest
from recipe_maker import CODEBOOK, make_recipe

from carsim.base.errors import InputError
from carsim.base.yaml_file import read_mapping
from carsim.decoder.capture import prepare
from carsim.decoder.content import load_codebook, load_scene, scene_caption
from carsim.decoder.content.videos import read_video, save_codes
from carsim.decoder.recipe import parse_recipe

io = pytest.importorskip("imageio.v3")
pytest.importorskip("skimage")


@pytest.fixture
def folder(tmp_path):
    """Pictures that grow brighter, wider than high."""
    made = tmp_path / "stills"
    made.mkdir()
    for number in range(6):
        picture = np.zeros((96, 160, 3), np.uint8)
        picture[:, 32:128] = 40 * number  # the square in the middle
        io.imwrite(made / f"{number:03}.png", picture)
    (made / "notes.txt").write_text("no picture")
    return made


def test_pictures_are_read_in_order_and_cropped_to_the_middle(folder):
    frames = read_video(folder, 3, every=2)
    assert frames.shape == (3, 64, 64, 3)
    assert [set(frame.ravel()) for frame in frames] == [{0}, {80}, {160}]


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_a_video_has_the_frames_that_were_written(folder, tmp_path, suffix):
    if suffix != ".gif":
        pytest.importorskip("imageio_ffmpeg")
    path = tmp_path / f"my{suffix}"
    io.imwrite(path, np.stack([np.full((64, 64, 3), 40 * n, np.uint8) for n in range(5)]))
    assert read_video(path, 5).mean(axis=(1, 2, 3)) == pytest.approx([0, 40, 80, 120, 160], abs=4)


def test_codes_are_scenes_of_a_recipe(folder, tmp_path):
    codebook = load_codebook(CODEBOOK)
    assert save_codes([folder], codebook, tmp_path / "codes.npz") == {"stills": 6}
    codes = load_scene(tmp_path / "codes.npz", "stills", 6, codebook.n_codes)
    assert (codes == codebook.encode(read_video(folder))).all()
    assert scene_caption(codes)
    with pytest.raises(InputError, match="is a second scene 'stills'"):
        save_codes([folder, folder], codebook, tmp_path / "twice.npz")


BAD = {
    "gone.mp4": (None, "is no video and no folder of pictures"),
    "list.m3u8": (b"#EXTM3U\n/etc/passwd\n", "is no video by its name"),
    "broken.gif": (b"GIF89a and no more", "cannot be decoded"),
    "list.mp4": (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", "cannot be decoded"),
    "empty": ("folder", "holds no pictures"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_video_is_one_clear_line(tmp_path, name):
    content, said = BAD[name]
    if name.endswith("mp4") and content:
        pytest.importorskip("imageio_ffmpeg")
    if content == "folder":
        (tmp_path / name).mkdir()
    elif content:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said) as raised:
        read_video(tmp_path / name, 2)
    assert "\n" not in str(raised.value)


def test_too_few_frames_and_small_or_linked_pictures_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match="has 2 frames at every 4, 3 are asked for"):
        read_video(folder, 3, every=4)
    io.imwrite(folder / "000.png", np.zeros((32, 32), np.uint8))
    with pytest.raises(InputError, match="take pictures of 8 bits and at least 64 x 64"):
        read_video(folder, 1)
    (folder / "000.png").unlink()
    (folder / "000.png").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="is a link"):
        read_video(folder, 1)


def test_a_recipe_decodes_a_video_of_the_start_folder_and_no_other(folder, tmp_path, monkeypatch):
    path = make_recipe(tmp_path, clips=[{"video": "stills", "caption": "light", "every": 2}])
    recipe = read_mapping(path)
    with pytest.raises(InputError, match=r"\$.clips\[0\].video: 'stills' lies outside"):
        parse_recipe(recipe, path)
    parse_recipe(recipe, path, also_from=[tmp_path])
    monkeypatch.chdir(tmp_path)
    (group,) = prepare(parse_recipe(recipe, path), tmp_path)
    codebook = load_codebook(CODEBOOK)
    assert (group.tokens[:, 0] == codebook.encode(read_video(folder, 2, every=2)).ravel()).all()
