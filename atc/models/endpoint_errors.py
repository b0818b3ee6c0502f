"""What an endpoint's failures mean to a user: which setting to mend, and whether asking again can help."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import openai
import tenacity

from atc.errors import AtcError, ModelError, ModelUnavailable

LONGEST_WAIT = 60.0
"""Seconds; an endpoint that asks for more is not waited for."""

_PASSING = {408, 409, 425, 429}
_NO_CONNECTION = {"ConnectError", "ConnectTimeout"}  # of whichever HTTP library the openai package stands on
_SHOWN = 300  # characters of an endpoint's own words


@dataclass(eq=False)
class Failure(Exception):
    """One attempt failed.

    Attributes:
        problem: what the user is told when no attempt is left.
        may_pass: asking again can help.
        retry_after: seconds that the endpoint asked to wait.
    """

    problem: AtcError
    may_pass: bool = False
    retry_after: float | None = None


def retried(max_attempts: int, backoff_s: float) -> dict[str, Any]:
    """How ``tenacity`` asks again: while that can help, each time after twice as long, or as long as was asked for."""

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
    """What a message may say about an endpoint, and the secret that it must not."""

    url: str
    model: str
    secret: str | None

    def quote(self, text: object) -> str:
        """The endpoint's own words: one line, bounded, without the key."""
        words = " ".join(str(text).split())
        if self.secret:
            words = words.replace(self.secret, "[key]")
        return words if len(words) <= _SHOWN else words[:_SHOWN] + " …"


def unavailable(message: str, *, may_pass: bool = False) -> Failure:
    return Failure(ModelUnavailable(message), may_pass=may_pass)


def broken(message: str, *, may_pass: bool = True, retry_after: float | None = None) -> Failure:
    return Failure(ModelError(message), may_pass=may_pass, retry_after=retry_after)


def explain(error: openai.OpenAIError, endpoint: Endpoint) -> Failure:
    """Say what an error of the ``openai`` package means."""
    if isinstance(error, openai.APIStatusError):
        return _explain_status(error, endpoint)
    if isinstance(error, openai.APITimeoutError) and type(error.__cause__).__name__ not in _NO_CONNECTION:
        return broken(f"the model's endpoint {endpoint.url} did not answer in time")
    if isinstance(error, openai.APIConnectionError):
        reason = endpoint.quote(error.__cause__ or error)
        if type(error.__cause__).__name__ in _NO_CONNECTION:
            message = (
                f"no connection to the model's endpoint {endpoint.url} ({reason}): start it, or mend OPENAI_BASE_URL"
            )
            return unavailable(message, may_pass=True)
        return broken(f"the connection to the model's endpoint {endpoint.url} was lost ({reason})")
    return broken(f"the model's endpoint {endpoint.url} reported: {endpoint.quote(error)}")


def _explain_status(error: openai.APIStatusError, endpoint: Endpoint) -> Failure:
    status, words = error.status_code, endpoint.quote(error.message)
    if status == 401:
        return unavailable(
            f"the model's endpoint {endpoint.url} does not take the key (401): "
            f"set OPENAI_API_KEY to a valid one. It said: {words}"
        )
    if status == 403:
        return unavailable(
            f"the key may not use {endpoint.model!r} at {endpoint.url} (403): "
            f"set OPENAI_API_KEY to one that may, or ATC_MODEL to another model. It said: {words}"
        )
    if status == 404:
        return unavailable(
            f"{endpoint.url} has no model {endpoint.model!r}, or is no OpenAI-compatible address (404): "
            f"mend ATC_MODEL or OPENAI_BASE_URL. It said: {words}"
        )
    retry_after = _retry_after(error.response.headers)
    may_pass = (status in _PASSING or status >= 500) and (retry_after or 0) <= LONGEST_WAIT
    asked = f" and asks to wait {retry_after:.0f} s" if retry_after else ""
    return broken(
        f"the model's endpoint {endpoint.url} answered {status}{asked}: {words}",
        may_pass=may_pass,
        retry_after=retry_after,
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait: ``Retry-After`` is a number of seconds or a date."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(seconds, 0.0) if seconds < 1e9 else None


def unknown_parameters(error: openai.APIStatusError) -> set[str]:
    """The parameters that this 400 or 422 turns down and that a request can do without.

    ``max_tokens`` is among them only where the endpoint says that it wants ``max_completion_tokens`` in its place, and
    ``temperature`` only where it is not supported at all: a wrong value is an error to see, not to work around.
    """
    words = f"{error.message} {error.param or ''}"
    found = {name for name in ("seed", "stream_options") if re.search(rf"\b{name}\b", words)}
    if "max_completion_tokens" in words and re.search(r"\bmax_tokens\b", words):
        found.add("max_tokens")
    if re.search(r"\btemperature\b", words) and "support" in words:
        found.add("temperature")
    return found
