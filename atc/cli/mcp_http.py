"""Options of ``atc mcp --http``, and what they come to."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import platformdirs
import typer

from atc.cli.console import err
from atc.errors import UsageError

if TYPE_CHECKING:
    from mcp.server.auth.provider import TokenVerifier as Verifier

    from atc.serve.mcp.gateway import Gateway
    from atc.serve.mcp.http import HttpSettings, Lock, Names

PANEL = "Over HTTP"


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=PANEL, **more)


Http = Annotated[bool, _option("--http", help="Serve streamable HTTP at http://HOST:PORT/mcp instead of pipes.")]
Host = Annotated[str, _option("--host", envvar="ATC_MCP_HOST", help="Address to listen at; 0.0.0.0 for all.")]
Port = Annotated[int, _option("--port", envvar="ATC_MCP_PORT", min=0, max=65535, help="Port; 0 takes a free one.")]
TokenFile = Annotated[
    Path | None,
    _option(
        "--token-file", envvar="ATC_MCP_TOKEN_FILE", help="File that holds the token of clients; else ATC_MCP_TOKEN."
    ),
]
Tokens = Annotated[
    Path | None,
    _option("--tokens", envvar="ATC_MCP_TOKENS", help="File of lines `name token`: several clients, kept apart."),
]
NoAuth = Annotated[bool, _option("--no-auth", help="Let every program of this machine in. Only on loopback.")]
AllowHost = Annotated[
    list[str] | None, _option("--allow-host", help="Name by which clients reach it. May be given several times.")
]
AllowOrigin = Annotated[
    list[str] | None, _option("--allow-origin", help="Pages that may call: https://HOST. May be given several times.")
]
TlsCert = Annotated[
    Path | None, _option("--tls-cert", envvar="ATC_MCP_TLS_CERT", help="Certificate chain (PEM): serve https.")
]
TlsKey = Annotated[Path | None, _option("--tls-key", envvar="ATC_MCP_TLS_KEY", help="Key of the certificate (PEM).")]
DrainS = Annotated[float, _option("--drain-s", min=0, help="Seconds that calls get to end after SIGTERM.")]
ResourceUrl = Annotated[
    str, _option("--resource-url", envvar="ATC_MCP_RESOURCE_URL", help="Address of /mcp as clients reach it.")
]
OauthSelf = Annotated[
    bool,
    _option("--oauth-self", help="OAuth without another server: you let each client in on a page, by a pass phrase."),
]
OauthIssuer = Annotated[
    str, _option("--oauth-issuer", envvar="ATC_MCP_OAUTH_ISSUER", help="OAuth: the authorization server of clients.")
]
OauthAudience = Annotated[
    list[str] | None,
    _option("--oauth-audience", help="OAuth: the audience (`aud`) of tokens for this server. Default: --resource-url."),
]
OauthScope = Annotated[
    list[str] | None, _option("--oauth-scope", help="OAuth: a scope that tokens must have. May be given several times.")
]
OauthClient = Annotated[
    str,
    _option(
        "--oauth-client",
        help="OAuth: ask the issuer about each token (introspection) as this client; its secret: ATC_MCP_OAUTH_SECRET.",
    ),
]


@dataclass(frozen=True)
class HttpOptions:
    """What the command line says about HTTP; names as the options have them."""

    host: str = "127.0.0.1"
    port: int = 8790
    token_file: Path | None = None
    tokens: Path | None = None
    no_auth: bool = False
    allow_host: tuple[str, ...] = ()
    allow_origin: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    drain_s: float = 30.0
    resource_url: str = ""
    oauth_self: bool = False
    oauth_issuer: str = ""
    oauth_audience: tuple[str, ...] = ()
    oauth_scope: tuple[str, ...] = ()
    oauth_client: str = ""

    @property
    def url(self) -> str:
        """The address of the server as its clients reach it, as far as that is known."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.resource_url or f"{'https' if self.tls_cert else 'http'}://{host}:{self.port}/mcp"


def check(context: typer.Context, http: bool) -> None:
    """Refuse options of HTTP that stand on the command line without ``--http``.

    Raises:
        UsageError: there is one.
    """
    hidden = {each.name for each in context.command.params if getattr(each, "hidden", False)}  # `--set` gives them
    for field in () if http else fields(HttpOptions):
        source = context.get_parameter_source(field.name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--set {field.name}" if field.name in hidden else f"--{field.name.replace('_', '-')}"
            raise UsageError(f"{option} goes with --http")


def settings_of(given: HttpOptions) -> HttpSettings:
    """How to serve.

    Raises:
        UsageError: options do not fit each other, or a file is not what it should be.
        EnvironmentProblem: a token cannot be kept.
    """
    from atc._host.addresses import is_loopback
    from atc.serve.http import tls_files
    from atc.serve.mcp.http import HttpSettings

    tls = tls_files(given.tls_cert, given.tls_key)
    here = is_loopback(given.host)
    lock = _lock(given, here)
    if not here and not tls:
        err.print("atc: serving http without --tls-cert: the way to clients must be encrypted by other means")
    return HttpSettings(lock, _names(given, here), given.drain_s, tls)


def _lock(given: HttpOptions, here: bool) -> Lock:
    from atc.serve.mcp.http import Lock, Resource
    from atc.serve.mcp.tokens import TokenVerifier, kept_token
    from atc.serve.tokens import Tenants

    tokens = _tokens(given)
    if given.no_auth:
        if tokens or given.oauth_issuer or given.oauth_self:
            raise UsageError("--no-auth goes with no token, no --oauth-issuer and no --oauth-self")
        if not here:
            raise UsageError(
                f"--no-auth is for this machine alone, and {given.host} is reached from elsewhere: give tokens"
            )
        err.print("atc: every program of this machine may use these tools: --no-auth")
        return Lock()
    if given.oauth_self:
        return _own_lock(given, here, tokens)
    if not tokens and not given.oauth_issuer:
        if not here:
            raise UsageError(
                f"{given.host} is reached from elsewhere: give --token-file, --tokens, ATC_MCP_TOKEN, --oauth-issuer "
                "or --oauth-self"
            )
        path = _kept("mcp-token")
        tokens = {"owner": kept_token(path)}
        err.print(f"atc: clients show the token in {path}", markup=False, soft_wrap=True)
    verifiers: list[Verifier] = [TokenVerifier(Tenants(tokens), given.oauth_scope)] if tokens else []
    if not given.oauth_issuer:
        return Lock(verifiers)
    from atc.serve.mcp.tokens import verifier_of

    if not given.resource_url and not here:
        raise UsageError("--oauth-issuer needs --resource-url: the address of /mcp as clients reach it")
    secret = os.environ.get("ATC_MCP_OAUTH_SECRET", "").strip()
    audiences = given.oauth_audience or (given.url,)
    verifiers.append(verifier_of(given.oauth_issuer, audiences, client=given.oauth_client, secret=secret))
    return Lock(verifiers, Resource(given.url, given.oauth_issuer, given.oauth_scope))


def _own_lock(given: HttpOptions, here: bool, tokens: dict[str, str]) -> Lock:
    from atc._host.addresses import is_loopback
    from atc.serve.mcp.consent import routes_of
    from atc.serve.mcp.http import Lock, Resource
    from atc.serve.mcp.oauth_own import OwnServer
    from atc.serve.mcp.tokens import TokenVerifier, kept_token
    from atc.serve.tokens import Tenants

    if given.oauth_issuer:
        raise UsageError("--oauth-self and --oauth-issuer name two authorization servers: give one")
    if not given.resource_url and (not here or given.port == 0):
        raise UsageError("--oauth-self needs --resource-url: the address of /mcp as clients reach it")
    parts = urlsplit(given.url)
    origin = f"{parts.scheme}://{parts.netloc}"
    if parts.path != "/mcp" or (parts.scheme != "https" and not is_loopback(parts.hostname or "")):
        raise UsageError(
            f"--oauth-self needs an address such as https://HOST/mcp, not {given.url!r}: give --resource-url"
        )
    phrase = _kept("mcp-passphrase")
    own = OwnServer(origin, given.url, kept_token(phrase), _kept("mcp-clients.json"), list(given.oauth_scope))
    err.print(f"atc: you let clients in by the pass phrase in {phrase}", markup=False, soft_wrap=True)
    verifiers: list[Verifier] = [TokenVerifier(Tenants(tokens), given.oauth_scope)] if tokens else []
    return Lock([*verifiers, own], Resource(given.url, origin, given.oauth_scope), routes_of(own))


def _kept(name: str) -> Path:
    return Path(platformdirs.user_state_dir("atc")) / name


def _tokens(given: HttpOptions) -> dict[str, str]:
    from atc.serve.tokens import tokens_given

    for path in (given.token_file, given.tokens):
        if path is not None:
            _warn_if_open(path)
    return tokens_given(given.tokens, given.token_file, "ATC_MCP_TOKEN", "owner")


def _warn_if_open(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # reading it says why
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        err.print(f"atc: others on this machine can read {path}: chmod 600 it", markup=False, soft_wrap=True)


def _names(given: HttpOptions, here: bool) -> Names:
    from atc.serve.mcp.http import Names, origins_of

    hosts = {each.lower().rstrip(".") for each in given.allow_host}
    if bad := [each for each in hosts if not each or any(character in each for character in "/:*@ ")]:
        raise UsageError(f"--allow-host takes a name such as tools.example.org, not {bad[0]!r}")
    for origin in given.allow_origin:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.rstrip("/") or "*" in origin:
            raise UsageError(f"--allow-origin takes https://HOST or https://HOST:PORT, not {origin!r}")
    if given.resource_url:
        parts = urlsplit(given.resource_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UsageError(f"--resource-url takes https://HOST/mcp, not {given.resource_url!r}")
        hosts.add(parts.hostname)
    own = {"{0.scheme}://{0.netloc}".format(urlsplit(given.url))} if given.oauth_self else set()  # its own page
    return Names(frozenset(hosts), origins_of({*given.allow_origin, *own}), local_pages=here and not given.no_auth)


def serve(gateway: Gateway, given: HttpOptions) -> None:
    """Serve until a signal ends it.

    Raises:
        UsageError, EnvironmentProblem: as :func:`settings_of`, and where the address cannot be listened at.
    """
    from atc.serve.mcp.http import serve_http

    settings = settings_of(given)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.WARNING)
    logging.getLogger("mcp").setLevel(logging.ERROR)  # its warnings name sessions, and a stranger can make many
    asyncio.run(
        serve_http(gateway, given.host, given.port, settings, lambda port: _announce(replace(given, port=port)))
    )


def _announce(given: HttpOptions) -> None:
    """Never print the token itself."""
    err.print(f"atc: MCP at {given.url}", markup=False, soft_wrap=True)
    if given.oauth_issuer or given.oauth_self:
        err.print(
            f'atc: for a client: {{"mcpServers": {{"atc": {{"type": "http", "url": "{given.url}"}}}}}}',
            markup=False,
            soft_wrap=True,
        )
    elif not given.no_auth:
        entry = f'{{"type": "http", "url": "{given.url}", "headers": {{"Authorization": "Bearer ${{ATC_MCP_TOKEN}}"}}}}'
        err.print(f'atc: for a client: {{"mcpServers": {{"atc": {entry}}}}}', markup=False, soft_wrap=True)
