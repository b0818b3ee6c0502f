"""Asks elsewhere about calls that wait: one POST to the approval URL says what waits, and its response may decide.

What goes out is masked as the trace is. Both ways are signed with one secret (HMAC-SHA256 of the body), and the answer
repeats the nonce, so that none but the one to this question counts. Whatever goes wrong decides nothing: the run waits.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
import ssl
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ConfigDict, Field

from atc._host.blocking import in_thread
from atc._records.packing import pack
from atc.calls.attempt import cut_arguments
from atc.errors import AtcError
from atc.run.approvals import ASKED, decide, decider_of, waiting_run
from atc.settings import Settings
from atc.traces.stores.base import StoredRun

if TYPE_CHECKING:
    from atc.calls.approval import Approval
    from atc.calls.permissions.permissions import Permissions

ANSWER_S = 10.0
"""Seconds for the whole exchange."""
MAX_QUESTION, MAX_ANSWER = 200_000, 100_000
"""Bytes of what is sent, and of an answer."""
MAX_DECISIONS, MAX_NAME = 1_000, 100
SIGNATURE = "ATC-Signature"
"""The header of a signature: ``sha256=`` and the HMAC in hexadecimal."""
_log = logging.getLogger(__name__)

Problem = Literal[
    "too_large", "unreachable", "slow", "status", "answer_too_large", "signature", "form", "nonce", "refused"
]
"""Why an answer decided nothing, or not all: what waits is too large to be sent; there was no answer, or not in time;
its status, size, signature, form or nonce is wrong; a decision of it was refused."""


class _Decided(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    call: int
    yes: bool
    by: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    signature: Annotated[str, Field(max_length=MAX_NAME)] = ""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    nonce: str
    decisions: Annotated[tuple[_Decided, ...], Field(max_length=MAX_DECISIONS, strict=False)] = ()


class _NoAnswer(Exception):
    def __init__(self, problem: Problem, detail: str = "") -> None:
        super().__init__(problem)
        self.problem, self.detail = problem, detail


async def ask(stored: StoredRun, settings: Settings, approval: Approval) -> None:
    """Say what a run waits for, and take the decisions of the answer. Raises nothing: what came of it is a note.

    Args:
        stored: the run, which has ended as ``waiting``.
        settings: with the approval URL.
        approval: of the run's agent: its permissions say who decides, also where they are those of a client's guard;
            without any, those of the settings do.
    """
    from atc.calls.permissions.guard import Guard

    permissions = approval.policy.permissions if isinstance(approval.policy, Guard) else None
    assert settings.approval_url is not None
    assert settings.approval_secret is not None
    secret = settings.approval_secret.get_secret_value().encode()
    nonce = secrets.token_urlsafe(24)
    decided: dict[int, bool] = {}
    problem, detail = "", ""
    try:
        made = await in_thread(_question, stored, nonce)
        if made is None:
            return
        body, numbers = made
        answer = await _asked(settings.approval_url, secret, body)
        if answer is not None:
            found = _read(answer, nonce, numbers)
            refused = await in_thread(_take, stored, found, settings, permissions, decided)
            problem, detail = ("refused", refused) if refused else ("", "")
    except _NoAnswer as error:
        problem, detail = error.problem, error.detail
    except AtcError as error:  # somebody else works on the run, or the store is down
        problem, detail = "refused", str(error)
    except Exception as error:  # whatever it is, the run has ended well, and waits
        problem, detail = "unreachable", type(error).__name__
    parts = urlsplit(settings.approval_url)
    note: dict[str, Any] = {"at": time.time(), "to": f"{parts.scheme}://{parts.netloc}", "problem": problem}
    note |= {"detail": detail[:500], "decided": {str(number): yes for number, yes in decided.items()}}
    if problem:
        _log.warning("the approval URL decided nothing of run %s: %s %s", stored.run_id, problem, detail[:500])
    try:
        await in_thread(stored.keep_note, ASKED, note)
    except AtcError as error:
        _log.warning("%s", error)


def _question(stored: StoredRun, nonce: str) -> tuple[bytes, set[int]] | None:
    """Raises _NoAnswer where it is too large, also without the ends of long arguments; TraceError and JournalError."""
    from atc.calls.permissions.approvers import statement

    waiting = waiting_run(stored)
    if not (calls := [call for call in waiting.calls if call.decision is None]):
        return None
    about = {
        "version": 1,
        "nonce": nonce,
        "run": waiting.run_id,
        "task": waiting.task,
        "expires": min(call.until for call in calls),
        "done": [each.model_dump(mode="json") for each in waiting.done],
    }
    for cut in (False, True):
        shown = []
        for call in calls:
            each = call.shown.model_dump(mode="json")
            arguments = cut_arguments(call.shown.arguments) if cut else call.shown.arguments
            signed = {
                "yes": statement(waiting.run_id, call, yes=True),
                "no": statement(waiting.run_id, call, yes=False),
            }
            each |= {"call": each.pop("index"), "arguments": pack(arguments), "cut": cut, "statements": signed}
            shown.append(each)
        body = json.dumps(about | {"calls": shown}).encode()
        if len(body) <= MAX_QUESTION:
            return body, {call.number for call in calls}
    raise _NoAnswer("too_large")


def signature_of(secret: bytes, body: bytes) -> str:
    """Return the signature of a body, as the header has it."""
    return f"sha256={hmac.new(secret, body, hashlib.sha256).hexdigest()}"


async def _asked(url: str, secret: bytes, body: bytes) -> bytes | None:
    """``None`` where nobody has decided yet. Raises _NoAnswer where no answer counts."""
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
    headers[SIGNATURE] = signature_of(secret, body)
    try:
        async with (
            asyncio.timeout(ANSWER_S),
            # neither a proxy nor a login of the environment: what is sent is for this address alone
            httpx.AsyncClient(
                timeout=ANSWER_S, follow_redirects=False, trust_env=False, verify=ssl.create_default_context()
            ) as client,
            client.stream("POST", url, content=body, headers=headers) as response,
        ):
            if response.status_code in (202, 204):
                return None
            if response.status_code != 200:
                raise _NoAnswer("status", str(response.status_code))
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise _NoAnswer("form")
            answer = b""
            async for chunk in response.aiter_raw():
                answer += chunk
                if len(answer) > MAX_ANSWER:
                    raise _NoAnswer("answer_too_large")
            signature = response.headers.get(SIGNATURE, "")
    except (TimeoutError, httpx.TimeoutException):
        raise _NoAnswer("slow") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise _NoAnswer("unreachable", type(error).__name__) from None
    if not answer:
        return None
    if not hmac.compare_digest(signature.encode(), signature_of(secret, answer).encode()):
        raise _NoAnswer("signature")
    return answer


def _read(answer: bytes, nonce: str, calls: set[int]) -> list[_Decided]:
    """Raises _NoAnswer for one to another question, or about another call, or about one twice: nothing of it counts."""
    try:
        read = _Answer.model_validate(json.loads(answer, object_pairs_hook=_each_once))
    except (ValueError, RecursionError):  # a ValidationError is a ValueError
        raise _NoAnswer("form") from None
    if not hmac.compare_digest(read.nonce.encode("utf-8", "replace"), nonce.encode()):
        raise _NoAnswer("nonce")
    numbers = [each.call for each in read.decisions]
    if unknown := [number for number in numbers if number not in calls]:
        raise _NoAnswer("form", f"call {unknown[0]} does not wait")
    if len(set(numbers)) < len(numbers):
        raise _NoAnswer("form", "it decides twice about one call")
    return list(read.decisions)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ValueError where two names are equal: nobody knows which of the values was meant."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands twice")
    return made


def _take(
    stored: StoredRun,
    found: list[_Decided],
    settings: Settings,
    permissions: Permissions | None,
    decided: dict[int, bool],
) -> str:
    refused = ""
    for each in found:
        signatures = {each.call: each.signature}
        try:
            decider = decider_of(
                by=each.by, via="url", signatures=signatures, permissions=permissions, settings=settings
            )
            decide(stored, [each.call], yes=each.yes, decider=decider)
            decided[each.call] = each.yes
        except AtcError as error:
            refused = refused or str(error)
    return refused
