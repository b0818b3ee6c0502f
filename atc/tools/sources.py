"""Where tools come from: a word on the command line → a toolset. The registry of the sources, and those of others.

A source is one entry of :data:`SOURCES`. Another package adds one with an entry point of the group ``atc.tools``: a
function that takes the ``ARG`` of ``NAME:ARG`` and returns a :class:`~atc.tools.tool.Toolset`. It is imported only when
a word names it. The user's own Python is run: naming it is the consent.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from atc._host.loading import load_file, load_module
from atc.errors import ToolImportError, UsageError
from atc.parts import TOOL_SOURCES
from atc.tools.functions import tool_from_function
from atc.tools.kept_files import SUFFIX
from atc.tools.kept_folders import WORD, is_kept_place, read_places
from atc.tools.kept_tools import joined, shown
from atc.tools.tool import Tool, Toolset

_DOCUMENTS = (".json", ".yaml", ".yml")
_HEAD = 200_000
_KEY = re.compile(rb"""\b(?:openapi|swagger)["']?\s{0,4}:""")
"""The key that an OpenAPI document has; the document of a tool that was made of one only mentions the word."""
_ADDRESS = re.compile(r"[\w.-]+:\d{1,5}(?:/|$)")
"""A host and a port; what stands behind the colon of a Python source is a name."""
_MAX_BESIDE = 1_000
_MCP, _HAR = "mcp:", "har:"
_URL = ("http://", "https://")
_OF_RECORDINGS = ("session", "allow_session_writes")
"""Options that say what is done with the login of a recording."""


@dataclass(frozen=True)
class ToolSource:
    """One kind of place that tools come from.

    Attributes:
        forms: how its words are written, for help and messages.
        recognises: whether a word is of this kind. The first source of :data:`SOURCES` that recognises a word opens it.
        open: the tools that a word names, given the options of the OpenAPI importer.
    """

    forms: str
    recognises: Callable[[str], bool]
    open: Callable[[str, Mapping[str, Any]], Toolset]


def open_tools(sources: Sequence[str], **openapi_options: Any) -> Toolset:
    """Join the toolsets that the words name; tools of equal names are called after their sources.

    Kept programs call the tools of all words. One that cannot is not among the tools (:attr:`Toolset.left_out`).

    Args:
        sources: words in one of the :data:`FORMS`.
        **openapi_options: passed on to the OpenAPI importer (``base_url``, ``auth`` …).

    Raises:
        ToolImportError: a word names nothing, or what it names holds no tools; or the kept program of a file that is
            named itself cannot be among them.
    """
    if not sources:
        raise ToolImportError(f"no tools are named: give {FORMS}")
    words = {word: is_kept_place(word) for word in dict.fromkeys(sources)}
    places = [word for word, kept in words.items() if kept]
    if places:  # which tools they call is not known yet: all are read
        openapi_options = {key: value for key, value in openapi_options.items() if key != "only"}
    made = Toolset()
    for word in (word for word, kept in words.items() if not kept):
        made = made + _open(word, openapi_options)
    return joined(made, read_places(places)) if places else made


def looked_at(sources: Sequence[str], **openapi_options: Any) -> Toolset:
    """As :func:`open_tools`, where nothing will be called: kept programs stand there without the tools that they call,
    where no other tools are named.

    Raises:
        ToolImportError: as :func:`open_tools`.
    """
    if sources and all(map(is_kept_place, sources)):
        return shown(read_places(dict.fromkeys(sources)))
    return open_tools(sources, **openapi_options)


def _open(word: str, options: Mapping[str, Any]) -> Toolset:
    for source in SOURCES:
        if source.recognises(word):
            return source.open(word, options)
    name, colon, argument = word.partition(":")
    if colon and name not in TOOL_SOURCES.own and TOOL_SOURCES.has(name):
        return TOOL_SOURCES.make(name, argument, a=Toolset)
    _refuse_bare_address(word)
    if _parts(word)[1]:  # something in a module, perhaps
        return tools_of(word)
    names = ", ".join(f"{each}:…" for each in TOOL_SOURCES.names() if each not in TOOL_SOURCES.ours)
    added = f"; installed sources: {names}" if names else ""
    raise ToolImportError(
        f"{word!r} names no tools: there is no such file or folder{_near(word) or '.'} Give {FORMS}{added}"
    )


def _near(word: str) -> str:
    path = Path(word)
    try:
        beside = [each.name for each in islice(path.parent.iterdir(), _MAX_BESIDE)]
    except (OSError, ValueError):
        beside = []
    alike = get_close_matches(path.name[:100], ["atlas", *beside] if path.parent == Path() else beside, 1, 0.7)
    found = [name for name in beside if Path(name).stem == path.name and Path(name).suffix in (".py", *_DOCUMENTS)]
    return "".join(f": did you mean {path.with_name(name)}?" for name in (found or alike)[:1])


def _no_file(path: str) -> ToolImportError:
    """The error of a file that is not there; it names the folder, because a client starts ATC in one of its own."""
    where = _near(path) or ("" if Path(path).is_absolute() else f" in {Path.cwd()}")
    return ToolImportError(f"there is no file {path}{where}")


def _refuse_bare_address(word: str) -> None:
    if _ADDRESS.match(word):
        raise ToolImportError(f"{word!r} is an address without its scheme: write http://{word} or https://{word}")


# -- the sources of this package ---------------------------------------------------------------------------------------


def _is_mcp(word: str) -> bool:
    return word.startswith(_MCP) or (b'"mcpServers"' in _head(word) and _names_servers(Path(word)))


def mcp_source(word: str) -> str | Path | None:
    """What :meth:`Toolset.from_mcp` takes for a word that names MCP servers; ``None`` for any other word."""
    if not _is_mcp(word):
        return None
    return word.removeprefix(_MCP) if word.startswith(_MCP) else Path(word)


def _open_mcp(word: str, _options: Mapping[str, Any]) -> Toolset:
    source = mcp_source(word)
    assert source is not None
    return Toolset.from_mcp(source)


def _is_har(word: str) -> bool:
    return word.startswith(_HAR) or (word.lower().endswith(".har") and Path(word).is_file())


def _open_har(word: str, options: Mapping[str, Any]) -> Toolset:
    """The tools of ``har:FILE`` or ``har:FILE@HOST,HOST``; a file that has the sign in its name is meant first."""
    path, _, hosts = word.removeprefix(_HAR), "", ""
    if not Path(path).is_file() and "@" in path:
        path, _, hosts = path.rpartition("@")
    if not Path(path).is_file():
        raise _no_file(path or word)
    named = [host for host in hosts.split(",") if host]
    return Toolset.from_har(path, hosts=named or None, **options)


def is_openapi(word: str) -> bool:
    """Whether a word names an OpenAPI document, or a service that may publish one."""
    return word.startswith(_URL) or _KEY.search(_head(word)) is not None


def _is_document(word: str) -> bool:
    return bool(word) and (Path(word).is_dir() or Path(word).suffix.lower() in _DOCUMENTS)


def _open_documents(word: str, _options: Mapping[str, Any]) -> Toolset:
    if not Path(word).exists():
        _refuse_bare_address(word)
        raise _no_file(word)
    if key := _key_of_servers(word):
        raise ToolImportError(
            f'{word} names MCP servers {key}: put them under "mcpServers", {{"mcpServers": {{NAME: {{"command": …}}}}}}'
        )
    return Toolset.from_protocols(word)


def _open_python(word: str, _options: Mapping[str, Any]) -> Toolset:
    file = word if word.endswith(".py") else word.rpartition(":")[0]
    if not Path(file).is_file():
        raise _no_file(file)
    return tools_of(word)


def _head(word: str) -> bytes:
    path = Path(word)
    if path.suffix.lower() not in _DOCUMENTS or not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(_HEAD)


def _names_servers(path: Path) -> bool:
    """Whether a file is a configuration of MCP servers; one that only mentions them is not, if it is JSON."""
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return path.suffix.lower() == ".json"  # to be told what is wrong with it
    return isinstance(content, dict) and "mcpServers" in content


def _key_of_servers(word: str) -> str:
    """Return where a file without ``mcpServers`` names servers, as other clients' files do; empty if nowhere."""
    try:
        content = json.loads(_head(word))
    except (ValueError, RecursionError):
        return ""
    places = {"at its top": content, 'under "servers"': content.get("servers")} if isinstance(content, dict) else {}
    for where, found in places.items():
        entries = list(found.values()) if isinstance(found, dict) else []
        if entries and all(isinstance(e, dict) and isinstance(e.get("command", e.get("url")), str) for e in entries):
            return where
    return ""


def is_file(word: str) -> bool:
    """Whether a word names a Python file, or something in one."""
    return _parts(word)[0].endswith(".py")


def tools_of(word: str) -> Toolset:
    """The tools of a file or a module: all public functions, or what is named in it.

    Raises:
        ToolImportError: it cannot be imported, or what is named there holds no tools.
    """
    name, attribute = _parts(word)
    if name.endswith(".py"):
        return _from_module(_loaded(lambda: load_file(Path(name))), attribute, word)
    return _from_module(_loaded(lambda: load_module(name), f"{word!r}: "), attribute, word)


def _parts(word: str) -> tuple[str, str]:
    name, colon, attribute = word.rpartition(":")
    return (name, attribute) if colon else (word, "")


def _loaded(load: Callable[[], ModuleType], about: str = "") -> ModuleType:
    try:
        return load()
    except UsageError as error:
        raise ToolImportError(f"{about}{error}") from error


def _from_module(module: ModuleType, attribute: str, source: str) -> Toolset:
    if not attribute:
        functions = [
            f
            for n, f in vars(module).items()
            if inspect.isfunction(f) and f.__module__ == module.__name__ and not n.startswith("_")
        ]
        if not functions:
            raise ToolImportError(f"{source} defines no public function")
        return Toolset.from_functions(*functions)
    if not hasattr(module, attribute):
        raise ToolImportError(f"{source!r}: {module.__name__} has no {attribute}")
    found = getattr(module, attribute)
    if isinstance(found, Toolset):
        return found
    if isinstance(found, Tool):
        return Toolset([found])
    if isinstance(found, Iterable) and not isinstance(found, str | bytes | dict):
        return _from_items(list(found), source)
    if callable(found):
        return _from_callable(found, source)
    raise ToolImportError(f"{source!r} is a {type(found).__name__}: give a Toolset, a function, or a list of functions")


def _from_items(items: list[Any], source: str) -> Toolset:
    if not items or not all(isinstance(item, Tool) or callable(item) for item in items):
        raise ToolImportError(f"{source!r} must be a list of functions or tools, and not empty")
    return Toolset(item if isinstance(item, Tool) else tool_from_function(item) for item in items)


def _from_callable(found: Callable[..., Any], source: str) -> Toolset:
    annotation = getattr(found, "__annotations__", {}).get("return")
    if annotation in (Toolset, "Toolset"):
        try:
            made = found()
        except Exception as error:
            raise ToolImportError(f"{source!r} failed: {type(error).__name__}: {error}") from error
        if isinstance(made, Toolset):
            return made
        raise ToolImportError(f"{source!r} did not return the Toolset that it promised")
    return Toolset.from_functions(found)


SOURCES = (
    ToolSource(
        "`atlas`",
        lambda word: word in ("atlas", "atlas:broken"),
        lambda word, _: TOOL_SOURCES.make("atlas", word.removeprefix("atlas").lstrip(":"), a=Toolset),
    ),
    ToolSource(
        "mcp:URL or 'mcp:COMMAND …' for an MCP server, a .json file with mcpServers",
        _is_mcp,
        _open_mcp,
    ),
    ToolSource(
        "har:FILE (a recording of a browser; har:FILE@HOST chooses a host)",
        _is_har,
        _open_har,
    ),
    ToolSource(
        "an OpenAPI file or URL (also a service's address)",
        is_openapi,
        lambda word, options: Toolset.from_openapi(
            word if word.startswith(_URL) else Path(word),
            **{name: value for name, value in options.items() if name not in _OF_RECORDINGS},
        ),
    ),
    ToolSource(
        f"kept programs (NAME{SUFFIX}, a folder of them, or `{WORD}`: all that you kept)",
        is_kept_place,
        lambda word, _: joined(Toolset(), read_places([word])),
    ),
    ToolSource("a folder of protocol documents", _is_document, _open_documents),
    ToolSource("FILE.py, FILE.py:NAME", is_file, _open_python),
)
"""The sources of this package, in the order in which they are asked; then entry points, then ``MODULE:NAME``."""
FORMS = f"{', '.join(source.forms for source in SOURCES)}, MODULE:NAME, or NAME:ARG of an installed tool source"
