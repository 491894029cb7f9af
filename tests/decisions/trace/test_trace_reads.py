"""What a policy that depends on data reads, as a trace and its decisions carry it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toy_policies import BestKeys, registered
from trace_maker import make_trace

from carsim.base.errors import InputError
from carsim.decisions.trace import Trace, captured, load_trace, save_trace, trace_stats
from carsim.decisions.trace.file import check_trace
from carsim.decisions.trace.resize import crop, enlarge, resample


@pytest.fixture(autouse=True)
def _kinds() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture
def trace() -> Trace:
    """Twelve steps of two layers, one key head and four rows; the longest ends at 2^16 tokens."""
    lengths = (2**16 - 12, 2, 4, 2)
    trace = make_trace(attention=BestKeys(k=4), prompt_tokens=lengths[0], prompt_lengths=lengths)
    tokens = np.minimum(trace.context(), 3)[:, None, None].repeat(2, 1)
    held = trace.context()[3::4, None].repeat(2, 1)
    runs = 1 + (trace.context() > 3)[:, None, None].repeat(2, 1)
    return replace(trace, kv_tokens=tokens, kv_runs=runs, kv_held=held)


def test_reads_are_stored_in_few_bytes_and_come_back(trace: Trace, tmp_path: Path) -> None:
    saved = save_trace(tmp_path / "a.npz", trace)
    loaded = load_trace(tmp_path / "a.npz")
    assert saved.sha256 == loaded.sha256
    assert loaded.kv_tokens.dtype == np.uint16
    np.testing.assert_array_equal(loaded.reads.tokens, trace.kv_tokens)
    np.testing.assert_array_equal(loaded.kv_held, trace.kv_held)
    assert not loaded.kv_tokens.flags.writeable


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kv_tokens": lambda a: a * 0}, "'kv_tokens': fewer than one key at step 0, layer 0"),
        ({"kv_tokens": lambda a: a + 4}, "'kv_tokens': more keys than"),
        ({"kv_tokens": lambda a: a[:, :1]}, "of shape (12, 2, 1, 4) as its metadata says"),
        ({"kv_runs": lambda a: a * 0}, "'kv_runs': fewer than one run, or more than keys"),
        ({"kv_runs": lambda a: a + 5}, "'kv_runs': fewer than one run, or more than keys"),
        ({"kv_tokens": lambda a: a * 0 + 3, "kv_runs": lambda a: a * 0 + 3}, "unread tokens"),
        ({"kv_runs": lambda a: a * 0 + 2}, "unread tokens"),
        ({"kv_held": lambda a: a + 1}, "'kv_held': more tokens than there are"),
        ({"kv_held": lambda a: a * 0}, "'kv_held': fewer than one token at frame 0, layer 0"),
        ({"kv_held": lambda a: a * 0 + 1}, "'kv_tokens': more keys than the cache held"),
        (
            {"kv_held": lambda a: np.concatenate([a[:1], a[1:2] * 0 + 1, a[2:]])},
            "'kv_held': grows by more than the tokens of a frame at frame 2",
        ),
        ({"kv_held": lambda a: None}, "'kv_held': missing, although recorded"),
    ],
)
def test_reads_that_cannot_be(trace, changes, words):
    bad = replace(trace, **{name: change(getattr(trace, name)) for name, change in changes.items()})
    with pytest.raises(InputError) as caught:
        check_trace(bad, "a.npz")
    assert words in str(caught.value)


def test_reads_that_contradict_the_policy(trace: Trace, tmp_path: Path) -> None:
    plain = make_trace()
    with pytest.raises(InputError, match="'kv_held': present, although not recorded under 'dense'"):
        check_trace(replace(plain, kv_held=trace.kv_held), "a.npz")
    few = trace.meta.model_copy(update={"attention": BestKeys(k=1)})
    with pytest.raises(InputError, match=r"more keys than best keys \(k 1, hold"):
        check_trace(replace(trace, meta=few), "a.npz")
    with pytest.raises(InputError, match=r"'kv_tokens': expected .* of shape"):
        save_trace(tmp_path / "a.npz", replace(trace, kv_tokens=trace.kv_held))


def test_density_is_the_mean_of_shares_and_no_share_of_means(trace: Trace) -> None:
    lengths = trace.meta.prompt_lengths
    contexts = [length + step + 1 for length in lengths for step in range(12)]
    found = trace_stats(trace).reads
    assert found.density == pytest.approx(np.mean([min(n, 3) / n for n in contexts]))
    assert found.mean_runs == np.mean([1 + (n > 3) for n in contexts])
    assert found.most_held == max(lengths) + 12


def test_decisions_carry_reads_along(trace: Trace) -> None:
    decisions = captured(trace)
    assert decisions.held is trace.kv_held
    rng = np.random.default_rng(0)
    more = resample(decisions, rng, tokens_per_frame=4, n_rows=8)
    part = crop(decisions, 2, 4)
    assert more.reads.tokens.shape == (12, 2, 1, 8)
    assert (more.held.shape, part.held.shape) == ((3, 2, 8), (2, 2, 4))
    np.testing.assert_array_equal(part.reads.runs, decisions.reads.runs[:8])
    with pytest.raises(InputError, match="cannot be drawn for other contexts"):
        resample(decisions, rng, tokens_per_frame=4, n_frames=5)
    with pytest.raises(InputError, match="cannot be drawn for other contexts"):
        enlarge(decisions, 4, 9)
    assert captured(make_trace()).reads is None
