"""A first design: it fits, it is what its comments say, and nothing that fits serves better."""

from pathlib import Path

import pytest

from carsim.design import load_design
from carsim.errors import InputError
from carsim.explore.first import (
    PRECISIONS,
    Found,
    Goal,
    Wish,
    _chosen,
    design_text,
    first_design,
)
from carsim.explore.points import Point
from carsim.machine.decode import decode

pytest.importorskip("optuna")

WISH = Wish("kv260", "tinyllama_1b", contexts=(256, 256), points=12)


@pytest.fixture(scope="module")
def found() -> Found:
    return first_design(WISH)


def written(found: Found, folder: Path) -> Path:
    path = folder / f"{found.design.name}.yaml"
    path.write_text(design_text(found), encoding="utf-8")
    return path


def test_the_file_is_the_design_that_was_found(found: Found, tmp_path: Path) -> None:
    design = load_design(str(written(found, tmp_path)))
    assert design.model_copy(update={"description": ""}) == found.design
    assert decode(design, 256).tokens_per_s == pytest.approx(found.decode.tokens_per_s)


def test_it_fits_and_is_placed_as_the_board_says(found: Found) -> None:
    assert found.fit.fits
    assert {memory for _, memory in found.design.machine.placement} == {"ps_ddr"}
    assert 0 < found.fitting <= found.tried == WISH.points


def test_comments_fit_a_page_and_name_speed_energy_and_limit(found: Found) -> None:
    text = design_text(found)
    assert all(len(line) <= 120 for line in text.splitlines())
    assert f"{found.decode.tokens_per_s:.3g} tokens/s" in text
    assert f"{found.joules_per_token:.3g} J a token" in text
    assert next(iter(found.decode.limit_shares)) in text


def test_the_same_wish_gives_the_same_design(found: Found) -> None:
    assert first_design(WISH).design == found.design


def test_least_energy_takes_no_more_than_the_fastest_and_keeps_its_rate(found: Found) -> None:
    rate = found.decode.tokens_per_s / 2
    wish = Wish(
        "kv260", "tinyllama_1b", "least-energy", rate, contexts=(256, 256), points=WISH.points
    )
    frugal = first_design(wish)
    assert frugal.decode.tokens_per_s >= rate
    assert frugal.joules_per_token <= found.joules_per_token * 1.02


@pytest.mark.parametrize(
    ("goal", "rate", "chosen"),
    [("fastest", 0.0, 1), ("fastest", 5.0, 1), ("least-energy", 5.0, 2), ("least-energy", 0.0, 3)],
)
def test_goals_choose_by_speed_or_by_energy(goal: Goal, rate: float, chosen: int) -> None:
    """A hair slower for half of the energy counts as the fastest."""
    figures = [(10.0, 8.0), (9.95, 4.0), (6.0, 2.0), (3.0, 1.0)]
    tried = [
        (Point(number, "", {}, {}), {"status": "ok", "tokens_per_s": s, "joules_per_token": j})
        for number, (s, j) in enumerate(figures)
    ]
    point, _ = _chosen(Wish("kv260", "tinyllama_1b", goal, rate), tried)
    assert point.ordinal == chosen


def test_a_precision_is_kept_and_a_board_of_another_technology_takes_its_constants() -> None:
    wish = Wish("asic_7nm", "tinyllama_1b", bits=8, contexts=(64, 64), points=6)
    design = first_design(wish).design
    assert design.model.weights.bits == 8
    assert design.machine.array.arithmetic == PRECISIONS[8]["machine.array.arithmetic"]
    assert design.energy == load_design("asic_28nm", ["energy.preset=asic_7nm"]).energy


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish("kv269", "tinyllama_1b"), r"--board: no preset 'kv269'; did you mean 'kv260'\?"),
        (Wish("kv260", "llama9"), r"model.preset: no preset 'llama9'; .*choose from"),
        (
            Wish("kv260", "llama2_7b", bits=16, points=3),
            r"--board kv260 --model llama2_7b: none of 3 designs fits; the nearest lacks .*memory",
        ),
        (
            Wish("kv260", "tinyllama_1b", tokens_per_s=1e4, contexts=(64, 64), points=6),
            r"--tokens-per-s 10000: the fastest of \d designs that fit has .* tokens/s; ask for at",
        ),
    ],
)
def test_what_cannot_be_had_is_one_line(wish: Wish, message: str) -> None:
    with pytest.raises(InputError, match=message):
        first_design(wish)
