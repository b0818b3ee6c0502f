"""Probing programs that structure writes (ATC §4.2): a call, its values fetched again from where they were seen."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from atc.probing.candidates import Bindings
from atc.probing.value_pool import Seen
from atc.tools.parameters import parameters_of
from atc.tools.protocol import Protocol


@dataclass(frozen=True)
class Written:
    """A program and the tools that it calls beside the one that is probed."""

    source: str
    helpers: tuple[str, ...]


def program_for(protocol: Protocol, bindings: Bindings, protocols: Mapping[str, Protocol], *, fetch: bool) -> Written:
    """A program that calls one tool and leaves its response in ``answer``.

    Args:
        protocol: the tool's.
        bindings: a value for each argument that is given, by the tool's own name of it.
        protocols: of all tools, to write helpers' calls.
        fetch: get values from the tools that they were seen at, not as literals.
    """
    lines: list[str] = []
    variables: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
    arguments: dict[str, str] = {}
    for name, candidate in bindings.items():
        seen = candidate.seen
        written = None
        if fetch and seen is not None and seen.tool in protocols and seen.tool != protocol.name:
            written = _fetched(seen, protocols, variables, lines)
        arguments[name] = written or repr(candidate.value)
    call = call_of(protocol, arguments)
    helpers = tuple(dict.fromkeys(tool for tool, _ in variables))
    return Written("\n".join([*lines, f"answer = {call}"]) + "\n", helpers)


def call_of(protocol: Protocol, written: Mapping[str, str]) -> str:
    """A call as a program writes it; ``written`` has the expression of each argument."""
    names = {parameter.original: parameter.name for parameter in parameters_of(protocol)}
    by_name = {names.get(name, name): text for name, text in written.items()}
    usable = {name: text for name, text in by_name.items() if name.isidentifier() and not keyword.iskeyword(name)}
    odd = {name: text for name, text in by_name.items() if name not in usable}
    parts = [f"{name}={text}" for name, text in usable.items()]
    if odd:
        parts.append("**{" + ", ".join(f"{name!r}: {text}" for name, text in odd.items()) + "}")
    return f"{protocol.name}({', '.join(parts)})"


def _fetched(
    seen: Seen,
    protocols: Mapping[str, Protocol],
    variables: dict[tuple[str, tuple[tuple[str, str], ...]], str],
    lines: list[str],
) -> str:
    arguments = tuple((name, repr(value)) for name, value in seen.arguments)
    key = (seen.tool, arguments)
    if key not in variables:
        taken = {*variables.values(), *protocols}  # a variable must hide no tool
        variables[key] = next(name for name in _names(seen.tool) if name not in taken)
        lines.append(f"{variables[key]} = {call_of(protocols[seen.tool], dict(arguments))}")
    return variables[key] + "".join(f"[{step!r}]" for step in seen.path)


def _names(tool: str) -> Iterator[str]:
    base = f"from_{tool}"
    yield base
    yield from (f"{base}_{number}" for number in range(2, 100))


def literal_call(protocol: Protocol, arguments: Mapping[str, Any]) -> str:
    """A call with plain values."""
    return call_of(protocol, {name: repr(value) for name, value in arguments.items()})
