"""Worker processes do not outlive the command that started them, however that ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TRACES = Path(__file__).parents[2] / "traces"
SCRIPT = """
import os, signal, time

def endless(advance):
    os.write(1, b"working\\n")  # at once, whoever else writes
    while True:
        time.sleep(0.01)
        advance(1)

if __name__ == "__main__":
    from carsim.cli import main
    from carsim.decoder import capture
    from carsim.decoder.workers import run_in_workers

    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as it is under nohup
    capture.check_needs = lambda *_: None
    capture.prepare = lambda *_, workers: run_in_workers(
        [endless, endless], total=1, workers=workers, progress=None
    )
    main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has none of these signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_no_worker_outlives_the_command(tmp_path: Path, name: str) -> None:
    """All of its processes hold its output, which ends with the last of them."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    number = getattr(signal, name)
    with subprocess.Popen(
        [sys.executable, script, "capture", TRACES / "vilau_8f.yaml", "--out", tmp_path / "x.npz"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert [process.stdout.readline() for _ in range(2)] == ["working\n"] * 2
            os.kill(process.pid, number)
            out, _ = process.communicate(timeout=120)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if name == "SIGKILL":
        assert process.returncode == -number
    else:
        assert process.returncode == 128 + number
        assert out.lstrip() == "carsim: interrupted; nothing was half-written\n"
