"""The clients that are known: where each keeps its servers, and how it writes one."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict

from atc.errors import UsageError

Platform = Literal["linux", "mac", "windows"]
Scope = Literal["user", "project"]
Form = Literal["json", "jsonc", "toml", "yaml"]
_VARIABLE = re.compile(r"\$\{([A-Z_]+):-([^}]*)\}")


class Dialect(BaseModel):
    """How a client writes one server.

    Attributes:
        command: the key of the program. ``joined``: it holds the program and its words, as one list.
        env: the key of the variables.
        url: the key of an address of streamable HTTP. ``headers``: the key of its headers.
        constants: what else stands in an entry of ours.
        named: the key that repeats the server's name; empty if none does.
        http: values of ``type`` that mean streamable HTTP, beside ``http`` and ``streamable-http``.
        untyped: what an address without a ``type`` is.
        dropped: keys that a server does without behind ATC: words for people, and limits of time.
        variables: how the client writes variables that it fills in: ``${NAME}`` (plain), ``${env:NAME}`` (env), or not.
        dollar: whether it fills in ``$NAME``, too.
    """

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
    """One client.

    Attributes:
        id: its word on the command line. ``title``: its name.
        form: how its file is written. ``key``: the keys that lead to its servers.
        user: the files of a user by platform, or for ``any``; the first that exists is meant.
        project: the file of a project, relative to its folder; empty if it has none.
        folders: folders that show that the client is here, where that of its file would not.
        entry: how it writes a server.
        source: the page that says so. ``notes``: what a user should know.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    title: str
    form: Form
    key: tuple[str, ...]
    user: dict[Literal["linux", "mac", "windows", "any"], tuple[str, ...]] = {}
    project: str = ""
    folders: tuple[str, ...] = ()
    entry: Dialect = Dialect()
    source: str
    notes: str = ""


def this_platform() -> Platform:
    """The platform of this process."""
    return "mac" if sys.platform == "darwin" else "windows" if sys.platform == "win32" else "linux"


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
    platform: Platform = field(default_factory=this_platform)

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
    wanted = _bare(name)
    found = next((each for each in clients().values() if wanted in (_bare(each.id), _bare(each.title))), None)
    if found is None:
        near = get_close_matches(name[:50], clients(), 1)
        meant = f"did you mean {near[0]}? It knows " if near else ""
        raise UsageError(
            f"{name!r} is no client that ATC knows: {meant}{', '.join(clients())}; or paste the entry by hand"
        )
    return found


@dataclass(frozen=True)
class Place:
    """The configuration of a client that is meant.

    Attributes:
        path: as it is named; it may be a link.
        scope: whose it is. ``chosen``: whether the user named the file.
        here: whether the client seems to be installed: its file or its folder is there.
    """

    path: Path
    scope: Scope
    here: bool
    chosen: bool = False


def place_of(client: Client, machine: Machine, *, scope: Scope = "user", config: Path | None = None) -> Place:
    """Where a client keeps its servers.

    Raises:
        UsageError: it has no file of that scope.
    """
    if config is not None:
        return Place(Path(os.path.abspath(config)), scope, here=True, chosen=True)
    if scope == "project":
        if not client.project:
            raise UsageError(f"{client.title} has no configuration of a project: leave out --scope project")
        return Place(machine.project / client.project, scope, here=machine.project.is_dir())
    patterns = client.user.get(machine.platform) or client.user.get("any")
    if not patterns:
        raise UsageError(f"{client.title} has no configuration of a user that ATC can edit: use --scope project")
    paths = [machine.path(pattern) for pattern in patterns]
    there = [path for path in paths if os.path.lexists(path)]
    shown = [machine.path(folder) for folder in client.folders]
    installed = [path for path in paths if any(folder.is_dir() for folder in shown or [path.parent])]
    return Place((there or installed or paths)[0], scope, here=bool(there or installed))
