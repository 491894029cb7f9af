"""Arguments that make no sense: one line that names them, before anything is written."""

import shlex

import pytest
from tiny import write_inputs

RUN, TARGET = "run toy.yaml --trace toy.npz", "search --workload video:1 --target"
BAD = {
    "run: no such trace": (
        "run toy.yaml --trace nope.npz",
        "nope.npz: cannot be read: No such file or directory; check the path",
    ),
    "run: a text for tau": (f"{RUN} --tau abc", "policy.tau: expected a number, got 'abc'; write"),
    "run: too few taus": (f"{RUN} --tau -1,2", "policy.tau: lists 2 values for 4 layers"),
    "run: half a pair": (f"{RUN} --batch 3", "3 sequences would split a guidance pair"),
    "run: too many": (f"{RUN} --batch 6", "6 sequences are more than the 4 rows of the trace"),
    "run: a window nowhere": (
        f"{RUN} --timeline 0:2",
        "--timeline: has nowhere to write; add --out DIR",
    ),
    "run: no window": (f"{RUN} --out o --timeline 5", "--timeline 5: is not of the form A:B"),
    "run: beyond": (f"{RUN} --out o --timeline 40:49", "is no range of the 48 steps"),
    "run: a tau": (
        "run toy.yaml --tau 0.3",
        "--tau: needs the scores of a trace; add --trace FILE",
    ),
    "run: a wrong file": (
        "run toy.yaml --workload wrong.yaml",
        "wrong.yaml: prompt: expected a whole number",
    ),
    "run: half a stated pair": (
        "run toy.yaml --workload video:replay=0.5 --batch 3",
        "a batch of 3 is no whole",
    ),
    "run: a trace as well": (f"{RUN} --workload text", "and so does --trace; give"),
    "run: a model as well": ("run zcu102 --model x", "DESIGN: has a board and a model already"),
    "run: no design": ("run --board kv260", "DESIGN: is missing; name one, or say --board"),
    "compare: a B of tricks": (
        "compare toy.yaml --tricks --set-b machine.cores=2",
        "--set-b: changes B, and --tricks has none; say --set-a",
    ),
    "compare: tricks of two designs": (
        "compare toy.yaml toy.yaml --tricks --workload video:2,replay=0.5",
        "--tricks: compares policies on one design",
    ),
    "compare: an empty folder": ("compare empty toy.yaml", "empty/summary.json: cannot be read"),
    "compare: an unknown key": (
        "compare toy.yaml toy.yaml --set-b machine.coers=2",
        "--set-b machine.coers: unknown key 'coers'; did you mean 'cores'?",
    ),
    "compare: a change of a folder": (
        "compare toy.yaml empty --set-b machine.cores=2",
        "--set-b: empty is a folder of results; run its design again instead",
    ),
    "compare: one side": ("compare toy.yaml", "B: is missing; name it, or say --tricks"),
    "config: no number": ("config rtl ip --clock-mhz nan", "is no finite number"),
    "report: no number": ("report gone --plot busy --out a.pdf --width nan", "is no finite number"),
    "search: a study too": (f"{TARGET} 'frames_per_s >= 1' study.yaml", ""),
    "search: nothing": ("search", ""),
    "search: no comparison": (
        f"{TARGET} frames_per_s",
        "--target: frames_per_s compares no metric; compare metrics",
    ),
    "search: no expression": (
        f"{TARGET} 'frames_per_s = 2'",
        "is no expression; compare metrics with numbers, say frames",
    ),
    "search: frames of a text": (
        "search --workload text:2+2 --model tiny --boards kv260 --target 'frames_per_s >= 2'",
        "--target: frames_per_s has no value for text:2+2",
    ),
    "studio: no design": (
        "studio nowhere --no-browser",
        "carsim: nowhere: is neither a YAML file nor a shipped design",
    ),
    "studio: a bad change": (
        "studio kv260 --set machine.cores=0 --no-browser",
        "carsim: --set machine.cores: should be greater",
    ),
    "studio: no trace": (
        "studio kv260 --trace nothing --no-browser",
        "carsim: nothing: is neither a trace file nor",
    ),
    "validate: a part": ("validate --short boards", "--short goes with all parts or fidelity"),
    "validate: no part": ("validate nothing", "'nothing' is not one of"),
    "validate: claims": ("validate claims --every", "claims takes --json only"),
}


@pytest.mark.parametrize(("command", "message"), BAD.values(), ids=BAD)
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
