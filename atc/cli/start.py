"""``atc`` alone, on a terminal: four lines on what is ready here, and a fifth with the command to type next."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass

from rich.text import Text

from atc.cli.console import clean, out
from atc.cli.options import default_tools
from atc.errors import AtcError
from atc.models.catalogue import DEFAULT_MODEL
from atc.models.embedded import EmbeddedModel
from atc.models.resolve import choose_model
from atc.settings import Settings

_TASK = '"How far is it from Paris to Oslo?"'


@dataclass(frozen=True)
class Line:
    """What is known of one thing. ``ready``: nothing needs to be done about it."""

    name: str
    ready: bool
    found: str


def show_next_steps() -> None:
    """Print what is ready on this machine, and the command to type next."""
    model, tools, client, sandbox = _model(), _tools(), _client(), _sandbox()
    for line in (model, tools, client, sandbox):
        mark = ("✓", "green") if line.ready else ("–", "yellow")
        out.print(Text.assemble(mark, f" {line.name:<11} ", clean(line.found)))
    out.print(Text.assemble("  next        ", (next_command(model, tools, client, sandbox), "bold")))


def next_command(model: Line, tools: Line, client: Line, sandbox: Line) -> str:
    """Return the one command that helps most."""
    if not sandbox.ready:
        return "atc doctor"
    if tools.ready and client.ready:
        named = " ".join(f"--tools {shlex.quote(each)}" for each in default_tools())
        return f"atc mcp install {client.found.split()[0]} {named}"
    if not model.ready:
        installed = f"atc mcp install {client.found.split()[0]} --tools atlas --dry-run"
        return installed if client.ready else f"atc model pull {DEFAULT_MODEL}"
    return f"atc run {_TASK}" + ("" if tools.ready else " --tools atlas")


def _model() -> Line:
    try:
        settings = Settings.load()
        key = settings.api_key.get_secret_value() if settings.api_key else None
        choice = choose_model(settings.model, base_url=settings.base_url, api_key=key)
        if choice.kind == "embedded":
            EmbeddedModel(choice.model).check()
    except AtcError:
        return Line("model", False, "none yet: set ATC_MODEL and its key, or get a local one")
    where = f" at {choice.base_url or 'api.openai.com'}" if choice.kind == "endpoint" else ""
    return Line("model", True, f"{choice.model}{where}")


def _tools() -> Line:
    try:
        named = default_tools()
    except AtcError as error:
        return Line("tools", False, str(error))
    if named:
        return Line("tools", True, f"{' '.join(map(shlex.quote, named))} (ATC_TOOLS)")
    return Line("tools", False, "none named: --tools SOURCE, or ATC_TOOLS; `atc help sources` lists the forms")


def _client() -> Line:
    from atc.cli.clients.clients import Machine, clients
    from atc.cli.clients.plan import look

    found = [look(each, Machine(), "user") for each in clients().values() if each.user]
    here = [each for each in found if each["here"] and not each["problem"]]
    if new := [each for each in here if not each["entry"]]:
        return Line("MCP client", True, f"{new[0]['client']} ({new[0]['title']}) does not have ATC yet")
    if here:
        return Line("MCP client", False, f"{here[0]['title']} has ATC")
    return Line("MCP client", False, "none found on this machine")


def _sandbox() -> Line:
    from atc.sandboxes.process.driver import ProcessSandbox

    async def strongest() -> str:
        async with ProcessSandbox(require="F", pool=0) as sandbox:
            return await sandbox.isolation()

    if Settings.load().sandbox != "process":
        return Line("sandbox", True, f"{Settings.load().sandbox} (not asked; `atc sandbox check` does)")
    try:
        tier = asyncio.run(strongest())
    except (AtcError, OSError) as error:
        return Line("sandbox", False, str(error).partition(";")[0])
    told = {"N": "strict: namespaces, Landlock and seccomp", "L": "Landlock and seccomp"}.get(tier)
    return Line("sandbox", told is not None, told or "only seccomp: `atc doctor` has the fix")
