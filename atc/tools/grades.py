"""A tool's stub in fewer and fewer words, for prompts that have no room for all of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from atc.result import Effect
from atc.schemas.limits import limits_of
from atc.schemas.reading import Reader
from atc.tools.observed import is_observed
from atc.tools.outline import Outline, names_a_word
from atc.tools.paging import paging_line
from atc.tools.parameters import Parameter, parameters_of
from atc.tools.protocol import JsonSchema, Protocol
from atc.tools.shortened import MAX_CHOICES, MAX_ENUM, Shortener, keys_text
from atc.tools.stubs import Stub, about, guarded, named_there, observed_response, observed_returns, parameter_text
from atc.tools.types import RESERVED, TypeWriter, camel, one_line

MAX_LISTED = 40
"""Characters of the names of arguments that are not shown otherwise."""
NAME = "\ue000"
"""Stands for the tool's name where a class says how to ask for its other keys: tools that share a class share its text.
No text of a document can hold it (:func:`one_line` leaves out what cannot be printed)."""


@dataclass(frozen=True)
class Grade:
    """How much of a tool is shown.

    Attributes:
        name: what is cut: nothing (``whole``), the ``response``, the ``arguments`` too; or one ``line`` is left.
        keys: keys of its response and arguments, on average over all tools (:attr:`atc.tools.outline.Record.ranks`).
        classes: they stand in classes with types and comments; else their names stand in the docstring.
        optional: arguments that are not required and not named by the task are shown too.
        description: characters of what the tool does. ``notes``: characters of an argument's description; none for 0.
        demonstration: a program that uses it is shown.
    """

    name: str
    keys: float = 0
    classes: bool = False
    optional: bool = False
    description: int = 260
    notes: int = 120
    demonstration: bool = False


WHOLE = Grade("whole")
DEMONSTRATED = Grade("whole", demonstration=True)
"""Shown where all else has its room: a demonstration is the first that is cut."""
LADDER = (
    WHOLE,
    Grade("response", 48, classes=True, optional=True),
    Grade("response", 24, classes=True, optional=True),
    Grade("response", 24, optional=True, description=200, notes=80),
    Grade("response", 16, optional=True, description=160, notes=60),
    Grade("arguments", 16, description=120, notes=40),
    Grade("arguments", 12, description=100, notes=24),
    Grade("arguments", 10, description=80, notes=0),
    Grade("line", 8, description=60, notes=0),
    Grade("line", 5, description=50, notes=0),
    Grade("line", 3, description=40, notes=0),
    Grade("line", 1, description=30, notes=0),
)
"""From all of a tool to its name, its required arguments and what it does. Every step shows less."""


def short_stub(
    protocol: Protocol,
    grade: Grade,
    outline: Outline,
    hints: Mapping[str, str],
    words: Collection[str],
    ask: str | None = None,
    taken: Collection[str] = RESERVED,
    own: bool = False,
    *,
    pages: bool = False,
) -> Stub:
    """A tool at a grade below ``whole``.

    Args:
        protocol: the tool.
        grade: what is shown of it.
        outline: what its keys are worth; of a list of tools that it is one of.
        hints: for a parameter, where its value can be had.
        words: of the task.
        ask: the name of the tool that a program asks for the rest; ``None`` where there is none.
        taken: names that no class may have.
        own: let all classes have the tool's name before theirs.
        pages: say of a paged tool how all its pages are read, where there is room for notes.
    """
    enum = MAX_CHOICES if grade.notes else MAX_ENUM
    shortener = Shortener(outline, grade.keys, enum)
    more = f': {ask}("{NAME}")' if ask and grade.notes else ""
    parameters = parameters_of(protocol)
    shown = [p for p in parameters if p.required or grade.optional or names_a_word(p.original, p.schema, words)]
    keyless = Shortener(outline, 0, enum)
    types = shortener if grade.classes else keyless
    response = types.cut(protocol.returns, protocol.returns) if protocol.returns is not None else {}
    arguments = [_with_schema(p, types.cut(protocol.parameters, p.schema)) for p in shown]
    writer = TypeWriter(types.root, camel(protocol.name), taken=taken, shared=not own, more=more)
    returns = writer.write(response, "response")
    signature = ", ".join(parameter_text(writer, parameter) for parameter in arguments)
    keys = ""
    if not grade.classes and protocol.returns is not None:
        keys = keys_text(shortener.root, shortener.cut(protocol.returns, protocol.returns))
        returns = "Any" if keys else returns
    reader = Reader(protocol.parameters)
    notes = [_note(protocol.parameters, reader, p, grade, shortener, hints) for p in shown]
    observed = protocol.returns is not None and is_observed(protocol.returns)
    about_it = one_line(protocol.description, grade.description) or protocol.name
    lines = [about_it, *filter(None, [named_there(protocol), *notes])]
    seen = {parameter.name for parameter in shown}
    if hidden := [p.name for p in parameters if p.name not in seen]:
        lines.append(_also(hidden))
    if pages and grade.notes and (paged := paging_line(protocol)):
        lines.append(paged)
    if protocol.effect is not Effect.READ:
        writes = protocol.effect is Effect.WRITE
        lines.append("Changes data: call it once per item." if writes else "May have an effect.")
    if keys:
        lines.append(f"{observed_returns(protocol.returns) if observed else 'Response'}: {keys}")
    elif observed:
        lines.append(observed_response(protocol.returns))
    if more and (hidden or "..." in keys):
        lines.append(f"More{more}")
    arrow = f" -> {returns}" if returns != "Any" else ""
    function = "\n".join([f"def {protocol.name}({signature}){arrow}:", *_docstring(lines, grade)])
    return guarded(Stub(writer.classes, function.replace(NAME, protocol.name)), protocol.name)


def _with_schema(parameter: Parameter, schema: JsonSchema) -> Parameter:
    return replace(parameter, schema=schema)


def _briefly(parameter: Parameter, reader: Reader, limit: int) -> str:
    """The description of an argument, if it is short; else the limits of its values."""
    text = about(parameter, reader)
    if len(text) <= limit or limit >= WHOLE.notes:
        return text
    kind = parameter.schema.get("format")
    demanded = ", ".join(filter(None, [kind if isinstance(kind, str) else "", limits_of(parameter.schema)]))
    return one_line(demanded, limit)


def _also(names: list[str]) -> str:
    """The arguments that are not shown: by name, where a number is hardly shorter."""
    listed = ", ".join(names)
    return f"Also: {listed}" if len(listed) <= MAX_LISTED else f"{len(names)} more arguments"


def _docstring(lines: list[str], grade: Grade) -> list[str]:
    if grade.name == "line":
        text = " ".join(line if line.endswith((".", "…")) else f"{line}." for line in lines)
        return [f'    """{text}"""']
    return [f'    """{lines[0]}', *(f"    {line}" for line in lines[1:]), '    """']


def _note(
    root: JsonSchema,
    reader: Reader,
    parameter: Parameter,
    grade: Grade,
    shortener: Shortener,
    hints: Mapping[str, str],
) -> str | None:
    """The text for an argument: its keys if it has any, its description, and its suppliers."""
    parts = []
    if not grade.classes and (keys := keys_text(shortener.root, shortener.cut(root, parameter.schema))):
        parts.append(keys)
    if grade.notes:
        parts.append(_briefly(parameter, reader, grade.notes))
        parts.append(one_line(hints.get(parameter.original, ""), 120))
    text = "; ".join(filter(None, parts))
    return f"{parameter.name}: {text}" if text else None
