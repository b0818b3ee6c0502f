"""Every exception that ATC raises.

AtcError
├── UsageError              wrong input from the user; says what, where and what to do (also a ValueError)
│   ├── ToolImportError     a tool document, an OpenAPI file or a function that cannot become a tool
│   ├── SettingsError       a setting with a wrong value
│   └── TraceError          a line of a run's trace is damaged
├── EnvironmentProblem      something outside is missing; the message says what to do
│   ├── ModelUnavailable    no model is set up, or its endpoint cannot be used
│   ├── SandboxUnavailable  the isolation that was asked for is not available
│   ├── ToolIndexError      an index of tools cannot be read or written
│   └── EncoderUnavailable  a search by meaning was asked for, and its encoder is not available
├── ModelError              the model's endpoint failed during a call
│   └── ContextExceeded     a prompt is longer than the model takes
├── ToolError               a tool refused or failed; the program in the sandbox may catch a copy of it
│   └── CallRefused         the broker would not make the call: not granted, bad arguments, over a limit
├── FrameError              bytes out of the sandbox that do not follow the channel's protocol
├── WritesPlanned           a dry run came to a call with effects: the run ends with ``planned``
├── InputNeeded             a program asked the user, and nobody is there: the run ends with ``needs_input``
├── BudgetExceeded          a run used up its model calls, tokens, seconds or tool calls
├── JournalError            a run's journal cannot be read or written
│   └── RunInUse            another process works on the run
└── RunFailed               raised by ``Result.unwrap()`` when a run has no answer

One warning: LexicalOnly    an index of tools works by words alone
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from atc.result import Result

Outcome = Literal["refused", "unknown"]

Cause = Literal["denied", "credential", "unreachable", "broken", "bad_response", "in_doubt"]
"""Why a call failed, where no other program can help.

``denied``: the user did not approve it. ``credential``: the service wants one, or another one. ``unreachable``: the
service does not answer. ``broken``: the tool has a bug that valid arguments run into. ``bad_response``: its result is
no JSON. ``in_doubt``: it was begun, may have acted, and is not repeated.
"""


class AtcError(Exception):
    """Base of every ATC exception."""


class UsageError(AtcError, ValueError):
    """The input is wrong. The message says what was wrong, where, and what to do."""


class ToolImportError(UsageError):
    """A document or function cannot become a tool."""


class SettingsError(UsageError):
    """A setting has a wrong value."""


class TraceError(UsageError):
    """A line of a run's trace is damaged. The message names the file and the line."""


class EnvironmentProblem(AtcError):
    """Something outside ATC is missing or broken. The message says what to do.

    Attributes:
        problem: what is missing or broken. ``fix``: what to do about it; empty if ``problem`` says it already.
    """

    def __init__(self, problem: str = "", *, fix: str = "") -> None:
        super().__init__(f"{problem}: {fix}" if fix else problem)
        self.problem, self.fix = problem, fix


class ModelUnavailable(EnvironmentProblem):
    """No model is set up, or its file or endpoint cannot be used at all."""


class SandboxUnavailable(EnvironmentProblem):
    """The isolation that was asked for is not available; nothing weaker is used instead."""


class ToolIndexError(EnvironmentProblem):
    """An index of tools cannot be read or written: damaged, foreign, of another version, or the disk is full."""


class EncoderUnavailable(EnvironmentProblem):
    """A search by meaning was asked for, and its encoder is not available."""


class LexicalOnly(UserWarning):
    """An index of tools works by words alone, because it has no vectors or no encoder to compare them with."""


class ModelError(AtcError):
    """The model's endpoint failed during a call, after retries."""


class ContextExceeded(ModelError):
    """A prompt and the reply asked for are longer than the model takes.

    Args:
        message: what happened, in words.
        limit: tokens that the endpoint says it takes; ``None`` if it does not say.
        requested: tokens that the endpoint says it was given; ``None`` if it does not say.
    """

    def __init__(self, message: str, *, limit: int | None = None, requested: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.requested = requested


TRANSIENT_STATUSES = frozenset({408, 425, 429, 502, 503, 504})
"""HTTP statuses of a service that may answer the same request later."""


class ToolError(AtcError):
    """A tool refused a call, or failed.

    Args:
        message: what happened, in words that may be shown to a model. Never a credential.
        status: the service's own status (an HTTP status code, or a word), if there is one.
        outcome: ``"refused"``: the tool surely did nothing. ``"unknown"``: it may have acted before it failed.
        retry_after: seconds that the service asked to wait, if it did.
        transient: the same call may succeed when it is repeated (only reads ever are).
        received: bytes of an answer that was read and could not be used.
        cause: why it failed, where no other program can help; ``None`` where one might.
        service_message: the service's own words, where ``message`` puts a label before them. Never a credential.
        raised: the exception of the user's own function behind this error. Its text may hold anything: the broker
            masks the message before it is passed on, and keeps the traceback in a file of the run.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | str | None = None,
        outcome: Outcome = "refused",
        retry_after: float | None = None,
        transient: bool = False,
        received: int = 0,
        cause: Cause | None = None,
        raised: BaseException | None = None,
        service_message: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.service_message = service_message
        self.raised = raised
        self.status = status
        self.outcome: Outcome = outcome
        self.retry_after = retry_after
        self.transient = transient
        self.received = received
        self.cause = cause


class CallRefused(ToolError):
    """The broker would not make the call: not granted, wrong arguments, denied, or over a limit."""


class FrameError(AtcError):
    """Bytes on the sandbox channel that do not follow its protocol. They are never trusted and never repaired."""


class BudgetExceeded(AtcError):
    """A run used up one of its budgets. ``which`` names it."""

    def __init__(self, which: str, message: str) -> None:
        super().__init__(message)
        self.which = which


class InputNeeded(AtcError):
    """A program asked the user, and nobody can answer now. Strategies do not catch it: the run ends as ``needs_input``.

    Args:
        question: in the program's words.
    """

    def __init__(self, question: str) -> None:
        super().__init__(f"the program asks the user: {question!r}")
        self.question = question


class WritesPlanned(AtcError):
    """A dry run reached a call that is not a read. Strategies do not catch it: the run ends as ``planned``.

    Args:
        program: the one that planned the call; empty if a strategy called the tool itself.
        outcome: how that program ended; ``None`` without one.
    """

    def __init__(self, program: str = "", outcome: object = None) -> None:
        super().__init__("a dry run makes no call with effects: it ends with the first ones that it plans")
        self.program, self.outcome = program, outcome


class JournalError(AtcError):
    """A run's journal cannot be read or written."""


class RunInUse(JournalError):
    """Another process works on the run, or has died and its lease has not lapsed yet."""


class RunFailed(AtcError):
    """Raised by :meth:`atc.result.Result.unwrap` when a run has no answer; ``result`` says why."""

    def __init__(self, result: Result, message: str) -> None:
        super().__init__(message)
        self.result = result
