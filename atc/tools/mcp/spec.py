"""How a user names an MCP server: an address, a command, or the ``mcpServers`` of a configuration; and its secrets."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from atc._host.files import open_plain
from atc._host.header_syntax import is_header_value, is_token
from atc._host.log_masking import MaskingFilter
from atc._host.secret_forms import SecretForms, without_scheme
from atc.errors import ToolImportError, UsageError
from atc.schemas.protocol import origin_of

# -- the credentials for a server, and their removal from every text and value that comes from it ----------------------

REDACTED = "[redacted]"
_SECRET_NAME = re.compile(r"key|token|secret|passw|passphrase|credential|auth|bearer|cookie|_pat$|_pwd$", re.IGNORECASE)
_NAMED = re.compile(r"-{0,2}([\w.-]{1,100})\s{0,5}[=:]\s{0,5}(\S.*)", re.DOTALL)
_LOOKS_RANDOM = re.compile(r"(?=[^/]*\d)[\w.~%+=-]{16,}")
_SHORTEST = 4
_LONG = 8


class Secrets:
    """Values that are taken out wherever they stand.

    Args:
        certain: credentials; in messages from four characters on, in values from eight.
        likely: what may be one (``production``, ``true``): from eight characters on.
    """

    def __init__(self, certain: Iterable[str] = (), likely: Iterable[str] = ()) -> None:
        self._known: set[str] = set()
        self._forms = self._long = SecretForms(())
        self.add([*certain, *(value for value in likely if len(value.strip()) >= _LONG)])
        _LOG_FILTER.watch(self)

    def add(self, certain: Iterable[str]) -> None:
        """Credentials that came to be known only now: a token, say."""
        given = {value.strip() for each in certain for value in without_scheme(each)}
        self._known |= {value for value in given if len(value) >= _SHORTEST}
        self._forms = SecretForms(self._known)
        self._long = SecretForms(value for value in self._known if len(value) >= _LONG)

    def __repr__(self) -> str:
        return f"Secrets({len(self._known)})"

    def text(self, text: str) -> str:
        """A message without them."""
        return self._forms.masked(text, REDACTED)

    def value(self, value: Any) -> Any:
        """A JSON value without them, in keys too."""
        if not self._long:
            return value
        if isinstance(value, str):
            return self._long.masked(value, REDACTED)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        return value


def sort_values(named: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The values of variables or headers: those that are credentials by name, and those that may be.

    What names files that exist is a path: the server will speak of it, and programs need to hear that.
    """
    certain = [value for name, value in named.items() if _SECRET_NAME.search(name)]
    likely = [v for n, v in named.items() if not _SECRET_NAME.search(n) and not _is_path(v)]
    return certain, likely


def in_arguments(words: Sequence[str]) -> list[str]:
    """The credentials on a command line: ``--token X``, ``API_KEY=X``, ``Authorization: X``, passwords in URLs."""
    found = []
    for word, following in zip(words, [*words[1:], ""], strict=True):
        named = _NAMED.fullmatch(word)
        if named and _SECRET_NAME.search(named[1]):
            found.append(named[2])
        elif word.startswith("-") and _SECRET_NAME.search(word) and not following.startswith("-"):
            found.append(following)
        if "://" in word:
            found += in_url(named[2] if named and "://" in named[2] else word)
    return found


def in_url(url: str) -> list[str]:
    """The credentials of a URL: its password, the values of its query, and parts of its path that look random."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    login = parts.netloc.rpartition("@")[0]
    values = [value for _, value in parse_qsl(parts.query)] + [login.partition(":")[2] or login]
    return [*values, *(step for step in parts.path.split("/") if _LOOKS_RANDOM.fullmatch(step))]


def shown_url(url: str) -> str:
    """A URL without anything that may be a credential."""
    parts = urlsplit(url)
    path = "/".join("…" if _LOOKS_RANDOM.fullmatch(step) else step for step in parts.path.split("/"))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))


def _is_path(value: str) -> bool:
    return all(os.path.exists(part) for part in value.split(os.pathsep)) if "\0" not in value else False


_LOG_FILTER = MaskingFilter(Secrets.text)
"""Of the SDK and of its HTTP client."""
for _name in (
    "httpx2",
    "client",
    "mcp.client.auth.oauth2",
    "mcp.client.auth.utils",
    "mcp.client.streamable_http",
    "mcp.client.client",
    "mcp.shared.jsonrpc_dispatcher",
):
    _logger = logging.getLogger(_name)
    _logger.addFilter(_LOG_FILTER)
    _logger.addHandler(logging.NullHandler())  # without a log of the user's, nothing is printed into our output


# -- servers -----------------------------------------------------------------------------------------------------------

Source = str | Path | Sequence[str] | Mapping[str, Any]
"""A URL, a command (words, or one string that is split as a shell would), one server's mapping, a whole configuration
with ``mcpServers``, or the path of a ``.json`` file that holds one."""

MAX_CONFIG = 1_000_000
MAX_SERVERS = 50
_SHOWN = 120
_PACKAGE_RUNNERS = frozenset({"npx", "bunx", "pnpm", "yarn", "deno", "uvx", "uv", "pipx"})
_VERSION = re.compile(r"(?<=.)(?:@|==)(?:v?\d+(?:\.\d+){0,2}(?:[-+.]?[a-z][\w.-]*)?|latest|next)$")
"""The version behind a package's name; ``user@10.0.0.1`` has none."""
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]{0,200})(?::-([^}]{0,1000}))?\}")


@dataclass(frozen=True)
class OAuthOptions:
    """What a configuration says about the login at a server; without it the server and the SDK agree by themselves.

    Attributes:
        client_id: what we are called at the authorization server, where it registers no clients by itself.
        client_secret: proves it.
        issuer: the authorization server that those belong to. They are sent to no other.
        scope: what is asked for, words with spaces between.
        by_itself: we log in with our own credentials; no user takes part.
        redirect_port: the port of this machine that the browser comes back to; 0: any.
    """

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    issuer: str = ""
    scope: str = ""
    by_itself: bool = False
    redirect_port: int = 0


@dataclass(frozen=True, eq=False)
class ServerSpec:
    """One server, and what is needed to reach it.

    Attributes:
        name: its name in a configuration; else empty.
        location: what messages and protocols call it; never a credential.
        command: the program and its words; empty for a server over HTTP.
        env: variables for the program, beside the few that every one gets.
        cwd: the folder it starts in.
        url: its address; empty for a program.
        headers: headers for every request.
        secrets: what must not be shown.
        oauth: how to log in, where the configuration says.
        max_bytes: bytes of one answer, and of its list of tools, where the configuration says.
    """

    location: str
    secrets: Secrets
    name: str = ""
    command: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    oauth: OAuthOptions | None = field(default=None, repr=False)
    max_bytes: int | None = None

    @property
    def identity(self) -> str:
        """What stays the same from one start to the next, as :attr:`atc.schemas.protocol.SourceKey.server` says it."""
        if self.name or self.url:
            return self.name or origin_of(self.url)
        words = [os.path.basename(self.command[0]) or self.command[0], *self.command[1:]]
        if PurePath(words[0]).stem in _PACKAGE_RUNNERS:
            words = [_VERSION.sub("", word) for word in words]
        return self.secrets.text(shlex.join(words))

    def place(self) -> dict[str, str]:
        """Return what says which server it is, by kind and name, credentials among it: what its entry says, not what
        the program inherits."""
        if self.url:
            return {"address": self.url} | {f"header {name.lower()}": value for name, value in self.headers.items()}
        folder = os.path.realpath(self.cwd or ".")
        program = shutil.which(self.command[0], path=self.env.get("PATH")) or self.command[0]
        # where links lead, and not which files there are: a call may make the one that its server writes to
        paths = [os.path.normpath(os.path.join(folder, word)) for word in (program, *self.command[1:])]
        command = [*self.command, program, *(real for each in paths if (real := os.path.realpath(each)) != each)]
        return {"command": json.dumps(command), "folder": folder} | {
            f"variable {name}": value for name, value in self.env.items()
        }

    @property
    def login_name(self) -> str:
        """What ``atc mcp login`` takes for it: its address, or its name where the address holds a credential."""
        if self.url and shown_url(self.url) == self.url:
            return self.url
        return f"{shlex.quote(self.name)} --tools FILE" if self.name else "ADDRESS"


def read_specs(
    source: Source,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
) -> list[ServerSpec]:
    """The servers that a source names.

    Raises:
        ToolImportError: it names none, or a configuration is damaged.
        UsageError: an option does not fit, or a variable that a configuration wants is not set.
    """
    if isinstance(source, Path) or (isinstance(source, str) and _is_file_name(source)):
        source = read_config(Path(source))
    if isinstance(source, Mapping):
        if env or cwd or headers:
            raise UsageError("a server's mapping holds its own env, cwd and headers: write them there")
        return _from_mapping(source)
    if isinstance(source, str) and source.strip().startswith(("http://", "https://")):
        if env or cwd:
            raise UsageError("env= and cwd= are for a command, and this server has an address: pass headers=")
        return [_http_spec(source.strip(), headers or {})]
    if headers:
        raise UsageError("headers= are for an address, and this server is a command: pass env=")
    return [_command_spec(_words(source), env or {}, str(cwd) if cwd else None)]


def _is_file_name(text: str) -> bool:
    """A command may end in ``.json`` too: then it has other words before."""
    return text.endswith(".json") and "://" not in text and (len(text.split()) == 1 or Path(text).is_file())


def read_config(path: Path) -> dict[str, Any]:
    """The content of a configuration file.

    Raises:
        ToolImportError: it cannot be read, or holds no ``mcpServers``.
    """
    try:
        with open_plain(path) as file:
            text = file.read(MAX_CONFIG + 1)
        if len(text) > MAX_CONFIG:
            raise ToolImportError(f"{path} is larger than {MAX_CONFIG:,} bytes: is it a configuration of MCP servers?")
        content = json.loads(text)
    except OSError as error:
        raise ToolImportError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None
    except (ValueError, RecursionError) as error:
        raise ToolImportError(f"{path} is no JSON: {str(error)[:200]}") from None
    if not isinstance(content, dict) or "mcpServers" not in content:
        raise ToolImportError(f'{path} names no MCP server: it needs {{"mcpServers": {{NAME: {{"command": …}}}}}}')
    return content


def _words(source: Any) -> list[str]:
    if isinstance(source, str):
        try:
            words = shlex.split(source)
        except ValueError as error:
            raise ToolImportError(f"the server's command cannot be split into words: {error}") from None
    else:
        words = [str(word) if isinstance(word, Path) else word for word in source]
    if not words or not words[0] or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise ToolImportError(
            "no MCP server is named: give an http(s):// address, a command such as 'python server.py', or a .json file"
        )
    return words


def _from_mapping(source: Mapping[str, Any]) -> list[ServerSpec]:
    if "mcpServers" not in source:
        return [_entry("", source)]
    entries = source["mcpServers"]
    if not isinstance(entries, Mapping) or not entries:
        raise ToolImportError("mcpServers names no server: give a mapping of names to servers")
    if len(entries) > MAX_SERVERS:
        raise ToolImportError(f"mcpServers names more than {MAX_SERVERS} servers: split it")
    used = {str(name): e for name, e in entries.items() if not (isinstance(e, Mapping) and e.get("disabled") is True)}
    if not used:
        raise ToolImportError('every server of mcpServers is disabled: remove "disabled" from one')
    return [_entry(name, entry) for name, entry in used.items()]


def _entry(name: str, raw: Any) -> ServerSpec:
    where = f"mcpServers[{name!r}]" if name else "the server's mapping"
    if not isinstance(raw, Mapping):
        raise ToolImportError(f"{where} is a {type(raw).__name__}: give a mapping with 'command' or 'url'")
    kind = str(raw.get("type", raw.get("transport", ""))).lower()
    if kind == "sse":
        raise ToolImportError(f"{where} is of type 'sse', which MCP has given up: give its streamable HTTP address")
    address = raw.get("url", raw.get("httpUrl", raw.get("serverUrl")))
    if ("command" in raw) == (address is not None):
        raise ToolImportError(f"{where} must have either 'command' or 'url'")
    filled = _Filled(where)
    if address is not None:
        url, headers = filled.text(address, "url"), filled.mapping(raw.get("headers"), "headers")
        oauth = _oauth(raw["oauth"], filled, where) if raw.get("oauth") else None
        spec = replace(_http_spec(url, headers, filled.values), oauth=oauth)
        spec.secrets.add([oauth.client_secret] if oauth is not None else [])
    else:
        args = raw.get("args") or []
        if not isinstance(args, list):
            raise ToolImportError(f"{where}.args is a {type(args).__name__}: give a list of words")
        words = [filled.text(raw["command"], "command"), *(filled.text(word, "args") for word in args)]
        cwd = filled.text(raw["cwd"], "cwd") if raw.get("cwd") else None
        spec = _command_spec(_words(words), filled.mapping(raw.get("env"), "env"), cwd, filled.values)
    if type(most := raw.get("max_bytes", 1)) is not int or most < 1:
        raise ToolImportError(f"{where}.max_bytes must be a number of bytes, not {most!r:.40}")
    spec = replace(spec, max_bytes=raw.get("max_bytes"))
    return replace(spec, name=name, location=f"{name} ({spec.location})") if name else spec


def _oauth(raw: Any, filled: _Filled, where: str) -> OAuthOptions:
    given = filled.mapping(raw, "oauth")
    known = {"client_id", "client_secret", "issuer", "scope", "grant", "redirect_port"}
    if unknown := sorted(given.keys() - known):
        raise ToolImportError(f"{where}.oauth has {unknown[0]!r}, but it takes {', '.join(sorted(known))}")
    grant, port = given.pop("grant", "authorization_code"), given.pop("redirect_port", "0")
    if grant not in ("authorization_code", "client_credentials"):
        raise ToolImportError(f"{where}.oauth.grant must be authorization_code or client_credentials")
    if not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise ToolImportError(f"{where}.oauth.redirect_port must be a port: a number below 65536")
    made = OAuthOptions(**given, by_itself=grant == "client_credentials", redirect_port=int(port))
    if made.by_itself and not (made.client_id and made.client_secret and made.issuer):
        raise ToolImportError(f"{where}.oauth with grant client_credentials needs client_id, client_secret and issuer")
    if made.client_secret and not made.issuer:
        raise ToolImportError(f"{where}.oauth has a client_secret: name the issuer that it belongs to, too")
    if made.issuer and urlsplit(made.issuer).scheme not in ("http", "https"):
        raise ToolImportError(f"{where}.oauth.issuer must be the http(s):// address of an authorization server")
    return made


class _Filled:
    def __init__(self, where: str) -> None:
        self._where = where
        self.values: dict[str, str] = {}

    def text(self, value: Any, what: str) -> str:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ToolImportError(f"{self._where}.{what} has a {type(value).__name__}: give text")

        def found(match: re.Match[str]) -> str:
            name, default = match.groups()
            if name not in os.environ and default is None:
                raise UsageError(f"{self._where}.{what} wants the environment variable {name}: set it")
            if name in os.environ:
                self.values[name] = os.environ[name]
            return os.environ.get(name, default or "")

        return _VARIABLE.sub(found, str(value))

    def mapping(self, value: Any, what: str) -> dict[str, str]:
        if not isinstance(value or {}, Mapping):
            raise ToolImportError(f"{self._where}.{what} is a {type(value).__name__}: give a mapping of names to text")
        return {str(key): self.text(item, f"{what}.{key}") for key, item in (value or {}).items()}


def _http_spec(url: str, headers: Mapping[str, str], more: Mapping[str, str] | None = None) -> ServerSpec:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ToolImportError("the server's address is no http(s):// URL with a host: check it")
    for name, value in headers.items():
        if not is_token(name) or not isinstance(value, str) or not is_header_value(value):
            raise UsageError(f"headers[{name!r}] is no header: take a plain name and a value without line breaks")
    certain, likely = sort_values({**headers, **(more or {})})
    secrets = Secrets([*certain, *in_url(url)], likely)
    return ServerSpec(shown_url(url), secrets, url=url, headers=dict(headers))


def _command_spec(
    words: list[str], env: Mapping[str, str], cwd: str | None, more: Mapping[str, str] | None = None
) -> ServerSpec:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name or not isinstance(value, str) or "\0" in value:
            raise UsageError(f"env[{name!r}] is no variable: take a plain name and text")
    if cwd is not None and not Path(cwd).is_dir():
        raise ToolImportError(f"there is no folder {cwd}, in which the server should start")
    certain, likely = sort_values({**env, **(more or {})})
    secrets = Secrets([*certain, *in_arguments(words)], likely)
    shown = secrets.text(shlex.join([os.path.basename(words[0]) or words[0], *words[1:]]))
    location = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + " …"
    return ServerSpec(location, secrets, command=tuple(words), env=dict(env), cwd=cwd)
