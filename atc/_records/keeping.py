"""Hold what is proposed where a run is to be kept as a tool: its parameters, what stays, and what speaks against it.

They have fields and no sentences: :mod:`atc.wording.keeping` makes those. A surface shows a proposal, the user changes
it, and :func:`atc.run.keeping.keep` makes the tool.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from atc._records.records import Effect, Record, Value

JsonSchema = dict[str, Any]

LiftedFrom = Literal["task", "input", "user"]
"""Why something is a parameter: it stands in the task; the program was given it as an input; the user said so."""
ConstantFrom = Literal["program", "response", "identifier", "literal"]
"""Where a constant that stays came from: the program's own text; a value that a call of the run had returned; an
identifier of one thing, which nobody guesses; of a program that somebody else gave, an argument of a call, which may be
meant as one."""
DoubtKind = Literal["remarks", "strangers", "strange"]
"""Why a program is kept only after an approval that shows it: its run ended with a warning; its author, or what it was
given, had seen text of strangers; others may have written its record."""
UnfitKind = Literal["construct", "credential", "asks", "no_tool", "check", "replay", "name", "schema"]
"""What keeps a run from being kept; :mod:`atc.wording.keeping` says each."""


class Used(Record):
    """Names where a value goes: an argument of a call that the program makes.

    Attributes:
        tool: its name. ``argument``: as programs write it. ``path``: leads to the place within it, keys alone; ``[]``
            stands for the items of a list.
        line: of the program, from 1.
    """

    tool: str
    argument: str
    path: tuple[str, ...] = ()
    line: int = 0


class Lifted(Record):
    """Describes a parameter of the tool to be: a value that the program's text or its caller had fixed.

    Attributes:
        name: as programs write it.
        value: what it was in the run.
        json_schema: of what it may be: that of the argument into which it goes, else of the value's type.
        source: why it is one.
        lines: of the program on which the value stood, from 1; none for an input.
        uses: where it goes; empty where it goes into no argument, such as a bound that something is compared with.
    """

    name: str
    value: Value
    json_schema: JsonSchema
    source: LiftedFrom = "task"
    lines: tuple[int, ...] = ()
    uses: tuple[Used, ...] = ()


class Constant(Record):
    """Describes a value of the program that goes into a call, and stays as it is.

    Attributes:
        value: the value. ``name``: what it would be called as a parameter.
        source: where it came from. ``returned_by``: of ``response``, the tool that had returned it.
        lines: of the program on which it stands, from 1.
        uses: where it goes.
    """

    name: str
    value: Value
    source: ConstantFrom = "program"
    returned_by: str = ""
    lines: tuple[int, ...] = ()
    uses: tuple[Used, ...] = ()

    @property
    def must_confirm(self) -> bool:
        """Return whether the user must say that it stays, or make it a parameter: it may hold for that run alone."""
        return self.source in ("response", "identifier")


class Doubt(Record):
    """Says why the program is kept only after an approval that shows it.

    Attributes:
        kind: of the doubt.
        names: what it is about: the cases of remarks, the tools whose text was seen.
        detail: in the words of what found it; empty where there are none.
    """

    kind: DoubtKind
    names: tuple[str, ...] = ()
    detail: str = ""


class Unfit(Record):
    """Says why a run cannot be kept as a tool.

    Attributes:
        kind: of the reason.
        line: of the program, from 1; 0 where it has no place.
        name: what it is about: a tool, a construct, the way to a value.
        detail: more, in the words of what found it.
    """

    kind: UnfitKind
    line: int = 0
    name: str = ""
    detail: str = ""


class Proposal(Record):
    """Describes the tool that a run would be kept as.

    Attributes:
        run_id: the run. ``name``: of the tool.
        about: what the tool does, in one sentence; ``of_task``: it is made of the task's own words.
        original: the run's program. ``program``: the same with parameters in the place of what is lifted.
        parameters: of the tool, in the order of the program.
        constants: what goes into calls and stays.
        returns: the schema of its value; empty where nothing is known.
        effect: the strongest of its calls'. ``tools``: those that it calls, in the order of its text.
        doubts: why a yes is needed that shows the program.
        unfit: why it cannot be kept at all; empty where it can.
    """

    run_id: str
    name: str
    about: str = ""
    of_task: bool = False
    original: str = ""
    program: str = ""
    parameters: tuple[Lifted, ...] = ()
    constants: tuple[Constant, ...] = ()
    returns: JsonSchema = Field(default_factory=dict)
    effect: Effect = Effect.READ
    tools: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    unfit: tuple[Unfit, ...] = ()

    @property
    def to_confirm(self) -> tuple[Constant, ...]:
        """Return the constants that the user must confirm."""
        return tuple(each for each in self.constants if each.must_confirm)

    @property
    def needs_yes(self) -> bool:
        """Return whether it may be kept only after an approval that shows it."""
        return bool(self.doubts or self.to_confirm)

    @property
    def unsaid(self) -> tuple[str, ...]:
        """Return the parameters that the user added and the task's words do not name: these may fix what each is."""
        added = [each.name for each in self.parameters if each.source == "user"]
        return tuple(name for name in added if self.of_task and f"`{name}`" not in self.about)
