"""Which model is used, and why: what the caller says, then the environment, then the embedded default."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from atc.errors import AtcError, ModelUnavailable, UsageError
from atc.models.base import Model, ModelOptions
from atc.models.cache import CachedModel
from atc.models.catalogue import CATALOGUE, DEFAULT_MODEL, known
from atc.models.embedded import PROMPT_TOKENS, EmbeddedModel, how_to_get_a_model
from atc.models.embedded_process import KeepPrompts
from atc.models.fetch import models_dir
from atc.models.openai_compatible import STALL_S, THINKING_TOKENS, OpenAICompatible
from atc.parts import MODELS
from atc.settings import Settings


@dataclass(frozen=True)
class Preset:
    """An endpoint that has a name.

    Attributes:
        url: its address; where it is the user's own, the part behind the host.
        keys: variables of the environment that may hold its key; the first that is set counts.
        host: variable of the environment that holds the user's own address.
        default_host: where that is not set; empty where there is none.
        needs_key: no request is made without one.
        facts_headers: for its list of models, in the place of the usual one; ``{key}`` stands for the key.
    """

    url: str
    keys: tuple[str, ...] = ()
    host: str = ""
    default_host: str = ""
    needs_key: bool = True
    facts_headers: Mapping[str, str] = field(default_factory=dict)


PRESETS: Mapping[str, Preset] = {
    "anthropic": Preset(
        "https://api.anthropic.com/v1",
        ("ANTHROPIC_API_KEY",),
        facts_headers={"x-api-key": "{key}", "anthropic-version": "2023-06-01"},  # its list is of its own API
    ),
    "gemini": Preset("https://generativelanguage.googleapis.com/v1beta/openai", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "mistral": Preset("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    "groq": Preset("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "openrouter": Preset("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "azure": Preset("/openai/v1", ("AZURE_OPENAI_API_KEY",), host="AZURE_OPENAI_ENDPOINT"),
    "ollama": Preset("/v1", host="OLLAMA_HOST", default_host="http://localhost:11434", needs_key=False),
    "vllm": Preset("http://localhost:8000/v1", ("VLLM_API_KEY",), needs_key=False),
    "llamacpp": Preset("http://localhost:8080/v1", ("LLAMA_API_KEY",), needs_key=False),
    "lmstudio": Preset("http://localhost:1234/v1", needs_key=False),
}
"""By the word that stands before the colon: an address and the usual variable of its key, as the provider documents
them. What an endpoint takes and refuses is learnt from its answers (:mod:`atc.models.endpoint_errors`)."""


@dataclass(frozen=True)
class Opened:
    """A preset with the environment's values.

    Attributes:
        url: the whole address.
        key: as the environment has it.
        key_name: variables that may hold the key, for messages; empty where it has none.
        facts_headers: with the key.
    """

    url: str
    key: str | None
    key_name: str
    facts_headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def opened(name: str, environment: Mapping[str, str], api_key: str | None = None) -> Opened:
    """The endpoint of a preset.

    Args:
        name: of the preset.
        environment: with its variables.
        api_key: in place of the environment's.

    Raises:
        ModelUnavailable: its key or its address is not set.
    """
    preset = PRESETS[name]
    key = api_key or next((environment[each] for each in preset.keys if environment.get(each)), None)
    key_name = " or ".join(preset.keys)
    if preset.needs_key and not key:
        raise ModelUnavailable(f"no key for {name}: set {key_name}")
    url = preset.url
    if preset.host:
        host = environment.get(preset.host) or preset.default_host
        if not host:
            raise ModelUnavailable(
                f"no address for {name}: set {preset.host} to your own, such as https://NAME.openai.azure.com"
            )
        url = _joined(host, url)
    return Opened(url, key, key_name, {each: text.format(key=key) for each, text in preset.facts_headers.items()})


def _joined(host: str, path: str) -> str:
    host = host.rstrip("/").removesuffix(path)
    if "://" not in host:
        host = f"http://{host.replace('0.0.0.0', 'localhost')}"  # Ollama's variable says where it listens
    return host + path


@dataclass(frozen=True)
class Choice:
    """A model that was decided on, not yet opened.

    Attributes:
        kind: on this machine, behind an endpoint, or of another package.
        model: the name at the endpoint, or the path of the file; for a package what stands behind the colon.
        why: what decided it, in words.
        base_url: the endpoint's address; ``None`` for OpenAI's own.
        api_key: its key.
        preset: the name of a provider whose endpoint it is (:mod:`atc.models.resolve`), or of an entry point.
        key_name: the variable that holds the key, for messages. ``model_name`` and ``url_name``: likewise.
        facts_headers: with the key, for questions about the model; where empty, the usual one.
    """

    kind: Literal["embedded", "endpoint", "installed"]
    model: str
    why: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    preset: str = ""
    key_name: str = "OPENAI_API_KEY"
    model_name: str = "ATC_MODEL"
    url_name: str = "OPENAI_BASE_URL"
    facts_headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def choose_model(
    spec: str | None = None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Choice:
    """Decide which model to use; see :func:`open_model` for the rules. Nothing is opened.

    Raises:
        UsageError: ``spec`` names no model, or contradicts ``base_url`` or ``api_key``.
        ModelUnavailable: an endpoint is given without a model's name, or a name without an endpoint.
    """
    env = os.environ if environment is None else environment
    why = "it was asked for"
    if not spec and env.get("ATC_MODEL"):
        spec, why = env["ATC_MODEL"], "ATC_MODEL says so"
    named, _, rest = (spec or "").partition(":")
    if named == "embedded":
        if base_url or api_key:
            raise UsageError(
                f"the model {spec!r} runs on this machine and base_url or api_key is for an endpoint: leave one out"
            )
        return Choice("embedded", str(_embedded_path(rest)), why)
    url = base_url or env.get("OPENAI_BASE_URL") or None
    if named in PRESETS and not url:  # at an address of the user's own a name may have a colon: `mistral:7b`
        if not rest:
            raise ModelUnavailable(f"{spec!r} names no model: give {named}:NAME, with a name that {named} has")
        preset, at = PRESETS[named], opened(named, env, api_key)  # keys of OpenAI's go nowhere else
        more: dict[str, Any] = {
            "preset": named,
            "key_name": at.key_name or "the key",
            "url_name": preset.host or ("your network or proxy" if preset.needs_key else "OPENAI_BASE_URL"),
            "facts_headers": at.facts_headers,
        }
        return Choice("endpoint", rest, why, at.url, at.key, **more)
    if named in PRESETS:
        why += f" (at an address that was given, so {named}: is a part of its name)"
    if rest and not url and named not in MODELS.ours and MODELS.has(named):
        return Choice("installed", rest, why, preset=named, api_key=api_key)
    key = api_key or env.get("OPENAI_API_KEY") or None
    name = rest if named == "openai" else spec
    if not name and (url or key) and env.get("OPENAI_MODEL"):
        name, why = env["OPENAI_MODEL"], "OPENAI_MODEL says so"
    if not spec and not name and not url and not api_key:
        why = "no endpoint is set up" if not key else "OPENAI_API_KEY is set and no model is named"
        return Choice("embedded", str(_embedded_path("")), f"{why}, so the embedded default is used")
    if not name:
        raise ModelUnavailable(
            "an endpoint or a key was given (OPENAI_BASE_URL, or base_url and api_key), but no model is named: set "
            "ATC_MODEL to one that it has, or ATC_MODEL=embedded to use no endpoint"
        )
    if not url and not key:
        if rest and named not in MODELS.ours:
            hint = f"{named}: is none of {', '.join(MODELS.names())}. Else, "
        else:
            hint = f"did you mean 'embedded:{name}'? Else, " if name in CATALOGUE else _preset_hint(name)
        raise ModelUnavailable(
            f"the model {name!r} is behind an endpoint and none is set up: {hint}{how_to_get_a_model()}"
        )
    return Choice("endpoint", name, why, url, key)


def _preset_hint(name: str) -> str:
    begins = {"claude": "anthropic", "gemini": "gemini", "gpt": "openai", "mistral": "mistral", "codestral": "mistral"}
    found = next((preset for begin, preset in begins.items() if name.startswith(begin)), None)
    return f"did you mean '{found}:{name}'? Else, " if found else ""


def _embedded_path(rest: str) -> Path:
    if "/" in rest or rest.endswith(".gguf"):
        return Path(rest).expanduser()
    return models_dir() / known(rest or DEFAULT_MODEL).file


def open_model(
    spec: str | Model | None = None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    cache_dir: str | Path | None = None,
    stall_s: float = STALL_S,
    context_tokens: int | None = None,
    prompt_tokens: int | None = None,
    thinking_tokens: int | None = None,
    extra_body: Mapping[str, Any] | None = None,
    keep_prompts: KeepPrompts = "tools",
) -> Model:
    """Open the model that the arguments, else the environment, name.

    Args:
        spec: ``"embedded"``, ``"embedded:NAME"``, ``"embedded:/path/file.gguf"``; ``"openai:NAME"`` or a plain ``NAME``
            for an endpoint; ``"anthropic:NAME"`` and others for the endpoint of a provider, with its own key
            (:data:`atc.models.resolve.PRESETS`), or for a model of another package (:data:`atc.parts.MODELS`),
            unless an address is given; a model, which is returned as it is. When
            not given, the environment decides: ``ATC_MODEL`` is such a text; ``OPENAI_BASE_URL`` means an endpoint, and
            so does ``OPENAI_API_KEY`` together with ``OPENAI_MODEL``; else it is the embedded default. A key alone
            chooses nothing: it is there for other programs, too.
        base_url: the endpoint's address, in place of ``OPENAI_BASE_URL``.
        api_key: its key, in place of ``OPENAI_API_KEY``.
        cache_dir: a folder to keep replies in; none are kept when not given.
        stall_s: seconds without a word of an endpoint, after which it is given up.
        context_tokens: what prompt and reply may take together; when not given 16,384 embedded, and at an endpoint what
            it tells, else 32,768.
        prompt_tokens: that a prompt should have at most; when not given 4,000 embedded, and at an endpoint as many as
            the context has.
        thinking_tokens: that a model at an endpoint may think before each reply, if it does; 8,192 when not given.
        extra_body: more members of each request to an endpoint, such as ``{"reasoning_effort": "low"}``.
        keep_prompts: what an embedded model keeps on disk of what it has read: ``"tools"``, ``"instructions"`` or
            ``"nothing"``.

    Raises:
        UsageError: ``spec`` names no model, or contradicts the other arguments.
        ModelUnavailable: an endpoint is given without a model's name, or a name without an endpoint. Whether a file is
            there or an endpoint answers shows at the first call.
    """
    model: Model
    if isinstance(spec, Model):
        if base_url or api_key:
            raise UsageError("an opened model was given together with base_url or api_key: leave one out")
        model = spec
    else:
        choice = choose_model(spec, base_url=base_url, api_key=api_key)
        options = ModelOptions(choice.api_key, context_tokens, prompt_tokens, thinking_tokens, extra_body, keep_prompts)
        model = _opened(choice, options, stall_s)
    return model if cache_dir is None else CachedModel(model, cache_dir)


def _opened(choice: Choice, options: ModelOptions, stall_s: float) -> Model:
    if choice.kind != "endpoint":
        part = "embedded" if choice.kind == "embedded" else choice.preset
        secrets = [choice.api_key] if choice.api_key else []
        return MODELS.make(part, choice.model, options, a=Model, secrets=secrets)  # type: ignore[type-abstract]
    return OpenAICompatible(
        choice.model,
        choice.base_url,
        choice.api_key,
        stall_s=stall_s,
        context_tokens=options.context_tokens,
        prompt_tokens=options.prompt_tokens,
        thinking_tokens=THINKING_TOKENS if options.thinking_tokens is None else options.thinking_tokens,
        extra_body=options.extra_body,
        key_name=choice.key_name,
        model_name=choice.model_name,
        url_name=choice.url_name,
        facts_headers=choice.facts_headers,
    )


def open_embedded(path: str, options: ModelOptions) -> EmbeddedModel:
    """A model on this machine."""
    return EmbeddedModel(
        path,
        context_tokens=options.context_tokens,
        prompt_tokens=options.prompt_tokens or PROMPT_TOKENS,
        keep=options.keep_prompts,
    )


def prepare_model(spec: str | None = None, **given: Any) -> None:
    """Begin to start the embedded model, if it is the one that is meant, while a command imports the rest.

    An agent with these settings finds it. Whatever is wrong with them, the agent says.

    Args:
        spec: as for :func:`resolve_model`.
        **given: settings.
    """
    with warnings.catch_warnings(), contextlib.suppress(AtcError):
        warnings.simplefilter("ignore")
        settings = Settings.load(**given)
        if not settings.cache:  # else the reply may be on the disk
            resolve_model(settings, spec).prepare()


def resolve_model(settings: Settings, spec: str | None = None, *, cache_dir: str | Path | None = None) -> Model:
    """The model that the settings mean; ``spec`` goes before theirs.

    Raises:
        As :func:`open_model`.
    """
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return open_model(
        spec or settings.model,
        base_url=settings.base_url,
        api_key=key,
        cache_dir=cache_dir,
        stall_s=settings.model_stall_s,
        context_tokens=settings.context_tokens,
        prompt_tokens=settings.prompt_tokens,
        thinking_tokens=settings.thinking_tokens,
        extra_body=settings.extra_body,
        keep_prompts=settings.keep_prompts,
    )
