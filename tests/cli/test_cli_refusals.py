"""Arguments that make no sense: one line that names them, before anything is written."""

import shlex

import pytest
from tiny import write_inputs

RUN, TARGET = "run toy.yaml --trace toy.npz", "search --workload video:1 --target"
STATED, COMPARE = "run toy.yaml --workload", "compare toy.yaml toy.yaml"
BAD = [
    ("run toy.yaml --trace nope.npz", "nope.npz: cannot be read: No such file or directory; check"),
    (f"{RUN} --tau abc", "policy.tau: expected a number, got 'abc'; write"),
    (f"{RUN} --tau -1,2", "policy.tau: lists 2 values for 4 layers"),
    (f"{RUN} --batch 3", "3 sequences would split a guidance pair"),
    (f"{RUN} --batch 6", "6 sequences are more than the 4 rows of the trace"),
    (f"{RUN} --timeline 0:2", "--timeline: has nowhere to write; add --out DIR"),
    (f"{RUN} --tau 1 --set policy.tau=2", "--set policy.tau: --tau sets it, too; leave one of"),
    (f"{RUN} --batch 2 --set policy={{}}", "--set policy: --batch sets policy.batch; leave one"),
    (f"{RUN} --set machine.cores=1 --set machine.cores=2", "machine.cores: is set twice; set it"),
    ("run --board kv260 --model tiny --set board.preset=zcu102", "preset: --board sets it, too"),
    (f"{RUN} --out o --timeline 5", "--timeline 5: is not of the form A:B"),
    (f"{RUN} --out o --timeline 40:49", "is no range of the 48 steps"),
    ("run toy.yaml --tau 0.3", "--tau: needs the scores of a trace; add --trace FILE"),
    (f"{STATED} wrong.yaml", "wrong.yaml: prompt: expected a whole number"),
    (f"{STATED} video:replay=0.5 --batch 3", "a batch of 3 is no whole"),
    (f"{RUN} --workload text", "and so does --trace; give"),
    ("run zcu102 --model x", "DESIGN: has a board and a model already"),
    ("run --board kv260", "DESIGN: is missing; name one, or say --board"),
    (
        "compare toy.yaml --tricks --set-b a=2",
        "--tricks: compares policies on A alone; leave out B",
    ),
    (f"{COMPARE} --tricks --workload video:2", "--tricks: compares policies on A alone"),
    ("compare empty toy.yaml", "empty: holds no summary.json"),
    (f"{COMPARE} --set-b machine.coers=2", "--set-b machine.coers: unknown key 'coers'; did you"),
    (
        "compare toy.yaml empty --set-b machine.cores=2",
        "--set-b: empty is a folder of results; run",
    ),
    ("compare toy.yaml", "B: is missing; name it, or say --tricks"),
    ("config rtl ip --clock-mhz nan", "is no finite number"),
    ("report gone --plot busy --out a.pdf --width nan", "is no finite number"),
    (f"{TARGET} 'frames_per_s >= 1' study.yaml", ""),
    ("search", ""),
    (f"{TARGET} frames_per_s", "--target: frames_per_s compares no metric; compare metrics"),
    (f"{TARGET} 'frames_per_s = 2'", "is no expression; compare metrics with numbers, say frames"),
    (
        "search --workload text:2+2 --model tiny --boards kv260 --target 'frames_per_s >= 2'",
        "--target: frames_per_s has no value for text:2+2",
    ),
    ("studio nowhere --no-browser", "nowhere: is neither a YAML file nor a shipped design"),
    ("studio kv260 --set machine.cores=0 --no-browser", "--set machine.cores: should be greater"),
    ("studio kv260 --trace nothing --no-browser", "nothing: is neither a trace file nor"),
    ("validate --short boards", "--short goes with all parts or fidelity"),
    ("reproduce fastcat", "'fastcat' is not 'fastcar'"),
    ("reproduce", "Missing argument 'PAPER'. Choose from: fastcar"),
    ("reproduce fastcar --overwrite", "--overwrite goes with --out"),
    ("reproduce fastcar --out no_such/folder", "there is no folder"),
    ("validate nothing", "'nothing' is not one of"),
    ("validate claims --every", "claims takes --json only"),
]


@pytest.mark.parametrize(("command", "message"), BAD)
def test_bad_arguments_are_one_line_and_leave_nothing(
    refuses, tmp_path, monkeypatch, command, message
):
    if command.startswith("studio"):
        pytest.importorskip("dash")
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "wrong.yaml").write_text("kind: text\nprompt: -1\n")
    before = sorted(tmp_path.rglob("*"))
    assert message in refuses(*shlex.split(command))
    assert sorted(tmp_path.rglob("*")) == before
