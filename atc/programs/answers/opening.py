"""The type of an answer, opened from what the user gave: a type of Python, a word, a file, a name; or from a trace."""

from __future__ import annotations

import difflib
import enum
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pydantic_core
from pydantic import BaseModel, BeforeValidator, PydanticUserError, TypeAdapter
from pydantic_core import PydanticCustomError

from atc._host.loading import load_named, names_code
from atc.errors import AtcError, UsageError
from atc.programs.answers.types import AnswerType
from atc.schemas.protocol import JsonSchema
from atc.schemas.validate import ensure_valid_schema
from atc.tools.docstrings import with_modern_typeddicts

MAX_SCHEMA = 1_000_000
"""Characters of a type's JSON Schema."""
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
_MEANT = {
    "int": "number", "integer": "number", "float": "number", "str": "text", "string": "text", "array": "list",
    "tuple": "list", "set": "list", "bool": "yes/no", "boolean": "yes/no", "dict": "record", "object": "record",
}  # fmt: skip
"""Other languages' words for types, and Python's: by each, the word that is taken."""
_NOT_PREDICTED = frozenset({
    "function-before", "function-wrap", "function-plain", "call", "arguments", "arguments-v3", "is-instance",
    "is-subclass", "callable", "custom-error", "json", "lax-or-strict", "json-or-python", "chain", "generator",
    "complex", "named-tuple",
})  # fmt: skip
"""Parts of a pydantic schema that may take what the type's JSON Schema does not say."""
_NOT_VALIDATION = frozenset({"serialization", "metadata", "cls", "ref", "function", "default"})
_NOTES = frozenset({
    "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
})  # fmt: skip
"""Keywords of a JSON Schema that hold no value to anything."""
_NOT_JSON = frozenset({"python_schema", "strict_schema"})


def open_answer(given: Any) -> AnswerType:
    """Return the type of an answer, from a type of Python or, as text, from what the command line takes.

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
    raise UsageError(
        f"answer={word!r:.100} is no type: {_meant(word)}give {FORMS}; in Python a type itself, such as list[int]"
    )


def _meant(word: str) -> str:
    name = word.casefold()
    near = _MEANT.get(name.partition("[")[0]) or next(iter(difflib.get_close_matches(name[:50], _NAMED, 1)), "")
    return f"did you mean {near!r}? Else " if near else ""


def reopened(record: dict[str, Any]) -> AnswerType:
    """Return the type that a stored run was begun with.

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


def resumed(run_id: str, record: dict[str, Any] | None, given: Any, default: AnswerType | None) -> AnswerType | None:
    """Return the type that a stored run goes on with: the one that it was begun with.

    Args:
        run_id: the run.
        record: what its trace holds of the type; ``None`` where it was begun without one.
        given: what the user gives for the resume.
        default: the type of the agent, which is used where it is the same.

    Raises:
        UsageError: another type is given.
    """
    before = reopened(record) if record else None
    known = open_answer(given) if given is not None else default
    if given is not None and known is not None and (before is None or not known.same_as(before)):
        was = f"answer={before.opened_by or before.text}" if before is not None else "no type of answer"
        raise UsageError(f"run {run_id} was begun with {was}: it cannot go on with another")
    return known if before is not None and known is not None and known.same_as(before) else before


def _of_type(given: Any, name: str, opened_by: str | None = None) -> AnswerType:
    if given is None or isinstance(given, bool | int | float | str | bytes | list | dict | TypeVar):
        raise UsageError(f"answer={given!r:.60} is no type: give a type such as int or list[City]; or {FORMS}")
    if inspect.isroutine(given):
        raise UsageError(f"answer={name:.100} is a function, not a type: give a type such as int or list[City]")
    try:
        adapter = TypeAdapter(with_modern_typeddicts(given))
        adapter.rebuild(raise_errors=True)
        schema = adapter.json_schema(mode="validation")
        text = json.dumps(schema)
        schema = json.loads(text)  # plain, and nobody else's
    except (PydanticUserError, pydantic_core.SchemaError, TypeError, ValueError, NameError, RecursionError) as error:
        reason = str(error).partition("\n")[0].partition(". Set `arbitrary_types")[0].rstrip(".")[:300]
        raise UsageError(
            f"answer={name:.100} cannot be the type of an answer, for it has no JSON form: {reason}"
        ) from None
    if (reason := _refused(adapter.core_schema)) or given is BaseModel:
        raise UsageError(f"answer={name:.100} cannot be the type of an answer: {reason or 'give a model of your own'}")
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


def _parts_of(core: Any, left_out: frozenset[str]) -> Iterator[dict[str, Any]]:
    todo, seen = [core], set()
    while todo:
        part = todo.pop()
        if id(part) in seen or not isinstance(part, dict | list | tuple):
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            yield part
            todo += [value for key, value in part.items() if key not in left_out]
        else:
            todo += part


def _is_predicted(core: Any) -> bool:
    return not any(
        part.get("type") in _NOT_PREDICTED
        or part.get("coerce_numbers_to_str")
        or part.get("on_error") in ("default", "omit")
        or (part.get("type") == "enum" and _takes_others(part["cls"]))
        or _says_otherwise(part)
        for part in _parts_of(core, _NOT_VALIDATION)
    )


def _says_otherwise(part: dict[str, Any]) -> bool:
    """Return whether the user's own code or words stand in a part's JSON Schema, in place of what pydantic takes."""
    about = part.get("metadata") or {}
    config = getattr(part.get("cls"), "model_config", None) or {}
    written = (about.get("pydantic_js_updates"), about.get("pydantic_js_extra"), config.get("json_schema_extra"))
    return (
        bool(about.get("pydantic_js_annotation_functions"))
        or any(each and not (isinstance(each, dict) and each.keys() <= _NOTES) for each in written)
        or any(not str(made.__module__).startswith("pydantic.") for made in about.get("pydantic_js_functions", ()))
    )


def _refused(core: Any) -> str:
    for part in _parts_of(core, _NOT_VALIDATION | _NOT_JSON):
        if part.get("type") in ("is-instance", "is-subclass"):
            return f"no JSON value is one of {part.get('cls')!r:.100}"
        if part.get("type") == "generator":
            return "its items can be read only once: give a list"
        called = part.get("function")
        validator = called.get("function") if isinstance(called, dict) else None
        if getattr(validator, "__name__", "") == "import_string":
            return "a program's value would name code to import here"
    return ""


def _takes_others(cls: type[enum.Enum]) -> bool:
    """Return whether an enumeration makes something of values that are none of its own."""
    return cls._missing_.__func__ is not enum.Enum._missing_.__func__  # type: ignore[attr-defined]


def _name_of(given: Any) -> str:
    return given.__qualname__ if isinstance(given, type) or inspect.isroutine(given) else repr(given)
