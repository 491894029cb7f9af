"""Export weights: ``python -m studies.proxy.export runs/twin/checkpoint.pt twin.safetensors``."""

import argparse
from pathlib import Path

import torch

from carsim.decoder.model import save_model
from studies.proxy.network import Shape, Twin, to_model


def main() -> None:
    """Write the weights in half precision, as the NumPy decoder takes them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    saved = torch.load(options.checkpoint, weights_only=True)
    twin = Twin(Shape(**saved["plan"]["shape"]))
    twin.load_state_dict(saved["twin"])
    save_model(options.output, to_model(twin), overwrite=True)
    print(f"{options.output}: step {saved['step']}, {options.output.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
