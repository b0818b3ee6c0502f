"""The tools that a run had before it was cut off: those that are there are offered again, the others are named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from atc.calls.broker import Broker
from atc.run.ask_user import NAME as ASK_USER
from atc.run.look import NAME as LOOK
from atc.tools.tool import Toolset

OF_ATC = frozenset({ASK_USER, LOOK, "find_tools", "tool_docs"})
"""Tools that a run itself brings: no source has to have them."""


@dataclass(frozen=True)
class ToolsBefore:
    """The tools of a run that goes on, by the names that they have now.

    Attributes:
        chosen: those that were offered last.
        called: others that the run has called: its programs are answered from the journal by their names.
        gone: those of both that are not there any more, by the names that they had.
    """

    chosen: tuple[str, ...]
    called: tuple[str, ...]
    gone: tuple[str, ...]


def tools_before(chosen: Iterable[str], broker: Broker, tools: Toolset) -> ToolsBefore:
    """Find out which tools of a run are still there."""
    journal = broker.journal
    made = [entry for number, entry in sorted(journal.entries.items()) if number > journal.before]
    now = {entry.tool: broker.name_now(entry.tool, entry.key.source) for entry in made}
    before = dict.fromkeys(name for name in chosen if name not in OF_ATC or name in tools)
    found = {name: now.get(name) if name in now else name if name in tools else None for name in before}
    others = {name: there for name, there in now.items() if name not in OF_ATC or name in tools}
    kept = dict.fromkeys(name for name in found.values() if name in tools)
    called = dict.fromkeys(name for name in others.values() if name in tools and name not in kept)
    gone = dict.fromkeys(name for name, there in (found | others).items() if there is None)
    return ToolsBefore(tuple(filter(None, kept)), tuple(filter(None, called)), tuple(gone))
