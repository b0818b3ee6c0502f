"""What the broker of a run allows, and what it asks of the tools that are granted."""

from __future__ import annotations

from dataclasses import dataclass

from atc.schemas.validate import ensure_valid_schema
from atc.tools.tool import Toolset


@dataclass(frozen=True)
class CallPolicy:
    """What the broker allows.

    Attributes:
        max_calls: calls in a run, without replays; a resumed run counts from zero.
        call_timeout_s: seconds that one call may take, its retries included.
        response_bytes: size of one response as JSON; what is larger is refused, and never cut.
        max_values: values that the arguments of one call may hold, and one response: lists, objects, what is in them.
            More arguments are refused; more of a response, as what is over ``response_bytes``.
        repairs: how often the model may be asked to correct wrong arguments, B of RETO §3.4; 0: never.
        read_attempts: how often a read is tried in all, if it fails with a passing error. A write is tried once.
        retry_wait_s: the first pause between two tries; it doubles, with jitter, unless the service names its own.
            Where the pause would outlast ``call_timeout_s`` there is no further try.
        replay: answer repeated calls from the journal and refuse to repeat an effect. Off only to measure its worth.
    """

    max_calls: int = 200
    call_timeout_s: float = 30.0
    response_bytes: int = 2_000_000
    max_values: int = 100_000
    repairs: int = 5
    read_attempts: int = 3
    retry_wait_s: float = 0.3
    replay: bool = True


def check_schemas(tools: Toolset) -> None:
    """Check that the schemas of all tools are valid JSON Schemas.

    Raises:
        ToolImportError: one is not.
    """
    for name, tool in tools.items():
        ensure_valid_schema(tool.protocol.parameters, f"the parameters of {name}")
        if tool.protocol.returns is not None:
            ensure_valid_schema(tool.protocol.returns, f"the response of {name}")
