"""What can be wrong with a client's configuration."""

from __future__ import annotations

from atc.errors import UsageError


class ConfigProblem(UsageError):
    """A configuration cannot be read or edited. Nothing was written.

    Attributes:
        line: where, from 1; 0 where it concerns the whole file.
        column: where in the line, in characters from 1.
        paste: what the user can add by hand; empty if there is nothing.
    """

    def __init__(self, what: str, *, line: int = 0, column: int = 0, file: str = "") -> None:
        where = [file] if file else []
        where += [f"line {line}, column {column}"] if line else []
        super().__init__(f"{', '.join(where)}: {what}" if where else what)
        self.what, self.line, self.column = what, line, column
        self.paste = ""


def problem_at(text: str, position: int, what: str) -> ConfigProblem:
    """A problem at a position of a text."""
    line_start = text.rfind("\n", 0, position) + 1
    return ConfigProblem(what, line=text.count("\n", 0, position) + 1, column=position - line_start + 1)
