"""Secrets that a service sends are not in what probing stores."""

from __future__ import annotations

import json
from typing import Any

import pytest

from atc._host.redaction import Redactor
from atc.schemas.infer import text as infer_text
from atc.schemas.infer.shape import mask
from tests.schemas.test_infer import deep

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"


@pytest.mark.parametrize(
    "value",
    [
        {"password": "hunter2"},
        {"accessToken": "abc"},
        {"api_key": "k"},
        {"headers": {"Authorization": "Basic Zm9vOmJhcg==", "Set-Cookie": "a=b"}},
        {"credentials": {"user": "me", "anything": "s3"}},
        {"pin": 1234},
        {"note": f"use {JWT} please"},
        {"note": "Authorization: Bearer abcdefghijklmnopqrstuvwxyz"},
        {"key": "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----"},
        {"card": "4111 1111 1111 1111"},
        {"text": "paid with 5500-0000-0000-0004 yesterday"},
        {"url": "https://user:hunter22@example.org/"},
        {"url": "https://example.org/a?api_key=0123456789"},
        ["ghp_" + "a1B2" * 9],
        {"key": "9f8e7d6c5b4a39281706"},
    ],
    ids=lambda value: str(value)[:30],
)
def test_secrets_are_masked(value: Any) -> None:
    text = json.dumps(mask(value))
    assert "***" in text
    for secret in (
        "hunter2",
        '"abc"',
        "Zm9v",
        "a=b",
        "s3",
        "1234",
        JWT,
        "abcdefghij",
        "MIIabc",
        "4111",
        "0004",
        "0123456",
    ):
        assert secret not in text
    assert '"k"' not in text
    assert "a1B2a1B2" not in text
    assert "9f8e" not in text


@pytest.mark.parametrize(
    "value",
    [
        {"id": 4111111111111111, "key": "C minor", "keys": ["a"], "author": "x", "total_tokens": 57},
        {"next_page_token": "CAUQAA", "nextToken": "abc", "monkey": "x", "keyboard": "y", "secretary": "z"},
        {"isbn": "9783161484100", "phone": "+49 170 1234567", "tracking": "1234567890123456"},
        {"url": "https://example.org/a?b=c", "text": "a basic token of thanks", "tokens": 3},
        {"opinion": "spin", "passport": None, "bypass": "yes", "id": "4uLU6hMCjMI75M1A2tKUQC"},
    ],
    ids=lambda value: next(iter(value)),
)
def test_what_is_no_secret_is_left_alone(value: Any) -> None:
    assert mask(value) == value


def test_credentials_of_the_environment_are_masked_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "violet-orchard and copper-lantern"
    monkeypatch.setenv("SHOP_API_KEY", "violet-orchard")
    assert mask(said) == "[secret] and copper-lantern"
    monkeypatch.setenv("SHOP_API_KEY", "copper-lantern")
    assert mask(said) == "violet-orchard and [secret]"
    monkeypatch.delenv("SHOP_API_KEY")
    assert mask(said) == said


def test_credentials_are_looked_for_once_as_long_as_the_environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Redactor] = []

    def counting(**options: Any) -> Redactor:
        made.append(Redactor(**options))
        return made[-1]

    monkeypatch.setattr(infer_text, "Redactor", counting)
    monkeypatch.setenv("SHOP_API_KEY", "violet-orchard")
    assert [mask("violet-orchard") for _ in range(50)] == ["[secret]"] * 50
    assert len(made) == 1


def test_masking_copies_and_bounds_depth() -> None:
    value = {"a": [{"password": "x"}]}
    assert mask(value) == {"a": [{"password": "***"}]}
    assert value["a"][0]["password"] == "x"
    assert "***" in json.dumps(mask(deep(200)))
