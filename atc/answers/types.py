"""The type that an answer shall have: opened from what the user gave, and values held to it.

A type of Python is pydantic's to validate, in its JSON mode: programs hand over JSON values, and bytes. What loses
nothing is coerced: ``"3"`` is an ``int``, ``3.5`` is none. A JSON Schema coerces nothing.
"""

from __future__ import annotations

import enum
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pydantic_core
from pydantic import BeforeValidator, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from atc.answers.stub import AnswerStub, answer_stub
from atc.calls.json_values import to_json_value
from atc.errors import AtcError, UsageError
from atc.facts import Drift, Misfit
from atc.loading import load_named, names_code
from atc.packing import holds_bytes
from atc.schemas.validate import ensure_valid_schema, problems
from atc.tools.protocol import JsonSchema

MAX_SCHEMA = 1_000_000
"""Characters of a type's JSON Schema."""
MAX_PROBLEMS = 3
"""Ways in which a value does not fit that are told."""
MAX_WORDS = 200
FORMS = "number, text, list, yes/no, record, FILE.json (a JSON Schema), MODULE:TYPE or FILE.py:TYPE"


def _no_switch(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("number", "Input should be a valid number")
    return value


_NAMED: dict[str, Any] = {
    "number": Annotated[int | float, BeforeValidator(_no_switch)],
    "text": str,
    "list": list[Any],
    "yes/no": bool,
    "record": dict[str, Any],
}
_NOT_PREDICTED = frozenset({
    "function-before", "function-wrap", "function-plain", "call", "arguments", "arguments-v3", "is-instance",
    "is-subclass", "callable", "custom-error", "json", "lax-or-strict", "json-or-python", "chain", "generator",
})  # fmt: skip
"""Parts of a pydantic schema that may take what the type's JSON Schema does not say."""
_NOT_VALIDATION = frozenset({"serialization", "metadata", "cls", "ref", "function", "default"})


@dataclass(frozen=True)
class Fitted:
    """A value that fits: ``value`` as the type has it, and ``plain``, its JSON values and bytes."""

    value: Any
    plain: Any


class AnswerType:
    """The type of an answer. Open one with :func:`open_answer`.

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
        """The type as an annotation, in the words of :attr:`stub`: ``list[City]``."""
        return self.stub.annotation

    @cached_property
    def stub(self) -> AnswerStub:
        """The type as a model is shown it; bounded."""
        return answer_stub(self.schema)

    def record(self) -> dict[str, Any]:
        """What a trace holds of it, for a resume: see :func:`reopened`."""
        return {"type": self.text, "schema": self.schema, "opened_by": self.opened_by}

    def same_as(self, other: AnswerType) -> bool:
        """Whether both say the same of a value, as far as a JSON Schema can say it."""
        return self.schema == other.schema

    def fit(self, value: Any) -> Fitted | Misfit:
        """Hold a value to the type.

        Args:
            value: JSON values and bytes.
        """
        if self._adapter is None:
            found = problems(self.schema, value)
            told = tuple(Drift(path=p.path, what=p.message[:MAX_WORDS]) for p in found[:MAX_PROBLEMS])
            return self._misfit(value, told) if told else Fitted(value, value)
        try:
            if holds_bytes(value):
                made = self._adapter.validate_python(value)
            else:
                made = self._adapter.validate_json(pydantic_core.to_json(value))
        except ValidationError as error:
            return self._misfit(value, tuple(_told(error, value)))
        except Exception as error:  # a validator of the user's own raised something else
            return self._misfit(value, (Drift(path=(), what=f"{type(error).__name__}: {error}"[:MAX_WORDS]),))
        try:
            return Fitted(made, self._plain(made, value))
        except ValueError as error:  # `"nan"` is a float to pydantic
            return self._misfit(value, (Drift(path=(), what=f"it has no JSON form: {error}"[:MAX_WORDS]),))

    def _plain(self, made: Any, value: Any) -> Any:
        """The JSON form of a typed value: as pydantic writes it where that is read back, else as it came.

        Raises:
            ValueError: it holds what JSON has not.
        """
        if holds_bytes(value):
            return value
        assert self._adapter is not None
        try:
            written = self._adapter.dump_python(made, mode="json", by_alias=True, round_trip=True, warnings=False)
            self._adapter.validate_json(pydantic_core.to_json(written))
        except Exception:
            return value  # a serializer of the user's own, or bytes that are no text: what came was valid
        return to_json_value(written)

    def _misfit(self, value: Any, told: tuple[Drift, ...]) -> Misfit:
        return Misfit(expected=self.text, found=kind_of(value), problems=told)


def open_answer(given: Any) -> AnswerType:
    """The type of an answer, from a type of Python or, as text, from what the command line takes.

    Args:
        given: any type that pydantic validates and that has a JSON Schema; one of the words ``number``, ``text``,
            ``list``, ``yes/no`` and ``record``; ``FILE.json``; ``MODULE:TYPE`` or ``FILE.py:TYPE``, which is imported.

    Raises:
        UsageError: it is none of these; the message names the reason.
    """
    if isinstance(given, AnswerType):
        return given
    if not isinstance(given, str):
        return _of_type(given, _name_of(given))
    word = given.strip()
    if word in _NAMED:
        opened = _of_type(_NAMED[word], word, word)
        opened.predicted = True  # the one validator of ours, that of a number, refuses more than the schema
        return opened
    if word.endswith(".json"):
        return AnswerType(_read_schema(Path(word)), opened_by=word)
    if names_code(word):
        found = load_named(word)
        if found is None or isinstance(found, str | bool):
            raise UsageError(f"answer={word!r} names no type, but {found!r:.60}")
        return found if isinstance(found, AnswerType) else _of_type(found, word, word)
    raise UsageError(f"answer={word!r:.100} is no type: give {FORMS}; in Python a type itself, such as list[int]")


def reopened(record: dict[str, Any]) -> AnswerType:
    """The type that a stored run was begun with.

    A word or name is opened again. Where the code behind it is gone or says something else now, and for a type that
    was given as an object, the JSON Schema in the trace holds the values, which stay JSON.
    """
    stored = AnswerType(record["schema"], opened_by=record.get("opened_by"))
    if stored.opened_by is not None and not stored.opened_by.endswith(".json"):
        try:
            opened = open_answer(stored.opened_by)
        except AtcError:
            return stored
        return opened if opened.same_as(stored) else stored
    return stored


def kind_of(value: Any) -> str:
    """What a JSON value is, in a few plain words."""
    match value:
        case None:
            return "None"
        case bool():
            return str(value)
        case int() | float():
            return f"the number {value!r:.40}"
        case str():
            return f"the text {value[:60]!r}{' …' if len(value) > 60 else ''}"
        case bytes():
            return "bytes"
        case list():
            return f"a list of {len(value)}" if value else "an empty list"
        case dict():
            keys = ", ".join(f"{key[:40]!r}" for key in list(value)[:8])
            return f"a dict with the keys {keys}{', …' if len(value) > 8 else ''}" if value else "an empty dict"
    return type(value).__name__


def _of_type(given: Any, name: str, opened_by: str | None = None) -> AnswerType:
    if given is None or isinstance(given, bool | int | float | str | bytes | list | dict | TypeVar):
        raise UsageError(f"answer={given!r:.60} is no type: give a type such as int or list[City]; or {FORMS}")
    if inspect.isroutine(given):
        raise UsageError(f"answer={name:.100} is a function, not a type: give a type such as int or list[City]")
    try:
        adapter = TypeAdapter(given)
        adapter.rebuild(raise_errors=True)
        schema = adapter.json_schema(mode="validation")
        text = json.dumps(schema)
        schema = json.loads(text)  # plain, and nobody else's
    except (PydanticUserError, pydantic_core.SchemaError, TypeError, ValueError, NameError, RecursionError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")[:300]
        raise UsageError(
            f"answer={name:.100} cannot be the type of an answer, for it has no JSON form: {reason}"
        ) from None
    if len(text) > MAX_SCHEMA:
        raise UsageError(f"answer={name:.100} is too large: its JSON Schema has more than {MAX_SCHEMA:,} characters")
    _checked_schema(schema, f"answer={name:.100}")
    return AnswerType(schema, adapter, opened_by, _is_predicted(adapter.core_schema))


def _read_schema(path: Path) -> JsonSchema:
    try:
        if path.stat().st_size > MAX_SCHEMA:
            raise UsageError(f"{path} is too large for the type of an answer: at most {MAX_SCHEMA:,} bytes")
        schema = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}: answer takes {FORMS}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(schema, dict):
        raise UsageError(f"{path} holds no JSON Schema, which is an object")
    return _checked_schema(schema, str(path))


def _checked_schema(schema: JsonSchema, what: str) -> JsonSchema:
    try:
        ensure_valid_schema(schema, what)
    except AtcError as error:
        raise UsageError(str(error)) from None
    return schema


def _is_predicted(core: Any) -> bool:
    todo, seen = [core], set()
    while todo:
        part = todo.pop()
        if id(part) in seen or not isinstance(part, dict | list | tuple):
            continue
        seen.add(id(part))
        if not isinstance(part, dict):
            todo += part
            continue
        if (
            part.get("type") in _NOT_PREDICTED
            or part.get("coerce_numbers_to_str")
            or (part.get("type") == "enum" and _takes_others(part["cls"]))
            or part.get("on_error") in ("default", "omit")
        ):
            return False
        todo += [value for key, value in part.items() if key not in _NOT_VALIDATION]
    return True


def _takes_others(cls: type[enum.Enum]) -> bool:
    """Whether an enumeration makes something of values that are none of its own."""
    return cls._missing_.__func__ is not enum.Enum._missing_.__func__  # type: ignore[attr-defined]


def _told(error: ValidationError, value: Any) -> Iterator[Drift]:
    """The first ways in which a value does not fit, at places of the value."""
    for each in error.errors(include_url=False, include_context=False)[:MAX_PROBLEMS]:
        path, here = [], value
        for step in each["loc"]:  # among the steps are the names of a union's members
            held = step in here if isinstance(here, dict) else isinstance(here, list) and step in range(len(here))
            if held:
                here = here[step]
            elif each["type"] != "missing" or step is not each["loc"][-1]:
                continue
            path.append(step)
        missing = each["type"] == "missing"
        what = "it is missing" if missing else f"{each['msg']}, not {kind_of(here)}" if path else each["msg"]
        yield Drift(path=tuple(path), what=what[:MAX_WORDS])


def _name_of(given: Any) -> str:
    return given.__qualname__ if isinstance(given, type) or inspect.isroutine(given) else repr(given)
