"""Follows the programs of a stored run, to say where the arguments of its writes came from where nothing needed it."""

from __future__ import annotations

from typing import Any

from atc._records.origins import data_flow
from atc._records.records import DataFlow
from atc.result import Effect


class Followed:
    """Holds what the trace of a run says so far of the program that runs.

    A program that was given values is not followed: what these are made of the trace does not say.
    """

    def __init__(self) -> None:
        self._task, self._tools, self._was_given = "", set[str](), False
        self._source = ""
        self._origins: Any = None

    def see(self, kind: str, data: dict[str, Any]) -> None:
        """Take in an event of the trace."""
        match kind:
            case "run_started":
                self._task = "\n".join((data["task"], data.get("instructions", "")))
                self._was_given = "turn" in data
            case "tools_chosen":
                self._tools |= {*data["tools"], *data.get("found", ())}
                self._origins = None
            case "program_written":
                self._was_given |= bool(data.get("inputs"))
                self._source, self._origins = data["program"], None
            case "program_ended":
                self._was_given |= bool(data.get("looked"))

    def flow_of(self, call: dict[str, Any]) -> DataFlow | None:
        """Return where the arguments of a call came from; ``None`` of a read, or where its program is not followed."""
        if call["effect"] == Effect.READ.value or self._was_given or not self._source:
            return None
        if self._origins is None:
            from atc.programs.origins.program import ProgramOrigins
            from atc.programs.program import Program

            self._origins = ProgramOrigins(Program(self._source), self._tools, task=self._task)
        return data_flow(self._origins.of_call(call["tool"], call["line"], [*call["arguments"]]))
