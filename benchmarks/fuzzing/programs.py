"""Programs: parsed, checked, repaired, before anything runs."""

from __future__ import annotations

from typing import Any

from atc.programs.check.checker import Checker
from atc.programs.dialects.awaits import in_plain_python
from atc.programs.edits import RepairContext
from atc.programs.program import NotParsed, Program, parse
from atc.programs.repair.pipeline import repair_program
from atc.result import Effect
from atc.schemas.protocol import Protocol
from benchmarks.fuzzing.target import Broken, Target


def _protocol(name: str, parameters: dict[str, Any], returns: dict[str, Any], effect: Effect) -> Protocol:
    return Protocol(
        name=name,
        parameters={"type": "object", "properties": parameters, "required": list(parameters)[:1]},
        returns=returns,
        effect=effect,
    )


_TEXT, _COUNT = {"type": "string"}, {"type": "integer"}
_ITEM = {"type": "object", "properties": {"id": _TEXT, "title": _TEXT, "price": {"type": "number"}}}
_FOUND = {"type": "object", "properties": {"items": {"type": "array", "items": _ITEM}, "next": _TEXT, "total": _COUNT}}
_PROTOCOLS = [
    _protocol("search", {"query": _TEXT, "limit": _COUNT, "kind": {"enum": ["new", "old"]}}, _FOUND, Effect.READ),
    _protocol("get_item", {"item_id": _TEXT}, _ITEM, Effect.READ),
    _protocol("order", {"item_id": _TEXT, "count": _COUNT}, {"type": "string"}, Effect.WRITE),
]
BY_NAME = {protocol.name: protocol for protocol in _PROTOCOLS}
_checker = Checker(_PROTOCOLS)
_context = RepairContext(BY_NAME)


def run(data: bytes) -> None:
    """Read an input as a program over three tools."""
    source = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")  # as whoever takes one does
    program = Program(source)
    try:
        parse(source)
    except NotParsed as problem:
        if problem.line > source.count("\n") + 2:
            raise Broken(f"parse: line {problem.line} is none of the program's") from None
    lines = len(program.lines)
    for finding in _checker.check(program, "two of the cheapest new lamps"):
        if not 0 <= (finding.line or 0) <= lines + 1:
            raise Broken(f"check: a finding on line {finding.line} of {lines}: {finding!r}")
    read, forms = in_plain_python(program, BY_NAME)
    if len(read.lines) != lines or bool(forms) != (read != program):
        raise Broken(f"dialects: another number of lines, or a change that is not told: {read.source!r}")
    repaired, rewrites = repair_program(program, _context)
    if rewrites and program.tree is not None and repaired.tree is None:
        raise Broken(f"repair: what was made is no program: {repaired.source!r}")
    if not rewrites and repaired != program:
        raise Broken("repair: it changed the program and says that it did not")


TARGET = Target(
    "programs",
    run,
    most_bytes=4_096,
    most_s=2.0,
    head_lines=None,
    words=(
        "search(", "get_item(", "order(", "item_id=", "query=", "limit=", "kind='new'", "['items']", "[0]", "['id']",
        ".get('price')", "answer = ", "parallel([", "all_pages(search, ", "lambda x: ", "for x in ", "while True:\n",
        "    ", "if ", "else:\n", "try:\n", "except ToolError as e:\n", "def f(x):\n", "return ", "yield ", "async ",
        "await ", "asyncio.gather(", "asyncio.run(", "tools.search(", "call_tool('order', {'item_id': ",
        "mcp__a__get_item(", "with ", "class A:\n", "match x:\n", "case {'id': y}:\n", "f'{x!r:>{y}}'", "global x",
        "nonlocal x", "del x", "import math", "from json import ", "print(", "sorted(", "max(", "{**x}", "*x", ":=",
        " if x else ", "not ", "in ", "1_000", "0x1", "1j", "b'x'", "__class__", ".format(", "eval(", "\\N{DIGIT ONE}",
        "# ", ";", "\t", "-> int", "@",
    ),
)  # fmt: skip
