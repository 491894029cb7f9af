"""From a model's own file - a ``config.json`` of Hugging Face - to the section ``model``.

What is read: layers, widths, heads and key heads, head size, attention windows by layer, biases,
norms of queries and keys, latent attention, experts, vocabulary, tied embeddings, the longest
context, and the precision that the weights are stored in.

Simplifications: positions, the constants of norms and initialisers make no difference to time or
memory; caps on scores and logits are not counted; towers for pictures or sound are left out, so
that of a model of text and pictures the text is decoded.
"""

import json
from collections.abc import Collection
from pathlib import Path

from carsim.base.errors import InputError
from carsim.base.files import read_text
from carsim.base.yaml_file import MAX_BYTES, shown
from carsim.design.hf_types import MODEL_TYPES, NOT_READ, ConfigFile, Section

STORED_BITS = {"float32": 32, "float16": 16, "bfloat16": 16}
"""Bits of a number by the name of its type."""


def read_hf_config(path: Path, given: Collection[str] = ()) -> Section:
    """The section ``model`` that a file describes.

    Args:
        path: A ``config.json``, or the folder that holds it.
        given: Keys of the section that the design gives itself, which are not read.

    Raises:
        InputError: The file is no such file, names a type of model that is not known, lacks a key,
            or holds a value that makes no sense or that the simulator cannot express; one line.
    """
    if path.is_dir():
        path = path / "config.json"
    config = _read(path)
    kind = config.keys.get("model_type")
    if kind is None:
        raise config.refused("model_type", "is missing", "name a config.json of Hugging Face")
    if not isinstance(kind, str) or kind not in MODEL_TYPES:
        reason = f": {NOT_READ[kind]}" if isinstance(kind, str) and kind in NOT_READ else ""
        raise config.refused(
            "model_type",
            f"{shown(kind)} is not read{reason}",
            f"read are {', '.join(sorted(MODEL_TYPES))}; or write model.body yourself",
        )
    if "text_config" in config.keys:
        inner = config.keys["text_config"]
        if not isinstance(inner, dict):
            problem = f"should hold keys, got {shown(inner)}"
            raise config.refused("text_config", problem, "take the model's whole config.json")
        outer = {key: value for key, value in config.keys.items() if key in _OF_THE_WHOLE}
        config = ConfigFile(f"{config.place}.text_config", {**outer, **inner})
    section = {"name": _name(path, config), **MODEL_TYPES[kind](config)}
    bits = _stored_bits(config)
    weights = {"bits": bits} if "weights" in given else _weights(config, bits)
    others = {key: {"bits": bits} for key in ("kv", "activations", "replay")}
    return {**section, "weights": weights, **others}


_OF_THE_WHOLE = ("dtype", "torch_dtype", "quantization_config", "tie_word_embeddings")
"""Keys beside the text's that are about all of the model."""


def _read(path: Path) -> ConfigFile:
    place, cure = str(path), "name a config.json of Hugging Face, or its folder"
    try:
        loaded = json.loads(read_text(path, MAX_BYTES, cure))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise InputError(place, f"is no JSON: {reason}", cure) from None
    if not isinstance(loaded, dict):
        raise InputError(place, "should hold keys", cure)
    return ConfigFile(f"{place}: $", loaded)


def _name(path: Path, config: ConfigFile) -> str:
    """Name of the model: what it was saved as, else the folder, else the file."""
    saved = config.keys.get("_name_or_path")
    if isinstance(saved, str) and saved.isprintable() and saved.strip("/. "):
        return saved.rstrip("/").split("/")[-1]
    return path.resolve().parent.name if path.name == "config.json" else path.stem


def _stored_bits(config: ConfigFile) -> int:
    """Bits of the type that weights are stored in; 16 where the file does not say."""
    key = "dtype" if config.has("dtype") else "torch_dtype"
    name = config.keys.get(key)
    if name is None:
        return 16
    found = STORED_BITS.get(name) if isinstance(name, str) else None
    if found is None:
        problem = f"{shown(name)} is none of {', '.join(STORED_BITS)}"
        raise config.refused(key, problem, "leave it out, and set the bits in the design")
    return found


def _weights(config: ConfigFile, bits: int) -> Section:
    """Precision of the weights: as stored, or as GPTQ or AWQ have quantised them."""
    held = config.keys.get("quantization_config")
    if held is None:
        return {"bits": bits}
    place = f"{config.place}.quantization_config"
    method = held.get("quant_method") if isinstance(held, dict) else held
    if method == "fp8" and held.get("weight_block_size") == [128, 128]:
        return {"bits": 8, "group": 128 * 128, "scale_bits": 32}  # a scale for each block
    if method not in ("gptq", "awq"):
        problem = f"{shown(method)} is neither gptq, awq nor fp8 in blocks of 128 x 128"
        raise InputError(place, problem, "set model.weights in the design")
    quantised = ConfigFile(place, held)
    bits = quantised.count("bits")
    if held.get("group_size") == -1:  # a scale for each column, which weighs nothing
        return {"bits": bits}
    group = quantised.count("group_size", 128)
    return {"bits": bits, "group": group, "scale_bits": 16, "zero_bits": bits}
