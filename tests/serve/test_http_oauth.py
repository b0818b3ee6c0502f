"""Tokens of an OAuth authorization server: which are taken, whose they are, and what the issuer is asked."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from atc.errors import UsageError
from atc.serve.mcp import tokens
from atc.serve.mcp.client import principal_named
from atc.serve.mcp.http import HttpSettings, Lock, Names, Resource
from atc.serve.mcp.shares import Bounds
from atc.serve.mcp.tokens import (
    AGAIN_S,
    FAILED_S,
    FRESH_S,
    KNOWN_S,
    MAX_TOKEN,
    STALE_S,
    AskingVerifier,
    Issuer,
    IssuerUnreachable,
    JwtVerifier,
    verifier_of,
)
from tests.support.issuers import ISSUER, RESOURCE, FakeIssuer, claims, ec_key, forged, public, rsa_key, signed
from tests.support.mcp_http import calling, opening, two_owners

pytestmark = pytest.mark.anyio


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of what is kept of an issuer's keys, PyJWT's own included."""
    made = Clock()
    for module in (tokens, jwt.jwks_client, jwt.jwk_set_cache, jwt.api_jwk):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=made, time=time.time))
    return made


def verifying(fake: FakeIssuer, clock: Clock | None = None) -> JwtVerifier:
    return JwtVerifier(Issuer(ISSUER, fake.fetch, clock or Clock()), [RESOURCE])


def asking(fake: FakeIssuer, clock: Clock | None = None) -> AskingVerifier:
    return AskingVerifier(Issuer(ISSUER, fake.fetch), [RESOURCE], "gate", "s3cret", fake.ask, clock or Clock())


async def test_a_good_token_names_its_owner() -> None:
    known = await verifying(FakeIssuer()).verify_token(signed(scope="tools read"))
    assert known is not None
    assert known.token == ""
    assert known.scopes == ["tools", "read"]
    assert principal_named(known) == "oauth:https%3A%2F%2Flogin.example.org%2Frealm|desk|ann"


async def test_owners_cannot_be_confused() -> None:
    verifier = verifying(FakeIssuer())
    names = set()
    for client, subject in (("a|b", "c"), ("a", "b|c"), ("a", "b"), ("a%7Cb", "c"), (None, "a"), ("a", None)):
        known = await verifier.verify_token(signed(client_id=client, sub=subject))
        assert known is not None
        names.add(principal_named(known))
    assert len(names) == 6
    assert not any(name.startswith("token:") or name == "local" for name in names)


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": int(time.time()) - 3600},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": 1e400},
        {"nbf": int(time.time()) + 3600},
        {"iss": "https://login.example.org"},
        {"iss": f"{ISSUER}/"},
        {"iss": None},
        {"iss": [ISSUER]},
        {"aud": "https://other.example.org/mcp"},
        {"aud": None},
        {"aud": []},
        {"aud": f"{RESOURCE}/x"},
        {"sub": None, "client_id": None},
        {"sub": 7},
        {"sub": "x" * 5000},
        {"sub": "", "client_id": {"a": 1}},
        {"sub": "\ud800"},
        {"client_id": "desk\x00"},
        {"exp": 10**400},
        {"exp": True},
        {"iat": int(time.time()) + 3600},
        {"aud": {"a": RESOURCE}},
        {"aud": [[RESOURCE]]},
        {"iss": "https://login.example.org/other-tenant"},
        {"more": "x" * MAX_TOKEN},
    ],
)
async def test_claims_that_do_not_fit_are_refused(changed: dict[str, Any]) -> None:
    assert await verifying(FakeIssuer()).verify_token(signed(**changed)) is None


async def test_one_of_several_audiences_is_enough() -> None:
    assert await verifying(FakeIssuer()).verify_token(signed(aud=["https://other.example.org", RESOURCE])) is not None


async def test_no_algorithm_but_the_key_s_own_is_taken() -> None:
    fake = FakeIssuer(public(rsa_key(), "one", alg="RS256"), public(ec_key(), "two"))
    verifier = verifying(fake)
    pem = (
        rsa_key().public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    unsigned = forged({"alg": "HS256", "kid": "one"}).rpartition(".")[0]
    mac = hmac.new(pem, unsigned.encode(), hashlib.sha256).digest()
    refused = [
        forged({"alg": "none", "kid": "one"}),
        forged({"alg": "None", "kid": "one"}),
        forged({"kid": "one"}),
        forged({"alg": "HS256", "kid": "one"}, mac),
        forged({"alg": "RS256", "kid": "one"}),
        forged({"alg": ["RS256"], "kid": "one"}, b"x"),
        signed(algorithm="PS256"),
        signed(rsa_key(2048, 1)),
        signed(header={"kid": "two"}),
        signed(ec_key(), "ES256"),
        signed(header={"kid": "one", "crit": ["b64"], "b64": False}),
        signed(header={"kid": "one", "typ": "dpop+jwt"}),
        signed(rsa_key(2048, 1), header={"kid": "one", "jwk": public(rsa_key(2048, 1), "one")}),
        signed(rsa_key(2048, 1), header={"kid": "one", "jku": "https://evil.example/keys"}),
    ]
    assert [await verifier.verify_token(token) for token in refused] == [None] * len(refused)
    assert await verifier.verify_token(signed()) is not None
    assert await verifier.verify_token(signed(header={"kid": "one", "typ": "at+jwt"})) is not None
    assert await verifier.verify_token(signed(ec_key(), "ES256", {"kid": "two"})) is not None
    assert not any("evil" in url for url in fake.asked)


async def test_no_header_of_a_token_says_where_its_key_is() -> None:
    fake, stranger = FakeIssuer(public(rsa_key(), "one"), public(ec_key(), "two")), rsa_key(2048, 1)
    verifier = verifying(fake)
    for header in (
        {"kid": "one", "x5u": "https://evil.example/cert.pem"},
        {"kid": "one", "x5c": ["MIIB"]},
        {"kid": "../one"},
        {"kid": "three"},
        {},
    ):
        assert await verifier.verify_token(signed(stranger, header=header)) is None, header
    assert await verifier.verify_token(signed(header={})) is None, "two keys, and none is named"
    assert await verifier.verify_token(forged({"alg": "ES256", "kid": "two"}, bytes(64))) is None
    assert not any("evil" in url for url in fake.asked)


async def test_of_a_name_that_is_there_twice_the_last_counts_for_all() -> None:
    def twice(name: str, last: str) -> str:
        body = f'{json.dumps(claims())[:-1]}, "{name}": "{last}"}}'.encode()
        return jwt.PyJWS().encode(body, rsa_key(), algorithm="RS256", headers={"kid": "one"})

    verifier = verifying(FakeIssuer())
    assert await verifier.verify_token(twice("aud", "https://other.example.org")) is None
    known = await verifier.verify_token(twice("sub", "bob"))
    assert known is not None
    assert principal_named(known).endswith("|bob")
    head = base64.urlsafe_b64encode(b'{"alg": "RS256", "kid": "one", "alg": "none"}').rstrip(b"=").decode()
    assert await verifier.verify_token(f"{head}.{signed().split('.')[1]}.") is None


async def test_a_changed_token_is_refused() -> None:
    head, body, signature = signed().split(".")
    _, other, _ = signed(sub="bob").split(".")
    verifier = verifying(FakeIssuer())
    for token in (
        f"{head}.{other}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}.{signature}x",
        f"{head}..{signature}",
    ):
        assert await verifier.verify_token(token) is None


@pytest.mark.parametrize(
    "token", ["", ".", "..", "a.b.c", "é.é.é", "x" * 100_000, "W1tbW1t..", ("W1tb" * 2000) + ".e30.x"]
)
async def test_junk_is_no_token(token: str) -> None:
    fake = FakeIssuer()
    assert await verifying(fake).verify_token(token) is None


@given(st.text(alphabet="abcW1tbeyJ0-_.=é\x00", max_size=80))
def test_any_text_is_judged(text: str) -> None:
    assert asyncio.run(verifying(FakeIssuer()).verify_token(text)) is None


async def test_a_flood_of_unknown_keys_asks_the_issuer_once_a_minute(clock: Clock) -> None:
    fake = FakeIssuer()
    verifier = verifying(fake, clock)
    assert await verifier.verify_token(signed()) is not None
    fake.asked.clear()
    clock.now += AGAIN_S + 1
    flood = [signed(header={"kid": f"k{number}"}) for number in range(30)]
    assert set(await asyncio.gather(*map(verifier.verify_token, flood))) == {None}
    assert len(fake.asked) == 1
    fake.keys.append(public(rsa_key(2048, 1), "new"))
    assert await verifier.verify_token(signed(rsa_key(2048, 1), header={"kid": "new"})) is None
    clock.now += AGAIN_S + 1
    assert await verifier.verify_token(signed(rsa_key(2048, 1), header={"kid": "new"})) is not None


async def test_a_key_that_was_taken_back_stops_counting(clock: Clock) -> None:
    fake = FakeIssuer()
    verifier = verifying(fake, clock)
    token = signed()
    assert await verifier.verify_token(token) is not None
    fake.keys[:] = [public(rsa_key(2048, 1), "new")]
    clock.now += FRESH_S + 1
    assert await verifier.verify_token(token) is None


async def test_known_keys_serve_while_the_issuer_is_down_but_not_for_ever(clock: Clock) -> None:
    fake = FakeIssuer()
    fake.down = True
    verifier = verifying(fake, clock)
    with pytest.raises(IssuerUnreachable):
        await verifier.verify_token(signed())
    asked = len(fake.asked)
    with pytest.raises(IssuerUnreachable):
        await verifier.verify_token(signed())
    assert len(fake.asked) == asked
    fake.down = False
    clock.now += FAILED_S + 1
    assert await verifier.verify_token(signed()) is not None
    fake.down = True
    clock.now += STALE_S - FRESH_S
    assert await verifier.verify_token(signed()) is not None
    clock.now += FRESH_S - 1
    assert await verifier.verify_token(signed()) is not None
    clock.now += 2
    with pytest.raises(IssuerUnreachable):
        await verifier.verify_token(signed())


async def test_keys_are_asked_for_again_soon_after_the_issuer_was_down(clock: Clock) -> None:
    fake = FakeIssuer()
    verifier = verifying(fake, clock)
    assert await verifier.verify_token(signed()) is not None
    fake.down = True
    clock.now += FRESH_S + 1
    assert await verifier.verify_token(signed()) is not None
    fake.down = False
    fake.keys[:] = [public(rsa_key(2048, 1), "new")]
    clock.now += FAILED_S + 1
    assert await verifier.verify_token(signed()) is None, "it was taken back"


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"jwks_uri": "http://login.example.org/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": 7},
    ],
)
async def test_metadata_that_is_not_the_issuer_s_is_not_used(changed: dict[str, Any]) -> None:
    fake = FakeIssuer()
    fake.metadata |= changed
    with pytest.raises(IssuerUnreachable):
        await verifying(fake).verify_token(signed())
    assert not any("keys" in url for url in fake.asked)


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
@pytest.mark.parametrize(
    "document",
    [
        {},
        {"keys": 7},
        {"keys": [7, None, {}, {"kty": "oct", "k": "c2VjcmV0", "kid": "one"}]},
        {"keys": [{"kty": "RSA", "kid": "one", "n": "AQAB", "e": "AQAB"}]},
        {"keys": [public(rsa_key(1024), "one")]},
        {"keys": [public(rsa_key(), "one", use="enc")]},
        {"keys": [public(rsa_key(), "one", alg="HS256")]},
        {"keys": [public(rsa_key(), "one", alg="none")]},
        {"keys": [{**public(rsa_key(), "one"), "kid": ["one"]}]},
        {"keys": [{**public(rsa_key(), "one"), "alg": ["RS256"]}]},
    ],
)
async def test_what_is_no_key_to_sign_with_is_left_out(document: dict[str, Any]) -> None:
    fake = FakeIssuer()
    key = rsa_key(1024) if document == {"keys": [public(rsa_key(1024), "one")]} else rsa_key()
    fake.document = document
    assert await verifying(fake).verify_token(signed(key)) is None
    if isinstance(listed := document.get("keys"), list):  # it does not keep the others from counting
        listed.append(public(rsa_key(2048, 1), "two"))
        fake = FakeIssuer()
        fake.document = document
        assert await verifying(fake).verify_token(signed(key)) is None
        assert await verifying(fake).verify_token(signed(rsa_key(2048, 1), header={"kid": "two"})) is not None


async def test_a_token_that_names_no_key_is_verified_by_the_only_one() -> None:
    for name in ("one", None):
        fake = FakeIssuer(public(rsa_key(), name), public(rsa_key(2048, 1), "enc", use="enc"))
        assert await verifying(fake).verify_token(signed(header={})) is not None
        assert await verifying(fake).verify_token(signed(rsa_key(2048, 1), header={})) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example.org",
        "login.example.org",
        "https://",
        "https://a@b.example",
        "https://a.example?x",
        "ftp://a",
    ],
)
def test_an_issuer_is_reached_safely_or_not_at_all(url: str) -> None:
    with pytest.raises(UsageError, match="--oauth-issuer"):
        verifier_of(url, [RESOURCE])


def test_a_client_has_a_secret() -> None:
    with pytest.raises(UsageError, match="ATC_MCP_OAUTH_SECRET"):
        verifier_of(ISSUER, [RESOURCE], client="gate")


async def test_the_issuer_is_asked_about_a_token_once_in_a_while() -> None:
    fake, clock = FakeIssuer(), Clock()
    fake.said = {"active": True, "aud": [RESOURCE], "sub": "ann", "client_id": "desk", "scope": "tools"}
    verifier = asking(fake, clock)
    first = await verifier.verify_token("opaque")
    assert first is not None
    assert (first.subject, first.scopes) == ("ann", ["tools"])
    asked = len(fake.asked)
    assert await verifier.verify_token("opaque") == first
    assert len(fake.asked) == asked
    fake.said = {"active": False}
    clock.now += KNOWN_S + 1
    assert await verifier.verify_token("opaque") is None


@pytest.mark.parametrize(
    "changed",
    [
        {"active": "true"},
        {"active": 1},
        {"active": None},
        {"aud": None},
        {"aud": "https://other.example.org"},
        {"aud": [7, {}]},
        {"iss": "https://evil.example"},
        {"sub": "", "client_id": ""},
        {"exp": float("inf")},
        {"exp": float("nan")},
        {"exp": "never"},
        {"nbf": time.time() + 3600},
        {"nbf": "x"},
    ],
)
async def test_what_the_issuer_says_must_fit(changed: dict[str, Any]) -> None:
    fake = FakeIssuer()
    fake.said = {"active": True, "aud": RESOURCE, "sub": "ann", "client_id": "desk"} | changed
    assert await asking(fake).verify_token("opaque") is None


async def test_a_flood_of_tokens_is_not_passed_on_to_the_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_QUEUE", 5)
    fake = FakeIssuer()
    release = asyncio.Event()

    async def slow(*_: Any) -> dict[str, Any]:
        await release.wait()
        return {"active": False}

    verifier = AskingVerifier(Issuer(ISSUER, fake.fetch), [RESOURCE], "gate", "s3cret", slow)
    first = [asyncio.create_task(verifier.verify_token(f"t{number}")) for number in range(5)]
    await asyncio.sleep(0)
    with pytest.raises(IssuerUnreachable):
        await verifier.verify_token("one more")
    release.set()
    assert await asyncio.gather(*first) == [None] * 5


async def test_what_is_kept_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_KNOWN", 3)
    fake = FakeIssuer()
    verifier = asking(fake)
    for number in range(6):
        await verifier.verify_token(f"t{number}")
    assert len(verifier._known) == 3


def served(fake: FakeIssuer, *scopes: str) -> HttpSettings:
    resource = Resource(RESOURCE, ISSUER, scopes)
    names = Names(frozenset({"tools.example.org"}))
    return HttpSettings(Lock([two_owners(), verifying(fake)], resource), names)


async def test_a_client_finds_out_where_to_get_a_token() -> None:
    async with calling(served(FakeIssuer(), "tools"), "https://tools.example.org") as caller:
        refused = await caller.send(token=None, body=opening())
        assert refused.status_code == 401
        where = "https://tools.example.org/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{where}"' in refused.headers["www-authenticate"]
        told = (await caller.http.get(where)).json()
        assert told["resource"] == RESOURCE
        assert told["authorization_servers"] == [ISSUER]
        assert told["scopes_supported"] == ["tools"]


async def test_a_token_without_the_scope_is_forbidden() -> None:
    async with calling(served(FakeIssuer(), "tools"), "https://tools.example.org") as caller:
        assert (await caller.send(token=signed(scope="tools x"), body=opening())).status_code == 200
        refused = await caller.send(token=signed(scope="toolsx"), body=opening())
        assert refused.status_code == 403
        assert "insufficient_scope" in refused.headers["www-authenticate"]


async def test_an_issuer_that_is_down_is_said_to_be_and_lets_nobody_in() -> None:
    fake = FakeIssuer()
    fake.down = True
    async with calling(served(fake), "https://tools.example.org") as caller:
        refused = await caller.send(token=signed(), body=opening())
        assert refused.status_code == 503
        assert "authorization server" in refused.json()["error"]["message"]
        assert "retry-after" in refused.headers


async def test_people_of_one_client_do_not_share_sessions() -> None:
    async with calling(served(FakeIssuer()), "https://tools.example.org") as caller:
        session = await caller.open(signed())
        query = {"query": "x"}
        assert (
            await caller.call("search_tools", query, token=signed(exp=int(time.time()) + 99), session=session)
        ).is_success
        for other in (signed(sub="bob"), signed(client_id="phone")):
            assert (await caller.call("search_tools", query, token=other, session=session)).status_code == 404


async def test_a_stream_ends_when_its_token_does() -> None:
    ends = int(time.time()) + 1

    async def for_ever(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"told", "more_body": True})
        await asyncio.Event().wait()

    async def unread() -> Any:
        raise AssertionError

    async def note(sent: Any) -> None:
        parts.append(sent)

    for method, header in (("GET", []), ("POST", [(b"mcp-method", b"subscriptions/listen")])):
        parts: list[Any] = []
        user = AuthenticatedUser(AccessToken(token="", client_id="desk", scopes=[], expires_at=ends))
        scope = {"type": "http", "method": method, "headers": header, "user": user}
        await Bounds(for_ever)(scope, unread, note)
        assert time.time() >= ends
        assert parts[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
