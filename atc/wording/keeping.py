"""Sentences about a run that is kept as a tool: its parameters, what stays, what needs approval, what refuses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atc._host.invisible import visible
from atc._records.keeping import Constant, Doubt, JsonSchema, Lifted, Proposal, Unfit, Used
from atc._records.recording import Difference
from atc._records.records import Effect
from atc.schemas.types import OBSERVED
from atc.wording.abridged import abridged
from atc.wording.parts import short

_SHOWN = 80
"""Characters of a value."""
_MANY = 5
"""Reasons that a message gives."""


def value(given: object) -> str:
    """A value as a program writes it, shortened."""
    return visible(str(abridged(given, _SHOWN).text))


def used(uses: Sequence[Used]) -> str:
    """Where a value goes: ``get_weather(city=…)``."""
    named = dict.fromkeys(f"{use.tool}({'.'.join((use.argument, *use.path))}=…)" for use in uses)
    texts = [*named][:3]
    return ", ".join(texts) + (" …" if len(named) > len(texts) else "")


def signature(proposal: Proposal) -> str:
    """The tool as a program calls it: ``rain_days(city: string, days: integer)``."""
    given = ", ".join(f"{each.name}: {type_of(each.json_schema)}" for each in proposal.parameters)
    return f"{proposal.name}({given})"


def type_of(schema: JsonSchema) -> str:
    """The JSON type that a schema names; ``any`` where it names none."""
    named = schema.get("type", schema.get(OBSERVED, "any"))
    text = " or ".join(map(str, named)) if isinstance(named, list) else str(named)
    items = schema.get("items")
    return f"list of {type_of(items)}" if named == "array" and isinstance(items, dict) else text


def effect(proposal: Proposal) -> str:
    """What its calls do, and which tools they are of."""
    what = {Effect.READ: "reads", Effect.WRITE: "writes", Effect.UNKNOWN: "may write"}[proposal.effect]
    return f"{what}; calls {', '.join(proposal.tools) or 'nothing'}"


def lifted(parameter: Lifted) -> str:
    """Why something is a parameter, and where it goes."""
    why = {
        "task": "it stands in the task",
        "input": "the program was given it",
        "user": "you said so",
    }[parameter.source]
    goes = used(parameter.uses)
    return f"{why}; goes into {goes}" if goes else why


def constant(each: Constant) -> str:
    """Why something that stays is shown, and where it goes."""
    why = {
        "program": "it does not stand in the task",
        "literal": "the program has it written out",
        "identifier": "it identifies one thing: it may hold for that run alone",
        "response": f"{each.returned_by} had returned it: it may hold for that run alone",
    }[each.source]
    goes = used(each.uses)
    return f"{why}; goes into {goes}" if goes else why


_REMARKS = {
    "partial": "it did only a part",
    "unresolved": "a warning about its program was not settled",
    "first_part": "its answer rests on the first part of a list",
}


def unsaid(proposal: Proposal) -> str:
    """That the task's words may fix what a parameter is now; empty where they name each."""
    named = ", ".join(f"`{name}`" for name in proposal.unsaid)
    return f"what it does is said without {named}: if its words fix that, say it with --about" if named else ""


def doubt(each: Doubt) -> str:
    """Why a yes is needed."""
    match each.kind:
        case "remarks":
            said = [_REMARKS.get(name, f"a failure was caught ({name or 'plain'})") for name in each.names]
            return f"the run ended with a warning: {', '.join(said)}"
        case "strangers":
            return f"its author had seen text that strangers write, of {', '.join(each.names)}"
        case _:
            return each.detail


def unfit(each: Unfit) -> str:
    """Why a run cannot be kept, and what to do."""
    at = f"line {each.line}: " if each.line else ""
    match each.kind:
        case "construct":
            return f"{at}a kept program cannot have {each.name}: it runs within the program that calls it"
        case "credential" if each.detail == "schema":
            return f"a credential stands in the schema of {visible(each.name)}: say it without one"
        case "credential" if each.name == "about":
            return "a credential stands in what the tool does: say it otherwise (--about, about=)"
        case "credential":
            return f"{at}a credential stands in the program: give it to the tool instead, and run it again"
        case "asks":
            return f"{at}the program asks the user, and a tool cannot: give what it asks for as a value of the task"
        case "no_tool":
            return f"the program calls {each.name}, which is not among the tools: name where it is (--tools)"
        case "name":
            return f"the name {each.name!r} is not free: {each.detail}"
        case "replay":
            return f"{at}on the recorded calls it does not do what it did: {each.detail}"
        case _:
            return f"{at}{each.detail}"


def not_kept(proposal: Proposal) -> str:
    """Why a run is not kept as a tool."""
    return f"run {proposal.run_id} cannot be kept as {proposal.name}: {_some(map(unfit, proposal.unfit))}"


def needs_yes(proposal: Proposal) -> str:
    """Why a run is not kept without approval, and how to give it."""
    reasons = [doubt(each) for each in proposal.doubts]
    reasons += [f"{value(each.value)}: {constant(each)}" for each in proposal.to_confirm]
    how = "look at its program, then say so: confirm=True or a function (agent.keep), --yes and --confirm (atc)"
    return f"run {proposal.run_id} is kept only after an approval that shows it: {_some(reasons)}; {how}"


def needs_terminal(proposal: Proposal, reasons: Sequence[str], values: Sequence[str]) -> str:
    """Why a run is not kept where nobody can be asked, and how it can be."""
    how = "run it at a terminal, where you see its program"
    if values and not proposal.doubts:
        how += f"; or say what stays ({' '.join(f'--confirm {each}' for each in values[:_MANY])}) and --yes"
    return f"run {proposal.run_id} is kept only after an approval that shows it: {_some(reasons)}; {how}"


def unknown_edits(unknown: Sequence[str], parameters: Sequence[Lifted], constants: Sequence[Constant]) -> str:
    """Which edits name nothing, and what there is."""
    named = ", ".join(repr(visible(each[:100])) for each in unknown[:_MANY])
    there = [each.name for each in parameters]
    stays = [f"{each.name} ({value(each.value)})" for each in constants]
    known = f"parameters: {', '.join(there) or 'none'}; what stays: {', '.join(stays[:20]) or 'nothing'}"
    return f"the program has no {named} to change; {known}"


def difference(each: Difference) -> str:
    """How a replay differs from what was recorded."""
    changed = "; ".join(
        f"{'.'.join(map(str, change.path)) or 'value'} was {change.recorded or 'not there'}, is {change.now or 'gone'}"
        for change in each.changes[:3]
    )
    match each.kind:
        case "not_recorded":
            return f"it calls {each.tool} as the run did not" + (f" ({changed})" if changed else "")
        case "not_made":
            return f"it does not call {each.tool} as the run did"
        case "value":
            return f"its answer is another ({changed})"
        case "ended":
            return f"it ends without an answer: {short(each.reason)}"
        case _:
            return f"{each.tool} is not what it was"


def _some(texts: Iterable[str]) -> str:
    every = [*texts]
    more = f"; and {len(every) - _MANY} more" if len(every) > _MANY else ""
    return "; ".join(every[:_MANY]) + more
