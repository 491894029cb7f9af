"""The form of what a browser asks: a request of another form is refused before it is answered.

The page itself asks in one form only, which its callbacks register. Whatever differs comes from
somewhere else, and gets status 400.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from dash import Dash
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from carsim.studio.fields import FIELDS, SLIDERS
from carsim.studio.page import PLACES

PATH = "/_dash-update-component"
"""Address of the callbacks."""


def _encodable(text: str) -> str:
    text.encode()  # half of a surrogate pair is no text
    return text


_Text = Annotated[str, AfterValidator(_encodable)]
_Strict = ConfigDict(strict=True, extra="ignore")


class _Part(BaseModel):
    """A property of a part of the page, with its value."""

    model_config = _Strict

    id: _Text
    property: _Text
    value: Any = None


class _Call(BaseModel):
    """What the page sends to have a callback answered."""

    model_config = _Strict

    output: _Text
    outputs: list[_Part]
    inputs: list[_Part]
    state: list[_Part] = []
    changed: list[_Text] = Field(alias="changedPropIds")


class _Slid(BaseModel):
    """A slider that was moved."""

    model_config = _Strict

    key: _Text
    value: int = Field(ge=0)

    def is_a_stop(self) -> bool:
        """There is such a slider, and it has such a stop."""
        if self.key in PLACES:
            return True
        return self.key in SLIDERS and self.value < len(FIELDS[self.key].options)


class _Opened(BaseModel):
    """A point of a stored sweep that was asked for, and when."""

    model_config = _Strict

    point: int = Field(ge=0)


def _check_slid(value: Any) -> None:
    if value is not None and not _Slid.model_validate(value).is_a_stop():
        raise ValueError("no such stop")


_WORD: TypeAdapter[Any] = TypeAdapter(_Text | None, config=ConfigDict(strict=True))
_TYPED: TypeAdapter[Any] = TypeAdapter(_Text | int | float | None, config=ConfigDict(strict=True))
_COUNT: TypeAdapter[Any] = TypeAdapter(int | None, config=ConfigDict(strict=True))
_EDITION: TypeAdapter[Any] = TypeAdapter(list[_Text] | None, config=ConfigDict(strict=True))
_OPENED: TypeAdapter[Any] = TypeAdapter(_Opened | None)

_PROPERTIES: Mapping[str, TypeAdapter[Any]] = {
    "n_clicks": _COUNT,
    "n_intervals": _COUNT,
    "value": _TYPED,
}
"""Values of properties that are no texts: of a button, and of a control or slider."""

_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "slid.data": _check_slid,
    "target.value": _WORD.validate_python,
    "fronted.data": _EDITION.validate_python,
    "opened.data": _OPENED.validate_python,
}
"""Checks of values that have a form of their own, by part and property."""


def is_well_formed(app: Dash, body: Any) -> bool:
    """True for a call that the page itself could have made.

    Args:
        app: The page with its callbacks.
        body: JSON of the request, parsed.
    """
    try:
        call = _Call.model_validate(body)
        registered = app.callback_map.get(call.output, {})
        if "callback" not in registered:
            return False
        _check_names(call, registered)
        for sent in (*call.inputs, *call.state):
            _check_value(sent)
    except (ValidationError, ValueError):
        return False
    return True


# -------------------------------------------------------------------- private


def _check_names(call: _Call, registered: Mapping[str, Any]) -> None:
    """Compare the parts of a call with those of its callback.

    Raises:
        ValueError: They differ.
    """
    for role, properties in {"inputs": call.inputs, "state": call.state}.items():
        names = [(sent.id, sent.property) for sent in properties]
        expected = [(known["id"], known["property"]) for known in registered[role]]
        if names != expected:
            raise ValueError(role)
    # A property that several callbacks answer carries a mark behind the sign @.
    outputs = call.output.removeprefix("..").removesuffix("..").split("...")
    expected_outputs = [name.partition("@")[0] for name in outputs]
    answered = [f"{sent.id}.{sent.property.partition('@')[0]}" for sent in call.outputs]
    if answered != expected_outputs:
        raise ValueError("outputs")
    inputs = {f"{sent.id}.{sent.property}" for sent in call.inputs}
    if not set(call.changed) <= inputs:
        raise ValueError("changedPropIds")


def _check_value(part: _Part) -> None:
    """Check the type of a value.

    Raises:
        ValueError: The part of the page has no such value.
    """
    name = f"{part.id}.{part.property}"
    usual = _PROPERTIES.get(part.property, _WORD)
    check: Callable[[Any], object] = _CHECKS.get(name, usual.validate_python)
    check(part.value)
