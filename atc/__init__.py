"""ATC, Automatic Tool Chain: a language model writes one whole program over your tools; a sandbox runs it.

Importing this package loads nothing else: each public name is imported from its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atc.agent import Agent
    from atc.calls.approval import ApprovalRequest
    from atc.calls.broker import CallPolicy
    from atc.errors import AtcError, EnvironmentProblem, RunFailed, ToolError, UsageError
    from atc.probing import Prober, probe
    from atc.result import Call, Effect, Fault, Finding, Result, Revision, Usage
    from atc.settings import Settings
    from atc.tools.functions import tool
    from atc.tools.protocol import Example, Protocol, Source
    from atc.tools.to_json import to_json
    from atc.tools.tool import Tool, Toolset
    from atc.traces.events import Event

__version__ = "0.1.0"

__all__ = [
    "Agent", "ApprovalRequest", "AtcError", "Call", "CallPolicy", "Effect", "EnvironmentProblem", "Event", "Example",
    "Fault", "Finding", "Prober", "Protocol", "Result", "Revision", "RunFailed", "Settings", "Source", "Tool",
    "ToolError", "Toolset", "Usage", "UsageError", "probe", "to_json", "tool",
]  # fmt: skip

_MODULES = {
    "atc.agent": ("Agent",),
    "atc.errors": ("AtcError", "EnvironmentProblem", "RunFailed", "ToolError", "UsageError"),
    "atc.calls.approval": ("ApprovalRequest",),
    "atc.calls.broker": ("CallPolicy",),
    "atc.probing": ("Prober", "probe"),
    "atc.result": ("Call", "Effect", "Fault", "Finding", "Result", "Revision", "Usage"),
    "atc.settings": ("Settings",),
    "atc.tools.functions": ("tool",),
    "atc.tools.protocol": ("Example", "Protocol", "Source"),
    "atc.tools.to_json": ("to_json",),
    "atc.tools.tool": ("Tool", "Toolset"),
    "atc.traces.events": ("Event",),
}
"""The imports above, for the interpreter: a test holds both lists to each other."""
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, imported at its first use (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(_MODULE_OF[name])
    except AttributeError as error:  # raised as it is, Python would take the name for unknown
        raise ImportError(f"{_MODULE_OF[name]} cannot be imported: {error}") from error
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
