"""Options of several commands: how OpenAPI documents are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atc.cli.options import openapi_of, opened
from atc.errors import UsageError
from atc.result import Effect
from tests.support.cli import atc
from tests.support.openapi import document


def test_openapi_options_become_those_of_the_importer() -> None:
    assert openapi_of(None) == {}
    given = ["max_mb=100", "effect=GET /a:b:read", "effect=x_*:unknown", "server.region=eu", "allow_remote_refs"]
    assert openapi_of([*given, "allow_http_credentials"]) == {
        "max_document_bytes": 100_000_000,
        "effects": {"GET /a:b": "read", "x_*": "unknown"},
        "server_variables": {"region": "eu"},
        "allow_remote_refs": True,
        "allow_http_credentials": True,
    }


@pytest.mark.parametrize(
    "pair", ["max_mb", "max_mb=-1", "max_mb=٣", "effect=read", "server.=x", "allow_remote_refs=no", "x"]
)
def test_an_option_that_is_not_known_says_what_is(pair: str) -> None:
    with pytest.raises(UsageError, match="max_mb=NUMBER"):
        openapi_of([pair])


@pytest.fixture
def shop(tmp_path: Path) -> str:
    paths = {f"/{name}": {"get": {"operationId": name}} for name in ("carts", "carts_checkout", "orders")}
    (tmp_path / "shop.json").write_text(json.dumps(document(paths, x="y" * 1_100_000)))
    return str(tmp_path / "shop.json")


def test_only_reaches_the_document_and_may_fit_in_one_source_alone(shop: str, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document({"/a": {"get": {"operationId": "elsewhere"}}})))
    assert list(opened([shop, str(other)], only=["carts*"])) == ["carts", "carts_checkout"]
    with pytest.raises(UsageError, match="'nothing'"):
        opened([shop], only=["nothing"])


def test_the_commands_take_them(shop: str) -> None:
    assert "larger than 1,000,000 bytes" in atc("tools", "list", shop, "--openapi", "max_mb=1").stderr
    listed = json.loads(
        atc("tools", "list", shop, "--only", "carts*", "--openapi", "effect=carts:write", "--json").stdout
    )
    assert [(tool["name"], tool["effect"]) for tool in listed] == [
        ("carts", Effect.WRITE.value),
        ("carts_checkout", Effect.READ.value),
    ]
