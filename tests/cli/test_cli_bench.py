"""Calibration from what llama-bench prints, and for boards that beat their modelled ports."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from carsim.base.errors import InputError
from carsim.cli.calibrate import calibrate
from carsim.cost.fit import check_fit
from carsim.design import configs_folder, load_design
from carsim.runs.calibrate import fit, measured_points
from carsim.runs.decode import decode
from carsim.runs.measured import rows_of_file
from carsim.workload.geometry import Video

GPU = str(configs_folder() / "published" / "llamacpp_rtx4090.yaml")
UNCHARGED = "machine.overheads.step_us=0"
FPGA = str(configs_folder() / "published" / "apex_k7_llama1b.yaml")

MARKDOWN = """\
ggml_cuda_init: found 1 CUDA devices:
| model                  |     size |  params | backend | ngl |         test |             t/s |
| ---------------------- | -------: | ------: | ------- | --: | -----------: | --------------: |
| llama 8B Q4_K - Medium | 4.58 GiB |  8.03 B | CUDA    |  99 |        pp512 | 6978.21 ± 12.10 |
| llama 8B Q4_K - Medium | 4.58 GiB |  8.03 B | CUDA    |  99 |        tg128 |   127.74 ± 0.20 |
| llama 8B F16           | 14.96 GiB | 8.03 B | CUDA    |  99 | tg128 @ d512 |    53.00 ± 0.10 |
| qwen2 1.5B Q8_0        | 1.53 GiB |  1.54 B | CUDA    |  99 |        tg128 |   300.20 ± 1.20 |
| phi3 14B Q4_0          | 7.35 GiB | 13.96 B | CUDA    |  99 |        tg128 |    70.00 ± 1.00 |

build: 1234abc (4000)
"""


def records() -> list[dict[str, object]]:
    """Rows of the table above as llama-bench writes them as JSON."""
    common = {"gpu_info": "NVIDIA GeForce RTX 4090", "type_k": "f16", "n_prompt": 0, "n_gen": 128}
    small = {"model_type": "llama 8B Q4_K - Medium", "model_size": 4917747712}
    wide = {"model_type": "llama 8B F16", "model_size": 16060522496}
    return [
        common | small | {"model_n_params": 8030261312, "n_depth": 0, "avg_ts": 127.74},
        common | wide | {"model_n_params": 8030261312, "n_depth": 512, "avg_ts": 53.0},
        common | small | {"model_n_params": 8030261312, "n_prompt": 512, "n_gen": 0, "avg_ts": 6e3},
    ]


def test_a_markdown_table_gives_models_bits_and_contexts(tmp_path: Path) -> None:
    path = tmp_path / "issue.txt"
    path.write_text(MARKDOWN, encoding="utf-8")
    measured = measured_points(GPU, [str(path)])
    llama, wide, qwen = measured.points
    assert llama.tokens_per_s == 127.74
    assert llama.contexts == (1, 128)
    assert wide.contexts == (513, 640)
    assert llama.design.model.name == "LLaMA-3-8B"
    assert llama.design.model.weights.bits == pytest.approx(4.9, rel=0.01)
    assert wide.design.model.weights.bits == pytest.approx(16, rel=0.01)
    assert qwen.design.model.body.n_layers == 28
    assert "phi3 14B Q4_0 is left out: no preset has 14e9 parameters" in measured.notes[0]


def test_a_design_of_guidance_pairs_is_compared_as_llama_bench_decodes(tmp_path: Path) -> None:
    """llama-bench decodes one sequence; this design decodes two, at nearly twice the speed."""
    path = tmp_path / "table.md"
    heading = "| model | size | params | test | t/s |\n| --- | --- | --- | --- | --- |\n"
    path.write_text(f"{heading}| qwen2 1.5B Q8_0 | 1.53 GiB | 1.54 B | tg128 | 1.5 |\n", "utf-8")
    (one,) = measured_points("kv260", [str(path)]).points
    assert load_design("kv260").policy.batch == 2
    assert one.design.policy.batch == 1
    (stated,) = measured_points("kv260", [str(path)], ["policy.batch=2"]).points
    assert stated.design.policy.batch == 2
    assert stated.bound_us < 2 * one.bound_us  # of one step, whose weights both rows share


def test_json_its_lines_and_csv_say_what_markdown_says(tmp_path: Path) -> None:
    rows = records()
    header = ",".join(rows[0])
    lines = [",".join(f'"{row.get(name, 0)}"' for name in rows[0]) for row in rows]
    texts = {
        "table.md": MARKDOWN,
        "list.json": json.dumps(rows),
        "lines.jsonl": "\n".join(map(json.dumps, rows)),
        "bench.csv": "\n".join([header, *lines]),
    }
    speeds = {}
    for name, text in texts.items():
        found = list(rows_of_file(name, text))
        speeds[name] = [(float(row.tokens_per_s), row.workload) for row in found][:2]
        assert found[0].model is not None
        assert found[0].model.weight_bits == pytest.approx(4.9, rel=1e-3)
    assert {tuple(each) for each in speeds.values()} == {
        ((127.74, "text:0+128"), (53.0, "text:512+128"))
    }


def test_the_command_goes_from_a_table_to_a_section(tmp_path: Path) -> None:
    path, out = tmp_path / "bench.json", tmp_path / "board.yaml"
    path.write_text(json.dumps(records()), encoding="utf-8")
    arguments = [GPU, "--measured", str(path), "--runtime", "llama.cpp", "--out", str(out)]
    result = CliRunner().invoke(calibrate, arguments, standalone_mode=False)
    assert "text:0+128 llama 8B Q4_K" in " ".join(result.output.split())
    design = load_design(GPU, [f"machine.overheads.from={out}", "model.preset=qwen2.5_7b"])
    assert design.transfer.kind == "family"
    assert "another model: vocabulary 152064" in design.extrapolations(1, 128)[1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("| a | b |\n|---|---|\n| 1 | 2 |", "no columns test and t/s"),
        (MARKDOWN.replace("tg128", "pp128"), "has no row of decoding"),
        (MARKDOWN.replace("8.03 B", "many"), "got 'many'; write a size"),
        (MARKDOWN.replace("tg128 @", "speed @"), "got the test 'speed @ d512'"),
        ('[{"avg_ts": 3}]', "is no row of llama-bench"),
        ('[{"speed": 3}]', "has no avg_ts"),
        ("[{", "is no JSON"),
        ("{}\n{", "is no JSON"),
    ],
)
def test_bad_files_get_one_clear_line(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        list(rows_of_file("bench", text))
    assert "\n" not in str(caught.value)


def test_rows_of_another_device_are_doubted(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    rows = [row | {"gpu_info": "NVIDIA GeForce RTX 3080"} for row in records()]
    path.write_text(json.dumps(rows), encoding="utf-8")
    (note,) = measured_points(GPU, [str(path)]).notes
    assert note.startswith("the rows are of NVIDIA GeForce RTX 3080")


def test_a_board_that_beats_its_modelled_ports_is_accepted_up_to_the_peak() -> None:
    modelled = decode(load_design(FPGA, [UNCHARGED]), 129, 192).tokens_per_s
    faster = f"tokens_per_s={1.03 * modelled} @ text:128+64"
    fitted = fit(measured_points(FPGA, [faster], [UNCHARGED]).points)
    assert fitted.constants.layer_us == 0
    assert fitted.constants.bandwidth_share == pytest.approx(1.03, abs=0.002)
    assert fitted.residual < 0.005
    assert "beats the modelled memory and ports by 3.0 %" in fitted.notes[0]
    # The section is a valid design's, and no share goes beyond the data-sheet peak.
    design = load_design(FPGA, [UNCHARGED, "machine.overheads.bandwidth_share=1.03"])
    assert decode(design, 129, 192).tokens_per_s == pytest.approx(1.03 * modelled, rel=0.005)
    most = design.most_bandwidth_share
    with pytest.raises(InputError, match="more than its data-sheet peak; give at most"):
        load_design(FPGA, [UNCHARGED, f"machine.overheads.bandwidth_share={most + 0.01}"])
    impossible = f"tokens_per_s={2 * most * modelled} @ text:128+64"
    points = measured_points(FPGA, [impossible], [UNCHARGED]).points
    with pytest.raises(InputError, match="at the peak of its memory"):
        fit(points)


@pytest.mark.parametrize(
    "path", sorted((configs_folder() / "boards").glob("*.yaml")), ids=lambda path: path.stem
)
def test_a_board_is_found_by_its_name_fits_and_is_bound_by_its_memory(path: Path) -> None:
    design = load_design(path.stem)
    found = decode(design, 1, 128)
    assert found.limit_shares["memory"] > 0.9
    assert found.peak_seconds_per_step < found.seconds_per_step
    assert check_fit(design, Video(n_frames=128, tokens_per_frame=1, prompt_tokens=0)).fits
    with pytest.raises(InputError, match=f"did you mean '{path.stem}'"):
        load_design(f"{path.stem}x")
