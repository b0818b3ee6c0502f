"""A tool's answer becomes what the program gets: a value that fits, or a failure that holds no secret."""

from __future__ import annotations

import json
from typing import Any

from atc import wording
from atc._host.redaction import Redactor
from atc._host.secret_detection import masked_text
from atc._records.packing import SMALL, TAG, count_values, is_small, json_text, pack
from atc._records.records import Drift
from atc.calls.attempt import Attempt
from atc.calls.entry import Unread
from atc.calls.json_values import TooMany, json_value_and_text
from atc.calls.own_exceptions import OwnExceptions, beginning
from atc.errors import CallRefused, Cause, ToolError
from atc.schemas.error_bodies import error_in
from atc.schemas.validate import problems
from atc.tools.tool import Tool

_REFUSES_CREDENTIAL = frozenset({401, 403})
MAX_ERROR = 4000
"""Characters of a tool's error that are passed on."""


class Responses:
    """The responses of one run.

    Args:
        redactor: masks the credentials that are known.
        exceptions: masks exceptions of the user's own functions, and keeps their tracebacks.
        response_bytes: size of one response as JSON.
        most_values: that one response may hold.
    """

    def __init__(self, redactor: Redactor, exceptions: OwnExceptions, response_bytes: int, most_values: int) -> None:
        self._redactor, self._exceptions = redactor, exceptions
        self._limit, self._most_values = response_bytes, most_values
        self._answering: set[str] = set()  # services that answered a call of this run
        self._admitting: set[str] = set()  # of these, those that did anything but refuse a credential
        self._refused: dict[str, int] = {}  # services that refused one, and the first program that met it

    def service_answered(self, tool: Tool, status: int | str | None = None) -> None:
        """Note that the tool's service can be reached, and whether it takes the credential that was sent."""
        service = tool.protocol.source.service
        self._answering.add(service)
        if tool.sends_credential and status not in _REFUSES_CREDENTIAL:
            self._admitting.add(service)

    def usable(self, value: Any, attempt: Attempt) -> Any:
        """Return a response as the program gets it.

        One that is too large, or no JSON, is never cut or made up. It fails a read. After an effect, which has
        happened, ``attempt.unread`` says why there is no value: a program gets that where it reads the value.

        Raises:
            ToolError: the response of a read cannot be used.
        """
        try:
            value, text = json_value_and_text(value)
            if f'{TAG}"' in text or not self._redactor.is_clean(text):
                value = self._redactor.value(value)
                text = json.dumps(pack(value), ensure_ascii=False)
            most = self._most_values  # of which each takes a character at least
            if len(text) > most and (count := count_values(text, most)) > most:
                raise TooMany(f"it holds {count:,} values, over the limit of {most:,}")
            size = len(text) if text.isascii() else len(text.encode())
            if size <= self._limit:
                return value
            problem = ToolError(
                f"the response has {size:,} bytes, over the limit of {self._limit:,}: ask for less", status="too_large"
            )
        except TooMany as error:
            problem = ToolError(f"the response is too large, {error}: ask for less", status="too_large")
        except ValueError as error:
            problem = ToolError(f"the response is no usable JSON: {error}", status="bad_response", cause="bad_response")
        if attempt.reads:
            raise problem
        attempt.unread = Unread(f"it was done, and {problem.message}", str(problem.status))
        return None

    def note_error(self, attempt: Attempt, value: Any) -> None:
        """Note the error that a response states in its body."""
        protocol = attempt.granted.protocol
        shown = [example.response for example in protocol.examples]
        if (stated := error_in(value, protocol.returns, examples=shown)) is not None:
            message = self._redactor.text(stated.message)
            attempt.body_error = stated.model_copy(update={"message": message})

    def note_drift(self, attempt: Attempt) -> None:
        """Note where the response is otherwise than its tool's document says."""
        returns = attempt.granted.protocol.returns
        if returns is not None:
            attempt.drift = [Drift(path=each.path, what=each.message) for each in problems(returns, attempt.value)[:3]]

    def failure(self, error: ToolError, attempt: Attempt, *, sent: bool) -> ToolError:
        """Return an error as the program may see it, and note why the call failed.

        Args:
            error: what the transport raised.
            attempt: the call; its status, traceback and service message are set.
            sent: whether the tool may have received the call. Until then it surely did nothing.
        """
        tool = attempt.granted
        message = self._redactor.text(str(error.message))
        if error.raised is not None:
            message = self._exceptions.masked(message, attempt.arguments)
            attempt.traceback = self._exceptions.save_traceback(attempt.number, error.raised)
        elif tool.protocol.source.in_process:
            message = masked_text(beginning(message))
        elif error.service_message:
            attempt.service_message = self._redactor.text(error.service_message)[:MAX_ERROR]
        outcome = error.outcome if sent else "refused"
        surely_not_done = outcome == "refused"
        attempt.status = "failed" if surely_not_done or attempt.reads else "in_doubt"
        if isinstance(error, CallRefused):
            attempt.status = "refused"  # by a gate of ours before the transport: the tool never received it
        status = error.status
        if status is not None and type(status) is not int:
            status = self._redactor.text(str(status))[:100]
        message = message[:MAX_ERROR] + wording.asks_to_wait(error.retry_after)
        return ToolError(message, status=status, outcome=outcome, cause=self._cause(error, attempt, surely_not_done))

    def _cause(self, error: ToolError, attempt: Attempt, surely_not_done: bool) -> Cause | None:
        """A call that may have been sent and got no answer: an effect is in doubt. A read shows that the service is
        down, unless the service answered before: then other arguments may help."""
        tool, cause = attempt.granted, error.cause
        if cause != "unreachable":
            self.service_answered(tool, error.status)
            cause = self._cause_of_403(error, attempt) if error.status == 403 else cause
        elif attempt.reads and not surely_not_done and tool.protocol.source.service in self._answering:
            return None
        mended = cause != "unreachable" and not tool.protocol.source.remote  # a function of the user's can be
        return "in_doubt" if cause is not None and attempt.status == "in_doubt" and not mended else cause

    def _cause_of_403(self, error: ToolError, attempt: Attempt) -> Cause | None:
        """A service that took the credential in this run knows it. One that did not may refuse one resource, so a call
        whose error blames the call alone has a second program, and no third."""
        tool = attempt.granted
        if not tool.sends_credential:
            return error.cause
        service = tool.protocol.source.service
        if service in self._admitting:
            return None
        first = self._refused.setdefault(service, attempt.program)
        return error.cause if attempt.program == first else "credential"


# ----------------------------------------------------------------------------------------------------------------------
# How many values the arguments of one call may hold: what is done with each of them is the host's time.


MAX_NAME = 100
"""Characters of an argument's name in a refusal."""


def refuse_too_many(arguments: dict[str, Any], most: int) -> None:
    """Refuse the arguments of a call that hold too many values. A string counts as one, bytes as two.

    Raises:
        CallRefused: they do. It says how many there are, and which argument holds most of them.
    """
    if (most >= SMALL and is_small(arguments)) or _count(arguments, most) <= most:
        return
    counts = {name: _count(value, 0) for name, value in arguments.items()}
    largest = max(counts, key=lambda name: counts[name])
    where = repr(largest[:MAX_NAME]) + (" …" if len(largest) > MAX_NAME else "")
    raise CallRefused(
        f"its arguments hold {sum(counts.values()):,} values, over the limit of {most:,} a call; {counts[largest]:,} "
        f"are in {where}: give fewer, in several calls",
        status="too_large",
    )


def _count(value: Any, enough: int) -> int:
    text = json_text(value)
    return count_values(json.dumps(pack(value), default=str) if text is None else text, enough)
