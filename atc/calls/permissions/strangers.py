"""Says which tools answer what strangers write, and what follows from that: ``untrusted``, ``trusted``, ``targets`` and
``after_untrusted`` of a permissions file.

To call a tool untrusted restricts, so every reading of its name counts, and a server's own word does. That a server
says its tools are no strangers' counts only where the file names the server, letter by letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from atc.calls.permissions.patterns import Patterns, may_name, pattern_problem, patterns_of
from atc.calls.untrusted import Targets
from atc.schemas.protocol import Protocol

SERVER = "mcp:"
HINT = "hint"
"""What marks a tool that no pattern of the file does: its own protocol, by a server's hint or by ``@tool``."""


@dataclass(frozen=True)
class Strangers:
    """Holds what a file says of tools whose text strangers write.

    Attributes:
        untrusted: patterns of tools, and of servers with ``mcp:`` in front.
        trusted: names of servers whose own word counts against a pattern of tools.
        targets: patterns of the paths, or of the last names, of arguments that are targets besides those of the words.
        after: what becomes of the writes of a program whose author had seen untrusted text.
    """

    untrusted: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    targets: Patterns | None = None
    after: Literal["ask", "allow"] = "ask"

    def marks(self, protocol: Protocol) -> str:
        """Return what marks a tool as untrusted: a pattern of the file, or :data:`HINT`; empty where nothing does."""
        for text, patterns in self._servers:
            if protocol.source.kind == "mcp" and any(map(patterns.may_fit, _names_of_server(protocol))):
                return text
        excused = protocol.untrusted is False and is_server(protocol, self.trusted)
        for text, patterns in () if excused else self._tools:
            if may_name(patterns, protocol):
                return text
        return HINT if protocol.untrusted else ""

    def is_named(self, protocol: Protocol) -> bool:
        """Return whether a pattern of the file marks a tool."""
        return self.marks(protocol) not in ("", HINT)

    def targets_of(self, only: Patterns | None) -> Targets:
        """Return which arguments of a tool are targets.

        Args:
            only: what a table of the tool says; it stands in place of the words and of the file's own list.
        """
        if only is not None:
            return Targets(only=lambda path: _may_be(only, path))
        more = self.targets
        return Targets() if more is None else Targets(more=lambda path: _may_be(more, path))

    @cached_property
    def _servers(self) -> list[tuple[str, Patterns]]:
        named = [text for text in self.untrusted if text.startswith(SERVER)]
        return [(text, patterns_of([text.removeprefix(SERVER)])) for text in named]

    @cached_property
    def _tools(self) -> list[tuple[str, Patterns]]:
        return [(text, patterns_of([text])) for text in self.untrusted if not text.startswith(SERVER)]


def server_named(text: str) -> str:
    """Return the name of a server that ``trusted`` lists.

    Raises:
        ValueError: it is none; the message says what it takes.
    """
    name = text.removeprefix(SERVER)
    if name == text or pattern_problem(name) or any(letter in name for letter in "*?["):
        raise ValueError(f"{text[:60]!r} is no server by its name, without a pattern: {SERVER}crm")
    return name


def is_server(protocol: Protocol, names: tuple[str, ...]) -> bool:
    """Return whether a tool is of a server of one of these names, letter by letter."""
    key = protocol.source.key
    return key is not None and key.kind == "mcp" and key.server in names


def _names_of_server(protocol: Protocol) -> set[str]:
    source = protocol.source
    key = source.key
    names = {source.location, source.location.partition(" (")[0], source.server, source.title}
    return {name for name in (names if key is None else {*names, key.server}) if name}


def _may_be(patterns: Patterns, path: str) -> bool:
    return patterns.may_fit(path) or patterns.may_fit(path.rpartition(".")[2])
