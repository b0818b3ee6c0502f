"""Whether a call failed for its arguments, or as a tool: what repairs, recombination and the memory decide by."""

from __future__ import annotations

from atc.result import Call

_REFUSED_WORDS = {"invalid_arguments", "not_found", "invalid", "bad_request", "unknown_id", "conflict"}
_REFUSED_CODES = {400, 404, 409, 410, 422}


def blames_arguments(call: Call) -> bool:
    """Whether a call was refused or failed for its arguments, so that others may help."""
    status = call.error_status
    return call.status == "refused" or status in _REFUSED_CODES or status in _REFUSED_WORDS
