"""The small authorization server: who is let in, and what codes and tokens are good for."""

from __future__ import annotations

import base64
import hashlib
import json
import stat
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import jwt
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata
from pydantic import AnyUrl

from atc.errors import UsageError
from atc.serve.mcp import oauth_own
from atc.serve.mcp.consent import routes_of
from atc.serve.mcp.http import HttpSettings, Lock, Names, Resource
from atc.serve.mcp.oauth_own import ACCESS_S, CODE_S, REFRESH_S, TRIES, OwnServer, redirect_allowed
from tests.support.browser import browsing
from tests.support.mcp_http import Caller, calling, listening, opening

pytestmark = pytest.mark.anyio

URL, RESOURCE, PHRASE = "http://127.0.0.1:8790", "http://127.0.0.1:8790/mcp", "phrase-of-the-owner-0123456789"
BACK = "http://127.0.0.1:3000/callback"
VERIFIER = "v" * 50
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


class Clock:
    """Real enough for the SDK, which compares with its own."""

    ahead = 0.0

    def __call__(self) -> float:

        return time.time() + self.ahead


def own(path: Path | None = None) -> OwnServer:
    return OwnServer(URL, RESOURCE, PHRASE, path, clock=Clock())


def served(server: OwnServer) -> HttpSettings:
    lock = Lock([server], Resource(RESOURCE, URL), routes_of(server))
    return HttpSettings(lock, Names(origins=frozenset({URL})))


async def registered(caller: Caller, **changed: Any) -> httpx2.Response:
    asked = {"redirect_uris": [BACK], "client_name": "Desk", "token_endpoint_auth_method": "none"} | changed
    return await caller.http.post("/register", json=asked)


async def authorize(caller: Caller, client: str, **changed: str | None) -> httpx2.Response:
    asked = {
        "response_type": "code",
        "client_id": client,
        "redirect_uri": BACK,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "state": "s1",
        "resource": RESOURCE,
    } | changed
    given = {name: value for name, value in asked.items() if value is not None}
    return await caller.http.get("/authorize", params=given)


async def decide(
    caller: Caller, asked: httpx2.Response, phrase: str = PHRASE, decision: str = "allow"
) -> httpx2.Response:
    name = parse_qs(urlsplit(asked.headers["location"]).query)["request"][0]
    form = {"request": name, "phrase": phrase, "decision": decision}
    return await caller.http.post("/consent", data=form, headers={"origin": URL})


def sent(answered: httpx2.Response) -> dict[str, str]:
    """What the client is sent at its redirect address."""
    assert answered.status_code in (302, 303), answered.text
    where = answered.headers["location"]
    assert where.startswith(BACK)
    return {name: values[0] for name, values in parse_qs(urlsplit(where).query).items()}


async def token(caller: Caller, client: str, **changed: str) -> httpx2.Response:
    form = {
        "grant_type": "authorization_code",
        "client_id": client,
        "redirect_uri": BACK,
        "code_verifier": VERIFIER,
    } | changed
    return await caller.http.post("/token", data=form)


async def let_in(caller: Caller) -> tuple[str, dict[str, Any]]:
    client = (await registered(caller)).json()["client_id"]
    back = sent(await decide(caller, await authorize(caller, client)))
    assert back["state"] == "s1"
    assert back["iss"] == URL
    answered = await token(caller, client, code=back["code"])
    assert answered.status_code == 200, answered.text
    return client, answered.json()


async def use(caller: Caller, access: str) -> int:
    return (await caller.send(token=access, body=opening())).status_code


async def test_the_sdk_s_client_finds_its_way_in() -> None:
    server = own()
    kept: dict[str, Any] = {}

    class Storage:
        async def get_tokens(self) -> Any:
            return kept.get("tokens")

        async def set_tokens(self, tokens: Any) -> None:
            kept["tokens"] = tokens

        async def get_client_info(self) -> Any:
            return kept.get("client")

        async def set_client_info(self, client_info: Any) -> None:
            kept["client"] = client_info

    async with calling(served(server)) as caller:

        async def shown(url: str) -> None:
            kept["url"] = url

        async def came_back() -> AuthorizationCodeResult:
            back = sent(await decide(caller, await caller.http.get(kept["url"])))
            return AuthorizationCodeResult(code=back["code"], state=back["state"], iss=back["iss"])

        wanted = OAuthClientMetadata(redirect_uris=[AnyUrl(BACK)], client_name="SDK")
        auth = OAuthClientProvider(RESOURCE, wanted, Storage(), shown, came_back)
        transport = caller.http._transport
        async with (
            httpx2.AsyncClient(transport=transport, auth=auth) as http,
            Client(streamable_http_client(RESOURCE, http_client=http)) as client,
        ):
            assert [tool.name for tool in (await client.list_tools()).tools] == ["run_program"]
    assert kept["tokens"].refresh_token


async def test_metadata_names_the_issuer_as_it_is() -> None:
    async with calling(served(own())) as caller:
        told = (await caller.http.get("/.well-known/oauth-authorization-server")).json()
        assert told["issuer"] == URL
        assert told["code_challenge_methods_supported"] == ["S256"]
        resource = (await caller.http.get("/.well-known/oauth-protected-resource/mcp")).json()
        assert (resource["resource"], resource["authorization_servers"]) == (RESOURCE, [URL])


async def test_only_the_pass_phrase_lets_in_and_it_cannot_be_tried_for_long() -> None:
    async with calling(served(own())) as caller:
        client = (await registered(caller)).json()["client_id"]
        asked = await authorize(caller, client)
        for _ in range(TRIES - 1):
            wrong = await decide(caller, asked, "guess")
            assert wrong.status_code == 403
            assert "not the pass phrase" in wrong.text
        assert (await decide(caller, asked, "guess")).status_code == 410
        assert (await decide(caller, asked)).status_code == 410


async def test_the_owner_may_refuse() -> None:
    async with calling(served(own())) as caller:
        client = (await registered(caller)).json()["client_id"]
        back = sent(await decide(caller, await authorize(caller, client), "", "deny"))
        assert (back["error"], "code" in back) == ("access_denied", False)


async def test_another_page_cannot_send_the_form() -> None:
    async with calling(served(own())) as caller:
        form = {"request": "x", "phrase": PHRASE, "decision": "allow"}
        for origin in ("https://evil.example", "null", "http://127.0.0.1:3000"):
            assert (await caller.http.post("/consent", data=form, headers={"origin": origin})).status_code == 403


async def test_what_a_client_calls_itself_is_text_on_the_page() -> None:
    async with calling(served(own())) as caller:
        name = "<script>alert(1)</script>\u202e"
        client = (await registered(caller, client_name=name)).json()["client_id"]
        page = await caller.http.get((await authorize(caller, client)).headers["location"])
        assert "<script>" not in page.text
        assert "\u202e" not in page.text
        assert "http://127.0.0.1:3000" in page.text
        assert page.headers["x-frame-options"] == "DENY"
        assert "form-action &#39;self&#39; http://127.0.0.1:3000" in page.text


@pytest.mark.parametrize(
    "changed",
    [
        {"redirect_uri": "http://127.0.0.1:3000/other"},
        {"redirect_uri": "http://127.0.0.1:3000/callback/"},
        {"redirect_uri": "http://127.0.0.1:3000/callback?x=1"},
        {"redirect_uri": "https://evil.example/callback"},
        {"client_id": "nobody"},
    ],
)
async def test_a_code_goes_nowhere_else(changed: dict[str, str]) -> None:
    async with calling(served(own())) as caller:
        client = (await registered(caller)).json()["client_id"]
        assert (await authorize(caller, client, **changed)).status_code == 400


@pytest.mark.parametrize(
    "changed",
    [
        {"code_challenge": None},
        {"code_challenge_method": "plain"},
        {"code_challenge": "short"},
        {"response_type": "token"},
        {"resource": "https://other.example.org/mcp"},
        {"scope": "admin"},
    ],
)
async def test_a_request_without_what_protects_it_is_refused(changed: dict[str, str | None]) -> None:
    async with calling(served(own())) as caller:
        client = (await registered(caller)).json()["client_id"]
        assert "error" in sent(await authorize(caller, client, **changed))


@pytest.mark.parametrize(
    "uri",
    [
        "http://evil.example/callback", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd",
        "https://a@evil.example/", "https://a.example/#x", "https://a.example;x/", "https://" + "a" * 600,
    ],
)  # fmt: skip
async def test_redirect_addresses_that_are_not_safe_are_not_registered(uri: str) -> None:
    assert not redirect_allowed(uri)
    async with calling(served(own())) as caller:
        assert (await registered(caller, redirect_uris=[uri])).status_code == 400
        assert (await registered(caller, redirect_uris=[BACK, uri])).status_code == 400


@pytest.mark.parametrize(
    "uri", ["https://a.example/cb", "http://localhost:1/cb", "http://[::1]:9/", "cursor://mcp/cb", "com.x.y:/cb"]
)
def test_redirect_addresses_of_clients_are_allowed(uri: str) -> None:
    assert redirect_allowed(uri)


async def test_a_code_counts_once_and_what_came_of_it_ends_with_its_second_use() -> None:
    async with calling(served(own())) as caller:
        client = (await registered(caller)).json()["client_id"]
        code = sent(await decide(caller, await authorize(caller, client)))["code"]
        other = (await registered(caller)).json()["client_id"]
        assert (await token(caller, other, code=code)).status_code == 400
        assert (await token(caller, client, code=code, code_verifier="w" * 50)).status_code == 400
        assert (await token(caller, client, code=code, redirect_uri="http://127.0.0.1:3000/x")).status_code == 400
        access = (await token(caller, client, code=code)).json()["access_token"]
        assert await use(caller, access) == 200
        assert (await token(caller, client, code=code)).status_code == 400
        assert await use(caller, access) == 401


async def test_codes_and_tokens_end() -> None:
    server = own()
    clock = server.clock
    assert isinstance(clock, Clock)
    async with calling(served(server)) as caller:
        client, first = await let_in(caller)
        late = sent(await decide(caller, await authorize(caller, client)))["code"]
        clock.ahead = CODE_S + 1
        assert (await token(caller, client, code=late)).status_code == 400
        clock.ahead = ACCESS_S + 1
        assert await use(caller, first["access_token"]) == 401
        refresh = {"grant_type": "refresh_token", "client_id": client, "refresh_token": first["refresh_token"]}
        clock.ahead = REFRESH_S + 1
        assert (await caller.http.post("/token", data=refresh)).status_code == 400


async def test_a_refresh_token_changes_and_a_stolen_one_ends_its_family() -> None:
    async with calling(served(own())) as caller:
        client, first = await let_in(caller)
        _, apart = await let_in(caller)
        form = {"grant_type": "refresh_token", "client_id": client, "refresh_token": first["refresh_token"]}
        second = (await caller.http.post("/token", data=form)).json()
        assert second["refresh_token"] != first["refresh_token"]
        assert await use(caller, second["access_token"]) == 200
        assert (await caller.http.post("/token", data=form)).status_code == 400
        assert await use(caller, second["access_token"]) == 401
        assert await use(caller, apart["access_token"]) == 200
        assert await use(caller, apart["refresh_token"]) == 401


async def test_a_token_can_be_revoked() -> None:
    async with calling(served(own())) as caller:
        client, tokens = await let_in(caller)
        form = {
            "client_id": client,
            "token": tokens["refresh_token"],
            "token_type_hint": "refresh_token",
            "client_secret": "",
        }
        assert (await caller.http.post("/revoke", data=form)).status_code == 200
        assert await use(caller, tokens["access_token"]) == 401


async def test_who_was_let_in_stays_so_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state" / "clients.json"
    async with calling(served(own(path))) as caller:
        client, tokens = await let_in(caller)
        await registered(caller)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept = path.read_text()
    assert tokens["access_token"] not in kept
    assert tokens["refresh_token"] not in kept
    assert [each["client"] for each in json.loads(kept)["consents"].values()] == [client]
    async with calling(served(own(path))) as caller:
        assert await use(caller, tokens["access_token"]) == 200
        form = {"grant_type": "refresh_token", "client_id": client, "refresh_token": tokens["refresh_token"]}
        assert (await caller.http.post("/token", data=form)).status_code == 200


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"key": "x", "consents": [7]}', '{"key": "x", "consents": {"a": {}}}']
)
def test_a_damaged_file_is_said_to_be(tmp_path: Path, text: str) -> None:
    path = tmp_path / "clients.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="damaged"):
        own(path)


async def test_a_flood_leaves_nothing_and_puts_out_nobody() -> None:
    server = own()
    async with calling(served(server)) as caller:
        _, tokens = await let_in(caller)
        kept = repr(server)
        early = await authorize(caller, (await registered(caller)).json()["client_id"])
        for _ in range(20):
            other = (await registered(caller)).json()["client_id"]
            for _ in range(5):
                await authorize(caller, other)
        assert repr(server) == kept, "nothing is kept of who only asks"
        assert (await decide(caller, early)).status_code == 303
        assert await use(caller, tokens["access_token"]) == 200


async def test_wrong_pass_phrases_are_counted_for_so_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth_own, "MAX_TRIED", 3)
    server = own()
    async with calling(served(server)) as caller:
        client = (await registered(caller)).json()["client_id"]
        for _ in range(6):
            assert (await decide(caller, await authorize(caller, client), "guess")).status_code == 403
    assert len(server.tried) == 3


async def test_what_another_server_signed_or_for_another_use_counts_for_nothing() -> None:
    one, other = own(), own()
    async with calling(served(one)) as caller, calling(served(other)) as elsewhere:
        client, tokens = await let_in(caller)
        assert await use(elsewhere, tokens["access_token"]) == 401
        assert (await authorize(elsewhere, client)).status_code == 400
        assert (await authorize(caller, tokens["access_token"])).status_code == 400
        code = sent(await decide(caller, await authorize(caller, client)))["code"]
        for signed in (client, code, tokens["refresh_token"]):
            assert await use(caller, signed) == 401
        unsigned = jwt.encode(jwt.decode(code, options={"verify_signature": False}), None, algorithm="none")
        assert (await token(caller, client, code=unsigned)).status_code == 400


async def test_who_reads_the_file_can_make_no_code_and_no_token(tmp_path: Path) -> None:
    path = tmp_path / "clients.json"
    async with calling(served(own(path))) as caller:
        client, tokens = await let_in(caller)
        code = sent(await decide(caller, await authorize(caller, client)))["code"]
        kept = json.loads(path.read_text())
        for use in ("code", "access", "refresh"):
            said = {**jwt.decode(code, options={"verify_signature": False}), "aud": use, "jti": "made"}
            made = jwt.encode(said, kept["key"], algorithm="HS256")
            assert (await token(caller, client, code=made)).status_code == 400
            assert (await caller.send(token=made, body=opening())).status_code == 401
        (consent,) = kept["consents"].values()
        for digest in (consent["access"], consent["refresh"]):
            assert tokens["access_token"].partition(".")[2] != digest
            name = next(iter(kept["consents"]))
            assert (await caller.send(token=f"{name}.{digest}", body=opening())).status_code == 401


async def test_a_request_waits_for_the_owner_for_a_while_and_counts_once() -> None:
    server = own()
    clock = server.clock
    assert isinstance(clock, Clock)
    async with calling(served(server)) as caller:
        client = (await registered(caller)).json()["client_id"]
        asked, late = await authorize(caller, client), await authorize(caller, client)
        assert "code" in sent(await decide(caller, asked))
        assert (await decide(caller, asked)).status_code == 410
        clock.ahead = oauth_own.ASKED_S + 1
        assert (await decide(caller, late)).status_code == 410


async def test_a_client_with_a_secret_must_show_it() -> None:
    async with calling(served(own())) as caller:
        made = (await registered(caller, token_endpoint_auth_method="client_secret_post")).json()
        code = sent(await decide(caller, await authorize(caller, made["client_id"])))["code"]
        for wrong in ({}, {"client_secret": "guess"}):
            assert (await token(caller, made["client_id"], code=code, **wrong)).status_code == 401
        right = await token(caller, made["client_id"], code=code, client_secret=made["client_secret"])
        assert right.status_code == 200


async def test_what_anybody_may_send_is_small() -> None:
    async with calling(served(own())) as caller:
        for path in ("/register", "/token", "/consent", "/authorize"):
            answered = await caller.http.post(path, content=b"x" * 100_000)
            assert answered.status_code == 413


@pytest.mark.slow
def test_the_owner_lets_a_client_in_with_a_browser(tmp_path: Path) -> None:
    """The page's policy lets its form through, and on to the client at another origin."""
    made: list[OwnServer] = []

    def settings(port: int) -> HttpSettings:
        url = f"http://127.0.0.1:{port}"
        made.append(OwnServer(url, f"{url}/mcp", PHRASE))
        lock = Lock(made, Resource(f"{url}/mcp", url), routes_of(made[0]))
        return HttpSettings(lock, Names(origins=frozenset({url})))

    blank = tmp_path / "blank.html"
    blank.write_text("<!doctype html>")
    with listening() as client, listening(settings) as server, browsing() as page:
        back = f"http://localhost:{client.port}/healthz"
        url = made[0].url
        asked = {"redirect_uris": [back], "token_endpoint_auth_method": "none"}
        name = httpx2.post(f"{url}/register", json=asked).json()["client_id"]
        wanted = {
            "response_type": "code",
            "client_id": name,
            "redirect_uri": back,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "state": "s1",
        }
        page.open(blank)
        page.send("Page.navigate", url=f"{url}/authorize?{urlencode(wanted)}")
        page.wait("!!document.querySelector('input[type=password]')")
        for phrase, seen in (("wrong", "!!document.querySelector('[role=alert]')"), (PHRASE, "location.port == %d")):
            page.run("document.querySelector('input[type=password]').focus()")
            page.type(phrase)
            page.run("document.querySelector('button[value=allow]').click()")
            page.wait(seen % client.port if "%d" in seen else seen)
        assert page.run("location.href").startswith(f"{back}?code=")
        assert server.thread.is_alive()
