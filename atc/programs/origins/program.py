"""Finds where the arguments of a program's calls can come from, without running it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from atc._records.origins import UNKNOWN, CallOrigins, OriginKind, Origins
from atc.programs.program import Program


class ProgramOrigins:
    """Follows the data of one program, and never misses an origin: what it cannot follow is ``unknown``.

    Args:
        program: as it runs.
        tools: the names of all tools that it may call.
        inputs: the origins of the variables that it is given, by name; one that is not named is ``task``.
        task: in the user's words: a literal that stands there is ``task``.
        text: what other literals are: ``literal``, or ``author`` where a client's model wrote the program.
    """

    def __init__(
        self,
        program: Program,
        tools: Collection[str],
        *,
        inputs: Mapping[str, Origins] | None = None,
        task: str = "",
        text: OriginKind = "literal",
    ) -> None:
        self._program, self._tools = program, tools

    def of_call(self, tool: str, line: int, arguments: Collection[str]) -> CallOrigins:
        """Return the origins of the arguments of a call.

        Args:
            tool: its name.
            line: of the program, by the program's own claim: one where no such call stands is not followed.
            arguments: their names, as the tool's protocol has them.

        Returns:
            The origins of each name, and of the parts of an argument that the program writes as a display. A call that
            the program makes under a condition has the condition's origins in each of its arguments, as ``choice``.
        """
        return dict.fromkeys(arguments, UNKNOWN)

    def of_variable(self, name: str) -> Origins:
        """Return the origins of what a module's variable may hold when the program ends, such as ``answer``."""
        return UNKNOWN
