"""The caller decides which model is used, then the environment, then the embedded default; the command says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from atc.cli.model import app
from atc.errors import ModelUnavailable, UsageError
from atc.models.cache import CachedModel
from atc.models.embedded import EmbeddedModel
from atc.models.fake import FakeModel
from atc.models.fetch import models_dir
from atc.models.openai_compatible import OpenAICompatible
from atc.models.resolve import choose_model, open_model, resolve_model
from atc.settings import Settings
from tests.support import fake_openai_server as fake

KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ATC_MODEL", "OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY", "ATC_SERVE_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_nothing_set_up_is_the_embedded_default() -> None:
    model = open_model()
    assert isinstance(model, EmbeddedModel)
    assert model.name == "embedded:qwen2.5-coder-1.5b"
    assert model.path.parent == models_dir()


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("embedded", "embedded:qwen2.5-coder-1.5b"),
        ("embedded:smollm2-135m", "embedded:smollm2-135m"),
        ("embedded:/models/mine.gguf", "embedded:mine"),
        ("embedded:mine.gguf", "embedded:mine"),
    ],
)
def test_embedded_models_are_named_by_catalogue_or_path(spec: str, name: str) -> None:
    assert open_model(spec).name == name


@pytest.mark.parametrize(
    ("environment", "name", "url"),
    [
        ({"OPENAI_BASE_URL": "http://h/v1", "ATC_MODEL": "big"}, "big", "http://h/v1"),
        ({"OPENAI_API_KEY": KEY, "OPENAI_MODEL": "gpt"}, "gpt", None),
        ({"OPENAI_API_KEY": KEY, "OPENAI_MODEL": "gpt", "ATC_MODEL": "openai:other"}, "other", None),
        ({"OPENAI_BASE_URL": "http://h/v1", "ATC_MODEL": "org/model:7b"}, "org/model:7b", "http://h/v1"),
    ],
)
def test_the_usual_environment_variables_mean_an_endpoint(
    environment: dict[str, str], name: str, url: str | None
) -> None:
    choice = choose_model(environment=environment)
    assert (choice.kind, choice.model, choice.base_url) == ("endpoint", name, url)
    assert KEY not in repr(choice)


def test_the_environment_can_ask_for_embedded_beside_an_endpoint() -> None:
    choice = choose_model(environment={"OPENAI_API_KEY": KEY, "ATC_MODEL": "embedded:smollm2-135m"})
    assert choice.kind == "embedded"


def test_arguments_come_before_the_environment() -> None:
    environment = {"OPENAI_BASE_URL": "http://h/v1", "ATC_MODEL": "big"}
    choice = choose_model("small", base_url="http://mine/v1", environment=environment)
    assert (choice.model, choice.base_url) == ("small", "http://mine/v1")


def test_empty_variables_are_not_set() -> None:
    assert choose_model(environment={"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "", "ATC_MODEL": ""}).kind == "embedded"


def test_a_key_alone_chooses_nothing() -> None:
    choice = choose_model(environment={"OPENAI_API_KEY": KEY})
    assert choice.kind == "embedded"
    assert "no model is named" in choice.why
    assert choice.api_key is None
    named = choose_model("gpt", environment={"OPENAI_API_KEY": KEY})
    assert (named.kind, named.model, named.base_url, named.api_key) == ("endpoint", "gpt", None, KEY)


@pytest.mark.parametrize(
    ("given", "environment"),
    [
        ({}, {"OPENAI_BASE_URL": "http://h/v1"}),
        ({}, {"OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": KEY}),
        ({"base_url": "http://h/v1"}, {}),
        ({"api_key": KEY}, {}),
        ({"spec": "openai:"}, {"OPENAI_API_KEY": KEY}),
    ],
)
def test_an_endpoint_without_a_models_name_is_an_error(given: dict[str, str], environment: dict[str, str]) -> None:
    with pytest.raises(ModelUnavailable, match="ATC_MODEL") as caught:
        choose_model(**given, environment=environment)  # type: ignore[arg-type]
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant"), [("smollm2-135m", "embedded:smollm2-135m"), ("claude-x", "anthropic:claude-x")]
)
def test_a_name_without_an_endpoint_is_an_error_with_a_guess(name: str, meant: str) -> None:
    with pytest.raises(ModelUnavailable, match=f"did you mean '{meant}'"):
        choose_model(name, environment={})


def test_what_contradicts_itself_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="leave one out"):
        open_model("embedded", base_url="http://h/v1")
    with pytest.raises(UsageError, match="leave one out"):
        open_model(FakeModel([]), api_key=KEY)
    with pytest.raises(UsageError, match="'nope'"):
        open_model("embedded:nope")


def test_an_opened_model_is_taken_as_it_is_and_a_cache_is_put_around_it(tmp_path: Path) -> None:
    fake_model = FakeModel([])
    assert open_model(fake_model) is fake_model
    assert isinstance(open_model(fake_model, cache_dir=tmp_path), CachedModel)


def test_an_endpoint_is_opened_with_what_was_given() -> None:
    model = open_model("tiny", base_url="http://h/v1", context_tokens=1000)
    assert isinstance(model, OpenAICompatible)
    assert (model.name, model.url, model.context_tokens) == ("tiny", "http://h/v1", 1000)


# The command.


def test_info_says_what_is_missing_and_how_to_get_it() -> None:
    result = CliRunner().invoke(app, ["info", "--json"])
    report = json.loads(result.stdout)
    assert result.exit_code == 3
    assert not report["file_is_there"]
    assert "atc model pull" in report["problem"]


def test_info_asks_the_endpoint_and_never_shows_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ATC_MODEL", "tiny")
    with fake.serving(fake.says("x")) as server:
        server.tells["/v1/models"]["data"][0]["max_model_len"] = 9000
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        up = CliRunner().invoke(app, ["info", "--json"])
    down = CliRunner().invoke(app, ["info", "--json"])
    assert up.exit_code == 0
    assert json.loads(up.stdout)["model_is_listed"] is True
    assert json.loads(up.stdout)["context_tokens"] == 9000
    assert down.exit_code == 3
    assert "cannot be reached" in json.loads(down.stdout)["problem"]
    assert KEY not in up.output + down.output


def test_info_says_that_a_key_alone_chose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    report = json.loads(CliRunner().invoke(app, ["info", "--json"]).stdout)
    assert report["model"].startswith("embedded:")
    assert "no model is named" in report["why"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["pull", "nope"], 2, "smollm2-135m"),
        (["pull", "smollm2-135m", "--source", "ftp"], 2, "ftp"),
        (["serve"], 3, "atc model pull"),
        (["serve", "--host", "0.0.0.0"], 2, "ATC_SERVE_KEY"),
        (["serve", "--model", "nope"], 2, "'nope'"),
    ],
)
def test_wrong_use_and_missing_things_have_their_exit_codes(arguments: list[str], code: int, says: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code
    assert says in result.output


def test_pull_prints_where_the_file_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fetched(name: str, *, directory: Path, sources: tuple[str, ...], progress: object) -> Path:
        assert (name, sources) == ("smollm2-135m", ("hub",))
        assert callable(progress)
        for done, total in ((50, 100), (51, 100), (100, 100), (0, 10_000)):  # the second file begins anew
            progress(done, total)
        return directory / "file.gguf"

    monkeypatch.setattr("atc.cli.model.fetch", fetched)
    result = CliRunner().invoke(app, ["pull", "smollm2-135m", "--output", str(tmp_path), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["path"] == str(tmp_path / "file.gguf")
    assert [line.partition(": ")[2] for line in result.stderr.splitlines()] == [
        "50 bytes of 100 bytes",
        "100 bytes of 100 bytes",
        "0 bytes of 10.0 kB",
    ]


def test_settings_say_which_model_and_a_given_one_goes_before_theirs() -> None:
    settings = Settings(
        model="tiny",
        base_url="http://h/v1",
        api_key=SecretStr(KEY),
        thinking_tokens=7,
        context_tokens=5000,
        prompt_tokens=600,
        model_stall_s=9,
    )
    model = resolve_model(settings)
    assert isinstance(model, OpenAICompatible)
    assert (model.name, model.url, model.thinking_tokens) == ("tiny", "http://h/v1", 7)
    assert (model.context_tokens, model.prompt_tokens, model.stall_s) == (5000, 600, 9)
    assert resolve_model(settings, "other").name == "other"


def test_the_embedded_models_sizes_are_its_own_unless_they_are_set() -> None:
    assert isinstance(model := resolve_model(Settings(), "embedded"), EmbeddedModel)
    assert (model.context_tokens, model.prompt_tokens, model.endpoint) == (16_384, 4_000, "")
    assert resolve_model(Settings(), "embedded:smollm2-135m").context_tokens == 8_192  # it was trained for no more
    model = resolve_model(Settings(context_tokens=2048, prompt_tokens=1000), "embedded")
    assert (model.context_tokens, model.prompt_tokens) == (2048, 1000)
