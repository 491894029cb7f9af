"""Plain scripts that sweep: small studies need no guard, others are told to write one."""

import subprocess
import sys

import pytest
from explore_study import write_study

SWEEP = "print(len(carsim.sweep('study.yaml'{more})))"
GUARDED = 'if __name__ == "__main__":\n    '
IN_FUNCTION = "def main():\n    {call}\n"


def run_script(folder, text):
    """Status, lines of output and errors of a script in a process of its own."""
    (folder / "script.py").write_text("import carsim\nprint('begin')\n" + text + "\n")
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def test_a_small_study_is_swept_by_a_plain_script(tmp_path):
    write_study(tmp_path)
    assert run_script(tmp_path, SWEEP.format(more="")) == (0, ["begin", "18"], [])


@pytest.mark.parametrize("text", ["{call}", IN_FUNCTION + "main()"])
def test_a_script_that_workers_would_run_again_is_told_what_to_write(tmp_path, text):
    write_study(tmp_path)
    call = SWEEP.format(more=", workers=1")
    status, out, err = run_script(tmp_path, text.format(call=call))
    line = text.format(call=call).count("\n") + 3
    assert (status, out) == (1, ["begin"])
    told = f"script.py:{line}: starts worker processes, each of which runs this script again; "
    cure = 'write if __name__ == "__main__": above, or set `workers` to 0'
    assert err[-1] == f"carsim.base.errors.InputError: {told}{cure}"
    assert "BrokenPipe" not in "".join(err)


@pytest.mark.parametrize("text", ["{call}", "main()"])
def test_a_guarded_script_uses_processes(tmp_path, text):
    write_study(tmp_path)
    call = SWEEP.format(more=", workers=1")
    script = IN_FUNCTION.format(call=call) + GUARDED + text.format(call=call)
    status, out, err = run_script(tmp_path, script)
    assert (status, set(out), out[-1], err) == (0, {"begin", "18"}, "18", [])
