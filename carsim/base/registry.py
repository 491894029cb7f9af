"""Registries: the kinds of one role by name, open to kinds from outside of the package."""

from collections import UserDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import (
    Discriminator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializeAsAny,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import CoreSchema, core_schema

from carsim.base.answers import Check, check_answers
from carsim.base.errors import InputError
from carsim.base.plugins import load_named
from carsim.base.section import FieldError, Section
from carsim.base.text import choose
from carsim.base.yaml_file import shown

PRESETS_LISTED = "'carsim config list --presets' lists all"
"""What lists the names of presets and DRAM standards."""

LISTING = {
    "metric": "'carsim config metrics' lists all",
    "DRAM standard": PRESETS_LISTED,
}
"""Role whose names are many -> the command that lists them."""

Kind = TypeVar("Kind")


class Registry(UserDict[str, Kind]):
    """The kinds of one role by name, each looked up whenever its name is used.

    A kind from outside is added by :meth:`register`, which may decorate a class, and removed by
    ``del``. A kind that carsim ships is neither replaced nor removed.

    Args:
        role: Role of the kinds in messages, such as ``schedule``.
        name_of: Gives the name of a kind.
        shipped: Kinds of the package.
        checks: Method of a kind -> check of its answers, for kinds from outside; see
            :mod:`carsim.base.answers`.
        taken: Gives a kind from outside as the registry holds it; as it is if left out.

    >>> shapes = Registry("shape", str.lower, ["Round", "Square"])
    >>> shapes.register("Oval"), list(shapes), shapes.outside
    ('Oval', ['round', 'square', 'oval'], ('oval',))
    >>> shapes.find("ovel", "$.shape")
    Traceback (most recent call last):
    carsim.base.errors.InputError: $.shape: no shape 'ovel'; did you mean 'oval'? known ...
    >>> del shapes["round"]
    Traceback (most recent call last):
    carsim.base.errors.InputError: shape 'round': is a kind of carsim's own; take another name
    """

    roles: ClassVar[dict[str, "Registry[Any]"]] = {}
    """Every registry by its role."""

    def __init__(
        self,
        role: str,
        name_of: Callable[[Kind], str],
        shipped: Iterable[Kind] = (),
        checks: Mapping[str, Check] | None = None,
        taken: Callable[[Kind], Kind] = lambda kind: kind,
    ) -> None:
        self.role = role
        self._checks = checks or {}
        self._taken = taken
        self._name_of = name_of
        self.data = {name_of(kind): kind for kind in shipped}
        self._shipped = frozenset(self.data)
        self._followers: list[Callable[[Kind], object]] = []
        self.roles[role] = self

    def __missing__(self, name: str) -> Kind:
        load_named(name)
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str) and name not in self.data:
            load_named(name)
        return name in self.data

    def __setitem__(self, name: str, kind: Kind) -> None:
        self._refuse_shipped(name)
        kind_name = self._name_of(kind)
        if kind_name != name:
            problem = f"calls itself {shown(kind_name)}"
            raise InputError(f"{self.role} {shown(name)}", problem, "agree")
        if self._checks:
            kind_class = kind if isinstance(kind, type) else type(kind)
            check_answers(kind_class, self.role, name, self._checks)
        self.data[name] = self._taken(kind)
        for follow in self._followers:
            follow(self.data[name])

    def __delitem__(self, name: str) -> None:
        self._refuse_shipped(name)
        del self.data[name]

    @property
    def outside(self) -> tuple[str, ...]:
        """Names of the kinds from outside."""
        return tuple(name for name in self.data if name not in self._shipped)

    def register(self, kind: Kind) -> Kind:
        """Add a kind from outside under its own name, or replace one of that name.

        Raises:
            InputError: The name is that of a kind of carsim's own.
        """
        self[self._name_of(kind)] = kind
        return kind

    def find(self, name: object, place: str) -> Kind:
        """The kind of a name.

        Raises:
            InputError: Unknown; names the closest one.
        """
        if isinstance(name, str) and name in self:
            return self.data[name]
        problem, cure = self.unknown(name)
        raise InputError(place, problem, cure)

    def unknown(self, name: object) -> tuple[str, str]:
        """Problem and cure of a name that is not in the registry."""
        # A name that has all words of a kind's title means that kind.
        words = set(str(name).split("_"))
        meant = name
        for kind_name, kind in self.items():
            title_words = set(str(getattr(kind, "title", "-")).split())
            if title_words <= words:
                meant = kind_name
                break
        cure = choose(meant, self.data, words="known are", more=LISTING.get(self.role, ""))
        return f"no {self.role} {shown(name)}", f"{cure}; a plugin may add it (`plugins`)"

    def follow(self, follower: Callable[[Kind], object]) -> None:
        """Have a function called with every kind that is registered from now on."""
        self._followers.append(follower)

    def _refuse_shipped(self, name: str) -> None:
        if name in self._shipped:
            place = f"{self.role} {shown(name)}"
            raise InputError(place, "is a kind of carsim's own", "take another name")


def outside_kinds() -> frozenset[tuple[str, str]]:
    """(Role, name) of all kinds from outside in this process."""
    kinds: set[tuple[str, str]] = set()
    for role, registry in Registry.roles.items():
        kinds.update((role, name) for name in registry.outside)
    return frozenset(kinds)


def field_name(kind: Any) -> str:
    """Name of a class of sections that come in kinds: the default of its field ``kind``.

    Raises:
        InputError: The field does not take its own default, so that no file could name the kind.
    """
    field = kind.model_fields["kind"]
    name = str(field.default)
    is_literal = get_origin(field.annotation) is Literal
    if is_literal and name not in get_args(field.annotation):
        accepted = " or ".join(map(shown, get_args(field.annotation)))
        problem = f"its field `kind` takes {accepted} alone"
        cure = f'write kind: Literal["{name}"] = "{name}"'
        raise InputError(f"{kind.__name__} {shown(name)}", problem, cure)
    return name


@dataclass(frozen=True, eq=False)
class KindsOf:
    """Mark of a field that holds a section of any kind of a registry.

    The field's type names the shipped kinds only; who looks for all of them asks the registry.

    Attributes:
        registry: The registry.
    """

    registry: Registry[Any]


def any_kind(
    base: type[Section], registry: Registry[Any], absent: type[Section] | None = None
) -> Any:
    """Type of a field that holds a section of any kind of a registry.

    Instances are taken as they are; mappings may name a kind that was registered later.

    Args:
        base: Class of all kinds.
        registry: Kinds by name; those that are shipped are the field's own union.
        absent: Class of sections whose kind is in no registry; None refuses them.
    """

    def of_kind(value: Any, of_shipped: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, base):
            return value
        kind = value.get("kind") if isinstance(value, dict) else None
        if isinstance(kind, str) and kind not in registry:
            if absent is not None:
                return absent.model_validate(value)
            raise FieldError("kind", *registry.unknown(kind))
        if kind in registry.outside:
            return registry[kind].model_validate(value)
        return of_shipped(value)

    shipped: Any = Union[tuple(registry.values())]  # noqa: UP007
    as_kind: Any = SerializeAsAny()  # type: ignore[type-arg]
    mark = KindsOf(registry)
    return Annotated[shipped, Discriminator("kind"), WrapValidator(of_kind), as_kind, mark]


def of_other_kind(
    base: type[Section], *, role: str, own: str, noun: str, place: str = ""
) -> Callable[[Any], Any]:
    """Validator of a field of one kind that holds a section of any other kind of its registry.

    The registry is asked when a value is read: it is not complete where its kinds are defined.

    Args:
        base: Class of all kinds. Its instances are taken as they are.
        role: Role of the registry.
        own: Name of the kind that has the field. It may not hold itself.
        noun: What errors call a section.
        place: Field that errors name; empty for the field itself.
    """

    def section(value: Any) -> Any:
        if isinstance(value, base):
            return value
        registry = Registry.roles[role]
        kind = value.get("kind") if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in registry or kind == own:
            others = ", ".join(name for name in registry if name != own)
            raise FieldError(place, f"no {noun} of kind {kind!r}", f"known are {others}")
        return registry[kind].model_validate(value)

    return section


@dataclass(frozen=True)
class OneOf:
    """Annotation of a text that names a kind of a registry: looked up when a design is read.

    Attributes:
        registry: The registry; kinds that are registered later are known to the JSON schema, too.
    """

    registry: Registry[Any]

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(str))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, of: GetJsonSchemaHandler) -> Any:
        return {**of(schema), "enum": list(self.registry)}

    def _check(self, name: str) -> str:
        if name not in self.registry:
            raise FieldError("", *self.registry.unknown(name))
        return name
