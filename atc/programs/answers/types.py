"""The type of an answer, and validation of values against it.

A type of Python is pydantic's to validate, in its JSON mode: programs hand over JSON values, and bytes. What loses
nothing is coerced: ``"3"`` is an ``int``, ``3.5`` is none. A JSON Schema coerces nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pydantic_core
from pydantic import TypeAdapter, ValidationError

from atc._records.packing import holds_bytes
from atc._records.records import Misfit, Mismatch, Observed
from atc.calls.json_values import to_json_value
from atc.schemas.protocol import JsonSchema, Protocol
from atc.schemas.reading import limits_of
from atc.schemas.types import MAX_LITERALS, TypeWriter, camel, one_line
from atc.schemas.validate import problems, resolve, types_of
from atc.tools.outline import Outline
from atc.tools.short_stubs import Shortener
from atc.tools.stubs import Stub, guarded

# ----------------------------------------------------------------------------------------------------------------------
# The type of an answer as Python, as a model is shown it. Bounded: a part of what is long; all of it is checked.


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
    """Return a type's JSON Schema as Python: whole where it is short, else with the keys that are worth most."""
    about = _about(schema)
    writer = _Writer(schema, "", room=MAX_CLASSES)
    annotation = writer.write(schema, _title(schema))
    if not writer.full and (stub := _made(annotation, writer, about)) is not None:
        return stub
    document = Protocol(name=_NAME, description=_NAME, returns=schema)
    schema = document.returns or {}  # the outline knows its records by identity
    outline = Outline([document], {}, "")
    for keys in _KEYS:
        shortener = Shortener(outline, keys)
        cut = shortener.cut(schema, schema)
        writer = _Writer(shortener.root, "", marked=True)
        if (stub := _made(writer.write(cut, _title(schema)), writer, about)) is not None:
            return stub
    return AnswerStub("Any", about=about)


def _made(annotation: str, writer: TypeWriter, about: str) -> AnswerStub | None:
    """Return the stub, if it is short enough and nothing in it became code."""
    classes = "\n\n".join(writer.classes.values())
    if len(classes) > MAX_CLASSES or len(annotation) > MAX_ANNOTATION:
        return None
    guarded(Stub(writer.classes, f'def {_NAME}() -> {annotation}:\n    """{_NAME}"""'), _NAME)
    return AnswerStub(annotation, classes, about)


def _title(schema: JsonSchema) -> str:
    title = schema.get("title")
    return title if isinstance(title, str) and camel(title) == title else _NAME


def _about(schema: JsonSchema) -> str:
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


# ----------------------------------------------------------------------------------------------------------------------
# The type of an answer, and validation of values against it.


MAX_PROBLEMS = 3
"""Ways in which a value does not fit that are reported."""
MAX_MEMBERS = 100
"""Members of a union that are looked at."""
MAX_WORDS = 200
"""Characters of a validator's message."""
MAX_VALUE = 150
"""Characters of a value that does not fit."""


@dataclass(frozen=True)
class Fitted:
    """A value that fits: ``value`` as the type has it, and ``plain``, its JSON values and bytes."""

    value: Any
    plain: Any


class AnswerType:
    """The type of an answer. Open one with :func:`atc.programs.answers.opening.open_answer`.

    Args:
        schema: its JSON Schema.
        adapter: pydantic's validator; without one values are held to the schema, and stay as they are.
        opened_by: the word or name that opens it again; ``None`` where there is none.
        predicted: whether the schema says all that is taken, so that a program can be refused before it runs.
    """

    def __init__(
        self,
        schema: JsonSchema,
        adapter: TypeAdapter[Any] | None = None,
        opened_by: str | None = None,
        predicted: bool = True,
    ) -> None:
        self.schema, self.opened_by, self.predicted = schema, opened_by, predicted
        self._adapter = adapter

    @property
    def text(self) -> str:
        """Return the type as an annotation, in the words of :attr:`stub`: ``list[City]``."""
        return self.stub.annotation

    @cached_property
    def stub(self) -> AnswerStub:
        """Return the type as a model is shown it; bounded."""
        return answer_stub(self.schema)

    @cached_property
    def names_none(self) -> bool:
        """Return whether the type itself names ``None`` (``str | None``), as one that takes anything does not."""
        todo: list[Any] = [self.schema]
        for _ in range(MAX_MEMBERS):
            if not todo:
                break
            part = resolve(self.schema, todo.pop())
            if "null" in types_of(part) or None in part.get("enum", ()) or part.get("const", "") is None:
                return True
            todo += [each for key in ("anyOf", "oneOf") for each in part.get(key, ())]
        return False

    def record(self) -> dict[str, Any]:
        """Return its record in a trace, for a resume: see :func:`atc.programs.answers.opening.reopened`."""
        return {"type": self.text, "schema": self.schema, "opened_by": self.opened_by}

    def same_as(self, other: AnswerType) -> bool:
        """Return whether both say the same of a value, as far as a JSON Schema can say it."""
        return self.schema == other.schema

    def fit(self, value: Any) -> Fitted | Misfit:
        """Hold a value to the type.

        Args:
            value: JSON values and bytes.
        """
        if self._adapter is None:
            found = problems(self.schema, value)
            wrong = tuple(Mismatch(path=p.path, what=p.message[:MAX_WORDS]) for p in found[:MAX_PROBLEMS])
            return self._misfit(value, wrong) if wrong else Fitted(value, value)
        try:
            if holds_bytes(value):
                made = self._adapter.validate_python(value)
            else:
                made = self._adapter.validate_json(pydantic_core.to_json(value))
        except ValidationError as error:
            return self._misfit(value, tuple(_mismatches(error, value)))
        except Exception as error:  # a validator of the user's own raised something else
            return self._misfit(value, (Mismatch(path=(), what=f"{type(error).__name__}: {error}"[:MAX_WORDS]),))
        try:
            return Fitted(made, self._plain(made, value))
        except ValueError as error:  # `"nan"` is a float to pydantic
            return self._misfit(value, (Mismatch(path=(), what=f"it has no JSON form: {error}"[:MAX_WORDS]),))

    def _plain(self, made: Any, value: Any) -> Any:
        """As pydantic writes it where that is read back, else as it came. Raises ValueError for what JSON has not."""
        if holds_bytes(value):
            return value
        assert self._adapter is not None
        try:
            written = self._adapter.dump_python(made, mode="json", by_alias=True, round_trip=True, warnings=False)
            self._adapter.validate_json(pydantic_core.to_json(written))
        except Exception:
            return value  # a serializer of the user's own, or bytes that are no text: what came was valid
        return to_json_value(written)

    def _misfit(self, value: Any, problems: tuple[Mismatch, ...]) -> Misfit:
        return Misfit(expected=self.text, found=Observed.of(value, MAX_VALUE), problems=problems)


def _mismatches(error: ValidationError, value: Any) -> Iterator[Mismatch]:
    for each in error.errors(include_url=False, include_context=False)[:MAX_PROBLEMS]:
        path, here = [], value
        for step in each["loc"]:  # among the steps are the names of a union's members
            held = step in here if isinstance(here, dict) else isinstance(here, list) and step in range(len(here))
            if held:
                here = here[step]
            elif each["type"] != "missing" or step is not each["loc"][-1]:
                continue
            path.append(step)
        found = Observed(type="missing") if each["type"] == "missing" else Observed.of(here, MAX_VALUE)
        yield Mismatch(path=tuple(path), what=each["msg"][:MAX_WORDS], found=found)
