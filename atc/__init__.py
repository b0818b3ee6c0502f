"""ATC, Automatic Tool Chain: a language model writes one whole program over your tools; a sandbox runs it.

Importing this package loads nothing else: each public name is imported from its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atc._records.events import Event
    from atc._records.outcome import Outcome, ProgramError
    from atc._records.prices import Price
    from atc._records.records import DryRun
    from atc.agent import Agent
    from atc.calls.approval import ApprovalRequest
    from atc.calls.broker import CallPolicy
    from atc.calls.contract import CallReply, CallRequest
    from atc.catalogue.catalogue import Catalogue
    from atc.catalogue.index.retriever import Retriever
    from atc.catalogue.sketch import Sketch
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
    from atc.facts import Fault, Finding
    from atc.models.base import Message, Model, ModelRequest, Reply, WrappedModel
    from atc.models.embedded import EmbeddedModel
    from atc.models.fake import FakeModel
    from atc.models.images import Image
    from atc.models.openai_compatible import OpenAICompatible
    from atc.models.resolve import open_model
    from atc.probing.prober import Prober, probe
    from atc.result import Call, Effect, Result, Revision, Usage
    from atc.run.base import Ending, Strategy
    from atc.run.chain import Chain
    from atc.run.conversation import Conversation
    from atc.run.preamble import Turn
    from atc.run.program_loop import ProgramLoop
    from atc.run.run import Run
    from atc.run.writer import WritingOptions
    from atc.sandboxes.conformance import check_sandbox
    from atc.sandboxes.contract import Job, Limits, Sandbox
    from atc.schemas.protocol import Example, Protocol, Source, Status
    from atc.serve.frameworks import to_inspect, to_langchain, to_pydantic_ai, to_smolagents
    from atc.settings import Settings
    from atc.tools.functions import tool
    from atc.tools.to_json import to_json
    from atc.tools.tool import Tool, Toolset, Transport

__version__ = "0.3.0"

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
    "to_inspect",
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
    "atc.catalogue.catalogue": ("Catalogue",),
    "atc.run.conversation": ("Conversation",),
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
    "atc.serve.frameworks": ("to_inspect", "to_langchain", "to_pydantic_ai", "to_smolagents"),
    "atc.facts": ("Fault", "Finding"),
    "atc.models.base": ("Message", "Model", "ModelRequest", "Reply", "WrappedModel"),
    "atc.models.embedded": ("EmbeddedModel",),
    "atc.models.fake": ("FakeModel",),
    "atc.models.images": ("Image",),
    "atc.models.openai_compatible": ("OpenAICompatible",),
    "atc.models.resolve": ("open_model",),
    "atc._records.outcome": ("Outcome", "ProgramError"),
    "atc._records.prices": ("Price",),
    "atc.probing.prober": ("Prober", "probe"),
    "atc._records.records": ("DryRun",),
    "atc.result": ("Call", "Effect", "Result", "Revision", "Usage"),
    "atc.catalogue.index.retriever": ("Retriever",),
    "atc.sandboxes.conformance": ("check_sandbox",),
    "atc.sandboxes.contract": ("Job", "Limits", "Sandbox"),
    "atc.settings": ("Settings",),
    "atc.catalogue.sketch": ("Sketch",),
    "atc.run.base": ("Ending", "Strategy"),
    "atc.run.chain": ("Chain",),
    "atc.run.run": ("Run",),
    "atc.run.preamble": ("Turn",),
    "atc.run.program_loop": ("ProgramLoop",),
    "atc.run.writer": ("WritingOptions",),
    "atc.tools.functions": ("tool",),
    "atc.schemas.protocol": ("Example", "Protocol", "Source", "Status"),
    "atc.tools.to_json": ("to_json",),
    "atc.tools.tool": ("Tool", "Toolset", "Transport"),
    "atc._records.events": ("Event",),
}
"""The imports above, for the interpreter: a test holds both lists to each other."""
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def _imported(module: str) -> Any:
    """A module. What an import makes stays, so nothing of it is searched for garbage, a fifth of the time else."""
    import gc
    from importlib import import_module

    was_on = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if was_on:
            if not gc.get_freeze_count():
                gc.freeze()  # both together: all that is new counts as old, or the next search went through it
                gc.unfreeze()
            gc.enable()


def __getattr__(name: str) -> Any:
    """A public name, imported at its first use (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = _imported(_MODULE_OF[name])
    except AttributeError as error:  # raised as it is, Python would take the name for unknown
        raise ImportError(f"{_MODULE_OF[name]} cannot be imported: {error}") from error
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
