"""Decide which values of a program become parameters of the tool that it is kept as, what they are called, and which
stay.

What stands in the user's task is a parameter. What goes into a call and does not is shown, and stays unless the user
says otherwise: of a program whose task is not known, that is everything but its inputs.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atc._host.syntax import walk
from atc._records.keeping import Constant, ConstantFrom, JsonSchema, Lifted, LiftedFrom, Used
from atc._records.recording import RecordedCall
from atc.programs.lifting import (
    MAX_LITERALS,
    SLICED,
    Written,
    bound_names,
    inputs_used,
    plural,
    written_out,
)
from atc.programs.program import Program
from atc.programs.words import has_word
from atc.sandboxes.inputs import name_problem
from atc.schemas.identifiers import THINGS, is_identifier, words_of
from atc.schemas.names import UniqueNames, tool_name
from atc.schemas.protocol import Protocol, parameters_of
from atc.schemas.validate import both, problems, resolve, types_of

_SAYS_LITTLE = frozenset({"name", "id", "code", "key", "value", "type", "number"})
"""Names of arguments that tell little by themselves: a variable of the program says more, or what its tool is about."""
_LEFT_OUT = ("default", "example", "examples", "deprecated", "title")
_MAX_EXAMPLE = 2_000
"""Characters of JSON of a value that is kept as an example."""
_TRIVIAL = (0, 1, -1, "", None)


@dataclass(frozen=True)
class Known:
    """What is known of a run whose program is kept.

    Attributes:
        task: in the user's words; empty where somebody else wrote the program.
        protocols: of the tools that there are, by the names that the program has for them.
        inputs: the values in its scope, by name.
        calls: that it made.
        returned: what calls had returned before the program was written, as text, and the tool that did.
        keys: the names of fields of what calls returned.
    """

    task: str
    protocols: Mapping[str, Protocol]
    inputs: Mapping[str, Any] = field(default_factory=dict)
    calls: Sequence[RecordedCall] = ()
    returned: Mapping[str, str] = field(default_factory=dict)
    keys: Container[str] = frozenset()


@dataclass
class _Group:
    """Values of the program that are one for whoever calls it."""

    value: Any
    places: list[Written] = field(default_factory=list)
    in_task: bool = False
    input: str = ""
    used: dict[Used, None] = field(default_factory=dict)
    base: str = ""
    variable: str = ""
    source: LiftedFrom | None = None
    name: str = ""

    @property
    def uses(self) -> tuple[Used, ...]:
        return tuple(self.used)

    @property
    def lines(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(place.line for place in self.places))


@dataclass(frozen=True)
class ToolParameters:
    """Describes the parameters of a tool to be.

    Attributes:
        lifted: the parameters. ``constants``: what goes into calls and stays.
        places: of each parameter that the program has written out, where it stands.
        renamed: of inputs that have another name as parameters, that name, by their own.
        unknown: of the user's changes, those that name nothing.
        too_many: the program has more values than are looked at: of some it is not known what they are.
    """

    lifted: tuple[Lifted, ...]
    constants: tuple[Constant, ...]
    places: tuple[tuple[Written, str], ...]
    renamed: Mapping[str, str]
    unknown: tuple[str, ...] = ()
    too_many: bool = False


def tool_parameters(
    program: Program,
    known: Known,
    *,
    lift: Iterable[Any] = (),
    constants: Collection[str] = (),
    changed: Mapping[str, str | Mapping[str, Any]] | None = None,
) -> ToolParameters:
    """Return the parameters that a program has as a tool.

    Args:
        program: it parses.
        known: of its run.
        lift: values of the program, or names of constants, that become parameters.
        constants: names of parameters that stay.
        changed: by the name of a parameter: another name, or fields of its schema, a ``name`` among them.
    """
    written = written_out(program, known.protocols)
    groups = _groups(written, known)
    inputs = _inputs(program, known)
    _decide(groups, known)
    _name(program, known, [*inputs, *groups])
    unknown = _edited(groups, inputs, [*lift], constants)
    changes = dict(changed or {})
    lifted = [each for each in (*inputs, *groups) if each.source is not None]
    unknown += [name for name in changes if name not in {each.name for each in lifted}]
    made, places, renamed = [], [], {}
    for each in lifted:
        change = changes.get(each.name, {})
        fields = {"name": change} if isinstance(change, str) else dict(change)
        name = str(fields.pop("name", each.name))
        schema = schema_for(each, known) | fields
        made.append(_lifted(each, name, schema))
        places += [(place, name) for place in each.places]
        if each.input and name != each.input:
            renamed[each.input] = name
    stays = [_constant(each, known) for each in groups if each.source is None and _is_shown(each)]
    stays += _returned_beside(program, known, written, {each.name for each in (*inputs, *groups)})
    return ToolParameters(
        tuple(made), tuple(stays), tuple(places), renamed, tuple(unknown), len(written) > MAX_LITERALS
    )


# ----------------------------------------------------------------------------------------------------------------------
# Which values are one, and which are parameters.


def _groups(written: Iterable[Written], known: Known) -> list[_Group]:
    made: dict[tuple[str, ...], _Group] = {}
    for place in _parts(written, known):
        texts = place.value if isinstance(place.value, list) else [place.value]
        if not place.uses and (place.is_key or all(isinstance(each, str) and each in known.keys for each in texts)):
            continue  # what a field is called
        in_task = bool(known.task) and _in_task(place.value, known.task)
        key: tuple[str, ...] = (type(place.value).__name__, json.dumps(place.value, sort_keys=True, default=str))
        if not (in_task and isinstance(place.value, str | list)):  # a number is equal to another by chance
            key = (*key, place.uses[0].argument if place.uses else place.hint or place.role)
        group = made.setdefault(key, _Group(place.value, in_task=in_task))
        group.places.append(place)
        group.used.update(dict.fromkeys(place.uses))
    return [*made.values()]


def _parts(written: Iterable[Written], known: Known) -> Iterable[Written]:
    for place in written:
        items, nodes = place.value, getattr(place.node, "elts", ())
        if (
            not known.task
            or not isinstance(items, list)
            or len(nodes) != len(items)
            or len({_in_task(item, known.task) for item in items}) == 1
        ):
            yield place
        else:
            for item, node in zip(items, nodes, strict=True):
                yield Written(item, node, place.role, "", "", None, place.uses, place.is_key)


def _in_task(value: Any, task: str) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_in_task(item, task) for item in value)
    if isinstance(value, bool) or value is None:
        return False
    if isinstance(value, str):
        return bool(value.strip()) and has_word(task.casefold(), value.strip().casefold())
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    return any(has_word(task, text) for text in (str(value), str(number), f"{number:,}"))


def _decide(groups: Iterable[_Group], known: Known) -> None:
    for group in groups:
        roles = {place.role for place in group.places}
        if group.in_task and (group.uses or roles & {"bound", "compared", "named"}):
            group.source = "task"


def _inputs(program: Program, known: Known) -> list[_Group]:
    """Return the values that the program was given and reads; what a look before it left is often not read."""
    read = {node.id for node in program.nodes if isinstance(node, ast.Name)}
    used = inputs_used(program, [name for name in known.inputs if name in read], known.protocols)
    return [
        _Group(known.inputs[name], input=name, used=dict.fromkeys(uses), source="input", name=name)
        for name, uses in used.items()
    ]


def _is_shown(group: _Group) -> bool:
    if group.uses:
        return True
    roles = {place.role for place in group.places}
    return bool(roles & {"bound", "compared", "named"}) and group.value not in _TRIVIAL


def _edited(groups: list[_Group], inputs: list[_Group], lift: list[Any], constants: Collection[str]) -> list[str]:
    unknown = []
    for wanted in lift:
        found = [each for each in groups if each.source is None and _is_meant(each, wanted)]
        for each in found:
            each.source = "user"
        if not found and not any(each.source is not None and _is_meant(each, wanted) for each in groups):
            unknown.append(str(wanted))
    for name in constants:
        found = [each for each in groups if each.source is not None and each.name == name]
        for each in found:
            each.source = None
        if not found:
            unknown.append(name)
    return unknown


def _is_meant(group: _Group, wanted: Any) -> bool:
    if type(wanted) is type(group.value) and wanted == group.value:
        return True
    if not isinstance(wanted, str):
        return False
    return wanted in (group.name, str(group.value), json.dumps(group.value, ensure_ascii=False, default=str))


# ----------------------------------------------------------------------------------------------------------------------
# What they are called.


def _name(program: Program, known: Known, groups: Sequence[_Group]) -> None:
    for group in groups:
        statements = [place.variable for place in group.places if place.statement is not None]
        group.variable = (
            statements[0]
            if statements
            else next((place.hint for place in group.places if place.role == "named" and place.hint), "")
        )
        group.base = _base(group, known)
    lifted = [group for group in groups if group.source is not None and not group.input]
    counted = Counter(group.base for group in lifted)
    bound, names = bound_names(program), UniqueNames(each.input for each in groups if each.input)
    ordered = [*lifted, *(group for group in groups if group.source is None)]  # parameters choose first
    for group in ordered:
        taken = bound - {place.variable for place in group.places if place.statement is not None}
        wanted = [group.base, group.variable, *_longer(group), f"{group.base}_given"]
        if group.variable and counted[group.base] > 1:
            wanted = [group.variable, *wanted]
        named = map(_snake, wanted)
        group.name = names.take(next((name for name in named if name and _is_free(name, taken, known)), "value"))


def _base(group: _Group, known: Known) -> str:
    if not group.uses:
        hints = [place.hint for place in group.places if place.hint]
        return hints[0] if hints else "text" if isinstance(group.value, str) else "number"
    use = group.uses[0]
    called = use.path[-1] if use.path else use.argument
    if called.casefold() in _SAYS_LITTLE:
        looped = next((place.hint for place in group.places if place.hint and isinstance(group.value, list)), "")
        if said := group.variable or looped:
            return said
        called = [*_longer(group), called][0]
    return plural(called) if isinstance(group.value, list) and not _takes_list(use, known) else called


def _longer(group: _Group) -> list[str]:
    if not group.uses:
        return []
    use = group.uses[0]
    called = use.path[-1] if use.path else use.argument
    about = [*words_of(use.tool)][-1:]
    return [f"{about[0]}_{called}"] if about and about[0] not in words_of(called) else []


def _snake(name: str) -> str:
    return tool_name(name) if name else ""


def _is_free(name: str, bound: Container[str], known: Known) -> bool:
    return name not in bound and not name_problem(name, known.protocols)


# ----------------------------------------------------------------------------------------------------------------------
# What they may be.


def schema_for(group: _Group, known: Known) -> JsonSchema:
    """Return the schema of a parameter: that of the arguments into which it goes, else of its value's type."""
    made: JsonSchema | None = None
    for use in group.uses:
        stated = _stated(use, group.value, known)
        if stated is None or problems(stated, group.value):
            continue  # a part of what the argument is, or the document is wrong
        joined = stated if made is None else both(stated, made)
        made = joined if not problems(joined, group.value) else made
    if not made:
        bounds = [place for place in group.places if place.role == "bound" and place.hint not in SLICED]
        made = _of_type(group.value, exact=not bounds and (bool(group.uses) or not group.input))
    return {key: value for key, value in made.items() if key not in _LEFT_OUT and not key.startswith("x-")}


def _stated(use: Used, value: Any, known: Known) -> JsonSchema | None:
    """Return what a tool says of an argument, or of a part of it, for a value that is given to it whole; for a list
    whose items are given one by one, a list of such; ``None`` for a value that is a part of what is given."""
    protocol = known.protocols.get(use.tool)
    parameter = next((p for p in parameters_of(protocol) if p.name == use.argument), None) if protocol else None
    if protocol is None or parameter is None:
        return None
    schema = resolve(protocol.parameters, parameter.schema)
    for key in use.path:
        schema = resolve(protocol.parameters, schema.get("properties", {}).get(key))
    if not schema or "$ref" in json.dumps(schema, default=str):  # it points into a document that is not there then
        return None
    given = [value for call in known.calls if call.tool == use.tool for value in _given(call, parameter.original, use)]
    if isinstance(value, list) and not _takes_list(use, known):
        return {"type": "array", "items": _without_notes(schema)} if not given or value[0] in given else None
    is_whole = not given or any(_same(each, value) or (isinstance(each, list) and value in each) for each in given)
    if is_whole and given and not any(_same(each, value) for each in given):
        items = resolve(protocol.parameters, schema.get("items"))
        return items or None
    return schema if is_whole else None


def _given(call: RecordedCall, argument: str, use: Used) -> Iterable[Any]:
    for arguments in (call.arguments, call.sent):
        value: Any = (arguments or {}).get(argument)
        for key in use.path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            yield value


def _takes_list(use: Used, known: Known) -> bool:
    protocol = known.protocols.get(use.tool)
    for parameter in parameters_of(protocol) if protocol else ():
        if parameter.name == use.argument:
            schema = resolve((protocol or parameter).parameters, parameter.schema)  # type: ignore[union-attr]
            for key in use.path:
                schema = resolve(protocol.parameters, schema.get("properties", {}).get(key))  # type: ignore[union-attr]
            return "array" in types_of(schema) or not types_of(schema)
    return True


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) is isinstance(other, bool)


def _without_notes(schema: JsonSchema) -> JsonSchema:
    return {key: value for key, value in schema.items() if key not in (*_LEFT_OUT, "description") and key[:2] != "x-"}


def _of_type(value: Any, *, exact: bool) -> JsonSchema:
    """Return the schema of a value's type; a bound may be any number."""
    match value:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer" if exact else "number"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case list():
            kinds = [_of_type(item, exact=exact) for item in value]
            return {"type": "array", **({"items": kinds[0]} if kinds and all(k == kinds[0] for k in kinds) else {})}
        case dict():
            return {"type": "object"}
        case bytes():
            return {"type": "string", "format": "binary"}
        case _:
            return {}


def _lifted(group: _Group, name: str, schema: JsonSchema) -> Lifted:
    try:
        short = len(json.dumps(group.value)) <= _MAX_EXAMPLE
    except (TypeError, ValueError):  # bytes
        short = False
    if short and group.source != "input":  # what a caller gave stays with the run
        schema = {**schema, "examples": [group.value]}
    return Lifted(
        name=name,
        value=group.value,
        json_schema=schema,
        source=group.source or "user",
        lines=group.lines,
        uses=group.uses,
    )


def _constant(group: _Group, known: Known) -> Constant:
    returned = _returned(group.value, known) if not group.in_task else ""
    source: ConstantFrom = "response" if returned else "program" if known.task else "literal"
    if not returned and not group.in_task and any(map(_names_one_thing, group.uses)):
        source = "identifier"
    return Constant(
        name=group.name,
        value=group.value,
        source=source,
        returned_by=returned,
        lines=group.lines,
        uses=group.uses,
    )


def _returned_beside(
    program: Program, known: Known, written: Iterable[Written], taken: Container[str]
) -> Iterable[Constant]:
    """In a place that no parameter can take, such as a key, or a text that is put together: the user is to see it."""
    looked_at = {node for place in written for node in walk(place.node)} if known.returned else set()
    found: dict[str, list[int]] = {}
    for node in program.nodes if known.returned else ():
        if not isinstance(node, ast.Constant) or node in looked_at:
            continue
        text = node.value.decode("utf-8", "replace") if isinstance(node.value, bytes) else node.value
        if not isinstance(text, str) or text not in known.returned or text in known.keys:
            continue
        if not (known.task and _in_task(text, known.task)):
            found.setdefault(text, []).append(node.lineno)
    for number, (text, lines) in enumerate(found.items(), start=1):
        name = next(each for at in range(number, number + MAX_LITERALS) if (each := f"returned_{at}") not in taken)
        where = tuple(dict.fromkeys(lines))
        yield Constant(name=name, value=text, source="response", returned_by=known.returned[text], lines=where)


def _names_one_thing(use: Used) -> bool:
    return is_identifier(use.path[-1] if use.path else use.argument, THINGS)


def _returned(value: Any, known: Known) -> str:
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, bool) and (tool := known.returned.get(str(item))):
            return tool
    return ""
