"""Findings and faults: what is wrong with a program before it runs, and why one that ran gave no answer.

They carry fields alone; :mod:`atc.wording` makes their sentences when they are read.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, computed_field, model_validator

from atc import wording
from atc._records.records import (
    Answered,
    Drift,
    FaultCase,
    FaultKind,
    FindingCase,
    FindingKind,
    Invocation,
    LineInput,
    Misfit,
    Observed,
    Place,
    PlanDifference,
    Raised,
    Record,
    Replacement,
    Severity,
    Value,
    is_empty,
)
from atc.errors import Cause


class _Worded(Record):
    """Is a record whose sentences are made from its fields (:mod:`atc.wording`): serialised, and not read back."""

    @model_validator(mode="before")
    @classmethod
    def _without_sentences(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {name: value for name, value in data.items() if name not in cls.model_computed_fields}


class Finding(_Worded):
    """Describes a mistake in a program, found before it ran.

    Attributes:
        kind: what is wrong; ``case`` is its form.
        severity: ``error``: no run of the program could succeed. ``warning``: it may be right, so it runs; the warning
            goes with its failure, or into the question before a write that depends on it.
        line: line of the program, from 1; 0 if the finding is about the whole program.
        tool: the tool whose call or response it is about.
        arguments: the parameters of ``tool`` that it is about. ``sources``: for each, what can supply it.
        name: what the program has there and should not: a name, key, module or argument.
        known: what there is instead: the keys of an object, the parameters of a tool.
        place: the part of a response that ``name`` is looked up in, or that is given as an argument.
        expected: the types that are wanted. ``found``: the type, or an example, of what is given.
        value: a literal that is given.
        reason: why, in the words of Python's parser or the schema validator.
        source_line: the program's text there.
        instead: names and expressions that may be meant.
        message: all that in one sentence, for people and for the model.
    """

    kind: FindingKind
    case: FindingCase = ""
    severity: Severity = "error"
    line: int = 0
    tool: str | None = None
    arguments: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    name: str | int = ""
    known: tuple[str, ...] = ()
    place: Place | None = None
    expected: tuple[str, ...] = ()
    found: str = ""
    value: Value = None
    reason: str = ""
    source_line: str = ""
    instead: tuple[str, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def message(self) -> str:
        """Say what is wrong, in one sentence."""
        return wording.finding(self)

    @property
    def subject(self) -> tuple[object, ...]:
        """Return what the finding is about, without its line: equal for the same warning in another program."""
        return self.kind, self.case, self.tool, self.arguments, self.name


class Fault(_Worded):
    """Describes a failure, traced to one tool where it came from one (ATC §3.3).

    Attributes:
        kind: ``arguments`` (a call was refused for them), ``tool`` (it failed), ``response`` (its answer was not what
            the program took it for), ``program``, ``sandbox``, ``limit``, ``answer`` (none, empty, resting on no
            call), or ``environment`` (the model failed, or the run was stopped from outside). ``case`` is its form.
        tool: the tool it is traced to; ``None`` when the program alone is at fault.
        call: the number of that call in the run (:attr:`Call.index`).
        line: line of the program, from 1; 0 when unknown. ``source_line`` is its text.
        by: how it was traced: ``structure`` or ``model``.
        cause: why no other program can help (:data:`atc.errors.Cause`); the run has ended with it.
        hint: what the user can do about it; never shown to a model.
        traceback: the file with the full traceback, where the tool is a function of the user's that raised; readable by
            its owner alone, for it may hold anything. ``None`` where runs are not kept.
        invocation: the call that was refused or failed.
        speaker: who refused or failed it; ``reason`` holds their words, ``status`` their status.
        idle: the program uses nothing of what that call returns.
        raised: the exception that ended the program.
        place: the part of a response that is at fault. ``observed`` is what stands there, ``key`` what was looked up
            in it, ``drift`` where it is not what its schema says. Of ``signature``, ``key`` is the argument.
        value: the empty answer. Of ``first_part`` and ``first_few``, how many items there are; ``None`` where that is
            not said. Of ``unsaid``, the words in the sentence that nothing gave.
        misfit: where the answer does not have the type that was asked for.
        finding: what the check found: in a last program that never ran, or a warning about the place where this one
            failed.
        answered: a call, and its answer, that may explain the failure.
        origins: which arguments of the refused call came from which response.
        inputs: what the line worked with; the journal has the values.
        offered: tools that the program asked for, and that the next one can call.
        substitutes: if ``tool`` broke and is banned for this run: tools that give the same, for the next program.
        difference: how the call is not the one that the plan has there, which is applied.
        within: the kept program in which it happened. ``line`` is then the line that called it, and ``kept_line`` the
            one of the kept program's own text, 0 when unknown.
        calls_made: how many calls the program made. ``calls_finished``: those that succeeded, and are in the journal.
        message: what is wrong in one sentence. ``evidence``: what the tool really answered there, or where the
            arguments came from that it refused; short text.
    """

    kind: FaultKind
    case: FaultCase = FaultCase.PLAIN
    tool: str | None = None
    call: int | None = None
    line: int = 0
    source_line: str = ""
    by: Literal["structure", "model"] = "structure"
    cause: Cause | None = None
    hint: str = ""
    traceback: str | None = None
    invocation: Invocation | None = None
    speaker: Literal["tool", "broker", "python", "sandbox"] | None = None
    reason: str = ""
    status: int | str | None = None
    idle: bool = False
    raised: Raised | None = None
    place: Place | None = None
    observed: Observed | None = None
    key: str | None = None
    drift: Drift | None = None
    value: Value = None
    misfit: Misfit | None = None
    finding: Finding | None = None
    answered: Answered | None = None
    origins: tuple[tuple[str, Place], ...] = ()
    inputs: tuple[LineInput, ...] = ()
    offered: tuple[str, ...] = ()
    substitutes: tuple[Replacement, ...] = ()
    difference: PlanDifference | None = None
    within: str = Field(default="", exclude_if=is_empty)
    kept_line: int = Field(default=0, exclude_if=is_empty)
    calls_made: int = 0
    calls_finished: int = 0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def message(self) -> str:
        """Say what is wrong, in one sentence."""
        return wording.fault(self)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def evidence(self) -> str:
        """Say what the tool answered there, or where refused arguments came from; short text."""
        return wording.evidence(self)
