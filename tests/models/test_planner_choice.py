"""Which model plans the search for tools, and whose key goes where."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from atc.errors import ModelUnavailable, SettingsError, UsageError
from atc.models.cache import CachedModel
from atc.models.resolve import Choice, choose_planner, resolve_planner
from atc.settings import Settings

OPENAI = {"OPENAI_API_KEY": "sk-openai"}
SOME = {**OPENAI, "OPENAI_BASE_URL": "http://acts/v1", "GROQ_API_KEY": "sk-groq"}


def chosen(environment: Mapping[str, str] = OPENAI, spec: str | None = None, **given: Any) -> Choice | None:
    return choose_planner(Settings.load(**given), spec, environment)


def place(choice: Choice | None) -> tuple[str, str, str | None, str | None]:
    assert choice is not None
    return choice.kind, choice.model, choice.base_url, choice.api_key


def test_where_none_is_named_there_is_none() -> None:
    assert chosen() is None
    assert resolve_planner(Settings.load()) is None


@pytest.mark.parametrize(
    ("environment", "given", "found"),
    [
        pytest.param(
            SOME,
            {"planner_model": "small"},
            ("endpoint", "small", "http://acts/v1", "sk-openai"),
            id="a name at the endpoint of the environment",
        ),
        pytest.param(
            SOME,
            {"planner_model": "small", "planner_base_url": "http://plans/v1", "api_key": "sk-acts"},
            ("endpoint", "small", "http://plans/v1", None),
            id="no key of others at an address of its own",
        ),
        pytest.param(
            SOME,
            {"planner_model": "small", "planner_base_url": "http://plans/v1", "planner_api_key": "sk-plans"},
            ("endpoint", "small", "http://plans/v1", "sk-plans"),
            id="its own key at its own address",
        ),
        pytest.param(
            SOME,
            {"planner_model": "mistral:7b", "planner_base_url": "http://plans/v1"},
            ("endpoint", "mistral:7b", "http://plans/v1", None),
            id="at an address a colon is a part of the name",
        ),
        pytest.param(
            {"GROQ_API_KEY": "sk-groq"},
            {"planner_model": "groq:small", "model": "anthropic:large", "api_key": "sk-anthropic"},
            ("endpoint", "small", "https://api.groq.com/openai/v1", "sk-groq"),
            id="the acting model's key does not go to another provider",
        ),
        pytest.param(
            {},
            {"planner_model": "anthropic:small", "model": "anthropic:large", "api_key": "sk-anthropic"},
            ("endpoint", "small", "https://api.anthropic.com/v1", "sk-anthropic"),
            id="it goes to the same provider",
        ),
        pytest.param(
            OPENAI,
            {"planner_model": "small", "model": "anthropic:large", "api_key": "sk-anthropic"},
            ("endpoint", "small", None, "sk-openai"),
            id="nor to OpenAI",
        ),
        pytest.param(
            {},
            {"planner_model": "small", "model": "large", "base_url": "http://acts/v1", "api_key": "sk-acts"},
            ("endpoint", "small", "http://acts/v1", "sk-acts"),
            id="the acting model's endpoint has its key",
        ),
        pytest.param(
            {},
            {"planner_model": "groq:small", "planner_api_key": "sk-plans"},
            ("endpoint", "small", "https://api.groq.com/openai/v1", "sk-plans"),
            id="its own key at a provider",
        ),
        pytest.param(
            SOME,
            {"planner_model": "embedded:/models/plans.gguf", "base_url": "http://acts/v1", "api_key": "sk-acts"},
            ("embedded", "/models/plans.gguf", None, None),
            id="a file on this machine beside an endpoint that acts",
        ),
    ],
)
def test_a_planner_is_named_as_a_model_is_and_no_key_goes_astray(
    environment: Mapping[str, str], given: Mapping[str, Any], found: tuple[str, str, str | None, str | None]
) -> None:
    assert place(chosen(environment, **given)) == found


def test_the_acting_model_of_an_argument_counts_for_its_key() -> None:
    given = {"planner_model": "groq:small", "api_key": "sk-given"}
    assert place(chosen({}, "groq:large", **given))[3] == "sk-given"
    with pytest.raises(ModelUnavailable, match="no key for groq"):
        chosen({}, "anthropic:large", **given)


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"planner_model": "embedded:none-such"}, UsageError, "none-such"),
        ({"planner_model": "groq:small"}, ModelUnavailable, "set GROQ_API_KEY"),
        ({"planner_model": "small"}, ModelUnavailable, "none is set up"),
        ({"planner_model": "embedded", "planner_base_url": "http://plans/v1"}, UsageError, "leave one out"),
    ],
    ids=["no-file", "no-key", "no-endpoint", "a-file-at-an-address"],
)
def test_what_is_wrong_names_the_setting(given: Mapping[str, Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=f"planner_model=.*{said}"):
        chosen({}, **given)


def test_an_address_needs_a_model() -> None:
    with pytest.raises(SettingsError, match="planner_base_url needs planner_model"):
        Settings.load(planner_base_url="http://plans/v1")


def test_its_key_is_a_secret_and_its_replies_are_kept_where_others_are(tmp_path: Path) -> None:
    settings = Settings.load(
        planner_model="small", planner_base_url="http://plans/v1", planner_api_key="sk-plans-0123", extra_body={"a": 1}
    )
    assert "sk-plans-0123" in settings.secrets
    kept = resolve_planner(settings, cache_dir=tmp_path)
    assert isinstance(kept, CachedModel)
    assert (kept.name, kept.endpoint) == ("small", "http://plans/v1")
    assert "sk-plans-0123" not in repr(kept)
    assert not getattr(kept.inner, "extra_body", None)  # of the acting model's requests
