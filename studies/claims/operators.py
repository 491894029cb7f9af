"""By how much the MLPs of a model stretch a change: quotients of output and input changes.

An MLP is Lipschitz continuous with a constant that is at least each such quotient. Changes are
those from one frame to the next at the same place, in Euclidean norm, under dense decoding. The
input is that of the MLP, behind its norm. The whole layer is no function of its input alone, as its
attention sees other keys in each frame.
"""

from dataclasses import dataclass, field

import numpy as np

from carsim.decoder.structures import Array
from studies.whole import Seen


@dataclass(eq=False)
class Stretching:
    """Quotients of the MLPs of one row.

    Attributes:
        before: By layer: MLP input and MLP output of the frame before.
        quotients: Arrays of quotients.
    """

    before: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    quotients: list[Array] = field(default_factory=list)

    def look(self, seen: Seen) -> None:
        """Take the input and output of the MLP of a layer of a frame."""
        output = seen.fresh
        if seen.layer in self.before:
            input_then, output_then = self.before[seen.layer]
            moved = np.linalg.norm(seen.u - input_then, axis=-1)
            change = np.linalg.norm(output - output_then, axis=-1)
            has_moved = moved > 0
            self.quotients.append(change[has_moved] / moved[has_moved])
        self.before[seen.layer] = (seen.u, output)

    def figures(self) -> dict[str, float]:
        """Columns of the table: largest, median, and the share above 1."""
        quotients = np.concatenate(self.quotients)
        return {
            "mlp_largest": float(quotients.max()),
            "mlp_median": float(np.median(quotients)),
            "mlp_above_1": float((quotients > 1).mean()),
        }
