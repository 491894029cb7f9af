"""Time ZigZag on decode products; runs in ZigZag's own environment and prints one JSON line.

Architecture: its ``tpu_like`` array of 32 x 32, outputs along one side and the reduction along the
other, whose DRAM moves 96 bytes a cycle. 8-bit operands; latency is what it optimises.
"""

import json
import logging
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

begun = time.perf_counter()
import yaml  # noqa: E402
import zigzag  # noqa: E402
from zigzag.api import get_hardware_performance_zigzag  # noqa: E402

import_s = time.perf_counter() - begun
logging.disable(logging.CRITICAL)


def layer(outputs: int) -> dict[str, object]:
    """One token times a 4096 x ``outputs`` matrix."""
    return {
        "id": 0,
        "operator_type": "Gemm",
        "equation": "O[b][k]+=I[b][c]*W[c][k]",
        "dimension_relations": [],
        "loop_dims": ["B", "C", "K"],
        "loop_sizes": [1, 4096, outputs],
        "operand_precision": {"W": 8, "I": 8, "O": 16, "O_final": 8},
        "operand_source": {"I": 0, "W": 0},
    }


with tempfile.TemporaryDirectory() as folder:
    shipped = Path(zigzag.__file__).parent / "inputs" / "hardware" / "tpu_like.yaml"
    accelerator = yaml.safe_load(shipped.read_text())
    accelerator["memories"]["dram"]["ports"][0].update(bandwidth_min=768, bandwidth_max=768)
    mapping = {
        "name": "default",
        "spatial_mapping": {"D1": ["K, 32"], "D2": ["C, 32"]},
        "memory_operand_links": {"O": "O", "W": "I2", "I": "I1"},
    }
    hardware, mappings = Path(folder, "hardware.yaml"), Path(folder, "mapping.yaml")
    hardware.write_text(yaml.safe_dump(accelerator, sort_keys=False))
    mappings.write_text(yaml.safe_dump([mapping], sort_keys=False))
    runs = []
    for outputs in map(int, sys.argv[1:]):
        begun, cpu = time.perf_counter(), time.process_time()
        _, cycles, _ = get_hardware_performance_zigzag(
            [layer(outputs)],
            str(hardware),
            str(mappings),
            dump_folder=folder,
            loma_show_progress_bar=False,
        )
        runs.append(
            {
                "outputs": outputs,
                "wall_s": time.perf_counter() - begun,
                "cpu_s": time.process_time() - cpu,
                "cycles": int(cycles),
            }
        )
print(json.dumps({"version": version("zigzag-dse"), "import_s": import_s, "runs": runs}))
