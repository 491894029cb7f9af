"""Time ZigZag on decode products; runs in ZigZag's own environment and prints one JSON line.

Architecture: its ``tpu_like`` array of 32 x 32, outputs along one side and the reduction along the
other, whose DRAM moves 96 bytes a cycle. 8-bit operands; latency is what it optimises. A layer is
four products 4096 x 4096 and three 4096 x 11008 of one token, and is handed over as one workload.
A search with the two shapes alone warms up.
"""

import json
import logging
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

begun = time.perf_counter()
import yaml  # noqa: E402
import zigzag  # noqa: E402
from zigzag.api import get_hardware_performance_zigzag  # noqa: E402
from zigzag.cost_model.cost_model import CostModelEvaluation  # noqa: E402

import_s = time.perf_counter() - begun
logging.disable(logging.CRITICAL)
SHAPES = (4096, 11008)
LAYER = (4096,) * 4 + (11008,) * 3
EVALUATIONS = 20


def layer(number: int, outputs: int) -> dict[str, object]:
    """One token times a 4096 x ``outputs`` matrix."""
    return {
        "id": number,
        "operator_type": "Gemm",
        "equation": "O[b][k]+=I[b][c]*W[c][k]",
        "dimension_relations": [],
        "loop_dims": ["B", "C", "K"],
        "loop_sizes": [1, 4096, outputs],
        "operand_precision": {"W": 8, "I": 8, "O": 16, "O_final": 8},
        "operand_source": {"I": number, "W": number},
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds, and what came out."""
    cpu = time.process_time()
    result = work()
    return time.process_time() - cpu, result


def main(folder: str) -> None:
    """Measure the searches and the cost model alone."""
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

    def search(outputs: tuple[int, ...], lpf_limit: int) -> Any:
        return get_hardware_performance_zigzag(
            [layer(number, size) for number, size in enumerate(outputs)],
            str(hardware),
            str(mappings),
            dump_folder=folder,
            lpf_limit=lpf_limit,
            loma_show_progress_bar=False,
        )

    search(SHAPES, 2)
    runs = {}
    seconds, (_, cycles, _) = timed(lambda: search(LAYER, 6))
    runs["zigzag_search"] = {"cpu_s": seconds, "cycles": int(cycles)}
    seconds, (_, cycles, found) = timed(lambda: search(SHAPES, 2))
    runs["zigzag_distinct"] = {"cpu_s": seconds, "cycles": int(cycles)}
    mapped = [each for each, _ in found[0][1]]

    def evaluate() -> int:
        return sum(
            int(
                CostModelEvaluation(
                    accelerator=each.accelerator,
                    layer=each.layer,
                    spatial_mapping=each.spatial_mapping,
                    spatial_mapping_int=each.spatial_mapping_int,
                    temporal_mapping=each.temporal_mapping,
                ).latency_total2
            )
            for each in mapped
        )

    evaluate()
    seconds, cycles_of_all = timed(lambda: [evaluate() for _ in range(EVALUATIONS)])
    runs["zigzag_evaluation"] = {"cpu_s": seconds / EVALUATIONS, "cycles": cycles_of_all[0]}
    print(json.dumps({"version": version("zigzag-dse"), "import_s": import_s, "runs": runs}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(made)
