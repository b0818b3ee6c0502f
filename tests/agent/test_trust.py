"""A folder's settings file: what it may set unasked, what needs the user's trust, and how that is kept."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from pathlib import Path

import pytest

from atc import Agent, Toolset
from atc._host.trust import FREE, MAX_FILE, SECRET, TrustStore, parse_toml, settings_file
from atc.errors import SettingsError
from atc.settings import Settings
from tests.support.cli import GOOD, TOOLS, atc
from tests.support.fake_openai_server import says, serving
from tests.support.tools import make_tool

STRANGER = 'base_url = "http://stranger.example/v1"\nstub_tokens = 3\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str, path: str = "atc.toml") -> Path:
    Path(path).write_text(text)
    return Path(path)


def trusted() -> None:
    TrustStore().add(settings_file(Path()))


# -- what needs trust ------------------------------------------------------------------------------------------------


VALUES = {
    "model": '"embedded:/here/evil.gguf"', "base_url": '"http://stranger.example"', "api_key": '"sk-of-a-stranger"',
    "sandbox": '"http://stranger.example"', "sandbox_require": '"F"', "sandbox_image": '"evil"',
    "sandbox_preload": '["evil"]', "sandbox_token": '"the-token"',
    "approval_url": '"https://stranger.example/yes"', "approval_secret": '"a-secret-of-a-stranger"',
    "approver_key": '"atc-approver-private-of-a-stranger"',
    "store": '"postgresql://stranger.example/runs"', "runs_dir": '"runs"',
    "kept_dir": '"kept"', "tool_index": '"index"',
    "approve": '"always"', "warnings": '"allow"', "check": "false", "keep_runs": "false", "max_revisions": "999",
    "max_tokens": "99999", "budget_tokens": "1000000000", "max_calls": "99999",
}  # fmt: skip


@pytest.mark.parametrize("name", list(VALUES))
def test_what_decides_where_things_go_is_not_taken_from_a_strangers_file(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ATC_RUNS_DIR")
    if name == "approval_url":
        monkeypatch.setenv("ATC_APPROVAL_SECRET", "a-secret-of-the-user")
    write(f"{name} = {VALUES[name]}\n")
    with pytest.raises(SettingsError, match=rf"atc\.toml is not trusted, so it may not set {name}=.*`atc trust`") as no:
        Settings.load()
    if name in SECRET - {"store"}:  # of a store's address, which has no password here, all is shown
        assert VALUES[name].strip('"') not in str(no.value)
    with pytest.raises(SettingsError, match="is not trusted"):
        Agent(Toolset([make_tool("look", lambda _: 1)]))
    trusted()
    assert getattr(Settings.load(), name) is not None


def test_a_new_setting_needs_trust_until_it_is_decided_otherwise() -> None:
    assert set(Settings.model_fields) >= FREE
    assert {name for name, field in Settings.model_fields.items() if "Secret" in str(field.annotation)} == SECRET
    assert not FREE & VALUES.keys()


def test_the_documents_name_what_any_file_may_set() -> None:
    text = (Path(__file__).parents[2] / "docs" / "approval.md").read_text()
    listed = text.split("may only set ")[1].split(". ")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == FREE


def test_how_programs_are_written_any_file_may_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATC_RETRIEVAL")
    write("stub_tokens = 3\nseed = 7\nsentence = false\nretrieval = 'lexical'\n")
    loaded = Settings.load()
    assert (loaded.stub_tokens, loaded.seed, loaded.sentence, loaded.retrieval) == (3, 7, False, "lexical")


def test_what_is_set_elsewhere_does_not_come_from_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write(STRANGER)
    assert Settings.load(base_url="http://mine.example").base_url == "http://mine.example"
    monkeypatch.setenv("ATC_BASE_URL", "http://mine.example")
    loaded = Settings.load()
    assert (loaded.base_url, loaded.stub_tokens) == ("http://mine.example", 3)


@pytest.mark.parametrize("name", ["BASE_URL", "Base_Url", "base-url", "atc_base_url", "ATC_BASE_URL"])
def test_no_other_spelling_gets_by(name: str) -> None:
    write(f'{name} = "http://stranger.example"\n')
    with pytest.raises(SettingsError):
        Settings.load()


def test_trust_is_in_one_file_with_one_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(STRANGER)
    trusted()
    assert Settings.load().base_url == "http://stranger.example/v1"
    write(STRANGER + "# changed\n")
    with pytest.raises(SettingsError, match="is not trusted"):
        Settings.load()
    write(STRANGER)
    assert Settings.load().base_url is not None
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    write(STRANGER)
    with pytest.raises(SettingsError, match="is not trusted"):
        Settings.load()
    Path("atc.toml").unlink()
    Path("atc.toml").symlink_to(tmp_path / "atc.toml")
    with pytest.raises(SettingsError, match="is not trusted"):  # its `runs_dir = "here"` would be this folder's
        Settings.load()


# -- the file and the store ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a = ", "\xff", "a = " + "[" * 100_000, "#" * (MAX_FILE + 1)])
def test_a_file_that_cannot_be_read_is_named(text: str) -> None:
    Path("atc.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError, match=r"atc\.toml cannot be read"):
        Settings.load()


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 20_000 + " = 1",
        "x = 1\n[a" + ".'b' . c" * 10_000 + "]",
        "a = { b" + '."."' * 20_000 + " = 1 }",
        "a = '''\n''' # '''\nb" + ".c" * 20_000 + " = 1",
        'a = "\\""\nb' + ".c" * 20_000 + " = 1",
        "a = " + "[" * 40_000,
        "a = " + "{b = " * 15_000,
        "a = " + "[{b = " * 9 + "1" + "}]" * 9,
    ],
)
def test_a_file_that_is_nested_deeply_is_refused_before_it_is_parsed(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's parser takes 1.6 GB for the first, which has 40 KB."""
    monkeypatch.setattr(tomllib, "loads", lambda text: pytest.fail("it was parsed"))
    Path("atc.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"atc\.toml cannot be read: line \d has .*more than 16 .*: write"):
        Settings.load()


@pytest.mark.parametrize(
    "text",
    [
        'a = "b" # ' + ". " * 100 + "[" * 100,
        'a = "b' + "\\n." * 100 + '"',
        'a = """' + "a.[{\n" * 100 + '\\""""\nb = 1',
        "a = '''" + "a.[{\n" * 100 + "''''",
        "a = 0.5\nb = [" + "1.5, 'a.b',\n" * 100 + "]",
        "[a.b.c.d.e.f]\ng.h.i = [[[1]]]\n[[j.k]]\n[[j.k]]\nl = {m.n = 1, o.p = 2}",
    ],
)
def test_what_stands_in_texts_and_beside_each_other_is_not_nested(text: str) -> None:
    assert parse_toml(text) == tomllib.loads(text)


def test_what_is_no_file_is_none() -> None:
    os.mkfifo("atc.toml")
    assert Settings.load().base_url is None


def test_the_store_is_the_users_alone() -> None:
    write(STRANGER)
    trusted()
    store = TrustStore().path
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.parent.stat().st_mode) == 0o700
    assert [path.name for path in store.parent.iterdir()] == [store.name]
    store.chmod(0o666)
    with pytest.raises(SettingsError, match="others can write"):
        Settings.load()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"version": 1, "files": {"a": 1}}', '{"version": 2, "files": {}}']
)
def test_a_damaged_store_trusts_nothing(content: str) -> None:
    write(STRANGER)
    trusted()
    TrustStore().path.write_text(content)
    for use in (Settings.load, trusted):
        with pytest.raises(SettingsError, match=r"trusted\.json is damaged: delete it"):
            use()


# -- atc trust -------------------------------------------------------------------------------------------------------


def test_a_key_of_the_environment_goes_only_to_an_endpoint_that_was_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    write(TOOLS, "tools.py")
    run = ("run", "double 21", "-t", "tools.py", "--set", "sentence=false", "--json")
    with serving(says(GOOD)) as server:
        write(f'base_url = "{server.url}"\nmodel = "tiny"\n')
        for command in (run, ("runs",), ("doctor",)):
            ran = atc(*command)
            assert (ran.exit_code, server.requests) == (2, [])
            assert "may not set base_url=" in ran.stderr
            assert "`atc trust`" in ran.stderr
        assert atc("trust", "--yes").exit_code == 0
        assert atc(*run).exit_code == 0
        assert len(server.requests) == 1


def test_a_file_is_shown_before_it_is_trusted(folder: Path) -> None:
    store = 'store = "postgresql://me:hidden1@far.example/runs"\n'
    write(STRANGER + store + 'api_key = "sk-1234567890"\nruns_dir = "a\\u001b[2J\\nb"\n')
    ran = atc("trust", stdin="n\n")
    assert (ran.exit_code, ran.stdout) == (1, f"{folder}/atc.toml is not trusted\n")
    assert ran.stderr == (
        f"trust {folder}/atc.toml? It sets\n  | base_url = 'http://stranger.example/v1'\n  | stub_tokens = 3\n"
        "  | store = 'postgresql://me:[secret]@far.example/runs'\n  | api_key = '[secret]'\n"
        "  | runs_dir = 'a\\x1b[2J\\nb'\n[y/N]: \n"
    )
    assert atc("trust", "--list").stdout == "no file is trusted\n"
    assert atc("trust", str(folder), stdin="y\n").exit_code == 0
    assert atc("trust").stdout == f"{folder}/atc.toml is trusted as it is now\n"
    assert json.loads(atc("trust", "--list", "--json").stdout) == [{"path": f"{folder}/atc.toml", "state": "trusted"}]
    write(STRANGER)
    assert "changed" in atc("trust", "--list").stdout
    Path("atc.toml").unlink()
    assert "gone" in atc("trust", "--list").stdout
    assert atc("trust", "--remove").exit_code == 0
    ran = atc("trust", "--remove")
    assert (ran.exit_code, "was not trusted" in ran.stderr) == (2, True)
    ran = atc("trust")
    assert (ran.exit_code, "there is no settings file" in ran.stderr) == (2, True)


def test_a_file_that_needs_no_trust_is_not_asked_about() -> None:
    write("stub_tokens = 3\n")
    ran = atc("trust", "--json")
    assert (ran.exit_code, json.loads(ran.stdout)["state"]) == (0, "free")
    assert TrustStore().states() == {}
