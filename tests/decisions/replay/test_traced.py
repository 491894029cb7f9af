"""Arrays that note what is done with them: counts by hand, and results as those of NumPy."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carsim.base.errors import InputError
from carsim.decisions.replay import InputChange, MachineShape, ReplayRule, RuleWork, Tas
from carsim.decisions.replay.seen import Seen
from carsim.decisions.replay.tracked import Ledger, bare

VILA_U = MachineShape(
    n_heads=32, n_kv_heads=32, head_dim=128, hidden_size=4096, activation_bits=Fraction(16)
)

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], int]] = {
    # On an array of 2 x 6: the function, and its operations by hand.
    "a product and its sum": (lambda x: (x * x).sum(axis=1), 12),
    "a square by power": (lambda x: (x**2).sum(), 12),
    "a plain sum": (lambda x: x.sum(axis=0), 12),
    "a mean": (lambda x: x.mean(axis=1), 12 + 2),
    "a length": (lambda x: np.linalg.norm(x, axis=1), 12 + 2),
    "products": (lambda x: x @ x.T, 2 * 2 * 6),
    "products by letters": (lambda x: np.einsum("ij,kj->ik", x, x), 2 * 2 * 6),
    "a choice": (lambda x: np.where(x > 0, x, 0.0), 12 + 12),
    "limits": (lambda x: np.clip(x, -1, 1), 24),
    "a view": (lambda x: x[:, ::2].reshape(3, 2).T, 0),
    "parts": (lambda x: np.concatenate(np.split(x, 2, axis=1)[::-1], axis=1), 0),
    "an order": (lambda x: np.argsort(x, axis=1), 12 * 4),
    "the largest": (lambda x: x.max(axis=1) - x.min(), 12 + 12 + 2),
    "a spread": (lambda x: np.std(x, axis=1), 3 * 12 + 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(seed=st.integers(0, 99))
def test_results_are_numpys_and_operations_those_by_hand(name: str, seed: int) -> None:
    function, operations = FUNCTIONS[name]
    values = np.random.default_rng(seed).normal(size=(2, 6))
    ledger = Ledger()
    result = function(ledger.array("x", values))
    # A power of a row alone may round otherwise than that of all rows.
    np.testing.assert_allclose(bare(result), function(values), rtol=1e-14)
    assert ledger.operations == operations


def test_only_the_elements_that_count_are_noted() -> None:
    ledger = Ledger()
    x = ledger.array("x", np.arange(12.0).reshape(2, 6))
    assert x[0].shape == (6,)  # a view that nothing is computed with
    assert ledger.elements("x") == 0
    _ = x[1, 2:4] + x[1, 3:5]
    assert ledger.elements("x") == 3


def test_what_takes_numbers_out_is_refused() -> None:
    x = Ledger().array("x", np.ones((2, 2)))
    # Conversions, branches, choices by value, writing, and functions that are not known.
    escapes: list[Callable[[], Any]] = [
        lambda: np.asarray(x),
        lambda: np.array([x, x]),
        lambda: float(x[0, 0]),
        lambda: int(x[0, 0]),
        lambda: bool(x[0, 0] > 0),
        lambda: x.tolist(),
        lambda: x[0, 0].item(),
        lambda: x.tobytes(),
        lambda: x[x > 0],
        lambda: np.add(x, x, out=np.zeros((2, 2))),
        lambda: np.fft.fft(x),
        lambda: np.add.accumulate(x),
        lambda: np.frombuffer(x),
        lambda: memoryview(x),  # type: ignore[arg-type]
    ]
    for escape in escapes:
        with pytest.raises((InputError, TypeError)):
            escape()
    with pytest.raises(InputError, match="writes to an array that it was shown"):
        x[0] = 1


def test_shipped_rules_state_what_they_do() -> None:
    for rule in (Tas(), Tas(head=3), InputChange(bits=None)):
        traced = rule.traced(VILA_U).work(VILA_U)
        stated = rule.work(VILA_U)
        assert traced.key_elements == stated.key_elements
        assert traced.held_bytes == stated.held_bytes
        assert 0 <= traced.vector_ops - stated.vector_ops <= 8  # numbers of one row


def test_a_rule_that_states_less_than_it_does_says_why() -> None:
    rule = InputChange()
    assert rule.work(VILA_U).vector_ops < rule.traced(VILA_U).score_operations
    assert InputChange.cheaper


class LastOutput(ReplayRule):
    """Looks at the outputs of the MLP, and at half of the heads' weights."""

    label: ClassVar[str] = "last output"
    kind: Literal["last_output"] = "last_output"

    def score(self, state: None, layer: int, place: int, seen: Seen) -> Any:
        change = seen.last_computed - seen.last_used
        return (change * seen.last_used).sum(axis=1)


class WholeContext(LastOutput):
    """Looks at all weights."""

    def score(self, state: None, layer: int, place: int, seen: Seen) -> Any:
        return seen.attention_weights.max(axis=(1, 2))


class HiddenState(LastOutput):
    """Keeps something else than arrays."""

    def begin(self, shape: Any) -> Any:
        return {"seen": set()}


def test_the_held_output_is_read_and_held_twice_only_where_gains_change_it() -> None:
    rule = LastOutput()
    assert rule.work(VILA_U) == RuleWork(vector_ops=2 * 4096, read_bytes=2 * 4096)
    damped = LastOutput(gain=0.5)
    assert damped.work(VILA_U) == RuleWork(vector_ops=2 * 4096, held_bytes=2 * 4096)


def test_work_that_grows_with_the_context_has_to_be_stated() -> None:
    with pytest.raises(InputError, match="its work grows with the context"):
        WholeContext().work(VILA_U)


def test_state_is_in_arrays() -> None:
    with pytest.raises(InputError, match=r"begin\(\) gives set as state, whose bytes cannot be"):
        HiddenState().work(VILA_U)


def test_a_rule_cannot_score_before_it_has_frames_to_look_at() -> None:
    class Two(LastOutput):
        frames_back: ClassVar[int] = 2

    with pytest.raises(ValueError, match="while the rule looks 2 frames back"):
        Two()
    assert Two(first_frame=2).model_dump()["first_frame"] == 2
    assert "first_frame" not in LastOutput().model_dump()
