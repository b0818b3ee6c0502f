"""ATC, Automatic Tool Chain: a language model writes one whole program over your tools; a sandbox runs it."""

from atc.agent import Agent
from atc.errors import AtcError, EnvironmentProblem, RunFailed, ToolError, UsageError
from atc.execution.broker import ApprovalRequest, CallPolicy
from atc.probing import Prober, probe
from atc.result import Call, Fault, Finding, Result, Revision, Usage
from atc.settings import Settings
from atc.tools.functions import tool
from atc.tools.protocol import Effect, Example, Protocol
from atc.tools.to_json import to_json
from atc.tools.tool import Tool, Toolset
from atc.traces.events import Event

__version__ = "0.1.0"

__all__ = [
    "Agent", "ApprovalRequest", "AtcError", "Call", "CallPolicy", "Effect", "EnvironmentProblem", "Event", "Example",
    "Fault", "Finding", "Prober", "Protocol", "Result", "Revision", "RunFailed", "Settings", "Tool", "ToolError",
    "Toolset", "Usage", "UsageError", "probe", "to_json", "tool",
]  # fmt: skip
