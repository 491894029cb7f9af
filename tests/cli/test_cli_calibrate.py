"""``carsim calibrate``: constants from made-up boards, what it refuses, and what is bound to it."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from carsim.base.errors import InputError
from carsim.cli import carsim
from carsim.cli.calibrate import calibrate
from carsim.design import configs_folder, load_design
from carsim.runs.calibrate import fit, measured_points
from carsim.runs.decode import decode

DESIGN = str(configs_folder() / "published" / "rk3588_tinyllama.yaml")
SHALLOW = "model.body.n_layers=11"
NARROW = ("model.body.hidden_size=1024", "model.body.n_heads=16", "model.body.ffn_size=2816")


def made_up(layer_us: float, share: float, *changes: str, error: float = 0.0) -> str:
    """A line of a CSV file as a board with these constants would have measured it."""
    overheads = {"layer_us": layer_us, "bandwidth_share": share}
    charged = [f"machine.overheads.{name}={value}" for name, value in overheads.items()]
    found = decode(load_design(DESIGN, [*changes, *charged]), 129, 192)
    return f"{found.tokens_per_s * (1 + error)},text:128+64,{' '.join(changes)}"


def table(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "points.csv"
    path.write_text("\n".join(["tokens_per_s,workload,set", *lines]), encoding="utf-8")
    return str(path)


def test_constants_of_a_made_up_board_are_found_again(tmp_path: Path) -> None:
    one = fit(measured_points(DESIGN, [table(tmp_path, made_up(300, 1))]).points)
    assert one.constants.layer_us == pytest.approx(300, rel=1e-3)
    assert one.left_out_error is None
    # Layers of half the width have a fourth of the bytes: lost bandwidth is told from layers.
    lines = [made_up(300, 0.8, *changes) for changes in ((), (SHALLOW,), NARROW)]
    three = fit(measured_points(DESIGN, [table(tmp_path, *lines)]).points)
    assert three.constants.layer_us == pytest.approx(300, rel=2e-2)
    assert three.constants.bandwidth_share == pytest.approx(0.8, rel=1e-2)
    assert three.left_out_error == pytest.approx(0, abs=1e-2)
    assert not three.notes
    section = three.overheads("").model_dump(mode="json", exclude_defaults=True)
    path = tmp_path / "fitted.yaml"
    path.write_text(yaml.safe_dump(section), encoding="utf-8")
    again = decode(load_design(DESIGN, [f"machine.overheads.from={path}"]), 129, 192)
    assert again.tokens_per_s == pytest.approx(three.points[0].tokens_per_s, rel=1e-2)


def test_what_the_data_cannot_tell_apart_is_said_and_charged_per_layer(tmp_path: Path) -> None:
    same = [made_up(300, 1, error=error) for error in (0.0, 0.01, -0.01)]
    found = fit(measured_points(DESIGN, [table(tmp_path, *same)]).points)
    assert found.constants.bandwidth_share == 1
    assert "cannot tell time per layer" in found.notes[0]
    # Left out, each point is predicted by the others: 1.5, 1.5 and 0 % away.
    assert found.left_out_error == pytest.approx(0.01, rel=0.1)
    assert found.residual < found.left_out_error
    # Narrow layers that take longer than others would be told by more bandwidth than there is.
    slow = [made_up(300, 1), made_up(300, 1, SHALLOW), made_up(300, 1, *NARROW, error=-0.1)]
    assert (
        fit(measured_points(DESIGN, [table(tmp_path, *slow)]).points).constants.bandwidth_share == 1
    )


def test_a_design_takes_the_file_says_so_and_stays_bound_to_the_measurement(tmp_path: Path) -> None:
    out = tmp_path / "fitted.yaml"
    arguments = [DESIGN, "--measured", "tokens_per_s=24.43 @ text:128+64", "--runtime", "RKLLM"]
    result = CliRunner().invoke(calibrate, [*arguments, "--out", str(out)], standalone_mode=False)
    assert "+21.97 %" in result.output
    included = f"machine.overheads.from={out}"
    design = load_design(DESIGN, [included])
    assert design.machine.overheads.label == "time with calibrated overheads (RK3588, RKLLM)"
    assert decode(design, 129, 192).tokens_per_s == pytest.approx(24.43, rel=1e-4)
    assert not design.extrapolations(129, 192)
    assert "contexts 128 to 192 (measured: 129" in str(design.extrapolations(128, 192))
    assert design.extrapolations(129, 400) == (
        "the calibration is extrapolated: contexts 129 to 400 (measured: 129 to 192)",
    )
    arguments = ["run", DESIGN, "--set", included, "--workload", "text:400+8", "--quiet"]
    quiet = " ".join(CliRunner().invoke(carsim, arguments).output.split())
    assert "warning: the calibration is extrapolated: contexts 401 to 408" in quiet
    for change, problem in (
        ("board.fabric_clock_mhz=900.0", "clock_mhz: 1,000 was measured, and the design has 900"),
        ("board.name=RK3576", "board: RK3588 was measured, and the design has RK3576"),
        ("machine.overheads.kernel_cycles=9", "counts twice"),
    ):
        with pytest.raises(InputError, match=problem):
            load_design(DESIGN, [included, change])
    (another,) = load_design(DESIGN, [included, "machine.cores=2"]).extrapolations(129, 192)
    measured, now = design.machine.text, design.machine.text.replace("3 cores", "2 cores")
    assert f"another machine: measured were {measured}, and the design has {now}" in another
    # Another precision or family is predicted, with a warning and a wider interval.
    other = load_design(DESIGN, [included, "model.weights.bits=4"])
    assert other.transfer.kind == "precision"
    assert "another precision: W4A8 (measured: W8A8)" in other.extrapolations(129, 192)[0]
    widths = [each.expected.high / each.expected.low for each in (design, other)]
    assert widths[0] < widths[1]
    assert "from another precision" in other.expected.title
    family = load_design(DESIGN, [included, "model.head.vocabulary=64000"])
    assert family.transfer.kind == "family"
    both = load_design(DESIGN, [included, "model.head.vocabulary=64000", "model.weights.bits=4"])
    assert both.transfer.kind == "both"
    # A board of one's own carries its overheads; a design that states the same is refused.
    mine = yaml.safe_load(Path(DESIGN).read_text(encoding="utf-8"))
    mine["board"]["overheads"] = yaml.safe_load(out.read_text(encoding="utf-8"))
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(mine), encoding="utf-8")
    assert load_design(str(path)).machine.overheads == design.machine.overheads
    mine["board"]["overheads"]["layer_us"] = 9.0
    path.write_text(yaml.safe_dump(mine), encoding="utf-8")
    with pytest.raises(InputError, match="both set layer_us"):
        load_design(str(path), [included])


@pytest.mark.parametrize(
    ("given", "change", "problem"),
    [
        ("tokens_per_s=50 @ text:128+64", "", "faster than the 32.55 at the peak of its memory"),
        ("tokens_per_s=24 @ text:128+64", "machine.overheads.step_us=9", "would be counted twice"),
        ("tokens_per_s=24 @ text:128", "", "got the workload"),
        ("tokens_per_s=-1 @ text:128+64", "", "give a number above 0"),
        ("tokens_per_s=0.01 @ text:128+64", "", "times slower than without runtime"),
        ("speed=24 @ text:128+64", "", "say 'tokens_per_s=24.4"),
        ("tps,workload\n24,text:128+64", "", "columns are tps, workload; write tokens_per_s"),
        ("tokens_per_s,workload\n24", "", "points.csv:2: has more or fewer"),
        ("tokens_per_s,workload,set\n9,text:1+8,\n9,text:1+8,a=3", "", "csv:3, column set: a: un"),
        # A slow point does not hide one that is faster than memory allows.
        ("tokens_per_s,workload\n35,text:128+64\n20,text:512+64", "", "35 tokens/s are faster"),
    ],
)
def test_bad_points_get_one_clear_line(tmp_path, given, change, problem) -> None:
    if "\n" in given:  # a file of points
        (tmp_path / "points.csv").write_text(given, encoding="utf-8")
        given = str(tmp_path / "points.csv")
    with pytest.raises(InputError, match=problem) as caught:
        fit(measured_points(DESIGN, [given], [change] if change else []).points)
    assert "\n" not in str(caught.value)


def test_a_file_as_spreadsheets_write_it_is_read_and_contradictions_are_said(tmp_path: Path):
    path = tmp_path / "points.csv"
    path.write_text("tokens_per_s, workload\n28, text:16+64\n\n5, text:512+64", "utf-8-sig")
    found = fit(measured_points(DESIGN, [str(path)]).points)
    assert "these overheads do not explain all points" in found.notes[0]


def test_more_time_per_layer_than_any_published_system_is_doubted(tmp_path: Path) -> None:
    slow = fit(measured_points(DESIGN, [table(tmp_path, made_up(9_000, 1))]).points)
    assert "more than any published system takes (1,660)" in slow.notes[-1]
    usual = fit(measured_points(DESIGN, [table(tmp_path, made_up(1_600, 1))]).points)
    assert not any("published system" in note for note in usual.notes)
