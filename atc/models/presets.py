"""Endpoints by name: ``--model anthropic:NAME`` is NAME at Anthropic's own OpenAI-compatible endpoint.

An address and the usual variable of its key, each as the provider documents it. What an endpoint takes and refuses is
not written here: it is learnt from its answers (:mod:`atc.models.endpoint_errors`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from atc.errors import ModelUnavailable


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
"""By the word that stands before the colon."""


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
    """A host of the user's, with or without a scheme and the path."""
    host = host.rstrip("/").removesuffix(path)
    if "://" not in host:
        host = f"http://{host.replace('0.0.0.0', 'localhost')}"  # Ollama's variable says where it listens
    return host + path
