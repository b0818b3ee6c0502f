"""``atc tools call``: call one tool, or one kept program, without a model."""

from __future__ import annotations

import asyncio
import difflib
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

import typer

from atc.cli import options
from atc.cli.console import guarded, out
from atc.cli.run import Shown, finish
from atc.cli.view import RunView
from atc.errors import ToolImportError, UsageError
from atc.schemas.protocol import Protocol, parameters_of
from atc.schemas.validate import resolve, types_of
from atc.settings import Settings
from atc.tools.kept_files import SUFFIX, KeptFile
from atc.tools.kept_folders import WORD, is_kept_place, read_places
from atc.tools.kept_tools import is_kept, where_they_are
from atc.tools.tool import Toolset
from atc.traces.stores import open_store

MAX_INPUT = 16 << 20
"""Characters of standard input that are read."""


@guarded
@options.takes("sandbox", "approve", "read_only")
def call(
    name: Annotated[str, typer.Argument(help="The tool: a program that you kept, or any of --tools.")],
    given: options.Given,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Give an argument of the tool; `-` reads all as a JSON object."),
    ] = None,
    json_arguments: Annotated[
        str, typer.Option("--json-arguments", metavar="JSON", help="Give the arguments as one JSON object.")
    ] = "",
    source: options.Source = options.NOWHERE,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Make only reads; list the calls with effects, and where their arguments come from."
        ),
    ] = False,
    verbose: options.Verbose = False,
    as_json: options.Json = False,
) -> None:
    """Call a tool without a model: a program that you kept, or any tool of --tools.

    It is a run as any other: in the sandbox, with approval, a journal and a trace. A kept program (`atc runs keep`)
    calls the tools that its run had, where they were; --tools names where they are now.
    """
    from atc.agent import Agent
    from atc.run.calling import call_tool

    settings = Settings.load()
    source = _source_of(name, source, settings)
    source, tools = _opened(name, source, settings)
    if name not in tools:
        raise UsageError(_none_named(name, tools))
    wanted = arguments_of(tools[name].protocol, arguments or (), json_arguments)
    view = Shown(None if as_json else RunView(out, verbose=verbose))
    agent = Agent(tools, on_event=view, **given)
    with view.shown(kept=agent.settings.keep_runs):
        made = asyncio.run(call_tool(agent, name, wanted, tools_from=source.note, dry_run=dry_run))
    finish(made.result, as_json=as_json, trace=False)


def _source_of(name: str, source: options.Source, settings: Settings) -> options.Source:
    """Where the user names kept programs alone, the tools are where they were in the run of the called one."""
    if not source.tools:
        if not _is_kept(name, settings) and (default := options.default_tools()):
            return replace(source, tools=default)
        return _source_of_run(_kept(name, settings), settings)
    if not all(map(is_kept_place, source.tools)):
        return source
    read = read_places(source.tools, own=settings.kept_dir)
    if (file := next((each for each in read.files if each.name == name), None)) is None:
        return source
    there = _source_of_run(file, settings)
    openapi = [*(there.openapi or ()), *(source.openapi or ())]
    return replace(there, tools=[*there.tools, *source.tools], openapi=openapi or None, only=None)


def _source_of_run(file: KeptFile, settings: Settings) -> options.Source:
    store = open_store(settings)
    stored = store.run(file.run) if file.run else None
    how = where_they_are(file.uses)
    if stored is None or not stored.exists:
        raise UsageError(
            f"the run {file.run or 'of ' + file.name}, which says where its tools are, is not among your runs: {how}"
        )
    if strange := stored.why_strange():
        raise UsageError(f"the tools that run {stored.run_id} names are not loaded, for {strange}: {how}")
    source = options.Source.of_note((stored.first("run_started") or {}).get("source"))
    if not source.tools:
        raise UsageError(f"run {stored.run_id} does not say where its tools were: {how}")
    return source


def _is_kept(name: str, settings: Settings) -> bool:
    return name.isidentifier() and (settings.kept_dir / f"{name}{SUFFIX}").exists()


def _kept(name: str, settings: Settings) -> KeptFile:
    if not _is_kept(name, settings):
        kept = sorted(each.stem for each in settings.kept_dir.glob(f"*{SUFFIX}"))
        if near := difflib.get_close_matches(name[:80], kept, 1):
            raise UsageError(f"no program is kept as {name!r:.80}: did you mean {near[0]}?")
        raise UsageError(
            f"no program is kept as {name!r} in {settings.kept_dir}, and no --tools are named: "
            f"`atc tools list --tools {WORD}` lists what is kept, `atc runs keep RUN --as NAME` keeps a run"
        )
    return read_places([settings.kept_dir / f"{name}{SUFFIX}"], own=settings.kept_dir).files[0]


def _opened(name: str, source: options.Source, settings: Settings) -> tuple[options.Source, Toolset]:
    told = _called_by(name, [*source.tools, WORD], settings)
    found = source.opened(told=told)
    if name in found:
        return source, found
    if WORD not in source.tools:
        source = replace(source, tools=[*source.tools, WORD])
    elif not source.only:
        return source, found
    if source.only:
        source = replace(source, only=[*source.only, name])
    return source, source.opened(told=told)


def _called_by(name: str, words: Sequence[str], settings: Settings) -> set[str]:
    """Return the names of a kept program and of those that it calls: only what is wrong with them is told."""
    files: dict[str, KeptFile] = {}
    with suppress(ToolImportError):  # it is raised again where they are opened
        places = [word for word in words if is_kept_place(word)]
        files = {file.name: file for file in read_places(places, own=settings.kept_dir).files}
    found, left = {name}, [name]
    while left:
        if (file := files.get(left.pop())) is not None:
            new = {used.name for used in file.uses if is_kept(used)} - found
            found |= new
            left += new
    return found


def _none_named(name: str, tools: Toolset) -> str:
    for left in tools.left_out:
        if left.name == name:
            return f"{name} cannot be called: {left.reason}"
    near = difflib.get_close_matches(name[:80], [*tools], 1)
    hint = f"did you mean {near[0]}?" if near else "`atc tools list --tools SOURCE` lists them"
    return f"there is no tool {name!r:.80}: {hint}"


# ----------------------------------------------------------------------------------------------------------------------
# Arguments: text of a command line, typed by what the tool says of them.


def arguments_of(protocol: Protocol, pairs: Sequence[str], document: str = "") -> dict[str, Any]:
    """Return the arguments that a command line gives.

    Args:
        protocol: of the tool: what it says of an argument tells a number from a text.
        pairs: ``KEY=VALUE``, or ``-`` for standard input. What takes a list takes its items one by one, too.
        document: a JSON object.

    Raises:
        UsageError: one is no such pair, is given twice, or is no JSON where that is needed.
    """
    made: dict[str, Any] = {}
    if document:
        made |= _object(document, "--json-arguments")
    schemas = {each.name: resolve(protocol.parameters, each.schema) for each in parameters_of(protocol)}
    items: dict[str, list[Any]] = {}
    for pair in pairs:
        if pair == "-":
            _add(made, _object(sys.stdin.read(MAX_INPUT), "standard input"))
            continue
        key, sign, text = pair.partition("=")
        if not sign:
            raise UsageError(f"an argument is KEY=VALUE, not {pair!r:.100}; {_known(schemas)}")
        if key not in schemas:
            raise UsageError(f"{protocol.name} has no argument {key!r:.80}; {_known(schemas)}")
        if _is_item(text, schemas[key]):
            item = value_of(text, resolve(protocol.parameters, schemas[key].get("items")), key)
            items.setdefault(key, []).append(item)
        else:
            _add(made, {key: value_of(text, schemas[key], key)})
    for key, each in items.items():
        _add(made, {key: each})
    return made


def _is_item(text: str, schema: Mapping[str, Any]) -> bool:
    """Return whether a text is one item of the list that an argument takes: it is no JSON list."""
    return types_of(dict(schema)) - {"null"} == {"array"} and not text.lstrip().startswith("[")


def value_of(text: str, schema: Mapping[str, Any], key: str) -> Any:
    """Return what a text of a command line is, by the schema of its argument.

    A text stays one wherever the schema takes texts; else it is read as JSON.

    Raises:
        UsageError: it is no JSON, and the schema takes no text.
    """
    kinds = types_of(dict(schema))
    choices = schema.get("enum")
    if "string" in kinds or (isinstance(choices, list) and text in choices):
        return None if text == "null" and "null" in kinds else text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if not kinds:
            return text
        named = " or ".join(sorted(kinds - {"null"} or kinds))
        raise UsageError(f"{key} takes {_article(named)}, as JSON, not {text!r:.100}") from None


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aio' else 'a'} {kind}"


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        made = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is no JSON: {error}") from None
    if not isinstance(made, dict):
        raise UsageError(f'{where} is no JSON object: give one, such as {{"city": "Lyon"}}')
    return made


def _add(made: dict[str, Any], more: Mapping[str, Any]) -> None:
    if twice := made.keys() & more.keys():
        raise UsageError(f"the argument {min(twice)!r} is given twice")
    made.update(more)


def _known(schemas: Mapping[str, Any]) -> str:
    return f"it takes {', '.join(schemas)}" if schemas else "it takes none"
