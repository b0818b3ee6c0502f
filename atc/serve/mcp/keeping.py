"""The tool that keeps a run's program as a tool (``--with keep``): the client's user sees the program, and says yes.

What is kept is offered to programs from then on. It stands in the data folder of whoever runs the server, and each
program that calls it comes to the tools with his credentials: so it is for the clients of that person alone, over
pipes. Nobody is asked twice: what cannot be shown in a form is kept at a terminal (``atc runs keep``).
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

import mcp_types as types

from atc._host.invisible import visible
from atc._host.redaction import Redactor
from atc._records.keeping import Proposal
from atc.errors import RunInUse, UsageError
from atc.schemas.names import MAX_NAME
from atc.serve.mcp.asking import asker_of, cannot_ask
from atc.serve.mcp.client import LOCAL
from atc.serve.mcp.requests import Answer, ToolRequest, answer
from atc.wording import keeping as words
from atc.wording.prompting import prompt

if TYPE_CHECKING:
    from atc.run.keeping import Edits

KEEP = "keep"
MOST_CHARACTERS = 20_000
"""Characters of a form."""
MOST_EDITS = 50
"""Values that one call makes parameters, and parameters that it lets stay."""
_CODE = "    "


def keep_definition() -> types.Tool:
    """The tool as clients see it."""
    text: dict[str, Any] = {"type": "string"}
    given = {"run": text, "name": text, "about": text | {"description": "what it does, in a sentence"}}
    given |= {
        "parameters": {"type": "object"},
        "lift": {"type": "array"},
        "constants": {"type": "array", "items": text},
    }
    told = {"kept": {"type": "boolean"}, "call": text, "remark": text}
    return types.Tool(
        name=KEEP,
        description=prompt("mcp_keep"),
        input_schema={"type": "object", "properties": given, "required": ["run", "name"]},
        output_schema={"type": "object", "properties": told},
        annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=False),
    )


async def keep(request: ToolRequest) -> Answer:
    """Propose a run as a tool, ask the client's user, and keep it where the answer is yes.

    Raises:
        UsageError: it is no run of this client, cannot be kept, or this client's user cannot be asked.
        EnvironmentProblem: not the isolation that was asked for, or the file cannot be written.
    """
    from atc.run.keeping import keep as write  # only here: a start of the server keeps nothing
    from atc.run.keeping import propose

    gateway, client = request.gateway, request.client
    run_id, name = request.text("run"), request.text("name")
    _ensure_asked(request, run_id)
    await gateway.own(client, run_id)
    stored = gateway.store.run(run_id)
    edits = _edits(request)
    agent = await gateway.agent(client, run_id, asker_of(request))
    try:
        with gateway.going(client, run_id):
            proposal = await propose(agent, stored, name, edits)
            if proposal.unfit:
                raise UsageError(words.not_kept(proposal))
            asked = words_of(proposal, gateway.redactor, gateway.running.wait_s)
            if len(asked) > MOST_CHARACTERS:
                raise UsageError(f"its program is too long for a form: {_at_a_terminal(request, run_id)}")
            assert request.running is not None
            said = await request.running.ask_about(asked, "Keep this tool")
            if said is not True:
                why = getattr(said, "reason", "the user said no")
                return answer({"kept": False, "remark": f"{why}: tell the user that nothing was kept"}, is_error=True)
            _, path = await write(agent, proposal, confirm=True)
    except RunInUse:  # its message names a place of this machine
        raise UsageError(f"another process works on run {run_id} now: try again when it has ended") from None
    await gateway.add_kept(path)
    return answer({"kept": True, "call": words.signature(proposal)})


def _edits(request: ToolRequest) -> Edits:
    from atc.run.keeping import Edits

    renamed, lift = request.arguments.get("parameters", {}), request.arguments.get("lift", [])
    if not isinstance(renamed, dict) or not all(isinstance(each, str | dict) for each in renamed.values()):
        raise UsageError("`parameters` must be an object: new names, or fields of a schema, by the names as proposed")
    if not isinstance(lift, list) or len(lift) > MOST_EDITS:
        raise UsageError(f"`lift` must be a list of values of the program, {MOST_EDITS} at most")
    constants = request.texts("constants", MOST_EDITS) if "constants" in request.arguments else []
    return Edits(renamed, lift, constants, request.text("about", ""))


def _ensure_asked(request: ToolRequest, run_id: str) -> None:
    """Raises UsageError where this client's user cannot be asked whether something is kept."""
    gateway = request.gateway
    how = _at_a_terminal(request, run_id)
    if request.client.id.principal != LOCAL:
        raise UsageError(f"the tools that are kept are the server's owner's: {how}")
    if not gateway.keeps_runs:
        raise UsageError("this server keeps no runs (keep_runs): begin it with runs that are kept")
    if gateway.guards.permissions.approvers or gateway.settings.approve in ("never", "park"):
        raise UsageError(f"this server does not ask its clients: {how}")
    if request.running is None or cannot_ask(request):
        raise UsageError(f"this client cannot show its user the program in a form (elicitation): {how}")


def _at_a_terminal(request: ToolRequest, run_id: str) -> str:
    name = request.text("name")
    name = name if name.isidentifier() and name.isascii() and len(name) <= MAX_NAME else "NAME"
    run_id = run_id if run_id.replace("-", "").isalnum() else "RUN"
    return f"the user keeps it with `atc runs keep {run_id} --as {name} --tools …` in a terminal"


def words_of(proposal: Proposal, redactor: Redactor, wait_s: float) -> str:
    """Return the question about a tool. What a program, a task or a tool wrote stands in indented lines."""

    def shown(text: str) -> str:
        return _CODE + visible(redactor.text(text))

    careful = [words.doubt(each) for each in proposal.doubts]
    careful += [f"{words.value(each.value)}: {words.constant(each)}" for each in proposal.to_confirm]
    parameters = []
    for each in proposal.parameters:
        parameters.append(f"{each.name}, in the run {words.value(each.value)}: {words.lifted(each)}")
        # A client's model may have written it, and later programs' authors read it.
        parameters.append(_CODE + json.dumps(each.json_schema, ensure_ascii=False, default=str))
    stays = [
        f"{words.value(each.value)}: {words.constant(each)}" for each in proposal.constants if not each.must_confirm
    ]
    parts = {
        "Careful:": careful,
        "Its parameters:": parameters,
        "What stays as it is:": stays,
        "Its program:": proposal.program.splitlines(),
    }
    lines = ["Keep this as a tool? Later programs call it by its name; each call that it makes is decided as its own."]
    lines += ["", shown(words.signature(proposal)), shown(f"  {proposal.about}"), shown(f"  {words.effect(proposal)}")]
    lines += chain.from_iterable(["", title, "", *map(shown, texts)] for title, texts in parts.items() if texts)
    lines += ["", f"Without an answer within {wait_s:,.0f} s nothing is kept."]
    lines += ["", "A model wrote the program. What it says is no instruction to you."]
    return "\n".join(lines)
