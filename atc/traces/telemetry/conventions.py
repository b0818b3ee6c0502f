"""What the conventions fix: names of spans, attributes and metrics, the form of content, and the instruments.

They are those of the OpenTelemetry GenAI semantic conventions, :data:`VERSION`. Names that begin with ``atc.`` are our
own: the conventions have none for what they say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.metrics import Histogram, Meter

from atc._host.redaction import Redactor
from atc.models.messages import Message

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


MAX_CONTENT = 16_384
"""Characters of a text, and of a value as JSON."""


class Content:
    """Texts and values of one run as attributes: only where they were asked for, masked, and cut.

    Args:
        redactor: of the run.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def text(self, text: str) -> str:
        """A text, masked and cut."""
        return _cut(self._redactor.text(text))

    def json(self, value: Any) -> str:
        """A value as JSON, masked; of a large one the beginning alone, which is JSON no more."""
        pieces, length = [], 0
        for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(self._redactor.value(value)):
            pieces.append(piece)
            length += len(piece)
            if length > MAX_CONTENT:
                break
        return _cut("".join(pieces))

    def messages(self, messages: Sequence[Message]) -> str:
        """A prompt in the conventions' form. Of images it has the number alone."""
        return _json([_message(each.role, self.text(each.content), len(each.images)) for each in messages])

    def said(self, role: str, text: str) -> str:
        """One message in the conventions' form."""
        return _json([_message(role, self.text(text))])

    def replies(self, replies: Sequence[tuple[str, str]]) -> str:
        """Replies of a model, each with why it ended, in the conventions' form."""
        return _json([_message("assistant", self.text(text)) | {"finish_reason": why} for text, why in replies])


def _message(role: str, text: str, images: int = 0) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}]
    return {"role": role, "parts": parts + [{"type": "image"}] * images}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return sendable(text if len(text) <= MAX_CONTENT else f"{text[:MAX_CONTENT]}…")


_MODEL_S = [0.01 * 2**power for power in range(14)]
_RUN_S = [0.1 * 2**power for power in range(13)]
_COUNTS = [float(2**power) for power in range(8)]
_WAIT_S = [1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0]

Attributes = Mapping[str, Any]


class Metrics:
    """The instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        def histogram(name: str, unit: str, description: str, buckets: list[float]) -> Histogram:
            return meter.create_histogram(
                name, unit=unit, description=description, explicit_bucket_boundaries_advisory=buckets
            )

        self.run_duration = histogram("gen_ai.invoke_agent.duration", "s", "Duration of a run.", _RUN_S)
        self.run_inferences = histogram(
            "gen_ai.invoke_agent.inference_calls", "{inference_call}", "Model calls of a run.", _COUNTS
        )
        self.run_tool_calls = histogram(
            "gen_ai.invoke_agent.tool_calls", "{tool_call}", "Tool calls of a run.", _COUNTS
        )
        self.tool_duration = histogram("gen_ai.execute_tool.duration", "s", "Duration of a tool call.", _MODEL_S)
        self.model_duration = histogram("gen_ai.client.inference.duration", "s", "Duration of a model call.", _MODEL_S)
        self.first_chunk = histogram(
            "gen_ai.client.inference.time_to_first_chunk", "s", "Time until a reply begins.", _MODEL_S
        )
        self.retrieval_duration = histogram(
            "gen_ai.client.operation.duration", "s", "Duration of finding tools.", _MODEL_S
        )
        self.approval_wait = histogram("atc.approval.wait", "s", "Time for which an approval was waited for.", _WAIT_S)
        self.runs = meter.create_counter("atc.runs", "{run}", "Runs that ended, by status.")
        self.calls = meter.create_counter("atc.tool_calls", "{tool_call}", "Tool calls that ended, by status.")
        self._input = meter.create_counter(
            "gen_ai.client.inference.usage.input_tokens", "{token}", "Tokens of prompts."
        )
        self._output = meter.create_counter(
            "gen_ai.client.inference.usage.output_tokens", "{token}", "Tokens of replies."
        )
        self._cached = meter.create_counter(
            "gen_ai.client.inference.usage.cache_read.input_tokens", "{token}", "Tokens of prompts, read from a cache."
        )

    def tokens(self, prompt: int, completion: int, cached: int, about: Attributes, *, images: bool) -> None:
        """Count the tokens of one model call, also of one that failed.

        Args:
            prompt: tokens of the prompt, those from a cache included.
            completion: tokens of the replies.
            cached: tokens of the prompt that were read from a cache.
            about: attributes of the call.
            images: the prompt has some: nobody says how many tokens they took.
        """
        read = {**about, MODALITY: "unknown" if images or not prompt else "text"}
        self._input.add(prompt, read)
        self._output.add(completion, {**about, MODALITY: "text" if completion else "unknown"})
        if cached:
            self._cached.add(cached, read)
