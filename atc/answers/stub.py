"""The type of an answer as Python, as a model is shown it. Bounded: a part of what is long; all of it is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from atc.schemas.reading import limits_of
from atc.schemas.validate import resolve
from atc.tools.grades import Shortener
from atc.tools.outline import Outline
from atc.tools.protocol import JsonSchema, Protocol
from atc.tools.stubs import Stub, guarded
from atc.tools.types import MAX_LITERALS, TypeWriter, camel, one_line

MAX_CLASSES = 3_000
"""Characters of the classes that are shown of a type."""
MAX_ANNOTATION = 500
MAX_ABOUT = 160
_KEYS = (48, 24, 12, 6, 3, 1)
_NAME = "answer"
_NAMED_VALUES = 6


@dataclass(frozen=True)
class AnswerStub:
    """A type as Python.

    Attributes:
        annotation: the type: ``list[City]``.
        classes: those that it names, as one source; empty where it names none.
        about: what is demanded beyond the type, in a few words; may be empty.
    """

    annotation: str
    classes: str = ""
    about: str = ""


class _Writer(TypeWriter):
    """Writes tuples as such, too, and records of any size: the room bounds them."""

    def _is_record(self, schema: JsonSchema) -> bool:
        properties = schema.get("properties")
        return isinstance(properties, dict) and bool(properties)

    def _typed(self, kind: str, schema: JsonSchema, name: str, depth: int) -> str:
        items = schema.get("prefixItems")
        if kind == "array" and isinstance(items, list) and 0 < len(items) <= 12:
            return f"tuple[{', '.join(self.write(item, f'{name}_item', depth + 1) for item in items)}]"
        return super()._typed(kind, schema, name, depth)


def answer_stub(schema: JsonSchema) -> AnswerStub:
    """A type's JSON Schema as Python: whole where it is short, else with the keys that are worth most."""
    about = _about(schema)
    writer = _Writer(schema, "", shared=True, room=MAX_CLASSES)
    annotation = writer.write(schema, _title(schema))
    if not writer.full and (stub := _made(annotation, writer, about)) is not None:
        return stub
    document = Protocol(name=_NAME, description=_NAME, returns=schema)
    schema = document.returns or {}  # the outline knows its records by identity
    outline = Outline([document], {}, "")
    for keys in _KEYS:
        shortener = Shortener(outline, keys)
        cut = shortener.cut(schema, schema)
        writer = _Writer(shortener.root, "", shared=True, more="")
        if (stub := _made(writer.write(cut, _title(schema)), writer, about)) is not None:
            return stub
    return AnswerStub("Any", about=about)


def _made(annotation: str, writer: TypeWriter, about: str) -> AnswerStub | None:
    """The stub, if it is short enough and nothing in it became code."""
    classes = "\n\n".join(writer.classes.values())
    if len(classes) > MAX_CLASSES or len(annotation) > MAX_ANNOTATION:
        return None
    guarded(Stub(writer.classes, f'def {_NAME}() -> {annotation}:\n    """{_NAME}"""'), _NAME)
    return AnswerStub(annotation, classes, about)


def _title(schema: JsonSchema) -> str:
    title = schema.get("title")
    return title if isinstance(title, str) and camel(title) == title else _NAME


def _about(schema: JsonSchema) -> str:
    """Description, format and limits of the whole, or of the items of a list."""
    target = resolve(schema, schema)
    text = _details(target)
    items = resolve(schema, target.get("items"))
    each = _details(items) if items and "properties" not in items else ""
    return one_line("; ".join(filter(None, [text, each and f"each: {each}"])), MAX_ABOUT)


def _details(schema: dict[str, Any]) -> str:
    parts = [schema.get("description"), schema.get("format"), limits_of(schema)]
    values = schema.get("enum")
    if isinstance(values, list) and len(values) > MAX_LITERALS:  # the annotation does not name them
        parts.append(f"one of {', '.join(f'{value!r:.30}' for value in values[:_NAMED_VALUES])} and others")
    return ", ".join(" ".join(part.split()) for part in parts if isinstance(part, str) and part)
