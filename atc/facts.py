"""Findings and faults as data: what is wrong with a program before it runs, and why one that ran gave no answer.

They carry fields alone; :mod:`atc.wording` makes sentences of them where they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PrivateAttr,
    ValidationInfo,
    computed_field,
    model_validator,
)

from atc.errors import Cause
from atc.packing import pack, unpack

Severity = Literal["error", "warning"]
FindingKind = Literal[
    "syntax", "no_program", "no_answer", "no_call", "forbidden_import", "forbidden_name", "forbidden_syntax",
    "undefined_name",
    "unknown_tool", "unknown_argument", "missing_argument", "wrong_type", "not_in_enum", "unknown_field", "unknown_key",
    "type_error", "not_paged", "invented_id", "from_memory", "name_for_id", "answer_type",
    "broken_tool", "unused_fact",
]  # fmt: skip
"""``type_error``, ``from_memory``, ``answer_type`` and ``unused_fact`` stand in records of older versions alone."""
FindingCase = Literal[
    "", "typed", "call", "frames", "dunder", "no_tool", "too_many", "literal", "record", "list", "scalar", "text",
    "container", "attribute", "position", "unset", "address", "forgotten", "files", "network", "processes", "inside",
    "await", "compared",
]  # fmt: skip
"""Which form of its kind a finding has; ``typed``, ``container`` and ``unset`` in records of older versions alone."""
FaultKind = Literal["arguments", "tool", "response", "program", "sandbox", "limit", "answer", "environment"]
FaultCase = Literal[
    "", "raised", "awaited", "findings", "warned", "signature", "not_called", "invalid_arguments", "refused", "failed",
    "went_on", "supplied", "misread", "nothing_kept", "partial", "unpacked", "memory", "time", "ended", "stopped",
    "no_answer", "no_calls", "no_success", "nothing_found", "empty", "answer_type", "asked",
    "unread", "stated", "unresolved", "impossible", "first_part", "unsaid", "tool_gone",
]  # fmt: skip
"""Which form of its kind a fault has. ``unresolved``: a warning about the program that answered, which its run did not
settle; it is a remark alone, as these are: ``tool_gone``, the run went on, and had a tool before that is not there any
more; ``first_part``, a response says that it holds a part of a list, and the program took it for the whole; ``unsaid``,
why the sentence that a program said of its answer is not used. ``impossible``: the program says that no tool can do the
task. ``partial`` stands in records of older versions alone."""


def value_from_json(value: Any, info: ValidationInfo) -> Any:
    """A value as it was before it was written as JSON: tagged bytes are bytes again."""
    return unpack(value) if info.mode == "json" else value


Value = Annotated[Any, BeforeValidator(value_from_json), PlainSerializer(pack, when_used="json")]
"""JSON values and bytes; in JSON, bytes are tagged (:mod:`atc.packing`)."""
Arguments = Annotated[dict[str, Any], BeforeValidator(value_from_json), PlainSerializer(pack, when_used="json")]


class Record(BaseModel):
    """Plain data: frozen, and without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Place(Record):
    """A place in the response of a tool. In ``path`` ``None`` stands for any item or member."""

    tool: str
    path: tuple[str | int | None, ...] = ()


class Drift(Record):
    """One way in which a response is not what its schema says: where in it, and what is wrong there."""

    path: tuple[str | int, ...]
    what: str


class Observed(Record):
    """What stands at a place of a response, in brief.

    Attributes:
        type: ``missing``, ``object``, ``list``, or ``value`` for anything else.
        keys: the first keys of an object; ``length`` counts all, or the items of a list.
        first: the first item of a list.
        value: of ``value``; long texts are cut.
    """

    type: Literal["missing", "object", "list", "value"]
    keys: tuple[str, ...] = ()
    length: int = 0
    first: Observed | None = None
    value: Value = None


class Invocation(Record):
    """A call by its tool and arguments; what is long in these is cut."""

    tool: str
    arguments: Arguments = {}


class Answered(Record):
    """A call and what it was answered, cut where it is long. ``nothing``: the response is empty."""

    invocation: Invocation
    value: Value = None
    nothing: bool = False


class Mismatch(Drift):
    """One way in which an answer is not of its type. ``found``: what stands at the path; ``None`` where it says so."""

    found: Observed | None = None


class Misfit(Record):
    """An answer that is not of the type that was asked for.

    Attributes:
        expected: that type, as an annotation.
        found: what the answer is instead.
        problems: where in the answer, and what is wrong there; the first few.
    """

    expected: str
    found: Observed
    problems: tuple[Mismatch, ...] = ()


class BodyError(Record):
    """An error that a response states in its body, though it came as a success (:mod:`atc.schemas.error_bodies`).

    Attributes:
        key: the field that states it; a program that reads it has seen the error.
        message: the service's own words, cut.
    """

    key: str
    message: str


class Replacement(Record):
    """What gives the same as a tool that broke.

    Attributes:
        tool: the one that takes its place.
        arguments: its arguments, each with the one of the broken tool that means the same; by original names.
    """

    tool: str
    arguments: tuple[tuple[str, str], ...] = ()


RepairKind = Literal[
    "respelt", "unwrapped", "joined", "nearest", "format", "wrapped", "left_out", "dropped", "default", "model"
]
"""What a repair did to arguments (RETO §3.4, Alg. 1): a key under the schema's spelling; the one fitting field, or the
one item, in place of an object or list; a list as one text; the nearest value of an enumeration; the same value in
another format; one value as a list of one; an optional ``null`` left out; an unknown key dropped; a default given;
what the model gave."""


class SameCall(Record):
    """A call of the same run that did, or may have done, what a write asks for.

    Attributes:
        number: of the call. ``tool``: the name that it had.
        in_doubt: nobody knows whether it was done.
        own: it is of the same tool, which a program may call twice. Else nobody can tell that this is another tool:
            that one is not there any more, or had this name.
        was_read: its tool was said to read alone when it was made, and nobody knows what came of it.
    """

    number: int
    tool: str
    in_doubt: bool = False
    own: bool = False
    was_read: bool = False


class ArgumentRepair(Record):
    """One change to the arguments of a call, before it was sent.

    Attributes:
        path: where, in the arguments as the program gave them.
        given: what the program gave there, cut where it is long. ``sent``: what was sent in its place.
        name: of a key that is ``respelt``, the one that was sent; of ``unwrapped``, the field that was taken.
    """

    kind: RepairKind
    path: tuple[str | int, ...]
    given: Value = None
    sent: Value = None
    name: str | None = None


class LineInput(Record):
    """What a line of a program worked with.

    Attributes:
        name: the variable that holds it; empty where the call itself stands in the line, or the line's values were
            made from it.
        call: the number of the call whose response it came from. ``place``: where in it.
    """

    name: str
    call: int
    place: Place


class Raised(Record):
    """The exception that ended a program. ``hint`` is the sandbox's advice about it.

    ``trace``: (function, line) of the program's frames, outermost first, where it was raised in a function.
    """

    type: str
    message: str
    hint: str = ""
    items: int | None = None
    trace: tuple[tuple[str, int], ...] = ()


class _Worded(Record):
    """A record whose sentences are made from its fields where they are read (:mod:`atc.wording`).

    ``message`` is serialised too. Sentences of a record that is read back are kept where its fields would give others:
    an older version may have written it.
    """

    _kept: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _read_back(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        given = dict(data) if isinstance(data, dict) else {}
        given.pop("part", None)  # a field of an older version
        texts = {name: given.pop(name) for name in cls.model_computed_fields if isinstance(given.get(name), str)}
        made = handler(given if isinstance(data, dict) else data)
        for name, text in texts.items():
            if getattr(made, name) != text:
                made._kept[name] = text
        return made

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed.

        Raises:
            TypeError: ``update`` names a sentence, which is made from the fields.
        """
        if sentences := sorted((update or {}).keys() & type(self).model_computed_fields.keys()):
            raise TypeError(f"{', '.join(sentences)} is made from the fields: change those")
        return super().model_copy(update=update, deep=deep)


class Finding(_Worded):
    """A mistake in a program, found before it ran.

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
        """What is wrong, in one sentence."""
        from atc import wording

        return self._kept.get("message") or wording.finding(self)

    @property
    def subject(self) -> tuple[object, ...]:
        """What the finding is about, without its line: equal for the same warning in another program."""
        return self.kind, self.case, self.tool, self.arguments, self.name


class Fault(_Worded):
    """A failure, traced to one tool where it came from one (ATC §3.3).

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
        value: the empty answer. Of ``first_part``, how many items there are; ``None`` where that is not said.
            Of ``unsaid``, the words in the sentence that nothing gave.
        misfit: where the answer does not have the type that was asked for.
        finding: what the check found: in a last program that never ran, or a warning about the place where this one
            failed.
        answered: a call, and its answer, that may explain the failure.
        origins: which arguments of the refused call came from which response.
        inputs: what the line worked with; the journal has the values.
        offered: tools that the program asked for, and that the next one can call.
        substitutes: if ``tool`` broke and is banned for this run: tools that give the same, for the next program.
        message: what is wrong in one sentence. ``evidence``: what the tool really answered there, or where the
            arguments came from that it refused; short text.
    """

    kind: FaultKind
    case: FaultCase = ""
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

    @computed_field  # type: ignore[prop-decorator]
    @property
    def message(self) -> str:
        """What is wrong, in one sentence."""
        from atc import wording

        return self._kept.get("message") or wording.fault(self)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def evidence(self) -> str:
        """What the tool answered there, or where refused arguments came from; short text."""
        from atc import wording

        return self._kept.get("evidence") or wording.evidence(self)


# ----------------------------------------------------------------------------------------------------------------------
# What a dry run found, as data: the calls that a real run would make, what feeds them, and how far that is known.


FeedKind = Literal["response", "derived", "same", "planned", "input", "task", "program"]


class Feed(Record):
    """Where an argument of a call with effects comes from: of one that is planned, or that the user is asked about.

    Attributes:
        argument: its name, as the tool's own document has it.
        inside: leads to the part of the argument that this is about: keys, and positions in lists; empty for all of it.
        kind: ``response``: it is a field of what a call answered. ``derived``: it was made from one. ``same``: one
            has the same value, and how it got here cannot be followed. ``planned``: a planned call will answer it, so
            nobody knows it yet. ``input``: the value of an earlier task. ``task``: the task has it. ``program``: it
            stands in the program alone.
        call: the number of that call in the run, and ``tool`` its tool; of the first three, and of ``planned``.
        path: leads to the field in the response: keys, and positions in lists.
        row: the object that has this field: its other fields, the first short ones. So ``6`` can be told for a kite.
        more: feeds of the same argument that are not named, after this one.
    """

    argument: str
    inside: tuple[str | int, ...] = ()
    kind: FeedKind
    call: int | None = None
    tool: str = ""
    path: tuple[str | int, ...] = ()
    row: Arguments = Field(default_factory=dict)
    more: int = 0


class PlannedCall(Record):
    """A call that a real run would make.

    Attributes:
        index: its number in the run (:attr:`atc.result.Call.index`).
        effect: as its tool declares it. A read is planned only where its arguments rest on a planned call.
        line: of the program; 0 where no program made it.
        arguments: what would be sent, as far as it is known now.
        unknown: the other arguments, each as the program writes it; empty text where that cannot be found.
        feeds: where arguments come from.
        notes: what was repaired, and what else a real run would say about it.
    """

    index: int
    tool: str
    effect: str
    line: int = 0
    arguments: Arguments = Field(default_factory=dict)
    unknown: dict[str, str] = Field(default_factory=dict)
    feeds: tuple[Feed, ...] = ()
    notes: tuple[str, ...] = ()


class Stop(Record):
    """Where a dry run ended before its program did: what comes after is not known.

    Attributes:
        line: of the program, from 1; 0 where that is not known. ``source_line``: its text.
        needs: the number of the planned call whose value is needed there, and ``path``: which part of it.
        reason: what else went wrong there, in the words of Python, a tool or the sandbox.
    """

    line: int = 0
    source_line: str = ""
    needs: int | None = None
    path: tuple[str | int, ...] = ()
    reason: str = ""


class DryRun(Record):
    """What a dry run found.

    Attributes:
        planned: the calls that a real run would make, in order.
        stop: where the dry run ended before its program did; ``None`` if ``planned`` is complete.
        unseen: the numbers of reads that were made after a planned call, and saw nothing of what it would change.
    """

    planned: tuple[PlannedCall, ...] = ()
    stop: Stop | None = None
    unseen: tuple[int, ...] = ()
