"""Options of several commands: settings, and how OpenAPI documents are read."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner
from typer.testing import Result as Ran

from atc.cli import options
from atc.cli.options import openapi_of, opened
from atc.errors import UsageError
from atc.result import Effect
from atc.settings import Settings
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
    assert openapi_of(["service_url=http://x/a=b", "auth.key=a=b", "auth.other=c"]) == {
        "base_url": "http://x/a=b",
        "auth": {"key": "a=b", "other": "c"},
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
    assert "larger than 1,000,000 bytes" in atc("tools", "list", "-t", shop, "--openapi", "max_mb=1").stderr
    listed = json.loads(
        atc("tools", "list", "-t", shop, "--only", "carts*", "--openapi", "effect=carts:write", "--json").stdout
    )
    assert [(tool["name"], tool["effect"]) for tool in listed] == [
        ("carts", Effect.WRITE.value),
        ("carts_checkout", Effect.READ.value),
    ]


class Taken:
    """A command that takes settings and a source, and keeps what it was given."""

    def __init__(self, *shown: str) -> None:
        self.given: dict[str, Any] = {}
        self.source = options.NOWHERE
        self._app = typer.Typer()

        @self._app.command()
        @options.takes(*shown)
        def command(given: options.Given, source: options.Source = options.NOWHERE, limit: int = 3) -> None:
            self.given, self.source = dict(given), source

    def __call__(self, *words: str) -> Ran:
        return CliRunner().invoke(self._app, words)


def test_any_setting_is_taken_as_the_environment_gives_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    command = Taken("model")
    words = [
        "model=tiny",
        "max-revisions=0",
        'prices={"tiny": {"input": 1, "output": 2}}',
        "sandbox-preload=numpy, pandas",
    ]
    assert command(*(word for each in words for word in ("--set", each))).exit_code == 0
    prices = command.given.pop("prices")
    assert prices["tiny"].output == Decimal(2)
    assert command.given == {"model": "tiny", "max_revisions": 0, "sandbox_preload": ("numpy", "pandas")}
    Settings.load(**command.given | {"prices": prices})
    assert command("--set", "model=a=b", "--model", "tiny").exit_code == 0
    assert command.given == {"model": "tiny"}
    Path("wishes.txt").write_text("answer in German")
    assert command("--set", "instructions=@wishes.txt").exit_code == 0
    assert command.given == {"instructions": "answer in German"}


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("max_revision=3", "there is no setting 'max_revision': did you mean max_revisions"),
        ("zzz=3", "`atc doctor --settings` lists all"),
        ("max_revisions", "--set takes NAME=VALUE"),
        ("max_revisions=many", "max_revisions: Input should be a valid integer"),
        ("prices=cheap", "prices: this setting takes JSON"),
        ("api_key=sk-1", "others on this machine see a command line; set ATC_API_KEY"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(pair: str, words: str) -> None:
    ran = Taken()("--set", pair)
    assert isinstance(ran.exception, UsageError)
    assert words in str(ran.exception)


class Serving:
    """A command with parameters of its own that ``--set`` takes."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self._app = typer.Typer()

        @self._app.command()
        @options.takes(settable=("drain_s", "scopes"))
        def command(
            given: options.Given,
            drain_s: Annotated[float, typer.Option(envvar="TRY_DRAIN_S", min=0, help="Seconds to end.")] = 30.0,
            scopes: Annotated[list[str] | None, typer.Option(help="Scopes of tokens.")] = None,
        ) -> None:
            self.kept = {"given": dict(given), "drain_s": drain_s, "scopes": scopes}

    def __call__(self, *words: str, **environment: str) -> Ran:
        return CliRunner().invoke(self._app, words, env=environment)


def test_set_takes_a_commands_own_parameters_beside_settings() -> None:
    command = Serving()
    words = ["drain-s=1", "scopes=a", "max_calls=5", "scopes=b,c"]
    ran = command(*(word for each in words for word in ("--set", each)), TRY_DRAIN_S="7")
    assert ran.exit_code == 0, ran.output
    assert command.kept == {"given": {"max_calls": 5}, "drain_s": 1.0, "scopes": ["a", "b,c"]}
    assert not ran.stderr
    command(TRY_DRAIN_S="7")
    assert command.kept["drain_s"] == 7.0
    shown = " ".join(command("--help").output.replace("│", " ").split())
    assert "`drain_s`: Seconds to end (default: 30). `scopes`: Scopes of tokens." in shown
    assert "--drain-s" not in shown
    assert command("--drain-s", "2").exit_code == 2


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("drain_s=-1", "--set drain_s: "),
        ("drain_s=long", "--set drain_s: "),
        ("drains=1", "there is no setting 'drains': did you mean drain_s"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(pair: str, words: str) -> None:
    ran = Serving()("--set", pair)
    assert isinstance(ran.exception, UsageError)
    assert words in str(ran.exception)


def test_a_trace_says_where_tools_are_and_no_credential() -> None:
    command = Taken()
    pairs = ("auth.key=hidden-1", "auth.other=hidden-2", "service_url=u")
    ran = command("-t", "shop.yaml", *(word for pair in pairs for word in ("--openapi", pair)))
    assert ran.exit_code == 0, ran.output
    assert openapi_of(command.source.openapi) == {"base_url": "u", "auth": {"key": "hidden-1", "other": "hidden-2"}}
    assert "hidden" not in command.source.note
    assert options.Source.of_note(command.source.note) == options.Source(["shop.yaml"], openapi=["service_url=u"])
    for strange in ("[]", "x", '{"tools": "atlas"}', None):
        assert options.Source.of_note(strange) == options.NOWHERE
