"""What is true of a tool, beside what probing says of it.

A schema is read as its fields: a path, the JSON types that may stand there, and whether the field is always there.
``.`` goes to a field, ``[]`` to the items of an array, ``{}`` to the values of a dictionary whose keys are data:
``.trips[].stops[].nights``. ``$ref`` is followed (not into itself), ``allOf`` is put together, ``anyOf`` and ``oneOf``
may be any of theirs, ``nullable`` adds null.

What counts:

* A field is *found* when its path is in both schemas, and *right* when the types that probing says are among the true
  ones: ``integer`` is right of a field that is ``integer`` or null, or any number. ``number`` is wrong of a field that
  is declared as ``integer``. Where the truth is any type, everything is right.
* Probing that says nothing of a field's type (it only saw null there) has found it, and is neither right nor wrong.
* *Recall* is right of all true fields. *Precision* is right of all that probing states: fields with a type, and
  fields that there are not.
* *Required* is compared where both have the field; it is right when both say the same.

An example tells less than a schema: a whole number in it may be a measure (either type is right), null may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Self

from starlette.types import ASGIApp

from atc.schemas.types import OBSERVED

Schema = dict[str, Any]
Types = frozenset[str]
ANY: Types = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
MAX_DEPTH = 40


@dataclass(frozen=True)
class Field:
    """One place in a response, or one argument.

    Attributes:
        types: that may stand there; :data:`ANY` where nothing is said.
        required: whether its object always has it; ``None`` of items and of the values of dictionaries.
    """

    types: Types
    required: bool | None = None


Fields = dict[str, Field]


# Reading ------------------------------------------------------------------------------------------------------------


def fields_of_schema(schema: Schema) -> Fields:
    """All fields of a schema by their path; the root itself is none."""
    found: Fields = {}
    _read(schema, schema, "", found, ())
    return found


def arguments_of(schema: Schema) -> Fields:
    """The arguments themselves, not what is in them. A type that was only observed, and is not enforced, counts too."""
    properties = {
        name: {**known, "type": known[OBSERVED]} if isinstance(known, dict) and OBSERVED in known else known
        for name, known in schema.get("properties", {}).items()
    }
    schema = {**schema, "properties": properties}
    return {path: known for path, known in fields_of_schema(schema).items() if not set(".[{") & set(path[1:])}


def field_path(path: str, name: str) -> str:
    """The path of a field; a point in its name is no step."""
    return f"{path}.{name.replace('.', '·')}"


def fields_of_value(value: Any) -> Fields:
    """What an example tells: a field is required when every object at its place has it."""
    found: dict[str, tuple[set[str], int]] = {}
    objects: dict[str, int] = {}
    _observe(value, "", found, objects)
    made = {}
    for path, (types, count) in found.items():
        parent, _, _ = path.rpartition(".")
        required = None if path.endswith("[]") else count == objects[parent]
        named = frozenset(types - {"null"})
        made[path] = Field((named | (types & {"null"})) if named else ANY, required)
    return made


def _read(schema: Any, root: Schema, path: str, found: Fields, trail: tuple[str, ...]) -> Types:
    if not isinstance(schema, dict) or len(trail) > MAX_DEPTH:
        return ANY
    if "$ref" in schema:
        reference = schema["$ref"]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = _at(root, reference)
        cycle = reference in trail
        below = _types(target) if cycle else _read(target, root, path, found, (*trail, reference))
        return below | frozenset({"null"}) if beside.get("nullable") else below
    types = _types(schema)
    for part in schema.get("allOf", ()):
        types &= _read(part, root, path, found, (*trail, ""))
    choices = [part for key in ("anyOf", "oneOf") for part in schema.get(key, ())]
    if choices:
        types &= _choose(choices, root, path, found, trail)
    _below(schema, root, path, found, trail)
    return types | frozenset({"null"}) if schema.get("nullable") else types


def _below(schema: Schema, root: Schema, path: str, found: Fields, trail: tuple[str, ...]) -> None:
    required = set(schema.get("required", ()))
    for name, part in schema.get("properties", {}).items():
        _enter(field_path(path, name), part, root, found, trail, name in required)
    for part in [schema.get("items"), *schema.get("prefixItems", ())]:
        if isinstance(part, dict) and part:
            _enter(f"{path}[]", part, root, found, trail, None)
    values = schema.get("additionalProperties")
    if isinstance(values, dict) and values:
        _enter(f"{path}{{}}", values, root, found, trail, None)


def _enter(path: str, part: Any, root: Schema, found: Fields, trail: tuple[str, ...], required: bool | None) -> None:
    types = _read(part, root, path, found, (*trail, ""))
    before = found.get(path)
    if before is not None:
        types = types if before.types == ANY else before.types | types
        required = None if required is None else bool(before.required) or required
    found[path] = Field(types, required)


def _choose(choices: Iterable[Any], root: Schema, path: str, found: Fields, trail: tuple[str, ...]) -> Types:
    """Any one of several schemas: a field is required when all that are objects require it."""
    types: Types = frozenset()
    several: list[Fields] = []
    for choice in choices:
        own: Fields = {}
        its_types = _read(choice, root, path, own, (*trail, ""))
        types |= its_types
        if "object" in its_types or "array" in its_types:
            several.append(own)
    for name in dict.fromkeys(name for own in several for name in own):
        those = [own[name] for own in several if name in own]
        required = None if those[0].required is None else len(those) == len(several) and all(f.required for f in those)
        found[name] = Field(frozenset().union(*(f.types for f in those)), required)
    return types


def _types(schema: Schema) -> Types:
    declared = schema.get("type")
    if declared is None and "const" in schema:
        return frozenset({_kind(schema["const"])})
    if declared is None and schema.get("enum"):
        return frozenset(_kind(member) for member in schema["enum"])
    if declared is None:
        shaped = [kind for key, kind in (("properties", "object"), ("items", "array")) if key in schema]
        return frozenset(shaped) if shaped else ANY
    return frozenset([declared] if isinstance(declared, str) else declared)


def _at(root: Schema, reference: str) -> Any:
    here: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        here = here.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(here, dict) and step else here
    return here


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds: tuple[tuple[type, str], ...] = (
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (list, "array"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "object")


def _observe(value: Any, path: str, found: dict[str, tuple[set[str], int]], objects: dict[str, int]) -> None:
    for below, item in _inside(value, path):
        types, count = found.get(below, (set(), 0))
        kind = _kind(item)
        found[below] = (types | ({kind, "number"} if kind == "integer" else {kind}), count + 1)
        _observe(item, below, found, objects)
    if isinstance(value, dict):
        objects[path] = objects.get(path, 0) + 1


def _inside(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield field_path(path, name), item
    elif isinstance(value, list):
        for item in value:
            yield f"{path}[]", item


# Comparing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """Counts of fields, which can be added up.

    Attributes:
        true: fields that there are. ``found``: of these, by their path. ``right``: of these, in their type too.
        said: fields that probing names. ``stated``: those with a type, and those that there are not.
        compared, agreed: fields whose being required was compared, and those where it is as it should be.
    """

    true: int = 0
    found: int = 0
    right: int = 0
    said: int = 0
    stated: int = 0
    compared: int = 0
    agreed: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def figures(self) -> dict[str, float | None]:
        """Shares of 1; ``None`` of nothing."""
        return {
            "path_recall": _ratio(self.found, self.true),
            "path_precision": _ratio(self.found, self.said),
            "recall": _ratio(self.right, self.true),
            "precision": _ratio(self.right, self.stated),
            "required": _ratio(self.agreed, self.compared),
        }


@dataclass(frozen=True)
class Comparison:
    """One tool's fields: the counts, and which are not as they should be.

    Attributes:
        missing: true fields that probing did not find. ``invented``: fields that there are not.
        wrong: path → the types said and the true ones.
        required: path → whether it is said to be required, wrongly.
    """

    score: Score
    missing: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    required: dict[str, bool] = field(default_factory=dict)


def compare(truth: Fields, found: Fields) -> Comparison:
    """Hold what probing says against the truth; see the module."""
    both = [path for path in truth if path in found]
    untyped = [path for path in both if found[path].types == ANY and truth[path].types != ANY]
    wrong = {
        path: f"{_words(found[path].types)} for {_words(truth[path].types)}"
        for path in both
        if path not in untyped and not found[path].types <= _widened(truth[path].types)
    }
    compared = [path for path in both if truth[path].required is not None and found[path].required is not None]
    required = {path: bool(found[path].required) for path in compared if found[path].required != truth[path].required}
    invented = [path for path in found if path not in truth]
    right = len(both) - len(wrong) - len(untyped)
    score = Score(
        true=len(truth),
        found=len(both),
        right=right,
        said=len(found),
        stated=len(found) - len(untyped),
        compared=len(compared),
        agreed=len(compared) - len(required),
    )
    return Comparison(score, [path for path in truth if path not in found], invented, wrong, required)


def _widened(types: Types) -> Types:
    return types | {"integer"} if "number" in types else types


def _words(types: Types) -> str:
    return "any" if types == ANY else "|".join(sorted(types))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


@dataclass(frozen=True)
class Truth:
    """What is so of one tool."""

    arguments: Fields
    returns: Fields


@dataclass(frozen=True)
class Service:
    """A service to probe.

    Attributes:
        app: makes it, given its own address; its document is at ``/openapi.json``.
        truth: of the tools that only read, by their name. ``writes``: paths that change something.
        note: what to know of the figures.
    """

    name: str
    app: Callable[[str], ASGIApp]
    truth: dict[str, Truth]
    writes: frozenset[str] = frozenset()
    note: str = ""
