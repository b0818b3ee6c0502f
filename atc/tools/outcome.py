"""Decides, for every transport, whether a call that gave no value surely did nothing.

A transport reports facts, and :func:`outcome_of` alone decides. A call is *refused* where it was not sent, or where the
answer to this very request says that nothing was done. What says less leaves it in doubt: nobody may send it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from atc.errors import Outcome

_REFUSING = frozenset(
    {307, 308, 400, 401, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 423, 425}
    | {426, 428, 429, 431, 451, 501}
)
"""HTTP statuses that say of their own request that nothing was done. Not among them:

- 402 has no meaning but a service's own: those that charge a card answer it after they have tried;
- 408 also comes from what stands before a service, of a request that the service has;
- 424 says that a part failed, of several that were to be done;
- 503, with ``Retry-After`` too, is also the page of a proxy whose service broke off amid the request;
- a redirect that does not say to send the same request there (300 to 304), and what no standard knows.
"""
_INVALID_PARAMS, _METHOD_NOT_FOUND, _INTERNAL_ERROR, _URL_ELICITATION_REQUIRED = -32602, -32601, -32603, -32042
_REFUSING_CODES = frozenset({_INVALID_PARAMS, _METHOD_NOT_FOUND, _URL_ELICITATION_REQUIRED})


@dataclass(slots=True)
class Report:
    """What a transport knows of a call that gave no value.

    Attributes:
        sent: the request may have reached the tool, wholly or in part.
        answered: this request was answered by what is no error of the protocol, such as a value that cannot be used.
        status: the HTTP status of the answer to this very request. Never that of another one: the page it led to, the
            rest of its stream, a reply of ours to a question within it.
        code: the JSON-RPC error that bears this request's id.
        typed: the tool has a schema of its results, by which its server may refuse one: the tool has run then.
        reads: the tool only reads, so that whatever it answered, nothing was done.
    """

    sent: bool = False
    answered: bool = False
    status: int | None = None
    code: int | None = None
    typed: bool = False
    reads: bool = False


def outcome_of(report: Report) -> Outcome:
    """Decide by facts whether a call that gave no value surely did nothing."""
    if not report.sent or (report.reads and report.answered):
        return "refused"
    misfit = report.code == _INTERNAL_ERROR or (report.code == _INVALID_PARAMS and report.typed)
    if report.status is None or report.status < 300:
        refuses = report.code in _REFUSING_CODES
    else:
        refuses = report.status in _REFUSING
    return "refused" if refuses and not misfit else "unknown"
