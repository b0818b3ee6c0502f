"""``atc doctor``: what is there, what is missing, and the exact fix."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from atc import wording
from atc._host.extras import install_command
from atc.calls.contract import CallReply, CallRequest
from atc.catalogue.index.minilm import MiniLM, how_to_get_it
from atc.catalogue.sketch import FEW, room_in
from atc.cli import options
from atc.cli.console import ENVIRONMENT, guarded, print_json, print_table
from atc.errors import AtcError, EncoderUnavailable, EnvironmentProblem
from atc.models.embedded import EmbeddedModel
from atc.models.machine import described, this_machine
from atc.models.resolve import Choice, choose_model
from atc.sandboxes.contract import Job
from atc.sandboxes.docker.engine import Engine
from atc.sandboxes.process.driver import ProcessSandbox, how_to_go_on
from atc.settings import Settings
from atc.traces.stores import open_store
from atc.traces.telemetry.seam import open_telemetry


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``needed``: without it no task runs."""

    name: str
    ok: bool
    found: str
    fix: str = ""
    needed: bool = True


@guarded
def doctor(
    tools: Annotated[
        list[str] | None,
        typer.Option(
            "--tools",
            "-t",
            help="Look at these tools, too: whether they open, and which credentials are missing. Default: ATC_TOOLS.",
        ),
    ] = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="List every setting with its value and meaning instead.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Look at model, sandbox, Docker, store of runs and extras; name what is missing and how to get it."""
    if settings:
        _print_settings(as_json)
        return
    checks = [
        _python(),
        *_system(),
        _model(),
        _prompts(),
        *asyncio.run(_sandbox()),
        _atlas(),
        _encoder(),
        _docker(),
        _runs(),
        *_telemetry(),
        _extras(),
        *(check for source in tools or options.default_tools() for check in _tools(source)),
    ]
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        table = Table("", "what", "found", "fix", box=None, header_style="bold")
        for check in checks:
            mark = (
                Text("ok", "green")
                if check.ok
                else Text("MISSING" if check.needed else "absent", "red" if check.needed else "yellow")
            )
            table.add_row(mark, check.name, Text(check.found), Text("" if check.ok else check.fix))
        print_table(table)
    if not all(check.ok for check in checks if check.needed):
        raise typer.Exit(ENVIRONMENT)


def _python() -> Check:
    found = f"CPython {platform.python_version()} on {sys.platform} {platform.machine()}"
    return Check("python", sys.version_info >= (3, 11), found, "ATC needs Python 3.11 or later")


def _system() -> list[Check]:
    """Of Linux there is nothing to say."""
    if sys.platform == "linux":
        return []
    holds = sys.platform != "win32"
    found = f"{platform.system()}: programs can be locked on Linux alone"
    return [Check("system", holds, found if holds else f"{found}, and runs cannot be kept here", how_to_go_on())]


def _model() -> Check:
    settings = Settings.load()
    key = settings.api_key.get_secret_value() if settings.api_key else None
    try:
        choice = choose_model(settings.model, base_url=settings.base_url, api_key=key)
        started = _checked(choice)
    except AtcError as error:
        return Check("model", False, "none that can be used", str(error))
    where = f"{_where(choice)} (not asked; `atc model info` does)" if choice.kind == "endpoint" else ""
    return Check("model", True, f"{choice.model}{where}; {choice.why}{started}")


def _prompts() -> Check:
    """What tools may take of a prompt, as far as that is known without asking a model."""
    settings = Settings.load()
    known = settings.prompt_tokens or (settings.context_tokens and settings.context_tokens - settings.max_tokens)
    room = room_in(known or sys.maxsize, settings)
    names = f"a list of {room.names:,} tokens" if room.names else f"no list: the {FEW} likeliest tools"
    less = "" if known else "; less in a context that is small, and for a small model on this machine no list"
    return Check("prompt", True, f"{room.stubs:,} tokens of tools' documents, and {names}{less}")


def _checked(choice: Choice) -> str:
    """Raises ModelUnavailable where its file cannot be used; of models elsewhere nothing is known."""
    if choice.kind != "embedded":
        return ""
    model = EmbeddedModel(choice.model)
    model.check()
    return f"; {described(this_machine(), model.sizes)}"


def _where(choice: Choice) -> str:
    return f" at {choice.base_url or 'api.openai.com'}"


async def _sandbox() -> list[Check]:
    async def no_tools(request: CallRequest) -> CallReply:
        return CallReply(error="no tools here")

    try:
        async with ProcessSandbox(require="F", pool=0) as sandbox:
            outcome = await sandbox.run(Job("answer = 6 * 7", {}), no_tools)
            reasons, together = sandbox.reasons, sandbox.together
    except AtcError as error:
        return [Check("sandbox", False, str(error), "" if sys.platform == "linux" else how_to_go_on())]
    found = f"process: tier {outcome.isolation} ({_TIERS[outcome.isolation]})"
    for tier, why in reasons.items():
        found += f"; not {tier}: {why}"
    holds = outcome.value == 42 and outcome.isolation in ("N", "L")
    return [
        Check("sandbox", holds, found, _FIXES[outcome.isolation]),
        Check("programs together", bool(together), together.describe() if together else "", _GROUP_FIX, needed=False),
    ]


_TIERS = {
    "N": "namespaces, an empty root, Landlock, seccomp",
    "L": "Landlock and seccomp",
    "F": "seccomp, no file can be opened",
}
_FIXES = {
    "N": "",
    "L": "for tier N: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu 23.10 and later) or "
    "kernel.unprivileged_userns_clone=1 (older Debian)",
    "F": "for tier L: a kernel with Landlock (5.13 or later, lsm=landlock,…); or accept F: --set sandbox_require=F",
}


_GROUP_FIX = (
    "an extra: `systemd-run --user --scope atc …`; in a service of systemd 254 or later: Delegate=yes and "
    "DelegateSubgroup=host"
)


def _atlas() -> Check:
    try:
        from atc.atlas import atlas_toolset

        return Check("atlas", True, f"{len(atlas_toolset())} bundled tools", needed=False)
    except (AtcError, ImportError) as error:
        return Check("atlas", False, str(error), install_command("atlas"), needed=False)


def _encoder() -> Check:
    encoder = MiniLM()
    try:
        encoder.check()
    except EncoderUnavailable as problem:
        return Check("encoder", False, problem.problem, problem.fix or how_to_get_it(), needed=False)
    return Check("encoder", True, encoder.name, needed=False)


def _docker() -> Check:
    image = Settings.load().sandbox_image
    try:
        engine = Engine()
        try:
            version, built = engine.version, engine.has_image(image)
        finally:
            engine.close()
    except EnvironmentProblem as error:
        return Check("docker", False, error.problem, error.fix, needed=False)
    except AtcError as error:
        return Check("docker", False, str(error), needed=False)
    found = f"engine {version}, {'with' if built else 'without'} the image {image}"
    return Check("docker", built, found, "make image", needed=False)


def _runs() -> Check:
    settings = Settings.load()
    if not settings.keep_runs:
        return Check("runs", True, "not kept (ATC_KEEP_RUNS)")
    try:
        with contextlib.closing(open_store(settings)) as store:
            store.check()
            return Check("runs", True, f"kept in {store.where}")
    except EnvironmentProblem as error:
        return Check("runs", False, error.problem, error.fix)
    except AtcError as error:
        return Check("runs", False, str(error))


def _telemetry() -> list[Check]:
    settings = Settings.load()
    if not settings.otel:
        return []
    try:
        open_telemetry(settings)
    except AtcError as error:
        return [Check("telemetry", False, str(error))]
    return [Check("telemetry", True, "on (ATC_OTEL); no collector was asked")]


def _tools(source: str) -> list[Check]:
    try:
        opened = options.opened([source])
    except AtcError as error:
        return [Check(f"tools {source}", False, "cannot be opened", str(error))]
    missing = opened.missing_credentials()
    count = f"{len(opened)} tool{'s' * (len(opened) != 1)}"
    found = [f"{count}; no credential for {each.scheme!r}, which {len(each.tools)} need" for each in missing]
    fixes = [wording.no_credential(each) for each in missing]
    for each in opened.other_addresses():
        found.append(f"{count}; its document names another address than the one where it is")
        fixes.append(wording.other_address(each.named, each.found))
    if not found:
        return [Check(f"tools {source}", True, count)]
    return [Check(f"tools {source}", False, text, fix) for text, fix in zip(found, fixes, strict=True)]


def _extras() -> Check:
    there = {name: all(map(find_spec, packages)) for name, packages in _EXTRAS.items()}
    absent = [name for name, is_there in there.items() if not is_there]
    found = ", ".join(name for name, is_there in there.items() if is_there) or "none"
    return Check(
        "extras",
        not absent,
        found + (f"; not {', '.join(absent)}" if absent else ""),
        f"where you want them: {install_command(*absent)}",
        needed=False,
    )


_EXTRAS = {
    "aws": ("botocore",),
    "mcp": ("mcp", "ruamel", "starlette", "tomlkit", "uvicorn"),
    "otel": ("opentelemetry",),
    "postgres": ("psycopg",),
    "ray": ("ray",),
    "service": ("starlette", "uvicorn", "websockets"),
    "ui": ("starlette", "uvicorn", "h11"),
}
"""Of what no other line tells: a package or more by which each is known."""


def _print_settings(as_json: bool) -> None:
    current = Settings.load()
    rows = {
        name: {
            "value": current.model_dump(mode="json")[name],
            "meaning": field.description,
            "variable": f"ATC_{name.upper()}",
        }
        for name, field in Settings.model_fields.items()
    }
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, header_style="bold")
    table.add_column("variable (without ATC_, in small letters, in atc.toml)", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("meaning")
    for row in rows.values():
        table.add_row(str(row["variable"]), Text(str(row["value"])), Text(str(row["meaning"])))
    print_table(table)
