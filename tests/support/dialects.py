"""Endpoints of providers, scripted: what each takes, refuses and answers, as its documentation and its users report.

They are no providers: a test against one shows that its dialect is spoken, not that the service is there or the same
today. Each is strict: a member of a request that its table does not name is refused in the provider's own words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_openai_server import Handler, answers

KEY, MODEL = "key-of-the-user-000", "model-1"
ANSWER = "answer = 42"
OPENAI = ("model", "messages", "max_tokens", "temperature", "stream", "stream_options", "seed", "stop", "n")
Refusal = Callable[[str], tuple[int, Any]]
"""From the name of a member to a status and a body."""


@dataclass(frozen=True)
class Dialect:
    """One provider's.

    Attributes:
        takes: members that a request may have.
        refuses: what is answered to any other.
        odd: refusals of members that are known and cannot be used, by their names.
        wrong_key, no_model, no_credit, overloaded: status and body of these failures; ``no_credit`` where it has one.
        retry_headers: sent with ``overloaded``.
        thoughts: members of the pieces in which it sends them.
        finish: how a reply ends.
        usage: members of the last chunk.
        usage_with_choice: they stand in the chunk that ends the reply.
        roles: that messages may have.
        cost: tokens of prompt and reply that a client must count.
    """

    name: str
    takes: tuple[str, ...]
    refuses: Refusal
    wrong_key: tuple[int, Any]
    no_model: tuple[int, Any]
    overloaded: tuple[int, Any]
    odd: Mapping[str, tuple[int, Any]] = field(default_factory=dict)
    no_credit: tuple[int, Any] | None = None
    retry_headers: Mapping[str, str] = field(default_factory=dict)
    thoughts: tuple[Mapping[str, Any], ...] = ()
    finish: str = "stop"
    usage: Mapping[str, Any] = field(
        default_factory=lambda: {"usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}}
    )
    usage_with_choice: bool = False
    roles: tuple[str, ...] = ("system", "user", "assistant")
    cost: tuple[int, int] = (11, 7)

    def __call__(self, handler: Handler) -> None:
        """Answer the last request."""
        request = handler.server.requests[-1]
        refusal = self._refusal(request, handler.headers.get("Authorization", ""))
        if refusal is not None:
            status, body = refusal
            _send(status, body, self.retry_headers if refusal is self.overloaded else {})(handler)
        elif request.get("stream"):
            self._stream(handler)
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": self.finish}
            _send(200, {"object": "chat.completion", "choices": [choice], **self.usage})(handler)

    def _refusal(self, request: Mapping[str, Any], key: str) -> tuple[int, Any] | None:
        if KEY and not key.endswith(KEY) and self.wrong_key:
            return self.wrong_key
        if request["model"] == "overloaded":
            return self.overloaded
        if request["model"] == "unpaid":
            return self.no_credit
        if request["model"] != MODEL:
            return self.no_model
        for name in request:
            if name not in self.takes:
                return self.refuses(name)
            if name in self.odd and request[name] not in (None, 1):
                return self.odd[name]
        wrong = [each["role"] for each in request["messages"] if each["role"] not in self.roles]
        return self.refuses(f"messages.role {wrong[0]}") if wrong else None

    def _stream(self, handler: Handler) -> None:
        handler.begin_stream()
        handler.send_chunk(b": PROCESSING\n\n")  # a comment, as OpenRouter sends while it waits
        for thought in self.thoughts:
            handler.send_event(_chunk(thought))
        handler.send_event(_chunk({"role": "assistant", "content": ""}))
        for piece in (ANSWER[:5], ANSWER[5:]):
            handler.send_event(_chunk({"content": piece}))
        last = _chunk({}, self.finish)
        if self.usage_with_choice:
            handler.send_event({**last, **self.usage})
        else:
            handler.send_event(last)
            handler.send_event({"object": "chat.completion.chunk", "choices": [], **self.usage})
        handler.end_stream()


def _chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def _send(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Callable[[Handler], None]:
    if isinstance(body, str):
        return answers(status, body.encode(), "text/html", dict(headers or {}))
    return answers(status, json.dumps(body).encode(), headers=dict(headers or {}))


def openai_error(message: str, kind: str = "invalid_request_error", code: Any = None, param: Any = None) -> Any:
    """An error in OpenAI's form."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _unsupported(name: str) -> tuple[int, Any]:
    words = f"Unsupported parameter: '{name}' is not supported with this model."
    return 400, openai_error(words, code="unsupported_parameter", param=name)


def _anthropic(message: str, kind: str = "invalid_request_error") -> Any:
    return {"error": {"code": kind, "message": message, "type": kind, "param": None}}


def _gemini(code: int, message: str, status: str, **details: Any) -> Any:
    return [{"error": {"code": code, "message": message, "status": status, "details": [details] if details else []}}]


def _mistral(name: str) -> tuple[int, Any]:
    found = {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": 0}
    return 422, {"object": "error", "message": {"detail": [found]}, "type": "invalid_request_error", "code": None}


def _pydantic(name: str) -> tuple[int, Any]:
    words = f"[{{'type': 'extra_forbidden', 'loc': ('body', '{name}'), 'msg': 'Extra inputs are not permitted'}}]"
    return 400, openai_error(words, "BadRequestError", 400)


_OVERLOADED_PAGE = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>cloudflare</body></html>"

DIALECTS = (
    Dialect(
        "openai-reasoning",
        ("model", "messages", "max_completion_tokens", "temperature", "stream", "stream_options", "seed", "n"),
        lambda name: (
            (400, openai_error(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                "instead.", code="unsupported_parameter", param="max_tokens"))
            if name == "max_tokens"
            else _unsupported(name)
        ),
        wrong_key=(401, openai_error("Incorrect API key provided: key-of***.", code="invalid_api_key")),
        no_model=(404, openai_error("The model `x` does not exist or you do not have access to it.",
                                    code="model_not_found")),
        no_credit=(429, openai_error("You exceeded your current quota, please check your plan and billing details.",
                                     "insufficient_quota", "insufficient_quota")),
        overloaded=(503, openai_error("The engine is currently overloaded, please try again later", "server_error")),
        odd={"temperature": (400, openai_error(
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
            "supported.", code="unsupported_value", param="temperature"))},
        usage={"usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18,
                         "completion_tokens_details": {"reasoning_tokens": 3}}},
    ),
    Dialect(
        "anthropic",
        OPENAI,
        lambda name: (400, _anthropic(f"{name}: Extra inputs are not permitted")),
        wrong_key=(401, _anthropic("invalid x-api-key", "authentication_error")),
        no_model=(404, _anthropic("model: model-9", "not_found_error")),
        no_credit=(400, _anthropic("Your credit balance is too low to access the Anthropic API. Please go to Plans & "
                                   "Billing to upgrade or purchase credits.")),
        overloaded=(529, _anthropic("Overloaded", "overloaded_error")),
        odd={"temperature": (400, _anthropic("`temperature` is deprecated for this model.")),
             "n": (400, _anthropic("n: must be equal to 1"))},
    ),
    Dialect(
        "gemini",
        tuple(name for name in OPENAI if name not in ("seed", "n")),
        lambda name: (400, _gemini(400, f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.',
                                   "INVALID_ARGUMENT")),
        wrong_key=(400, _gemini(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT",
                                reason="API_KEY_INVALID")),
        no_model=(404, _gemini(404, "models/x is not found for API version v1main, or is not supported for "
                               "generateContent.", "NOT_FOUND")),
        overloaded=(429, _gemini(429, "You exceeded your current quota, please check your plan and billing details.",
                                 "RESOURCE_EXHAUSTED", retryDelay="0.02s")),
        usage={"usage": {"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 18}},  # thoughts in the sum alone
        usage_with_choice=True,
    ),
    Dialect(
        "mistral",
        tuple(name for name in OPENAI if name not in ("seed", "stream_options")),
        _mistral,
        wrong_key=(401, {"detail": "Unauthorized"}),
        no_model=(400, {"object": "error", "message": "Invalid model: x", "type": "invalid_model", "param": None,
                        "code": "1500"}),
        no_credit=(402, {"detail": "Payment required"}),
        overloaded=(429, {"object": "error", "message": "Service tier capacity exceeded for this model.",
                          "type": "service_tier_capacity_exceeded", "param": None, "code": "3505"}),
        thoughts=({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "So much to think."}]}]},),
        usage_with_choice=True,
    ),
    Dialect(
        "groq",
        OPENAI,
        lambda name: (400, openai_error(f"property '{name}' is unsupported")),
        wrong_key=(401, openai_error("Invalid API Key", code="invalid_api_key")),
        no_model=(404, openai_error("The model `x` does not exist or you do not have access to it.",
                                    code="model_not_found")),
        overloaded=(429, openai_error("Rate limit reached for model `x` on tokens per minute (TPM): Limit 6000, Used "
                                      "5900. Please try again in 20ms.", "tokens", "rate_limit_exceeded")),
        retry_headers={"retry-after": "0.02", "x-ratelimit-reset-tokens": "20ms"},
        odd={"n": (400, openai_error("'n' : number must be at most 1"))},
        thoughts=({"reasoning": "Let me think."},),
        usage={"x_groq": {"id": "req_1", "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}}},
        usage_with_choice=True,
    ),
    Dialect(
        "openrouter",
        tuple(name for name in OPENAI if name != "seed"),
        lambda name: (400, {"error": {"code": 400, "message": "Provider returned error", "metadata": {
            "raw": f"Unsupported parameter: '{name}' is not supported with this model.", "provider_name": "P"}}}),
        wrong_key=(401, {"error": {"message": "No auth credentials found", "code": 401}}),
        no_model=(400, {"error": {"message": "x is not a valid model ID", "code": 400}, "user_id": "u"}),
        no_credit=(402, {"error": {"message": "Insufficient credits. Add more using the settings.", "code": 402}}),
        overloaded=(502, _OVERLOADED_PAGE),
        thoughts=({"reasoning": "Let me think.", "reasoning_details": []},),
    ),
    Dialect(
        "azure",
        OPENAI,
        _unsupported,
        wrong_key=(401, {"error": {"code": "401", "message": "Access denied due to invalid subscription key or wrong "
                                   "API endpoint."}}),
        no_model=(404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does "
                                  "not exist."}}),
        overloaded=(429, {"error": {"code": "429", "message": "Requests have exceeded the rate limit."}}),
        retry_headers={"retry-after-ms": "20"},
        usage={"prompt_filter_results": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}},
    ),
    Dialect(
        "ollama",
        OPENAI,
        lambda name: (400, openai_error(f"unknown field {name}")),
        wrong_key=(401, {"error": "unauthorized"}),
        no_model=(404, openai_error('model "x" not found, try pulling it first', "api_error")),
        overloaded=(503, openai_error("server busy, please try again. maximum pending requests exceeded", "api_error")),
        thoughts=({"reasoning": "Let me think."},),
    ),
    Dialect(
        "vllm",
        OPENAI,
        _pydantic,
        wrong_key=(401, {"error": "Unauthorized"}),
        no_model=(404, openai_error("The model `x` does not exist.", "NotFoundError", 404)),
        overloaded=(503, ""),
        thoughts=({"reasoning_content": "Let me think."},),
    ),
    Dialect(
        "llamacpp",
        OPENAI,
        lambda name: (400, openai_error(f"unknown parameter {name}")),
        wrong_key=(401, {"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}}),
        no_model=(400, openai_error("model not found: x")),
        overloaded=(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
        thoughts=({"reasoning_content": "Let me think."},),
        roles=("user", "assistant"),
    ),
    Dialect(
        "lmstudio",
        OPENAI,
        lambda name: (400, {"error": f"'{name}' is not supported"}),
        wrong_key=(401, {"error": "Invalid API key"}),
        no_model=(404, openai_error("Model x not found", code="model_not_found")),
        overloaded=(500, {"error": "The model has crashed without additional information."}),
        finish="eos",
    ),
)  # fmt: skip
"""All that are spoken."""
