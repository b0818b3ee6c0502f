"""Takes the digest of a tool: what it is, where its calls go and for whom. A yes holds while nothing of it changes.

Each part has a digest of its own, so that a new question says what changed. Some parts are credentials: the digests of
a run are made under its own key, by a slow function, so that none of them tells a value, or that two runs have one.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from atc.calls.json_values import canonical
from atc.tools.tool import ServiceTransport, Tool, Transport, WrappingTransport, service_of

_ROUNDS = 2_000
"""Rounds of the function that makes a value hard to guess: a millisecond, once for each value of a run."""


def parts_of(tool: Tool, key: str) -> dict[str, str]:
    """Return the digest of each part of a tool, by its name: its schemas and its effect, the path of its operation, the
    code of its function and, with their kinds in front, the account: ``variable HOME``.

    Args:
        tool: as it is now.
        key: of the run.
    """
    protocol = tool.protocol
    said = {
        "name": protocol.name,
        "schema": [protocol.parameters, protocol.returns],
        "effect": protocol.effect.value,
        "operation": "" if protocol.source is None else protocol.source.path,
        "code": _code_of(tool.transport),
    }
    account = service_of(tool.transport).account
    hard = {part: _hard(key, part, value) for part, value in account.items()}
    return {part: _text_digest(f"{key} {part} {canonical(value)}") for part, value in said.items()} | hard


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@functools.lru_cache(maxsize=1024)
def _hard(key: str, part: str, value: str) -> str:
    text = f"{part} {value}".encode("utf-8", "surrogatepass")
    return hashlib.pbkdf2_hmac("sha256", text, key.encode(), _ROUNDS).hex()


# ----------------------------------------------------------------------------------------------------------------------
# The code of a tool that is the user's own: its function, what wraps it, and what it calls of the same module. What
# these read (a global, their instance) is none of it: it may be a token, and another one in each process.


def _code_of(transport: Transport | None) -> list[list[str]]:
    while isinstance(transport, WrappingTransport):
        transport = transport.inner
    own = getattr(transport, "function", None) or getattr(transport, "code", None)
    found: dict[int, Any] = {}
    waiting = [own if own is not None or isinstance(transport, ServiceTransport) else transport]
    for each in waiting:
        if each is not None and id(each) not in found:
            found[id(each)] = each
            waiting += _beside(each)
    named = (each for each in found.values() if not str(getattr(each, "__module__", "")).startswith("atc."))
    return [_named(each) for each in named]


def _named(code: Any) -> list[str]:
    if not isinstance(code, FunctionType):
        return [type(code).__qualname__]
    return [PurePath(code.__code__.co_filename).name, code.__qualname__, _text_of(code.__code__)]


def _beside(code: Any) -> list[Any]:
    """Return what a function wraps and holds, and the functions that it names, of its module or of its class. An object
    that has every attribute (a proxy) is asked for none."""
    wrapped = vars(code).get("__wrapped__") if hasattr(code, "__dict__") else None
    if isinstance(code, FunctionType):
        held = _functions(cell.cell_contents for cell in code.__closure__ or () if cell != CellType())
        named = _functions(code.__globals__.get(name) for name in _names_in(code.__code__))
        return [wrapped, *held, *(each for each in named if each.__module__ == code.__module__)]
    if isinstance(code, functools.partial):
        return [code.func]
    method = code.__func__ if isinstance(code, MethodType) else type(code).__call__
    owner = code.__self__ if isinstance(code, MethodType) else code
    of_class = owner if isinstance(owner, type) else type(owner)
    names = _names_in(getattr(method, "__code__", None))
    return [wrapped, *_functions((method, *(getattr(of_class, name, None) for name in names)))]


def _functions(values: Iterable[Any]) -> list[FunctionType]:
    return [each for each in values if isinstance(each, FunctionType)]


def _names_in(code: Any) -> Iterator[str]:
    if isinstance(code, CodeType):
        yield from code.co_names
        for inner in code.co_consts:
            yield from _names_in(inner)


@functools.lru_cache(maxsize=4096)
def _text_of(code: CodeType) -> str:
    try:
        return inspect.getsource(code)  # a function itself would be unwrapped
    except (OSError, TypeError):  # typed in, or compiled: the bytes of its code have to do
        inner = [_text_of(each) if isinstance(each, CodeType) else _shown(each) for each in code.co_consts]
        return f"{code.co_code.hex()} {code.co_names} {inner}"


def _shown(constant: Any) -> str:
    return repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant)
