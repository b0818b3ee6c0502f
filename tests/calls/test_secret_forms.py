"""A known secret is found in every form in which an encoder writes it, alone, mixed, and inside something larger."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atc._host.redaction import MASK, Redactor
from atc._host.secret_detection import masked_exception, masked_text
from atc._host.secret_forms import SecretForms
from atc.schemas.infer.text import is_secret_name
from atc.tools.mcp.spec import Secrets

SECRET = "p/ss w\"rd+'<&>=\\\n\u00e9\u4e2d\U0001f511%~"
"""Everything that some encoder writes otherwise."""
ENCODERS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": lambda s: json.dumps(s)[1:-1],
    "json, as it is": lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    "json, slashes": lambda s: json.dumps(s)[1:-1].replace("/", "\\/"),
    "json, capital digits": lambda s: re.sub(r"u[0-9a-f]{4}", lambda m: "u" + m[0][1:].upper(), json.dumps(s)[1:-1]),
    "html": html.escape,
    "html, decimal": lambda s: "".join(c if c.isascii() and (c.isalnum() or c in "._-") else f"&#{ord(c)};" for c in s),
    "html, hexadecimal": lambda s: "".join(
        c if c.isascii() and (c.isalnum() or c in "._-") else f"&#X{ord(c):04X};" for c in s
    ),
    "html in json": lambda s: json.dumps(html.escape(s, quote=False))[1:-1],
    "url": lambda s: quote(s, safe=""),
    "url, path": quote,
    "url, small digits": lambda s: re.sub("%..", lambda m: m[0].lower(), quote(s, safe="")),
    "url, form": quote_plus,
    "url, twice": lambda s: quote(quote(s, safe=""), safe=""),
}
secrets = st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=30) | st.sampled_from([SECRET])
around = st.binary(max_size=7)


@given(secrets, st.sampled_from(sorted(ENCODERS)), st.text(max_size=5), st.text(max_size=5))
def test_a_secret_is_found_as_encoders_write_it(secret: str, name: str, before: str, after: str) -> None:
    encoded = ENCODERS[name](secret)
    masked = SecretForms([secret]).masked(f"{before}{encoded}{after}", MASK)
    assert MASK in masked
    assert encoded not in masked.replace(MASK, "\0")


@given(st.binary(min_size=8, max_size=40), around, around, st.booleans(), st.booleans())
def test_a_secret_is_found_in_base64_at_every_alignment(
    raw: bytes, before: bytes, after: bytes, url_safe: bool, padded: bool
) -> None:
    secret = raw.decode("latin-1")
    data = before + secret.encode() + after
    text = (base64.urlsafe_b64encode if url_safe else base64.b64encode)(data).decode()
    text = text if padded else text.rstrip("=")
    forms = SecretForms([secret])
    for written in (text, text.replace("/", "\\/"), quote(text, safe=""), f"x {text} y"):
        masked = forms.masked(written, MASK)
        assert MASK in masked
    left = forms.masked(text, MASK).split(MASK)
    assert sum(map(len, left)) <= len(text) - len(secret.encode()) * 4 // 3 + 4  # the letters at its edges


@given(secrets)
def test_in_bytes_too(secret: str) -> None:
    assert SecretForms([secret]).masked_bytes(b"\xff" + secret.encode() + b"\x80", "[x]") == b"\xff[x]\x80"


def test_what_only_resembles_a_secret_stays() -> None:
    redactor = Redactor(["tok/en+value=="], {})
    for text in (
        "tok/en",
        "token value",
        "tok-en_value",
        "TOK/EN+VALUE==",
        "dG9r",
        base64.b64encode(b"token").decode(),
    ):
        assert redactor.text(text) == text


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("DATABASE_URL", "postgres://app:s3cr3t%2Fpw@db/x", ["s3cr3t%2Fpw", "s3cr3t/pw", "s3cr3t%2fpw"]),
        ("REPORTS", "mysql+aio://root:violet-orchard@h:3306/x?a=b", ["violet-orchard", quote("root:violet-orchard")]),
        ("STORE", "DefaultEndpointsProtocol=https;AccountKey=Zm9vYmFyYmF6;x=y", ["Zm9vYmFyYmF6"]),
        ("SLACK_WEBHOOK_URL", "https://hooks.slack.com/services/T00/B00/aZ3kQ9xW1pL7mN4c", ["aZ3kQ9xW1pL7mN4c"]),
        ("SHOP_COOKIE", "sid=violet-orchard", ["sid=violet-orchard"]),
        ("UPSTREAM_AUTHORIZATION", "Bearer violet-orchard", ["violet-orchard"]),
    ],
)
def test_credentials_inside_of_variables_are_known(name: str, value: str, found: list[str]) -> None:
    redactor = Redactor((), {name: value})
    for each in (*found, value):
        assert MASK in redactor.text(f"failed with {each} at line 3")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "sqlite:///orders.sqlite"),
        ("WEBHOOK_PATH", "/webhooks/orders"),
        ("HOME", "/home/ann"),
        ("SERVICE_URL", "https://example.org/a:b@c"),
        ("LS_COLORS", "rs=0:di=01;34:ln=01;36"),
    ],
)
def test_variables_without_credentials_are_no_secrets(name: str, value: str) -> None:
    assert Redactor((), {name: value}).text(f"see {value} and its parts") == f"see {value} and its parts"


def test_servers_credentials_are_found_in_the_same_forms() -> None:
    known = Secrets(["Bearer a/b+c&d=efgh"])
    for text in ("a\\/b+c&amp;d=efgh", quote("a/b+c&d=efgh").lower(), base64.b64encode(b"x:a/b+c&d=efgh").decode()):
        assert "[redacted]" in known.text(text)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("GET / Authorization: Bearer abcdef1234567", "abcdef"),
        ('{"Authorization": "s3cr3tvalue"}', "s3cr3t"),
        ("https://example.org/?authorization=Basic%20Zm9vOmJhcg&x=1", "Zm9v"),
        ("Proxy-Authorization: Basic Zm9vOmJhcg==", "Zm9v"),
        ('authorization: Digest username="ann", response="0a1b2c"', "0a1b2c"),
        ("sent Cookie: a=b; session=violet", "violet"),
        ('{"set-cookie": ["id=a3fWa; Max-Age=1"]}', "a3fWa"),
        ("https://example.org/?cookie=abc12345", "abc12345"),
        ("PHPSESSID=ab12cd34ef56 has ended", "ab12cd"),
        ('{"session_id": "8f7a6b5c4d"}', "8f7a6b"),
        ("posted to https://hooks.slack.com/services/T000/B000/XXXX1234", "XXXX1234"),
        ("posted to https://discord.com/api/webhooks/123456/abcDEF_123", "abcDEF"),
        ("POST /webhooks/stripe/whsec_9a8b7c6d5e4f3a2b", "9a8b7c"),
        ("no route to postgres://user:p@ss:w@host/db", "ss:w"),
        ("https://9a8b7c6d5e4f3a2b9a8b7c6d5e4f3a2b@o0.ingest.example.org/1", "9a8b7c"),
        ("https://api.telegram.org/bot123456789:AAabcdefghijklmnopqrstuvwxyz123456/x", "AAabc"),
    ],
)
def test_credentials_are_known_by_their_names(text: str, secret: str) -> None:
    assert secret not in masked_text(text)
    assert "***" in masked_text(text)


def test_locations_are_known_by_their_names_in_exceptions() -> None:
    assert masked_exception("DATABASE_URL=postgres://localhost/x fails") == "DATABASE_URL=*** fails"
    assert "k2j3" not in masked_exception('{"dsn": "k2j3h4@elsewhere"}')
    assert all(map(is_secret_name, ("DATABASE_URL", "sentryDsn", "connection_string")))
    assert not any(map(is_secret_name, ("webhook_url", "url", "database", "string")))


@pytest.mark.parametrize(
    "text",
    [
        "authorization: the user must log in first",
        "authorization: required",
        "Authorization failed: token expired, log in again",
        "Cookie: The recipe needs flour and butter",
        "the cookie = a small cake",
        "session id: expired, ask for another",
        "sessionid: somewhere",
        "see /webhooks/notifications-of-orders for the list",
        "hooks/useEffectOnceAfterMounting is a hook",
        "write to ann@example.org: she has it",
        "https://example.org/users/ann:x@y",
        "dsn: Server is down for the moment",
        "the connection string is missing in settings",
    ],
)
def test_words_about_credentials_stay(text: str) -> None:
    assert masked_exception(text) == text


def test_a_private_key_that_is_cut_off_is_masked_as_far_as_it_goes() -> None:
    key = "-----BEGIN PRIVATE KEY-----\\n" + "MIIEvQIBADANBgkq\n" * 20
    assert "MIIE" not in masked_text(key)
    assert masked_text("-----BEGIN PRIVATE KEY----- is missing") == "*** is missing"


def test_a_secret_of_any_size_is_found() -> None:
    secret = json.dumps({"key": "a/b\n" * 50_000})
    forms = SecretForms([secret])
    for written in (secret, json.dumps({"secret": secret}), quote(secret, safe="")):
        assert "[x]" in forms.masked(f"say {written}", "[x]")


def test_a_secret_that_the_environment_gets_later_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "first-of-them-1")
    assert Redactor().text("first-of-them-1 second-of-them-2") == f"{MASK} second-of-them-2"
    monkeypatch.setenv("SHOP_TOKEN", "second-of-them-2")
    assert Redactor().text("first-of-them-1 second-of-them-2") == f"first-of-them-1 {MASK}"
    assert Redactor(["first-of-them-1"]).text("first-of-them-1 second-of-them-2") == f"{MASK} {MASK}"
