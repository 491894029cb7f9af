"""Work of the studio ends in time, and what comes after it is answered."""

import os
from functools import partial

import pytest

from carsim.base.errors import InputError
from carsim.studio.reach import Reach
from carsim.studio.state import TabState
from carsim.studio.worker import Worker


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_work_that_never_ends_is_stopped_and_the_next_question_is_answered(pipe):
    worker = Worker(pipe, limit_s=120)
    assert worker.ask("exists") is True
    before = worker._process.pid
    worker.limit_s = 0.2
    with pytest.raises(InputError, match=r"was stopped after 0\.2 s; ask for less"):
        worker.ask("read_text")  # nobody writes to it
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    worker.limit_s = 120
    assert worker.ask("exists") is True
    worker.close()


def test_a_process_that_dies_is_one_line_and_the_next_question_has_another():
    worker = Worker(partial(os._exit), limit_s=120)
    for _ in range(2):
        with pytest.raises(InputError, match="its process died"):
            worker.ask("func", 3)
    worker.close()


def test_what_is_refused_there_is_refused_here():
    worker = Worker(Reach(()), limit_s=120)
    with pytest.raises(InputError, match="kv260: is outside of the folder"):
        worker.ask("files", TabState("kv260"))
    worker.close()
