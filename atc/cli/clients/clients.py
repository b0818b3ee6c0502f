"""The clients that are known: where each keeps its servers, how it writes one, and what ATC makes of an entry."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path, PurePath
from typing import Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict

from atc.errors import UsageError
from atc.tools.mcp.spec import read_specs

Platform = Literal["linux", "mac", "windows"]
Scope = Literal["user", "project"]
Form = Literal["json", "toml", "yaml"]
_HERE: Platform = "mac" if sys.platform == "darwin" else "windows" if sys.platform == "win32" else "linux"
_VARIABLE = re.compile(r"\$\{([A-Z_]+):-([^}]*)\}")


class Dialect(BaseModel):
    """How a client writes one server; the head of ``clients.toml`` says what each field means."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str = "command"
    joined: bool = False
    env: str = "env"
    url: str = "url"
    headers: str = "headers"
    constants: dict[str, Any] = {}
    named: str = ""
    http: tuple[str, ...] = ()
    untyped: Literal["http", "sse"] = "http"
    dropped: tuple[str, ...] = ()
    variables: Literal["", "plain", "env"] = ""
    dollar: bool = False


class Client(BaseModel):
    """One client, a record of ``clients.toml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    title: str
    form: Form = "json"
    key: str = "mcpServers"
    user: dict[Literal["linux", "mac", "windows", "any"], tuple[str, ...]] = {}
    project: str = ""
    folders: tuple[str, ...] = ()
    entry: Dialect = Dialect()
    source: str
    notes: str = ""


@dataclass(frozen=True)
class Machine:
    """Where files are looked for: a user's home, the folder of a project, and the place of our own records.

    Attributes:
        home: the user's folder.
        project: the folder that a file of the scope ``project`` is in.
        state: the folder for what we remember; only its owner may read it.
        environ: the environment.
        platform: which paths are meant.
    """

    home: Path = field(default_factory=Path.home)
    project: Path = field(default_factory=Path.cwd)
    state: Path = field(default_factory=lambda: platformdirs.user_config_path("atc") / "mcp")
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    platform: Platform = _HERE

    def path(self, pattern: str) -> Path:
        """``${NAME:-DEFAULT}`` and ``~`` in a pattern, filled in."""
        filled = _VARIABLE.sub(lambda found: self.environ.get(found[1]) or found[2], pattern)
        return self.home / filled[2:] if filled.startswith("~/") else Path(filled)


@cache
def clients() -> Mapping[str, Client]:
    """The clients by their ids."""
    table = tomllib.loads((Path(__file__).parent / "clients.toml").read_text("utf-8"))
    return {name: Client(id=name, **record) for name, record in table.items()}


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def client_named(name: str) -> Client:
    """A client.

    Raises:
        UsageError: none is called so.
    """
    for each in clients().values():
        if _bare(name) in (_bare(each.id), _bare(each.title)):
            return each
    near = get_close_matches(name[:50], clients(), 1)
    meant = f"did you mean {near[0]}? It knows " if near else ""
    raise UsageError(f"{name!r} is no client that ATC knows: {meant}{', '.join(clients())}; or paste the entry by hand")


@dataclass(frozen=True)
class Place:
    """The configuration of a client that is meant.

    Attributes:
        path: as it is named; it may be a link.
        missing: the folder whose absence says that the client is not installed; ``None`` if it seems to be.
        chosen: whether the user named the file.
    """

    path: Path
    scope: Scope
    missing: Path | None = None
    chosen: bool = False


def place_of(client: Client, machine: Machine, *, scope: Scope = "user", config: Path | None = None) -> Place:
    """Where a client keeps its servers.

    Raises:
        UsageError: it has no file of that scope.
    """
    if config is not None:
        return Place(Path(os.path.abspath(config)), scope, chosen=True)
    if scope == "project":
        if not client.project:
            raise UsageError(f"{client.title} has no configuration of a project: leave out --scope project")
        return Place(machine.project / client.project, scope, None if machine.project.is_dir() else machine.project)
    patterns = client.user.get(machine.platform) or client.user.get("any")
    if not patterns:
        raise UsageError(f"{client.title} has no configuration of a user that ATC can edit: use --scope project")
    paths = [machine.path(pattern) for pattern in patterns]
    if there := [path for path in paths if os.path.lexists(path)]:
        return Place(there[0], scope)
    shown = [machine.path(folder) for folder in client.folders]
    installed = [path for path in paths if any(folder.is_dir() for folder in shown or [path.parent])]
    return Place(installed[0], scope) if installed else Place(paths[0], scope, (*shown, paths[0].parent)[0])


# -- one server in a client's file: ATC's own, and those of others as ATC would run them -------------------------------

MAX_NAME = 100
_BRACES = re.compile(r"\$\{([^}]*)\}")
_FILLED = {
    "plain": re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?"),
    "env": re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)()"),
}
"""What stands in the braces where the client and ATC both fill in a variable: its name, and perhaps a default."""
_DOLLAR = re.compile(r"\$[A-Za-z_]")
_OTHERS = re.compile(r"(?<!\$)\{(?:env|file):")
_RESERVED = frozenset({"__proto__", "constructor", "prototype"})


def own_command(program: str | None = None, python: str = sys.executable) -> list[str]:
    """The words that start this ``atc`` again, from any folder and after this process has ended.

    Args:
        program: how it was started (``sys.argv[0]``).
        python: the interpreter.

    Raises:
        UsageError: it runs from a folder that will be deleted.
    """
    program = sys.argv[0] if program is None else program
    found = shutil.which(program if PurePath(program).stem == "atc" else "atc")
    if PurePath(program).name == "__main__.py" or found is None:
        return [python, "-m", "atc"]
    parts = Path(os.path.realpath(found)).parts
    if any(part.startswith(("archive-v", "environments-v")) for part in parts) or {"pipx", ".cache"} <= {*parts}:
        raise UsageError(
            "uvx or `pipx run` keeps this ATC for a while only: install it to stay (`uv tool install` or "
            "`pipx install`), then run `atc mcp install` again"
        )
    return [os.path.abspath(found)]


def own_entry(client: Client, name: str, words: Sequence[str]) -> dict[str, Any]:
    """The entry that starts ATC, as a client writes one."""
    dialect = client.entry
    named = {dialect.named: name} if dialect.named else {}
    command = {dialect.command: list(words)} if dialect.joined else {dialect.command: words[0], "args": [*words[1:]]}
    return named | dialect.constants | command


def words_of(client: Client, entry: Any) -> list[str]:
    """The command of an entry; empty for one without."""
    if not isinstance(entry, Mapping):
        return []
    command, args = entry.get(client.entry.command), entry.get("args")
    words = [*(command if isinstance(command, list) else [command]), *(args if isinstance(args, list) else [])]
    return words if all(isinstance(word, str) for word in words) else []


def arguments_of(words: Sequence[str]) -> list[str] | None:
    """What follows ``atc mcp`` in a command; ``None`` if it does not start ATC."""
    for at, word in enumerate(words[:-1]):
        if PurePath(word.replace("\\", "/")).name.removesuffix(".exe") == "atc" and words[at + 1] == "mcp":
            return list(words[at + 2 :])
    return None


def is_atc(client: Client, entry: Any) -> bool:
    """Whether an entry starts ATC as a server."""
    return arguments_of(words_of(client, entry)) is not None


def movable(client: Client, name: str, entry: Any, environ: Mapping[str, str]) -> dict[str, Any] | str:
    """An entry under the keys that ATC's own files have (``mcpServers``), or why it stays where it is."""
    if name in _RESERVED or not name.isprintable() or not 0 < len(name) <= MAX_NAME:
        return "its name is not one that ATC uses"
    if not isinstance(entry, Mapping):
        return f"it is a {type(entry).__name__}, not a mapping"
    if entry.get("disabled") or entry.get("enabled") is False:
        return "it is switched off"
    dialect = client.entry
    ours = {dialect.command: "command", dialect.env: "env", dialect.url: "url", dialect.headers: "headers"}
    left_out = {"type", "transport", "enabled", *dialect.dropped}
    made: dict[str, Any] = {
        str(ours.get(key, key)): value
        for key, value in entry.items()
        if key not in left_out and value not in (None, "", [], {}, False)
    }
    if dialect.joined and isinstance(made.get("command"), list):
        made["command"], *made["args"] = made["command"]
    runs = "command" in made
    if not runs and "url" not in made:
        return "it has neither a command nor an address"
    usual = "stdio" if runs else dialect.untyped if dialect.url in entry else "sse"
    kind = entry.get("type", entry.get("transport", usual))
    if kind not in (("stdio", "local") if runs else ("http", "streamable-http", *dialect.http)):
        return f"it is of the type {kind!r}" + (", and ATC speaks streamable HTTP" if "url" in made else "")
    if strange := made.keys() - ({"command", "args", "env", "cwd"} if runs else {"url", "headers"}):
        return f"ATC has nothing for its {', '.join(map(repr, sorted(strange)))}"
    if problem := _variables(dialect, made, environ):
        return problem
    try:
        json.dumps(entry, ensure_ascii=False, allow_nan=False).encode()
        read_specs({"mcpServers": {name: made}})
    except UsageError as error:
        return str(error)
    except (TypeError, ValueError):
        return "it holds a value that JSON does not have"
    return made


def _variables(dialect: Dialect, made: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Why the variables in an entry would not mean the same behind ATC; empty if they would."""
    for text in _texts(made):
        if _OTHERS.search(text) or (dialect.dollar and _DOLLAR.search(text)):
            return "it has variables in a form that ATC does not fill in"
        for found in _BRACES.finditer(text, 0, text.rfind("}") + 1):
            ours = _FILLED[dialect.variables].fullmatch(found[1]) if dialect.variables else None
            if ours is None:
                return f"ATC does not fill in {found[0]!r} as the client does"
            if not ours[2] and ours[1] not in environ:
                return f"its variable {ours[1]} is not set here"
    return ""


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for inner in value.values() for text in _texts(inner)]
    return [text for inner in value for text in _texts(inner)] if isinstance(value, list) else []
