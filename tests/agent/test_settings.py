"""Settings: arguments go before the environment, that before atc.toml; a wrong value is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atc._host.trust import SECRET, TrustStore, settings_file
from atc.errors import SettingsError
from atc.settings import Settings


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_arguments_go_before_the_environment_and_that_before_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.load().max_calls == 200
    Path("atc.toml").write_text("max_calls = 1\nstub_tokens = 2\nsandbox_require = 'F'\n")
    TrustStore().add(settings_file(Path()))
    monkeypatch.setenv("ATC_MAX_CALLS", "3")
    loaded = Settings.load(max_revisions=None)
    assert (loaded.max_calls, loaded.stub_tokens, loaded.sandbox_require, loaded.max_revisions) == (3, 2, "F", 3)
    assert Settings.load(max_calls=4).max_calls == 4


def test_lists_come_in_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ('["numpy","pandas"]', "numpy, pandas", "numpy,pandas,"):
        monkeypatch.setenv("ATC_SANDBOX_PRELOAD", text)
        assert Settings.load().sandbox_preload == ("numpy", "pandas")
    monkeypatch.setenv("ATC_SANDBOX_PRELOAD", "")
    assert Settings.load().sandbox_preload == ()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_calls": 0}, "max_calls: "),
        ({"max_calls": "many"}, "max_calls: "),
        ({"temperature": 3}, "temperature: "),
        ({"sandbox_require": "magic"}, "sandbox_require: "),
        ({"no_such": 1}, "no_such: "),
        ({"budget_s": -1, "cpu_s": 0}, "cpu_s: .*budget_s: "),
    ],
)
def test_a_wrong_value_is_named_with_where_to_set_it(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words + ".*atc doctor --settings") as caught:
        Settings.load(**given)
    assert "kept_dir" not in str(caught.value), "only what is wrong is named"


@pytest.mark.parametrize("text", ["max_calls = ", "max_calls = 'x'", "[section]\na = 1", "\xff"])
def test_a_wrong_file_is_named(text: str) -> None:
    Path("atc.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError):
        Settings.load()


def test_a_key_is_never_shown() -> None:
    loaded = Settings.load(api_key="sk-1234567890")
    assert "sk-1234567890" not in repr(loaded) + str(loaded.model_dump(mode="json"))
    assert loaded.api_key is not None
    assert loaded.api_key.get_secret_value() == "sk-1234567890"
    with pytest.raises(SettingsError) as caught:
        Settings.load(api_key=["sk-1234567890"])
    assert "sk-1234567890" not in str(caught.value)


def test_every_setting_says_what_it_is() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


@pytest.mark.parametrize("how", ["argument", "file"])
def test_a_truth_value_is_no_type_of_an_answer(how: str) -> None:
    if how == "file":
        Path("atc.toml").write_text("answer = false\n")
    with pytest.raises(SettingsError, match="answer"):
        Settings.load(**({"answer": False} if how == "argument" else {}))


def test_a_file_that_is_not_trusted_names_no_type_to_import() -> None:
    Path("atc.toml").write_text("answer = 'stranger:Type'\n")
    with pytest.raises(SettingsError, match="not trusted"):
        Settings.load()


@pytest.mark.parametrize("name", sorted(SECRET))
def test_every_secret_setting_is_masked_in_traces(name: str) -> None:
    value = "postgresql://me:a-hidden-word-of-mine@h/runs" if name == "store" else "a-hidden-word-of-mine"
    assert "a-hidden-word-of-mine" in Settings(**{name: value}).secrets
