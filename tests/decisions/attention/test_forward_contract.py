"""The contract of attention policies in forwards: shipped kinds keep it, wrong ones are found."""

from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from carsim.decisions.attention import (
    Ann,
    AnnCa,
    AttentionPolicy,
    Dense,
    Draft,
    ForwardShape,
    SideWork,
    Stack,
    TempCache,
)
from carsim.testing.contracts import untested
from carsim.testing.forwards import FORWARD_CHECKS

Ints = Any


def broken_promises(policy: AttentionPolicy) -> list[str]:
    """The promises on forwards that a policy breaks."""
    broken = []
    for check in FORWARD_CHECKS:
        try:
            check(policy)
        except AssertionError as error:
            broken.append(str(error))
    return broken


class Half(AttentionPolicy):
    """Every query of a forward scores half of the keys, of which a product of each decides."""

    label: ClassVar[str] = "half"
    masks_forwards: ClassVar[bool] = True
    kind: Literal["half"] = "half"
    all_keys: bool = False

    @classmethod
    def trivial(cls) -> "Half":
        return cls(all_keys=True)

    def forward_keys(self, queries: int, keys: Ints, share_done: Any) -> Ints:
        return keys if self.all_keys else -(-np.asarray(keys) // 2)

    def forward_work(self, shape: ForwardShape, keys: Ints) -> SideWork:
        return SideWork(macs=shape.queries * keys)


@pytest.mark.parametrize(
    "policy",
    [
        Dense(),
        Draft(keep=0.5, block_tokens=4),
        Ann(density=0.3),
        Ann(search="quantised", keep=0.3),
        AnnCa(density=0.5),
        TempCache(density=0.4, search="full"),
        Stack(policies=(TempCache(density=0.4, search="full"), Ann(density=0.3))),
        Half(),
    ],
    ids=lambda policy: policy.kind,
)
def test_kinds_keep_their_contract_in_forwards(policy: AttentionPolicy) -> None:
    assert broken_promises(policy) == []


def test_what_was_not_tested_is_named() -> None:
    assert untested("attention policy", Dense()) == {}
    assert untested("attention policy", Ann(density=0.3)) == {}
    of_ann = untested("attention policy", Ann())
    assert len(of_ann) == 3
    assert all(reason.startswith("density is missing") for reason in of_ann.values())
    of_half = untested("attention policy", Half())
    assert of_half == {"the reference decoder in chunks": "it does not execute 'half'"}


class Silent(Half):
    """A policy for forwards that forgets to say so."""

    masks_forwards: ClassVar[bool] = False


class NeverDense(Half):
    """Even without effect, it leaves out keys."""

    def forward_keys(self, queries: int, keys: Ints, share_done: Any) -> Ints:
        return -(-np.asarray(keys) // 2)


class OfAll(Half):
    """The keys of a forward depend on the other forwards that are asked for."""

    def forward_keys(self, queries: int, keys: Ints, share_done: Any) -> Ints:
        if self.all_keys:
            return keys
        return np.minimum(keys, np.min(keys))


@pytest.mark.parametrize(
    ("policy", "promise"),
    [
        (Silent(), "masks_forwards is True, as there is forward_keys, forward_work"),
        (NeverDense(), "trivial() takes as long as dense attention in forwards"),
        (OfAll(), "forward_keys of a forward depend on it alone"),
    ],
    ids=lambda value: getattr(value, "label", None),
)
def test_a_broken_promise_is_found(policy: AttentionPolicy, promise: str) -> None:
    assert any(promise in problem for problem in broken_promises(policy))
