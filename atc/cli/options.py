"""Options that several commands take, in one place: where tools are, and settings."""

from __future__ import annotations

import difflib
import inspect
import json
import os
import shlex
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial, wraps
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from pydantic_settings import EnvSettingsSource
from rich.text import Text
from typer.models import OptionInfo

from atc import wording
from atc._host.trust import SECRET
from atc._records.choices import SessionWord
from atc.cli.console import clean, err
from atc.cli.recorded import session_choice
from atc.errors import AtcError, UsageError
from atc.schemas.protocol import Protocol
from atc.settings import MAX_INSTRUCTIONS, Settings
from atc.tools.kept import KIND
from atc.tools.sources import is_openapi, looked_at, mcp_source, open_tools
from atc.tools.tool import Toolset

if TYPE_CHECKING:
    from atc.tools.mcp.live import LiveTools

DEFAULT_TOOLS = "ATC_TOOLS"
"""The environment variable that names the tools where a command line does not."""
Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        "-t",
        help=f"Where the tools are: `atc help sources` lists the forms. Default: {DEFAULT_TOOLS}. May be given several "
        "times.",
    ),
]
ToolsNow = Annotated[
    list[str] | None, typer.Option("--tools", "-t", help="Where the tools are now, if not where they were.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", help="Use only tools whose name fits this pattern, such as `get_*`. May be given several times."
    ),
]
Documents = Annotated[
    str | None, typer.Option("--documents", help="Folder of tool definitions for these tools (`atc probe -o`).")
]
OpenApi = Annotated[
    list[str] | None,
    typer.Option(
        "--openapi",
        metavar="NAME=VALUE",
        help="How to read and call OpenAPI documents and recordings, such as service_url=URL: `atc help sources` lists "
        "all. May be given several times.",
    ),
]
RunName = Annotated[str, typer.Argument(help="The run's id, its beginning or end, or `last`.")]
TrustRun = Annotated[
    bool,
    typer.Option("--trust-run", help="Load what its trace names, even if others could have written to its folder."),
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", metavar="FILE", help="File with an approver's key, made by `atc permissions approver`."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show why each tool is offered, and which tool needs which.")
]


@dataclass(frozen=True)
class Source:
    """Where tools are and how they are read: ``--tools``, ``--only``, ``--documents`` and ``--openapi``.

    A parameter of this type gives these options to a command of :func:`takes`. With the default :data:`NOWHERE` the
    command needs no tools.
    """

    tools: Sequence[str] = ()
    only: Sequence[str] | None = None
    documents: str | None = None
    openapi: Sequence[str] | None = None

    def opened(self, *, undeclared: bool = False, told: Container[str] | None = None) -> Toolset:
        """Open the tools, as :func:`opened`."""
        return opened(
            self.tools,
            only=self.only,
            documents=self.documents,
            openapi=self.openapi,
            undeclared=undeclared,
            told=told,
        )

    @property
    def note(self) -> str:
        """What a trace says of it: `atc resume` opens the tools again by it. It has no credentials."""
        shown = [pair for pair in self.openapi or () if not pair.startswith(_AUTH)]
        return json.dumps(
            {"tools": self.tools, "only": self.only, "documents": self.documents, "openapi": shown or None}
        )

    @classmethod
    def of_note(cls, text: Any) -> Source:
        """What :attr:`note` made, read back from a trace; nowhere where it is something else."""
        try:
            note = json.loads(text or "{}")
        except (TypeError, ValueError, RecursionError):
            return NOWHERE  # a run that a program of the user's began: its note is its own
        if not isinstance(note, dict):
            return NOWHERE
        lists = [note.get(name) for name in ("tools", "only", "openapi")]
        documents = note.get("documents")
        is_lists = all(
            each is None or (isinstance(each, list) and all(isinstance(e, str) for e in each)) for each in lists
        )
        if not (is_lists and (documents is None or isinstance(documents, str))):
            return NOWHERE
        tools, only, openapi = lists
        return cls(tools or (), only, documents, openapi)


NOWHERE = Source()
_AUTH = "auth."
_CONTEXT = "context_"


class Given(dict[str, Any]):
    """Settings that a command line gives, by name. A parameter of this type gives their options to a command."""


_FLAGS = {"ask_user": ("--ask", "ask"), "read_only": ("--read-only", "true")}
"""Settings whose option has no value: its name, and what the setting is then."""
_MORE_HELP = {
    "approve": "How to approve calls that change something: ask, never, always, or park (the run ends, and waits). "
    "Default: ask on a terminal, else never.",
    "ask_user": "Let programs ask you. Without a terminal the run ends with the question (exit code 7).",
    "instructions": "Standing wishes besides the task, such as `answer in German`; @FILE reads them from a file.",
}
PANELS = {
    "Task": ("image", "dry_run", "answer", "instructions", "ask_user"),
    "Tools": ("tools", "only", "documents", "openapi", "probe"),
    "Model": ("model",),
    "Safety": ("approve", "read_only", "sandbox"),
    "Advanced": ("strategy", "set_"),
}
"""Panels of the help of commands with many options; what is in none of them stands first."""


def takes(
    *shown: str, settable: Sequence[str] = (), panels: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of its parameters of the types :class:`Source` and :class:`Given`.

    Args:
        shown: the settings that have an option of their own in the help; ``--set`` takes all.
        settable: the command's own parameters that ``--set`` takes, too: numbers, texts, or lists of texts.
        panels: show the options in :data:`PANELS`.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        parameters: list[Parameter] = []
        made: dict[str, Callable[[dict[str, Any]], Any]] = {}
        the_context = next((name for name, each in own.items() if each.annotation is typer.Context), "")
        if settable and not the_context:
            parameters.append(_parameter(_CONTEXT, typer.Context, Parameter.empty))
        for name, each in own.items():
            if each.annotation is Source:
                options = {"tools": Tools, "only": Only, "documents": Documents, "openapi": OpenApi}
                parameters += [_parameter(option, annotation) for option, annotation in options.items()]
                made[name] = partial(_source, needed=each.default is Parameter.empty)
            elif each.annotation is Given:
                parameters += map(_setting_parameter, shown)
                parameters.append(_parameter("set_", _set_option(own, settable)))
                made[name] = partial(_given, shown, settable)
            elif name in settable:
                hidden = _without_option(name, each.annotation)
                parameters.append(each.replace(annotation=hidden, kind=Parameter.KEYWORD_ONLY))
            else:
                parameters.append(each.replace(kind=Parameter.KEYWORD_ONLY))

        @wraps(command)
        def wrapped(**values: Any) -> None:
            if settable:
                context = values[the_context] if the_context else values.pop(_CONTEXT)
                _take_own(context, values, settable)
            command(**{name: make(values) for name, make in made.items()}, **values)

        if panels:
            parameters = [_in_panel(each) for each in sorted(parameters, key=_panel_number)]
        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return wrapped

    return decorate


def _parameter(name: str, annotation: Any, default: Any = None) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _panel(parameter: Parameter) -> str:
    name = parameter.name if parameter.name == "set_" else parameter.name.removeprefix("set_")
    return next((panel for panel, names in PANELS.items() if name in names), "")


def _panel_number(parameter: Parameter) -> int:
    return ["", *PANELS].index(_panel(parameter))


def _in_panel(parameter: Parameter) -> Parameter:
    if not (panel := _panel(parameter)):
        return parameter
    parts = []
    for each in parameter.annotation.__metadata__:
        part = copy(each)
        part.rich_help_panel = panel
        parts.append(part)
    return parameter.replace(annotation=Annotated[(parameter.annotation.__origin__, *parts)])


def _without_option(name: str, annotation: Any) -> Any:
    options = [each for each in annotation.__metadata__ if isinstance(each, OptionInfo)]
    made = copy(options[0])
    made.hidden, made.default, made.param_decls = True, f"--set {name}", ()
    return Annotated[annotation.__origin__, made]


def _set_option(own: Mapping[str, Parameter], settable: Sequence[str]) -> Any:
    text = "Any setting, such as max_revisions=5 (`atc doctor --settings` lists all)."
    if settable:
        text = f"Any setting (`atc doctor --settings` lists all), or these. {_listed(own, settable)}"
    more = "May be given several times."
    return Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=f"{text} {more}")]


def _listed(own: Mapping[str, Parameter], settable: Sequence[str]) -> str:
    shown = []
    for name in settable:
        option = next(each for each in own[name].annotation.__metadata__ if isinstance(each, OptionInfo))
        default = own[name].default
        end = f" (default: {default:g})" if isinstance(default, int | float) else ""
        more = (option.help or "").rstrip(".").removesuffix(". May be given several times")
        shown.append(f"`{name}`: {more}{end}.")
    return " ".join(shown)


def _take_own(context: typer.Context, values: dict[str, Any], settable: Sequence[str]) -> None:
    texts: dict[str, list[str]] = {}
    others = []
    for pair in values.get("set_") or ():
        name, sign, text = pair.partition("=")
        if sign and (name := _name(name)) in settable:
            texts.setdefault(name, []).append(text)
        else:
            others.append(pair)
    if "set_" in values:
        values["set_"] = others
    for each in context.command.params:
        source = context.get_parameter_source(each.name or "")
        if source is not None and (given := texts.get(each.name or "")):
            try:
                values[each.name] = each.process_value(context, given if each.multiple else given[-1])
            except typer.BadParameter as error:
                raise UsageError(f"--set {each.name}: {error.message}") from None
            context.set_parameter_source(each.name, type(source)["COMMANDLINE"])


def _source(values: dict[str, Any], *, needed: bool) -> Source:
    named = values.pop("tools") or ()
    tools = named_tools(named) if needed else named
    return Source(tools, values.pop("only"), values.pop("documents"), values.pop("openapi"))


def named_tools(given: Sequence[str] | None) -> list[str]:
    """The sources of ``--tools``, or else of :data:`DEFAULT_TOOLS`, where words are quoted as in a shell.

    Raises:
        UsageError: neither names any.
    """
    if given or (given := default_tools()):
        return list(given)
    raise UsageError(
        f"no tools are named: name them with --tools SOURCE, or in {DEFAULT_TOOLS}; `atc help sources` lists the forms"
    )


def default_tools() -> list[str]:
    """The sources that :data:`DEFAULT_TOOLS` names.

    Raises:
        UsageError: a quote in it is not closed.
    """
    try:
        return shlex.split(os.environ.get(DEFAULT_TOOLS, ""))
    except ValueError as error:
        raise UsageError(f"{DEFAULT_TOOLS} cannot be read ({error}): quote its words as in a shell") from None


def _setting_parameter(setting: str) -> Parameter:
    said = Settings.model_fields[setting].description or ""
    text = _MORE_HELP.get(setting, f"{said[0].upper()}{said[1:]}.")
    option = _FLAGS[setting][0] if setting in _FLAGS else f"--{setting.replace('_', '-')}"
    kind: Any = bool if setting in _FLAGS else str
    return _parameter(f"set_{setting}", Annotated[kind | None, typer.Option(option, help=text)])


def _given(shown: Sequence[str], settable: Sequence[str], values: dict[str, Any]) -> Given:
    texts = dict(_pair(pair, settable) for pair in values.pop("set_") or ())
    for setting in shown:
        if value := values.pop(f"set_{setting}"):
            texts[setting] = _FLAGS[setting][1] if setting in _FLAGS else str(value)
    if "instructions" in texts:
        texts["instructions"] = instructions_of(texts["instructions"])
    read, given = EnvSettingsSource(Settings), {}
    for name, text in texts.items():
        try:  # as an environment variable is read
            given[name] = read.prepare_field_value(name, Settings.model_fields[name], text, False)
        except ValueError:
            raise UsageError(f"{name}: this setting takes JSON, not {text!r:.100}") from None
    settings = Settings.load(**given)
    return Given({name: getattr(settings, name) for name in given})


def _name(text: str) -> str:
    return text.strip().replace("-", "_")


def _pair(pair: str, settable: Sequence[str] = ()) -> tuple[str, str]:
    """``"max-revisions=5"`` → ``("max_revisions", "5")``; a secret is refused."""
    name, sign, text = pair.partition("=")
    name = _name(name)
    if not sign:
        raise UsageError(f"--set takes NAME=VALUE, not {pair!r:.100}")
    if name not in Settings.model_fields:
        near = difflib.get_close_matches(name[:80], [*Settings.model_fields, *settable], 1)
        hint = f"did you mean {near[0]}?" if near else "`atc doctor --settings` lists all"
        raise UsageError(f"--set: there is no setting {name!r:.80}: {hint}")
    if name in SECRET:
        raise UsageError(f"--set {name}: others on this machine see a command line; set ATC_{name.upper()}")
    return name, text


def opened(
    sources: Sequence[str],
    *,
    only: Sequence[str] | None = None,
    documents: str | None = None,
    openapi: Sequence[str] | None = None,
    undeclared: bool = False,
    look: bool = False,
    told: Container[str] | None = None,
) -> Toolset:
    """The tools that a command line names. Kept programs that cannot be among them are told of.

    Args:
        sources: where the tools are.
        only: patterns of their names.
        documents: a folder of protocol documents that stand in place of the tools' own.
        openapi: options of OpenAPI documents.
        undeclared: read also what an OpenAPI document does not declare.
        look: the tools are only looked at; see :func:`atc.tools.sources.looked_at`.
        told: the names of kept programs that are told of; by default all.

    Raises:
        UsageError: as :func:`atc.tools.sources.open_tools`, :meth:`Toolset.documented` and :meth:`Toolset.select`; or
            an option is not known.
    """
    given = _of_openapi(only, undeclared or bool(documents), openapi)
    tools = looked_at(sources, **given) if look else open_tools(sources, **given)
    if any(tool.kept is not None for tool in tools.values()):
        from atc.run.kept_checks import fitting  # the checker comes with it

        tools = fitting(tools)
    for each in tools.left_out if told is None else [each for each in tools.left_out if each.name in told]:
        err.print(Text(clean(f"note: {wording.left_out(each.name, each.reason)}"), style="yellow"))
    for found in tools.found:
        if undeclared or look or found.is_listing:
            how = wording.found_document(
                found.url, found.named_by, found.others, found.elsewhere, listing=found.is_listing
            )
            err.print(Text(clean(f"note: {how}"), style="dim"))
    tools = tools.documented(documents) if documents else tools
    return _selected(tools, sources, only, given) if only else tools


def _selected(tools: Toolset, sources: Sequence[str], only: Sequence[str], given: dict[str, Any]) -> Toolset:
    """The tools that patterns name. Where one names none, the message knows the operations that were not read, too."""
    try:
        return tools.select(*only)
    except UsageError as error:
        narrowed = [word for word in sources if is_openapi(word)]
        with suppress(AtcError):  # a document that is too large as a whole: the first message has to do
            unread = open_tools(narrowed, **{k: v for k, v in given.items() if k not in ("only", "strict")})
            others = Toolset(tool for tool in tools.values() if tool.protocol.source.kind != "openapi")
            error = (others + unread).problem_of(only) or error
        raise error


def opened_live(source: Source, settings: Settings) -> LiveTools:
    """The tools of a source; those of MCP servers come and go.

    Raises:
        UsageError: as :func:`opened`; but that a server is down, or that a pattern fits no tool now, is no error.
    """
    from atc.tools.mcp.lists import FOLDER
    from atc.tools.mcp.live import live_tools
    from atc.tools.mcp.live_server import Limits

    limits, given = Limits(), _of_openapi(source.only, bool(source.documents), source.openapi)
    live = live_tools(
        source.tools,
        folder=settings.catalogue / FOLDER,
        only=source.only,
        documents=source.documents,
        limits=replace(limits, timeout_s=max(limits.timeout_s, settings.call_timeout_s)),
        openapi=given,
    )
    if source.only and not any(map(mcp_source, source.tools)):
        _selected(live.others, source.tools, source.only, given)
    return live


def _of_openapi(only: Sequence[str] | None, undeclared: bool, openapi: Sequence[str] | None) -> dict[str, Any]:
    """Options of the OpenAPI importer. What ``only`` leaves out is not read; that it fits nothing is told later."""
    given: dict[str, Any] = ({"undeclared": True} if undeclared else {}) | openapi_of(openapi)
    given.setdefault("session", session_choice())
    return given | ({"only": list(only), "strict": False} if only else {})


def instructions_of(given: str) -> str:
    """The text of ``--instructions``: itself, or what the file behind an ``@`` holds.

    Raises:
        UsageError: the file cannot be read, is no text, or is too long.
    """
    if not given.startswith("@"):
        return given
    try:
        with open(given[1:], encoding="utf-8") as file:
            text = file.read(MAX_INSTRUCTIONS + 1)
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise UsageError(f"--instructions cannot read {given[1:]!r}: {what}") from None
    if len(text) > MAX_INSTRUCTIONS:
        raise UsageError(f"--instructions: {given[1:]!r} has more than {MAX_INSTRUCTIONS:,} characters: shorten it")
    return text


def openapi_of(pairs: Sequence[str] | None) -> dict[str, Any]:
    """``["max_mb=100", "effect=get_*:read"]`` → options of :func:`atc.tools.openapi.read_openapi`.

    Raises:
        UsageError: an option that is not known, or a value that it does not take.
    """
    made: dict[str, Any] = {}
    for pair in pairs or ():
        name, _, value = pair.partition("=")
        pattern, _, effect = value.rpartition(":")
        if name in ("allow_remote_refs", "allow_http_credentials", "allow_session_writes") and not value:
            made[name] = True
        elif name == "session" and value in get_args(SessionWord):
            made[name] = value
        elif name == "max_mb" and value.isascii() and value.isdigit() and 0 < int(value) <= 10_000:
            made["max_document_bytes"] = int(value) * 1_000_000
        elif name == "effect" and pattern:
            made.setdefault("effects", {})[pattern] = effect
        elif name.startswith("server.") and name != "server." and value:
            made.setdefault("server_variables", {})[name.removeprefix("server.")] = value
        elif name.startswith(_AUTH) and name != _AUTH and value:
            made.setdefault("auth", {})[name.removeprefix(_AUTH)] = value
        elif name == "service_url" and value:
            made["base_url"] = value
        elif name.startswith(_AUTH):  # the value may be a credential: it is not shown
            raise UsageError("--openapi takes auth.SCHEME=CREDENTIAL; SCHEME is the name of a security scheme")
        else:
            raise UsageError(
                f"--openapi does not take {pair!r}, but service_url=URL, auth.SCHEME=CREDENTIAL, max_mb=NUMBER (1 to "
                "10000), effect=PATTERN:read (or write, unknown), server.NAME=VALUE, session=keep (or memory, none), "
                "allow_session_writes, allow_remote_refs or allow_http_credentials"
            )
    return made


def effect_text(protocol: Protocol) -> str:
    """The effect of a tool for a table, with a mark on kept programs."""
    return f"{protocol.effect.value} (kept)" if protocol.source.kind == KIND else protocol.effect.value


def notes_on(tools: Toolset) -> list[str]:
    """Say what the documents of tools ask for and is not set, and which of them name another address than their own."""
    missing = tools.missing_credentials()
    notes = [wording.no_credential(each) for each in missing]
    return notes + [wording.other_address(each.named, each.found) for each in tools.other_addresses()]
