"""Keep a good run as a tool: what its program would be as one is proposed, edited by the user, tried and written.

Nothing is called for that: the program runs in the jail once more, on the calls that were recorded, and must give the
run's own answer when it is given the run's own values (:mod:`atc.run.replay`).
"""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from atc import wording
from atc._host.blocking import in_thread
from atc._host.redaction import MASK, Redactor
from atc._host.secret_detection import looks_secret
from atc._records.keeping import Doubt, JsonSchema, Lifted, Proposal, Unfit
from atc._records.recording import Recording
from atc._records.records import NO_FAILURES, WARNINGS
from atc.errors import EnvironmentProblem, ToolImportError, UsageError
from atc.programs.check.checker import Checker
from atc.programs.feeds import distinct, leaves
from atc.programs.free_names import free_names, name_problems, names_in_use
from atc.programs.lifting import MAX_LITERALS, with_variables
from atc.programs.linking import Linked, NotLinked, link, unfit_constructs
from atc.programs.program import Program
from atc.programs.tool_parameters import Known, ToolParameters, tool_parameters
from atc.run.base import GIVEN
from atc.run.calling import program_of
from atc.run.replay import recording_of, replay
from atc.schemas.infer.outline import outline_of, vocabulary
from atc.schemas.types import EVIDENCE
from atc.schemas.validate import ensure_valid_schema, problems
from atc.tools.kept import strongest, used_tool
from atc.tools.kept_files import SUFFIX, KeptFile, name_problem, write_kept
from atc.tools.kept_tools import kept_tool
from atc.tools.tool import Tool, Toolset
from atc.traces.stores.base import StoredRun
from atc.wording import keeping as words

if TYPE_CHECKING:
    from atc.agent import Agent

MAX_ABOUT = 1_000
"""Characters of what a tool does."""
MAX_RETURNED, MAX_LEAVES = 200_000, 20_000
"""Values of all responses, and of one, that the program's own are compared with."""
_ASK_USER = "ask_user"


@dataclass(frozen=True)
class Edits:
    """What the user changes of a proposal.

    Attributes:
        parameters: by the name that is proposed: another name, or fields of its schema (``description``, ``enum`` …),
            a ``name`` among them.
        lift: values of the program, or names of constants, that become parameters.
        constants: names of parameters that stay as they were in the run.
        about: what the tool does, in place of the task's words.
    """

    parameters: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict)
    lift: Sequence[Any] = ()
    constants: Collection[str] = ()
    about: str = ""


NO_EDITS = Edits()


async def propose(agent: Agent, stored: StoredRun, name: str, edits: Edits = NO_EDITS) -> Proposal:
    """Propose what a run would be as a tool: nothing is written, and nothing is called.

    What keeps it from being one is in ``unfit``; what needs approval in ``doubts`` and ``to_confirm``.

    Raises:
        UsageError: the run has no answer that a program gave, or an edit names what is not there.
        TraceError: a line of the run's trace is damaged.
        EnvironmentProblem: not the isolation that was asked for: the program is tried in the jail.
    """
    made, recorded = await in_thread(_proposed, agent, stored, name, edits)
    if made.unfit:
        return made
    return made.model_copy(update={"unfit": tuple(await _tried(agent, made, recorded))})


async def keep(
    agent: Agent,
    proposal: Proposal,
    *,
    confirm: bool | Callable[[Proposal], bool] = False,
    into: Path | None = None,
    replace: bool = False,
) -> tuple[Tool, Path]:
    """Write a proposal as a tool; returns it, and its file.

    Args:
        confirm: the yes where one is needed (:attr:`Proposal.needs_yes`), or what asks for it.
        into: the folder; by default the data folder's.

    Raises:
        UsageError: it cannot be kept, or needs approval and has none; or a tool of that name is there.
        EnvironmentProblem: the file cannot be written.
    """
    if proposal.unfit:
        raise UsageError(words.not_kept(proposal))
    if proposal.needs_yes and not (confirm(proposal) if callable(confirm) else confirm):
        raise UsageError(words.needs_yes(proposal))
    file = _file_of(agent, proposal)
    folder = agent.settings.kept_dir if into is None else into
    there = folder / f"{proposal.name}{SUFFIX}"
    if there.exists() and not replace:
        raise UsageError(f"{there} is there already: take another name, or replace it (--force, replace=True)")
    others = Toolset(tool for name, tool in agent.tools.items() if name != proposal.name)

    def written() -> tuple[Tool, Path]:
        kept_tool(file, others)  # what it refuses is not written
        path = write_kept(file, folder, over=replace)
        return kept_tool(dataclasses.replace(file, path=path), others), path

    return await asyncio.to_thread(written)


class KeepOptions(TypedDict, total=False):
    """Names what :meth:`atc.Agent.keep` and ``akeep`` take beside a run and a name; their meaning stands there."""

    parameters: Mapping[str, str | Mapping[str, Any]] | None
    lift: Sequence[Any]
    constants: Collection[str]
    about: str
    into: str | Path | None
    confirm: bool | Callable[[Proposal], bool]
    replace: bool


async def keep_run(agent: Agent, stored: StoredRun, name: str, **options: Unpack[KeepOptions]) -> Tool:
    """Keep a run at once: :meth:`atc.Agent.keep`."""
    parameters, into = options.get("parameters") or {}, options.get("into")
    edits = Edits(parameters, options.get("lift", ()), options.get("constants", ()), options.get("about", ""))
    proposal = await propose(agent, stored, name, edits)
    confirm, replace = options.get("confirm", False), options.get("replace", False)
    kept, _ = await keep(agent, proposal, confirm=confirm, into=None if into is None else Path(into), replace=replace)
    return kept


def parameters_schema(parameters: Sequence[Lifted]) -> JsonSchema:
    """Return the schema of a tool's arguments."""
    made: JsonSchema = {"type": "object", "properties": {each.name: each.json_schema for each in parameters}}
    if parameters:
        made["required"] = [each.name for each in parameters]
    return made | {"additionalProperties": False}


def _file_of(agent: Agent, proposal: Proposal) -> KeptFile:
    tools = agent.tools
    return KeptFile(
        name=proposal.name,
        program=proposal.program.rstrip("\n") + "\n",
        description=proposal.about,
        parameters=parameters_schema(proposal.parameters),
        response=proposal.returns or None,
        uses=tuple(used_tool(each, tools[each].protocol) for each in proposal.tools),
        run=proposal.run_id,
        made=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )


# ----------------------------------------------------------------------------------------------------------------------
# What the run says.


@dataclass
class _Run:
    """What the trace of a run says beside its recording.

    Attributes:
        task: in the user's words, those of earlier tasks of its conversation among them; empty where the program was
            given. ``own``: of the run alone.
        given: somebody gave the program.
        saw: the tools whose text strangers write, and whose answers the author had seen.
        strange_inputs: the inputs that earlier runs answered.
        remarks: the cases of what its answer rests on. ``partial``: it did only a part.
        returned: what calls had returned before a value stood in a program, as text, and the tool.
        keys: the names of fields of what they returned.
    """

    task: str = ""
    own: str = ""
    given: bool = False
    saw: tuple[str, ...] = ()
    strange_inputs: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    partial: bool = False
    returned: dict[str, str] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, stored: StoredRun, run_id: str) -> _Run:
        """Read a run's trace.

        Raises:
            UsageError: it cannot be kept as a tool.
        """
        made, seen, written = cls(), dict[str, str](), set[str]()
        started: dict[str, Any] = {}
        ended: dict[str, Any] | None = None
        for event in stored.events():
            kind, data = event["kind"], event["data"]
            if kind == "run_started":
                started, ended = data, None
            elif kind == "program_written":
                made.saw = tuple(map(str, data.get("saw") or ()))
                made.strange_inputs = tuple(map(str, data.get("kept") or ()))
                texts = _constants_in(str(data.get("program", "")))
                made.returned |= {text: seen[text] for text in texts - written if text in seen}
                written |= texts
            elif kind == "call_ended" and data.get("status") in ("ok", "replayed"):
                if len(seen) < MAX_RETURNED:
                    _read(data, seen, made.keys)
            elif kind == "run_ended":
                ended = data
        if ended is None or ended.get("status") != "answered":
            status = "has no end yet" if ended is None else f"ended as {ended.get('status')}"
            raise UsageError(
                f"run {run_id} cannot be kept as a tool: it {status}, and only one that answered is known to work"
            )
        if started.get("dry_run") or started.get("applies"):
            raise UsageError(f"run {run_id} cannot be kept as a tool: keep a run that made its calls itself, no plan")
        made.given = started.get("strategy") == GIVEN
        made.own = str(started.get("task", ""))
        earlier = [str(each.get("task", "")) for each in started.get("earlier") or () if isinstance(each, dict)]
        made.task = "" if made.given else "\n".join([*earlier, made.own])
        made.partial = bool(ended.get("partial"))
        made.remarks = tuple(str(each.get("case", "")) for each in ended.get("remarks") or () if isinstance(each, dict))
        return made

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the cases of remarks with which an answer is not to be relied on before somebody looked."""
        found = [case for case in self.remarks if case in WARNINGS or case not in NO_FAILURES]
        return tuple(dict.fromkeys([*(["partial"] if self.partial else []), *found]))


def _constants_in(source: str) -> set[str]:
    program = Program(source)
    found = set()
    for node in program.nodes if program.tree is not None else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes | int | float):
            text = node.value.decode("utf-8", "replace") if isinstance(node.value, bytes) else str(node.value)
            if not isinstance(node.value, bool) and distinct(text):
                found.add(text)
    return found


def _read(call: Mapping[str, Any], seen: dict[str, str], keys: set[str]) -> None:
    value = call.get("value")
    for text, path in leaves(value, MAX_LEAVES):
        if distinct(text):
            seen.setdefault(text, str(call.get("tool", "")))
        keys.update(step for step in path if isinstance(step, str))


# ----------------------------------------------------------------------------------------------------------------------
# What it would be as a tool.


def _proposed(agent: Agent, stored: StoredRun, name: str, edits: Edits) -> tuple[Proposal, Recording]:
    run = _Run.of(stored, stored.run_id)
    _check_not_undone(stored)
    recorded = recording_of(stored)
    program = Program(recorded.program)
    protocols = {protocol.name: protocol for protocol in agent.tools.protocols}
    known = Known(
        task=run.task,
        protocols=protocols,
        inputs=recorded.inputs,
        calls=recorded.calls,
        returned=run.returned,
        keys=frozenset(run.keys),
    )
    found = tool_parameters(program, known, lift=edits.lift, constants=edits.constants, changed=edits.parameters)
    if found.unknown:
        raise UsageError(words.unknown_edits(found.unknown, found.lifted, found.constants))
    in_use = names_in_use(program, known, found)
    freed = free_names(in_use, program, protocols, {*recorded.inputs, *(each.name for each in found.lifted)})
    made = with_variables(program, found.places, found.renamed, freed.edits)
    used = _tools_of(program, agent)
    returns = _returns(recorded, program)
    about = " ".join(edits.about.split())[:MAX_ABOUT]
    unfit = [
        *_unfit_names(name, agent, name_problems(program, known, found, freed.renamed), found),
        *_unfit_program(program, agent, recorded, redactor=_redactor(agent), about=about or run.task),
        *_unfit_schemas(found.lifted, returns, redactor=_redactor(agent)),
    ]
    if found.too_many:
        unfit.append(
            Unfit(kind="construct", name=f"more than {MAX_LITERALS:,} values written out: give data as inputs")
        )
    if made is None:
        made = program
        unfit.append(Unfit(kind="construct", name="a value that stands within another"))
    if not unfit:
        unfit += _unfit_for_check(made, agent, used, found)
    return Proposal(
        run_id=stored.run_id,
        name=name,
        about=about or _about(program, run, found, used),
        of_task=not about and not run.given,
        original=program.source,
        program=made.source,
        parameters=found.lifted,
        constants=found.constants,
        returns=returns,
        effect=strongest(protocols[each].effect for each in used),
        tools=tuple(used),
        doubts=tuple(_doubts(run, stored)),
        unfit=tuple(unfit),
    ), recorded


def _check_not_undone(stored: StoredRun) -> None:
    if not stored.has_journal:
        return
    try:
        undone = stored.peek_journal().undone
    except OSError as error:
        raise EnvironmentProblem(f"the journal of run {stored.run_id} cannot be read: {error}") from None
    if found := next((undo for undo in undone.values() if undo.state != "refused"), None):
        raise UsageError(f"run {stored.run_id} cannot be kept as a tool: it was undone by run {found.run}")


def _tools_of(program: Program, agent: Agent) -> list[str]:
    names = [node for node in program.nodes if isinstance(node, ast.Name) and node.id in agent.tools]
    return [*dict.fromkeys(each.id for each in sorted(names, key=lambda each: (each.lineno, each.col_offset)))]


def _doubts(run: _Run, stored: StoredRun) -> Iterator[Doubt]:
    if run.warnings:
        yield Doubt(kind="remarks", names=run.warnings)
    if run.saw or run.strange_inputs:
        yield Doubt(kind="strangers", names=(*run.saw, *run.strange_inputs))
    if why := stored.why_strange():
        yield Doubt(kind="strange", detail=why)


def _about(program: Program, run: _Run, found: ToolParameters, used: Sequence[str]) -> str:
    if run.given:
        first = (ast.get_docstring(program.module) or "").strip() or program.source.split("\n", 1)[0]
        said = first.split("\n")[0].strip("#\"' ") if first.startswith("#") or ast.get_docstring(program.module) else ""
        return said[:MAX_ABOUT] or f"Calls {', '.join(used)}."
    text = " ".join(run.own.split())[:MAX_ABOUT]
    for each in sorted(found.lifted, key=lambda each: -len(str(each.value))):
        items = each.value if isinstance(each.value, list) else [each.value]
        escaped = [re.escape(str(item)) for item in items if not isinstance(item, bool | dict | list)]
        if escaped and len(escaped) == len(items) and each.source != "input":
            between = r"[\s,;&]{0,4}(?:(?:and|or|und|et|y)\s)?"  # a text matches it in one way alone
            text = re.sub(rf"(?<!\w){between.join(escaped)}(?!\w)", f"`{each.name}`", text, flags=re.IGNORECASE)
    return text


def _returns(recorded: Recording, program: Program) -> JsonSchema:
    if recorded.answer is not None:
        return dict(recorded.answer)
    made = outline_of([recorded.value], vocabulary([program.source])).schema_seen()
    return {key: _without_counts(each) for key, each in made.items() if key != EVIDENCE}


def _without_counts(schema: Any) -> Any:
    """Return a part of a schema without its counts: of one run they say nothing."""
    if isinstance(schema, list):
        return [_without_counts(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_counts(each) for key, each in schema.items() if key != EVIDENCE}


# ----------------------------------------------------------------------------------------------------------------------
# What keeps it from being one.


def _redactor(agent: Agent) -> Redactor:
    return Redactor(agent.settings.secrets)


def _unfit_names(name: str, agent: Agent, problems_of: Mapping[str, str], found: ToolParameters) -> Iterator[Unfit]:
    own = agent.tools.get(name)
    if own is not None and own.kept is None:
        yield Unfit(kind="name", name=name, detail="a tool has this name")
    elif problem := name_problem(name):
        yield Unfit(kind="name", name=name[:100], detail=problem)
    for each, why in problems_of.items():
        yield Unfit(kind="name", name=each, detail=why)
    for parameter in found.lifted:
        if wrong := _schema_problem(parameter):
            yield Unfit(kind="schema", name=parameter.name, detail=wrong)


def _schema_problem(parameter: Lifted) -> str:
    try:
        ensure_valid_schema(parameter.json_schema, f"the schema of {parameter.name}")
    except ToolImportError as error:
        return str(error)
    wrong = problems(parameter.json_schema, parameter.value)
    return f"{parameter.name} does not take what it was in the run: {wrong[0]}" if wrong else ""


def _unfit_program(
    program: Program, agent: Agent, recorded: Recording, *, redactor: Redactor, about: str
) -> Iterator[Unfit]:
    for construct in unfit_constructs(program):
        yield Unfit(kind="construct", line=construct.line, name=construct.construct)
    for line in sorted(_credentials(program, redactor)):
        yield Unfit(kind="credential", line=line)
    if about and _is_credential(about, redactor):
        yield Unfit(kind="credential", name="about")
    for node in program.nodes:
        if isinstance(node, ast.Name) and node.id == _ASK_USER and _ASK_USER not in agent.tools:
            yield Unfit(kind="asks", line=node.lineno)
            break
    missing = {call.tool for call in recorded.calls if not call.within} - {*agent.tools}
    for tool in sorted(missing - {_ASK_USER}):
        yield Unfit(kind="no_tool", name=tool)


def _unfit_schemas(parameters: Sequence[Lifted], returns: JsonSchema, *, redactor: Redactor) -> Iterator[Unfit]:
    for each in parameters:
        if _has_credential(each.json_schema, redactor):
            yield Unfit(kind="credential", name=each.name, detail="schema")
    if _has_credential(returns, redactor):
        yield Unfit(kind="credential", name="answer", detail="schema")


def _has_credential(schema: JsonSchema, redactor: Redactor) -> bool:
    text = json.dumps(schema, ensure_ascii=False, default=str)
    return redactor.text(text) != text or looks_secret(text)


def _credentials(program: Program, redactor: Redactor) -> set[int]:
    found = {
        node.lineno
        for node in program.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_credential(node.value, redactor)
    }
    return found | {at for at, line in enumerate(program.lines, start=1) if _is_credential(line, redactor)}


def _is_credential(text: str, redactor: Redactor) -> bool:
    return MASK in text or redactor.text(text) != text or looks_secret(text)


def _unfit_for_check(program: Program, agent: Agent, used: Sequence[str], found: ToolParameters) -> Iterator[Unfit]:
    checker = Checker([agent.tools[each].protocol for each in used], packages=True)
    for finding in checker.check(program, inputs=[each.name for each in found.lifted]):
        if finding.severity == "error":
            yield Unfit(kind="check", line=finding.line, detail=wording.finding(finding))


async def _tried(agent: Agent, made: Proposal, recorded: Recording) -> list[Unfit]:
    sandbox = agent._resources.sandbox()
    tools = {name: tool for name, tool in agent.tools.items() if name != made.name}
    values = {each.name: each.value for each in made.parameters}
    source, inputs = program_of(made.name, values, {*tools, *agent.tools.inner_tools, made.name})

    def joined() -> Linked | None:
        tool = kept_tool(_file_of(agent, made), Toolset(tools.values()))
        return link(Program(source), {**tools, made.name: tool})

    try:
        linked = await asyncio.to_thread(joined)
    except (NotLinked, ToolImportError) as error:
        return [Unfit(kind="check", detail=str(error))]
    assert linked is not None
    replayed = await replay(recorded, sandbox=sandbox, program=linked.source, hoisted=linked.hoisted, inputs=inputs)
    lines = [  # of a call that was not made it is the recorded one
        each.line if each.kind == "not_made" else linked.line_in_kept(each.line) for each in replayed.differences
    ]
    return [
        Unfit(kind="replay", line=line, name=each.tool, detail=words.difference(each))
        for each, line in zip(replayed.differences, lines, strict=True)
    ]
