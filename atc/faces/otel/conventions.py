"""Names of spans, attributes and metrics, and the values that conventions fix.

They are those of the OpenTelemetry GenAI semantic conventions, :data:`VERSION`. Names that begin with ``atc.`` are our
own: the conventions have none for what they say.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

VERSION = "v0.1.0"
"""Of https://github.com/open-telemetry/semantic-conventions-genai; all of it is in the state Development there."""

AGENT = "atc"
TOOL_INDEX = "tools"
OTHER = "_OTHER"

OPERATION = "gen_ai.operation.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
MAX_TOKENS = "gen_ai.request.max_tokens"
TEMPERATURE = "gen_ai.request.temperature"
SEED = "gen_ai.request.seed"
STOP = "gen_ai.request.stop_sequences"
CHOICES = "gen_ai.request.choice.count"
OUTPUT_TYPE = "gen_ai.output.type"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
MODALITY = "gen_ai.token.modality"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
CALL_ID = "gen_ai.tool.call.id"
DATA_SOURCE = "gen_ai.data_source.id"
TOP_K = "gen_ai.retrieval.top_k"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

# content: only where the user asks for it
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
CALL_RESULT = "gen_ai.tool.call.result"
QUERY = "gen_ai.retrieval.query.text"

_PROVIDERS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "api.mistral.ai": "mistral_ai",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.x.ai": "x_ai",
    "api.perplexity.ai": "perplexity",
    "api.cohere.com": "cohere",
    "api.moonshot.ai": "moonshot_ai",
    "openai.azure.com": "azure.ai.openai",
    "amazonaws.com": "aws.bedrock",
}
"""By the end of an endpoint's host."""
LOCAL = "local"
"""The provider of a model without an endpoint: it runs on this machine."""
MAX_NAME = 200
"""Characters of a name that a stranger chose."""


def provider_of(endpoint: str) -> str:
    """The provider of an endpoint; of one that is not known, the one whose protocol it speaks."""
    if not endpoint:
        return LOCAL
    host = _host(endpoint)
    return next((name for end, name in _PROVIDERS.items() if host == end or host.endswith(f".{end}")), "openai")


def server_of(endpoint: str) -> dict[str, Any]:
    """The attributes that name an endpoint's server; none for a model on this machine."""
    host = _host(endpoint)
    if not host:
        return {}
    parts = urlsplit(endpoint)
    return {SERVER_ADDRESS: host, SERVER_PORT: parts.port or (443 if parts.scheme == "https" else 80)}


def _host(endpoint: str) -> str:
    return (urlsplit(endpoint).hostname or "").lower()


def error_name(value: object) -> str:
    """A status, a cause or a kind as ``error.type``: short, and never empty."""
    return short(value) if value not in (None, "") else OTHER


def short(value: object) -> str:
    """A name that a stranger chose: cut, and in characters that can be sent."""
    return sendable(str(value)[:MAX_NAME])


def sendable(text: str) -> str:
    """A text whose half characters (lone surrogates) are ``?``."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
