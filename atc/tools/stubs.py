"""Protocol → typed Python stub: what a model is shown of a tool.

Text of a protocol only ever lands inside a comment, a docstring or a string literal, as one line without quotes that
could end it; :func:`render_stubs` parses what it made and refuses anything but classes, functions and imports.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atc._host.invisible import written
from atc._host.lazy import kept_by_identity
from atc._host.syntax import syntax_tree
from atc._records.packing import as_text
from atc.errors import ToolImportError
from atc.result import Effect
from atc.schemas.names import NAMED, has_lost_letters
from atc.schemas.observed import has_more, is_observed, times_text
from atc.schemas.protocol import Example, JsonSchema, Parameter, Protocol, Status, parameters_of, takes_bytes
from atc.schemas.reading import Reader, limits_of
from atc.schemas.types import TypeWriter, camel, inline_type, names_of_values, one_line, sentences
from atc.tools.kept import KIND
from atc.tools.paging import paging_line

MAX_SHOWN = 2
"""Examples of a tool that stand in its JSON form."""
EXAMPLE_ROOM = {"description": 400, "program": 400, "arguments": 2_000, "response": 2_000}
"""Characters there of each part of an example, as JSON; longer ones are left out."""


def shown_examples(protocol: Protocol) -> list[dict[str, Any]]:
    """The first examples of a tool as plain data, without what is not known of them."""
    return [_bounded_example(example) for example in protocol.examples[:MAX_SHOWN]]


def _bounded_example(example: Example) -> dict[str, Any]:
    made = {}
    for name, value in example.model_dump(exclude_defaults=True).items():
        try:
            text = json.dumps(value, default=str)
        except (TypeError, ValueError, RecursionError):
            continue
        if len(text) <= EXAMPLE_ROOM[name]:
            made[name] = json.loads(text)
    return made


HEADER = "from typing import Any, Literal, NotRequired, TypedDict\n"
MAX_EXAMPLE = 400
"""Characters of an example response that a model is shown."""
MAX_TEXT = 300
"""Characters of an example response that is one text: only its beginning shows what form it has."""
MAX_DESCRIPTION, MAX_HINT = 260, 300
MAX_ABOUT, MAX_SENTENCE = 120, 240
"""Characters of a parameter's description, and of one whose last sentence ends behind them."""
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "maxLength", "maxItems")
COMMENT, COMMENT_BESIDE_EXAMPLE = 80, 40
"""Characters of a response field's description; a longer text beside an example is left out."""
_REFUSALS = frozenset({"", "bad request", "unprocessable entity", "unprocessable content", "validation error"})
"""What documents say of a refusal of arguments where they say nothing of their own."""
_CUT = " …"
_CONTAINERS = {"{}": "dict", "[]": "list", "()": "list"}
_NAMES = {"Any", "bool", "bytes", "dict", "float", "int", "list", "None", "str"}


def render_stubs(protocols: Sequence[Protocol]) -> str:
    """All stubs as one Python source, as a model reads them.

    Raises:
        ToolImportError: a protocol cannot be written as a stub (never expected; a guard).
    """
    return HEADER + "\n\n" + "\n\n\n".join(render_stub(protocol) for protocol in protocols) + "\n"


def render_stub(
    protocol: Protocol,
    hints: Mapping[str, str] | None = None,
    *,
    pages: bool = False,
    plain: bool = False,
) -> str:
    """One tool: its response's classes, its signature, and a docstring.

    Args:
        hints: for a parameter, where its value can be had (see :mod:`atc.catalogue.graph.tool_graph`).
        pages: say of a paged tool how all its pages are read (see :mod:`atc.tools.paging`).
        plain: as :func:`whole_stub` takes it.
    """
    stub = whole_stub(protocol, hints or {}, pages=pages, plain=plain)
    assert stub is not None  # there is no bound on its room
    return stub.text


@dataclass(frozen=True)
class Stub:
    """A tool as Python: the classes by their names, in order of use, and the function.

    ``records``: the name and the text of each object in the type of its response, where that stands on one line.
    """

    classes: Mapping[str, str]
    function: str
    records: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """Classes and function as one text."""
        return "\n\n".join([*self.classes.values(), self.function])


def whole_stub(
    protocol: Protocol,
    hints: Mapping[str, str],
    room: int | None = None,
    *,
    pages: bool = False,
    plain: bool = False,
) -> Stub | None:
    """All that is known of a tool; ``None`` where that takes more than about ``room`` characters. It is kept: one run
    shows what the run before it showed.

    Args:
        hints: for a parameter, where its value can be had.
        room: characters.
        pages: say of a paged tool how all its pages are read.
        plain: the response on one line of the docstring: an example that has every key, else its type.
    """
    kept, asked = _whole_stubs(protocol), (*hints.items(), pages, plain)
    if asked not in kept:
        made = (_plain_stub if plain else _class_stub)(protocol, hints, room, pages)
        if made is None:
            return None
        kept[asked] = made
    stub = kept[asked]
    return stub if room is None or len(stub.text) <= room else None


@kept_by_identity(1024)
def _whole_stubs(protocol: Protocol) -> dict[tuple[object, ...], Stub]:
    return {}


def _class_stub(protocol: Protocol, hints: Mapping[str, str], room: int | None, pages: bool) -> Stub | None:
    shown = any(example.response is not None for example in protocol.examples)  # then it speaks for most fields
    writer = TypeWriter(
        protocol.returns or {},
        camel(protocol.name),
        comment_length=COMMENT_BESIDE_EXAMPLE if shown else COMMENT,
        room=room,
    )
    returns = "Any" if protocol.returns is None else writer.write(protocol.returns, "response")
    arguments = TypeWriter(protocol.parameters, camel(protocol.name), classes=writer.classes, room=room)
    signature = ", ".join(parameter_text(arguments, parameter) for parameter in parameters_of(protocol))
    if writer.full or arguments.full:
        return None
    example = _example_of(protocol)
    response = [observed_response(protocol.returns)] if is_observed(protocol.returns) else []
    placed = inline_type(protocol.returns or {}, 0, MAX_HINT) if "tuple[" in returns else None
    if placed is not None and ": " in placed.text:
        response.append(f"Returns: {placed.text}")  # what the places are called, which a type cannot say
    response += [] if example is None else [f"Example response: {_example_text(example)}"]
    about_it = _docstring(protocol, hints, pages, response)
    lines = [f"def {protocol.name}({signature}) -> {returns}:", *about_it]
    return guarded(Stub(writer.classes, "\n".join(lines)), protocol.name)


def _plain_stub(protocol: Protocol, hints: Mapping[str, str], room: int | None, pages: bool) -> Stub | None:
    """The response is one line: a small model reads it as well as classes (benchmarks/README.md)."""
    typed = inline_type(protocol.returns or {}, COMMENT, room)
    arguments = TypeWriter(protocol.parameters, camel(protocol.name), room=room)
    signature = ", ".join(parameter_text(arguments, parameter) for parameter in parameters_of(protocol))
    if typed is None or arguments.full:
        return None
    response = typed.text
    label = observed_returns(protocol.returns) if is_observed(protocol.returns) else "Returns"
    lines = [] if response in _NAMES else [f"{label}: {response}"]
    example = _example_of(protocol)
    text = _CUT if example is None else _example_text(example)
    records = typed.records
    whole = not text.endswith(_CUT) or isinstance(example, str)
    if whole and typed.keys <= _keys(_cut(example, 1)):
        lines, records = [f"Example response: {text}"], ()
    returns = response if response in _NAMES else _CONTAINERS.get(response[0] + response[-1], "Any")
    function = [f"def {protocol.name}({signature}) -> {returns}:"]
    function += _docstring(protocol, hints, pages, lines)
    return guarded(Stub(arguments.classes, "\n".join(function), records), protocol.name)


def observed_returns(returns: JsonSchema | None) -> str:
    """What stands before a response that no document describes (:mod:`atc.schemas.observed`)."""
    more = ", with more keys" if has_more(returns) else ""
    return f"Returned before{times_text(returns)}{more}, not documented"


def observed_response(returns: JsonSchema | None) -> str:
    """What a stub says of such a response where classes show it."""
    more = ", with more keys than are shown" if has_more(returns) else ""
    return f"The response is as it was before{times_text(returns)}{more}; it is not documented."


def parameter_text(writer: TypeWriter, parameter: Parameter) -> str:
    """A parameter as a signature has it: ``name: type``, with ``= ...`` where it is optional."""
    text = f"{parameter.name}: {writer.write(parameter.schema, parameter.name)}"
    return text if parameter.required else f"{text} = ..."


def _docstring(protocol: Protocol, hints: Mapping[str, str], pages: bool, response: Sequence[str]) -> list[str]:
    lines = [f'    """{one_line(protocol.description, MAX_DESCRIPTION) or protocol.name}']
    lines += [f"    {line}" for line in (named_there(protocol), kept_line(protocol)) if line]
    reader = Reader(protocol.parameters)
    for parameter in parameters_of(protocol):
        hint = one_line(hints.get(parameter.original, ""), MAX_HINT)
        text = "; ".join(filter(None, [about(parameter, reader), hint]))
        if text:
            lines.append(f"    {parameter.name}: {text}")
    if pages and (line := paging_line(protocol)):
        lines.append(f"    {line}")
    if line := effect_line(protocol):
        lines.append(f"    {line}")
    if errors := [s for s in protocol.statuses if not str(s.code).startswith("2") and not _is_usual(s)][:4]:
        lines.append("    Errors: " + "; ".join(one_line(f"{s.code} {s.description}".strip(), 60) for s in errors))
    lines += [f"    {line}" for line in response]
    return [*lines[:-1], f'{lines[-1]}"""'] if len(lines) == 1 else [*lines, '    """']


def _is_usual(status: Status) -> bool:
    """Whether a status says no more than that wrong arguments are refused, as every tool does."""
    return str(status.code) in ("400", "422") and status.description.strip(" .").casefold() in _REFUSALS


def about(parameter: Parameter, reader: Reader | None = None) -> str:
    """What a docstring states of a parameter: description, default, format, limits, and the names of its values."""
    schema = parameter.schema
    text = sentences(str(schema.get("description", "")), MAX_ABOUT, MAX_SENTENCE)
    default = schema.get("default")
    if default is not None and "default" not in text.lower():
        text = f"{text} (default {one_line(as_text(default), 40)})".strip()
    if isinstance(schema.get("format"), str) and schema["format"] not in text and not takes_bytes(schema):
        text = f"{text} ({one_line(schema['format'], 20)})".strip()
    if limits := one_line(limits_of(schema), 100):
        text = f"{text} ({limits})".strip() if not _names_bounds(text, schema) else text
    if reader is not None and (names := names_of_values(reader, schema)):
        names = one_line(names, 120)
        text = f"{text} ({names})" if text else names
    text = text or _for_instance(schema)
    named = schema.get(NAMED, parameter.original)
    return text if named == parameter.name else f"{text} (named {one_line(written(named), 80)})".strip()


def named_there(protocol: Protocol) -> str:
    """What the source calls a tool whose name does not say it."""
    named = protocol.source.operation
    return f"Named {one_line(written(named), 80)} there." if has_lost_letters(named) else ""


def kept_line(protocol: Protocol) -> str:
    """What says that a tool is a kept program; empty for any other."""
    return "A kept program: it calls other tools." if protocol.source.kind == KIND else ""


def effect_line(protocol: Protocol) -> str:
    """What says that a tool does more than read, or may; empty for one that reads."""
    match protocol.effect:
        case Effect.READ:
            return ""
        case Effect.WRITE:
            return "Changes data: call it once per item."
        case _ if protocol.source.kind == KIND:
            return "Its effect is that of the tools that it calls, and is not known."
        case _:
            return "May have an effect."


def _names_bounds(text: str, schema: JsonSchema) -> bool:
    bounds = [str(schema[keyword]) for keyword in _BOUNDS if keyword in schema]
    return bool(bounds) and "pattern" not in schema and all(bound in text for bound in bounds)


def _for_instance(schema: dict[str, Any]) -> str:
    listed = schema.get("examples")
    values = listed if isinstance(listed, list) else [schema.get("example")]
    known = "enum" in schema or not values or isinstance(values[0], dict | list | bool | None)
    return "" if known else f"e.g. {one_line(written(values[0]), 40)}"


def _example_of(protocol: Protocol) -> Any:
    return next((example.response for example in protocol.examples if example.response is not None), None)


def _keys(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_keys, value))
    return set(value).union(*map(_keys, value.values())) if isinstance(value, dict) else set()


def _example_text(response: Any) -> str:
    if isinstance(response, str) and len(response) > MAX_TEXT:
        return one_line(repr(response[:MAX_TEXT]), 10**6) + _CUT
    for keep in (2, 1):
        text = one_line(repr(response if isinstance(response, str) else _cut(response, keep)), 10**6)
        if len(text) <= MAX_EXAMPLE:
            return text
    return text[:MAX_EXAMPLE].rstrip("\\ ") + _CUT


def _cut(value: Any, keep: int) -> Any:
    if isinstance(value, list):
        return [_cut(item, keep) for item in value[:keep]]
    if isinstance(value, dict):
        return {key: _cut(item, keep) for key, item in value.items()}
    return value[:80] if isinstance(value, str | bytes) else value


def guarded(stub: Stub, name: str) -> Stub:
    """The stub, if it is what it should be: classes of fields, and one function with nothing but a docstring."""
    try:
        body = syntax_tree(stub.text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolImportError(f"the stub of {name} cannot be written: {error}") from None
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    if [function.name for function in functions] != [name] or not all(_is_declaration(node) for node in body):
        raise ToolImportError(f"the stub of {name} is not one function: its protocol holds text that became code")
    return stub


def _is_mark(node: ast.stmt) -> bool:
    """``...``: the rest of a class was left out."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def _is_declaration(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        return (
            len(node.body) == 1 and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
        )
    if isinstance(node, ast.ClassDef):
        fields = node.body[:-1] if len(node.body) > 1 and _is_mark(node.body[-1]) else node.body
        return all(isinstance(field, ast.AnnAssign) and field.value is None for field in fields)
    made = node.value if isinstance(node, ast.Assign) else None  # Name = TypedDict('Name', {…})
    return isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "TypedDict"
