"""The layer that ONNXim simulated, on carsim's own simulator.

What ONNXim charges is in the design ``data/onnxim.yaml``: a systolic array that holds weights and
shifts the next tile in behind the present one, row by row (``weight_load: rows``), and one DDR4
channel behind it. Each core works on its share of the columns of every matrix. Nothing in the
design was fitted to ONNXim's cycles; the bandwidth is what carsim derives from DDR4-2400's timings.
What the comparison does not tell of ONNXim's set-up (sizes of buffers and tiles, width of the
vector units, latency of the interconnect) moves the result by less than 0.1 %.
"""

from collections.abc import Callable, Sequence
from importlib.resources import as_file, files

from carsim.design import load_design
from carsim.machine.bench import Ahead
from carsim.machine.hardware import Hardware
from carsim.machine.phase import AttendCase, Case, MlpCase, OutputCase, Phases

ATTENDED_TOKENS = 17
"""Context of the layer that was simulated, the current token included."""


def onnxim_layer_cycles(cores: int, overrides: Sequence[str] = ()) -> int:
    """Cycles of one layer of LLaMA-2-7B for one token, attention over 17 included.

    Args:
        cores: Arrays of 32 x 32 that share the DDR4 channel.
        overrides: Changes to the design, such as ``machine.tile_kib=16``.
    """
    with as_file(files("carsim.validate").joinpath("data", "onnxim.yaml")) as path:
        hw = Hardware(load_design(str(path), [f"machine.cores={cores}", *overrides]))
    phases = Phases(hw)
    layer: tuple[Callable[[Ahead], Case], ...] = (
        lambda before: phases.qkv_case(False, ATTENDED_TOKENS, before),
        lambda before: AttendCase(False, ATTENDED_TOKENS, False, before),
        lambda before: OutputCase(True, before),
        lambda before: MlpCase(hw.home_loads, 0, 0, True, False, False, before),
    )
    cycles, ahead = 0, Ahead()
    for case in layer:
        result = phases.simulate(case(ahead))
        cycles, ahead = cycles + result.cycles, result.ahead
    return cycles
