"""ATC, Automatic Tool Chain: a language model writes one whole program over your tools; a sandbox runs it.

Importing this package loads nothing else: each public name is imported from its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atc.agent import Agent
    from atc.calls.approval import ApprovalRequest
    from atc.calls.broker import CallPolicy
    from atc.calls.contract import CallReply, CallRequest
    from atc.catalogue import Catalogue
    from atc.conversation import Conversation
    from atc.errors import (
        AtcError,
        BudgetExceeded,
        CallRefused,
        ContextExceeded,
        EncoderUnavailable,
        EnvironmentProblem,
        FrameError,
        InputNeeded,
        JournalError,
        LexicalOnly,
        ModelError,
        ModelUnavailable,
        RunFailed,
        SandboxUnavailable,
        SettingsError,
        ToolError,
        ToolImportError,
        ToolIndexError,
        TraceError,
        UsageError,
        WritesPlanned,
    )
    from atc.faces.frameworks import to_langchain, to_pydantic_ai, to_smolagents
    from atc.facts import Fault, Finding
    from atc.models.base import Message, Model, ModelRequest, Reply, WrappedModel
    from atc.models.embedded import EmbeddedModel
    from atc.models.fake import FakeModel
    from atc.models.images import Image
    from atc.models.openai_compatible import OpenAICompatible
    from atc.models.resolve import open_model
    from atc.outcome import Outcome, ProgramError
    from atc.prices import Price
    from atc.probing import Prober, probe
    from atc.records import DryRun
    from atc.result import Call, Effect, Result, Revision, Usage
    from atc.retrieval.retriever import Retriever
    from atc.sandboxes.conformance import check_sandbox
    from atc.sandboxes.contract import Job, Limits, Sandbox
    from atc.schemas.protocol import Example, Protocol, Source, Status
    from atc.settings import Settings
    from atc.sketch import Sketch
    from atc.strategies.base import Ending, Strategy
    from atc.strategies.chain import Chain
    from atc.strategies.preamble import Turn
    from atc.strategies.program_loop import ProgramLoop
    from atc.strategies.run import Run
    from atc.strategies.writer import WritingOptions
    from atc.tools.functions import tool
    from atc.tools.to_json import to_json
    from atc.tools.tool import Tool, Toolset, Transport
    from atc.traces.events import Event

__version__ = "0.2.0"

__all__ = [
    "Agent",
    "ApprovalRequest",
    "AtcError",
    "BudgetExceeded",
    "Call",
    "CallPolicy",
    "CallRefused",
    "CallReply",
    "CallRequest",
    "Catalogue",
    "Chain",
    "ContextExceeded",
    "Conversation",
    "DryRun",
    "Effect",
    "EmbeddedModel",
    "EncoderUnavailable",
    "Ending",
    "EnvironmentProblem",
    "Event",
    "Example",
    "FakeModel",
    "Fault",
    "Finding",
    "FrameError",
    "Image",
    "InputNeeded",
    "Job",
    "JournalError",
    "LexicalOnly",
    "Limits",
    "Message",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelUnavailable",
    "OpenAICompatible",
    "Outcome",
    "Price",
    "Prober",
    "ProgramError",
    "ProgramLoop",
    "Protocol",
    "Reply",
    "Result",
    "Retriever",
    "Revision",
    "Run",
    "RunFailed",
    "Sandbox",
    "SandboxUnavailable",
    "Settings",
    "SettingsError",
    "Sketch",
    "Source",
    "Status",
    "Strategy",
    "Tool",
    "ToolError",
    "ToolImportError",
    "ToolIndexError",
    "Toolset",
    "TraceError",
    "Transport",
    "Turn",
    "Usage",
    "UsageError",
    "WrappedModel",
    "WritesPlanned",
    "WritingOptions",
    "check_sandbox",
    "open_model",
    "probe",
    "to_json",
    "to_langchain",
    "to_pydantic_ai",
    "to_smolagents",
    "tool",
]

_MODULES = {
    "atc.agent": ("Agent",),
    "atc.calls.approval": ("ApprovalRequest",),
    "atc.calls.broker": ("CallPolicy",),
    "atc.calls.contract": ("CallReply", "CallRequest"),
    "atc.catalogue": ("Catalogue",),
    "atc.conversation": ("Conversation",),
    "atc.errors": (
        "AtcError",
        "BudgetExceeded",
        "CallRefused",
        "ContextExceeded",
        "EncoderUnavailable",
        "EnvironmentProblem",
        "FrameError",
        "InputNeeded",
        "JournalError",
        "LexicalOnly",
        "ModelError",
        "ModelUnavailable",
        "RunFailed",
        "SandboxUnavailable",
        "SettingsError",
        "ToolError",
        "ToolImportError",
        "ToolIndexError",
        "TraceError",
        "UsageError",
        "WritesPlanned",
    ),
    "atc.faces.frameworks": ("to_langchain", "to_pydantic_ai", "to_smolagents"),
    "atc.facts": ("Fault", "Finding"),
    "atc.models.base": ("Message", "Model", "ModelRequest", "Reply", "WrappedModel"),
    "atc.models.embedded": ("EmbeddedModel",),
    "atc.models.fake": ("FakeModel",),
    "atc.models.images": ("Image",),
    "atc.models.openai_compatible": ("OpenAICompatible",),
    "atc.models.resolve": ("open_model",),
    "atc.outcome": ("Outcome", "ProgramError"),
    "atc.prices": ("Price",),
    "atc.probing": ("Prober", "probe"),
    "atc.records": ("DryRun",),
    "atc.result": ("Call", "Effect", "Result", "Revision", "Usage"),
    "atc.retrieval.retriever": ("Retriever",),
    "atc.sandboxes.conformance": ("check_sandbox",),
    "atc.sandboxes.contract": ("Job", "Limits", "Sandbox"),
    "atc.settings": ("Settings",),
    "atc.sketch": ("Sketch",),
    "atc.strategies.base": ("Ending", "Strategy"),
    "atc.strategies.chain": ("Chain",),
    "atc.strategies.run": ("Run",),
    "atc.strategies.preamble": ("Turn",),
    "atc.strategies.program_loop": ("ProgramLoop",),
    "atc.strategies.writer": ("WritingOptions",),
    "atc.tools.functions": ("tool",),
    "atc.schemas.protocol": ("Example", "Protocol", "Source", "Status"),
    "atc.tools.to_json": ("to_json",),
    "atc.tools.tool": ("Tool", "Toolset", "Transport"),
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
