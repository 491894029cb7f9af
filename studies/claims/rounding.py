"""Errors of outputs that weights of few bits make, with and without reconstruction."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from carsim.decisions.trace.precision import PRODUCTS, Product
from carsim.decoder.quantise import collect
from carsim.decoder.structures import Weights, stack_weights
from studies.content import rows_of
from studies.league import cells
from studies.record import Archive


def rounding_error_table(archive: Archive, clips: tuple[str, ...]) -> pd.DataFrame:
    """Squared error of outputs by reconstruction over that of the nearest values.

    A row for each product and layer: on the inputs of calibration, and on those of as many scenes
    that were not calibrated on.
    """
    rebuilt = cells.W4A16.model_copy(update={"reconstruct": True})
    own = cells.bench()
    others = cells.Bench(archive, own.rule, rows_of(clips[: cells.CALIBRATION_CLIPS]))
    exact = stack_weights(archive.config, archive.model.arrays)
    made = {precision: own.weights(precision) for precision in (cells.W4A16, rebuilt)}
    inputs = {
        name: collect(bench.group(1), exact, lambda done: None)
        for name, bench in (("calibrated", own), ("held_out", others))
    }
    table = []
    for product in PRODUCTS:
        for layer in range(archive.n_layers):
            line: dict[str, Any] = {"product": product, "layer": layer}
            for name, collector in inputs.items():
                x = collector.samples(product, layer).astype(float)
                nearest, reconstructed = (
                    np.square(x @ (_of(weights, product) - _of(exact, product))[layer]).sum()
                    for weights in made.values()
                )
                line[name] = reconstructed / nearest
            table.append(line)
    return pd.DataFrame(table)


def _of(weights: Weights, product: Product) -> Any:
    """Weights of a product, [layers, inputs, outputs]."""
    of_product: Mapping[str, Any] = {
        "qkv": weights.w_qkv,
        "out": weights.w_out,
        "gate_up": weights.w_gate_up,
        "down": weights.w_down,
    }
    return of_product[product].astype(float)
