"""Exact memoisation of phases: equal cases on equal hardware are simulated once."""

from collections.abc import Sequence

from carsim.machine.bench import PhaseResult
from carsim.machine.hardware import Hardware
from carsim.machine.phase import AttendCase, Case, Phases


class PhaseMemo:
    """Results of the phases of one hardware, simulated when first asked for.

    Share one between the rows of a comparison: what they have in common is simulated once.

    Args:
        hw: The hardware.
        enabled: False simulates every phase anew, to show that memoisation changes no bit.
    """

    def __init__(self, hw: Hardware, enabled: bool = True) -> None:
        self.phases = Phases(hw)
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

    def attend_all(self, cases: Sequence[AttendCase]) -> list[PhaseResult]:
        """Attention phases of layer-steps, those that are not known all at once."""
        if not self._enabled:
            return [self.layer_phase(case) for case in cases]
        new = [case for case in dict.fromkeys(cases) if case not in self._results]
        self.simulated += len(new)
        self._results.update(zip(new, self.phases.attend_all(new), strict=True))
        return [self._results[case] for case in cases]

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
