"""Tools from Python functions: the signature becomes the schema of the arguments, the docstring the description.

A parameter's type hint gives its schema (anything that pydantic can describe), the docstring its description, and the
return hint the schema of the response. Arguments reach the function as the annotated Python types; what it returns
leaves as JSON values and bytes (:mod:`atc.tools.to_json`).
"""

from __future__ import annotations

import abc
import asyncio
import functools
import inspect
import json
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar, overload

import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import CoreSchema, to_jsonable_python
from pydantic_core.core_schema import (
    DataclassField,
    DataclassSchema,
    DecimalSchema,
    EnumSchema,
    IsInstanceSchema,
    ModelField,
    ModelSchema,
    NamedTupleSchema,
    TypedDictField,
)

from atc._host.blocking import in_thread
from atc._host.loading import module_of
from atc._records.packing import holds_bytes
from atc.errors import ToolError, ToolImportError, UsageError
from atc.result import Effect
from atc.schemas.protocol import Example, JsonSchema, Protocol, Source
from atc.schemas.types import VALUE_NAMES, value_names
from atc.tools.docstrings import Docs, keys_of, read_docstring, with_modern_typeddicts
from atc.tools.to_json import schema_of, to_json, to_json_with_notes
from atc.tools.tool import AnnouncingTransport, Answered, Sending, Tool, Toolset, unannounced

MAX_MESSAGE = 20_000
"""Characters of a function's own exception that are looked at; the broker masks them and passes on fewer."""

EffectName = Literal["read", "write"]
ExampleLike = Example | Mapping[str, Any]
_F = TypeVar("_F", bound=Callable[..., Any])
_METADATA = "__atc_tool__"
_USUAL = (to_json.dispatch(object), to_json.dispatch(BaseModel))
"""How dataclasses and models become JSON where nobody registered another way."""


@dataclass(frozen=True)
class _Metadata:
    effect: EffectName | None = None
    name: str | None = None
    examples: tuple[ExampleLike, ...] = ()
    undo: str = ""
    untrusted: bool | None = None


@overload
def tool(function: _F, /) -> _F: ...
@overload
def tool(
    *,
    effect: EffectName | None = None,
    name: str | None = None,
    examples: Iterable[ExampleLike] = (),
    undo: str = "",
    untrusted: bool | None = None,
) -> Callable[[_F], _F]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: EffectName | None = None,
    name: str | None = None,
    examples: Iterable[ExampleLike] = (),
    undo: str = "",
    untrusted: bool | None = None,
) -> Any:
    """Add to a function what its signature cannot express. The function itself is not changed.

    Args:
        function: the function, if the decorator is used without parentheses.
        effect: ``"read"`` if a call changes nothing, ``"write"`` if it does; unknown when left out.
        name: the tool's name, if it is not the function's.
        examples: calls with their responses: :class:`Example` or ``{"arguments": …, "response": …}``.
        undo: the call that undoes one: ``"cancel(booking=$result.id)"``. ``$result`` is what it returned, ``$x`` its
            argument ``x``.
        untrusted: strangers write what it returns, such as mails or web pages: no such text chooses unasked where a
            call with effects goes.

    Raises:
        ToolImportError: there is no such effect.
    """
    if function is not None:
        return tool()(function)
    metadata = _Metadata(effect, name, tuple(examples), undo, untrusted)

    def mark(marked: _F) -> _F:
        if effect is not None:
            _effect(effect, _location(marked))
        setattr(marked, _METADATA, metadata)
        return marked

    return mark


def import_functions(*functions: Callable[..., Any]) -> Toolset:
    """Make a tool of each function: see :func:`tool_from_function`."""
    return Toolset(map(tool_from_function, functions))


def toolset_of(tools: Toolset | Iterable[Tool | Callable[..., Any]]) -> Toolset:
    """The toolset that was given, or one of these tools and functions.

    Raises:
        UsageError: they are neither, or none.
    """
    if isinstance(tools, Toolset):
        made = tools
    elif isinstance(tools, str | bytes) or not isinstance(tools, Iterable):
        raise UsageError(f"tools must be a Toolset or a list of functions, not {type(tools).__name__}")
    else:
        made = Toolset(tool if isinstance(tool, Tool) else tool_from_function(tool) for tool in tools)
    if not made:
        raise UsageError("an agent needs at least one tool")
    return made


def tool_from_function(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectName | Effect | None = None,
) -> Tool:
    """Make a tool of a function, a bound method or an async function.

    A sync function runs in a worker thread, with the caller's context variables. ``**kwargs`` are let through
    unchecked; the keys of ``**options: Unpack[Options]`` (PEP 692) are arguments like others. What the docstring says
    it raises becomes the tool's statuses; ``ToolError: word: …`` is entered under that word, which is the ``status``
    the error carries.

    Args:
        function: what to call.
        name: the tool's name; else the decorator's, else the function's.
        description: what the tool does; else the docstring's text.
        effect: whether a call only reads; else the decorator's, else unknown.

    Raises:
        ToolImportError: the function cannot be a tool; the message says why, where and what to do.
    """
    where = _location(function)
    _refuse_unusable(function, where)
    metadata: _Metadata = getattr(function, _METADATA, None) or _Metadata()
    docs = read_docstring(function)
    hints = _hints(function, where)
    arguments = _arguments_model(function, hints, where)
    returns = return_schema(hints, where)
    text = docs.text if description is None else description
    if docs.returns and returns is not None:
        returns = {**returns, "description": docs.returns}
    elif docs.returns and description is None:
        text = f"{text}\n\nReturns: {docs.returns}".strip()
    graded = _effect(effect or metadata.effect or Effect.UNKNOWN, where)
    try:
        protocol = Protocol(
            name=name or metadata.name or function.__name__,
            description=text,
            parameters=_parameters_schema(arguments, docs, where),
            returns=returns,
            statuses=docs.statuses,
            effect=graded,
            examples=tuple(Example.model_validate(example) for example in metadata.examples),
            untrusted=metadata.untrusted,
            source=Source(kind="function", location=where, operation=function.__name__),
        )
    except ValueError as error:
        reason = described(error) if isinstance(error, ValidationError) else str(error)
        raise ToolImportError(f"{where} cannot be a tool: {reason} (a name can be set with name=…)") from None
    return Tool(protocol, _FunctionTransport(function, arguments), undo=metadata.undo)


# The function -------------------------------------------------------------------------------------------------------


def _effect(given: object, where: str) -> Effect:
    if not isinstance(given, str) or given not in list(Effect):
        known = ", ".join(map(repr, map(str, Effect)))
        raise ToolImportError(f"{where} has the effect {given!r}: an effect is one of {known}")
    return Effect(given)


def _location(function: Any) -> str:
    return f"{module_of(function)}:{getattr(function, '__qualname__', None) or repr(function)}"


def _refuse_unusable(function: Any, where: str) -> None:
    if inspect.isclass(function):
        raise ToolImportError(f"{where} is a class, not a function: pass a function, or a bound method of an instance")
    if not inspect.isroutine(function):
        raise ToolImportError(f"{where} is not a function: write a `def` with type hints that calls it, and pass that")
    if function.__name__ == "<lambda>":
        raise ToolImportError(f"{where} is a lambda, which has no name and no type hints: write it as a `def`")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolImportError(f"{where} is a generator, but a tool gives one answer: return a list instead of yielding")


def _hints(function: Callable[..., Any], where: str) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        return {name: with_modern_typeddicts(hint) for name, hint in hints.items()}
    except Exception as error:  # a hint is any expression, so resolving one can fail in any way
        raise ToolImportError(
            f"{where} has a type hint that cannot be resolved ({type(error).__name__}: {error}): "
            "define or import the type at the top level of its module"
        ) from None


def _arguments_model(function: Callable[..., Any], hints: dict[str, Any], where: str) -> type[BaseModel]:
    """The pydantic model of the arguments. Fields are numbered: a parameter may have a name that a model reserves."""
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        raise ToolImportError(
            f"{where} has no signature that can be read: write a `def` with type hints that calls it, and pass that"
        ) from None
    fields: dict[str, Any] = {}
    extra: Literal["forbid", "allow"] = "forbid"
    for index, parameter in enumerate(parameters.values()):
        _refuse_parameter(function, parameter, index, where)
        annotation = hints.get(parameter.name, Any)
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            fields[f"p{index}"] = (annotation, _field(parameter))
        elif typing.get_origin(annotation) is typing.Unpack:  # PEP 692: the keys of a TypedDict
            for number, (hint, value) in enumerate(_unpacked(annotation, parameter.name, where)):
                fields[f"p{index}_{number}"] = (hint, value)
        else:
            extra = "allow"
    try:
        model: type[BaseModel] = create_model(
            "Arguments", __config__=ConfigDict(extra=extra, protected_namespaces=()), **fields
        )
    except (PydanticUserError, TypeError, NameError) as error:
        raise _no_schema(where, "a parameter", error) from None
    return model


def _unpacked(annotation: Any, name: str, where: str) -> Iterator[tuple[Any, Any]]:
    (keys,) = typing.get_args(annotation)
    if not typing.is_typeddict(keys) and not typing_extensions.is_typeddict(keys):
        raise ToolImportError(f"what parameter {name!r} of {where} unpacks is no TypedDict: name a TypedDict class")
    for key, (hint, required) in keys_of(keys).items():
        yield hint, Field(alias=key) if required else Field(default_factory=lambda: None, alias=key)


def _refuse_parameter(function: Callable[..., Any], parameter: inspect.Parameter, index: int, where: str) -> None:
    shown = f"parameter {parameter.name!r} of {where}"
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        raise ToolImportError(f"{shown} takes *args, but tools are called by keyword: take one list parameter instead")
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise ToolImportError(f"{shown} is positional-only, but tools are called by keyword: drop the '/' or wrap it")
    if index == 0 and parameter.name in ("self", "cls") and "." in function.__qualname__:
        raise ToolImportError(f"{where} is an unbound method: pass the bound method of an instance (`thing.method`)")
    if isinstance(parameter.default, FieldInfo):
        raise ToolImportError(f"{shown} has a Field as its default: write Annotated[type, Field(…)] = default")


def _field(parameter: inspect.Parameter) -> Any:
    if parameter.default is inspect.Parameter.empty:
        return Field(alias=parameter.name)
    default = parameter.default
    if _stands_in_a_schema(default):
        return Field(default, alias=parameter.name)
    return Field(default_factory=lambda: default, alias=parameter.name)  # the parameter is optional all the same


def _stands_in_a_schema(default: Any) -> bool:
    try:
        json.dumps(to_jsonable_python(default, bytes_mode="base64"), allow_nan=False)
    except ValueError:
        return False
    return not holds_bytes(default)


# Schemas ------------------------------------------------------------------------------------------------------------


class _PlainSchema(GenerateJsonSchema):
    """JSON Schema without the titles that only repeat a name: they cost tokens and carry nothing."""

    _written_as_usual: list[bool]
    """Of the model or dataclass whose fields are read, and those around it."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def enum_schema(self, schema: EnumSchema) -> JsonSchema:
        """The values of an enumeration, with their names: ``3`` alone does not say that it is ``HIGH``."""
        made = super().enum_schema(schema)
        members = schema["members"]
        names = {VALUE_NAMES: [each.name for each in members]}
        return made | names if value_names(made | names) else made

    def field_is_required(self, field: ModelField | DataclassField | TypedDictField, total: bool) -> bool:
        """What a function returns has the fields with a default, too: they are written out whatever their value is."""
        if self.mode == "serialization" and field["type"] != "typed-dict-field" and self._written_as_usual[-1]:
            return field.get("serialization_exclude_if") is None
        return super().field_is_required(field, total)

    def decimal_schema(self, schema: DecimalSchema) -> JsonSchema:
        """A returned decimal is a number (:mod:`atc.tools.to_json`); what a function takes may be text too."""
        return {"type": "number"} if self.mode == "serialization" else super().decimal_schema(schema)

    def named_tuple_schema(self, schema: NamedTupleSchema) -> JsonSchema:
        """A list whose places have names; what is given may be an object, too."""
        listed = super().named_tuple_schema(schema)
        names = [field["name"] for field in schema["fields"]]
        listed["prefixItems"] = [{"title": n, **item} for n, item in zip(names, listed["prefixItems"], strict=True)]
        if self.mode == "serialization":
            return {**listed, "minItems": len(names)}
        required = [field["name"] for field in schema["fields"] if field["schema"]["type"] != "default"]
        by_name = {"type": "object", "properties": dict(zip(names, listed["prefixItems"], strict=True))}
        return {"anyOf": [{**by_name, "required": required, "additionalProperties": False}, listed]}

    def is_instance_schema(self, schema: IsInstanceSchema) -> JsonSchema:
        """The schema of a class that only :func:`atc.to_json` can convert: known for tables and arrays."""
        known = schema_of(schema["cls"])
        return super().is_instance_schema(schema) if known is None else known

    def model_schema(self, schema: ModelSchema) -> JsonSchema:
        """The schema of a pydantic model; what a function returns has its fields and no others."""
        return self._closed(super().model_schema, schema)

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchema:
        """The schema of a dataclass, as that of a model."""
        return self._closed(super().dataclass_schema, schema)

    def _closed(self, make: Callable[[Any], JsonSchema], schema: ModelSchema | DataclassSchema) -> JsonSchema:
        """Say that there are no other keys, unless a derived class or a serialisation of its own may bring some."""
        as_usual = "serialization" not in schema and to_json.dispatch(schema["cls"]) in _USUAL
        self._written_as_usual.append(as_usual)
        made = make(schema)
        self._written_as_usual.pop()
        if self.mode == "serialization" and "properties" in made and as_usual and not schema["cls"].__subclasses__():
            made.setdefault("additionalProperties", False)
        return made

    def generate(self, schema: CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchema:
        self._written_as_usual = [True]
        document = super().generate(schema, mode)
        for key, definition in document.get("$defs", {}).items():
            if key.endswith(str(definition.get("title"))):
                del definition["title"]
        return document


def _parameters_schema(arguments: type[BaseModel], docs: Docs, where: str) -> JsonSchema:
    try:
        schema = arguments.model_json_schema(schema_generator=_PlainSchema)
    except PydanticUserError as error:
        raise _no_schema(where, "a parameter", error) from None
    schema.pop("title", None)
    for name, property_schema in schema.get("properties", {}).items():
        if name in docs.parameters:
            property_schema.setdefault("description", docs.parameters[name])
    return schema


def return_schema(hints: Mapping[str, Any], where: str) -> JsonSchema | None:
    """The schema of what a function returns, by the hint ``return``; ``None`` without one.

    Raises:
        ToolImportError: the hint cannot be put into a JSON Schema.
    """
    annotation = hints.get("return", Any)
    if annotation is Any:
        return None
    try:
        schema = _adapter(annotation).json_schema(mode="serialization", schema_generator=_PlainSchema)
    except (PydanticUserError, TypeError, NameError) as error:
        raise _no_schema(where, "the returned value", error) from None
    if schema.get("title") == getattr(annotation, "__name__", None):
        schema.pop("title", None)
    return schema or None


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation)
    except PydanticSchemaGenerationError:
        return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))


def _no_schema(where: str, what: str, error: Exception) -> ToolImportError:
    reason = str(error).partition("\n")[0]
    return ToolImportError(
        f"{where}: the type of {what} cannot be put into a JSON Schema ({reason}): use plain types, lists, dicts, "
        "dataclasses, TypedDicts or pydantic models, or leave the hint out"
    )


# The call -----------------------------------------------------------------------------------------------------------


class InProcessTransport(AnnouncingTransport):
    """Calls code of the user's in this process: JSON values in, what it returns out as JSON values and bytes."""

    blocks = False
    """Whether every call blocks: then all of it that is the user's runs in a worker thread."""

    @abc.abstractmethod
    def bound(self, arguments: dict[str, Any]) -> tuple[Callable[[], Any], bool]:
        """The call with its arguments, and whether it blocks: then it runs in a worker thread.

        Raises:
            ToolError: the arguments are refused; nothing of the call has happened.
        """

    @abc.abstractmethod
    def failed(self, error: BaseException) -> ToolError:
        """What an exception of the call means; an error of a tool stays the same object."""

    async def __call__(self, arguments: dict[str, Any]) -> Any:
        answered = await self.announced(arguments, unannounced)
        return answered if answered.notes else answered.value

    async def announced(self, arguments: dict[str, Any], sending: Sending) -> Answered:
        call, blocks = self.bound(arguments)
        await sending()
        # The thread is abandoned on cancellation: a run's deadline must not wait for a function that hangs.
        answer = await in_thread(functools.partial(self._made, call)) if blocks else self._made(call)
        if not isinstance(answer, Answered):
            waiting = self._awaited(answer)
            answer = await (asyncio.ensure_future(waiting) if blocks else waiting)
        return answer

    def _made(self, call: Callable[[], Any]) -> Answered | Awaitable[Any]:
        try:
            answer = call()
            return answer if inspect.isawaitable(answer) else to_answer(answer)
        except BaseException as error:  # whatever a user's function raises, the run goes on
            self._fail(error)

    async def _awaited(self, answer: Awaitable[Any]) -> Answered:
        try:
            return to_answer(await answer)
        except BaseException as error:  # as above
            self._fail(error)

    def _fail(self, error: BaseException) -> NoReturn:
        from atc.tools.bugs import is_of_host

        if is_of_host(error):
            raise error
        failure = self.failed(error)
        raise failure from (error.__cause__ if failure is error else error)


@dataclass(frozen=True)
class _FunctionTransport(InProcessTransport):
    """Calls the function: arguments in as the annotated types."""

    function: Callable[..., Any]
    model: type[BaseModel]

    @functools.cached_property
    def blocks(self) -> bool:  # type: ignore[override]
        return not inspect.iscoroutinefunction(self.function)

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        return {key: str(field.alias) for key, field in self.model.model_fields.items()}

    def bound(self, arguments: dict[str, Any]) -> tuple[Callable[[], Any], bool]:
        call = functools.partial(self.function, **self._keywords(arguments))
        return call, self.blocks

    def failed(self, error: BaseException) -> ToolError:
        return error if isinstance(error, ToolError) else failure_of(error, self.function)

    def _keywords(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            model = self.model.model_validate(arguments)
        except ValidationError as error:
            raise ToolError(described(error), status="invalid_arguments") from None
        except BaseException as error:  # a validator of the user's type; the function has not been called
            raise failure_of(error, outcome="refused") from error
        given, values = model.model_fields_set, model.__dict__
        return {name: values[key] for key, name in self._names.items() if key in given} | (model.model_extra or {})


def failure_of(
    error: BaseException,
    function: Callable[..., Any] | None = None,
    *,
    outcome: Literal["refused", "unknown"] = "unknown",
) -> ToolError:
    """The error of a tool that raised an exception of its own.

    Args:
        error: what it raised.
        function: the user's code, for whether the exception is a bug of it.
        outcome: whether the tool may have acted.
    """
    from atc.tools.bugs import is_bug

    name = type(error).__name__
    bug = function is not None and is_bug(error, function)
    return ToolError(
        f"{name}: {_words(error)}", status=name, outcome=outcome, raised=error, cause="broken" if bug else None
    )


def _words(error: BaseException) -> str:
    try:
        return str(error)[:MAX_MESSAGE]
    except BaseException:  # its __str__ is the user's too
        return "(its text cannot be had)"


def to_answer(value: Any) -> Answered:
    """Convert what a function returned to JSON values and bytes, with notes about what was changed.

    Raises:
        ToolError: it has no JSON form. The function has run, so the outcome is unknown.
    """
    if isinstance(value, Answered):  # it was converted already
        return value
    try:
        json_value, notes = to_json_with_notes(value)
    except Exception as error:  # a serializer of the user's type may raise anything
        message = f"the function returned what is no JSON value ({type(error).__name__}: {_words(error)})"
        raise ToolError(
            message, status="invalid_response", outcome="unknown", cause="bad_response", raised=error
        ) from error
    return Answered(json_value, notes=notes)


def described(error: ValidationError) -> str:
    """The findings of a validation: with their places and without the values."""
    findings = error.errors(include_url=False, include_input=False, include_context=False)
    lines = (f"{'.'.join(map(str, finding['loc']))}: {finding['msg']}".lstrip(": ") for finding in findings)
    return "; ".join(lines)[:MAX_MESSAGE]
