"""``atc mcp --http``: what its options come to."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from atc.cli import app
from atc.cli.mcp_http import HttpOptions, settings_of
from atc.errors import UsageError

TOKEN = "a-token-of-the-tests-0123456789"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("ATC_MCP_TOKEN", "ATC_MCP_OAUTH_SECRET"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_without_credentials_a_token_is_made_once_and_kept_to_its_owner(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings_of(HttpOptions())
    path = home / "atc" / "mcp-token"
    first = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(first.strip()) >= 40
    assert len(settings_of(HttpOptions()).lock.verifiers) == 1
    assert path.read_text() == first
    said = capsys.readouterr()
    assert str(path) in said.err
    assert first.strip() not in said.err + said.out


def test_a_token_is_not_written_through_a_link(home: Path) -> None:
    (home / "atc").mkdir()
    (home / "atc" / "mcp-token").symlink_to(home / "elsewhere")
    with pytest.raises(UsageError, match="mcp-token"):
        settings_of(HttpOptions())
    assert not (home / "elsewhere").exists()


def test_a_token_that_others_can_read_is_warned_about(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "token"
    path.write_text(TOKEN)
    path.chmod(0o644)
    settings_of(HttpOptions(token_file=path))
    assert "chmod 600" in capsys.readouterr().err
    path.chmod(0o600)
    settings_of(HttpOptions(token_file=path))
    assert "chmod" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (HttpOptions(host="0.0.0.0"), "is reached from elsewhere: give --token-file"),
        (HttpOptions(host="0.0.0.0", no_auth=True), "this machine alone"),
        (HttpOptions(host="tools.example.org"), "is reached from elsewhere"),
        (HttpOptions(no_auth=True, oauth_issuer="https://a.example"), "--no-auth goes with"),
        (HttpOptions(token_file=Path("/nowhere")), "/nowhere cannot be read"),
        (HttpOptions(no_auth=True, tls_cert=Path("/nowhere")), "go together"),
        (HttpOptions(no_auth=True, allow_host=("https://a.example",)), "--allow-host takes"),
        (HttpOptions(no_auth=True, allow_host=("*",)), "--allow-host takes"),
        (HttpOptions(no_auth=True, allow_origin=("*",)), "--allow-origin takes"),
        (HttpOptions(no_auth=True, allow_origin=("https://a.example/x",)), "--allow-origin takes"),
        (HttpOptions(no_auth=True, resource_url="tools.example.org/mcp"), "--resource-url takes"),
        (HttpOptions(no_auth=True, oauth_self=True), "--no-auth goes with"),
        (HttpOptions(oauth_self=True, oauth_issuer="https://a.example"), "give one"),
        (HttpOptions(oauth_self=True, host="0.0.0.0"), "needs --resource-url"),
        (HttpOptions(oauth_self=True, port=0), "needs --resource-url"),
        (HttpOptions(oauth_self=True, resource_url="http://tools.example.org/mcp"), "needs an address"),
        (HttpOptions(oauth_self=True, resource_url="https://tools.example.org/x"), "needs an address"),
        (HttpOptions(oauth_issuer="http://login.example.org"), "--oauth-issuer takes"),
        (HttpOptions(host="0.0.0.0", oauth_issuer="https://login.example.org"), "needs --resource-url"),
        (HttpOptions(oauth_issuer="https://login.example.org", oauth_client="gate"), "ATC_MCP_OAUTH_SECRET"),
    ],
)
def test_what_does_not_fit_is_said(given: HttpOptions, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        settings_of(given)


def test_a_short_token_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATC_MCP_TOKEN", "secret")
    with pytest.raises(UsageError, match="at least 20"):
        settings_of(HttpOptions())


def test_several_clients_have_several_tokens(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = home / "tokens"
    path.write_text(f"ann {TOKEN}\nbob {TOKEN}-too\n")
    path.chmod(0o600)
    assert len(settings_of(HttpOptions(host="0.0.0.0", tokens=path)).lock.verifiers) == 1
    monkeypatch.setenv("ATC_MCP_TOKEN", TOKEN)
    with pytest.raises(UsageError, match="another"):
        settings_of(HttpOptions(tokens=path))


def test_the_names_of_the_server_come_from_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATC_MCP_TOKEN", TOKEN)
    given = HttpOptions(
        host="0.0.0.0",
        resource_url="https://tools.example.org/mcp",
        oauth_issuer="https://login.example.org",
        allow_host=("Other.example.org",),
        oauth_scope=("tools",),
    )
    made = settings_of(given)
    assert made.names.hosts == {"tools.example.org", "other.example.org"}
    assert not made.names.local_pages
    assert len(made.lock.verifiers) == 2
    assert made.lock.resource is not None
    assert made.lock.resource.url == "https://tools.example.org/mcp"


def test_the_pass_phrase_of_the_owner_is_kept_to_them(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = settings_of(HttpOptions(oauth_self=True))
    path = home / "atc" / "mcp-passphrase"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    said = capsys.readouterr().err
    assert str(path) in said
    assert path.read_text().strip() not in said
    assert made.lock.resource is not None
    assert made.lock.resource.issuer == "http://127.0.0.1:8790"
    assert made.names.origins == {"http://127.0.0.1:8790"}
    assert len(made.lock.routes) >= 5


@pytest.mark.parametrize(
    ("words", "option"), [(["--token-file", "/nowhere"], "--token-file"), (["--set", "drain_s=5"], "--set drain_s")]
)
def test_options_of_http_go_with_http(words: list[str], option: str) -> None:
    result = CliRunner().invoke(app, ["mcp", "--tools", "atlas", *words])
    assert result.exit_code == 2
    assert f"{option} goes with --http" in result.output
