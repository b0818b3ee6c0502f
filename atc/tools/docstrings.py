"""The docstring of a user's function, read into text, parameters, return value and exceptions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from atc.tools.protocol import Status


@dataclass(frozen=True)
class Docs:
    """The parts of a docstring.

    Attributes:
        text: what the function does.
        parameters: descriptions by name.
        returns: the description of the return value.
        statuses: one for each exception that it documents.
    """

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    returns: str = ""
    statuses: tuple[Status, ...] = ()


def read_docstring(function: Callable[..., Any]) -> Docs:
    """Take apart a docstring in Google's, Numpy's or Sphinx's style, whichever it is."""
    text = inspect.getdoc(function)
    if not text:
        return Docs()
    import griffe  # only here: a toolset without docstrings need not pay for it

    quiet: Any = {style: {"warnings": False} for style in ("google", "numpy", "sphinx")}
    sections = griffe.parse_auto(griffe.Docstring(text, lineno=1), per_style_options=quiet, default="google")
    body: list[str] = []
    parameters: dict[str, str] = {}
    returns: list[str] = []
    statuses: dict[int | str, str] = {}
    for section in sections:
        if section.kind is griffe.DocstringSectionKind.text:
            body.append(section.value.strip())
        elif section.kind is griffe.DocstringSectionKind.admonition:
            body.append(f"{section.title}: {section.value.contents}".strip())
        elif section.kind is griffe.DocstringSectionKind.parameters:
            parameters |= {item.name.lstrip("*"): _one_line(item.description) for item in section.value}
        elif section.kind is griffe.DocstringSectionKind.returns:
            returns += [_one_line(item.description) for item in section.value]
        elif section.kind is griffe.DocstringSectionKind.raises:
            statuses |= dict(_status(str(item.annotation), _one_line(item.description)) for item in section.value)
    return Docs(
        "\n\n".join(filter(None, body)),
        parameters,
        " ".join(returns),
        tuple(Status(code=code, description=meaning) for code, meaning in statuses.items()),
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _status(exception: str, description: str) -> tuple[int | str, str]:
    word, colon, rest = description.partition(":")
    word = word.strip("` ")
    if exception.rpartition(".")[2] == "ToolError" and colon and word.isidentifier():
        return word, rest.strip()
    return exception, description
