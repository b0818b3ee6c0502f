"""Logins at MCP servers: got with the user's eyes open, kept for the server's address alone, renewed, forgotten."""

from __future__ import annotations

import asyncio
import json
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import platformdirs
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthToken
from typer.testing import CliRunner

from atc import Toolset
from atc.cli import app
from atc.errors import ToolImportError
from atc.tools.mcp.http import KeptLoginAuth, renew
from atc.tools.mcp.live import LiveTools, live_tools
from atc.tools.mcp.login import LoginFailed, Talk, log_in
from atc.tools.mcp.logins import FOLDER, Login, Logins
from atc.tools.mcp.spec import ServerSpec, read_specs
from tests.support.mcp import called, one
from tests.support.mcp_oauth import Vault, vault

URL = "https://tools.example/mcp"


def login(url: str = URL, **more: Any) -> Login:
    return Login(url=url, token=OAuthToken(access_token="access-000001"), **more)


@pytest.fixture
def logins() -> Logins:
    return Logins.of_user()


@pytest.fixture(scope="module")
def served() -> Iterator[Vault]:
    with vault() as made:
        yield made


def invoked(*words: str) -> str:
    return " ".join(CliRunner().invoke(app, words).output.split())


def browser(url: str) -> None:
    """The user agrees to everything."""
    asyncio.get_running_loop().run_in_executor(None, lambda: urllib.request.urlopen(url, timeout=30).read())


def logged_in(spec: ServerSpec, agree: bool = True, shown: list[str] | None = None) -> Login | None:
    asked: list[str] = shown if shown is not None else []

    def ask(question: str) -> bool:
        asked.append(question)
        return agree

    return asyncio.run(log_in(spec, Talk(asked.append, ask, browser), timeout_s=60))


# What is kept


def test_a_login_is_its_owners_and_of_one_address(
    logins: Logins, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logins.write(login())
    file = next(Path(platformdirs.user_config_dir("atc"), FOLDER).glob("*.json"))
    assert file.is_relative_to(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert logins.read(URL) == login()
    assert logins.read("https://tools.example/other") is None
    assert "access-000001" not in repr(login())
    file.write_text(login("https://evil.example/mcp").model_dump_json())
    assert logins.read(URL) is None
    assert "damaged" in caplog.text
    assert not file.exists()


def test_a_login_is_sent_to_its_own_origin_alone(logins: Logins) -> None:
    logins.write(login())
    spec = read_specs(URL)[0]

    async def sent(url: str) -> str | None:
        flow = KeptLoginAuth(spec, logins).async_auth_flow(httpx2.Request("POST", url))
        request = await anext(flow)
        await flow.aclose()
        return request.headers.get("Authorization")

    assert asyncio.run(sent(URL)) == "Bearer access-000001"
    assert spec.secrets.text("it was access-000001") == "it was [redacted]"
    for elsewhere in ("https://evil.example/mcp", "http://tools.example/mcp", "https://tools.example:444/mcp"):
        assert asyncio.run(sent(elsewhere)) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"client_idd": "x"}, "oauth has 'client_idd', but it takes client_id"),
        ({"client_id": "x", "client_secret": "y"}, "name the issuer"),
        ({"grant": "client_credentials", "client_id": "x"}, "needs client_id, client_secret and issuer"),
        ({"grant": "password"}, "must be authorization_code or client_credentials"),
        ({"redirect_port": "-1"}, "must be a port"),
        ({"issuer": "file:///etc"}, "http(s):// address"),
        (["x"], "is a list"),
    ],
)
def test_wrong_options_of_a_login_are_told(given: Any, words: str) -> None:
    with pytest.raises(ToolImportError) as caught:
        read_specs({"mcpServers": {"a": {"url": URL, "oauth": given}}})
    assert words in str(caught.value)


def test_the_command_names_servers_that_it_does_not_know(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"a": {"url": URL}, "b": {"command": "true"}}}))
    assert "those of --tools with an address are a" in invoked("mcp", "login", "b", "--tools", str(file))
    assert "give its address" in invoked("mcp", "login", "b")
    Logins.of_user().write(login())
    assert "is deleted" in invoked("mcp", "logout", "a", "--tools", str(file))
    assert "No login" in invoked("mcp", "logout", URL)


# Real servers


@pytest.mark.slow
def test_a_server_wants_a_login_gets_it_and_keeps_it(served: Vault, logins: Logins) -> None:
    with pytest.raises(ToolImportError) as caught:
        Toolset.from_mcp(served.url)
    assert f"run `atc mcp login {served.url}`" in str(caught.value)
    shown: list[str] = []
    made = logged_in(read_specs(served.url)[0], shown=shown)
    assert made is not None
    assert "The token will come from 127.0.0.1" in shown[0]
    assert made.issuer is not None
    assert made.resource is not None
    assert str(made.issuer.token_endpoint) == f"{served.origin}/token"
    assert str(made.resource.resource) == served.url
    logins.write(made)
    assert called(Toolset.from_mcp(served.url), ("secret", {})) == ["42"]
    served.valid.discard(made.token.access_token)  # the server ends it: it is renewed, once, and the new pair is kept
    tools = Toolset.from_mcp(served.url)
    assert called(tools, ("secret", {})) == ["42"]
    after = logins.read(served.url)
    assert after is not None
    assert after.token.access_token != made.token.access_token
    assert after.token.refresh_token != made.token.refresh_token
    assert called(tools, ("secret", {})) == ["42"]


@pytest.mark.slow
def test_a_token_that_has_ended_is_renewed_before_it_is_sent(served: Vault, logins: Logins) -> None:
    made = logged_in(read_specs(served.url)[0])
    assert made is not None
    logins.write(made.model_copy(update={"expires_at": time.time() - 1}))
    before = len(served.asked)
    assert called(Toolset.from_mcp(served.url), ("secret", {})) == ["42"]
    assert [each["grant_type"] for each in served.asked[before:]] == ["refresh_token"]
    served.refreshable.clear()
    served.valid.clear()
    with pytest.raises(ToolImportError, match="atc mcp login"):
        Toolset.from_mcp(served.url)
    assert logins.read(served.url) is None


@pytest.mark.slow
def test_a_renewal_that_makes_no_sense_is_not_logged_and_the_login_stays(
    served: Vault, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = logged_in(read_specs(served.url)[0])
    assert made is not None
    monkeypatch.setattr(Vault, "token", lambda self: {"token_type": "Bearer", "refresh_token": "refresh-of-nobody"})
    assert asyncio.run(renew(made)) == (None, False)
    assert "refresh-of-nobody" not in caplog.text


@pytest.mark.slow
def test_another_host_gives_no_token_without_a_yes(served: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "issuer", "https://login.evil.example")
    before = len(served.registered), len(served.asked)
    shown: list[str] = []
    with pytest.raises(LoginFailed, match=r"you did not agree to log in at login\.evil\.example"):
        logged_in(read_specs(served.url)[0], agree=False, shown=shown)
    assert shown == ["127.0.0.1 leaves the login to another host, login.evil.example. Log in there?"]
    assert (len(served.registered), len(served.asked)) == before
    monkeypatch.setattr(served, "issuer", "http://login.evil.example")
    with pytest.raises(LoginFailed, match="not reached over https"):
        logged_in(read_specs(served.url)[0])


def test_without_a_say_in_who_gives_the_token_nobody_is_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The say is a method of the SDK's own that it may drop: then nothing is sent, and not without a question."""
    monkeypatch.delattr(OAuthClientProvider, "_select_authorization_server")
    with pytest.raises(LoginFailed, match=r"install mcp 2\.3"):
        logged_in(read_specs(URL)[0])


@pytest.mark.slow
def test_the_secret_of_a_registered_client_goes_to_its_issuer_alone(served: Vault) -> None:
    def spec(issuer: str) -> ServerSpec:
        options = {"client_id": "mine", "client_secret": "s3cret-0002", "issuer": issuer}
        return read_specs({"mcpServers": {"vault": {"url": served.url, "oauth": options}}})[0]

    before = len(served.registered), len(served.asked)
    with pytest.raises(LoginFailed, match="not to the issuer of its configuration"):
        logged_in(spec("https://login.example"))
    assert (len(served.registered), len(served.asked)) == before
    made = logged_in(spec(served.origin))
    assert made is not None
    assert made.client is not None
    assert (made.client.client_id, made.client.token_endpoint_auth_method) == ("mine", "client_secret_basic")
    assert len(served.registered) == before[0]


@pytest.mark.slow
def test_an_answer_to_no_question_is_not_let_in(served: Vault) -> None:
    spec, answers = read_specs(served.url)[0], []

    def strange(url: str) -> None:
        redirect = httpx2.URL(url).params["redirect_uri"]

        def visit() -> None:
            for query in ("?code=x&state=wrong", "?code=x", "?error=access_denied"):
                try:
                    urllib.request.urlopen(redirect + query, timeout=30)
                except urllib.error.HTTPError as error:
                    answers.append(error.code)
            urllib.request.urlopen(url, timeout=30).read()

        asyncio.get_running_loop().run_in_executor(None, visit)

    talk = Talk(lambda line: None, lambda question: True, strange)
    made = asyncio.run(log_in(spec, talk, timeout_s=60))
    assert answers == [400, 400, 400]
    assert made is not None


@pytest.mark.slow
def test_own_credentials_need_no_user(served: Vault, logins: Logins) -> None:
    options = {
        "grant": "client_credentials",
        "client_id": "c2",
        "client_secret": "s3cret-0001",
        "issuer": served.origin,
    }
    config = {"mcpServers": {"vault": {"url": served.url, "oauth": options}}}
    assert called(Toolset.from_mcp(config), ("secret", {})) == ["42"]
    kept = logins.read(served.url)
    assert kept is not None
    served.valid.clear()  # the server ends it
    assert called(Toolset.from_mcp(config), ("secret", {})) == ["42"]
    after = logins.read(served.url)
    assert after is not None
    assert after.token != kept.token
    wrong = {**options, "issuer": "https://other.example"}
    logins.forget(served.url)
    before = len(served.asked)
    with pytest.raises(ToolImportError):
        Toolset.from_mcp({"mcpServers": {"vault": {"url": served.url, "oauth": wrong}}})
    assert len(served.asked) == before


@pytest.mark.slow
def test_tools_come_with_the_login(served: Vault, logins: Logins, tmp_path: Path) -> None:
    made = logged_in(read_specs(served.url)[0])
    assert made is not None

    async def run() -> tuple[dict[str, str], list[str]]:
        live: LiveTools = live_tools([f"mcp:{served.url}"], folder=tmp_path / "lists")
        async with live:
            await live.settled()
            down, up = dict(live.down), asyncio.Event()
            live.on_change(lambda tools: up.set() if tools else None)
            logins.write(made)
            await asyncio.wait_for(up.wait(), 60)
            return down, [*live.tools]

    down, names = asyncio.run(run())
    assert f"run `atc mcp login {served.url}`" in next(iter(down.values()))
    assert names == ["secret"]


@pytest.mark.slow
def test_tools_go_when_the_login_ends_and_no_call_is_in_doubt(served: Vault, logins: Logins, tmp_path: Path) -> None:
    made = logged_in(read_specs(served.url)[0])
    assert made is not None
    logins.write(made.model_copy(update={"token": made.token.model_copy(update={"refresh_token": None})}))

    async def run() -> None:
        async with live_tools([f"mcp:{served.url}"], folder=tmp_path / "lists") as live:
            await live.settled()
            assert await one(live.tools, "secret") == "42"
            tools, down, up = live.tools, asyncio.Event(), asyncio.Event()
            live.on_change(lambda tools: up.set() if tools else down.set())
            served.valid.clear()
            error = await one(tools, "secret")
            assert (error.status, error.outcome, error.cause) == (401, "refused", "credential")
            await asyncio.wait_for(down.wait(), 60)
            assert "atc mcp login" in next(iter(live.down.values()))
            up.clear()
            served.valid.add(made.token.access_token)
            await asyncio.wait_for(up.wait(), 60)
            assert await one(tools, "secret") == "42"

    asyncio.run(run())


@pytest.mark.slow
def test_the_command_logs_in_and_out(
    served: Vault, logins: Logins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webbrowser.open", browser)
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"vault": {"url": served.url}}}))
    said = invoked("mcp", "login", "vault", "--tools", str(file))
    assert "The token will come from 127.0.0.1." in said
    assert "You are logged in at vault" in said
    kept = logins.read(served.url)
    assert kept is not None
    assert kept.token.access_token not in said
    listed = invoked("tools", "list", "-t", str(file))
    assert "secret" in listed
    assert "is deleted" in invoked("mcp", "logout", served.url)
    refused = invoked("tools", "list", "-t", f"mcp:{served.url}")
    assert f"run `atc mcp login {served.url}`" in refused
    config = {"mcpServers": {"v": {"url": served.url, "headers": {"Authorization": "Bearer wrong-0001"}}}}
    with pytest.raises(ToolImportError, match="refuses the one in headers"):
        Toolset.from_mcp(config)
    monkeypatch.setattr(served, "issuer", "https://login.evil.example")
    assert "you did not agree to log in at login.evil.example" in invoked("mcp", "login", served.url)
