"""A LLaMA-type checkpoint in a local folder: refused in one line, or loaded whole.

Supported: ``model_type`` llama, mistral, qwen2 and qwen3, with or without grouped keys, biases,
scaled rotary positions and an output head of its own; layers with an attention window are not.
Weights are read from ``.safetensors`` files of the folder. Nothing is fetched over the network, and
no code of the checkpoint is run.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from carsim.base.environment import library
from carsim.base.errors import InputError, first_line
from carsim.base.files import read_json
from carsim.base.yaml_file import MAX_BYTES
from carsim.decisions.trace.meta import Geometry
from carsim.decoder.hf_recipe import Dtype
from carsim.workload.hf_config import load_hf_config, windows_of

if TYPE_CHECKING:
    from torch.nn import Module

_CURE = "name a folder that transformers' save_pretrained wrote for a LLaMA-type model"
_SAVE = "load the model, and write it by save_pretrained(..., safe_serialization=True)"
_HEAD = "lm_head.weight"


class Kind(NamedTuple):
    """A type of checkpoint whose body has the modules of LLaMA's.

    Attributes:
        model: Its class in transformers, with an output head.
        query: Module of attention that puts out the query as it is rotated.
    """

    model: str
    query: str = "q_proj"


KINDS = {
    "llama": Kind("LlamaForCausalLM"),
    "mistral": Kind("MistralForCausalLM"),
    "qwen2": Kind("Qwen2ForCausalLM"),
    "qwen3": Kind("Qwen3ForCausalLM", query="q_norm"),
}
"""Supported types by ``model_type``."""


@dataclass(frozen=True, eq=False)
class HfModel:
    """A loaded checkpoint.

    Attributes:
        folder: Its folder, where its tokenizer is.
        geometry: Shape of the body.
        kind: Type of the checkpoint.
        body: ``LlamaModel`` or its like: embeddings, layers, final norm.
        head: From hidden states to logits; None where the checkpoint has none.
        dtype: Arithmetic.
        source: Name and hash of the weights, for the metadata of a trace.
        software: Versions that the numbers depend on.
    """

    folder: Path
    geometry: Geometry
    kind: Kind
    body: "Module"
    head: "Module | None"
    dtype: Dtype
    source: str
    software: str


def read_geometry(folder: Path) -> tuple[Geometry, Kind]:
    """Shape and type of a checkpoint, from its ``config.json`` alone.

    Raises:
        InputError: It cannot be read (:func:`~carsim.workload.hf_config.load_hf_config`), or the
            decoder cannot replay such a model.
    """
    file = load_hf_config(folder, KINDS)
    config = file.config
    if windows := windows_of(config):
        # The cache that hooks read would lose what lies outside of the window.
        problem = f"{windows['window']}: layers with a window are not captured"
        cure = "set it to null, if no video is longer"
        raise InputError(f"{file.place}.sliding_window", problem, cure)
    if config.head_size % 2:
        problem = f"{config.head_size} is odd, rotary needs pairs"
        raise InputError(f"{file.place}.head_dim", problem, _CURE)
    geometry = Geometry(
        name=folder.resolve().name or "checkpoint",
        n_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        n_heads=config.num_attention_heads,
        n_kv_heads=config.kv_heads,
        head_dim=config.head_size,
        ffn_size=config.intermediate_size,
    )
    return geometry, KINDS[config.model_type]


def check_checkpoint(folder: Path) -> None:
    """Refuse a checkpoint that cannot be used, or whose libraries are missing, without loading it.

    Raises:
        InputError: As :func:`load_checkpoint`, but for the tensors and the device.
    """
    read_geometry(folder)
    weight_files(folder)
    library("torch", str(folder))
    library("transformers", str(folder))


def load_checkpoint(folder: Path, *, dtype: Dtype = "float32", device: str = "cpu") -> HfModel:
    """Load a checkpoint for decoding.

    Args:
        folder: Holds ``config.json`` and weights (``.safetensors``).
        dtype: Arithmetic.
        device: A PyTorch device, such as ``cpu`` or ``cuda``.

    Raises:
        InputError: As :func:`read_geometry`; or the extra ``hf`` is missing, weights cannot
            be read, are missing, left over or of another shape, or the device cannot be used.
    """
    geometry, kind = read_geometry(folder)
    files = weight_files(folder)
    torch = library("torch", str(folder))
    transformers = library("transformers", str(folder))
    try:
        with quiet(transformers):
            model, report = getattr(transformers, kind.model).from_pretrained(
                folder,
                local_files_only=True,
                use_safetensors=True,
                dtype=getattr(torch, dtype),
                attn_implementation="eager",
                ignore_mismatched_sizes=True,  # they are refused below, by name
                output_loading_info=True,
            )
            model.eval().to(device)
    except Exception as error:  # a damaged checkpoint makes the loaders raise whatever they like
        raise InputError(str(folder), f"cannot be loaded ({first_line(error)})", _CURE) from error
    missing = set(report["missing_keys"]) - {_HEAD}
    # Files of LLaMA-1 and -2 hold the rotary frequencies, which follow from the configuration.
    unknown = {key for key in report["unexpected_keys"] if not key.endswith("inv_freq")}
    # transformers 4 gives names, transformers 5 gives each with its two shapes.
    shapes = {key if isinstance(key, str) else key[0] for key in report["mismatched_keys"]}
    for problem, names in (("missing", missing), ("unknown", unknown), ("misshapen", shapes)):
        if names:
            shown = ", ".join(sorted(names)[:3]) + (" ..." if len(names) > 3 else "")
            raise InputError(str(folder), f"{len(names)} tensors {problem}: {shown}", _CURE)
    return HfModel(
        folder=folder,
        geometry=geometry,
        kind=kind,
        body=model.model,
        head=None if _HEAD in report["missing_keys"] else model.lm_head,
        dtype=dtype,
        source=f"checkpoint {geometry.name}, sha256 {_hash(files)}",
        software=f"torch {torch.__version__}, transformers {transformers.__version__}, {device}",
    )


def encode_prompts(folder: Path, texts: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Token numbers of prompts, by the tokenizer in the checkpoint's folder.

    Raises:
        InputError: The folder holds no tokenizer that can be used.
    """
    transformers = library("transformers", str(folder))
    try:
        with quiet(transformers):
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            return tuple(tuple(tokenizer(text)["input_ids"]) for text in texts)
    except Exception as error:  # as in load_checkpoint
        problem = f"its tokenizer cannot be used ({first_line(error)})"
        cure = "give token numbers instead of text, for all prompts and the blank one"
        raise InputError(str(folder), problem, cure) from error


def weight_files(folder: Path) -> list[Path]:
    """Files that hold the weights: ``model.safetensors``, or those that its index names.

    Raises:
        InputError: There are none, they lie elsewhere, or the folder holds an adapter.
    """
    if (folder / "adapter_config.json").exists():
        raise InputError(str(folder), "is an adapter of other weights", "merge it into them")
    single_file = folder / "model.safetensors"
    if single_file.is_file():
        return [single_file]
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        raise InputError(str(folder), "has no weights in .safetensors files", _SAVE)
    weight_map = read_json(index, MAX_BYTES, _SAVE).get("weight_map")
    if not isinstance(weight_map, dict):
        raise InputError(str(index), "has no weight_map", _SAVE)
    names = set(map(str, weight_map.values()))
    strange = [n for n in sorted(names) if Path(n).name != n or not n.endswith(".safetensors")]
    if strange:
        raise InputError(str(index), f"names {strange[0]!r}, no .safetensors file beside it", _SAVE)
    return [folder / name for name in sorted(names)]


def _hash(files: list[Path]) -> str:
    """SHA-256 over the bytes of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(np.memmap(file, mode="r").data)
    return digest.hexdigest()


@contextmanager
def quiet(module: Any) -> Iterator[None]:
    """No reports and progress bars of a library: what matters is said as an error.

    Args:
        module: transformers or diffusers.
    """
    logging = module.utils.logging
    level = logging.get_verbosity()
    has_progress_bars = logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if has_progress_bars:
            logging.enable_progress_bar()
