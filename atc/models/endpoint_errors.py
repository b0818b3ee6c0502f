"""Failures of an endpoint as errors: which setting to change, and whether another attempt may succeed."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from html import unescape
from typing import TYPE_CHECKING, Any

import tenacity

from atc._records.packing import shortened
from atc.errors import AtcError, ContextExceeded, ModelError, ModelUnavailable

if TYPE_CHECKING:
    import openai


_READ = 4_000  # characters of an error that are looked at: text from outside is cut first
_DEEP = 6
_MOST_FINDINGS = 8
"""Findings of one body that are told."""
_READ_OF_PAGE = 20_000
_PAGE = re.compile(r"\s*(?:<!doctype html|<html)", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,200}>(.{1,300}?)</title>", re.IGNORECASE | re.DOTALL)


def body_words(body: Any) -> str:
    """The words of a parsed body; empty where it has none that are known.

    ``{"error": {"message": …}}`` is OpenAI's form, and of most; Gemini puts it into a list, Mistral and FastAPI send
    findings with their places under ``detail``, Ollama a text under ``error``, OpenRouter the words of the provider
    behind it under ``metadata``.
    """
    return _words(body, _DEEP).strip()


def told(message: str, body: Any) -> str:
    """The message of an error of the ``openai`` package, with the words of its body where the package finds none.

    It reads ``{"error": {"message": "…"}}`` alone: of any other form its message is the status.
    """
    words = body_words(body)
    return message if not words or words in message else f"{message} {words}"


def page_words(text: str) -> str:
    """What a page of HTML says, in place of the page; any other text as it is."""
    if not _PAGE.match(text[:500]):
        return text
    title = _TITLE.search(text[:_READ_OF_PAGE])
    named = " ".join(unescape(title[1]).split()) if title else "no title"
    return f"a page of HTML ({named}), so something that is no API answered: check the address"


def _words(body: Any, depth: int) -> str:
    if depth == 0 or body is None:
        return ""
    if isinstance(body, str):
        return page_words(body)
    if isinstance(body, list):
        return "; ".join(filter(None, (_words(each, depth - 1) for each in body[:_MOST_FINDINGS])))
    if not isinstance(body, Mapping):
        return ""
    for name in ("error", "message", "detail"):
        if words := _words(body.get(name), depth - 1):
            more = body.get("metadata")
            behind = _words(more.get("raw") if isinstance(more, Mapping) else None, 1)
            return f"{words} ({behind})" if behind and behind not in words else words
    if isinstance(body.get("msg"), str):  # of a validation: the place, and what is wrong there
        place = ".".join(str(part) for part in body.get("loc", ()) if part != "body")
        return f"{place}: {body['msg']}" if place else str(body["msg"])
    return ""


_NUMBER = r"([\d,]{1,12})"

_CODES = (
    "context_length_exceeded",  # OpenAI and many others
    "exceed_context_size_error",  # llama.cpp
    "model_max_prompt_tokens_exceeded",  # GitHub Copilot
    "model_context_window_exceeded",  # z.ai
    "string_above_max_length",  # OpenAI, for more than ten million characters
    "request_too_large",  # Anthropic, with status 413
)

# Every family of servers has its own sentence for a prompt that is too long, and few a code; real ones stand in
# tests/models/test_context_errors.py. Every pattern is bounded.
# LIMIT and ASKED stand for numbers of tokens, REPLY for tokens of the reply that are asked for beside ASKED.
# The first that is found decides: those with more numbers stand before those with fewer.
_SENTENCES = (
    # OpenAI, vLLM, DeepSeek, OpenRouter, LMDeploy, LiteLLM, SGLang
    r"is too large: REPLY\b.{0,80}?maximum context length is LIMIT tokens and your request has ASKED input tokens",
    r"maximum context length (?:is|of) LIMIT tokens.{0,200}?\btotal of (?:at least )?ASKED tokens",
    r"maximum context length (?:is|of) LIMIT tokens.{0,40}?"
    r"(?:requested|resulted in|request has|but)(?: about| over| at least)? ASKED(?: input)? tokens",
    r"input length \(ASKED\) exceeds (?:the )?model'?s maximum context length \(LIMIT\)",
    r"maximum context length (?:is|of) LIMIT",
    r"tokens exceed the configured limit of LIMIT tokens.{0,40}?resulted in ASKED tokens",
    r"prompt \((?:total )?length ASKED\) is .{0,40}?(?:context length|maximum model length of) LIMIT",
    r"input \(ASKED tokens\) is longer than the model'?s context length \(LIMIT tokens\)",
    r"input length \(?ASKED(?: tokens\))? exceeds the maximum allowed (?:input )?length (?:of )?\(?LIMIT tokens",
    # Anthropic, Gemini, xAI, Mistral, GitHub Copilot, Moonshot, DashScope, Bedrock, Baseten
    r"prompt is too long: ASKED tokens > LIMIT maximum",
    r"exceed context limit: ASKED \+ REPLY > LIMIT",
    r"input token count \(ASKED\) exceeds the maximum number of tokens allowed \(?LIMIT",
    r"input token count exceeds the maximum number of tokens allowed \(?LIMIT",
    r"maximum prompt length is LIMIT but the request contains ASKED tokens",
    r"prompt contains ASKED tokens.{0,60}?too large for model with LIMIT maximum context length",
    r"prompt token count of ASKED exceeds the limit of LIMIT",
    r"exceeded model token limit: LIMIT \(requested: ASKED\)",
    r"range of input length should be \[\d{1,9}, ?LIMIT\]",
    r"max input tokens: LIMIT, request input token count: ASKED",
    r"max input length is LIMIT tokens, but you supplied ASKED tokens",
    # llama.cpp, llama-cpp-python, LM Studio, text-generation-inference
    r"request \(ASKED tokens\) exceeds the available context size \(LIMIT tokens\)",
    r"requested tokens \(ASKED\) exceed context window of LIMIT",
    r"keep the first ASKED tokens when context the overflows.{0,80}?context length of only LIMIT tokens",
    r"n_keep: ASKED >= n_ctx: LIMIT",
    r"`?inputs`? tokens \+ `?max_new_tokens`? must be <= LIMIT\. given: ASKED `?inputs`? tokens and REPLY `?max_new",
    r"`?inputs`? must have less than LIMIT tokens\. given: ASKED",
    # Groq and OpenAI: one request above what a minute allows never passes
    r"request too large for .{1,200}? on tokens per min(?:ute)? \(TPM\): limit LIMIT, requested ASKED",
    # without a number
    r"exceeds? (?:the |model'?s? )?(?:context window|available context size)",
    r"context (?:length|window|size) (?:has been |is )?exceeded|context window exceeds limit",
    r"(?:prompt|input) is too long for requested model|prompt too long; exceeded (?:max )?context length",
    r"input length exceeds (?:the |maximum )?context length|initial prompt is greater than the context length",
    r"^prompt is too long|please reduce the length of (?:the messages|either one|your prompt|the input)",
)


def _compiled(sentence: str) -> re.Pattern[str]:
    for name in ("LIMIT", "ASKED", "REPLY"):
        sentence = sentence.replace(name, _NUMBER.replace("(", f"(?P<{name}>", 1))
    return re.compile(sentence, re.IGNORECASE)


_PATTERNS = tuple(_compiled(sentence) for sentence in _SENTENCES)


@dataclass(frozen=True)
class Exceeded:
    """A prompt was too long. ``limit`` and ``requested`` are tokens, ``None`` where the endpoint does not say."""

    limit: int | None = None
    requested: int | None = None


def exceeded(message: str, body: object = None) -> Exceeded | None:
    """The context limit in an error about a prompt that is too long; ``None`` if it is about something else.

    Args:
        message: the error in words.
        body: the error's members, where there are any; a text at some servers.
    """
    members = body if isinstance(body, Mapping) else {}
    inner = members.get("error")
    members = inner if isinstance(inner, Mapping) else members
    texts = [part for part in (message, members.get("message"), body, inner) if isinstance(part, str)]
    found = _sentence(" ".join(" ".join(texts)[:_READ].split()))
    if found is None and members.get("code") not in _CODES and members.get("type") not in _CODES:
        return None
    found = found or Exceeded()
    limit, requested = _whole(members.get("n_ctx")), _whole(members.get("n_prompt_tokens"))  # llama.cpp
    return Exceeded(limit or found.limit, requested or found.requested)


def _sentence(words: str) -> Exceeded | None:
    for pattern in _PATTERNS:
        if match := pattern.search(words):
            numbers = {name: _whole(text) for name, text in match.groupdict().items()}
            asked, reply = numbers.get("ASKED"), numbers.get("REPLY")
            return Exceeded(numbers.get("LIMIT"), asked + (reply or 0) if asked else None)
    return None


def _whole(value: Any) -> int | None:
    digits = value.replace(",", "") if isinstance(value, str) else str(value)
    return int(digits) or None if digits.isascii() and digits.isdigit() and len(digits) <= 12 else None


LONGEST_WAIT = 60.0
"""Seconds; an endpoint that asks for more is not waited for."""

_PASSING = {408, 409, 425, 429}
_NO_CONNECTION = {"ConnectError", "ConnectTimeout"}  # of whichever HTTP library the openai package stands on
_SHOWN = 300  # characters of an endpoint's own words


@dataclass(eq=False)
class Failure(Exception):
    """One attempt failed.

    Attributes:
        problem: the error for the user when no attempt is left.
        may_pass: asking again can help.
        retry_after: seconds that the endpoint asked to wait.
    """

    problem: AtcError
    may_pass: bool = False
    retry_after: float | None = None


def retried(max_attempts: int, backoff_s: float) -> dict[str, Any]:
    """Options of ``tenacity``: retry while that may help, after twice the time or as long as the endpoint asks."""

    def wait(state: tenacity.RetryCallState) -> float:
        failure = state.outcome.exception() if state.outcome is not None else None
        asked = failure.retry_after if isinstance(failure, Failure) else None
        backoff = backoff_s * 2.0 ** (state.attempt_number - 1) * random.uniform(0.75, 1.25)
        return max(asked or 0.0, float(min(backoff, LONGEST_WAIT)))

    return {
        "retry": tenacity.retry_if_exception(lambda error: isinstance(error, Failure) and error.may_pass),
        "stop": tenacity.stop_after_attempt(max_attempts),
        "wait": wait,
        "reraise": True,
    }


@dataclass(frozen=True)
class Endpoint:
    """The name of an endpoint in messages, the key that they must not contain, and the variables that set it up."""

    url: str
    model: str
    secret: str | None
    key_name: str = "OPENAI_API_KEY"
    model_name: str = "ATC_MODEL"
    url_name: str = "OPENAI_BASE_URL"

    def quote(self, text: object) -> str:
        """The endpoint's own words: one line, bounded, without the key."""
        words = " ".join(str(text).split())
        if self.secret:
            words = words.replace(self.secret, "[key]")
        return shortened(words, _SHOWN)


def unavailable(message: str, *, may_pass: bool = False) -> Failure:
    """A failure with a :class:`ModelUnavailable`: the model cannot be used as it is set up."""
    return Failure(ModelUnavailable(message), may_pass=may_pass)


def broken(message: str, *, may_pass: bool = True, retry_after: float | None = None) -> Failure:
    """A failure with a :class:`ModelError`: the endpoint failed in the middle of work.

    Args:
        message: what happened and what to do.
        may_pass: whether another attempt may succeed.
        retry_after: seconds that the endpoint asks to wait.
    """
    return Failure(ModelError(message), may_pass=may_pass, retry_after=retry_after)


def explain(error: openai.OpenAIError, endpoint: Endpoint) -> Failure:
    """Say what an error of the ``openai`` package means."""
    import openai

    if isinstance(error, openai.APIStatusError) and error.status_code in (401, 403, 404):
        return _explain_status(error, endpoint)
    if isinstance(error, openai.APIError) and (long := exceeded(told(error.message, error.body), error.body)):
        return too_long(long, endpoint, message_of(error))
    if isinstance(error, openai.APIStatusError):
        return _explain_status(error, endpoint)
    if isinstance(error, openai.APITimeoutError) and type(error.__cause__).__name__ not in _NO_CONNECTION:
        return broken(f"the model's endpoint {endpoint.url} did not answer in time")
    if isinstance(error, openai.APIConnectionError):
        reason = endpoint.quote(error.__cause__ or error)
        if type(error.__cause__).__name__ in _NO_CONNECTION:
            message = (
                f"no connection to the model's endpoint {endpoint.url} ({reason}): start it, or correct "
                f"{endpoint.url_name}"
            )
            return unavailable(message, may_pass=True)
        return broken(f"the connection to the model's endpoint {endpoint.url} was lost ({reason})")
    return broken(f"the model's endpoint {endpoint.url} reported: {endpoint.quote(message_of(error))}")


def message_of(error: openai.OpenAIError) -> str:
    """An error's own words: in the middle of a stream some servers send a text where others send members."""
    body = getattr(error, "body", None)
    return body if isinstance(body, str) and body else str(error)


def _words_of(error: openai.APIStatusError) -> str:
    return body_words(error.body) or page_words(error.message)


def too_long(long: Exceeded, endpoint: Endpoint, words: str) -> Failure:
    """The prompt is longer than the model takes."""
    asked = f"need {long.requested:,} tokens" if long.requested else "are too long"
    limit = f"{long.limit:,}" if long.limit else "fewer"
    message = (
        f"prompt and reply {asked}, and {endpoint.model!r} at {endpoint.url} takes {limit}: show fewer tools "
        f"(stub_tokens, list_tokens), or set context_tokens to what it takes. It answered: {endpoint.quote(words)}"
    )
    return Failure(ContextExceeded(message, limit=long.limit, requested=long.requested))


def _explain_status(error: openai.APIStatusError, endpoint: Endpoint) -> Failure:
    status, words = error.status_code, endpoint.quote(_words_of(error))
    seen = f"{error.code or ''} {error.type or ''} {told(error.message, error.body)} {_details(error.body)}"[:_READ]
    if status == 401 or (status == 400 and _WRONG_KEY.search(seen)):
        return unavailable(
            f"the model's endpoint {endpoint.url} does not take the key ({status}): "
            f"set {endpoint.key_name} to a valid one. It said: {words}"
        )
    if status == 402 or _NO_CREDIT.search(seen):
        return unavailable(
            f"the account of the key has no credit left at {endpoint.url} ({status}): add some there, or set "
            f"{endpoint.key_name} to another key. It said: {words}"
        )
    if status in (400, 403) and _FILTERED.search(seen):
        return broken(
            f"the content filter of {endpoint.model!r} at {endpoint.url} refused the prompt ({status}): change the "
            f"task's words, or use another model ({endpoint.model_name}). It said: {words}",
            may_pass=False,
        )
    if status == 403:
        return unavailable(
            f"the key may not use {endpoint.model!r} at {endpoint.url} (403): "
            f"set {endpoint.key_name} to one that may, or {endpoint.model_name} to another model. It said: {words}"
        )
    if status in (400, 422) and _NO_MODEL.search(seen):
        return unavailable(
            f"{endpoint.url} has no model {endpoint.model!r} ({status}): "
            f"set {endpoint.model_name} to one that it has. It said: {words}"
        )
    if status == 404:
        return unavailable(
            f"{endpoint.url} has no model {endpoint.model!r}, or is no OpenAI-compatible address (404): "
            f"set {endpoint.model_name} to one that it has, or correct {endpoint.url_name}. It said: {words}"
        )
    retry_after = _retry_after(error.response.headers, seen)
    may_pass = (status in _PASSING or status >= 500) and (retry_after or 0) <= LONGEST_WAIT
    asked = f" and asks to wait {retry_after:.0f} s" if retry_after else ""
    return broken(
        f"the model's endpoint {endpoint.url} answered {status}{asked}: {words}",
        may_pass=may_pass,
        retry_after=retry_after,
    )


def _details(body: object) -> str:
    """What Gemini puts beside its words: how long to wait, and a word for the reason."""
    first = body[0] if isinstance(body, list) and body else body
    inner = first.get("error", first) if isinstance(first, Mapping) else None
    details = inner.get("details") if isinstance(inner, Mapping) else None
    return str(details)[:_READ] if isinstance(details, list) else ""


def _retry_after(headers: Mapping[str, str], words: str = "") -> float | None:
    """Seconds to wait: ``Retry-After`` is a number of seconds or a date; Gemini says it in the body."""
    value = headers.get("retry-after", "").strip()
    if not value:
        said = headers.get("retry-after-ms", "").strip()
        if said.isascii() and said.isdigit() and len(said) < 10:
            return int(said) / 1_000
        named = _RETRY_DELAY.search(words)
        return float(named[1]) if named else None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(seconds, 0.0) if seconds < 1e9 else None


_WRONG_KEY = re.compile(r"api[ _]key (?:is )?(?:not valid|invalid|not found|expired)|API_KEY_INVALID", re.IGNORECASE)
_NO_CREDIT = re.compile(
    r"insufficient_quota|insufficient[ _](?:credits?|balance|funds)|credit balance is too low|payment required",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[_ ](?:filter|management policy)|ResponsibleAIPolicyViolation|moderation|input was flagged", re.IGNORECASE
)
_NO_MODEL = re.compile(
    r"model_not_found|invalid[ _]model\b|not a valid model|unknown model|no such model|model not found"
    r"|model_decommissioned|\bmodels? .{1,200}?(?:does not exist|is not found|not found|is not supported for)",
    re.IGNORECASE,
)
_RETRY_DELAY = re.compile(r"retryDelay\W{1,6}(\d{1,6}(?:\.\d{1,9})?)s")

_NO_SYSTEM = re.compile(
    r"system role|system messages? (?:is|are) not|role.{0,60}\bsystem\b|got system\b|developer instruction"
    r"|roles must alternate|only user.{0,40} roles are supported",
    re.IGNORECASE,
)


_NOT_TAKEN = re.compile(
    r"support|deprecat|not (?:permitted|allowed)|extra_forbidden|unknown (?:name|parameter)|unrecognized|only the def",
    re.IGNORECASE,
)
"""An error that turns a parameter down, whatever its value."""


_STOP = re.compile(r"['\"`]stop['\"`]|(?:^|[;\d] )stop:")
"""The parameter, whose name is a common word: in quotes, or before a colon."""


def refused_parameters(error: openai.APIStatusError) -> set[str]:
    """What of a request this error turns down, and that it can do without; ``system`` is the role of that name.

    ``max_tokens`` is among them only where the endpoint says that it wants ``max_completion_tokens`` in its place, and
    ``temperature`` and ``stop`` only where they are not supported at all: a wrong value is an error to see, not to work
    around.
    """
    words = f"{told(error.message, error.body)} {error.param or ''}"[:_READ]
    found = {"system"} if _NO_SYSTEM.search(words) else set()  # with 500 at llama.cpp: its template raised an error
    if error.status_code in (400, 422):
        found |= {name for name in ("seed", "stream_options") if re.search(rf"\b{name}\b", words)}
        if "max_completion_tokens" in words and re.search(r"\bmax_tokens\b", words):
            found.add("max_tokens")
        if re.search(r"\btemperature\b", words) and _NOT_TAKEN.search(words):
            found.add("temperature")
        if _STOP.search(words) and _NOT_TAKEN.search(words):
            found.add("stop")
    if error.status_code in (400, 405, 406, 415, 422, 501) and "stream_options" not in found:
        found |= {"stream"} if re.search(r"\bstream(?:ing|ed)?\b", words, re.IGNORECASE) else set()
    return found


_SEEING = r"(?:image_url|image|vision|visual|multi-?modal)s?(?! (?:format|type|size|of)\b)"
_NO_IMAGES = re.compile(
    rf"(?: not|n't) support (?:\w+ )?{_SEEING}"
    rf"|{_SEEING}(?: (?:input|content|part|message)s?)?\W{{1,3}}(?:is|are) (?:not|only) (?:supported|enabled|allowed)"
    r"|not an? (?:multi-?modal|vision)|at most 0 image|unsupported content(?: part|\[)|unknown variant .{0,2}image_url"
    r"|content.{0,80}(?:must be a string|valid string|str type expected)|not of type .{0,2}string.{0,20}content"
    r"|that support image input|required for image input|mmproj",
    re.IGNORECASE,
)


def refuses_images(error: openai.APIStatusError) -> bool:
    """Whether an error to a request with images says that the model takes none, and not that one of them is wrong."""
    known = error.status_code in (400, 404, 415, 422, 500, 501)
    return known and bool(_NO_IMAGES.search(told(error.message, error.body)[:_READ]))


def without_images(error: openai.APIStatusError, endpoint: Endpoint) -> Failure:
    """The model takes no images."""
    return broken(
        f"this endpoint takes no images: {endpoint.model!r} at {endpoint.url} refused them. Use a model that takes "
        f"images (ATC_MODEL), or leave them out. It answered: {endpoint.quote(_words_of(error))}",
        may_pass=False,
    )
