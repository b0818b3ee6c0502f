"""The kept programs that the programs of one run call: joined with them as they were when the run first called them.

A file of a kept program may change while a run waits, or after its process ended. What ran is what goes on: the trace
has the text of each kept program that the run called, and a run that goes on calls that one.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from atc._host.invisible import visible
from atc._records.events import KeptText
from atc.calls.program_start import digest_of_text
from atc.programs.program import Program
from atc.result import Effect
from atc.schemas.protocol import Protocol
from atc.tools.kept import MAX_NESTED, KeptProgram
from atc.tools.tool import Tool, Toolset
from atc.traces.stores.base import StoredRun

if TYPE_CHECKING:  # a run without kept programs loads nothing of them
    from atc.programs.linking import Linked
    from atc.run.run import Run

_TEXT = TypeAdapter(KeptText)


class KeptPrograms:
    """Joins the programs of one run with the kept programs that they call."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._before: dict[str, Tool] = {}
        self._linked: dict[str, Linked] = {}
        self._texts: dict[str, KeptText] = {}

    def inner(self, tools: Toolset) -> Toolset:
        """Return the tools that the kept programs among some tools call, and that are not among these: as the agent has
        them, where it does."""
        if not any(tool.kept is not None for tool in tools.values()):
            return Toolset()
        before = Toolset(self._as_before(name, tool) for name, tool in tools.items())
        return Toolset(self._of_agent(tool) for tool in before.inner_tools.values())

    def _of_agent(self, tool: Tool) -> Tool:
        known = self._run.all_tools.get(tool.name)
        return tool if known is None or known.protocol.source.key != tool.protocol.source.key else known

    def link(self, program: Program) -> Linked | None:
        """Join a program with the kept programs that it calls; ``None`` where it calls none. To be asked in a thread.

        Raises:
            NotLinked: they cannot be joined.
        """
        if not any(tool.kept is not None for tool in self._run.tools.values()):
            return None
        from atc.programs.linking import link

        source = program.source
        if source not in self._linked:
            tools = {name: self._as_before(name, tool) for name, tool in self._run.tools.items()}
            linked = link(program, tools)
            if linked is None:
                return None
            self._linked[source] = linked
        return self._linked[source]

    def as_run(self, program: Program) -> Program:
        """Return a program with the kept programs that it was joined with as it ran; by itself where it called none."""
        linked = self._linked.get(program.source)
        return program if linked is None else linked.program

    def linked(self, source: str) -> Linked | None:
        """Return what a program was joined with as it ran; ``None`` where it called no kept program."""
        return self._linked.get(source)

    def warnings(self, given: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Return warnings by tool, those about a kept program at the calls with effects that it makes."""
        made = dict(given)
        for name, texts in given.items():
            tool = self._run.tools.get(name)
            for inner in _calls_of(tool) if tool is not None and tool.kept is not None else ():
                if inner.protocol.effect is not Effect.READ:
                    made[inner.name] = tuple(dict.fromkeys((*made.get(inner.name, ()), *texts)))
        return made

    # -- what a run that goes on calls ---------------------------------------------------------------------------------

    def first_called(self, linked: Linked) -> dict[str, KeptText]:
        """Return the kept programs that the run has not called before, for its trace."""
        found: dict[str, KeptText] = {}
        for name, tool in linked.kept.items():
            if name in self._texts or tool.kept is None:
                continue
            found[name] = {
                "program": tool.kept.program,
                "parameters": tool.protocol.parameters,
                "inner": {written: each.name for written, each in tool.inner.items()},
                "sha256": digest_of_text(tool.kept.program),
            }
            if keys := {written: [*key] for written, each in tool.inner.items() if (key := each.protocol.source.key)}:
                found[name]["keys"] = keys
            if file := tool.protocol.source.location:
                found[name]["file"] = file
        self._texts |= found
        return found

    def restore(self, stored: StoredRun) -> None:
        """Take up a run that goes on: its programs call the kept programs that they called before. In a thread.

        A kept program that the trace has no whole text of is called as it is now, if it is the same.
        """
        for _, event in stored.numbered(lambda _: None):
            if event["kind"] == "program_started":
                for name, text in _texts(event["data"].get("kept")):
                    self._texts.setdefault(name, text)

    def refuse_gone(self, program: Program, inputs: Collection[str] = ()) -> None:
        """Refuse to go on with a program that names a kept program which the run called before, and which is gone.

        The trace has its text, and yet it is not called: who takes a file away, or denies its name, takes it back.

        Args:
            program: which the run goes on with.
            inputs: names of values in its scope.

        Raises:
            NotLinked: it does; the message names the file and says what to do.
        """
        there = {*self._run.all_tools, *inputs}
        gone = {name: text for name, text in self._texts.items() if name not in there}
        named = {node.id for node in program.nodes if isinstance(node, ast.Name)} if gone and program.tree else set()
        if (name := next((name for name in gone if name in named), None)) is not None:
            from atc.programs.linking import NotLinked

            file = gone[name].get("file", "")
            raise NotLinked(
                f"the kept program {name!r}, which this run called before, is not among the tools any more"
                + (f"; its file was '{visible(file)}'. Put the file back" if file else ". Offer it again")
                + " and resume the run with the tools that it began with, or begin a new run"
            )

    def _as_before(self, name: str, tool: Tool, depth: int = 0) -> Tool:
        """Return a tool as the run called it before, if it is a kept program; a run calls one text of each."""
        if name in self._before or tool.kept is None:
            return self._before.get(name, tool)
        text = self._texts.get(name)
        if text is None or depth > MAX_NESTED:  # a deeper one is refused as it is joined
            inner = {written: self._as_before(each.name, each, depth + 1) for written, each in tool.inner.items()}
            return replace(tool, inner=inner)
        from atc.programs.linking import NotLinked

        if digest_of_text(text["program"]) != text["sha256"]:  # it was masked, or its trace is not as it was written
            if digest_of_text(tool.kept.program) != text["sha256"]:
                raise NotLinked(
                    f"the kept program {name!r} has changed since this run called it, and its trace does not have what "
                    "it was: begin a new run"
                )
            text["program"] = tool.kept.program
        keys = text.get("keys", {})
        called = text["inner"].items()
        inner = {written: self._inner(name, tool, each, keys.get(written), depth) for written, each in called}
        protocol = tool.protocol.model_copy(update={"parameters": text["parameters"]})
        made = replace(tool, protocol=protocol, kept=KeptProgram(text["program"]), inner=inner)
        self._before[name] = made
        return made

    def _inner(self, name: str, tool: Tool, called: str, key: list[str] | None, depth: int) -> Tool:
        there = [*_reached(tool), *self._run.all_tools.values()]
        of_source = (each for each in there if key is not None and each.protocol.source.key == tuple(key))
        known = next(of_source, None) or next((each for each in there if each.name == called), None)
        if known is None:
            from atc.programs.linking import NotLinked

            raise NotLinked(
                f"the kept program {name!r} called {called!r} in this run before, which is not there any more"
            )
        return self._as_before(called, known, depth + 1)


def _calls_of(tool: Tool) -> Iterator[Tool]:
    return (each for each in _reached(tool) if each.kept is None)


def _reached(tool: Tool) -> Iterator[Tool]:
    todo, seen = [*tool.inner.values()], set[int]()
    while todo:
        each = todo.pop()
        if id(each) not in seen:
            seen.add(id(each))
            todo += each.inner.values()
            yield each


def _texts(raw: object) -> Iterator[tuple[str, KeptText]]:
    for name, each in raw.items() if isinstance(raw, dict) else ():
        try:
            text = _TEXT.validate_python(each)
            Protocol(name="kept", description="", parameters=text["parameters"])
        except ValueError:  # as ValidationError is one
            continue
        yield str(name), text
