"""The keys of the text's layers, which models of pictures, sound or video hold one level down."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from carsim.base.errors import InputError
from carsim.base.files import admit, read_json
from carsim.base.text import closest
from carsim.base.yaml_file import MAX_BYTES, shown
from carsim.workload.hf_config.architectures import READ, REASONS, SYNONYMS
from carsim.workload.hf_config.keys import DESCRIBE

CURE = "name a config.json of Hugging Face, or its folder"

INNER = ("text_config", "language_config", "llm_config", "thinker_config")
"""Keys under which models of several kinds hold their text's layers."""

FOLDER = "llm"
"""Folder that holds the language model of VILA-U and its like."""

OF_THE_WHOLE = (
    "dtype",
    "torch_dtype",
    "quantization_config",
    "quantization",
    "tie_word_embeddings",
)
"""Keys beside the text's that are about all of a model."""

LLAMA_DEFAULTS: Mapping[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32_000,
    "max_position_embeddings": 2048,
}
MISTRAL_DEFAULTS: Mapping[str, Any] = {
    **LLAMA_DEFAULTS,
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
}
NESTED_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": LLAMA_DEFAULTS,
    "mistral": MISTRAL_DEFAULTS,
}
"""What a nested section leaves out, as LLaVA and Janus do: the defaults of its class."""


class Text(NamedTuple):
    """Keys of the text's layers.

    Attributes:
        path: The file.
        place: Where the keys stand, for errors.
        kind: Type of the model, without synonyms.
        raw: The keys.
        outer_kind: Type of the model as a whole, as the file names it.
    """

    path: Path
    place: str
    kind: str
    raw: dict[str, Any]
    outer_kind: str


def read_text(path: Path, kinds: Collection[str] = READ) -> Text:
    """Read a file, and go down to the text's layers.

    Args:
        path: A ``config.json``, or the folder that holds it.
        kinds: Types of model that the caller can use.

    Raises:
        InputError: It cannot be read, or is of another type.
    """
    path = path / "config.json" if admit(path).is_dir() else path
    raw = read_json(path, MAX_BYTES, CURE)
    place = f"{path}: $"
    if "_class_name" in raw:
        problem = f"{shown(raw['_class_name'])} is a network of diffusers, which decodes no tokens"
        cure = "name the config.json of a decoder"
        raise InputError(f"{place}._class_name", problem, cure)
    outer_kind = raw.get("model_type")
    inner_file = path.parent / FOLDER / "config.json"
    is_llm_elsewhere = "llm_cfg" in raw or (
        path.name == "config.json" and "num_hidden_layers" not in raw
    )
    if is_llm_elsewhere and not any(key in raw for key in INNER) and admit(inner_file).is_file():
        inner = read_text(inner_file, kinds)
        return inner._replace(outer_kind=str(outer_kind))
    kind = outer_kind
    while inner_key := _inner_key(raw):
        inner_raw = raw[inner_key]
        if not isinstance(inner_raw, dict):
            problem = f"should hold keys, got {shown(inner_raw)}"
            raise InputError(f"{place}.{inner_key}", problem, CURE)
        stated = {key: raw[key] for key in OF_THE_WHOLE if key in raw}
        kind = inner_raw.get("model_type", kind)
        place += f".{inner_key}"
        usual = NESTED_DEFAULTS.get(str(kind), {})
        raw = {**usual, **stated, **_without_null(inner_raw)}
    if not isinstance(kind, str):
        raise InputError(f"{place}.model_type", _of_no_type(kind), CURE)
    model_type = SYNONYMS.get(kind, kind)
    if model_type not in kinds:
        raise InputError(f"{place}.model_type", _refusal(kind), _cure(kind, kinds))
    return Text(path, place, model_type, _without_null(raw), str(outer_kind))


def _inner_key(raw: Mapping[str, Any]) -> str:
    """The key that holds the text's layers; empty where the keys are those of the layers."""
    # VILA writes a path or the whole configuration here.
    if isinstance(raw.get("llm_cfg"), dict) and "num_hidden_layers" in raw["llm_cfg"]:
        return "llm_cfg"
    return next((key for key in INNER if key in raw), "")


def _without_null(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Null stands for what is left out, as transformers has it."""
    return {key: value for key, value in raw.items() if value is not None}


def _of_no_type(kind: object) -> str:
    return "is missing" if kind is None else f"{shown(kind)} is not read"


def _refusal(kind: str) -> str:
    """The reason why a type is refused."""
    reason = REASONS.get(kind)
    return f"{shown(kind)} is not read" + (f": {reason}" if reason else "")


def _cure(kind: str, kinds: Collection[str]) -> str:
    """The types that are read, the closest first."""
    listed = f"read are {', '.join(kinds)}"
    if kinds is not READ:
        return closest(kind, kinds) + listed
    if kind in REASONS:
        return DESCRIBE
    return f"{closest(kind, kinds)}{listed}; {DESCRIBE}"
