"""Exact memoisation of phases: equal cases on equal hardware are simulated once."""

from carsim.hw.bench import PhaseResult
from carsim.hw.hardware import Hardware
from carsim.hw.phase import Case, Phases


class PhaseMemo:
    """Results of the phases of one hardware, simulated when first asked for.

    Share one between the rows of a comparison: what they have in common is simulated once.

    Args:
        hw: The hardware.
        enabled: False simulates every phase anew and on the event loop, to show that neither
            memoisation nor closed forms change a bit.
    """

    def __init__(self, hw: Hardware, enabled: bool = True) -> None:
        self.phases = Phases(hw, plainly=not enabled)
        self.simulated = 0
        self._enabled = enabled
        self._results: dict[object, PhaseResult] = {}

    def layer_phase(self, case: Case) -> PhaseResult:
        """A phase of a layer-step."""
        result = self._results.get(case) if self._enabled else None
        if result is None:
            self.simulated += 1
            result = self._results[case] = self.phases.simulate(case)
        return result

    def head(self) -> PhaseResult:
        """Head of one step."""
        if "head" not in self._results or not self._enabled:
            self._results["head"] = self.phases.head()
        return self._results["head"]

    def prefill_layer(self, tokens: int) -> PhaseResult:
        """One layer of a prompt of ``tokens`` per sequence."""
        if tokens not in self._results or not self._enabled:
            self._results[tokens] = self.phases.prefill_layer(tokens)
        return self._results[tokens]
