"""A state is an address, a command and a design, and means the same in each."""

import shlex
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carsim.base.errors import InputError
from carsim.cli.studio import run_command
from carsim.studio.state import OPTIONS, VIEW, TabState

TEXTS = st.text(min_size=1, max_size=20)
PATHS = st.lists(st.text("abc_", min_size=1, max_size=5), min_size=2, max_size=4).map(".".join)
STATES = st.builds(
    TabState,
    design=TEXTS,
    changes=st.dictionaries(PATHS, TEXTS, max_size=3),
    pins=st.lists(TEXTS, max_size=2).map(tuple),
    **{key: st.one_of(st.just(""), TEXTS) for key in (*OPTIONS, *VIEW)},
)


@given(STATES)
def test_an_address_brings_a_state_back(state):
    assert TabState.of_query(state.query, "other") == state


@given(STATES)
def test_a_shell_reads_the_command_as_it_was_meant(state):
    words = shlex.split(run_command(state))
    assert words[:3] == ["carsim", "run", state.design]
    overrides = [text for option, text in pairwise(words) if option == "--set"]
    assert overrides[len(overrides) - len(state.changes) :] == state.overrides


def test_the_point_leaves_out_what_is_only_looked_at():
    point = TabState("kv260", {"machine.cores": "2"}, "t")
    assert replace(point, pins=("p",), store="s", step="1", layer="2").point == point


@pytest.mark.parametrize("query", ["?foo=1", "?cores=4"])
def test_an_address_of_something_else_is_refused(query):
    with pytest.raises(InputError, match="is no part of a design"):
        TabState.of_query(query, "kv260")
