"""A design as a document: the resolved YAML, and the JSON schema of a design file."""

from collections.abc import Mapping
from typing import Any

from carsim.base.section import file_schema
from carsim.base.yaml_file import yaml_text
from carsim.design.design import Design
from carsim.design.load import MODEL_FILE, PRESET_SECTIONS, shipped_presets


def design_yaml(design: Design) -> str:
    """The resolved design, presets and defaults written out; loading it gives an equal design."""
    return yaml_text(design.model_dump(mode="json"))


def design_schema() -> dict[str, Any]:
    """JSON schema of a design file.

    Board, model and energy are given in full, or start from a preset and override keys of it; what
    such a section lacks comes from the preset, so that a schema cannot check it further. A model
    may start from its own file instead.
    """
    schema = file_schema(Design, "carsim design")
    schema["required"] = ["board", "model"]  # what else is left out is chosen when it is opened
    schema["$defs"]["Machine"]["required"].remove("placement")  # the board says what is left out
    placement = dict(schema["$defs"]["Placement"])
    del placement["required"]
    schema["$defs"]["Machine"]["properties"]["placement"] = placement
    for section in PRESET_SECTIONS:
        preset = _with("preset", {"type": "string", "enum": [*shipped_presets()[section]]})
        schema["properties"][section] = {"anyOf": [schema["properties"][section], preset]}
    section, key = MODEL_FILE.split(".")
    own_file = {"type": "string", "description": "config.json of Hugging Face, or its folder"}
    schema["properties"][section]["anyOf"].append(_with(key, own_file))
    path = {"type": "string", "description": "file of carsim calibrate, with the other keys"}
    schema["$defs"]["Overheads"]["properties"]["from"] = path
    return schema


def _with(key: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Schema of a section that starts from something else, which a key names."""
    return {"type": "object", "required": [key], "properties": {key: schema}}
