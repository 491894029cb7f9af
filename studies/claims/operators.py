"""By how much the MLPs of a model stretch a change: quotients of output and input changes.

An operator is Lipschitz continuous with a constant that is at least each such quotient. Changes are
those from one frame to the next at the same place, in Euclidean norm, under dense decoding.
"""

from dataclasses import dataclass, field

import numpy as np

from carsim.decoder.structures import Array
from studies.whole import Seen


@dataclass(eq=False)
class Stretching:
    """Quotients of one row: of the MLP alone, and from the layer's input to the MLP's output.

    Attributes:
        before: By layer: MLP input, layer input and MLP output of the frame before.
        quotients: By operator: arrays of quotients.
    """

    before: dict[int, tuple[Array, Array, Array]] = field(default_factory=dict)
    quotients: dict[str, list[Array]] = field(default_factory=dict)

    def look(self, seen: Seen) -> None:
        """Take the inputs and outputs of a layer of a frame."""
        layer_input = seen.before[-len(seen.u) :]
        output = seen.fresh
        if seen.layer in self.before:
            u_then, input_then, output_then = self.before[seen.layer]
            change = np.linalg.norm(output - output_then, axis=-1)
            for name, moved in (("mlp", seen.u - u_then), ("layer", layer_input - input_then)):
                length = np.linalg.norm(moved, axis=-1)
                has_moved = length > 0
                self.quotients.setdefault(name, []).append(change[has_moved] / length[has_moved])
        self.before[seen.layer] = (seen.u, layer_input, output)

    def figures(self) -> dict[str, float]:
        """Columns of the table: largest, median, and the share above 1."""
        columns = {}
        for name, parts in self.quotients.items():
            quotients = np.concatenate(parts)
            columns[f"{name}_largest"] = float(quotients.max())
            columns[f"{name}_median"] = float(np.median(quotients))
            columns[f"{name}_above_1"] = float((quotients > 1).mean())
        return columns
