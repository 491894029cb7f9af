"""Models from their own files: ``config.json`` of Hugging Face, with what lies beside it, and GGUF.

* :mod:`~carsim.workload.hf_config.nested` goes down to the keys of the text's layers;
* :mod:`~carsim.workload.hf_config.architectures` has an entry for each type of model;
* :mod:`~carsim.workload.hf_config.quantisation` has a reader for each format of weights;
* :mod:`~carsim.workload.hf_config.stored` checks the outcome against the weight files;
* :mod:`~carsim.workload.hf_config.diffusers` reads networks, whose tokens pass all together;
* :mod:`~carsim.workload.hf_config.reader` makes the section ``model`` of it all.
"""

from carsim.workload.hf_config.architectures import READ
from carsim.workload.hf_config.keys import HfConfig
from carsim.workload.hf_config.reader import (
    HfFile,
    load_hf_config,
    read_gguf_type,
    read_hf_config,
    windows_of,
)

__all__ = [
    "READ",
    "HfConfig",
    "HfFile",
    "load_hf_config",
    "read_gguf_type",
    "read_hf_config",
    "windows_of",
]
